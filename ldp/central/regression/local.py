"""Regression in the local model: the curator's moments, from reports that are noisy already.

A person's row is (1, x, y), mapped to [-1, 1]. The products of its entries, but 1 * 1, are its
coordinates: a device draws one of them uniformly and reports one randomised sign of it (pure
epsilon; `sign_reports` draws it on arrays). In the Gaussian variant it sends all of its products
with noise for (epsilon, delta), and the noise of n people adds up to sqrt(n) times the curator's.
Both are simulations on arrays here; `ldp.planning.regression.compare_regressions` compares them
with the curator.
"""

import math
from dataclasses import dataclass

import numpy as np

from ldp.arrays import Floats, Ints
from ldp.central import Simulated
from ldp.central.regression.calibration import Budget, Moments, Scales, Shares, calibrate
from ldp.central.regression.methods import METHODS, FromMoments
from ldp.central.regression.ridge import floored
from ldp.central.regression.rows import Bounds, Rows, Unmapped


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
        return np.where(self.first == self.second, 0.5, 0.0)

    def __len__(self) -> int:
        return len(self.first)


def keep_ratio(epsilon: float) -> float:
    """Return c = (e**epsilon + 1) / (e**epsilon - 1), the factor on a mean of signs."""
    return 1 / math.tanh(epsilon / 2)


def sign_reports(rows: Rows, epsilon: float, generator: np.random.Generator) -> tuple[Ints, Ints]:
    """Draw one report for row of `rows` with an intercept: a coordinate uniformly, then +1 with
    probability (1 + v / c) / 2. Return (reports, sum of signs), row shape (coordinates,)."""
    entries = np.column_stack([rows.features[:, -1], rows.features[:, :-1], rows.target])
    coordinates = Coordinates.of(rows.columns - 1)
    chosen = generator.integers(len(coordinates), size=len(entries))
    row = np.arange(len(entries))
    products = entries[row, coordinates.first[chosen]] * entries[row, coordinates.second[chosen]]
    values = (products - coordinates.middle[chosen]) / coordinates.half[chosen]
    positive = generator.random(len(entries)) < (1 + values / keep_ratio(epsilon)) / 2
    reports = np.bincount(chosen, minlength=len(coordinates))
    signs = 2 * np.bincount(chosen, weights=positive, minlength=len(coordinates)) - reports
    return reports.astype(np.int64), signs.astype(np.int64)


def from_signs(reports: Ints, signs: Ints, *, epsilon: float, features: int) -> Moments:
    """Return the moments, as means, of `reports` and the sum of `signs`, shape (coordinates,):

        mean_j = middle_j + half_j c signs_j / reports_j
        variance_j = half_j**2 (c**2 - v_j**2) / reports_j <= half_j**2 c**2 / reports_j

    A scale is the largest standard error among its entries.
    """
    coordinates, c = Coordinates.of(features), keep_ratio(epsilon)
    divisors = np.maximum(reports, 1)
    means = coordinates.middle + coordinates.half * c * signs / divisors
    errors = np.where(coordinates.first == coordinates.second, 0.5, 1.0) * c / np.sqrt(divisors)
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
) -> tuple[Floats, float, Moments]:
    """Return coefficients and intercept in the units of the data, and the noisy moments, of
    `reports` and the sum of `signs`, shape (coordinates,). `bounds`: (low, high) of each feature,
    and last of the target. The ridge is that of our default method."""
    pairs = np.asarray(bounds, dtype=np.float64)
    features = len(pairs) - 1
    moments = from_signs(reports, signs, epsilon=epsilon, features=features)
    unmapped = Unmapped(
        Bounds.of(pairs[:-1], features, "bounds"), Bounds.of(pairs[-1:], 1, "bounds"), True
    )
    return *unmapped.coefficients(floored(moments)), moments


def gaussian_reports(rows: Rows, budget: Budget, generator: np.random.Generator) -> Moments:
    """Return the sums of every row's products, each sent with the noise for single person's
    release."""
    default = METHODS["ridge"]
    assert isinstance(default, FromMoments)
    shares = Shares.of(split=default.split)
    single = calibrate(shares, mu=budget.mu, norm=rows.norm, neighbours=budget.neighbours)
    factor = math.sqrt(len(rows.target))
    scales = Scales(xx=single.xx * factor, xy=single.xy * factor)
    return Moments.released(rows, scales, Simulated(generator))
