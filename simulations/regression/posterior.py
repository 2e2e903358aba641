"""OPS and AdaOPS as Wang 2018 coded them: one draw from the posterior of a ridge regression.

Both draw theta ~ N(ridge solution, (X'X + ridge)**-1 / precision). OPS fixes ridge and precision
from (epsilon, delta) and public bounds. AdaOPS first releases the smallest eigenvalue and a bound
on the loss's slope with noise. Both need unit rows and targets in [-1, 1]. Their claims are the
publication's: no test here checks them, so neither is offered for a release. The code follows the
formulas of `adaops.m` and `OPS_epsdelta_balanced.m`.
"""

import math

import numpy as np
from scipy.optimize import brentq

from ldp.arrays import Floats
from simulations.regression.sums import Sums

FAILURE = 0.05


def _spread(columns: int, epsilon: float, delta: float) -> float:
    """Return the constant of the bound on the length of the draw's noise."""
    length = columns / 2 + math.sqrt(columns * math.log(1 / FAILURE)) + math.log(1 / FAILURE)
    return length * math.log(2 / delta) / epsilon**2


def _root(a: float, b: float, c: float) -> float:
    """Return the positive root of a x**2 + b x + c, c < 0 < a."""
    return (math.sqrt(b**2 - 4 * a * c) - b) / (2 * a)


def _draw(sums: Sums, ridge: float, root: float, generator: np.random.Generator) -> Floats:
    """Return a draw whose precision is root**2 times the ridged X'X plus the identity."""
    matrix = sums.xx + (1 + ridge) * np.eye(len(sums.xy))
    upper = np.linalg.cholesky(matrix).T
    noise = np.linalg.solve(upper, generator.normal(size=len(sums.xy)))
    return np.asarray(np.linalg.solve(matrix, sums.xy) + noise / root)


def ops(sums: Sums, *, epsilon: float, delta: float, generator: np.random.Generator) -> Floats:
    """Return the coefficients by one posterior sample with a fixed ridge ("balanced")."""
    n, columns = sums.rows, len(sums.xy)
    spread = _spread(columns, min(epsilon / 2, math.sqrt(epsilon / 2)), delta)
    ridge = max((spread * n / 2) ** (1 / 3), (1 + math.log(2 / delta)) / epsilon)
    slope = min(math.sqrt(n / (2 * ridge)), n / ridge) + 1
    root = _root(
        slope**2 / (ridge + 1),
        slope * math.sqrt(math.log(2 / delta) / ridge),
        (1 + math.log(2 / delta)) / (2 * ridge) - epsilon,
    )
    return _draw(sums, ridge, root, generator)


def ada_ops(sums: Sums, *, epsilon: float, delta: float, generator: np.random.Generator) -> Floats:
    """Return the coefficients by one posterior sample whose ridge follows the data.

    The smallest eigenvalue takes a quarter of epsilon, the slope a quarter, the sample half.
    """
    columns, log = len(sums.xy), math.log(6 / delta)
    eigenvalue = float(np.linalg.eigvalsh(sums.xx)[0]) + 1
    released = eigenvalue + (generator.normal() * math.sqrt(log) - log) / (epsilon / 4)
    released = max(released, 0.0)
    least = max(2 * (1 + log) / epsilon - released, 0.0)
    spread = _spread(columns, _root(log / 2, 1.0, -epsilon / 4), delta / 3)
    ridge = max(_best_total(spread, 4 * log / epsilon) - released, least)
    total = ridge + released
    theta = sums.solved(ridge + 1)
    scale = math.log1p(1 / total) / (epsilon / 4)
    logarithm = math.log(1 + np.linalg.norm(theta)) + scale * (
        generator.normal() * math.sqrt(log) + log
    )
    slope = min(math.exp(min(logarithm, 700.0)), 1 + math.sqrt(2 * math.sqrt(sums.rows) / total))
    root = _root(
        slope**2 / (2 * (total + 1)),
        slope * math.sqrt(log / total),
        (1 + log) / (2 * total) - epsilon / 2,
    )
    return _draw(sums, ridge, root, generator)


def _best_total(spread: float, slope: float) -> float:
    """Return the h > 0 that minimises spread (1 + 1/h)**(2 slope) / h + h."""

    def excess(log_h: float) -> float:
        h = math.exp(log_h)
        power = math.log(spread) + 2 * slope * math.log1p(1 / h) - 2 * log_h
        return min(power, 700.0) + math.log1p(2 * slope / (h + 1))  # log of what h is worth

    return math.exp(brentq(excess, -5.0, 60.0))
