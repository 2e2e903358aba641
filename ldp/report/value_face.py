"""Values on the page: few categories all together, a long list from its largest, or words."""

import itertools
import math
from collections.abc import Iterator, Mapping
from statistics import NormalDist
from typing import Any

import numpy as np

from ldp.files import counted
from ldp.report.drawings import Axis, bars
from ldp.report.formats import percent, tenths, whole_number
from ldp.tables.fakes import NO_BOUND, damage_words
from ldp.tables.saved import Facts, SavedResult

MOST_FEW = 25
"""Largest number of candidates that all stand in one table."""

UNLISTED = ("puzzle", "prefixes", "ngrams")
"""Methods whose candidates come from no list, so that it may be that nobody holds any of them."""


def compared(results: SavedResult, truth: Mapping[str, int]) -> dict[str, Any]:
    """Return how the estimates compare with the truth of a simulation: counts of discoveries, of
    false ones, and of intervals that hold. A candidate that the truth does not name is held by
    nobody."""
    numbers, values = results.numbers, results.texts("value")
    held = np.array([truth.get(value, 0) for value in values])
    is_held, discovered = held > 0, numbers("discovered") > 0
    holds = (numbers("low") <= held) & (held <= numbers("high"))
    selected = (numbers("selected_low") <= held) & (held <= numbers("selected_high"))
    unlisted = {*truth}.difference(values)
    whole = sum(truth.values()) == results.facts["reports"]
    return {
        "level": results.level,
        "held_by_somebody": int(is_held.sum()),
        "unnamed": sum(value not in truth for value in values),
        "unlisted": sum(truth[value] > 0 for value in unlisted) if whole else None,
        "unexplained": sum(truth[value] for value in unlisted) if whole else None,
        "below_floor": int((held[is_held] < results.facts["noise_floor"]).sum()),
        "false": int((discovered & ~is_held).sum()),
        "intervals_hold": float(holds.mean()) if holds.size else None,
        "selected_hold": float(selected[discovered].mean()) if discovered.any() else None,
    }


def face(results: SavedResult, truth: Mapping[str, int] | None, most: int) -> dict[str, Any]:
    """Return the data of the page of `results`, with at most `most` rows of discoveries and at most
    as many other rows. `truth`: the count of each value in a simulation."""
    summary, places = results.facts, results.where("discovered")
    is_few = results.size <= MOST_FEW
    listing = results.rows(None if is_few else places[:most])
    low_name, high_name = ("low", "high") if is_few else ("selected_low", "selected_high")
    n, floor = max(1, summary["reports"]), summary["noise_floor"]
    is_findable = summary["threshold"] is not None or not summary.get("warning")
    tops: list[float] = [row[high_name] for row in listing]
    tops += [truth.get(row["value"], 0) for row in listing] if truth else []
    if is_findable and any(row["discovered"] for row in listing):
        tops.append(floor)
    axis = Axis(0.0, max([1e-9, *tops]))

    def line(rank: int, row: Facts) -> dict[str, Any]:
        low, high = row[low_name], row[high_name]
        held = None if truth is None else truth.get(row["value"], 0)
        inside = min(max(row["estimate"], 0), summary["reports"])
        holds = held is None or low <= held <= high
        added = {"rank": rank, "shown": inside, "share": inside / n, "truth": held, "holds": holds}
        return {**row, **added, "low": low, "high": high}

    rest = [] if is_few else np.flatnonzero(results.numbers("discovered") == 0)[:most].tolist()
    others = [
        {**row, "rank": place + 1, "truth": None if truth is None else truth.get(row["value"], 0)}
        for place, row in zip(rest, results.rows(rest), strict=True)
    ]
    return {
        "is_few": is_few,
        "left_out": 0 if is_few else results.size - len(listing) - len(others),
        "bars": bars(map(line, itertools.count(1), listing), axis),
        "others": others,
        "found": len(places),
        "rest": results.size - len(places),
        "parts": _parts(results),
        "unexplained": _unexplained(results),
        "answers": _answers(summary),
        "comparison": None if truth is None else compared(results, truth),
        "is_findable": is_findable,
        "is_unlisted": summary["method"] in UNLISTED,
        "floor": axis.place(floor) if is_findable else None,
        "ticks": Axis(0.0, 100 * axis.high / n).ticks,
        "is_clipped": any(
            row["estimate"] > summary["reports"] or row["estimate"] < 0 for row in listing
        ),
        "from_zero": sum(row[low_name] < 0.5 for row in listing if row["discovered"]),
    }


def _parts(results: SavedResult) -> list[tuple[str, str, float]]:
    """Return what all reports hold, in three parts that add to 100 %: name, percentage as text, and
    share. For sets of answers return no part, because a report holds several answers."""
    summary = results.facts
    if "at_most" in summary or not summary["reports"]:
        return []
    found_sum = math.fsum(results.numbers("estimate")[results.where("discovered")])
    unlisted = summary["unexplained"]
    below = summary["reports"] - found_sum - unlisted
    is_unlisted = summary["method"] in UNLISTED
    names = ["found", "listed, but below the noise", "on no list"]
    if summary["threshold"] is not None:
        names[1] = "listed, but below the threshold"
    if is_unlisted:
        names[1:] = ["put together, but below the noise", "other words"]
    counts = [max(0.0, count) for count in (found_sum, below, unlisted)]
    total = sum(counts) or 1.0
    shares = [round(count / total, 5) for count in counts]
    return list(zip(names, tenths(counts), shares, strict=True)) if sum(counts) else []


def facts(results: SavedResult, page: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what must be known to trust `results`, with the data of its `page`: pairs of a question
    and its answer."""
    summary, comparison = results.facts, page["comparison"]
    alpha, n = percent(summary["alpha"]), max(1, summary["reports"])
    floor = counted(summary["noise_floor"], "report")
    yield (
        "Error rate",
        _error_rate(summary, alpha),
    )
    if summary.get("warning"):
        level = percent(summary["level"])
        yield "Intervals", f"Nominal, {level}; how often they hold the true count is not claimed."
    elif page["is_few"]:
        yield (
            "Intervals",
            f"Each holds the true count with probability {percent(summary['level'])}, by itself.",
        )
    else:
        yield (
            "Intervals",
            f"On average {percent(summary['level'])} of those of found values hold the true "
            "count, although only the largest are listed.",
        )
    error = counted(summary["noise_std_error"], "report")
    noise = f"The standard error of a value that nobody holds is {error}."
    if page["is_findable"] and summary["noise_floor"] > summary["reports"]:
        noise += f" To be found half of the time a value would need {floor}, more than there are."
    elif page["is_findable"] and summary["noise_floor"] > 0:
        share = percent(summary["noise_floor"] / n)
        noise += f" A value needs about {floor} ({share} of all) to be found half of the time."
    yield "Noise", noise
    if summary.get("fakes") is not None:
        yield "Made-up reports", _under_fakes(summary)
    elif summary.get("fakes_move") is not None:
        moved = f"{whole_number(summary['fakes_move'])} ({percent(summary['fakes_move'] / n)})"
        yield "Made-up reports", f"1 % of them {damage_words(summary, moved)}."
    else:
        yield "Made-up reports", f"{NO_BOUND}."
    if comparison is not None:
        held = comparison["intervals_hold" if page["is_few"] else "selected_hold"]
        false = counted(comparison["false"], "was", "were")
        coverage = "" if held is None else f"{percent(held)} of the intervals hold the true count. "
        values = counted(summary["detected"], "found value")
        yield "Against the truth", f"{coverage}Of the {values}, {false} held by nobody."


def _under_fakes(summary: Facts) -> str:
    raised, lowered = (whole_number(summary[name]) for name in ("fakes_raise", "fakes_lower"))
    return (
        f"Intervals and found values hold for the honest reports, whatever up to "
        f"{percent(summary['fakes'])} of all reports say and whoever chose it with knowledge of "
        f"all others: these can raise a count by {raised} and lower it by {lowered}, and each "
        "interval is that much longer. Nothing is claimed for more made-up reports."
    )


def _error_rate(summary: Facts, alpha: str) -> str:
    if summary["threshold"] is not None:
        threshold = counted(summary["threshold"], "report")
        return f"None is claimed: found is every value whose estimate reaches {threshold}."
    if summary["control"] == "fdr":
        return f"On average at most {alpha} of the found values are false: held by nobody."
    if summary["control"] == "bonferroni":
        return (
            f"With probability {percent(1 - summary['alpha'])} or more, somebody holds each of the "
            "found values."
        )
    listed = whole_number(summary["alpha"] * summary["candidates"])
    return (
        f"Each candidate was tested at {alpha} by itself, with no control for how many there are: "
        f"of {whole_number(summary['candidates'])} values that nobody holds, about {listed} would "
        "be found."
    )


def _unexplained(results: SavedResult) -> dict[str, Any]:
    """Return how many reports no candidate explains, with the standard error, None where it is not
    known. `zero`: whether there may be no such report."""
    summary = results.facts
    count, error = summary["unexplained"], summary["unexplained_std_error"]
    is_zero = count <= _reach(summary) * (error or 0.0)
    return {"count": count, "std_error": error, "exact": error == 0, "zero": is_zero}


def _reach(summary: Facts) -> float:
    """Return how many standard errors an interval of the summary's level reaches to each side."""
    level: float = summary["level"]
    return -NormalDist().inv_cdf((1 - level) / 2)


def _answers(summary: Facts) -> dict[str, Any] | None:
    """Return how many answers people have on average, with an interval. Returns None where a value
    is not a set of answers."""
    keys = ("at_most", "answers_each", "answers_each_std_error")
    if not summary.keys() >= {*keys}:
        return None
    most, each, error = (summary[key] for key in keys)
    reach = _reach(summary) * error
    low, high = (min(max(end, 0.0), most) for end in (each - reach, each + reach))
    return {"at_most": most, "each": each, "low": low, "high": high}
