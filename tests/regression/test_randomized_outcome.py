"""Regression of randomised answers: closed forms, another likelihood, coverage, `ldp regress`."""

import csv
import itertools
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.stats import binom, norm

from ldp import RandomizedResponse
from ldp.central import noisy_mean
from ldp.central.regression import PrivateLinearRegression
from ldp.errors import DecodeError, ParameterError
from ldp.regression import OutcomeDesign, RandomizedOutcomeRegression
from ldp.server import Table, decode
from simulations import surveys
from tests.command_line import run
from tests.statistics import ALPHA
from tests.tiers import tiered

FORCED = OutcomeDesign.forced(truth=2 / 3, yes=1 / 6)
DESIGNS = [
    FORCED,
    OutcomeDesign.warner(statement=0.2),
    OutcomeDesign.unrelated(sensitive=0.7, unrelated_yes=0.25),
    OutcomeDesign.unrelated(sensitive=0.7, unrelated_yes=0.25, unrelated_people=300),
]


def survey(design: OutcomeDesign, people: int, seed: int) -> tuple[Any, Any]:
    """Return two covariates and the answers of a logistic model."""
    generator = np.random.default_rng(seed)
    x = np.column_stack([generator.normal(40, 12, people), generator.random(people) < 0.4])
    share = 1 / (1 + np.exp(-(-2.5 + 0.03 * x[:, 0] + 0.8 * x[:, 1])))
    chance = design.yes_if_no + design.gain * (generator.random(people) < share)
    return x.astype(np.float64), (generator.random(people) < chance).astype(np.float64)


@pytest.mark.exact
@pytest.mark.parametrize("design", DESIGNS)
def test_two_groups_have_the_closed_form(design: OutcomeDesign) -> None:
    """A model with a coefficient for each group has debiased shares and their binomial errors.

    An estimated share of yes adds its error. In log odds, errors follow from the delta method and
    the observed information.
    """
    numbers, yes = np.array([700, 1300]), np.array([300, 700])
    x = np.repeat([0.0, 1.0], numbers)[:, None]
    y = np.concatenate([np.arange(n) < s for n, s in zip(numbers, yes, strict=True)])
    answered = yes / numbers
    share = (answered - design.yes_if_no) / design.gain
    variance = answered * (1 - answered) / numbers / design.gain**2
    offset = design.yes_if_no_variance / design.gain**2
    linear = RandomizedOutcomeRegression(design).fit(x, y)
    np.testing.assert_allclose(
        [linear.intercept_, linear.coef_[0]], [share[0], share[1] - share[0]]
    )
    errors = np.sqrt([variance.sum(), variance[0] + offset])
    np.testing.assert_allclose(linear.std_errors_, errors)
    logistic = RandomizedOutcomeRegression(design, "logistic").fit(x, y)
    odds = np.log(share / (1 - share))
    np.testing.assert_allclose(
        [logistic.intercept_, logistic.coef_[0]], [odds[0], odds[1] - odds[0]], atol=1e-9
    )
    slopes = 1 / (share * (1 - share))
    of_odds = slopes**2 * variance
    errors = np.sqrt(
        [
            of_odds.sum() + (slopes[1] - slopes[0]) ** 2 * offset,
            of_odds[0] + slopes[0] ** 2 * offset,
        ]
    )
    np.testing.assert_allclose(logistic.std_errors_, errors, rtol=1e-7)
    assert logistic.converged_
    assert not logistic.at_edge_


@pytest.mark.exact
def test_the_share_of_a_binary_metric_is_that_of_decode() -> None:
    mechanism = RandomizedResponse(categories=("yes", "no"), epsilon=1.0)
    estimates = decode(Table.from_counts(mechanism, [[700, 300]], 1000))
    chance = math.e / (math.e + 1)
    design = OutcomeDesign.rates(yes_if_yes=chance, yes_if_no=1 - chance)
    model = RandomizedOutcomeRegression(design).fit(np.zeros((1000, 0)), np.arange(1000) < 700)
    assert 1000 * model.intercept_ == pytest.approx(estimates.count[0])


@pytest.mark.exact
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("yes", [180, 240, 400, 700])
def test_intervals_of_log_odds_are_those_of_the_likelihood(design: OutcomeDesign, yes: int) -> None:
    """At its ends, the binomial likelihood of the answers has fallen by half the squared quantile.

    The variance of an estimated share moves the ends further. `wald` gives the textbook's interval.
    """
    if not abs(design.gain) * 0.05 < yes / 1000 - min(design.yes_if_yes, design.yes_if_no):
        pytest.skip("not a share between 0 and 1")
    model = RandomizedOutcomeRegression(design, "logistic")
    model.fit(np.zeros((1000, 0)), np.arange(1000) < yes)
    within = (yes / 1000) * (1 - yes / 1000) / 1000
    fall = norm.isf(0.025) ** 2 / 2 * (within + design.yes_if_no_variance) / within

    def above(log_odds: float) -> float:
        p = design.yes_if_no + design.gain / (1 + math.exp(-log_odds))
        return float(binom.logpmf(yes, 1000, p) - binom.logpmf(yes, 1000, yes / 1000) + fall)

    ((low, high),) = model.coefficient_intervals()
    for end, far in ((low, -9.0), (high, 9.0)):
        if above(far) < 0:
            assert end == pytest.approx(brentq(above, model.intercept_, far), abs=1e-5)
        else:
            assert math.isinf(end)
    ((low, high),) = model.coefficient_intervals(wald=True)
    assert high - low == pytest.approx(2 * norm.isf(0.025) * model.std_errors_[0])


@pytest.mark.exact
@pytest.mark.parametrize("yes", [180, 240, 400, 700])
def test_weights_scale_the_fall_of_the_likelihood(yes: int) -> None:
    """It falls by half the squared quantile, times the variance over that of equal weights.

    Equally far ends held the slope of a long-tailed covariate of a rare outcome too seldom.
    """
    y, weight = np.arange(1000) < yes, np.where(np.arange(1000) % 2, 1.0, 3.0)
    model = RandomizedOutcomeRegression(FORCED, "logistic").fit(np.zeros((1000, 0)), y, weight)
    share = yes / 1000
    variance = (weight**2 * (y - share) ** 2).sum() / weight.sum() ** 2 * 1000 / 999
    fall = norm.isf(0.025) ** 2 / 2 * variance / (share * (1 - share) / 1000)

    def above(log_odds: float) -> float:
        p = FORCED.yes_if_no + FORCED.gain / (1 + math.exp(-log_odds))
        lost = share * math.log(p / share) + (1 - share) * math.log((1 - p) / (1 - share))
        return 1000 * lost + float(fall)

    ((low, high),) = model.coefficient_intervals()
    for end, far in ((low, -9.0), (high, 9.0)):
        if above(far) < 0:
            assert end == pytest.approx(brentq(above, model.intercept_, far), abs=3e-3)
        else:
            assert math.isinf(end)


@pytest.mark.exact
def test_the_ends_of_two_coefficients_are_profiled() -> None:
    """At an end of one coefficient, the largest likelihood over the others has fallen by half the
    squared quantile."""
    x, y = survey(FORCED, 1_500, 8)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    ones, model = np.ones(len(y)), RandomizedOutcomeRegression(FORCED, "logistic").fit(x, y)
    b = np.append(model.coef_, model.intercept_)
    least = log_likelihood(b, x, y, ones, FORCED) - norm.isf(0.025) ** 2 / 2
    for end in model.coefficient_intervals()[0]:

        def loss(rest: Any, end: float = end) -> float:
            return -log_likelihood([end, *rest], x, y, ones, FORCED)

        best = minimize(loss, b[1:], method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9})
        assert -best.fun == pytest.approx(least, abs=1e-4)


def log_likelihood(b: Any, x: Any, y: Any, weights: Any, design: OutcomeDesign) -> float:
    """Return the log likelihood, written from the definition, apart from the code that it tests."""
    share = 1 / (1 + np.exp(-(x @ np.asarray(b[:-1]) + b[-1])))
    yes = share * design.yes_if_yes + (1 - share) * design.yes_if_no
    return float(weights @ np.log(np.where(y, yes, 1 - yes)))


@pytest.mark.exact
@pytest.mark.parametrize("design", DESIGNS[:3])
def test_the_likelihood_is_largest_there_and_curved_as_stated(design: OutcomeDesign) -> None:
    """Scipy's maximum from another start, and the second differences, agree to 6 digits."""
    x, y = survey(design, 600, 1)
    centred = (x - x.mean(axis=0)) / x.std(axis=0)
    ones = np.ones(len(y))

    def loss(b: Any) -> float:
        return -log_likelihood(b, centred, y, ones, design)

    best = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-7}).x
    best = minimize(loss, best, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}).x
    model = RandomizedOutcomeRegression(design, "logistic").fit(centred, y)
    np.testing.assert_allclose([*model.coef_, model.intercept_], best, atol=2e-6)
    step, units = 1e-3, np.eye(3)
    hessian = [
        [
            (
                loss(best + step * (u + v))
                - loss(best + step * (u - v))
                - loss(best - step * (u - v))
                + loss(best - step * (u + v))
            )
            / (4 * step**2)
            for v in units
        ]
        for u in units
    ]
    errors = np.sqrt(np.diag(np.linalg.inv(hessian)))
    np.testing.assert_allclose(model.std_errors_, errors, rtol=1e-5)
    plain = RandomizedOutcomeRegression(design, "logistic").fit(x, y)
    np.testing.assert_allclose(plain.coef_ * x.std(axis=0), model.coef_, rtol=1e-7)


@pytest.mark.exact
@pytest.mark.filterwarnings("ignore:The Randomised link")
@pytest.mark.parametrize("design", DESIGNS[:3])
def test_statsmodels_with_the_same_link_has_the_same_numbers(design: OutcomeDesign) -> None:
    """Statsmodels agrees to 6 digits where it is installed, which no extra does.

    It fits a binomial GLM with the link p = d + c / (1 + exp(-x'b)), and has its observed
    information.
    """
    sm: Any = pytest.importorskip("statsmodels.api")
    base: Any = sm.families.links.Link
    d, c = design.yes_if_no, design.gain

    class Randomised(base):  # type: ignore[misc]
        def __call__(self, p: Any) -> Any:
            share = np.clip((np.asarray(p) - d) / c, 1e-9, 1 - 1e-9)
            return np.log(share / (1 - share))

        def inverse(self, z: Any) -> Any:
            return d + c / (1 + np.exp(-z))

        def deriv(self, p: Any) -> Any:
            share = np.clip((np.asarray(p) - d) / c, 1e-9, 1 - 1e-9)
            return 1 / (c * share * (1 - share))

        def deriv2(self, p: Any) -> Any:
            share = np.clip((np.asarray(p) - d) / c, 1e-9, 1 - 1e-9)
            return (2 * share - 1) / (c * share * (1 - share)) ** 2

        def inverse_deriv(self, z: Any) -> Any:
            share = 1 / (1 + np.exp(-z))
            return c * share * (1 - share)

        def inverse_deriv2(self, z: Any) -> Any:
            share = 1 / (1 + np.exp(-z))
            return c * share * (1 - share) * (1 - 2 * share)

    x, y = survey(design, 5_000, 2)
    columns = np.column_stack([x, np.ones(len(y))])
    glm = sm.GLM(y, columns, family=sm.families.Binomial(link=Randomised(), check_link=False))
    fit = glm.fit(start_params=[0.0, 0.0, -0.5], maxiter=200, tol=1e-14, tol_criterion="params")
    errors = np.sqrt(np.diag(np.linalg.inv(-glm.hessian(fit.params, observed=True))))
    ours = RandomizedOutcomeRegression(design, "logistic").fit(x, y)
    np.testing.assert_allclose([*ours.coef_, ours.intercept_], fit.params, rtol=1e-6)
    np.testing.assert_allclose(ours.std_errors_, errors, rtol=1e-6)


@pytest.mark.exact
@pytest.mark.parametrize("model", ["linear", "logistic"])
def test_a_row_of_weight_two_is_two_rows(model: Any) -> None:
    x, y = survey(FORCED, 800, 3)
    weights = np.where(np.arange(800) % 3 == 0, 2.0, 1.0)
    weighted = RandomizedOutcomeRegression(FORCED, model).fit(x, y, weights)
    whole = np.repeat(np.arange(800), weights.astype(int))
    repeated = RandomizedOutcomeRegression(FORCED, model).fit(x[whole], y[whole])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-8)
    assert weighted.intercept_ == pytest.approx(repeated.intercept_)


@pytest.mark.exact
def test_a_stratified_share_has_the_variance_of_the_textbook() -> None:
    """The textbook's is that of a weighted mean of debiased answers, with its ratio linearised.

    It sums n / (n - 1) times the squares of w (y - mean) about the stratum's, over strata. The sum
    is over the square of the weights' sum.
    """
    generator = np.random.default_rng(4)
    strata = np.repeat(["north", "east", "west"], (60, 100, 40))
    weights = np.repeat([2.0, 0.5, 4.0], (60, 100, 40)) * generator.uniform(0.9, 1.1, 200)
    y = (generator.random(200) < 0.4).astype(float)
    model = RandomizedOutcomeRegression(FORCED).fit(np.zeros((200, 0)), y, weights, strata.tolist())
    debiased = (y - 1 / 6) / (2 / 3)
    mean = (weights * debiased).sum() / weights.sum()
    variance = 0.0
    for name in ("north", "east", "west"):
        part = (weights * (debiased - mean))[strata == name]
        variance += len(part) / (len(part) - 1) * ((part - part.mean()) ** 2).sum()
    assert model.intercept_ == pytest.approx(mean)
    assert model.std_errors_[0] == pytest.approx(math.sqrt(variance) / weights.sum())


@pytest.mark.parametrize("people", [1, 3, 10, 30])
def test_intervals_of_a_town_of_few_people_cover(people: int) -> None:
    """Their answers may all be alike, and one person's is fitted without an error."""
    generator, reached = np.random.default_rng(people), 0
    x = np.repeat([0.0, 1.0], [300, people])[:, None]
    for _ in range(400):
        y = generator.random(len(x)) < FORCED.yes_if_no + FORCED.gain * 0.3
        low, high = RandomizedOutcomeRegression(FORCED).fit(x, y).coefficient_intervals()[0]
        reached += low <= 0 <= high
    assert reached >= binom.ppf(ALPHA, 400, 0.945)


def test_intervals_of_a_slope_of_few_people_cover() -> None:
    generator, reached = np.random.default_rng(5), 0
    for _ in range(400):
        x = generator.lognormal(0, 2, 60)
        share = np.clip(0.2 + 0.001 * x, 0, 1)
        y = generator.random(60) < FORCED.yes_if_no + FORCED.gain * share
        low, high = (
            RandomizedOutcomeRegression(FORCED).fit(x[:, None], y).coefficient_intervals()[0]
        )
        reached += low <= 0.001 <= high
    assert reached >= binom.ppf(ALPHA, 400, 0.945)


@pytest.mark.slow
def test_intervals_of_log_odds_with_heavy_rows_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin, whose residuals are of a fit that heavy rows pull to themselves, does not."""
    design = OutcomeDesign(yes_if_yes=1.0, yes_if_no=0.0)
    weights = np.repeat([30.0, 1.0], [3, 117])

    def reached() -> int:
        generator, times = np.random.default_rng(6), 0
        for _ in range(400):
            x = generator.normal(size=120)
            y = generator.random(120) < 1 / (1 + np.exp(0.5 - 0.8 * x))
            model = RandomizedOutcomeRegression(design, "logistic").fit(x[:, None], y, weights)
            low, high = model.coefficient_intervals()[0]
            times += low <= 0.8 <= high
        return times

    assert reached() >= binom.ppf(ALPHA, 400, 0.945)
    monkeypatch.setattr(RandomizedOutcomeRegression, "_pull", lambda *_: np.zeros(120))
    assert reached() < binom.ppf(ALPHA, 400, 0.945)


@pytest.mark.parametrize(("model", "rows"), tiered([("linear", 2), ("logistic", 3)]))
def test_intervals_with_a_stratum_of_few_rows_cover(
    model: Literal["linear", "logistic"], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stratum of few rows is 60 % of the people; the twin takes their few answers as they are."""
    design = OutcomeDesign(yes_if_yes=0.95, yes_if_no=0.05)
    number = np.array([rows, 97])
    strata = np.repeat(["few", "many"], number).tolist()
    weights = np.repeat([0.6, 0.4] / number, number)
    truth = 0.4 if model == "linear" else math.log(0.4 / 0.6)

    def reached() -> int:
        generator, times = np.random.default_rng(7), 0
        for _ in range(400):
            y = generator.random(len(strata)) < 0.05 + 0.9 * 0.4
            fitted = RandomizedOutcomeRegression(design, model)
            fitted.fit(np.empty((len(y), 0)), y, weights, strata)
            ((low, high),) = fitted.coefficient_intervals()
            times += low <= truth <= high
        return times

    assert reached() >= binom.ppf(ALPHA, 400, 0.945)
    monkeypatch.setattr(RandomizedOutcomeRegression, "_hidden", lambda _, share, *__: 0 * share)
    assert reached() < binom.ppf(ALPHA, 400, 0.945)


@pytest.mark.exact
def test_of_people_is_the_noise_of_the_answers_alone() -> None:
    """All 2**6 answers of six people are enumerated, each with its probability.

    The mean of the estimates is the outcomes' least squares; the mean variance is their variance.
    """
    x, truth = np.array([[0.0], [1], [2], [3], [4], [5]]), np.array([0, 1, 0, 1, 1, 0])
    chance = np.where(truth, FORCED.yes_if_yes, FORCED.yes_if_no)
    means, squares, variances = np.zeros((3, 2))
    for answers in itertools.product((0, 1), repeat=6):
        y = np.array(answers)
        p = float(np.prod(np.where(y, chance, 1 - chance)))
        model = RandomizedOutcomeRegression(FORCED).fit(x, y, of_people=True)
        b = np.append(model.coef_, model.intercept_)
        means += p * b
        squares += p * b**2
        variances += p * np.diag(model.covariance_)
    columns = np.column_stack([x, np.ones(6)])
    np.testing.assert_allclose(means, np.linalg.lstsq(columns, truth, rcond=None)[0], atol=1e-12)
    np.testing.assert_allclose(variances, squares - means**2, rtol=1e-9)


@pytest.mark.exact
@pytest.mark.parametrize(("epsilon", "people"), [(4.0, 14), (6.0, 100)])
def test_intervals_of_people_hold_where_few_answers_are_lies(epsilon: float, people: int) -> None:
    """Half of the people hold yes; all numbers of yes answers are enumerated.

    The twin is 1.96 standard errors, beyond which one lie is.
    """
    yes, half = math.exp(epsilon) / (math.exp(epsilon) + 1), people // 2
    design, numbers = OutcomeDesign.rates(yes_if_yes=yes, yes_if_no=1 - yes), np.arange(half + 1)
    chances = np.convolve(binom.pmf(numbers, half, yes), binom.pmf(numbers, half, 1 - yes))
    missed, twin, nobody = 0.0, 0.0, np.zeros((people, 0))
    for answers, chance in enumerate(chances.tolist()):
        model = RandomizedOutcomeRegression(design)
        model.fit(nobody, np.arange(people) < answers, of_people=True)
        low, high = model.coefficient_intervals()[0]
        missed += chance * (not low <= 0.5 <= high)
        twin += chance * (abs(model.intercept_ - 0.5) > 1.96 * model.std_errors_[0])
    assert missed < 0.05
    assert twin > 0.2


@pytest.mark.exact
def test_a_share_at_the_edge_is_not_converged_and_has_no_interval() -> None:
    """Fewer answer yes than are forced.

    In the linear model that is a share below 0, which is counted. In the logistic one the
    likelihood has no largest value. A share a little inside is found.
    """
    for yes, converged in ((150, False), (166, False), (180, True), (833, True), (840, False)):
        y = np.arange(1000) < yes
        x = np.zeros((1000, 0))
        logistic = RandomizedOutcomeRegression(FORCED, "logistic").fit(x, y)
        assert logistic.converged_ == converged
        assert np.isfinite(logistic.coefficient_intervals(wald=True)).all() == converged
        assert np.isfinite(logistic.coefficient_intervals()).any() == converged  # one end may be
        linear = RandomizedOutcomeRegression(FORCED).fit(x, y)
        assert linear.at_edge_ == (0 if 1 / 6 <= yes / 1000 <= 5 / 6 else 1000)
        assert np.isfinite(linear.std_errors_).all()
    x, y = np.repeat([0.0, 1.0], 500)[:, None], np.arange(1000) % 500 < np.repeat([60, 200], 500)
    assert not RandomizedOutcomeRegression(FORCED, "logistic").fit(x, y).converged_


@pytest.mark.exact
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("guess, truth = 1/2", "a design is one of warner, forced, unrelated, rates"),
        ("forced, truth", "is not like truth = 2/3"),
        ("forced, truth = x", "is not like truth = 2/3"),
        ("forced, truth = 1/0", "is not like truth = 2/3"),
        ("forced, truth = 1/2", "forced is written as 'forced, truth = 2/3, yes = 1/6'"),
        ("forced, truth = 0.9, yes = 0.2", "truth . yes must be a number from 0 to 1"),
        ("warner, statement = 1/2", "answers tell nothing"),
        ("warner, statement = 3/2", "yes_if_yes must be a number from 0 to 1"),
        ("unrelated, sensitive = 1/2, unrelated_yes = 2", "unrelated_yes must be a number"),
        (
            "unrelated, sensitive = .5, unrelated_yes = .5, unrelated_people = 0",
            "must be 1 or more",
        ),
    ],
)
def test_a_wrong_design_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        OutcomeDesign.of(text)


@pytest.mark.exact
def test_wrong_data_say_what_is_wrong() -> None:
    x, y = survey(FORCED, 20, 5)
    model, probit = RandomizedOutcomeRegression(FORCED), cast("Any", "probit")
    for wrong, message in (
        (lambda: model.fit(x, y + 1), "answers must be 0 or 1; row "),
        (lambda: model.fit(x[:-1], y), "a row for each person"),
        (lambda: model.fit(x[:, 0], y), "of shape .rows, features."),
        (lambda: model.fit(x * math.nan, y), "finite numbers"),
        (lambda: model.fit(x, y, -y), "weights must be finite numbers above 0"),
        (lambda: model.fit(x, y, None, ["a"] * 19), "strata must be one for each row"),
        (lambda: model.fit(x, y, None, ["a"] * 19 + ["b"]), "stratum 'b' has one row"),
        (lambda: model.fit(x, y, None, ["a"] * 18 + [None] * 2), "strata: .* 18 is missing"),
        (lambda: model.fit(x, y, np.ma.array(1 + y, mask=y > 0)), "weights must be finite"),
        (lambda: model.fit(np.ma.array(x, mask=x > 50), y), "X must be finite numbers"),
        (lambda: model.fit(x, np.ma.array(y, mask=y > 0)), "answers must be 0 or 1"),
        (lambda: model.fit(x, ["yes"] * 20), "must be numbers: could not convert"),
        (lambda: OutcomeDesign.unrelated(sensitive=-0.1, unrelated_yes=0.2), "sensitive must be"),
        (lambda: model.fit(x, y).coefficient_intervals(1), "level must lie"),
        (lambda: RandomizedOutcomeRegression(FORCED, probit), "must be one of linear, logistic"),
    ):
        with pytest.raises(ParameterError, match=message):
            wrong()
    with pytest.raises(DecodeError, match="do not determine"):
        model.fit(np.column_stack([x, x.sum(axis=1)]), y)
    with pytest.raises(ParameterError, match="only the linear model"):
        RandomizedOutcomeRegression(FORCED, "logistic").fit(x, y, of_people=True)


@pytest.mark.exact
@pytest.mark.parametrize("kind", ["M8[D]", "M8[ns]", "m8[s]", "complex64"])
def test_times_and_complex_numbers_are_no_covariates(kind: str) -> None:
    """The coefficient of a date was by the day, or by the nanosecond."""
    _, y = survey(FORCED, 40, 6)
    odd: Any = np.arange(40).astype("i8" if kind[1] == "8" else kind).astype(kind)
    model = RandomizedOutcomeRegression(FORCED)
    for data in ((odd[:, None], y), (np.arange(40.0)[:, None], odd)):
        with pytest.raises(
            ParameterError, match=r"must be numbers(, not datetime|, not time|: they)"
        ):
            model.fit(*data)
    if kind != "complex64":
        with pytest.raises(ParameterError, match="numbers must be numbers, not "):
            noisy_mean(odd, bounds=(0, 40), epsilon=1.0)
        private = PrivateLinearRegression(1.0, bounds=[(0, 40)], target_bounds=(0, 1))
        for data in ((odd[:, None], y), (np.arange(40.0)[:, None], odd)):
            with pytest.raises(ParameterError, match=r"[Xy] must be numbers, not (datetime|time)"):
                private.fit(*data)


@pytest.mark.exact
def test_rows_of_pandas_are_paired_by_one_index() -> None:
    """A sorted column was paired by position, with the covariates of other people."""
    pandas = pytest.importorskip("pandas")
    x, y = survey(FORCED, 40, 6)
    frame, answers = pandas.DataFrame(x, index=range(7, 47)), pandas.Series(y, index=range(7, 47))
    model, strata = RandomizedOutcomeRegression(FORCED), pandas.Series(["a", "b"] * 20)
    expected = model.fit(x, y).coef_
    np.testing.assert_array_equal(model.fit(frame, answers).coef_, expected)
    np.testing.assert_array_equal(model.fit(frame, y).coef_, expected)
    for data, name in (
        ((frame, answers.sort_values()), "y"),
        ((frame, answers, answers.sort_values() + 1), "weights"),
        ((frame, y, None, strata), "strata"),
        ((x, answers, None, strata), "strata"),
    ):
        with pytest.raises(ParameterError, match=f"{name} has another index than [Xy]: align both"):
            model.fit(*data)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "setting", [surveys.SETTINGS[1], surveys.SETTINGS[6], surveys.SETTINGS[-1]]
)
def test_intervals_cover_and_those_without_the_noise_do_not(setting: surveys.Setting) -> None:
    """If 94 to 96 % of intervals hold, a bound is missed with probability ALPHA at most.

    The bounds are exact binomial tails; seeds are fixed. The twin's errors, those of an outcome
    without noise, miss them.
    """
    result = surveys.covered(setting, 400, seed=2)
    least = binom.ppf(ALPHA / 4, result.converged, 0.94) / result.converged
    most = binom.isf(ALPHA / 4, result.converged, 0.96) / result.converged
    assert result.converged >= 396
    assert least <= result.slope <= most
    assert least <= result.intercept <= most
    assert result.naive < least


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    monkeypatch.chdir(tmp_path)
    x, y = survey(FORCED, 3_000, 6)
    with open("answers.csv", "w", newline="") as text:
        rows = csv.writer(text)
        rows.writerow(["age", "town", "w", "region", "y"])
        for i, (row, answer) in enumerate(zip(x, y, strict=True)):
            rows.writerow([row[0], int(row[1]), 1 + i % 3, "abc"[i % 3], int(answer)])
    return x, y


REGRESS = ["regress", "answers.csv", "--target", "y", "--feature", "age", "--feature", "town"]


def called(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["ldp", *words])
    from ldp import cli

    try:
        cli.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


@pytest.mark.exact
def test_the_command_prints_and_writes_what_the_model_has(
    answers: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*REGRESS, "--randomized", "forced, truth = 2/3, yes = 1/6"]
    assert called([*words, "--out", "line.csv"], monkeypatch) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "linear, in shares: 3,000 rows, P(yes | yes) 0.8333, P(yes | no) 0.1667" in shown
    assert "The intervals are of the population of which the rows are a random sample" in shown
    assert "No privacy is charged: the answers were randomised before." in shown
    model = RandomizedOutcomeRegression(FORCED).fit(*answers)
    rows = [*csv.DictReader(Path("line.csv").read_text().splitlines())]
    assert [row["term"] for row in rows] == ["age", "town", "(intercept)"]
    for row, b, error in zip(
        rows, [*model.coef_, model.intercept_], model.std_errors_, strict=True
    ):
        assert float(row["coefficient"]) == pytest.approx(b)
        assert float(row["std_error"]) == pytest.approx(error)
    summary = json.loads(Path("line.json").read_text())
    assert (summary["converged"], summary["at_edge"], summary["rows"]) == (True, 0, 3000)
    survey_words = ["--weights", "w", "--strata", "region", "--model", "logistic", "--json"]
    assert called([*words, *survey_words], monkeypatch) == 0
    result = json.loads(capsys.readouterr().out)
    fitted = RandomizedOutcomeRegression(FORCED, "logistic").fit(
        *answers, 1 + np.arange(3000) % 3, ["abc"[i % 3] for i in range(3000)]
    )
    assert list(result["std_errors"].values()) == pytest.approx(fitted.std_errors_.tolist())
    assert called([*words, "--of", "people"], monkeypatch) == 0
    assert "of the people of the rows themselves" in " ".join(capsys.readouterr().out.split())


@pytest.mark.exact
def test_categories_are_columns_of_0_and_1_but_the_first(
    answers: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    design = ["--randomized", "forced, truth = 2/3, yes = 1/6"]
    words = [*REGRESS[:6], "--category", "region", *design]
    assert called(words, monkeypatch) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Coefficients of region are differences from 'a'." in shown
    assert called([*words, "--json"], monkeypatch) == 0
    result = json.loads(capsys.readouterr().out)
    ages, region = answers[0][:, 0], np.arange(3000) % 3
    coded = np.column_stack([ages, region == 1, region == 2])
    fitted = RandomizedOutcomeRegression(FORCED).fit(coded, answers[1])
    assert [*result["coefficients"]] == ["age", "region = b", "region = c", "(intercept)"]
    expected = [*fitted.coef_, fitted.intercept_]
    assert [*result["coefficients"].values()] == pytest.approx(expected)
    Path("answers.csv").write_text("age,region,y\n1,a,1\n2,,0\n")
    assert called(words, monkeypatch) == 2
    assert "answers.csv, line 3: region is empty" in capsys.readouterr().err
    assert called([*REGRESS[:6], *design, "--strata", "region"], monkeypatch) == 2
    assert capsys.readouterr().err == "ldp: answers.csv, line 3: region is empty\n"


@pytest.mark.exact
def test_marks_of_missing_values_and_lookalikes_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are numbers and categories like all others, and the coefficients are of them too."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{18 + i % 60},{'ab'[i % 2]},{1 + i % 3},{int(i % 7 < 3)}" for i in range(600)]
    odd = ["-99,a,1,1", "-99,a ,1,0", "30,NA,999,1", "31,a,999,0"]
    words = [*REGRESS[:6], "--randomized", "forced, truth = 2/3, yes = 1/6"]
    words += ["--category", "town", "--strata", "town", "--weights", "w"]
    for extra, said in (
        ([], []),
        (
            odd,
            [
                "age: -99 in 2 rows may stand for a missing number",
                "w: 999 in 2 rows may stand for a missing number",
                "town: 'a' and 'a ' look alike and count apart",
                "town: 'NA' in 1 row may stand for a missing value",
            ],
        ),
    ):
        Path("answers.csv").write_text("\n".join(["age,town,w,y", *rows, *extra, ""]))
        called(words, monkeypatch)
        noted = [f"ldp: answers.csv: {line}" for line in said]
        assert capsys.readouterr().err.splitlines()[: len(noted) or None] == noted


@pytest.mark.exact
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (REGRESS, "give one of --epsilon, --randomized"),
        ([*REGRESS, "--epsilon", "1", "--bounds", "b"], "--feature goes with --randomized"),
        (["regress", "a", "--target", "y", "--epsilon", "1"], "--epsilon goes with --bounds"),
        (
            [*REGRESS, "--randomized", "warner, statement = 3/4", "--delta", "1e-6"],
            "--randomized does not go with --delta",
        ),
        (
            [
                "regress",
                "answers.csv",
                "--target",
                "age",
                "--randomized",
                "warner, statement = 3/4",
            ],
            "answers.csv, line 2: age must be 0 or 1, not",
        ),
        (
            [*REGRESS, "--weights", "region", "--randomized", "warner, statement = 3/4"],
            "answers.csv, line 2: region must be a number above 0, not 'a'",
        ),
        (
            [*REGRESS, "--feature", "y", "--randomized", "warner, statement = 3/4"],
            "y is the target, and predicts itself",
        ),
        (
            [
                "regress",
                "answers.csv",
                "--target",
                "region",
                "--randomized",
                "warner, statement = 3/4",
            ],
            "answers.csv, line 2: region must be 0 or 1, not 'a'",
        ),
        (
            [*REGRESS, "--randomized", "forced, truth = 2/3"],
            "forced is written as 'forced, truth = 2/3, yes = 1/6'",
        ),
    ],
)
def test_mistakes_are_one_line(
    answers: object,
    words: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert called(words, monkeypatch) == 2
    assert message in capsys.readouterr().err


@pytest.mark.exact
def test_python_m_ldp_refuses_what_ldp_refuses(answers: object) -> None:
    """The rules of which options go together hold whatever the program is called."""
    done = subprocess.run(
        [sys.executable, "-m", "ldp", *REGRESS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "give one of --epsilon, --randomized" in done.stderr


@pytest.mark.exact
def test_an_edge_is_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("few.csv").write_text("y\n" + "1\n" * 10 + "0\n" * 90)
    design = ["--randomized", "forced, truth = 2/3, yes = 1/6"]
    assert called(["regress", "few.csv", "--target", "y", *design], monkeypatch) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Fitted shares of 100 rows lie below 0 or above 1." in shown
    words = ["regress", "few.csv", "--target", "y", *design, "--model", "logistic"]
    assert called(words, monkeypatch) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Not converged: a share is estimated at 0 or 1" in shown
    assert "unbounded" in shown
    assert run("regress --help", monkeypatch) == 0


@pytest.mark.exact
def test_a_covariate_far_from_0_has_the_interval_of_one_near_it() -> None:
    """The covariate is in years. Earlier, the ends were sought in steps of a thousandth of the
    standard error."""
    generator = np.random.default_rng(3)
    year = generator.integers(2015, 2025, 500)
    truth = generator.random(500) < 1 / (1 + np.exp(-0.4 * (year - 2020)))
    said = np.where(generator.random(500) < 2 / 3, truth, generator.random(500) < 0.5)
    found = [
        RandomizedOutcomeRegression(FORCED, "logistic").fit((year - shift)[:, None], said)
        for shift in (2020, 0)
    ]
    near, far = (model.coefficient_intervals()[0] for model in found)
    assert np.isfinite(near).all()
    assert far == pytest.approx(near, rel=1e-4)


@pytest.mark.exact
@pytest.mark.parametrize("kind", ["linear", "logistic"])
@pytest.mark.parametrize("weights", [None, np.tile([1.0, 2.0], 250)])
def test_times_of_one_minute_have_the_slope_of_seconds(kind: Any, weights: Any) -> None:
    """Unix times of 300 seconds had 1.2 times the slope, and those of 60 none at all."""
    generator = np.random.default_rng(5)
    seconds = generator.integers(0, 60, 500)
    said = generator.random(500) < 0.2 + 0.01 * seconds
    near, far = (
        RandomizedOutcomeRegression(FORCED, kind).fit(x[:, None], said, weights=weights)
        for x in (seconds, seconds + 1_700_000_000)
    )
    assert far.coef_ == pytest.approx(near.coef_, rel=1e-5)
    assert far.std_errors_[0] == pytest.approx(near.std_errors_[0], rel=1e-5)
    intervals = [model.coefficient_intervals()[0] for model in (near, far)]
    assert intervals[1] == pytest.approx(intervals[0], rel=1e-4)
    with pytest.raises(DecodeError, match="one is constant, or a sum"):
        far.fit(np.column_stack([seconds, seconds * 0.1 + 0.3]), said)


@pytest.mark.exact
def test_weights_have_no_unit() -> None:
    generator = np.random.default_rng(4)
    x, weight = generator.random((200, 1)), 1 + generator.random(200)
    y = generator.random(200) < 0.2 + 0.5 * x[:, 0]
    for kind in ("linear", "logistic"):
        fits = [
            RandomizedOutcomeRegression(FORCED, kind).fit(x, y, weights=unit * weight)
            for unit in (1.0, 1e-200)
        ]
        assert fits[1].coef_ == pytest.approx(fits[0].coef_, rel=1e-9)
        assert fits[1].covariance_ == pytest.approx(fits[0].covariance_, rel=1e-9)


@pytest.mark.exact
def test_answers_that_are_all_alike_have_no_error_of_a_population() -> None:
    model = RandomizedOutcomeRegression(FORCED)
    with pytest.raises(DecodeError, match="all answers are alike"):
        model.fit(np.zeros((30, 0)), np.ones(30))
    assert model.fit(np.zeros((30, 0)), np.ones(30), of_people=True).covariance_[0, 0] > 0


@pytest.mark.exact
@pytest.mark.parametrize(
    "text",
    [
        "warner, statement = 1e400",
        "warner, statement = 0.7, statement = 0.8",
        "forced, truth = -0.5, yes = 0.7",
    ],
)
def test_a_design_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ParameterError):
        OutcomeDesign.of(text)
