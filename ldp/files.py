"""Files replaced whole or not at all: a killed run leaves the old file or none, never half."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary sibling of `path` to write to; it takes `path`'s name when the block succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            part.unlink()
        raise


def write_whole(path: Path, data: bytes | str) -> None:
    """Writes `data` (text as UTF-8) to `path` atomically."""
    with replacing(path) as part:
        part.write_bytes(data.encode() if isinstance(data, str) else data)
