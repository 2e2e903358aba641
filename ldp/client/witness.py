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
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ldp.client.device_file import StorageError, remember, state
from ldp.files import sync_folder, write_whole

KIND = "ldp witness 1"
MARK_BYTES = 16
KEPT_AS, NAMED, DEFAULT, LOST = "witness", "named", "default", "lost"
"""The state that says whose witness the device's file has."""
LOSSES = "witnesses_lost"


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
                raise StorageError(
                    f"the witness {self._path} knows of another file, not of this one; for a new "
                    "life delete both"
                )
        elif state(connection, KEPT_AS) == DEFAULT and not self._path.exists():
            self._write(Marks(mark, mark))  # from now on the app names one
            remember(connection, KEPT_AS, NAMED)
        elif mark not in self._read() or not mark.endswith(_books(connection)):
            raise StorageError("the device's file is older than its witness: a restored copy")

    def announce(self, connection: sqlite3.Connection) -> None:
        """Marks the transaction that is about to be committed, and synced."""
        before = state(connection, "mark", "")
        after = os.urandom(MARK_BYTES).hex() + _books(connection)
        self._write(Marks(before, after))
        remember(connection, "mark", after)
        remember(connection, KEPT_AS, NAMED)

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


class DefaultWitness(Witness):
    """The witness where the app names none: in the per-user state folder of the system. One that is
    missing, or cannot be written, is made anew and counted (`LOSSES`)."""

    def __init__(self, device: Path) -> None:
        with suppress(OSError, ValueError, RuntimeError):
            device = device.resolve()
        name = hashlib.sha256(os.fsencode(device)).hexdigest()[:32]
        super().__init__(state_folder() / f"{name}.witness")

    def check(self, connection: sqlite3.Connection) -> None:
        is_marked = state(connection, "mark") is not None
        if is_marked and state(connection, KEPT_AS, NAMED) == NAMED:
            raise StorageError("the device's file has a witness: open the client with it")
        if is_marked and not self._path.exists():
            self._lose(connection)
        elif is_marked or state(connection, KEPT_AS) != LOST:
            super().check(connection)

    def announce(self, connection: sqlite3.Connection) -> None:
        try:
            if not self._path.is_absolute():
                raise FileNotFoundError("the user has no home folder")
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            super().announce(connection)
            remember(connection, KEPT_AS, DEFAULT)
        except OSError:
            self._lose(connection)

    def confirm(self, connection: sqlite3.Connection) -> None:
        self.check(connection)
        try:
            super().confirm(connection)
        except StorageError:
            raise
        except OSError:
            self._lose(connection)

    def _lose(self, connection: sqlite3.Connection) -> None:
        """Go on without what the witness knew; the next announcement makes it anew."""
        connection.execute("DELETE FROM state WHERE name = 'mark'")
        remember(connection, KEPT_AS, LOST)
        remember(connection, LOSSES, state(connection, LOSSES, 0) + 1)


class NoWitness:
    """For an app that wants none; refused for a device's file that has one."""

    def check(self, connection: sqlite3.Connection) -> None:
        if state(connection, "mark") is not None:
            raise StorageError("the device's file has a witness: open the client with it")

    def announce(self, connection: sqlite3.Connection) -> None:
        """There is nothing to tell."""

    confirm = check


def state_folder() -> Path:
    """Return the folder for what belongs to a user, and to this machine: never a cache, and where
    the system knows the difference outside of what is synchronised. Relative where the user has no
    home folder."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Application Support")
    else:
        base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(base) / "ldp"
