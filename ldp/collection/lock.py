"""One collector a folder: a lock that the operating system lets go when its process ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ldp.errors import LdpError
from ldp.files import sync_folder

LOCK = ".collector.lock"


class InUse(LdpError, OSError):
    """Another collector has the folder."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Makes the folder, readable by its owner only and there after a power cut too, and holds its
    lock; raises InUse."""
    folder = folder.absolute()
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(exist_ok=True, mode=0o700)
        sync_folder(one.parent)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise InUse(f"{folder}: another collector has it") from None
    try:
        yield
    finally:
        os.close(descriptor)
