"""Aggregation on Spark: the same integers as on one machine, counted on many.

Files are distributed over as many tasks as Spark runs at a time, through `mapInArrow`. Each task
reads and checks its files as one machine would and counts them into one whole table, and the driver
adds the tables: no report travels, only tables. A task takes the memory of two tables and a block
of reports. Every worker needs this package and must see the files under the same names.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from functools import partial
from typing import Any

import pyarrow as pa

from ldp.collection.aggregate import check_file
from ldp.collection.object_store import StorePath, store_path
from ldp.collection.store import read_reports, real_name, report_files
from ldp.errors import MissingPackage, ReportError, from_extra
from ldp.mechanisms import CatalogueMechanism, from_parameters
from ldp.tables.joint_table import JointTable, empty_builder
from ldp.tables.table import Table

PIECE_BYTES = 8 << 20
"""Most bytes of a table in one row of a Spark frame; Java holds a row several times."""
_FAILED = "ldp.errors.ReportError: "
Parameters = dict[str, Any]


def aggregate_on_spark(
    stores: Sequence[str | StorePath],
    metric: str,
    version: int,
    mechanism: CatalogueMechanism,
    *,
    since: date | None = None,
    until: date | None = None,
    dictionary: tuple[str, ...] | None = None,
    memoised: bool = False,
    on_damaged: Callable[[ReportError], None] | None = None,
) -> Table | JointTable:
    """Return the table of a metric's stored reports, as `aggregate` does. The session is the active
    one, or a new one with Spark's own settings (`spark-submit`). With `on_damaged` every file is
    read twice: all are checked before any is counted. Raises MissingPackage and ReportError."""
    day_paths = [
        (day, real_name(path)) for day, path in report_files(stores, metric, version, since, until)
    ]
    with _session() as session:
        if on_damaged is not None:
            day_paths = _check_all(session, day_paths, mechanism, on_damaged)
        tables = _distribute(session, day_paths).mapInArrow(
            partial(count_files_on_spark, mechanism.parameters()), "piece binary, is_last boolean"
        )
        table = _sum(mechanism, tables) if day_paths else empty_builder(mechanism).build()
    return table.of_metric(dictionary, memoised)


def _sum(mechanism: CatalogueMechanism, tables: Any) -> Table | JointTable:
    """Return the sum of the tables in the pieces of a frame."""
    total, pieces = empty_builder(mechanism).build(), list[bytes]()
    for row in _rows(tables):
        pieces.append(bytes(row.piece))
        if row.is_last:
            total = total + type(total).from_bytes(b"".join(pieces))  # type: ignore[operator]
            pieces.clear()
    return total


def _distribute(session: Any, day_paths: list[tuple[str, str]]) -> Any:
    """Return a frame of the days and paths of files, distributed over the workers."""
    files = session.createDataFrame(day_paths, "day string, path string")
    return files.repartition(min(len(day_paths) or 1, session.sparkContext.defaultParallelism))


def _check_all(
    session: Any,
    day_paths: list[tuple[str, str]],
    mechanism: CatalogueMechanism,
    on_damaged: Callable[[ReportError], None],
) -> list[tuple[str, str]]:
    """Return the files that are whole, and pass the errors of the others to `on_damaged`."""
    errors_frame = _distribute(session, day_paths).mapInArrow(
        partial(check_files, mechanism.parameters()), "path string, error string"
    )
    errors = {row.path: row.error for row in errors_frame.collect()}
    for path in sorted(errors):
        on_damaged(ReportError(errors[path]))
    return [(day, path) for day, path in day_paths if path not in errors]


def check_files(
    parameters: Parameters, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the paths and errors of a worker's damaged files."""
    mechanism = from_parameters(parameters)
    for _, path in _files(batches):
        try:
            check_file(path, mechanism)
        except ReportError as error:
            columns = [pa.array([str(path)]), pa.array([str(error)])]
            yield pa.RecordBatch.from_arrays(columns, names=["path", "error"])


@contextmanager
def _session() -> Iterator[Any]:
    """Open a session for the block; raise a worker's ReportError as a ReportError here."""
    with from_extra("--engine spark", "spark"):
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    active = SparkSession.getActiveSession()
    try:
        session = active or SparkSession.builder.appName("ldp aggregate").getOrCreate()
    except (PySparkException, OSError, RuntimeError):
        raise MissingPackage("Spark cannot start: is Java 17 or newer installed?") from None
    try:
        yield session
    except Exception as error:
        _, marker, message = str(error).partition(_FAILED)
        if not marker:
            raise
        raise ReportError(message.splitlines()[0]) from None
    finally:
        if active is None:
            session.stop()


def _rows(frame: Any) -> Iterator[Any]:
    """Yield the rows of a frame, after all workers have computed it at once."""
    from pyspark import StorageLevel

    stored = frame.persist(StorageLevel.DISK_ONLY)
    stored.count()
    yield from stored.toLocalIterator()
    stored.unpersist()


def count_files_on_spark(
    parameters: Parameters, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the table of all files of a task as bytes, in pieces; the last piece is marked."""
    mechanism = from_parameters(parameters)
    builder = empty_builder(mechanism)
    for day, path in _files(batches):
        for rows, payloads in read_reports(path, mechanism):
            builder.add_batch(rows, payloads, window=day)
    table_bytes = builder.build().to_bytes()
    for start in range(0, len(table_bytes), PIECE_BYTES):
        piece = table_bytes[start : start + PIECE_BYTES]
        is_last = start + PIECE_BYTES >= len(table_bytes)
        columns = [pa.array([piece], pa.binary()), pa.array([is_last], pa.bool_())]
        yield pa.RecordBatch.from_arrays(columns, names=["piece", "is_last"])


def _files(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, StorePath]]:
    for batch in batches:
        for row in batch.to_pylist():
            yield row["day"], store_path(row["path"])
