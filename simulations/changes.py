"""Measure how often `ldp publish` reports false changes, and how soon it finds real ones.

`python -m simulations.changes` simulates years of a metric, with a period a day. There is a weekly
season, and the number of reports grows 5 % a month and varies. In most years the shares stay as
they are. In the others one value jumps by 2 and by 1 noise floors (one day's Bonferroni threshold).

The campaign exits 1 when more than 5 % of the years without a jump ever have a change. It also
exits 1 when fewer than 80 % of the jumps are found within 2 and 12 days.

A control metric has 100,000 reports a day at epsilon 1. Its false alarms are counted. So are three
kinds of breaks in 1 % of its reports; 80 % or more of each must be seen within a week. `--sample`
takes fewer years.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ldp import HadamardCountMeanSketch
from ldp.arrays import Floats
from ldp.publishing.control import DAYS as BETWEEN
from ldp.publishing.control import HASHED, STUCK, WITHOUT_NOISE, broken
from ldp.publishing.detection import ALPHA, Series, detect
from ldp.simulation import draw_table
from ldp.tables.table import Table
from simulations import campaign

DAYS, REPORTS, GROWTH, VARIATION = 365, 100_000, 1.05, 0.2
UNTOUCHED, TOUCHED = 0.1, 0.5
"""Channel of a fresh report, of epsilon 2.2."""
AT = 60
"""Day of a jump: eight weeks and some days after the start."""
JUMPS = ((2.0, 2), (1.0, 12))
"""Size of a jump in noise floors, and days within which 80 % of such jumps must be found."""

CONTROL = HadamardCountMeanSketch(epsilon=1.0, rows=16, width=256, seed="00ff")
"""Control metric of docs/publishing.md."""
BEFORE, WEEK, BROKEN = 30, 7, 0.01
"""Days of right builds, days within which a break must be seen, and its share of the reports."""


def history(
    days: int,
    values: int,
    random: np.random.Generator,
    *,
    jump: float = 0.0,
    churn: float = 1.0,
    stated: float = 1.0,
    is_memoised: bool = False,
) -> Series:
    """Return the estimates of `days` days, or of a year if that is longer and nothing jumps.

    The second value jumps by `jump` noise floors on day AT. `churn`: share of the noise that is new
    each day. `stated`: ratio of the stated standard errors to the true ones.
    """
    days = max(days, DAYS) if not jump else days
    at = np.arange(days)
    reports = REPORTS * GROWTH ** (at / 30) * random.uniform(1 - VARIATION, 1 + VARIATION, days)
    base = 1 / np.arange(1.0, values + 1)
    week = base * np.exp(0.2 * random.standard_normal((7, values)))
    share = (week / week.sum(axis=1, keepdims=True))[at % 7]
    noise = np.sqrt(UNTOUCHED * (1 - UNTOUCHED) / reports) / (TOUCHED - UNTOUCHED)
    if jump:
        share = share.copy()
        share[AT:, 1] += jump * _normal_quantile(1 - ALPHA / values) * noise[AT]
    error = np.sqrt(noise[:, None] ** 2 + share * (1 - share) / reports[:, None])
    return Series(
        share=share + error * _noise(days, values, churn, random),
        std_error=np.broadcast_to(stated * noise[:, None], share.shape),
        reports=reports,
        season=at % 7,
        is_share=np.full(values, stated**2),
        reports_per_person=np.ones(days),
        reach=(1 - UNTOUCHED) / (TOUCHED - UNTOUCHED),
        shared=float(is_memoised),
    )


def _noise(days: int, values: int, churn: float, random: np.random.Generator) -> Floats:
    """Return standard normal noise, of which the share 1 - `churn` comes from the day before."""
    fresh = random.standard_normal((days, values))
    rest = np.sqrt(1 - churn)
    for day in range(1, days):
        fresh[day] = rest * fresh[day - 1] + np.sqrt(churn) * fresh[day]
    return fresh


def _normal_quantile(p: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(p))


def alarms(
    years: int,
    values: int,
    seed: int,
    churn: float = 1.0,
    stated: float = 1.0,
    is_memoised: bool | None = None,
) -> int:
    """Return in how many of the years without a jump a change is ever found.

    The detector learns that noise is shared, unless `is_memoised` says otherwise.
    """
    shared = churn < 1 if is_memoised is None else is_memoised
    random = np.random.default_rng(seed)
    return sum(
        bool(detect(history(DAYS, values, random, churn=churn, stated=stated, is_memoised=shared)))
        for _ in range(years)
    )


def alarms_of(years: int, seed: int, values: int) -> int:
    """Return `alarms` of fresh reports, with a seed that depends on `values`."""
    return alarms(years, values, seed * 10_000 + values)


def delays(years: int, jump: float, values: int, seed: int) -> list[float]:
    """Return the days after which each jump was found, infinite for a jump that was not found."""
    random, found = np.random.default_rng([seed, int(100 * jump)]), list[float]()
    for _ in range(years):
        changes = detect(history(AT + 40, values, random, jump=jump))
        first = [change.at - AT + 1 for change in changes if change.column == 1 and change.at >= AT]
        found.append(first[0] if first else np.inf)
    return found


def in_parts(count: Callable[..., int], runs: int, **options: Any) -> int:
    """Return the sum of `count` over `runs` runs.

    Processes take ten runs at a time; the seed of each ten is their number.
    """
    parts = [min(10, runs - start) for start in range(0, runs, 10)]
    with ProcessPoolExecutor() as pool:
        return sum(pool.map(partial(count, **options), parts, range(len(parts))))


def control(days: int, cause: str, random: np.random.Generator) -> Iterator[tuple[date, Table]]:
    """Yield the control metric's table of each day.

    With a `cause`, a share BROKEN of the reports is broken by it from day BEFORE on.
    """
    for day in range(days):
        few = int(BROKEN * REPORTS) if cause and day >= BEFORE else 0
        table = draw_table(CONTROL, ["on"], counts=np.array([REPORTS - few]), generator=random)
        if few and cause == HASHED:
            table += draw_table(CONTROL, ["hashed"], counts=np.array([few]), generator=random)
        elif few:
            table += _true(few, cause == STUCK, random)
        yield date(2026, 1, 1) + timedelta(days=day), table


def _true(reports: int, is_stuck: bool, random: np.random.Generator) -> Table:
    """Return a table of reports with the true sign.

    Rows and columns are uniform, or all the same with `is_stuck`.
    """
    rows, columns = random.integers(0, (CONTROL.shape.rows, CONTROL.shape.columns), (reports, 2)).T
    if is_stuck:
        rows, columns = np.broadcast_to(rows[:1], reports), np.broadcast_to(columns[:1], reports)
    counts, totals = np.zeros(CONTROL.shape, np.int64), np.zeros(CONTROL.shape.rows, np.int64)
    point = CONTROL.addressing.point("on")
    cells = np.array([CONTROL.addressing.cells(point, row)[0] for row in range(len(totals))])
    signs = 1 - 2 * (np.bitwise_count(columns & cells[rows]).astype(np.int64) & 1)
    np.add.at(counts, (rows, columns), signs)
    np.add.at(totals, rows, 1)
    return Table.from_counts(CONTROL, counts, totals)


def false_alarms(years: int, seed: int) -> int:
    """Return how often right builds are reported as broken in `years` years."""
    tables = control(365 * years, "", np.random.default_rng([seed, 2]))
    return len([*broken(tables, "on", BETWEEN)])


def seen(runs: int, seed: int, cause: str) -> int:
    """Return how many breaks with this `cause` are reported within a WEEK, and not before."""
    random, first = np.random.default_rng([seed, 3]), date(2026, 1, 1) + timedelta(days=BEFORE)
    tables = (control(BEFORE + WEEK, cause, random) for _ in range(runs))
    return sum(any(said[0] >= first for said in broken(some, "on", BETWEEN)) for some in tables)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    made = campaign.provenance()
    years, jumps = (20, 10) if options.sample else (200, 100)
    bars = []
    for values, count in ((1_000, years if options.sample else 10_000), (50, 5 * years)):
        rate = in_parts(alarms_of, count, values=values) / count
        what = f"of {count:,} years of {values:,} constant shares, those with a change"
        bars.append(campaign.Bar(what, rate, f"at most {ALPHA}", rate <= ALPHA))
    rate = alarms(years, 50, 7, churn=0.02) / years
    what = f"of {years} years of memoised reports, those with a change"
    bars.append(campaign.Bar(what, rate, f"at most {ALPHA}", rate <= ALPHA))
    for jump, within in JUMPS:
        part = float(np.mean([delay <= within for delay in delays(jumps, jump, 1_000, 11)]))
        what = f"of {jumps} jumps of {jump:g} noise floors, those found within {within} days"
        bars.append(campaign.Bar(what, part, "at least 0.8", part >= 0.8))
    often = in_parts(false_alarms, years) / years
    what = f"of {years} years of right builds, false alarms a year"
    bars.append(campaign.Bar(what, often, "at most 1", often <= 1))
    for cause in (WITHOUT_NOISE, STUCK, HASHED):
        part = in_parts(seen, 5 * jumps, cause=cause) / (5 * jumps)
        what = f"of {5 * jumps} breaks, 1 % from {cause}: seen within a week"
        bars.append(campaign.Bar(what, part, "at least 0.8", part >= 0.8))
    campaign.write(options.out, made, {"days": DAYS, "bars": bars})
    return campaign.shown(bars)


if __name__ == "__main__":
    sys.exit(main())
