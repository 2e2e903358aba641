"""Relay that seals again: files of its own collector's store go to the next one, each once.

The relay's collector has recognised repeated batches and shuffled the reports of many devices into
files. A file always becomes the same batches, byte for byte: their ids are digests of its path in
the store, which has a random name, and their day is the file's. So a run that ends anywhere is
repeated, and the next collector recognises the batches that it has. A relay that forwards batches
unchanged needs none of this: it is a proxy.
"""

import hashlib
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import NamedTuple

from ldp.collection.buffer import Buffer, BufferedMetric
from ldp.collection.ingest import writer_of
from ldp.collection.intake import join_bodies
from ldp.collection.store import read_reports, version_folder
from ldp.errors import ReportError, Unreachable
from ldp.files import sync_folder
from ldp.protocol.batch import ID_BYTES, Batch, Destination, Item, pack_batches

PASSING = (0, 408, 421, 429)
"""Statuses below 500, 0 for no answer, after which the same bytes may be taken later."""


class ForwardResult(NamedTuple):
    """Result of forwarding a store: numbers of files and reports sent; `refused`: reports that will
    never be counted; `left`: files that stay, with the reason: damaged, or not accepted."""

    files: int
    reports: int
    refused: int
    left: tuple[tuple[Path, str], ...] = ()


def forward(store: str | Path, buffer: str | Path, destination: Destination) -> ForwardResult:
    """Send every finished file of a relay's store, and delete it when all of it is acknowledged.

    `buffer`: the folder of the buffer of the collector that fills the store, which may run
    meanwhile. Files of `set-aside` stay, and so do damaged files and those that the destination
    answers with a status that will not change (410: sealed too long ago). Raise Unreachable when
    the destination cannot take a batch now: call again to go on. Memory: the reports of one file.
    """
    root, result = Path(store), ForwardResult(0, 0, 0)
    for metric, path in _finished_files(root, Path(buffer)):
        reports = refused = 0
        if metric.mechanism.needs_shuffler:
            why = "messages for a shuffler are taken from a relay only: aggregate them here"
            result = result._replace(left=(*result.left, (path, why)))
            continue
        try:
            for batch in batches_of_file(root, path, metric):
                refused += destination.send(batch.id, batch.to_bytes())
                reports += len(batch.items)
        except (ReportError, Unreachable) as error:
            if isinstance(error, Unreachable) and (error.status in PASSING or error.status >= 500):
                raise
            result = result._replace(left=(*result.left, (path, str(error))))
            continue
        path.unlink(missing_ok=True)
        sync_folder(path.parent)
        result = ForwardResult(
            result.files + 1, result.reports + reports, result.refused + refused, result.left
        )
    return result


def batches_of_file(store: Path, path: Path, metric: BufferedMetric) -> Iterator[Batch]:
    """Yield the batches of a file of the store, always the same."""
    header = metric.mechanism.header
    items = [
        Item(metric.metric, metric.version, header + body)
        for rows, payloads in read_reports(path, metric.mechanism)
        for body in join_bodies(rows, payloads, metric.mechanism)
    ]
    place, day = path.relative_to(store).as_posix(), path.parent.name.removeprefix("day=")
    for number, batch_items in enumerate(pack_batches(items)):
        name = f"{place} {number}".encode()
        identity = hashlib.blake2b(name, digest_size=ID_BYTES, person=b"ldp relay").digest()
        yield Batch(identity, date.fromisoformat(day), batch_items)


def _finished_files(store: Path, folder: Path) -> list[tuple[BufferedMetric, Path]]:
    """Return the files that no ingestor will write again, oldest first of each metric."""
    buffer = Buffer(folder)
    try:
        files = [
            (metric, path)
            for metric in buffer.metrics()
            for path in sorted(version_folder(store, metric.metric, metric.version).glob("day=*/*"))
            if path.suffix == ".parquet" and not path.name.startswith(".")
        ]
        unwritten = set()  # read after the files: a plan whose file was listed still exists
        for metric in buffer.metrics():
            plan = buffer.plan(metric.number)
            if plan and not plan.is_written:
                unwritten.add(writer_of(store, metric, plan).path)
    finally:
        buffer.close()
    return [(metric, path) for metric, path in files if path not in unwritten]
