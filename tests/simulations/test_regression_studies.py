"""The studies of regression rest on sums of products, posterior samples and lemmas."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LinearRegression

from ldp.central import Simulated
from ldp.central.regression.laplace import LaplaceMoments, clip_rows
from ldp.errors import ParameterError
from ldp.regression import ridge
from ldp.regression.ridge import safe_ridge
from simulations.regression.boston import mapped
from simulations.regression.data import load, part
from simulations.regression.drugs import weighed
from simulations.regression.kalaja import noisy_statistics, prepared
from simulations.regression.pipelines import NoisyPredictions, NotPrivateWarning, Preprocessing
from simulations.regression.posterior import _best_total, ada_ops, ops
from simulations.regression.published import PUBLISHED
from simulations.regression.selection import BLOCKS, TAKEN, conventional, counted, votes
from simulations.regression.split import balanced_share
from simulations.regression.sums import Sums, folds, less, made_splits, real_splits
from simulations.regression.thresholds import (
    COLUMNS,
    REPLACE,
    TESTED,
    Clipped,
    floored,
    made,
    sensitivities,
)

# --- sums of products


@pytest.mark.exact
def test_sums_of_products_are_all_that_a_fit_and_its_error_read() -> None:
    generator = np.random.default_rng(1)
    X, y = generator.normal(size=(40, 3)), generator.normal(size=40)
    sums, coefficients = Sums.of(X, y), np.array([1.0, -2.0, 0.5])
    root, target = sums.root
    assert root.T @ root == pytest.approx(X.T @ X)
    assert root.T @ target == pytest.approx(X.T @ y)
    assert sums.error(coefficients) == pytest.approx(((X @ coefficients - y) ** 2).mean())
    rest = less(sums, Sums.of(X[:10], y[:10]))
    assert rest.error(coefficients) == pytest.approx(Sums.of(X[10:], y[10:]).error(coefficients))
    assert sums.as_rows.xx == pytest.approx(X.T @ X)


@pytest.mark.exact
def test_splits_are_the_same_whenever_they_are_drawn() -> None:
    for draw, given in (
        (made_splits, (100, 3, "correlated", 2)),
        (real_splits, ("yacht",)),
        (folds, ("yacht", 1)),
    ):
        first = draw(*given)
        draw.cache_clear()
        again = draw(*given)
        assert all((a.train.xx == b.train.xx).all() for a, b in zip(first, again, strict=True))
        assert (first[0].train.xx != first[1].train.xx).any()


# --- one posterior sample


@pytest.mark.exact
@pytest.mark.parametrize("sample", [ops, ada_ops])
def test_a_posterior_sample_with_a_huge_epsilon_is_a_ridge_regression(sample: Any) -> None:
    sums = real_splits("airfoil")[0].train
    draws = [
        sample(sums, epsilon=epsilon, delta=1e-6, generator=np.random.default_rng(0))
        for epsilon in (1e7, 1.0)
    ]
    off = [float(np.abs(draw - sums.solved(1.0)).max()) for draw in draws]
    assert off[0] < 0.01 < off[1]


@pytest.mark.exact
@pytest.mark.parametrize(("spread", "slope"), [(10.0, 60.0), (1e4, 60.0), (1e8, 6e3), (3.0, 0.1)])
def test_the_adaptive_ridge_minimises_its_bound(spread: float, slope: float) -> None:
    best = _best_total(spread, slope)

    def log_bound(h: float) -> float:
        power = math.log(spread) + 2 * slope * math.log1p(1 / h) - math.log(h)
        return float(np.logaddexp(power, math.log(h)))

    assert all(log_bound(best) <= log_bound(best * factor) for factor in (0.9, 0.99, 1.01, 1.1))


# --- Piazza 2021, lemma 15 and section 2.2


class Drawn:
    """Generator whose every normal number is `value`."""

    def __init__(self, value: float) -> None:
        self.value = value

    def normal(self) -> float:
        return self.value


@pytest.mark.exact
@pytest.mark.parametrize("gamma", [0.05, 1 / 3, 0.8])
@pytest.mark.parametrize("n", [300, 1280, 327680])
def test_the_released_eigenvalue_is_hardly_ever_too_large(gamma: float, n: int) -> None:
    """Lemma 15: it is too large where a normal number exceeds sqrt(2 ln(2 / delta')).

    That happens in delta' / (4 sqrt(pi ln(2 / delta'))) of the releases at most.
    """
    claim = dataclasses.replace(PUBLISHED["ada-ssp-budget"], eigenvalue=gamma)
    least, delta = 1.9, n**-1.1
    log = math.log(2 / (gamma * delta))
    xx = np.diag([2e9, 1e9 + least])
    safe = safe_ridge(2, claim.scales(0.1, delta).xx)
    assert safe < 1e9  # so that an eigenvalue of 1e9 needs no ridge, and one near 0 all of it

    def ridge_of(excess: float, smallest: float) -> float:
        drawn: Any = Drawn(math.sqrt(2 * log) + excess)
        matrix = np.diag([2e9, smallest])
        return claim.ridge(matrix, epsilon=0.1, delta=delta, generator=drawn)

    assert ridge_of(0.0, least) == pytest.approx(safe - least)
    assert ridge_of(-0.01, least) > safe - least > ridge_of(0.01, least)
    assert ridge_of(0.0, float(xx[1, 1])) == 0
    tail = norm.sf(math.sqrt(2 * log))
    bound = gamma * delta / (4 * math.sqrt(math.pi * log))
    assert 0.9 * bound < tail < bound
    assert tail > gamma * delta / (4 * math.sqrt(math.pi) * log)  # the root left off the logarithm


@pytest.mark.exact
def test_the_printed_figure_of_lemma_15_is_below_the_tail_that_it_bounds() -> None:
    """At delta' = 300 ** -1.1 the bound is 1.007e-4 and the tail 9.5e-5; .000084 is printed."""
    log = math.log(2 * 300**1.1)
    assert norm.sf(math.sqrt(2 * log)) == pytest.approx(9.46e-5, rel=1e-3)
    assert 300**-1.1 / (4 * math.sqrt(math.pi * log)) == pytest.approx(1.007e-4, rel=1e-3)


@pytest.mark.exact
def test_a_ridge_shrinks_the_directions_of_small_singular_values_most() -> None:
    """Piazza 2021, section 2.2: along u_j, predictions shrink by d_j**2 / (d_j**2 + ridge).

    Noise e of X'y moves the coefficient along v_j by e / (d_j**2 + ridge).
    """
    generator = np.random.default_rng(2)
    X, y = generator.normal(size=(50, 4)) * [5, 2, 1, 0.1], generator.normal(size=50)
    u, d, vt = np.linalg.svd(X, full_matrices=False)
    for added in (0.0, 0.5, 10.0):
        solved = np.linalg.solve(X.T @ X + added * np.eye(4), X.T @ y)
        assert u.T @ X @ solved == pytest.approx(d**2 / (d**2 + added) * (u.T @ y))
        moved = np.linalg.solve(X.T @ X + added * np.eye(4), X.T @ y + vt[3])
        assert vt @ (moved - solved) == pytest.approx([0, 0, 0, 1 / (d[3] ** 2 + added)], abs=1e-6)


# --- Kalaja 2020, equations 3.3 to 3.9


@pytest.mark.exact
def test_unstandardised_coefficients_predict_what_the_mapped_ones_predict() -> None:
    X, y, _ = load("yacht")
    for intercept in (False, True):
        fitted = Preprocessing(mapping="max", intercept=intercept).fit(X, y)
        coefficients = np.random.default_rng(3).normal(size=X.shape[1] + intercept)
        first, slopes = fitted.unstandardised(coefficients)
        assert first + X @ slopes == pytest.approx(fitted.predict(X, coefficients))
    with pytest.raises(ParameterError, match="only the mapping 'max'"):
        Preprocessing().fit(X, y).unstandardised(coefficients)


@pytest.mark.exact
def test_rows_to_predict_are_clipped_or_not() -> None:
    """Equation 3.9 is compared with 3.5, and figure 4.8 with 4.7, on the same training rows."""
    clipped, not_clipped = (prepared("yacht", f"{rows} rows clipped at 1", 0.0)
                            for rows in ("all", "training"))  # fmt: skip
    for one, other in zip(clipped, not_clipped, strict=True):
        assert (one.train.xx == other.train.xx).all()
        assert np.trace(one.test.xx) < np.trace(other.test.xx)


@pytest.mark.exact
def test_noisy_statistics_of_a_huge_epsilon_are_those_of_the_rows() -> None:
    X, y, _ = load("yacht")
    generator = np.random.default_rng(4)
    exact, near, far = (
        Preprocessing(mapping="max").fit(X, y),
        noisy_statistics(X, y, "yacht", 1e6, generator),
        noisy_statistics(X, y, "yacht", 0.5, generator),
    )
    for name in ("means", "deviations"):
        values = [getattr(one, name) for one in (exact, near, far)]
        assert values[1] == pytest.approx(values[0], rel=0.01, abs=1e-3)
        assert values[2] != pytest.approx(values[0], rel=0.01, abs=1e-3)
    lengths = np.linalg.norm(exact.standardised(X), axis=1)
    assert (lengths <= near.longest).mean() == pytest.approx(0.99, abs=0.02)


# --- Nieminen 2017: thresholds and splits


@pytest.mark.exact
def test_thresholds_are_tried_with_the_noise_and_the_ridge_of_the_release() -> None:
    generator = np.random.default_rng(5)
    rows, split, epsilon = made(300 + TESTED, generator), (0.2, 0.7, 0.1), 1.5
    boxes, targets = np.array([0.05, 0.3, 0.6]), np.array([0.1, 0.4])
    private = part(rows, TESTED, 300 + TESTED)
    clipped = Clipped.of(rows, boxes, targets)
    most_xx, most_xy = sensitivities(boxes, COLUMNS, "ridge")
    for i, j in ((0, 0), (1, 1), (2, 0)):
        noise = Simulated(np.random.default_rng(6))
        released = LaplaceMoments.released(
            private, epsilon, REPLACE, noise, split=split, box=boxes[i], target=targets[j]
        )
        scales = (most_xx[i] / (0.2 * epsilon), most_xy[i] * targets[j] / (0.7 * epsilon))
        assert scales == pytest.approx(released.scales[:2], rel=1e-9)
        inside, low = clip_rows(private, boxes[i], targets[j])
        assert clipped.xx[i] == pytest.approx(inside.T @ inside, abs=0.02)
        assert clipped.xy[i, :, j] == pytest.approx(inside.T @ low, abs=0.02)
        many = floored(released.xx[None], released.xy[None, :, None], np.array([scales[0]]))
        assert many[0, :, 0] == pytest.approx(ridge.floored(released.as_normal))
    published_xx, published_xy = sensitivities(boxes, COLUMNS, "fixed")
    assert published_xx[0] == pytest.approx(2 * most_xx[0])  # the published one is twice the exact
    assert published_xy[0] == pytest.approx(most_xy[0])


@pytest.mark.exact
def test_the_balanced_split_minimises_the_sum_of_both_errors() -> None:
    """The errors are X'y's noise, and X'X's noise times the coefficients, which gives the cube root
    rule."""
    xx, xy, length = 7.0, 3.0, 1.3
    share = balanced_share(length * xx, xy, 0.05)

    def error(p: float) -> float:
        return (xy / p) ** 2 + (length * xx / (0.95 - p)) ** 2

    assert all(error(share) < error(share + off) for off in (-0.1, -0.01, 0.01, 0.1))


# --- Boenisch 2019: columns and predictions of Boston


@pytest.mark.exact
def test_the_published_columns_are_chosen_by_their_units() -> None:
    X, y, names = load("boston")
    assert [names[place] for place in conventional(X, y)] == ["chas", "nox", "rm"]
    scaled = [names[place] for place in conventional(X / X.std(axis=0), y)]
    assert scaled == ["nox", "rm", "dis", "rad", "tax", "ptratio", "lstat"]


@pytest.mark.exact
def test_a_private_choice_of_columns_with_a_huge_epsilon_is_the_choice_of_the_most_votes() -> None:
    X, y, names = load("boston")
    columns = np.column_stack([mapped(X[:, j], name) for j, name in enumerate(names)])
    sure, spread = (0, 0)
    for seed in range(20):
        counts = counted(columns, y, np.random.default_rng(seed))
        least = np.sort(counts)[-TAKEN]  # several columns may have as many
        taken = [
            counts[votes(columns, y, epsilon, np.random.default_rng(seed))].min()
            for epsilon in (1e4, 0.01)
        ]
        sure += taken[0] == least
        spread += taken[1] == least
    assert sure == 20 > spread


@pytest.mark.exact
def test_one_person_changes_a_columns_votes_by_one_at_most() -> None:
    """The exponential mechanism's sensitivity rests on this.

    A part of the rows names each column once, whatever they hold, and a person is in one part.
    """
    X, y, names = load("boston")
    columns = np.column_stack([mapped(X[:, j], name) for j, name in enumerate(names)])
    changed, target = columns.copy(), y.copy()
    changed[7], target[7] = -columns[7], 1e6
    one, other = (
        counted(*rows, np.random.default_rng(0)) for rows in ((columns, y), (changed, target))
    )
    assert one.sum() == other.sum() == BLOCKS * TAKEN
    assert 0 < np.abs(one - other).max() <= 1


@pytest.mark.exact
def test_noise_on_predictions_can_be_had_and_says_that_it_is_not_private() -> None:
    X, y, _ = load("boston")
    with pytest.warns(NotPrivateWarning, match="not differentially private"):
        model = NoisyPredictions(epsilon=1.0).fit(X, y)
    noise = model.predict(X) - LinearRegression().fit(X, y).predict(X)
    assert np.abs(noise).mean() == pytest.approx(3.01, rel=0.2)  # the seed is 0
    assert (model.predict(X) != model.predict(X)).all()


@pytest.mark.exact
def test_noisy_moments_weigh_what_their_precision_says_beside_public_rows() -> None:
    moments = LaplaceMoments(np.eye(4) * 25, np.ones(4), 1.0, (0.3, 2.0, 0.1), 100)
    lighter = weighed(moments, 0.16)  # X'y: a variance of 4 from residuals, 8 from noise
    assert lighter.xy == pytest.approx(np.ones(4) / 3)
    assert lighter.xx == pytest.approx(moments.xx / 3)
    assert lighter.scales == pytest.approx((0.1, 2 / 3, 0.1 / 3))
