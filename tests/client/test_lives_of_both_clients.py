"""In lives that a seed draws, the Python and the TypeScript client both keep the protocol."""

from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from ldp.accounting.policy import Allowance
from ldp.client import charges, memoisation_modes, periods, pool, sealing
from ldp.client.memoisation_modes import Fresh, Grant
from ldp.registry import Registry
from ldp.registry.resolved import resolved_bytes
from simulations.lives.__main__ import difference, leaping
from simulations.lives.clocks import clock_fault, make_clock_lives
from simulations.lives.making import DAY, HOUR, Life, make_life
from simulations.lives.playing import play, play_in_node
from tests.lives import METRIC
from tests.tiers import tiered
from tests.web_client import require_web_client

pytestmark = pytest.mark.exact
LIVES, AT_ONCE = 100, 25
CLOCKS_AT_ONCE = 10


def lives_from(first: int, number: int, folder: Path) -> list[Life]:
    return [make_life(seed, folder) for seed in range(first, first + number)]


@pytest.mark.parametrize(("first", "least"), tiered([(0, 70), (25, 35), (50, 55), (75, 25)], 2))
def test_the_python_client_lives_as_the_protocol_says(
    first: int, least: int, tmp_path: Path
) -> None:
    """Lives have every kind of call, answer and end, or nothing would be compared.

    These are consents, updates, spent caps, batches of each state, and `least` charges while
    nothing is recorded.
    """
    seen, states, hidden = set[Any](), dict[str, int](), 0
    for life in lives_from(first, AT_ONCE, tmp_path):
        steps = play(life, tmp_path / str(life["seed"]))
        assert difference(life, steps) == ""
        for call, step in zip(life["calls"], steps, strict=True):
            seen |= {call["call"], str(step["answer"]), step["why"].partition(":")[0]}
            hidden += len(step["charges"]) if call["call"] == "upload" else 0
            for state in ("held", "waiting", "acknowledged", "refused"):
                states[state] = states.get(state, 0) + step["status"][state]
    calls = {"grant", "withdraw", "record", "upload", "restart", "update"}
    answers = {"recorded", "consent", "unknown metric", "value", "expired", "cap"}
    assert calls | answers | {"waits after a failure"} <= seen
    assert min(states.values()) > 0
    assert hidden >= least


@pytest.mark.parametrize("first", tiered(range(0, LIVES, AT_ONCE), 2))
def test_the_typescript_client_lives_as_the_protocol_says(first: int, tmp_path: Path) -> None:
    require_web_client()
    lives = lives_from(first, AT_ONCE, tmp_path)
    for life, transcript in zip(lives, play_in_node(lives), strict=True):
        assert difference(life, transcript) == ""


@pytest.mark.parametrize(
    ("agreed", "later", "hours"), [("5h", "6h", (5, 7)), ("7h", "5h", (28, 34))]
)
def test_a_window_of_the_length_agreed_to_keeps_to_its_cap(
    agreed: str, later: str, hours: tuple[int, int], tmp_path: Path
) -> None:
    """Both hours lie in one window of that length, and in two of the other that do not overlap."""
    require_web_client()
    registries, midnight = [], int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    how, shape = 'mechanism = "rr"\nepsilon = 4.0', {"categories": '"some"', "reports": 1}
    for window in (agreed, later):
        text = f'[product]\nname = "p"\n[group.g]\nwindow = "{window}"\nwindow_epsilon = 4.0\n'
        text += "lifetime_epsilon = 64.0\n" + METRIC.format(name="f", group="g", how=how, **shape)
        path = tmp_path / "metrics.toml"
        path.write_text(text)
        resolved = resolved_bytes(Registry.load(path)).decode()
        registries.append({"toml": text, "json": resolved})
    record = {"call": "record", "metric": "f", "value": "some", "is_value": True}
    calls: list[Life] = [
        {"call": "grant", "at": midnight},
        {"call": "update", "at": midnight, "registry": 1},
        *({**record, "at": midnight + hour * HOUR} for hour in hours),
        {"call": "upload", "at": midnight + 9 * DAY, "collector": "takes"},
    ]
    life = {"seed": 0, "registries": registries, "calls": calls}
    for steps in (play(life, tmp_path / "life"), *play_in_node([life])):
        assert [step["answer"] for step in steps][2:4] == ["recorded"] * 2
        assert sum(len(step["charges"]) for step in steps) == 1
        assert difference(life, steps) == ""


def _charge_nothing_for_the_last_report(patch: pytest.MonkeyPatch) -> None:
    honest = charges.charge
    patch.setattr(
        sealing, "charge", lambda c, g, m, at, times, s: honest(c, g, m, at, times // 2, s)
    )


def _share_what_is_set_aside(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("ldp.registry.Registry.set_aside", lambda self, group, day=None: Fraction(0))


def _pass_on_what_is_not_used(patch: pytest.MonkeyPatch) -> None:
    def afforded(metric: Any, remaining: Allowance) -> Grant:
        grant = Fresh.afforded(metric, remaining)
        return grant._replace(epsilon=Fraction(0), window_epsilon=Fraction(0))

    patch.setattr(memoisation_modes.PerValue, "afforded", staticmethod(afforded))


def _keep_the_caps_of_today_only(patch: pytest.MonkeyPatch) -> None:
    def terms(connection: Any, registry: Any) -> Any:
        return registry.lifetime_epsilon, {n: g.caps for n, g in registry.groups.items()}

    patch.setattr(charges, "_terms", terms)


def _keep_records_of_other_windows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("ldp.client.runtime.settle", lambda connection, registry: None)


def _keep_silent_epochs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("ldp.client.runtime.withdraw_epochs", lambda connection: None)


def _charge_a_value_every_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pool, "is_new_tag", lambda connection, tag: True)


def _send_batches_of_other_days(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("ldp.client.runtime.drop", lambda connection, now, keep_sent: None)


@pytest.mark.parametrize(
    ("mutant", "usual"),
    [
        (_charge_nothing_for_the_last_report, 0),
        (_share_what_is_set_aside, 0),
        (_pass_on_what_is_not_used, 74),
        (_keep_the_caps_of_today_only, 0),
        (_keep_records_of_other_windows, 116),
        (_keep_silent_epochs, 33),
        (_charge_a_value_every_time, 27),
        (_send_batches_of_other_days, 1),
    ],
)
def test_twin_a_client_that_breaks_the_protocol_is_found(
    mutant: Callable[[pytest.MonkeyPatch], None],
    usual: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of 200 lives shows it; the first one tried usually does."""
    mutant(monkeypatch)
    lives = (make_life(seed, tmp_path) for seed in (usual, *range(usual), *range(usual + 1, 200)))
    assert any(difference(life, play(life, tmp_path / str(life["seed"]))) for life in lives)


@pytest.mark.parametrize("first", tiered(range(0, LIVES, CLOCKS_AT_ONCE), slow=3))
def test_caps_hold_whatever_the_clock_shows_and_a_right_one_ends_the_silence(
    first: int, tmp_path: Path
) -> None:
    """The twin seals nothing after its clock is right, and is found in a third of the lives."""
    found = 0
    for seed in range(first, first + CLOCKS_AT_ONCE):
        life, new = make_clock_lives(seed, tmp_path)
        steps, begun = (play(one, tmp_path / f"clock {one['seed']}") for one in (life, new))
        assert clock_fault(life, steps, begun) == "", seed
        start = len(life["calls"]) - len(new["calls"]) + 1
        silent = steps[:start] + [{**s, "sealed": [], "charges": []} for s in steps[start:]]
        found += "two windows" in clock_fault(life, silent, begun)
    assert found > 3


def test_typescript_caps_hold_whatever_the_clock_shows_and_a_right_one_ends_the_silence(
    tmp_path: Path,
) -> None:
    require_web_client()
    assert leaping("TypeScript", range(CLOCKS_AT_ONCE), tmp_path) == []


def _never_run_backwards(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(periods, "seconds_of", _running_maximum(periods.seconds_of))


def _running_maximum(honest: Callable[..., int]) -> Callable[..., int]:
    latest = [0]

    def running(*arguments: Any) -> int:
        latest[0] = max(latest[0], honest(*arguments))
        return latest[0]

    return running


def _seal_windows_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sealing, "mark_sealed", lambda *_: None)
    patch.setattr(charges, "_NEAR", f"{charges._NEAR} LIMIT 0")


def _follow_calendars_of_a_wrong_clock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sealing, "beginning", _running_maximum(periods.beginning))


def _drop_what_is_held(patch: pytest.MonkeyPatch) -> None:
    honest = sealing.drop

    def drop(connection: Any, now: int, keep_sent: Any) -> None:
        honest(connection, now, keep_sent)
        connection.execute("UPDATE batches SET state = 'dropped' WHERE state = 'held'")

    patch.setattr("ldp.client.runtime.drop", drop)


@pytest.mark.parametrize(
    ("mutant", "usual"),
    [
        (_never_run_backwards, 0),
        (_seal_windows_again, 28),
        (_follow_calendars_of_a_wrong_clock, 6),
        (_drop_what_is_held, 0),
    ],
)
def test_twin_a_client_that_believes_a_clock_is_found(
    mutant: Callable[[pytest.MonkeyPatch], None],
    usual: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of 60 lives shows it; the first one tried usually does."""
    for seed in (usual, *range(usual), *range(usual + 1, 60)):
        life, new = make_clock_lives(seed, tmp_path)
        begun = play(new, tmp_path / f"{seed} new")
        with monkeypatch.context() as patch:
            mutant(patch)
            if clock_fault(life, play(life, tmp_path / f"{seed}"), begun):
                return
    pytest.fail("no life finds it")
