"""Boosting of clipped residuals: X'X once, then steps, each from a noisy X'r.

After Tang and others 2023, whose public code neither scales its noise with the budget nor charges
its rounds. The residuals r = y - X b of the coefficients b so far are clipped to [-CLIP, CLIP]. A
person changes X'r by N CLIP at most, and by twice that when replaced, whatever was released before:
a residual depends on its row and on what was released. Gaussian releases compose adaptively (Dong,
Roth and Su 2022, theorem 4). With noise of sigma CLIP sqrt(ROUNDS) in each round all rounds
together change as much as one X'y of targets in [-1, 1] would with noise of sigma, so `joint_mu`
holds as it stands; c is the cosine of two persons' rows whose residuals differ in sign.
"""

import math
from dataclasses import dataclass

import numpy as np

from ldp.arrays import Floats
from ldp.central import Noise
from ldp.central.regression.calibration import Budget, Fit, Shares, calibrate
from ldp.central.regression.rows import GRID, Rows, product
from ldp.regression.ridge import solved

SPLIT = 1 / 3
"""Share of X'X in the budget."""
ROUNDS, CLIP = 16, 1 / 8
"""Number of rounds, and bound of a residual, targets lying in [-1, 1]."""


def residuals(rows: Rows, coefficients: Floats) -> Floats:
    """Return the residuals of `rows`, shape (n,), of `coefficients`, shape (columns,), clipped to
    CLIP and rounded to multiples of 1 / GRID; number by number, as a matrix product may round a row
    by how many there are."""
    left = rows.target.copy()
    for column, coefficient in zip(rows.features.T, coefficients, strict=True):
        left -= column * coefficient
    most = CLIP * GRID
    return np.asarray(np.clip(np.rint(np.nan_to_num(left) * GRID), -most, most) / GRID)


@dataclass(frozen=True, kw_only=True)
class Boosted:
    """ROUNDS steps S**-1 X'r, S being that of `ridge.floored`."""

    words: str = "clipped residuals in rounds, no interval (after Tang and others 2023)"

    def fit(self, rows: Rows, budget: Budget, noise: Noise) -> Fit:
        """Release X'X and the rounds' X'r of `rows` with `noise`; return the coefficients."""
        shares = Shares.of(split=SPLIT)
        scales = calibrate(shares, mu=budget.mu, norm=rows.norm, neighbours=budget.neighbours)
        whole = noise.gaussian(rows.xx, scales.xx)
        coefficients = np.zeros(rows.columns)
        for _ in range(ROUNDS):
            left = product(rows.features, residuals(rows, coefficients))
            noisy = noise.gaussian(left, scales.xy * CLIP * math.sqrt(ROUNDS))
            coefficients = coefficients + solved((whole + whole.T) / 2, scales.xx, noisy)
        return Fit(coefficients, budget.cost)
