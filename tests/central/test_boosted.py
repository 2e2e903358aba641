"""No two neighbours differ by more than boosted clipped residuals charge for.

That holds whatever is released on the way. Eight sets were held out by name.
"""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from ldp.accounting import Neighbours
from ldp.arrays import Floats
from ldp.central import Simulated, gaussian_delta
from ldp.central.regression import METHODS, Budget, PrivateLinearRegression, Rows, methods
from ldp.central.regression.methods import CLIP, ROUNDS, Boosted, residuals
from ldp.central.regression.rows import GRID
from ldp.errors import DecodeError
from simulations.regression import boosted as study
from simulations.regression.data import part
from simulations.regression.wang import SETS

BOTH = list(Neighbours)
EPSILON, DELTA, COLUMNS, ROWS = 1.0, 1e-6, 3, 12


class Replayed:
    """Noise that releases what it is given, whatever the data are, and keeps the exact values."""

    is_simulation = True

    def __init__(self, released: list[Floats]) -> None:
        self.released, self.exact = released, list[tuple[Floats, float]]()

    def gaussian(self, values: Floats, scale: float) -> Floats:
        self.exact.append((values, scale))
        return self.released[len(self.exact) - 1]

    laplace = discrete_laplace = choose = None


def squared_mu(one: Rows, other: Rows, budget: Budget, released: list[Floats]) -> float:
    """Return the squared changes over the noise of all releases.

    Both data sets see the same releases.
    """
    heard = []
    for rows in (one, other):
        noise: Any = Replayed(released)
        Boosted().fit(rows, budget, noise)
        heard.append(noise.exact)
    pairs = zip(*heard, strict=True)
    return sum(float((((a - b) / scale) ** 2).sum()) for (a, scale), (b, _) in pairs)


def neighbours_of(x: Floats, other: Floats, y: float, is_replaced: bool) -> tuple[Rows, Rows]:
    """Return two data sets: the first has the row (x, y), the second (other, -y) or no such row."""
    generator = np.random.default_rng(4)
    X, target = generator.uniform(-1, 1, (ROWS, COLUMNS)), generator.uniform(-1, 1, ROWS)

    def rows(*last: tuple[Floats, float]) -> Rows:
        return Rows.of(
            np.vstack([X, *(row for row, _ in last)]),
            np.append(target, [number for _, number in last]),
            intercept=False,
            norm=None,
        )

    return rows((x, y)), rows((other, -y)) if is_replaced else rows()


def most_found(neighbours: Neighbours, released: list[Floats]) -> float:
    """Return the largest `squared_mu` over pairs of rows at full length, divided by what is
    charged."""
    budget = Budget(epsilon=EPSILON, delta=DELTA, neighbours=neighbours)
    is_replaced = neighbours is Neighbours.REPLACE_VALUE
    corner, generator = np.ones(COLUMNS), np.random.default_rng(1)
    others = [corner * signs for signs in ((1, 1, 1), (1, 1, -1), (-1, -1, 1), (-1, -1, -1))]
    for cosine in np.linspace(-1, 1, 21):  # rows of full length lie only in the corners of the box
        turned = np.array([1.0, cosine, cosine])
        others.append(np.clip(turned, -1, 1))
    others += [*generator.uniform(-1, 1, (8, COLUMNS))]
    return max(
        squared_mu(*neighbours_of(corner, other, y, is_replaced), budget, released)
        for other in (others if is_replaced else others[:1])
        for y in (1.0, -0.4)
    ) / (budget.mu**2)


def releases(size: float, seed: int) -> list[Floats]:
    generator = np.random.default_rng(seed)
    noisy = size * generator.standard_normal((ROUNDS, COLUMNS))
    return [np.eye(COLUMNS) * (1 + size), *noisy]


NOTHING = releases(0.0, 0)
"""Releases that leave the coefficients at 0, so that residuals are targets."""


@pytest.mark.exact
@pytest.mark.parametrize("neighbours", BOTH)
@pytest.mark.parametrize(
    "released", [NOTHING, releases(1.0, 1), releases(1e6, 2), releases(1e6, 3)]
)
def test_no_neighbours_differ_by_more_than_is_charged(
    neighbours: Neighbours, released: list[Floats]
) -> None:
    """Releases are zeros, where every residual is its target, or large random numbers."""
    assert most_found(neighbours, released) <= 1


@pytest.mark.exact
@pytest.mark.parametrize("wrong", ["unclipped", "uncharged"])
@pytest.mark.parametrize("neighbours", BOTH)
def test_a_wrong_boosting_is_caught(
    neighbours: Neighbours, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one mutant residuals are not clipped; in the other rounds are free, as in the published
    code."""
    if wrong == "unclipped":
        monkeypatch.setattr(methods, "residuals", lambda rows, _: rows.target)
    else:
        monkeypatch.setattr(f"{methods.__name__}.math", SimpleNamespace(sqrt=lambda _: 1.0))
    assert most_found(neighbours, NOTHING) > 1.5


@pytest.mark.exact
def test_the_releases_spend_the_delta_that_is_asked_for() -> None:
    budget = Budget(epsilon=EPSILON, delta=DELTA, neighbours=Neighbours.ADD_REMOVE)
    spent = math.sqrt(most_found(Neighbours.ADD_REMOVE, NOTHING)) * budget.mu
    assert 0.99 * DELTA < gaussian_delta(EPSILON, spent) <= DELTA


@pytest.mark.exact
@pytest.mark.parametrize("length", [0.1, 3.0, 1e9])
def test_a_residual_depends_on_its_row_alone(length: float) -> None:
    """Rows come in any order and company, with coefficients of any size; residuals are equal to the
    last bit."""
    generator = np.random.default_rng(3)
    X, y = generator.uniform(-1, 1, (1_000, 40)), generator.uniform(-1, 1, 1_000)
    rows = Rows.of(X, y, intercept=True, norm=None)
    coefficients = length * generator.standard_normal(41)
    found = residuals(rows, coefficients)
    assert np.abs(found).max() <= CLIP
    assert (found * GRID == np.rint(found * GRID)).all()
    order = generator.permutation(1_000)
    shuffled = Rows(rows.features[order], rows.target[order], rows.norm, True)
    assert (residuals(shuffled, coefficients) == found[order]).all()
    for place in range(0, 1_000, 50):
        assert residuals(part(rows, place, place + 1), coefficients)[0] == found[place]


@pytest.mark.exact
def test_with_hardly_any_noise_it_is_least_squares_of_what_is_not_clipped() -> None:
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, (2_000, 4))
    y = X @ [0.4, -0.2, 0.1, 0.0] + generator.uniform(-0.1, 0.1, 2_000)
    model = PrivateLinearRegression(epsilon=1e7, bounds=(-1, 1), method="boosted", random_state=0)
    with pytest.warns(UserWarning, match="simulation"):
        model.fit(X, y)
    plain = LinearRegression().fit(X, y)
    assert model.coef_ == pytest.approx(plain.coef_, abs=2e-3)
    assert model.intercept_ == pytest.approx(plain.intercept_, abs=2e-3)
    with pytest.raises(DecodeError, match="no interval is known"):
        model.coefficient_intervals()


@pytest.mark.exact
def test_eight_sets_were_held_out() -> None:
    """Nothing may be chosen on these sets, so they are named."""
    held_out = "diabetes expression friedman1 friedman2 friedman3 sparse heavy-tails skewed"
    assert list(study.HELD_OUT) == held_out.split()
    assert not {*study.HELD_OUT} & {*SETS, *study.MADE}
    assert len({*study.HELD_OUT, *SETS, *study.MADE}) == 24


@pytest.mark.statistical
def test_it_is_nearer_than_the_default_where_there_is_a_signal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The median error of 20 releases is less than .6 of the default's, at 5,000 rows and epsilon
    1.

    It was .38 +- .04 with 21 seeds, so it passes .6 with probability 1e-7. In the twin, rounds are
    not clipped.
    """
    generator = np.random.default_rng(6)
    X = generator.uniform(-1, 1, (5_000, 5))
    slopes = np.array([0.3, -0.2, 0.1, 0.2, -0.1])
    y = X @ slopes + 0.05 * generator.standard_normal(5_000)
    rows = Rows.of(X, y, intercept=False, norm=None)
    budget = Budget(epsilon=1.0, delta=1e-6, neighbours=Neighbours.REPLACE_VALUE)

    def error(method: Any) -> float:
        noise = Simulated(generator)
        fits = [method.fit(rows, budget, noise).coefficients for _ in range(20)]
        return float(np.median(np.linalg.norm(np.array(fits) - slopes, axis=1)))

    default, boosted = error(METHODS["ridge"]), error(METHODS["boosted"])
    monkeypatch.setattr(methods, "CLIP", 1.0)
    assert boosted < 0.6 * default < error(METHODS["boosted"])
