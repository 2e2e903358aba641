"""The same metric on several days: which differences are more than noise.

Holm 1979, "A simple sequentially rejective multiple test procedure": with probability 1 - alpha or
more there is no false change among those that are reported, however many values are compared and
however their tests depend on each other.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from ldp.report.formats import percent
from ldp.tables.saved import SavedResult


class ShareChange(NamedTuple):
    """Change of a value's share of the reports between two days, given by their places in time: the
    `difference` of the shares, its standard error, and its p-value under no change, `adjusted` for
    all values that were compared."""

    value: str
    earlier: int
    later: int
    difference: float
    std_error: float
    p_value: float
    adjusted: float


class SharePoint(NamedTuple):
    """Share of a value on one day with its interval, and the variance of the noise in it, infinite
    where it is not known."""

    share: float
    low: float
    high: float
    variance: float


def in_order(results: Sequence[SavedResult]) -> list[list[SavedResult]]:
    """Return lists of the files of one mechanism on different days, each list in the order of time.
    Files that share a day with another file, or state no days, are in no list."""
    alike: dict[str, list[SavedResult]] = {}
    for result in results:
        alike.setdefault(result.facts["fingerprint"], []).append(result)
    series = []
    for several in alike.values():
        several = sorted(several, key=lambda result: result.facts["windows"])
        days = [day for result in several for day in result.facts["windows"]]
        has_days = all(result.facts["windows"] for result in several)
        if len(several) > 1 and has_days and days == sorted(set(days)):
            series.append(several)
    return series


def why_not_tested(days: Sequence[SavedResult]) -> str:
    """Return why differences between these days cannot be tested. Returns "" if they can."""
    for result in days:
        if result.facts.get("warning"):
            return f"{result.name} claims no error rate"
        if result.facts.get("consistency_bias"):
            return f"the counts of {result.name} were made consistent, which biases them"
        if not result.facts["reports"]:
            return f"{result.name} has no reports"
    return ""


def _points_of(result: SavedResult) -> dict[str, SharePoint]:
    """Return the share of each value on one day. Without reports there is none."""
    if not (n := result.facts["reports"]):
        return {}
    variance = (result.facts.get("tail", 1.0) * result.numbers("std_error") / n) ** 2
    shares = [result.numbers(name) / n for name in ("estimate", "low", "high")]
    columns = (column.tolist() for column in (*shares, variance))
    return dict(zip(result.texts("value"), map(SharePoint, *columns), strict=True))


def compared_days(days: Sequence[SavedResult]) -> list[ShareChange]:
    """Return the changes from each day to the next, and from the first to the last, of every value
    that has an estimate and a standard error on both, the strongest evidence first.

    The variance of a share is that of its estimate plus K f (1 - f) / n, because people are drawn
    from a population and a person sends up to K reports. Here f is taken over both days and four
    more people, two of whom hold the value. Where errors reach further than normal ones, standard
    errors are as much wider. p-values are two-sided."""
    points = [*map(_points_of, days)]
    people = [day.facts["reports"] / day.facts.get("reports_per_person", 1) for day in days]
    changes = []
    for earlier, later in dict.fromkeys([*pairwise(range(len(days))), (0, len(days) - 1)]):
        first, n, m = points[earlier], people[earlier], people[later]
        for value, new in points[later].items():
            if value not in first or not first[value].variance + new.variance < math.inf:
                continue
            old, difference = first[value], new.share - first[value].share
            holders = sum(min(max(f, 0.0), 1.0) * k for f, k in ((old.share, n), (new.share, m)))
            held = (holders + 2) / (n + m + 4)
            spread = held * (1 - held)
            error = math.sqrt(old.variance + new.variance + spread / n + spread / m)
            p_value = math.erfc(abs(difference) / error / math.sqrt(2))
            changes.append(ShareChange(value, earlier, later, difference, error, p_value, p_value))
    changes.sort(key=lambda change: change.p_value)
    remaining = range(len(changes), 0, -1)
    bounds = (min(1.0, many * c.p_value) for many, c in zip(remaining, changes, strict=True))
    adjusted = accumulate(bounds, max)
    return [c._replace(adjusted=p) for c, p in zip(changes, adjusted, strict=True)]


MOST_TRENDS = 100


SPARK_WIDTH, SPARK_HEIGHT = 120, 30
"""Sizes of the drawing of a trend, in the units of the drawing."""


def trend(several: Sequence[SavedResult]) -> dict[str, Any]:
    """Return the section about one metric on several days: one row for each value that was
    discovered on some day or changed, the largest of the last day first."""
    latest, why, last = several[-1], why_not_tested(several), len(several) - 1
    alpha = latest.facts["alpha"]
    changes = [] if why else compared_days(several)
    by_place = {change[:3]: change for change in changes}
    beyond = {change[:3] for change in changes if change.adjusted <= alpha}
    changed = {value for value, _, _ in beyond}
    listed = [*map(_points_of, several)]
    wanted = {str(r.saved["value"][i]) for r in several for i in r.where("discovered")} | changed
    points = {value: [day.get(value) for day in listed] for value in wanted}

    def size(value: str) -> float:
        """Return the value's share on the last day that has an estimate of it."""
        return next((point.share for point in reversed(points[value]) if point), 0.0)

    days = [result.days for result in several]
    steps = dict.fromkeys([(last - 1, last), (0, last)])
    rows = [
        {
            "value": value,
            "now": points[value][-1],
            "spark": _spark(
                points[value], days, [(value, i - 1, i) in beyond for i in range(last + 1)]
            ),
            "steps": [_step(by_place.get((value, *step)), alpha) for step in steps],
        }
        for value in sorted(wanted, key=lambda value: (-size(value), value))[:MOST_TRENDS]
    ]
    return {
        "results": list(several),
        "name": latest.facts["labels"][0]["metric"] if latest.facts.get("labels") else "",
        "rows": rows,
        "left_out": len(wanted) - len(rows),
        "why": why,
        "alpha": alpha,
        "level": latest.facts["level"],
        "tested": len(changes),
        "compared": len({change.value for change in changes}),
        "beyond": len(beyond),
        "changed": len(changed),
        "days": days,
        "size": (SPARK_WIDTH, SPARK_HEIGHT),
    }


def _step(change: ShareChange | None, alpha: float) -> dict[str, Any] | None:
    if change is None:
        return None
    beyond, percents = change.adjusted <= alpha, 100 * change.std_error
    digits = max(0, 1 - math.floor(math.log10(percents)))
    return {
        "change": change,
        "beyond": beyond,
        "verdict": ("more" if change.difference > 0 else "fewer") if beyond else "within the noise",
        "difference": f"{100 * change.difference:+.{digits}f}".replace("-", "\N{MINUS SIGN}"),
        "error": f"{percents:.{digits}f}",
    }


def _spark(
    points: Sequence[SharePoint | None], days: Sequence[str], beyond: Sequence[bool]
) -> Mapping[str, Any]:
    """Return the places of the points, intervals and line of a trend. The highest is at the top."""
    top: float = max([1e-12, *(max(point.high, point.share) for point in points if point)])
    step = (SPARK_WIDTH - 10) / max(1, len(points) - 1)

    def up(share: float) -> float:
        height = (SPARK_HEIGHT - 8) * min(max(share / top, 0.0), 1.0)
        return round(SPARK_HEIGHT - 4 - height, 2)

    marks = [
        {
            "x": round(5 + i * step, 2),
            "y": up(point.share),
            "low": up(point.low),
            "high": up(point.high),
            "beyond": beyond[i],
        }
        for i, point in enumerate(points)
        if point
    ]
    labels = [
        f"{day} {percent(point.share)}" if point else "not tested"
        for day, point in zip(days, points, strict=True)
    ]
    return {
        "marks": marks,
        "line": " ".join(f"{mark['x']},{mark['y']}" for mark in marks),
        "told": "; ".join(labels),
    }
