"""A number by category on the page: a chart a statistic, with a line a category."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from ldp.report.formats import percent, quantity, span, ticks
from ldp.report.numbers import Rows, TrueNumbers, are_even, holds, meaning, split, true_numbers
from ldp.report.numbers import facts as facts_of_numbers
from ldp.tables.saved import SavedResult

TOTAL = "reports"
"""Statistic that is the number of reports of a category."""
BEYOND = 4.0
"""Largest ratio of an interval's end to its estimate for which a logarithmic axis has it whole."""
DIGITS, FEWEST = ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)), 3
"""First digits of the numbers at a logarithmic axis: the first of these with the fewest or more."""

Row = Mapping[str, Any]
Place = Callable[[float | None, float], float]


def _by_category(file: SavedResult) -> dict[str, tuple[Rows, Rows]]:
    """Return statistics and bins of each category, in the order of the file."""
    groups = groupby(file.rows(), lambda row: str(row["value"]))
    return {category: split(rows) for category, rows in groups}


def face(file: SavedResult, truth: Mapping[str, TrueNumbers] | None) -> dict[str, Any]:
    """Return the data of the page of a `file`: a chart for each statistic, largest first. `truth`:
    the numbers of each category of a simulation, drawn beside."""
    groups = _by_category(file)
    statistics = {category: rows for category, (rows, _) in groups.items()}
    names = [row["statistic"] for row in next(iter(statistics.values()))]
    is_even = all(are_even(bins) for _, bins in groups.values())
    shares = {
        category: percent(max(0.0, row["estimate"]) / max(1, file.facts["reports"]))
        for category, rows in statistics.items()
        for row in rows
        if row["statistic"] == TOTAL
    }
    return {
        "charts": [_chart(file, statistics, name, truth, is_even) for name in names],
        "shares": shares,
        "has_truth": truth is not None,
    }


def _chart(
    file: SavedResult,
    statistics: Mapping[str, Rows],
    name: str,
    truth: Mapping[str, TrueNumbers] | None,
    is_even: bool,
) -> dict[str, Any]:
    """Return the lines of one statistic, and their axis."""
    is_total, n = name == TOTAL, max(1, file.facts["reports"])
    unit, words = (n / 100, _points) if is_total else (1, quantity)
    lines: list[dict[str, Any]] = []
    for category, rows in statistics.items():
        row = next((row for row in rows if row["statistic"] == name), None)
        if row is None:
            continue
        low, number, high = (
            None if row[end] is None else row[end] / unit for end in ("low", "estimate", "high")
        )
        known = None if truth is None else _known(truth.get(category), name)
        lines.append(
            {
                "category": category,
                "number": number,
                "low": low,
                "high": high,
                "text": "not known" if number is None else words(number),
                "span": f"{span(low, high)} %" if is_total else span(low, high),
                "truth": None if known is None else words(known / unit),
                "known": None if known is None else known / unit,
                "holds": known is None or holds(row, known),
            }
        )
    lines.sort(key=lambda line: -math.inf if line["number"] is None else -line["number"])
    place, marks, is_log = _axis(lines, is_total or is_even)
    for line in lines:
        line["start"], line["end"] = place(line["low"], 0.0), place(line["high"], 1.0)
        line["at"] = None if line["number"] is None else place(line["number"], 0.0)
        line["known"] = None if line["known"] is None else place(line["known"], 0.0)
    return {
        "name": "Share of all reports" if is_total else name,
        "about": "" if is_total else meaning(name),
        "lines": lines,
        "differences": [
            f"{higher} is above {', '.join(row['lower'] for row in some)}"
            for higher, some in groupby(
                (row for row in file.facts.get("differences", ()) if row["statistic"] == name),
                lambda row: str(row["higher"]),
            )
        ],
        "ticks": [{**mark, "text": f"{mark['text']} %"} for mark in marks] if is_total else marks,
        "is_log": is_log,
    }


def _points(number: float) -> str:
    return percent(number / 100)


def _known(true: TrueNumbers | None, name: str) -> float | None:
    """Return the statistic of the numbers of a category, None where nobody is of it."""
    if name == TOTAL:
        return 0.0 if true is None else float(true.between(None, None))
    return true.statistic(name) if true else None


def _axis(
    lines: Sequence[Mapping[str, Any]], is_linear: bool
) -> tuple[Place, list[dict[str, Any]], bool]:
    """Return the function from a number to its place on the axis, from 0 to 1, which of None is
    its second argument; round numbers on the axis; and whether it is logarithmic. It has all
    intervals that end within BEYOND times their estimates; of others the part that lies on it."""
    closed = [line for line in lines if None not in (line["low"], line["high"], line["number"])]
    if not is_linear:
        closed = [row for row in closed if 0 < row["high"] <= BEYOND * row["number"]] or closed
    ends = [line[end] for line in closed for end in ("low", "high")] or [0.0, 1.0]
    others = (line[end] for line in lines for end in ("low", "number"))
    ends += [number for number in others if number is not None and 0 < number < max(ends)]
    is_log = not is_linear and min(ends) > 0
    low, high = min(ends) if is_log else min(0.0, *ends), max(ends)
    scale: Callable[[float], float] = math.log if is_log else float
    first, length = scale(low), (scale(high) - scale(low)) or 1.0

    def place(number: float | None, otherwise: float) -> float:
        if number is None:
            return otherwise
        if is_log and number <= 0:
            return 0.0
        return round(min(max((scale(number) - first) / length, 0.0), 1.0), 5)

    if not is_log:
        return place, ticks(low, high), is_log
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    numbers: list[float] = []
    for digits in DIGITS:
        numbers = [digit * 10.0**power for power in powers for digit in digits]
        numbers = [number for number in numbers if low <= number <= high]
        if len(numbers) >= FEWEST:
            break
    return place, [{"text": quantity(x), "at": place(x, 0.0)} for x in numbers], is_log


def facts(file: SavedResult) -> list[tuple[str, str]]:
    """Return what must be trusted of a file: pairs of a question and its answer."""
    categories = len(file.facts["categories"])
    words = (
        f"A report tells of a pair of one of {categories} categories and a number, with one noise "
        "for both. Categories are estimated apart: a rare one has wide intervals, and shares add "
        "to 100 % within their errors only."
    )
    return [*facts_of_numbers(file), ("Categories", words)]


def truth_of(truth: Mapping[Any, int]) -> Mapping[str, TrueNumbers] | None:
    """Return the numbers of each category of a `truth` with pairs; None for another."""
    if not all(isinstance(value, tuple) and len(value) == 2 for value in truth):
        return None
    of: dict[str, dict[str, int]] = {}
    for (category, number), count in truth.items():
        of.setdefault(category, {})[number] = count
    known = {category: true_numbers(counts) for category, counts in of.items()}
    return {category: TrueNumbers(counts) for category, counts in known.items() if counts}
