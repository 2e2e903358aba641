"""Aggregation on one machine: a stream of files, with memory for two tables and two blocks."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from typing import Any

from ldp.collection.object_store import StorePath
from ldp.collection.store import read_reports, report_files
from ldp.errors import ReportError, errors_in
from ldp.mechanisms import CatalogueMechanism
from ldp.registry import Metric
from ldp.registry.label import Label
from ldp.tables.batches import split_batch
from ldp.tables.joint_table import JointTable, empty_builder
from ldp.tables.table import CountsReports, Table


def aggregate(
    stores: Sequence[str | StorePath],
    metric: str,
    version: int,
    mechanism: CatalogueMechanism,
    *,
    since: date | None = None,
    until: date | None = None,
    workers: int = 1,
    dictionary: tuple[str, ...] | None = None,
    memoised: bool = False,
    on_damaged: Callable[[ReportError], None] | None = None,
    whole: bool = False,
) -> Table | JointTable:
    """Return the table of a metric's stored reports.

    `since`, `until`: first and last day. `workers`: threads, each with its own range of the table's
    rows. `dictionary` and `memoised` go into the table. A damaged or foreign file raises
    ReportError with its name. With `on_damaged` its error is passed on instead and none of its
    reports is counted. `whole`: whether the table holds the whole reports too. It never does for a
    memoised metric over several days. Raises ReportError where too many whole reports differ.
    """
    files = report_files(stores, metric, version, since, until)
    whole = whole and not (memoised and len({day for day, _ in files}) > 1)
    table = count_files(files, mechanism, workers=workers, on_damaged=on_damaged, whole=whole)
    return table.of_metric(dictionary, memoised)


def with_metric(table: Table | JointTable, metric: Metric, label: Label) -> Table | JointTable:
    """Return the table with the candidates, memoisation and label of its metric. A table of a joint
    metric that holds whole reports also gets the candidates of each member."""
    table = table.of_metric(metric.candidates(), bool(metric.memoise)).labelled(label)
    if isinstance(table, JointTable) and table.whole and metric.members:
        table = table.of_members({one.name: one.candidates() for one in metric.members})
    return table


def count_files(
    dated_files: Sequence[tuple[str, StorePath]],
    mechanism: CatalogueMechanism,
    *,
    workers: int = 1,
    on_damaged: Callable[[ReportError], None] | None = None,
    on_file: Callable[[StorePath], None] | None = None,
    whole: bool = False,
) -> Table | JointTable:
    """Return the table of `dated_files`, pairs (day, file) as from `report_files`, of one
    mechanism. `on_file` is called with each file that was counted. The other arguments and the
    errors are those of `aggregate`."""
    builder = empty_builder(mechanism, workers, whole)
    for day, path in dated_files:
        is_counted = count_file(builder, day, path, mechanism, on_damaged)
        if is_counted and on_file is not None:
            on_file(path)
    return builder.build()


def count_file(
    builder: CountsReports,
    day: str,
    path: StorePath,
    mechanism: CatalogueMechanism,
    on_damaged: Callable[[ReportError], None] | None,
) -> bool:
    """Count a file of a `day` with `builder`, and return True. Raise ReportError with the file's
    name if a report is damaged. With `on_damaged` pass that error on, count nothing of the file,
    and return False."""
    if on_damaged is not None:
        try:
            _pass_reports(path, mechanism, partial(split_batch, mechanism.layout))
        except ReportError as error:
            on_damaged(error)
            return False
    _pass_reports(path, mechanism, partial(builder.add_batch, window=day))
    return True


def _pass_reports(path: StorePath, mechanism: CatalogueMechanism, take: Callable[..., Any]) -> None:
    """Pass the batches of a file to `take`, and read the next one meanwhile. Raises ReportError
    with its name if any is damaged."""
    batches = read_reports(path, mechanism)
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, batches, None)
        while batch := coming.result():
            coming = reader.submit(next, batches, None)
            with errors_in(path, ReportError):
                take(*batch)
