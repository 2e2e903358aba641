"""The durable buffer of a collector: acknowledged reports that are not in the store yet.

A file of batches (`ldp.collection.acknowledged`) with a digest of each row of reports. Lots of
reports stay in order of arrival until they are moved to the store.
"""

import hashlib
import json
import os
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import date
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ldp.collection.acknowledged import ALL_IDS, BatchFile, BufferUnusable, FileForm
from ldp.collection.intake import Lot, SortedBatch
from ldp.errors import RegistryError
from ldp.mechanisms import CatalogueMechanism, from_parameters
from ldp.protocol.sealed_report import Attestation
from ldp.protocol.strict_json import parse_json
from ldp.registry import Metric
from ldp.registry.toml_file import DEVELOPMENT

ROW_BYTES = 1 << 18
"""Most bytes of one metric's reports in a row of one commit. A larger batch has its own row."""
NAME_BYTES, _DIGEST_BYTES = 16, 8
INSERTED_ROWS = 64
"""Most rows of lots that one statement inserts."""
FORGOTTEN_BYTES = 4 << 20
"""Most bytes of reports that one transaction deletes."""
_LAST = (1 << 63) - 1
LotRow = tuple[int, int, bytes, bytes]
"""Row of lots: number of the metric, reports, bodies, digest."""
_TABLES = """
CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS metrics (
    number INTEGER PRIMARY KEY, metric TEXT NOT NULL, version INTEGER NOT NULL,
    mechanism TEXT NOT NULL, UNIQUE (metric, version));
CREATE TABLE IF NOT EXISTS lots (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT, metric INTEGER NOT NULL, reports INTEGER NOT NULL,
    bodies BLOB NOT NULL, digest BLOB, batch BLOB);
CREATE TABLE IF NOT EXISTS plans (
    metric INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL, day TEXT NOT NULL,
    is_written INTEGER NOT NULL DEFAULT 0, name TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS relayed (
    metric INTEGER, batch BLOB, attested INTEGER NOT NULL, opened INTEGER NOT NULL,
    PRIMARY KEY (metric, batch)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS shared_lots ON lots (batch, metric) WHERE batch IS NOT NULL;
CREATE INDEX IF NOT EXISTS lots_by_metric ON lots (metric, sequence, reports);
"""
"""The column `batch` and its index are for buffers that collectors once shared: only these have
values in it."""


class BufferedMetric(NamedTuple):
    """Metric with reports in the buffer."""

    metric: str
    version: int
    mechanism: CatalogueMechanism
    number: int
    """Number of the metric in this buffer."""


class RelayedReports(NamedTuple):
    """Numbers of reports in one batch of a relay. `attested`: all reports of the batch, as the
    relay states. `opened`: those of this metric that the collector opened. `batch`: the name of the
    batch. It is b"" for reports that came without an attestation."""

    metric: str
    version: int
    batch: bytes
    attested: int
    opened: int


class FilePlan(NamedTuple):
    """Plan of a file: a range of sequence numbers of one metric's lots, and the file's day."""

    first: int
    last: int
    day: date
    name: str
    """Name of the file without ending: random, so that it tells nothing, and stored before the file
    is written, so that a repeated run replaces it."""
    is_written: bool = False
    """True if the file is on the disk for good, and only the lots must be deleted."""


def waiting_reports(folder: Path, metric: str, version: int) -> int:
    """Return the number of a metric's reports in the buffer of a folder, 0 without a buffer."""
    path = folder.absolute() / "buffer.db"
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            ((reports,),) = connection.execute(
                "SELECT coalesce(sum(reports), 0) FROM lots JOIN metrics ON lots.metric = number "
                "WHERE metrics.metric = ? AND version = ?",
                (metric, version),
            )
    except sqlite3.Error:
        return 0
    return int(reports)


class Buffer(BatchFile):
    """Connection to the buffer of a collector."""

    form = FileForm("collector", int.from_bytes(b"ldpb", "big"), 6, _TABLES)

    def __init__(self, folder: str | Path, synchronous: str = "FULL") -> None:
        super().__init__(folder, synchronous)
        self._numbers: dict[tuple[str, int], int] = {}

    def claim(self, ids: range) -> None:
        """Mark a new buffer as the one for batches whose ids begin with these hexadecimal digits. A
        used buffer without a mark is for all ids. Raise BufferUnusable where the buffer is for
        other ids, whose batches no other buffer has. Also raises it where several collectors shared
        the buffer, because some of its reports may be another collector's."""
        marks = dict(self._rows("SELECT name, value FROM state"))
        if "owner" in marks:
            raise BufferUnusable(
                f"{self._path} was written with --shared: docs/operating.md says how to drain it"
            )
        mark = marks.get("ids", ids_text(ALL_IDS if "watermark" in marks else ids))
        if mark != ids_text(ids):
            raise BufferUnusable(f"{self._path} is of ids {mark}, not {ids_text(ids)}")
        with self._transaction():
            self._remember("ids", mark)

    def step(self, stored: str, entropy: Callable[[int], bytes] = os.urandom) -> str:
        """Return a new mark, to write into the store and then to `confirm`: one above `stored`, the
        present mark of the store ("" for none). Raise BufferUnusable where the buffer or the store
        is older than the other."""
        self.match(stored)
        name, _, number = stored.partition(" ")
        mark = f"{name or entropy(NAME_BYTES).hex()} {int(number or 0) + 1}"
        with self._transaction():
            self._remember("next_mark", mark)
        return mark

    def confirm(self, mark: str) -> None:
        """Take `mark` for the buffer's: the store has it for good."""
        with self._transaction():
            self._remember("mark", mark)

    def match(self, stored: str) -> None:
        """Raise BufferUnusable where the store's mark, `stored`, is neither the buffer's mark nor
        one that was to be written: the buffer or the store was replaced, or restored from a
        backup."""
        state = dict(self._rows("SELECT name, value FROM state"))
        mark = state.get("mark", "")
        if stored not in (mark, state.get("next_mark", "")):
            raise BufferUnusable(
                f"{self._path} has the mark {mark!r} and the store {stored!r}: one was restored or "
                "replaced, or has two collectors. Put the newest of both back; docs/operating.md "
                "says what else helps"
            )

    def expect(self, metrics: Mapping[str, Metric]) -> None:
        """Add the metrics of a collector, by name. Raise RegistryError where the buffer holds, or
        held, another mechanism under the same version."""
        with self._transaction():
            for name, metric in metrics.items():
                text = json.dumps(metric.mechanism.parameters(), sort_keys=True)
                self._sqlite.execute(
                    "INSERT INTO metrics (metric, version, mechanism) VALUES (?, ?, ?) "
                    "ON CONFLICT DO NOTHING",
                    (name, metric.version, text),
                )
        for buffered in self.metrics():
            self._numbers[buffered.metric, buffered.version] = buffered.number
            new = metrics.get(buffered.metric)
            if new and new.version == buffered.version and new.mechanism != buffered.mechanism:
                raise RegistryError(
                    f"metric {buffered.metric!r} changed its mechanism: give it version "
                    f"{buffered.version % DEVELOPMENT + 1}"
                )

    def _keep(self, batches: Iterable[SortedBatch]) -> None:
        """Store lots, joined by metric into rows of at most `ROW_BYTES`, and the number of reports
        that came in each batch of a relay."""
        lots_of_metric = defaultdict[tuple[str, int], list[Lot]](list)
        for batch in batches:
            if batch.attestation is not None:
                self._note_relayed(batch.attestation, batch.lots)
            for lot in batch.lots:
                lots_of_metric[lot[:2]].append(lot)
        self._insert(
            [
                _row_of(self._numbers[metric], run)
                for metric, lots in lots_of_metric.items()
                for run in _runs(lots)
            ]
        )

    def _note_relayed(self, attestation: Attestation, lots: Iterable[Lot]) -> None:
        """Add the reports of lots to those that came in a batch of a relay."""
        opened = Counter[int]()
        for lot in lots:
            opened[self._numbers[lot.metric, lot.version]] += lot.reports
        self._sqlite.executemany(
            "INSERT INTO relayed VALUES (?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET opened = opened + excluded.opened",
            [
                (number, attestation.batch, attestation.reports, reports)
                for number, reports in opened.items()
            ],
        )

    def relayed(self) -> list[RelayedReports]:
        """Return how many reports of each metric came in each batch of a relay."""
        return [
            RelayedReports(*row)
            for row in self._rows(
                "SELECT metrics.metric, version, batch, attested, opened FROM relayed "
                "JOIN metrics ON relayed.metric = number ORDER BY number, batch"
            )
        ]

    def _insert(self, rows: list[LotRow]) -> None:
        """Insert rows of lots, many by one statement, because each statement waits for the
        interpreter's lock."""
        for start in range(0, len(rows), INSERTED_ROWS):
            some = rows[start : start + INSERTED_ROWS]
            self._sqlite.execute(
                "INSERT INTO lots (metric, reports, bodies, digest) VALUES "
                + ", ".join(["(?, ?, ?, ?)"] * len(some)),
                [*chain.from_iterable(some)],
            )

    def metrics(self) -> list[BufferedMetric]:
        """Return every metric that the buffer ever held reports of."""
        return [self.metric(number) for (number,) in self._rows("SELECT number FROM metrics")]

    def metric(self, number: int) -> BufferedMetric:
        """Return the metric that has this number in the buffer."""
        with self._as_unusable():
            ((name, version, text),) = self._rows(
                "SELECT metric, version, mechanism FROM metrics WHERE number = ?", number
            )
            return BufferedMetric(
                str(name), int(version), from_parameters(parse_json(text)), number
            )

    def name_of(self, number: int) -> tuple[str, int]:
        """Return the name and the version of the metric that has this number in the buffer."""
        with self._as_unusable():
            ((name, version),) = self._rows(
                "SELECT metric, version FROM metrics WHERE number = ?", number
            )
        return name, version

    def report_counts(self) -> dict[int, int]:
        """Return the number of reports in the buffer, by number of the metric."""
        return dict(self._rows("SELECT metric, sum(reports) FROM lots GROUP BY metric"))

    def plan(self, metric: int) -> FilePlan | None:
        """Return the unfinished plan of a metric, or None."""
        rows = self._rows(
            "SELECT first, last, day, name, is_written FROM plans WHERE metric = ?", metric
        )
        for first, last, day, name, is_written in rows:
            with self._as_unusable():
                return FilePlan(first, last, date.fromisoformat(day), name, bool(is_written))
        return None

    def decide(
        self,
        metric: int,
        today: date,
        most_bytes: int,
        smallest: int = 1,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> FilePlan | None:
        """Write and return the plan of a metric's next file: the oldest lots, together of at most
        `most_bytes` unless there is only one. Returns None where they hold fewer reports than
        `smallest`. `entropy` draws the file's name."""
        first, last, reports = self._oldest(metric, most_bytes)
        if reports < max(1, smallest):
            return None
        plan = FilePlan(first, last, today, entropy(NAME_BYTES).hex())
        with self._transaction():
            self._sqlite.execute(
                "INSERT INTO plans (metric, first, last, day, name) VALUES (?, ?, ?, ?, ?)",
                (metric, first, last, today.isoformat(), plan.name),
            )
        return plan

    def _oldest(self, metric: int, most_bytes: int, until: int = _LAST) -> tuple[int, int, int]:
        """Return the first and the last of a metric's oldest lots, together of at most `most_bytes`
        unless there is only one, and the number of their reports. Returns zeros without lots."""
        first = last = size = total = 0
        for sequence, length, reports in self._iterate(
            "SELECT sequence, length(bodies), reports FROM lots "
            "WHERE metric = ? AND sequence <= ? ORDER BY sequence",
            *(metric, until),
        ):
            if size and size + length > most_bytes:
                break
            first, last, size, total = first or sequence, sequence, size + length, total + reports
        return first, last, total

    def bodies(self, metric: int, plan: FilePlan) -> tuple[list[bytes], int]:
        """Return the lots of a plan whose bytes are those that were acknowledged, and the number of
        reports in lots that are damaged."""
        sound, damaged = list[bytes](), 0
        for reports, bodies, digest in self._iterate(
            "SELECT reports, bodies, digest FROM lots "
            "WHERE metric = ? AND sequence BETWEEN ? AND ?",
            *(metric, plan.first, plan.last),
        ):
            # buffers of format 1 had none
            if digest in (None, _digest(metric, reports, bodies)):
                sound.append(bodies)
            else:
                damaged += reports
        return sound, damaged

    def mark_written(self, metric: int) -> None:
        """Note that the file of a metric's plan is on the disk, so that it is not written again."""
        with self._transaction():
            self._sqlite.execute("UPDATE plans SET is_written = 1 WHERE metric = ?", (metric,))

    def forget(self, metric: int, plan: FilePlan) -> bool:
        """Delete lots of a written plan, overwritten first, at most FORGOTTEN_BYTES so that commits
        need not wait. Delete the plan with the last lot. Return whether there are more lots."""
        with self._transaction():
            first, last, _ = self._oldest(metric, FORGOTTEN_BYTES, plan.last)
            self._sqlite.execute(
                "DELETE FROM lots WHERE metric = ? AND sequence BETWEEN ? AND ?",
                (metric, first, last),
            )
            if not last or last == plan.last:
                self._sqlite.execute("DELETE FROM plans WHERE metric = ?", (metric,))
        return 0 < last < plan.last


def ids_text(ids: range) -> str:
    """Return a range of the first hexadecimal digits of ids as text, `0-f` for all."""
    return f"{ids[0]:x}-{ids[-1]:x}"


def _row_of(number: int, lots: list[Lot]) -> LotRow:
    """Return the row of a metric's lots."""
    _, _, reports, bodies = zip(*lots, strict=True)
    number_of_reports, joined = sum(reports), b"".join(bodies)
    return number, number_of_reports, joined, _digest(number, number_of_reports, joined)


def _runs(lots: list[Lot]) -> Iterator[list[Lot]]:
    """Yield a metric's lots in runs of at most `ROW_BYTES`. A larger lot has its own."""
    start = size = 0
    for number, lot in enumerate(lots):
        if size and size + len(lot.bodies) > ROW_BYTES:
            yield lots[start:number]
            start, size = number, 0
        size += len(lot.bodies)
    yield lots[start:]


def _digest(metric: int, reports: int, bodies: bytes) -> bytes:
    """Return the digest of a row of lots: 8 bytes of SHA-256, which processors compute fast."""
    digest = hashlib.sha256(b"%d %d " % (metric, reports))
    digest.update(bodies)
    return digest.digest()[:_DIGEST_BYTES]
