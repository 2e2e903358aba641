"""The same metric on several days: which differences are more than noise.

Holm 1979, "A simple sequentially rejective multiple test procedure": with probability 1 - alpha or
more there is no false change among those that are reported, however many values are compared and
however their tests depend on each other.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from ldp.report.formats import percent
from ldp.tables.saved import SavedResult


@dataclass(frozen=True, kw_only=True)
class ShareChange:
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
    """Return why differences between these days cannot be tested; "" if they can."""
    for result in days:
        if result.facts.get("warning"):
            return f"{result.name} claims no error rate"
        if result.facts.get("consistency_bias"):
            return f"the counts of {result.name} were made consistent, which biases them"
        if not result.facts["reports"]:
            return f"{result.name} has no reports"
    return ""


def compared_days(days: Sequence[SavedResult]) -> list[ShareChange]:
    """Return the changes from each day to the next, and from the first to the last, of every value
    that has an estimate and a standard error on both, by falling evidence."""
    places = [*pairwise(range(len(days)))]
    if len(days) > 2:
        places.append((0, len(days) - 1))
    listed = [
        {row["value"]: row for row in result.rows() if row["std_error"] < math.inf}
        for result in days
    ]
    changes = [
        _change(value, days, listed, earlier, later)
        for earlier, later in places
        for value in listed[later]
        if value in listed[earlier]
    ]
    changes.sort(key=lambda change: change.p_value)
    remaining = range(len(changes), 0, -1)
    bounds = (min(1.0, many * c.p_value) for many, c in zip(remaining, changes, strict=True))
    adjusted = accumulate(bounds, max)
    return [replace(c, adjusted=p) for c, p in zip(changes, adjusted, strict=True)]


def _change(
    value: str,
    days: Sequence[SavedResult],
    listed: Sequence[Mapping[str, Mapping[str, Any]]],
    earlier: int,
    later: int,
) -> ShareChange:
    """Return the change of a value's share, not adjusted for other changes. The variance of a share
    is that of its estimate plus K f (1 - f) / n, because people are drawn from a population and a
    person sends up to K reports. Here f is taken over both days and four more people, two of whom
    hold the value. Errors that reach further than those of a normal distribution are widened as
    far. The p-value is two-sided."""
    shares, variances, people = [], [], []
    for place in (earlier, later):
        row, summary = listed[place][value], days[place].facts
        n = summary["reports"]
        shares.append(row["estimate"] / n)
        variances.append((summary.get("tail", 1.0) * row["std_error"] / n) ** 2)
        people.append(n / summary.get("reports_per_person", 1))
    holders = sum(min(max(f, 0.0), 1.0) * n for f, n in zip(shares, people, strict=True))
    held = (holders + 2) / (sum(people) + 4)
    variances += [held * (1 - held) / n for n in people]
    difference, error = shares[1] - shares[0], math.sqrt(sum(variances))
    p_value = math.erfc(abs(difference) / error / math.sqrt(2)) if error else float(not difference)
    return ShareChange(
        value=value,
        earlier=earlier,
        later=later,
        difference=difference,
        std_error=error,
        p_value=p_value,
        adjusted=p_value,
    )


MOST_TRENDS = 100


SPARK_WIDTH, SPARK_HEIGHT = 120, 30
"""Sizes of the drawing of a trend, in the units of the drawing."""


def trend(several: Sequence[SavedResult]) -> dict[str, Any]:
    """Return the section about one metric on several days: one row for each value that was
    discovered on some day or changed, the largest of the last day first."""
    latest, why = several[-1], why_not_tested(several)
    alpha = latest.facts["alpha"]
    changes = [] if why else compared_days(several)
    by_place = {(change.value, change.earlier, change.later): change for change in changes}
    beyond = {key for key, change in by_place.items() if change.adjusted <= alpha}
    listed = [{row["value"]: row for row in result.rows()} for result in several]
    wanted = {str(r.saved["value"][i]) for r in several for i in r.where("discovered")}
    wanted |= {value for value, _, _ in beyond}

    def size(value: str) -> float:
        """Return the value's share on the last day that has an estimate of it."""
        shares = [
            rows[value]["estimate"] / result.facts["reports"]
            for rows, result in zip(listed, several, strict=True)
            if value in rows and result.facts["reports"]
        ]
        return float(shares[-1]) if shares else 0.0

    last = len(several) - 1
    rows = []
    ranked = sorted(wanted, key=lambda value: (-size(value), value))
    for value in ranked[:MOST_TRENDS]:
        points = [
            _point(result, here.get(value)) for result, here in zip(several, listed, strict=True)
        ]
        steps = [(last - 1, last)] + [(0, last)] * (last > 1)
        rows.append(
            {
                "value": value,
                "points": points,
                "now": points[-1],
                "spark": _spark(points, [(value, i - 1, i) in beyond for i in range(last + 1)]),
                "steps": [_step(by_place.get((value, *step)), alpha) for step in steps],
            }
        )
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
        "changed": len({value for value, _, _ in beyond}),
        "days": [result.days for result in several],
        "size": (SPARK_WIDTH, SPARK_HEIGHT),
    }


def _point(result: SavedResult, row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a value on one day, as shares of its reports."""
    n = result.facts["reports"]
    if row is None or not n:
        return None
    return {
        "day": result.days,
        "share": row["estimate"] / n,
        "low": row["low"] / n,
        "high": row["high"] / n,
        "discovered": bool(row["discovered"]),
        **{name: row[name] for name in ("estimate", "std_error")},
    }


def _step(change: ShareChange | None, alpha: float) -> dict[str, Any] | None:
    if change is None:
        return None
    beyond = change.adjusted <= alpha
    verdict = "within the noise"
    if beyond:
        verdict = "more" if change.difference > 0 else "fewer"
    digits = max(0, 1 - math.floor(math.log10(100 * change.std_error))) if change.std_error else 0
    return {
        "change": change,
        "beyond": beyond,
        "verdict": verdict,
        "difference": f"{100 * change.difference:+.{digits}f}".replace("-", "\N{MINUS SIGN}"),
        "error": f"{100 * change.std_error:.{digits}f}",
    }


def _spark(points: Sequence[Mapping[str, Any] | None], beyond: Sequence[bool]) -> dict[str, Any]:
    """Return the places of the points, intervals and line of a trend; the highest is at the top."""
    top: float = max([1e-12, *(max(point["high"], point["share"]) for point in points if point)])
    step = (SPARK_WIDTH - 10) / max(1, len(points) - 1)

    def up(share: float) -> float:
        height = (SPARK_HEIGHT - 8) * min(max(share / top, 0.0), 1.0)
        return round(SPARK_HEIGHT - 4 - height, 2)

    marks = [
        {
            "x": round(5 + i * step, 2),
            "y": up(point["share"]),
            "low": up(point["low"]),
            "high": up(point["high"]),
            "beyond": marked,
        }
        for i, (point, marked) in enumerate(zip(points, beyond, strict=True))
        if point
    ]
    labels = [
        f"{point['day']} {percent(point['share'])}" if point else "not tested" for point in points
    ]
    return {
        "marks": marks,
        "line": " ".join(f"{mark['x']},{mark['y']}" for mark in marks),
        "told": "; ".join(labels),
    }
