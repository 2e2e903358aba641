"""Consistent counts, at least 0 or adding up: an option after decoding, never the default.

Unbiased estimates may lie below 0 and need not add up. Making them consistent lowers the error of
the whole list, raises that of its largest counts, and biases each; intervals, p-values and
discoveries stay those of the unbiased estimates. Sources: Wang et al., NDSS 2020 (arXiv
1905.08320), Base-Pos and Norm-Sub; Robbins 1956 and Kiefer and Wolfowitz 1956 (empirical Bayes
with the prior of maximum likelihood).
"""

import math
from dataclasses import replace

import numpy as np

from ldp.arrays import Floats
from ldp.errors import DecodeError, ParameterError
from ldp.tables.estimates import Estimates

CONSISTENCIES = ("none", "non-negative", "sum-to-n", "posterior-mean")
CLEAR = 6.0
"""Standard errors from which the posterior mean of a count is the count."""
MOST_FITTED, STEPS = 10_000, 200
"""Largest number of counts that the prior is fitted to, and steps of EM."""


def consistent(estimates: Estimates, how: str) -> Estimates:
    """Return the estimates with counts to print as `how` says, and the bias in `details`.

    "non-negative": counts below 0 become 0. "sum-to-n": the nearest counts, in least squares, that
    are 0 or more and add to the number of reports; for lists of all values, because the reports of
    other values are added to those on the list. "posterior-mean": each count's mean, given its
    estimate, if the counts of the list are drawn from the distribution under which its estimates
    are most likely. "none": unbiased. Raises ParameterError for anything else, and DecodeError for
    no candidates.
    """
    if how not in CONSISTENCIES:
        raise ParameterError(f"consistency must be one of {', '.join(CONSISTENCIES)}")
    if how == "none":
        return replace(estimates, projected=None)
    raw, n = estimates.count, estimates.reports
    if how == "sum-to-n" and "at_most" in estimates.details:
        raise DecodeError("counts of sets of answers add to no known number: use non-negative")
    if how == "posterior-mean":
        grid, prior = fitted_prior(raw, estimates.std_error, estimates.noise)
        counts = posterior_mean(raw, estimates.std_error, grid, prior)
        quantiles = estimates.noise * np.linspace(-4, 4, 81)
        density = np.exp(-(np.linspace(-4, 4, 81) ** 2) / 2)
        noise = np.full(81, estimates.noise)
        to_nobody = posterior_mean(quantiles, noise, grid, prior) @ density / density.sum()
        bias = (
            "every count is drawn towards those that are frequent in the list, more so the nearer "
            f"it is to the noise; a value that nobody holds is given {to_nobody:,.1f} reports on "
            "average; the squared error of the whole list falls, that of its largest counts rises"
        )
    elif how == "non-negative":
        counts = np.maximum(raw, 0.0)
        too_many = estimates.noise / math.sqrt(2 * math.pi)  # E max(0, Z) of a normal Z
        bias = f"a value that nobody holds is given {too_many:,.0f} reports on average"
    else:
        if not raw.size:
            raise DecodeError("there are no counts to add up")
        shift = simplex_shift(raw, n)
        counts = np.maximum(raw - shift, 0.0)
        bias = (
            f"every count was {'lowered' if shift > 0 else 'raised'} by {abs(shift):,.0f} and then "
            "cut at 0: rare values are lost, and reports of values that are not on the list are "
            "given to those that are; the squared error of the whole list falls, that of its "
            "largest counts rises"
        )
    details = {**estimates.details, "consistency": how, "consistency_bias": bias}
    return replace(estimates, projected=counts, details=details)


def simplex_shift(counts: Floats, total: float) -> float:
    """Return the t for which the positive parts of `counts` - t, shape (candidates,), add to
    `total` > 0: the projection on the simplex (Held, Wolfe and Crowder 1974)."""
    falling = np.sort(counts)[::-1]
    shifts = (falling.cumsum() - total) / np.arange(1, falling.size + 1)
    return float(shifts[np.flatnonzero(falling > shifts)[-1]])


def fitted_prior(count: Floats, std_error: Floats, noise: float) -> tuple[Floats, Floats]:
    """Return counts from 0 to a little above CLEAR standard errors `noise`, and the probabilities
    of these under which the estimates `count` below CLEAR are most likely, by EM; of long lists
    every so-manyth is taken. All of shape (candidates,); the results (points,)."""
    grid = np.arange(0.0, CLEAR + 2, 0.25) * noise
    prior = np.full(grid.size, 1 / grid.size)
    is_near = count < CLEAR * std_error
    step = -(-int(is_near.sum()) // MOST_FITTED) or 1
    likelihood = _likelihood(count[is_near][::step], std_error[is_near][::step], grid)
    for _ in range(STEPS if len(likelihood) else 0):
        weights = likelihood * prior
        prior = (weights / weights.sum(axis=1, keepdims=True)).mean(axis=0)
    return grid, prior


def posterior_mean(count: Floats, std_error: Floats, grid: Floats, prior: Floats) -> Floats:
    """Return the mean of each count given its estimate, the estimate itself from CLEAR standard
    errors on. `count`, `std_error`: shape (candidates,); `grid`, `prior`: as `fitted_prior`."""
    means = count.copy()
    near = np.flatnonzero(count < CLEAR * std_error)
    for part in np.array_split(near, max(1, near.size // MOST_FITTED)):
        weights = _likelihood(count[part], std_error[part], grid) * prior
        means[part] = weights @ grid / weights.sum(axis=1)
    return means


def _likelihood(count: Floats, std_error: Floats, grid: Floats) -> Floats:
    """Return the normal density of each estimate at each true count, over the largest of it: shape
    (candidates, points)."""
    squares = ((count[:, None] - grid) / np.maximum(std_error, 1e-300)[:, None]) ** 2
    return np.asarray(np.exp((squares.min(axis=1, keepdims=True) - squares) / 2))
