"""Reports to one table on one machine: a stream of files, memory of two tables and one block."""

from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

from ldp.collection.checkpoint import Checkpoint
from ldp.collection.store import read_reports, report_files
from ldp.errors import ReportError
from ldp.mechanisms import Catalogued
from ldp.protocol.wire import JointLayout
from ldp.tables.joint_table import JointTable, JointTableBuilder, empty_builder, split_batch
from ldp.tables.table import Table, TableBuilder, payload_numbers

EVERY = 100
"""Files between two checkpoints."""


def aggregate(
    stores: Sequence[str | Path],
    metric: str,
    version: int,
    mechanism: Catalogued,
    *,
    since: date | None = None,
    until: date | None = None,
    workers: int = 1,
    dictionary: tuple[str, ...] | None = None,
    memoised: bool = False,
    on_damaged: Callable[[ReportError], None] | None = None,
    on_file: Callable[[Path], None] | None = None,
    checkpoint: Path | None = None,
    every: int = EVERY,
) -> Table | JointTable:
    """The table of a metric's stored reports.

    `workers` threads own disjoint ranges of the table's rows; `dictionary` and `memoised` go into
    the table. A damaged or foreign file raises ReportError naming it; with `on_damaged` its error
    is handed over instead and the file counts for nothing, whole: it is checked before the first of
    its reports is counted. `on_file` is told each file that was counted. What was counted is kept
    in `checkpoint` after `every` so many files; a run that finds the checkpoint of the same
    question goes on from there, and one that ends removes it.
    """
    listed = report_files(stores, metric, version, since, until)
    question = f"{metric} {version} {mechanism.fingerprint.hex()} {since} {until}"
    names = [str(path.resolve()) for _, path in listed]
    kept = checkpoint and Checkpoint.load(checkpoint, question, names)
    table = kept.table if kept else None
    counted = dict.fromkeys(kept.files if kept else ())
    builder = empty_builder(mechanism, workers)
    for (day, path), name in zip(listed, names, strict=True):
        if name not in counted:
            if not _count(builder, day, path, mechanism, on_damaged):
                continue
            counted[name] = None
            if checkpoint and len(counted) % every == 0:
                table, builder = _sum(table, builder.build()), empty_builder(mechanism, workers)
                Checkpoint(question, tuple(counted), table).save(checkpoint)
        if on_file is not None:
            on_file(path)
    table = _sum(table, builder.build())
    if checkpoint:
        checkpoint.unlink(missing_ok=True)
    return table.of_metric(dictionary, memoised)


def _sum(one: Table | JointTable | None, other: Table | JointTable) -> Table | JointTable:
    return other if one is None else one + other  # type: ignore[operator]


def _count(
    builder: TableBuilder | JointTableBuilder,
    day: str,
    path: Path,
    mechanism: Catalogued,
    on_damaged: Callable[[ReportError], None] | None,
) -> bool:
    """Counts a file, or says why not and returns False."""
    if on_damaged is not None:
        try:
            check_file(path, mechanism)
        except ReportError as error:
            on_damaged(error)
            return False
    for rows, payloads in read_reports(path, mechanism):
        try:
            builder.add_batch(rows, payloads, window=day)
        except ReportError as error:
            raise ReportError(f"{path}: {error}") from None
    return True


def check_file(path: Path, mechanism: Catalogued) -> None:
    """Reads the whole file and counts nothing; raises ReportError naming it."""
    for rows, payloads in read_reports(path, mechanism):
        try:
            layout = mechanism.layout
            if isinstance(layout, JointLayout):
                split_batch(layout, rows, payloads)
            else:
                payload_numbers(layout, rows, payloads)
        except ReportError as error:
            raise ReportError(f"{path}: {error}") from None
