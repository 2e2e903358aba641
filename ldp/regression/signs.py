"""Moments of a regression from signs of products, one a report.

A person's row is (1, x, y), mapped to [-1, 1]. The products of its entries, but 1 * 1, are its
coordinates. A report is one randomised sign of one of them.
"""

import math
from dataclasses import dataclass

import numpy as np

from ldp.arrays import Floats, Ints
from ldp.regression.bounds import Bounds, Unmapped
from ldp.regression.noisy_moments import Moments, Scales


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The products of (1, x, y) in the order of their upper triangle, 1 * 1 left out: of entries
    `first` and `second`, each within `half` of `middle`. y * y is the last."""

    first: Ints
    second: Ints

    @classmethod
    def of(cls, features: int) -> "Coordinates":
        """Return the coordinates of rows (1, x, y) with `features` numbers x: with d features
        (d + 1)(d + 2) / 2 + d + 1 of them."""
        first, second = np.triu_indices(features + 2)
        return cls(first[1:].astype(np.int64), second[1:].astype(np.int64))

    @property
    def half(self) -> Floats:
        """Half of every range: 1/2 for squares, which lie in [0, 1], 1 for others, in [-1, 1]."""
        return np.where(self.first == self.second, 0.5, 1.0)

    @property
    def middle(self) -> Floats:
        """Middle of every range: 1/2 for squares, 0 for others."""
        return 1 - self.half

    def __len__(self) -> int:
        return len(self.first)


def keep_ratio(epsilon: float) -> float:
    """Return c = (e**epsilon + 1) / (e**epsilon - 1), the factor on a mean of signs."""
    return 1 / math.tanh(epsilon / 2)


def from_signs(reports: Ints, signs: Ints, *, epsilon: float, features: int) -> Moments:
    """Return the moments, as means, of `reports` and the sum of `signs`, shape (coordinates,):

        mean_j = middle_j + half_j v_j,  v_j = c signs_j / reports_j
        variance_j = half_j**2 (c**2 - v_j**2) / reports_j <= half_j**2 c**2 / reports_j

    The variances are those of people drawn at random. In them v_j has two more signs of each kind,
    so that few signs, which may be alike, hide none (Agresti and Coull 1998), and is clipped to
    [-1, 1]. A scale is the largest bound of a standard error among its entries.
    """
    coordinates, c = Coordinates.of(features), keep_ratio(epsilon)
    divisors = np.maximum(reports, 1)
    scaled = c * signs / divisors
    means = coordinates.middle + coordinates.half * scaled
    errors = coordinates.half * c / np.sqrt(divisors)
    nearer = np.clip(c * signs / (divisors + 4), -1, 1)
    variances = coordinates.half**2 * (c**2 - nearer**2) / divisors
    size = features + 2
    whole, of_noise = np.eye(size), np.zeros((size, size))
    for matrix, entries in ((whole, means), (of_noise, variances)):
        matrix[coordinates.first, coordinates.second] = entries
        matrix[coordinates.second, coordinates.first] = entries
    # the intercept last, as in Rows
    order = [*range(1, features + 1), 0]
    with_target = coordinates.second == size - 1
    between = (coordinates.first != coordinates.second) & ~with_target
    # off the diagonal half the variance
    xx = math.sqrt(2) * float(errors[between].max())
    xy = float(errors[with_target & (coordinates.first != size - 1)].max())
    square = np.ix_(order, order)
    return Moments(
        whole[square],
        whole[order, -1],
        None,
        Scales(xx=xx, xy=xy),
        (of_noise[square], of_noise[order, -1]),
    )


def unmapped_of(bounds: object) -> Unmapped:
    """Return the map of coefficients to the units of `bounds`: (low, high) of each feature, and
    last of the target."""
    pairs = np.asarray(bounds, dtype=np.float64)
    features, target = pairs[:-1], pairs[-1:]
    return Unmapped(
        Bounds.of(features, len(features), "bounds"), Bounds.of(target, 1, "bounds"), True
    )
