"""Rows of mapped data, and their exact sums: all that a private regression reads.

Columns are clipped to public bounds and mapped to [-1, 1], rows to a public norm, and everything to
the nearest multiple of 1 / GRID. A number is split into two parts of fewer digits, whose products
add up in doubles without rounding, in any order. The four sums are then added, which rounds once.
So one person changes a sum by at most the sensitivity plus the share ROUNDED of it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ldp.arrays import Bools, Floats
from ldp.errors import ParameterError

GRID = 2**26
COARSE = 2**13
"""Number of steps of 1 of a number's first part. The second part is 1 / (2 COARSE) at most."""
MOST_ROWS = 2**23
"""Largest number of rows: sums of products of parts are below 2**53 in their units, so exact."""
ROUNDED = 1e-6
"""Bound of the rounding of the sums of MOST_ROWS rows, as a share of a row's change."""
BLOCK = 2**18


@dataclass(frozen=True, eq=False)
class Rows:
    """Features, shape (n, columns), and targets, shape (n,): multiples of 1 / GRID, the features
    and the targets in [-1, 1], every row of length `norm` at most. The last column is 1 where
    there is an intercept."""

    features: Floats
    target: Floats
    norm: float
    intercept: bool

    @classmethod
    def of(cls, features: Floats, target: Floats, *, intercept: bool, norm: float | None) -> "Rows":
        """Return the rows of mapped features, shape (n, columns), and target, shape (n,). `norm`:
        longer rows are shortened to it, the intercept left at 1. None stands for the length of the
        longest row there can be, root of the columns. Raises ParameterError for a norm out of range
        and more than MOST_ROWS rows."""
        n, columns = features.shape
        if n > MOST_ROWS:
            raise ParameterError(f"at most {MOST_ROWS:,} rows are summed exactly, got {n:,}")
        longest = float(np.sqrt(columns + intercept))
        norm = longest if norm is None else float(norm)
        if not intercept < norm < np.inf:
            raise ParameterError(f"norm must be finite and > {int(intercept)}, got {norm!r}")
        rounded = np.rint(features * GRID)
        if norm < longest:
            # slightly shorter, so that rounding cannot lengthen a row
            limit = (norm**2 - intercept) * GRID**2 * (1 - 1e-12)
            squares = (rounded**2).sum(axis=1)
            shrink = np.sqrt(limit / np.maximum(squares, limit)) * (1 - 1e-12)
            shortened = np.trunc(rounded * shrink[:, None])
            rounded = np.where((squares > limit)[:, None], shortened, rounded)
        rounded /= GRID
        if intercept:
            rounded = np.column_stack([rounded, np.ones(n)])
        return cls(rounded, np.rint(target * GRID) / GRID, min(norm, longest), intercept)

    @cached_property
    def xx(self) -> Floats:
        """The products X'X of all pairs of features: shape (columns, columns)."""
        return product(self.features, self.features)

    @cached_property
    def xy(self) -> Floats:
        """X'y: shape (columns,)."""
        return product(self.features, self.target)

    @cached_property
    def constant(self) -> Bools:
        """Mask of the intercept's column: shape (columns,)."""
        is_constant = np.zeros(self.columns, dtype=np.bool_)
        is_constant[-1:] = self.intercept
        return is_constant

    @property
    def columns(self) -> int:
        """Number of coefficients, the intercept included."""
        return int(self.features.shape[1])


def product(left: Floats, right: Floats) -> Floats:
    """Return left' right of multiples of 1 / GRID in [-1, 1], shape (n, ..), n at most MOST_ROWS.
    It does not depend on the order of the rows, and is within two roundings of the exact sums."""
    sums = [np.zeros(left.shape[1:] + right.shape[1:]) for _ in range(4)]
    for start in range(0, len(left), BLOCK):
        parts = []
        for whole in (left[start : start + BLOCK], right[start : start + BLOCK]):
            first = np.rint(whole * COARSE) / COARSE
            parts.append((first, whole - first))
        for place, (i, j) in enumerate((i, j) for i in (1, 0) for j in (1, 0)):
            sums[place] += parts[0][i].T @ parts[1][j]
    return np.asarray(((sums[0] + (sums[1] + sums[2])) + sums[3]), dtype=np.float64)
