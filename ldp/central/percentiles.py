"""Percentiles from a curator's noisy histogram of bins in order, with intervals for the people who
were counted.

Source: Cornish and Fisher 1938 (quantiles of a sum from its fourth moment).
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ldp.arrays import Floats
from ldp.central.mechanisms import DiscreteLaplace
from ldp.central.queries import Histogram
from ldp.errors import ParameterError

NORMAL = NormalDist()


class Percentile(NamedTuple):
    """A quantile in the units of the edges: `estimate`, and the ends of its interval, which
    are edges; nan and the ends of all bins where the noisy counts do not add to one person."""

    estimate: float
    low: float
    high: float


def percentile(
    histogram: Histogram, edges: Sequence[float], q: float, level: float = 0.95
) -> Percentile:
    """Return the least number with a share of at least `q` of the people at or below it; the
    categories of `histogram` are bins in order, between `edges`, shape (bins + 1,).

    With L people below an edge and T in all, the quantile is where L - q T crosses 0, and noise
    moves that by a weighted sum of all counts' noise. The interval has the bins whose two edges are
    not on the wrong side by more than such a sum is off with probability 1 - `level`. Raises
    ParameterError for q or level outside (0, 1).
    """
    if not 0 < q < 1 or not 0 < level < 1:
        raise ParameterError("a quantile and its level must lie strictly between 0 and 1")
    from scipy.optimize import isotonic_regression  # late: it takes a tenth of a second

    counts = np.array(histogram.counts, dtype=np.float64)
    total = float(counts.sum())
    if total < 1:
        return Percentile(math.nan, edges[0], edges[-1])
    beyond = np.cumsum(counts)[:-1] - q * total
    heights = np.array([-q * total, *isotonic_regression(beyond).x, (1 - q) * total])
    place = int(np.searchsorted(heights[1:-1], 0.0))
    ends = [*filter(math.isfinite, edges[place : place + 2])]
    part = heights[place] / (heights[place] - heights[place + 1])
    reach = edge_reach(histogram.mechanism, q, len(counts), level)
    possible = np.ones(len(counts), dtype=bool)
    possible[1:] &= beyond <= reach
    possible[:-1] &= beyond >= -reach
    possible[place] = True
    first, last = np.flatnonzero(possible)[[0, -1]]
    return Percentile(ends[0] + (ends[-1] - ends[0]) * float(part), edges[first], edges[last + 1])


def edge_reach(noise: DiscreteLaplace, q: float, bins: int, level: float) -> Floats:
    """Return how far at most noise moves L - q T at each inner edge with probability `level`, shape
    (bins - 1,): a sum of the noise of the bins below, by 1 - q, and of the others, by -q.

    Normal, or by the fourth moment where that is farther, and half a person for the steps.
    """
    below = np.arange(1, bins)
    squares = below * (1 - q) ** 2 + (bins - below) * q**2
    fourths = below * (1 - q) ** 4 + (bins - below) * q**4
    excess = noise.excess_kurtosis * fourths / squares**2
    z = NORMAL.inv_cdf((1 + level) / 2)
    standard = np.maximum(z, z + excess * (z**3 - 3 * z) / 24)
    return np.asarray(noise.std_error * squares**0.5 * standard + 0.5)
