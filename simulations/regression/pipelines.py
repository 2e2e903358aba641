"""Published pipelines: their preprocessing, and the noise of `simulations.regression.published`.

Means, deviations and the longest row are statistics of the data that no budget is spent on. So a
pipeline with them is private only if they are public knowledge; `assumes` lists them. The provable
methods take public bounds instead. Sources: Wang 2018 (row norms); Kalaja 2020, equations 3.3 (row
norms), 3.4 (of the target too), 3.5 (longest row) and 3.8 (clipping above); Honkela and others 2018
(clipping on both sides).
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression
from sklearn.utils.validation import check_is_fitted, validate_data

from ldp.arrays import Floats
from ldp.errors import ParameterError
from simulations.regression.published import PUBLISHED

MAPPINGS = {
    "row": "every row divided by its own length (no statistic)",
    "row-and-target": "every row, and its target, divided by the row's length",
    "max": "every row divided by the longest row's length",
}
CLIPS = ("none", "upper", "both")


class NotPrivateWarning(UserWarning):
    """Warning that a fit is not differentially private end to end."""


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """Steps of a pipeline.

    They standardise columns, clip them to `deviations` standard deviations, and map rows to the
    unit ball. They centre the target and divide it by its largest size. An intercept is a column of
    ones, mapped with the rest. `clip`: "none", "upper" (Kalaja) or "both" (Honkela). `mapping`: a
    key of MAPPINGS. Raises ParameterError for others.
    """

    mapping: str = "row"
    clip: str = "none"
    deviations: float = 2.0
    intercept: bool = False

    def __post_init__(self) -> None:
        if self.mapping not in MAPPINGS or self.clip not in CLIPS:
            raise ParameterError(
                f"mapping must be one of {', '.join(MAPPINGS)}; clip one of {', '.join(CLIPS)}"
            )
        if not self.deviations > 0:
            raise ParameterError("deviations must be > 0")

    @property
    def assumes(self) -> tuple[str, ...]:
        """Statistics that must be public knowledge, because no budget is spent on them."""
        statistics = ["means and deviations of the columns", "mean of the target"]
        if self.mapping == "max":
            statistics.append("length of the longest row")
        largest = "the target's largest size"
        if self.mapping == "row-and-target":
            largest += " over its row's length"
        return (*statistics, largest)

    def fit(self, X: Floats, y: Floats) -> "Fitted":
        """Return the maps with the statistics of `X`, shape (n, columns), and `y`, shape (n,)."""
        deviation = X.std(axis=0, ddof=1) if len(X) > 1 else np.ones(X.shape[1])
        high = np.where(self.clip == "none", np.inf, X.mean(axis=0) + self.deviations * deviation)
        low = np.where(self.clip == "both", X.mean(axis=0) - self.deviations * deviation, -np.inf)
        inside = np.clip(X, low, high)
        spread = inside.std(axis=0, ddof=1) if len(X) > 1 else deviation
        fitted = Fitted(
            self,
            low=low,
            high=high,
            means=inside.mean(axis=0),
            deviations=np.where(spread > 0, spread, 1.0),
            longest=1.0,
            target_mean=float(y.mean()),
            largest=1.0,
        )
        longest = float(np.linalg.norm(fitted.standardised(X), axis=1).max(initial=0.0)) or 1.0
        fitted = replace(fitted, longest=longest)
        largest = float(np.abs(fitted.target(X, y)).max(initial=0.0)) or 1.0
        return replace(fitted, largest=largest)


@dataclass(frozen=True, eq=False)
class Fitted:
    """Statistics of some data, and the maps that use them.

    For these data, rows of `features` lie in the unit ball and targets in [-1, 1]. Methods take `X`
    of shape (n, columns).
    """

    how: Preprocessing
    low: Floats
    high: Floats
    means: Floats
    deviations: Floats
    longest: float
    target_mean: float
    largest: float

    def standardised(self, X: Floats) -> Floats:
        """Return `X` clipped, centred and scaled, with a column of ones first for an intercept."""
        columns = (np.clip(X, self.low, self.high) - self.means) / self.deviations
        return np.column_stack([np.ones(len(X)), columns]) if self.how.intercept else columns

    def features(self, X: Floats) -> Floats:
        """Return `X` mapped to the unit ball."""
        rows = self.standardised(X)
        if self.how.mapping == "max":
            return np.asarray(rows / self.longest)
        return np.asarray(rows / _lengths(rows)[:, None])

    def target(self, X: Floats, y: Floats) -> Floats:
        """Return `y`, shape (n,), centred and divided by the divisors of `X`."""
        return np.asarray((y - self.target_mean) / self._divisor(X))

    def predict(self, X: Floats, coefficients: Floats) -> Floats:
        """Return the predictions of mapped `coefficients`, in the units of the target: shape
        (n,)."""
        return self.design(X) @ coefficients + self.target_mean

    def design(self, X: Floats) -> Floats:
        """Return the matrix that, times mapped coefficients, predicts the target less its mean."""
        return np.asarray(self.features(X) * self._divisor(X)[:, None])

    @property
    def unclipped(self) -> "Fitted":
        """The same statistics, for rows that are not clipped."""
        return replace(
            self, low=np.full_like(self.low, -np.inf), high=np.full_like(self.high, np.inf)
        )

    def unstandardised(self, coefficients: Floats) -> tuple[float, Floats]:
        """Return the intercept, and a coefficient a column, in the units of the data.

        They follow Kalaja 2020, equation 3.7, and reveal the statistics that they are made of.
        Raises ParameterError unless the mapping is "max": with row norms a prediction is not linear
        in the row.
        """
        if self.how.mapping != "max":
            raise ParameterError("only the mapping 'max' is linear in the rows")
        first, slopes = (0.0, coefficients)
        if self.how.intercept:
            first, slopes = float(coefficients[0]), coefficients[1:]
        unit = self.largest / self.longest
        slopes = np.asarray(unit * slopes / self.deviations)
        return float(self.target_mean + unit * first - slopes @ self.means), slopes

    def _divisor(self, X: Floats) -> Floats:
        if self.how.mapping == "row-and-target":
            return np.asarray(self.largest * _lengths(self.standardised(X)))
        return np.full(len(X), self.largest)


def _lengths(rows: Floats) -> Floats:
    lengths = np.linalg.norm(rows, axis=1)
    return np.asarray(np.where(lengths > 0, lengths, 1.0))


class PublishedLinearRegression(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Published pipeline, to reproduce its figures: always a simulation and never private end to
    end, as `NotPrivateWarning` says.

    Parameters
    ----------
    method : a name of PUBLISHED
    epsilon, delta : float
        As claimed by the publication.
    preprocessing : Preprocessing, or its `Fitted` statistics
        Row norms, as Wang 2018, by default. Fitted ones are used as they are: statistics taken
        before the data were split.
    random_state : int or a numpy generator

    Attributes
    ----------
    coefficients_ : of mapped features
    preprocessing_ : the fitted statistics; `preprocessing_.how.assumes` lists what is leaked
    """

    def __init__(
        self,
        method: str = "ada-ssp-wang",
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        preprocessing: Preprocessing | Fitted | None = None,
        random_state: Any = 0,
    ) -> None:
        self.method = method
        self.epsilon = epsilon
        self.delta = delta
        self.preprocessing = preprocessing
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to `X`, shape (n, features), and `y`, shape (n,)."""
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        y = np.asarray(y, dtype=np.float64)
        if self.method not in PUBLISHED:
            raise ParameterError(
                f"unknown method {self.method!r}; published: {', '.join(PUBLISHED)}"
            )
        preprocessing = self.preprocessing or Preprocessing()
        if isinstance(preprocessing, Preprocessing):
            preprocessing = preprocessing.fit(X, y)
        warnings.warn(
            f"{self.method} as published is not differentially private end to end: it takes "
            f"{', '.join(preprocessing.how.assumes)} from the data",
            NotPrivateWarning,
            stacklevel=2,
        )
        self.preprocessing_ = preprocessing
        self.coefficients_ = PUBLISHED[self.method].fit(
            preprocessing.features(X),
            preprocessing.target(X, y),
            epsilon=self.epsilon,
            delta=self.delta,
            generator=np.random.default_rng(self.random_state),
        )
        self.is_simulation_ = True
        return self

    def predict(self, X: Any) -> Floats:
        """Return the predictions for `X`, shape (n, features), in the units of the target: shape
        (n,)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return self.preprocessing_.predict(X, self.coefficients_)


class NoisyPredictions(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Least squares with Laplace noise of scale sensitivity / epsilon on each prediction: method 1
    of Boenisch 2019, to reproduce its figures. Never private, as `NotPrivateWarning` says: the
    sensitivity is a change of one data set's mean squared error, and no budget is divided between
    predictions.

    Parameters
    ----------
    epsilon : float
        As claimed by the publication.
    sensitivity : float
        In units of the target: 3.01 of Boston, in thousand dollars.
    random_state : int or a numpy generator
    """

    def __init__(
        self, epsilon: float = 1.0, *, sensitivity: float = 3.01, random_state: Any = 0
    ) -> None:
        self.epsilon = epsilon
        self.sensitivity = sensitivity
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to `X`, shape (n, features), and `y`, shape (n,)."""
        X, y = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        warnings.warn(
            "noise on predictions is not differentially private: another person's row may move all "
            "of them by more than it hides",
            NotPrivateWarning,
            stacklevel=2,
        )
        self.model_ = LinearRegression().fit(X, y)
        self.generator_ = np.random.default_rng(self.random_state)
        self.is_simulation_ = True
        return self

    def predict(self, X: Any) -> Floats:
        """Return the predictions for `X`, shape (n, features), with fresh noise: shape (n,)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        noise = self.generator_.laplace(0.0, self.sensitivity / self.epsilon, len(X))
        return np.asarray(self.model_.predict(X) + noise)
