"""Whole audit of a mechanism and its real encoder, by checks A (exact law), B (bytes of one device
and of many, a bound from outside) and C (many days, where a response is memoised)."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ldp.audit import messages
from ldp.audit.black_box import epsilon_at_least
from ldp.audit.draws import Draws
from ldp.audit.encoder import (
    Way,
    encoder_checks,
    of_new_processes,
    repeat_checks,
    sequence_checks,
    start_checks,
    value_checks,
    with_sums,
)
from ldp.audit.judging import Audit, Checks, judge_again
from ldp.audit.law import exact_findings
from ldp.audit.lives import LONG, UNITS, USUAL, life_checks
from ldp.audit.memoised_histories import TwoHistories, cohorts_named, exact_epsilon
from ldp.audit.memoised_histories import history_epsilon as epsilon_over_days
from ldp.audit.reports import DEVICES as DEVICE_NUMBERS
from ldp.audit.tried_values import drawn_values, tried
from ldp.errors import ParameterError
from ldp.mechanisms import CatalogueMechanism
from ldp.mechanisms.dummies import Dummies
from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.protocol.hashing import Value

ALPHA = 1e-6
CALLS_EACH, CALLS_LONG = 100, 1000
"""Largest number of reports of many values that a new device makes: of many devices, and of few."""
MOST_FINDINGS = 6
"""Largest number of findings that are printed."""
DAYS = 8
"""Length of the histories that memoised mechanisms are held against."""
DEVICES, LEAST_DEVICES = 20, 200
"""So many fewer devices live such a history than there are trials, but at least so many."""


FORKS = 200
"""Largest number of new processes that make a report each."""
MOST_DEVICES = 10_000
"""Largest number of devices that live such a history, however many trials there are."""


@dataclass(frozen=True)
class Memoised:
    """Exact privacy loss of DAYS reports: between two values that never change, which `lifetime`
    bounds; and between a history that never changes and one that does, per value and by epoch.
    `at_least`: lower bound on the epsilon that real devices show under each mode's promise.
    `cohorts`: number of cohorts that a device names."""

    lifetime: float
    unchanging: float
    changing_per_value: float
    changing_by_epoch: float
    at_least: float
    cohorts: int

    @property
    def passed(self) -> bool:
        promised = self.unchanging, self.changing_by_epoch, self.at_least
        return max(promised) <= self.lifetime and self.cohorts == 1


@dataclass(frozen=True)
class Verdict:
    """Audit of one encoder. `exact`: sentences that refute its exact law. `checks`: number of
    counts that were checked, of one encoder and of new ones. `findings`: counts that refute the
    claim. `at_least`: lower bound on its epsilon. `memoised`: None without memoisation."""

    name: str
    claimed: float
    exact: list[str]
    checks: int
    findings: list[str]
    at_least: float
    memoised: Memoised | None

    @property
    def passed(self) -> bool:
        is_refuted = self.exact or self.findings or self.at_least > self.claimed
        return not is_refuted and (self.memoised is None or self.memoised.passed)


def audited(
    name: str,
    mechanism: CatalogueMechanism,
    trials: int,
    *,
    dictionary: Sequence[Value] = (),
    seed: int = 0,
    alpha: float = ALPHA,
) -> Verdict:
    """Audit an encoder against its mechanism: by the checks of `encoder_stages`, by a bound on
    epsilon from outside with 2 x `trials` reports of two values and, where a response is memoised,
    by devices that live DAYS. An honest encoder fails with probability `alpha` at most: all counts
    share one half of it, the bounds from outside the other."""
    play = partial(encoder_stages, mechanism, trials, dictionary)
    audit = judge_again(play, seed, alpha / 2)
    held = None
    if isinstance(mechanism, MemoisedMechanism):
        held = _held_for_days(mechanism, tried(mechanism), trials, alpha / 4)
    return _verdict(name, mechanism, audit, mechanism.encoder().encode, trials, alpha, held)


def encoder_stages(
    mechanism: CatalogueMechanism,
    trials: int,
    dictionary: Sequence[Value],
    draws: Draws,
) -> Iterator[list[Checks]]:
    """Yield the checks of an encoder, made only when the next ones are asked for: of new processes,
    then of few devices and of many, many values that are drawn (of the dictionary, too), then a few
    values `trials` times each, then repeated noise; with a memoised response also of fewer devices
    by epoch, and of lives."""
    if isinstance(mechanism, Dummies):
        for encode in (mechanism.encoder().encode, lambda value: mechanism.encoder().encode(value)):
            yield messages.record_checks(mechanism, encode, trials)
        return
    values = tried(mechanism)
    if hasattr(os, "fork"):
        first = of_new_processes(mechanism.encoder().encode)
        forks = min(FORKS, trials // 25)
        yield encoder_checks(mechanism, values[:1], first, forks)
    is_noisy = isinstance(mechanism, MemoisedMechanism) and mechanism.kind.is_bitwise
    ways = [Way(lambda: mechanism.encoder().encode, most) for most in (CALLS_LONG, CALLS_EACH)]
    if isinstance(mechanism, MemoisedMechanism):
        weeks = draws.plan.integers((2000, 1), (3000, 53), (DEVICE_NUMBERS, 2))
        epochs = [f"{year}-W{week:02d}" for year, week in weeks]
        turns = (1, False) if mechanism.has_roundings else (CALLS_EACH, True)
        ways[1] = Way(partial(_device, mechanism), *turns)
        ways.append(Way(partial(_device, mechanism), 1, epochs=epochs))
    yield from with_sums(
        stage for way in ways for stage in way_stages(mechanism, way, trials, draws, dictionary)
    )
    for way in ways[:1] if is_noisy else ways[:2]:
        yield repeat_checks(mechanism, values[0], _encoder(way, draws), trials)
    yield sequence_checks(mechanism, values[0], lambda: ways[0].new_device(draws)[0], trials)
    if isinstance(mechanism, MemoisedMechanism):

        def device(*of: Any) -> Callable[[Value], bytes]:
            next(draws.devices)
            return _device(*of)

        def epoch() -> str:
            return str(draws.plan.choice(epochs))

        values = values[:2]
        if not mechanism.has_roundings:
            values = *values, *drawn_values(mechanism, draws.plan)
        yield all_lives(mechanism, values, device, epoch, trials)


def _encoder(way: Way, draws: Draws) -> Callable[[Value], bytes]:
    """Return what encodes on one device, or, where each makes few reports, on a new one each
    time."""
    is_one = not way.most or way.most > CALLS_EACH
    return way.new_device(draws)[0] if is_one else lambda value: way.new_device(draws)[0](value)


def audited_from_outside(
    name: str,
    mechanism: CatalogueMechanism,
    starts: Sequence[Callable[[Value], bytes]],
    trials: int,
    *,
    dictionary: Sequence[Value] = (),
    seed: int = 0,
    alpha: float = ALPHA,
) -> Verdict:
    """Audit an encoder of which only the bytes are seen, such as a client's in another language.

    `starts`: what encodes after each start of the program. The first encodes what `audited` has one
    device encode, with fresh noise, which the others must not repeat. What is memoised is not
    tried. Raises ReportError for bytes that are no report of the mechanism. An honest encoder fails
    with probability `alpha` at most.
    """
    if mechanism.needs_shuffler:
        raise ParameterError("clients in other languages send no messages for a shuffler")
    value, encode = tried(mechanism)[0], starts[0]

    def play(draws: Draws) -> Iterator[list[Checks]]:
        yield start_checks(mechanism, value, starts, draws.coins, 15 * trials)
        yield from with_sums(way_stages(mechanism, Way(lambda: encode), trials, draws, dictionary))
        yield repeat_checks(mechanism, value, encode, trials)

    audit = judge_again(play, seed, alpha / 2)
    return _verdict(name, mechanism, audit, encode, trials, alpha)


def _verdict(
    name: str,
    mechanism: CatalogueMechanism,
    audit: Audit,
    encode: Callable[[Value], bytes],
    trials: int,
    alpha: float,
    held: Memoised | None = None,
) -> Verdict:
    """Return the verdict of these counts, of the exact law, and of a bound from outside, which
    messages for a shuffler do not have."""
    if isinstance(mechanism, Dummies):
        exact, at_least = messages.message_findings(mechanism), 0.0
    else:
        first, second, *_ = values = tried(mechanism)
        exact = exact_findings(mechanism, values) + _changing_findings(mechanism, held)
        error = alpha / (4 if held else 2)
        at_least = epsilon_at_least(
            mechanism, (first, second), encode, trials=2 * trials, error=error
        )
    worst = sorted(audit.findings, key=lambda finding: finding.p_value)
    return Verdict(
        name=name,
        claimed=mechanism.cost.epsilon,
        exact=exact,
        checks=audit.checks,
        findings=[str(finding) for finding in worst[:MOST_FINDINGS]],
        at_least=at_least,
        memoised=held,
    )


def way_stages(
    mechanism: CatalogueMechanism,
    way: Way,
    trials: int,
    draws: Draws,
    dictionary: Sequence[Value] = (),
) -> Iterator[list[Checks]]:
    """Yield the checks of one way to encode: of many values, and of a few that are tried at length,
    of which new devices make a report each."""
    many = drawn_values(mechanism, draws.plan, dictionary)
    yield value_checks(mechanism, many, way, trials, draws)
    encode = _encoder(way, draws)
    some = trials // 4 if way.epochs else trials
    for value in tried(mechanism):
        yield encoder_checks(mechanism, (value,), encode, some)


def all_lives(
    mechanism: MemoisedMechanism,
    values: Sequence[Value],
    device: Callable[[MemoisedMechanism, str | None], Callable[[Value], bytes]],
    epoch: Callable[[], str],
    trials: int,
) -> list[Checks]:
    """Return the checks of lives in both modes.

    They are of lives with the first two values, of a few longer ones, and of lives with all values.
    Where a report has UNITS bits, they have as many devices per value as show a secret of 16 bits.
    Where it is one column, single reports of new devices show it."""
    shows_secret = mechanism.kind.is_bitwise and mechanism.shape.columns >= UNITS
    searched = min(trials * 3 // 5 if shows_secret else trials // 10, MOST_DEVICES)
    checks: list[Checks] = []
    names: tuple[Callable[[], str | None], ...] = (lambda: None), epoch
    for memoise, name, devices in zip(
        ("per-value", "epoch"), names, (searched, trials // 25), strict=True
    ):
        two = values[:2]
        long = LONG, trials // 50, two
        every = (USUAL, devices, two), long, (USUAL, trials // 10, values)

        def life(name: Callable[[], str | None] = name) -> Callable[[Value], bytes]:
            return device(mechanism, name())

        for reports, many, some in every:
            plays = mechanism, some, life, many
            checks += life_checks(*plays, memoise=memoise, reports=reports)
    return checks


def _device(mechanism: MemoisedMechanism, epoch: str | None = None) -> Callable[[Value], bytes]:
    """Return a new device with a secret of its own, memoising per value or by epoch."""
    return mechanism.encoder(secret=os.urandom(32), epoch=epoch).encode


def _held_for_days(
    mechanism: MemoisedMechanism, values: tuple[Value, ...], trials: int, error: float
) -> Memoised:
    """Return what DAYS tell. What devices show `at_least` is wrong with probability `error`."""
    stays, other = (values[0],) * DAYS, (values[1],) * DAYS
    changes = other[: DAYS // 2] + stays[DAYS // 2 :]
    devices = max(LEAST_DEVICES, trials // DEVICES)

    def at_least(pair: TwoHistories, epoch: str | None = None) -> float:
        device = partial(_device, mechanism, epoch)
        return epsilon_over_days(mechanism, pair, device, trials=devices, error=error / 2)

    cohorts = cohorts_named(mechanism, changes, partial(_device, mechanism), trials=devices)
    return Memoised(
        lifetime=float(mechanism.cost.lifetime),
        unchanging=float(exact_epsilon(mechanism, (stays, other), "per-value")),
        changing_per_value=float(exact_epsilon(mechanism, (stays, changes), "per-value")),
        changing_by_epoch=float(exact_epsilon(mechanism, (stays, changes), "epoch")),
        at_least=max(at_least((stays, other)), at_least((stays, changes), "e")),
        cohorts=max(cohorts),
    )


def _changing_findings(mechanism: CatalogueMechanism, held: Memoised | None) -> list[str]:
    """Return a sentence if half of DAYS tell more of a changing value than the mechanism claims."""
    if held is None:
        return []
    assert isinstance(mechanism, MemoisedMechanism)
    loss, claimed = held.changing_per_value, mechanism.changing_per_value
    if loss <= DAYS // 2 * claimed:
        return []
    return [f"{DAYS // 2} days of a changing value tell {loss:g}, each at most {claimed:g} claimed"]
