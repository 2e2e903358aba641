"""Boosting of clipped residuals: X'X once, then steps, each from a noisy X'r.

After Tang and others 2023, whose public code neither scales its noise with the budget nor charges
its rounds. The residuals r = y - X b of the coefficients b so far are clipped to a bound that falls
from 1 to LAST, so that the noise of later rounds, which is what remains in b, is smaller. A person
changes X'r by N bound at most, and by twice that when replaced, whatever was released before. With
noise of sigma bound / sqrt(w) in the round of weight w, all w adding to 1, the rounds together
change as much as X'y by itself would with noise of sigma: `joint_mu` holds as it stands, c being
the cosine of two persons' rows whose residuals differ in sign in every round. Bounds, weights and
the number of rounds depend on what was released before, which Gaussian releases allow as long as
the sum of w is at most 1 whatever is released (Smith and Thakurta 2022).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ldp.arrays import Floats
from ldp.central import Noise
from ldp.central.regression.calibration import Budget, Fit, Shares, calibrate
from ldp.central.regression.rows import GRID, Rows, product
from ldp.regression.ridge import noise_length, solved

SPLIT = 1 / 3
"""Share of X'X in the budget."""
LAST = 0.3
"""Bound of the residuals in the last of several rounds, targets lying in [-1, 1]."""
MOST_ROUNDS, PER_SIGNAL = 8, 25
"""Largest number of rounds, and rounds for each noise length in the mean eigenvalue of X'X."""
STEPS, LONGEST = 2**18, 255.0
"""Steps of 1 of the coefficients that residuals are taken of, and largest sum of their sizes: every
product and sum is then exact in doubles, so that a row's residual depends on no other row."""


def rounds_of(signal: float) -> int:
    """Return the number of rounds for a mean eigenvalue of X'X of `signal` noise lengths: one where
    X'X is hardly more than noise, as each round then adds more noise than it mends."""
    return min(MOST_ROUNDS, max(1, math.ceil(PER_SIGNAL * signal)))


def residuals(rows: Rows, coefficients: Floats, bound: float) -> Floats:
    """Return the residuals of `rows`, shape (n,), of `coefficients`, shape (columns,), rounded and
    shortened, clipped to `bound` and rounded to multiples of 1 / GRID."""
    shrink = min(1.0, LONGEST / max(LONGEST, float(np.abs(coefficients).sum())))
    exact = np.trunc(coefficients * shrink * STEPS) / STEPS
    most = math.floor(bound * GRID)
    scaled = (rows.target - rows.features @ exact) * GRID
    return np.asarray(np.clip(np.rint(scaled), -most, most) / GRID)


@dataclass(frozen=True, kw_only=True)
class Boosted:
    """Rounds of equal weight, each with a step S**-1 X'r, S being that of `ridge.floored`."""

    words: str = "clipped residuals in rounds, no interval (after Tang and others 2023)"
    rounds: Callable[[float], int] = rounds_of

    def fit(self, rows: Rows, budget: Budget, noise: Noise) -> Fit:
        """Release X'X and the rounds' X'r of `rows` with `noise`; return the coefficients."""
        shares = Shares.of(split=SPLIT)
        scales = calibrate(shares, mu=budget.mu, norm=rows.norm, neighbours=budget.neighbours)
        whole = noise.gaussian(rows.xx, scales.xx)
        xx = (whole + whole.T) / 2
        signal = float(np.trace(xx)) / rows.columns / noise_length(rows.columns, scales.xx)
        number, coefficients = self.rounds(signal), np.zeros(rows.columns)
        for bound in np.geomspace(1.0, LAST, number).tolist():
            gradient = product(rows.features, residuals(rows, coefficients, bound))
            noisy = noise.gaussian(gradient, scales.xy * bound * math.sqrt(number))
            coefficients = coefficients + solved(xx, scales.xx, noisy)
        return Fit(coefficients, budget.cost)
