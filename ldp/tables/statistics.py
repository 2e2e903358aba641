"""Statistics of a number, as rows of a result."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ldp.tables.result import Columns


class Statistic(NamedTuple):
    """One number of a distribution: its `name`, estimate, standard error and interval, which is
    infinite at an open end; nan for a standard error that an open interval leaves unknown. The bin
    of a "count"."""

    name: str
    estimate: float
    std_error: float
    low: float
    high: float
    bin_low: float = math.nan
    bin_high: float = math.nan


FAR = 100.0
"""Ratio of the ends of an interval from which the farther one says nothing."""


def known_ends(low: float | None, high: float | None) -> tuple[float | None, float | None]:
    """Return the ends of the interval of a percentile, None for one that says nothing: an infinite
    one, and one that is FAR times as far from 0 as the other.

    >>> known_ends(32.0, 2.3e8), known_ends(16.0, 24.0), known_ends(0.0, 100.0)
    ((32.0, None), (16.0, 24.0), (0.0, 100.0))
    """
    low, high = (None if end is None or math.isinf(end) else end for end in (low, high))
    if low is not None and high is not None and 0 < FAR * low <= high:
        return low, None
    if low is not None and high is not None and low <= FAR * high < 0:
        return None, high
    return low, high


def columns_of(statistics: Iterable[Statistic]) -> Columns:
    """Return the columns of a result, a row for each of `statistics`."""
    names, *numbers = zip(*statistics, strict=True)
    columns = dict(zip(Statistic._fields[1:], map(np.array, numbers), strict=True))
    bins = {name: columns.pop(name) for name in ("bin_low", "bin_high")}
    return {"statistic": [*names], **bins, **columns}
