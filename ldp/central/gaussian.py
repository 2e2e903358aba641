"""The exact cost of Gaussian noise: the curve delta(epsilon) and its inverses.

It depends on `mu` = sensitivity / standard deviation alone (Balle and Wang 2018, theorem 8).
Several Gaussian releases together are one of mu = root of the sum of their squares (Dong, Roth and
Su 2022, corollary 3.3): this is how the releases of a regression are accounted, jointly.
"""

import math

from scipy.special import erfcx, log_ndtr

from ldp.accounting.bisection import bisect
from ldp.errors import ParameterError, require_positive, require_share
from ldp.protocol.channel import real_number

SLACK = 1e-6
"""Share of delta that is left for the rounding of doubles when a mu is chosen."""
SMALL = 1e-3
"""Largest mu for which delta is not a difference of two numbers that are nearly equal."""
LARGEST = 1e6
"""Largest mu that `gaussian_mu` returns."""


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the least delta for which Gaussian noise of this mu is (epsilon, delta)-private:

        Phi(mu / 2 - epsilon / mu) - e**epsilon Phi(-mu / 2 - epsilon / mu)

    in logarithms, so that no epsilon is too large. `epsilon` >= 0, `mu` >= 0, maybe infinite;
    raises ParameterError for others.

    >>> round(gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    epsilon, mu = real_number(epsilon, "epsilon"), real_number(mu, "mu")
    if not epsilon >= 0 or not mu >= 0:
        raise ParameterError("epsilon and mu must be >= 0")
    if mu == 0 or epsilon == math.inf:
        return 0.0
    if mu == math.inf:
        return 1.0
    if mu < SMALL:
        return _delta_of_small(epsilon, mu)
    log_first = float(log_ndtr(mu / 2 - epsilon / mu))
    log_second = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    return math.exp(log_first) * -math.expm1(min(0.0, log_second - log_first))


def _delta_of_small(epsilon: float, mu: float) -> float:
    """Return `gaussian_delta` of a small mu, or less than a millionth more: phi(x) (R(x) - R(x +
    mu)), x = epsilon / mu - mu / 2, phi the normal density and R Mills' ratio, whose slope is
    convex, so that the trapezoid is not below the difference."""
    x = epsilon / mu - mu / 2
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    if not density:
        return 0.0
    slopes = _mills_slope(x) + _mills_slope(x + mu)
    return density * mu * slopes / 2


def _mills_slope(x: float) -> float:
    """Return by how much Mills' ratio falls at `x`."""
    scaled = float(erfcx(x / math.sqrt(2)))
    return 1 - x * scaled * math.sqrt(math.pi / 2)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu that is (epsilon, delta)-private, by bisection. The result is never
    above it. Raises ParameterError as `require_budget`.

    >>> round(1 / gaussian_mu(1.0, 1e-6), 2)   # standard deviations a unit of sensitivity
    4.22
    """
    require_budget(epsilon, delta)
    most = delta * (1 - SLACK)
    # from LARGEST to the smallest number
    steps = 1100
    return bisect(lambda mu: gaussian_delta(epsilon, mu) <= most, 0.0, LARGEST, steps)[0]


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the least epsilon for which noise of this mu is (epsilon, delta)-private. The result
    is never below it. Infinite for an infinite mu. Raises ParameterError for a negative mu or delta
    outside (0, 1).

    >>> round(gaussian_epsilon(1.0, 1e-6), 3)
    4.887
    """
    mu, delta = real_number(mu, "mu"), require_share(delta, "delta")
    if not mu >= 0:
        raise ParameterError("mu must be >= 0")
    if mu == math.inf:
        return math.inf
    most = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + 1
    return bisect(lambda epsilon: gaussian_delta(epsilon, mu) > delta * (1 - SLACK), 0.0, most)[1]


def require_budget(epsilon: float, delta: float) -> None:
    """Raise ParameterError unless epsilon is finite and > 0, and 0 < delta < 1."""
    require_positive(epsilon, "epsilon")
    require_share(delta, "delta")
