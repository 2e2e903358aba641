"""From a collector's buffer to the report store: block by block, each shuffled and written whole.

A block waits until it has a least number of reports or a greatest age. What becomes its file is
decided and synced first, the file replaces any of its name, and the lots go only when the rename is
on the disk: an ingestor that ends at any moment is run again and nothing is lost or counted twice.
What is not plausible goes to the same place below `set-aside`, a store of its own.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp.collection.buffer import Plan, Waiting
from ldp.collection.intake import split_bodies
from ldp.collection.plausibility import plausible
from ldp.collection.store import ReportWriter
from ldp.files import sync_folder

SET_ASIDE = "set-aside"
MOST_BLOCK_BYTES = 32 << 20
"""Of the reports of one file, before compression."""


class Written(NamedTuple):
    """What became of a block."""

    stored: int
    set_aside: int


def write_block(
    store: Path,
    buffer: str,
    waiting: Waiting,
    plan: Plan,
    lots: list[bytes],
    entropy: Callable[[int], bytes] = os.urandom,
) -> Written:
    """Writes a plan's reports to their file or files, on the disk for good when this returns.

    `buffer`: the buffer's name; with the range of the plan it makes the file's. The order of the
    reports is drawn from `entropy`; files are dated to the beginning of their day.
    """
    bodies = shuffled(lots, waiting.mechanism.layout.body_bytes, entropy)
    rows, payloads = split_bodies(bodies, waiting.mechanism)
    good = plausible(waiting.mechanism, rows, payloads)
    if good.all():
        _write(store, buffer, waiting, plan, rows, payloads)
    else:
        for folder, chosen in ((store, good), (store / SET_ASIDE, ~good)):
            _write(folder, buffer, waiting, plan, rows[chosen], payloads[chosen])
    return Written(int(good.sum()), int((~good).sum()))


def shuffled(lots: list[bytes], size: int, entropy: Callable[[int], bytes]) -> NDArray[np.uint8]:
    """The bodies of some lots, shape (reports, size), in an order drawn from `entropy`: that of 64
    random bits each."""
    bodies = np.frombuffer(b"".join(lots), dtype=np.uint8).reshape(-1, size)
    keys = np.frombuffer(entropy(8 * len(bodies)), dtype=np.uint64)
    return bodies[np.argsort(keys, kind="stable")]


def _write(
    store: Path,
    buffer: str,
    waiting: Waiting,
    plan: Plan,
    rows: NDArray[np.uint32],
    payloads: NDArray[np.uint8],
) -> None:
    if not len(rows):
        return
    with writer_of(store, buffer, waiting, plan) as writer:
        writer.write(rows, payloads)
    midnight = (plan.day - date(1970, 1, 1)) // timedelta(seconds=1)
    os.utime(writer.path, (midnight, midnight))
    for folder in (writer.path.parent, *writer.path.parent.parents):
        sync_folder(folder)
        if folder == store.parent:
            break


def writer_of(store: Path, buffer: str, waiting: Waiting, plan: Plan) -> ReportWriter:
    """Of a plan's file: its name is that of the buffer and the range of the plan, so that a run
    that is repeated replaces it."""
    name = f"{buffer}-{plan.first:012d}-{plan.last:012d}"
    return ReportWriter(store, waiting.metric, waiting.version, waiting.mechanism, plan.day, name)


def clean(store: Path, buffer: str) -> None:
    """Removes what a killed ingestor of this buffer left unfinished."""
    for root in (store, store / SET_ASIDE):
        for part in root.glob(f"metric=*/version=*/day=*/.{buffer}-*.part"):
            part.unlink()


def retire(store: Path, oldest: date) -> int:
    """Deletes the files of days before `oldest`, also what was set aside; how many."""
    gone = 0
    for root in (store, store / SET_ASIDE):
        for folder in root.glob("metric=*/version=*/day=*"):
            with suppress(ValueError):
                if date.fromisoformat(folder.name.removeprefix("day=")) < oldest:
                    for path in folder.glob("*.parquet"):
                        path.unlink()
                        gone += 1
                    with suppress(OSError):
                        folder.rmdir()
    return gone
