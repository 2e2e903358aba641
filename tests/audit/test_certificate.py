"""Certificates say what was audited, are repeated, and show what a repetition changes."""

import json
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from ldp.audit import cheats
from ldp.audit.certificate import AuditSubject, certified, differences, subject_of
from ldp.audit.cheats import CHEATS, cheats_caught
from ldp.audit.judging import Audit
from ldp.audit.tried_values import tried
from ldp.audit.verdict import Verdict
from ldp.mechanisms import CATALOGUE, CatalogueMechanism
from ldp.mechanisms.base import Example
from ldp.mechanisms.joint_base import claimed_ratio
from ldp.mechanisms.presets import COMPLETE, PRESETS, preset_mechanism
from ldp.protocol.channel import exact_log
from ldp.registry import Registry
from tests.command_line import NAMES, REGISTRY, run
from tests.examples import sampling_each_kind
from tests.folders import ROOT
from tests.statistics import ALPHA

AUDIT = "audit home --registry metrics.toml --trials 200"


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the certificate of a metric, which is made once."""
    folder = tmp_path_factory.mktemp("audit")
    (folder / "metrics.toml").write_text(REGISTRY)
    (folder / "cities.txt").write_text("\n".join(NAMES))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(f"{AUDIT} --report home.json", patch) == 0
    return (folder / "home.json").read_text("utf-8")


@pytest.fixture
def certificate(text: str, here: Path) -> dict[str, Any]:
    Path("home.json").write_text(text)
    result: dict[str, Any] = json.loads(text)
    return result


@pytest.mark.statistical
def test_a_certificate_says_what_was_audited_how_and_by_what(certificate: dict[str, Any]) -> None:
    """An honest encoder fails with probability 2e-6; 200 reports show both cheats for sure.

    The twins are the certificates below that say otherwise, and the honest encoder taken for a
    cheat.
    """
    assert certificate["passed"]
    assert certificate["version"] == "0.1.0"
    assert {"made", "commit", "python", "trials", "seed", "alpha"} <= set(certificate)
    (entry,) = certificate["audits"]
    mechanism = Registry.load("metrics.toml").metric("home").mechanism
    assert entry["parameters"]["epsilon"] == 3.0
    assert entry["fingerprint"] == mechanism.fingerprint.hex()
    ratio = Fraction(entry["worst_ratio"])
    (channel,) = entry["channels"]
    assert ratio == Fraction(channel["touched"]) / Fraction(channel["untouched"])
    assert entry["exact_epsilon"] == str(exact_log(ratio))
    assert float(entry["exact_epsilon"]) <= entry["claimed"] == 3.0
    assert entry["tried"]["values"] == list(tried(mechanism))
    assert entry["cheats_caught"] == {"better_of_two": True, "repeated_report": True}


@pytest.mark.slow
@pytest.mark.statistical
def test_a_certificate_is_repeated_and_says_where_it_came_from(
    certificate: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """This fails falsely with probability 2e-6, as above, since the noise of the repetition is
    fresh.

    The twins are the certificates below that say otherwise.
    """
    Path("home.json").write_text(json.dumps(certificate | {"version": "0.0.9"}))
    assert run("audit --verify home.json", monkeypatch) == 0
    shown = capsys.readouterr().out
    assert "cheats caught: 2 of 2" in shown
    assert "repeated as certified on 2" in shown
    assert "note: version was 0.0.9, is 0.1.0" in shown


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace every audit by one that at once finds nothing and catches both cheats."""

    def audited(name: str, mechanism: CatalogueMechanism, *_: Any, **__: Any) -> Verdict:
        return Verdict(name, mechanism.cost.epsilon, [], 1, [], 0.5, None)

    caught = {"better_of_two": True, "repeated_report": True}
    monkeypatch.setattr("ldp.audit.certificate.audited", audited)
    monkeypatch.setattr("ldp.audit.certificate.cheats_caught", lambda *_: caught)


@pytest.mark.exact
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("claimed", 2.5),
        ("worst_ratio", "20/1"),
        ("exact_epsilon", "2.9"),
        ("passed", False),
        ("findings", ["cell 3: 9, expected 100"]),
    ],
)
def test_a_certificate_that_says_otherwise_fails(
    key: str,
    value: Any,
    certificate: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    certificate["audits"][0][key] = value
    Path("home.json").write_text(json.dumps(certificate))
    assert run("audit --verify home.json", monkeypatch) == 1
    assert f"DIFF home: {key}: certified {value}, repeated " in capsys.readouterr().out


@pytest.mark.exact
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda made: made.pop("audits"), "not a certificate"),
        (lambda made: made.update(certificate=99), "not a certificate"),
        (lambda made: made.update(audits=[]), "not a certificate"),
        (lambda made: made["audits"].insert(0, made["audits"][0] | {"claimed": 0.01}), "not a cer"),
        (lambda made: made["audits"][0].update(name="client"), "not a certificate"),
        (lambda made: made["audits"].append("home"), "not a certificate"),
        (lambda made: made.update(trials=0), "not a certificate"),
        (lambda made: made.update(seed=-1), "not a certificate"),
        (lambda made: made["audits"][0]["tried"].update(dictionary=[1, {}]), "a list of texts"),
        (lambda made: made["audits"][0].pop("tried"), "audit 1: tried is missing"),
        (lambda made: made["audits"][0].update(fingerprint="00"), "the certificate says '00'"),
        (lambda made: made["audits"][0].update(at_least=9.0), "home: at_least is 9.0, must be at"),
        (lambda made: made["audits"][0]["parameters"].update(epsilon=2), "have the fingerprint"),
    ],
)
def test_a_damaged_certificate_is_refused_in_one_line(
    spoil: Callable[[Any], Any],
    message: str,
    certificate: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spoil(certificate)
    Path("home.json").write_text(json.dumps(certificate))
    assert run("audit --verify home.json", monkeypatch) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.exact
@pytest.mark.usefixtures("quick")
def test_the_head_of_a_certificate_is_compared_and_no_key_counts_twice(
    certificate: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("home.json").write_text(json.dumps(certificate | {"passed": False, "alpha": 1e-300}))
    assert run("audit --verify home.json", monkeypatch) == 1
    shown = capsys.readouterr().out
    assert "DIFF (certificate): alpha: certified 1e-300" in shown
    assert "DIFF (certificate): passed: certified False" in shown
    twice = json.dumps(certificate).replace('"claimed":', '"claimed": 0.01, "claimed":', 1)
    Path("home.json").write_text(twice)
    assert run("audit --verify home.json", monkeypatch) == 2
    assert "not a certificate" in capsys.readouterr().err


@pytest.mark.exact
@pytest.mark.usefixtures("quick")
def test_the_words_of_a_dictionary_that_were_drawn_are_in_the_certificate(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "audit city --registry metrics.toml --trials 100 --report city.json"
    assert run(words, monkeypatch) == 0
    (entry,) = json.loads(Path("city.json").read_text("utf-8"))["audits"]
    assert "Oslo" in entry["tried"]["dictionary"]
    assert list(subject_of(entry).dictionary) == entry["tried"]["dictionary"]


@pytest.mark.exact
def test_all_certifies_every_preset_and_example_and_the_client(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fake(subject: Any, trials: int, seed: int, *, with_cheats: bool) -> Any:
        entry = {"name": subject.name, "passed": True, "trials": trials, "cheats": with_cheats}
        return Verdict(subject.name, 1.0, [], 1, [], 0.5, None), entry

    monkeypatch.setattr("ldp.cli.audit.certified", fake)
    monkeypatch.setattr("ldp.cli.audit.audit_client", lambda *_, **__: Audit(1, ()))
    assert run("audit --all --report all.json", monkeypatch) == 0
    result = json.loads(Path("all.json").read_text("utf-8"))
    names = [entry["name"] for entry in result["audits"]]
    examples = sum(len(kind.examples()) for kind in CATALOGUE.values())
    assert len(set(names)) == len(names) == len(COMPLETE) + examples
    assert set(COMPLETE) < set(names)
    assert result["client"] == {"passed": True, "checks": 1, "findings": []}
    assert all(entry["cheats"] for entry in result["audits"])


COMMITTED = json.loads((ROOT / "simulations/results/certificate.json").read_text("utf-8"))


@pytest.mark.exact
@pytest.mark.parametrize("entry", COMMITTED["audits"], ids=lambda entry: entry["name"])
def test_the_committed_certificate_is_of_the_mechanisms_as_they_are(entry: dict[str, Any]) -> None:
    mechanism = subject_of(entry).mechanism
    assert entry["passed"]
    assert all(entry["cheats_caught"].values())
    assert entry["worst_ratio"] == str(claimed_ratio(mechanism))
    assert entry["claimed"] == mechanism.cost.epsilon
    assert Decimal(entry["exact_epsilon"]) <= Decimal(entry["claimed"])


@pytest.mark.slow
@pytest.mark.exact
def test_the_committed_certificate_is_whole() -> None:
    """If it is not, run: ldp audit --all --report simulations/results/certificate.json."""
    assert COMMITTED["passed"]
    assert COMMITTED["client"]["passed"]
    assert "dirty" not in COMMITTED["commit"]
    certified = {entry["parameters"]["mechanism"] for entry in COMMITTED["audits"]}
    assert certified == {*CATALOGUE}


@pytest.mark.exact
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", CATALOGUE)
def test_every_mechanism_can_be_certified_and_made_again(
    name: str,
) -> None:
    for example in CATALOGUE[name].examples():
        _, entry = certified(AuditSubject(name, example.mechanism), 100, 0, with_cheats=False)
        read = json.loads(json.dumps(entry, allow_nan=False))
        assert read == entry
        again = subject_of(read)
        assert again.mechanism == example.mechanism
        _, repetition = certified(again, 100, 0, with_cheats=False)
        assert differences(read, repetition) == []
        assert differences(read | {"claimed": 99.0}, repetition) != []


@pytest.mark.exact
@pytest.mark.usefixtures("quick")
def test_an_audit_that_is_not_written_down_tries_no_cheat(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ldp.audit.certificate.cheats_caught", lambda *_: 1 / 0)
    assert run(AUDIT, monkeypatch) == 0


@pytest.mark.slow
@pytest.mark.statistical
@sampling_each_kind
def test_every_cheat_is_caught_in_every_example(example: Example) -> None:
    """An honest encoder would be refuted with probability ALPHA.

    Each cheat moves some count by much more than 2,000 reports need to show it. The twin is the
    honest encoder below.
    """
    mechanism = example.mechanism
    caught = cheats_caught(mechanism, tried(mechanism), 2000, ALPHA)
    assert all(caught.values()), caught
    assert len(caught) == len(CHEATS) - (mechanism.layout.rows == 1)


@pytest.mark.statistical
def test_an_honest_encoder_is_not_caught_as_a_cheat(monkeypatch: pytest.MonkeyPatch) -> None:
    """This twin fails falsely with probability ALPHA."""
    (example, _) = CATALOGUE["rr"].examples()

    def honest(mechanism: CatalogueMechanism, encode: Any) -> Any:
        return encode

    monkeypatch.setattr(cheats, "CHEATS", (honest, honest))
    assert cheats_caught(example.mechanism, ("a", "b"), 2000, ALPHA) == {"honest": False}


@pytest.mark.exact
@pytest.mark.parametrize("command", ["audit", "amplify -n 1000 --delta 1e-6"])
def test_a_preset_that_was_published_in_part_is_refused_with_the_reason(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in PRESETS.keys() - COMPLETE:
        option = "--preset" if command == "audit" else "--mechanism"
        assert run(f"{command} {option} {name}", monkeypatch) == 2
        error = capsys.readouterr().err
        assert f"{name}: {', '.join(PRESETS[name].unknown)} were never published" in error
        assert error.count("\n") == 1
    for name in COMPLETE:
        assert preset_mechanism(name).cost.epsilon > 0
