"""Statistical checks that state how often they fail on a correct implementation.

Every helper returns exact or bounded p-values; a test compares them with ALPHA, split over its
checks by Bonferroni, so ALPHA is the false-failure probability of the test.
"""

from collections.abc import Mapping

import numpy as np
from scipy.stats import binom, norm

from ldp.arrays import Floats, Ints
from ldp.audit.judging import binomial_p

ALPHA = 1e-6


def law_p(samples: Ints, law: Mapping[int, float]) -> float:
    """Smallest Bonferroni-adjusted p-value of the number of samples at each point of a discrete
    law: each is exactly binomial when the samples have that law."""
    points = np.array(list(law))
    claimed = np.clip(np.array(list(law.values())), 0.0, 1.0)
    seen = (samples[:, None] == points).sum(axis=0)
    p_values = binomial_p(seen, np.full(points.size, samples.size), claimed)
    outside = samples.size - int(seen.sum())
    if outside and 1 - claimed.sum() < 1e-12:
        return 0.0
    return float(min(1.0, p_values.min() * points.size))


def share_p(holding: int, trials: int, low: float, high: float) -> float:
    """p-value of "the probability lies in [low, high]" for `holding` of `trials` independent
    events: the exact binomial tail at the nearer end."""
    below = float(binom.cdf(holding, trials, low))
    above = float(binom.sf(holding - 1, trials, high))
    return (
        min(1.0, 2 * min(below, above))
        if holding / trials < low or (holding / trials > high)
        else 1.0
    )


def mean_p(samples: Floats, mean: float, std_error: float) -> float:
    """Two-sided normal p-value of the average of many samples of known standard error each."""
    z = (samples.mean() - mean) / (std_error / np.sqrt(samples.size))
    return float(2 * norm.sf(abs(z)))
