"""Files replaced whole or not at all: a killed run leaves the old file or none, never half."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ldp.errors import ParameterError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary sibling of `path` to write to; it takes `path`'s name when the block succeeds.

    A link is followed. Raises ParameterError for a folder, a device or a pipe, which cannot be
    replaced whole.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise ParameterError(f"{path} is not a file that can be replaced")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(path)
    except BaseException as error:
        with suppress(OSError):
            part.unlink()
        if isinstance(error, OSError) and error.filename == str(part):
            error.filename = str(path)
        raise


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder survive a power cut: a file that took its name there may lose it
    before."""
    if os.name == "nt":  # Windows has no way to sync a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, data: bytes | str) -> None:
    """Writes `data` (text as UTF-8) to `path` atomically."""
    with replacing(path) as part:
        part.write_bytes(data.encode() if isinstance(data, str) else data)


def write_together(files: Mapping[Path, bytes | str]) -> None:
    """Write files that belong together: every one is on the disk before the first takes its name,
    so that one that cannot be written leaves the others as they were."""
    with ExitStack() as stack:
        for path, data in files.items():
            part = stack.enter_context(replacing(path))
            part.write_bytes(data.encode() if isinstance(data, str) else data)


def read_lines(text: str) -> list[str]:
    """The lines of a text that are not empty. Only a newline ends a line (a carriage return before
    it is dropped): values may hold every other separator that Unicode knows."""
    lines = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]
    return [line for line in lines if line]
