"""`ldp amplify`: what a shuffled batch costs, of a metric, a preset or a mechanism."""

import json
from pathlib import Path

import pytest

from ldp.accounting import Cost
from ldp.cli.shuffling_words import shuffling_conditions
from ldp.collection.buffer import RelayedReports
from ldp.collection.ingest import write_sizes
from ldp.mechanisms.catalogue import CATALOGUE, CLASSES, PUBLIC
from ldp.privacy_loss import DummyMessages, compose_shuffled, least_reports
from ldp.protocol.channel import rounded_up
from ldp.registry import Registry
from tests.command_line import run
from tests.tiers import tiered

SIZES = (2_000, 4_000, 9_000)
"""Numbers of people in the three smaller batches."""


@pytest.mark.slow
@pytest.mark.exact
def test_amplify_prints_both_costs_and_the_conditions(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = "amplify city --registry metrics.toml --users 100000 --delta 1e-6"
    assert run(asked, monkeypatch) == 0
    shown = capsys.readouterr().out
    for words in (
        "seen by itself            epsilon 4, delta 0",
        "in a batch of 100,000     epsilon 0.1042, delta 1e-06",
        "an independent party shuffles",
        "at least 100,000 reports of the batch are honest",
        "a person sends one report to a batch",
        "does not depend on what they would say",
    ):
        assert words in shown


@pytest.mark.exact
@pytest.mark.parametrize(
    ("keys", "window", "life", "per_person"),
    tiered(
        [
            ("reports_per_window = 1", "1d", 400, 1),
            ("reports_per_window = 5", "1d", 400, 4),
            ("reports_per_window = 3", "1h", 128, 64),
            ('presence = "hidden"\nreports_per_window = 2', "12h", 400, 62),
            ("reports_per_window = 1", "7d", 400, 1),
            ("reports_per_window = 3", "1h", 400, 72),
            ('presence = "hidden"', "1d", 400, 30),
            ('presence = "hidden"\nreports_per_window = 5', "1d", 128, 64),
        ],
        4,
    ),
)
def test_amplify_counts_the_reports_that_a_device_may_seal_in_a_day(
    keys: str,
    window: str,
    life: int,
    per_person: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of five reports of epsilon 2 a cap of 8 pays for four, and one of 128 for 64 in a life.

    A hidden group's device that was off seals 30 windows on a day, and those that end on it.
    """
    path = tmp_path / "metrics.toml"
    path.write_text(
        f'[product]\nname = "p"\n[group.g]\nwindow = "{window}"\nwindow_epsilon = 8\n'
        f'lifetime_epsilon = {life}\n[metric.m]\nversion = 1\ngroup = "g"\ndescription = "Q"\n'
        'owners = ["a"]\nexpires = 2099-12-31\nmechanism = "rr"\nepsilon = 2\n'
        f'categories = ["no", "yes", "none"]\n{keys}\n'
    )
    assert run(f"amplify m --registry {path} -n 300 --delta 1e-6 --json", monkeypatch) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["per_person"], result["local"]["epsilon"]) == (per_person, 2 * per_person)
    assert result["shuffled"]["delta"] < 1


@pytest.mark.exact
@pytest.mark.parametrize(
    ("words", "local", "shuffled", "conditions"),
    tiered(
        [
            ("--mechanism rr,epsilon=4,categories=2 -n 100000", 4.0, 0.118, 4),
            ("--mechanism unary,epsilon=4 -n 100000", 4.0, 0.104, 4),
            ("--mechanism hcms,epsilon=4 --reports 100000", 4.0, 0.0815, 4),
            ("--mechanism chrome-uma --users 20", 2.043, 2.043, 5),
            ("--epsilon 4 --users 100000", 4.0, 0.1698, 4),
            ("--mechanism pgr,epsilon=4,categories=2600 -n 100000", 4.0, 0.0824, 4),
            ("--mechanism cms,epsilon=1 --target 0.05", 1.0, 0.05, 4),
            (
                "--mechanism dummies,values=2600,slots=2,probability=0.5545 -n 100000",
                *(None, 1.0, 5),
            ),
        ],
        fast=3,
    ),
)
def test_amplify_takes_a_preset_or_a_mechanism(
    words: str,
    local: float | None,
    shuffled: float,
    conditions: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With 20 people at most, shuffling changes hardly anything at so small a delta."""
    assert run(f"amplify {words} --delta 1e-6 --json", monkeypatch) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["local"]["epsilon"] == (local and pytest.approx(local, rel=1e-3))
    assert result["shuffled"]["epsilon"] == pytest.approx(shuffled, rel=0.01)
    assert len(result["conditions"]) == conditions


@pytest.mark.exact
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--delta 1e-6", "give one of METRIC, --mechanism, --epsilon"),
        ("city --delta 1e-6", "METRIC goes with --registry"),
        ("--epsilon 1 --mechanism cms --delta 1e-6", "give one of METRIC, --mech"),
        ("--mechanism cms --delta 1e-6", 'needs more: "cms, epsilon = ..."'),
        ("--mechanism rr,epsilon=1 --delta 1e-6", 'needs more: "rr, categories = ..."'),
        ("--mechanism rr,epsilon=1,categories=1 --delta 1e-6", "a number from 2 to 1,000,000"),
        ("--mechanism rappor,p=0.5 --delta 1e-6", 'needs more: "rappor, f = ..., q = ..."'),
        ("--mechanism coin,alpha --delta 1e-6", "parameters are like"),
        ("--mechanism cons,alpha=1 --delta 1e-6", "no mechanism 'cons'; did you mean 'coin'?"),
        ("--mechanism dummies,values=5 --delta 1e-6", '"dummies, slots = ..., probability = ..."'),
        ("--mechanism coin,alpha=1,beta=1,x=2 --delta 1e-6", "--mechanism coin has no x"),
        ("--mechanism cms,epsilon=1 --delta 1", "delta must lie strictly between 0 and 1"),
        ("--epsilon 1 --delta 1e-6 --target 0.1", "give one of --users, --sizes or"),
        ("--epsilon 1 --delta 1e-6 --fakes 100%", "must be a share such as 1% or 0.01, below 1"),
        ("--epsilon 1 --delta 1e-6 --fakes 1%2", "must be a share such as 1% or 0.01, below 1"),
        ("--mechanism chrome-uma --delta 1e-6 --batches 2", "share what is memoised"),
    ],
)
def test_amplify_says_what_is_missing(
    words: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"amplify {words} --users 1000", monkeypatch) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("\n") == 1


@pytest.mark.exact
def test_the_smallest_of_some_batches_is_stated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = tmp_path / "sizes.csv"
    sizes.write_text("attested,opened\n9,7\n8,30\n")
    asked = f"amplify --epsilon 0.01 --sizes {sizes} --delta 0.1 --json"
    assert run(asked, monkeypatch) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["reports"], result["per_person"]) == (7, 1)
    assert "at least 7 reports of the batch are honest" in result["conditions"][2]
    of_dummies = DummyMessages(values=5, slots=2, probability=0.5)
    *_, often, last = shuffling_conditions(of_dummies, 9, 3)
    assert "a person sends at most 3 reports" in often
    assert "the 3 messages of a person are shuffled one by one" in last


@pytest.mark.slow
@pytest.mark.exact
def test_amplify_composes_batches(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = "amplify city --registry metrics.toml --delta 1e-6"
    assert run(f"{asked} -n 100000 --batches 365", monkeypatch) == 0
    shown = capsys.readouterr().out
    assert "in 365 batches            epsilon 2.497, delta 1e-06, composed" in shown
    assert "epsilon 38.19, delta 0.0003651, added" in shown
    Path("sizes.csv").write_text("attested,opened\n100000,90000\n80000,100000\n")
    assert run(f"{asked} --sizes sizes.csv --fakes 1% --json", monkeypatch) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["reports"] == 79_000
    assert result["batches"]["number"] == 2
    composed = result["batches"]["composed"]["epsilon"]
    assert result["shuffled"]["epsilon"] < composed < 0.8 * result["batches"]["added"]["epsilon"]
    assert "the relay is honest" in result["conditions"][-2]
    for text, said in (
        ("attested\n1\n", "columns attested,opened"),
        ("attested,opened\n", "no batch has a size"),
        ("attested,opened\n0,5\n", "no batch has a size"),
    ):
        Path("sizes.csv").write_text(text)
        assert run(f"{asked} --sizes sizes.csv", monkeypatch) == 2
        assert said in capsys.readouterr().err
    Path("sizes.csv").write_text("attested,opened\n100,100\n")
    for words, said in (
        ("--sizes sizes.csv --batches 2", "sizes.csv has 1 of 2 batches: omit --batches"),
        ("--target 1 --fakes 1%", "--fakes goes neither with --target"),
    ):
        assert run(f"{asked} {words}", monkeypatch) == 2
        assert said in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.exact
def test_amplify_reads_the_batches_that_a_collector_noted(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    relayed = [
        RelayedReports("city", 1, b"\1", attested=5_000, opened=4_000),
        RelayedReports("city", 1, b"\2", attested=2_000, opened=3_000),
        RelayedReports("city", 1, b"\3", attested=9_000, opened=9_000),
        RelayedReports("city", 1, b"", attested=0, opened=70),
        RelayedReports("home", 1, b"\3", attested=9_000, opened=10),
    ]
    write_sizes(Path("store"), relayed)
    asked = "amplify city --registry metrics.toml --sizes store --delta 1e-6"
    assert run(f"{asked} --fakes 1%", monkeypatch) == 0
    shown = capsys.readouterr().out
    assert "in a batch of 1,970 " in shown
    assert "in 3 batches " in shown
    assert "not in these numbers: 70 reports without a relay's statement" in shown
    assert "the relay is honest" in shown
    for words, number in (("", 3), ("--batches 2", 2)):
        assert run(f"{asked} --json {words}", monkeypatch) == 0
        result = json.loads(capsys.readouterr().out)
        batches = [(Registry.load("metrics.toml").metric("city").mechanism, n, 1) for n in SIZES]
        cost = compose_shuffled(batches[:number]).at(1e-6)
        assert result["batches"]["number"] == number
        assert result["batches"]["composed"]["epsilon"] == cost.epsilon
    assert run(asked.replace("city", "home"), monkeypatch) == 0
    assert "in a batch of 10 " in capsys.readouterr().out
    for words, said in (
        (asked.replace("--sizes store", "--sizes ."), "ldp collect --relay-key writes it"),
        ("amplify --epsilon 1 --sizes store --delta 1e-6", "--sizes STORE goes with METRIC and"),
    ):
        assert run(words, monkeypatch) == 2
        assert said in capsys.readouterr().err


@pytest.mark.exact
def test_amplify_takes_the_target_that_a_metric_states(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path("metrics.toml").read_text()
    Path("metrics.toml").write_text(
        text.replace("[metric.city]", "[metric.city]\nshuffled_epsilon = 0.5")
    )
    assert run("amplify city --registry metrics.toml --delta 1e-6 --json", monkeypatch) == 0
    result = json.loads(capsys.readouterr().out)
    mechanism = Registry.load("metrics.toml").metric("city").mechanism
    assert result["reports"] == least_reports(mechanism, epsilon=0.5, delta=1e-6)
    assert 0.49 < result["shuffled"]["epsilon"] <= 0.5
    assert run("amplify city --registry metrics.toml --delta 1e-6 --fakes 1%", monkeypatch) == 2
    assert "nor with shuffled_epsilon" in capsys.readouterr().err


@pytest.mark.exact
@pytest.mark.parametrize("name", sorted({CLASSES[name] for name in PUBLIC} - {"joint"}))
def test_amplify_knows_every_mechanism_by_name(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """test_shuffling.py shows that a batch of each mechanism is certified."""
    mechanism = CATALOGUE[name].examples()[0].mechanism
    parameters = mechanism.parameters()
    others = {key: text for key, text in parameters.items() if key not in ("mechanism", "seed")}
    words = ",".join(f"{key}={json.dumps(value)}" for key, value in others.items())
    monkeypatch.setattr("ldp.cli.amplify.amplify_by_shuffling", lambda *_, **__: Cost(epsilon=0.5))
    asked = f"amplify --mechanism {name},{words} -n 1000 --delta 1e-6 --json"
    assert run(asked.replace(", ", ","), monkeypatch) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["mechanism"] == name
    assert result["local"]["epsilon"] == mechanism.cost.epsilon
    of_noise = [line for line in result["conditions"] if "noise is fresh" in line]
    lifetime = f"together they cost {rounded_up(mechanism.cost.lifetime)}"
    assert [line.split("; ")[1] for line in of_noise] == [lifetime] * mechanism.is_memoisable
