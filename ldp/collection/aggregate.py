"""Aggregation on one machine: a stream of files, with memory for two tables and one block."""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path

from ldp.collection.object_store import StorePath
from ldp.collection.store import read_reports, real_name, report_files
from ldp.errors import LdpError, ReportError
from ldp.files import write_whole
from ldp.mechanisms import CatalogueMechanism
from ldp.protocol.strict_json import parse_json
from ldp.registry import Metric
from ldp.registry.label import Label
from ldp.tables.batches import split_batch
from ldp.tables.joint_table import JointTable, empty_builder
from ldp.tables.table import CountsReports, Table

EVERY = 100
"""Number of files between two checkpoints."""
_DIGEST_BYTES = 16


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
    on_file: Callable[[StorePath], None] | None = None,
    checkpoint: Path | None = None,
    every: int = EVERY,
    whole: bool = False,
) -> Table | JointTable:
    """Return the table of a metric's stored reports.

    `since`, `until`: first and last day. `workers`: threads, each with its own range of the table's
    rows. `dictionary` and `memoised` go into the table. A damaged or foreign file raises
    ReportError with its name; with `on_damaged` its error is passed on instead and none of its
    reports is counted. `on_file` is called with each file that was counted. After every `every`
    files the table so far is written to `checkpoint`; a later run with the same question goes on
    from there, and a run that succeeds deletes it. `whole`: whether the table holds the whole
    reports too; it never does for a memoised metric over several days. Raises ReportError where
    too many whole reports differ.
    """
    files = report_files(stores, metric, version, since, until)
    whole = whole and not (memoised and len({day for day, _ in files}) > 1)
    return count_files(
        files,
        mechanism,
        workers=workers,
        on_damaged=on_damaged,
        on_file=on_file,
        checkpoint=checkpoint,
        question=" ".join(
            map(str, (metric, version, mechanism.fingerprint.hex(), since, until, whole))
        ),
        every=every,
        whole=whole,
    ).of_metric(dictionary, memoised)


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
    checkpoint: Path | None = None,
    question: str = "",
    every: int = EVERY,
    whole: bool = False,
) -> Table | JointTable:
    """Return the table of `dated_files`, pairs (day, file) as from `report_files`, of one
    mechanism. The other arguments and the errors are those of `aggregate`; a checkpoint is only
    used by a run with the same `question`."""
    names = [real_name(path) for _, path in dated_files]
    start = checkpoint and Checkpoint.load(checkpoint, question, names)
    table = start.table if start else None
    counted = dict.fromkeys(start.files if start else ())
    begin = partial(empty_builder, mechanism, workers, whole)
    builder = begin()
    for (day, path), name in zip(dated_files, names, strict=True):
        if name not in counted:
            if not count_file(builder, day, path, mechanism, on_damaged):
                continue
            counted[name] = None
            if checkpoint and len(counted) % every == 0:
                table, builder = _sum(table, builder.build()), begin()
                Checkpoint(question, tuple(counted), table).save(checkpoint)
        if on_file is not None:
            on_file(path)
    table = _sum(table, builder.build())
    if checkpoint:
        checkpoint.unlink(missing_ok=True)
    return table


def _sum(total: Table | JointTable | None, table: Table | JointTable) -> Table | JointTable:
    return table if total is None else total + table  # type: ignore[operator]


def count_file(
    builder: CountsReports,
    day: str,
    path: StorePath,
    mechanism: CatalogueMechanism,
    on_damaged: Callable[[ReportError], None] | None,
) -> bool:
    """Count a file of a `day` with `builder`, and return True. Raise ReportError with the file's
    name if a report is damaged; with `on_damaged` pass that error on, count nothing of the file,
    and return False."""
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


def check_file(path: StorePath, mechanism: CatalogueMechanism) -> None:
    """Read a whole file; raise ReportError with its name if any report is damaged."""
    for rows, payloads in read_reports(path, mechanism):
        try:
            split_batch(mechanism.layout, rows, payloads)
        except ReportError as error:
            raise ReportError(f"{path}: {error}") from None


@dataclass(frozen=True)
class Checkpoint:
    """Progress of an aggregation: one file, replaced whole. `question`: what is counted (metric,
    version, mechanism, days, whole reports or not); `files`: names of the files counted in `table`.
    If one of them was removed since, the aggregation starts over."""

    question: str
    files: tuple[str, ...]
    table: Table | JointTable

    def save(self, path: Path) -> None:
        """Write the checkpoint atomically: a line of JSON, the table's bytes, a checksum."""
        head = {"question": self.question, "files": self.files}
        data = json.dumps(head).encode() + b"\n" + self.table.to_bytes()
        write_whole(path, data + _digest(data))

    @classmethod
    def load(cls, path: Path, question: str, files: Iterable[str]) -> "Checkpoint | None":
        """Return the checkpoint of a question if it is undamaged and all its files are among
        `files`, else None."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            data = path.read_bytes()
            body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
            line, _, table_bytes = body.partition(b"\n")
            head = parse_json(line)
            is_sound = _digest(body) == digest and head["question"] == question
            if not (is_sound and {*head["files"]} <= {*files}):
                return None
            with suppress(LdpError):
                return cls(question, tuple(head["files"]), Table.from_bytes(table_bytes))
            return cls(question, tuple(head["files"]), JointTable.from_bytes(table_bytes))
        return None


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
