"""Regression in the local model: the curator's moments, from reports that are noisy already.

A person's row is (1, x, y), mapped to [-1, 1]. The products of its entries, but 1 * 1, are its
coordinates: a device draws one of them uniformly and reports one randomised sign of it (pure
epsilon; `sign_reports` draws it on arrays). In the Gaussian variant it sends all of its products
with noise for (epsilon, delta), and the noise of n people adds up to sqrt(n) times the curator's.
Both are simulations on arrays here; `comparison.compare_regressions` compares them
with the curator.
"""

import math

import numpy as np

from ldp.arrays import Ints
from ldp.central import Simulated
from ldp.central.regression.calibration import Budget, Shares, calibrate, release_moments
from ldp.central.regression.methods import METHODS, FromMoments
from ldp.central.regression.rows import Rows
from ldp.regression.moments import Moments, Scales
from ldp.regression.signs import Coordinates, keep_ratio


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


def gaussian_reports(rows: Rows, budget: Budget, generator: np.random.Generator) -> Moments:
    """Return the sums of every row's products, each sent with the noise for single person's
    release."""
    default = METHODS["ridge"]
    assert isinstance(default, FromMoments)
    shares = Shares.of(split=default.split)
    single = calibrate(shares, mu=budget.mu, norm=rows.norm, neighbours=budget.neighbours)
    factor = math.sqrt(len(rows.target))
    scales = Scales(xx=single.xx * factor, xy=single.xy * factor)
    return release_moments(rows, scales, Simulated(generator))
