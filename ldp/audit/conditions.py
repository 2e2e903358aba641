"""Checks under conditions on two numbers: for cheats on some values and calls, or in some rows.

A report has numbers (its row, its call, its device, its value, the value before). A cheat may act
where two of them have certain remainders. For each such condition the checks count whether a report
names its value; whether a lie keeps a part of the value, names the value before or repeats the lie
of the last report under the same condition; and whether the row is repeated. Each of these has one
probability whatever the numbers are. Where two reports are compared, no report is the later one of
one pair and the earlier one of another: only after a lie can a report repeat one. So such pairs
would depend on each other. So every count is exactly binomial.
"""

import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp.arrays import Bools, Floats, Generator, Ints
from ldp.audit.binomial_checks import (
    RESIDUES,
    Occurrence,
    checks_by_number,
    group_checks,
    row_sums,
)
from ldp.audit.judging import Checks
from ldp.audit.law import likelihood
from ldp.audit.reports import CALLS, ROW, VALUE, Reports
from ldp.bulk.compiled import compiled
from ldp.bulk.counting import count_by_two
from ldp.mechanisms.addressing import Identity
from ldp.mechanisms.base import Mechanism
from ldp.protocol.hashing import Value
from ldp.protocol.kinds import Index, Subset

MOST_OF_TWO, LARGEST = 64, 64
"""Largest product of two moduli, and largest modulus: a condition holds for 1.6 % or more, of a
number that is 0 or 1 for .8 %."""
LATER = 0.75
"""Probability that a report is compared with an earlier report that is itself compared with none.
"""
UNCHANGED = "whether the value is the one before"
BLOCK = 8
"""Length of the turns by which calls and devices are counted with another number, too."""
TURNS = {
    "call": (4,),
    "device": (4,),
    f"call // {BLOCK}": (2, 4),
    f"device // {BLOCK}": (2, 4),
}
"""Numbers of remainders in a row that are counted together, too, by the name of their number."""


class Seen(NamedTuple):
    """Statistics of the reports of a part, which are counted by `numbers` (name, numbers, limit
    below which they lie). `lies`: an untouched column that each report names, or -1. `repeated`:
    equal reports, which are not counted by the row."""

    reports: Reports
    numbers: Sequence[tuple[str, Ints, int]]
    lies: Ints
    statistics: Sequence[Occurrence]
    repeated: Sequence[Occurrence]
    payloads: "Payloads | None"

    @classmethod
    def of(
        cls,
        reports: Reports,
        numbers: Sequence[tuple[str, Ints, int]],
        number: Ints,
        coins: Generator,
        likelihoods: Floats | None = None,
    ) -> "Seen":
        """Return the statistics of reports. `number`: the number of each report's value. `coins`
        make unequal chances equal. `likelihoods`: as for `Payloads`."""
        lies = _lies(reports, coins)
        statistics = [*_truths(reports, coins), *_of_lies(reports, lies, number, coins)]
        statistics += _repeats(reports, lies, coins)
        repeated, payloads = list[Occurrence](), Payloads.of(reports, coins, likelihoods)
        rows = reports.mechanism.shape.rows
        if payloads and (rows == 1 or not reports.keeps_row):
            earlier = last_of(reports.which)
            repeated.append(payloads.repeated("reports repeated", earlier, rows))
        statistics += payloads.statistics() if payloads else ()
        return cls(reports, numbers, lies, statistics, repeated, payloads)


def condition_checks(
    seen_of_part: Seen, number: Ints, coins: Generator, most: int = MOST_OF_TWO
) -> Iterator[Checks]:
    """Yield the checks of a part's statistics, grouped by the remainders of each two numbers modulo
    two moduli whose product is `most` or less. `number`: the number of each report's value; `coins`
    make unequal chances equal."""
    reports, numbers, lies, statistics, repeated, payloads = seen_of_part
    of_rows = [*repeated]
    if reports.mechanism.shape.rows > 1 and not reports.keeps_row:
        rows, limit = reports.rows, reports.mechanism.shape.rows
        even = np.where(number % 2, limit // 2, (limit + 1) // 2) / limit
        seen = evened(rows % 2 == number % 2, even, 0.5, coins)
        of_rows.append(Occurrence("rows as odd as the value", seen, np.ones_like(seen), 0.5))
    for name, of, limit in reports.numbers_by():
        if name != ROW:
            some = statistics if reports.keeps_row else [*statistics, *of_rows]
            yield from checks_by_number(name, of, limit, *some)
    if payloads:
        yield from payloads.by_remainders()
    moduli = np.arange(1, LARGEST + 1)
    known = [(name, (of[:, None] % moduli).astype(np.uint8), limit) for name, of, limit in numbers]
    reported = reports.reported if reports.mechanism.kind.is_bitmap else reports.reported[:, :0]
    both = reported, reports.touched
    bits, touched = (np.packbits(cells, axis=1, bitorder="little") for cells in both)
    for left, right in combinations(known, 2):
        if "//" in right[0] and left[0] not in (ROW, VALUE, "rank"):
            continue
        has_row = ROW in (left[0], right[0]) or reports.keeps_row
        some = statistics if has_row else [*statistics, *of_rows]
        yield from _by_two(reports, lies, (bits, touched), some, left, right, has_row, most)


def evened(seen: Bools, chances: Floats, chance: float, coins: Generator) -> Bools:
    """Return the events `seen`, which have these `chances`, shape (reports,), changed by `coins` as
    little as possible so that each has the same `chance`."""
    coin = coins.random(seen.size)
    return np.where(
        chances >= chance,
        seen & (coin * chances < chance),
        seen | (coin * (1 - chances) < chance - chances),
    )


def _truths(reports: Reports, coins: Generator) -> Iterator[Occurrence]:
    """Yield how often reports name the cells that their values touch."""
    mechanism, channel = reports.mechanism, reports.mechanism.channel
    truths, free = reports.reported & reports.touched, ~reports.touched
    is_certain = not mechanism.has_roundings
    if mechanism.kind.is_bitwise:
        noise = row_sums(reports.reported & free)
        yield Occurrence("untouched cells", noise, row_sums(free), float(channel.untouched))
    if is_certain and mechanism.kind.is_bitwise:
        counts = row_sums(truths), row_sums(reports.touched)
        yield Occurrence("touched cells", *counts, float(channel.touched))
    elif mechanism.kind is Index and (is_certain or mechanism.touches > 1):
        chance = float(mechanism.layout.any_probability(channel.touched, mechanism.touches))
        seen, possible = (cells.max(axis=1) for cells in (truths, reports.touched))
        extra = np.maximum(row_sums(reports.touched) - mechanism.touches, 0)
        seen = evened(seen, chance + extra * float(channel.untouched), chance, coins)
        yield Occurrence("touched cells", seen & possible, possible, chance)
    else:
        known = reports.usual_chances[reports.usual_chances > 0]
        chance = float(np.median(known)) if known.size else 0.5
        seen = evened(reports.names(reports.firsts), reports.chances, chance, coins)
        possible = reports.chances > 0
        yield Occurrence("first touched cells", seen & possible, possible, chance)


def _lies(reports: Reports, coins: Generator) -> Ints:
    """Return for each report one untouched column that it names, int, shape (reports,): `coins`
    choose among several. It is -1 where a report names none, and the report's column if it is of
    kind SIGN."""
    if reports.mechanism.kind.is_signed:
        return reports.columns
    if reports.mechanism.kind is Index:
        is_true = np.take_along_axis(reports.touched, reports.columns[:, None], axis=1)[:, 0]
        return np.where(is_true, -1, reports.columns)
    rows, columns = np.nonzero(reports.reported & ~reports.touched)
    many = np.bincount(rows, minlength=len(reports.reported))
    chosen = many.cumsum() - many + (coins.random(many.size) * many).astype(np.int64)
    return np.where(many > 0, np.append(columns, -1)[chosen], -1)


def _of_lies(reports: Reports, lies: Ints, number: Ints, coins: Generator) -> Iterator[Occurrence]:
    """Yield how often a lie, given that there is one, keeps a part of the value, and how often a
    report names the first cell of the value before that its own does not touch."""
    mechanism = reports.mechanism
    columns, is_lie = mechanism.shape.columns, lies >= 0
    if reports.values < 2:
        return
    every, cells = np.arange(columns), np.maximum(reports.firsts, 0)
    places = number % columns if isinstance(mechanism.addressing, Identity) else cells
    for what, groups, size in (
        ("lies as odd as the value", every % 2, 2),
        ("lies of the value's rest by 3", every % 3, 3),
        ("lies in the half of the value", every * 2 // columns, 2),
    ):
        part = groups[places]
        sizes, free = np.bincount(groups, minlength=size)[part], np.full(lies.size, columns)
        if not mechanism.kind.is_signed:
            inside = (reports.touched @ (groups[:, None] == np.arange(size)).astype(np.float32)).T
            sizes, free = sizes - np.choose(part, inside), columns - sum(inside)
        seen = evened(groups[lies] == part, sizes / np.maximum(free, 1), 1 / size, coins)
        yield Occurrence(what, seen & is_lie, is_lie, 1 / size)
    chance = 0.5 if mechanism.kind.is_signed else float(mechanism.channel.untouched)
    cells = reports.first_before
    yield Occurrence("value before", reports.names(cells), cells >= 0, chance)


def _repeats(reports: Reports, lies: Ints, coins: Generator) -> Iterator[Occurrence]:
    """Yield how often a report names the lie of the report before, that of the last report of its
    value and of its row or call, or the cell after its first touched one; and how often the truth
    after a lie, or where lies are usual after a truth."""
    mechanism, every = reports.mechanism, np.arange(lies.size)
    chance = float(mechanism.channel.untouched)
    lasts = [
        ("lie before", every - 1),
        ("last lie of the value", last_of(reports.which)),
        ("last lie of the call", last_of(reports.calls)),
    ]
    if mechanism.shape.rows > 1 and not reports.keeps_row:
        lasts.append(("last lie of the row", last_of(reports.devices, reports.rows)))
    for what, earlier in lasts:
        places = _apart(earlier, coins)
        marks = np.where(places >= 0, lies[places], -1)
        if mechanism.kind.is_signed:
            seen = reports.columns == marks
            yield Occurrence(what, seen, marks >= 0, 1 / mechanism.shape.columns)
        else:
            marks = np.where(reports.touches(marks), -1, marks)
            yield Occurrence(what, reports.names(marks), marks >= 0, chance)
    if not mechanism.kind.is_signed:
        marks = np.where(reports.firsts < 0, -1, (reports.firsts + 1) % mechanism.shape.columns)
        marks = np.where(reports.touches(marks), -1, marks)
        yield Occurrence("cell after the touched", reports.names(marks), marks >= 0, chance)
    places, truths, known = _apart(every - 1, coins), reports.names(reports.firsts), reports.chances
    is_known = (places >= 0) & (known > 0) & (known[places] > 0)
    chance = float(np.median(known[is_known])) if is_known.any() else 0.5
    possible = is_known & (truths[places] == (chance < 0.5))
    seen = evened(truths, known, chance, coins) & possible
    yield Occurrence("truths after the rarer of truth and lie", seen, possible, chance)


def last_of(*numbers: Ints) -> Ints:
    """Return the place of the last earlier report with the same numbers, or -1: shape
    (reports,)."""
    key = np.zeros_like(numbers[0])
    for of in numbers:
        key = key * (int(of.max(initial=0)) + 1) + of
    order = np.argsort(key, kind="stable")
    places, is_same = np.empty_like(order), np.diff(key[order], prepend=-1) == 0
    places[order] = np.where(is_same, np.roll(order, 1), -1)
    return places


class Payloads(NamedTuple):
    """Payloads of reports, shape (reports,): numbers of row and payload together, P(payload | row,
    value), numbers of value and row together. `coins` make chances equal."""

    reports: Reports
    numbers: Ints
    chances: Floats
    cells: Ints
    coins: Generator

    @classmethod
    def of(
        cls, reports: Reports, coins: Generator, likelihoods: Floats | None
    ) -> "Payloads | None":
        """Return the payloads of reports. `likelihoods`: P(report | value) of each report, shape
        (reports,), for values that are rounded at random. Without them it is None for such
        values."""
        mechanism, rows = reports.mechanism, reports.mechanism.shape.rows
        if likelihoods is None and mechanism.has_roundings:
            return None
        if likelihoods is None:
            pairs = zip(reports.true_cells, reports.numbers, strict=True)
            likelihoods = np.array([likelihood(mechanism, *pair) for pair in pairs]) / rows
        whole = np.array(reports.numbers, dtype=object) * rows + reports.rows
        _, numbers = np.unique(whole, return_inverse=True)
        _, cells = np.unique(reports.which * rows + reports.rows, return_inverse=True)
        return cls(reports, numbers, likelihoods * rows, cells, coins)

    def repeated(self, what: str, earlier: Ints, rows: int = 1) -> Occurrence:
        """Return how often a report has the row, one of `rows`, and the payload of an `earlier` one
        about its value. Given that one the probability depends on its payload only, and is made
        equal, so that the sum is binomial."""
        possible, chance = earlier >= 0, largest_chance(self.reports.mechanism) / rows
        is_equal = self.numbers == self.numbers[earlier]
        seen = evened(is_equal, self.chances[earlier] / rows, chance, self.coins)
        return Occurrence(what, seen & possible, possible, chance)

    def statistics(self) -> Iterator[Occurrence]:
        """Yield how often a report has the payload of the report before it about the same value in
        the same row; also among the reports of each device."""
        of = self.reports
        if of.mechanism.shape.rows > 1:
            yield self.repeated("payloads repeated", last_of(self.cells))
        if of.devices.any() and not of.keeps_row:
            earlier = last_of(self.cells, of.devices)
            yield self.repeated("payloads of the device repeated", earlier)

    def by_remainders(self) -> Iterator[Checks]:
        """Yield the checks of how often a report has the payload of the last report before it with
        the same value, the same row and the same remainder of its call, or device."""
        at = np.flatnonzero(np.bincount(self.cells)[self.cells] > 1)
        arrays = self.numbers[at], self.chances[at], self.cells[at]
        some = Payloads(self.reports, *arrays, self.coins)
        calls, devices = self.reports.calls, self.reports.devices
        for name, of in (("call", calls), ("device", devices)):
            for modulus in (2, *RESIDUES, CALLS) if at.size and of.any() else ():
                rest = of[at] % modulus
                earlier = last_of(some.cells * modulus + rest)
                what = f"payloads of one {name} modulo {modulus} repeated"
                _, seen, possible, chance = some.repeated(what, earlier)
                yield group_checks(what, seen, possible, rest, modulus, chance)


def largest_chance(mechanism: Mechanism) -> float:
    """Return the largest probability that any payload can have, whatever the value. It does not
    depend on which reports come."""
    columns, touches, ones = mechanism.shape.columns, mechanism.touches, mechanism.layout.ones
    if mechanism.kind.is_bitwise:
        true, lie = (max(chance, 1 - chance) for chance in mechanism.channel.chances)
        return max(lie**columns, true**touches * lie ** (columns - touches))
    if mechanism.kind is Subset:
        numbers = [(1 << ones) - 1, (1 << ones) - 1 << columns - ones]
    else:
        # a column of the value's, and one of the others; a sign and its opposite
        numbers = [0, 1 if mechanism.kind.is_signed else min(touches, columns - 1)]
    return max(likelihood(mechanism, range(touches), number) for number in numbers)


def _apart(earlier: Ints, coins: Generator) -> Ints:
    """Return the place of the earlier report, or -1, for some reports that `coins` choose, so that
    none of them is the earlier one of another: shape (reports,)."""
    is_later = coins.random(earlier.size) < LATER
    _keep_apart(is_later, earlier)
    return np.where(is_later, earlier, -1)


@compiled()
def _keep_apart(is_later: Any, earlier: Any) -> None:
    for i in range(earlier.size):
        is_later[i] &= earlier[i] >= 0 and not is_later[earlier[i]]


def _by_two(
    reports: Reports,
    lies: Ints,
    cells: tuple[NDArray[np.uint8], NDArray[np.uint8]],
    statistics: Sequence[Occurrence],
    left: tuple[str, NDArray[np.uint8], int],
    right: tuple[str, NDArray[np.uint8], int],
    has_row: bool,
    most: int,
) -> Iterator[Checks]:
    """Yield the checks of `statistics` by the remainders of two numbers, and of what repeats the
    report before that has the same remainders, in pairs: its lie, or its row. `cells`: bits of the
    columns that reports name and that values touch, as `count_by_two` takes them."""
    mechanism = reports.mechanism
    moduli, size = _moduli(left[2], right[2], most)
    counted = [getattr(s, of) for of in ("seen", "possible") for s in statistics]
    marks = np.stack([lies, reports.rows, reports.columns])
    counted_now = np.stack(counted, axis=1).astype(np.int32)
    sums = count_by_two((left[1], right[1]), moduli, size, counted_now, marks, cells)
    name = f"by remainders of {left[0]} and {right[0]}, number"
    parts = [(name, sums)]
    for axis, (of, *_) in enumerate((left, right)):
        for length in TURNS.get(of, ()):
            turns = _turns(left[2], right[2], most, axis, length)
            if turns.size:
                by_turn = sums[turns].sum(axis=1, dtype=np.int32)
                parts.append((f"{name} of {of} by {length}", by_turn))
    for (end, some), (i, statistic) in product(parts, enumerate(statistics)):
        trials = some[:, len(statistics) + i]
        chances = np.broadcast_to(statistic.chance, trials.size)
        yield f"{statistic.what} {end}", some[:, i], trials, chances
    rows, chance = mechanism.shape.rows, float(mechanism.channel.untouched)
    chance = 1 / mechanism.shape.columns if mechanism.kind.is_signed else chance
    yield f"repeated lies {name}", sums[:, -4], sums[:, -3], np.broadcast_to(chance, size)
    if rows > 1 and not has_row:
        yield f"repeated rows {name}", sums[:, -2], sums[:, -1], np.broadcast_to(1 / rows, size)


@cache
def _moduli(limit: int, other_limit: int, most: int) -> tuple[Ints, int]:
    """Return every two moduli that tell numbers below these limits apart, with the place of their
    first count: int, shape (pairs, 3); and the number of counts. A number that is 0 or 1 leaves
    `most` to the other."""
    pairs, size = [], 0
    most *= 2 if 2 in (limit, other_limit) else 1
    for modulus in range(1, min(limit, LARGEST) + 1):
        for other in range(1, min(other_limit, LARGEST, most // modulus) + 1):
            if modulus * other > 1:
                pairs.append((modulus, other, size))
                size += modulus * other
    return np.array(pairs, dtype=np.int64).reshape(-1, 3), size


@cache
def _turns(limit: int, other_limit: int, most: int, axis: int, length: int) -> Ints:
    """Return the places of counts of `_moduli` by successive remainders of one number, that of this
    `axis`: shape (turns, length)."""
    turns = [np.zeros((0, length), np.int64)]
    for *both, start in _moduli(limit, other_limit, most)[0].tolist():
        modulus = both[axis]
        if modulus > length and not modulus % length:
            places = start + np.arange(math.prod(both))
            places = np.moveaxis(places.reshape(both), axis, 1)
            turns.append(places.reshape(-1, length))
    return np.concatenate(turns)


def numbers_of_values(mechanism: Mechanism, values: Sequence[Value]) -> tuple[Ints, Ints]:
    """Return, for each value, a number that a program could look at (a category's place, a number's
    whole part, the size of a text or set) and its rank among all."""
    addressing: Any = mechanism.addressing

    def number(value: Any) -> int:
        if isinstance(addressing, Identity):
            return addressing.point(value)
        if isinstance(value, int | float):
            return int(min(abs(value), 2.0**62))
        if isinstance(value, tuple):
            return sum(map(number, value))
        return len(value.encode() if isinstance(value, str) else value)

    def key(value: Any) -> Any:
        if isinstance(addressing, Identity):
            return addressing.point(value)
        return value if isinstance(value, int | float) else repr(value)

    order = sorted(range(len(values)), key=lambda at: key(values[at]))
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order] = np.arange(len(values))
    return np.array([number(value) for value in values], dtype=np.int64), ranks
