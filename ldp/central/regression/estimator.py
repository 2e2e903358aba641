"""`PrivateLinearRegression`: private linear regression as a scikit-learn estimator."""

import warnings
from copy import copy
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ldp.accounting import Neighbours
from ldp.arrays import Floats, require_no_times, require_one_index, unmasked
from ldp.central import Noise, Releases, Simulated
from ldp.central.regression.calibration import Budget
from ldp.central.regression.laplace import FromLaplace, LaplaceMoments
from ldp.central.regression.methods import METHODS, PURE, Method
from ldp.central.regression.rows import Rows
from ldp.errors import DecodeError, ParameterError, require_number, require_one_of
from ldp.regression.bounds import Bounds, Unmapped
from ldp.regression.intervals import Equations

NEIGHBOURS = {"add-remove": Neighbours.ADD_REMOVE, "replace-one": Neighbours.REPLACE_VALUE}


class SimulationWarning(UserWarning):
    """Warning that noise came from a seed: the coefficients must not be released."""


class DeltaWarning(UserWarning):
    """Warning that delta is so large that it allows publishing whole rows."""


class PrivateLinearRegression(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Linear regression whose coefficients are (epsilon, delta)-differentially private.

    Features are clipped to `bounds` and the target to `target_bounds`, which must be public
    knowledge: bounds taken from the data would leak it. Both are mapped to [-1, 1], rows are
    clipped to a public `norm`, and only sums of products are released, with noise. `method` solves
    them. With neighbours "replace-one", data sets that differ in one person's row, the number of
    rows is public. With "add-remove" it is not, and must not be published.

    NaN counts as the middle of its bounds, and an infinite number as the nearer bound: an error
    would reveal that somebody has none.

    Parameters
    ----------
    epsilon, delta : float
        Budget of all releases of `fit` together. delta should be far below 1 / rows.
    bounds : (low, high), or an array of shape (features, 2)
        Public range of every feature. A single pair serves the target too.
    target_bounds : (low, high), optional
    method : str
        A name of `ldp.central.regression.METHODS`; "ridge" is the default.
    neighbours : "replace-one" or "add-remove"
        Data sets that cannot be distinguished: with one person's row replaced, as in the local
        model, or with one person more. The latter has 1.4 to 1.6 times less noise, and between data
        sets of one size it holds for up to 1.7 epsilon only.
    fit_intercept : bool
    norm : float, optional
        Public length of a mapped row, the intercept's 1 included; the default, the root of the
        number of columns, shortens none. Less noise if it is small, more bias if it is too small:
        the coefficients, and what the intervals cover, are those of the shortened rows.
    clip_features, clip_target : float, optional
        For method robust only: clips of mapped features and target, in (0, 1]: 0.5 keeps the middle
        half of a range. Less noise if small, more bias if too small; intervals cover the
        coefficients of the clipped rows.
    budget_split : (float, float, float), optional
        For method robust only: shares of epsilon of X'X, X'y and y'y.
    public_rows : (X, y), optional
        For method robust only: rows of people who have no secret, added without noise.
    random_state : None, int, or a numpy generator
        None: noise from OpenDP, the only release. Anything else: a simulation with numpy's noise,
        which sets `is_simulation_` and warns.

    Attributes
    ----------
    coef_, intercept_ : in the units of the data
    cost_ : Cost
    is_simulation_ : bool
    moments_ : the noisy moments, from which everything else follows (method "boosted": None);
        those of method "robust" have their `clips`
    clipped_ : number of values outside the bounds: in simulations only, since it is not
        private; None in a release

    >>> import numpy as np, warnings
    >>> generator = np.random.default_rng(0)
    >>> X = generator.uniform(-1, 1, (20_000, 2))
    >>> y = X @ [0.5, -0.25] + generator.normal(0, 0.1, 20_000)
    >>> model = PrivateLinearRegression(epsilon=1.0, bounds=(-1, 1)).fit(X, y)
    >>> bool(abs(model.coef_ - [0.5, -0.25]).max() < 0.05), model.is_simulation_
    (True, False)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        bounds: Any = None,
        target_bounds: Any = None,
        method: str = "ridge",
        neighbours: str = "replace-one",
        fit_intercept: bool = True,
        norm: float | None = None,
        clip_features: float | None = None,
        clip_target: float | None = None,
        budget_split: tuple[float, float, float] | None = None,
        public_rows: Any = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.target_bounds = target_bounds
        self.method = method
        self.neighbours = neighbours
        self.fit_intercept = fit_intercept
        self.norm = norm
        self.clip_features = clip_features
        self.clip_target = clip_target
        self.budget_split = budget_split
        self.public_rows = public_rows
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to `X`, shape (n, features), and `y`, shape (n,). Raises ParameterError for invalid
        parameters."""
        require_one_index({"X": X, "y": y})
        require_no_times({"X": X, "y": y})
        method = self._method()
        require_one_of(self.neighbours, NEIGHBOURS, "neighbours")
        neighbours = NEIGHBOURS[self.neighbours]
        knows_rows = neighbours is not Neighbours.ADD_REMOVE
        X, (absent, y) = unmasked(X), _without_nan(unmasked(y))
        checks: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": False}
        # else an error would tell that nobody is there
        checks["ensure_min_samples"] = int(knows_rows)
        X, y = validate_data(self, X, y, y_numeric=True, **checks)
        y = np.where(absent, np.nan, np.asarray(y, dtype=np.float64))
        require_number(self.epsilon, "epsilon")
        require_number(self.delta, "delta")
        epsilon, delta = float(self.epsilon), float(self.delta)
        budget = Budget(epsilon=epsilon, delta=delta, neighbours=neighbours)
        if knows_rows and delta >= 1 / len(y) and self.method not in PURE:
            warnings.warn(
                f"delta {delta:g} is not below 1 / rows = {1 / len(y):g}: publishing a random "
                "person's row would be allowed by it",
                DeltaWarning,
                stacklevel=2,
            )
        features, target = self._bounds(X.shape[1])
        noise = _noise(self.random_state)
        rows = self._rows(features, target, X, y)
        options: dict[str, Any] = {
            "box": self.clip_features,
            "target": self.clip_target,
            "split": self.budget_split,
            "public": self._public_rows(features, target),
        }
        options = {name: option for name, option in options.items() if option is not None}
        if options and not isinstance(method, FromLaplace):
            raise ParameterError(
                "clip_features, clip_target, budget_split and public_rows are for method robust"
            )
        fit = method.fit(rows, budget, noise, **options)
        self.cost_, self.moments_ = fit.cost, fit.moments
        self.is_simulation_ = noise.is_simulation
        self.clipped_ = (
            features.outside(X) + target.outside(y[:, None]) if noise.is_simulation else None
        )
        self._unmapped = Unmapped(features, target, self.fit_intercept)
        self.coef_, self.intercept_ = self._unmapped.coefficients(fit.coefficients)
        return self

    def predict(self, X: Any) -> Floats:
        """Return X coef_ + intercept_, `X` of shape (n, features): shape (n,). NaN counts as the
        middle of its feature's bounds."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        features, _ = self._bounds(X.shape[1])
        X = np.where(np.isnan(X), features.middle, X)
        return np.asarray(X @ self.coef_ + self.intercept_)

    def coefficient_intervals(self, level: float = 0.95) -> Floats:
        """Return intervals that hold the least-squares coefficients of the clipped data (with
        `norm`, of the shortened rows) with probability `level` each: shape (features + intercept,
        2), the intercept last, in the units of the data. They are infinite where the noise leaves a
        coefficient undetermined.

        They surround the solution of the noisy moments without a ridge, not `coef_`.
        Raises DecodeError for a method that releases no moments.
        """
        return self._unmapped.intervals(self._equations(), level)

    def coefficient_std_errors(self) -> Floats:
        """Return the standard errors of the solution without a ridge: shape (features +
        intercept,), the intercept last, in the units of the data. Raises DecodeError as
        `coefficient_intervals`."""
        return self._unmapped.std_errors(self._equations())

    def signal(self) -> float:
        """Return the mean over the features of the squared ratio of signal to noise. The signal is
        the released moment of a feature and the target, less that for a constant target. The noise
        is its standard error. The result is about 1 where all is noise. Below
        `ldp.regression.intervals.LEAST_SIGNAL` a constant may predict as well. It costs no budget.
        Raises DecodeError as `coefficient_intervals`."""
        return self._equations().signal(self.fit_intercept)

    def _equations(self) -> Equations:
        check_is_fitted(self)
        if self.moments_ is None:
            raise DecodeError(
                f"no interval is known: method {self.method} releases coefficients, whose "
                "shrinkage is not known, and no moments"
            )
        return self.moments_.equations

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        # noise outweighs a few dozen rows
        tags.regressor_tags.poor_score = True
        return tags

    def merged(self, other: "PrivateLinearRegression") -> Self:
        """Return the regression of the added moments of two curators.

        Each fitted a robust method with the same bounds to different people. A person's cost stays
        that of their curator; `cost_` is the larger. Raises ParameterError for other fits."""
        check_is_fitted(self)
        check_is_fitted(other)
        method, mine, theirs = self._method(), self.moments_, other.moments_
        shared = ("bounds", "target_bounds", "fit_intercept", "norm", "neighbours")
        if (
            not isinstance(method, FromLaplace)
            or not isinstance(mine, LaplaceMoments)
            or not isinstance(theirs, LaplaceMoments)
            or not all(np.array_equal(getattr(self, name), getattr(other, name)) for name in shared)
        ):
            raise ParameterError(
                f"moments add where both have a robust method and the same {', '.join(shared)}"
            )
        both = copy(self)
        both.moments_ = mine + theirs
        both.cost_ = max(self.cost_, other.cost_, key=lambda cost: cost.epsilon)
        both.is_simulation_ = self.is_simulation_ or other.is_simulation_
        both.coef_, both.intercept_ = self._unmapped.coefficients(method.solve(both.moments_))
        return both

    def _public_rows(self, features: Bounds, target: Bounds) -> Rows | None:
        if self.public_rows is None:
            return None
        X, y = (np.asarray(part, dtype=np.float64) for part in self.public_rows)
        if X.shape != (len(y), len(features.low)) or y.ndim != 1:
            raise ParameterError("public_rows must be (X, y) with the columns of the data")
        return self._rows(features, target, X, y)

    def _rows(self, features: Bounds, target: Bounds, X: Floats, y: Floats) -> Rows:
        mapped = features.mapped(X), target.mapped(y[:, None])[:, 0]
        return Rows.of(*mapped, intercept=self.fit_intercept, norm=self.norm)

    def _method(self) -> Method:
        require_one_of(self.method, METHODS, "method")
        return METHODS[self.method]

    def _bounds(self, columns: int) -> tuple[Bounds, Bounds]:
        if self.bounds is None:
            raise ParameterError(
                "bounds are needed: state each feature's range as it is publicly known, because "
                "a range taken from the data reveals who holds its ends"
            )
        target = self.target_bounds
        if target is None:
            if np.shape(self.bounds) != (2,):
                raise ParameterError("target_bounds are needed beside bounds for each feature")
            target = self.bounds
        return Bounds.of(self.bounds, columns, "bounds"), Bounds.of(target, 1, "target_bounds")


def _without_nan(y: Any) -> tuple[Any, Any]:
    """Return the mask of NaN in `y`, shape (n,), and `y` with 0 there and finite numbers elsewhere.
    Returns (False, y) where `y` is no array of numbers."""
    try:
        numbers = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        return False, y
    if y is None or not numbers.ndim:
        return False, y
    return np.isnan(numbers).ravel(), np.nan_to_num(numbers, nan=0.0)


def _noise(random_state: Any) -> Noise:
    if random_state is None:
        return Releases()
    warnings.warn(
        "a seed makes this a simulation: do not release its coefficients",
        SimulationWarning,
        stacklevel=3,
    )
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    return Simulated(np.random.default_rng(random_state))
