"""`ldp publish` passes by a damaged file that it reads back, and says so in one line.

The file's period or metric is passed by, and everything else goes on. The command deletes and
copies only its own files.
"""

import json
import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ldp.errors import ParameterError, ReportError
from ldp.publishing import Problem, opened, outputs
from ldp.publishing.state import remove_parts
from ldp.registry import Registry
from ldp.registry.sign_off import facts
from simulations.publish import START
from tests.command_line import settings
from tests.publications import World, files, rows, run

STATES: dict[str, Callable[[dict[str, Any]], str]] = {
    "deep": lambda state: "[" * 100_000,
    "a list": lambda state: "[]",
    "nothing": lambda state: "",
    "a key twice": lambda state: json.dumps(state)[:-1] + ',"digest":""}',
    "half a surrogate pair": lambda state: json.dumps({**state, "digest": "\ud800"}),
    "files that are numbers": lambda state: json.dumps({**state, "files": [3]}),
    "a text for files": lambda state: json.dumps({**state, "files": "ab"}),
    "another table": lambda state: json.dumps({**state, "table": "2026-01-02.0.table"}),
    "a table elsewhere": lambda state: json.dumps({**state, "table": "../../x"}),
    "a revision as text": lambda state: json.dumps({**state, "revision": "0"}),
    "true for a revision": lambda state: json.dumps({**state, "revision": True}),
    "a revision of 5,000 digits": lambda state: json.dumps(state).replace(
        '"revision": 0', '"revision": 1' + "0" * 5000
    ),
    "a digest as number": lambda state: json.dumps({**state, "digest": 3}),
    "members": lambda state: json.dumps({**state, "members": {"a": 3}}),
    "one number of reports": lambda state: json.dumps({**state, "reports_per_person": [1]}),
    "nobody's reports": lambda state: json.dumps({**state, "reports_per_person": [1, 0]}),
    "a revision that no column holds": lambda state: json.dumps(
        {**state, "revision": 1 << 31, "table": f"{START}.{1 << 31}.table"}
    ),
    "days as text": lambda state: json.dumps({**state, "by_day": {"2026-01-01": "4"}}),
    "a field more": lambda state: json.dumps({**state, "format": 99}),
}
RECORDS: dict[str, Callable[[dict[str, Any]], str]] = {
    "a certificate elsewhere": lambda record: json.dumps(
        {**record, "certificates": [{"file": "../x", "sha256": "0"}]}
    ),
    "a certificate that is gone": lambda record: json.dumps(
        {**record, "certificates": [{"file": "gone.json", "sha256": "0"}]}
    ),
    "nothing": lambda record: "",
    "deep": lambda record: "[" * 100_000,
    "facts": lambda record: json.dumps({**record, "facts": {"metrics": {"city": 3}}}),
    "half a surrogate pair": lambda record: json.dumps({**record, "name": "\ud800"}),
    "another format": lambda record: json.dumps({**record, "sign_off": 99}),
}


def published(world: World, *words: object) -> Any:
    return run(
        *("publish", "--registry", world.top / "metrics.toml", "--store", world.store),
        *("--out", world.out, *words),
    )


@pytest.mark.exact
def test_a_damaged_state_is_passed_by_and_its_table_stays(world: World) -> None:
    """A table that a damaged state no longer names is not deleted; other metrics are counted."""
    world.write("theme")
    world.publish()
    (path,) = world.folder("theme").glob("*.json")
    (table,) = world.folder("theme").glob("*.table")
    whole, before = path.read_text(), rows(world.out)
    for day, (name, damaged) in enumerate(STATES.items()):
        path.write_text(damaged(json.loads(whole)))
        world.write("battery", day)
        done = published(world)
        assert done.exit_code != 0, name
        (line,) = (line for line in done.output.splitlines() if line.startswith("ldp: "))
        assert line.startswith(f"ldp: theme: {path}: not a state of ldp publish (damaged;"), name
        assert line.isprintable()
        assert table.exists(), name
        assert world.folder("battery").joinpath(f"{START + timedelta(days=day)}.json").exists()
        assert "not a state" in (world.out / "site" / "index.html").read_text("utf-8")
    path.write_text(whole)
    assert published(world).exit_code == 0
    assert [row for row in rows(world.out) if row["metric"] == "theme"] == before


@pytest.mark.exact
def test_a_damaged_record_is_passed_by(world: World) -> None:
    world.write("theme")
    empty = {"file": "metrics.toml", "sha256": "0" * 64}
    record: dict[str, Any] = {"sign_off": 1, "name": "Officer", "date": "2026-01-01"}
    record |= {"registry": empty, "lock": empty, "facts": facts(world.registry)}
    record["certificates"] = []
    path = world.registry.path.with_name("metrics.signed.json")
    for name, damaged in RECORDS.items():
        path.write_text(damaged(record))
        done = published(world)
        (line,) = (line for line in done.output.splitlines() if line.startswith("ldp: "))
        assert line.startswith("ldp: metrics.signed.json: "), name
        assert line.isprintable()
        assert "cannot be used" in (world.out / "site" / "index.html").read_text("utf-8")
    assert (world.out / "results" / "theme").exists()


@pytest.mark.exact
@pytest.mark.parametrize("place", ["estimates/theme/v1/{}.json", "estimates/theme/v1/{}.csv"])
def test_a_damaged_result_leaves_the_other_pages_as_they_should_be(
    world: World, place: str
) -> None:
    world.write("theme")
    world.publish()
    (world.out / place.format(START)).write_text("[" * 100_000)
    world.write("battery")
    done = published(world)
    assert "ldp: theme: " in done.output
    assert "internal" not in done.output
    assert (world.out / "site" / "metrics" / "battery.html").exists()


@pytest.mark.exact
def test_a_table_of_an_earlier_version_that_is_damaged_holds_up_nothing_else(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    world.write("theme")
    world.publish()
    world.write("theme", 1)
    world.registry = World(tmp_path, 2).registry
    for path in world.folder("theme").glob("*.table"):
        path.write_bytes(b"x")
    world.write("theme", 2)
    world.write("battery", 2)
    done = published(world)
    (line,) = (line for line in done.output.splitlines() if line.startswith("ldp: "))
    assert line.endswith("theme/v1/2026-01-01.0.table: not a table file")
    assert world.folder("theme", 2).exists()
    assert world.folder("battery", world.registry.metric("battery").version).exists()


@pytest.mark.exact
@pytest.mark.parametrize("name", [b"\xff.parquet", b"loop.parquet"])
def test_a_file_whose_name_cannot_be_read_is_passed_by(world: World, name: bytes) -> None:
    """The name is no text, or a link to itself.

    Earlier, that was an internal error, and there was no site.
    """
    world.write("theme")
    world.write("search")
    (whole,) = world.store.glob("metric=theme/*/*/*.parquet")
    odd = whole.with_name(os.fsdecode(name))
    if name == b"loop.parquet":
        odd.symlink_to(odd.name)
    else:
        shutil.copy(whole, odd)
    done = published(world)
    assert (done.exit_code, type(done.exception)) == (1, ReportError)
    assert "search v1" in done.output
    assert (world.out / "site" / "index.html").exists()
    assert published(world, "--skip-damaged").exception.args == done.exception.args
    assert {row["metric"] for row in rows(world.out)} == {"search", "theme"}


@pytest.mark.exact
@pytest.mark.parametrize("period", ["day", "week", "28d"])
def test_files_of_the_last_day_there_is_wait_for_it(world: World, period: str) -> None:
    """A collector whose clock stood at the last day writes them.

    Earlier, that was an internal error, and nothing was published.
    """
    for day in (0, 1):
        world.write("theme", day)
    last = sorted(world.store.glob("metric=theme/*/day=*"))[-1]
    last.rename(last.with_name("day=9999-12-31"))
    done = published(world, *settings(world.top, period=period))
    assert (done.exit_code, done.exception) == (0, None)
    assert {row["metric"] for row in rows(world.out)} == {"theme"}


@pytest.mark.exact
@pytest.mark.parametrize("day", ["0001-01-01", "20260102", "2026-W01-5", "1969-12-31"])
def test_a_folder_that_no_collector_names_so_is_refused(world: World, day: str) -> None:
    for number in (0, 1):
        world.write("theme", number)
    world.write("search")
    last = sorted(world.store.glob("metric=theme/*/day=*"))[-1]
    last.rename(last.with_name(f"day={day}"))
    done = published(world)
    assert done.exit_code == 1
    assert {row["metric"] for row in rows(world.out)} == {"search"}


@pytest.mark.exact
def test_a_damaged_page_is_written_anew(world: World) -> None:
    world.write("theme")
    assert published(world).exit_code == 0
    pages = {*(world.out / "site").rglob("*.html")}
    whole = {page: page.read_bytes() for page in pages}
    for page in pages:
        page.write_bytes(b"\xff" * 100)
    assert published(world).exit_code == 0
    assert {page: page.read_bytes() for page in pages} == whole


@pytest.mark.exact
def test_only_parts_of_its_own_are_deleted(tmp_path: Path) -> None:
    """The folder may hold anything else, as with `--out .` above a store."""
    others = (
        *(".work-of-another-program.part", "sub/.x.1.part", "tables/city/v1/.notes.12.part"),
        *("store/metric=a/version=1/day=2026-01-01/.ab.parquet.1.part", "tables/.2026.1.part"),
        *("results/a/v1/.2026-01-01.parquet.part", "tables/city/v1/notes.table", "arms/.x.part"),
        *("results/a/v1/deeper/.2026-01-01.parquet.1.part", ".publish.json.part"),
    )
    own = (
        *(".publish.json.12.part", "tables/city/v1/.2026-01-01.0.table.12.part"),
        *("tables/city/v1/.2026-01-01.json.12.part", "results/a/v1/.2026-01-01.parquet.1.part"),
        *("tables/city/v1/.2026-01-01.1.table.1.part", "estimates/a/v1/.2026-01-01.csv.1.part"),
        *("changes/a/.v1.parquet.3.part", "site/.index.html.3.part", "arms/.a.b.csv.3.part"),
        *("site/metrics/.a.html.3.part", "site/arms/.a.b.html.3.part"),
    )
    for name in (*others, *own):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    remove_parts(tmp_path)
    assert {*files(tmp_path)} == {*others}


@pytest.mark.exact
@pytest.mark.parametrize(
    "name", ["publish.json", "tables/a/v1/2026-01-01.json", "changes/a/v1.parquet"]
)
def test_a_pipe_in_the_folder_is_not_waited_for(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(tmp_path / name)
    with (
        pytest.raises(ParameterError, match=f"{name} is a named pipe: delete it"),
        opened(tmp_path, "day"),
    ):
        pass


@pytest.mark.exact
def test_tables_that_publish_did_not_write_stay(world: World) -> None:
    world.write("theme")
    world.publish()
    note = world.folder("theme") / "backup.table"
    note.write_text("x")
    orphan = world.folder("theme") / "2026-01-01.7.table"
    orphan.write_text("x")
    world.write("theme", 1)
    world.publish()
    assert (note.exists(), orphan.exists()) == (True, False)


@pytest.mark.exact
def test_the_largest_version_is_published_and_copied(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    most = (1 << 32) - 1
    world = World(tmp_path)
    text = (tmp_path / "metrics.toml").read_text()
    (tmp_path / "metrics.toml").write_text(text.replace("version = 1", f"version = {most}"))
    world.registry = Registry.load(tmp_path / "metrics.toml")
    world.write("theme")
    database = tmp_path / "copy.duckdb"
    done = published(world, "--csv", tmp_path / "copy.csv", "--duckdb", database)
    assert done.exit_code == 0, done.output
    assert {row["version"] for row in rows(world.out)} == {most}
    with duckdb.connect(str(database)) as connection:
        assert connection.execute("SELECT DISTINCT version FROM results").fetchall() == [(most,)]


def without_first_day(world: World) -> None:
    """Delete all of the first day: its reports, table and results."""
    for folder in (world.store, world.out):
        for path in folder.rglob(f"*{START}*"):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.exists():
                path.unlink()


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_a_copy_loses_what_left_the_data_set(
    world: World, kind: str, request: pytest.FixtureRequest
) -> None:
    """A copy loses a day or a whole metric, but nothing of a metric whose state is damaged."""
    problems: list[Problem] = []
    if kind == "duckdb":
        module: Any = pytest.importorskip("duckdb")
        place, prefix = str(world.top / "copy.duckdb"), ""
        update = partial(outputs.update_duckdb, world.out, Path(place), problems)
    else:
        module, place, prefix = pytest.importorskip("psycopg"), "", "ldp_"
        place = request.getfixturevalue("postgres")
        update = partial(outputs.update_postgres, world.out, place, problems)

    def held() -> set[tuple[str, str]]:
        with module.connect(place) as connection:
            pairs = [
                {*connection.execute(f"SELECT metric, period FROM {prefix}{table}").fetchall()}
                for table in ("results", "periods")
            ]
            assert pairs[0] == pairs[1]
            return {(metric, str(period)) for metric, period in pairs[0]}

    for metric in ("theme", "battery"):
        for day in (0, 1):
            world.write(metric, day)
    world.publish()
    first, second = str(START), str(START + timedelta(days=1))
    assert update() == 4
    without_first_day(world)
    world.publish()
    state = world.folder("battery") / f"{second}.json"
    whole = state.read_text()
    state.write_text("{}")
    assert (update(), [problem.metric for problem in problems]) == (1, ["battery"])
    assert held() == {("theme", second), ("battery", first), ("battery", second)}
    state.write_text(whole)
    shutil.rmtree(world.out / "tables" / "theme")
    assert update() == 2
    assert held() == {("battery", second)}
    assert update() == 0


@pytest.mark.exact
@pytest.mark.parametrize(
    "conninfo",
    [
        "host=db password=hush-1",
        "postgresql://metrics:hush-1@db/metrics",
        "postgresql://db/metrics?password=hush-1",
        "host=db sslpassword='hush-1'",
        "hush-1 host",
    ],
)
def test_a_password_on_the_command_line_is_refused(world: World, conninfo: str) -> None:
    """It is refused before anything is counted, in words that do not repeat it."""
    pytest.importorskip("psycopg")
    done = published(world, *settings(world.top, postgres=conninfo))
    assert isinstance(done.exception, ParameterError)
    assert "hush" not in str(done.exception)
    assert ("passfile" in str(done.exception)) == ("password" in conninfo or "@" in conninfo)
    assert not world.out.exists()
