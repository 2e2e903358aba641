"""Moments of a regression from signs of products, one a report, and the regression from these.

A person's row is (1, x, y), mapped to [-1, 1]. The products of its entries, but 1 * 1, are its
coordinates; a report is one randomised sign of one of them.
"""

import math
from dataclasses import dataclass

import numpy as np

from ldp.arrays import Floats, Ints
from ldp.regression.bounds import Bounds, Unmapped
from ldp.regression.moments import Moments, Scales
from ldp.regression.ridge import floored


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

        mean_j = middle_j + half_j c signs_j / reports_j
        variance_j = half_j**2 (c**2 - v_j**2) / reports_j <= half_j**2 c**2 / reports_j

    A scale is the largest standard error among its entries.
    """
    coordinates, c = Coordinates.of(features), keep_ratio(epsilon)
    divisors = np.maximum(reports, 1)
    means = coordinates.middle + coordinates.half * c * signs / divisors
    errors = coordinates.half * c / np.sqrt(divisors)
    size = features + 2
    whole = np.eye(size)
    whole[coordinates.first, coordinates.second] = means
    whole[coordinates.second, coordinates.first] = means
    order = [*range(1, features + 1), 0]  # the intercept last, as in Rows
    with_target = coordinates.second == size - 1
    between = (coordinates.first != coordinates.second) & ~with_target
    xx = math.sqrt(2) * float(errors[between].max())  # off the diagonal half the variance
    xy = float(errors[with_target & (coordinates.first != size - 1)].max())
    return Moments(whole[np.ix_(order, order)], whole[order, -1], None, Scales(xx=xx, xy=xy))


def regression_of_signs(
    reports: Ints, signs: Ints, *, epsilon: float, bounds: object
) -> tuple[Floats, float]:
    """Return coefficients and intercept in the units of the data, of `reports` and the sum of
    `signs`, shape (coordinates,). `bounds`: (low, high) of each feature, and last of the target.
    The ridge is that of our default method."""
    pairs = np.asarray(bounds, dtype=np.float64)
    features = len(pairs) - 1
    moments = from_signs(reports, signs, epsilon=epsilon, features=features)
    unmapped = Unmapped(
        Bounds.of(pairs[:-1], features, "bounds"), Bounds.of(pairs[-1:], 1, "bounds"), True
    )
    return unmapped.coefficients(floored(moments))
