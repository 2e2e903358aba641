"""The witness: a small file outside backups by which a restored copy of a device's file is noticed.

Every transaction that charges or changes the consent gives the device's file a new mark: a random
number, and a digest of all charges. The witness holds the mark that was confirmed last, and the one
that is being written. It is synced before the transaction commits, and again before the batches
that the transaction sealed may leave. A device's file with another mark, or with other charges than
its mark says, is an older copy or another file: it is not used any more.
"""

import hashlib
import os
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ldp.client.device_file import Database, StorageError, count, remember, state, totals
from ldp.errors import ParameterError
from ldp.files import is_missing, sync_folder, write_whole

KIND = "ldp witness 1"
MARK_BYTES = 16
MARK_LETTERS = 16 + 2 * MARK_BYTES + 64
KEPT_AS, NAMED, DEFAULT, LOST = "witness", "named", "default", "lost"
"""Name of the state with the kind of witness that the device's file has, and its three values."""
LOSSES = "witnesses_lost"


class Marks(NamedTuple):
    """Marks of a witness: the last one that was confirmed, and the one that is being written. A
    mark is a number that grows, 16 random bytes and a digest of the charges, as hexadecimal text.
    Marks of earlier versions have no number."""

    confirmed: str
    announced: str


class Witness:
    """Witness at a path that the app gives. Call its methods in a transaction of the device's file
    that may write. `default`: the witness of the file if it was opened without a path before."""

    def __init__(self, path: Path, default: "DefaultWitness | None" = None) -> None:
        self._path = path
        self._default = default

    def problem(self, database: Database) -> str:
        """Return why the device's file must not be used, "" if it may. Write nothing."""
        mark = state(database, "mark")
        try:
            if self._takes_over(database) and self._default is not None:
                return self._default.problem(database)
            is_new = mark is None and is_missing(self._path)
            marks = None if is_new else self._read()
        except StorageError as error:
            return str(error)
        return self._objection(database, mark, marks)

    def _objection(self, database: Database, mark: str | None, marks: Marks | None) -> str:
        """Return why a file with this `mark` must not be used beside these `marks`, "" if it
        may."""
        if mark is None and marks is not None and marks.confirmed:
            return (
                f"the witness {self._path} belongs to another file, not to this one; to begin "
                "again delete both"
            )
        if mark is None or marks is None:
            return ""
        is_known = mark in marks and mark.endswith(_charges_digest(database))
        return "" if is_known else "the device's file is older than its witness: a restored copy"

    def check(self, database: Database) -> None:
        """Raise StorageError unless the device's file is the one that the witness knows."""
        if why := self.problem(database):
            raise StorageError(why)
        if self._takes_over(database) and self._default is not None:
            self._default.check(database)
            mark = state(database, "mark")
            self._keep(database, Marks(mark, mark))

    def _takes_over(self, database: Database) -> bool:
        """Return whether the app gives the path of a witness for the first time."""
        is_default = state(database, KEPT_AS) in (DEFAULT, LOST)
        return is_default and state(database, "mark") is not None and is_missing(self._path)

    def announce(self, database: Database) -> None:
        """Write a new mark to the file and the witness, before the transaction is committed."""
        self._keep(database, self._renew_mark(database))

    def confirm(self, database: Database) -> None:
        """Confirm the mark of the last transaction, so that its batches may leave."""
        self.check(database)
        mark = state(database, "mark")
        marks = None if mark is None else self._read()
        if marks is not None and marks.confirmed != mark:
            self._keep(database, Marks(mark, mark))

    def _renew_mark(self, database: Database) -> Marks:
        """Give the device's file a new mark. Returns its old mark and the new one."""
        old_mark = state(database, "mark", "")
        new_mark = (
            f"{mark_number(old_mark) + 1:016x}"
            f"{os.urandom(MARK_BYTES).hex()}{_charges_digest(database)}"
        )
        remember(database, "mark", new_mark)
        return Marks(old_mark, new_mark)

    def _read(self) -> Marks | None:
        """Return the marks of the witness."""
        try:
            with open(self._path, "rb", buffering=0) as file:
                kind, confirmed, announced = file.read().decode("ascii").split("\n")[:3]
            if kind != KIND or not announced:
                raise ValueError
        except FileNotFoundError:
            raise StorageError("the witness of the device's file is missing") from None
        except ValueError:
            raise StorageError("the witness of the device's file is damaged") from None
        return Marks(confirmed, announced)

    def _keep(self, database: Database, marks: Marks) -> bool:
        """Write the witness; return whether that succeeded."""
        self._write(marks)
        remember(database, KEPT_AS, NAMED)
        return True

    def _write(self, marks: Marks) -> None:
        write_whole(self._path, "\n".join((KIND, *marks, "")))
        sync_folder(self._path.parent)


class DefaultWitness(Witness):
    """Witness for an app that gives no path. It lies in the user's state folder. A witness that is
    missing, damaged or older than the device's file, or cannot be read or written, is written again
    and counted (`LOSSES`)."""

    def __init__(self, device: Path) -> None:
        place = str(device)
        with suppress(OSError, ValueError):
            place = os.path.realpath(place)
        name = hashlib.sha256(os.fsencode(place)).hexdigest()[:32]
        super().__init__(state_folder() / f"{name}.witness")

    def problem(self, database: Database) -> str:
        return self._objection(database, state(database, "mark"), self._read())

    def _objection(self, database: Database, mark: str | None, marks: Marks | None) -> str:
        if mark is not None and state(database, KEPT_AS, NAMED) == NAMED:
            return "the device's file has a witness: open the client with it"
        if marks is None or (mark is not None and self._is_behind(database, mark, marks)):
            return ""
        return super()._objection(database, mark, marks)

    def check(self, database: Database) -> None:
        mark, marks = state(database, "mark"), self._read()
        if why := self._objection(database, mark, marks):
            raise StorageError(why)
        if mark is None or (marks is None and state(database, KEPT_AS) == LOST):
            return
        if marks is None or self._is_behind(database, mark, marks):
            if state(database, KEPT_AS) != LOST:
                count(database, LOSSES)
            self._keep(database, Marks(mark, mark))

    def announce(self, database: Database) -> None:
        was_lost = state(database, KEPT_AS) == LOST
        if not self._keep(database, self._renew_mark(database)) and not was_lost:
            count(database, LOSSES)

    def _read(self) -> Marks | None:
        with suppress(OSError):
            return super()._read()
        return None

    def _is_behind(self, database: Database, mark: str, marks: Marks) -> bool:
        """Return whether the witness is older than the file: it was restored, or the file was used
        elsewhere for a while."""
        is_later = mark_number(mark) > max(map(mark_number, marks))
        return is_later and mark.endswith(_charges_digest(database))

    def _keep(self, database: Database, marks: Marks) -> bool:
        try:
            if not self._path.is_absolute():
                raise FileNotFoundError("the user has no home folder")
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write(marks)
        except (OSError, ParameterError):
            remember(database, KEPT_AS, LOST)
            return False
        remember(database, KEPT_AS, DEFAULT)
        return True


def mark_number(mark: str) -> int:
    """Return the number of a mark, -1 if it has none."""
    return int(mark[:16], 16) if len(mark) == MARK_LETTERS else -1


def _charges_digest(database: Database) -> str:
    """Return a digest of all charges, which shows when SQLite's log carried a new mark onto old
    pages."""
    return _digest(repr([row[:4] for row in totals(database)]))


@lru_cache(maxsize=1)
def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class NoWitness:
    """Absent witness, for an app that wants none. Raises StorageError if the file has one."""

    def problem(self, database: Database) -> str:
        if state(database, "mark") is None:
            return ""
        return "the device's file has a witness: open the client with it"

    def check(self, database: Database) -> None:
        if why := self.problem(database):
            raise StorageError(why)

    def announce(self, database: Database) -> None:
        """Do nothing."""

    confirm = check


def state_folder() -> Path:
    """Return the system's folder for the state of a user on this machine. It is never a cache, and
    not synchronised between machines where the system makes that difference. The path is relative
    if the user has no home."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Application Support")
    else:
        base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(base, "ldp")
