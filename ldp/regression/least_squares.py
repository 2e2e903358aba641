"""Least squares with standard errors that include what the fit does not explain.

Equations have unit variance: the caller divides rows by their standard deviations. A column that is
not in the fit adds to the residuals. So errors are scaled by the residuals' variance.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ldp.arrays import Floats, Places

SINGULAR = 1e-9
MOST_EXACT, NEARLY_ORTHOGONAL = 1500, 0.03
"""Number of columns from which the inverse of their products may be a series, and the largest sum
of squares of a column's cosines with the others for which it is."""


ALL = slice(None)
"""All columns."""


class Design(Protocol):
    """Columns of a regression, of which few are ever in memory."""

    def columns(self, chosen: Places) -> Floats:
        """Return the chosen columns: shape (equations, chosen)."""

    def gram(self, some: Places, others: Places) -> Floats:
        """Return the products of `some` columns with `others`: shape (some, others)."""

    def fitted(self, chosen: Places, coefficients: Floats) -> Floats:
        """Return the sum of the chosen columns times their coefficients: shape (equations,)."""

    def correlations(self, residual: Floats, chosen: Places | slice = ALL) -> Floats:
        """Return the products of the chosen columns with `residual`, shape (equations,): shape
        (chosen,)."""

    @property
    def norms(self) -> Floats:
        """Lengths of the columns: shape (columns,)."""


@dataclass(frozen=True, eq=False)
class LeastSquaresFit:
    """Least squares of `target` on some columns.

    `coefficients`, `std_errors`: shape (columns,). The error is infinite for a column that the
    others determine. `residual`: shape (equations,); `scale` = max(1, its variance), which the
    errors include.
    """

    coefficients: Floats
    std_errors: Floats
    residual: Floats
    scale: float


def least_squares(columns: Floats, target: Floats) -> LeastSquaresFit:
    """Return the minimum of |columns b - target|**2: `columns`, shape (equations, n), `target`,
    shape (equations,).

    Errors are the roots of scale (A'A)**-1, scale = max(1, |residual|**2 / (equations - n)).
    """
    equations, n = columns.shape
    if not n:
        scale = max(1.0, float(target @ target) / equations)
        return LeastSquaresFit(np.empty(0), np.empty(0), target, scale)
    gram, right = columns.T @ columns, columns.T @ target
    coefficients, variances = _solved(gram, right) or _solved_by_eigenvalues(gram, right)
    residual = target - columns @ coefficients
    scale = max(1.0, float(residual @ residual) / max(1, equations - n))
    return LeastSquaresFit(coefficients, np.sqrt(scale * variances), residual, scale)


def inverse_diagonal(gram: Floats) -> Floats:
    """Return the diagonal of the inverse of a symmetric matrix, of the pseudoinverse where there is
    none: shape (columns,). For more than MOST_EXACT columns that are nearly orthogonal, gram =
    D (I + E) D with a small E, it is computed to the second order in E."""
    lengths = np.sqrt(gram.diagonal())
    if len(gram) > MOST_EXACT and lengths.all():
        squares = np.einsum("ij,ij,j->i", gram, gram, lengths**-2) / lengths**2 - 1
        if squares.max() < NEARLY_ORTHOGONAL:
            return np.asarray((1 + squares) / lengths**2)
    solved = _solved(gram, np.zeros(len(gram)))
    return solved[1] if solved else np.diag(np.linalg.pinv(gram, hermitian=True))


def _solved(gram: Floats, right: Floats) -> tuple[Floats, Floats] | None:
    """Return gram**-1 right and the diagonal of gram**-1, by Cholesky. Returns None where an
    eigenvalue may lie below SINGULAR times the largest: their ratio is at most that of the
    1-norms."""
    from scipy.linalg import lapack

    factor, failed = lapack.dpotrf(gram, lower=True)
    if failed:
        return None
    # its lower triangle; above it zeros
    inverse, failed = lapack.dpotri(factor, lower=True)
    diagonal = inverse.diagonal().copy()
    size = np.abs(inverse)
    largest = (size.sum(axis=0) + size.sum(axis=1) - diagonal).max()
    if failed or not np.abs(gram).sum(axis=0).max() * largest < 1 / SINGULAR:
        return None
    return lapack.dpotrs(factor, right, lower=True)[0], diagonal


def _solved_by_eigenvalues(gram: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Return what `_solved` does, by the pseudoinverse. The diagonal is infinite for columns that
    others determine."""
    values, vectors = np.linalg.eigh(gram)
    is_regular = values > SINGULAR * values[-1]
    part = vectors[:, is_regular]
    inverse = part / values[is_regular]
    variances = (inverse * part).sum(axis=1)
    variances[(vectors[:, ~is_regular] ** 2).sum(axis=1) > SINGULAR] = math.inf
    return inverse @ (part.T @ right), variances


def nonnegative_lasso(columns: Floats, target: Floats) -> Places:
    """Return the columns with a positive coefficient in the minimum over b >= 0 of
    |columns b - target|**2 / 2 + lambda |b|_1, where lambda = sqrt(2 ln n) times the largest length
    of a column and the equations have unit variance: `columns`, shape (equations, n)."""
    from sklearn.linear_model import Lasso

    equations, n = columns.shape
    longest = float(np.sqrt((columns**2).sum(axis=0).max()))
    penalty = math.sqrt(2 * math.log(max(2, n))) * longest
    # scikit-learn minimises |..|**2 / (2 equations) + alpha |b|_1
    model = Lasso(
        alpha=penalty / equations, positive=True, fit_intercept=False, max_iter=20_000, tol=1e-6
    )
    model.fit(columns, target)
    return np.flatnonzero(model.coef_ > 0)
