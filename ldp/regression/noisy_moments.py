"""Moments of a regression with noise, which a curator or the devices added."""

import math
from dataclasses import dataclass

import numpy as np

from ldp.arrays import Floats
from ldp.regression.intervals import Equations


@dataclass(frozen=True, kw_only=True)
class Scales:
    """Standard deviations of the noise on every entry of the whole X'X, of X'y, and on the
    smallest eigenvalue (infinite: it is not released)."""

    xx: float
    xy: float
    eigenvalue: float = math.inf


@dataclass(frozen=True, eq=False)
class Moments:
    """Released moments: X'X (symmetric), X'y, the smallest eigenvalue of X'X (None where it was not
    released), and the scales of their noise. Everything computed from them is free.

    `variances`: those of the noise on X'X and X'y, of their shapes. Without them the noise is a
    curator's, X'X the mean of a noisy matrix and its transpose.
    """

    xx: Floats
    xy: Floats
    eigenvalue: float | None
    scales: Scales
    variances: tuple[Floats, Floats] | None = None

    @property
    def equations(self) -> Equations:
        """The normal equations with the variances of their noise, for intervals."""
        if self.variances is not None:
            return Equations(self.xx, self.xy, *self.variances)
        size = len(self.xy)
        of_xx = self.scales.xx**2 * (np.ones((size, size)) + np.eye(size)) / 2
        return Equations(self.xx, self.xy, of_xx, np.full(size, self.scales.xy**2))
