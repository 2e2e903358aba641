"""Public bounds of the columns of a regression, which map them to [-1, 1] and back."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ldp.arrays import Floats
from ldp.data_files import require_pairs
from ldp.errors import ParameterError
from ldp.regression.intervals import Equations


@dataclass(frozen=True, eq=False)
class Bounds:
    """Public ranges: `low` < `high`, shape (columns,), all finite."""

    low: Floats
    high: Floats

    @classmethod
    def of(cls, pairs: object, columns: int, what: str) -> "Bounds":
        """Return the bounds of one pair for all `columns`, or of an array of shape (columns, 2).
        Raises ParameterError, which names `what`, for anything else."""
        require_pairs(pairs)
        try:
            pairs = np.asarray(pairs, dtype=np.float64)
        except (TypeError, ValueError):
            pairs = np.empty(0)
        if pairs.shape == (2,):
            pairs = np.tile(pairs, (columns, 1))
        if pairs.shape != (columns, 2):
            raise ParameterError(
                f"{what} must be one pair (low, high), or one for each of {columns} columns, as "
                "[(0, 5), (1, 10)], not (lows, highs)"
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
        """Return `values`, shape (n, columns), clipped and mapped to [-1, 1]. NaN counts as the
        middle, because an error would reveal that somebody has no number."""
        inside = np.clip(np.where(np.isnan(values), self.middle, values), self.low, self.high)
        return np.clip((inside - self.middle) / self.half, -1.0, 1.0)

    def outside(self, values: Floats) -> int:
        """Return the number of `values`, shape (n, columns), that are clipped. Not private: never
        publish it."""
        return int(((values < self.low) | (values > self.high)).sum())


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

    def intervals(self, equations: Equations, level: float) -> Floats:
        """Return the intervals of slopes and, where there is one, the intercept, from those of
        mapped coefficients: shape (columns, 2)."""
        intervals = equations.interval(self.units(), level)
        intervals[-1:] += self.middle if self._intercept else 0.0
        return intervals

    def std_errors(self, equations: Equations) -> Floats:
        """Return the standard errors of slopes and, where there is one, the intercept: shape
        (columns,)."""
        return equations.std_errors(self.units())
