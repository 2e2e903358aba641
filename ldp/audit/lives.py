"""Long lives of devices that memoise: what is kept, what is drawn anew, and what devices share.

Each device reports one value, another one, and the first again. A *unit* of its reports, a bit of
RAPPOR or the true column where a report is one column, is decoded from each of the three times as
the majority of what it showed. Given the cohort the units are independent, and what is decoded has
an exact law: a mixture over the permanent response of binomial tails. So per value the first and
the third time must agree as often as one permanent response makes them, the second time must be
independent, and by epoch all three must be about the first value, however long the life is.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ldp.arrays import Bools, Floats, Ints
from ldp.audit.counts import never_checks, outcome_checks, payload_bits, sum_checks
from ldp.audit.judging import Checks
from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.protocol.hashing import Value
from ldp.protocol.wire import split_report

Device = Callable[[], Callable[[Value, int], Sequence[bytes]]]
"""Makes a new device: so many reports of a value."""
USUAL, LONG = (12, 4, 12), (60, 20, 60)
"""Reports of the first value, of the other, and of the first again."""
UNITS = 24
"""Units that devices are compared by."""
MOST_REPEATS = 10.0
"""Expected repeats among honest devices above which none are looked for."""


@dataclass(frozen=True, eq=False)
class _Lives:
    """Reports of many devices: the cohort of each; of each of the three times how often each unit
    was named, and whether the value reported touches it: shape (3, devices, units). `same`: bool,
    shape (devices,), whether the two values touch the same. `first_two`: bool, shape (devices,
    units), whether the first two reports name a unit. `moved`: devices of several cohorts."""

    mechanism: MemoisedMechanism
    reports: tuple[int, int, int]
    cohorts: Ints
    moved: int
    named_counts: Ints
    touched: Bools
    same: Bools
    first_two: Bools


def life_checks(
    mechanism: MemoisedMechanism,
    values: tuple[Value, Value],
    device: Device,
    devices: int,
    *,
    memoise: str,
    reports: tuple[int, int, int] = USUAL,
) -> list[Checks]:
    """Return the checks of so many new devices, each of which tells of values[0], values[1] and
    values[0] again, so many `reports` each. `memoise`: "per-value" or "epoch". Raises ReportError
    for bytes that are no report of the mechanism."""
    lives = _lived(mechanism, values, device, devices, memoise, reports)
    what = f"lives of {sum(reports)} reports, {memoise}"
    return [(f"{what}: {name}", *counted) for name, *counted in _checks(lives, memoise)]  # type: ignore[misc]


def one_by_one(encode: Callable[[Value], bytes]) -> Callable[[Value, int], Sequence[bytes]]:
    """Return a device that makes reports of a value by encoding it as often."""
    return lambda value, times: [encode(value) for _ in range(times)]


def _lived(
    mechanism: MemoisedMechanism,
    values: tuple[Value, Value],
    device: Device,
    devices: int,
    memoise: str,
    reports: tuple[int, int, int],
) -> _Lives:
    first, second = values
    response_values = (first, first if memoise == "epoch" else second, first)
    header, layout = mechanism.header, mechanism.layout
    lives, moved = [], 0
    for _ in range(devices):
        make_reports = device()
        life = [
            [split_report(report, header, layout) for report in make_reports(value, times)]
            for value, times in zip((first, second, first), reports, strict=True)
        ]
        row = life[0][0][0]
        moved += any(report[0] != row for part in life for report in part)
        cells = [tuple(mechanism.cells(value, row)) for value in response_values]
        names_units = [
            _names_units(mechanism, touched, [payload for _, payload in part])
            for touched, part in zip(cells, life, strict=True)
        ]
        named_counts = [part.sum(axis=0) for part in names_units]
        touched = [_touched(mechanism, touched) for touched in cells]
        is_same, first_two = cells[0] == cells[1], names_units[0][:2].all(axis=0)
        lives.append((row, named_counts, touched, is_same, first_two))
    cohorts, counts, touches, same, pairs = map(np.array, zip(*lives, strict=True))
    counts, touches = counts.swapaxes(0, 1), touches.swapaxes(0, 1)
    return _Lives(mechanism, reports, cohorts, moved, counts, touches, same, pairs)


def _names_units(
    mechanism: MemoisedMechanism, cells: Sequence[int], payloads: Sequence[bytes]
) -> Bools:
    """Return whether each report names each unit, shape (reports, units)."""
    numbers = [mechanism.layout.payload_number(payload) for payload in payloads]
    if mechanism.kind.has_independent_bits:
        return payload_bits(payloads, mechanism.shape.columns)
    return np.array([[number == cell for cell in cells] for number in numbers])


def _touched(mechanism: MemoisedMechanism, cells: Sequence[int]) -> Bools:
    if not mechanism.kind.has_independent_bits:
        return np.ones(1, dtype=bool)
    touched = np.zeros(mechanism.shape.columns, dtype=bool)
    touched[list(cells)] = True
    return touched


def _checks(lives: _Lives, memoise: str) -> Iterator[Checks]:
    devices = lives.cohorts.size
    yield never_checks("devices of several cohorts", lives.moved, devices)
    decoded = [
        2 * counts > reports
        for counts, reports in zip(lives.named_counts, lives.reports, strict=True)
    ]
    for true in (False, True):
        here = lives.touched[0] == true
        law = _Unit.of(lives.mechanism, true)
        what = f"{'touched' if true else 'untouched'} unit"
        counts, distribution = lives.named_counts[0][here], law.distribution(lives.reports[0])
        yield outcome_checks(f"{what} named so often", counts, distribution)
        pairs = lives.first_two[here]
        yield sum_checks(f"{what} named by the first two", pairs, pairs | True, law.both())
        claimed = law.joint(law, lives.reports[0], lives.reports[2], is_same_response=True)
        both = 2 * decoded[0] + decoded[2]
        yield outcome_checks(f"{what}, first time and third", both[here], claimed)
        for other in (False, True):
            second = _Unit.of(lives.mechanism, other)
            for same in (False, True):
                is_same = same or memoise == "epoch"
                claimed = law.joint(second, lives.reports[0], lives.reports[1], is_same)
                where = here & (lives.touched[1] == other) & (lives.same == same)[:, None]
                both = 2 * decoded[0] + decoded[1]
                yield outcome_checks(f"{what}, first and second", both[where], claimed)
    yield from _repeats(lives)


def _repeats(lives: _Lives) -> Iterator[Checks]:
    """Check that the responses of the second half of the devices are not those of the first half:
    how many equal one of them, given them, is binomial. A short secret shows here, where the units
    have more responses than devices have pairs."""
    mechanism, devices = lives.mechanism, lives.cohorts.size
    of = lives.reports[0] + lives.reports[2]
    decoded = (2 * (lives.named_counts[0] + lives.named_counts[2]) > of)[:, :UNITS]
    touched = lives.touched[0][:, :UNITS]
    decoded_share = np.array([_Unit.of(mechanism, true).decoded(of) for true in (False, True)])
    decoded_share = decoded_share[touched.astype(int)]
    shares = np.where(decoded, decoded_share, 1 - decoded_share)
    likely = shares.prod(axis=1) / mechanism.shape.rows
    keys = [(row, bits.tobytes()) for row, bits in zip(lives.cohorts, decoded, strict=True)]
    first = dict(zip(keys[: devices // 2], likely[: devices // 2], strict=True))
    share = min(1.0, float(sum(first.values())))
    seen = np.array([key in first for key in keys[devices // 2 :]])
    if share * seen.size <= MOST_REPEATS:
        yield sum_checks("responses that another device has", seen, seen | True, share)


@dataclass(frozen=True)
class _Unit:
    """The law of a unit: P(its permanent response names it), and P(a report does | that) of a
    response that does not and of one that does."""

    permanent: float
    shows: tuple[float, float]

    @classmethod
    def of(cls, mechanism: MemoisedMechanism, true: bool) -> "_Unit":
        permanent, (if_one, if_zero) = mechanism.permanent_channel, mechanism.instantaneous
        if permanent is None:
            return cls(float(true), (float(if_zero), float(if_one)))
        share = permanent.touched if true else permanent.untouched
        return cls(float(share), (float(if_zero), float(if_one)))

    @property
    def _weights(self) -> tuple[tuple[float, float], tuple[float, float]]:
        return (1 - self.permanent, self.shows[0]), (self.permanent, self.shows[1])

    def distribution(self, reports: int) -> Floats:
        """Return P(k of so many reports name it), k = 0 .. reports."""
        from scipy.stats import binom

        law: Floats = sum(
            weight * binom.pmf(np.arange(reports + 1), reports, shows)
            for weight, shows in self._weights
        )
        return law

    def both(self) -> float:
        """Return P(two reports about one permanent response name it)."""
        return sum(weight * shows**2 for weight, shows in self._weights)

    def decoded(self, reports: int) -> float:
        """Return P(more than half of so many reports name it)."""
        return float(self.distribution(reports)[reports // 2 + 1 :].sum())

    def joint(self, other: "_Unit", reports: int, others: int, is_same_response: bool) -> Floats:
        """Return P(00, 01, 10, 11) of what two times decode: about one permanent response if it
        `is_same_response`, else about two that are independent."""
        if not is_same_response:
            first, second = self.decoded(reports), other.decoded(others)
            return np.outer([1 - first, first], [1 - second, second]).ravel()
        law = np.zeros((2, 2))
        for weight, shows in self._weights:
            first, second = (_Unit(1.0, (shows, shows)).decoded(n) for n in (reports, others))
            law += weight * np.outer([1 - first, first], [1 - second, second])
        return law.ravel()
