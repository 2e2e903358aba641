"""What a private regression may see of the data: rows inside public bounds, and their exact sums.

Columns are clipped to public bounds and mapped to [-1, 1], rows to a public norm, and everything to
the nearest multiple of 1 / GRID. A number is the sum of two of fewer digits, whose products add up
in doubles without rounding, in any order; the four sums are then added, which rounds once. So one
person changes a sum by what the sensitivity says and by ROUNDED of it at most.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ldp.arrays import Bools, Floats
from ldp.errors import ParameterError

GRID = 2**26
COARSE = 2**13
"""Of the part of a number that has the first digits; the rest is 1 / (2 COARSE) at most."""
MOST_ROWS = 2**23
"""The sums of products of parts are exact: below 2**53 in their units."""
ROUNDED = 1e-6
"""More than the share of a row's change by which the sums of sums of MOST_ROWS rows round."""
BLOCK = 2**18


@dataclass(frozen=True, eq=False)
class Bounds:
    """Public ranges: `low` < `high`, shape (columns,), all finite."""

    low: Floats
    high: Floats

    @classmethod
    def of(cls, given: object, columns: int, what: str) -> "Bounds":
        """From one pair for all `columns`, or an array of shape (columns, 2)."""
        try:
            pairs = np.asarray(given, dtype=np.float64)
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
        """Of every column: mapped to 0."""
        return (self.low + self.high) / 2

    @cached_property
    def half(self) -> Floats:
        """Half of every column's range: mapped to 1."""
        return (self.high - self.low) / 2

    def mapped(self, values: Floats) -> Floats:
        """`values`, shape (n, columns), clipped and mapped to [-1, 1]; what is not a number counts
        as the middle, because an error would tell that somebody has none."""
        inside = np.clip(np.where(np.isnan(values), self.middle, values), self.low, self.high)
        return np.clip((inside - self.middle) / self.half, -1.0, 1.0)

    def outside(self, values: Floats) -> int:
        """How many of `values` are clipped. Not private: never publish it."""
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
        """From mapped values. `norm`: longer rows are shortened to it, the intercept left at 1;
        None stands for the length of the longest row there can be, root of the columns."""
        n, columns = features.shape
        if n > MOST_ROWS:
            raise ParameterError(f"at most {MOST_ROWS:,} rows are summed exactly, got {n:,}")
        longest = float(np.sqrt(columns + intercept))
        if norm is None:
            norm = longest
        if not intercept < norm < np.inf:
            raise ParameterError(f"norm must be finite and > {int(intercept)}, got {norm!r}")
        kept = np.rint(features * GRID)
        if norm < longest:
            # a hair shorter, so that rounding cannot lengthen a row
            room = (norm**2 - intercept) * GRID**2 * (1 - 1e-12)
            lengths = (kept**2).sum(axis=1)
            shrink = np.sqrt(room / np.maximum(lengths, room)) * (1 - 1e-12)
            kept = np.where((lengths > room)[:, None], np.trunc(kept * shrink[:, None]), kept)
        kept /= GRID
        if intercept:
            kept = np.column_stack([kept, np.ones(n)])
        return cls(kept, np.rint(target * GRID) / GRID, min(norm, longest), intercept)

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
        """Which columns are the intercept: shape (columns,)."""
        made = np.zeros(self.columns, dtype=np.bool_)
        made[-1:] = self.intercept
        return made

    @property
    def columns(self) -> int:
        """Coefficients, the intercept included."""
        return int(self.features.shape[1])


def product(left: Floats, right: Floats) -> Floats:
    """left' right of multiples of 1 / GRID in [-1, 1], shape (n, ..), n at most MOST_ROWS: the same
    in any order of the rows, and within two roundings of the exact sums."""
    sums = [np.zeros(left.shape[1:] + right.shape[1:]) for _ in range(4)]
    for start in range(0, len(left), BLOCK):
        parts = []
        for whole in (left[start : start + BLOCK], right[start : start + BLOCK]):
            first = np.rint(whole * COARSE) / COARSE
            parts.append((first, whole - first))
        for place, (one, other) in enumerate((i, j) for i in (1, 0) for j in (1, 0)):
            sums[place] += parts[0][one].T @ parts[1][other]
    return np.asarray(((sums[0] + (sums[1] + sums[2])) + sums[3]), dtype=np.float64)


class Unmapped:
    """The affine map from mapped coefficients to those in the units of the data."""

    def __init__(self, features: Bounds, target: Bounds, intercept: bool) -> None:
        self._features, self._intercept = features, intercept
        self.middle, self._half = float(target.middle[0]), float(target.half[0])

    def units(self) -> Floats:
        """The matrix that makes slopes, and the intercept less `middle`, of mapped coefficients."""
        slopes = np.diag(self._half / self._features.half)
        if not self._intercept:
            return slopes
        whole = np.zeros((len(slopes) + 1, len(slopes) + 1))
        whole[:-1, :-1] = slopes
        whole[-1, :-1] = -slopes @ self._features.middle
        whole[-1, -1] = self._half
        return whole

    def coefficients(self, mapped: Floats) -> tuple[Floats, float]:
        """(coef, intercept)."""
        made = self.units() @ mapped
        slopes = made[: len(self._features.half)]
        if self._intercept:
            return slopes, self.middle + float(made[-1])
        return slopes, self.middle - float(slopes @ self._features.middle)
