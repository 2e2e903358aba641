"""Lock of a folder for one collector, which the system releases when its process ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ldp.errors import LdpError
from ldp.files import sync_folder

LOCK = ".collector.lock"


class InUse(LdpError, OSError):
    """Error: another collector uses the folder."""


@contextmanager
def hold_lock(folder: Path) -> Iterator[None]:
    """Make a folder, readable by its owner only and synced to the disk, and hold its lock for the
    block; raise InUse if another process holds it."""
    folder = folder.absolute()
    new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(new_folders):
        path.mkdir(exist_ok=True, mode=0o700)
        sync_folder(path.parent)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise InUse(f"{folder}: another collector uses it") from None
    try:
        yield
    finally:
        os.close(descriptor)
