"""The printed epsilon is that of the thresholds that run, and never above the one asked for."""

import math
import re
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp import (
    CoinResponse,
    CountMeanSketch,
    HadamardCountMeanSketch,
    RandomizedResponse,
    UnaryEncoding,
)
from ldp.errors import ParameterError
from ldp.mechanisms import Mechanism
from ldp.protocol.channel import (
    Channel,
    keep_probability,
    require_epsilon,
    require_whole,
    round_up,
    rounded_up,
)
from ldp.server import Table, decode
from tests.examples import CATALOGUED

EPSILONS = st.floats(1e-6, 64, exclude_min=True)


def _cms(epsilon: float) -> Mechanism:
    return CountMeanSketch(epsilon=epsilon, rows=4, width=8, seed="00")


@pytest.mark.parametrize("wrong", [np.int64(3), True, 3.0, "3", 0, 7])
def test_a_number_that_is_not_whole_is_said_to_be_of_another_type(wrong: Any) -> None:
    with pytest.raises(ParameterError) as caught:
        require_whole(wrong, "buckets", 1, 6)
    kind = type(wrong).__name__
    found = "" if kind == "int" else f" of type int, not {kind}"
    assert str(caught.value) == f"buckets must be a whole number from 1 to 6{found}"


@pytest.mark.exact
@pytest.mark.parametrize("pair", [(0.75, Fraction(1, 4)), (Fraction(3, 4), 0.25)])
def test_a_probability_is_a_fraction(pair: tuple[Any, Any]) -> None:
    with pytest.raises(ParameterError, match=r"^a probability must be a Fraction$"):
        Channel(touched=pair[0], untouched=pair[1])


@pytest.mark.exact
@given(EPSILONS, st.integers(2, 3000))
def test_printed_epsilon_is_exact_rounded_up_and_at_most_the_one_asked(
    epsilon: float, categories: int
) -> None:
    names = tuple(map(str, range(categories)))
    for mechanism in (_cms(epsilon), RandomizedResponse(categories=names, epsilon=epsilon)):
        exact = mechanism.channel.exact_epsilon
        assert exact <= Decimal(epsilon)
        assert exact <= Decimal(mechanism.cost.epsilon) <= Decimal(epsilon)
        assert Decimal(math.nextafter(mechanism.cost.epsilon, 0)) < exact


@pytest.mark.exact
@given(st.floats(1e-12, 1e5), st.integers(3, 6))
def test_a_figure_is_not_below_its_number_and_less_than_a_digit_above(
    number: float, digits: int
) -> None:
    """The figure is compared with fractions; a number with so few digits is printed as it is."""
    exact, printed = Fraction(repr(number)), Fraction(rounded_up(number, digits))
    assert 0 <= printed - exact < Fraction(10) ** (1 - digits) * exact
    assert float(rounded_up(float(f"{number:.2g}"), digits)) == float(f"{number:.2g}")


@pytest.mark.exact
@given(st.floats(0.01, 30), st.integers(1, 3000))
def test_no_higher_threshold_would_keep_the_promise(epsilon: float, others: int) -> None:
    keep = keep_probability(epsilon, others)
    for probability, allowed in ((keep, True), (keep + Fraction(1, 2**64), False)):
        channel = Channel(touched=probability, untouched=(1 - probability) / others)
        assert (channel.exact_epsilon <= Decimal(epsilon)) is allowed


@pytest.mark.exact
@given(st.floats(0.001, 0.999), st.floats(0.001, 0.999))
def test_coin_epsilon_is_the_larger_log_ratio_of_the_two_answers(alpha: float, beta: float) -> None:
    a, b = Fraction(alpha), Fraction(beta)
    yes = (a + (1 - a) * b) / ((1 - a) * b)
    no = (a + (1 - a) * (1 - b)) / ((1 - a) * (1 - b))
    epsilon = CoinResponse(alpha=alpha, beta=beta).cost.epsilon
    assert epsilon <= round_up(Decimal(float(max(yes, no))).ln()) * (1 + 1e-12)
    assert epsilon == pytest.approx(math.log(max(yes, no)), rel=1e-9)


@pytest.mark.exact
@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize("bad", [0, 1, -0.5, math.nan, "0.5", None])
def test_coins_fall_on_both_sides(name: str, bad: Any) -> None:
    with pytest.raises(ParameterError, match=name):
        CoinResponse(**{"alpha": 0.5, "beta": 0.5, name: bad})
    with pytest.raises(ParameterError, match="no information"):
        CoinResponse(alpha=1e-300, beta=0.5)
    assert type(CoinResponse(alpha=Fraction(1, 2), beta=0.5).alpha) is float  # type: ignore[arg-type]


@pytest.mark.exact
def test_two_fair_coins_cost_ln_three_and_count_with_the_textbook_error() -> None:
    coins = CoinResponse(alpha=0.5, beta=0.5)
    assert coins.channel.worst_ratio == 3
    for frequency in (0.0, 0.2, 1.0):  # independent of it when beta = 1/2, population fixed
        assert coins.std_error(100, frequency) == pytest.approx(math.sqrt(3 * 100 / 4))


@pytest.mark.exact
def test_an_epsilon_of_any_real_type_is_the_double_that_is_not_above_it() -> None:
    """Every mechanism with an epsilon takes numpy's numbers, as from np.arange, and fractions."""
    tried = 0
    numbers: tuple[Any, ...] = np.int64(3), np.float32(3.1), Fraction(31, 10)
    for example in CATALOGUED:
        names = [name for name in example.mechanism.parameters() if name.endswith("epsilon")]
        for name, number in product(names, numbers):
            try:
                made = replace(example.mechanism, **{name: number})
            except ParameterError as error:  # a number that it refuses as a float too
                with pytest.raises(ParameterError, match=f"^{re.escape(str(error))}$"):
                    replace(example.mechanism, **{name: float(number)})
                continue
            kept = made.parameters()[name]
            assert (type(kept), kept <= number < kept + 1e-6) == (float, True), name
            tried += 1
    assert tried > 30
    for number in (Fraction(1, 3), Fraction(1, 10)):  # the nearest double is below, and above
        assert Fraction(require_epsilon(number)) <= number  # type: ignore[arg-type]


@pytest.mark.exact
@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, 64.1, 1e-20, True, "4"], ids=repr)
def test_an_epsilon_that_cannot_be_honoured_is_refused(epsilon: float) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        _cms(epsilon)
    with pytest.raises(ParameterError, match="epsilon"):
        RandomizedResponse(categories=("a", "b"), epsilon=epsilon)


@pytest.mark.exact
@given(st.fractions(0, 1), st.integers(1, 10**9))
def test_the_estimator_returns_the_holders_of_expected_counts(share: Fraction, n: int) -> None:
    channel = _cms(2.0).channel
    held = share * n
    expected = held * channel.touched + (n - held) * channel.untouched
    assert channel.holders(float(expected), n) == pytest.approx(float(held), abs=1e-6 * n)


@pytest.mark.exact
def test_the_variance_is_that_of_two_binomials() -> None:
    channel = RandomizedResponse(categories=tuple("abcd"), epsilon=1.0).channel
    p, q = float(channel.touched), float(channel.untouched)
    by_hand = (0.3 * p * (1 - p) + 0.7 * q * (1 - q)) / (p - q) ** 2
    assert channel.variance(0.3) == pytest.approx(by_hand)


@pytest.mark.exact
def test_posterior_of_a_half_at_epsilon_two() -> None:
    mechanism = RandomizedResponse(categories=("a", "b"), epsilon=2.0)
    assert mechanism.channel.posterior(0.5) == pytest.approx(math.e**2 / (1 + math.e**2))


@pytest.mark.exact
@given(st.fractions())
def test_round_up_is_the_smallest_double_not_below(exact: Fraction) -> None:
    rounded = round_up(exact)
    assert Fraction(rounded) >= exact
    assert Fraction(math.nextafter(rounded, -math.inf)) < exact


@pytest.mark.exact
def test_sums_beyond_all_doubles_are_infinite() -> None:
    """A registry may state two caps of 1e308, whose sum is infinite."""
    assert round_up(2 * Fraction(1e308)) == round_up(2 * Decimal("1e308")) == math.inf


@pytest.mark.exact
@pytest.mark.parametrize(
    ("epsilon", "figures"), [(1.0, (1514, 3.2, 2.5, 2.2)), (4.0, (49, 2.0, 1.16, 1.04))]
)
def test_what_a_fake_report_can_do_is_as_published(
    epsilon: float, figures: tuple[float, ...]
) -> None:
    """The figures are those of Cao, Jia and Gong (2021): 2,600 categories, optimized encoding,
    sketches."""
    names = tuple(map(str, range(2600)))
    mechanisms = (
        RandomizedResponse(categories=names, epsilon=epsilon),
        UnaryEncoding(categories=names, epsilon=epsilon, variant="optimized"),
        _cms(epsilon),
        HadamardCountMeanSketch(epsilon=epsilon, rows=4, width=8, seed="00"),
    )
    for mechanism, figure in zip(mechanisms, figures, strict=True):
        assert mechanism.channel.leverage == pytest.approx(figure, rel=0.03)


@pytest.mark.exact
def test_fakes_move_a_count_by_what_is_printed() -> None:
    """1 % of the reports are replaced by ones that name the value.

    The honest reports are as they are on average, and nobody holds the value, so the estimate is
    the move.
    """
    mechanism = RandomizedResponse(categories=("a", "b"), epsilon=1.0)
    keep = mechanism.channel.touched
    honest = [round(9900 * (1 - keep)), round(9900 * keep)]
    counts = np.array([[honest[0] + 100, honest[1]]])
    estimates = decode(Table(mechanism, counts, counts.sum(axis=1)))
    printed = estimates.summary["fakes_move"]
    assert estimates.count[0] == pytest.approx(printed, abs=3)
