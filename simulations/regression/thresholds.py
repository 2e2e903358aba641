"""Search thresholds and splits of robust private regression on auxiliary data, many at a time.

Nieminen 2017, section 3.4, steps thresholds by a tenth of the standard deviation of a feature and
of the target, 20 steps of each. The search costs no privacy, because its data are simulated. All
thresholds are tried on the same simulated rows and the same noise, so only the thresholds differ.
Here the noise is numpy's, and the default ridge fits.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ldp.accounting import Neighbours
from ldp.arrays import Floats
from ldp.central.regression import Rows
from ldp.central.regression.laplace import SPLIT, Sensitivities
from simulations.regression.sums import generator_of

Shares = tuple[float, float, float]
"""Shares of epsilon for X'X, X'y and y'y."""
REPLACE = Neighbours.REPLACE_VALUE
COLUMNS, TESTED = 10, 100
LARGEST = 12.0
"""Public bound on the target: about three and a half of its standard deviations."""
STEPS = tuple(step / 10 for step in range(1, 21))
"""Thresholds tried, in standard deviations of a unit row's entry, and of the target."""
TARGETS = np.array([math.sqrt(COLUMNS + 1) * step / LARGEST for step in STEPS])
AUXILIARY, DRAWS = 20, 3
"""Number of auxiliary data sets, and of draws of noise for each."""
TIE = 0.01
"""Difference of correlations that so few data sets hardly tell apart."""


def made(
    n: int, generator: np.random.Generator, columns: int = COLUMNS, correlation: float = 0.0
) -> Rows:
    """Return n rows of the model with all precisions 1.

    They are centred and divided by their length; features are correlated by `correlation` **
    distance.
    """
    b, X = generator.normal(size=columns), generator.normal(size=(n, columns))
    if correlation:
        places = np.arange(columns)
        X = X @ np.linalg.cholesky(correlation ** np.abs(places[:, None] - places)).T
    y = X @ b + generator.normal(size=n)
    X = X - X.mean(axis=0)
    lengths = np.linalg.norm(X, axis=1)
    y = y - y.mean()
    largest = LARGEST * math.sqrt((columns + 1) / (COLUMNS + 1))
    return Rows.of(X / lengths[:, None], np.clip(y / largest, -1, 1), intercept=False, norm=1.0)


@dataclass(frozen=True, eq=False)
class Clipped:
    """Moments of rows clipped at every box and target, and the rows to test.

    Shapes: (boxes, columns, columns) and (boxes, columns, targets).
    """

    xx: Floats
    xy: Floats
    tested: Floats
    wanted: Floats
    boxes: Floats
    targets: Floats

    @classmethod
    def of(cls, rows: Rows, boxes: Floats, targets: Floats) -> "Clipped":
        """Return the moments of all rows but the first TESTED."""
        features, target = rows.features[TESTED:], rows.target[TESTED:]
        inside = [np.clip(features, -box, box) for box in boxes]
        low = np.clip(target[:, None], -targets, targets)
        return cls(
            np.array([one.T @ one for one in inside]),
            np.array([one.T @ low for one in inside]),
            rows.features[:TESTED],
            rows.target[:TESTED],
            boxes,
            targets,
        )

    def correlations(
        self, fit: str, epsilon: float, split: Shares, generator: np.random.Generator
    ) -> Floats:
        """Return the correlation of predictions with the tested targets: shape (boxes, targets)."""
        predicted = self.tested @ self.coefficients(fit, epsilon, split, generator)
        predicted = predicted - predicted.mean(axis=1, keepdims=True)
        wanted = self.wanted - self.wanted.mean()
        lengths = np.linalg.norm(predicted, axis=1) * np.linalg.norm(wanted)
        return np.asarray(np.einsum("ikj,k->ij", predicted, wanted) / np.maximum(lengths, 1e-12))

    def coefficients(
        self, fit: str, epsilon: float, split: Shares, generator: np.random.Generator
    ) -> Floats:
        """Return the coefficients from one draw of noise: shape (boxes, columns, targets).

        `fit`: "ridge", the default; or "fixed", as published: the posterior mean for precisions of
        1, with the published sensitivities.
        """
        columns = self.xy.shape[1]
        most_xx, most_xy = sensitivities(self.boxes, columns, fit)
        scale_xx, scale_xy = most_xx / (split[0] * epsilon), most_xy / (split[1] * epsilon)
        noise = np.triu(generator.laplace(size=(columns, columns)))
        xx = self.xx + scale_xx[:, None, None] * (noise + np.triu(noise, 1).T)
        added = generator.laplace(size=(columns, 1)) * self.targets
        xy = self.xy + scale_xy[:, None, None] * added
        if fit == "fixed":
            return np.asarray(np.linalg.solve(xx + np.eye(columns), xy))
        return floored(xx, xy, scale_xx)


def sensitivities(boxes: Floats, columns: int, fit: str) -> tuple[Floats, Floats]:
    """Return the sensitivities of X'X and, for targets of size 1, of X'y, for each box.

    Rows have length 1 at most; the published sensitivities do not use that.
    """
    if fit == "fixed":
        return columns * (columns + 1) * boxes**2, 2 * columns * boxes
    most = [Sensitivities.of(np.full(columns, box), REPLACE, norm=1.0) for box in boxes]
    return np.array([one.xx for one in most]), np.array([one.xy for one in most])


def floored(xx: Floats, xy: Floats, scale: Floats) -> Floats:
    """Return the default ridge's coefficients of noisy moments, shape (.., columns, targets).

    The Laplace noise has `scale`, shape (..). This is `ldp.regression.ridge.floored` for many
    moments.
    """
    values, vectors = np.linalg.eigh(xx)
    floor = (math.sqrt(2 * xx.shape[-1]) * 2 * scale)[..., None]
    root = np.sqrt(values**2 + 4 * floor**2)
    raised = np.where(values < 0, 2 * floor**2 / (root - values), (values + root) / 2)
    return np.asarray(vectors @ ((np.swapaxes(vectors, -1, -2) @ xy) / raised[..., None]))


@lru_cache(maxsize=4)
def auxiliary(n: int, columns: int, correlation: float) -> tuple[Clipped, ...]:
    """Return the moments of AUXILIARY simulated data sets at all thresholds."""
    generator = generator_of("auxiliary", n, columns, correlation)
    boxes = np.array(STEPS) / math.sqrt(columns)
    whole = [made(n + TESTED, generator, columns, correlation) for _ in range(AUXILIARY)]
    return tuple(Clipped.of(rows, boxes, TARGETS) for rows in whole)


@lru_cache(maxsize=256)
def thresholds(
    n: int,
    epsilon: float,
    columns: int = COLUMNS,
    split: Shares = SPLIT,
    correlation: float = 0.0,
    fit: str = "ridge",
) -> tuple[float, float]:
    """Return the (box, target) of the largest mean correlation.

    Among boxes whose best is within TIE of it, the largest box wins, since nothing is known of the
    real rows but that clipping changes them.
    """
    generator = generator_of("noise", n, columns)
    draws = [
        one.correlations(fit, epsilon, split, generator)
        for one in auxiliary(n, columns, correlation)
        for _ in range(DRAWS)
    ]
    found = np.mean(draws, axis=0)
    i = int(np.flatnonzero(found.max(axis=1) >= found.max() - TIE)[-1])
    return STEPS[i] / math.sqrt(columns), float(TARGETS[int(found[i].argmax())])
