"""The same metric on several days: which differences are more than noise.

Holm 1979, "A simple sequentially rejective multiple test procedure": with probability 1 - alpha or
more nothing is called a change that is none, however many values are compared and however their
tests hang together.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ldp.report.page import Results


@dataclass(frozen=True, kw_only=True)
class Change:
    """A value's share of the reports on two days, by their places in time: `difference` of the
    shares, its standard error, and the p-value of there being none, `adjusted` for all that were
    compared."""

    value: str
    earlier: int
    later: int
    difference: float
    std_error: float
    p_value: float
    adjusted: float


def in_order(results: Sequence["Results"]) -> list[list["Results"]]:
    """The files that tell of one mechanism on different days, each list in the order of time; files
    that share a day with another, or name none, are in no list."""
    alike: dict[str, list[Results]] = {}
    for result in results:
        alike.setdefault(result.summary["fingerprint"], []).append(result)
    found = []
    for several in alike.values():
        several = sorted(several, key=lambda result: result.summary["windows"])
        days = [day for result in several for day in result.summary["windows"]]
        named = all(result.summary["windows"] for result in several)
        if len(several) > 1 and named and days == sorted(set(days)):
            found.append(several)
    return found


def not_tested(days: Sequence["Results"]) -> str:
    """Why no difference between these days can be tested; "" where it can."""
    for result in days:
        if result.summary.get("warning"):
            return f"{result.name} claims no error rate"
        if result.summary.get("consistency_bias"):
            return f"the counts of {result.name} were made consistent, which biases them"
        if not result.summary["reports"]:
            return f"{result.name} has no reports"
    return ""


def compared(days: Sequence["Results"]) -> list[Change]:
    """Each day beside the one before it, and the last beside the first: every value that has an
    estimate on both, with an error, by falling evidence."""
    places = [*pairwise(range(len(days)))]
    if len(days) > 2:
        places.append((0, len(days) - 1))
    listed = [
        {row["value"]: row for row in result.rows if row["std_error"] < math.inf} for result in days
    ]
    found = [
        (value, earlier, later, *_difference(value, days, listed, earlier, later))
        for earlier, later in places
        for value in listed[later]
        if value in listed[earlier]
    ]
    ranked = sorted(found, key=lambda each: each[-1])
    changes, largest = [], 0.0
    for rank, (value, earlier, later, difference, error, p_value) in enumerate(ranked):
        largest = max(largest, min(1.0, (len(ranked) - rank) * p_value))
        changes.append(
            Change(
                value=value,
                earlier=earlier,
                later=later,
                difference=difference,
                std_error=error,
                p_value=p_value,
                adjusted=largest,
            )
        )
    return changes


def _difference(
    value: str,
    days: Sequence["Results"],
    listed: Sequence[Mapping[str, Mapping[str, Any]]],
    earlier: int,
    later: int,
) -> tuple[float, float, float]:
    """Difference of the shares, its standard error, two-sided p-value. The variance of a share is
    that of its estimate, and of the people having been drawn from a population, f (1 - f) / n;
    errors that reach further than a normal law's are widened as far."""
    shares, variances = [], []
    for place in (earlier, later):
        row, summary = listed[place][value], days[place].summary
        n, share = summary["reports"], row["count"] / summary["reports"]
        held = min(max(share, 0.0), 1.0)
        widened = summary.get("tail", 1.0) * row["std_error"] / n
        shares.append(share)
        variances.append(widened**2 + held * (1 - held) / n)
    difference, error = shares[1] - shares[0], math.sqrt(sum(variances))
    if not error:
        return difference, error, float(not difference)
    return difference, error, math.erfc(abs(difference) / error / math.sqrt(2))
