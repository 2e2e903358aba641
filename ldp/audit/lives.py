"""Checks of long lives of devices that memoise: which responses stay, and which are drawn anew.

Each device reports one value, another one, and the first again. A *unit* of its reports is a bit of
RAPPOR, or the true column where a report is one column. In each of the three times a unit is
decoded as the majority of what the reports showed. Given the cohort the units are independent, and
the decoded bits have an exact law: a mixture of binomial tails over the permanent response. So per
value the first and the third time must agree as often as one permanent response makes them, and the
second time must be independent. By epoch all three must be about the first value, however long the
life is.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, cycle, islice, pairwise, product

import numpy as np

from ldp.arrays import Bools, Floats, Ints, binomial_above, binomial_law
from ldp.audit.binomial_checks import (
    never_checks,
    outcome_checks,
    payload_bits,
    sum_checks,
    tail_checks,
)
from ldp.audit.cells import following
from ldp.audit.judging import Checks, prefixed
from ldp.audit.memoised_histories import MakeDevice
from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.protocol.hashing import Value

USUAL, LONG = (12, 4, 12), (60, 20, 60)
"""Reports of the first value, of the other value, and of the first value again."""
UNITS = 24
"""Number of units by which devices are compared."""
MOST_REPEATS = 10.0
"""Expected number of repeats among honest devices above which repeats are not checked."""


@dataclass(frozen=True, eq=False)
class Period:
    """Reports of one period of many devices, `reports` of each: the cohort that each device names
    first, shape (devices,), and whether it names several (`moved`); whether each report names each
    unit, shape (devices, reports, units), and is in each unit like the one before (`repeats`);
    whether what a device responded to touches a unit, shape (devices, units). `cells`: what each
    one's value touches."""

    mechanism: MemoisedMechanism
    reports: int
    cohorts: Ints
    moved: Bools
    names: Bools
    repeats: Bools
    touched: Bools
    cells: Sequence[Sequence[int]]

    @classmethod
    def of(
        cls,
        mechanism: MemoisedMechanism,
        values: Sequence[Value],
        sent: Sequence[Sequence[bytes]],
    ) -> "Period":
        """Return the period in which all devices `sent` the same number of reports about a response
        to one of the `values`, which take turns. Raises ReportError for bytes that are no report of
        the mechanism."""
        devices = []
        for value, reports in zip(cycle(values), sent, strict=False):
            split = [mechanism.row_and_payload(report) for report in reports]
            row = split[0][0]
            cells = tuple(mechanism.cells(value, row))
            payloads = [payload for _, payload in split]
            names = _names_units(mechanism, cells, payloads)
            repeats = names[1:] == names[:-1]
            if not mechanism.kind.is_bitwise:
                alike = [a == b for a, b in pairwise(payloads)]
                repeats = np.array(alike, dtype=bool)[:, None]
            moved = any(other != row for other, _ in split)
            devices.append((row, moved, names, repeats, _touched(mechanism, cells), cells))
        *arrays, cells_of_all = zip(*devices, strict=True)
        rows, moves, names, repeats, touched = map(np.array, arrays)
        return cls(mechanism, len(sent[0]), rows, moves, names, repeats, touched, cells_of_all)

    @cached_property
    def counts(self) -> Ints:
        """Return how often each device names each unit: shape (devices, units)."""
        return np.asarray(self.names.sum(axis=1))

    @property
    def decoded(self) -> Bools:
        """Return whether each device's permanent response seems to name each unit."""
        return self.counts > _Unit.of(self.mechanism, True).cut(self.reports)


def life_checks(
    mechanism: MemoisedMechanism,
    values: Sequence[Value],
    device: MakeDevice,
    devices: int,
    *,
    memoise: str,
    reports: tuple[int, int, int] = USUAL,
) -> list[Checks]:
    """Return the checks of `devices` new devices, each of which makes `reports` reports about one
    of the first half of the `values`, as many about one of the second, and as many about the first
    again. Values take turns. `memoise`: "per-value" or "epoch". Raises ReportError for bytes that
    are no report of the mechanism."""
    lives, responses = [], (0, 0, 0) if memoise == "epoch" else (0, 1, 0)
    sides = values[: len(values) // 2], values[len(values) // 2 :]
    for first, second in islice(zip(*map(cycle, sides), strict=False), devices):
        encode = device()
        plan = zip((first, second, first), reports, strict=True)
        lives.append([[encode(value) for _ in range(times)] for value, times in plan])
    periods = [
        Period.of(mechanism, sides[at], sent)
        for at, sent in zip(responses, zip(*lives, strict=True), strict=True)
    ]
    checks: list[Checks | None] = [*response_checks(periods, responses, memoise)]
    if len(values) == 2:
        checks.append(_repeats(periods[0], periods[2]))
    what = f"lives of {sum(reports)} reports, {memoise}: "
    return [*prefixed(what, filter(None, checks))]


def response_checks(
    periods: Sequence[Period], responses: Sequence[int], memoise: str
) -> Iterator[Checks]:
    """Yield the checks of some periods of one metric of the same devices: those with equal numbers
    in `responses` are about one permanent response. Periods with different numbers are independent.
    Per value they are of one cohort, too, and about one response where both values touch the same
    cells. No two values with equally many reports do."""
    per_value, size = memoise == "per-value", periods[0].reports
    of_responses = dict(zip(responses[::-1], periods[::-1], strict=True)).values()
    alike = [period for period in of_responses if period.reports == size]
    for true in (False, True):
        what, law = _unit_name(true), _Unit.of(periods[0].mechanism, true)
        counts = np.concatenate([period.counts[period.touched == true] for period in alike])
        of_counts = f"{what} named so often", counts, law.distribution(size)
        yield outcome_checks(*of_counts)
        yield tail_checks(*of_counts)
        firsts: list[Bools] = [np.asarray(p.names[:, :2].all(axis=1)) for p in alike]
        where = [period.touched if true else ~period.touched for period in alike]
        pairs = np.concatenate([f[w] for f, w in zip(firsts, where, strict=True)])
        yield sum_checks(f"{what} named by the first two", pairs, pairs | True, law.chance(2))
        yield from by_place(what, alike, true)
    if periods[0].mechanism.kind.is_bitwise:
        yield from by_distance(alike)
    moved = np.array([period.moved for period in periods]).any(axis=0)
    for (i, first), (j, second) in combinations(enumerate(periods), 2):
        what, is_one = f"periods {i + 1} and {j + 1}", responses[i] == responses[j]
        if not (is_one or per_value):
            yield from independent_checks(what, first, second)
            continue
        moved |= first.cohorts != second.cohorts
        pairs_of_cells = zip(first.cells, second.cells, strict=True)
        is_same = np.array([is_one or one == other for one, other in pairs_of_cells])
        yield from _pair_checks(what, first, second, is_same)
    yield never_checks("devices of several cohorts", int(moved.sum()), moved.size)


def by_distance(alike: Sequence[Period]) -> Iterator[Checks]:
    """Yield how often the reports of a period name the untouched units at each distance from the
    first one that the value touches, so many times or more."""
    firsts = np.array([[*cells, -1][0] for period in alike for cells in period.cells])
    both = [np.concatenate([getattr(p, of) for p in alike]) for of in ("counts", "touched")]
    counts, touched = (following(of, firsts) for of in both)
    law = _Unit.of(alike[0].mechanism, False).distribution(alike[0].reports)
    for least, chance in enumerate(law[:0:-1].cumsum()[::-1], 1):
        seen, trials = ((counts >= least) & ~touched).sum(axis=0), (~touched).sum(axis=0)
        chances = np.full(trials.size, min(chance, 1.0))
        yield f"units so far from a touched one named {least} times or more", seen, trials, chances


def by_place(what: str, alike: Sequence[Period], true: bool) -> Iterator[Checks]:
    """Yield how often the first, second, ... report of a period names a unit, and how often it is
    like the report before, of each device one, so that they are independent; and in how many pairs
    of a device's reports, none of them in two, both are alike."""
    mechanism, law = alike[0].mechanism, _Unit.of(alike[0].mechanism, true)
    touched: Bools = np.concatenate([period.touched for period in alike])
    where = touched if true else ~touched
    alike_of = law.alike()
    if not mechanism.kind.is_bitwise:
        same, other = map(float, mechanism.instantaneous)
        alike_of = [(1.0, same**2 + (mechanism.shape.columns - 1) * other**2)]
    repeats = [period.repeats for period in alike]
    pairs = np.concatenate(repeats)[:, ::2].sum(axis=1)[where]
    size = alike[0].reports // 2
    weighted = [weight * binomial_law(size, chance) for weight, chance in alike_of]
    yield tail_checks(f"{what} alike in so many pairs", pairs, np.sum(weighted, axis=0))
    repeated = sum(weight * chance for weight, chance in alike_of)
    for name, of, chance in (
        ("named by report", [period.names for period in alike], law.chance()),
        ("like those before, report", repeats, repeated),
    ):
        seen = np.concatenate(of).swapaxes(1, 2)[where]
        trials = np.full(seen.shape[1], len(seen))
        yield f"{what} {name}", seen.sum(axis=0), trials, np.full(trials.size, chance)


def independent_checks(what: str, first: Period, second: Period) -> Iterator[Checks]:
    """Yield the checks that two periods of the same devices, of equal mechanisms, share neither
    cohort nor response."""
    rows, same = first.mechanism.shape.rows, first.cohorts == second.cohorts
    yield sum_checks(f"{what}, equal cohorts", same, same | True, 1 / rows)
    yield from _pair_checks(what, first, second, same & False)


def _pair_checks(what: str, first: Period, second: Period, is_same: Bools) -> Iterator[Checks]:
    """Yield the checks of what two periods of the same devices decode, unit by unit: about one
    permanent response where `is_same`, shape (devices,), else about two independent ones."""
    both = 2 * first.decoded + second.decoded
    for true, other, same in product((False, True), repeat=3):
        one, two = (_Unit.of(first.mechanism, touched) for touched in (true, other))
        where = (first.touched == true) & (second.touched == other) & (is_same == same)[:, None]
        if where.any():
            claimed = one.joint(two, first.reports, second.reports, same)
            units = f"{_unit_name(true)} and {_unit_name(other)}"
            yield outcome_checks(f"{what}, {units}", both[where], claimed)


def _unit_name(true: bool) -> str:
    return f"{'touched' if true else 'untouched'} unit"


def _names_units(
    mechanism: MemoisedMechanism, cells: Sequence[int], payloads: Sequence[bytes]
) -> Bools:
    """Return whether each report names each unit, shape (reports, units)."""
    numbers = [mechanism.layout.payload_number(payload) for payload in payloads]
    if mechanism.kind.is_bitwise:
        return payload_bits(payloads, mechanism.shape.columns)
    return np.array([[number == cell for cell in cells] for number in numbers])


def _touched(mechanism: MemoisedMechanism, cells: Sequence[int]) -> Bools:
    if not mechanism.kind.is_bitwise:
        return np.ones(1, dtype=bool)
    touched = np.zeros(mechanism.shape.columns, dtype=bool)
    touched[list(cells)] = True
    return touched


def _repeats(one: Period, other: Period) -> Checks | None:
    """Check that the responses of the second half of the devices are not those of the first half:
    how many equal one of them, given them, is binomial. A short secret shows here, where the units
    have more responses than devices have pairs. Returns None where they have fewer. Both periods
    are about one response."""
    mechanism, devices = one.mechanism, one.cohorts.size
    of = one.reports + other.reports
    cut = _Unit.of(mechanism, True).cut(of)
    decoded = (one.counts + other.counts > cut)[:, :UNITS]
    touched = one.touched[:, :UNITS]
    decoded_share = np.array([_Unit.of(mechanism, true).decoded(of) for true in (False, True)])
    decoded_share = decoded_share[touched.astype(int)]
    shares = np.where(decoded, decoded_share, 1 - decoded_share)
    likely = shares.prod(axis=1) / mechanism.shape.rows
    keys = [(row, bits.tobytes()) for row, bits in zip(one.cohorts, decoded, strict=True)]
    first = dict(zip(keys[: devices // 2], likely[: devices // 2], strict=True))
    share = min(1.0, float(sum(first.values())))
    seen = np.array([key in first for key in keys[devices // 2 :]])
    if share * seen.size > MOST_REPEATS:
        return None
    return sum_checks("responses that another device has", seen, seen | True, share)


@dataclass(frozen=True)
class _Unit:
    """The law of a unit: P(its permanent response names it), and P(a report does | that) of a
    response that does not and of one that does."""

    permanent: float
    shows: tuple[float, float]

    @classmethod
    def of(cls, mechanism: MemoisedMechanism, true: bool) -> "_Unit":
        permanent, (if_one, if_zero) = mechanism.permanent_channel, mechanism.instantaneous
        if_true, if_not = permanent.chances if permanent else (1.0, 0.0)
        return cls(if_true if true else if_not, (float(if_zero), float(if_one)))

    @property
    def _weights(self) -> tuple[tuple[float, float], tuple[float, float]]:
        return (1 - self.permanent, self.shows[0]), (self.permanent, self.shows[1])

    def distribution(self, reports: int) -> Floats:
        """Return P(k of the `reports` name it), k = 0 .. reports."""
        (other, zero), (one, shows) = self._weights
        return other * binomial_law(reports, zero) + one * binomial_law(reports, shows)

    def chance(self, reports: int = 1) -> float:
        """Return P(all of the `reports`, about one permanent response, name it)."""
        return sum(weight * shows**reports for weight, shows in self._weights)

    def alike(self) -> list[tuple[float, float]]:
        """Return P(its permanent response), and P(two reports about that one both name it, or
        neither), of both responses."""
        return [(weight, shows**2 + (1 - shows) ** 2) for weight, shows in self._weights]

    def cut(self, reports: int) -> int:
        """Return the largest number of the `reports` that may name it while its permanent response
        is taken not to: midway between what the two responses show on average."""
        # whatever the last digit
        return math.floor(reports * sum(self.shows) / 2 + 1e-9)

    def decoded(self, reports: int) -> float:
        """Return P(more than `cut` of the `reports` name it)."""
        return float(self.distribution(reports)[self.cut(reports) + 1 :].sum())

    def joint(self, other: "_Unit", reports: int, others: int, is_same_response: bool) -> Floats:
        """Return P(00, 01, 10, 11) of what two times decode: about one permanent response if it
        `is_same_response`, else about two that are independent."""
        if not is_same_response:
            first, second = self.decoded(reports), other.decoded(others)
            return np.outer([1 - first, first], [1 - second, second]).ravel()
        law = np.zeros((2, 2))
        for weight, shows in self._weights:
            tails = (float(binomial_above(self.cut(n), n, shows)) for n in (reports, others))
            law += weight * np.multiply.outer(*([1 - tail, tail] for tail in tails))
        return law.ravel()
