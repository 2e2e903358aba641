"""Sparse non-negative regression with a standard error for every coefficient, chosen or not.

The non-negative lasso shrinks what it fits and has no standard errors. What it took off is still
in the residual's product with the column: with df columns in the fit of n equations,

    coefficient + column . residual / (|column|**2 (1 - df / n))

is normal around the truth for every column, absent ones too, where columns are as good as random:
Javanmard and Montanari 2014, with the degrees of freedom of Bellec and Zhang 2022. No column is
tested on the noise that selected it, and there may be more columns than equations. The penalty has
the least generalised cross-validation (Golub, Heath and Wahba 1979).
"""

import math
from dataclasses import dataclass

import numpy as np

from ldp.arrays import Floats, Places
from ldp.regression.descent import descend
from ldp.regression.least_squares import Design, inverse_diagonal

STEP = 0.8
"""Ratio of a penalty to the one before."""
LEAST = 0.1
"""Least penalty, in standard errors of a column alone: smaller ones hardly shrink."""
WORSE = 1.02
"""Ratio of the cross-validation to its best at which the path ends."""
MOST = 0.9
"""Largest number of degrees of freedom of a fit, for each equation."""
ROUNDING = 1e-13
"""Largest difference between products of columns that are the same, in lengths of a column."""
NOTHING = 1e-300
"""Information of a column that no equation is about."""
EXACT = 0.01
"""Change of a coefficient, in standard errors of a column alone, below which descent ends."""
EXACT_OF_PORTIONS = 1e-4
"""Tolerance where columns come in portions, so that the fit is that of all of them at once."""
ROUNDS = 5
PORTION = 1 << 11
"""Largest number of columns that join the descent at once."""


@dataclass(frozen=True, eq=False)
class Sparse:
    """Minimum of |columns b - target|**2 / 2 + penalty sum of |column| b over b >= 0: the columns
    `chosen` have positive `coefficients`; `residual`, shape (equations,)."""

    chosen: Places
    coefficients: Floats
    residual: Floats
    penalty: float


def nonnegative_path(design: Design, target: Floats, equations: int) -> Sparse:
    """Return the fit whose penalty has the least cross-validation.

    `target`: shape (equations,), of unit variance. `equations`: number of equations that constrain
    the fit. Time: a pass over the columns for each of some 20 penalties.
    """
    work = _Working(design, target)
    z = work.scores(target)
    penalty, best, least = max(LEAST, float(z.max(initial=0.0))), work.fit(np.inf, EXACT), np.inf
    while penalty >= LEAST:
        fit = work.fit_with(np.flatnonzero(z > penalty), z, penalty)
        freedom = equations - fit.chosen.size
        error = float(fit.residual @ fit.residual) / max(1, freedom) ** 2
        if error > WORSE * least or freedom < (1 - MOST) * equations:
            break
        if error < least:
            best, least = fit, error
        z = work.scores(fit.residual)
        penalty *= STEP
    return best


def refit(design: Design, target: Floats, fit: Sparse, equations: int) -> Sparse:
    """Return the fit at the penalty of `fit` to equations of slightly different weights. There is
    no penalty for columns that pass, even shrunk, the universal threshold of Donoho and Johnstone
    1994, which noise does not. Arguments as for `nonnegative_path`."""
    work = _Working(design, target)
    variance = float(fit.residual @ fit.residual) / max(1, equations - fit.chosen.size)
    threshold = math.sqrt(2 * math.log(work.norms.size) * variance)
    work.free[fit.chosen] = fit.coefficients * work.norms[fit.chosen] > threshold
    new = fit.chosen
    for _ in range(ROUNDS):
        work.add(new)
        fit = work.fit(fit.penalty, EXACT)
        new = np.flatnonzero(work.scores(fit.residual) > fit.penalty)
        if not new.size:
            break
    return fit


def debias(design: Design, fit: Sparse, left: float, scale: float) -> tuple[Floats, Floats]:
    """Return the coefficients without shrinkage and their standard errors, of every column: shape
    (columns,) each. `left`: part of a column that those in the fit leave, 1 - df / n where all
    equations have the same weight. `scale`: variance of the residuals for each degree of freedom.
    Two columns that are the same have an infinite error, as has a column without information."""
    information = design.norms**2 * max(1 - MOST, left)
    if fit.chosen.size:
        information[fit.chosen] = 1 / inverse_diagonal(design.gram(fit.chosen, fit.chosen))
    information = np.maximum(information, NOTHING)
    coefficients = design.correlations(fit.residual) / information
    coefficients[fit.chosen] += fit.coefficients
    # columns that are the same have the same product with anything, but for rounding
    marks = design.correlations(np.random.default_rng(0).normal(size=fit.residual.size))
    order = np.argsort(marks)
    alike = np.flatnonzero(np.diff(marks[order]) <= ROUNDING * design.norms.max())
    std_errors = np.sqrt(scale / information)
    std_errors[order[alike]] = std_errors[order[alike + 1]] = np.inf
    std_errors[information <= NOTHING] = np.inf
    return coefficients, std_errors


class _Working:
    """The columns that may be in the fit: `has_passed`, all of them; `places`, those that take part
    in descent, with their products with each other and with the target."""

    def __init__(self, design: Design, target: Floats) -> None:
        self.design, self.target = design, target
        norms = design.norms
        self.norms = np.where(norms > 0, norms, np.inf)
        self.has_passed = np.zeros(norms.size, dtype=bool)
        self.places = np.empty(0, dtype=np.intp)
        self.gram, self.products = np.empty((0, 0)), np.empty(0)
        self.coefficients = np.empty(0)
        self.free = np.zeros(norms.size, dtype=bool)

    def scores(self, residual: Floats) -> Floats:
        """Return each column's product with `residual`, shape (equations,), in standard errors:
        shape (columns,), 0 for columns that take part in descent."""
        z: Floats = self.design.correlations(residual) / self.norms
        z[self.places] = 0
        return z

    def fit_with(self, new: Places, z: Floats, penalty: float) -> Sparse:
        """Return the fit of all columns that have passed, with the `new` ones. `z`: scores of all
        columns. More than PORTION new columns enter in portions, the largest scores first. Before
        each portion, columns without a coefficient leave. The portion is taken from the columns
        that still pass."""
        self.has_passed[new] = True
        while True:
            if new.size > PORTION:
                self.keep(np.flatnonzero(self.coefficients))
                new = new[np.argpartition(-z[new], PORTION)[:PORTION]]
            if new.size:
                self.add(new)
            if self.places.size == np.count_nonzero(self.has_passed):
                return self.fit(penalty, EXACT)
            fit = self.fit(penalty, EXACT_OF_PORTIONS)
            z = self.scores(fit.residual)
            new = np.flatnonzero(self.has_passed & (z > penalty + EXACT_OF_PORTIONS))
            if not new.size:
                return fit

    def keep(self, positions: Places) -> None:
        """Keep only the columns at these `positions` of `places` in descent."""
        self.places, self.coefficients = self.places[positions], self.coefficients[positions]
        self.gram, self.products = self.gram[np.ix_(positions, positions)], self.products[positions]

    def add(self, new: Places) -> None:
        """Let the `new` columns take part in descent."""
        old = self.places.size
        self.places = np.concatenate([self.places, new])
        gram = np.empty((self.places.size, self.places.size))
        gram[:old, :old], gram[old:] = self.gram, self.design.gram(new, self.places)
        gram[:old, old:] = gram[old:, :old].T
        self.gram = gram
        of_new = self.design.correlations(self.target, new)
        self.products = np.concatenate([self.products, of_new])
        self.coefficients = np.concatenate([self.coefficients, np.zeros(new.size)])

    def fit(self, penalty: float, exact: float) -> Sparse:
        """Return the fit of the columns that take part in descent."""
        gradient = self.products - self.gram @ self.coefficients
        if self.places.size:
            penalties = np.where(self.free[self.places], 0.0, penalty)
            descend(self.gram, gradient, self.coefficients, penalties, exact)
        inside = np.flatnonzero(self.coefficients)
        chosen, coefficients = self.places[inside], self.coefficients[inside]
        residual = self.target - self.design.fitted(chosen, coefficients)
        return Sparse(chosen, coefficients, residual, penalty)
