"""Broken builds show in the reports of a control metric; right ones hardly ever do."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from math import comb, exp, log
from pathlib import Path

import numpy as np
import pytest

from ldp import (
    CountMeanSketch,
    HadamardCountMeanSketch,
    LocalHashing,
    ProjectiveGeometry,
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
)
from ldp.errors import RegistryError
from ldp.mechanisms import Mechanism
from ldp.protocol.randomness import SeededBits
from ldp.publishing.control import (
    HASHED,
    STUCK,
    WITHOUT_NOISE,
    broken,
    joined,
    log_ratios,
    supporting,
)
from ldp.registry import Registry
from ldp.simulation import draw_table
from ldp.tables.table import Table, TableBuilder

DAY = date(2026, 1, 1)
ANSWERS = ("on", "off", "a", "b", "c")
SKETCH = HadamardCountMeanSketch(epsilon=1.0, rows=16, width=256, seed="00ff")
EACH: tuple[Mechanism, ...] = (
    RandomizedResponse(categories=ANSWERS, epsilon=1.0),
    UnaryEncoding(categories=ANSWERS, epsilon=1.0),
    SubsetSelection(categories=ANSWERS, epsilon=1.0),
    ProjectiveGeometry(categories=ANSWERS, epsilon=1.0),
    LocalHashing(epsilon=1.0, rows=16, seed="00ff"),
    CountMeanSketch(epsilon=1.0, rows=16, width=16, seed="00ff"),
    SKETCH,
)
each = pytest.mark.parametrize("mechanism", EACH, ids=lambda one: one.name)


def table(mechanism: Mechanism, n: int, seed: int, value: str = "on") -> Table:
    generator = np.random.default_rng([seed, n])
    return draw_table(mechanism, [value], counts=np.array([n]), generator=generator)


@pytest.mark.statistical
@each
def test_reports_that_support_a_value_are_binomial(mechanism: Mechanism) -> None:
    """The count is within 5 standard errors, except with probability 6e-7."""
    n, p = 200_000, float(mechanism.support.touched)
    named = supporting(table(mechanism, n, 1), "on")
    assert abs(named - n * p) < 5 * (n * p * (1 - p)) ** 0.5
    assert abs(named - n * float(mechanism.support.untouched)) > 20 * n**0.5


@pytest.mark.exact
def test_each_ratio_has_mean_one() -> None:
    """The mean is over all tables of nine reports, and over all of five reports in three rows."""
    response = EACH[0]
    p, means = float(response.support.touched), dict.fromkeys((WITHOUT_NOISE, HASHED, STUCK), 0.0)
    for named in range(10):
        counts = np.array([[named, 9 - named, 0, 0, 0]])
        probability = comb(9, named) * p**named * (1 - p) ** (9 - named)
        for cause, ratio in log_ratios(Table.from_counts(response, counts, 9), "on").items():
            means[cause] += probability * exp(ratio)
    assert means == pytest.approx(dict.fromkeys(means, 1.0))
    sketch = CountMeanSketch(epsilon=1.0, rows=2, width=2, seed="00ff")
    p, mean = float(sketch.support.touched), 0.0
    cells = [sketch.addressing.cells(sketch.addressing.point("on"), row)[0] for row in (0, 1)]
    for first in range(6):
        for one in range(first + 1):
            for other in range(6 - first):
                counts = np.zeros((2, 2), dtype=int)
                counts[0, cells[0]], counts[1, cells[1]] = one, other
                made = replace(
                    Table.empty(sketch), counts=counts, reports=np.array([first, 5 - first])
                )
                probability = comb(5, first) / 2**5
                for n, k in ((first, one), (5 - first, other)):
                    probability *= comb(n, k) * p**k * (1 - p) ** (n - k)
                mean += probability * exp(log_ratios(made, "on")[STUCK])
    assert mean == pytest.approx(1.0)


@pytest.mark.exact
def test_reports_that_hardly_lie_are_tested_too() -> None:
    """As floats, 1 - p was 0 from an epsilon of 37 on, and the ratios were divided by it."""
    sure = RandomizedResponse(categories=ANSWERS, epsilon=40.0)
    ratios = log_ratios(Table.from_counts(sure, np.array([[8, 2, 0, 0, 0]]), 10), "on")
    assert ratios[WITHOUT_NOISE] == pytest.approx(2 * log(0.99))
    assert ratios[HASHED] == pytest.approx(8 * log(0.99) + 2 * (40 - log(400)), rel=1e-3)


COIN = RandomizedResponse(categories=("on", "off"), epsilon=1.0)


def years(number: int, share: float = 0.0) -> Iterator[tuple[date, Table]]:
    """Yield `number` years of days with 2,000 reports, of which a `share` is from a wrong build.

    That build hashes in another way.
    """
    p, generator = float(COIN.support.touched), np.random.default_rng(number)
    for day, named in enumerate(generator.binomial(2_000, p - share * (p - 0.5), 365 * number)):
        counts = np.array([[named, 2_000 - named]])
        yield DAY + timedelta(days=day), Table.from_counts(COIN, counts, 2_000)


@pytest.mark.statistical
def test_right_builds_are_said_to_be_broken_once_a_year_at_most() -> None:
    """In 20 years, more than 35 alarms have probability 1e-3 at most, if there is one a year.

    The seed is fixed. In the twin, every tenth report is from a broken build.
    """
    assert len([*broken(years(20), "on", 365)]) <= 35
    assert len([*broken(years(2, share=0.1), "on", 365)]) > 35


@pytest.mark.exact
@pytest.mark.parametrize("reports", [0, 1, 50])
def test_weeks_with_hardly_any_report_say_nothing(reports: int) -> None:
    """Without evidence, the detector stays where it is, however many weeks there are."""
    counts = np.array([[round(0.731 * reports), reports - round(0.731 * reports)]])
    quiet = Table.from_counts(COIN, counts, reports)
    weeks = ((DAY + timedelta(weeks=week), quiet) for week in range(400))
    assert not [*broken(weeks, "on", 52)]


@pytest.mark.exact
def test_alarms_in_a_row_are_since_the_first_of_them() -> None:
    """A run of alarms ends where the detector stays at its start for more than a week."""
    days = [(2, 1, HASHED), (4, 3, HASHED), (12, 11, STUCK), (30, 20, HASHED), (32, 31, HASHED)]
    alarms = [(DAY + timedelta(at), DAY + timedelta(since), cause) for at, since, cause in days]
    runs = [*joined(alarms, timedelta(days=7))]
    assert [(since - DAY).days for _, since, _ in runs] == [1, 1, 1, 20, 20]
    assert [(at, cause) for at, _, cause in runs] == [(at, cause) for at, _, cause in alarms]


def of_broken(cause: str) -> Table:
    """Return the table of a thousand reports of a broken build."""
    if cause == HASHED:
        return table(SKETCH, 1_000, 1, "hashed otherwise")
    encoder, builder = SKETCH.encoder(SeededBits(b"broken")), TableBuilder(SKETCH)
    if cause == STUCK:
        builder.add_all([encoder.encode("on")] * 1_000)
        return builder.build()
    right = builder.build()
    while right.total < 1_000:
        one = TableBuilder(SKETCH)
        one.add(encoder.encode("on"))
        if supporting(one.build(), "on"):
            right += one.build()
    return right


def with_broken(few: Table, seed: int) -> Iterator[tuple[date, Table]]:
    """Return three days of 100,000 reports of right builds, then seven with 1 % of a broken one."""
    for day in range(10):
        right = table(SKETCH, 100_000 - few.total * (day >= 3), seed * 10 + day)
        yield DAY + timedelta(days=day), right + few if day >= 3 else right


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(("cause", "least"), [(WITHOUT_NOISE, 7), (STUCK, 10), (HASHED, 5)])
def test_a_broken_build_in_a_hundred_is_seen_within_a_week(cause: str, least: int) -> None:
    """At one false alarm a year and epsilon 1, fewer than 7 and 5 of ten have probability 2.0 and
    .2 %.

    `make campaign-changes` counts 88.6 % without noise, 100 % where the row is stuck, and 84 % with
    another seed; seeds are fixed. The twin has no broken build.
    """
    for few, is_seen in ((of_broken(cause), True), (TableBuilder(SKETCH).build(), False)):
        alarms = [[*broken(with_broken(few, seed), "on", 365)] for seed in range(10)]
        seen = sum(any((period - DAY).days >= 3 for period, _, _ in one) for one in alarms)
        assert (seen >= least) is is_seen


REGISTRY = """
[product]
name = "maps"
[group.app]
window = "1d"
window_epsilon = 8.0
lifetime_epsilon = 2000.0
[metric.heartbeat]
version = 1
group = "app"
description = "A value that every build records, which shows the noise that runs"
owners = ["team@example.org"]
expires = 2999-12-31
control = "on"
"""
HOW = 'mechanism = "hcms"\nepsilon = 1.0\nrows = 16\nwidth = 16\n'


@pytest.mark.exact
@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ('mechanism = "rr"\nepsilon = 1.0\ncategories = ["a", "b"]\n', "control must be a value"),
        (HOW + 'presence = "hidden"\n', "public presence"),
        ('mechanism = "one-bit-mean"\nepsilon = 1.0\nbounds = [0, 1]\n', "control must be a value"),
        (
            'mechanism = "rappor"\nbits = 16\nhashes = 2\nf = 0.5\np = 0.5\nq = 0.75\n',
            "hashes = 1",
        ),
    ],
)
def test_a_control_that_cannot_be_tested_is_refused(tmp_path: Path, keys: str, words: str) -> None:
    path = tmp_path / "metrics.toml"
    path.write_text(REGISTRY + keys)
    with pytest.raises(RegistryError, match=words):
        Registry.load(path)
    path.write_text(REGISTRY + HOW)
    assert Registry.load(path).metric("heartbeat").control == "on"


@pytest.mark.campaign
@pytest.mark.exact
def test_publish_says_which_control_does_not_follow_its_law(tmp_path: Path) -> None:
    """There are ten thousand reports a day, at first of the control value, then a tenth of
    another."""
    (tmp_path / "metrics.toml").write_text(REGISTRY + HOW)
    for day, others in enumerate((0, 0, 2_000, 2_000), 1):
        (tmp_path / "people.csv").write_text(f"value,count\non,{10_000 - others}\noff,{others}\n")
        words = "heartbeat --registry metrics.toml --population people.csv --reports store --seed"
        invoke(tmp_path, "simulate", *words.split(), str(day), "--day", f"2026-01-0{day}")
    words = "--registry metrics.toml --store store --out out"
    said = invoke(tmp_path, "publish", *words.split(), "--until", "2026-01-04")
    sentence = (
        "heartbeat v1: since 2026-01-03 the reports do not follow the stated distribution: "
        f"{HASHED}"
    )
    assert sentence in said.splitlines()
    assert "broken build" in (tmp_path / "out" / "site" / "index.html").read_text()
    again = json.loads(
        invoke(tmp_path, "publish", *words.split(), "--until", "2026-01-04", "--json")
    )
    assert [one["since"] for one in again["broken"]] == ["2026-01-03"]


@pytest.mark.slow
@pytest.mark.exact
def test_a_control_of_an_earlier_version_is_not_taken_for_broken(tmp_path: Path) -> None:
    """Each version has another control, which the list of an earlier one may lack."""
    words = "--registry metrics.toml --store store --out out --until 2026-01-03 --json"
    for version, (value, values) in enumerate((("a", "ab"), ("b", "ab"), ("c", "abc")), 1):
        how = f'mechanism = "unary"\nepsilon = 4.0\ncategories = {[*values]}\n'
        text = REGISTRY.replace('"on"', f'"{value}"').replace("version = 1", f"version = {version}")
        (tmp_path / "metrics.toml").write_text(text + how)
        (tmp_path / "people.csv").write_text(f"value,count\n{value},2000\n")
        simulated = "heartbeat --registry metrics.toml --population people.csv --reports store"
        invoke(tmp_path, "simulate", *simulated.split(), "--day", f"2026-01-0{version}")
        said = json.loads(invoke(tmp_path, "publish", *words.split()))
        assert (said["broken"], said["problems"]) == ([], [])


def invoke(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ldp", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
