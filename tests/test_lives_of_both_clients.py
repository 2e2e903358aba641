"""Lives that a seed draws, through the Python and the TypeScript client: both keep the protocol."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from ldp.accounting.ledger import Allowance
from ldp.client import charges, memoisation_modes, pool, sealing
from ldp.client.memoisation_modes import Fresh, Grant
from simulations.lives.__main__ import difference
from simulations.lives.making import Life, make_life
from simulations.lives.playing import play, play_in_node
from tests.web_client import require_web_client

pytestmark = pytest.mark.exact
LIVES, AT_ONCE = 200, 50


def lives_from(first: int, number: int, folder: Path) -> list[Life]:
    return [make_life(seed, folder) for seed in range(first, first + number)]


@pytest.mark.parametrize("first", range(0, LIVES, AT_ONCE))
def test_the_python_client_lives_as_the_protocol_says(first: int, tmp_path: Path) -> None:
    for life in lives_from(first, AT_ONCE, tmp_path):
        assert difference(life, play(life, tmp_path / str(life["seed"]))) == ""


@pytest.mark.parametrize("first", range(0, LIVES, AT_ONCE))
def test_the_typescript_client_lives_as_the_protocol_says(first: int, tmp_path: Path) -> None:
    require_web_client()
    lives = lives_from(first, AT_ONCE, tmp_path)
    for life, transcript in zip(lives, play_in_node(lives), strict=True):
        assert difference(life, transcript) == ""


def test_lives_have_every_kind_of_call_answer_and_end(tmp_path: Path) -> None:
    """Else nothing would be compared: consents, updates, caps that are spent, batches of each
    state."""
    seen, states, hidden = set[Any](), dict[str, int](), 0
    for life in lives_from(0, LIVES // 2, tmp_path):
        steps = play(life, tmp_path / str(life["seed"]))
        for call, step in zip(life["calls"], steps, strict=True):
            seen |= {call["call"], str(step["answer"]), step["why"].partition(":")[0]}
            hidden += len(step["charges"]) if call["call"] == "upload" else 0
            for state in ("dropped", "waiting", "acknowledged", "refused"):
                states[state] = states.get(state, 0) + step["status"][state]
    calls = {"grant", "withdraw", "record", "upload", "restart", "update"}
    answers = {"recorded", "consent", "unknown metric", "value", "expired", "cap"}
    assert calls | answers | {"waits after a failure"} <= seen
    assert min(states.values()) > 0
    assert hidden > 100


def _charge_nothing_for_the_last_report(patch: pytest.MonkeyPatch) -> None:
    honest = charges.charge
    patch.setattr(sealing, "charge", lambda c, g, m, at, times: honest(c, g, m, at, times // 2))


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


def _let_batches_wait_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("ldp.client.runtime.drop", lambda connection, now, keep_sent: None)


@pytest.mark.parametrize(
    "mutant",
    [
        _charge_nothing_for_the_last_report,
        _share_what_is_set_aside,
        _pass_on_what_is_not_used,
        _keep_the_caps_of_today_only,
        _keep_records_of_other_windows,
        _keep_silent_epochs,
        _charge_a_value_every_time,
        _let_batches_wait_for_ever,
    ],
)
def test_twin_a_client_that_breaks_the_protocol_is_found(
    mutant: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    lives = lives_from(0, LIVES, tmp_path)
    assert any(difference(life, play(life, tmp_path / str(life["seed"]))) for life in lives)
