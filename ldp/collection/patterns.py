"""Patterns of stored reports, on one machine: which values, or bits, came together."""

from collections.abc import Callable, Iterator, Sequence
from datetime import date

from ldp.collection.object_store import StorePath
from ldp.collection.store import StoredBatch, read_reports, report_files
from ldp.errors import ReportError
from ldp.mechanisms import CatalogueMechanism
from ldp.tables.joint_table import split_batch
from ldp.tables.patterns import Patterns


def read_patterns(
    stores: Sequence[str | StorePath],
    metric: str,
    version: int,
    mechanism: CatalogueMechanism,
    *,
    since: date | None = None,
    until: date | None = None,
    on_file: Callable[[StorePath], None] | None = None,
) -> Patterns:
    """Return the patterns of a metric's stored reports. A damaged or foreign file raises
    ReportError with its name; `on_file` is called with each file that was read. Memory: all
    different reports."""
    return patterns_of(report_files(stores, metric, version, since, until), mechanism, on_file)


def patterns_of(
    dated_files: Sequence[tuple[str, StorePath]],
    mechanism: CatalogueMechanism,
    on_file: Callable[[StorePath], None] | None = None,
) -> Patterns:
    """Return the patterns of `dated_files`, pairs (day, file) as from `report_files`, of one
    mechanism; otherwise as `read_patterns`."""

    def batches() -> Iterator[StoredBatch]:
        for _, path in dated_files:
            for batch in read_reports(path, mechanism):
                try:
                    split_batch(mechanism.layout, *batch)
                except ReportError as error:
                    raise ReportError(f"{path}: {error}") from None
                yield batch
            if on_file is not None:
                on_file(path)

    return Patterns.of(mechanism, batches())
