"""The file of a device: SQLite, one writer at a time, whole transactions or none.

No column of it holds a value, a time within a period or an order. Deleted content is overwritten.
The log that could still hold it is emptied when a period is sealed.
"""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

from ldp.errors import LdpError

APPLICATION = 0x6C647031
FORMAT = 4
SCHEMA = """
CREATE TABLE state (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE seen (ends INTEGER, metric TEXT, version INTEGER, meaning BLOB,
    records INTEGER NOT NULL, PRIMARY KEY (ends, metric, version, meaning)) WITHOUT ROWID;
CREATE TABLE pool (ends INTEGER, metric TEXT, version INTEGER, meaning BLOB, slot INTEGER,
    report BLOB NOT NULL, tag BLOB, PRIMARY KEY (ends, metric, version, meaning, slot))
    WITHOUT ROWID;
CREATE TABLE frozen (ends INTEGER, metric TEXT, version INTEGER, meaning BLOB,
    records INTEGER NOT NULL, charged INTEGER NOT NULL, response BLOB NOT NULL,
    source INTEGER NOT NULL, PRIMARY KEY (ends, metric, version, meaning)) WITHOUT ROWID;
CREATE TABLE cells (tag BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE charges (number INTEGER PRIMARY KEY, budget TEXT NOT NULL, metric TEXT NOT NULL,
    at INTEGER NOT NULL, times INTEGER NOT NULL, epsilon REAL NOT NULL,
    begins INTEGER NOT NULL, ends INTEGER NOT NULL);
CREATE INDEX charges_at ON charges (at);
CREATE TABLE sealed (budget TEXT, ends INTEGER, PRIMARY KEY (budget, ends)) WITHOUT ROWID;
CREATE TABLE totals (budget TEXT, metric TEXT, epsilon REAL, times INTEGER NOT NULL,
    forgotten INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (budget, metric, epsilon)) WITHOUT ROWID;
CREATE TABLE batches (id BLOB PRIMARY KEY, day TEXT NOT NULL, last_day TEXT NOT NULL,
    not_before INTEGER NOT NULL, contents TEXT NOT NULL, body BLOB, state TEXT NOT NULL,
    sealed BLOB) WITHOUT ROWID;
"""
_FROZEN = SCHEMA[
    SCHEMA.index("CREATE TABLE frozen") : SCHEMA.index("CREATE TABLE charges")
].replace("source INTEGER NOT NULL, ", "")
_OPEN = (
    "(metric, version, meaning) IN (SELECT metric, version, meaning FROM frozen WHERE NOT charged)"
)
UPGRADES = {
    1: f"""
ALTER TABLE seen RENAME COLUMN fingerprint TO meaning;
ALTER TABLE pool RENAME COLUMN fingerprint TO meaning;
ALTER TABLE pool ADD COLUMN tag BLOB;
ALTER TABLE charges RENAME COLUMN reports TO times;
ALTER TABLE totals RENAME COLUMN reports TO times;
{_FROZEN}""",
    2: "ALTER TABLE batches ADD COLUMN sealed BLOB",
    3: f"""
ALTER TABLE totals ADD COLUMN forgotten INTEGER NOT NULL DEFAULT 0;
ALTER TABLE charges ADD COLUMN begins INTEGER NOT NULL DEFAULT 0;
ALTER TABLE charges ADD COLUMN ends INTEGER NOT NULL DEFAULT 0;
UPDATE charges SET begins = at - 2678400, ends = at;
CREATE TABLE sealed (budget TEXT, ends INTEGER, PRIMARY KEY (budget, ends)) WITHOUT ROWID;
INSERT INTO sealed SELECT DISTINCT budget, at FROM charges;
DELETE FROM pool WHERE {_OPEN};
DELETE FROM seen WHERE {_OPEN};
DELETE FROM frozen WHERE NOT charged;
ALTER TABLE frozen ADD COLUMN source INTEGER NOT NULL DEFAULT 0;
DELETE FROM state WHERE name = 'latest'""",
}
"""Statements that turn a file of a format into one of the next, by the older format."""
_MUST_WRITE = "; this user must be able to write it and its folder"
_REMEDIES = {
    sqlite3.SQLITE_CORRUPT: "; to begin again delete it and its witness: no charge is remembered",
    sqlite3.SQLITE_CANTOPEN: _MUST_WRITE,
    sqlite3.SQLITE_READONLY: _MUST_WRITE,
}
"""What to do, by the first byte of SQLite's codes of errors."""
BUSY_SECONDS = 0.25
DECLINED = "declined "
"""Beginning of the names under which declined records are counted."""


Charge = tuple[str, str, float, int, int]
"""Group, metric, price, how often it was charged, and the end of the period. In a total, the last
item is the latest end of a period whose charges were forgotten."""


class StorageError(LdpError, OSError):
    """Error of a device's file that cannot be used: it is busy, damaged, foreign or closed, or the
    disk is full. `busy`: another thread or process uses it."""

    def __init__(self, message: str, busy: bool = False) -> None:
        super().__init__(message)
        self.busy = busy


class Database(sqlite3.Connection):
    """SQLite's connection, with the states and totals of the file as a transaction read them, and
    with the synchronisation that it set."""

    states: dict[str, Any] | None = None
    totals: list[Charge] | None = None
    synchronous = ""


class DeviceFile:
    """Connection to a device's file; a missing file is created. Threads and processes may share the
    file, also after a fork: the connection is closed before a fork, because SQLite's locks do not
    survive it. Raises StorageError for a file that is damaged or belongs to another program."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._database: Database | None = None
        self._log_is_full = self._is_used = False
        self._identity = (0, 0)
        try:
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._connect()
        except (sqlite3.Error, OSError) as error:
            raise self._error(error) from None
        _FILES.add(self)

    @contextmanager
    def transaction(self, *, synced: bool = False, reads: bool = False) -> Iterator[Database]:
        """Run the block as one transaction. With `synced` it is on the disk when the block ends.
        The log, which could hold deleted content, is emptied. Otherwise it survives the end of the
        process but not a power cut. With `reads` it takes no lock for writing. Raises StorageError,
        also within another transaction of the thread."""
        is_outer = False
        try:
            if not self._lock.acquire(timeout=BUSY_SECONDS):
                raise StorageError("another thread uses the device's file", busy=True)
            is_outer = not self._is_used
            # of a signal handler, say: it would end the outer transaction
            if not is_outer:
                raise StorageError("this thread uses the device's file", busy=True)
            self._is_used = True
            database = self._connect()
            # an exception came between two statements
            if database.in_transaction:
                database.execute("ROLLBACK")
            synchronous = "FULL" if synced else "NORMAL"
            if database.synchronous != synchronous:
                database.execute(f"PRAGMA synchronous = {synchronous}")
                database.synchronous = synchronous
            try:
                database.execute("BEGIN" if reads else "BEGIN IMMEDIATE")
                database.states = database.totals = None
                yield database
                database.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    database.execute("ROLLBACK")
                raise
            if synced or self._log_is_full:
                self._empty_log(database)
        except (sqlite3.Error, OSError) as error:
            raise self._error(error) from None
        finally:
            if is_outer:
                self._is_used = False
            # at once: before a call a signal handler could raise
            try:  # noqa: SIM105
                self._lock.release()
            except RuntimeError:  # not held
                pass

    def _error(self, error: Exception) -> StorageError:
        """Return an error of a transaction, of SQLite or of the system with the file's path."""
        if isinstance(error, StorageError):
            return StorageError(f"{self._path}: {error}", error.busy)
        busy = isinstance(error, sqlite3.OperationalError) and (
            "locked" in str(error) or "busy" in str(error)
        )
        remedy = _REMEDIES.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, "")
        why = f"the device's file cannot be used: {error}{remedy}"
        return StorageError(f"{self._path}: {why}", busy)

    def close(self) -> None:
        """Close the connection; the next transaction opens it again."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def __del__(self) -> None:
        if (database := getattr(self, "_database", None)) is not None:
            database.close()

    def _empty_log(self, database: Database) -> None:
        """Empty the log now, or after a later transaction if another process is reading it."""
        self._log_is_full = True
        with suppress(sqlite3.Error):
            (busy, *_) = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._log_is_full = bool(busy)

    def _connect(self) -> Database:
        if self._database is not None and self._identity != self._identify():
            self.close()
        if self._database is None:
            identity = self._identify()
            database = sqlite3.connect(
                self._path,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
                factory=Database,
            )
            try:
                database.execute("PRAGMA secure_delete = ON")
                self._prepare(database)
                database.execute("PRAGMA journal_mode = WAL")
            except BaseException:
                database.close()
                raise
            self._database, self._identity = database, identity
        return self._database

    def _identify(self) -> tuple[int, int]:
        """Return what identifies the file at the path. Raises StorageError if it is gone."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            raise StorageError("the device's file was deleted while it was open") from None
        return status.st_dev, status.st_ino

    def _prepare(self, database: Database) -> None:
        def pragma(name: str) -> int:
            return int(database.execute(f"PRAGMA {name}").fetchone()[0])

        if (pragma("application_id"), pragma("user_version")) == (APPLICATION, FORMAT):
            return
        database.execute("BEGIN IMMEDIATE")
        if pragma("application_id") != APPLICATION:
            if database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise StorageError("not a device's file")
            _run(database, SCHEMA)
            database.execute(f"PRAGMA application_id = {APPLICATION}")
        elif pragma("user_version") not in UPGRADES:
            raise StorageError("of a newer version, or damaged: upgrade ldp")
        else:
            for version in range(pragma("user_version"), FORMAT):
                _run(database, UPGRADES[version])
        database.execute(f"PRAGMA user_version = {FORMAT}")
        database.execute("COMMIT")


def _run(database: Database, script: str) -> None:
    for statement in script.split(";"):
        database.execute(statement)


def state(database: Database, name: str, default: Any = None) -> Any:
    """Return the state of a name, `default` if it was never written."""
    return _states(database).get(name, default)


def remember(database: Database, name: str, value: Any) -> None:
    """Write the state of a name."""
    database.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (name, value))
    if database.states is not None:
        database.states[name] = value


def forget_states(database: Database, beginning: str) -> None:
    """Delete the states whose names begin with `beginning`."""
    database.execute("DELETE FROM state WHERE name GLOB ?", (f"{beginning}*",))
    database.states = None


def count(database: Database, name: str, number: int = 1) -> None:
    """Add a number to the state of a name, which begins with 0."""
    remember(database, name, state(database, name, 0) + number)


def declined_counts(database: Database) -> dict[str, int]:
    """Return how many records were declined, by reason."""
    counts = sorted(_states(database).items())
    return {n.removeprefix(DECLINED): count for n, count in counts if n.startswith(DECLINED)}


def _states(database: Database) -> dict[str, Any]:
    """Return all states, which a transaction reads once."""
    if database.states is None:
        database.states = dict(database.execute("SELECT name, value FROM state").fetchall())
    return database.states


def totals(database: Database) -> list[Charge]:
    """Return the totals of all charges, which a transaction reads once. What writes them sets
    `database.totals` to None."""
    if database.totals is None:
        query = "SELECT budget, metric, epsilon, times, forgotten FROM totals ORDER BY 1, 2, 3"
        database.totals = database.execute(query).fetchall()
    return database.totals


_FILES: WeakSet[DeviceFile] = WeakSet()
_LOCKED_FILES: list[DeviceFile] = []


def _before_fork() -> None:
    for file in list(_FILES):
        file._lock.acquire()
        file.close()
        _LOCKED_FILES.append(file)


def _after_fork() -> None:
    while _LOCKED_FILES:
        _LOCKED_FILES.pop()._lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
