"""Sparse non-negative regression in which every coefficient has an honest error, chosen or not.

The non-negative lasso shrinks what it fits and says nothing of its errors. What it is short of is
what the residual still says of a column: with df columns in the fit of n equations,

    coefficient + column . residual / (|column|**2 (1 - df / n))

is normal around the truth for every column, absent ones too, where columns are as good as random:
Javanmard and Montanari 2014, with the degrees of freedom of Bellec and Zhang 2022. No column is
tested on the noise that selected it, and there may be more columns than equations. The penalty is
the one of the least generalised cross-validation (Golub, Heath and Wahba 1979).
"""

import math
from dataclasses import dataclass

import numpy as np

from ldp.arrays import Floats, Places
from ldp.regression.least_squares import Design

STEP = 0.8
"""From one penalty to the next."""
LEAST = 0.1
"""Of a penalty, in standard errors of a column alone: less hardly shrinks."""
WORSE = 1.02
"""The path ends where cross-validation is so much worse than its best."""
MOST = 0.9
"""Of degrees of freedom, for each equation."""
EXACT = 0.01
"""A coefficient is left when it moves by less, in standard errors of a column alone."""
SWEEPS = 1_000
ROUNDS = 5


@dataclass(frozen=True, eq=False)
class Sparse:
    """Minimises |columns b - target|**2 / 2 + penalty sum of |column| b over b >= 0: the columns
    `chosen` have positive `coefficients`; `residual`, shape (equations,)."""

    chosen: Places
    coefficients: Floats
    residual: Floats
    penalty: float


def nonnegative_path(design: Design, target: Floats, equations: int) -> Sparse:
    """The fit whose penalty has the least cross-validation.

    Equations have unit variance; `equations`: how many there are, where some are no constraint.
    Time: a pass over the columns for each of some 20 penalties.
    """
    work = _Working(design, target)
    z = work.scores(target)
    penalty, best, least = max(LEAST, float(z.max(initial=0.0))), work.fit(np.inf), np.inf
    while penalty >= LEAST:
        work.add(np.flatnonzero(z > penalty))
        fit = work.fit(penalty)
        freedom = equations - fit.chosen.size
        error = float(fit.residual @ fit.residual) / max(1, freedom) ** 2
        if error > WORSE * least or freedom < (1 - MOST) * equations:
            break
        if error < least:
            best, least = fit, error
        z = work.scores(fit.residual)
        penalty *= STEP
    return best


def refitted(design: Design, target: Floats, fit: Sparse, equations: int) -> Sparse:
    """The same at the penalty of `fit`, of equations that are weighted a little differently; none
    for columns that even as shrunk pass the universal threshold of Donoho and Johnstone 1994, which
    no noise would."""
    work = _Working(design, target)
    variance = float(fit.residual @ fit.residual) / max(1, equations - fit.chosen.size)
    threshold = math.sqrt(2 * math.log(work.norms.size) * variance)
    work.free[fit.chosen] = fit.coefficients * work.norms[fit.chosen] > threshold
    new = fit.chosen
    for _ in range(ROUNDS):
        work.add(new)
        fit = work.fit(fit.penalty)
        new = np.flatnonzero(work.scores(fit.residual) > fit.penalty)
        if not new.size:
            break
    return fit


def unbiased(design: Design, fit: Sparse, equations: int, scale: float) -> tuple[Floats, Floats]:
    """Coefficients that are not shrunk and their standard errors, of every column: shape (columns,)
    each. `scale`: variance of the residuals for each degree of freedom; two columns that are the
    same have an infinite error."""
    own = design.norms() ** 2 * max(1 - MOST, 1 - fit.chosen.size / equations)
    columns = design.columns(fit.chosen)
    own[fit.chosen] = 1 / np.diag(np.linalg.pinv(columns.T @ columns, hermitian=True))
    own = np.maximum(own, 1e-300)
    coefficients = design.correlations(fit.residual) / own
    coefficients[fit.chosen] += fit.coefficients
    # columns that are the same have the same product with anything
    marks = design.correlations(np.random.default_rng(0).normal(size=fit.residual.size))
    _, which, times = np.unique(marks, return_inverse=True, return_counts=True)
    std_errors = np.sqrt(scale / own)
    std_errors[times[which] > 1] = np.inf
    return coefficients, std_errors


class _Working:
    """The columns that may be in the fit, their products with each other and with the target."""

    def __init__(self, design: Design, target: Floats) -> None:
        self.design, self.target = design, target
        norms = design.norms()
        self.norms = np.where(norms > 0, norms, np.inf)
        self.places = np.empty(0, dtype=np.intp)
        self.columns = design.columns(self.places)
        self.gram, self.products = np.empty((0, 0)), np.empty(0)
        self.coefficients = np.empty(0)
        self.free = np.zeros(norms.size, dtype=bool)

    def scores(self, residual: Floats) -> Floats:
        """What each column that may not be in the fit says of the residual, in standard errors."""
        z: Floats = self.design.correlations(residual) / self.norms
        z[self.places] = 0
        return z

    def add(self, new: Places) -> None:
        made = self.design.columns(new)
        across = self.columns.T @ made
        self.gram = np.block([[self.gram, across], [across.T, made.T @ made]])
        self.columns = np.hstack([self.columns, made])
        self.places = np.concatenate([self.places, new])
        self.products = np.concatenate([self.products, made.T @ self.target])
        self.coefficients = np.concatenate([self.coefficients, np.zeros(new.size)])

    def fit(self, penalty: float) -> Sparse:
        gradient = self.products - self.gram @ self.coefficients
        if self.places.size:
            from ldp.regression.descent import descend  # late: numba takes half a second to import

            penalties = np.where(self.free[self.places], 0.0, penalty)
            descend(self.gram, gradient, self.coefficients, penalties, EXACT, SWEEPS)
        inside = np.flatnonzero(self.coefficients)
        coefficients = self.coefficients[inside]
        residual = self.target - self.columns[:, inside] @ coefficients
        return Sparse(self.places[inside], coefficients, residual, penalty)
