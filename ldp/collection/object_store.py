"""Paths of a report store: a folder of this machine, or a prefix of an S3 bucket.

Objects are read and written whole, through `pyarrow.fs`. Credentials, region and endpoint come from
the environment as AWS's tools read them (`AWS_ACCESS_KEY_ID`, .., `AWS_ENDPOINT_URL`).
"""

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from ldp.errors import LdpError, ParameterError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_S3 = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/[^?#]*)?)")
_FILE = re.compile(r"file://(/[^?#]*)")
_REFUSAL = (
    "a store is a folder, file:///PATH or s3://BUCKET/PREFIX; credentials come from the environment"
)


class StoreUnusable(LdpError, OSError):
    """Error: the bucket of a store cannot be read or written."""


class S3Path(PurePosixPath):
    """Object or prefix of a bucket, `BUCKET/KEY`, with the methods of `pathlib.Path` that a store
    needs. `str` of it is its URL. The methods raise StoreUnusable."""

    def __str__(self) -> str:
        return f"s3://{super().__str__()}"

    def glob(self, pattern: str) -> Iterator["S3Path"]:
        """Yield the objects and prefixes that match a pattern, in which `/` separates levels below
        this prefix."""
        levels, depth = pattern.split("/"), len(self.parts)
        selector = fs.FileSelector(self._key, allow_not_found=True, recursive=len(levels) > 1)
        with self._errors():
            infos = self._system.get_file_info(selector)
        for path in (S3Path(info.path) for info in infos):
            below = path.parts[depth:]
            if len(below) == len(levels) and all(map(fnmatchcase, below, levels)):
                yield path

    def is_dir(self) -> bool:
        """Return whether objects have this prefix."""
        return bool(self._type == fs.FileType.Directory)

    def is_file(self) -> bool:
        """Return whether this is an object."""
        return bool(self._type == fs.FileType.File)

    def is_symlink(self) -> bool:
        """Return False: buckets have no links."""
        return False

    def read_bytes(self) -> bytes:
        """Return the bytes of the object. A failed read is repeated once."""
        with suppress(StoreUnusable):
            return self._read()
        return self._read()

    def _read(self) -> bytes:
        with self._errors(), self._system.open_input_file(self._key) as file:
            return bytes(file.read())

    def write_bytes(self, data: bytes | pa.Buffer) -> None:
        """Write the object whole, in place of any object of its name. Until all bytes have arrived,
        readers find the old object, or none."""
        # no signal interrupts it there
        with self._errors(), ThreadPoolExecutor(1) as thread:
            thread.submit(self._write, data).result()

    def _write(self, data: bytes | pa.Buffer) -> None:
        with self._system.open_output_stream(self._key) as file:
            file.write(data)

    @contextmanager
    def open_replacement(self) -> Iterator[Any]:
        """Yield a stream whose bytes become the object when the block succeeds."""
        stream = pa.BufferOutputStream()
        yield stream
        self.write_bytes(stream.getvalue())

    def unlink(self) -> None:
        """Delete the object."""
        with self._errors():
            self._system.delete_file(self._key)

    def rmdir(self) -> None:
        """Delete the mark of an empty prefix that `unlink` leaves."""
        if not [*self.glob("*")]:
            with self._errors():
                self._system.delete_dir(self._key)

    @property
    def _key(self) -> str:
        return "/".join(self.parts)

    @property
    def _type(self) -> Any:
        with self._errors():
            return self._system.get_file_info(self._key).type

    @property
    def _system(self) -> Any:
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        return _file_system(self.parts[0], endpoint)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise StoreUnusable(f"{self}: {str(error).splitlines()[0]}") from None


@cache
def _file_system(bucket: str, endpoint: str | None) -> Any:
    """Return the file system of a bucket. Without an endpoint its region is looked up."""
    if endpoint:
        return fs.S3FileSystem(endpoint_override=endpoint)
    return fs.FileSystem.from_uri(f"s3://{bucket}")[0]


StorePath = Path | S3Path
"""Path of a store, or of a file of one."""


def store_path(store: str | StorePath) -> StorePath:
    """Return the path of a store, given as a path or as a URL `file:///PATH` or
    `s3://BUCKET/PREFIX`. Raises ParameterError for any other URL, without repeating it, because it
    may hold a key."""
    if not isinstance(store, str):
        return store
    if match := _S3.fullmatch(store):
        path = S3Path(match[1])
        if ".." not in path.parts:
            return path
    elif match := _FILE.fullmatch(store):
        return Path(unquote(match[1]))
    elif not _URL.match(store):
        return Path(store)
    raise ParameterError(_REFUSAL)
