"""`ldp simulate --scenario` writes and says the right things, and each mistake is one line."""

import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp.cli.scenario import _words
from ldp.errors import ParameterError
from ldp.registry import Registry
from ldp.registry.odds import posterior
from ldp.server import Table
from ldp.simulation import Population
from ldp.simulation.people import Scenario
from ldp.simulation.scenarios import read_scenario
from tests.command_line import run

REGISTRY = """\
[product]
name = "weather"

[group.places]
window = "1d"
window_epsilon = 8.0
lifetime_epsilon = 20.0

[group.taste]
window = "1d"
window_epsilon = 4.0
lifetime_epsilon = 8.0

[metric.city]
version = 1
group = "places"
description = "Where people ask for the weather"
owners = ["team@example.org"]
expires = 2027-12-31
mechanism = "rr"
epsilon = 4.0
categories = ["Oslo", "Bergen", "Hell"]

[metric.home]
version = 1
group = "places"
description = "Where people live"
owners = ["team@example.org"]
expires = 2027-12-31
preset = "chrome-uma"
memoise = "per-value"

[metric.colour]
version = 1
group = "taste"
description = "Their favourite"
owners = ["team@example.org"]
expires = 2027-12-31
mechanism = "memoised-rr"
epsilon = 1.0
lifetime_epsilon = 2.0
categories = ["red", "green"]
memoise = "epoch"
epoch = "4d"

[metric.height]
version = 1
group = "taste"
description = "In metres"
owners = ["team@example.org"]
expires = 2027-12-31
mechanism = "one-bit-mean"
epsilon = 1.0
bounds = [0.0, 3.0]

[group.quiet]
window = "1d"
window_epsilon = 4.0
lifetime_epsilon = 8.0

[metric.hidden]
version = 1
group = "quiet"
description = "Said every day, whatever there is"
owners = ["team@example.org"]
expires = 2027-12-31
mechanism = "rappor"
scheme = "identity"
bits = 2
categories = ["yes", "none"]
f = 0.5
p = 0.25
q = 0.75
memoise = "epoch"
epoch = "7d"
presence = "hidden"

[group.calm]
window = "2d"
window_epsilon = 4.0
lifetime_epsilon = 8.0

[metric.mood]
version = 1
group = "calm"
description = "Said every second day, whatever there is"
owners = ["team@example.org"]
expires = 2027-12-31
mechanism = "rr"
epsilon = 1.0
categories = ["good", "bad", "none"]
presence = "hidden"
reports_per_window = 3
"""
MOODS = """\
users = 50
days = 20
start = 2026-01-01
attacked = 100

[metric.mood]
population = "moods.csv"
active = 0.25
"""
SCENARIO = """\
users = 200
days = 8
start = 2026-01-01
churn = 0.02
devices = [0.5, 0.5]
attacked = 100

[metric.city]
population = "cities.csv"
change = 0.1

[metric.home]
population = "cities.csv"
change = 0.05

[metric.colour]
population = "colours.csv"
change = 0.2
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("metrics.toml").write_text(REGISTRY)
    Path("days.toml").write_text(SCENARIO)
    Path("cities.csv").write_text("value,count\nOslo,6\nBergen,3\nHell,1\n")
    Path("colours.csv").write_text("value,frequency\nred,0.6\ngreen,0.4\n")
    Path("heights.csv").write_text("value,count\n1.7,6\n1.8,3\n")
    return tmp_path


COMMAND = "simulate --scenario days.toml --registry metrics.toml --seed 1"


@pytest.mark.exact
def test_a_scenario_fills_the_store_and_the_other_commands_go_on_from_there(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("days.toml").write_text(SCENARIO.replace("attacked = 100", "attacked = 0"))
    assert run(f"{COMMAND} --json", monkeypatch) == 0
    again = json.loads(capsys.readouterr().out)
    assert run(f"{COMMAND} --reports store --truth truth --json", monkeypatch) == 0
    said = json.loads(capsys.readouterr().out)
    assert again == said | {"written": {}}, "the same seed"
    assert said["attacker"] is None
    registry = "--registry metrics.toml"
    for words in (
        f"aggregate city {registry} store --out day.table --since 2026-01-02 --until 2026-01-02",
        "decode day.table --out day.csv",
        "report day.csv --truth truth/city/2026-01-02.csv --out day.html",
        f"aggregate home {registry} store --out home.table",
    ):
        assert run(words, monkeypatch) == 0, capsys.readouterr().err
    told = [line.split(",") for line in Path("truth/city/2026-01-02.csv").read_text().splitlines()]
    assert told[0] == ["value", "count"]
    total = sum(int(count) for _, count in told[1:])
    assert total == said["metrics"]["city"]["reports_by_day"][1]
    assert json.loads(Path("day.json").read_text())["reports"] == total
    days = sorted(path.name for path in Path("store/metric=city/version=1").iterdir())
    assert days[:2] == ["day=2026-01-01", "day=2026-01-02"]
    assert said["written"] == {"reports": "store", "truth": "truth"}


@pytest.mark.slow
@pytest.mark.exact
def test_the_verdict_says_what_was_spent_and_what_somebody_learns(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"{COMMAND} --json", monkeypatch) == 0
    said = json.loads(capsys.readouterr().out)
    words = "\n".join(_words(read_scenario("days.toml", Registry.load("metrics.toml")), said))
    spent = said["spent"]
    assert set(spent) == {"places", "taste", "all groups"}
    assert 16 < spent["places"]["device"]["worst"] <= 20
    assert spent["places"]["device"]["worst"] < spent["places"]["person"]["worst"] <= 40
    assert spent["taste"]["device"] == {"median": 6.0, "worst": 6.0}, "8 days touch 3 epochs"
    assert said["metrics"]["colour"]["of_old_values"] > 0
    assert said["metrics"]["city"]["of_old_values"] == 0
    city = said["attacker"]["metrics"]["city"]
    assert city["without_reports"] == 0.6
    assert [row["how"] for row in city["guessed"]] == ["as registered", "fresh noise, no caps"]
    assert [one["days"] for one in city["guessed"][0]["days"]] == [1, 7, 8]
    for metric in said["attacker"]["metrics"].values():
        for row in metric["guessed"]:
            for one in row["days"]:
                assert one["right"] - 5 * max(one["std_error"], 0.01) < one["at_most"] <= 1
    (fresh,) = (row for row in city["guessed"] if row["how"].startswith("fresh"))
    assert fresh["days"][-1]["right"] > 0.95
    for name in ("places", "taste", "per value", "one person's", "without any report", "colour"):
        assert name in words
    assert max(map(len, words.splitlines())) <= 100


@pytest.mark.exact
def test_numbers_are_collected_and_not_guessed_and_take_their_share_of_a_budget(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eight heights at epsilon 1 spend a life, and leave colours no room for all epochs.

    A colour that nobody has may take the last turns.
    """
    numbers = "users = 200\ndays = 12\nstart = 2026-01-01\nattacked = 100\n"
    numbers += "[metric.height]\npopulation = 'heights.csv'\n"
    told = []
    for text in (numbers, numbers + "[metric.colour]\npopulation = 'colours.csv'\n"):
        Path("days.toml").write_text(text)
        assert run(f"{COMMAND} --json", monkeypatch) == 0
        told.append(json.loads(capsys.readouterr().out))
    alone, both = told
    assert alone["attacker"] is None
    assert 0.95 * 8 * 200 < alone["metrics"]["height"]["reports"] <= 8 * 200
    assert both["spent"]["taste"]["device"]["worst"] == 8.0
    assert list(both["attacker"]["metrics"]) == ["colour"]
    (row,) = (
        row for row in both["attacker"]["metrics"]["colour"]["guessed"] if "regist" in row["how"]
    )
    assert row["days"][-1]["at_most"] < posterior(0.6, 6.0), "three epochs would cost 6"


WRONG: list[tuple[str, str, str]] = [
    ("users = 200", "", "days.toml: needs users, a whole number"),
    ("users = 200", "users = -1", "days.toml: users must be a whole number from 1"),
    ("users = 200", "users = true", "days.toml: users must be a whole number"),
    ("users = 200", "users = 10000000", "users times days may be 20,000,000 at most"),
    ("days = 8", 'days = "8"', "days must be a whole number"),
    ("start = 2026-01-01", 'start = "2026-01-01"', "such as 2026-01-01, without quotes"),
    ("start = 2026-01-01", "start = 9999-12-31", "start must be a date from 1970 to 2999 such"),
    ("churn = 0.02", "churn = 2", "churn must be a number from 0 to 1"),
    ("churn = 0.02", "churn = nan", "churn must be a number from 0 to 1"),
    ("churn = 0.02", "chrun = 0.02", "unknown key 'chrun'; did you mean 'churn'?"),
    ("devices = [0.5, 0.5]", "devices = [0.5, 0.6]", "which add to 1"),
    ("devices = [0.5, 0.5]", "devices = []", "devices must be a whole number from 1 to 16"),
    ("devices = [0.5, 0.5]", "devices = 99", "devices must be a whole number from 1 to 16"),
    ("attacked = 100", "attacked = 5", "attacked must be 0, or a whole number from 100"),
    ("[metric.city]", "[metric.citty]", "no metric 'citty'; did you mean 'city'?"),
    ("change = 0.1\n", "change = '0.1'\n", "[metric.city]: change must be a number from 0 to 1"),
    ('population = "colours.csv"', "", "[metric.colour]: needs population"),
    ('population = "colours.csv"', 'population = "no.csv"', "no.csv: No such file"),
    ('population = "colours.csv"', 'population = "cities.csv"', "line 2: 'Oslo': value is not one"),
    ('population = "colours.csv"', 'population = "-"', "population must be the name of a CSV file"),
    ("[metric.colour]", "[metric.hidden]", "hidden presence with an epoch is not simulated"),
    ("change = 0.1\n", "active = 2\n", "[metric.city]: active must be a number from 0 to 1"),
    ("users = 200", "users = ", "not valid TOML"),
    ("[metric.city]", "[metric]\ncity = 3\n[metric.x]", "must be a section"),
]


@pytest.mark.exact
def test_with_hidden_presence_every_period_has_as_many_reports(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """50 devices send three reports every second day.

    They also do so after the sixth day, when 8 of epsilon are spent and all reports are about
    nothing. Before, a device has 2 x 0.25 records a window on average; the seed is fixed.
    """
    Path("days.toml").write_text(MOODS)
    Path("moods.csv").write_text("value,count\ngood,6\nbad,4\n")
    assert run(f"{COMMAND} --reports store --truth truth --json", monkeypatch) == 0
    truth = [Population.from_csv(path) for path in sorted(Path("truth/mood").glob("*.csv"))]
    counts = [day.truth() for day in truth]
    assert [sum(day.values()) for day in counts] == [150] * 10
    recorded = [day.get("good", 0) + day.get("bad", 0) for day in counts]
    assert 0 < min(recorded[:2]) <= max(recorded[:2]) < 60
    assert recorded[3:] == [0] * 7
    assert run("aggregate mood --registry metrics.toml store --out mood.table", monkeypatch) == 0
    assert Table.load("mood.table").total == 1500


@pytest.mark.exact
def test_a_hidden_metric_without_a_section_is_named(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Devices report on it and are charged, also where nobody records it."""
    Path("days.toml").write_text(MOODS)
    Path("moods.csv").write_text("value,count\ngood,6\nbad,4\n")
    _, mood = REGISTRY.split("[metric.mood]")
    sleep = f"[metric.sleep]{mood}"
    Path("metrics.toml").write_text(REGISTRY + sleep)
    assert run(COMMAND, monkeypatch) == 2
    said = "ldp: days.toml: needs [metric.sleep]: its hidden presence is charged in group 'calm'"
    assert capsys.readouterr().err.startswith(said)
    Path("metrics.toml").write_text(REGISTRY + sleep.replace("2027-12-31", "2025-12-31"))
    assert run(COMMAND, monkeypatch) == 0
    both = REGISTRY.replace('group = "quiet"', 'group = "calm"').replace(
        'epoch = "7d"', 'epoch = "8d"'
    )
    Path("metrics.toml").write_text(both)
    assert run(COMMAND, monkeypatch) == 2
    assert "hidden's hidden presence with an epoch is not simulated" in capsys.readouterr().err


@pytest.mark.exact
@pytest.mark.parametrize(("right", "wrong", "said"), WRONG)
def test_a_wrong_scenario_is_one_line_and_status_2(
    right: str,
    wrong: str,
    said: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert right in SCENARIO
    Path("days.toml").write_text(SCENARIO.replace(right, wrong, 1))
    assert run(f"{COMMAND} --reports store", monkeypatch) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.err.startswith("ldp: days.toml: ")
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert not Path("store").exists()


@pytest.mark.exact
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("simulate --registry metrics.toml", "give one of METRIC, --scenario"),
        ("simulate city --registry metrics.toml --table t", "METRIC goes with --population"),
        (f"{COMMAND} --users 5", "--scenario does not go with --users"),
        (f"{COMMAND} --table t", "--scenario does not go with --table"),
        ("simulate --scenario no.toml --registry metrics.toml", "cannot read no.toml"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    words: str,
    said: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(words, monkeypatch) == 2
    assert said in capsys.readouterr().err


KEYS = ["users", "days", "start", "churn", "devices", "attacked", "metric", "x"]
JUNK = st.recursive(
    st.booleans() | st.integers(-2, 5000) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=6,
)


@pytest.mark.exact
@settings(max_examples=60, deadline=None)
@given(changes=st.dictionaries(st.sampled_from(KEYS), JUNK, max_size=3))
def test_whatever_a_scenario_holds_it_is_read_or_refused(
    changes: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / "scenario"
    folder.mkdir(exist_ok=True)
    keys: dict[str, Any] = {"users": 5, "days": 2, "metric": {"city": {"population": "cities.csv"}}}
    lines = [f"{json.dumps(name)} = {toml(value)}" for name, value in (keys | changes).items()]
    start = [] if "start" in changes else ["start = 2026-01-01"]
    (folder / "days.toml").write_text("\n".join(start + lines), encoding="utf-8")
    with suppress(ParameterError):
        assert isinstance(read_scenario(folder / "days.toml", known(folder)), Scenario)


@cache
def known(folder: Path) -> Registry:
    (folder / "metrics.toml").write_text(REGISTRY)
    (folder / "cities.csv").write_text("value,count\nOslo,6\nBergen,3\nHell,1\n")
    return Registry.load(folder / "metrics.toml")


def toml(value: Any) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(name)} = {toml(own)}" for name, own in value.items())
        return "{" + inner + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, float):
        return str(value)
    return json.dumps(value)
