"""Intervals of coefficients from moments with noise of known variances.

With A~ = A + E and r~ = r + e the noisy X'X and X'y, and b = A**-1 r the coefficients sought,

    g(b) = r~ - A~ b = e - E b

has mean 0 and the covariance

    C(b) = diag(v + V b**2) + (V off its diagonal) * b b',

V and v the variances of E, symmetric with an independent upper triangle, and of e. A value t of u'b
is in the interval unless g rejects it: of all b with u'b = t the nearest has the distance

    (t - u'b~)**2 / u' W u,   b~ = A~**-1 r~,   W = A~**-1 C(b) A~**-1,

compared with the quantile of one squared normal number. C at b~ gives the delta method (the
sandwich) and its standard errors. C at the b that is tested gives an interval that holds where A~
is hardly above its noise, and has no end where A may be singular (Fieller 1954; every interval that
holds must be so, Gleser and Hwang 1987). It covers what the moments without noise would give.
"""

import math
from dataclasses import dataclass

import numpy as np

from ldp.arrays import Floats
from ldp.errors import require_share

STEPS, FAR, EXACT = 500, 1e6, 1e-8
"""Number of steps, and multiple of the first step, after which an end that was not reached counts
as infinite; share of an end by which the last step towards it moves."""
LEAST_SIGNAL = 2.0
"""Signal below which more than half of it is estimated to be noise, whose part is 1."""
NO_BETTER = (
    "More than half of what this says of the columns and the target seems to be noise: the mean of "
    "the target may predict as well"
)
LAPLACE_EXCESS = 3.0
"""Excess kurtosis of a Laplace number."""


@dataclass(frozen=True, eq=False)
class Equations:
    """Noisy equations A b = r: `xx`, shape (columns, columns), symmetric, and `xy`, shape
    (columns,), with the variances of their noise, of the same shapes. An entry without noise has 0.

    `excess`: the largest excess kurtosis of the noise, 0 where it is normal, 3 for Laplace noise.
    """

    xx: Floats
    xy: Floats
    xx_variances: Floats
    xy_variances: Floats
    excess: float = 0.0

    @property
    def solution(self) -> Floats:
        """Coefficients without a ridge, b~: shape (columns,)."""
        return np.asarray(self._inverse @ self.xy)

    def std_errors(self, units: Floats) -> Floats:
        """Return the standard errors of `units` @ solution by the delta method, `units` of shape
        (numbers, columns): shape (numbers,). Infinite where X'X is singular."""
        directions = units @ self._inverse
        errors = self._errors(directions, np.tile(self.solution, (len(units), 1)))
        return np.nan_to_num(errors, nan=math.inf)

    def interval(self, units: Floats, level: float) -> Floats:
        """Return intervals that hold `units` @ b with probability `level` each, `units` of shape
        (numbers, columns): shape (numbers, 2), infinite where there is no end. Raises
        ParameterError for a level outside (0, 1)."""
        level = require_share(level, "level")
        directions, centre = units @ self._inverse, self.solution
        reach = self._quantiles(directions, centre, level)
        ends = np.column_stack([self._ends(directions, centre, way * reach) for way in (-1, 1)])
        # where one end is infinite, what is not rejected goes on far out on the other side
        ends[~np.isfinite(ends).all(axis=1)] = -math.inf, math.inf
        return np.asarray(np.nan_to_num(units @ centre)[:, None] + ends)

    def signal(self, intercept: bool) -> float:
        """Return the mean over the features of the square, in standard errors, of what the moments
        say of a feature and the target beyond a constant. For pure noise its mean is 1. With
        `intercept` the last column is the constant's.

        The quantity that is squared is g(b), at the b of a constant, where C(b) is diagonal.
        """
        features = slice(-1) if intercept else slice(None)
        constant = self.xy[-1] / self.xx[-1, -1] if intercept else 0.0
        gap = self.xy[features] - constant * self.xx[features, -1]
        variances = self.xy_variances[features] + constant**2 * self.xx_variances[features, -1]
        return float(np.mean(gap**2 / variances))

    @property
    def _inverse(self) -> Floats:
        try:
            return np.asarray(np.linalg.inv(self.xx))
        except np.linalg.LinAlgError:  # exactly singular: no coefficient is determined
            return np.full_like(self.xx, math.nan)

    def _covariance_times(self, directions: Floats, b: Floats) -> Floats:
        """Return C(b) x for each pair of rows of `directions` and `b`: their shape."""
        diagonal: Floats = self.xy_variances + b**2 @ self.xx_variances
        between = self.xx_variances - np.diag(np.diag(self.xx_variances))
        return np.asarray(diagonal * directions + b * ((b * directions) @ between))

    def _errors(self, directions: Floats, b: Floats) -> Floats:
        """Return the root of x' C(b) x for each pair of rows of `directions` and `b`: shape
        (rows,)."""
        return np.asarray(np.sqrt((directions * self._covariance_times(directions, b)).sum(axis=1)))

    def _ends(self, directions: Floats, centre: Floats, reach: Floats) -> Floats:
        """Return u'b - u'b~ at the b that is `reach` standard errors from b~, both of this b: shape
        (numbers,). b~ is the first guess, from which every step goes further out."""
        inverse, b = self._inverse, np.tile(centre, (len(directions), 1))
        farthest = FAR * np.abs(reach) * self._errors(directions, b)
        offsets, has_none = np.zeros(len(directions)), np.zeros(len(directions), dtype=bool)
        for _ in range(STEPS):
            moved = self._covariance_times(directions, b)
            errors = np.sqrt((directions * moved).sum(axis=1))
            before, offsets = offsets, reach * errors
            is_reached = np.abs(offsets - before) <= EXACT * np.abs(offsets)
            has_none |= ~(np.abs(offsets) < farthest)
            if (is_reached | has_none).all():
                break
            further = centre + (reach / np.maximum(errors, 1e-300))[:, None] * (moved @ inverse)
            b = np.where(has_none[:, None], centre, further)
        return np.where(is_reached & ~has_none, offsets, np.copysign(math.inf, reach))

    def _quantiles(self, directions: Floats, centre: Floats, level: float) -> Floats:
        """Return the standard errors on either side of an interval: shape (numbers,). Normal, or
        wider by the excess kurtosis of x'(e - E b~) (Cornish and Fisher 1938), as far as a single
        Laplace number is wider."""
        from scipy.special import ndtri

        normal = float(ndtri((1 + level) / 2))
        if not self.excess:
            return np.full(len(directions), normal)
        laplace = max(normal, -math.log1p(-level) / math.sqrt(2))
        quantiles = [
            normal + self._excess(row, centre) / 24 * (normal**3 - 3 * normal) for row in directions
        ]
        return np.clip(np.nan_to_num(quantiles, nan=laplace), normal, laplace)

    def _excess(self, direction: Floats, b: Floats) -> float:
        """Return the excess kurtosis of x'(e - E b), x the `direction`."""
        weights = np.outer(direction, b) + np.outer(b, direction)
        weights[np.diag_indices_from(weights)] /= 2
        parts = np.concatenate(
            [
                direction**2 * self.xy_variances,
                (weights**2 * self.xx_variances)[np.triu_indices(len(b))],
            ]
        )
        return float(self.excess * (parts**2).sum() / parts.sum() ** 2)
