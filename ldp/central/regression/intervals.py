"""Confidence intervals for coefficients, from noise of a known distribution.

With S~ = S + E and r~ = r + e the noisy moments, b = S**-1 r the least-squares coefficients of the
clipped data, and b~ = S~**-1 r~,

    b~ - b = S~**-1 (e - E b),   e - E b ~ N(0, xy**2 I + xx**2 (|b|**2 I + b b') / 2),

because an entry of the symmetric E has variance xx**2 on the diagonal and half of it off. The
distribution of e - E b is exact; the interval is approximate because S~ depends on E, and it is
only offered where S~ is far above its noise. It covers b: the coefficients of the people in the
data, clipped to the bounds and, with a norm, shortened to it; not those of the unclipped rows, and
not those of a population.
"""

import math
from dataclasses import dataclass

import numpy as np

from ldp.arrays import Floats
from ldp.errors import DecodeError, ParameterError
from ldp.regression.moments import Moments

FAR = 20.0
"""Number of noise scales that the smallest eigenvalue of the noisy X'X must exceed."""


@dataclass(frozen=True, eq=False)
class Centred:
    """Unregularised `coefficients`, shape (columns,), and the `covariance` of their error."""

    coefficients: Floats
    covariance: Floats

    @classmethod
    def of(cls, moments: Moments) -> "Centred":
        """Return the solution of `moments`; raises DecodeError where no honest interval exists."""
        scales, values = moments.scales, np.linalg.eigvalsh(moments.xx)
        if not values[0] > FAR * scales.xx:
            raise DecodeError(
                "no honest interval exists: the smallest eigenvalue of the noisy X'X is "
                f"{values[0] / scales.xx:.3g} times its noise, and {FAR:g} times are needed"
            )
        inverse = np.linalg.inv(moments.xx)
        centre = inverse @ moments.xy
        size = len(centre)
        spread = (centre @ centre) * np.eye(size) + np.outer(centre, centre)
        error = scales.xy**2 * np.eye(size) + scales.xx**2 / 2 * spread
        return cls(centre, inverse @ error @ inverse)

    def interval(self, units: Floats, level: float) -> Floats:
        """Return the intervals of `units` @ coefficients, `units` of shape (numbers, columns):
        shape (numbers, 2). Raises ParameterError for a level outside (0, 1)."""
        from scipy.special import ndtri

        if not 0 < level < 1:
            raise ParameterError("level must lie strictly between 0 and 1")
        centre = units @ self.coefficients
        errors = np.sqrt(((units @ self.covariance) * units).sum(axis=1))
        width = float(ndtri((1 + level) / 2)) * errors
        assert math.isfinite(float(width.sum()))
        return np.column_stack([centre - width, centre + width])
