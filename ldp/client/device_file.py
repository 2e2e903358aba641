"""The one file of a device: SQLite, one writer at a time, whole transactions or none.

Nothing in it tells when a value was recorded, in which order, or what it was: the pool holds
randomised reports by slot, and deleted content is overwritten.
"""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ldp.errors import LdpError

APPLICATION = 0x6C647031
FORMAT = 1
SCHEMA = """
CREATE TABLE state (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE seen (metric TEXT, version INTEGER, ends INTEGER, records INTEGER NOT NULL,
    PRIMARY KEY (ends, metric, version)) WITHOUT ROWID;
CREATE TABLE pool (metric TEXT, version INTEGER, ends INTEGER, slot INTEGER, report BLOB NOT NULL,
    PRIMARY KEY (ends, metric, version, slot)) WITHOUT ROWID;
CREATE TABLE charges (number INTEGER PRIMARY KEY, budget TEXT NOT NULL, metric TEXT NOT NULL,
    at INTEGER NOT NULL, reports INTEGER NOT NULL, epsilon REAL NOT NULL);
CREATE TABLE batches (id BLOB PRIMARY KEY, day TEXT NOT NULL, last_day TEXT NOT NULL,
    not_before INTEGER NOT NULL, contents TEXT NOT NULL, body BLOB, state TEXT NOT NULL)
    WITHOUT ROWID;
"""
BUSY_SECONDS = 0.25


class StorageError(LdpError, OSError):
    """The device's file cannot be used: busy, damaged, foreign, or the disk is full."""

    def __init__(self, message: str, busy: bool = False) -> None:
        super().__init__(message)
        self.busy = busy


class DeviceFile:
    """Raises StorageError for a file that is damaged or belongs to something else; makes one where
    there is none. Threads and processes may share it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._pid = 0
        with self._lock, _translated():
            self._open()

    @contextmanager
    def transaction(self, *, synced: bool = False) -> Iterator[sqlite3.Connection]:
        """All of the block or nothing. With `synced` it is on the disk when the block ends, and the
        log that could hold what was deleted is emptied; else it survives the process only."""
        with self._lock, _translated():
            connection = self._open()
            connection.execute(f"PRAGMA synchronous = {'FULL' if synced else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            if synced:
                with suppress(sqlite3.Error):  # another process reads: it is emptied next time
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection:
        """This process's connection; one that was inherited by a fork is left alone."""
        if self._connection is not None and self._pid == os.getpid():
            return self._connection
        self._pid = os.getpid()
        if not self._path.exists():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = sqlite3.connect(
            self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA secure_delete = ON")
        self._prepare(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        self._connection = connection
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        def known() -> bool:
            application = connection.execute("PRAGMA application_id").fetchone()[0]
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            return (application, version) == (APPLICATION, FORMAT)

        if known():
            return
        connection.execute("BEGIN IMMEDIATE")
        if not known():
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                connection.execute("ROLLBACK")
                connection.close()
                raise StorageError(f"{self._path} is not a file of this version's client")
            for statement in SCHEMA.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")


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
