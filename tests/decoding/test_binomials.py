"""Intervals of mechanisms with a cell for every category, by enumeration of all outcomes."""

import tracemalloc
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom, norm

from ldp import RandomizedResponse, SubsetSelection, UnaryEncoding
from ldp.arrays import Floats
from ldp.decoding import decode
from ldp.decoding.binomials import BinomialBounds, CountLaw, Pooled, count_interval, share_interval
from ldp.decoding.error_law import Collisions
from ldp.mechanisms import BitFlip, Mechanism
from ldp.simulation import draw_table

NAMES = tuple(f"c{i}" for i in range(40))
LEVEL = 0.95


def _coverage(
    mechanism: Mechanism, reports: int, held: list[int]
) -> tuple[list[float], list[float]]:
    """Return the exact probability that the interval holds each count, and that of the twin's.

    The twin adds quantiles of the law of a value that nobody holds to the estimates.
    """
    channel, seen = mechanism.support, np.arange(reports + 1)
    p, q = float(channel.touched), float(channel.untouched)
    count = channel.holders(seen, reports)
    law = Collisions(channel=channel, reports=reports, rows=1, width=1 << 60).law()
    error = np.sqrt(mechanism.variance(reports, np.clip(count / reports, 0, 1)))
    rough = count - law.upper(0.025) * error, count + law.lower(0.025) * error
    found: tuple[list[float], list[float]] = [], []
    exact = BinomialBounds(seen, reports, channel, count)(1 - LEVEL, False)
    for ends, covered in zip((exact, rough), found, strict=True):
        for c in held:
            mass = _sum_of_two(reports, c, p, q)
            covered.append(float(mass[(ends[0] <= c) & (c <= ends[1])].sum()))
    return found


def _sum_of_two(reports: int, held: int, p: float, q: float) -> Floats:
    own, others = np.arange(held + 1), np.arange(reports - held + 1)
    mass: Floats = np.convolve(binom.pmf(own, held, p), binom.pmf(others, reports - held, q))
    return mass


@pytest.mark.exact
@pytest.mark.parametrize("reports", [1, 2, 5, 20, 100, 2000])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0, 16.0])
def test_intervals_hold_at_the_level_or_more(epsilon: float, reports: int) -> None:
    """They hold for every count tried, however few reports there are.

    The approximation of the tails may cost 1e-3. The twin, quantiles of one law for all counts,
    holds in 0.85 at 2,000 reports and epsilon 8.
    """
    shares = np.array([0, 0.001, 0.003, 0.01, 0.1, 0.3, 0.8, 1])
    held = sorted({*np.rint(shares * reports).astype(int).tolist(), min(reports, 3)})
    response = RandomizedResponse(categories=NAMES, epsilon=epsilon)
    for mechanism in (response, UnaryEncoding(categories=NAMES, epsilon=epsilon)):
        exact, rough = _coverage(mechanism, reports, held)
        assert min(exact) > LEVEL - 1e-3
        if mechanism is response and (epsilon, reports) == (8.0, 2000):
            assert min(rough) < 0.86
            assert max(exact) < 0.999


@pytest.mark.exact
@pytest.mark.parametrize("epsilon", [24.0, 36.0, 40.0, 64.0])
def test_intervals_of_answers_that_are_hardly_noisy_are_their_counts(epsilon: float) -> None:
    """The true answer has a probability that is nearest to the float 1 from epsilon 42 on.

    The twin takes it for 1: then every interval reaches to all reports.
    """
    channel = RandomizedResponse(categories=NAMES, epsilon=epsilon).channel
    seen = np.array([0, 1, 30, 99, 100])
    low, high = count_interval(seen, 100, channel.chances, 0.025)
    assert np.abs([seen - low, high - seen]).max() <= 0.501
    if epsilon > 40.0:
        twin = float(channel.touched), float(channel.untouched)
        assert (count_interval(seen, 100, twin, 0.025)[1] == 100).all()


@pytest.mark.exact
def test_intervals_of_a_population_hold_at_the_level_or_more() -> None:
    """The truth is the expected number of holders among as many reports; what is seen is one
    binomial."""
    mechanism = RandomizedResponse(categories=NAMES, epsilon=8.0)
    channel, n = mechanism.support, 500
    seen = np.arange(n + 1)
    bounds = BinomialBounds(seen, n, channel, channel.holders(seen, n))
    low, high = bounds(1 - LEVEL, True)
    fixed_low, fixed_high = bounds(1 - LEVEL, False)
    misses = 0
    for share in (0, 0.002, 0.01, 0.2, 0.5, 1):
        named = float(channel.untouched) + share * channel.gain
        mass = binom.pmf(seen, n, named)
        assert mass[(low <= share * n) & (share * n <= high)].sum() >= LEVEL - 1e-9
        misses += mass[(fixed_low <= share * n) & (share * n <= fixed_high)].sum() < 0.9
    assert misses


@pytest.mark.exact
def test_an_interval_holds_its_estimate_and_no_impossible_count() -> None:
    mechanism = RandomizedResponse(categories=NAMES, epsilon=2.0)
    seen = np.arange(201)
    count = mechanism.support.holders(seen, 200)
    low, high = BinomialBounds(seen, 200, mechanism.support, count)(0.05, False)
    assert ((low <= count) & (count <= high)).all()
    assert (np.diff(low) >= 0).all()
    assert (np.diff(high) >= 0).all()
    possible = (count >= 0) & (count <= 200)
    assert (low[possible] >= 0).all()
    assert (high[possible] <= 200).all()


@pytest.mark.exact
@pytest.mark.parametrize("reports", [10**6, 10**9, 10**13])
def test_intervals_of_many_reports_are_normal(reports: int) -> None:
    mechanism = UnaryEncoding(categories=NAMES, epsilon=2.0)
    q = float(mechanism.channel.untouched)
    seen = np.array([int(reports * (q + share)) for share in (0.05, 0.2)])
    count = mechanism.support.holders(seen, reports)
    low, high = BinomialBounds(seen, reports, mechanism.support, count)(0.05, False)
    error = np.sqrt(mechanism.variance(reports, count / reports))
    assert high - count == pytest.approx(1.96 * error, rel=0.01)
    assert count - low == pytest.approx(1.96 * error, rel=0.01)


@pytest.mark.exact
@pytest.mark.parametrize("reports", [10**3, 2**51, 2**52, 2**53 - 1])
def test_what_all_reports_name_all_hold(reports: int) -> None:
    """More reports name the value than the chance of its holders explains.

    From 2**51 reports on the chance of a name under the saddlepoint was rounded to 1.
    """
    seen = np.array([reports - 1, reports])
    for touched, untouched in np.random.default_rng(1).random((40, 2)) * (0.6, 0.1) + (0.3, 0.1):
        low, high = count_interval(seen, reports, (touched, untouched), 0.025)
        assert low.tolist() == high.tolist() == [reports] * 2


@pytest.mark.exact
@pytest.mark.parametrize("reports", [40, 400, 1_000_000])
@pytest.mark.parametrize(
    "mechanism",
    [
        RandomizedResponse(categories=NAMES, epsilon=6.0),
        UnaryEncoding(categories=NAMES, epsilon=1.0),
        SubsetSelection(categories=NAMES, epsilon=0.5),
        BitFlip(bounds=(0, 4), buckets=4, bits=4, epsilon=2.0),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_the_noise_floor_is_the_least_count_that_is_discovered(
    mechanism: Mechanism, reports: int
) -> None:
    """The twin, a normal floor, lies below that count where it is of few reports."""
    channel, generator = mechanism.support, np.random.default_rng(1)
    values = getattr(mechanism, "categories", ("0.5",))[:1]
    found = decode(draw_table(mechanism, values, counts=np.array([reports]), generator=generator))
    largest = found.rule.largest(found.p_value)
    chances = binom.sf(np.arange(reports + 1), reports, float(channel.untouched))
    named = np.flatnonzero(chances <= largest)[:1] + 1
    (least,) = channel.holders(named, reports)
    assert found.noise_floor() == pytest.approx(least)
    assert least > norm.isf(largest) * found.noise or reports > 400


def _convolved(size: int, holders: int, others: int, pooled: Pooled) -> Floats:
    """Return the law of the number of reports that name a value, of clients with `size` each."""
    law, (shows, lies) = np.ones(1), pooled.shows
    for number, chance in zip((holders, others), pooled.permanent, strict=True):
        of_two = (binom.pmf(np.arange(size + 1), size, p) for p in (lies, shows))
        one = np.average([*of_two], axis=0, weights=(1 - chance, chance))
        for _ in range(number):
            law = np.convolve(law, one)
    return law


def _settings(number: int) -> list[tuple[int, int, int, Pooled]]:
    generator, settings = np.random.default_rng(5), []
    for _ in range(number):
        clients, size = (int(generator.choice(of)) for of in ((1, 2, 5, 20, 60), (2, 3, 7, 30)))
        holders = int(generator.integers(clients + 1))
        lies = np.exp(generator.uniform(np.log(1e-3), np.log(0.45), 2))
        (p, q), (shows, not_shows) = ((generator.uniform(x + 0.05, 0.999), x) for x in lies)
        settings.append(
            (size, holders, clients - holders, Pooled(size, (p, q), (shows, not_shows)))
        )
    return settings


@pytest.mark.exact
def test_tails_of_reports_under_permanent_responses_are_those_of_a_convolution() -> None:
    """No tail from 1e-5 to .2 is smaller than seven tenths of the exact one.

    The twin is the binomial law of as few reports as have the variance (Kish), in which some are a
    tenth.
    """
    least, twin = np.inf, np.inf
    for size, holders, others, pooled in _settings(300):
        law = _convolved(size, holders, others, pooled)
        tail = law[::-1].cumsum()[::-1][1:]
        seen: Floats = np.arange(1.0, law.size)
        ends = pooled.normal(seen - 0.5, size * holders * np.ones(seen.size), size * others)
        where = (tail > 1e-5) & (tail < 0.2)
        least = min(least, (norm.sf(ends)[where] / tail[where]).min(initial=np.inf))
        share, reports = float(seen @ law[1:]) / (law.size - 1), law.size - 1
        unit = float(seen**2 @ law[1:] - (seen @ law[1:]) ** 2) / (reports * share * (1 - share))
        fewer = max(1, int(reports / max(unit, 1)))
        kish = binom.sf(np.floor(seen * fewer / reports) - 1, fewer, share)
        twin = min(twin, (kish[where] / tail[where]).min(initial=np.inf))
    assert least > 0.7
    assert twin < 0.1


@pytest.mark.exact
@pytest.mark.parametrize(
    ("clients", "size", "pooled"),
    [
        (400_000, 2, Pooled(2, (2e-5, 1e-5), (0.27, 7.3e-6))),  # memoised-rr of 100,000 values
        (1_000_000, 3, Pooled(3, (6e-6, 3e-6), (0.5, 1e-7))),
        (100_000, 5, Pooled(5, (4e-4, 2e-4), (0.1, 3e-4))),
    ],
)
def test_tails_of_few_permanent_responses_among_many_clients_are_exact(
    clients: int, size: int, pooled: Pooled
) -> None:
    """With a grid as wide as all reports could need, some were 0 and others 3.5 times as large."""
    shows, lies = pooled.shows
    seen: Floats = np.arange(1.0, 300)
    tail = np.zeros(seen.size)
    for naming in range(120):
        by_naming = binom.pmf(np.arange(size * naming + 1), size * naming, shows)
        by_others = binom.pmf(np.arange(seen.size), size * (clients - naming), lies)
        law = np.convolve(by_naming, by_others)[: seen.size]
        tail += binom.pmf(naming, clients, pooled.permanent[1]) * (1 - law.cumsum())
    where = (tail > 1e-8) & (tail < 0.9)
    ends = pooled.normal(seen - 0.5, 0.0, float(size * clients))
    assert norm.sf(ends)[where] == pytest.approx(tail[where], rel=0.01)


@pytest.mark.exact
def test_tails_of_equal_counts_are_computed_once() -> None:
    pooled = Pooled(2, (2e-5, 1e-5), (0.27, 7.3e-6))
    law = CountLaw(10**6, 1e-5, pooled)
    counts = np.tile(np.arange(10), 2_000)
    channel = RandomizedResponse(categories=NAMES, epsilon=1.0).support
    ends = partial(share_interval, channel=channel, tail=0.05, pooled=pooled)
    one_each = ends(np.arange(10), np.arange(20, 30))
    tracemalloc.start()
    tails = law.above(counts)
    low, high = ends(counts, counts + 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * 2**20  # POINTS numbers for each took 400 MB
    assert tails.tolist() == [float(law.above(count)) for count in range(10)] * 2_000
    assert low.tolist() == one_each[0].tolist() * 2_000
    assert high.tolist() == one_each[1].tolist() * 2_000


@pytest.mark.exact
def test_the_least_count_that_is_discovered_is_where_the_tail_falls_below() -> None:
    for size, holders, others, pooled in _settings(40):
        clients, q = holders + others, pooled.permanent[1]
        share = pooled.shows[1] + q * (pooled.shows[0] - pooled.shows[1])
        law = CountLaw(size * clients, share, pooled)
        exact = _convolved(size, 0, clients, pooled)
        numbers = np.arange(exact.size)
        spread = np.sqrt(exact @ (numbers - exact @ numbers) ** 2)
        least = round(float(law.upper(0.01) * spread + share * size * clients))
        assert law.above(least - 1) <= 0.01
        assert least == 0 or law.above(least - 2) > 0.01
