"""The data set of `ldp publish` is what the commands say of the same reports.

It does not depend on when it was run or killed, or on late reports.
"""

import json
import re
import shutil
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from ldp.collection import aggregate
from ldp.collection.lock import InUse
from ldp.errors import DecodeError, ParameterError
from ldp.publishing import Job, Problem, opened, outputs, publish
from ldp.publishing.data_set_rows import KEY, SCHEMA
from ldp.registry import Registry
from ldp.server import decode
from ldp.tables.joint_table import load_table
from ldp.tables.saved import SavedResult
from simulations.publish import REPORTED, START, write_registry
from tests.command_line import settings
from tests.publications import TODAY, Rows, World, files, rows, run


@pytest.mark.exact
@pytest.mark.parametrize("metric", REPORTED)
def test_estimates_are_those_of_the_commands(world: World, metric: str) -> None:
    """`ldp aggregate` and `decode` of the same day write the same bytes."""
    world.write(metric, people=2_000)
    assert world.publish().problems == []
    mine = world.out / "estimates" / metric / "v1" / f"{START}.csv"
    registry, theirs = world.top / "metrics.toml", world.top / "by-hand.csv"
    table, weighted = world.top / "by-hand.table", ("--weighted-reports-per-client", 1)
    run("aggregate", metric, world.store, "--registry", registry, "--out", table)
    done = run("decode", table, "--out", theirs, *(weighted if metric != "network" else ()))
    if metric != "network":  # tables that are kept have no whole reports
        assert load_table(world.folder(metric) / f"{START}.0.table") == load_table(table)
    assert done.exit_code == 0, done.output
    assert mine.read_bytes() == theirs.read_bytes()
    summaries = [path.with_suffix(".json").read_text("utf-8") for path in (mine, theirs)]
    if metric == "network":  # nobody says how many reports one person sent
        left_out = r' "reports_per_person": 1.0,\n |"summary_sha256".*'
        summaries = [re.sub(left_out, "", text) for text in summaries]
    assert summaries[0] == summaries[1]


@pytest.mark.exact
def test_rows_have_the_numbers_of_the_estimates(world: World) -> None:
    for metric in REPORTED:
        world.write(metric)
    assert world.publish().problems == []
    found = rows(world.out)
    assert {row["metric"] for row in found} == {*REPORTED}
    assert len({tuple(row[name] for name in KEY) for row in found}) == len(found)
    theme = {row["value"]: row for row in found if row["metric"] == "theme"}
    file: Any = SavedResult.load(world.out / "estimates" / "theme" / "v1" / f"{START}.csv")
    for row in file.rows():
        mine = theme[row["value"]]
        assert (mine["estimate"], mine["low"], mine["high"]) == (
            *(row[name] for name in ("estimate", "low", "high")),
        )
        assert mine["discovered"] == bool(row["discovered"])
        assert mine["noise_floor"] == file.summary["noise_floor"]
        assert (mine["epsilon"], mine["reports"]) == (2.0, 400)
        assert mine["fakes_move"] == file.summary["fakes_move"]
    cells = [json.loads(row["value"]) for row in found if row["metric"] == "network"]
    assert ["9.4", "wifi"] in cells
    statistics = {row["statistic"] for row in found if row["metric"] == "latency"}
    assert statistics == {"count", "mean", "variance", "p50", "p90", "p95", "p99"}
    (mean,) = (row for row in found if row["metric"] == "battery")
    assert mean["statistic"] == "mean"
    assert mean["low"] < mean["estimate"] < mean["high"]


@pytest.mark.exact
def test_intervals_allow_for_made_up_reports_where_a_bound_is_known(world: World) -> None:
    """The rows say for what share; what was counted before stays as it was."""
    for metric in REPORTED:
        world.write(metric)
    first = world.publish(today=START + timedelta(days=1))
    assert not any(done.note for done in first.counted)
    for metric in REPORTED:
        world.write(metric, 1)
    result = world.publish(fakes=0.05)
    assert result.problems == []
    noted = {done.metric for done in result.counted if done.note}
    assert all(
        ("no bound under made-up" in str(done)) == bool(done.note) for done in result.counted
    )
    found = rows(world.out)
    allowed = {row["metric"] for row in found if row["fakes"] is not None}
    assert allowed == {*REPORTED} - noted
    assert {"theme", "latency", "battery"} <= allowed
    assert "network" in noted
    assert {row["fakes"] for row in found if row["metric"] in allowed} == {None, 0.05}
    assert all(row["fakes"] is None for row in found if row["period"] == START)
    table: Any = load_table(world.folder("theme") / f"{START + timedelta(days=1)}.0.table")
    expected = {row["value"]: row for row in decode(table).under_fakes(0.05).rows()}
    page = (world.out / "site" / "metrics" / "theme.html").read_text("utf-8")
    assert "whatever up to 5\xa0% of all say; changes take all reports as honest" in page
    assert "Made-up reports" in page
    for row in found:
        if row["metric"] == "theme" and row["fakes"]:
            own = expected[row["value"]]
            assert (row["low"], row["high"]) == pytest.approx((own["low"], own["high"]), abs=0.01)


@pytest.mark.exact
def test_a_share_that_no_interval_can_hold_for_is_refused(world: World) -> None:
    done = run(
        *("publish", "--registry", world.top / "metrics.toml", "--store", world.store),
        *("--out", world.out, *settings(world.top, fakes="60%")),
    )
    assert "the share of made-up reports must be 0 to 50 %" in str(done.exception)
    assert not world.out.exists()


def without_last_column(folder: Path) -> None:
    """Write the files of the data set as a version without the column `fakes` wrote them."""
    for path in folder.rglob("*.parquet"):
        table = pq.read_table(path)
        pq.write_table(table.drop_columns(["fakes"]), path)


@pytest.mark.slow
@pytest.mark.exact
def test_files_and_databases_of_an_earlier_version_are_refused(world: World) -> None:
    """Each is refused in one line; what is deleted is written again from the kept table."""
    duckdb = pytest.importorskip("duckdb")
    world.write("theme")
    world.publish()
    database, csv = world.top / "results.duckdb", world.top / "results.csv"
    outputs.update_duckdb(world.out, database, [])
    with duckdb.connect(str(database)) as connection:
        connection.execute("ALTER TABLE results DROP COLUMN above")
    with pytest.raises(outputs.OutputUnusable, match="drop the three tables"):
        outputs.update_duckdb(world.out, database, [])
    expected = rows(world.out)
    without_last_column(world.out / "results")
    problems: list[Problem] = []
    outputs.write_csv(world.out, csv, problems)
    assert "of an earlier version; delete it" in str(*problems)
    for path in (world.out / "results").rglob("*.parquet"):
        path.unlink()
    world.publish()
    outputs.write_csv(world.out, csv, [])
    database.unlink()
    outputs.update_duckdb(world.out, database, [])
    assert csv_rows(csv) == rows(world.out) == expected


@pytest.mark.exact
def test_a_second_run_does_nothing(world: World) -> None:
    world.write("theme")
    assert [change.reports for change in world.publish().counted] == [400]
    before = {path: path.stat().st_mtime_ns for path in world.out.rglob("*")}
    assert world.publish().counted == []
    assert before == {path: path.stat().st_mtime_ns for path in world.out.rglob("*")}


@pytest.mark.exact
def test_only_days_that_have_ended_are_counted(world: World) -> None:
    for day in range(3):
        world.write("theme", day)
    second = START + timedelta(days=2)
    assert [change.period for change in world.publish(today=second).counted] == [
        *(START + timedelta(days=day) for day in range(2)),
    ]
    assert [change.period for change in world.publish(today=TODAY).counted] == [second]


@pytest.mark.exact
def test_days_before_since_are_left_alone(world: World) -> None:
    for day in range(3):
        world.write("theme", day)
    since = START + timedelta(days=1)
    assert [change.period for change in world.publish(since=since).counted] == [
        *(START + timedelta(days=day) for day in (1, 2)),
    ]


@pytest.mark.exact
@pytest.mark.parametrize("metric", ["theme", "network"])
def test_late_reports_reopen_their_day(world: World, metric: str) -> None:
    """The table, the estimates and the rows are those of a run that had all reports at once."""
    world.write(metric, 0, "a")
    world.write(metric, 1, "a")
    world.publish()
    world.write(metric, 0, "b", people=100)
    (change,) = world.publish().counted
    assert (change.period, change.reports, change.revision) == (START, 500, 1)
    assert [path.name for path in world.folder(metric).glob("*.table")].count(
        f"{START}.1.table"
    ) == 1
    assert len([*world.folder(metric).glob("*.table")]) == 2
    other = world.top / "at once"
    world.publish(other)
    assert without_revision(rows(world.out)) == without_revision(rows(other))
    kept = world.folder(metric) / f"{START}.1.table"
    assert load_table(kept) == load_table(world.folder(metric, out=other) / f"{START}.0.table")


def without_revision(found: Rows) -> Rows:
    return [{name: cell for name, cell in row.items() if name != "revision"} for row in found]


@pytest.mark.exact
def test_late_reports_are_added_when_the_first_are_no_longer_stored(world: World) -> None:
    """`ldp collect --retain` deletes reports, which the kept table still has.

    A cross table cannot be made of a table, so there the problem is named and nothing changes.
    """
    for metric in ("theme", "network"):
        world.write(metric, 0, "a")
    world.publish()
    before = files(world.out / "results" / "network")
    shutil.rmtree(world.store)
    for metric in ("theme", "network"):
        world.write(metric, 0, "b", people=100)
    result = world.publish()
    assert [(change.metric, change.reports) for change in result.counted] == [("theme", 500)]
    (problem,) = result.problems
    assert "2026-01-01: 1 late file cannot be added" in problem.text
    assert files(world.out / "results" / "network") == before


@pytest.mark.exact
def test_a_metric_goes_on_in_its_new_version(tmp_path: Path) -> None:
    """The mechanism that its kept tables name counts the old version's last day."""
    world = World(tmp_path)
    world.write("theme", 0)
    world.publish()
    world.write("theme", 1)
    old = world.registry
    world.registry = write_registry(tmp_path, version=2)
    world.write("theme", 1, "c")
    result = world.publish()
    assert result.problems == []
    second = START + timedelta(days=1)
    assert [(change.version, change.period) for change in result.counted] == [
        (1, second),
        (2, second),
    ]
    assert {row["version"] for row in rows(world.out)} == {0, 1, 2}
    table = load_table(world.folder("theme") / f"{second}.0.table")
    by_hand = aggregate([world.store], "theme", 1, old.metric("theme").mechanism, since=second)
    assert np.array_equal(table.counts, by_hand.counts)  # type: ignore[union-attr]
    (problem,) = world.publish(tmp_path / "another").problems
    assert "the store has reports of version 1, the registry version 2" in problem.text


def without_dictionary(world: World) -> Registry:
    path = world.top / "without.toml"
    text = (world.top / "metrics.toml").read_text("utf-8")
    path.write_text(text.replace('dictionary = "words.txt"', ""), "utf-8")
    return Registry.load(path)


@pytest.mark.exact
def test_a_table_that_cannot_be_decoded_is_kept(world: World) -> None:
    """Its reports may be deleted; the next run that can decode it does so, and says so.

    Late reports need not come. Until then every run names the problem, and a published period
    stays.
    """
    world.write("shortcut", 0, "a")
    world.write("shortcut", 1, "a")
    later, whole = START + timedelta(days=1), world.registry
    world.publish(today=later)
    world.write("shortcut", 0, "b", people=100)
    other = world.top / "undisturbed"
    world.publish(other)
    before = rows(world.out)
    for _ in range(2):
        result = world.publish(registry=without_dictionary(world))
        assert [problem.text[:10] for problem in result.problems] == [str(START), str(later)]
        assert result.counted == []
        assert rows(world.out) == before
        shutil.rmtree(world.store / "metric=shortcut", ignore_errors=True)
    assert load_table(world.folder("shortcut") / f"{START}.1.table").total == 500
    result = world.publish(registry=whole)
    assert result.problems == []
    assert [(change.period, change.reports) for change in result.counted] == [
        (START, 500),
        (later, 400),
    ]
    assert without_revision(rows(world.out)) == without_revision(rows(other))
    assert world.publish().counted == []


@pytest.mark.exact
@pytest.mark.parametrize("folder", ["results", "estimates"])
@pytest.mark.parametrize("metric", ["theme", "network"])
def test_lost_results_are_written_again(world: World, metric: str, folder: str) -> None:
    """They are written from the kept table; those of a joint metric from the reports.

    Without reports, the lost file is named with what to do.
    """
    world.write(metric)
    world.publish()
    before = rows(world.out)
    shutil.rmtree(world.out / folder)
    (change,) = world.publish().counted
    assert (change.reports, change.revision) == (400, 0)
    assert rows(world.out) == before
    shutil.rmtree(world.out / folder / metric)
    shutil.rmtree(world.store / f"metric={metric}")
    if metric == "theme":
        world.publish()
        assert rows(world.out) == before
    else:
        *_, problem = world.publish().problems
        assert re.search(r"lost; restore it from a backup, or delete .*json", problem.text)


@pytest.mark.exact
def test_memoised_metrics_have_no_weeks(world: World) -> None:
    """None of their weeks is counted, so nothing is lost; all other weeks are published."""
    for day in range(3):
        world.write("shortcut", day)
        world.write("theme", day)
    result = world.publish(period="week", today=date(2026, 1, 12))
    (problem,) = result.problems
    assert problem.metric == "shortcut"
    assert 'period = "day"' in problem.text
    assert {change.metric for change in result.counted} == {"theme"}
    assert not world.folder("shortcut").exists()


class Killed(BaseException):
    """Error that stands for the end of the process."""


def dies_at(
    number: int,
    monkeypatch: pytest.MonkeyPatch,
    world: World,
    is_after: bool,
    registry: Registry | None = None,
) -> bool:
    """Return whether a run has as many files to put in their place.

    It is ended before or after one of them.
    """
    original, left = Path.replace, number

    def replace(path: Path, target: Path) -> Path:
        nonlocal left
        left -= 1
        if not left and not is_after:
            raise Killed
        moved = original(path, target)
        if not left:
            raise Killed
        return moved

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace)
        try:
            world.publish(registry=registry or world.registry)
        except Killed:
            return True
    return False


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("metric", ["theme", "network"])
def test_a_run_that_dies_at_any_file_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metric: str, is_after: bool
) -> None:
    """The run is the first count of a day, or one that re-opens it; it dies at every file.

    Nothing that a killed run wrote stays.
    """
    for number in range(1, 20):
        world = World(tmp_path / f"{number}")
        world.write(metric, 0, "a")
        dies_at(number, monkeypatch, world, is_after)
        world.publish()
        world.write(metric, 0, "b", people=100)
        was_killed = dies_at(number, monkeypatch, world, is_after)
        world.publish()
        other = world.top / "undisturbed"
        world.publish(other)
        assert without_revision(rows(world.out)) == without_revision(rows(other))
        (table,) = world.folder(metric).glob("*.table")
        assert load_table(table).total == 500
        assert not [*world.out.rglob("*.part")]
        if not was_killed:
            break
    assert 4 <= number < 19


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize("is_after", [False, True])
def test_a_run_that_cannot_decode_may_die_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_after: bool
) -> None:
    """It dies at every file of a run without a dictionary, and of the one that decodes later."""
    for number in range(1, 20):
        world = World(tmp_path / f"{number}")
        world.write("shortcut", 0, "a")
        dies_at(number, monkeypatch, world, is_after, without_dictionary(world))
        world.publish(registry=without_dictionary(world))
        world.write("shortcut", 0, "b", people=100)
        was_killed = dies_at(number, monkeypatch, world, is_after)
        world.publish()
        other = world.top / "undisturbed"
        world.publish(other)
        assert without_revision(rows(world.out)) == without_revision(rows(other))
        (table,) = world.folder("shortcut").glob("*.table")
        assert load_table(table).total == 500
        if not was_killed:
            break
    assert 4 <= number < 19


@pytest.mark.exact
def test_a_second_run_beside_the_first_is_turned_away(world: World) -> None:
    world.write("theme")
    with opened(world.out, "day"), pytest.raises(InUse, match="another ldp publish uses it"):
        world.publish()


@pytest.mark.exact
def test_weeks_begin_on_mondays(world: World) -> None:
    for day in range(5):  # Thursday to Monday
        world.write("theme", day)
    result = world.publish(period="week", today=date(2026, 1, 12))
    assert [(str(change.period), change.reports) for change in result.counted] == [
        ("2025-12-29", 1600),
        ("2026-01-05", 400),
    ]
    assert {row["days"] for row in rows(world.out)} == {7}
    with pytest.raises(ParameterError, match="another period"):
        world.publish()


@pytest.mark.exact
def test_a_damaged_file_holds_up_its_day_only(world: World) -> None:
    for day in range(2):
        world.write("theme", day)
    world.write("theme", 0, "b", people=100)
    (damaged,) = world.store.rglob(f"day={START}/b.parquet")
    damaged.write_bytes(damaged.read_bytes()[:200])
    registry = world.top / "metrics.toml"
    words = ("publish", "--registry", registry, "--store", world.store, "--out", world.out)
    done = run(*words)
    assert done.exit_code != 0
    assert "b.parquet: damaged" in done.output
    assert {str(row["period"]) for row in rows(world.out)} == {"2026-01-02"}
    done = run(*words, "--skip-damaged")
    assert "left out" in done.output
    assert {row["reports"] for row in rows(world.out)} == {400}
    assert world.publish(skip_damaged=True).counted == []


@pytest.mark.exact
def test_json_says_what_was_counted(world: World) -> None:
    world.write("theme")
    done = run(
        *("publish", "--registry", world.top / "metrics.toml", "--store", world.store),
        *("--out", world.out, "--json"),
    )
    counted = {"metric": "theme", "version": 1, "period": "2026-01-01", "reports": 400}
    expected = {
        "counted": [{**counted, "revision": 0, "note": ""}],
        "changes": [],
        "broken": [],
        "arms": {},
        "problems": [],
    }
    assert json.loads(done.output) == expected


@pytest.mark.exact
def test_two_stores_are_counted_together_and_copies_refused(world: World) -> None:
    world.write("theme", 0, "a")
    first, second = world.store, world.top / "second"
    shutil.copytree(first, second)
    world.store = second
    world.write("theme", 0, "b")
    job = Job(registry=world.registry, stores=[first, second], out=world.out, today=TODAY)
    with opened(world.out, "day") as lock:
        (problem,) = publish(job, lock).problems
    assert "publish one of the copies" in problem.text
    (copy,) = second.rglob("a.parquet")
    drawn = copy.rename(copy.with_name(f"{'0f' * 8}.parquet"))
    shutil.copy(drawn, drawn.with_name(f"{drawn.stem} (1).parquet"))
    with opened(world.out, "day") as lock:
        (problem,) = publish(job, lock).problems
    assert f"{drawn} is a copy of" in problem.text
    for path in drawn.parent.glob(f"{drawn.stem}*"):
        path.unlink()
    with opened(world.out, "day") as lock:
        (change,) = publish(job, lock).counted
    assert change.reports == 800


@pytest.mark.exact
def test_a_damaged_state_is_named(world: World) -> None:
    world.write("theme")
    world.publish()
    (state,) = world.folder("theme").glob("*.json")
    state.write_text("{}")
    world.write("battery")
    done = run(
        *("publish", "--registry", world.top / "metrics.toml"),
        *("--store", world.store, "--out", world.out),
    )
    assert done.exit_code != 0
    assert f"theme: {state}: not a state of ldp publish (damaged;" in done.output
    assert [*world.folder("battery").glob("*.json")]  # it is counted all the same


@pytest.mark.exact
def test_a_store_that_is_not_there_is_an_error(world: World) -> None:
    words = ("publish", "--registry", world.top / "metrics.toml", "--out", world.out)
    done = run(*words, "--store", world.top / "nowhere")
    assert done.exit_code != 0
    assert "nowhere is not a folder of reports" in str(done.exception)


@pytest.mark.exact
@pytest.mark.parametrize(
    ("place", "remedy"),
    [
        ("publish.json", "delete it and run with the period of the runs before"),
        ("results/theme/v1/2026-01-01.parquet", "the next run writes it again"),
        ("estimates/theme/v1/2026-01-01.json", "the next run writes it again"),
        ("changes/theme/v1.parquet", "the next run writes it again"),
    ],
)
def test_a_damaged_file_is_named_with_its_remedy(world: World, place: str, remedy: str) -> None:
    """The remedy works."""
    world.write("theme")
    world.publish()
    before, path = rows(world.out), world.out / place
    path.write_bytes(b'{"form')
    world.write("theme", 1)
    if place == "publish.json":
        with pytest.raises(DecodeError, match=remedy) as error:
            world.publish()
        assert str(path) in str(error.value)
    else:
        (problem,) = world.publish().problems
        assert remedy in problem.text
        assert str(path) in problem.text
    path.unlink()
    assert world.publish().problems == []
    assert path.exists()
    assert rows(world.out)[: len(before)] == before


@pytest.mark.exact
@pytest.mark.parametrize("content", [b"", None])
def test_a_damaged_table_is_named_with_its_remedy(world: World, content: bytes | None) -> None:
    """The remedy works."""
    world.write("theme", 0, "a")
    world.publish()
    (table,), (state,) = (world.folder("theme").glob(f"*.{end}") for end in ("table", "json"))
    table.unlink() if content is None else table.write_bytes(content)
    world.write("theme", 0, "b")
    (problem,) = world.publish().problems
    assert f"{table}" in problem.text
    assert f"restore it from a backup, or delete {state}: its period is then" in problem.text
    state.unlink()
    (change,) = world.publish().counted
    assert change.reports == 800


@pytest.mark.exact
def test_other_files_among_the_tables_are_left_alone(world: World) -> None:
    world.write("theme")
    world.publish()
    notes = [world.folder("theme") / "notes.json", world.out / "tables" / "theme" / "very" / "a"]
    for path in notes:
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
    world.write("theme", 1)
    result = world.publish()
    assert (len(result.counted), result.problems) == (1, [])
    assert all(path.exists() for path in notes)


def csv_rows(path: Path) -> Rows:
    strings = pyarrow.csv.ConvertOptions(
        column_types=SCHEMA, strings_can_be_null=False, null_values=[""]
    )
    found: Rows = pyarrow.csv.read_csv(path, convert_options=strings).to_pylist()
    found = [{**row, **{name: row[name] or None for name in ("axes", "above")}} for row in found]
    return sorted(found, key=lambda row: [str(row[name]) for name in KEY])


@pytest.mark.slow
@pytest.mark.exact
def test_copies_hold_the_data_set(world: World) -> None:
    """CSV and DuckDB hold it after a first run, after late reports, and after a run without
    copies."""
    duckdb = pytest.importorskip("duckdb")
    csv, database = world.top / "results.csv", world.top / "results.duckdb"
    words = (
        *("publish", "--registry", world.top / "metrics.toml", "--store", world.store),
        *("--out", world.out, "--csv", csv, "--duckdb", database),
    )
    for step in range(3):
        for metric in ("theme", "network", "latency"):
            world.write(metric, step // 2, f"{step}")
        if step == 1:
            world.publish()  # without copies
        done = run(*words)
        assert done.exit_code == 0, done.output
        expected = rows(world.out)
        with duckdb.connect(str(database)) as connection:
            cursor = connection.execute("SELECT * FROM results")
            names = [column[0] for column in cursor.description]
            found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        assert sorted(found, key=lambda row: [str(row[name]) for name in KEY]) == expected
        assert csv_rows(csv) == expected
    assert outputs.update_duckdb(world.out, database, []) == 0
    database.write_bytes(b"no database")
    with pytest.raises(outputs.OutputUnusable, match=r"results\.duckdb"):
        outputs.update_duckdb(world.out, database, [])


@pytest.mark.exact
def test_a_copy_or_site_that_cannot_be_written_stops_no_other(world: World) -> None:
    """The second run has nothing new, and writes the copy that is missing."""
    pytest.importorskip("duckdb")
    world.write("theme")
    common = ("publish", "--registry", world.top / "metrics.toml", "--store", world.store)
    database, csv = world.top / "copy.duckdb", world.top / "folder" / "copy.csv"
    csv.mkdir(parents=True)
    (world.out / "site" / "index.html").mkdir(parents=True)
    for _ in range(2):
        done = run(*common, "--out", world.out, "--csv", csv, "--duckdb", database)
        assert done.exit_code != 0
        assert "ldp: csv: " in done.output
        assert "ldp: site: " in done.output
        assert "counted -> " in done.output
        assert outputs.update_duckdb(world.out, database, []) == 0
        database.unlink()


@pytest.mark.exact
@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b""])
def test_a_file_that_is_no_database_is_left_alone(world: World, content: bytes) -> None:
    """DuckDB opens a CSV file, and what is written then is lost."""
    pytest.importorskip("duckdb")
    world.write("theme")
    world.publish()
    path = world.top / "r2.csv"
    path.write_bytes(content)
    with pytest.raises(outputs.OutputUnusable, match=r"r2\.csv: not a DuckDB file"):
        outputs.update_duckdb(world.out, path, [])
    assert path.read_bytes() == content


@pytest.mark.exact
def test_a_database_may_have_any_name(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("duckdb")
    world.write("theme")
    world.publish()
    monkeypatch.chdir(tmp_path)
    assert outputs.update_duckdb(world.out, Path(":memory:"), []) == 1
    assert Path(":memory:").stat().st_size


@pytest.mark.slow
@pytest.mark.exact
def test_postgres_holds_the_data_set(world: World, postgres: str) -> None:
    import psycopg

    for step in range(3):
        for metric in ("theme", "network", "latency"):
            world.write(metric, step // 2, f"{step}")
        done = run(
            *("publish", "--registry", world.top / "metrics.toml", "--store", world.store),
            *("--out", world.out, *settings(world.top, postgres=postgres)),
        )
        assert done.exit_code == 0, done.output
        with psycopg.connect(postgres) as connection:
            cursor = connection.execute("SELECT * FROM ldp_results")
            assert cursor.description is not None
            names = [column.name for column in cursor.description]
            found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        assert sorted(found, key=lambda row: [str(row[name]) for name in KEY]) == rows(world.out)
    assert outputs.update_postgres(world.out, postgres, []) == 0
    with pytest.raises(outputs.OutputUnusable, match="postgres: "):
        outputs.update_postgres(world.out, "host=/nowhere", [])


@pytest.mark.exact
def test_an_empty_name_of_a_database_is_not_left_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libpq takes it for the database of the environment; nothing was copied, in silence."""
    pytest.importorskip("psycopg")
    monkeypatch.setenv("PGHOST", "/nowhere")
    words = ("--registry", world.top / "metrics.toml", "--store", world.store)
    world.write("theme", 0)
    done = run("publish", *words, "--out", world.out, "--postgres", "")
    assert "ldp: postgres: " in done.output


@pytest.mark.exact
def test_a_value_that_postgres_cannot_hold_keeps_no_metric_out(world: World, postgres: str) -> None:
    import psycopg

    path = world.top / "metrics.toml"
    path.write_text(path.read_text().replace('"sepia"]', '"sepia", "\\u0000"]'))
    world.registry = Registry.load(path)
    for metric in ("theme", "network"):
        world.write(metric)
    world.publish()
    outputs.update_postgres(world.out, postgres, [])
    with psycopg.connect(postgres) as connection:
        found = connection.execute("SELECT metric, value FROM ldp_results").fetchall()
    held = {(row["metric"], str(row["value"])) for row in rows(world.out)}
    assert ("theme", "\0") in held
    assert {*found} == {(metric, text.replace("\0", "\ufffd")) for metric, text in held}
