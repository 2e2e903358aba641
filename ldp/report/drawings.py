"""The three drawings of a page: bars on one axis, a histogram and a grid.

Each is a function of the rows of a result. It adds to each row its place, as a share of an axis.
The macros of `drawings.html` draw the row there.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean
from typing import Any

from ldp.report.formats import even_numbers, quantity, span
from ldp.tables.frame import round_numbers
from ldp.tables.result import OTHER

MOST_LABELS = 8
"""Most bin edges that are written below a histogram."""
MOST_WHISKERS = 120
"""Number of bins up to which their intervals are drawn."""
PEAK = 4.0
"""Ratio of heights from which a bin without a width is not drawn: it would hide all others."""
BEYOND = 4.0
"""Largest ratio of an interval's end to its estimate for which a logarithmic axis shows the whole
interval."""
DIGITS = ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8))
"""First digits of the numbers at a logarithmic axis, as `round_numbers` takes them."""
MOST_LINES, MOST_COLUMNS = 40, 16
"""Most rows and columns of a grid that are drawn."""
WIDE = 8
"""Number of columns from which a cell holds its share alone, without the interval."""

Number = float | None
PictureRow = Mapping[str, Any]
PictureRows = Sequence[PictureRow]


@dataclass(frozen=True)
class Axis:
    """Axis from `low` to `high`."""

    low: float
    high: float
    is_log: bool = False

    def place(self, number: Number, otherwise: float = 0.0) -> float:
        """Return the place of a `number` on the axis, from 0 to 1. For None, returns
        `otherwise`."""
        if number is None:
            return otherwise
        if self.is_log and number <= 0:
            return 0.0
        scale: Callable[[float], float] = math.log if self.is_log else float
        first = scale(self.low)
        length = (scale(self.high) - first) or 1.0
        return round(min(max((scale(number) - first) / length, 0.0), 1.0), 5)

    def mark(
        self, estimate: Number, low: Number, high: Number, truth: Number = None
    ) -> dict[str, Number]:
        """Return where an estimate, its interval and the truth stand: `at`, `start`, `end`, which
        are the ends of the axis for an open interval, and `known`."""
        return {
            "at": None if estimate is None else self.place(estimate),
            "start": self.place(low),
            "end": self.place(high, 1.0),
            "known": None if truth is None else self.place(truth),
        }

    @property
    def ticks(self) -> list[dict[str, Any]]:
        """Round numbers on the axis, each with its `text` and its place `at`."""
        numbers = even_numbers(self.low, self.high)
        if self.is_log:
            numbers = round_numbers(self.low, self.high, DIGITS)
        return [{"text": quantity(x), "at": self.place(x)} for x in numbers]


def axis_of(lines: PictureRows, is_linear: bool) -> Axis:
    """Return the axis of some lines. It is linear if `is_linear` or if a number is not above 0,
    else logarithmic. It shows every interval whole that ends within BEYOND times its estimate, and
    of other intervals the part that lies on it."""
    closed = [line for line in lines if None not in (line["low"], line["high"], line["estimate"])]
    if not is_linear:
        closed = [row for row in closed if 0 < row["high"] <= BEYOND * row["estimate"]] or closed
    ends = [line[end] for line in closed for end in ("low", "high")] or [0.0, 1.0]
    others = (line[end] for line in lines for end in ("low", "estimate"))
    ends += [number for number in others if number is not None and 0 < number < max(ends)]
    is_log = not is_linear and min(ends) > 0
    return Axis(min(ends) if is_log else min(0.0, *ends), max(ends), is_log)


def bars(rows: Iterable[PictureRow], axis: Axis) -> list[dict[str, Any]]:
    """Return the rows, which have an `estimate`, `low` and `high`, and maybe a `truth`, with their
    marks on the `axis`."""
    return [
        {**row, **axis.mark(row["estimate"], row["low"], row["high"], row.get("truth"))}
        for row in rows
    ]


def histogram(
    reports: int, bins: PictureRows, truth: Callable[[Number, Number], int] | None
) -> dict[str, Any]:
    """Return the columns of a histogram of `bins`, whose areas are shares of the `reports`, and its
    axes. `truth`: function from the ends of a bin to the true number of reports in it."""
    n, widths = max(1, reports), _widths(bins)
    ends = [
        (max(row["low"] or 0.0, 0.0), min(n if row["high"] is None else row["high"], n))
        for row in bins
    ]
    top = max([1e-9, *(high / n / width for (_, high), width in zip(ends, widths, strict=True))])
    columns = []
    for row, width, (low, high) in zip(bins, widths, ends, strict=True):
        count = None if truth is None else truth(row["bin_low"], row["bin_high"])
        axis = Axis(0.0, n * width * top)
        columns.append(
            {
                "bin": bin_text(row["bin_low"], row["bin_high"]),
                "count": row["estimate"],
                "share": row["estimate"] / n,
                "low": low,
                "high": high,
                "width": round(width, 5),
                **axis.mark(row["estimate"], low, high, count),
                "truth": count,
                "holds": count is None or low <= count <= high,
            }
        )
    return {
        "columns": columns,
        "labels": _edges(bins, widths),
        "ticks": Axis(0.0, 100 * top).ticks,
        "is_even": are_even(bins),
        "is_fine": len(bins) <= MOST_WHISKERS,
    }


def are_even(bins: PictureRows) -> bool:
    """Return whether all bins with two edges have the same width."""
    ends = [(row["bin_low"], row["bin_high"]) for row in bins]
    widths = [high - low for low, high in ends if low is not None and high is not None]
    return not widths or max(widths) - min(widths) <= 1e-3 * max(widths)


def without_peaks(bins: PictureRows) -> PictureRows:
    """Return the bins without the first and the last, where these have no width on the axis, as a
    bin of all zeros, and are PEAK times as high as any other."""
    if are_even(bins):
        return bins
    heights = [row["estimate"] / width for row, width in zip(bins, _widths(bins), strict=True)]
    most = PEAK * max([0.0, *heights[1:-1]])
    first, last = (
        height > most and _doublings(row["bin_low"], row["bin_high"]) == 0
        for row, height in ((bins[0], heights[0]), (bins[-1], heights[-1]))
    )
    return bins[first : len(bins) - last]


def _widths(bins: PictureRows) -> list[float]:
    """Return the drawn width of each bin: 1 if all bins have the same width. Else it is the number
    of doublings from edge to edge, and for a bin at 0 or with an open edge the mean of the
    others."""
    if are_even(bins):
        return [1.0] * len(bins)
    spans = [_doublings(row["bin_low"], row["bin_high"]) for row in bins]
    usual = fmean([span for span in spans if span] or [1.0])
    return [span or usual for span in spans]


def _doublings(low: Number, high: Number) -> float:
    """Return the number of doublings from one edge to the other. It is 0 where it is not
    defined."""
    return abs(math.log2(high / low)) if low and high and low * high > 0 else 0.0


def place_among(bins: PictureRows) -> Callable[[Number, float], float]:
    """Return the function from a number to its place on the axis of `bins`, from 0 to 1. For None
    it returns `otherwise`."""
    widths, is_even = _widths(bins), are_even(bins)
    starts = [0.0, *accumulate(widths)]
    lows = [-math.inf if row["bin_low"] is None else row["bin_low"] for row in bins]

    def place(number: Number, otherwise: float) -> float:
        if number is None:
            return otherwise
        at = max(0, bisect_right(lows, number) - 1)
        low, high = bins[at]["bin_low"], bins[at]["bin_high"]
        inside = 0.5
        if low is not None and high is not None and high > low:
            inside = min(max((number - low) / (high - low), 0.0), 1.0)
            if not is_even and 0 < inside < 1 and low * high > 0:
                inside = math.log(number / low) / math.log(high / low)
        return round((starts[at] + inside * widths[at]) / starts[-1], 5)

    return place


def _edges(bins: PictureRows, widths: Sequence[float]) -> list[dict[str, Any]]:
    """Return the edges that are written below a histogram, only as many as fit beside each
    other."""
    labels: list[dict[str, Any]] = []
    edges = [row["bin_low"] for row in bins] + [bins[-1]["bin_high"]]
    for edge, start in zip(edges, [0.0, *accumulate(widths)], strict=True):
        at = round(start / sum(widths), 5)
        if edge is not None and (not labels or at - labels[-1]["at"] >= 1 / MOST_LABELS):
            labels.append({"text": quantity(edge), "at": at})
    return labels


def bin_text(low: Number, high: Number) -> str:
    if low is not None and low == high:
        return quantity(low)
    return span(low, high).replace("at most", "below").replace("at least", "from")


def grid(rows: PictureRows, members: Sequence[str], axis: Axis) -> dict[str, Any]:
    """Return a heat map of combinations of two `members`: columns, and lines of cells. The member
    with more values goes down the side. A cell is a row with its `shade`, the place of its share on
    the `axis`."""
    axes = [ordered(rows, 0), ordered(rows, 1)]
    side, across = (0, 1) if len(axes[0]) >= len(axes[1]) else (1, 0)
    columns = axes[across][:MOST_COLUMNS]
    cells = {
        (row["values"][side], row["values"][across]): {
            **row,
            "shade": round(100 * axis.place(row["share"]), 1),
        }
        for row in rows
    }
    lines = [
        {
            "value": value,
            "cells": [cells.get((value, column)) for column in columns],
        }
        for value in axes[side][:MOST_LINES]
    ]
    return {
        "side": members[side],
        "across": members[across],
        "columns": columns,
        "lines": lines,
        "is_wide": len(columns) > WIDE,
        "is_cut": len(axes[side]) > MOST_LINES or len(axes[across]) > MOST_COLUMNS,
    }


def ordered(rows: PictureRows, member: int) -> list[Any]:
    """Return the values of a `member` of combinations, the most frequent first, other values
    last."""
    counts = defaultdict[str, float](float)
    for row in rows:
        counts[str(row["values"][member])] += row["estimate"]
    return sorted(counts, key=lambda name: (name == OTHER, -counts[name], name))
