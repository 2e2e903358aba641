"""Aggregation on Spark: the same integers as on one machine, from many.

Files are distributed to the workers, which read and check them as one machine would, through
`mapInArrow`. A table of at most 64 MiB is counted whole by each of them. A larger one is cut into
blocks of rows: reports go to the one worker that has their block, which counts block after block
and holds one at a time. Every worker needs this package and sees the files under the same names.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from ldp.arrays import Ints
from ldp.collection.aggregate import check_file
from ldp.collection.object_store import StorePath, store_path
from ldp.collection.store import read_reports, report_files
from ldp.errors import MissingPackage, ReportError
from ldp.mechanisms import Catalogued, JointMechanism, Mechanism, from_parameters
from ldp.mechanisms.joint_base import parts_of
from ldp.tables.joint_table import JointTable, empty_builder, split_batch
from ldp.tables.table import Table, count_reports, payload_numbers, smallest_type

BLOCK_BYTES = 64 << 20
"""Most bytes of 8-byte counts that a worker holds."""
_FAILED = "ldp.errors.ReportError: "
_MOST_BLOCKS = 1 << 20
"""Most blocks of one part; block b of part p has the key p * _MOST_BLOCKS + b."""
Parameters = dict[str, Any]


def aggregate_on_spark(
    stores: Sequence[str | StorePath],
    metric: str,
    version: int,
    mechanism: Catalogued,
    *,
    since: date | None = None,
    until: date | None = None,
    dictionary: tuple[str, ...] | None = None,
    memoised: bool = False,
    on_damaged: Callable[[ReportError], None] | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> Table | JointTable:
    """Return the table of a metric's stored reports, as `aggregate` does. The session is the active
    one, or a new one with Spark's own settings (`spark-submit`). With `on_damaged` every file is
    read twice: all are checked before any is counted. Raises MissingPackage and ReportError."""
    day_paths = [
        (day, str(path.resolve()))
        for day, path in report_files(stores, metric, version, since, until)
    ]
    size = sum(8 * part.shape.rows * part.shape.columns for part in parts_of(mechanism))
    with _session() as session:
        if on_damaged is not None:
            day_paths = _check_all(session, day_paths, mechanism, on_damaged)
        files = _distribute(session, day_paths)
        days = tuple(sorted({day for day, _ in day_paths}))
        if not day_paths:
            table = empty_builder(mechanism).build()
        elif size <= block_bytes:
            table = _count_whole(files, mechanism)
        else:
            table = _count_by_blocks(files, mechanism, days, block_bytes)
    return table.of_metric(dictionary, memoised)


def _distribute(session: Any, day_paths: list[tuple[str, str]]) -> Any:
    """Return a frame of the days and paths of files, distributed over the workers."""
    files = session.createDataFrame(day_paths, "day string, path string")
    return files.repartition(min(len(day_paths) or 1, 4 * session.sparkContext.defaultParallelism))


def _check_all(
    session: Any,
    day_paths: list[tuple[str, str]],
    mechanism: Catalogued,
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
    """Open a session for the block; raise a ReportError of a worker as one of ours."""
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise MissingPackage.of("--engine spark", error.name, "spark") from None
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


def _count_whole(files: Any, mechanism: Catalogued) -> Table | JointTable:
    parameters = mechanism.parameters()
    tables = files.mapInArrow(partial(count_files, parameters), "packed binary")
    table = empty_builder(mechanism).build()
    for row in _rows(tables):
        kind = JointTable if isinstance(mechanism, JointMechanism) else Table
        table = table + kind.from_bytes(bytes(row.packed))  # type: ignore[operator]
    return table


def count_files(
    parameters: Parameters, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the table of all files of a worker, as bytes: for small tables."""
    mechanism = from_parameters(parameters)
    builder = empty_builder(mechanism)
    for day, path in _files(batches):
        for rows, payloads in read_reports(path, mechanism):
            builder.add_batch(rows, payloads, window=day)
    table_bytes = builder.build().to_bytes()
    yield pa.RecordBatch.from_arrays([pa.array([table_bytes], pa.binary())], names=["packed"])


def _count_by_blocks(
    files: Any, mechanism: Catalogued, days: tuple[str, ...], block_bytes: int
) -> Table | JointTable:
    parameters = mechanism.parameters()
    reports = files.mapInArrow(
        partial(deal_reports, parameters, block_bytes), "block int, row long, payload binary"
    )
    blocks = sum(
        -(-part.shape.rows // rows_of_block(part, block_bytes)) for part in parts_of(mechanism)
    )
    sorted_reports = reports.repartition(blocks, "block").sortWithinPartitions("block")
    blocks_frame = sorted_reports.mapInArrow(
        partial(count_blocks, parameters, block_bytes), "block int, counts binary, reports binary"
    )
    parts = parts_of(mechanism)
    counts = [np.zeros(part.shape, dtype=np.int64) for part in parts]
    totals = [np.zeros(part.shape.rows, dtype=np.int64) for part in parts]
    for row in _rows(blocks_frame):
        number, block = divmod(row.block, _MOST_BLOCKS)
        start = block * rows_of_block(parts[number], block_bytes)
        row_reports = np.frombuffer(bytes(row.reports), dtype="<i8")
        totals[number][start : start + len(row_reports)] += row_reports
        size = 8 * len(row_reports) * parts[number].shape.columns
        unpacked = pa.decompress(row.counts, size, codec="zstd", asbytes=True)
        cells = np.frombuffer(unpacked, dtype="<i8")
        counts[number][start : start + len(row_reports)] += cells.reshape(len(row_reports), -1)
    tables = tuple(
        Table(part, cells.astype(smallest_type(int(total.max()), part.kind.is_signed)), total, days)
        for part, cells, total in zip(parts, counts, totals, strict=True)
    )
    return JointTable(mechanism, tables) if isinstance(mechanism, JointMechanism) else tables[0]


def rows_of_block(part: Mechanism, block_bytes: int) -> int:
    """Return the number of rows of a part's table that are counted together."""
    return max(1, block_bytes // (8 * part.shape.columns))


def deal_reports(
    parameters: Parameters, block_bytes: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield every part of every report of a worker's files, checked, with the block of its row: for
    large tables."""
    mechanism = from_parameters(parameters)
    parts = parts_of(mechanism)
    for _, path in _files(batches):
        for rows, payloads in read_reports(path, mechanism):
            part_reports = split_batch(mechanism.layout, rows, payloads)
            for number, (part, (part_rows, part_payloads)) in enumerate(
                zip(parts, part_reports, strict=True)
            ):
                block_rows = rows_of_block(part, block_bytes)
                keys = number * _MOST_BLOCKS + part_rows.astype(np.int64) // block_rows
                size = pa.binary(part.layout.payload_bytes)
                data = pa.py_buffer(np.ascontiguousarray(part_payloads))
                column = pa.FixedSizeBinaryArray.from_buffers(size, len(part_rows), [None, data])
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array(keys.astype(np.int32)),
                        pa.array(part_rows.astype(np.int64)),
                        column.cast(pa.binary()),
                    ],
                    names=["block", "row", "payload"],
                )


def count_blocks(
    parameters: Parameters, block_bytes: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the counts of each block, from reports that are sorted by block."""
    parts = parts_of(from_parameters(parameters))
    current, counts, reports = -1, np.zeros((0, 0), np.int64), np.zeros(0, np.int64)
    for batch in batches:
        keys = batch.column("block").to_numpy()
        for key in np.unique(keys).tolist():
            if key != current and current >= 0:
                yield _block_batch(current, counts, reports)
            number, block = divmod(key, _MOST_BLOCKS)
            part = parts[number]
            block_rows = rows_of_block(part, block_bytes)
            if key != current:
                rows_here = min(block_rows, part.shape.rows - block * block_rows)
                current, reports = key, np.zeros(rows_here, np.int64)
                counts = np.zeros((rows_here, part.shape.columns), np.int64)
            selection = batch.filter(pa.array(keys == key))
            rows = selection.column("row").to_numpy()
            data = b"".join(selection.column("payload").to_pylist())
            payloads = np.frombuffer(data, np.uint8).reshape(len(rows), -1)
            numbers = payload_numbers(part.layout, rows, payloads)
            np.add.at(reports, rows - block * block_rows, 1)
            count_reports(part.layout, counts, rows - block * block_rows, payloads, numbers)
    if current >= 0:
        yield _block_batch(current, counts, reports)


def _block_batch(block: int, counts: Ints, reports: Ints) -> pa.RecordBatch:
    packed = pa.compress(counts.astype("<i8").tobytes(), codec="zstd", asbytes=True)
    columns = [
        pa.array([block], pa.int32()),
        pa.array([packed], pa.binary()),
        pa.array([reports.astype("<i8").tobytes()], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["block", "counts", "reports"])


def _files(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, StorePath]]:
    for batch in batches:
        for row in batch.to_pylist():
            yield row["day"], store_path(row["path"])
