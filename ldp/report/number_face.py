"""A number on the page: its statistics with intervals, and its histogram in the order of bins."""

import math
from collections.abc import Iterable, Mapping
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.report.drawings import (
    Axis,
    PictureRows,
    bars,
    bin_text,
    histogram,
    place_among,
    without_peaks,
)
from ldp.report.formats import percent, quantity, span
from ldp.tables.result import COUNT
from ldp.tables.saved import Facts, SavedResult
from ldp.tables.statistics import PERCENTILE, known_ends
from ldp.tables.truth import TrueNumbers


def split_rows(rows: Iterable[Facts]) -> tuple[PictureRows, PictureRows]:
    """Return the statistics among some rows, and the bins."""
    several = [*rows]
    bins = [row for row in several if row["statistic"] == COUNT]
    return [row for row in several if row["statistic"] != COUNT], bins


def facts(file: SavedResult) -> list[tuple[str, str]]:
    """Return what must be known to trust a file: pairs of a question and its answer."""
    summary = file.facts
    level, fakes = percent(summary["level"]), summary.get("fakes_move")
    answers = [
        (
            "Intervals",
            f"Each holds the number of the population that the reports come from with probability "
            f"{level}, by itself. \u201cAt least\u201d and \u201cat most\u201d: the reports set no "
            "other end.",
        )
    ]
    moves: Mapping[str, Any] = fakes if isinstance(fakes, dict) else {"the mean": fakes}
    moved = ", ".join(
        f"{name} by {percent(far) if 'share' in name else quantity(far)}"
        for name, far in moves.items()
        if far is not None
    )
    if summary.get("fakes") is not None:
        answers.append(("Made-up reports", _under_fakes(summary)))
    elif moved:
        answers.append(("Made-up reports", f"1 % of them could move {moved}."))
    return answers


def _under_fakes(summary: Facts) -> str:
    is_below = isinstance(summary.get("fakes_move"), dict)
    words, what = (percent, "the share below any number") if is_below else (quantity, "the mean")
    raised, lowered = (words(summary[name]) for name in ("fakes_raise", "fakes_lower"))
    return (
        f"Intervals hold for the honest reports, whatever up to {percent(summary['fakes'])} of all "
        f"reports say: these can raise {what} by {raised} and lower it by {lowered}, and each "
        "interval is longer by what they can do to it. Nothing is claimed for more made-up reports."
    )


def ends(row: Facts) -> tuple[float | None, float | None]:
    """Return the ends of a statistic's interval, None for an end that says nothing."""
    is_percentile = row["statistic"].startswith("p")
    return known_ends(row["low"], row["high"]) if is_percentile else (row["low"], row["high"])


def _estimate_text(row: Facts) -> str:
    """Return a statistic's estimate as text: in an open bin it is at most, or at least, its end."""
    number, both = row["estimate"], ends(row)
    if number is None:
        return "beyond the bins"
    return span(*both) if None in both and number in both else quantity(number)


def face(file: SavedResult, truth: Mapping[float, int] | None) -> dict[str, Any]:
    """Return the data of the page of a `file`: rows of statistics, and a histogram. `truth`: the
    count of each number in a simulation, drawn beside."""
    of_all, every = split_rows(file.rows())
    bins = _visible_bins(file.level, of_all, every)
    edges = {row["bin_low"] for row in [*without_peaks(every), *bins]}
    beyond = [row for row in every if row["low"] and row["bin_low"] not in edges]
    place = place_among(bins)
    true = None if truth is None else TrueNumbers(truth)
    statistics = []
    for row in of_all:
        known = true.statistic(row["statistic"]) if true else None
        has_place = row["statistic"] != "variance" and _is_among(row["estimate"], bins)
        statistics.append(
            {
                **row,
                "about": statistic_meaning(row["statistic"]),
                "text": _estimate_text(row),
                "span": span(*ends(row)),
                "truth": known,
                "holds": known is None or holds(row, known),
                "at": place(row["estimate"], 1.0) if has_place else None,
                "start": place(row["low"], 0.0) if has_place else 0.0,
                "end": place(row["high"], 1.0) if has_place else 1.0,
            }
        )
    return {
        "statistics": statistics,
        "histogram": histogram(file.facts["reports"], bins, true.between if true else None)
        if bins
        else None,
        "has_truth": true is not None,
        "left_out": len(every) - len(bins) - len(beyond),
        "beyond": [
            f"{percent(row['estimate'] / file.facts['reports'])} of the reports are "
            + bin_text(row["bin_low"], row["bin_high"])
            for row in beyond
        ],
    }


def statistic_meaning(statistic: str) -> str:
    percentile = PERCENTILE.fullmatch(statistic)
    if statistic == "p50":
        return "the median"
    return f"{percentile[1]} % are at or below" if percentile else ""


def holds(row: Facts, known: float) -> bool:
    is_above = row["low"] is None or row["low"] <= known
    return is_above and (row["high"] is None or known <= row["high"])


def _are_above_noise(level: float, bins: PictureRows) -> NDArray[np.bool_]:
    """Return whether each bin stands out from the noise of all. Neighbours that do not are taken
    together, 2, 4, 8, ... at a time: shape (bins,)."""
    reach = NormalDist().inv_cdf(1 - (1 - level) / max(1, len(bins)))
    counts = np.array([row["estimate"] for row in bins])
    variance = np.array([(row["std_error"] or math.inf) ** 2 for row in bins])
    above, size = np.zeros(len(bins), bool), 1
    while size < 2 * len(bins):
        starts = np.arange(0, len(bins), size)
        noise = reach * np.add.reduceat(variance, starts) ** 0.5
        is_told = np.add.reduceat(counts, starts) > noise
        is_told &= ~np.logical_or.reduceat(above, starts)
        above |= np.repeat(is_told, size)[: len(bins)]
        size *= 2
    return above


def _visible_bins(level: float, statistics: PictureRows, bins: PictureRows) -> PictureRows:
    """Return the bins from the first to the last that stands out from the noise, or in which a
    statistic lies, with one more on each side, and without peaks. Returns all bins if there are
    none."""
    wide = without_peaks(bins)
    numbers = [
        row["estimate"]
        for row in statistics
        if row["statistic"] != "variance" and row["estimate"] not in (row["low"], row["high"], None)
    ]
    places = [
        i
        for i, is_told in enumerate(_are_above_noise(level, wide))
        if is_told or any(_is_among(number, wide[i : i + 1]) for number in numbers)
    ]
    return wide[max(0, places[0] - 1) : places[-1] + 2] if places else bins


def _is_among(number: float | None, bins: PictureRows) -> bool:
    """Return whether a number lies in some neighbouring bins; None lies beyond the last."""
    if number is None or not bins:
        return bool(bins)
    low, high = bins[0]["bin_low"], bins[-1]["bin_high"]
    return (low is None or low <= number) and (high is None or number < high)


def facts_of_coefficients(file: SavedResult) -> list[tuple[str, str]]:
    """Return what must be known to trust a `file`: pairs of a question and its answer."""
    answers = []
    if "level" in file.facts:
        answers.append(
            (
                "Intervals",
                f"Each holds the least-squares coefficient of the population that the reports come "
                f"from with probability {percent(file.facts['level'])}, by itself.",
            )
        )
    if "fakes_move" in file.facts:
        words = "1 % of them could move each coefficient as far as its last column says."
        answers.append(("Made-up reports", words))
    return answers


def coefficient_rows(file: SavedResult) -> dict[str, Any]:
    """Return the data of the page of a regression: terms on an axis that all coefficients but the
    intercept share."""
    moves = file.facts.get("fakes_move") or [None] * file.size
    rows = [
        {
            **row,
            "fakes_move": far,
            "text": quantity(row["estimate"]),
            "span": span(row["low"], row["high"]),
        }
        for row, far in zip(file.rows(), moves, strict=True)
    ]
    ends = [0.0, *(row[name] or 0.0 for row in rows[:-1] for name in ("estimate", "low", "high"))]
    axis = Axis(min(ends), max(ends))
    lines = [*bars(rows[:-1], axis), {**rows[-1], "at": None}]
    return {"rows": lines, "zero": axis.place(0.0), "ticks": axis.ticks}
