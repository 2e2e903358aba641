"""Copies of the results data set: a CSV file, a DuckDB file, tables of a PostgreSQL database.

The data set is the Parquet files. A copy is brought up to date from them, whatever it holds. A
database stores the digest of each of its periods, and takes over the periods whose digest differs,
each in a transaction of its own.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from ldp.errors import DecodeError, LdpError, from_extra
from ldp.files import open_replacement
from ldp.publishing.data_set_rows import (
    CHANGES_SCHEMA,
    DAMAGED,
    DIGEST,
    KEY,
    SCHEMA,
    SUMMARY,
    read_rows,
)
from ldp.publishing.period import Problem, passing_by
from ldp.publishing.state import (
    ALL_VERSIONS,
    estimates_path,
    load_states,
    lost_files,
    published_versions,
    publisher_folder,
    results_path,
    series_periods,
)
from ldp.tables.saved import Facts, read_summary

_TYPES = {
    pa.string(): "TEXT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE PRECISION",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
}
"""SQL types of the columns, in DuckDB and PostgreSQL alike."""
_PERIODS_SCHEMA = pa.schema(
    [SCHEMA.field(name) for name in ("metric", "version", "period")] + [("digest", pa.string())]
)
_PERIOD = ("metric", "version", "period")


class OutputUnusable(LdpError):
    """Error: a copy of the data set cannot be written."""


OutputKey = tuple[str, int, date]
"""Metric, version and first day of a period."""


class OutputPart(NamedTuple):
    """Part of the data set: the rows of one period, in the file `path` with this `digest`.
    `revision`: how often the period was re-opened."""

    metric: str
    version: int
    period: date
    digest: str
    path: Path
    revision: int


def parts(out: Path, metric: str, version: int) -> list[OutputPart]:
    """Return the parts of the data set in `out` of one version of a metric, in the order of time.
    Raises DecodeError where a file of a part is lost and could not be written again."""
    listed = list[OutputPart]()
    if version == ALL_VERSIONS:
        for period, path in series_periods(out, metric).items():
            digest, facts = _metadata(path)
            listed.append(OutputPart(metric, version, period, digest, path, facts["revision"]))
        return listed
    for period, state in load_states(publisher_folder(out, metric, version)).items():
        lost = lost_files(out, metric, version, period)
        if lost and state.digest:
            raise DecodeError(
                f"{lost[0]}: lost; restore it from a backup, or delete {state.path}: its "
                "period is then left out until it is counted again from the store"
            )
        if not lost:
            path = results_path(out, metric, version, period)
            listed.append(OutputPart(metric, version, period, state.digest, path, state.revision))
    return listed


def _metadata(path: Path) -> tuple[str, Facts]:
    """Return the digest and the summary of one file of a series."""
    try:
        metadata = pq.read_schema(path).metadata or {}
        return metadata[DIGEST].decode(), json.loads(metadata[SUMMARY])
    except (OSError, pa.ArrowException, KeyError, ValueError):
        raise DecodeError(f"{path}: {DAMAGED}") from None


def summary_of(out: Path, part: OutputPart) -> Facts:
    """Return the summary of the estimates of one period. Raises DecodeError if it is damaged."""
    if part.version == ALL_VERSIONS:
        return _metadata(part.path)[1]
    try:
        return read_summary(estimates_path(out, part.metric, part.version, part.period))
    except DecodeError as error:
        raise DecodeError(f"{error}; {DAMAGED}") from None


def changes_path(out: Path, metric: str, version: int) -> Path:
    """Return the file of the changes of one version of a metric."""
    return out / "changes" / metric / f"v{version}.parquet"


def write_csv(out: Path, path: Path, problems: list[Problem]) -> None:
    """Write the data set in `out` as one CSV file, replaced whole. Damaged parts are left out and
    added to the `problems`."""
    with open_replacement(path) as temporary, csv.CSVWriter(temporary, SCHEMA) as writer:
        for metric, version in published_versions(out):
            with passing_by(problems, metric):
                for part in parts(out, metric, version):
                    with passing_by(problems, metric):
                        writer.write_table(read_rows(part.path))


def update_duckdb(out: Path, path: Path, problems: list[Problem]) -> int:
    """Bring the tables `results`, `changes` and `periods` of a DuckDB file up to date with the data
    set in `out`, and return the number of periods that were written or deleted. Damaged parts are
    added to the `problems`, and their rows stay as they were. Raises MissingPackage, and
    OutputUnusable for a file that cannot be opened or written."""
    with from_extra("--duckdb", "publish"):
        import duckdb
    # DuckDB reads many files, and writes to none
    if path.is_file() and not _is_duckdb(path):
        raise OutputUnusable(f"{path}: not a DuckDB file; name another one for --duckdb")
    with _errors(str(path), duckdb.Error), duckdb.connect(str(path.absolute())) as database:
        return _update(database, out, problems, "", "?", _insert_rows)


def _is_duckdb(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(12)[8:] == b"DUCK"


def update_postgres(out: Path, conninfo: str, problems: list[Problem]) -> int:
    """Bring the tables `ldp_results`, `ldp_changes` and `ldp_periods` of a PostgreSQL database up
    to date, as `update_duckdb` does. `conninfo`: connection string in the form of libpq."""
    with from_extra("postgres", "publish"):
        import psycopg
    with (
        _errors("postgres", psycopg.Error),
        psycopg.connect(conninfo, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        return _update(cursor, out, problems, "ldp_", "%s", _copy_rows)


def _update(
    database: Any, out: Path, problems: list[Problem], prefix: str, mark: str, insert: Any
) -> int:
    """Take over the parts that `database` does not have, and delete those that are gone. `prefix`:
    prefix of the names of its tables. `mark`: placeholder of an argument. `insert`: function that
    writes rows into a table."""
    results, periods, changes = (f"{prefix}{name}" for name in ("results", "periods", "changes"))
    for table, schema, key in (
        (results, SCHEMA, KEY),
        (changes, CHANGES_SCHEMA, KEY),
        (periods, _PERIODS_SCHEMA, _PERIOD),
    ):
        columns = ", ".join(f"{field.name} {_TYPES[field.type]}" for field in schema)
        # of PostgreSQL only: DuckDB lets no transaction write a key again that it deleted
        primary = f", PRIMARY KEY ({', '.join(key)})" if prefix else ""
        database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns}{primary})")
    database.execute(f"SELECT * FROM {results} LIMIT 0")
    if [column[0] for column in database.description] != SCHEMA.names:
        raise OutputUnusable(
            f"table {results}: of an earlier version; drop the three tables: the next run writes "
            "them again"
        )
    version_is = f"metric = {mark} AND version = {mark}"
    where = f"{version_is} AND period = {mark}"
    database.execute(f"SELECT metric, version, period, digest FROM {periods}")
    known: dict[OutputKey, str] = {tuple(key): digest for *key, digest in database.fetchall()}
    written = 0
    for metric, version in sorted({*published_versions(out), *(key[:2] for key in known)}):
        with passing_by(problems, metric):
            listed = {part[:3]: part for part in parts(out, metric, version)}
            before = {key: known[key] for key in known if key[:2] == (metric, version)}
            there = {key: part.digest for key, part in listed.items()}
            due = sorted({key for key, _ in there.items() ^ before.items()})
            path = changes_path(out, metric, version)
            said = read_rows(path, CHANGES_SCHEMA) if due and listed and path.exists() else None
            for period in due:
                rows = read_rows(listed[period].path) if period in listed else None
                database.execute("BEGIN")
                for name in (results, periods):
                    database.execute(f"DELETE FROM {name} WHERE {where}", period)
                database.execute(f"DELETE FROM {changes} WHERE {version_is}", period[:2])
                for name, some in ((results, rows), (changes, said)):
                    if some is not None:
                        insert(database, name, some)
                if rows is not None:
                    values = ", ".join([mark] * 4)
                    database.execute(
                        f"INSERT INTO {periods} VALUES ({values})", (*period, there[period])
                    )
                database.execute("COMMIT")
                written += 1
    return written


def _insert_rows(database: Any, table: str, rows: pa.Table) -> None:
    database.register("ldp_rows", rows)
    database.execute(f"INSERT INTO {table} BY NAME SELECT * FROM ldp_rows")


def _copy_rows(cursor: Any, table: str, rows: pa.Table) -> None:
    with cursor.copy(f"COPY {table} FROM STDIN") as copy:
        for row in rows.to_pylist():  # PostgreSQL has no NUL in texts
            cells = row.values()
            copy.write_row([x.replace("\0", "\ufffd") if isinstance(x, str) else x for x in cells])


@contextmanager
def _errors(name: str, kind: type[Exception]) -> Iterator[None]:
    try:
        yield
    except kind as error:
        raise OutputUnusable(f"{name}: {str(error).strip().splitlines()[0]}") from None
