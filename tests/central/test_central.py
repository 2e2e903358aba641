"""The curator's mechanisms have their privacy exactly, and their laws from both sources of
noise."""

import math
import sys
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import kstest, laplace, norm

from ldp.accounting import Neighbours
from ldp.central import (
    DiscreteLaplace,
    Exponential,
    Gaussian,
    Laplace,
    Noise,
    Releases,
    Simulated,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    noisy_histogram,
)
from ldp.errors import MissingPackage, ParameterError
from tests.statistics import ALPHA, law_p
from tests.tiers import tiered

EPSILONS = st.floats(0.01, 50)
DELTAS = st.floats(1e-12, 0.4)


def sources() -> list[Noise]:
    return [Releases(), Simulated(np.random.default_rng(1))]


@pytest.mark.exact
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("mu", [0.01, 0.2, 1.0, 4.0])
def test_the_gaussian_delta_is_the_mass_that_exceeds_epsilon(epsilon: float, mu: float) -> None:
    mass = excess_mass(epsilon, mu)
    assert gaussian_delta(epsilon, mu) == pytest.approx(mass, rel=1e-7, abs=1e-300)


def excess_mass(epsilon: float, mu: float) -> float:
    """Return delta by quadrature of the positive part of density - e**epsilon x other density."""
    start = epsilon / mu + mu / 2

    def excess(x: float) -> float:
        return float(norm.pdf(x, mu)) * -math.expm1(epsilon - mu * x + mu * mu / 2)

    mass, _ = quad(excess, start, start + 1, epsabs=0, epsrel=1e-11)
    rest, _ = quad(excess, start + 1, start + 40, epsabs=0, epsrel=1e-11)
    return float(mass + rest)


@pytest.mark.exact
@pytest.mark.parametrize("epsilon", [1e-100, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("delta", [1e-100, 1e-50, 1e-30, 1e-12, 1e-4])
def test_the_delta_of_a_tiny_epsilon_is_no_rounding(epsilon: float, delta: float) -> None:
    """By two logarithms that are nearly equal, delta was 65 times the stated 1e-30 at 1e-12."""
    mass = excess_mass(epsilon, gaussian_mu(epsilon, delta))
    assert delta * (1 - 1e-5) < mass <= delta


@pytest.mark.exact
def test_the_gaussian_delta_at_the_ends() -> None:
    assert 0 <= gaussian_delta(2.0**64, 6.07e9) <= 1, "rounding must not overflow"
    assert gaussian_delta(1.0, 0.0) == 0.0
    assert gaussian_delta(1.0, math.inf) == 1.0
    assert gaussian_delta(1e308, 1e-4) == 0.0  # their ratio is infinite
    assert gaussian_delta(1e4, 100.0) == pytest.approx(norm.sf(50), rel=0.5)  # no overflow
    assert gaussian_delta(0.0, 1.0) == pytest.approx(2 * norm.cdf(0.5) - 1)
    assert gaussian_epsilon(math.inf, 1e-6) == math.inf


@pytest.mark.exact
@given(EPSILONS, DELTAS)
def test_a_calibrated_gaussian_keeps_its_delta_and_wastes_nothing(
    epsilon: float, delta: float
) -> None:
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu) <= delta
    assert gaussian_delta(epsilon, mu * 1.001) > delta
    assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-4)
    mechanism = Gaussian(epsilon=epsilon, delta=delta, sensitivity=3.0)
    assert gaussian_delta(epsilon, 3.0 / mechanism.std_error) <= delta
    assert (mechanism.cost.epsilon, mechanism.cost.delta) == (epsilon, delta)


@pytest.mark.exact
@given(st.floats(0.01, 0.999), DELTAS)
def test_the_classical_gaussian_is_private_where_it_is_served(epsilon: float, delta: float) -> None:
    classical = Gaussian(epsilon=epsilon, delta=delta, calibration="classical")
    assert gaussian_delta(epsilon, 1 / classical.std_error) <= delta
    assert classical.std_error >= Gaussian(epsilon=epsilon, delta=delta).std_error


@pytest.mark.exact
def test_the_classical_gaussian_is_refused_where_its_formula_is_not_private() -> None:
    with pytest.raises(ParameterError, match="epsilon < 1 only"):
        Gaussian(epsilon=10.0, delta=1e-6, calibration="classical")
    formula = math.sqrt(2 * math.log(1.25e6)) / 10
    assert gaussian_delta(10.0, 1 / formula) > 1e-6


@pytest.mark.exact
@given(EPSILONS, st.floats(0.01, 1000))
def test_the_scale_is_never_below_sensitivity_over_epsilon(
    epsilon: float, sensitivity: float
) -> None:
    for kind, half in ((Laplace, 1), (DiscreteLaplace, 1), (Exponential, 2)):
        made = kind(epsilon=epsilon, sensitivity=sensitivity)
        assert Fraction(half) * Fraction(sensitivity) / Fraction(made.scale) <= Fraction(epsilon)
        assert made.cost.epsilon == epsilon
        assert made.cost.neighbours is Neighbours.ADD_REMOVE


@pytest.mark.exact
@pytest.mark.filterwarnings("error")
def test_a_sensitivity_of_numpys_integers_has_the_noise_of_pythons() -> None:
    """Products of numpy's int64 in a fraction overflow: 12,345 / 0.1 was 570, not 123,450."""
    for number in (1, 100, 600, 5000, 12345):
        numbers: tuple[Any, ...] = np.int64(number), np.float32(number)
        for kind, sensitivity in product((Laplace, DiscreteLaplace, Exponential), numbers):
            scale = kind(epsilon=0.1, sensitivity=sensitivity).scale
            assert scale == kind(epsilon=0.1, sensitivity=number).scale


@pytest.mark.exact
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 7.3])
def test_opendp_states_the_same_cost_for_the_noise_of_a_release(epsilon: float) -> None:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    reals = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    of_laplace = Laplace(epsilon=epsilon, sensitivity=3.0)
    noise = dp.m.make_laplace(reals, dp.l1_distance(T=float), of_laplace.scale)
    assert noise.map(3.0) == pytest.approx(epsilon, rel=1e-12)
    of_gaussian = Gaussian(epsilon=epsilon, delta=1e-6, sensitivity=3.0)
    noise = dp.m.make_gaussian(reals, dp.l2_distance(T=float), of_gaussian.std_error)
    mu = gaussian_mu(epsilon, 1e-6)
    assert noise.map(3.0) == pytest.approx(mu**2 / 2, rel=1e-12)


@pytest.mark.exact
def test_dp_accounting_agrees_with_the_analytic_gaussian() -> None:
    from dp_accounting.pld import common
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss

    for epsilon in (0.1, 1.0, 8.0):
        ours = Gaussian(epsilon=epsilon, delta=1e-6)
        parameters = common.DifferentialPrivacyParameters(epsilon, 1e-6)
        theirs = GaussianPrivacyLoss.from_privacy_guarantee(parameters)
        assert ours.std_error == pytest.approx(theirs.standard_deviation, rel=1e-4)


@pytest.mark.exact
@pytest.mark.parametrize("neighbour", [(1, 1, 4.01), (1, 1, 1, 4.01, 3), (1, 1, 1, 4.01, 4.02)])
def test_the_exponential_mechanism_hides_a_bidder(neighbour: tuple[float, ...]) -> None:
    """Every price's odds keep to epsilon.

    The data are the four bidders of Boenisch 2019, section 3.2.4, and they with one more or fewer.
    """
    prices = np.array([1.00, 3.00, 4.01, 4.02])

    def worst(sensitivity: float) -> float:
        auction = Exponential(epsilon=1.0, sensitivity=sensitivity)
        one, other = (
            auction.probabilities(prices * (np.array(bids) >= prices[:, None]).sum(axis=1))
            for bids in ((1, 1, 1, 4.01), neighbour)
        )
        return float(np.abs(np.log(one / other)).max())

    assert worst(4.02) <= 1.0
    assert worst(0.1) > 1.0  # a sensitivity that bidders exceed


@pytest.mark.statistical
@pytest.mark.parametrize("source", tiered(sources()), ids=lambda one: type(one).__name__)
def test_choices_have_the_exponential_mechanisms_law(source: Noise) -> None:
    """Binomial tails are exact, with probability ALPHA over the answers; a scale a third too small
    fails."""
    scores = np.array([0.0, 1.0, 2.5])
    mechanism = Exponential(epsilon=1.0, sensitivity=0.5)
    drawn = np.array([mechanism.choose(scores, source) for _ in range(4000)])
    law = dict(enumerate(mechanism.probabilities(scores)))
    assert law_p(drawn, law) > ALPHA
    wrong = Exponential(epsilon=1.5, sensitivity=0.5).probabilities(scores)
    assert law_p(drawn, dict(enumerate(wrong))) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("source", tiered(sources()), ids=lambda one: type(one).__name__)
def test_noise_has_the_stated_law(source: Noise) -> None:
    """Kolmogorov-Smirnov over 20,000 draws has exact p-values, each above ALPHA / 2.

    A scale a quarter off is at least 0.041 away at its widest point, and 0.0195 would pass. The
    difference is 7 standard errors of the share below that point: probability below 1e-11.
    """
    zeros = np.zeros((100, 200))
    of_gaussian, of_laplace = Gaussian(epsilon=1.0, delta=1e-6), Laplace(epsilon=0.5)
    for drawn, law, scale in (
        (of_gaussian.release(zeros, source), norm, of_gaussian.std_error),
        (of_laplace.release(zeros, source), laplace, of_laplace.scale),
    ):
        assert drawn.shape == zeros.shape
        assert kstest(drawn.ravel(), law(scale=scale).cdf).pvalue > ALPHA / 2
        assert kstest(drawn.ravel(), law(scale=scale * 1.25).cdf).pvalue < ALPHA / 2


@pytest.mark.exact
def test_counts_too_large_for_noise_are_held_to_the_largest_there_is() -> None:
    """A uint64 above 2**63 - 1 would be a negative int64."""
    most = 2**62
    mechanism = DiscreteLaplace(epsilon=1.0)
    for source in sources():
        large = mechanism.release(np.array([2**64 - 1, 2**63, most, 5], dtype=np.uint64), source)
        assert (np.abs(large[:3] - most) < 100).all()
        assert abs(int(large[3]) - 5) < 100
        (small,) = mechanism.release(np.array([-(2**63)]), source)
        assert abs(int(small) + most) < 100
        mechanism.release(np.array([1], dtype=np.int8), source)


@pytest.mark.statistical
@pytest.mark.parametrize("source", sources(), ids=lambda one: type(one).__name__)
def test_discrete_noise_has_the_stated_law(source: Noise) -> None:
    """Binomial tails are exact at 41 integers, which hold all but 1e-8 of the law.

    One of 20,000 draws is outside with probability 2e-4, which is negligible. This fails falsely
    with probability ALPHA.
    """
    mechanism = DiscreteLaplace(epsilon=1.0)
    points = np.arange(-20, 21)
    masses = np.tanh(0.5) * np.exp(-np.abs(points))
    assert masses.sum() == pytest.approx(1, abs=1e-8)
    assert mechanism.std_error**2 == pytest.approx((masses * points**2).sum(), rel=1e-6)
    drawn = mechanism.release(np.zeros(20_000, dtype=np.int64), source)
    assert drawn.dtype == np.int64
    assert law_p(drawn, dict(zip(points.tolist(), masses.tolist(), strict=True))) > ALPHA
    wrong = np.tanh(0.55) * np.exp(-1.1 * np.abs(points))
    assert law_p(drawn, dict(zip(points.tolist(), wrong.tolist(), strict=True))) < ALPHA


@pytest.mark.exact
def test_a_histogram_says_what_it_is() -> None:
    colours = ("blue", "green", "brown", "grey")
    held = ["brown"] * 500 + ["blue"] * 300 + ["none of these"]
    made = noisy_histogram(held, categories=colours, epsilon=50.0)
    assert made.counts == (300, 0, 500, 0)  # noise of e**-50
    assert not made.is_simulation
    simulated = [
        noisy_histogram(
            held,
            categories=colours,
            epsilon=1.0,
            neighbours=Neighbours.REPLACE_VALUE,
            noise=Simulated(np.random.default_rng(3)),
        )
        for _ in range(2)
    ]
    assert simulated[0] == simulated[1]
    assert simulated[0].is_simulation
    assert simulated[0].cost.neighbours is Neighbours.REPLACE_VALUE
    assert simulated[0].std_error == DiscreteLaplace(epsilon=0.5).std_error


@pytest.mark.exact
@pytest.mark.parametrize(
    "make",
    [
        lambda: Laplace(epsilon=0.0),
        lambda: Laplace(epsilon=math.inf),
        lambda: Laplace(epsilon=1.0, sensitivity=-1.0),
        lambda: Gaussian(epsilon=1.0, delta=0.0),
        lambda: Gaussian(epsilon=math.nan, delta=1e-6),
        lambda: Gaussian(epsilon=1.0, delta=1e-6, calibration="best"),
        lambda: Laplace(epsilon=1.0).release(np.array([math.nan])),
        lambda: DiscreteLaplace(epsilon=1.0).release(np.array([0.5])),
        lambda: Laplace(epsilon=1.0).release(np.ma.array([1.0, 2.0], mask=[False, True])),
        lambda: DiscreteLaplace(epsilon=1.0).release(np.ma.array([1, 2], mask=[False, True])),
        lambda: noisy_histogram([], categories=("a", "a"), epsilon=1.0),
        lambda: gaussian_delta(-1.0, 1.0),
        lambda: gaussian_epsilon(1.0, 2.0),
    ],
)
def test_what_makes_no_sense_is_refused(make: object) -> None:
    with pytest.raises(ParameterError):
        make()  # type: ignore[operator]


@pytest.mark.exact
def test_a_release_without_opendp_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from ldp.central import noise

    noise._opendp.cache_clear()
    monkeypatch.setitem(sys.modules, "opendp", None)
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(MissingPackage, match="the extra central"):
        Laplace(epsilon=1.0).release(np.zeros(1))
    noise._opendp.cache_clear()
