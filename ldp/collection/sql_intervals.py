"""Intervals in SQL: those of `ldp/decoding/binomials.py`, found by the same steps.

A query has a row for each end of each category's interval, and calls itself with a better number of
holders until this row is settled. SQL does not name a value in the list that computes it, so that
the values of one step are lists that follow each other.
"""

from collections.abc import Mapping
from statistics import NormalDist
from typing import SupportsFloat

from ldp.protocol.channel import Channel

LEVEL, EXACT, STEPS = 0.95, 1e-6, 90
"""Level of the intervals, and accuracy and number of steps of a root: Spark lets a query call
itself 100 times."""
TWO_BINOMIALS = {"holders": "held", "others": "about - held", "p": "{p}"}
"""Reports of which `held` are about holders, and the others are not."""
ONE_BINOMIAL = {"holders": "about", "others": "0", "p": "{q} + ({p} - {q}) * held / about"}
"""Reports of which each is about a holder with the same probability."""
LISTS: tuple[Mapping[str, str], ...] = (
    {
        "a": "(about - x) * p * {q}",
        "b": "holders * p * (1 - {q}) + others * {q} * (1 - p)"
        " - x * ((1 - p) * {q} + p * (1 - {q}))",
        "c": "x * (1 - p) * (1 - {q})",
        "expected": "holders * p + others * {q}",
    },
    {"root": "sqrt(b * b + 4 * a * c)"},
    {"tilt": "CASE WHEN b > 0 THEN 2 * c / (b + root) ELSE (root - b) / (2 * a) END"},
    {"t": "ln(tilt)", "more_p": "p * (tilt - 1)", "more_q": "{q} * (tilt - 1)"},
    {"by_p": "1 + more_p", "by_q": "1 + more_q"},
    {
        "ln_p": "ln(by_p) + (more_p - (by_p - 1)) / by_p",
        "ln_q": "ln(by_q) + (more_q - (by_q - 1)) / by_q",
    },
    {
        "w": "sign(t) * sqrt(2 * greatest(t * (x - expected) - holders * (ln_p - p * t)"
        " - others * (ln_q - {q} * t), 0))",
        "u": "(tilt - 1) * sqrt(holders * p * (1 - p) / (by_p * by_p)"
        " + others * {q} * (1 - {q}) / (by_q * by_q))",
    },
    {"above": "CASE WHEN abs(w) > 0.001 THEN w + ln(u / w) / w ELSE w END - z"},
    {
        "is_settled": "CASE step WHEN 0 THEN above <= 0 WHEN 1 THEN above >= 0 "
        f"ELSE abs(above) <= {EXACT} OR step > {STEPS} END",
        "next_low": "CASE WHEN step > 1 AND above > 0 THEN held ELSE low END",
        "next_high": "CASE WHEN step > 1 AND above <= 0 THEN held ELSE high END",
        "next_at_low": "CASE WHEN step = 0 OR step > 1 AND above > 0 THEN above"
        " WHEN step = 1 THEN at_low ELSE at_low / 2 END",
        "next_at_high": "CASE WHEN step > 1 AND above > 0 THEN at_high / 2 ELSE above END",
    },
)
"""The values of a step, list by list: the saddlepoint e**t and its equation's a, b and c,
Barndorff-Nielsen's w and u, how far x is above what is expected, and the ends of the Illinois
method."""


def number(real: str, of: SupportsFloat) -> str:
    """Return a number as a constant of a query, of the type `real`."""
    return f"CAST('{float(of)!r}' AS {real})"


def ends_of_intervals(real: str, channel: Channel, one_binomial: bool, apart: str = "") -> str:
    """Return the SQL that adds to a query the table `held (place, least_held, most_held)`: the ends
    of the interval for the number of holders among the `about` reports of a row of the table
    `estimates`, of which `named` name its category. The ends are NULL for 0 and for all.
    `one_binomial`: whether these reports are a sample of all, drawn anew. `apart`: what keeps the
    database from putting each list into the next."""
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    p, q = (number(real, chance) for chance in channel.chances)
    step = "ends"
    for values in (ONE_BINOMIAL if one_binomial else TWO_BINOMIALS, *LISTS):
        listed = ", ".join(f"{of.format(p=p, q=q)} AS {name}" for name, of in values.items())
        step = f"(\n  SELECT *, {listed} FROM {step}{apart}) AS listed"
    sides = " UNION ALL\n".join(
        f"  SELECT place, about, named {half} AS x, {number(real, z)} AS z FROM estimates"
        f" WHERE {where}"
        for half, z, where in (("- 0.5", z, "named > 0"), ("+ 0.5", -z, "named < about"))
    )
    zero, middle = number(real, 0), "next_low * next_at_high - next_high * next_at_low"
    return (
        ", sides AS (\n"
        f"{sides}\n"
        "), ends AS (\n"
        f"  SELECT place, about, x, z, 0 AS step, {zero} AS held,\n"
        f"    {zero} AS low, about AS high,\n"
        f"    {zero} AS at_low, {zero} AS at_high\n"
        "  FROM sides\n"
        "  UNION ALL\n"
        "  SELECT place, about, x, z,\n"
        "    CASE WHEN is_settled THEN -1 ELSE step + 1 END,\n"
        "    CASE WHEN is_settled THEN held WHEN step = 0 THEN about\n"
        f"      ELSE ({middle}) / (next_at_high - next_at_low) END,\n"
        f"    next_low, next_high, next_at_low, next_at_high\n"
        f"  FROM {step} WHERE step >= 0\n"
        "), held AS (\n"
        "  SELECT place,\n"
        "    max(CASE WHEN z > 0 THEN held END) AS least_held,\n"
        "    max(CASE WHEN z < 0 THEN held END) AS most_held\n"
        "  FROM ends WHERE step = -1\n"
        "  GROUP BY place\n"
        ")\n"
    )
