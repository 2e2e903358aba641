"""Checks over all metrics of a client together, because each metric has few reports.

A condition is that two numbers of a report, counted in blocks, have certain remainders. The sum
over all metrics shows a cheat that does not depend on the metric. The number of metrics with a
small p-value shows one that acts on some metrics. Metrics with one kind of values are also checked
by themselves.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, compress
from typing import NamedTuple

import numpy as np

from ldp.arrays import Bools, Floats, Ints
from ldp.audit.binomial_checks import Occurrence, sum_checks
from ldp.audit.conditions import UNCHANGED, Seen
from ldp.audit.judging import Checks, binomial_p
from ldp.audit.reports import VALUE

MOST_OF_TWO = 16
"""Largest product of the moduli of a condition on two numbers."""
ALL = "nothing"
"""Name of a number that is the same in all reports."""
BLOCKS = (1, 2, 4, 8, 16, 32)
"""Lengths of the blocks in which calls and devices are counted."""
MOST_SPAN = 64
"""Calls and devices after which a condition is the same again, or fewer; largest modulus."""
SMALL = (0.01, 0.001)
"""Small p-values. For each, the metrics that have a smaller one are counted."""
LEAST_DEVIATION = 2.5
"""Standard deviations below which a p-value is not taken to be small."""


class _Conditions(NamedTuple):
    """Conditions on one number: blocks, moduli and remainders, int, shape (conditions,)."""

    block: Ints
    modulus: Ints
    rest: Ints

    @classmethod
    def of(cls, name: str, most: int) -> "_Conditions":
        """Return the conditions on the number of a name, by moduli of `most` or less."""
        blocks = BLOCKS if name in ("call", "device") else (1,)
        every = [
            (block, modulus, rest)
            for block in blocks
            for modulus in range(1 + (block > 1), min(most, MOST_SPAN // block) + 1)
            for rest in range(modulus)
        ]
        return cls(*np.array(every).T)

    def hold(self, numbers: Ints) -> Floats:
        """Return where they hold, 0 or 1: shape (conditions, numbers)."""
        rests = numbers // self.block[:, None] % self.modulus[:, None]
        return np.where(rests == self.rest[:, None], 1.0, 0.0)


def together_checks(parts: Sequence[Seen]) -> Iterator[Checks]:
    """Yield the checks of what is seen in the reports of several metrics, by two numbers that all
    have."""
    kinds = [type(part.reports.mechanism.addressing) for part in parts]
    groups = [np.array([kind is one for kind in kinds]) for one in dict.fromkeys(kinds)]
    groups = [np.ones(len(parts), dtype=bool), *(group for group in groups if group.sum() > 1)]
    of_parts = [
        (
            {ALL: np.zeros_like(part.lies), **{name: of for name, of, _ in part.numbers}},
            {one.what: one for one in (*part.statistics, *part.repeated)},
        )
        for part in parts
    ]
    every = dict.fromkeys(what for _, statistics in of_parts for what in statistics)
    for left, right in combinations((ALL, "call", "device", VALUE, "rank before", UNCHANGED), 2):
        most = (1, MOST_SPAN) if left == ALL else (MOST_OF_TWO, MOST_OF_TWO)
        both = _Conditions.of(left, most[0]), _Conditions.of(right, most[1])
        moduli = np.multiply.outer(both[0].modulus, both[1].modulus)
        where = (moduli <= most[1]) & (moduli > 1)
        for what in every:
            has = [
                what in statistics and {left, right} <= numbers.keys()
                for numbers, statistics in of_parts
            ]
            some = [
                _counts(both, (numbers[left], numbers[right]), statistics[what], where)
                for numbers, statistics in compress(of_parts, has)
            ]
            name = f"{what} by {left} and {right}, number"
            for group in groups:
                if len(of_group := [*compress(some, group[has])]) > 1:
                    yield from _of_metrics(name, *map(np.array, zip(*of_group, strict=True)))


def shared_checks(parts: Sequence[Seen]) -> Iterator[Checks]:
    """Yield the checks that metrics share no noise: how often the reports of two of them that were
    made together, the i-th of each, both name what their values touch."""
    truths = [
        next(one for one in part.statistics if one.what in ("touched cells", "first touched cells"))
        for part in parts
    ]
    for (left, one), (right, other) in combinations(zip(parts, truths, strict=True), 2):
        if left.lies.size != right.lies.size:
            continue
        possible = (one.possible == 1) & (other.possible == 1)
        names = [part.reports.mechanism.name for part in (left, right)]
        what = f"truths of two metrics together: {names[0]} and {names[1]}"
        chance = one.chance * other.chance
        yield sum_checks(what, (one.seen > 0) & (other.seen > 0) & possible, possible, chance)


def _counts(
    conditions: tuple[_Conditions, _Conditions],
    numbers: tuple[Ints, Ints],
    statistic: Occurrence,
    where: Bools,
) -> tuple[Ints, Ints, float]:
    """Return how often something is seen, and could be, where each two conditions hold, and its
    chance."""
    (rows, row), (columns, column) = (np.unique(of, return_inverse=True) for of in numbers)
    left, right = (of.hold(some) for of, some in zip(conditions, (rows, columns), strict=True))
    place, shape = row * columns.size + column, (rows.size, columns.size)
    seen, possible = (
        (left @ np.bincount(place, of, rows.size * columns.size).reshape(shape) @ right.T)[where]
        for of in (statistic.seen, statistic.possible)
    )
    return np.rint(seen).astype(np.int64), np.rint(possible).astype(np.int64), statistic.chance


def _of_metrics(name: str, seen: Ints, possible: Ints, chances: Floats) -> Iterator[Checks]:
    """Yield two checks of counts that were `seen` in metrics, shape (metrics, conditions): of their
    sum, and of the number of metrics with a small p-value. The sum has lighter tails than the
    binomial law of the mean chance (Hoeffding 1956, theorem 4)."""
    expected, trials = possible * chances[:, None], possible.sum(axis=0)
    mean = expected.sum(axis=0) / np.maximum(trials, 1)
    metrics = f"{len(seen)} metrics"
    yield f"{metrics} together: {name}", seen.sum(axis=0), trials, mean
    variance = expected * (1 - chances[:, None])
    far = np.nonzero((seen - expected) ** 2 > LEAST_DEVIATION**2 * variance)
    p_values = np.ones(seen.shape)
    p_values[far] = binomial_p(seen[far], possible[far], chances[far[0]])
    tried = (possible > 0).sum(axis=0)
    for small in SMALL:
        what = f"p-values below {small} among {metrics}: {name}"
        yield what, (p_values < small).sum(axis=0), tried, np.full(tried.size, small)
