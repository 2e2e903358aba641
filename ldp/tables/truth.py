"""The truth of a simulation beside a result: what its rows would be if people had reported it."""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

import numpy as np

from ldp.arrays import Floats
from ldp.errors import DecodeError
from ldp.tables.frame import Columns
from ldp.tables.result import COUNT
from ldp.tables.statistics import quantile_of

TOTAL = "reports"
"""Statistic that is the number of reports of a category."""
LARGEST = 1e140
"""Size from which the sum of the squares of 10**18 numbers may be no float."""


class TrueNumbers:
    """Numbers that people of a simulation hold: number -> count."""

    def __init__(self, counts: Mapping[float, int]) -> None:
        self._numbers = sorted(counts)
        self._sums = [0, *accumulate(counts[number] for number in self._numbers)]
        self._counts = counts

    def statistic(self, name: str) -> float | None:
        """Return the statistic of this `name`, None for a name that is not known."""
        n, q = self._sums[-1], quantile_of(name)
        if name == TOTAL or not n:
            return float(n) if name == TOTAL else None
        mean = math.fsum(number * count for number, count in self._counts.items()) / n
        if name == "variance":
            squares = ((x - mean) ** 2 * count for x, count in self._counts.items())
            return math.fsum(squares) / n
        if q is not None:
            rank = bisect_left(self._sums, q * n - 1e-9)
            return self._numbers[max(0, min(rank, len(self._numbers)) - 1)]
        return mean if name == "mean" else None

    def between(self, low: float | None, high: float | None) -> int:
        """Return how many hold a number from `low` to below `high`. If both are equal, it is how
        many hold `low`."""
        start = 0 if low is None else bisect_left(self._numbers, low)
        end = len(self._numbers) if high is None else bisect_left(self._numbers, high)
        if low == high and low is not None:
            end = bisect_right(self._numbers, low)
        return self._sums[end] - self._sums[start]


def true_numbers(truth: Mapping[str, int]) -> Mapping[float, int] | None:
    """Return a `truth` whose values are numbers, with a count above 0. Returns None for another."""
    counts = Counter[float]()
    try:
        for value in (value for value, count in truth.items() if count > 0):
            counts[float(value)] += truth[value]
    except ValueError:
        return None
    if not all(abs(number) < LARGEST for number in counts):
        raise DecodeError(
            f"the truth names a number that is not finite, or of size {LARGEST:g} or more"
        )
    return counts or None


def numbers_by_category(truth: Mapping[Any, int]) -> Mapping[str, TrueNumbers] | None:
    """Return the numbers of each category of a `truth` with pairs. Returns None for another."""
    if not all(isinstance(value, tuple) and len(value) == 2 for value in truth):
        return None
    of: dict[str, dict[str, int]] = {}
    for (category, number), count in truth.items():
        of.setdefault(category, {})[number] = count
    known = {category: true_numbers(counts) for category, counts in of.items()}
    return {category: TrueNumbers(counts) for category, counts in known.items() if counts}


def true_column(columns: Columns, truth: Mapping[Any, int]) -> Floats:
    """Return what `truth`, value -> count of people, says of each row of these columns of a result:
    float64, NaN where it says nothing."""
    values = [column for name, column in columns.items() if name.startswith("value")]
    size, statistics = len(columns["estimate"]), columns.get("statistic")
    keys = [*zip(*values, strict=True)] if values else [()] * size
    if statistics is None or {*statistics} == {COUNT}:
        counts = {key if isinstance(key, tuple) else (key,): n for key, n in truth.items()}
        return np.array([counts.get(key, 0) for key in keys], dtype=np.float64)
    of = numbers_by_category(truth) if values else {"": TrueNumbers(true_numbers(truth) or {})}
    bins = [columns.get(name, np.full(size, math.nan)) for name in ("bin_low", "bin_high")]
    numbers = []
    for key, name, low, high in zip(keys, statistics, *bins, strict=True):
        true = (of or {}).get("".join(map(str, key)), TrueNumbers({}))
        if name == COUNT:
            numbers.append(
                float(true.between(*(e if math.isfinite(e) else None for e in (low, high))))
            )
        else:
            known = true.statistic(str(name))
            numbers.append(math.nan if known is None else known)
    return np.array(numbers)
