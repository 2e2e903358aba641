"""Claims of published private regressions, compared with the exact delta of what they release.

docs/regression.md names these tests row by row.
"""

import csv
import math
import re
from typing import Any

import numpy as np
import pytest
from scipy.stats import laplace
from sklearn.linear_model import LinearRegression, Ridge

from ldp.accounting import Neighbours
from ldp.arrays import Floats
from ldp.central import gaussian_delta, gaussian_epsilon, gaussian_mu
from ldp.central.regression import Scales, joint_mu
from ldp.errors import ParameterError
from simulations.regression.pipelines import (
    MAPPINGS,
    NotPrivateWarning,
    Preprocessing,
    PublishedLinearRegression,
)
from simulations.regression.published import PUBLISHED
from tests.folders import ROOT, TESTS

DATA = TESTS / "data" / "regression"
EPSILONS = (0.1, 1.0, 3.0, 10.0)
TRUE_EPSILON = {  # at claimed 0.1, 1, 3, 10 and delta 1e-6; None: its proof ends before
    "ssp-wang": (0.064, 0.751, 2.47, 9.78),
    "ssp-wang-code": (0.134, 1.59, 5.38, 23.2),
    "ssp-kalaja": (0.045, 0.527, None, None),
    "ssp-piazza": (0.044, 0.518, None, None),
    "ada-ssp-wang": (0.051, 0.596, 1.95, 7.57),
    "ada-ssp-wang-code": (0.051, 0.596, 1.95, 7.57),
    "ada-ssp-kalaja": (0.036, 0.418, None, None),
    "ada-ssp-budget": (0.042, 0.491, None, None),
    "const-ssp-full": (0.044, 0.518, None, None),
    "ada-ssp-lev": (0.056, 0.564, 1.72, 5.91),
}


def boston() -> tuple[Floats, Floats, list[str]]:
    with (DATA / "boston.csv").open() as file:
        names, *rows = list(csv.reader(file))
    table = np.array(rows, dtype=np.float64)
    return table[:, :-1], table[:, -1], names[:-1]


# --- every claim by one checker


@pytest.mark.exact
@pytest.mark.parametrize("name", list(PUBLISHED))
def test_a_published_claim_holds_or_not_as_the_table_says(name: str) -> None:
    claim = PUBLISHED[name]
    for epsilon, true in zip(EPSILONS, TRUE_EPSILON[name], strict=True):
        if true is None:
            with pytest.raises(ParameterError, match="provable methods serve every epsilon"):
                claim.scales(epsilon, 1e-6)
        else:
            assert gaussian_epsilon(claim.mu(epsilon, 1e-6), 1e-6) == pytest.approx(true, rel=0.02)
            assert claim.holds(epsilon, 1e-6) is (name != "ssp-wang-code")
            assert claim.holds(epsilon, 1e-6) is (true <= epsilon)


@pytest.mark.exact
def test_wangs_single_release_is_not_what_its_share_claims_but_the_three_together_are() -> None:
    scales = PUBLISHED["ada-ssp-wang"].scales(1.0, 1e-6)
    assert gaussian_delta(1 / 3, 1 / scales.xx) == pytest.approx(8.8e-7, rel=0.01)
    assert gaussian_delta(1 / 3, 1 / scales.xx) > 1e-6 / 3
    assert PUBLISHED["ada-ssp-wang"].delta(1.0, 1e-6) < 2e-13


def boosted(epsilon: float, delta: float) -> Scales:
    """Return the scales of BoostedAdaSSP as in its repository, which takes mu for a standard
    deviation."""
    mu = gaussian_mu(epsilon, delta)
    return Scales(xx=mu * math.sqrt(3), xy=mu * math.sqrt(3), eigenvalue=mu * math.sqrt(3))


def bare_diagonal(epsilon: float, delta: float) -> Scales:
    """Return the scales of a diagonal released without noise, as in diffprivlib 0.6.6.

    There it is so for bounds (0, 1): a person with x = (1, 0, ...) changes nothing else of X'X.
    """
    honest = PUBLISHED["ssp-kalaja"].scales(epsilon, delta)
    return Scales(xx=0.0, xy=honest.xy)


@pytest.mark.exact
@pytest.mark.parametrize("control", [boosted, bare_diagonal])
def test_negative_controls_are_reported_as_failing_by_the_same_checker(control: Any) -> None:
    for neighbours in Neighbours:
        scales = control(1.0, 1e-6)
        spent = joint_mu(scales, norm=1.0, neighbours=neighbours)
        assert gaussian_delta(1.0, spent) > 0.5


def laplace_loss(change: Floats, scale: float) -> float:
    """Return the privacy loss of Laplace noise of this scale on numbers that change by `change`.

    It is the largest over outputs, number by number, from the densities themselves.
    """
    seen = np.linspace(-60 * scale, 60 * scale, 2001)
    losses = [laplace.logpdf(seen, 0, scale) - laplace.logpdf(seen, c, scale) for c in change]
    return float(sum(np.abs(loss).max() for loss in losses))


@pytest.mark.exact
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0])
def test_a_laplace_scale_that_should_be_its_inverse_is_found_out(epsilon: float) -> None:
    """TukeyEM's distance test, 2024 to 2026, releases a count of sensitivity 1 with scale
    epsilon."""
    assert laplace_loss(np.ones(1), 1 / epsilon) == pytest.approx(epsilon)
    assert (laplace_loss(np.ones(1), epsilon) > epsilon) is (epsilon < 1)


@pytest.mark.exact
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_noise_on_predictions_is_not_private(epsilon: float) -> None:
    """Boenisch 2019, method 1, adds Laplace noise of scale 3.01 / epsilon to each prediction.

    Without record 368, the 51 predictions of the first fold together move by 3.7 times the claim.
    """
    X, y, _ = boston()
    test, rest_X, rest_y = X[:51], X[51:], y[51:]

    def predictions(features: Floats, target: Floats) -> Floats:
        return np.asarray(LinearRegression().fit(features, target).predict(test))

    base, scale = predictions(rest_X, rest_y), 3.01 / epsilon
    without = predictions(np.delete(rest_X, 368 - 51, axis=0), np.delete(rest_y, 368 - 51))
    assert laplace_loss(without - base, scale) == pytest.approx(3.698 * epsilon, rel=1e-3)


@pytest.mark.exact
def test_boenischs_baselines_are_means_of_ten_folds_errors() -> None:
    X, y, names = boston()
    for columns, published in ((names, 5.1808), (["chas", "nox", "rm"], 5.9864)):
        places = [names.index(name) for name in columns]
        errors = []
        for fold in np.array_split(np.arange(len(y)), 10):
            rest = np.setdiff1d(np.arange(len(y)), fold)
            model = LinearRegression().fit(X[rest][:, places], y[rest])
            wrong = model.predict(X[fold][:, places]) - y[fold]
            errors.append(math.sqrt((wrong**2).mean()))
        assert np.mean(errors) == pytest.approx(published, abs=1e-4)


# --- the noise drawn is the noise accounted for


class Recorder:
    """Generator that keeps the scales which it had to draw."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def normal(self, mean: float = 0.0, scale: float = 1.0, size: Any = None) -> Any:
        self.asked.append(scale)
        return np.random.default_rng(0).normal(mean, scale, size)


@pytest.mark.exact
@pytest.mark.parametrize("name", list(PUBLISHED))
def test_the_noise_drawn_is_the_noise_that_is_checked(name: str) -> None:
    claim, recorder = PUBLISHED[name], Recorder()
    scales = claim.scales(0.9, 1e-6)
    claim.fit(np.eye(3), np.zeros(3), epsilon=0.9, delta=1e-6, generator=recorder)  # type: ignore[arg-type]
    eigenvalue = [1.0] if claim.eigenvalue else []  # a unit, scaled afterwards
    assert recorder.asked == [*eigenvalue, scales.xx, scales.xy]


@pytest.mark.exact
@pytest.mark.parametrize("name", [name for name in PUBLISHED if PUBLISHED[name].limit > 1])
def test_without_noise_every_published_method_is_its_ridge(name: str) -> None:
    """Epsilon is so large that noise is nothing, where the proof allows it."""
    claim = PUBLISHED[name]
    generator = np.random.default_rng(0)
    X = generator.normal(size=(500, 4)) / 4
    y = X @ [1, -1, 0.5, 0]
    made = claim.fit(X, y, epsilon=1e9, delta=1e-6, generator=generator)
    ridge = np.linalg.solve(X.T @ X + claim.identity * np.eye(4), X.T @ y)
    assert made == pytest.approx(ridge, abs=1e-4)


# --- preprocessing


@pytest.mark.exact
@pytest.mark.parametrize("mapping", list(MAPPINGS))
@pytest.mark.parametrize("clip", ["none", "upper", "both"])
@pytest.mark.parametrize("intercept", [False, True])
def test_preprocessing_maps_to_the_unit_ball_and_back(
    mapping: str, clip: str, intercept: bool
) -> None:
    X, y, _ = boston()
    X[:, 3] = 1.0  # a constant column
    made = Preprocessing(mapping=mapping, clip=clip, deviations=1.5, intercept=intercept).fit(X, y)
    features, target = made.features(X), made.target(X, y)
    assert features.shape[1] == X.shape[1] + intercept
    lengths = np.linalg.norm(features, axis=1)
    assert lengths.max() == pytest.approx(1)
    if mapping != "max":
        assert lengths == pytest.approx(np.ones(len(y)))
    assert np.abs(target).max() == pytest.approx(1)
    # a model whose mapped predictions were the mapped targets would return the targets
    perfect = np.linalg.pinv(features) @ target
    residual = target - features @ perfect
    restored = made.predict(X, perfect)
    divisor = (y - made.target_mean) / np.where(target == 0, 1, target)
    assert restored + residual * divisor == pytest.approx(y, abs=1e-6)
    assert "mean of the target" in made.how.assumes
    assert ("length of the longest row" in made.how.assumes) is (mapping == "max")


@pytest.mark.exact
def test_clipping_is_one_sided_or_two_sided() -> None:
    X, y, _ = boston()
    upper, both = (Preprocessing(clip=clip, deviations=1.0).fit(X, y) for clip in ("upper", "both"))
    assert np.isneginf(upper.low).all()
    assert (both.low == X.mean(axis=0) - X.std(axis=0, ddof=1)).all()
    assert (both.high == upper.high).all()
    for given in ({"mapping": "cube"}, {"clip": "lower"}, {"deviations": 0.0}):
        with pytest.raises(ParameterError):
            Preprocessing(**given)


@pytest.mark.exact
def test_a_published_pipeline_says_that_it_is_not_private() -> None:
    X, y, _ = boston()
    with pytest.warns(NotPrivateWarning, match="means and deviations of the columns"):
        model = PublishedLinearRegression("ada-ssp-wang-code", epsilon=1e6).fit(X, y)
    assert model.is_simulation_
    statistics = Preprocessing().fit(X, y)
    plain = Ridge(alpha=1.0, fit_intercept=False).fit(statistics.features(X), y - y.mean())
    assert model.predict(X) == pytest.approx(
        plain.predict(statistics.features(X)) + y.mean(), rel=1e-4
    )
    with pytest.raises(ParameterError, match="published: ssp-wang"):
        PublishedLinearRegression("ssp").fit(X, y)


@pytest.mark.exact
def test_every_row_of_the_table_of_claims_names_a_test_that_exists() -> None:
    page = (ROOT / "docs" / "regression.md").read_text()
    table = page.split("## As published, and provably")[1].split("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][2:]
    tests = "".join(path.read_text() for path in TESTS.rglob("test_*.py"))
    assert len(rows) >= len(PUBLISHED)
    for row in rows:
        named = re.findall(r"`(test_\w+)`", row)
        assert named, row
        assert all(f"def {name}(" in tests for name in named), row
    for name in PUBLISHED:
        assert f"`{name}`" in table
