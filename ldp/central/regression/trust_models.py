"""Every regression on the same data at the same epsilon: the error of each model of trust.

Repeated splits into nine parts to fit and one to test. The scores come from the data without noise.
So a comparison is a simulation, never a release. Neighbours are replace-one throughout, the only
relation of the local model.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ldp.accounting import Neighbours
from ldp.arrays import Floats, Generator, Ints
from ldp.central import Simulated
from ldp.central.regression.calibration import Budget, calibrate, release_moments
from ldp.central.regression.methods import METHODS, SPLIT
from ldp.central.regression.rows import Rows
from ldp.central.rows_read import epsilon_of_rows
from ldp.errors import ParameterError
from ldp.privacy_loss import AnyMechanism, largest_shuffled
from ldp.regression import ridge
from ldp.regression.bounds import Bounds
from ldp.regression.noisy_moments import Moments, Scales
from ldp.regression.signs import Coordinates, from_signs, keep_ratio


def sign_reports(rows: Rows, epsilon: float, generator: Generator) -> tuple[Ints, Ints]:
    """Draw one report for each row of `rows` with an intercept: a coordinate uniformly, then +1
    with probability (1 + v / c) / 2. Return (reports, sum of signs), each of shape
    (coordinates,)."""
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


def gaussian_reports(rows: Rows, budget: Budget, generator: Generator) -> Moments:
    """Return the sums of every row's products, each row sent with the noise of a single person's
    release."""
    single = calibrate(SPLIT, mu=budget.mu, norm=rows.norm, neighbours=budget.neighbours)
    factor = math.sqrt(len(rows.target))
    scales = Scales(xx=single.xx * factor, xy=single.xy * factor)
    return release_moments(rows, scales, Simulated(generator))


TESTED = 0.1
"""Share of the rows that every split holds out."""
Split = tuple[Rows, Budget, Generator]
"""Mapped rows to fit, at which budget, and a generator of noise."""
Fit = Callable[[Split], Floats]
"""Function that returns the coefficients of a split."""


def _plain(split: Split) -> Floats:
    rows, *_ = split
    moments = Moments(rows.xx, rows.xy, None, Scales(xx=1.0, xy=1.0))
    return ridge.constant(moments, 1.0)


def _provable(name: str) -> Fit:
    def fit(split: Split) -> Floats:
        rows, budget, generator = split
        return METHODS[name].fit(rows, budget, Simulated(generator)).coefficients

    return fit


def _signs(split: Split) -> Floats:
    rows, budget, generator = split
    epsilon, features = budget.epsilon, rows.columns - 1
    reports = sign_reports(rows, epsilon, generator)
    return ridge.floored(from_signs(*reports, epsilon=epsilon, features=features))


def _shuffled(split: Split) -> Floats:
    rows, budget, generator = split
    reports = len(rows.target)
    epsilon = largest_shuffled(AnyMechanism, reports, budget.epsilon, budget.delta)
    return _signs((rows, replace(budget, epsilon=epsilon), generator))


WAYS: tuple[tuple[str, str, str, Fit | None], ...] = (
    ("mean of the target", "none", "no", None),
    ("ridge of 1", "none", "no", _plain),
    *((name, "central", "yes", _provable(name)) for name in METHODS),
    ("ridge", "secure sum", "yes", _provable("ridge")),
    ("signs", "shuffled", "yes", _shuffled),
    ("gaussian", "local", "yes", lambda split: ridge.floored(gaussian_reports(*split))),
    ("signs", "local", "yes", _signs),
)
"""Ways to predict: method, model, whether it is private, and its fit, None for the mean."""
COLUMNS = ("method", "model", "private", "rmse", "low", "high")


def compare_regressions(
    X: Floats,
    y: Floats,
    *,
    bounds: Floats,
    target_bounds: tuple[float, float],
    epsilon: float,
    delta: float,
    generator: Generator,
    splits: int = 20,
) -> list[dict[str, Any]]:
    """Return the errors of all WAYS on `splits` splits of `X`, shape (n, features), and `y`, shape
    (n,): root mean squares in the target's units, the median and the quartiles of the splits, since
    outliers make means useless. Raises ParameterError for fewer than 10 rows.
    """
    tests = max(1, round(TESTED * len(y)))
    if len(y) < 10:
        raise ParameterError(f"at least 10 rows are needed to compare methods, got {len(y)}")
    budget = Budget(epsilon=epsilon, delta=delta, neighbours=Neighbours.REPLACE_VALUE)
    # as a release by `ldp regress`, which pays for the shares of the rows read
    left = replace(budget, epsilon=epsilon - epsilon_of_rows(epsilon, len(y)))
    features = Bounds.of(bounds, X.shape[1], "bounds")
    target = Bounds.of(target_bounds, 1, "target bounds")
    mapped, inside = features.mapped(X), target.mapped(y[:, None])[:, 0]
    errors = np.empty((len(WAYS), splits))
    for split in range(splits):
        order = generator.permutation(len(y))
        test, train = order[:tests], order[tests:]
        rows = Rows.of(mapped[train], inside[train], intercept=True, norm=None)
        for place, (_, model, _, fit) in enumerate(WAYS):
            predicted = y[train].mean()
            if fit is not None:
                spent = left if model == "central" else budget
                coefficients = fit((rows, spent, generator))
                predicted = np.column_stack([mapped[test], np.ones(tests)]) @ coefficients
                predicted = predicted * target.half[0] + target.middle[0]
            errors[place, split] = np.sqrt(((predicted - y[test]) ** 2).mean())
    numbers = np.quantile(errors, (0.5, 0.25, 0.75), axis=1).T.tolist()
    lines = [(*way[:3], *some) for way, some in zip(WAYS, numbers, strict=True)]
    return [dict(zip(COLUMNS, line, strict=True)) for line in lines]
