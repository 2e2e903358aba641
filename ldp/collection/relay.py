"""A relay that seals anew: what its own collector stored goes to the next one, each file once.

The relay's collector has recognised repeated batches and shuffled the reports of many devices into
files. A file becomes the same batches, byte for byte, whenever it is read: their ids are digests of
its place in the store, which holds a random name that no other file has, and
their day is the file's. So a run that ends anywhere is repeated, and the next collector recognises
what it has already. A relay that forwards batches unchanged needs none of this: it is a proxy.
"""

import hashlib
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import NamedTuple

from ldp.client.destinations import Destination, Unreachable
from ldp.collection.buffer import Buffer, Waiting
from ldp.collection.ingest import writer_of
from ldp.collection.intake import join_bodies
from ldp.collection.store import read_reports
from ldp.errors import ReportError
from ldp.files import sync_folder
from ldp.protocol.batch import ID_BYTES, Batch, Item, pack_batches

PASSING = (0, 408, 429)
"""Answers below 500, or none, after which the same bytes may be taken later."""


class Forwarded(NamedTuple):
    """What became of a store: `refused` of the `reports` will never be counted; `left` are the
    files that stay, and why: they are damaged, or the destination does not take them."""

    files: int
    reports: int
    refused: int
    left: tuple[tuple[Path, str], ...] = ()


def forward(store: str | Path, buffer: str | Path, destination: Destination) -> Forwarded:
    """Sends every finished file of a relay's store and deletes it when all of it is acknowledged.

    `buffer`: that of the collector that fills the store, which may run meanwhile. What that set
    aside stays, and so does a file that is damaged, or that the destination answers with a status
    that will not change (410: sealed too long ago): the others are sent. Raises Unreachable when
    the destination cannot take a batch now: the same call again goes on. Memory: the reports of one
    file.
    """
    root, done = Path(store), Forwarded(0, 0, 0)
    for metric, path in _finished(root, Path(buffer)):
        reports = refused = 0
        try:
            for batch in sealed(root, path, metric):
                refused += destination.send(batch.id, batch.to_bytes())
                reports += len(batch.items)
        except (ReportError, Unreachable) as error:
            if isinstance(error, Unreachable) and (error.status in PASSING or error.status >= 500):
                raise
            done = done._replace(left=(*done.left, (path, str(error))))
            continue
        path.unlink(missing_ok=True)
        sync_folder(path.parent)
        done = Forwarded(done.files + 1, done.reports + reports, done.refused + refused, done.left)
    return done


def sealed(store: Path, path: Path, metric: Waiting) -> Iterator[Batch]:
    """The batches of a file of the store: the same whenever they are made."""
    header = metric.mechanism.header.to_bytes()
    items = [
        Item(metric.metric, metric.version, header + body)
        for rows, payloads in read_reports(path, metric.mechanism)
        for body in join_bodies(rows, payloads, metric.mechanism)
    ]
    place, day = path.relative_to(store).as_posix(), path.parent.name.removeprefix("day=")
    for number, some in enumerate(pack_batches(items)):
        name = f"{place} {number}".encode()
        identity = hashlib.blake2b(name, digest_size=ID_BYTES, person=b"ldp relay").digest()
        yield Batch(identity, date.fromisoformat(day), some)


def _finished(store: Path, folder: Path) -> list[tuple[Waiting, Path]]:
    """Files that no ingestor will write again, oldest first of each metric."""
    buffer = Buffer(folder)
    try:
        found = [
            (one, path)
            for one in buffer.metrics()
            for path in sorted(store.glob(f"metric={one.metric}/version={one.version}/day=*/*"))
            if path.suffix == ".parquet" and not path.name.startswith(".")
        ]
        again = set()  # looked at after the files: a plan whose file was seen is still there
        for one in buffer.metrics():
            plan = buffer.plan(one.number)
            if plan and not plan.is_written:
                again.add(writer_of(store, one, plan).path)
    finally:
        buffer.close()
    return [(one, path) for one, path in found if path not in again]
