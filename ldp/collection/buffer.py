"""The durable buffer of a collector: what was acknowledged, until it is in the report store.

One SQLite file, in write-ahead mode with a full sync at every commit. `Buffer.commit` writes a
queue of batches in one transaction; only what it returned may be answered. Ids of batches are kept
in one table a day of sealing and go below the watermark, the oldest day that is still taken, which
never falls. The file has an application id, the number of its format and a digest of each row of
reports. Lots of reports stay in order of arrival until they are taken into the store: what is
deleted is overwritten, and `erase` empties the log. Days are arguments.
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
from pathlib import Path
from typing import Any, NamedTuple

from ldp.collection.intake import CODES, Asked, Lot, Refusal, Sorted
from ldp.errors import LdpError, RegistryError
from ldp.mechanisms import Catalogued, from_parameters

AHEAD = timedelta(days=1)
"""How far a device's clock may be ahead of the collector's."""
LEAP = timedelta(days=31)
"""A clock that runs ahead of the watermark by more is not believed: the watermark never falls."""
PAGE_BYTES, CHECKPOINT_PAGES = 4096, 8192
ROW_BYTES = 1 << 18
"""Of reports of one metric that one commit stores in a row; a larger batch has a row for itself."""
NAME_BYTES, _DIGEST_BYTES = 16, 8
FORGOTTEN_BYTES = 4 << 20
"""Of reports that one transaction deletes."""
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
"""Its lots have no digest; a plan that is not done keeps the name that its file may have."""


class BufferUnusable(LdpError, OSError):
    """The buffer cannot be read or written: damaged, foreign, or the disk is full."""


@dataclass(frozen=True)
class Arrived:
    """A batch with the digest of its bytes, waiting to be committed."""

    batch: Sorted
    digest: bytes

    @property
    def size(self) -> int:
        """Its bytes, roughly."""
        return 200 + sum(len(lot.bodies) for lot in self.batch.lots)


class Answer(NamedTuple):
    """What a batch's sender is told: an HTTP status and a JSON text."""

    status: int
    text: str
    is_new: bool = False
    """Whether the batch was stored by this commit."""


class Waiting(NamedTuple):
    """A metric's reports in the buffer."""

    metric: str
    version: int
    mechanism: Catalogued
    number: int
    """Of the metric, in this buffer."""


class Bodies(NamedTuple):
    """The reports of a plan: lots whose bytes are those that were acknowledged, and how many
    reports are in the others, which are damaged."""

    lots: list[bytes]
    damaged: int


class Plan(NamedTuple):
    """Lots of one metric that become one file: a range of sequence numbers, and the file's day."""

    first: int
    last: int
    day: date
    name: str
    """Of the file, without ending: random, so that it says nothing, and kept before the file is
    written, so that a run that is repeated replaces it."""
    is_written: bool = False
    """Whether the file is on the disk for good, and only the lots must go."""


_SET = "DO UPDATE SET value = excluded.value"
NOTHING_REFUSED = '{"refused":[]}'
_REFUSAL = struct.Struct("<HB")
_CONFLICT = Answer(409, '{"error":"another batch has this id"}')
_TOO_LATE = Answer(410, '{"error":"sealed too long ago"}')
_TOO_EARLY = Answer(422, '{"error":"sealed on a day that has not come"}')


def waiting_reports(folder: Path, metric: str, version: int) -> int:
    """The number of a metric's reports in the buffer there, 0 without one; nothing is changed."""
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
    """One connection to the buffer's file. Several may read; one at a time commits.

    `synchronous` is for the test that shows why it is FULL.
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
            self._open(synchronous)
        except BaseException:
            self._connection.close()
            raise
        self._numbers: dict[tuple[str, int], int] = {}
        self._days = set(self._tables())

    def _open(self, synchronous: str) -> None:
        """Makes the tables, or brings those of an older format to this one. Raises BufferUnusable,
        with nothing changed, for a file that is not a buffer."""
        self._format()
        with self._working():
            for setting in (
                f"page_size = {PAGE_BYTES}",
                "journal_mode = WAL",
                f"synchronous = {synchronous}",
                "secure_delete = ON",
                f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
            ):
                self._connection.execute(f"PRAGMA {setting}").fetchall()
        with self._transaction():
            found = self._format()
            script = {0: _TABLES, 1: _FROM_FORMAT_1, FORMAT: ""}[found]
            for statement in script.split(";"):
                self._connection.execute(statement)
            if found != FORMAT:
                self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
                self._connection.execute(f"PRAGMA user_version = {FORMAT}")

    def _format(self) -> int:
        """The number of the file's format, 0 for an empty file."""
        ((application,),), ((number,),) = (
            self._rows("PRAGMA application_id"),
            self._rows("PRAGMA user_version"),
        )
        if (application, number) == (APPLICATION, FORMAT):
            return FORMAT
        if application == APPLICATION:
            raise BufferUnusable(f"{self._path} was written by a newer version of ldp")
        tables = {name for (name,) in self._rows("SELECT name FROM sqlite_master")}
        if (
            application
            or number
            or (tables and not tables >= {"state", "metrics", "lots", "plans"})
        ):
            raise BufferUnusable(f"{self._path} is not the buffer of a collector")
        return 1 if tables else 0

    @property
    def watermark(self) -> date:
        """The oldest day of sealing that is taken."""
        return date.fromisoformat(self._recall("watermark") or date.min.isoformat())

    def expect(self, asked: Mapping[str, Asked]) -> None:
        """Reports of these metrics will come. Raises RegistryError where the buffer holds, or held,
        another mechanism under the same version."""
        with self._transaction():
            for name, one in asked.items():
                text = json.dumps(one.mechanism.parameters(), sort_keys=True)
                self._connection.execute(
                    "INSERT INTO metrics (metric, version, mechanism) VALUES (?, ?, ?) "
                    "ON CONFLICT DO NOTHING",
                    (name, one.version, text),
                )
        for waiting in self.metrics():
            self._numbers[waiting.metric, waiting.version] = waiting.number
            now = asked.get(waiting.metric)
            if now and now.version == waiting.version and now.mechanism != waiting.mechanism:
                raise RegistryError(
                    f"metric {waiting.metric!r} changed its mechanism: give it version "
                    f"{waiting.version + 1}"
                )

    def trust(self, today: date, lateness: timedelta, is_sure: bool) -> None:
        """Raises the watermark to what this day asks for; raises BufferUnusable, unless somebody
        `is_sure`, when the clock went too far ahead since it was looked at last."""
        with self._transaction():
            if is_sure:
                self._raise(max(self.watermark, today - lateness))
            else:
                self._raised(today - lateness)

    def commit(self, arrived: Sequence[Arrived], today: date, lateness: timedelta) -> list[Answer]:
        """Writes the batches in one synced transaction; their answers, in order. Raises
        BufferUnusable, with nothing written, when that fails."""
        with self._transaction():
            watermark = self._raised(today - lateness)
            answers = [self._known(one, watermark, today) for one in arrived]
            self._keep(
                lot
                for one, answer in zip(arrived, answers, strict=True)
                if answer.is_new
                for lot in one.batch.lots
            )
            return answers

    def _known(self, arrived: Arrived, watermark: date, today: date) -> Answer:
        """The answer to a batch, whose id is known from now on if any of its reports is stored."""
        batch = arrived.batch
        if not watermark <= batch.day <= today + min(AHEAD, date.max - today):
            return _TOO_LATE if batch.day < watermark else _TOO_EARLY
        if not batch.lots:  # nothing of it can be counted twice: nothing of it is kept
            is_known = _id_table(batch.day) in self._days
            first = self._first_answer(arrived) if is_known else None
            return first or Answer(202, _refusals(_packed(batch.refused)), is_new=True)
        refused = _packed(batch.refused)
        try:
            self._connection.execute(
                f"INSERT INTO {self._table(batch.day)} VALUES (?, ?, ?)",
                (batch.id, arrived.digest, refused or None),
            )
        except sqlite3.IntegrityError:
            return self._first_answer(arrived) or _CONFLICT
        return Answer(202, _refusals(refused), is_new=True)

    def _first_answer(self, arrived: Arrived) -> Answer | None:
        """The answer that this batch had, a conflict if another has its id, or None."""
        found = self._connection.execute(
            f"SELECT digest, refused FROM {_id_table(arrived.batch.day)} WHERE id = ?",
            (arrived.batch.id,),
        ).fetchone()
        if not found:
            return None
        digest, refused = found
        return Answer(202, _refusals(refused)) if digest == arrived.digest else _CONFLICT

    def _keep(self, lots: Iterable[Lot]) -> None:
        """Stores lots, those of a metric joined as long as `ROW_BYTES` last."""
        joined, sizes = dict[int, list[Lot]](), Counter[int]()
        for lot in lots:
            number = self._numbers[lot.metric, lot.version]
            if sizes[number] and sizes[number] + len(lot.bodies) > ROW_BYTES:
                self._insert(number, joined.pop(number))
                sizes[number] = 0
            joined.setdefault(number, []).append(lot)
            sizes[number] += len(lot.bodies)
        for number, listed in joined.items():
            self._insert(number, listed)

    def _insert(self, number: int, lots: list[Lot]) -> None:
        reports, bodies = sum(lot.reports for lot in lots), b"".join(lot.bodies for lot in lots)
        self._connection.execute(
            "INSERT INTO lots (metric, reports, bodies, digest) VALUES (?, ?, ?, ?)",
            (number, reports, bodies, _digest(number, reports, bodies)),
        )

    def _raised(self, day: date) -> date:
        """The watermark, raised to `day` if that is later."""
        watermark = self.watermark
        if day <= watermark:
            return watermark
        if date.min < watermark < day - LEAP:
            ahead = (day - watermark).days
            raise BufferUnusable(f"the clock went {ahead} days ahead since it was looked at last")
        self._raise(day)
        return day

    def _raise(self, day: date) -> None:
        """Sets the watermark; ids of days below it go."""
        self._remember("watermark", day.isoformat(), _SET)
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

    def metrics(self) -> list[Waiting]:
        """Every metric that the buffer ever held reports of."""
        return [self.metric(number) for (number,) in self._rows("SELECT number FROM metrics")]

    def metric(self, number: int) -> Waiting:
        """The metric of that number."""
        ((name, version, text),) = self._rows(
            "SELECT metric, version, mechanism FROM metrics WHERE number = ?", number
        )
        return Waiting(name, version, from_parameters(json.loads(text)), number)

    def name_of(self, number: int) -> tuple[str, int]:
        """The name and the version of the metric of that number."""
        ((name, version),) = self._rows(
            "SELECT metric, version FROM metrics WHERE number = ?", number
        )
        return name, version

    def waiting(self) -> dict[int, int]:
        """Reports in the buffer, by number of the metric."""
        return dict(self._rows("SELECT metric, sum(reports) FROM lots GROUP BY metric"))

    def plan(self, metric: int) -> Plan | None:
        """The file that was decided on and is not done, if there is one."""
        found = self._rows(
            "SELECT first, last, day, name, is_written FROM plans WHERE metric = ?", metric
        )
        for first, last, day, name, is_written in found:
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
        """Decides, for good, which of a metric's lots become the next file: the oldest, of so many
        bytes; None where these are fewer reports than `smallest`. `entropy` draws its name."""
        found = self._oldest(metric, most_bytes)
        if found is None or self._reports(metric, *found) < smallest:
            return None
        plan = Plan(*found, today, entropy(NAME_BYTES).hex())
        with self._transaction():
            self._connection.execute(
                "INSERT INTO plans (metric, first, last, day, name) VALUES (?, ?, ?, ?, ?)",
                (metric, *found, today.isoformat(), plan.name),
            )
        return plan

    def _reports(self, metric: int, first: int, last: int) -> int:
        ((reports,),) = self._rows(
            "SELECT sum(reports) FROM lots WHERE metric = ? AND sequence BETWEEN ? AND ?",
            *(metric, first, last),
        )
        return int(reports)

    def _oldest(self, metric: int, most_bytes: int, until: int = _LAST) -> tuple[int, int] | None:
        """The first and the last of a metric's oldest lots, of so many bytes unless it is one."""
        first = last = size = 0
        for sequence, length in self._each(
            "SELECT sequence, length(bodies) FROM lots WHERE metric = ? AND sequence <= ? "
            "ORDER BY sequence",
            *(metric, until),
        ):
            if size and size + length > most_bytes:
                break
            first, last, size = first or sequence, sequence, size + length
        return (first, last) if size else None

    def bodies(self, metric: int, plan: Plan) -> Bodies:
        """The reports of a plan."""
        sound, damaged = list[bytes](), 0
        for reports, bodies, digest in self._each(
            "SELECT reports, bodies, digest FROM lots "
            "WHERE metric = ? AND sequence BETWEEN ? AND ?",
            *(metric, plan.first, plan.last),
        ):
            if digest in (None, _digest(metric, reports, bodies)):  # format 1 had none
                sound.append(bodies)
            else:
                damaged += reports
        return Bodies(sound, damaged)

    def written(self, metric: int) -> None:
        """The plan's file is on the disk for good: it must never be written again."""
        with self._transaction():
            self._connection.execute("UPDATE plans SET is_written = 1 WHERE metric = ?", (metric,))

    def forget(self, metric: int, plan: Plan, most_bytes: int = FORGOTTEN_BYTES) -> bool:
        """Deletes lots of a plan that is written, overwriting them, so many bytes at a time that
        commits need not wait; the plan last. Whether there are more."""
        with self._transaction():
            first, last = self._oldest(metric, most_bytes, plan.last) or (plan.last, plan.last)
            self._connection.execute(
                "DELETE FROM lots WHERE metric = ? AND sequence BETWEEN ? AND ?",
                (metric, first, last),
            )
            if last == plan.last:
                self._connection.execute("DELETE FROM plans WHERE metric = ?", (metric,))
        return last < plan.last

    def erase(self) -> None:
        """Empties the log, which holds what was deleted."""
        with self._working():
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def bytes_used(self) -> int:
        """Of what is in the file: it is used again, but never becomes smaller."""
        ((pages,),), ((free,),) = (
            self._rows("PRAGMA page_count"),
            self._rows("PRAGMA freelist_count"),
        )
        return int((pages - free) * PAGE_BYTES)

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def __del__(self) -> None:
        if hasattr(self, "_connection"):  # not where it could not be opened
            self.close()

    @contextmanager
    def _working(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise BufferUnusable(f"{self._path}: {error}") from None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._working():
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
        with self._working():
            return self._connection.execute(statement, values).fetchall()

    def _each(self, statement: str, *values: Any) -> Iterator[Any]:
        with self._working():
            yield from self._connection.execute(statement, values)

    def _recall(self, name: str) -> str | None:
        found = self._rows("SELECT value FROM state WHERE name = ?", name)
        return found[0][0] if found else None

    def _remember(self, name: str, value: str, otherwise: str) -> None:
        self._connection.execute(
            f"INSERT INTO state VALUES (?, ?) ON CONFLICT (name) {otherwise}", (name, value)
        )


def _digest(metric: int, reports: int, bodies: bytes) -> bytes:
    """Of a row of lots: SHA-256, for which processors have instructions, cut off."""
    digest = hashlib.sha256(b"%d %d " % (metric, reports))
    digest.update(bodies)
    return digest.digest()[:_DIGEST_BYTES]


def _id_table(day: date) -> str:
    return f"ids_{day:%Y%m%d}"


def _packed(refused: Sequence[Refusal]) -> bytes:
    """Refusals in three bytes each: the item's position and the code's."""
    return b"".join(_REFUSAL.pack(item, CODES.index(code)) for item, code in refused)


def _refusals(refused: bytes | str | None) -> str:
    """The JSON text of packed refusals; buffers of the first format hold the text itself."""
    if not refused:
        return NOTHING_REFUSED
    if isinstance(refused, str):
        return refused
    listed = [{"item": item, "code": CODES[code]} for item, code in _REFUSAL.iter_unpack(refused)]
    return json.dumps({"refused": listed}, separators=(",", ":"))
