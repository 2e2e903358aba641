"""Aggregation on Spark: the same integers as on one machine, counted on many.

Files are distributed over as many tasks as Spark runs at a time, through `mapInArrow`. Each task
reads and checks its files as one machine would and counts them into one whole table, and the driver
adds the tables: no report travels, only tables and errors. A task takes the memory of two tables
and a block of reports. Every worker needs this package and must see the files under the same names.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from functools import partial
from typing import Any

import pyarrow as pa

from ldp.collection.aggregate import count_file
from ldp.collection.object_store import StorePath, store_path
from ldp.collection.store import real_name, report_files
from ldp.errors import LdpError, MissingPackage, ReportError, from_extra
from ldp.mechanisms import CatalogueMechanism, from_parameters
from ldp.tables.joint_table import JointTable, empty_builder
from ldp.tables.table import Table

PIECE_BYTES = 8 << 20
"""Most bytes of a table in one row of a Spark frame. Java holds a row several times."""
_SCHEMA = pa.schema([("piece", pa.binary()), ("is_last", pa.bool_()), ("error", pa.string())])


class SparkFailed(LdpError, RuntimeError):
    """Error: a task of Spark failed, as on a worker that has not this package."""


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
    one, or a new one with Spark's own settings (`spark-submit`). Raises MissingPackage,
    ReportError and SparkFailed."""
    files = report_files(stores, metric, version, since, until)
    with _session() as session:
        frame = session.createDataFrame(
            [(day, real_name(path)) for day, path in files], "day string, path string"
        )
        frame = frame.repartition(min(len(files), session.sparkContext.defaultParallelism))
        count = partial(count_files_on_spark, mechanism.parameters(), on_damaged is not None)
        results = frame.mapInArrow(count, "piece binary, is_last boolean, error string")
        table, errors = _sum(mechanism, results)
    for error in sorted(errors):
        if on_damaged is None:
            raise ReportError(error)
        on_damaged(ReportError(error))
    return table.of_metric(dictionary, memoised)


def _sum(mechanism: CatalogueMechanism, results: Any) -> tuple[Table | JointTable, list[str]]:
    """Return the sum of the tables in the pieces of a frame, and its errors. All workers compute
    the frame at once, before its first row is read."""
    from pyspark import StorageLevel

    total, pieces, errors = empty_builder(mechanism).build(), list[bytes](), list[str]()
    stored = results.persist(StorageLevel.DISK_ONLY)
    stored.count()
    for row in stored.toLocalIterator():
        if row.error is not None:
            errors.append(row.error)
            continue
        pieces.append(bytes(row.piece))
        if row.is_last:
            total = total + type(total).from_bytes(b"".join(pieces))  # type: ignore[operator]
            pieces.clear()
    stored.unpersist()
    return total, errors


@contextmanager
def _session() -> Iterator[Any]:
    """Open a session for the block."""
    with from_extra("--engine spark", "spark"):
        from py4j.protocol import Py4JError
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
    except (PySparkException, Py4JError) as error:
        raise SparkFailed(f"a task of Spark failed: {_reason(str(error))}") from None
    finally:
        if active is None:
            session.stop()


def _reason(text: str) -> str:
    """Return the reason in the text of an error of Spark: the line of Java's exception, or the last
    line of a worker's traceback."""
    lines = [line for line in text.splitlines() if not line[:1].isspace()]
    return next((line[2:] for line in lines if line.startswith(": ")), lines[-1] if lines else "")


def count_files_on_spark(
    parameters: dict[str, Any], skips_damaged: bool, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the table of all files of a task as bytes, in pieces, the last one marked. Yields then
    the errors of damaged files. Unless it `skips_damaged` files, a task ends at the first."""
    mechanism, errors = from_parameters(parameters), list[ReportError]()
    builder, on_damaged = empty_builder(mechanism), errors.append if skips_damaged else None
    try:
        for batch in batches:
            for file in batch.to_pylist():
                count_file(builder, file["day"], store_path(file["path"]), mechanism, on_damaged)
    except ReportError as error:
        errors.append(error)
    table_bytes = builder.build().to_bytes()
    for start in range(0, len(table_bytes), PIECE_BYTES):
        end = start + PIECE_BYTES
        yield _row(piece=table_bytes[start:end], is_last=end >= len(table_bytes))
    for damaged in errors:
        yield _row(error=str(damaged))


def _row(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([columns], _SCHEMA)
