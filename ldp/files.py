"""Atomic replacement of files: a killed run leaves the old file or none, never a part."""

import errno
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ldp.errors import ParameterError


def is_endless(path: Path) -> bool:
    """Return whether a file may never end: a named pipe, to which nobody may ever write, or a
    device such as /dev/zero or a terminal. The pipes that a shell makes for a command are in /dev,
    and do not count, nor does /dev/null."""
    if path.is_char_device():
        return not path.samefile(os.devnull)
    return path.is_fifo() and not str(path).startswith(("/dev/", "/proc/"))


def is_missing(path: Path) -> bool:
    """Return whether the system says that there is no such file. From Python 3.14 on
    `Path.exists` says so, too, of a file that nobody may look at."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return True
    except OSError:
        return False
    return False


def bytes_of(path: Path, most: float = math.inf) -> bytes:
    """Return the bytes of a file. Raises OSError if it cannot be read, may never end or has more
    than `most` bytes."""
    if is_endless(path):
        raise OSError(errno.ESPIPE, "it is a named pipe or a device, which may never end")
    with open(path, "rb", buffering=0) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.EFBIG, f"it has more than {most:,} bytes")
        return file.readall()


def real_path(path: Path) -> Path:
    """Return a path without links. Where links go in a circle, opening it raises OSError."""
    return Path(os.path.realpath(path))


@contextmanager
def open_replacement(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside `path`, which is renamed to `path` when the block succeeds.

    A link is followed, and a file keeps its permissions. Raises ParameterError for a folder, a
    device or a pipe, which cannot be replaced.
    """
    path = real_path(path)
    if path.exists() and not path.is_file():
        raise ParameterError(f"{path} is not a file that can be replaced")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            part.chmod(path.stat().st_mode & 0o777)
        part.replace(path)
    except BaseException as error:
        with suppress(OSError):
            part.unlink()
        if isinstance(error, OSError) and error.filename == str(part):
            error.filename = str(path)
        raise


def sync_folder(folder: Path) -> None:
    """Sync the names in `folder` to the disk. Until then a power cut can undo a renaming."""
    # Windows has no way to sync a folder
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process changes files of `folder`, and let none do so in the block. Do
    neither where the system has no such lock, as on Windows."""
    with ExitStack() as stack:
        with suppress(ImportError, OSError):
            import fcntl

            descriptor = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def write_whole(path: Path, data: bytes | str) -> None:
    """Write `data` (text as UTF-8) to `path` atomically."""
    write_together({path: data})


def write_together(files: Mapping[Path, bytes | str]) -> None:
    """Write `files`, data by path: all are on the disk before the first is renamed, so that an
    error in one leaves the others unchanged."""
    with ExitStack() as stack:
        for path, data in files.items():
            part = stack.enter_context(open_replacement(path))
            part.write_bytes(data.encode() if isinstance(data, str) else data)


def quoted(text: str) -> str:
    """Return a text as a quoted string of TOML."""
    import json  # late: devices write no TOML

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def counted(number: float, noun: str, nouns: str = "") -> str:
    """Return a `number` with its `noun`. `nouns`: the plural, by default the noun with an "s"."""
    form = "," if isinstance(number, int) else "z,.0f"
    text = f"{number:{form}}".replace("-", "\N{MINUS SIGN}")
    return f"{text} {noun if text == '1' else nouns or f'{noun}s'}"


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Return `rows` as CSV text, lines ended by a newline."""
    return "".join(f"{line}\n" for line in _csv_lines(rows))


def csv_cells(texts: Collection[str]) -> list[str]:
    """Return each of the `texts` as a cell of CSV text, in quotes where it needs them."""
    if bytes in {*map(type, texts)}:
        raise ParameterError("a value is bytes, and CSV holds texts: decode it")
    together = "".join(texts)
    is_plain = all(texts) and not any(mark in together for mark in ',"\r\n')
    return [*texts] if is_plain else _csv_lines(zip(texts))


def _csv_lines(rows: Iterable[Iterable[object]]) -> list[str]:
    """Return the lines of CSV text without their ends. The writer ends lines with a carriage return
    and a newline, because a writer that ends them with a newline alone quotes no carriage
    return."""
    import csv  # late: devices write no CSV
    from types import SimpleNamespace

    lines = list[str]()
    csv.writer(SimpleNamespace(write=lines.append), lineterminator="\r\n").writerows(rows)
    return [line[:-2] for line in lines]


def finite(result: Any) -> Any:
    """Return the `result`, JSON-ready data, with None for every number that is not finite."""
    if isinstance(result, Mapping):
        return {name: finite(value) for name, value in result.items()}
    if isinstance(result, list | tuple):
        return [finite(value) for value in result]
    return None if isinstance(result, float) and not math.isfinite(result) else result
