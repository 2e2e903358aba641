"""The report store: Parquet files under metric=M/version=V/day=YYYY-MM-DD/.

A file holds report bodies only (row, payload), in shuffled order, with the fingerprint of their
mechanism in its metadata. The day of ingestion is its only time, and nothing names a sender.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ldp.arrays import Bytes, RowNumbers
from ldp.collection.object_store import S3Path, StorePath, store_path
from ldp.errors import ParameterError, ReportError
from ldp.files import open_replacement
from ldp.mechanisms import CatalogueMechanism
from ldp.mechanisms.base import require_mechanism
from ldp.tables.batches import ReportArrays, batches

BLOCK = 65_536
_FINGERPRINT = b"ldp.fingerprint"
_DIGITS = re.compile("[0-9a-f]{16,}")
P = TypeVar("P", Path, S3Path, StorePath)


OWN_REPORTS = "ldp.collection.ReportWriter makes one of reports of your own"


class NoReports(ReportError):
    """Error: the stores hold no file of the metric in these days."""


class ReportWriter:
    """Writer of one file of the store, which appears whole when the `with` block succeeds.

    `store`: the root folder or its URL. `part`: the file's name without ending, random by default,
    so that a second run adds reports and never replaces any. At a URL, memory holds the whole file.
    """

    def __init__(
        self,
        store: str | StorePath,
        metric: str,
        version: int,
        mechanism: CatalogueMechanism,
        day: date,
        part: str | None = None,
    ) -> None:
        if not isinstance(day, date) or isinstance(day, datetime) or day.year < 1970:
            raise ParameterError(f"day must be a date since 1970, not {day!r}")
        name = f"{part or os.urandom(8).hex()}.parquet"
        if name.startswith(".") or {*name} & {*"/\\"}:  # nothing would read it
            raise ParameterError(f"part must be a name, no path and no hidden file: {part!r}")
        folder = version_folder(store_path(store), metric, version) / f"day={day.isoformat()}"
        # of the store's type
        self.path: Any = folder / name
        self._midnight = (day - date(1970, 1, 1)) // timedelta(seconds=1)
        self._mechanism = require_mechanism(mechanism)
        self._size = mechanism.layout.payload_bytes
        self._schema = pa.schema(
            [
                pa.field("row", pa.uint32(), nullable=False),
                pa.field("payload", pa.binary(self._size), nullable=False),
            ],
            metadata={_FINGERPRINT: mechanism.fingerprint.hex().encode()},
        )
        self._replacing: Any = (
            open_replacement(self.path)
            if isinstance(self.path, Path)
            else self.path.open_replacement()
        )

    def __enter__(self) -> "ReportWriter":
        self._parts, self._stack = list[ReportArrays](), ExitStack()
        place = self._stack.enter_context(self._replacing)
        writer = pq.ParquetWriter(
            place,
            self._schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=False,
            write_statistics=False,
            write_page_checksum=True,
        )
        self._writer = self._stack.enter_context(writer)
        return self

    def add_all(self, reports: Any) -> None:
        """Add whole reports, as `Table.from_reports` takes them. Raises ReportError with the
        position of the first invalid one. At its end the block shuffles all of them in memory."""
        for rows, payloads in batches(self._mechanism, reports):
            self._parts.append((rows, payloads.copy()))

    def write(self, rows: RowNumbers, payloads: Bytes) -> None:
        """Append a shuffled batch: `rows`, shape (n,), `payloads`, shape (n, payload bytes)."""
        column = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(self._size), len(rows), [None, pa.py_buffer(payloads.tobytes())]
        )
        row_numbers = pa.UInt32Array.from_buffers(
            pa.uint32(), len(rows), [None, pa.py_buffer(rows.astype("<u4", copy=False).tobytes())]
        )
        table = pa.Table.from_arrays([row_numbers, column], schema=self._schema)
        self._writer.write_table(table, row_group_size=BLOCK)

    def __exit__(self, *error: Any) -> None:
        with self._stack:
            if any(error):
                raise error[1]
            if self._parts:
                rows, payloads = map(np.concatenate, zip(*self._parts, strict=True))
                order = np.random.default_rng().permutation(len(rows))
                self.write(rows[order], payloads[order])
        if isinstance(self.path, Path):  # its time says the day, no more
            os.utime(self.path, (self._midnight, self._midnight))


def version_folder(store: P, metric: str, version: int) -> P:
    """Return the folder of one version of a metric in a store."""
    return store / f"metric={metric}" / f"version={version}"


def report_files(
    stores: Sequence[str | StorePath],
    metric: str,
    version: int,
    since: date | None = None,
    until: date | None = None,
    *,
    with_copies: bool = False,
) -> list[tuple[str, StorePath]]:
    """Return sorted pairs (day, file) of a metric's reports in `stores`, folders or their URLs.
    `since`, `until`: first and last day. A file that has several names (links) is listed once.

    Raise ReportError when a store is not a folder and, unless `with_copies`, as `require_no_copy`.
    Raises NoReports when there are no files in these days.
    """
    if isinstance(stores, str | Path):
        raise ReportError(f"stores must be a list of folders, as [{str(stores)!r}]")
    dated_files: list[tuple[str, StorePath]] = []
    paths = [store_path(store) for store in stores]
    for store in {real_name(path): path for path in paths}.values():
        require_store(store)
        for path in version_folder(store, metric, version).glob("day=*/*.parquet"):
            day = path.parent.name.removeprefix("day=")
            if not path.name.startswith(".") and _is_within(day, path, since, until):
                dated_files.append((day, path))
    if not dated_files:
        raise NoReports(_no_reports(paths, metric, version))
    files = dict[tuple[int, int] | StorePath, tuple[str, StorePath]]()
    for day, path in sorted(dated_files, key=lambda item: (item[0], str(item[1]))):
        files.setdefault(_identity(path), (day, path))
    if not with_copies:
        require_no_copy(files.values())
    return list(files.values())


def require_no_copy(files: Iterable[tuple[str, StorePath]]) -> None:
    """Raise ReportError when two of the `files`, pairs (day, file), have the same bytes, and in
    their names the digits that a writer drew, as "9f0c... (1).parquet" has, or name and day."""
    names = dict[str, StorePath]()
    for day, path in files:
        digits = _DIGITS.search(path.name)
        other = names.setdefault(digits[0] if digits else f"{day}/{path.name}", path)
        if other != path and path.read_bytes() == other.read_bytes():
            raise ReportError(f"{path} is a copy of {other}: count one of them")


def require_store(store: StorePath) -> None:
    """Raise ReportError for what is not a folder, and for a folder of files that no store has."""
    if not store.is_dir():
        raise ReportError(
            f"{store} is not a folder of reports; ldp.server.Table.from_reports counts others"
        )
    if isinstance(store, Path) and [*store.glob("*.parquet")]:
        raise ReportError(f"{store} is not a store of reports; {OWN_REPORTS}")


def _no_reports(stores: Sequence[StorePath], metric: str, version: int) -> str:
    """Return the message of NoReports, with the days for which there are reports."""
    days: dict[str, list[str]] = {}
    folders = [store / f"metric={metric}" for store in stores]
    places = {path.parent for folder in folders for path in folder.glob("*/day=*/[!.]*.parquet")}
    for path in sorted(places, key=str):
        number = path.parent.name.removeprefix("version=")
        days.setdefault(number, []).append(path.name.removeprefix("day="))
    known = "; ".join(
        f"of version {number} there are {len(set(listed)):,} days, {min(listed)} to {max(listed)}"
        if len(set(listed)) > 1
        else f"of version {number} there is 1 day, {listed[0]}"
        for number, listed in days.items()
    )
    names = ", ".join(map(str, stores))
    text = f"no reports of metric {metric!r} version {version} in {names}"
    return (
        f"{text} in these days; {known}"
        if str(version) in days
        else "; ".join(filter(None, (text, known)))
    )


def real_name(path: StorePath) -> str:
    """Return the path of a file with all links resolved. Returns some path for links that lead
    nowhere."""
    return os.path.realpath(path) if isinstance(path, Path) else str(path)


def _identity(path: StorePath) -> tuple[int, int] | StorePath:
    """Return what is the same for all names of a file."""
    if isinstance(path, S3Path):
        return path
    try:
        status = path.stat()
    except OSError:  # reading it says why
        return path
    return status.st_dev, status.st_ino


def read_reports(path: StorePath, mechanism: CatalogueMechanism) -> Iterator[ReportArrays]:
    """Yield the batches of one file. Raises ReportError with its name where it is damaged or of
    another mechanism, and StoreUnusable where its bucket cannot be read. A file of a bucket is read
    into memory whole."""
    size = mechanism.layout.payload_bytes
    if not path.is_file():  # reading a pipe would block
        raise ReportError(f"{path} is not a file")
    source = path if isinstance(path, Path) else pa.BufferReader(path.read_bytes())
    try:
        with pq.ParquetFile(source, page_checksum_verification=True) as file:
            schema = file.schema_arrow
            fingerprint = (schema.metadata or {}).get(_FINGERPRINT, b"")
            if not fingerprint:
                raise ReportError(f"{path} is not a file of a store; {OWN_REPORTS}")
            stated, right = fingerprint.decode("ascii", "replace"), mechanism.fingerprint.hex()
            if stated != right:
                raise ReportError(
                    f"{path}: reports of another mechanism (fingerprint {stated}, expected {right})"
                )
            if schema.names != ["row", "payload"] or schema.types != [pa.uint32(), pa.binary(size)]:
                raise ReportError(f"{path}: columns are not row and payload of {size} bytes")
            for batch in file.iter_batches(batch_size=BLOCK):
                rows, payloads = batch.columns
                if rows.null_count or payloads.null_count:
                    raise ReportError(f"{path}: damaged: a report is missing its row or payload")
                # to_numpy loads pandas
                numbers = np.frombuffer(rows.buffers()[1], dtype="<u4")
                data = np.frombuffer(payloads.buffers()[1], dtype=np.uint8)
                start = payloads.offset * size
                yield (
                    numbers[rows.offset : rows.offset + len(rows)],
                    data[start : start + len(payloads) * size].reshape(len(payloads), size),
                )
    except (pa.ArrowException, OSError, UnicodeError) as error:  # also of the file's name
        raise ReportError(f"{path}: damaged: {str(error).splitlines()[0]}") from None


def _is_within(day: str, path: StorePath, since: date | None, until: date | None) -> bool:
    try:
        folder_day = date.fromisoformat(day)
    except ValueError:
        folder_day = date.min
    if folder_day.year < 1970 or folder_day.isoformat() != day:
        what = "is not named after a day since 1970: move it out of the store"
        raise ReportError(f"{path.parent} {what}")
    return (since is None or since <= folder_day) and (until is None or folder_day <= until)
