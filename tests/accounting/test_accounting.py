"""Costs add exactly, caps hold whatever is charged, and a refused charge changes nothing."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from time import sleep

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp.accounting import (
    Caps,
    Cost,
    Ledger,
    Neighbours,
    advanced,
    group,
    parallel,
    sequential,
)
from ldp.accounting.policy import Allowance
from ldp.errors import BudgetExceeded, ParameterError
from ldp.registry.odds import posterior

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
CAPS = Caps(window=DAY, window_epsilon=8.0, lifetime_epsilon=20.0, report_epsilon=4.0)
EPSILONS = st.floats(0, 100)


@pytest.mark.exact
@given(st.lists(EPSILONS, max_size=30))
def test_sequential_costs_add_and_are_never_rounded_down(epsilons: list[float]) -> None:
    total = sequential(Cost(epsilon=epsilon) for epsilon in epsilons).epsilon
    exact = sum(map(Fraction, epsilons), Fraction(0))
    assert exact <= Fraction(total) <= exact * (1 + Fraction(1, 2**52))


@pytest.mark.exact
def test_parallel_costs_are_the_largest_and_groups_multiply() -> None:
    costs = [Cost(epsilon=1.0, delta=0.1), Cost(epsilon=3.0)]
    assert parallel(costs) == Cost(epsilon=3.0, delta=0.1)
    assert group(Cost(epsilon=1.5), 4).epsilon == 6.0


@pytest.mark.exact
@pytest.mark.parametrize(
    ("epsilon", "times", "expected", "delta"),
    [(0.1, 365, 14.1231, 1e-9), (0.5, 90, 41.559, 1e-9), (1, 90, 90, 0), (4, 90, 360, 0)],
)
def test_advanced_composition_is_its_formula_and_never_above_the_sum(
    epsilon: float, times: int, expected: float, delta: float
) -> None:
    cost = advanced([Cost(epsilon=epsilon)] * times, 1e-9)
    assert cost.epsilon == pytest.approx(expected, abs=5e-5)
    assert cost.delta == delta


@pytest.mark.campaign
@pytest.mark.exact
@given(st.lists(st.floats(0, 0.2), min_size=200, max_size=230), st.floats(1e-12, 0.5))
def test_advanced_composition_of_different_epsilons_is_rounded_up(
    epsilons: list[float], delta: float
) -> None:
    cost = advanced((Cost(epsilon=epsilon) for epsilon in epsilons), delta)
    mean = math.fsum(epsilon * math.tanh(epsilon / 2) for epsilon in epsilons)
    squares = math.fsum(epsilon**2 for epsilon in epsilons)
    formula = mean + math.sqrt(2 * math.log(1 / delta) * squares)
    if cost.delta:
        assert formula * (1 - 1e-12) <= cost.epsilon <= formula * (1 + 1e-12)
    assert cost.epsilon <= sequential(Cost(epsilon=epsilon) for epsilon in epsilons).epsilon


@pytest.mark.exact
def test_advanced_composition_adds_the_releases_own_deltas() -> None:
    costs = [Cost(epsilon=0.01, delta=1e-9)] * 1000
    assert advanced(costs, 1e-6).delta == pytest.approx(2e-6)
    assert advanced(costs, 1e-6).epsilon < 10 == pytest.approx(sequential(costs).epsilon)
    assert advanced([Cost(epsilon=math.inf)], 1e-6).epsilon == math.inf
    assert advanced([Cost(epsilon=1e300)], 1e-6) == Cost(epsilon=1e300)
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(ParameterError, match="delta"):
            advanced(costs, delta)


@pytest.mark.exact
def test_a_groups_delta_grows_with_its_epsilon() -> None:
    cost = Cost(epsilon=1.0, delta=1e-6)
    together = group(cost, 3)
    assert together.epsilon == 3.0
    assert together.delta == pytest.approx(3e-6 * math.e**2, rel=1e-12)
    one_by_one = 1e-6 * (1 + math.e + math.e**2)
    assert together.delta >= one_by_one
    assert group(cost, 1) == cost
    assert group(Cost(epsilon=1e300, delta=1e-300), 2).delta == 1.0
    assert group(Cost(epsilon=math.inf), 2) == Cost(epsilon=math.inf)


@pytest.mark.exact
def test_costs_of_different_neighbours_refuse_to_combine() -> None:
    costs = [Cost(epsilon=1.0), Cost(epsilon=1.0, neighbours=Neighbours.ADD_REMOVE)]
    for combine in (sequential, parallel, lambda costs: advanced(costs, 1e-6)):
        with pytest.raises(ParameterError, match="neighbour"):
            combine(costs)
    ledger = Ledger({"typing": CAPS, "other": CAPS})
    ledger.charge("typing", costs[0], now=START)
    for name in ("typing", "other"):  # one person's, which add
        with pytest.raises(ParameterError, match="neighbour"):
            ledger.charge(name, costs[1], now=START)
    ledger.charge("other", costs[0], now=START)
    assert (ledger.spent("typing"), ledger.spent("other")) == (1.0, 1.0)


@pytest.mark.exact
@pytest.mark.parametrize("neighbours", Neighbours)
def test_combined_costs_keep_their_neighbours_and_a_possible_delta(neighbours: Neighbours) -> None:
    small, large = (Cost(epsilon=e, delta=0.6, neighbours=neighbours) for e in (0.001, 1.0))
    year = [small] * 365
    for cost in (sequential(year), parallel(year), advanced(year, 0.5), group(large, 2)):
        assert cost.neighbours is neighbours
        assert cost.delta == (0.6 if cost == small else 1.0)
    assert advanced(year, 0.5).epsilon < sequential(year).epsilon


@pytest.mark.exact
def test_nothing_released_costs_nothing() -> None:
    assert sequential([]) == parallel([]) == advanced([], 1e-6) == Cost(epsilon=0.0)
    assert advanced([Cost(epsilon=0.0)], 1e-6) == Cost(epsilon=0.0)
    for size in (0, -1):
        with pytest.raises(ParameterError, match="at least one member"):
            group(Cost(epsilon=1.0), size)


@pytest.mark.exact
@pytest.mark.parametrize("name", ["epsilon", "delta", "lifetime"])
def test_a_cost_has_possible_numbers(name: str) -> None:
    for bad in (-0.1, math.nan, *[1.1] * (name == "delta")):
        with pytest.raises(ParameterError, match=f"a cost's {name}"):
            Cost(**{"epsilon": 1.0, name: bad})  # type: ignore[arg-type]


@pytest.mark.exact
@given(st.lists(st.tuples(st.floats(0, 5), st.integers(-30, 60)), max_size=40))
def test_no_history_passes_a_cap(asked: list[tuple[float, int]]) -> None:
    """Charges of any size come at any times, and clocks are also set back."""
    ledger, now = Ledger({"g": CAPS}), START
    granted: list[tuple[datetime, Fraction]] = []
    latest = START
    for epsilon, hours in asked:
        now += timedelta(hours=hours)
        before = ledger.spent("g")
        try:
            ledger.charge("g", Cost(epsilon=epsilon), now=now)
        except BudgetExceeded:
            assert ledger.spent("g") == before
        else:
            latest = max(now, latest) if granted else now
            granted.append((latest, Fraction(epsilon)))
    assert sum(epsilon for _, epsilon in granted) <= 20
    for time, _ in granted:
        window = [epsilon for other, epsilon in granted if time - DAY < other <= time]
        assert sum(window) <= 8
    assert all(epsilon <= 4 for _, epsilon in granted)


@pytest.mark.exact
def test_the_window_slides_and_nothing_rolls_over() -> None:
    ledger = Ledger({"g": CAPS})
    for _ in range(2):
        ledger.charge("g", Cost(epsilon=4.0), now=START)
    with pytest.raises(BudgetExceeded, match="window"):
        ledger.charge("g", Cost(epsilon=0.1), now=START + DAY / 2)
    assert ledger.remaining("g", now=START + 10 * DAY) == 4.0, "the cap of one report"
    ledger.charge("g", Cost(epsilon=4.0), now=START + DAY)
    for _ in range(2):
        ledger.charge("g", Cost(epsilon=4.0), now=START + 3 * DAY)
    with pytest.raises(BudgetExceeded, match="life"):
        ledger.charge("g", Cost(epsilon=0.5), now=START + 99 * DAY)


@pytest.mark.exact
def test_very_many_charges_take_as_long_each_and_are_summed_exactly() -> None:
    """A ledger that adds up all charges again for each new one would take half an hour.

    A tenth is a little more than 1/10 as a double, so 20,000 charges pass a cap of 2,000.
    """
    caps = Caps(window=DAY, window_epsilon=2_000.0, lifetime_epsilon=9_000.0)
    ledger = Ledger({"typing": caps})
    for _ in range(19_999):
        ledger.charge("typing", Cost(epsilon=0.1), now=START)
    assert abs(2_000 - ledger.spent("typing") - ledger.remaining("typing", now=START)) < 1e-9
    with pytest.raises(BudgetExceeded):
        ledger.charge("typing", Cost(epsilon=0.1), now=START)
    assert ledger.remaining("typing", now=START + DAY) == 2_000.0


@pytest.mark.exact
def test_threads_that_share_a_ledger_share_its_caps() -> None:
    """Each thread would read what is spent before any other has charged, unless they take turns."""

    class Slow(Ledger):
        def _in_window(self, group: str, now: datetime) -> Fraction:
            spent = super()._in_window(group, now)
            slow.append(group)
            sleep(0.01)
            return spent

    slow: list[str] = []
    ledger = Slow({"g": CAPS})
    with ThreadPoolExecutor(8) as pool:
        charges = [pool.submit(ledger.charge, "g", Cost(epsilon=4.0), now=START) for _ in range(8)]
    assert sum(charge.exception() is None for charge in charges) == 2
    assert (ledger.spent("g"), len(slow)) == (8.0, 8)


@pytest.mark.exact
def test_a_clock_set_back_frees_nothing() -> None:
    ledger = Ledger({"g": CAPS})
    for _ in range(2):
        ledger.charge("g", Cost(epsilon=4.0), now=START)
    with pytest.raises(BudgetExceeded):
        ledger.charge("g", Cost(epsilon=4.0), now=START - 30 * DAY)


@pytest.mark.exact
def test_a_charge_before_that_of_another_group_counts_at_its_time() -> None:
    ledger = Ledger({"g": CAPS, "other": CAPS})
    ledger.charge("other", Cost(epsilon=1.0), now=START)
    for _ in range(2):
        ledger.charge("g", Cost(epsilon=4.0), now=START - 30 * DAY)
    with pytest.raises(BudgetExceeded, match="window"):
        ledger.charge("g", Cost(epsilon=4.0), now=START + DAY / 2)


@pytest.mark.exact
def test_what_remains_may_be_charged() -> None:
    """A cap of 8 less 1e-20 is nearest to 8, which the cap does not allow."""
    ledger = Ledger({"g": Caps(window=DAY, window_epsilon=8.0, lifetime_epsilon=20.0)})
    ledger.charge("g", Cost(epsilon=1e-20), now=START)
    remaining = ledger.remaining("g", now=START)
    assert remaining == math.nextafter(8.0, 0)
    ledger.charge("g", Cost(epsilon=remaining), now=START)
    assert ledger.spent("g") == 8.0, "rounded up"


@pytest.mark.exact
def test_the_smaller_of_two_allowances_holds_in_every_field() -> None:
    strict = replace(CAPS, lifetime_epsilon=10.0, report_epsilon=2.0)
    small = strict.allowance(Fraction(3), Fraction(1))
    large = replace(CAPS, report_epsilon=None).allowance(Fraction(3), Fraction(1, 2))
    assert small == Allowance(Fraction(7), Fraction(7), 2.0)
    assert large == Allowance(Fraction(17), Fraction(15, 2))
    assert small.within(large) == large.within(small) == small
    assert large.within(Allowance(Fraction(-1), Fraction(9))).least == 0


@pytest.mark.exact
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("cast", [np.int8, np.int64, np.float32, Fraction], ids=str)
def test_caps_and_costs_of_any_real_type_are_those_of_floats(cast: Callable[[int], float]) -> None:
    """An integer of numpy in a fraction overflows, and another type has no fraction at all."""
    caps = Caps(window=DAY, window_epsilon=cast(100), lifetime_epsilon=cast(100))
    ledger = Ledger({"g": caps})
    for _ in range(99):
        ledger.charge("g", Cost(epsilon=cast(1)), now=START)
    ledger.charge("g", Cost(epsilon=0.1), now=START)
    assert ledger.remaining("g", now=START) == pytest.approx(0.9)
    with pytest.raises(BudgetExceeded):
        ledger.charge("g", Cost(epsilon=cast(1)), now=START)
    assert Fraction(Cost(epsilon=Fraction(1, 3)).epsilon) >= Fraction(1, 3)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="epsilon must be a number"):
        Cost(epsilon="1")  # type: ignore[arg-type]


@pytest.mark.exact
def test_wrong_use_is_one_clear_error() -> None:
    ledger = Ledger({"g": CAPS})
    with pytest.raises(ParameterError, match="unknown budget group"):
        ledger.charge("typing", Cost(epsilon=1.0), now=START)
    with pytest.raises(ParameterError, match="unknown budget group"):
        ledger.spent("typing")
    with pytest.raises(ParameterError, match="zone"):
        ledger.charge("g", Cost(epsilon=1.0), now=datetime(2026, 1, 1))
    with pytest.raises(ParameterError, match="pure"):
        ledger.charge("g", Cost(epsilon=1.0, delta=1e-6), now=START)
    caps = {"window": DAY, "window_epsilon": 1.0, "lifetime_epsilon": 1.0, "report_epsilon": 1.0}
    for name in caps.keys() - {"window"}:
        for bad in (0.0, math.inf, math.nan):
            with pytest.raises(ParameterError, match="every cap"):
                Caps(**{**caps, name: bad})  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="window"):
        Caps(**{**caps, "window": 0 * DAY})  # type: ignore[arg-type]


@pytest.mark.exact
@pytest.mark.parametrize(
    ("prior", "epsilon", "after"),
    [
        (0.5, 720, 1.0),
        (0, 9, 0.0),
        (0.5, float("inf"), 1.0),
        (0.5, 2, 0.881),
        (0.5, 4, 0.982),
        (0.01, 4, 0.355),
    ],
)
def test_posterior_odds(prior: float, epsilon: float, after: float) -> None:
    assert posterior(prior, epsilon) == pytest.approx(after, abs=5e-4)


@pytest.mark.exact
def test_a_charge_within_a_charge_passes_no_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal handler may charge between the check of another charge and its record."""
    ledger, charges = Ledger({"g": CAPS}), list[float]()

    def handler(_: object) -> str:
        if not charges:
            charges.append(4.0)
            with pytest.raises(BudgetExceeded, match="a charge within a charge"):
                ledger.charge("g", Cost(epsilon=4.0), now=START)
        return "1 day"

    monkeypatch.setattr("ldp.accounting.ledger.length_in_words", handler)
    ledger.charge("g", Cost(epsilon=4.0), now=START)
    assert charges
    assert ledger.spent("g") == 4.0
