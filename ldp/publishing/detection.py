"""Changes that are real: tests that stay valid when they are looked at after every period.

The share of a value is compared with its share in earlier periods of its season (the same weekday),
so a weekly rhythm is no change. The difference r of period t to the mean of those before, weighted
by reports, has mean 0 and a known variance V while shares are constant, and such differences do not
depend on each other. For a change that begins with period k and moves the share by D, the mean of r
is u D, u being the part of the weights that is older than k. With D normal around 0 with standard
deviation `tau`, the likelihood ratio of the periods from k on is

    E(k) = (1 + tau^2 A)^(-1/2) exp(tau^2 B^2 / (2 (1 + tau^2 A))),  A = sum u^2/V,  B = sum u r/V,

a martingale of mean 1. Their average over k with weights that add to 1 is one as well, so it ever
reaches c with probability 1/c at most (Ville 1939; mixtures as in Robbins 1970). A change is said
where it reaches the number of values over ALPHA: at most ALPHA of all histories without a change
ever say one, over all values and periods together. A value's history then begins anew.

Permanent responses are the same in many periods. Where reports are memoised no two differences are
taken to be independent: each period is a test of its own, E(k) of period k alone; the standard
errors of the periods before are averaged, not their variances, which bounds V for noise that they
share; and the weights are spent over the periods, which holds for any dependence.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ldp.arrays import Floats, Ints

ALPHA = 0.05
"""Largest probability that a metric whose shares are constant ever has a change."""
TAU = 4.0
"""Typical size of a change that is looked for, in standard errors of one period."""
MOST_STARTS = 90
"""Number of latest periods in which a change may begin; leaving the others out raises no error
rate."""
AT_ONCE = 2_000
"""Number of values whose sums are in memory at one time."""
_WEIGHTS = 2.1098
"""Sum of 1 / (n log(n)^2) over n from 2 on, rounded upwards."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """Estimates of `values` in several periods, in the order of time. `share`, `std_error`:
    float64, shape (periods, values), NaN where there is none; `reports`: shape (periods,);
    `season`: shape (periods,), of which periods are compared, 0 or more; `is_share`: shape
    (values,), whether people are a sample whose share varies, which is added to the error;
    `is_memoised`: whether noise may be shared between periods."""

    share: Floats
    std_error: Floats
    reports: Floats
    season: Ints
    is_share: Floats
    is_memoised: bool = False


@dataclass(frozen=True)
class Detection:
    """A change of a value, by its column: it was found at period `at`, by index, and most likely
    began at `since`; by how much, with standard error; `log_e` of its evidence."""

    column: int
    at: int
    since: int
    difference: float
    std_error: float
    log_e: float


def weight(number: Ints) -> Floats:
    """Return the weight of a change that begins at the tested period of this `number`, from 0; the
    weights of all numbers add to at most 1."""
    n = np.asarray(number, dtype=np.float64) + 2
    return np.asarray(1 / (_WEIGHTS * n * np.log(n) ** 2))


def detect(series: Series, alpha: float = ALPHA) -> list[Detection]:
    """Return the changes of all values, in the order of time. With probability 1 - `alpha` or more
    there is none while all shares are constant."""
    many = series.share.shape[1]
    changes = list[Detection]()
    for start in range(0, many, AT_ONCE):
        columns = np.arange(start, min(start + AT_ONCE, many))
        changes += _detect(series, columns, math.log(many / alpha))
    return sorted(changes, key=lambda change: (change.at, change.column))


def _detect(series: Series, columns: Ints, bound: float) -> Iterator[Detection]:
    """Yield the changes of some `columns` whose evidence reaches `bound`. A value without an
    estimate in a period is not tested there."""
    baselines = {season: _Baseline(len(columns)) for season in np.unique(series.season).tolist()}
    sums = _Sums(len(columns), 1 if series.is_memoised else MOST_STARTS)
    spent = np.full(len(columns), -np.inf)
    for at, n in enumerate(series.reports.tolist()):
        share, error = series.share[at, columns], series.std_error[at, columns]
        before, is_known = baselines[int(series.season[at])], np.isfinite(share + error)
        share, error = np.where(is_known, share, 0.0), np.where(is_known, error, 0.0)
        mean = np.where(before.total > 0, before.mean(before.share), share)
        held = np.clip(mean, 0, 1)
        sample = series.is_share[columns] * held * (1 - held)
        if before.periods:
            variance = error**2 + sample / n
            if series.is_memoised:
                variance += before.mean(before.error) ** 2
            else:
                variance += before.mean(before.mean(before.variance)) + before.mean(sample)
            is_tested = is_known & (before.total > 0) & (variance > 0)
            sums.begin(at, np.where(is_tested, variance, 0.0))
            variance = np.where(is_tested, variance, np.inf)
            sums.add(before.part_before(sums.starts), share - mean, variance)
            log_e = np.full(len(columns), -np.inf)
            if series.is_memoised or sums.may_reach(bound):
                log_e = np.logaddexp.reduce(sums.log_ratios(), axis=0)
            if series.is_memoised:
                log_e = spent = np.logaddexp(spent, log_e)
        before.add(at, np.where(is_known, n, 0.0), share, error, sample / n)
        if len(before.periods) == 1:
            continue
        for place in np.flatnonzero(log_e >= bound):
            evidence = float(log_e[place])
            yield Detection(int(columns[place]), at, *sums.likeliest(int(place)), evidence)
            spent[place] = -np.inf
            sums.a[:, place] = sums.b[:, place] = 0
            for baseline in baselines.values():
                baseline.restart(int(place))


class _Baseline:
    """Periods of one season so far: sums over them, of each value shape (values,)."""

    def __init__(self, values: int) -> None:
        self.periods, self.reports = list[int](), [np.zeros(values)]
        self.share, self.variance, self.error, self.origin = np.zeros((4, values))
        """Sums of n x, (n s)^2, and n times the whole standard error, of n reports since the start
        of the value's history; the reports before that."""

    @property
    def total(self) -> Floats:
        """Reports since the start of the history."""
        return np.asarray(self.reports[-1] - self.origin)

    def mean(self, sums: Floats) -> Floats:
        """Return `sums` over the reports; anything where there are none."""
        return np.asarray(sums / np.maximum(self.total, 1))

    def add(self, at: int, n: Floats, share: Floats, error: Floats, sample: Floats) -> None:
        """Add period `at` of `n` reports; `sample`: variance of the people's share."""
        self.periods.append(at)
        self.reports.append(self.reports[-1] + n)
        self.share += n * share
        self.variance += (n * error) ** 2
        self.error += n * np.sqrt(error**2 + sample)

    def restart(self, place: int) -> None:
        """Begin the history of a value anew."""
        self.origin[place] = self.reports[-1][place]
        self.share[place] = self.variance[place] = self.error[place] = 0

    def part_before(self, starts: Ints) -> Floats:
        """Return the part of the reports in periods before each of `starts`: shape (starts,
        values)."""
        reports = np.array(self.reports)[np.searchsorted(self.periods, starts)]
        return self.mean(np.maximum(reports - self.origin, 0))


class _Sums:
    """Sums A and B of the last starts, shape (starts, values), and what the starts are."""

    def __init__(self, values: int, starts: int) -> None:
        self.starts = np.zeros(starts, dtype=np.int64)
        self.log_weight = np.full(starts, -np.inf)
        self.a, self.b, self.tau2 = (np.zeros((starts, values)) for _ in range(3))
        self.number = 0

    def begin(self, at: int, variance: Floats) -> None:
        """Let a change begin at period `at`, in the place of the oldest start."""
        place = self.number % len(self.starts)
        self.starts[place] = at
        self.log_weight[place] = np.log(weight(np.array(self.number)))
        self.a[place] = self.b[place] = 0
        self.tau2[place] = TAU**2 * variance
        self.number += 1

    def add(self, part: Floats, difference: Floats, variance: Floats) -> None:
        """Add a period: `part` of its baseline before each start, shape (starts, values)."""
        self.a += part**2 / variance
        self.b += part * (difference / variance)

    def may_reach(self, bound: float) -> bool:
        """Return False only where the average of no value reaches `bound`: it is at most the
        largest of its terms times their number, each without the factor below 1."""
        exponent = self.b**2
        exponent *= self.tau2 / 2
        exponent /= 1 + self.tau2 * self.a
        most = float((exponent.max(axis=1) + self.log_weight).max())
        return most + math.log(len(self.starts)) >= bound

    def log_ratios(self, places: slice | int = slice(None)) -> Floats:
        """Return the logarithm of weight times likelihood ratio, shape (starts, values)."""
        tau2, b = self.tau2[:, places], self.b[:, places]
        scale = 1 + tau2 * self.a[:, places]
        ratios = tau2 * b**2 / (2 * scale) - np.log(scale) / 2
        return np.asarray((ratios.T + self.log_weight).T)

    def likeliest(self, place: int) -> tuple[int, float, float]:
        """Return the period in which the change of a value most likely began, its size, and the
        standard error of that."""
        start = int(np.argmax(self.log_ratios(place)))
        a, b = float(self.a[start, place]), float(self.b[start, place])
        return int(self.starts[start]), b / a, 1 / math.sqrt(a)
