"""Output perturbation: noise on the coefficients themselves.

The method is that of Chaudhuri, Monteleoni and Sarwate 2011, for least squares as in Wu and others
2015. The coefficients minimise sum (y - x b)**2 / 2 + ridge |b|**2 / 2 over |b| <= radius. One
person's part of it has gradients of length L = N (N radius + 1) at most. By the ridge's strong
convexity, one more or one fewer person moves the minimum by L / ridge at most; a replaced person
moves it by twice that. Normal noise hides the move; its direction is uniform. (One published
implementation divides uniform numbers by the root of their sum instead.)
"""

import math
from dataclasses import dataclass

import numpy as np

from ldp.accounting import Neighbours
from ldp.accounting.bisection import bisect
from ldp.arrays import Floats
from ldp.central import Noise
from ldp.central.regression.calibration import Budget
from ldp.central.regression.laplace import PrivateFit
from ldp.central.regression.rows import Rows

RADIUS = 1.0
"""Public length that mapped coefficients are held to."""
ROUNDING = 1 + 2e-6
"""Factor on the sensitivity, for the error of solving MOST_ROWS rows in doubles."""


@dataclass(frozen=True, kw_only=True)
class Output:
    """Ridge inside a ball, plus noise; the number of rows is public.

    The ridge makes the noise as long as the shrinkage. The noise is about sqrt(columns) L / (ridge
    mu) long, the shrinkage about ridge / (rows N**2 / columns).
    """

    words: str = "noise on the coefficients (Chaudhuri, Monteleoni and Sarwate 2011)"

    def fit(self, rows: Rows, budget: Budget, noise: Noise) -> PrivateFit:
        steepest = rows.norm * (rows.norm * RADIUS + 1)
        if budget.neighbours is Neighbours.REPLACE_VALUE:
            steepest *= 2
        length = steepest * np.sqrt(rows.columns) / budget.mu
        strength = math.sqrt(length * len(rows.target) * rows.norm**2 / rows.columns)
        scale = steepest / (strength * budget.mu) * ROUNDING
        return PrivateFit(noise.gaussian(in_ball(rows.xx, rows.xy, strength), scale), budget.cost)


def in_ball(xx: Floats, xy: Floats, ridge: float) -> Floats:
    """Return the minimum over |b| <= RADIUS of b' xx b / 2 - b' xy + ridge |b|**2 / 2.

    `xx` has shape (columns, columns). The ridge is raised until its solution lies inside the ball.
    """
    values, vectors = np.linalg.eigh(xx)
    turned = vectors.T @ xy

    def solution(added: float) -> Floats:
        return np.asarray(turned / (np.maximum(values, 0) + ridge + added))

    def is_outside(added: float) -> bool:
        return bool(np.linalg.norm(solution(added)) > RADIUS)

    added = 0.0
    if is_outside(added):
        added = bisect(is_outside, added, float(np.linalg.norm(turned)) / RADIUS)[1]
    return np.asarray(vectors @ solution(added))
