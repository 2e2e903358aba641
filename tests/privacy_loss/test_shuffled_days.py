"""Days of shuffled batches cost at least what enumeration of small ones shows, and less than a
sum."""

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product
from typing import Any

import pytest

from ldp import CoinResponse, MemoisedResponse, Rappor
from ldp.accounting import group
from ldp.errors import ParameterError
from ldp.mechanisms import CatalogueMechanism, Mechanism
from ldp.mechanisms.base import Example
from ldp.privacy_loss import (
    AnyMechanism,
    amplify_by_shuffling,
    compose_shuffled,
    composition,
    honest_reports,
    least_reports,
    shuffled_delta,
    shuffling,
)
from ldp.privacy_loss.composition import Losses, losses_of, lower_hull
from ldp.protocol.hashing import Value
from tests.examples import sampling_everything
from tests.small_batches import batch_laws
from tests.small_mechanisms import cms, hcms, rr, unary
from tests.tiers import tiered

SHARES = (0.0, 0.1, 0.4, 0.9)
"""Epsilons of the tests, as parts of the local one."""


@pytest.fixture
def rough(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use fewer points, so that the bounds are larger and as valid."""
    monkeypatch.setattr(composition, "POINTS", 8)
    monkeypatch.setattr(shuffling, "COARSE", 1 << 10)
    shuffling._losses.cache_clear()
    yield
    shuffling._losses.cache_clear()


def composed(days: Sequence[Any], epsilon: float) -> float:
    """Return delta of days by its definition; each day has the laws of its batch under two
    values."""
    total = []
    for run in product(*([(first[z], second[z]) for z in first] for first, second in days)):
        p, q = (math.prod(side) for side in zip(*run, strict=True))
        total.append(max(0.0, p - math.exp(epsilon) * q))
    return math.fsum(total)


def worst(
    mechanism: CatalogueMechanism, values: Sequence[Value], people: int, days: int, epsilon: float
) -> float:
    """Return the largest enumerated delta over pairs of values and others, the same every day."""
    return max(
        composed([batch_laws(mechanism, one, other, others)] * days, epsilon)
        for one, other in permutations(values, 2)
        for others in combinations_with_replacement(values, people - 1)
    )


CASES = [
    (rr(2, 1.0), "01", 3, 3),
    (rr(3, 0.7), "012", 3, 2),
    (CoinResponse(alpha=0.3, beta=0.8), ("yes", "no"), 3, 3),
    (unary(1.0), "02", 2, 2),
    (hcms(1.0), "01", 2, 2),
    (Rappor(bits=3, f=0.3, p=0.1, q=0.8, scheme="identity"), "01", 2, 2),
]
NAMES = ["rr2", "rr3", "coin", "sue", "hcms", "rappor"]


@pytest.mark.exact
@pytest.mark.usefixtures("rough")
@pytest.mark.parametrize(("mechanism", "values", "people", "days"), CASES, ids=NAMES)
def test_composed_days_are_never_below_enumerated_ones(
    mechanism: Mechanism, values: Sequence[str], people: int, days: int
) -> None:
    bound = compose_shuffled([(mechanism, people, days)], is_fresh=True)
    for share in SHARES:
        epsilon = share * days * mechanism.cost.epsilon
        assert worst(mechanism, values, people, days, epsilon) <= bound.delta(epsilon) * (1 + 1e-12)


@pytest.mark.exact
@pytest.mark.usefixtures("rough")
def test_days_of_different_mechanisms_and_sizes_compose() -> None:
    first, second = rr(2, 1.0), hcms(0.8)
    bound = compose_shuffled([(first, 3, 1), (second, 2, 1)])
    days = [batch_laws(first, "0", "1", "00"), batch_laws(second, "0", "1", "0")]
    for epsilon in (0.0, 0.2, 1.0):
        assert composed(days, epsilon) <= bound.delta(epsilon) * (1 + 1e-12)
    assert bound.pure.epsilon == first.cost.epsilon + second.cost.epsilon


def below_the_chords(losses: Callable[..., Losses]) -> Callable[..., Losses]:
    """Return the twin, in which losses are rounded down, to the point before."""

    def optimistic(delta: Callable[[float], float], most: float) -> Losses:
        step = most / composition.POINTS
        return losses(lambda epsilon: delta(min(most, epsilon + step)), most)

    return optimistic


@pytest.mark.exact
@pytest.mark.usefixtures("rough")
def test_rounding_losses_down_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shuffling, "losses_of", below_the_chords(losses_of))
    with pytest.raises(AssertionError):
        test_composed_days_are_never_below_enumerated_ones(*CASES[0])


@pytest.mark.exact
@pytest.mark.usefixtures("rough")
def test_the_reports_of_one_person_in_a_batch_are_a_group() -> None:
    """One of three people sends two of four reports, on each of two days."""
    mechanism = rr(2, 0.8)
    bound = compose_shuffled([(mechanism, 4, 2)], per_person=2)
    for epsilon in (0.0, 0.3, 1.0, 2.5):
        for others in ("00", "01", "11"):
            first, _ = batch_laws(mechanism, "0", "1", f"0{others}")
            _, second = batch_laws(mechanism, "0", "1", f"1{others}")
            for day in ((first, second), (second, first)):
                assert composed([day] * 2, epsilon) <= bound.delta(epsilon) * (1 + 1e-12)


@pytest.mark.exact
def test_a_group_in_one_batch_costs_what_the_formula_of_groups_says() -> None:
    single = amplify_by_shuffling(rr(2, 4.0), reports=100_000, delta=1e-6)
    twice = compose_shuffled([(rr(2, 4.0), 100_000, 1)], per_person=2)
    assert twice.at(group(single, 2).delta).epsilon == pytest.approx(2 * single.epsilon, rel=0.01)


@pytest.mark.exact
@pytest.mark.usefixtures("rough")
@sampling_everything
def test_every_mechanism_composes(example: Example) -> None:
    mechanism = example.mechanism
    two = compose_shuffled([(mechanism, 2, 2)], is_fresh=True)
    half = mechanism.cost.epsilon / 2
    single = shuffled_delta(mechanism, reports=2, epsilon=half)
    assert single * (1 - 1e-9) <= two.delta(half) <= 1
    assert two.at(1e-6).epsilon <= two.pure.epsilon


@pytest.mark.exact
@pytest.mark.parametrize(
    ("mechanism", "reports"),
    tiered(
        [
            (rr(2, 1.0), 10_000),
            (cms(4.0), 100_000),
            (hcms(4.0), 1_000_000),
            (rr(2600, 8.0), 1_000_000),
        ]
    ),
    ids=["rr2", "cms", "hcms", "rr2600"],
)
def test_a_year_of_batches_costs_at_most_a_tenth_of_the_sum(
    mechanism: Mechanism, reports: int
) -> None:
    single = amplify_by_shuffling(mechanism, reports=reports, delta=1e-6).epsilon
    year = compose_shuffled([(mechanism, reports, 365)])
    assert year.at(1e-6).epsilon <= 0.1 * 365 * single
    alone = compose_shuffled([(mechanism, reports, 1)]).at(1e-6).epsilon
    assert alone == pytest.approx(single, rel=0.01)


@pytest.mark.exact
@pytest.mark.parametrize("reports", [10**5, 10**7, 10**9])
def test_the_lattice_of_a_profile_is_fine_enough_for_its_batch(reports: int) -> None:
    """With as few points as for 100,000 reports, a batch of a billion would have delta 1."""
    epsilon = 20 / math.sqrt(reports)
    rough, fine = (
        shuffled_delta(cms(4.0), reports=reports, epsilon=epsilon, size=size)
        for size in (shuffling._coarse(reports), shuffling.SIZE)
    )
    assert fine <= rough <= 1.1 * fine


@pytest.mark.slow
@pytest.mark.exact
def test_many_sizes_are_rounded_down_and_little_is_lost() -> None:
    mechanism = hcms(4.0)
    sizes = [50_000 + 1_000 * day for day in range(10)]
    year = compose_shuffled([(mechanism, size, 1) for size in sizes])
    used = {reports for (_, reports), _ in year.batches}
    assert len(used) < len(sizes)
    assert min(used) == min(sizes)
    least, most = (
        compose_shuffled([(mechanism, size, 10)]).at(1e-6).epsilon for size in (60_000, 50_000)
    )
    assert least <= year.at(1e-6).epsilon <= most


@pytest.mark.exact
@pytest.mark.parametrize("sizes", [range(50_000, 60_000, 1_000), range(100, 488_600, 977)])
def test_every_size_of_many_is_rounded_to_the_next_that_is_used(sizes: range) -> None:
    batches = compose_shuffled([(rr(2, 1.0), size, 1) for size in sizes]).batches
    used = sorted(reports for (_, reports), _ in batches)
    assert used[0] == sizes[0]
    assert len(used) <= min(25, len(sizes) - 1)
    for least in used:
        number = sum(number for (_, reports), number in batches if reports >= least)
        assert number == sum(size >= least for size in sizes)
    assert sizes[-1] <= used[-1] * max(1.05, (sizes[-1] / sizes[0]) ** (1 / 24))


@pytest.mark.exact
@pytest.mark.usefixtures("rough")
def test_memoised_reports_do_not_compose() -> None:
    memoised = MemoisedResponse(categories=("a", "b"), epsilon=1.0, lifetime_epsilon=2.0)
    for batches in ([(memoised, 100, 2)], [(memoised, 100, 1), (memoised, 200, 1)]):
        with pytest.raises(ParameterError, match="share what is memoised"):
            compose_shuffled(batches)
    with pytest.raises(ParameterError, match="share what is memoised"):
        compose_shuffled([(memoised, 100, 1)], per_person=2)
    assert compose_shuffled([(memoised, 100, 1)]).at(1e-6).epsilon <= 1.0
    assert compose_shuffled([(memoised, 100, 2)], is_fresh=True).at(1e-6).epsilon <= 2.0
    wrong: list[tuple[Any, Any]] = [(0, 1), (10, 0), (10, 1.5)]
    for reports, number in wrong:
        with pytest.raises(ParameterError, match="whole"):
            compose_shuffled([(rr(2, 1.0), reports, number)])


@pytest.mark.exact
@pytest.mark.parametrize(
    ("mechanism", "values"), tiered([(rr(2, 1.0), "01"), (rr(3, 0.7), "012"), (unary(1.0), "012")])
)
def test_a_mechanism_of_which_only_epsilon_is_known(mechanism: Mechanism, values: str) -> None:
    """The cost is never below an enumerated shuffle of a mechanism with that epsilon."""
    whatever = AnyMechanism(mechanism.cost.epsilon)
    for share in SHARES:
        epsilon = share * mechanism.cost.epsilon
        bound = shuffled_delta(whatever, reports=3, epsilon=epsilon, size=1 << 14)
        assert worst(mechanism, values, 3, 1, epsilon) <= bound * (1 + 1e-12)
    for wrong in (0.0, -1.0, math.nan):
        with pytest.raises(ParameterError, match="epsilon"):
            AnyMechanism(wrong)


@pytest.mark.slow
@pytest.mark.exact
def test_a_published_number_is_reproduced_from_an_epsilon() -> None:
    cost = amplify_by_shuffling(AnyMechanism(4.0), reports=100_000, delta=1e-6)
    assert cost.epsilon == pytest.approx(0.1698, rel=1e-3)


@pytest.mark.exact
@pytest.mark.usefixtures("rough")
@pytest.mark.parametrize("local", [40.0, 64.0])
def test_batches_that_hide_nothing_cost_the_sum(local: float) -> None:
    bound = compose_shuffled([(AnyMechanism(local), 1000, 2), (rr(2, 1.0), 1000, 1)], per_person=2)
    assert bound.at(1e-6) == bound.pure
    assert (bound.delta(10.0), bound.delta(bound.pure.epsilon)) == (1.0, 0.0)


@pytest.mark.exact
@pytest.mark.parametrize(
    ("local", "epsilon"), tiered([(1.0, 0.3), (1.0, 0.05), (8.0, 0.05), (1.0, 1.0)])
)
def test_the_least_batch_is_certified_and_a_smaller_one_is_not(
    local: float, epsilon: float
) -> None:
    mechanism = cms(local)
    least = least_reports(mechanism, epsilon=epsilon, delta=1e-6)
    assert shuffled_delta(mechanism, reports=least, epsilon=epsilon) <= 1e-6
    if least > 1:
        fewer = max(1, math.floor(0.98 * least))
        assert shuffled_delta(mechanism, reports=fewer, epsilon=epsilon) > 1e-6
    else:
        assert epsilon >= local
    for epsilon, delta in ((0.0, 1e-6), (0.1, 0.0)):
        with pytest.raises(ParameterError, match="must"):
            least_reports(mechanism, epsilon=epsilon, delta=delta)
    with pytest.raises(ParameterError, match="no batch"):
        least_reports(mechanism, epsilon=1e-9, delta=1e-6)


@pytest.mark.exact
def test_honest_reports_are_the_smaller_size_less_the_fakes() -> None:
    percent = Fraction(1, 100)
    assert honest_reports(1_000) == 1_000
    assert honest_reports(1_000, 900, fakes=percent) == 890
    assert honest_reports(101, 5_000, fakes=percent) == 51
    assert honest_reports(0, 10) == 1
    for sizes, fakes in (((-1,), percent), ((10,), Fraction(1)), ((10,), Fraction(-1, 2))):
        with pytest.raises(ParameterError, match="fakes"):
            honest_reports(*sizes, fakes=fakes)


@pytest.mark.exact
def test_the_hull_is_the_largest_convex_function_below() -> None:
    heights = [(0, 1), (1, 3), (2, 1), (3, 1), (4, 0)]
    points = [(Fraction(x), Fraction(height)) for x, height in heights]
    assert lower_hull(points) == [points[0], points[4]]
    assert lower_hull(points[:2]) == points[:2]
