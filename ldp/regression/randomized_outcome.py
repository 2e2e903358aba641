"""Regression of an outcome that was randomised before anybody saw it, on covariates in the clear.

For surveys by randomised response. A person with the outcome t, 0 or 1, and covariates x answers
y = 1 with probability d + c t, which the `OutcomeDesign` states. With P(t = 1 | x) = x'b (linear)
or 1 / (1 + exp(-x'b)) (logistic), b is estimated from the answers, and no privacy is charged.

Linear: least squares on (y - d) / c, whose mean is t, with the sandwich of White 1980. Logistic:
maximum likelihood with P(y = 1 | x) = d + c / (1 + exp(-x'b)) (van den Hout, van der Heijden and
Gilchrist 2007; Blair, Imai and Zhou 2015), with the observed information. With weights or strata
the variance is that of the weighted equations by linearisation (Binder 1983).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ldp.arrays import Floats, column_codes, require_no_times, require_one_index, unmasked
from ldp.errors import DecodeError, ParameterError, require_kind, require_probability, require_share

MODELS = ("linear", "logistic")
LEAST_GAIN = 1e-9
"""Difference of P(yes | yes) and P(yes | no) below which an answer says nothing."""
STEPS, SETTLED = 200, 1e-10
"""Number of steps towards the largest likelihood, and the size of one after which it is reached, in
standard errors."""
ROUNDING = 1e-13
"""Share of a log likelihood by which rounding may lower it."""
AT_EDGE = 1e-4
"""Distance from 0 or 1 below which a row's fitted share counts as 0 or 1."""
FEW = 0.1
"""Pull of a row's answer on its own fitted probability, over the answer's variance, above which
fewer than ten people of either answer determine a coefficient."""
FEW_LIES = 0.16
"""Largest step by a lie, in standard errors, at which errors are normal: that of forty lies."""
LEAST_INFORMATION = 1e-6
"""Information that the answers have in some direction, beside that at shares of a half, below which
the likelihood has no largest value inside: a share is estimated at 0 or 1."""


@dataclass(frozen=True, kw_only=True)
class OutcomeDesign:
    """Design of a survey: P(yes | yes) and P(yes | no) of an answer, given the outcome.

    `yes_if_no_variance`: variance of P(yes | no) where a part of it is estimated. Both
    probabilities move alike. Any binary mechanism is a design, such as `rr` of epsilon E with
    yes_if_yes = e**E / (e**E + 1). Raises ParameterError for probabilities outside [0, 1], and for
    two that are equal.

    >>> OutcomeDesign.unrelated(sensitive=0.5, unrelated_yes=0.25)
    OutcomeDesign(yes_if_yes=0.625, yes_if_no=0.125, yes_if_no_variance=0.0)
    """

    yes_if_yes: float
    yes_if_no: float
    yes_if_no_variance: float = 0.0

    def __post_init__(self) -> None:
        for name in ("yes_if_yes", "yes_if_no"):
            share = require_probability(getattr(self, name), name)
            object.__setattr__(self, name, share)
        if abs(self.gain) < LEAST_GAIN:
            raise ParameterError("answers tell nothing: yes is as likely whatever the outcome is")

    @property
    def gain(self) -> float:
        """P(yes | yes) - P(yes | no), the slope c."""
        return self.yes_if_yes - self.yes_if_no

    @classmethod
    def warner(cls, *, statement: float) -> "OutcomeDesign":
        """Return the design of Warner 1965: with probability `statement` a person says whether the
        sensitive statement is true, else whether its opposite is."""
        return cls(yes_if_yes=statement, yes_if_no=1 - statement)

    @classmethod
    def forced(cls, *, truth: float, yes: float) -> "OutcomeDesign":
        """Return the design of forced response: the truth with probability `truth`, "yes" with
        probability `yes`, else "no"."""
        for name, share in (("truth", truth), ("yes", yes), ("truth + yes", truth + yes)):
            require_probability(share, name)
        return cls(yes_if_yes=truth + yes, yes_if_no=yes)

    @classmethod
    def unrelated(
        cls, *, sensitive: float, unrelated_yes: float, unrelated_people: float = math.inf
    ) -> "OutcomeDesign":
        """Return the design of the unrelated question: the sensitive question with probability
        `sensitive`, else one to which a share `unrelated_yes` of people say yes. Where that share
        is estimated, from `unrelated_people` others who were asked it directly, errors allow for
        it."""
        for name, share in (("sensitive", sensitive), ("unrelated_yes", unrelated_yes)):
            require_probability(share, name)
        if not unrelated_people >= 1:
            raise ParameterError("unrelated_people must be 1 or more")
        rest = 1 - sensitive
        return cls(
            yes_if_yes=sensitive + rest * unrelated_yes,
            yes_if_no=rest * unrelated_yes,
            yes_if_no_variance=rest**2 * unrelated_yes * (1 - unrelated_yes) / unrelated_people,
        )

    @classmethod
    def rates(cls, *, yes_if_yes: float, yes_if_no: float) -> "OutcomeDesign":
        """Return the design with these probabilities of "yes"."""
        return cls(yes_if_yes=yes_if_yes, yes_if_no=yes_if_no)

    @classmethod
    def of(cls, text: str) -> "OutcomeDesign":
        """Return the design of a text such as "forced, truth = 2/3, yes = 1/6". Raises
        ParameterError for another.

        >>> OutcomeDesign.of("warner, statement = 0.75").gain
        0.5
        """
        name, *parts = (part.strip() for part in text.split(","))
        numbers = dict[str, float]()
        for part in parts:
            key, _, number = map(str.strip, part.partition("="))
            try:
                share = float(Fraction(number))
            except (ValueError, ArithmeticError):
                raise ParameterError(f"{part!r} is not like truth = 2/3") from None
            if numbers.setdefault(key, share) != share:
                raise ParameterError(f"the design says {key} twice")
        if name not in DESIGNS:
            raise ParameterError(
                f"a design is one of {', '.join(DESIGNS)}, as {DESIGNS['forced']!r}"
            )
        try:
            return getattr(cls, name)(**numbers)  # type: ignore[no-any-return]
        except TypeError:
            raise ParameterError(f"{name} is written as {DESIGNS[name]!r}") from None


DESIGNS: Mapping[str, str] = {
    "warner": "warner, statement = 3/4",
    "forced": "forced, truth = 2/3, yes = 1/6",
    "unrelated": "unrelated, sensitive = 0.7, unrelated_yes = 0.25, unrelated_people = 500",
    "rates": "rates, yes_if_yes = 0.75, yes_if_no = 0.25",
}
"""Designs and how they are written."""


class RandomizedOutcomeRegression:
    """Linear or logistic regression of a randomised outcome, with an intercept.

    >>> generator = np.random.default_rng(1)
    >>> x = generator.uniform(0, 5, 20_000)
    >>> truth = generator.random(20_000) < 0.05 + 0.06 * x
    >>> answers = np.where(generator.random(20_000) < 2 / 3, truth, generator.random(20_000) < 0.5)
    >>> design = OutcomeDesign.forced(truth=2 / 3, yes=1 / 6)
    >>> model = RandomizedOutcomeRegression(design).fit(x[:, None], answers)
    >>> bool(np.abs(model.coef_[0] - 0.06) < 4 * model.std_errors_[0])
    True

    After `fit`: `coef_`, shape (features,), `intercept_`, `std_errors_`, shape (features + 1,), the
    intercept last, `covariance_`, `converged_`, and `at_edge_`, the number of rows whose fitted
    share is 0 or 1 (linear: or beyond).
    """

    coef_: Floats
    intercept_: float
    covariance_: Floats
    converged_: bool
    at_edge_: int
    _likelihood: tuple[Floats, Floats, Floats, Floats, Floats] | None
    _step: Floats
    """Most that a lie moves each coefficient, less where lies are frequent. It is 0 for many
    lies."""

    def __init__(
        self, design: OutcomeDesign, model: Literal["linear", "logistic"] = "linear"
    ) -> None:
        if model not in MODELS:
            raise ParameterError(f"model must be one of {', '.join(MODELS)}")
        self.design, self.model = require_kind(design, OutcomeDesign, "design"), model

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        weights: ArrayLike | None = None,
        strata: Sequence[Any] | None = None,
        *,
        of_people: bool = False,
    ) -> "RandomizedOutcomeRegression":
        """Fit the answers `y`, 0 or 1, shape (rows,), to the covariates `X`, shape (rows,
        features), and return this object.

        `weights`: of the rows, above 0, as 1 / P(selected). `strata`: those of the sample, of two
        rows each at least. `of_people`, for the linear model only: whether errors are about the
        outcomes of these people, so that only the randomisation causes them. Else they are about
        the population of which they are a random sample. Raises ParameterError for other numbers,
        and DecodeError where the covariates do not determine the coefficients.
        """
        require_one_index({"X": X, "y": y, "weights": weights, "strata": strata})
        require_no_times({"X": X, "y": y, "weights": weights})
        answers, columns = _numbers(y), _columns(X)
        if answers.shape != columns.shape[:1]:
            raise ParameterError("X and y must have a row for each person, and one at least")
        if (is_wrong := ~np.isin(answers, (0, 1))).any():
            row = int(is_wrong.argmax())
            raise ParameterError(f"answers must be 0 or 1; row {row + 1} holds {answers[row]:g}")
        if of_people and self.model != "linear":
            raise ParameterError("only the linear model has errors about these people themselves")
        weight = np.ones(len(answers)) if weights is None else _numbers(weights)
        if weight.shape != answers.shape or not (np.isfinite(weight) & (weight > 0)).all():
            raise ParameterError("weights must be finite numbers above 0, one for each row")
        if self.model == "linear" and not of_people and np.ptp(answers) == 0:
            raise DecodeError("all answers are alike, so how far they vary is not known")
        weight = weight / weight.mean()
        scale = np.abs(columns).max(axis=0)
        columns = columns / np.where(scale > 0, scale, 1.0)
        if np.linalg.matrix_rank(columns) < len(scale):
            raise DecodeError(
                "the covariates do not determine the coefficients: one is constant, or a sum of "
                "others; leave it out"
            )
        # covariates far from 0 are hardly told from the intercept: their products would lose digits
        x, triangle = np.linalg.qr(columns)
        gram = (x * weight[:, None]).T @ x
        by_strata = strata is not None or weights is not None
        self._likelihood = None
        solve = self._linear if self.model == "linear" else self._logistic
        b, scores, slopes, bread, by_offset = solve(x, answers, weight, gram)
        share = x @ b if self.model == "linear" else _expit(x @ b)
        pull = self._pull(x, share, bread, slopes)
        if of_people:
            debiased = (answers - self.design.yes_if_no) / self.design.gain
            variances = self._answer_variances(debiased)
            middle = slopes.T @ (slopes * variances[:, None])
        else:
            variances = _along(scores, slopes)
            if by_strata:
                if self.model == "logistic":
                    scores = scores / (1 - np.minimum(pull, 0.9))[:, None]
                scores = _centred(scores, strata)
                variances = np.minimum(variances, _along(scores, slopes))
            middle = scores.T @ scores
        if by_strata or self.model == "linear":
            hidden = self._hidden(share, pull, variances, of_people)
            middle = middle + slopes.T @ (slopes * hidden[:, None])
        else:
            middle = bread
        inverse = np.linalg.inv(bread)
        shift = inverse @ by_offset
        covariance = inverse @ middle @ inverse
        covariance += self.design.yes_if_no_variance * np.outer(shift, shift)
        b, back = np.linalg.solve(triangle, b), np.linalg.inv(triangle)
        self.covariance_ = back @ covariance @ back.T / np.outer(scale, scale)
        self._step = np.zeros(len(scale))
        if of_people:
            steps = np.abs(slopes @ inverse @ back.T)
            steps *= np.sqrt(np.maximum(1 - 4 * variances[:, None], 0))
            step = steps.max(axis=0) / scale
            self._step = np.where(step > FEW_LIES * self.std_errors_, step, 0)
        if not self.converged_:
            self.covariance_ = np.full_like(covariance, math.inf)
        elif self.model == "logistic":
            self._likelihood = columns, answers, weight, b, scale
        *coefficients, self.intercept_ = (b / scale).tolist()
        self.coef_ = np.array(coefficients)
        return self

    @property
    def std_errors_(self) -> Floats:
        """Standard errors, shape (features + 1,), the intercept last. They are infinite where the
        fit did not converge."""
        return np.asarray(np.sqrt(np.diag(self.covariance_)))

    def coefficient_intervals(self, level: float = 0.95, *, wald: bool = False) -> Floats:
        """Return intervals that hold a coefficient with probability `level` each: shape (features +
        1, 2), the intercept last, infinite where the fit did not converge.

        They are Wald's, equally far on both sides. For the logistic model, unless `wald`, they are
        those of the profile likelihood, which hold near shares of 0 and 1 too, where Wald's are too
        wide or too narrow. Weights and strata scale its fall by the variance (Rao and Scott 1984).
        Raises ParameterError for a level outside (0, 1).
        """
        from scipy.special import ndtri

        level = require_share(level, "level")
        # half a step: rare lies are skewed, as Poisson numbers
        reach = float(ndtri((1 + level) / 2)) * (self.std_errors_ + self._step / 2)
        middle = np.append(self.coef_, self.intercept_)
        if wald or self._likelihood is None:
            return np.column_stack([middle - reach, middle + reach])
        columns, answers, weight, b, scale = self._likelihood
        ends = []
        for place, far in enumerate(reach * scale):
            # `place` is last
            order = np.roll(np.arange(len(b)), -place - 1)
            x, triangle = np.linalg.qr(columns[:, order])
            unit = triangle[-1, -1]
            ends += [
                self._end(x * unit, answers, weight, triangle @ b[order] / unit, way * far)
                for way in (-1, 1)
            ]
        return np.reshape(ends, (-1, 2)) / scale[:, None]

    def _end(self, x: Floats, y: Floats, weight: Floats, b: Floats, step: float) -> float:
        """Return the end of the profile likelihood's interval for the last coefficient, `step` from
        its estimate by Wald. It is infinite where none is found (Venzon and Moolgavkar 1988). The
        likelihood falls there as far as at Wald's end if it were a parabola: further where a part
        of P(yes | no) was estimated."""
        observed = self._derivatives(b, x, y, weight)[2]
        inverse = np.linalg.inv(observed)
        lowest = self._log_likelihood(x @ b, y, weight) - step**2 / (2 * inverse[-1, -1])
        # of a step: a log odds at most, or a fiftieth
        farthest = math.sqrt(inverse[-1, -1])
        farthest = min(max(1.0, abs(step) / 50), farthest)
        at = b + inverse[:, -1] * math.copysign(farthest, step) / inverse[-1, -1]
        for _ in range(STEPS):
            scores, _, observed, _, _ = self._derivatives(at, x, y, weight)
            score = scores.sum(axis=0)
            gaps = np.append(lowest - self._log_likelihood(x @ at, y, weight), score[:-1])
            slopes = np.vstack([score, observed[:-1]])
            try:
                change = np.linalg.solve(slopes, gaps)
            except np.linalg.LinAlgError:
                break
            at = at + change / max(1.0, abs(change[-1]) / farthest)
            if abs(change[-1]) <= 1e-6 * farthest:
                is_right = (at[-1] - b[-1]) * step > 0
                return float(at[-1]) if is_right else math.copysign(math.inf, step)
        return math.copysign(math.inf, step)

    def _answer_variances(self, debiased: Floats) -> Floats:
        """Return unbiased estimates of the variances of the answers, their outcomes fixed."""
        yes, no = self.design.yes_if_yes, self.design.yes_if_no
        return np.asarray(no * (1 - no) + debiased * (yes * (1 - yes) - no * (1 - no)))

    def _pull(self, x: Floats, share: Floats, bread: Floats, slopes: Floats) -> Floats:
        """Return by how much a row's answer moves its own fitted probability: without the row its
        residual would be larger by 1 / (1 - that) (MacKinnon and White 1985)."""
        steep = share * (1 - share) if self.model == "logistic" else 1.0
        moved = (x * np.linalg.solve(bread, slopes.T).T).sum(axis=1)
        return np.asarray(np.maximum(self.design.gain * steep * moved, 0))

    def _hidden(self, share: Floats, pull: Floats, counted: Floats, of_people: bool) -> Floats:
        """Return the variance that the answers of few rows hide: those of a town of three may be
        alike, and that of one is fitted without an error. Where a row's `pull` is too large for its
        answer's variance, the latter is at least that with two more of each answer (Agresti and
        Coull 1998), less the variance `counted`."""
        yes = self.design.yes_if_no + self.design.gain * np.clip(share, 0, 1)
        yes = (yes + 2 * pull) / (1 + 4 * pull)
        spread = yes * (1 - yes)
        if of_people:
            spread = np.minimum(spread, self._answer_variances(np.arange(2.0)).max())
        return np.where(pull > spread * FEW, np.maximum(spread - counted, 0), 0)

    def _linear(self, x: Floats, y: Floats, weight: Floats, gram: Floats) -> Any:
        """Return b, the scores of rows, their derivatives by the answers, those of their sum by -b
        and by P(yes | no): shapes (columns,), twice (rows, columns), (columns, columns),
        (columns,)."""
        gain = self.design.gain
        target = (y - self.design.yes_if_no) / gain
        b = np.linalg.solve(gram, x.T @ (weight * target))
        fitted = x @ b
        self.converged_, self.at_edge_ = True, int(((fitted < 0) | (fitted > 1)).sum())
        scores = x * (weight * (target - fitted))[:, None]
        return b, scores, x * (weight / gain)[:, None], gram, -x.T @ weight / gain

    def _logistic(self, x: Floats, y: Floats, weight: Floats, gram: Floats) -> Any:
        """Return what `_linear` does, at the largest likelihood."""
        share = float(np.average((y - self.design.yes_if_no) / self.design.gain, weights=weight))
        start = min(max(share, 0.01), 0.99)
        b = np.linalg.lstsq(x, np.full(len(y), math.log(start / (1 - start))), rcond=None)[0]
        value, information = -math.inf, gram
        for _ in range(STEPS):
            scores, _, observed, expected, _ = self._derivatives(b, x, y, weight)
            score = scores.sum(axis=0)
            try:
                np.linalg.cholesky(observed)
                information = observed
            # not concave here: Fisher's steps still go up
            except np.linalg.LinAlgError:
                information = expected + LEAST_INFORMATION**2 * gram
            step = np.linalg.lstsq(information, score, rcond=None)[0]
            value, factor = self._log_likelihood(x @ b, y, weight), 1.0
            if abs(step @ score) <= SETTLED**2:
                break
            while factor > 2**-40:
                after = self._log_likelihood(x @ (b + factor * step), y, weight)
                if after >= value - ROUNDING * abs(value):
                    break
                factor /= 2
            if factor <= 2**-40 or np.abs(x @ b).max() > 1 / LEAST_INFORMATION:
                break
            b = b + factor * step
        scores, slopes, observed, _, by_offset = self._derivatives(b, x, y, weight)
        root = np.linalg.inv(np.linalg.cholesky(gram))
        half = self.design.yes_if_no + self.design.gain / 2
        most = (self.design.gain / 4) ** 2 / (half * (1 - half))
        least = float(np.linalg.eigvalsh(root @ observed @ root.T)[0]) / most
        gradient = root @ scores.sum(axis=0)
        is_flat = float(gradient @ gradient) <= 1e-8 * most
        self.converged_ = is_flat and least > LEAST_INFORMATION
        shares = _expit(x @ b)
        self.at_edge_ = int(((shares < AT_EDGE) | (shares > 1 - AT_EDGE)).sum())
        return b, scores, slopes, observed if self.converged_ else gram, by_offset

    def _log_likelihood(self, predictor: Floats, y: Floats, weight: Floats) -> float:
        p = self.design.yes_if_no + self.design.gain * _expit(predictor)
        with np.errstate(divide="ignore"):
            return float(weight @ np.log(np.where(y == 1, p, 1 - p)))

    def _derivatives(self, b: Floats, x: Floats, y: Floats, weight: Floats) -> Any:
        """Return the scores of rows, their derivatives by the answers, the observed and the
        expected information, and the derivative of the summed scores by P(yes | no)."""
        share = _expit(x @ b)
        p = self.design.yes_if_no + self.design.gain * share
        slope = self.design.gain * share * (1 - share)
        spread = np.maximum(p * (1 - p), 1e-300)
        residual = (y - p) / spread
        # of the residual, by p
        falling = -1 / spread - residual * (1 - 2 * p) / spread
        curved = -(falling * slope**2 + residual * slope * (1 - 2 * share))
        return (
            x * (weight * residual * slope)[:, None],
            x * (weight * slope / spread)[:, None],
            (x * (weight * curved)[:, None]).T @ x,
            (x * (weight * slope**2 / spread)[:, None]).T @ x,
            x.T @ (weight * slope * falling),
        )


def _expit(predictor: Floats) -> Floats:
    """Return 1 / (1 + exp(-predictor)), never 0 or 1 by rounding at 0."""
    return np.asarray(0.5 * (1 + np.tanh(predictor / 2)))


def _numbers(values: ArrayLike) -> Floats:
    """Return numbers as they are, NaN for masked ones. Raises ParameterError for texts."""
    try:
        numbers = np.asarray(unmasked(values))
        if numbers.dtype.kind == "c":
            raise TypeError("they are complex")
        return np.asarray(numbers, np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"X, y and weights must be numbers: {error}") from None


def _columns(X: ArrayLike) -> Floats:
    """Return the covariates with a column of ones at the end. Raises ParameterError unless `X` has
    two dimensions and finite numbers."""
    table = _numbers(X)
    if table.ndim != 2 or not len(table) or not np.isfinite(table).all():
        raise ParameterError(
            "X must be finite numbers of shape (rows, features), with a row or more"
        )
    return np.column_stack([table, np.ones(len(table))])


def _along(scores: Floats, slopes: Floats) -> Floats:
    """Return the squared residuals of rows, whose `slopes` they multiply in their `scores`."""
    square = np.maximum((slopes**2).sum(axis=1), 1e-300)
    return np.asarray(((scores * slopes).sum(axis=1) / square) ** 2)


def _centred(scores: Floats, strata: Sequence[Any] | None) -> Floats:
    """Return the `scores`, drawn in `strata`, about the mean of each, times sqrt(n / (n - 1)): the
    variance of the sum is that of their squares. Raises ParameterError for strata of one row."""
    listed, place = column_codes(["all"] * len(scores) if strata is None else strata, "strata")
    if len(place) != len(scores):
        raise ParameterError("strata must be one for each row")
    number = np.bincount(place).astype(np.float64)
    if (number < 2).any():
        single = str(listed[int(number.argmin())])
        raise ParameterError(f"stratum {single!r} has one row, which tells no variance: join it")
    totals = np.zeros((len(listed), scores.shape[1]))
    np.add.at(totals, place, scores)
    factor = np.sqrt(number / (number - 1))
    centred = scores - (totals / number[:, None])[place]
    return np.asarray(centred * factor[place, None])
