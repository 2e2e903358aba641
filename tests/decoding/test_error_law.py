"""The law of a sketch's error holds for heavy values, unlisted values and very many reports."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom, poisson

from ldp import CountMeanSketch, Rappor
from ldp.decoding.error_law import Collisions
from ldp.mechanisms.local_hashing import LocalHashing
from ldp.mechanisms.sketch import MeanSketch
from ldp.server import Table, decode
from ldp.simulation import draw_table
from ldp.tables.estimates import Rule
from tests.statistics import ALPHA, share_p
from tests.tiers import tiered


@pytest.mark.exact
@pytest.mark.parametrize(
    "mechanism",
    [
        LocalHashing(epsilon=8.0, rows=64, seed="00"),
        CountMeanSketch(epsilon=4.0, rows=64, width=1024, seed="00"),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_a_value_that_many_hold_does_not_collide_with_itself(mechanism: MeanSketch) -> None:
    """One value is held by 150 and no other is heavy; the other 350 reports collide one by one.

    So the value's law is the sum of two binomials. The twin, the law of a value that nobody holds,
    is not.
    """
    rows, width = mechanism.shape
    p, q = float(mechanism.channel.touched), float(mechanism.channel.untouched)
    known = Collisions(
        channel=mechanism.channel, reports=500, rows=rows, width=width, heavy=[150.0]
    )
    law, absent = known.law(150.0, is_heavy=True), known.law()
    own, rest = np.arange(151), np.arange(351)
    exact = np.convolve(binom.pmf(own, 150, p), binom.pmf(rest, 350, q + (p - q) / width))
    assert law.mean == pytest.approx(float(exact @ np.arange(exact.size)))
    beyond = exact[::-1].cumsum()[::-1]
    middle = int(law.mean)
    for least in range(middle - 40, middle + 40, 5):
        assert float(law.p_value(np.array([least]))[0]) == pytest.approx(
            float(beyond[least]), rel=1e-6, abs=1e-12
        )
    assert absent.upper(1e-6) > law.upper(1e-6) + 0.1


@pytest.mark.exact
def test_estimates_that_add_to_more_than_the_reports_leave_the_tail_as_it_is() -> None:
    """Of 404 reports 399 seem to hold one value, and four others 63: noise hardly moves S.

    It reaches a number at least as often as collisions with the one value alone do. On no whole
    number the FFT oscillated, and 9 or more reports had a p-value of 1e-15.
    """
    sketch = LocalHashing(epsilon=6.0, rows=128, seed="00")
    rows, width = sketch.shape
    heavy = [399.26, 17.37, 15.33, 15.33, 15.33]
    known: dict[str, Any] = {"rows": rows, "width": width, "heavy": heavy}
    known |= {"unknown": 3247.8, "unknown_most": 67.0}
    law = Collisions(channel=sketch.channel, reports=404, **known).law()
    collided, least = np.arange(rows + 1), np.arange(1, 16)
    mean = collided * heavy[0] / rows * sketch.channel.gain
    alone = poisson.sf(least[:, None] - 1, mean) @ binom.pmf(collided, rows, 1 / width)
    assert (law.p_value(least) > alone).all()
    assert (law.p_value(least) < 20 * alone).all()


@pytest.mark.exact
@pytest.mark.parametrize("width", [2, 4, 1024])
@pytest.mark.parametrize("held", [{}, {"heavy": [6e4, 3e4]}, {"small_squares": 5e8}])
def test_a_law_has_the_standard_deviation_that_its_reach_is_measured_in(
    width: int, held: dict[str, Any]
) -> None:
    """The law is of 100,000 reports in 128 rows. The twin is the variance of a collision without
    its mean squared, as of ever so many columns."""
    channel = CountMeanSketch(epsilon=4.0, rows=128, width=width, seed="00").channel
    law = Collisions(channel=channel, reports=100_000, rows=128, width=width, **held).law()
    chances = -np.diff(law.mild)
    places = law.start + law.step * (np.arange(chances.size) + 0.5) - law.mean
    assert np.sqrt(chances @ places**2) == pytest.approx(law.std, rel=3e-3)
    squares = sum(x**2 for x in held.get("heavy", [])) + held.get("small_squares", 0)
    twin = law.std**2 + (channel.gain / width) ** 2 * (100_000 + squares / 128)
    if width < 5:
        assert np.sqrt(twin) > 1.02 * law.std


@pytest.mark.exact
@pytest.mark.parametrize("reports", [10**8, 10**10, 10**12, 10**14])
def test_the_law_of_very_many_reports_is_normal(reports: int) -> None:
    """The rounding of the transform does not grow with the reports, since each factor is
    centred."""
    channel = CountMeanSketch(epsilon=4.0, rows=65_536, width=1_024, seed="00").channel
    law = Collisions(channel=channel, reports=reports, rows=65_536, width=1_024).law()
    for p in (0.025, 1e-4, 1e-8):
        assert law.upper(p) == pytest.approx(-ndtri(p), rel=0.01)
        assert law.lower(p) == pytest.approx(-ndtri(p), rel=0.01)


def _tables(
    mechanisms: list[MeanSketch], values: tuple[str, ...], counts: list[int]
) -> list[Table]:
    generator = np.random.default_rng(5)
    return [
        draw_table(mechanism, values, counts=np.array(counts), generator=generator)
        for mechanism in mechanisms
    ]


@pytest.mark.slow
@pytest.mark.statistical
def test_intervals_of_values_that_many_hold_hold() -> None:
    """The share of intervals that hold in 60 tables is in [0.92, 0.98], tested at ALPHA.

    The 8 intervals of a table count as independent. The twin gives every value the law of one that
    nobody holds.
    """
    values = tuple(f"v{i}" for i in range(8))
    counts = [50_000, 20_000, 10_000, *[1_000] * 5]
    held = absent = 0
    mechanisms = [LocalHashing(epsilon=8.0, rows=64, seed=f"{i:04x}") for i in range(1, 61)]
    for table in _tables([*mechanisms], values, counts):
        found = decode(table, values, method="mean-sketch")
        low, high = found.interval()
        held += int(((low <= counts) & (counts <= high)).sum())
        reach = [side(0.025) * found.std_error for side in (found.law.upper, found.law.lower)]
        low, high = found.count - reach[0], found.count + reach[1]
        absent += int(((low <= counts) & (counts <= high)).sum())
    assert share_p(held, 480, 0.92, 0.98) > ALPHA
    assert share_p(absent, 480, 0.92, 0.98) < ALPHA


@pytest.mark.slow
@pytest.mark.statistical
def test_a_heavy_value_that_no_list_names_makes_no_discoveries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """60 % of the reports hold a value that is not on the list.

    With Bonferroni at 0.05, a table has a false discovery with that probability, and 14 of 25
    tables or more have one with probability below ALPHA. The twin takes what is unknown for many
    small values.
    """
    values = tuple(f"v{i}" for i in range(13))
    absent = tuple(f"absent-{i}" for i in range(1000))
    mechanisms = [
        CountMeanSketch(epsilon=8.0, rows=64, width=1024, seed=f"{i:04x}") for i in range(1, 26)
    ]
    tables = _tables([*mechanisms], values, [60_000, *[3_000] * 12])
    rule = Rule(control="bonferroni")

    def wrong() -> int:
        listed, method = (*values[1:], *absent), "mean-sketch"
        found = [decode(table, listed, rule=rule, method=method) for table in tables]
        return sum(bool(estimates.detected()[12:].any()) for estimates in found)

    assert binom.sf(13, 25, 0.05) < ALPHA
    assert wrong() < 14
    monkeypatch.setattr(Collisions, "_single", 0.0)
    assert wrong() >= 14


def test_what_is_clearly_held_depends_on_how_many_candidates_there_are() -> None:
    """Of 100,000 candidates that nobody holds, hundreds share many cells with the three heavy
    values.

    Their counts are four standard errors from 0. If they counted as held, 16 % of the absent
    candidates' intervals would hold 0.
    """
    values = tuple(f"v{i}" for i in range(1003))
    counts = [300_000, 200_000, 150_000, *[350] * 1000]
    absent = tuple(f"absent-{i}" for i in range(100_000))
    mechanism = CountMeanSketch(epsilon=4.0, rows=64, width=1024, seed="01")
    (table,) = _tables([mechanism], values, counts)
    found = decode(table, (*values[:3], *absent))
    low, high = found.interval()
    assert ((low[:3] <= counts[:3]) & (counts[:3] <= high[:3])).all()
    assert 0.93 < float(np.mean((low[3:] <= 0) & (high[3:] >= 0))) < 0.98
    far = float(np.mean(found.count[3:] > 4 * found.std_error[3:]))
    assert far > 0.003


@pytest.mark.statistical
@pytest.mark.parametrize(
    "mechanism",
    tiered(
        [
            LocalHashing(epsilon=1.5, rows=16),
            CountMeanSketch(epsilon=4.0, rows=16, width=256),
            LocalHashing(epsilon=4.0, rows=1024),
        ],
        0,
        2,
    ),
    ids=lambda mechanism: f"{mechanism.name}-{mechanism.rows}",
)
def test_intervals_of_two_reports_of_a_sketch_hold(mechanism: MeanSketch) -> None:
    """Both reports hold the value; of 500 tables, 0.93 or more intervals hold 2, at ALPHA.

    The twin has the intervals of the error's distribution alone.
    """
    values, generator = ("v0", "v1"), np.random.default_rng(3)
    counts = np.array([2, 0])
    tables = [draw_table(mechanism, values, counts=counts, generator=generator) for _ in range(500)]
    decoded: list[Any] = [decode(table, values) for table in tables]

    def holding(of: Iterable[Any]) -> int:
        ends = (estimates.interval() for estimates in of)
        return sum(bool(low[0] <= 2 <= high[0]) for low, high in ends)

    assert share_p(holding(decoded), 500, 0.93, 1.0) > ALPHA
    twins = (replace(each, bounds=replace(each.bounds, few=None)) for each in decoded)
    assert share_p(holding(twins), 500, 0.93, 1.0) < ALPHA


@pytest.mark.parametrize(
    "mechanism",
    [
        Rappor(f=0.0, p=0.01, q=0.99, bits=128, hashes=2, cohorts=16, seed="01"),
        LocalHashing(epsilon=8.0, rows=16),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_hardly_any_reports_discover_nothing(mechanism: Rappor | LocalHashing) -> None:
    """From one report, a regression once discovered 21 of 30 values that nobody holds, or six of
    ten."""
    values, generator = tuple(f"v{i}" for i in range(30)), np.random.default_rng(4)
    for reports in (1, 2, 5):
        counts = np.array([reports, *[0] * 29])
        table = draw_table(mechanism, values, counts=counts, generator=generator)
        estimates = decode(table, values)
        assert not estimates.detected().any()
        assert "discovered but by threshold" in estimates.warnings()[0]


@pytest.mark.statistical
@pytest.mark.parametrize("is_other", [False, True])
def test_what_two_periods_share_is_as_stated(is_other: bool) -> None:
    """The errors of 4,000 values that nobody holds, in two periods, correlate by the stated share.

    The people are the same, and the standard error is below .02. The twin has other hash functions
    in the second period.
    """
    values, absent = ("a", "b"), tuple(f"absent-{i}" for i in range(4_000))
    seeds = ("01", "02" if is_other else "01")
    sketches = [CountMeanSketch(epsilon=4.0, rows=4_096, width=16, seed=seed) for seed in seeds]
    generator, found = np.random.default_rng(8), []
    for sketch in sketches:
        people = np.array([30_000, 10_000])
        table = draw_table(sketch, values, counts=people, generator=generator)
        found.append(decode(table, absent, method="mean-sketch"))
    stated = found[0].details["shared_variance"]
    assert 0.2 < stated < 0.8
    correlation = np.corrcoef(found[0].count, found[1].count)[0, 1]
    assert (abs(correlation - stated) < 0.1) is not is_other
