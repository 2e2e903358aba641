"""Reports to one table on one machine: a stream of files, memory of one table and one block."""

from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

from ldp.collection.store import read_reports, report_files
from ldp.errors import ReportError
from ldp.joint_table import JointTable, empty_builder, split_batch
from ldp.mechanisms import Catalogued
from ldp.table import Table, payload_numbers
from ldp.wire import JointLayout


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
    on_damaged: Callable[[ReportError], None] | None = None,
    on_file: Callable[[Path], None] | None = None,
) -> Table | JointTable:
    """The table of a metric's stored reports.

    `workers` threads own disjoint ranges of the table's rows; `dictionary` goes into the table. A
    damaged or foreign file raises ReportError naming it; with `on_damaged` its error is handed over
    instead and the file counts for nothing, whole: it is checked before the first of its reports is
    counted. `on_file` is told each file that was counted.
    """
    builder = empty_builder(mechanism, workers)
    for day, path in report_files(stores, metric, version, since, until):
        if on_damaged is not None:
            try:
                _check(path, mechanism)
            except ReportError as error:
                on_damaged(error)
                continue
        for rows, payloads in read_reports(path, mechanism):
            try:
                builder.add_batch(rows, payloads, window=day)
            except ReportError as error:
                raise ReportError(f"{path}: {error}") from None
        if on_file is not None:
            on_file(path)
    return builder.build().with_dictionary(dictionary)


def _check(path: Path, mechanism: Catalogued) -> None:
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
