"""The local model beside the curator's: the same moments, from reports that were noisy already.

A person's row is (1, x, y), mapped to [-1, 1]. The products of its entries, but 1 * 1, are its
coordinates: a device draws one of them uniformly and tells one randomised sign of it (pure epsilon;
`sign_reports` is its law on arrays). In the Gaussian variant it sends all of its products with
noise for (epsilon, delta), and the noise of n people adds up to sqrt(n) times the curator's. Both
are simulations on arrays here, and the ladder between them and the curator is in `compare`.
"""

import math
from dataclasses import dataclass

import numpy as np

from ldp.arrays import Floats, Ints
from ldp.central import Simulated
from ldp.central.regression.calibration import Budget, Moments, Scales, Shares, calibrated
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
        """Of rows (1, x, y) with so many features: (d + 1)(d + 2) / 2 + d + 1 of them."""
        first, second = np.triu_indices(features + 2)
        return cls(first[1:].astype(np.int64), second[1:].astype(np.int64))

    @property
    def half(self) -> Floats:
        """1/2 for squares, which lie in [0, 1]; 1 for the others, in [-1, 1]."""
        return np.where(self.first == self.second, 0.5, 1.0)

    @property
    def middle(self) -> Floats:
        """1/2 for squares, 0 for the others."""
        return np.where(self.first == self.second, 0.5, 0.0)

    def __len__(self) -> int:
        return len(self.first)


def keep_ratio(epsilon: float) -> float:
    """c = (e**epsilon + 1) / (e**epsilon - 1): by which a mean of signs is scaled back."""
    return 1 / math.tanh(epsilon / 2)


def sign_reports(rows: Rows, epsilon: float, generator: np.random.Generator) -> tuple[Ints, Ints]:
    """(reports, sum of signs) of every coordinate, each shape (coordinates,), of one report a row
    with an intercept: a coordinate uniformly, then +1 with probability (1 + v / c) / 2."""
    entries = np.column_stack([rows.features[:, -1], rows.features[:, :-1], rows.target])
    coordinates = Coordinates.of(rows.columns - 1)
    drawn = generator.integers(len(coordinates), size=len(entries))
    each = np.arange(len(entries))
    products = entries[each, coordinates.first[drawn]] * entries[each, coordinates.second[drawn]]
    values = (products - coordinates.middle[drawn]) / coordinates.half[drawn]
    positive = generator.random(len(entries)) < (1 + values / keep_ratio(epsilon)) / 2
    reports = np.bincount(drawn, minlength=len(coordinates))
    signs = 2 * np.bincount(drawn, weights=positive, minlength=len(coordinates)) - reports
    return reports.astype(np.int64), signs.astype(np.int64)


def from_signs(reports: Ints, signs: Ints, *, epsilon: float, features: int) -> Moments:
    """The moments, as means, of the (reports, sum of signs) of every coordinate:

        mean_j = middle_j + half_j c signs_j / reports_j
        variance_j = half_j**2 (c**2 - v_j**2) / reports_j <= half_j**2 c**2 / reports_j

    Scales are the largest standard error of the entries they stand for.
    """
    coordinates, c = Coordinates.of(features), keep_ratio(epsilon)
    told = np.maximum(reports, 1)
    means = coordinates.middle + coordinates.half * c * signs / told
    errors = np.where(coordinates.first == coordinates.second, 0.5, 1.0) * c / np.sqrt(told)
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
    """Coefficients and intercept in the units of the data, and the noisy moments they come from, of
    the (reports, sum of signs) of every coordinate. `bounds`: (low, high) of each feature, and last
    of the target. The ridge is that of our default method."""
    pairs = np.asarray(bounds, dtype=np.float64)
    features = len(pairs) - 1
    made = from_signs(reports, signs, epsilon=epsilon, features=features)
    unmapped = Unmapped(
        Bounds.of(pairs[:-1], features, "bounds"), Bounds.of(pairs[-1:], 1, "bounds"), True
    )
    return *unmapped.coefficients(floored(made)), made


def gaussian_reports(rows: Rows, budget: Budget, generator: np.random.Generator) -> Moments:
    """The sums of every row's products, each sent with the noise of a release about one person."""
    default = METHODS["ridge"]
    assert isinstance(default, FromMoments)
    shares = Shares.of(split=default.split)
    one = calibrated(shares, mu=budget.mu, norm=rows.norm, neighbours=budget.neighbours)
    grown = math.sqrt(len(rows.target))
    scales = Scales(xx=one.xx * grown, xy=one.xy * grown)
    return Moments.released(rows, scales, Simulated(generator))
