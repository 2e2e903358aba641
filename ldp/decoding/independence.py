"""Rao's score test that the parts of a joint report are independent.

Its p-value is that among permuted reports, or among random tables of the same margins. Reports of
one person are about one value, so fewer people than reports may make parts seem to go together:
the score then has a larger variance, and as many reports as there are people are permuted.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from ldp.arrays import Floats, Ints, Places
from ldp.decoding.mixtures import Mixture, covariance

POSITIVE = 1e-6
"""Share below which the test of independence leaves a value out."""
MOST_DIFFERENT, MOST_PERMUTED = 1 << 10, 1 << 21
"""Largest number of pairs of different reports whose random tables, and largest number of reports
times cells whose permutations the test of independence draws."""
PERMUTATIONS, REACHED = 999, 10
"""Most of these draws, and number of them with as much dependence after which it stops."""
MOST_REPORTS = 10**9
"""Number of reports from which numpy draws no random tables."""
LEAST_SKEWNESS = 1e-3
"""Least skewness of the statistics of permuted reports."""


class Independence(NamedTuple):
    """Result of Rao's score test of independence. Under independence `statistic` is chi-square with
    `freedom` degrees of freedom, but for rare values. `p_value` is NaN where there are none, and 1
    where people are too few to tell. `is_exact`: whether it is that of a permutation test, which
    holds for rare values, too."""

    statistic: float
    freedom: int
    p_value: float
    is_exact: bool = True


def independence(
    factors: Sequence[Floats],
    counts: Ints,
    margins: Sequence[Floats],
    places: Sequence[Places] | None = None,
    per_person: float = 1.0,
) -> Independence:
    """Return Rao's score test that the parts are independent. `factors`: likelihoods, shape
    (different reports, values) each. `places`: which of them each pattern has, shape (patterns,).
    `counts`: shape (patterns,). `margins`: shares, shape (values,) each. `per_person`: reports by
    the sender of a report, on average over the reports (the design effect of Rao and Scott 1981).

    If they are independent, each margin is a mixture by itself. With the slope S and the
    information I of the log likelihood at the product of the margins, S' Z (Z' I Z)**-1 Z' S is
    chi-square with (cells - 1) - sum of (values - 1) degrees of freedom, (r - 1)(c - 1) for two
    parts. The test does not use the cells' estimates, half of which are 0 where the true share is
    near 0. Wald's test, which does, has no known distribution there. Values without a share are
    left out, and those of less than one person, where people sent several: no permutation shows
    them. I is what independent reports have on average, the product of the parts' own: a rare
    pair of values that no report shows would have next to none. With rare values S is not normal.
    So the p-value is that among permutations, but for many different reports (`is_exact`)."""
    from scipy.special import chdtrc

    total = int(counts.sum())
    each = min(per_person, total)
    least = max(POSITIVE, each / total * (each > 1))
    positive = [np.flatnonzero(margin >= min(least, margin.max())) for margin in margins]
    freedom = math.prod(map(len, positive)) - 1 - sum(len(values) - 1 for values in positive)
    if not freedom:
        return Independence(0.0, 0, math.nan if each == 1 else 1.0)
    ratios, information, shares = list[Floats](), np.full((1, 1), float(total)), np.ones(1)
    places = places or [np.arange(len(counts))] * len(factors)
    for factor, margin, values, at in zip(factors, margins, positive, places, strict=True):
        share = margin[values] / margin[values].sum()
        ratio = factor[:, values] / (factor[:, values] @ share)[:, None]
        shares, part = np.kron(shares, share), np.bincount(at, counts) / total
        information = np.kron(information, (ratio.T * part) @ ratio)
        ratios.append(ratio)
    ends = [np.rint(np.cumsum(np.bincount(at, counts)) / each) for at in places]
    numbers = [np.diff(end, prepend=0).astype(int) for end in ends]
    people = int(numbers[0].sum())
    inverse = of_reports = covariance(information)
    if each > 1:
        of_people = (information * shares) @ information
        of_people *= (each - 1) / total
        inverse = covariance(information + of_people)
        of_reports = of_reports * (total / people)

    def statistic(slope: Floats, inverse: Floats = of_reports) -> float:
        return float(slope.ravel() @ inverse @ slope.ravel())

    seen = statistic(Mixture.of(ratios, counts, places).sums(), inverse)
    if math.prod(map(len, numbers)) <= MOST_DIFFERENT and total < MOST_REPORTS:
        slopes = (reduce(_summed, ratios, table.astype(float)) for table in _tables(numbers))
    elif total * len(inverse) <= MOST_PERMUTED:
        reports = [np.repeat(np.arange(len(some)), some) for some in numbers]
        mixture = Mixture.of(ratios, np.ones(people), reports)
        slopes = (replace(mixture, places=some).sums() for some in _permuted(reports))
    else:
        return Independence(seen, freedom, float(chdtrc(freedom, seen)), is_exact=False)
    return Independence(seen, freedom, _p_value(seen, map(statistic, slopes)))


def _summed(counts: Floats, ratio: Floats) -> Floats:
    """Return the sums of counts times `ratio` over the first axis, the values as the last one."""
    return np.tensordot(counts, ratio, (0, 0))


def _tables(margins: Sequence[Ints]) -> Iterator[Ints]:
    """Yield random tables with these numbers of the different reports of each part."""
    generator = np.random.default_rng(0)
    while True:
        table = margins[0]
        for left in margins[1:]:
            rows = list[Ints]()
            for size in table.ravel().tolist():
                rows.append(generator.multivariate_hypergeometric(left, size))
                left = left - rows[-1]
            table = np.array(rows)
        yield table.reshape([*map(len, margins)])


def _permuted(places: Sequence[Places]) -> Iterator[Sequence[Places]]:
    """Yield places of reports, those of all parts but the first permuted."""
    generator = np.random.default_rng(0)
    while True:
        yield [places[0], *map(generator.permutation, places[1:])]


def _p_value(seen: float, permuted: Iterator[float]) -> float:
    """Return the p-value of the statistic `seen` among those of reports that are `permuted`, of
    which REACHED with as much suffice (Besag and Clifford 1991). If none of PERMUTATIONS has, it
    comes from the gamma distribution of their mean, variance and skewness (Winkler and others
    2016)."""
    from scipy.special import gammaincc

    statistics, reached = np.zeros(PERMUTATIONS), 0
    for number, statistic in zip(range(PERMUTATIONS), permuted, strict=False):
        statistics[number] = statistic
        reached += statistic >= seen * (1 - 1e-9)
        if reached == REACHED:
            return reached / (number + 1)
    least, scale = (reached + 1) / (PERMUTATIONS + 1), float(statistics.std())
    if reached or not scale:
        return least
    scores = (statistics - statistics.mean()) / scale
    shape = 4 / max(float((scores**3).mean()), LEAST_SKEWNESS) ** 2
    far = (seen - statistics.mean()) / scale
    return min(float(gammaincc(shape, shape + far * shape**0.5)), least)
