"""Statistics of a number, as rows of a result."""

import math
import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ldp.tables.frame import Columns


class Statistic(NamedTuple):
    """One number of a distribution: its `name`, estimate, standard error and interval, which is
    infinite at an open end. A standard error that an open interval leaves unknown is nan.
    `bin_low`, `bin_high`: edges of the bin that a "count" is about, nan for other statistics."""

    name: str
    estimate: float
    std_error: float
    low: float
    high: float
    bin_low: float = math.nan
    bin_high: float = math.nan


PERCENTILE = re.compile(r"p(\d+(?:\.\d+)?)")
"""Name of a percentile."""
NOT_ENOUGH = "not enough reports"
USEFUL = 4.0
"""Largest ratio of the ends of an interval that determines a percentile."""
ENOUGH = 5.0
"""Number of reports beyond a percentile from which on its interval is useful, in standard errors of
the number of reports of its category: of 1,152 drawn percentiles (epsilon 1 to 4, 50,000 to 800,000
reports) 88 % were useful at 5 to 6, all above 6, 10 % at 1 to 2."""
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


def quantile_of(name: str) -> float | None:
    """Return the quantile that a statistic's name states; None for another statistic."""
    percentile = PERCENTILE.fullmatch(name)
    return float(percentile[1]) / 100 if percentile else None


def tells(
    low: float | None, high: float | None, whole: float | None = None, estimate: float | None = None
) -> bool:
    """Return whether the interval of a percentile is useful: one end is at most USEFUL times the
    other. With `whole`, the length of a stated range, the interval is at most half as long. The
    open bin at an end is useful by itself: there the `estimate` is the other end.

    >>> tells(16.0, 24.0), tells(1.0, 24.0), tells(32.0, 2.3e8), tells(1.0, 4.5, whole=8.0)
    (True, False, False, True)
    """
    low, high = known_ends(low, high)
    if low is None or high is None:
        return estimate is not None and estimate in (low, high)
    if whole is not None:
        return high - low <= whole / 2
    smaller, larger = sorted((abs(low), abs(high)))
    return low == high or (low * high > 0 and larger <= USEFUL * smaller)


def reports_needed(q: float, reports: int, held: float, error: float) -> float:
    """Return about how many reports estimating the `q`-quantile of a category takes. About `held`
    of the `reports`, with a standard `error`, are of the category. It takes more than is returned
    where they do not stand out from this error. The interval `tells` the quantile where the reports
    beyond it are ENOUGH such errors."""
    beyond = min(q, 1 - q) * max(held, error)
    needed = reports * max(1.0, ENOUGH * error / beyond) ** 2
    unit = 10.0 ** math.floor(math.log10(needed))
    return math.ceil(needed / unit) * unit


def columns_of(statistics: Iterable[Statistic]) -> Columns:
    """Return the columns of a result, a row for each of `statistics`."""
    names, *numbers = zip(*statistics, strict=True)
    columns = dict(zip(Statistic._fields[1:], map(np.array, numbers), strict=True))
    bins = {name: columns.pop(name) for name in ("bin_low", "bin_high")}
    return {"statistic": [*names], **bins, **columns}
