"""Least squares with standard errors that include what the fit does not explain.

Equations have unit variance: the caller divides rows by their standard deviations. A column that
is not in the fit adds to the residuals, so errors are scaled by the residuals' variance.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ldp.arrays import Floats, Places

SINGULAR = 1e-9


class Design(Protocol):
    """Columns of a regression, of which few are ever in memory."""

    def columns(self, chosen: Places) -> Floats:
        """Return the chosen columns: shape (equations, chosen)."""
        ...

    def correlations(self, residual: Floats) -> Floats:
        """Return the product of every column with `residual`, shape (equations,): shape
        (columns,)."""
        ...

    @property
    def norms(self) -> Floats:
        """Lengths of the columns: shape (columns,)."""
        ...


@dataclass(frozen=True, eq=False)
class Fit:
    """Least squares of `target` on some columns.

    `coefficients`, `std_errors`: shape (columns,); the error is infinite for a column that the
    others determine. `residual`: shape (equations,); `scale` = max(1, its variance), which the
    errors include.
    """

    coefficients: Floats
    std_errors: Floats
    residual: Floats
    scale: float


def least_squares(columns: Floats, target: Floats) -> Fit:
    """Return the minimum of |columns b - target|**2: `columns`, shape (equations, n), `target`,
    shape (equations,).

    Errors are the roots of scale (A'A)**-1, scale = max(1, |residual|**2 / (equations - n)).
    """
    equations, n = columns.shape
    if not n:
        scale = max(1.0, float(target @ target) / equations)
        return Fit(np.empty(0), np.empty(0), target, scale)
    gram, right = columns.T @ columns, columns.T @ target
    coefficients, variances = _solved(gram, right) or _solved_by_eigenvalues(gram, right)
    residual = target - columns @ coefficients
    scale = max(1.0, float(residual @ residual) / max(1, equations - n))
    return Fit(coefficients, np.sqrt(scale * variances), residual, scale)


def _solved(gram: Floats, right: Floats) -> tuple[Floats, Floats] | None:
    """Return gram**-1 right and the diagonal of gram**-1, by Cholesky; None where an eigenvalue may
    lie below SINGULAR times the largest: their ratio is at most that of the 1-norms."""
    from scipy.linalg import lapack

    factor, failed = lapack.dpotrf(gram, lower=True)
    if failed:
        return None
    inverse, failed = lapack.dpotri(factor, lower=True)  # its lower triangle; above it zeros
    diagonal = inverse.diagonal().copy()
    size = np.abs(inverse)
    largest = (size.sum(axis=0) + size.sum(axis=1) - diagonal).max()
    if failed or not np.abs(gram).sum(axis=0).max() * largest < 1 / SINGULAR:
        return None
    return lapack.dpotrs(factor, right, lower=True)[0], diagonal


def _solved_by_eigenvalues(gram: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Return what `_solved` does, by the pseudoinverse; the diagonal is infinite for columns that
    others determine."""
    values, vectors = np.linalg.eigh(gram)
    is_regular = values > SINGULAR * values[-1]
    part = vectors[:, is_regular]
    inverse = part / values[is_regular]
    variances = (inverse * part).sum(axis=1)
    variances[(vectors[:, ~is_regular] ** 2).sum(axis=1) > SINGULAR] = math.inf
    return inverse @ (part.T @ right), variances
