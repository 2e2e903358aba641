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

from ldp.collection.buffer import Buffer, Plan, Waiting
from ldp.collection.intake import split_bodies
from ldp.collection.plausibility import plausible
from ldp.collection.store import ReportWriter
from ldp.files import sync_folder

SET_ASIDE = "set-aside"
MOST_BLOCK_BYTES = 32 << 20
"""Of the reports of one file, before compression."""
SETTLED_SECONDS = 3600.0
"""For which the clock must have shown a day before files are deleted by it."""


class Written(NamedTuple):
    """What became of a block."""

    stored: int
    set_aside: int


def write_block(
    store: Path,
    waiting: Waiting,
    plan: Plan,
    lots: list[bytes],
    entropy: Callable[[int], bytes] = os.urandom,
    candidates: tuple[str, ...] = (),
) -> Written:
    """Writes a plan's reports to their file or files, on the disk for good when this returns.

    The order of the reports is drawn from `entropy`; files are dated to the beginning of their day.
    `candidates`: the metric's dictionary, to judge reports by.
    """
    bodies = shuffled(lots, waiting.mechanism.layout.body_bytes, entropy)
    rows, payloads = split_bodies(bodies, waiting.mechanism)
    good = plausible(waiting.mechanism, rows, payloads, candidates)
    if good.all():
        _write(store, waiting, plan, rows, payloads)
    else:
        for folder, chosen in ((store, good), (store / SET_ASIDE, ~good)):
            _write(folder, waiting, plan, rows[chosen], payloads[chosen])
    return Written(int(good.sum()), int((~good).sum()))


def shuffled(lots: list[bytes], size: int, entropy: Callable[[int], bytes]) -> NDArray[np.uint8]:
    """The bodies of some lots, shape (reports, size), in an order drawn from `entropy`: that of 64
    random bits each."""
    bodies = np.frombuffer(b"".join(lots), dtype=np.uint8).reshape(-1, size)
    keys = np.frombuffer(entropy(8 * len(bodies)), dtype=np.uint64)
    return bodies[np.argsort(keys, kind="stable")]


def _write(
    store: Path,
    waiting: Waiting,
    plan: Plan,
    rows: NDArray[np.uint32],
    payloads: NDArray[np.uint8],
) -> None:
    if not len(rows):
        return
    with writer_of(store, waiting, plan) as writer:
        writer.write(rows, payloads)
    midnight = (plan.day - date(1970, 1, 1)) // timedelta(seconds=1)
    os.utime(writer.path, (midnight, midnight))
    for folder in (writer.path.parent, *writer.path.parent.parents):
        sync_folder(folder)
        if folder == store.parent:
            break


def writer_of(store: Path, waiting: Waiting, plan: Plan) -> ReportWriter:
    """The writer of a plan's file."""
    return ReportWriter(
        store, waiting.metric, waiting.version, waiting.mechanism, plan.day, plan.name
    )


def clean(store: Path, buffer: Buffer) -> None:
    """Removes what a killed ingestor of this buffer left unfinished: halves of planned files."""
    for waiting in buffer.metrics():
        plan = buffer.plan(waiting.number)
        if plan is not None:
            for root in (store, store / SET_ASIDE):
                path = writer_of(root, waiting, plan).path
                for part in path.parent.glob(f".{path.name}.*.part"):
                    part.unlink()


class Retention:
    """Decides from which day on files are kept, without believing a clock that leaps.

    A day counts when the clock has shown it for `SETTLED_SECONDS` without a break, and when it is
    not further from the day of the start than the time that passed since, plus one day.
    """

    def __init__(self, keep: timedelta, today: date, now: float) -> None:
        """`now`: of a clock that is never set, in seconds, as `time.monotonic` has it."""
        self._keep, self._start, self._began = keep, today, now
        self._day, self._since = today, now

    def oldest(self, today: date, now: float) -> date | None:
        """The oldest day whose files are kept; None while today's day is not to be trusted."""
        if today != self._day:
            self._day, self._since = today, now
        passed = timedelta(seconds=now - self._began) + timedelta(days=1)
        if now - self._since < SETTLED_SECONDS or today - self._start > passed:
            return None
        return today - min(self._keep, today - date.min)


def retire(store: Path, oldest: date) -> int:
    """Deletes the files of days before `oldest`, also what was set aside; returns how many.

    Nothing is deleted through a link: links to folders and files stay, and what they lead to."""
    gone = 0
    for root in (store, store / SET_ASIDE):
        for folder in root.glob("metric=*/version=*/day=*"):
            with suppress(ValueError):
                is_old = date.fromisoformat(folder.name.removeprefix("day=")) < oldest
                if is_old and not _is_linked(folder, store):
                    gone += _emptied(folder)
    return gone


def _is_linked(folder: Path, store: Path) -> bool:
    parents = folder.relative_to(store).parents
    return folder.is_symlink() or any((store / each).is_symlink() for each in list(parents)[:-1])


def _emptied(folder: Path) -> int:
    gone = 0
    for path in folder.glob("*.parquet"):
        if path.is_file() and not path.is_symlink():
            path.unlink()
            gone += 1
    with suppress(OSError):
        folder.rmdir()
    return gone
