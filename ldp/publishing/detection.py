"""Changes that are real: tests whose error rate holds over all periods, also where people stay.

The mean share of a value in the latest periods is compared with its mean share in all periods
before them in its history. Periods of the same season (the same weekday) are compared with each
other. So a weekly rhythm is no change. While shares are constant the difference c has mean 0, and
an error of two parts.

Noise is new in every period: with weights a of the periods its variance is sum a^2 v. People may be
the same in many periods, and one of them may send K reports of a period's n: a share f has the
variance s^2 = K f (1 - f) / n of people, which periods do not average out. Whatever such errors
have in common, the standard error of their mean is at most the mean of their standard errors, and
the mean is at most as spread as one of them in convex order (Jensen). People who stay bring the
latest mean and the one before nearer to each other. So the variances of the two at most add:

    V = sum a^2 v + (sum of a s, the latest)^2 + (sum of a s, those before)^2.

f is taken to be the middle of both means, because a large difference moves f itself. With few
holders the distribution is skewed. Where b is the most that one person, K / n, or the noise of one
report adds,

    P(c >= z sqrt(V) + b (z^2 + 2) / 6) <= P(Z >= z)

for a normal Z; for Poisson numbers, the most skewed, of any mean (Cornish and Fisher 1938;
`tests/publishing/test_detection.py`). Each test has a weight w, and its z has the probability w
alpha / values. The weights add to 1. So at most alpha of all histories without a change ever show
one, over all values and periods together, whatever their tests have in common. After a change a
value's history begins again.

Permanent responses are the same in many periods, and collisions in all periods of a version: there
the noise is bounded as the error of people is.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ldp.arrays import Bools, Floats, Ints

ALPHA = 0.05
"""Largest probability that a metric whose shares are constant ever has a change."""
WINDOWS = (1, 3, 9, 27)
"""Numbers of latest periods whose mean is tested. Each is tested whenever a third of its periods
are new."""
MOST_STARTS = 90
"""Number of latest periods in which a change may have begun."""
AT_ONCE = 2_000
"""Number of values whose sums are in memory at one time."""
LATE = 20
"""Number of periods after which tests begin to have less weight."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """Estimates of `values` in several periods, in the order of time. `share`, and `std_error` of
    the noise: float64, shape (periods, values), NaN where there is none. `reports`, and the most of
    one person, `reports_per_person`: shape (periods,). `season`: shape (periods,), periods of one
    season are compared. `is_share`: shape (values,), 0 for means, whose standard error covers
    people too. `reach`: how far one report moves the sum of a value over the reports. `shared`:
    share of the variance of noise that may be the same in all periods."""

    share: Floats
    std_error: Floats
    reports: Floats
    season: Ints
    is_share: Floats
    reports_per_person: Floats
    reach: float = 1.0
    shared: float = 0.0


@dataclass(frozen=True)
class Detection:
    """Change of a value, given by its column: the index `at` of the period in which it was
    detected, the index `since` of the period in which it most likely began, and its size with
    standard error."""

    column: int
    at: int
    since: int
    difference: float
    std_error: float


class Contrast(NamedTuple):
    """Differences between the latest periods and those before, with V and b of the module's
    formula, each of shape (values,): NaN where there is nothing to compare."""

    difference: Floats
    variance: Floats
    most: Floats

    def is_beyond(self, miss: float) -> Bools:
        """Return for each value whether chance makes such a difference with probability `miss` at
        most."""
        z = -NormalDist().inv_cdf(miss / 2)
        return np.abs(self.difference) > z * np.sqrt(self.variance) + self.most * (z**2 + 2) / 6


def spent(periods: float) -> float:
    """Return the part of the weight that the tests of the first `periods` periods have."""
    return 1 - math.log(LATE) / math.log(LATE + periods)


def detect(series: Series, alpha: float = ALPHA) -> list[Detection]:
    """Return the changes of all values, in the order of time. If all shares are constant, the list
    is empty with probability 1 - `alpha` or more."""
    many = series.share.shape[1]
    changes = list[Detection]()
    for start in range(0, many, AT_ONCE):
        columns = np.arange(start, min(start + AT_ONCE, many))
        changes += _detect(_History(series, columns), columns, alpha / many)
    return sorted(changes, key=lambda change: (change.at, change.column))


def _detect(history: "_History", columns: Ints, alpha: float) -> Iterator[Detection]:
    """Yield the changes of some `columns`, each of which has one by chance with probability `alpha`
    at most."""
    for at in range(1, history.periods):
        is_beyond = np.zeros(len(columns), dtype=bool)
        for window in WINDOWS:
            new = max(1, window // 3)
            if at >= window and not (at + 1) % new:
                weight = (spent(at + 1) - spent(at + 1 - new)) / len(WINDOWS)
                is_beyond |= history.contrast(at + 1 - window, at).is_beyond(alpha * weight)
        places = np.flatnonzero(is_beyond)
        if places.size:
            starts = np.arange(max(1, at + 1 - MOST_STARTS), at + 1)
            tried = [history.contrast(start, at, places) for start in starts.tolist()]
            c, variance = np.array([contrast[:2] for contrast in tried]).swapaxes(0, 1)
            best = np.argmax(np.nan_to_num(c**2 / variance), axis=0)
            for i, place in enumerate(places.tolist()):
                since, error = int(starts[best[i]]), float(variance[best[i], i] ** 0.5)
                yield Detection(int(columns[place]), at, since, float(c[best[i], i]), error)
            history.restart(at, places)


class _History:
    """Sums for some values over the periods of each season so far: of reports n, of n x, of (n s)^2
    and n s of the noise, and of sqrt(n K); and where each value's history begins."""

    def __init__(self, series: Series, columns: Ints) -> None:
        share, error = series.share[:, columns], series.std_error[:, columns]
        is_known = np.isfinite(share + error)
        n = np.where(is_known, series.reports[:, None], 0.0)
        share, error = np.where(is_known, share, 0.0), np.where(is_known, error, 0.0)
        people = np.sqrt(n * series.reports_per_person[:, None])
        terms = np.stack([n, n * share, (n * error) ** 2, n * error, people], axis=1)
        self.periods, self.series = len(terms), series
        self.is_share = series.is_share[columns]
        self.seasons = list[tuple[Floats, Floats, Ints]]()
        """For each season the sums where a history begins, those before each of its periods, and
        how many of its periods are before each period."""
        for season in np.unique(series.season):
            of = series.season == season
            sums = np.cumsum(np.concatenate([np.zeros_like(terms[:1]), terms[of]]), axis=0)
            number = np.concatenate([[0], np.cumsum(of)])
            self.seasons.append((np.zeros(terms.shape[1:]), sums, number))

    def restart(self, at: int, places: Ints) -> None:
        """Begin a new history of the values at `places` after period `at`."""
        for origin, sums, number in self.seasons:
            origin[:, places] = sums[number[at + 1]][:, places]

    def contrast(self, start: int, at: int, places: Ints | slice = slice(None)) -> Contrast:
        """Return the mean from period `start` to `at` minus the mean before, for the values at
        `places`. Seasons without a period before are left out."""
        is_share, reach = self.is_share[places], self.series.reach
        after, before = np.zeros((2, 5, is_share.size))
        # weight of an earlier report, of a latest one 1
        largest = np.ones(is_share.size)
        for origin, sums, number in self.seasons:
            if number[start] < number[at + 1]:
                old = sums[number[start]][:, places] - origin[:, places]
                new = sums[number[at + 1]][:, places] - sums[number[start]][:, places]
                is_known = old[0] > 0
                ratio = np.where(is_known, new[0] / np.where(is_known, old[0], 1.0), 0.0)
                after += np.where(is_known, new, 0.0)
                before += old * [ratio, ratio, ratio**2, ratio, ratio]
                largest = np.maximum(largest, ratio)
        n = np.where(after[0] > 0, after[0], np.nan)
        after, before = after / n, before / n
        middle = np.clip((after[1] + before[1]) / 2, 0, 1)
        people, shared = after[4] ** 2 + before[4] ** 2, after[3] ** 2 + before[3] ** 2
        sampled = np.where(is_share > 0, is_share * middle * (1 - middle) * people, shared)
        part = self.series.shared
        noise = part * shared + (1 - part) * (after[2] + before[2]) / n
        person = np.maximum(after[4], before[4]) ** 2
        is_one = (is_share > 0) & (part < 1)
        most = np.where(is_one, np.maximum(person, reach * largest / n), reach * person)
        return Contrast(after[1] - before[1], noise + sampled, most)
