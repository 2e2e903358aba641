"""A number by category on the page: one chart for each statistic, with one line a category."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from ldp.report.drawings import PictureRows, are_even, axis_of, bars
from ldp.report.formats import percent, quantity, span
from ldp.report.number_face import facts as facts_of_numbers
from ldp.report.number_face import holds, split_rows, statistic_meaning
from ldp.tables.saved import SavedResult
from ldp.tables.statistics import NOT_ENOUGH, known_ends, quantile_of, reports_needed, tells
from ldp.tables.truth import TOTAL, TrueNumbers

ENDS = ((0, "bin_low"), (-1, "bin_high"))
"""Index and field of each end of the range of all bins."""


def face(file: SavedResult, truth: Mapping[str, TrueNumbers] | None) -> dict[str, Any]:
    """Return the data of the page of a `file`: a chart for each statistic, largest share first.
    `truth`: the numbers of each category of a simulation, drawn beside."""
    by_category = groupby(file.rows(), lambda row: str(row["value"]))
    groups = {category: split_rows(rows) for category, rows in by_category}
    held = {category: _row(rows, TOTAL)["estimate"] for category, (rows, _) in groups.items()}
    groups = dict(sorted(groups.items(), key=lambda pair: -held[pair[0]]))
    statistics = {category: rows for category, (rows, _) in groups.items()}
    names = [row["statistic"] for row in next(iter(statistics.values()))]
    is_even = all(are_even(bins) for _, bins in groups.values())
    ends = [bins[place][end] for _, bins in groups.values() for place, end in ENDS if bins]
    whole = max(ends) - min(ends) if is_even and ends and None not in ends else None
    n = max(1, file.facts["reports"])
    return {
        "charts": [_chart(file, statistics, name, truth, is_even, whole) for name in names],
        "shares": {category: percent(max(0.0, held[category]) / n) for category in groups},
        "has_truth": truth is not None,
    }


def _chart(
    file: SavedResult,
    statistics: Mapping[str, PictureRows],
    name: str,
    truth: Mapping[str, TrueNumbers] | None,
    is_even: bool,
    whole: float | None,
) -> dict[str, Any]:
    """Return the lines of one statistic, and their axis."""
    is_total, n = name == TOTAL, max(1, file.facts["reports"])
    unit, words = (n / 100, _points) if is_total else (1, quantity)
    lines: list[dict[str, Any]] = []
    for category, rows in statistics.items():
        row = _row(rows, name)
        if row is None:
            continue
        low, number, high = (
            None if end is None else end / unit
            for end in (row["low"], row["estimate"], row["high"])
        )
        if not is_total:
            low, high = known_ends(low, high)
        q = quantile_of(name)
        if q is not None and not tells(low, high, whole, number):
            number, text = None, _not_enough(_row(rows, TOTAL), q, n)
        elif number is not None and (is_total or None not in (low, high)):
            text = words(number)
        else:
            number, text = None, span(low, high)
        known = None if truth is None else truth.get(category, TrueNumbers({})).statistic(name)
        lines.append(
            {
                "category": category,
                "estimate": number,
                "low": low,
                "high": high,
                "text": text,
                "span": f"{span(low, high)} %" if is_total else span(low, high),
                "truth": None if known is None else known / unit,
                "holds": known is None or holds(row, known),
            }
        )
    axis = axis_of(lines, is_total or is_even)
    suffix = " %" * is_total
    return {
        "name": "Share of all reports" if is_total else name,
        "about": "" if is_total else statistic_meaning(name),
        "lines": [
            {**line, "truth": None if line["truth"] is None else words(line["truth"])}
            for line in bars(lines, axis)
        ],
        "differences": [
            f"{higher} is above {', '.join(row['lower'] for row in some)}"
            for higher, some in groupby(
                (row for row in file.facts.get("differences", ()) if row["statistic"] == name),
                lambda row: str(row["higher"]),
            )
        ],
        "ticks": [{**tick, "text": tick["text"] + suffix} for tick in axis.ticks],
        "is_log": axis.is_log,
    }


def _row(rows: PictureRows, name: str) -> Any:
    """Return the row of a statistic, None where there is none."""
    return next((row for row in rows if row["statistic"] == name), None)


def _not_enough(held: Any, q: float, reports: int) -> str:
    """Return the text in place of a percentile that the reports do not tell: how many it takes."""
    needed = reports_needed(q, reports, held["estimate"], held["std_error"])
    least = "more than" if held["estimate"] < held["std_error"] else "about"
    return f"{NOT_ENOUGH}: it takes {least} {needed:,.0f}"


def _points(number: float) -> str:
    return percent(number / 100)


def facts(file: SavedResult) -> list[tuple[str, str]]:
    """Return what must be known to trust a file: pairs of a question and its answer."""
    categories = len(file.facts["categories"])
    words = (
        f"A report tells of a pair of one of {categories} categories and a number, with one noise "
        "for both. Categories are estimated apart: a rare one has wide intervals, and shares add "
        "to 100 % within their errors only."
    )
    return [*facts_of_numbers(file), ("Categories", words)]
