"""Every regression on the same data at the same epsilon: the error of each model of trust.

Repeated splits into nine parts to fit and one to test. The scores come from the data without noise,
so a comparison is a simulation, never a release. Neighbours are replace-one throughout, the only
relation of the local model.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ldp.accounting import Neighbours
from ldp.arrays import Floats, Generator, Ints
from ldp.central import Simulated
from ldp.central.regression.calibration import Budget, calibrate, release_moments
from ldp.central.regression.methods import METHODS, SPLIT
from ldp.central.regression.rows import Rows
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


@dataclass(frozen=True, eq=False)
class Score:
    """Errors of one method on the rows held out: root mean squares, in the target's units, one a
    split; `private`: "yes" or "no"."""

    method: str
    model: str
    private: str
    errors: Floats

    def quantile(self, share: float) -> float:
        """Return the `share` quantile of the errors; outliers make means useless."""
        return float(np.quantile(self.errors, share))


@dataclass(frozen=True, eq=False)
class _Task:
    """One split, as a method sees it."""

    train: tuple[Floats, Floats]
    test: Floats
    rows: Rows
    mapped_test: Floats
    target: Bounds
    budget: Budget
    generator: Generator

    def predicted(self, coefficients: Floats) -> Floats:
        """Return the predictions of mapped coefficients, in the target's units: shape (tests,)."""
        mapped = self.mapped_test @ coefficients
        return np.asarray(mapped * self.target.half[0] + self.target.middle[0])


_Predict = Callable[[_Task], Floats]


def _trivial(task: _Task) -> Floats:
    return np.full(len(task.test), task.train[1].mean())


def _plain(task: _Task) -> Floats:
    rows = task.rows
    moments = Moments(rows.xx, rows.xy, None, Scales(xx=1.0, xy=1.0))
    return task.predicted(ridge.constant(moments, 1.0))


def _provable(name: str) -> _Predict:
    def predict(task: _Task) -> Floats:
        fit = METHODS[name].fit(task.rows, task.budget, Simulated(task.generator))
        return task.predicted(fit.coefficients)

    return predict


def _signs(task: _Task, epsilon: float) -> Floats:
    reports, signs = sign_reports(task.rows, epsilon, task.generator)
    moments = from_signs(reports, signs, epsilon=epsilon, features=task.rows.columns - 1)
    return task.predicted(ridge.floored(moments))


def _shuffled(task: _Task) -> Floats:
    budget, reports = task.budget, len(task.rows.target)
    return _signs(task, largest_shuffled(AnyMechanism, reports, budget.epsilon, budget.delta))


def _local_gaussian(task: _Task) -> Floats:
    moments = gaussian_reports(task.rows, task.budget, task.generator)
    return task.predicted(ridge.floored(moments))


def _entries(budget: Budget) -> Iterator[tuple[str, str, str, _Predict]]:
    """Yield method, model, whether it is private, and the method's predictions of a split."""
    yield "mean of the target", "none", "no", _trivial
    yield "ridge of 1", "none", "no", _plain
    for name in METHODS:
        yield name, "central", "yes", _provable(name)
    yield "ridge", "secure sum", "yes", _provable("ridge")
    yield "signs", "shuffled", "yes", _shuffled
    yield "gaussian", "local", "yes", _local_gaussian
    yield "signs", "local", "yes", lambda task: _signs(task, budget.epsilon)


def compare_regressions(
    X: Floats,
    y: Floats,
    *,
    bounds: Bounds,
    target_bounds: Bounds,
    epsilon: float,
    delta: float,
    generator: Generator,
    splits: int = 20,
) -> list[Score]:
    """Return every method's errors on `splits` splits of `X`, shape (n, features), and `y`, shape
    (n,). Raises ParameterError for fewer than 10 rows.
    """
    tests = max(1, round(TESTED * len(y)))
    if len(y) < 10:
        raise ParameterError(f"at least 10 rows are needed to compare methods, got {len(y)}")
    budget = Budget(epsilon=epsilon, delta=delta, neighbours=Neighbours.REPLACE_VALUE)
    entries = list(_entries(budget))
    mapped, inside = bounds.mapped(X), target_bounds.mapped(y[:, None])[:, 0]
    errors = np.empty((splits, len(entries)))
    for split in range(splits):
        order = generator.permutation(len(y))
        test, train = order[:tests], order[tests:]
        task = _Task(
            train=(X[train], y[train]),
            test=X[test],
            rows=Rows.of(mapped[train], inside[train], intercept=True, norm=None),
            mapped_test=np.column_stack([mapped[test], np.ones(tests)]),
            target=target_bounds,
            budget=budget,
            generator=generator,
        )
        for place, (*_, predict) in enumerate(entries):
            differences = predict(task) - y[test]
            errors[split, place] = np.sqrt((differences**2).mean())
    return [Score(*entry[:3], errors[:, place]) for place, entry in enumerate(entries)]
