"""Sums of products of rows, which are all that a fit and its error on other rows read.

Their size does not depend on the number of rows. The splits of a data set are summed once and kept,
so a study can fit them at many settings.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ldp.arrays import Floats
from ldp.central.regression import Rows
from simulations.regression.data import halves, load
from simulations.regression.pipelines import Preprocessing

SPLITS = 32
"""Random splits, nine parts to fit and one to test (Piazza 2021, section 5.4)."""


@dataclass(frozen=True, eq=False)
class Sums:
    """X'X, X'y and y'y of `rows` rows."""

    xx: Floats
    xy: Floats
    yy: float
    rows: int

    @classmethod
    def of(cls, X: Floats, y: Floats) -> "Sums":
        return cls(X.T @ X, X.T @ y, float(y @ y), len(y))

    @property
    def root(self) -> tuple[Floats, Floats]:
        """As many rows as columns, with these X'X and X'y; (columns, columns) and (columns,)."""
        values, vectors = np.linalg.eigh(self.xx)
        lengths = np.sqrt(np.maximum(values, 1e-9))
        return lengths[:, None] * vectors.T, (vectors.T @ self.xy) / lengths

    @property
    def as_rows(self) -> Rows:
        """Rows of length 1 at most, for a provable method that reads only their sums."""
        made = Rows(np.zeros((1, len(self.xy))), np.zeros(1), 1.0, False)
        made.__dict__.update(xx=self.xx, xy=self.xy)
        return made

    def solved(self, ridge: float = 0.0) -> Floats:
        """Return the coefficients without noise."""
        return np.asarray(np.linalg.solve(self.xx + ridge * np.eye(len(self.xy)), self.xy))

    def error(self, coefficients: Floats) -> float:
        """Return the mean squared error of predictions of these rows."""
        squares = coefficients @ self.xx @ coefficients - 2 * coefficients @ self.xy + self.yy
        return float(squares) / self.rows


@dataclass(frozen=True, eq=False)
class Split:
    """Sums of the rows to fit and of the rows to test, and the true coefficients where known."""

    train: Sums
    test: Sums
    truth: Floats


def generator_of(*names: object) -> np.random.Generator:
    """Return the generator that belongs to these names, the same in every process."""
    return np.random.default_rng(zlib.crc32(repr(names).encode()))


LENGTH = np.sqrt(0.5)
"""Length of the true coefficients in the code of Piazza 2021; the text says 1."""
NOISE = 0.1


@lru_cache(maxsize=8)
def made_splits(n: int, columns: int, design: str, repetitions: int) -> tuple[Split, ...]:
    """Return splits of simulated data sets, each with coefficients of its own.

    Rows are unit rows of normal numbers, "independent", or "correlated" by .9 ** distance (Piazza
    2021, section 5.2).
    """
    return tuple(_made_splits(n, columns, design, repetitions))


def _made_splits(n: int, columns: int, design: str, repetitions: int) -> Iterator[Split]:
    generator = generator_of("made", n, columns, design)
    places = np.arange(columns)
    mixed = np.linalg.cholesky(0.9 ** np.abs(places[:, None] - places)).T
    for _ in range(repetitions):
        truth = generator.normal(size=columns)
        truth *= LENGTH / np.linalg.norm(truth)
        X = generator.normal(size=(n, columns))
        if design == "correlated":
            X = X @ mixed
        X /= np.linalg.norm(X, axis=1)[:, None]
        y = np.clip(X @ truth + NOISE * generator.normal(size=n), -1, 1)
        tested = n // 10
        yield Split(Sums.of(X[tested:], y[tested:]), Sums.of(X[:tested], y[:tested]), truth)


@lru_cache(maxsize=8)
def real_splits(name: str) -> tuple[Split, ...]:
    """Return splits of a committed set, rows divided by their length (Wang 2018)."""
    X, y, _ = load(name)
    public = Preprocessing().fit(X, y)
    features, target = public.features(X), public.target(X, y)
    generator = generator_of("real", name)
    parts = [halves(len(y), generator) for _ in range(SPLITS)]
    return tuple(
        Split(
            Sums.of(features[train], target[train]),
            Sums.of(features[test], target[test]),
            np.zeros(X.shape[1]),
        )
        for train, test in parts
    )


@lru_cache(maxsize=4)
def folds(name: str, repetitions: int) -> tuple[Split, ...]:
    """Return ten folds of a committed data set, `repetitions` times, prepared in the same way."""
    X, y, _ = load(name)
    public = Preprocessing().fit(X, y)
    features, target = public.features(X), public.target(X, y)
    whole, generator = Sums.of(features, target), generator_of("folds", name)
    return tuple(
        Split(less(whole, part), part, np.zeros(X.shape[1]))
        for _ in range(repetitions)
        for places in np.array_split(generator.permutation(len(y)), 10)
        for part in [Sums.of(features[places], target[places])]
    )


def less(whole: Sums, part: Sums) -> Sums:
    """Return the sums of the rows that are not in `part`."""
    return Sums(whole.xx - part.xx, whole.xy - part.xy, whole.yy - part.yy, whole.rows - part.rows)
