"""The one file of a device: SQLite, one writer at a time, whole transactions or none.

No column of it holds a value, a time within a period or an order; deleted content is overwritten,
and the log that could still hold it is emptied when a period is sealed.
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
FORMAT = 2
SCHEMA = """
CREATE TABLE state (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE seen (ends INTEGER, metric TEXT, version INTEGER, meaning BLOB,
    records INTEGER NOT NULL, PRIMARY KEY (ends, metric, version, meaning)) WITHOUT ROWID;
CREATE TABLE pool (ends INTEGER, metric TEXT, version INTEGER, meaning BLOB, slot INTEGER,
    report BLOB NOT NULL, tag BLOB, PRIMARY KEY (ends, metric, version, meaning, slot))
    WITHOUT ROWID;
CREATE TABLE frozen (ends INTEGER, metric TEXT, version INTEGER, meaning BLOB,
    records INTEGER NOT NULL, charged INTEGER NOT NULL, response BLOB NOT NULL,
    PRIMARY KEY (ends, metric, version, meaning)) WITHOUT ROWID;
CREATE TABLE cells (tag BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE charges (number INTEGER PRIMARY KEY, budget TEXT NOT NULL, metric TEXT NOT NULL,
    at INTEGER NOT NULL, times INTEGER NOT NULL, epsilon REAL NOT NULL);
CREATE INDEX charges_at ON charges (at);
CREATE TABLE totals (budget TEXT, metric TEXT, epsilon REAL, times INTEGER NOT NULL,
    PRIMARY KEY (budget, metric, epsilon)) WITHOUT ROWID;
CREATE TABLE batches (id BLOB PRIMARY KEY, day TEXT NOT NULL, last_day TEXT NOT NULL,
    not_before INTEGER NOT NULL, contents TEXT NOT NULL, body BLOB, state TEXT NOT NULL)
    WITHOUT ROWID;
"""
_FROZEN = SCHEMA[SCHEMA.index("CREATE TABLE frozen") : SCHEMA.index("CREATE TABLE charges")]
UPGRADES = {
    1: f"""
ALTER TABLE seen RENAME COLUMN fingerprint TO meaning;
ALTER TABLE pool RENAME COLUMN fingerprint TO meaning;
ALTER TABLE pool ADD COLUMN tag BLOB;
ALTER TABLE charges RENAME COLUMN reports TO times;
ALTER TABLE totals RENAME COLUMN reports TO times;
{_FROZEN}""",
}
"""Statements that turn a file of an older format into one of the next."""
BUSY_SECONDS = 0.25


class StorageError(LdpError, OSError):
    """The device's file cannot be used: busy, damaged, foreign, closed, or the disk is full."""

    def __init__(self, message: str, busy: bool = False) -> None:
        super().__init__(message)
        self.busy = busy


class DeviceFile:
    """Raises StorageError for a file that is damaged or belongs to something else; makes one where
    there is none. Threads and processes may share it, also after a fork: its connection is closed
    before one, because SQLite's locks do not survive it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._log_is_full = False
        self._identity = (0, 0)
        with _translated():
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            self._open()
        _FILES.add(self)

    @contextmanager
    def transaction(
        self, *, synced: bool = False, reads: bool = False
    ) -> Iterator[sqlite3.Connection]:
        """All of the block or nothing. With `synced` it is on the disk when the block ends, and the
        log that could hold what was deleted is emptied; else it survives the process only."""
        if not self._lock.acquire(timeout=BUSY_SECONDS):
            raise StorageError("another thread uses the device's file", busy=True)
        try:
            with _translated():
                connection = self._open()
                if connection.in_transaction:  # an exception came between two statements
                    connection.execute("ROLLBACK")
                connection.execute(f"PRAGMA synchronous = {'FULL' if synced else 'NORMAL'}")
                try:
                    connection.execute("BEGIN" if reads else "BEGIN IMMEDIATE")
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                    raise
                if synced or self._log_is_full:
                    self._empty_log(connection)
        finally:
            self._lock.release()

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __del__(self) -> None:
        if (connection := getattr(self, "_connection", None)) is not None:
            connection.close()

    def _empty_log(self, connection: sqlite3.Connection) -> None:
        """Now, or, while another process reads, after one of the next transactions."""
        self._log_is_full = True
        with suppress(sqlite3.Error):
            (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._log_is_full = bool(busy)

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None and self._identity != self._on_disk():
            self.close()
        if self._connection is None:
            identity = self._on_disk()
            connection = sqlite3.connect(
                self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                connection.execute("PRAGMA secure_delete = ON")
                self._prepare(connection)
                connection.execute("PRAGMA journal_mode = WAL")
            except BaseException:
                connection.close()
                raise
            self._connection, self._identity = connection, identity
        return self._connection

    def _on_disk(self) -> tuple[int, int]:
        """What tells the file at the path from another one; raises StorageError if it is gone."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            raise StorageError("the device's file was deleted while it was open") from None
        return status.st_dev, status.st_ino

    def _prepare(self, connection: sqlite3.Connection) -> None:
        def number(pragma: str) -> int:
            value: int = connection.execute(f"PRAGMA {pragma}").fetchone()[0]
            return value

        def is_ours() -> bool:
            return number("application_id") == APPLICATION

        if is_ours() and number("user_version") == FORMAT:
            return
        connection.execute("BEGIN IMMEDIATE")
        if not is_ours():
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise StorageError(f"{self._path} is not a device's file")
            _run(connection, SCHEMA)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
        else:
            for before in range(number("user_version"), FORMAT):
                _run(connection, UPGRADES[before])
            if number("user_version") > FORMAT:
                raise StorageError(f"{self._path} was written by a newer version: upgrade ldp")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")


def _run(connection: sqlite3.Connection, script: str) -> None:
    for statement in script.split(";"):
        connection.execute(statement)


def state(connection: sqlite3.Connection, name: str, default: Any = None) -> Any:
    """What the file remembers under a name."""
    found = connection.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()
    return default if found is None else found[0]


def remember(connection: sqlite3.Connection, name: str, value: Any) -> None:
    connection.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (name, value))


@contextmanager
def _translated() -> Iterator[None]:
    """SQLite's errors and the system's as StorageError."""
    try:
        yield
    except sqlite3.OperationalError as error:
        busy = "locked" in str(error) or "busy" in str(error)
        raise StorageError(f"the device's file cannot be used: {error}", busy) from None
    except (sqlite3.Error, OSError) as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"the device's file cannot be used: {error}") from None


_FILES: WeakSet[DeviceFile] = WeakSet()
_forking: list[DeviceFile] = []


def _before_fork() -> None:
    for file in list(_FILES):
        file._lock.acquire()
        file.close()
        _forking.append(file)


def _after_fork() -> None:
    while _forking:
        _forking.pop()._lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
