"""Dummies hide a person's message as much as is certified, and counts are as exact as is stated."""

import math
from decimal import Decimal, localcontext
from unittest.mock import patch

import numpy as np
import pytest
from scipy.stats import chi2

from ldp.audit.messages import enumerated
from ldp.central import DiscreteLaplace
from ldp.errors import ParameterError
from ldp.privacy_loss import compose_shuffled, least_reports, shuffled_delta
from ldp.privacy_loss.shuffled_dummies import DummyMessages

CENTRAL = DiscreteLaplace(epsilon=1.0, sensitivity=2.0).std_error

SMALL = [
    (DummyMessages(values=3, slots=1, probability=0.5), 4),
    (DummyMessages(values=2, slots=2, probability=1.0), 3),
    (DummyMessages(values=4, slots=1, probability=0.9), 3),
    (DummyMessages(values=3, slots=1, probability=0.5, sending=0.6), 4),
    (DummyMessages(values=2, slots=3, probability=0.7, sending=0.2), 3),
]


@pytest.mark.exact
@pytest.mark.parametrize(("messages", "people"), SMALL)
def test_delta_is_never_below_enumerated_batches(messages: DummyMessages, people: int) -> None:
    """Delta is equal where the value is always sent."""
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0, 3.0):
        delta = enumerated(messages, people, epsilon)
        bound = messages.delta(epsilon, reports=people)
        assert delta <= bound * (1 + 1e-9)
        if messages.sending == 1:
            assert bound == pytest.approx(delta, rel=1e-9, abs=1e-15)


@pytest.mark.exact
def test_a_bound_that_counts_more_slots_than_there_are_is_caught() -> None:
    """In one twin there is a person more; in the other, the unsent messages hide as much as their
    mean.

    Both certify too little.
    """
    messages, people = SMALL[0]
    assert messages.delta(1.0, reports=people + 1) < enumerated(messages, people, 1.0)
    messages, people = SMALL[3]
    mean = messages.slots * people / messages.values
    with patch.object(DummyMessages, "_hiding", lambda self, total: (0.0, mean)):
        assert messages.delta(0.5, reports=people) < enumerated(messages, people, 0.5)


@pytest.mark.exact
def test_the_error_is_at_most_2_6_times_the_curators() -> None:
    """The certified cost is (1, 1e-6), replace-one; the Poisson limit has 42.7 dummies a value and
    ratio 2.33."""
    for values, users, ratio, most in (
        (2_600, 100_000, 2.333, 3),
        (2_600, 1_000_000, 2.335, 2),
        (250_000, 1_000_000, 2.169, 3),
    ):
        messages = DummyMessages.calibrated(values, reports=users, epsilon=1.0, delta=1e-6)
        assert messages.std_error(users) / CENTRAL == pytest.approx(ratio, abs=0.003)
        assert messages.slots + 1 == most
        assert 0.98e-6 < messages.delta(1.0, reports=users) <= 1e-6
        cost = messages.shuffled_cost(reports=users, delta=1e-6)
        assert 0.998 < cost.epsilon <= 1.0
        assert cost.delta == 1e-6
        assert messages.cost.epsilon == math.inf


@pytest.mark.exact
def test_small_batches_cost_what_their_delta_says_and_too_small_ones_are_unlimited() -> None:
    messages = DummyMessages(values=4, slots=4, probability=0.5)
    cost = messages.shuffled_cost(reports=30, delta=1e-6)
    assert 0.999e-6 < messages.delta(cost.epsilon, reports=30) <= 1e-6
    assert 2.39 < cost.epsilon < 2.391
    assert messages.shuffled_cost(reports=10, delta=1e-6).epsilon == math.inf
    assert messages.delta(0.0, reports=1000) < 0.03
    assert messages.shuffled_cost(reports=1000, delta=0.03).epsilon == 0.0


@pytest.mark.exact
def test_many_slots_are_summed_without_a_loss_of_digits() -> None:
    """In 60-digit decimals, the bound of 200,000 slots is above the sum, by less than 1e-9."""
    messages = DummyMessages(values=2_500, slots=2, probability=0.5)
    with localcontext() as context:
        context.prec = 60
        x, rate, total = Decimal(1).exp(), Decimal(1) / 2_500, 200_000
        exact = Decimal(0)
        for both in range(300):
            least = math.ceil((both + 1) * x / (1 + x))
            ways = [math.comb(both, n) for n in range(both + 1)]
            first, second = (sum(ways[max(0, least - shift) :]) for shift in (1, 0))
            chance = math.comb(total, both) * rate**both * (1 - rate) ** (total - both)
            exact += chance * max(Decimal(0), (first - x * second) / 2**both)
        bound = Decimal(messages.delta(1.0, reports=100_000))
        assert exact <= bound <= exact * (1 + Decimal("1e-9"))


@pytest.mark.exact
def test_batches_with_dummies_compose() -> None:
    messages = DummyMessages.calibrated(2_600, reports=100_000, epsilon=1.0, delta=1e-6)
    month = compose_shuffled([(messages, 100_000, 30)])
    assert month.pure.epsilon == math.inf
    assert 5 < month.at(1e-6).epsilon < 0.3 * month.added(1e-6).epsilon
    assert month.added(1e-6).epsilon == pytest.approx(30, rel=0.01)
    assert shuffled_delta(messages, reports=100_000, epsilon=1.0) <= 1e-6
    assert least_reports(messages, epsilon=1.0, delta=1e-6) == pytest.approx(100_000, rel=1e-3)


@pytest.mark.statistical
@pytest.mark.parametrize("sending", [1.0, 0.4])
def test_estimates_have_the_error_that_is_stated(sending: float) -> None:
    """The mean square over 400 values and 50 batches is within a chi square's 1e-7 on either side.

    The values hardly depend on each other. The twins, errors 8 % off, are outside.
    """
    messages = DummyMessages(values=400, slots=2, probability=0.4, sending=sending)
    counts = np.full(400, 25)
    rng = np.random.default_rng(5)
    errors = [
        messages.estimates(messages.draw_messages(counts, rng), 10_000) - counts for _ in range(50)
    ]
    squares, size = float(np.square(errors).sum()), 400 * 50
    low, high = (float(chi2.isf(share, size)) for share in (1 - 1e-7, 1e-7))
    stated = messages.std_error(10_000)
    assert low < squares / stated**2 < high
    for wrong in (0.92, 1.08):
        assert not low < squares / (wrong * stated) ** 2 < high
    assert abs(np.mean(errors)) < 6 * stated / math.sqrt(size)
    assert messages.std_error(10_000, 25) == pytest.approx(stated)
    assert messages.std_error(10_000, 0) <= stated


@pytest.mark.exact
def test_nobody_sends_more_than_a_fixed_number_of_messages() -> None:
    messages = DummyMessages(values=300, slots=2, probability=0.25)
    assert messages.messages == 1.5
    assert messages.message_bytes == 2


@pytest.mark.exact
def test_dummies_out_of_range_are_one_clear_error() -> None:
    right = {"values": 10, "slots": 1, "probability": 0.5}
    for wrong in (
        {"values": 1},
        {"slots": 0},
        {"slots": 1.5},
        {"probability": 0.0},
        {"probability": math.nan},
        {"sending": 1.1},
        {"probability": 1.0, "sending": 0.5},
    ):
        with pytest.raises(ParameterError, match="must be"):
            DummyMessages(**{**right, **wrong})  # type: ignore[arg-type]
    for wrong in ({"epsilon": 0.0}, {"delta": 1e-16}, {"delta": 1.0}):
        with pytest.raises(ParameterError, match="must be"):
            DummyMessages.calibrated(
                10,
                **{"reports": 100, "epsilon": 1.0, "delta": 1e-6, **wrong},  # type: ignore[arg-type]
            )
    with pytest.raises(ParameterError, match="slots"):
        DummyMessages.calibrated(1 << 24, reports=2, epsilon=0.01, delta=1e-6)
