"""Copies of the results data set: a CSV file, a DuckDB file, tables of a PostgreSQL database.

The data set is the Parquet files. A copy is brought up to date from them, whatever it holds: a
database remembers the digest of each period that it has, and takes over those that differ, each in
a transaction of its own.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as csv

from ldp.errors import DecodeError, LdpError, MissingPackage
from ldp.files import open_replacement
from ldp.publishing.rows import CHANGES_SCHEMA, KEY, SCHEMA, read_rows
from ldp.publishing.state import (
    kept_versions,
    load_states,
    lost_files,
    results_path,
    state_folder,
)

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


class Part(NamedTuple):
    """Part of the data set: the rows of one period, in the file `path`, whose digest is `digest`;
    `revision`: how often the period was re-opened."""

    metric: str
    version: int
    period: date
    digest: str
    path: Path
    revision: int

    @property
    def key(self) -> tuple[str, int, date]:
        """Metric, version and first day."""
        return self.metric, self.version, self.period


def parts(out: Path) -> Iterator[Part]:
    """Yield the parts of the data set in `out`, sorted by metric, version and period. Raises
    DecodeError where a file of one is lost and could not be written again."""
    for metric, version in kept_versions(out):
        for period, state in load_states(state_folder(out, metric, version)).items():
            lost = lost_files(out, metric, version, period)
            if lost and state.digest:
                raise DecodeError(
                    f"{lost[0]}: lost; restore it from a backup, or delete {state.path}: its "
                    "period is then left out until it is counted again from the store"
                )
            if not lost:
                path = results_path(out, metric, version, period)
                yield Part(metric, version, period, state.digest, path, state.revision)


def changes_path(out: Path, metric: str, version: int) -> Path:
    """Return the file of the changes of one version of a metric."""
    return out / "changes" / metric / f"v{version}.parquet"


def write_csv(out: Path, path: Path) -> None:
    """Write the data set in `out` as one CSV file, replaced whole."""
    with open_replacement(path) as temporary, csv.CSVWriter(temporary, SCHEMA) as writer:
        for part in parts(out):
            writer.write_table(read_rows(part.path))


def update_duckdb(out: Path, path: Path) -> int:
    """Bring the tables `results`, `changes` and `periods` of a DuckDB file up to date with the data
    set in `out`, and return the number of periods that were written. Raises MissingPackage, and
    OutputUnusable for a file that cannot be opened or written."""
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise MissingPackage.of("--duckdb", error.name, "publish") from None
    if path.is_file() and not _is_duckdb(path):  # DuckDB reads many files, and writes to none
        raise OutputUnusable(f"{path}: not a DuckDB file; name another one for --duckdb")
    with _errors(f"{path}", duckdb.Error), duckdb.connect(str(path.absolute())) as database:
        return _update(database, out, "", "?", _insert_parquet)


def _is_duckdb(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(12)[8:] == b"DUCK"


def update_postgres(out: Path, conninfo: str) -> int:
    """Bring the tables `ldp_results`, `ldp_changes` and `ldp_periods` of a PostgreSQL database up
    to date with the data set in `out`, and return the number of periods that were written.
    `conninfo`: as libpq reads it. Raises MissingPackage, and OutputUnusable for a database that
    cannot be written."""
    try:
        import psycopg
    except ModuleNotFoundError as error:
        raise MissingPackage.of("--postgres", error.name, "publish") from None
    with (
        _errors("--postgres", psycopg.Error),
        psycopg.connect(conninfo, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        return _update(cursor, out, "ldp_", "%s", _copy_rows)


def _update(database: Any, out: Path, prefix: str, mark: str, insert: Any) -> int:
    """Take over the parts that `database` does not have. `prefix`: of the names of its tables;
    `mark`: for an argument; `insert`: writes the rows of a part into a table."""
    results, periods, changes = (f"{prefix}{name}" for name in ("results", "periods", "changes"))
    for table, schema, key in (
        (results, SCHEMA, KEY),
        (changes, CHANGES_SCHEMA, KEY),
        (periods, _PERIODS_SCHEMA, _PERIOD),
    ):
        columns = ", ".join(f"{field.name} {_TYPES[field.type]}" for field in schema)
        primary = _primary(key, prefix)
        database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns}{primary})")
    database.execute(f"SELECT * FROM {results} LIMIT 0")
    if [column[0] for column in database.description] != SCHEMA.names:
        raise OutputUnusable(
            f"table {results}: of an earlier version; drop the three tables: the next run writes "
            "them again"
        )
    database.execute(f"SELECT metric, version, period, digest FROM {periods}")
    known = {*database.fetchall()}
    changed = [part for part in parts(out) if (*part.key, part.digest) not in known]
    version = f"metric = {mark} AND version = {mark}"
    where = " AND ".join(f"{name} = {mark}" for name in _PERIOD)
    for part in changed:
        database.execute("BEGIN")
        for table in (results, periods):
            database.execute(f"DELETE FROM {table} WHERE {where}", part.key)
        insert(database, results, part.path)
        if (path := changes_path(out, part.metric, part.version)).exists():
            database.execute(f"DELETE FROM {changes} WHERE {version}", part.key[:2])
            insert(database, changes, path)
        values = ", ".join([mark] * 4)
        database.execute(f"INSERT INTO {periods} VALUES ({values})", (*part.key, part.digest))
        database.execute("COMMIT")
    return len(changed)


def _primary(key: Sequence[str], prefix: str) -> str:
    """Return the primary key of a table: of PostgreSQL only, as DuckDB does not let a transaction
    write a key again that it deleted."""
    return f", PRIMARY KEY ({', '.join(key)})" if prefix else ""


def _insert_parquet(database: Any, table: str, path: Path) -> None:
    database.execute(f"INSERT INTO {table} BY NAME SELECT * FROM read_parquet(?)", [str(path)])


def _copy_rows(cursor: Any, table: str, path: Path) -> None:
    with cursor.copy(f"COPY {table} FROM STDIN") as copy:
        for row in read_rows(path).to_pylist():
            copy.write_row([*row.values()])


@contextmanager
def _errors(name: str, kind: type[Exception]) -> Iterator[None]:
    try:
        yield
    except kind as error:
        raise OutputUnusable(f"{name}: {str(error).strip().splitlines()[0]}") from None
