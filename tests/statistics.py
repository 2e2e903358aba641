"""Statistical checks that state how often they fail on a correct implementation.

Every helper returns exact or bounded p-values. A test compares them with ALPHA, split over its
checks by Bonferroni. So ALPHA is the test's false-failure probability.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import beta, binom, norm

from ldp.arrays import Floats, Ints
from ldp.audit.judging import Checks, binomial_p

ALPHA = 1e-6
STRONGEST = 300
"""Counts of an audit, by standard deviations, that `chance_missed` examines."""


def law_p(samples: Ints, law: Mapping[int, float]) -> float:
    """Return the smallest Bonferroni-adjusted p-value over the points of a discrete law.

    Each number of samples at a point is exactly binomial when the samples have that law.
    """
    points = np.array(list(law))
    claimed = np.clip(np.array(list(law.values())), 0.0, 1.0)
    seen = (samples[:, None] == points).sum(axis=0)
    p_values = binomial_p(seen, np.full(points.size, samples.size), claimed)
    outside = samples.size - int(seen.sum())
    if outside and 1 - claimed.sum() < 1e-12:
        return 0.0
    return float(min(1.0, p_values.min() * points.size))


def share_p(holding: int, trials: int, low: float, high: float) -> float:
    """Return the p-value of "the probability lies in [low, high]" by the exact binomial tail.

    `holding` of `trials` independent events hold; the tail is that at the nearer end.
    """
    below = float(binom.cdf(holding, trials, low))
    above = float(binom.sf(holding - 1, trials, high))
    return (
        min(1.0, 2 * min(below, above))
        if holding / trials < low or (holding / trials > high)
        else 1.0
    )


def mean_p(samples: Floats, mean: float, std_error: float) -> float:
    """Return the two-sided normal p-value of the mean of many samples of known standard error
    each."""
    z = (samples.mean() - mean) / (std_error / np.sqrt(samples.size))
    return float(2 * norm.sf(abs(z)))


def chance_missed(checks: Sequence[Checks], alpha: float) -> float:
    """Return the largest probability with which fresh reports of a wrong encoder would pass an
    audit.

    There are as many reports as in `checks`, and the audit is at `alpha`. They pass when the count
    that refutes best would not refute. Its true probability is taken at its limit of confidence
    (Clopper and Pearson, one-sided, at ALPHA for all counts together). So the result is wrong with
    probability ALPHA; it is 1 where nothing refutes. Only STRONGEST counts on each side are
    examined, as the others could only make it smaller.
    """
    observed, trials, claimed = (
        np.concatenate([each[part] for each in checks]) for part in (1, 2, 3)
    )
    sizes, missed = np.array([each[1].size for each in checks]), [1.0]
    expected, ends = trials * claimed, np.cumsum(sizes)
    scores = (observed - expected) / np.sqrt(np.maximum(expected * (1 - claimed), 1e-9))
    for is_more in (True, False):
        order = np.argpartition(-scores if is_more else scores, min(STRONGEST, scores.size) - 1)
        far = order[:STRONGEST]
        far = far[scores[far] > 0 if is_more else scores[far] < 0]
        of, shares = trials[far], 1 / (len(checks) * sizes[np.searchsorted(ends, far, "right")])
        level = alpha / 2 * (1 / observed.size + shares)
        seen = observed[far] if is_more else of - observed[far]
        chance = claimed[far] if is_more else 1 - claimed[far]
        refuting = binomial_p(seen, of, chance) < level
        seen, of, chance, level = seen[refuting], of[refuting], chance[refuting], level[refuting]
        low, critical = np.floor(of * chance), of + 1.0  # binom.isf has no levels below 1e-16
        while (critical - low > 1).any():
            middle = np.floor((low + critical) / 2)
            is_refuted = 2 * binom.sf(middle - 1, of, chance) < level
            low, critical = (
                np.where(is_refuted, low, middle),
                np.where(is_refuted, middle, critical),
            )
        least = beta.ppf(ALPHA / observed.size, seen, of - seen + 1)
        missed += binom.cdf(critical - 1, of, least).tolist()
    return min(missed)
