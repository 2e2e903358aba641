"""The provable methods, by name: how each splits its budget and solves its noisy moments.

A method sees `Rows` and nothing else, releases with one source of noise, and all of its releases
together cost what `Budget` says.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ldp.arrays import Floats
from ldp.central import Noise
from ldp.central.regression.calibration import Budget, calibrate, release_moments
from ldp.central.regression.laplace import FromLaplace, PrivateFit
from ldp.central.regression.rows import GRID, Rows, product
from ldp.regression import ridge
from ldp.regression.noisy_moments import Moments
from ldp.regression.ridge import solved

SPLIT = 1 / 3
"""Share of X'X in the budget."""
ROUNDS, CLIP = 16, 1 / 8
"""Number of rounds, and bound of a residual, targets lying in [-1, 1]."""


def residuals(rows: Rows, coefficients: Floats) -> Floats:
    """Return the residuals of `rows`, shape (n,), of `coefficients`, shape (columns,), clipped to
    CLIP and rounded to multiples of 1 / GRID. They are computed number by number, because a matrix
    product may round a row differently for another number of rows."""
    left = rows.target.copy()
    for column, coefficient in zip(rows.features.T, coefficients, strict=True):
        left -= column * coefficient
    most = CLIP * GRID
    return np.asarray(np.clip(np.rint(np.nan_to_num(left) * GRID), -most, most) / GRID)


class Boosted:
    """ROUNDS steps S**-1 X'r, S being that of `ridge.floored`."""

    words = "clipped residuals in rounds, no interval (after Tang and others 2023)"

    def fit(self, rows: Rows, budget: Budget, noise: Noise) -> PrivateFit:
        """Release X'X and the rounds' X'r of `rows` with `noise`. Returns the coefficients."""
        scales = calibrate(SPLIT, mu=budget.mu, norm=rows.norm, neighbours=budget.neighbours)
        whole = noise.gaussian(rows.xx, scales.xx)
        coefficients = np.zeros(rows.columns)
        for _ in range(ROUNDS):
            left = product(rows.features, residuals(rows, coefficients))
            noisy = noise.gaussian(left, scales.xy * CLIP * math.sqrt(ROUNDS))
            coefficients = coefficients + solved((whole + whole.T) / 2, scales.xx, noisy)
        return PrivateFit(coefficients, budget.cost)


class Method(Protocol):
    """A way to fit privately."""

    @property
    def words(self) -> str:
        """A line of description."""

    def fit(self, rows: Rows, budget: Budget, noise: Noise) -> PrivateFit:
        """Release moments of `rows` with `noise` and solve them."""


@dataclass(frozen=True, kw_only=True)
class FromMoments:
    """Method with Gaussian noise on X'X and X'y (and on the smallest eigenvalue), then `solve`.
    `split`: share of X'X in what `eigenvalue_share` leaves of the budget."""

    words: str
    solve: Callable[[Moments], Floats]
    split: float = 0.5
    eigenvalue_share: float = 0.0

    def fit(self, rows: Rows, budget: Budget, noise: Noise) -> PrivateFit:
        shares, mu = (self.split, self.eigenvalue_share), budget.mu
        scales = calibrate(*shares, mu=mu, norm=rows.norm, neighbours=budget.neighbours)
        moments = release_moments(rows, scales, noise)
        return PrivateFit(self.solve(moments), budget.cost, moments)


METHODS: dict[str, Method] = {
    "ridge": FromMoments(
        words="noise-calibrated ridge, for every direction its own (our default)",
        solve=ridge.floored,
        split=SPLIT,
    ),
    "spectral-ridge": FromMoments(
        words="one ridge, of the length of the noise", solve=ridge.spectral
    ),
    "const-ssp-full": FromMoments(words="one safe ridge (Piazza 2021)", solve=ridge.safe),
    "ada-ssp": FromMoments(
        words="safe ridge less the smallest eigenvalue (Wang 2018)",
        solve=ridge.adaptive,
        eigenvalue_share=1 / 3,
    ),
    "ada-ssp-budget": FromMoments(
        words="the same, 5 % of the budget for the eigenvalue (Piazza 2021)",
        solve=ridge.adaptive,
        eigenvalue_share=0.05,
    ),
    "ssp": FromMoments(words="no ridge at all (Vu and Slavkovic 2009)", solve=ridge.none),
    "robust": FromLaplace(
        words="clipped moments with Laplace noise, pure epsilon (Honkela and others 2018)",
        solve=lambda moments: ridge.floored(moments.as_normal),
    ),
    "boosted": Boosted(),
}
"""Every provable method; the first is the default."""

PURE = tuple(name for name, method in METHODS.items() if isinstance(method, FromLaplace))
"""Methods with Laplace noise, whose delta is 0."""
