"""The functional mechanism (Zhang and others 2012), with pure epsilon.

It adds Laplace noise of one scale to the squared error's coefficients, X'X and -2 X'y. The
sensitivities are those of `ldp.central.regression.laplace`.
"""

import math
from dataclasses import dataclass

import numpy as np

from ldp.central import Laplace, Noise
from ldp.central.regression.calibration import Budget
from ldp.central.regression.laplace import LaplaceMoments, PrivateFit, Sensitivities, symmetric
from ldp.central.regression.rows import ROUNDED, Rows

TRIM = 4.0
"""Standard deviations of its noise that the functional mechanism adds to X'X."""


@dataclass(frozen=True, kw_only=True)
class Functional:
    """Functional mechanism: noise of one scale on the squared error's coefficients.

    It adds a ridge of TRIM standard deviations, and uses only the directions that are then
    positive. Its cost is pure epsilon.
    """

    words: str = "Laplace noise on the objective, pure epsilon (Zhang and others 2012)"

    def fit(self, rows: Rows, budget: Budget, noise: Noise) -> PrivateFit:
        most = Sensitivities.of(np.ones(rows.columns), budget.neighbours, norm=rows.norm)
        # coefficients of theta: X'X above the diagonal, and -2 X'y
        mechanism = Laplace(
            epsilon=budget.epsilon,
            sensitivity=(most.xx + 2 * most.xy) * (1 + ROUNDED),
            neighbours=budget.neighbours,
        )
        upper = np.triu_indices(rows.columns)
        release = mechanism.release(np.concatenate([rows.xx[upper], 2 * rows.xy]), noise)
        xx = symmetric(release[: len(upper[0])], rows.columns)
        values, vectors = np.linalg.eigh(xx + TRIM * mechanism.std_error * np.eye(rows.columns))
        is_positive = values > 1e-8 * max(1.0, float(values[-1]))
        part = vectors[:, is_positive]
        xy = release[len(upper[0]) :] / 2
        b = part @ ((part.T @ xy) / values[is_positive])
        scales = (mechanism.scale, mechanism.scale / 2, math.inf)
        moments = LaplaceMoments(xx, xy, math.nan, scales, len(rows.target))
        return PrivateFit(np.asarray(b, dtype=np.float64), budget.pure_cost, moments)
