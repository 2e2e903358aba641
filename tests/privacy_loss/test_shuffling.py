"""A shuffled report costs at least what enumeration of small shuffles shows, and what is
published."""

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from ldp import CoinResponse, Rappor
from ldp.accounting import Cost
from ldp.audit import exact_law
from ldp.errors import ParameterError
from ldp.mechanisms import CatalogueMechanism, Mechanism
from ldp.mechanisms.base import Example
from ldp.privacy_loss import compose
from ldp.privacy_loss.shuffling import AnyMechanism, amplify_by_shuffling, shuffled_delta
from ldp.protocol.hashing import Value
from tests.examples import for_everything
from tests.small_batches import batch_laws
from tests.small_mechanisms import cms, hcms, rr, unary
from tests.tiers import tiered


def enumerated(
    mechanism: CatalogueMechanism, one: Value, other: Value, others: Sequence[Value], epsilon: float
) -> float:
    """Return the delta of a batch, by its definition, from all possible batches."""
    first, second = batch_laws(mechanism, one, other, others)
    return math.fsum(max(0.0, p - math.exp(epsilon) * second[z]) for z, p in first.items())


@pytest.mark.exact
@pytest.mark.parametrize(
    ("mechanism", "values", "people"),
    [
        (rr(2, 1.0), "01", 4),
        (rr(3, 0.7), "012", 4),
        (CoinResponse(alpha=0.3, beta=0.8), ("yes", "no"), 4),
        (unary(1.0), "012", 3),
        (unary(1.5, "optimized"), "012", 3),
        (hcms(1.0), "013", 3),
        (Rappor(bits=3, f=0.3, p=0.1, q=0.8, scheme="identity"), "012", 3),
    ],
    ids=["rr2", "rr3", "coin", "sue", "oue", "hcms", "rappor"],
)
def test_the_bound_is_never_below_an_enumerated_shuffle(
    mechanism: Mechanism, values: Sequence[str], people: int
) -> None:
    local = mechanism.cost.epsilon
    for epsilon in (0.0, 0.3 * local, 0.8 * local, local):
        for n in range(1, people + 1):
            bound = shuffled_delta(mechanism, reports=n, epsilon=epsilon, size=1 << 14)
            for one, other in permutations(values, 2):
                for others in combinations_with_replacement(values, n - 1):
                    assert enumerated(mechanism, one, other, others, epsilon) <= bound + 1e-15


@pytest.mark.exact
@for_everything
def test_every_mechanisms_bound_holds_for_two_people(example: Example) -> None:
    """A batch shows its two reports in any order, with probability first_i third_j + third_i
    first_j."""
    mechanism, values = example.mechanism, example.values[:2]
    laws = [exact_law(mechanism, value) for value in values]
    shares = [np.array([float(law[report]) for report in laws[0]]) for law in laws]
    for epsilon in (0.0, 0.5 * mechanism.cost.epsilon):
        bound = shuffled_delta(mechanism, reports=2, epsilon=epsilon, size=1 << 14)
        for one, other in permutations(shares, 2):
            apart = one - math.exp(epsilon) * other
            for third in shares:
                ordered = np.outer(apart, third)
                assert np.maximum(0, ordered + ordered.T).sum() / 2 <= bound


def variation_ratio(epsilon: float, local: float, variation: float, reports: int) -> float:
    """Return delta by the variation-ratio formula (Wang and others, VLDB 2024).

    Here p = q = e**local, and `variation` is the total variation. It is no bound where `variation`
    is below (e**local - 1) / (e**local + 1).
    """
    p = math.exp(local)
    clone = variation / (p - 1)
    most = reports - 1
    middle, spread = 2 * clone * most, math.sqrt(2 * clone * most)
    totals = np.arange(max(0, int(middle - 9 * spread)), min(most, int(middle + 9 * spread)) + 2)
    width = int(5 * math.sqrt(totals[-1])) + 2
    total = totals[:, None]
    ups = total // 2 + np.arange(-width, width + 1)

    def batch(ups: np.ndarray, total: np.ndarray) -> np.ndarray:
        joint = binom.pmf(total, most, 2 * clone) * binom.pmf(ups, total, 0.5)
        return np.asarray(np.nan_to_num(joint))

    up, down, none = batch(ups - 1, total - 1), batch(ups, total - 1), batch(ups, total)
    rest = (1 - clone - p * clone) * none
    first, second = p * clone * up + clone * down + rest, clone * up + p * clone * down + rest
    return float(np.maximum(0, first - math.exp(epsilon) * second).sum())


@pytest.mark.exact
def test_the_variation_ratio_is_below_the_truth_where_the_blanket_is_not() -> None:
    """There are three categories, and four people who all hold the first one's value."""
    mechanism = rr(3, 0.7)
    delta = enumerated(mechanism, "0", "1", ["0"] * 3, 0.6)
    variation = (math.exp(0.7) - 1) / (math.exp(0.7) + 2)
    assert round(delta, 5) == 0.00603
    assert round(variation_ratio(0.6, 0.7, variation, 4), 5) == 0.00203
    assert delta <= shuffled_delta(mechanism, reports=4, epsilon=0.6) <= delta * 1.0001


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize(
    ("mechanism", "variation"),
    [(rr(2, 4.0), 1.0), (cms(4.0), (math.e**2 - 1) / (math.e**2 + 1) / math.tanh(2))],
    ids=["rr", "cms"],
)
def test_among_many_people_it_agrees_with_the_variation_ratio(
    mechanism: Mechanism, variation: float
) -> None:
    """`variation` is a part of the largest that an epsilon of 4 allows, tanh(2)."""
    epsilon = amplify_by_shuffling(mechanism, reports=100_000, delta=1e-6).epsilon
    for factor, within in ((1.004, np.greater), (0.996, np.less)):
        formula = variation_ratio(epsilon * factor, 4.0, variation * math.tanh(2), 100_000)
        assert within(1e-6, formula)


TABLE = {
    (100_000, 1.0, 1e-8): (0.0169, 0.0135, 0.0121, 0.0117),
    (100_000, 4.0, 1e-6): (0.118, 0.0820, 0.104, 0.0815),
    (1_000_000, 4.0, 1e-8): (0.0451, 0.0316, 0.0398, 0.0313),
    (1_000_000, 8.0, 1e-8): (0.381, 0.261, 0.374, 0.266),
}
"""Costs of response over 2, over e**epsilon + 1, CMS and HCMS.

The key is (reports, local epsilon, delta).
"""


@pytest.mark.exact
@pytest.mark.parametrize(("case", "row"), tiered(TABLE.items(), 0, 1))
def test_known_amplifications_are_reproduced(
    case: tuple[int, float, float], row: tuple[float, ...]
) -> None:
    reports, local, delta = case
    mechanisms = rr(2, local), rr(round(math.exp(local) + 1), local), cms(local), hcms(local)
    certified = [
        amplify_by_shuffling(mechanism, reports=reports, delta=delta) for mechanism in mechanisms
    ]
    assert [cost.epsilon for cost in certified] == pytest.approx(row, rel=0.01)
    assert {cost.delta for cost in certified} == {delta}
    for mechanism, cost in zip(mechanisms, certified, strict=True):
        bound = shuffled_delta(mechanism, reports=reports, epsilon=cost.epsilon)
        assert 0.99 * delta < bound <= delta


@pytest.mark.exact
@settings(deadline=None, max_examples=12)
@given(st.floats(0.1, 2), st.integers(100, 5000), st.sampled_from([0.05, 0.3, 0.7]))
def test_a_finer_lattice_lowers_the_bound_and_more_people_too(
    local: float, reports: int, share: float
) -> None:
    def delta(reports: int, bits: int) -> float:
        return shuffled_delta(cms(local), reports=reports, epsilon=share * local, size=1 << bits)

    fine = delta(reports, 16)
    assert 0.0 <= fine <= delta(reports, 11) * 1.01
    assert delta(4 * reports, 16) <= fine


@pytest.mark.slow
@pytest.mark.exact
def test_shuffling_one_report_is_no_protection_and_none_makes_it_worse() -> None:
    mechanism = rr(3, 2.0)
    for epsilon in (0.0, 1.0, 1.9):
        alone = compose([(mechanism, 1)]).delta(epsilon)
        assert shuffled_delta(mechanism, reports=1, epsilon=epsilon) == pytest.approx(alone, 1e-4)
    assert shuffled_delta(mechanism, reports=5, epsilon=2.0) == 0.0
    assert amplify_by_shuffling(mechanism, reports=2, delta=1e-9).epsilon <= 2.0
    loud = Rappor(bits=64, hashes=16, cohorts=1, f=1e-6, p=0.0, q=1.0, seed="00")
    assert amplify_by_shuffling(loud, reports=1000, delta=1e-6) == loud.cost
    loudest = cms(64.0)
    assert amplify_by_shuffling(loudest, reports=10**7, delta=1e-8) == loudest.cost
    assert amplify_by_shuffling(rr(2, 0.1), reports=1000, delta=0.5) == Cost(epsilon=0, delta=0.5)


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize(("reports", "delta", "epsilon"), [(3, 0.01, 0.9741), (2, 0.001, 0.9981)])
def test_costs_hardly_below_the_local_one_are_certified(
    reports: int, delta: float, epsilon: float
) -> None:
    """Enumeration gives these costs; the first search ends above the local epsilon."""
    cost = amplify_by_shuffling(rr(2, 1.0), reports=reports, delta=delta)
    assert cost.epsilon == pytest.approx(epsilon, abs=2e-4)
    assert cost.delta == delta


@pytest.mark.exact
def test_a_batch_that_cannot_be_is_one_clear_error() -> None:
    for wrong in ({"reports": 0}, {"reports": 2.0}, {"delta": 0.0}, {"delta": 1.0}):
        asked: dict[str, Any] = {"reports": 1000, "delta": 1e-6, **wrong}
        with pytest.raises(ParameterError, match="must"):
            amplify_by_shuffling(rr(2, 1.0), **asked)
    with pytest.raises(ParameterError, match="epsilon"):
        shuffled_delta(rr(2, 1.0), reports=10, epsilon=math.nan)


@pytest.mark.exact
def test_a_lattice_of_no_power_of_two_bounds_nothing_and_is_refused() -> None:
    """Of 1000 points delta was 190 times too small, and of 3 points it was negative."""
    loud = AnyMechanism(3.0)

    def delta(size: Any) -> float:
        return shuffled_delta(loud, reports=1000, epsilon=0.5, size=size)

    for wrong in (0, 3, 8, 1000, (1 << 14) - 1, 1 << 25, 1024.0):
        with pytest.raises(ParameterError, match="size must be a"):
            delta(wrong)
    finest = delta(1 << 17)
    for bits in range(4, 17):
        assert delta(1 << bits) >= finest * (1 - 1e-9)
