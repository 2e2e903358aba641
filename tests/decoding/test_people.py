"""Errors from sampling people depend on people, however many reports one of them sends."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from ldp.decoding import decode
from ldp.decoding.by_category import decode_by_category
from ldp.decoding.distribution import Distribution, decode_distribution
from ldp.decoding.means import decode_mean, decode_regression
from ldp.errors import ParameterError
from ldp.mechanisms import (
    Dummies,
    HierarchicalHistogram,
    OneBitMean,
    Piecewise,
    RandomizedResponse,
    RegressionMoments,
)
from ldp.registry import Registry
from ldp.simulation import Population, draw_table
from ldp.simulation.tables import draw_people_table
from ldp.tables.estimates import Estimates
from ldp.tables.table import Table
from simulations.publish import START
from tests.publications import World

REPORTS, EPSILON, K = 2_000, 4.0, 7.0
MANY = 50 * REPORTS
"""Number of reports of so many people that errors are normal."""
Z = float(norm.isf(0.025))


def table(mechanism: Any, values: list[Any], reports: int = REPORTS) -> Any:
    counts = np.full(len(values), reports // len(values))
    return draw_table(mechanism, values, counts=counts, generator=np.random.default_rng(1))


@pytest.mark.exact
def test_a_share_has_k_times_the_variance_of_people() -> None:
    """This holds to 2 %: the exact interval of one report a person is not quite a normal one."""
    once = decode(
        table(RandomizedResponse(categories=("a", "b"), epsilon=EPSILON), ["a", "b"], MANY)
    )
    often = once.at(reports_per_person=K)
    assert isinstance(often, Estimates)
    for estimates, people in ((once, 1.0), (often, K)):
        low, high = estimates.interval(population=True)
        share = estimates.count / MANY
        error = np.sqrt(estimates.std_error**2 + people * share * (1 - share) * MANY)
        np.testing.assert_allclose((high - low) / (2 * Z), error, rtol=0.02)
    assert (np.array(once.interval()) == np.array(often.interval())).all()
    assert once.to_csv() == often.to_csv()
    assert often.summary["reports_per_person"] == K
    assert "reports_per_person" not in once.summary
    for wrong in (0.5, float("inf"), float("nan")):
        with pytest.raises(ParameterError, match="1 or more"):
            once.at(reports_per_person=wrong)


@pytest.mark.exact
@pytest.mark.parametrize("mechanism", [OneBitMean, Piecewise])
def test_a_mean_has_the_most_that_its_range_allows(mechanism: Any) -> None:
    once = decode_mean(table(mechanism(bounds=(0.0, 10.0), epsilon=EPSILON), [2.0, 4.0], MANY))
    often = once.at(reports_per_person=K)
    added = (K - 1) * once.mean * (10 - once.mean) / MANY
    assert often.std_error**2 == pytest.approx(once.std_error**2 + added, rel=0.03)
    low, high = often.interval()
    assert (high - low) / (2 * Z) == pytest.approx(often.std_error, rel=0.01)
    assert (once.mean, once.reports) == (often.mean, often.reports)


def _ends_of(kind: str, holders: int, people: int, each: int, level: float) -> Any:
    """Return the ends for the share of people who hold the upper value, from reports that do not
    lie; `kind`: how it is decoded."""
    upper, reports = holders * each, people * each
    counts: Any = [[reports - upper, upper]]
    if kind == "count":
        mechanism: Any = RandomizedResponse(categories=("a", "b"), epsilon=40.0)
        estimates = decode(Table.from_counts(mechanism, counts, reports), ("b",))
        low, high = estimates.at(reports_per_person=each).interval(level, population=True)
        return low[0] / reports, high[0] / reports
    if kind == "mean":
        bit = OneBitMean(bounds=(0.0, 1.0), epsilon=40.0)
        mean = decode_mean(Table.from_counts(bit, counts, reports))
        return mean.at(reports_per_person=each).interval(level)
    halves = HierarchicalHistogram(bounds=(0.0, 1.0), buckets=2, epsilon=40.0)
    numbers = decode_distribution(Table.from_counts(halves, counts, reports))
    row = numbers.at(reports_per_person=each).between(0.5, 1.0, level)
    return row.low, row.high


@pytest.mark.exact
@pytest.mark.parametrize("kind", ["count", "mean", "share"])
@pytest.mark.parametrize("people", [4, 40])
def test_an_interval_holds_for_few_people_with_many_reports(kind: str, people: int) -> None:
    """Every number of holders has its exact probability. The twin takes reports for people."""
    holders = np.arange(people + 1)
    for level in (0.95, 0.999):
        ends = np.array([_ends_of(kind, h, people, 5, level) for h in holders.tolist()])
        alone = np.array([_ends_of(kind, h, people * 5, 1, level) for h in (holders * 5).tolist()])
        for share in (0.5, 0.25, 0.1, 1 / people):
            chance = binom.pmf(holders, people, share)
            covered, twin = (
                float(chance @ ((low <= share + 1e-6) & (share - 1e-6 <= high)))
                for low, high in (ends.T, alone.T)
            )
            assert covered > level - 1e-4
            assert twin < level or share == 1 / people


@pytest.mark.exact
def test_a_distribution_has_people_once_for_all_its_levels() -> None:
    once = decode_distribution(
        table(
            HierarchicalHistogram(bounds=(0.0, 64.0), epsilon=EPSILON),
            [*np.arange(0.5, 64, 2)],
            MANY,
        )
    )
    for fakes in (None, 0.01):
        here = replace(once, fake_share=fakes)
        often = here.at(reports_per_person=K)
        assert isinstance(often, Distribution)
        (f, error), (_, more) = here.below, often.below
        added = (K - 1) * f * (1 - f) / (MANY - 1_000 * bool(fakes))
        if fakes is None:
            np.testing.assert_allclose(more**2 - error**2, added, atol=0.2 * added.max())
        assert (more >= error).all()
        few, many = here.quantile(0.5), often.quantile(0.5)
        assert many.low <= few.low < few.high <= many.high
        assert few.estimate == pytest.approx(many.estimate, rel=1e-3)
    often = once.at(reports_per_person=K)
    np.testing.assert_allclose(often.error_draws.std(axis=1), 1, atol=0.15)
    weight, share = np.arange(len(once.share)) / len(once.share), np.clip(once.share, 0, 1)
    share = share / max(1.0, float(share.sum()))
    (_, alone, _), (_, together, _) = once.linear(weight), often.linear(weight)
    spread = weight**2 @ share - (weight @ share) ** 2
    assert together**2 - alone**2 == pytest.approx((K - 1) * spread / MANY, rel=0.05)


@pytest.mark.exact
def test_messages_are_of_a_population_too() -> None:
    messages = Dummies(categories=("a", "b", "c"), slots=4, probability=0.5)
    people = Population(messages.categories, counts=np.array([1000, 500, 500]))
    drawn: Any = draw_people_table(messages, people, np.random.default_rng(1))
    found = decode(drawn)
    share = found.count / people.users
    for end, far in zip(found.interval(), found.interval(population=True), strict=True):
        added = (far - found.count) ** 2 - (end - found.count) ** 2
        np.testing.assert_allclose(added, Z**2 * share * (1 - share) * people.users)


@pytest.mark.exact
def test_categories_and_coefficients_are_of_people_too() -> None:
    by = HierarchicalHistogram(bounds=(0.0, 64.0), epsilon=EPSILON, by=("x", "y"))
    parts = decode_by_category(table(by, [("x", 5.0), ("y", 40.0)]))
    wide = parts.at(reports_per_person=K)["x"].statistics()
    for before, after in zip(parts["x"].statistics(), wide, strict=True):
        assert after.low <= before.low
        assert before.high <= after.high
    assert parts.at(reports_per_person=K).summary["reports_per_person"] == K
    moments = RegressionMoments(features=1, bounds=((0.0, 1.0), (0.0, 1.0)), epsilon=EPSILON)
    fit = decode_regression(table(moments, [(0.0, 0.2), (1.0, 0.8), (0.5, 0.5)]))
    widened = fit.at(reports_per_person=K)
    assert (widened.std_error > 1.5 * fit.std_error).all()
    assert (widened.std_error < K**0.5 * fit.std_error).all()


@pytest.mark.exact
@pytest.mark.parametrize(
    ("days", "hours", "most"),
    [
        (1, 24, 2),
        (7, 24, 14),
        (1, 12, 4),
        (7, 48, 8),
        (7, 72, 6),
        (7, 96, 6),
        (1, 720, 2),
        (7, 168, 4),
    ],
)
def test_the_windows_of_a_period_are_counted(
    world: World, days: int, hours: int, most: int
) -> None:
    """Another way gives the same: the windows that each of many periods touches."""
    metric = (
        Registry.load(world.top / "metrics.toml").metric("theme")._replace(reports_per_window=2)
    )
    touched = []
    for start in range(0, 24 * 7 * 30, 24):
        touched.append(len({hour // hours for hour in range(start, start + 24 * days)}))
    assert 2 * max(touched) == most
    assert metric.reports_of_one(timedelta(days=days), timedelta(hours=hours)) == most


@pytest.mark.exact
def test_a_week_has_seven_reports_of_a_person(world: World) -> None:
    for day in range(4, 11):
        world.write("battery", day)
    assert world.publish(period="week").problems == []
    (path,) = (world.out / "estimates" / "battery" / "v1").glob("*.json")
    summary = json.loads(path.read_text("utf-8"))
    assert (summary["reports"], summary["reports_per_person"]) == (2_800, 7.0)
    page = (world.out / "site" / "metrics" / "battery.html").read_text("utf-8")
    assert "of whom one sent 7 at most: 2.6 times" in page
    assert path.stem == str(START + timedelta(days=4))
    world.write("battery", 6, "b", people=4_000)  # late reports: not everybody has seven
    assert world.publish(period="week").problems == []
    summary = json.loads(path.read_text("utf-8"))
    numbers = [400, 400, 4_400, 400, 400, 400, 400]
    pairs = sum(min(a, b) for a in numbers for b in numbers)
    assert summary["reports_per_person"] == pytest.approx(pairs / sum(numbers))
