"""Intervals of differences between arms of an experiment hold, even if one looks every day."""

import csv
import json
import math
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm, poisson

from ldp.collection import ReportWriter
from ldp.decoding.means import decode_mean
from ldp.errors import ParameterError
from ldp.mechanisms import OneBitMean
from ldp.publishing.experiments import (
    ALPHA,
    TYPICAL,
    ArmPeriod,
    arm_differences,
    intervals,
    numbers_of_arm,
)
from ldp.registry import Registry
from ldp.report.formats import in_points, quantity
from ldp.simulation import Population, draw_reports
from ldp.tables.result import SUMMARY_DIGEST, summary_digest
from ldp.tables.table import Table
from simulations.publish import HEAD, METRIC, METRICS, START
from tests.command_line import settings
from tests.pages import sign
from tests.pages import words as words_of
from tests.publications import run

KEYS = 'mechanism = "rr"\nepsilon = 2.0\ncategories = ["light", "dark", "system"]'
MEMOISED, MEANS = METRICS["shortcut"][1], METRICS["battery"][1]
MANY, DAYS = 4_000, 60
"""Number of simulated experiments, and of days of each."""


@pytest.mark.exact
def test_the_interval_of_one_period_is_the_stated_one() -> None:
    v, s = 0.01**2, 0.004
    mean, distance = intervals(np.array([[0.03]]), np.array([[v]]), np.array([[s]]))
    a = ALPHA / 2
    noise = math.sqrt(v * (1 + TYPICAL) * math.log((1 + TYPICAL) / (TYPICAL * a**2)))
    people = s * norm.isf(3 * a / math.pi**2)
    assert mean[0] == pytest.approx(0.03)
    assert distance[0] == pytest.approx(noise + people, rel=1e-12)


@pytest.mark.exact
def test_periods_without_an_estimate_say_nothing() -> None:
    numbers = np.array([[0.1, np.nan, 0.3], [np.nan, np.nan, 0.3], [0.3, np.nan, 0.3]])
    variance = np.full((3, 3), 1e-4)
    variance[:2, 2] = 0, np.inf
    mean, distance = intervals(numbers, variance, np.zeros((3, 3)))
    assert mean == pytest.approx([0.2, 0, 0.3])
    assert np.isinf(distance).tolist() == [False, True, False]


def missed(people: str, naive: bool = False) -> float:
    """Return the share of experiments of which any day's interval misses the truth, 0.05.

    The noise varies between days. `people`: every day the "same" people report, or "others", or
    "all" people, whose choice adds no error.
    """
    random = np.random.default_rng(2)
    error = random.uniform(0.005, 0.02, (DAYS, 1)) * np.ones((1, MANY))
    s = 0.0 if people == "all" else 0.01
    chosen = random.normal(0, s, (1 if people == "same" else DAYS, MANY))
    difference = 0.05 + random.normal(0, error) + chosen
    is_missed = np.zeros(MANY, bool)
    for day in range(1, DAYS + 1):
        parts = difference[:day], error[:day] ** 2, np.full((day, MANY), s)
        mean, distance = intervals(*parts, alpha=ALPHA * MANY)  # each has a level of its own
        if naive:
            distance = 1.96 / np.sqrt((1 / parts[1]).sum(0))
        is_missed |= np.abs(mean - 0.05) > distance
    return float(is_missed.mean())


@pytest.mark.statistical
@pytest.mark.parametrize("people", ["all", "same", "others"])
def test_intervals_hold_at_every_look(people: str) -> None:
    """At most 5 % are ever missed; more than 6.6 % would have probability 1e-5 if it were 5."""
    assert missed(people) < 0.066


@pytest.mark.statistical
def test_a_fixed_interval_would_be_missed() -> None:
    """The twin has intervals of 95 % for one look, and misses 31 % of 4,000 experiments.

    20 % or fewer would have probability below 1e-20.
    """
    assert missed("all", naive=True) > 0.2


def missed_where_reports_are_rare(reports: float, alpha: float, step: float) -> float:
    """Return the probability that the interval of any day misses, by all paths of a Poisson walk.

    On each day a value is reported as often as a Poisson number with mean `reports` says.
    """
    number = np.arange(int(DAYS * reports + 40 * math.sqrt(DAYS * reports)) + 60)
    still, missed = 1.0 * (number == 0), 0.0
    for day in range(1, DAYS + 1):
        parts = np.zeros((day, 1)), np.full((day, 1), reports), np.zeros((day, 1))
        (distance,) = intervals(*parts, alpha, step=step)[1]
        still = np.convolve(still, poisson.pmf(number, reports))[: number.size]
        is_missed = np.abs(number / day - reports) > distance
        missed += still[is_missed].sum()
        still[is_missed] = 0
    return missed


@pytest.mark.exact
@pytest.mark.parametrize("alpha", [0.05, 5e-4, 5e-7])
def test_intervals_hold_where_a_value_is_rarely_reported(alpha: float) -> None:
    """Half of `alpha` is for noise. The twin takes it for normal."""
    for reports in (0.001, 0.01, 0.03, 0.1, 0.3, 1, 3, 10):
        assert missed_where_reports_are_rare(reports, alpha, 1) < alpha / 2
    assert missed_where_reports_are_rare(0.01, alpha, 0) > 3 * alpha / 2


@pytest.mark.statistical
def test_a_small_arm_is_not_taken_for_less_than_it_is() -> None:
    """Of 300 reports a day at epsilon 0.5 one in 100 holds each value.

    The mean error of 4,000 values is 5 standard errors from 0 with probability 6e-7. The twin
    weights days by their own variances, and is 40 below.
    """
    random, n, share, days = np.random.default_rng(6), 300, 0.01, 20
    q = 1 / (math.exp(0.5) + 99)
    p = math.exp(0.5) * q
    named = random.binomial(n, q + (p - q) * share, (days, MANY))
    number = (named / n - q) / (p - q)
    held = np.clip(number, 0, 1)
    error = np.sqrt((held * p * (1 - p) + (1 - held) * q * (1 - q)) / n) / (p - q)
    keys = [("count", str(value)) for value in range(MANY)]
    arm = [
        ArmPeriod(dict(zip(keys, zip(*cells, strict=True), strict=True)), (0.0, 1.0), n, 1, 0.0)
        for cells in zip(number.tolist(), error.tolist(), strict=True)
    ]
    number, noise, people = numbers_of_arm(arm, keys)
    apart = math.sqrt(q * (1 - q) / n / days / MANY) / (p - q)
    for variance, least, most in ((noise, -5, 5), (error**2, -math.inf, -40)):
        mean = intervals(number - share, variance, np.sqrt(people))[0].mean()
        assert least < mean / apart < most


@pytest.mark.exact
def test_looking_every_day_costs_less_than_twice_the_width() -> None:
    """After four weeks of noise alone, the width is compared with one day's interval of 97.5 %."""
    parts = np.zeros((28, 1)), np.full((28, 1), 1e-4), np.zeros((28, 1))
    (distance,) = intervals(*parts)[1]
    assert 1 < distance / (norm.isf(0.0125) * 0.01 / math.sqrt(28)) < 1.5


COLOURS = ("light", "dark", "system")


def stored(
    top: Path,
    metrics: Mapping[str, tuple[int, ...]],
    days: int = 7,
    keys: str = KEYS,
    values: tuple[str, ...] = COLOURS,
) -> list[Any]:
    """Write a registry and reports of these metrics; return the words of `ldp publish`.

    The reports follow how many people hold each of the values.
    """
    of = {name: MEMOISED if name == "kept" else keys for name in metrics}
    (top / "words.txt").write_text("light\ndark\nsystem\n")
    text = [METRIC.format(name=n, version=1, about="a number", keys=k) for n, k in of.items()]
    (top / "metrics.toml").write_text(HEAD + "".join(text))
    registry, random = Registry.load(top / "metrics.toml"), np.random.default_rng(3)
    for name, counts in metrics.items():
        mechanism = registry.metric(name).mechanism
        people = Population(values, counts=np.array(counts))
        for day in range(days):
            at = START + timedelta(days=day)
            with ReportWriter(top / "store", name, 1, mechanism, at, "a") as writer:
                for batch in draw_reports(mechanism, people, random):
                    writer.write(*batch)
    common = ["--registry", top / "metrics.toml", "--store", top / "store", "--out", top / "out"]
    return ["publish", *common, "--until", START + timedelta(days=days - 1)]


@pytest.mark.statistical
def test_publish_compares_two_arms(tmp_path: Path) -> None:
    """14 of 100 people moved from light to dark; all intervals hold with probability 0.95 or more.

    The seed is fixed. The twin, no change at all, is refuted by the intervals of two values.
    """
    metrics = {"before": (6_000, 3_000, 1_000), "after": (4_600, 4_400, 1_000)}
    done = run(*stored(tmp_path, metrics), *settings(tmp_path, arms=["after:before"]))
    assert done.exit_code == 0, done.output
    lines = (tmp_path / "out" / "arms" / "after.before.csv").read_text().splitlines()
    rows = {row["value"]: row for row in csv.DictReader(lines)}
    truth = {"light": -0.14, "dark": 0.14, "system": 0.0}
    for value, true in truth.items():
        row = rows[value]
        assert float(row["low"]) < true < float(row["high"])
        assert (float(row["low"]) < 0 < float(row["high"])) == (true == 0)
        assert (row["first"], row["last"], row["periods"]) == ("2026-01-01", "2026-01-07", "7")
        assert (f"after:before: {value}: " in done.output) == (true != 0)
    site = tmp_path / "out" / "site"
    index = (site / "index.html").read_text("utf-8")
    assert 'href="arms/after.before.html"' in index
    assert "after and before : 2 real differences , the largest that of" in words_of(index)
    page = (site / "arms" / "after.before.html").read_text("utf-8")
    for target in re.findall(r'href="([^"#:,]+)"', page):
        assert (site / "arms" / target).exists(), target
    pattern = r'<bdi>(\w+)</bdi></th><td class="latest">(<b>)?([^< ]*)'
    shown = re.findall(pattern, page)
    assert {value for value, is_real, _ in shown if is_real} == {"light", "dark"}
    assert [value for value, _, _ in shown][-1] == "system"
    texts = {value: text for value, _, text in shown}
    assert texts["dark"] == in_points(float(rows["dark"]["difference"]))
    assert texts["dark"].startswith("+")
    assert texts["light"].startswith("\N{MINUS SIGN}")


@pytest.mark.statistical
def test_publish_compares_the_means_of_two_arms(tmp_path: Path) -> None:
    """Numbers from 0 to 100 have the means 45 and 50; the interval holds with probability 0.95 or
    more.

    The seed is fixed. The twin, no difference, is refuted.
    """
    metrics = {"new": (10_000, 10_000, 0, 0), "old": (0, 0, 10_000, 10_000)}
    values = ("10", "80", "15", "85")
    done = run(
        *stored(tmp_path, metrics, keys=MEANS, values=values), *settings(tmp_path, arms=["new:old"])
    )
    assert done.exit_code == 0, done.output
    text = (tmp_path / "out" / "arms" / "new.old.csv").read_text()
    (row,) = csv.DictReader(text.splitlines())
    assert (row["statistic"], row["value"], row["periods"]) == ("mean", "", "7")
    assert float(row["low"]) < -5 < float(row["high"]) < 0
    assert "new:old: mean: \N{MINUS SIGN}" in done.output
    site = tmp_path / "out" / "site"
    shown = quantity(float(row["difference"]))
    index = words_of((site / "index.html").read_text("utf-8"))
    assert (
        f"new and old : 1 real difference , the largest that of mean , {shown} (7 periods)" in index
    )
    page = words_of((site / "arms" / "new.old.html").read_text("utf-8"))
    assert "Mean in new minus that in old , weighted by" in page
    assert "1 real difference ; 7 periods, 2026-01-01 to 2026-01-07" in page
    assert f"mean {shown}" in page
    assert "points" not in page


@pytest.mark.exact
def test_people_vary_at_most_as_the_mean_and_the_range_allow(tmp_path: Path) -> None:
    """Half of the people are at either end of the range, and the variance is what the formula says.

    People who are nearer to their mean have less.
    """
    low, high, n = 20.0, 60.0, 400
    for numbers in ([low, high], [30.0, 50.0], [high, high]):
        mean, variance = float(np.mean(numbers)), float(np.var(numbers))
        most = (high - mean) * (mean - low)
        assert variance <= most
        assert (variance == most) == (set(numbers) <= {low, high})
    period = ArmPeriod({("mean", ""): (40.0, 1.0)}, (low, high), n, 1, shared=0.0)
    mean_, noise, people = numbers_of_arm([period], [("mean", "")])
    assert (mean_.item(), noise.item(), people.item()) == (40.0, 1.0, 20.0**2 / n)
    alike = numbers_of_arm([period._replace(shared=0.25)], [("mean", "")])
    assert (alike[1].item(), alike[2].item()) == (0.75, 20.0**2 / n + 0.25)
    estimated = [period._replace(shared=share) for share in (-0.5, 0.25)]  # below 0 on average
    assert numbers_of_arm(estimated, [("mean", "")])[1].tolist() == [[1.0], [1.0]]
    seven = period._replace(reports_per_person=7)
    assert numbers_of_arm([seven], [("mean", "")])[2].item() == pytest.approx(7 * 20.0**2 / n)


def missed_near_an_end(smoothed: bool) -> float:
    """Return the share of experiments of which any day's interval misses the truth.

    30 people of one bit at epsilon 4 are the same every day; each is at the upper end with
    probability 0.05. Another 30 are at the lower end. Without `smoothed`, the variance of who
    reports is the estimated one.
    """
    mechanism, random, n = OneBitMean(bounds=(0.0, 1.0), epsilon=4.0), np.random.default_rng(5), 30
    tables = [Table(mechanism, np.array([[n - k, k]]), np.array([n])) for k in range(n + 1)]
    decoded = [*map(decode_mean, tables)]
    keep, held = float(mechanism.channel.touched), random.binomial(n, 0.05, MANY)
    keys = [("mean", str(i)) for i in range(MANY)]

    def arm(above: Any) -> list[ArmPeriod]:
        days = []
        for _ in range(DAYS):
            ones = random.binomial(above, keep) + random.binomial(n - above, 1 - keep)
            cells = [(decoded[k].mean, decoded[k].std_error) for k in ones.tolist()]
            days.append(ArmPeriod(dict(zip(keys, cells, strict=True)), (0.0, 1.0), n, 1, False))
        return days

    arms, is_missed = (arm(held), arm(np.zeros(MANY, int))), np.zeros(MANY, bool)
    for day in range(5, DAYS + 1, 5):
        (a, noise, people), (b, noise2, people2) = (numbers_of_arm(x[:day], keys) for x in arms)
        if not smoothed:
            means = np.clip([a.mean(axis=0), b.mean(axis=0)], 0, 1)
            people, people2 = np.repeat((means * (1 - means))[:, None] / n, day, axis=1)
        parts = a - b, noise + noise2, np.sqrt(people + people2)
        mean, distance = intervals(*parts, alpha=ALPHA * MANY)  # each has a level of its own
        is_missed |= np.abs(mean - 0.05) > distance
    return float(is_missed.mean())


@pytest.mark.slow
@pytest.mark.statistical
def test_intervals_hold_where_few_of_few_people_hold_what_is_rare() -> None:
    """If 5 % were missed, more than 6.6 % would have probability 1e-5.

    The twin takes the estimated spread of the people, which is 0 where nobody is at the upper end.
    It misses 12 %, so 9 % or fewer have probability below 1e-9.
    """
    assert missed_near_an_end(smoothed=True) < 0.066
    assert missed_near_an_end(smoothed=False) > 0.09


@pytest.mark.exact
def test_periods_without_a_mean_are_not_counted_and_ranges_must_be_equal(tmp_path: Path) -> None:
    """Such periods were published before means were compared."""
    metrics = {"new": (60, 40), "old": (60, 40)}
    words = stored(tmp_path, metrics, days=3, keys=MEANS, values=("10", "80"))
    assert run(*words, *settings(tmp_path, arms=["new:old"])).exit_code == 0
    summary = tmp_path / "out" / "estimates" / "new" / "v1" / "2026-01-01.json"
    facts = {k: v for k, v in json.loads(summary.read_text()).items() if k != "bounds"}
    summary.write_text(json.dumps({**facts, SUMMARY_DIGEST: summary_digest(facts)}))
    (found,) = arm_differences(tmp_path / "out", "new", "old")
    assert (found.periods, str(found.first)) == (2, "2026-01-02")
    summary = summary.with_name("2026-01-03.json")
    sign(summary.with_suffix(".csv"), bounds=[0.0, 60.0])
    with pytest.raises(ParameterError, match="ranges differ, 0 to 60 and 0 to 100"):
        arm_differences(tmp_path / "out", "new", "old")


@pytest.mark.exact
def test_what_cannot_be_compared_is_said_in_one_line(tmp_path: Path) -> None:
    words = stored(tmp_path, {"left": (50, 30, 20), "kept": (50, 30, 20)}, days=1)
    for pair, said in (
        ("left", "arms must be METRIC:METRIC"),
        ("left:nothing", "nothing"),
        ("left:left", "names one"),
    ):
        done = run(*words, *settings(tmp_path, arms=[pair]))
        assert said in str(done.exception), pair
        assert not (tmp_path / "out").exists()


@pytest.mark.exact
def test_an_experiment_that_cannot_be_compared_holds_up_nothing(tmp_path: Path) -> None:
    """On its first night it cannot be compared; the site says what the other experiments show."""
    words = stored(tmp_path, dict.fromkeys(("left", "right", "kept"), (50, 30, 20)), days=1)
    done = run(*words, *settings(tmp_path, arms=["left:kept", "left:right"]))
    assert done.exit_code != 0
    assert "ldp: left:kept: memoised metrics share noise between periods" in done.output
    assert [path.name for path in (tmp_path / "out" / "arms").iterdir()] == ["left.right.csv"]
    index = (tmp_path / "out" / "site" / "index.html").read_text("utf-8")
    assert "left and right : no difference is more than noise (1 period)" in words_of(index)
    assert "kept and" not in index
