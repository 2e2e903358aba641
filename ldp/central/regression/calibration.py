"""The noise that a regression's releases need together, exactly.

X'X, X'y and maybe the smallest eigenvalue of X'X are released with Gaussian noise. Each has a mu =
sensitivity / standard deviation, and together they are one Gaussian release: mu**2 is the largest
sum of squared changes over standard deviations between two neighbouring data sets. With rows of
length at most N, targets at most T and a person

- added or removed:  N**4 / xx**2 + N**2 T**2 / xy**2 + N**4 / eigenvalue**2,
- replaced:  max over c in [0, 1] of 2 (1 - c**2) N**4 / xx**2 + 2 (1 + c) N**2 T**2 / xy**2,
  plus N**4 / eigenvalue**2.

c is the cosine between the two persons' rows, whose targets differ in sign. Shorter rows and
smaller targets change less: replacing c with c |x| |x'| / N**2 raises both terms. An eigenvalue
moves by N**2 at most (Weyl). For equal noise on X'X and X'y the maximum is 4.5, at c = 1/2. `xx` is
the noise of every entry of the whole matrix. The mean of the matrix and its transpose, which halves
the variance off the diagonal, is free.
"""

import math
from dataclasses import dataclass

import numpy as np

from ldp.accounting import Cost, Neighbours
from ldp.arrays import Floats
from ldp.central import Noise, gaussian_mu
from ldp.central.regression.rows import ROUNDED, Rows
from ldp.errors import ParameterError
from ldp.regression.noisy_moments import Moments, Scales

ROUNDING = 1 + 1e-9 + ROUNDED
"""Factor on computed scales, for the rounding of the formulas here and of sums."""
EIGENVALUE_ROUNDING = 1 + 2 * ROUNDED
"""Factor on the eigenvalue's scale: solved in doubles, an eigenvalue of 40 columns and MOST_ROWS
rows is off by some 40 * 2**-53 * MOST_ROWS = 4e-8 of what a person changes."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Budget of a fit: (epsilon, delta) between `neighbours`. delta 0: pure mechanisms only."""

    epsilon: float
    delta: float
    neighbours: Neighbours

    @property
    def cost(self) -> Cost:
        """Cost of a fit with normal noise."""
        return Cost(epsilon=self.epsilon, delta=self.delta, neighbours=self.neighbours)

    @property
    def pure_cost(self) -> Cost:
        """Cost of a fit with Laplace noise."""
        return Cost(epsilon=self.epsilon, neighbours=self.neighbours)

    @property
    def mu(self) -> float:
        """Largest joint mu of all releases; raises ParameterError for delta 0."""
        return gaussian_mu(self.epsilon, self.delta)


def joint_mu(scales: Scales, *, norm: float, neighbours: Neighbours, target: float = 1.0) -> float:
    """Return mu of all releases together, for rows of length `norm` and targets of `target` at
    most.

    >>> scales = Scales(xx=1.0, xy=1.0)
    >>> [round(joint_mu(scales, norm=1.0, neighbours=kind) ** 2, 9) for kind in Neighbours]
    [4.5, 2.0]
    """
    xx, xy = _squared(norm**2, scales.xx), _squared(norm * target, scales.xy)
    eigenvalue = _squared(norm**2, scales.eigenvalue)
    if neighbours is Neighbours.ADD_REMOVE:
        return math.sqrt(xx + xy + eigenvalue)
    # 2 (1 - c**2) xx + 2 (1 + c) xy is largest at c = xy / (2 xx), or at its end
    cosine = min(1.0, xy / (2 * xx))
    return math.sqrt(2 * (1 - cosine**2) * xx + 2 * (1 + cosine) * xy + eigenvalue)


def _squared(sensitivity: float, scale: float) -> float:
    return (sensitivity / scale) ** 2 if scale else math.inf


def calibrate(
    split: float, eigenvalue: float = 0.0, *, mu: float, norm: float, neighbours: Neighbours
) -> Scales:
    """Return the smallest scales whose joint mu is at most `mu`, for rows of length `norm` and
    targets of 1 at most. Of mu**2 a share `eigenvalue`, in [0, 1), is the eigenvalue's, which is
    not released for 0, and `split`, in (0, 1), of the rest X'X's. Raises ParameterError for others.

    >>> scales = calibrate(0.5, mu=0.2, norm=1.0, neighbours=Neighbours.ADD_REMOVE)
    >>> round(scales.xx, 4), round(scales.xy, 4)   # root 2 / mu
    (7.0711, 7.0711)
    """
    if not 0 < split < 1 or not 0 <= eigenvalue < 1:
        raise ParameterError("split must lie in (0, 1) and eigenvalue_share in [0, 1)")
    rest = 1 - eigenvalue

    def scales(total: float) -> Scales:
        # 0 also for a share that underflows
        part = total * eigenvalue
        return Scales(
            xx=norm**2 / math.sqrt(total * (rest * split)),
            xy=norm / math.sqrt(total * (rest * (1 - split))),
            eigenvalue=norm**2 / math.sqrt(part) if part else math.inf,
        )

    # the square of mu is proportional to `total`
    mu_of_one = joint_mu(scales(1.0), norm=norm, neighbours=neighbours)
    least = scales((mu / mu_of_one) ** 2)
    return Scales(
        xx=least.xx * ROUNDING,
        xy=least.xy * ROUNDING,
        eigenvalue=least.eigenvalue * EIGENVALUE_ROUNDING,
    )


def release_moments(rows: Rows, scales: Scales, noise: Noise) -> Moments:
    """Return the exact moments of `rows`, with noise."""
    whole = noise.gaussian(rows.xx, scales.xx)
    eigenvalue = None
    if scales.eigenvalue < math.inf:
        least: Floats = np.linalg.eigvalsh(rows.xx)[:1].astype(np.float64)
        eigenvalue = float(noise.gaussian(least, scales.eigenvalue)[0])
    return Moments((whole + whole.T) / 2, noise.gaussian(rows.xy, scales.xy), eigenvalue, scales)
