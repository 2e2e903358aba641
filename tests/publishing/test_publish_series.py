"""One series of a metric goes over its versions: counts add, and changes across them are found."""

import json
import math
from datetime import date, timedelta
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ldp.mechanisms import CountMeanSketch, RandomizedResponse
from ldp.publishing.changes import read_changes, update_changes
from ldp.publishing.data_set_rows import SCHEMA
from ldp.publishing.history import histories
from ldp.publishing.series import combined, update_series
from ldp.publishing.state import ALL_VERSIONS, results_path
from ldp.server import decode
from ldp.simulation import draw_table
from ldp.tables.table import Table
from simulations.publish import START
from tests.publications import World, files, rows

CELLS = ("estimate", "std_error", "low", "high", "p_value")


def summary(reports: int, noise: float, **more: Any) -> dict[str, Any]:
    rule = {"alpha": 0.05, "control": "none", "threshold": None}
    shared = {"kind": "values", "method": "direct", "epsilon": 2.0, "level": 0.95, "tail": 1.0}
    noises = {"noise_std_error": noise, "fakes_move": 0.01 * reports}
    return {**rule, **shared, **noises, "reports": reports, **more}


def version(**values: tuple[float, ...]) -> pa.Table:
    rows = [
        {"statistic": "count", "value": value, **dict(zip(CELLS, cells, strict=True))}
        for value, cells in values.items()
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


@pytest.mark.exact
def test_counts_and_variances_of_the_versions_add() -> None:
    first = version(a=(600.0, 3.0, 594.0, 606.0, 0.01), b=(400.0, 3.0, 394.0, 407.0, 0.5))
    second = version(a=(100.0, 4.0, 92.0, 109.0, 0.04), c=(50.0, 4.0, 42.0, 58.0, 1e-9))
    found, facts = combined([first, second], [summary(1000, 3.0), summary(200, 4.0)])
    assert [row["value"] for row in found] == ["a", "b", "c"]
    a, b, c = found
    assert (a["estimate"], a["std_error"], a["reports"]) == (700.0, 5.0, 1200)
    assert a["low"] == pytest.approx(700 - 10)  # 6 and 8
    assert a["high"] == pytest.approx(700 + math.hypot(6, 9))
    normal = NormalDist()
    z = [normal.inv_cdf(1 - p) for p in (0.01, 0.04)]
    assert a["p_value"] == pytest.approx(normal.cdf(-(3 * z[0] + 4 * z[1]) / 5))
    assert (b["reports"], c["reports"]) == (1000, 200)
    assert (c["p_value"], b["discovered"], c["discovered"]) == (1e-9, False, True)
    assert (facts["reports"], facts["fakes"]) == (1200, None)
    assert facts["fakes_move"] == pytest.approx(12.0)


@pytest.mark.exact
def test_made_up_reports_may_all_be_of_one_version() -> None:
    """5 % of 200 are 10 reports, which are less than 1 % of all 1,200."""
    first = version(a=(600.0, 3.0, 500.0, 700.0, 0.01))
    second = version(a=(100.0, 4.0, 90.0, 120.0, 0.04))
    shares = [summary(1000, 3.0, fakes=0.05), summary(200, 4.0, fakes=0.05)]
    (row,), facts = combined([first, second], shares)
    assert facts["fakes"] == pytest.approx(10 / 1200)
    raised = [{**one, "fakes_raise": 40.0} for one in shares]
    floor = combined([first, second], raised)[1]["noise_floor"]
    assert floor == pytest.approx(facts["noise_floor"] + 80)
    assert (row["low"], row["high"]) == (pytest.approx(590), pytest.approx(820))
    _, facts = combined([first, second], [shares[0], summary(200, 4.0)])
    assert facts["fakes"] is None


@pytest.mark.exact
def test_an_end_that_was_cut_at_0_is_taken_as_far_as_the_error() -> None:
    first = version(a=(-10.0, 20.0, 0.0, 30.0, 0.7))
    second = version(a=(100.0, 4.0, 92.0, 108.0, 1e-9))
    (row,), _ = combined([first, second], [summary(1000, 20.0), summary(200, 4.0)])
    assert row["low"] == pytest.approx(90 - math.hypot(1.959964 * 20, 8))


@pytest.mark.statistical
def test_intervals_of_the_sum_hold() -> None:
    """Intervals that hold in 95 % would hold in fewer than 66 of 80 pairs with probability 1e-5.

    Tables of a pair have their own epsilon and people. The twin's intervals, those of one version
    around the sum, hold in fewer.
    """
    generator, draws = np.random.default_rng(11), 80
    shares = {"a": 0.3, "b": 0.002}
    held, alone = dict.fromkeys(shares, 0), dict.fromkeys(shares, 0)
    mechanisms = [
        RandomizedResponse(categories=(*shares, "c", *extra), epsilon=epsilon)
        for extra, epsilon in (((), 1.0), (("d",), 2.0))
    ]
    for _ in range(draws):
        tables, summaries, truth = [], [], dict.fromkeys(shares, 0)
        for mechanism, people in zip(mechanisms, (3_000, 1_000), strict=True):
            own = [round(share * people) for share in shares.values()]
            counts = np.array([*own, people - sum(own), *[0] * (len(mechanism.categories) - 3)])
            result = decode(
                draw_table(mechanism, mechanism.categories, counts=counts, generator=generator)
            )
            named = [{"statistic": "count", **row} for row in result.rows()]
            picked = [{k: row[k] for k in ("statistic", "value", *CELLS)} for row in named]
            tables.append(pa.Table.from_pylist(picked, SCHEMA))
            summaries.append(result.summary)
            truth = {value: truth[value] + n for value, n in zip(shares, own, strict=True)}
        rows_of_sum = {row["value"]: row for row in combined(tables, summaries)[0]}
        rows_of_last = {row["value"]: row for row in tables[1].to_pylist()}
        for value in shares:
            row, one = rows_of_sum[value], rows_of_last[value]
            held[value] += row["low"] <= truth[value] <= row["high"]
            off = row["estimate"] - truth[value]
            alone[value] += one["estimate"] - one["high"] <= off <= one["estimate"] - one["low"]
    assert min(held.values()) >= 66
    assert max(alone.values()) < 66


def two_versions(top: Path) -> World:
    """Write a publication of one version and, from the third day on, of both."""
    world = World(top)
    for day in range(4):
        world.write("theme", day)
    assert world.publish(today=START + timedelta(days=4)).problems == []
    assert not any(row["version"] == ALL_VERSIONS for row in rows(world.out))
    newer = World(top, 2)
    for day in range(2, 6):
        newer.write("theme", day, part="b")
    assert newer.publish().problems == []
    return newer


@pytest.mark.exact
def test_a_second_version_begins_a_series_of_all(tmp_path: Path) -> None:
    world = two_versions(tmp_path)
    every = {(row["version"], row["period"], row["value"]): row for row in rows(world.out)}
    for (kind, period, value), row in every.items():
        if kind == ALL_VERSIONS:
            own = [every[v, period, value] for v in (1, 2) if (v, period, value) in every]
            assert row["estimate"] == pytest.approx(sum(one["estimate"] for one in own))
            assert row["reports"] == sum(one["reports"] for one in own)
    totals = [
        max(r["reports"] for (k, p, _), r in every.items() if (k, p) == (0, START + day))
        for day in map(timedelta, range(6))
    ]
    assert totals == [400, 400, 800, 800, 400, 400]
    (history,) = histories(world.out, [])["theme"]
    assert history.seams == {2: START + timedelta(days=2)}
    page = (world.out / "site" / "metrics" / "theme.html").read_text("utf-8")
    assert "History of all versions" in page
    assert f"Version 2 begins on {START + timedelta(days=2)}" in page
    assert 'class="seam"' in page
    before = files(world.out)
    assert world.publish().problems == []
    assert files(world.out) == before


@pytest.mark.exact
def test_late_reports_change_the_series_too(tmp_path: Path) -> None:
    world = two_versions(tmp_path)
    world.write("theme", 3, part="late")
    assert world.publish().problems == []
    day = START + timedelta(days=3)
    (reports, *_) = {
        r["reports"] for r in rows(world.out) if (r["version"], r["period"]) == (0, day)
    }
    assert reports == 1200


@pytest.mark.exact
def test_a_damaged_file_of_the_series_is_named(tmp_path: Path) -> None:
    world = two_versions(tmp_path)
    path = results_path(world.out, "theme", ALL_VERSIONS, START)
    path.write_bytes(b"PAR1")
    problems = world.publish().problems
    assert [str(problem) for problem in problems if str(path) in str(problem)]
    path.unlink()
    assert world.publish().problems == []
    assert path.exists()


def write_day(out: Path, number: int, day: date, a: int, generator: np.random.Generator) -> None:
    """Write what a run leaves of a day of 4,000 people of one version; `a` of them hold a."""
    names = ("a", "b", "c")[: number + 1]
    mechanism = RandomizedResponse(categories=names, epsilon=float(number))
    counts = np.array([a, 4_000 - a, 0][: len(names)])
    write_table(out, number, day, draw_table(mechanism, names, counts=counts, generator=generator))


def write_table(out: Path, number: int, day: date, table: Table) -> None:
    """Write what a run leaves of a day of one version."""
    from ldp.publishing.data_set_rows import result_table
    from ldp.publishing.state import PeriodState, estimates_path, publisher_folder
    from ldp.tables.saved import SavedResult

    estimates = estimates_path(out, "m", number, day)
    results, folder = results_path(out, "m", number, day), publisher_folder(out, "m", number)
    for path in (estimates.parent, results.parent, folder):
        path.mkdir(parents=True, exist_ok=True)
    decode(table).at(reports_per_person=1.0).to_csv(estimates)
    place = {"metric": "m", "version": number, "period": day, "revision": 0, "days": 1}
    pa.parquet.write_table(result_table(SavedResult.load(estimates), place), results)
    PeriodState(
        path=folder / f"{day}.json",
        files=(),
        table=f"{day}.0.table",
        revision=0,
        digest=f"{number:016x}{day.toordinal():016x}",
    ).save()


@pytest.mark.statistical
@pytest.mark.parametrize(("jump", "is_found"), [(0, False), (1_500, True)])
def test_a_change_is_found_across_the_seam(tmp_path: Path, jump: int, is_found: bool) -> None:
    """A version has 20 days, both have 3, and the second, with one value more, has 10.

    The same shares raise an alarm with probability .05 at most; a jump of .375 is 50 errors of the
    noise.
    """
    generator = np.random.default_rng(3)
    for day in range(33):
        a = 1_500 + jump * (day >= 25)
        for number in (1, 2):
            if (number == 1 and day < 23) or (number == 2 and day >= 20):
                write_day(tmp_path, number, START + timedelta(days=day), a, generator)
    problems: list[Any] = []
    update_series(tmp_path, problems)
    fresh = update_changes(tmp_path, problems)
    assert problems == []
    changed = {change.value: change for change in read_changes(tmp_path, "m", ALL_VERSIONS)}
    assert ("a" in changed) is is_found
    assert [change.key for change in fresh] == [change.key for change in changed.values()]
    if is_found:
        assert abs((changed["a"].since - START).days - 25) <= 1
    assert json.dumps(read_changes(tmp_path, "m", 1), default=str) == "[]"


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("is_told", [True, False])
def test_collisions_of_a_new_version_are_no_change(
    tmp_path: Path, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sketch has 12 days, then 12 with another seed; with so many people, collisions are the main
    error.

    The same shares raise an alarm with probability .05 at most. The twin takes the collisions for
    new noise, and has no change with probability 1e-4 at most.
    """
    if not is_told:
        monkeypatch.setattr("ldp.publishing.changes.shared_of", lambda summary: 0.0)
    generator, words = np.random.default_rng(5), tuple(f"w{i}" for i in range(200))
    counts = np.array([2 * 10**9, 10**9, *[0] * 198])
    for day in range(24):
        number = 1 if day < 12 else 2
        sketch = CountMeanSketch(epsilon=4.0, rows=16_400, width=64, seed=f"{number:02x}")
        table = draw_table(sketch, words, counts=counts, generator=generator)
        write_table(tmp_path, number, START + timedelta(days=day), table.of_metric(words))
    problems: list[Any] = []
    update_series(tmp_path, problems)
    update_changes(tmp_path, problems)
    assert problems == []
    assert bool(read_changes(tmp_path, "m", ALL_VERSIONS)) is not is_told
    assert not read_changes(tmp_path, "m", 1) + read_changes(tmp_path, "m", 2)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("is_told", [True, False])
def test_collisions_of_a_new_method_are_no_change(
    tmp_path: Path, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four sketches have 21 days of 2,920 reports, which the mean sketch decodes, and then 21 of
    3,300, which a regression decodes without its collisions.

    The same shares raise an alarm with probability .2 at most. In the twin collisions count as if
    they stayed, and it raised one in 16 of 35 such histories.
    """
    if not is_told:
        monkeypatch.setattr("ldp.publishing.changes.shared_of", lambda summary: 0.0)
    generator, words = np.random.default_rng(5), tuple(f"w{i}" for i in range(60))
    changes = 0
    for seed in range(4):
        sketch = CountMeanSketch(epsilon=6.0, rows=1_024, width=16, seed=f"{seed:02x}")
        out = tmp_path / f"{seed}"
        for day in range(42):
            n = 2_920 if day < 21 else 3_300
            counts = np.array([0.6 * n, 0.3 * n, *[0.1 * n / 58] * 58]).astype(int)
            table = draw_table(sketch, words, counts=counts, generator=generator)
            write_table(out, 1, START + timedelta(days=day), table.of_metric(words))
        problems: list[Any] = []
        changes += len(update_changes(out, problems))
        assert problems == []
    assert bool(changes) is not is_told
