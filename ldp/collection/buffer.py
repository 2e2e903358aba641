"""The durable buffer of a collector: acknowledged reports that are not in the store yet.

One SQLite file, in write-ahead mode with a full sync at every commit. `Buffer.commit` writes a
queue of batches in one transaction; senders are answered only when it has returned. Ids of batches
are stored in one table a day of sealing, and deleted below the watermark, the oldest day that is
still taken, which never falls. The file has an application id, the number of its format and a
digest of each row of reports. Lots of reports stay in order of arrival until they are moved to the
store: deleted content is overwritten, and `erase` empties the log. Days are arguments.
"""

import hashlib
import json
import os
import sqlite3
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from ldp.collection.intake import CODES, CollectedMetric, Lot, Refusal, SortedBatch
from ldp.errors import LdpError, RegistryError
from ldp.mechanisms import Catalogued, from_parameters

AHEAD = timedelta(days=1)
"""Longest time by which a device's clock may be ahead of the collector's."""
LEAP = timedelta(days=31)
"""Longest time by which a believed clock may be ahead of the watermark, which never falls."""
PAGE_BYTES, CHECKPOINT_PAGES = 4096, 8192
ROW_BYTES = 1 << 18
"""Most bytes of one metric's reports in a row of one commit; a larger batch has its own row."""
NAME_BYTES, _DIGEST_BYTES = 16, 8
FORGOTTEN_BYTES = 4 << 20
"""Most bytes of reports that one transaction deletes."""
_LAST = (1 << 63) - 1
APPLICATION, FORMAT = int.from_bytes(b"ldpb", "big"), 2
"""SQLite's application_id and user_version of a buffer."""
_TABLES = """
CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS metrics (
    number INTEGER PRIMARY KEY, metric TEXT NOT NULL, version INTEGER NOT NULL,
    mechanism TEXT NOT NULL, UNIQUE (metric, version));
CREATE TABLE IF NOT EXISTS lots (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT, metric INTEGER NOT NULL, reports INTEGER NOT NULL,
    bodies BLOB NOT NULL, digest BLOB);
CREATE TABLE IF NOT EXISTS plans (
    metric INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL, day TEXT NOT NULL,
    is_written INTEGER NOT NULL DEFAULT 0, name TEXT NOT NULL DEFAULT '');
"""
_FROM_FORMAT_1 = """
ALTER TABLE lots ADD COLUMN digest BLOB;
ALTER TABLE plans ADD COLUMN name TEXT NOT NULL DEFAULT '';
UPDATE plans SET name = printf('%s-%012d-%012d',
    (SELECT value FROM state WHERE name = 'name'), first, last);
DELETE FROM state WHERE name = 'name';
"""
"""Upgrade: lots have no digest; a plan that is not done keeps the name that its file may have."""


class BufferUnusable(LdpError, OSError):
    """Error: the buffer cannot be read or written: damaged, foreign, or the disk is full."""


@dataclass(frozen=True)
class PendingBatch:
    """Batch that waits to be committed, with the digest of its bytes."""

    batch: SortedBatch
    digest: bytes

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        opened = (report.lot for report in self.batch.opened)
        return 200 + sum(len(lot.bodies) for lot in chain(self.batch.lots, opened))


class Answer(NamedTuple):
    """Answer to the sender of a batch: an HTTP status and a JSON text."""

    status: int
    text: str
    is_new: bool = False
    """True if the batch was stored by this commit."""


class BufferedMetric(NamedTuple):
    """Metric with reports in the buffer."""

    metric: str
    version: int
    mechanism: Catalogued
    number: int
    """Number of the metric in this buffer."""


class Bodies(NamedTuple):
    """Reports of a plan: lots whose bytes are those that were acknowledged, and the number of
    reports in lots that are damaged."""

    lots: list[bytes]
    damaged: int


class Plan(NamedTuple):
    """Plan of a file: a range of sequence numbers of one metric's lots, and the file's day."""

    first: int
    last: int
    day: date
    name: str
    """Name of the file without ending: random, so that it tells nothing, and stored before the file
    is written, so that a repeated run replaces it."""
    is_written: bool = False
    """True if the file is on the disk for good, and only the lots must be deleted."""


NOTHING_REFUSED = '{"refused":[]}'
_REFUSAL = struct.Struct("<HB")
_CONFLICT = Answer(409, '{"error":"another batch has this id"}')
_TOO_LATE = Answer(410, '{"error":"sealed too long ago"}')
_TOO_EARLY = Answer(422, '{"error":"sealed on a day that has not come"}')


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


class Buffer:
    """Connection to a buffer's file. Several may read; one at a time commits.

    `synchronous`: SQLite's setting, for the test that shows why it is FULL. Raises BufferUnusable.
    """

    def __init__(self, folder: str | Path, synchronous: str = "FULL") -> None:
        self._path = Path(folder) / "buffer.db"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            for path in self._path.parent.glob("buffer.db*"):  # the folder may be open to others
                path.chmod(0o600)
            self._connection = sqlite3.connect(
                self._path, timeout=60, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise BufferUnusable(f"{self._path}: {error}") from None
        try:
            self._prepare(synchronous)
        except BaseException:
            self._connection.close()
            raise
        self._numbers: dict[tuple[str, int], int] = {}
        self._days = set(self._tables())

    def _prepare(self, synchronous: str) -> None:
        """Make the tables, or upgrade those of an older format. Raise BufferUnusable, with nothing
        changed, for a file that is not a buffer."""
        self._format()
        with self._buffer_errors():
            for pragma in (
                f"page_size = {PAGE_BYTES}",
                "journal_mode = WAL",
                f"synchronous = {synchronous}",
                "secure_delete = ON",
                f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
            ):
                self._connection.execute(f"PRAGMA {pragma}").fetchall()
        with self._transaction():
            version = self._format()
            script = {0: _TABLES, 1: _FROM_FORMAT_1, FORMAT: ""}[version]
            for statement in script.split(";"):
                self._connection.execute(statement)
            if version != FORMAT:
                self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
                self._connection.execute(f"PRAGMA user_version = {FORMAT}")

    def _format(self) -> int:
        """Return the number of the file's format, 0 for an empty file; raise BufferUnusable."""
        ((application,),) = self._rows("PRAGMA application_id")
        ((number,),) = self._rows("PRAGMA user_version")
        if (application, number) == (APPLICATION, FORMAT):
            return FORMAT
        if application == APPLICATION:
            raise BufferUnusable(f"{self._path} was written by a newer version of ldp")
        tables = {name for (name,) in self._rows("SELECT name FROM sqlite_master")}
        is_foreign = tables and not tables >= {"state", "metrics", "lots", "plans"}
        if application or number or is_foreign:
            raise BufferUnusable(f"{self._path} is not the buffer of a collector")
        return 1 if tables else 0

    @property
    def watermark(self) -> date:
        """Oldest day of sealing that is taken."""
        rows = self._rows("SELECT value FROM state WHERE name = 'watermark'")
        return date.fromisoformat(rows[0][0]) if rows else date.min

    def expect(self, metrics: Mapping[str, CollectedMetric]) -> None:
        """Add the metrics of a collector, by name. Raise RegistryError where the buffer holds, or
        held, another mechanism under the same version."""
        with self._transaction():
            for name, metric in metrics.items():
                text = json.dumps(metric.mechanism.parameters(), sort_keys=True)
                self._connection.execute(
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
                    f"{buffered.version + 1}"
                )

    def trust(self, today: date, lateness: timedelta, is_sure: bool) -> None:
        """Advance the watermark to `lateness` before `today`. Raise BufferUnusable, unless
        `is_sure`, when the clock went too far ahead since the last call."""
        with self._transaction():
            if is_sure:
                self._set_watermark(max(self.watermark, today - lateness))
            else:
                self._advance_watermark(today - lateness)

    def commit(
        self, pending: Sequence[PendingBatch], today: date, lateness: timedelta
    ) -> list[Answer]:
        """Write batches in one synced transaction and return their answers, in order. Raise
        BufferUnusable, with nothing written, when that fails."""
        with self._transaction():
            watermark = self._advance_watermark(today - lateness)
            answers = [self._take(item, watermark, today) for item in pending]
            self._keep(
                lot
                for item, answer in zip(pending, answers, strict=True)
                if answer.is_new
                for lot in item.batch.lots
            )
            return answers

    def _take(self, pending: PendingBatch, watermark: date, today: date) -> Answer:
        """Return the answer to a batch, and write its id if any of its reports is stored."""
        sorted_batch = pending.batch
        if not watermark <= sorted_batch.day <= today + min(AHEAD, date.max - today):
            return _TOO_LATE if sorted_batch.day < watermark else _TOO_EARLY
        if sorted_batch.opened:
            if _id_table(sorted_batch.day) in self._days and (first := self._first_answer(pending)):
                return first
            self._settle(sorted_batch, watermark, today)
        refused = _pack_refusals(sorted_batch.refused)
        if not sorted_batch.lots:  # none of its reports can be counted twice: its id is not stored
            is_known = _id_table(sorted_batch.day) in self._days
            first = self._first_answer(pending) if is_known else None
            return first or Answer(202, _refusals_json(refused), is_new=True)
        try:
            self._connection.execute(
                f"INSERT INTO {self._table(sorted_batch.day)} VALUES (?, ?, ?)",
                (sorted_batch.id, pending.digest, refused or None),
            )
        except sqlite3.IntegrityError:
            return self._first_answer(pending) or _CONFLICT
        return Answer(202, _refusals_json(refused), is_new=True)

    def _settle(self, batch: SortedBatch, watermark: date, today: date) -> None:
        """Make lots of a batch's opened reports, but refusals of those that were opened before or
        sealed on a day that is not taken. Their digests stand among the ids of that day."""
        for number, day, digest, lot in batch.opened:
            if not watermark <= day <= today + min(AHEAD, date.max - today):
                batch.refused.append(Refusal(number, "wrong_day"))
            elif self._connection.execute(
                f"INSERT OR IGNORE INTO {self._table(day)} VALUES (?, ?, NULL)", (digest, b"")
            ).rowcount:
                batch.lots.append(lot)
            else:
                batch.refused.append(Refusal(number, "repeated"))
        batch.refused.sort()

    def _first_answer(self, pending: PendingBatch) -> Answer | None:
        """Return the answer that this batch had, a conflict if another has its id, or None."""
        row = self._connection.execute(
            f"SELECT digest, refused FROM {_id_table(pending.batch.day)} WHERE id = ?",
            (pending.batch.id,),
        ).fetchone()
        if not row:
            return None
        digest, refused = row
        return Answer(202, _refusals_json(refused)) if digest == pending.digest else _CONFLICT

    def _keep(self, lots: Iterable[Lot]) -> None:
        """Store lots, those of a metric joined into rows of at most `ROW_BYTES`."""
        lots_of_metric, sizes = dict[int, list[Lot]](), Counter[int]()
        for lot in lots:
            number = self._numbers[lot.metric, lot.version]
            if sizes[number] and sizes[number] + len(lot.bodies) > ROW_BYTES:
                self._insert(number, lots_of_metric.pop(number))
                sizes[number] = 0
            lots_of_metric.setdefault(number, []).append(lot)
            sizes[number] += len(lot.bodies)
        for number, metric_lots in lots_of_metric.items():
            self._insert(number, metric_lots)

    def _insert(self, number: int, lots: list[Lot]) -> None:
        reports, bodies = sum(lot.reports for lot in lots), b"".join(lot.bodies for lot in lots)
        self._connection.execute(
            "INSERT INTO lots (metric, reports, bodies, digest) VALUES (?, ?, ?, ?)",
            (number, reports, bodies, _digest(number, reports, bodies)),
        )

    def _advance_watermark(self, day: date) -> date:
        """Advance the watermark to `day` if that is later, and return it; raise BufferUnusable."""
        watermark = self.watermark
        if day <= watermark:
            return watermark
        if date.min < watermark < day - LEAP:
            ahead = (day - watermark).days
            raise BufferUnusable(f"the clock went {ahead} days ahead since the last check")
        self._set_watermark(day)
        return day

    def _set_watermark(self, day: date) -> None:
        """Set the watermark, and delete the ids of days below it."""
        self._connection.execute(
            "INSERT INTO state VALUES ('watermark', ?) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (day.isoformat(),),
        )
        for table in self._tables():
            if table < _id_table(day):
                self._connection.execute(f"DROP TABLE {table}")
                self._days.discard(table)

    def _table(self, day: date) -> str:
        table = _id_table(day)
        if table not in self._days:
            self._connection.execute(
                f"CREATE TABLE IF NOT EXISTS {table} "
                "(id BLOB PRIMARY KEY, digest BLOB NOT NULL, refused TEXT) WITHOUT ROWID"
            )
            self._days.add(table)
        return table

    def metrics(self) -> list[BufferedMetric]:
        """Return every metric that the buffer ever held reports of."""
        return [self.metric(number) for (number,) in self._rows("SELECT number FROM metrics")]

    def metric(self, number: int) -> BufferedMetric:
        """Return the metric of a number."""
        ((name, version, text),) = self._rows(
            "SELECT metric, version, mechanism FROM metrics WHERE number = ?", number
        )
        return BufferedMetric(name, version, from_parameters(json.loads(text)), number)

    def name_of(self, number: int) -> tuple[str, int]:
        """Return the name and the version of the metric of a number."""
        ((name, version),) = self._rows(
            "SELECT metric, version FROM metrics WHERE number = ?", number
        )
        return name, version

    def report_counts(self) -> dict[int, int]:
        """Return the number of reports in the buffer, by number of the metric."""
        return dict(self._rows("SELECT metric, sum(reports) FROM lots GROUP BY metric"))

    def plan(self, metric: int) -> Plan | None:
        """Return the plan of a metric that is not done, or None."""
        rows = self._rows(
            "SELECT first, last, day, name, is_written FROM plans WHERE metric = ?", metric
        )
        for first, last, day, name, is_written in rows:
            return Plan(first, last, date.fromisoformat(day), name, bool(is_written))
        return None

    def decide(
        self,
        metric: int,
        today: date,
        most_bytes: int,
        smallest: int = 1,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> Plan | None:
        """Write and return the plan of a metric's next file: its oldest lots, of at most
        `most_bytes` unless it is one lot; None where these have fewer reports than `smallest`.
        `entropy` draws the file's name."""
        first, last, reports = self._oldest(metric, most_bytes)
        if reports < max(1, smallest):
            return None
        plan = Plan(first, last, today, entropy(NAME_BYTES).hex())
        with self._transaction():
            self._connection.execute(
                "INSERT INTO plans (metric, first, last, day, name) VALUES (?, ?, ?, ?, ?)",
                (metric, first, last, today.isoformat(), plan.name),
            )
        return plan

    def _oldest(self, metric: int, most_bytes: int, until: int = _LAST) -> tuple[int, int, int]:
        """Return the first and the last of a metric's oldest lots, of at most `most_bytes` unless
        it is one lot, and the number of their reports; zeros without lots."""
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

    def bodies(self, metric: int, plan: Plan) -> Bodies:
        """Return the reports of a plan."""
        sound, damaged = list[bytes](), 0
        for reports, bodies, digest in self._iterate(
            "SELECT reports, bodies, digest FROM lots "
            "WHERE metric = ? AND sequence BETWEEN ? AND ?",
            *(metric, plan.first, plan.last),
        ):
            if digest in (None, _digest(metric, reports, bodies)):  # format 1 had none
                sound.append(bodies)
            else:
                damaged += reports
        return Bodies(sound, damaged)

    def mark_written(self, metric: int) -> None:
        """Note that the file of a metric's plan is on the disk: it is never written again."""
        with self._transaction():
            self._connection.execute("UPDATE plans SET is_written = 1 WHERE metric = ?", (metric,))

    def forget(self, metric: int, plan: Plan, most_bytes: int = FORGOTTEN_BYTES) -> bool:
        """Overwrite and delete lots of a plan that is written, at most `most_bytes` so that commits
        need not wait, and the plan with the last of them. Return whether there are more."""
        with self._transaction():
            first, last, _ = self._oldest(metric, most_bytes, plan.last)
            self._connection.execute(
                "DELETE FROM lots WHERE metric = ? AND sequence BETWEEN ? AND ?",
                (metric, first, last),
            )
            if not last or last == plan.last:
                self._connection.execute("DELETE FROM plans WHERE metric = ?", (metric,))
        return 0 < last < plan.last

    def erase(self) -> None:
        """Empty the log, which holds deleted content."""
        with self._buffer_errors():
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def bytes_used(self) -> int:
        """Return the bytes of the file's content; the file itself never becomes smaller."""
        ((pages,),) = self._rows("PRAGMA page_count")
        ((free,),) = self._rows("PRAGMA freelist_count")
        return int((pages - free) * PAGE_BYTES)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __del__(self) -> None:
        if hasattr(self, "_connection"):  # not where it could not be opened
            self.close()

    @contextmanager
    def _buffer_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise BufferUnusable(f"{self._path}: {error}") from None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._buffer_errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                self._days = set(self._tables())
                raise

    def _tables(self) -> list[str]:
        return [
            name for (name,) in self._rows("SELECT name FROM sqlite_master WHERE name GLOB 'ids_*'")
        ]

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        with self._buffer_errors():
            return self._connection.execute(statement, values).fetchall()

    def _iterate(self, statement: str, *values: Any) -> Iterator[Any]:
        with self._buffer_errors():
            yield from self._connection.execute(statement, values)


def _digest(metric: int, reports: int, bodies: bytes) -> bytes:
    """Return the digest of a row of lots: 8 bytes of SHA-256, which processors compute fast."""
    digest = hashlib.sha256(b"%d %d " % (metric, reports))
    digest.update(bodies)
    return digest.digest()[:_DIGEST_BYTES]


def _id_table(day: date) -> str:
    return f"ids_{day:%Y%m%d}"


def _pack_refusals(refused: Sequence[Refusal]) -> bytes:
    """Return refusals in three bytes each: the item's position and the code's."""
    return b"".join(_REFUSAL.pack(item, CODES.index(code)) for item, code in refused)


def _refusals_json(refused: bytes | str | None) -> str:
    """Return the JSON text of packed refusals; buffers of format 1 hold the text itself."""
    if not refused:
        return NOTHING_REFUSED
    if isinstance(refused, str):
        return refused
    items = [{"item": item, "code": CODES[code]} for item, code in _REFUSAL.iter_unpack(refused)]
    return json.dumps({"refused": items}, separators=(",", ":"))
