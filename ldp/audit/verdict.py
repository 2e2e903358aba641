"""One audit of everything: a mechanism and its real encoder, by checks A (exact law), B (bytes of
one device and of many, a bound from outside) and C (many days, where a response is memoised)."""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ldp.audit.black_box import epsilon_at_least
from ldp.audit.cells import audit_encoder
from ldp.audit.history import cohorts_named, exact_epsilon
from ldp.audit.history import epsilon_at_least as epsilon_over_days
from ldp.audit.law import exact_findings
from ldp.hashing import ByPosition
from ldp.mechanisms import Catalogued, JointReport
from ldp.mechanisms.base import Identity, Value
from ldp.mechanisms.bit_flip import Buckets
from ldp.mechanisms.joint import parts_of
from ldp.mechanisms.memoising import Memoising
from ldp.mechanisms.moments import Products
from ldp.mechanisms.numeric import Numbers

ALPHA = 1e-6
VALUES = ("lol", "a value of more than sixteen bytes", "")
DAYS = 8
"""Length of the histories that memoised mechanisms are held against."""
DEVICES, LEAST_DEVICES = 10, 200
"""So many fewer devices live such a history than there are trials, but at least so many."""


@dataclass(frozen=True)
class Memoised:
    """What DAYS reports tell, exactly: between two values that never change, which `lifetime`
    bounds; between a history that never changes and one that does, per value and by epoch. None
    is infinite, which JSON has no number for. And what real devices show: an epsilon that they
    have `at_least` under each mode's promise, and how many cohorts one names."""

    lifetime: float | None
    unchanging: float | None
    changing_per_value: float | None
    changing_by_epoch: float | None
    at_least: float
    cohorts: int

    @property
    def passed(self) -> bool:
        promised = self.unchanging, self.changing_by_epoch, self.at_least
        bound = _or_infinite(self.lifetime)
        return max(map(_or_infinite, promised)) <= bound and self.cohorts == 1


@dataclass(frozen=True)
class Verdict:
    """One encoder's audit: what refutes its exact law; how many counts were checked, of one encoder
    and of new ones, and what refutes those; an epsilon that it has at least; `memoised` is None
    where nothing is."""

    name: str
    claimed: float
    exact: list[str]
    checks: int
    findings: list[str]
    at_least: float
    memoised: Memoised | None

    @property
    def passed(self) -> bool:
        memoised = self.memoised is None or self.memoised.passed
        found = self.exact or self.findings
        return not found and memoised and self.at_least <= self.claimed


def audited(name: str, mechanism: Catalogued, trials: int) -> Verdict:
    """Encodes every value that is tried `trials` times on one device and on as many new ones, and
    two of them 2 x `trials` times more; with a memoised response also on as many devices with a
    secret, and some for DAYS. An honest encoder fails with probability 3 ALPHA at most."""
    values = tried(mechanism)
    encode, held = mechanism.encoder().encode, None
    ways: list[Callable[[Value], bytes]] = [encode, lambda value: mechanism.encoder().encode(value)]
    if isinstance(mechanism, Memoising):
        ways.append(lambda value: _device(mechanism)(value))
        ways.append(lambda value: _device(mechanism, "e")(value))
        held = _held_for_days(mechanism, values, trials)
    audits = [
        audit_encoder(mechanism, values, way, trials=trials, alpha=ALPHA / len(ways))
        for way in ways
    ]
    return Verdict(
        name=name,
        claimed=mechanism.cost.epsilon,
        exact=exact_findings(mechanism, values),
        checks=sum(audit.checks for audit in audits),
        findings=[str(finding) for audit in audits for finding in audit.findings[:3]],
        at_least=epsilon_at_least(
            mechanism, (values[0], values[1]), encode, trials=2 * trials, error=ALPHA
        ),
        memoised=held,
    )


def _device(mechanism: Memoising, epoch: str | None = None) -> Callable[[Value], bytes]:
    """A new device with a secret of its own, memoising per value or by epoch."""
    return mechanism.encoder(secret=os.urandom(32), epoch=epoch).encode


def _held_for_days(mechanism: Memoising, values: tuple[Value, ...], trials: int) -> Memoised:
    stays, other = (values[0],) * DAYS, (values[1],) * DAYS
    changes = other[: DAYS // 2] + stays[DAYS // 2 :]
    exact = (
        mechanism.cost.lifetime,
        exact_epsilon(mechanism, (stays, other), "per-value"),
        exact_epsilon(mechanism, (stays, changes), "per-value"),
        exact_epsilon(mechanism, (stays, changes), "epoch"),
    )
    devices = max(LEAST_DEVICES, trials // DEVICES)
    seen = [
        epsilon_over_days(mechanism, pair, device, trials=devices, error=ALPHA / 2)
        for pair, device in (
            ((stays, other), lambda: _device(mechanism)),
            ((stays, changes), lambda: _device(mechanism, "e")),
        )
    ]
    cohorts = cohorts_named(mechanism, changes, lambda: _device(mechanism), trials=devices)
    lifetime, unchanging, per_value, by_epoch = (
        float(number) if math.isfinite(number) else None for number in exact
    )
    return Memoised(
        lifetime=lifetime,
        unchanging=unchanging,
        changing_per_value=per_value,
        changing_by_epoch=by_epoch,
        at_least=max(seen),
        cohorts=max(cohorts),
    )


def _or_infinite(number: float | None) -> float:
    return math.inf if number is None else number


def tried(mechanism: Catalogued) -> tuple[Value, ...]:
    """Two values or more that the mechanism knows."""
    if isinstance(mechanism, JointReport):
        tuples: Any = tuple(zip(*map(tried, mechanism.of), strict=False))
        return tuples  # type: ignore[no-any-return]
    addressing = parts_of(mechanism)[0].addressing
    if isinstance(addressing, Identity):
        return (addressing.categories + addressing.untouching)[:4]
    if isinstance(addressing, Numbers | Buckets):
        return (*addressing.bounds, sum(addressing.bounds) / 2)
    if isinstance(addressing, Products):
        low, high = (tuple(pair[end] for pair in addressing.bounds) for end in (0, 1))
        return low, high, (low[0], *high[1:])
    if isinstance(addressing, ByPosition):
        letters, length = addressing.spelling.alphabet, addressing.spelling.length
        return letters[0] * length, letters[-1] * length, ""
    return VALUES
