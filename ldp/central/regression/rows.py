"""Rows of data inside public bounds, and their exact sums: all that a private regression reads.

Columns are clipped to public bounds and mapped to [-1, 1], rows to a public norm, and everything to
the nearest multiple of 1 / GRID. A number is split into two parts of fewer digits, whose products
add up in doubles without rounding, in any order; the four sums are then added, which rounds once.
So one person changes a sum by the sensitivity, and ROUNDED of it, at most.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ldp.arrays import Bools, Floats
from ldp.errors import ParameterError

GRID = 2**26
COARSE = 2**13
"""Number of steps of 1 of a number's first part; the second part is 1 / (2 COARSE) at most."""
MOST_ROWS = 2**23
"""Largest number of rows: sums of products of parts are below 2**53 in their units, so exact."""
ROUNDED = 1e-6
"""Bound of the rounding of the sums of MOST_ROWS rows, as a share of a row's change."""
BLOCK = 2**18


@dataclass(frozen=True, eq=False)
class Bounds:
    """Public ranges: `low` < `high`, shape (columns,), all finite."""

    low: Floats
    high: Floats

    @classmethod
    def of(cls, pairs: object, columns: int, what: str) -> "Bounds":
        """Return the bounds of one pair for all `columns`, or of an array of shape (columns, 2).
        Raises ParameterError, which names `what`, for anything else."""
        try:
            pairs = np.asarray(pairs, dtype=np.float64)
        except (TypeError, ValueError):
            pairs = np.empty(0)
        if pairs.shape == (2,):
            pairs = np.tile(pairs, (columns, 1))
        if pairs.shape != (columns, 2):
            raise ParameterError(
                f"{what} must be one pair (low, high), or one for each of {columns} columns"
            )
        if not np.isfinite(pairs).all() or not (pairs[:, 0] < pairs[:, 1]).all():
            raise ParameterError(f"{what} must be finite, each low below its high")
        return cls(pairs[:, 0].copy(), pairs[:, 1].copy())

    @cached_property
    def middle(self) -> Floats:
        """Middle of every column's range, which is mapped to 0: shape (columns,)."""
        return (self.low + self.high) / 2

    @cached_property
    def half(self) -> Floats:
        """Half of every column's range, which is mapped to 1: shape (columns,)."""
        return (self.high - self.low) / 2

    def mapped(self, values: Floats) -> Floats:
        """Return `values`, shape (n, columns), clipped and mapped to [-1, 1]; NaN counts as the
        middle, because an error would reveal that somebody has no number."""
        inside = np.clip(np.where(np.isnan(values), self.middle, values), self.low, self.high)
        return np.clip((inside - self.middle) / self.half, -1.0, 1.0)

    def outside(self, values: Floats) -> int:
        """Return the number of `values`, shape (n, columns), that are clipped. Not private: never
        publish it."""
        return int(((values < self.low) | (values > self.high)).sum())


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
        longer rows are shortened to it, the intercept left at 1; None stands for the length of the
        longest row there can be, root of the columns. Raises ParameterError for a norm out of range
        and more than MOST_ROWS rows."""
        n, columns = features.shape
        if n > MOST_ROWS:
            raise ParameterError(f"at most {MOST_ROWS:,} rows are summed exactly, got {n:,}")
        longest = float(np.sqrt(columns + intercept))
        if norm is None:
            norm = longest
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
        """X'X: shape (columns, columns)."""
        return product(self.features, self.features)

    @cached_property
    def xy(self) -> Floats:
        """X'y: shape (columns,)."""
        return product(self.features, self.target)

    @cached_property
    def yy(self) -> float:
        """y'y."""
        return float(product(self.target, self.target))

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


class Unmapped:
    """Affine map from mapped coefficients to those in the units of the data."""

    def __init__(self, features: Bounds, target: Bounds, intercept: bool) -> None:
        self._features, self._intercept = features, intercept
        self.middle, self._half = float(target.middle[0]), float(target.half[0])

    def units(self) -> Floats:
        """Return the matrix from mapped coefficients to slopes, and to the intercept less `middle`:
        shape (columns, columns)."""
        slopes = np.diag(self._half / self._features.half)
        if not self._intercept:
            return slopes
        whole = np.zeros((len(slopes) + 1, len(slopes) + 1))
        whole[:-1, :-1] = slopes
        whole[-1, :-1] = -slopes @ self._features.middle
        whole[-1, -1] = self._half
        return whole

    def coefficients(self, mapped: Floats) -> tuple[Floats, float]:
        """Return (slopes, intercept) of `mapped` coefficients, shape (columns,)."""
        coefficients = self.units() @ mapped
        slopes = coefficients[: len(self._features.half)]
        if self._intercept:
            return slopes, self.middle + float(coefficients[-1])
        return slopes, self.middle - float(slopes @ self._features.middle)
