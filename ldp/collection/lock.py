"""Lock of a folder for one process, which the system releases when that process ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ldp.errors import LdpError
from ldp.files import sync_folder

LOCK = ".collector.lock"
"""Name of a collector's lock."""


class InUse(LdpError, OSError):
    """Error: another process uses the folder."""


@contextmanager
def hold_lock(folder: Path, name: str = LOCK, user: str = "collector") -> Iterator[int]:
    """Make a folder, readable by its owner only and synced to the disk, and hold its lock, the file
    `name`, for the block. Yields the descriptor of this file. A process that inherits the
    descriptor holds the lock, too. Raise InUse if another process holds the lock. The message calls
    that process the other `user`."""
    folder = folder.absolute()
    new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(new_folders):
        path.mkdir(exist_ok=True, mode=0o700)
        sync_folder(path.parent)
    descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise InUse(f"{folder}: another {user} uses it") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)
