"""How often are changes said that are none, and how soon real ones?

`python -m simulations.changes` simulates years of a metric, a period a day: a weekly season,
numbers of reports that grow 5 % a month and vary, shares that stay as they are; and years with a
jump of one value by 2, 1 and 1/2 noise floors (one day's Bonferroni threshold). It exits 1 when
more than 5 % of the years without a jump ever have a change, or fewer than 80 % of the jumps are
found within 2, 6 and 28 days. `--sample` takes fewer years.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from ldp.arrays import Floats
from ldp.publishing.detection import ALPHA, Series, detect
from simulations import campaign

DAYS, REPORTS, GROWTH, VARIATION = 365, 100_000, 1.05, 0.2
UNTOUCHED, TOUCHED = 0.1, 0.5
"""Channel of a fresh report: epsilon 2.2."""
AT = 60
"""Day of a jump: eight weeks after the start, and some days."""
JUMPS = ((2.0, 2), (1.0, 6), (0.5, 28))
"""Noise floors, and days within which 80 % are found."""


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
    """Return the estimates of at least a year of `days`, whose second value jumps by `jump` noise
    floors on day AT. `churn`: share of the noise that is new each day; `stated`: standard errors
    that are stated over the true ones."""
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
        is_memoised=is_memoised,
    )


def _noise(days: int, values: int, churn: float, random: np.random.Generator) -> Floats:
    """Return standard normal noise of which a share is that of the day before."""
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
    """Return how many of the years without a jump ever have a change. Noise that is shared is
    said to be, unless `is_memoised` says otherwise."""
    shared = churn < 1 if is_memoised is None else is_memoised
    random = np.random.default_rng(seed)
    return sum(
        bool(detect(history(DAYS, values, random, churn=churn, stated=stated, is_memoised=shared)))
        for _ in range(years)
    )


def delays(years: int, jump: float, values: int, seed: int) -> list[float]:
    """Return after how many days each jump was found; infinite where it was not."""
    random, found = np.random.default_rng([seed, int(100 * jump)]), list[float]()
    for _ in range(years):
        changes = detect(history(AT + 40, values, random, jump=jump))
        first = [change.at - AT + 1 for change in changes if change.column == 1 and change.at >= AT]
        found.append(first[0] if first else np.inf)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    made = campaign.provenance()
    years, jumps = (20, 10) if options.sample else (200, 100)
    bars = []
    for values, times in ((1_000, 1), (50, 5)):
        rate = alarms(times * years, values, values) / (times * years)
        what = f"of {times * years} years of {values:,} constant shares, those with a change"
        bars.append(campaign.Bar(what, rate, f"at most {ALPHA}", rate <= ALPHA))
    rate = alarms(years, 50, 7, churn=0.02) / years
    what = f"of {years} years of memoised reports, those with a change"
    bars.append(campaign.Bar(what, rate, f"at most {ALPHA}", rate <= ALPHA))
    for jump, within in JUMPS:
        part = float(np.mean([delay <= within for delay in delays(jumps, jump, 1_000, 11)]))
        what = f"of {jumps} jumps of {jump:g} noise floors, those found within {within} days"
        bars.append(campaign.Bar(what, part, "at least 0.8", part >= 0.8))
    campaign.write(options.out, made, {"days": DAYS, "bars": bars})
    return campaign.shown(bars)


if __name__ == "__main__":
    sys.exit(main())
