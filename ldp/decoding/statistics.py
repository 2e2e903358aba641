"""Statistics of a number, and the file in which `ldp decode` writes them."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from ldp.files import csv_text
from ldp.tables.estimates import NUMBER_COLUMNS


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


def numbers_csv(statistics: Iterable[Statistic]) -> str:
    """Return a file of numbers: a line for each of `statistics`; open ends are empty."""
    return csv_text([NUMBER_COLUMNS, *map(cells, statistics)])


def cells(row: Statistic) -> tuple[str, ...]:
    """Return a statistic as the texts of NUMBER_COLUMNS."""
    return (row.name, *(_cell(x, 10) for x in row[5:7]), *(_cell(x, 6) for x in row[1:5]))


def _cell(number: float, digits: int) -> str:
    if not math.isfinite(number):
        return ""
    return f"{number:.0f}" if abs(number) >= 10**digits else f"{number:.{digits}g}"
