"""Durable files of acknowledged batches, the base of the buffers of a collector and of a relay.

One SQLite file, in write-ahead mode with a full sync at every commit. `BatchFile.commit` writes a
queue of batches in one transaction. Senders are answered only when it has returned. Ids of batches
are stored in one table for each day of sealing, and deleted below the watermark, the oldest day
that is still taken. The watermark follows the file's day, which follows the clock slowly, so that
no reading of a wrong clock deletes ids. An id is stored as its digest, so that nobody who reads the
file can try which reports give the digest of a batch. The file has an application id and the number
of its format. Deleted content is overwritten, and `erase` empties the log. Days and times are
arguments.

SQLite takes damage of its log for the log's end and reports no error. So the file counts its
commits, and after each commit their number is written to a second file, unsynced. A file that
counts fewer has lost some.
"""

import hashlib
import io
import json
import os
import sqlite3
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from ldp.collection.intake import CODES, Refusal, SortedBatch, later
from ldp.errors import LdpError
from ldp.protocol.batch import ID_BYTES

AHEAD = timedelta(days=1)
"""Longest time by which a device's clock may be ahead of the collector's."""
RISE_SECONDS = 43_200.0
"""Shortest time in which the file's day rises by one, in seconds of a clock that is never set."""
PAGE_BYTES, CHECKPOINT_PAGES = 4096, 8192
BUSY_SECONDS = 60
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
_COMMITS = "buffer.db-commits"
ALL_IDS = range(16)
"""First hexadecimal digits of the ids of all batches."""


class BufferUnusable(LdpError, OSError):
    """Error: the buffer cannot be read or written: damaged, foreign, or the disk is full."""


@dataclass(frozen=True)
class PendingBatch:
    """Batch that waits to be committed, with the digest of its bytes."""

    batch: SortedBatch
    digest: bytes


class Answer(NamedTuple):
    """Answer to the sender of a batch: an HTTP status and a JSON text."""

    status: int
    text: str
    is_new: bool = False
    """True if the batch was stored by this commit."""


NOTHING_REFUSED = '{"refused":[]}'
_REFUSAL = struct.Struct("<HB")
_CONFLICT = Answer(409, '{"error":"another batch has this id"}')
_TOO_LATE = Answer(410, '{"error":"sealed too long ago"}')
_TOO_EARLY = Answer(422, '{"error":"sealed on a day that has not come"}')


class FileForm(NamedTuple):
    """Purpose of a file of batches. `script`: statements that make its tables."""

    user: str
    application: int
    """SQLite's application_id."""
    number: int
    """Number of the format: SQLite's user_version."""
    script: str


class BatchFile(ABC):
    """Connection to a file of acknowledged batches. Several may read; one at a time commits.

    `folder`: folder of the file; both are made if they are missing. `synchronous`: SQLite's
    setting, for the test that shows why it is FULL. Raises BufferUnusable.
    """

    form: ClassVar[FileForm]
    must_erase = False

    def __init__(self, folder: str | Path, synchronous: str = "FULL") -> None:
        self._path = Path(folder) / "buffer.db"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # to close one would drop this process's locks on it
            if not self._path.exists():
                os.close(os.open(self._path, _NEW_FILE, 0o600))
            noted = os.open(self._path.with_name(_COMMITS), _NEW_FILE, 0o600)
            self._noted = io.FileIO(noted, "r+")
            # the folder may be open to others
            for path in self._path.parent.glob("buffer.db*"):
                path.chmod(0o600)
            self._sqlite = sqlite3.connect(
                self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise BufferUnusable(f"{self._path}: {error}") from None
        try:
            self._check_commits()
            self._prepare(synchronous)
        except BaseException:
            self.close()
            raise
        self._places = self._look()
        self._load()

    def _look(self) -> list[tuple[int, int]]:
        """Return what identifies the file and its log on the disk."""
        some = [os.stat(f"{self._path}{end}") for end in ("", "-wal")]
        return [(one.st_dev, one.st_ino) for one in some]

    def _check_places(self) -> None:
        """Raise BufferUnusable where the file or its log was deleted or replaced while the file is
        open: SQLite would go on writing to a file that a restart does not find."""
        with suppress(OSError):
            if self._look() == self._places:
                return
        raise BufferUnusable(
            f"{self._path} or its log was deleted or replaced while it was open: SIGHUP moves what "
            "waits; then put the files back, and start again"
        )

    def _check_commits(self) -> None:
        """Raise BufferUnusable where commits that were acknowledged are lost. The check opens a
        connection that only reads, so that it leaves the log as it is."""
        noted = os.pread(self._noted.fileno(), 21, 0).strip()
        address = f"{self._path.absolute().as_uri()}?mode=ro"
        reader = sqlite3.connect(address, uri=True, timeout=60)
        with closing(reader), self._as_unusable():
            tables = "SELECT name FROM sqlite_master WHERE name = 'state'"
            commits = _commits(reader) if reader.execute(tables).fetchone() else 0
        if noted.isdigit() and commits < int(noted):
            raise BufferUnusable(
                f"{self._path} has {commits} commits of {int(noted)}: it or its log was damaged or "
                "replaced. Put the newest files back; where they are lost, delete "
                f"{_COMMITS}, and go on without what came in the other commits"
            )

    def _prepare(self, synchronous: str) -> None:
        """Make the tables of an empty file. Raise BufferUnusable, with nothing changed, for a file
        that is not a buffer of this format."""
        # refuses another file before anything changes
        self._is_empty()
        with self._as_unusable():
            for pragma in (
                f"page_size = {PAGE_BYTES}",
                "journal_mode = WAL",
                f"synchronous = {synchronous}",
                "secure_delete = ON",
                f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
            ):
                self._sqlite.execute(f"PRAGMA {pragma}").fetchall()
        with self._transaction():
            # another process may have made the tables meanwhile
            if self._is_empty():
                for statement in self.form.script.split(";"):
                    self._sqlite.execute(statement)
                self._sqlite.execute(f"PRAGMA application_id = {self.form.application}")
                self._sqlite.execute(f"PRAGMA user_version = {self.form.number}")
            self._hide_ids()

    def _hide_ids(self) -> None:
        """Replace ids that stand as they are in the format before this one by their digests."""
        if self._rows("PRAGMA user_version") == [(self.form.number,)]:
            return
        self._sqlite.create_function("digest_of_id", 1, digest_of_id)
        for table in self._tables():
            # of opened reports there are digests only
            self._sqlite.execute(f"UPDATE {table} SET id = digest_of_id(id) WHERE digest <> x''")
        self._sqlite.execute(f"PRAGMA user_version = {self.form.number}")

    def _is_empty(self) -> bool:
        """Return whether the file is empty, and not a buffer. Raises BufferUnusable for another."""
        ((application,),) = self._rows("PRAGMA application_id")
        ((number,),) = self._rows("PRAGMA user_version")
        if application == self.form.application:
            if number in (self.form.number - 1, self.form.number):
                return False
            age = "a newer" if number > self.form.number else "an earlier"
            raise BufferUnusable(
                f"{self._path} was written by {age} version of ldp: drain it there"
            )
        if application or number or self._rows("SELECT name FROM sqlite_master"):
            raise BufferUnusable(f"{self._path} is not the buffer of a {self.form.user}")
        return True

    def _load(self) -> None:
        """Read the state: `watermark`, the oldest day of sealing that is taken, and `day`, the
        latest day of the clock that is believed. Both are date.min in a new file."""
        with self._as_unusable():
            state = dict(self._rows("SELECT name, value FROM state"))
            self.watermark = date.fromisoformat(state.get("watermark", date.min.isoformat()))
            self.day = date.fromisoformat(state.get("day", date.min.isoformat()))
            self._forgotten = date.fromisoformat(state.get("forgotten", self.watermark.isoformat()))
            self._risen = float(state.get("risen", 0))
            self._days = set(self._tables())

    def begin(self, today: date, lateness: timedelta, now: float) -> None:
        """Set the day to `today` in a new file. `now`: seconds since this machine started."""
        if self.watermark == date.min:
            self.reset(today, lateness, now)
        elif self.day == date.min:  # written before there was a day
            self._set_day(later(self.watermark, lateness), lateness, self._risen)

    def rise(self, lateness: timedelta, now: float) -> None:
        """Raise the day by one, if RISE_SECONDS have passed since it last rose, and the watermark
        to `lateness` before it. After a restart of the machine at least `now` seconds passed."""
        if (now - self._risen if now >= self._risen else now) >= RISE_SECONDS:
            self._set_day(later(self.day, AHEAD), lateness, now)

    def lower(self, today: date, lateness: timedelta) -> None:
        """Lower the watermark to `lateness` before `today`, but not below a day whose ids are
        forgotten."""
        oldest = today - min(lateness, today - date.min)
        oldest = max(oldest, self._forgotten)
        if oldest < self.watermark:
            with self._transaction():
                self._remember("watermark", str(oldest))
            self._load()

    def reset(self, today: date, lateness: timedelta, now: float) -> None:
        """Set the day to `today` and the watermark to `lateness` before it, but not below a day
        whose ids are forgotten."""
        self.watermark = self._forgotten
        self._set_day(today, lateness, now)

    def _set_day(self, day: date, lateness: timedelta, now: float) -> None:
        """Set day and watermark, which does not fall, and delete the ids of days below it."""
        watermark = max(self.watermark, day - min(lateness, day - date.min))
        with self._transaction():
            for table in self._tables():
                if table < _id_table(watermark):
                    self._sqlite.execute(f"DROP TABLE {table}")
                    past = date.fromisoformat(table.removeprefix("ids_")) + timedelta(days=1)
                    self._forgotten = max(self._forgotten, past)
            for name, value in (
                ("watermark", watermark),
                ("day", day),
                ("forgotten", self._forgotten),
                ("risen", now),
            ):
                self._remember(name, str(value))
        self._load()

    def commit(self, pending: Sequence[PendingBatch], today: date) -> list[Answer]:
        """Write batches in one synced transaction and return their answers, in order. Raise
        BufferUnusable, with nothing written, when that fails."""
        self._check_places()
        with self._transaction():
            newest = later(max(today, self.day), AHEAD)
            answers = [self._take(item, newest) for item in pending]
            self._keep(
                item.batch for item, answer in zip(pending, answers, strict=True) if answer.is_new
            )
            return answers

    @abstractmethod
    def _keep(self, batches: Iterable[SortedBatch]) -> None:
        """Store the lots of batches, within the transaction of `commit`."""

    def _take(self, pending: PendingBatch, newest: date) -> Answer:
        """Return the answer to a batch, and write its id if any of its reports is stored."""
        sorted_batch = pending.batch
        if not self.watermark <= sorted_batch.day <= newest:
            return _TOO_LATE if sorted_batch.day < self.watermark else _TOO_EARLY
        if sorted_batch.opened:
            if first := self._first_answer(pending):
                return first
            self._settle(sorted_batch, newest)
        refused = b"".join(
            _REFUSAL.pack(item, CODES.index(code)) for item, code in sorted_batch.refused
        )
        # none of its reports can be counted twice: its id is not stored
        if not sorted_batch.lots:
            return self._first_answer(pending) or Answer(202, _refusals_json(refused), is_new=True)
        try:
            self._sqlite.execute(
                f"INSERT INTO {self._table(sorted_batch.day)} VALUES (?, ?, ?)",
                (sorted_batch.id, pending.digest, refused or None),
            )
        except sqlite3.IntegrityError:
            return self._first_answer(pending) or _CONFLICT
        return Answer(202, _refusals_json(refused), is_new=True)

    def _settle(self, batch: SortedBatch, newest: date) -> None:
        """Make lots of a batch's opened reports, and refusals of those that were opened before or
        were sealed on a day that is not taken. Store the digests of the opened reports among the
        ids of their day."""
        for number, day, digest, lot in batch.opened:
            if not self.watermark <= day <= newest:
                batch.refused.append(Refusal(number, "wrong_day"))
            elif self._sqlite.execute(
                f"INSERT OR IGNORE INTO {self._table(day)} VALUES (?, ?, NULL)", (digest, b"")
            ).rowcount:
                batch.lots.append(lot)
            else:
                batch.refused.append(Refusal(number, "repeated"))
        batch.refused.sort()

    def _first_answer(self, pending: PendingBatch) -> Answer | None:
        """Return the answer that this batch got before, a conflict if another batch has its id, or
        None."""
        if (table := _id_table(pending.batch.day)) not in self._days:
            return None
        row = self._sqlite.execute(
            f"SELECT digest, refused FROM {table} WHERE id = ?", (pending.batch.id,)
        ).fetchone()
        if not row:
            return None
        digest, refused = row
        return Answer(202, _refusals_json(refused)) if digest == pending.digest else _CONFLICT

    def _remember(self, name: str, value: str) -> None:
        """Write a value of the file's state."""
        self._sqlite.execute(
            "INSERT INTO state VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, value),
        )

    def _table(self, day: date) -> str:
        table = _id_table(day)
        if table not in self._days:
            self._sqlite.execute(
                f"CREATE TABLE IF NOT EXISTS {table} "
                "(id BLOB PRIMARY KEY, digest BLOB NOT NULL, refused TEXT) WITHOUT ROWID"
            )
            self._days.add(table)
        return table

    def erase(self) -> None:
        """Empty the log, which holds deleted content, or set `must_erase` where another program is
        reading the file: to wait for it would keep all senders waiting."""
        with self._as_unusable():
            self._sqlite.execute("PRAGMA busy_timeout = 0")
            try:
                ((busy, *_),) = self._rows("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                self._sqlite.execute(f"PRAGMA busy_timeout = {1000 * BUSY_SECONDS}")
        self.must_erase = bool(busy)

    def bytes_used(self) -> int:
        """Return the bytes of the file's content. The file itself never becomes smaller."""
        ((pages,),) = self._rows("PRAGMA page_count")
        ((free,),) = self._rows("PRAGMA freelist_count")
        return int((pages - free) * PAGE_BYTES)

    def close(self) -> None:
        """Close the connection."""
        self._sqlite.close()
        self._noted.close()

    def __del__(self) -> None:
        # not where it could not be opened
        if hasattr(self, "_sqlite"):
            self.close()

    @contextmanager
    def _as_unusable(self) -> Iterator[None]:
        """Raise the errors of the block as BufferUnusable."""
        try:
            yield
        except (sqlite3.Error, ValueError, TypeError, OverflowError) as error:
            raise BufferUnusable(f"{self._path}: {str(error)!a}") from None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._as_unusable():
            self._sqlite.execute("BEGIN IMMEDIATE")
            rows, commits = self._sqlite.total_changes, 0
            try:
                yield
                if self._sqlite.total_changes > rows:
                    self._remember("commits", str(commits := _commits(self._sqlite) + 1))
                self._sqlite.execute("COMMIT")
            except BaseException:
                if self._sqlite.in_transaction:
                    self._sqlite.execute("ROLLBACK")
                self._load()
                raise
        # where the number is too small it shows no damage
        with suppress(OSError):
            if commits:
                os.pwrite(self._noted.fileno(), b"%020d\n" % commits, 0)

    def _tables(self) -> list[str]:
        return [
            name for (name,) in self._rows("SELECT name FROM sqlite_master WHERE name GLOB 'ids_*'")
        ]

    def _rows(self, statement: str, *values: Any) -> list[Any]:
        with self._as_unusable():
            return self._sqlite.execute(statement, values).fetchall()

    def _iterate(self, statement: str, *values: Any) -> Iterator[Any]:
        with self._as_unusable():
            yield from self._sqlite.execute(statement, values)


def _commits(connection: sqlite3.Connection) -> int:
    """Return the number of commits to a file. It is 0 for a file of a version that did not count
    them."""
    counted = connection.execute("SELECT value FROM state WHERE name = 'commits'").fetchone()
    return int(counted[0]) if counted else 0


def digest_of_id(identity: bytes) -> bytes:
    """Return the digest by which the file knows a batch's id."""
    return hashlib.blake2b(identity, digest_size=ID_BYTES, person=b"ldp batch id").digest()


def _id_table(day: date) -> str:
    return f"ids_{day:%Y%m%d}"


def _refusals_json(refused: bytes | None) -> str:
    """Return the JSON text of packed refusals."""
    if not refused:
        return NOTHING_REFUSED
    items = [{"item": item, "code": CODES[code]} for item, code in _REFUSAL.iter_unpack(refused)]
    return json.dumps({"refused": items}, separators=(",", ":"))
