"""Releases of a trusted curator about everybody's values: a histogram of public categories, the
strings that many hold, a mean, percentiles. A person holds `at_most` values, one unless stated.

Sources: Ghosh, Roughgarden and Sundararajan 2012 (discrete Laplace noise); Korolova, Kenthapadi,
Mishra and Ntoulas 2009 (strings above a threshold).
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ldp.accounting import Cost, Neighbours
from ldp.arrays import Floats, Ints, increasing, require_no_times, unmasked, whole_counts
from ldp.central.gaussian import require_budget
from ldp.central.mechanisms import MOST_COUNT, DiscreteLaplace
from ldp.central.noise import Noise, Releases
from ldp.errors import ParameterError, require_share
from ldp.protocol.channel import real_number

FINEST = 2**40
"""Largest number of steps of a range to which numbers are rounded before they are added."""


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """Noisy counts of named categories, each with this standard error. They may be negative.

    `threshold`: of strings that nobody listed, the least noisy count that is released; else None.
    """

    categories: tuple[str, ...]
    counts: tuple[int, ...]
    std_error: float
    cost: Cost
    is_simulation: bool
    mechanism: DiscreteLaplace
    threshold: int | None = None

    def interval(self, level: float = 0.95) -> tuple[Ints, Ints]:
        """Return (low, high), shape (categories,): the count of a category chosen beforehand lies
        there with probability `level` or more. Raises ParameterError for a level outside (0, 1)."""
        counts, reach = np.array(self.counts, dtype=np.int64), self.mechanism.reach(level)
        return counts - reach, counts + reach


@dataclass(frozen=True, kw_only=True)
class ReleasedMean:
    """Noisy mean of everybody's numbers and its standard error, in their units."""

    mean: float
    std_error: float
    people: int
    bounds: tuple[float, float]
    cost: Cost
    is_simulation: bool
    mechanism: DiscreteLaplace
    steps: int

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return (low, high) within the bounds, which hold the mean of these people's numbers with
        probability `level` or more. Raises ParameterError for a level outside (0, 1)."""
        low, high = self.bounds
        reach = (high - low) * self.mechanism.reach(level) / (self.steps * self.people)
        return max(low, self.mean - reach), min(high, self.mean + reach)


def noisy_histogram(
    values: Iterable[str] | Mapping[str, int],
    *,
    categories: tuple[str, ...],
    epsilon: float,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    at_most: int = 1,
    noise: Noise | None = None,
) -> Histogram:
    """Return noisy counts of `values`, or of a number of people for each value, in the public
    `categories`. Other values are not counted.

    Adding or removing a person with one value changes one count by 1 (sensitivity 1), replacing the
    value changes two counts (2). For a person with up to `at_most` different values the sensitivity
    is `at_most` times as large. Every count, empty ones too, gets discrete Laplace noise. Raises
    ParameterError for no or repeated categories.
    """
    if len(set(categories)) != len(categories) or not categories:
        raise ParameterError("categories must be at least one, and all different")
    noise, held = noise or Releases(), Counter(values)
    mechanism = _of_counts(epsilon, neighbours, at_most)
    counts = whole_counts([held[name] for name in categories], len(categories))
    return Histogram(
        categories=categories,
        counts=tuple(mechanism.release(counts, noise).tolist()),
        std_error=mechanism.std_error,
        cost=mechanism.cost,
        is_simulation=noise.is_simulation,
        mechanism=mechanism,
    )


def noisy_strings(
    values: Iterable[str] | Mapping[str, int],
    *,
    epsilon: float,
    delta: float,
    neighbours: Neighbours = Neighbours.REPLACE_VALUE,
    at_most: int = 1,
    noise: Noise | None = None,
) -> Histogram:
    """Return the strings whose noisy count reaches a threshold, the most frequent first. No list of
    them is needed, and the rest stays unknown.

    Only strings that somebody holds get noise, so that one held by a single person reveals that
    person if it is released. The threshold is the least at which that has probability delta / m or
    less, where m is the number of strings that one person alone may hold. It is `at_most`, also
    when values are replaced: each of two neighbours can only release its own strings, and those of
    the other are absent there with a probability that epsilon covers, for all but a large delta.
    Raises ParameterError for epsilon and delta as `require_budget`.
    """
    require_budget(epsilon, delta)
    noise, held = noise or Releases(), Counter(values)
    mechanism = _of_counts(epsilon, neighbours, at_most)
    is_covered = -math.log1p(-delta / at_most) <= epsilon / mechanism.sensitivity
    alone = at_most if is_covered else mechanism.sensitivity
    threshold = 1 + mechanism.upper_tail(delta / alone)
    counts = whole_counts([*held.values()], len(held))
    names = [name for name, count in zip(held, counts, strict=True) if count]
    counts = counts[counts > 0]
    noisy = mechanism.release(counts, noise).tolist() if names else []
    rows = sorted(zip(noisy, names, strict=True), key=lambda row: (-row[0], row[1]))
    released = [(count, name) for count, name in rows if count >= threshold]
    return Histogram(
        categories=tuple(name for _, name in released),
        counts=tuple(count for count, _ in released),
        std_error=mechanism.std_error,
        cost=Cost(epsilon=epsilon, delta=delta, neighbours=neighbours),
        is_simulation=noise.is_simulation,
        mechanism=mechanism,
        threshold=threshold,
    )


def noisy_mean(
    numbers: Floats,
    counts: Ints | None = None,
    *,
    bounds: tuple[float, float],
    epsilon: float,
    noise: Noise | None = None,
) -> ReleasedMean:
    """Return the noisy mean of `numbers`, shape (n,), clipped to the public `bounds`. `counts`: how
    many people hold each, 1 by default.

    Neighbours differ in one person's number, so the number of people is public. Numbers are rounded
    to steps of the range, as fine as a sum of integers allows, and discrete Laplace noise of the
    sensitivity of the whole range is added to the sum. Raises ParameterError for nobody, bounds
    that are not finite or in order, and NaN. An infinite number is one beyond a bound, because an
    error would tell that somebody has it.
    """
    low, high = map(float, bounds)
    require_no_times({"numbers": numbers})
    numbers = unmasked(numbers)
    if not 0 < high - low < math.inf:
        raise ParameterError("bounds must be finite, low below high, and less than 1.8e308 apart")
    size = len(numbers)
    held = np.ones(size, np.int64) if counts is None else whole_counts(counts, size)
    people = int(held.sum())
    if not people or np.isnan(numbers).any():
        raise ParameterError("a mean needs one number or more, and no NaN")
    noise = noise or Releases()
    steps = min(FINEST, MOST_COUNT // people)
    places = (np.clip(np.asarray(numbers, np.float64), low, high) - low) / (high - low)
    rounded = np.rint(places * steps).astype(np.int64)
    total = sum(step * count for step, count in zip(rounded.tolist(), held.tolist(), strict=True))
    mechanism = DiscreteLaplace(
        epsilon=epsilon, sensitivity=float(steps), neighbours=Neighbours.REPLACE_VALUE
    )
    noisy = int(mechanism.release(np.array([total], dtype=np.int64), noise)[0])
    return ReleasedMean(
        mean=low + (high - low) * noisy / (steps * people),
        std_error=(high - low) * mechanism.std_error / (steps * people),
        people=people,
        bounds=(low, high),
        cost=mechanism.cost,
        is_simulation=noise.is_simulation,
        mechanism=mechanism,
        steps=steps,
    )


def _of_counts(epsilon: float, neighbours: Neighbours, at_most: int) -> DiscreteLaplace:
    """Return the mechanism of counts of which a person with `at_most` values changes one for each,
    or two when a value is replaced."""
    if real_number(at_most, "at_most") < 1:
        raise ParameterError("at_most must be 1 or more")
    changed = at_most if neighbours is Neighbours.ADD_REMOVE else 2 * at_most
    return DiscreteLaplace(epsilon=epsilon, sensitivity=float(changed), neighbours=neighbours)


class ReleasedPercentile(NamedTuple):
    """A quantile in the units of the edges: `estimate`, and the ends of its interval, which are
    edges. They are nan and the ends of all bins where the noisy counts do not add to one person."""

    estimate: float
    low: float
    high: float


def percentile(
    histogram: Histogram, edges: Sequence[float], q: float, level: float = 0.95
) -> ReleasedPercentile:
    """Return the least number with a share of at least `q` of the people at or below it. The
    categories of `histogram` are bins in order, between `edges`, shape (bins + 1,).

    With L people below an edge and T in all, the quantile is where L - q T crosses 0, and noise
    moves that by a weighted sum of all counts' noise. The interval leaves out bins with an edge on
    the wrong side by more than such a sum is off with probability 1 - `level`. Raises
    ParameterError for q or level outside (0, 1).
    """
    require_share(q, "q")
    require_share(level, "level")
    counts = np.array(histogram.counts, dtype=np.float64)
    total = float(counts.sum())
    if total < 1:
        return ReleasedPercentile(math.nan, edges[0], edges[-1])
    beyond = np.cumsum(counts)[:-1] - q * total
    heights = np.array([-q * total, *increasing(beyond), (1 - q) * total])
    place = int(np.searchsorted(heights[1:-1], 0.0))
    ends = [*filter(math.isfinite, edges[place : place + 2])]
    part = heights[place] / (heights[place] - heights[place + 1])
    reach = edge_reach(histogram.mechanism, q, len(counts), level)
    possible = np.ones(len(counts), dtype=bool)
    possible[1:] &= beyond <= reach
    possible[:-1] &= beyond >= -reach
    possible[place] = True
    first, last = np.flatnonzero(possible)[[0, -1]]
    return ReleasedPercentile(
        ends[0] + (ends[-1] - ends[0]) * float(part), edges[first], edges[last + 1]
    )


def edge_reach(noise: DiscreteLaplace, q: float, bins: int, level: float) -> Floats:
    """Return the distance within which noise moves L - q T with probability `level`, at each inner
    edge, shape (bins - 1,): a sum of the noise of the bins below, times 1 - q, and of the others,
    times -q.

    Normal, or by the fourth moment where that is farther (Cornish and Fisher 1938), and half a
    person for the steps.
    """
    below = np.arange(1, bins)
    squares = below * (1 - q) ** 2 + (bins - below) * q**2
    fourths = below * (1 - q) ** 4 + (bins - below) * q**4
    excess = noise.excess_kurtosis * fourths / squares**2
    z = NormalDist().inv_cdf((1 + level) / 2)
    standard = np.maximum(z, z + excess * (z**3 - 3 * z) / 24)
    return np.asarray(noise.std_error * squares**0.5 * standard + 0.5)
