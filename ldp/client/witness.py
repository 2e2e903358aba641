"""The witness: a small file outside backups that knows the last charge of a device's file.

Every transaction that charges or changes the consent gives the device's file a new mark: a random
number, and a digest of all that was charged. The witness holds the mark that was confirmed last,
and the one that is being written: it is synced before that transaction commits, and again before
what it sealed may leave. A device's file whose mark is neither, or that does not hold what its mark
says was charged, is an older copy or another file: it is not used any more.
"""

import hashlib
import os
import sqlite3
from pathlib import Path
from typing import NamedTuple

from ldp.client.device_file import StorageError, remember, state
from ldp.files import sync_folder, write_whole

KIND = "ldp witness 1"
MARK_BYTES = 16


class Marks(NamedTuple):
    confirmed: str
    announced: str


class Witness:
    """Call all of it in a transaction of the device's file that may write."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def check(self, connection: sqlite3.Connection) -> None:
        """Raises StorageError unless the device's file is the one that the witness knows."""
        mark = state(connection, "mark")
        if mark is None:
            if self._path.exists() and self._read().confirmed:
                raise StorageError("the witness knows of another file, not of this one")
        elif mark not in self._read() or not mark.endswith(_books(connection)):
            raise StorageError("the device's file is older than its witness: a restored copy")

    def announce(self, connection: sqlite3.Connection) -> None:
        """Marks the transaction that is about to be committed, and synced."""
        before = state(connection, "mark", "")
        after = os.urandom(MARK_BYTES).hex() + _books(connection)
        self._write(Marks(before, after))
        remember(connection, "mark", after)

    def confirm(self, connection: sqlite3.Connection) -> None:
        """What was committed may leave from now on."""
        self.check(connection)
        mark = state(connection, "mark")
        if mark is not None and self._read().confirmed != mark:
            self._write(Marks(mark, mark))

    def _read(self) -> Marks:
        try:
            kind, confirmed, announced = self._path.read_text("ascii").split("\n")[:3]
        except FileNotFoundError:
            raise StorageError("the witness of the device's file is missing") from None
        except ValueError:
            raise StorageError("the witness of the device's file is damaged") from None
        if kind != KIND or not announced:
            raise StorageError("the witness of the device's file is damaged")
        return Marks(confirmed, announced)

    def _write(self, marks: Marks) -> None:
        write_whole(self._path, "\n".join((KIND, *marks, "")))
        sync_folder(self._path.parent)


def _books(connection: sqlite3.Connection) -> str:
    """A digest of all that was charged: SQLite's log can carry a new mark onto old pages."""
    totals = connection.execute("SELECT * FROM totals ORDER BY 1, 2, 3").fetchall()
    return hashlib.sha256(repr(totals).encode()).hexdigest()


class NoWitness:
    """Where the app keeps none; refused for a device's file that has one."""

    def check(self, connection: sqlite3.Connection) -> None:
        if state(connection, "mark") is not None:
            raise StorageError("the device's file has a witness: open the client with it")

    def announce(self, connection: sqlite3.Connection) -> None:
        """There is nothing to tell."""

    confirm = check
