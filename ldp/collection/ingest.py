"""Ingestion: from a collector's buffer to the report store, block by block, each shuffled.

A block waits until it has a least number of reports or a greatest age. The plan of its file is
written and synced first, the file replaces any file of its name, and the lots are deleted only when
the rename is on the disk. So an ingestor that ends at any moment can be run again. Nothing is lost
or counted twice. Reports that are not plausible go to `set-aside`, a store of its own.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import date
from pathlib import Path

import numpy as np

from ldp.arrays import Bytes, RowNumbers
from ldp.collection.buffer import Buffer, BufferedMetric, FilePlan, RelayedReports
from ldp.collection.object_store import StorePath
from ldp.collection.plausibility import is_plausible
from ldp.collection.store import ReportWriter
from ldp.files import sync_folder, write_whole
from ldp.tables.batches import split_bodies

SET_ASIDE, RELAYED, MARK = "set-aside", "relayed", "buffer.mark"
_SIZES = "batch,attested,opened\n"
MOST_BLOCK_BYTES = 32 << 20
"""Most bytes of the reports of one file, before compression."""


def write_block(
    store: StorePath,
    metric: BufferedMetric,
    plan: FilePlan,
    lots: list[bytes],
    candidates: tuple[str, ...] = (),
) -> tuple[int, int]:
    """Write a plan's reports to their file or files, which are on the disk when this returns.
    Return how many went to the store and to `set-aside`.

    The order of the reports is random. Files are dated to the beginning of their day. `candidates`:
    the metric's dictionary, to judge reports by.
    """
    bodies = shuffle_bodies(lots, metric.mechanism.layout.body_bytes)
    rows, payloads = split_bodies(bodies, metric.mechanism.layout)
    good = is_plausible(metric.mechanism, rows, payloads, candidates)
    if good.all():
        _write(store, metric, plan, rows, payloads)
    else:
        for folder, mask in ((store, good), (store / SET_ASIDE, ~good)):
            _write(folder, metric, plan, rows[mask], payloads[mask])
    return int(good.sum()), int((~good).sum())


def shuffle_bodies(
    lots: list[bytes], size: int, entropy: Callable[[int], bytes] = os.urandom
) -> Bytes:
    """Return the bodies of lots, shape (reports, size), ordered by 64 bits of `entropy` each."""
    bodies = np.frombuffer(b"".join(lots), dtype=np.uint8).reshape(-1, size)
    keys = np.frombuffer(entropy(8 * len(bodies)), dtype=np.uint64)
    # of whole rows faster than an index
    return bodies.take(np.argsort(keys), axis=0)


def _write(
    store: StorePath,
    metric: BufferedMetric,
    plan: FilePlan,
    rows: RowNumbers,
    payloads: Bytes,
) -> None:
    if not len(rows):
        return
    with writer_of(store, metric, plan) as writer:
        writer.write(rows, payloads)
    if not isinstance(writer.path, Path):
        return
    for folder in (writer.path.parent, *writer.path.parent.parents):
        sync_folder(folder)
        if folder == store.parent:
            break


def writer_of(store: StorePath, metric: BufferedMetric, plan: FilePlan) -> ReportWriter:
    """Return the writer of a plan's file."""
    return ReportWriter(store, metric.metric, metric.version, metric.mechanism, plan.day, plan.name)


def mark_of(store: StorePath) -> str:
    """Return the mark of a store: a name and how often the mark rose, "" where there is none. The
    buffer has the same mark, which rises at least once a minute while batches come."""
    path = store / MARK
    return path.read_bytes().decode("ascii", "replace").strip() if path.is_file() else ""


def write_mark(store: StorePath, mark: str) -> None:
    """Write the mark of a store, for good: a power cut after it does not undo it."""
    _write_text(store / MARK, f"{mark}\n")
    if isinstance(store, Path):
        sync_folder(store)


def _write_text(path: StorePath, text: str) -> None:
    if isinstance(path, Path):
        write_whole(path, text)
    else:
        path.write_bytes(text.encode())


def write_sizes(store: StorePath, relayed: Iterable[RelayedReports]) -> None:
    """Write the sizes of a relay's batches as CSV files `batch,attested,opened`, one for each
    version of a metric. The name of a batch is random. It is empty for reports that came without an
    attestation."""
    lines = dict[StorePath, list[str]]()
    for one in relayed:
        path = store / RELAYED / f"{one.metric}-{one.version}.csv"
        lines.setdefault(path, [_SIZES]).append(_line_of(one))
    for path, text in lines.items():
        _write_text(path, "".join(text))


def add_size(store: Path, relayed: RelayedReports) -> None:
    """Add the line of a batch to the file of its metric, in a store that no collector writes."""
    path = store / RELAYED / f"{relayed.metric}-{relayed.version}.csv"
    known = path.read_text("utf-8") if path.exists() else _SIZES
    write_whole(path, known + _line_of(relayed))


def _line_of(relayed: RelayedReports) -> str:
    return f"{relayed.batch.hex()},{relayed.attested},{relayed.opened}\n"


def clean(store: StorePath, buffer: Buffer) -> None:
    """Delete the unfinished parts of planned files that a killed ingestor of this buffer left in a
    store."""
    roots = (store, store / SET_ASIDE) if isinstance(store, Path) else ()
    for metric in buffer.metrics():
        plan = buffer.plan(metric.number)
        if plan is not None:
            for root in roots:
                path = writer_of(root, metric, plan).path
                for part in path.parent.glob(f".{path.name}.*.part"):
                    part.unlink()


def retire(store: StorePath, oldest: date) -> int:
    """Delete the files of days before `oldest`, also those set aside. Returns their number. Links
    to folders and files are not deleted, nor are their targets."""
    number = 0
    for root in (store, store / SET_ASIDE):
        for folder in root.glob("metric=*/version=*/day=*"):
            with suppress(ValueError):
                is_old = date.fromisoformat(folder.name.removeprefix("day=")) < oldest
                parents = [store / parent for parent in folder.relative_to(store).parents][:-1]
                is_linked = any(path.is_symlink() for path in (folder, *parents))
                if is_old and not is_linked:
                    number += _delete_files(folder)
    return number


def _delete_files(folder: StorePath) -> int:
    number = 0
    for path in (*folder.glob("*.parquet"), *folder.glob(".*.parquet.*.part")):
        if path.is_file() and not path.is_symlink():
            path.unlink()
            number += 1
    with suppress(OSError):
        folder.rmdir()
    return number
