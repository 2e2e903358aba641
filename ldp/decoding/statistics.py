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


def columns_of(statistics: Iterable[Statistic]) -> Columns:
    """Return the columns of a result, a row for each of `statistics`."""
    names, *numbers = zip(*statistics, strict=True)
    columns = dict(zip(Statistic._fields[1:], map(np.array, numbers), strict=True))
    bins = {name: columns.pop(name) for name in ("bin_low", "bin_high")}
    return {"statistic": [*names], **bins, **columns}
