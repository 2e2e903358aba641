"""Tables of integer counts, and their builders.

`counts[row, column]` and `reports[row]` are all that a table keeps of the reports, unless it also
holds the whole reports (`whole`). Adding tables is the only merge there is, exact in any order. No
probability is applied here: de-biasing happens in `ldp.decoding`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from ldp.arrays import AnyInts, Bytes, Ints, RowNumbers, add_at, array_of
from ldp.bulk.counting import count_bits, walsh_hadamard
from ldp.errors import DecodeError, LdpError, MergeError, ParameterError, ReportError, errors_in
from ldp.files import bytes_of, counted, write_whole
from ldp.mechanisms import CatalogueMechanism, Mechanism, from_parameters
from ldp.mechanisms.base import require_mechanism
from ldp.protocol import wire
from ldp.protocol.kinds import Layout
from ldp.protocol.strict_json import are_texts
from ldp.registry.label import Label
from ldp.tables.batches import batches, payload_numbers, require_same
from ldp.tables.patterns import Patterns, inflated

if TYPE_CHECKING:
    from ldp.tables.joint_table import JointTable

MOST_REPORTS = 10**18
"""Largest number of reports in a table, whose sums fit 64 bits."""


def smallest_type(most: int, signed: bool = False) -> np.dtype[np.integer]:
    """Return the smallest integer type for counts up to `most` (down to -most when signed), which
    is MOST_REPORTS at most."""
    name = next(of for size, of in wire.COUNT_TYPES.items() if most < 1 << (8 * size - signed))
    return np.dtype("<" + (name.replace("u", "i") if signed else name))


_UNREADABLE = (
    *(ValueError, KeyError, TypeError, AttributeError, OverflowError, MemoryError),
    *(RecursionError, SystemError, OSError, pa.ArrowException),
)


@contextmanager
def decode_errors() -> Iterator[None]:
    """Turn every error that the content of a table file causes into a DecodeError."""
    try:
        yield
    except LdpError as error:
        raise DecodeError(str(error)) from None
    except _UNREADABLE:
        raise DecodeError("table file's description or counts cannot be read") from None


@dataclass(frozen=True, eq=False)
class Table:
    """Counts of one mechanism's reports.

    `counts`: integers, shape (rows, columns), the smallest type that fits. For INDEX and BITS it is
    the number of reports that named the cell, for SIGN the sum of their signs. `reports`: int64,
    shape (rows,). `windows`: ids of its collection windows (days), sorted. `dictionary`: the
    candidates of its metric, so that the file alone can be decoded. A sum of tables with different
    candidates has all of them, sorted. `memoised`: whether the reports of one client may share a
    permanent response. `labels`: those of its metric, for report pages. A sum has all of them,
    sorted. `whole`: the different reports and how often each came, or None.
    """

    mechanism: Mechanism
    counts: AnyInts
    reports: Ints
    windows: tuple[str, ...] = ()
    dictionary: tuple[str, ...] | None = None
    memoised: bool = False
    labels: tuple[Label, ...] = ()
    whole: Patterns | None = None

    @classmethod
    def empty(cls, mechanism: Mechanism) -> "Table":
        """Return the table of no reports: the neutral element of `+`."""
        return TableBuilder(mechanism).build()

    @overload
    @classmethod
    def from_reports(cls, mechanism: Mechanism, reports: Any, whole: bool = False) -> "Table": ...
    @overload
    @classmethod
    def from_reports(
        cls, mechanism: CatalogueMechanism, reports: Any, whole: bool = False
    ) -> "Table | JointTable": ...
    @classmethod
    def from_reports(cls, mechanism: Any, reports: Any, whole: bool = False) -> Any:
        """Return the table of `reports`, a JointTable where they have several parts. `reports`:
        an iterable of bytes, an Arrow column of them, or a matrix of bytes, uint8, shape (n, bytes
        of a report). `whole`: whether the table also holds the different reports, as it always does
        where only these show which values came together. Tables are added by `+`. Raises
        ReportError, with the position of the first invalid report.

        >>> from ldp import CoinResponse
        >>> mechanism = CoinResponse(alpha=0.5, beta=0.5)
        >>> Table.from_reports(mechanism, [mechanism.encoder().encode("yes")] * 3).total
        3
        """
        from ldp.tables.joint_table import empty_builder

        needs_whole = require_mechanism(mechanism).needs_whole
        builder = empty_builder(mechanism, whole=whole or needs_whole)
        builder.add_all(reports)
        return builder.build()

    @classmethod
    def from_counts(
        cls,
        mechanism: Mechanism,
        counts: ArrayLike,
        reports: ArrayLike,
        windows: Iterable[str] = (),
    ) -> "Table":
        """Return the table of counts that another system made, such as a database or a secure sum.

        `counts`: integers, shape (rows, columns): of each cell the number of reports that name it,
        or of SIGN reports the sum of their signs. `reports`: integers, shape (rows,), the reports
        of each row. For one row it may be one integer. `windows`: days of collection. Raises
        ParameterError for other shapes or types, for counts that no reports can make, and for
        `windows` that are one text.

        >>> from ldp import CoinResponse
        >>> Table.from_counts(CoinResponse(alpha=0.5, beta=0.5), [[70]], 100).total
        100
        """
        if not isinstance(require_mechanism(mechanism), Mechanism):
            raise ParameterError("reports of several parts have several tables: count each part")
        is_list = isinstance(windows, Iterable) and not isinstance(windows, str)
        if not are_texts(days := [*windows] if is_list else None):
            raise ParameterError("windows must be a list of days, as ['2026-01-01']")
        cells, rows = array_of(counts), np.atleast_1d(array_of(reports))
        if cells.dtype.kind not in "iu" or rows.dtype.kind not in "iu":
            raise ParameterError("counts and reports must be integers: give arrays of integers")
        if cells.shape != mechanism.shape or rows.shape != mechanism.shape[:1]:
            raise ParameterError(
                f"counts must have the shape {tuple(mechanism.shape)} and reports "
                f"{mechanism.shape[:1]}, not {cells.shape} and {rows.shape}"
            )
        table = cls(mechanism, cells, rows.astype(np.int64), tuple(sorted({*days})))
        if reason := table._impossible():
            raise ParameterError(f"no reports can make these counts: {reason}")
        kind = smallest_type(int(table.reports.max()), mechanism.kind.is_signed)
        return replace(table, counts=cells.astype(kind))

    @property
    def total(self) -> int:
        """Number of reports."""
        return int(self.reports.sum(dtype=np.int64))

    def __add__(self, other: "Table") -> "Table":
        if not isinstance(other, Table):
            raise MergeError("a table of one mechanism cannot be added to anything but its like")
        require_same(self.mechanism, other.mechanism)
        if self.total + other.total > MOST_REPORTS:
            raise MergeError(f"a table holds at most {MOST_REPORTS} reports")
        reports = self.reports + other.reports
        kind = smallest_type(int(reports.max()), self.mechanism.kind.is_signed)
        counts = np.add(self.counts, other.counts, dtype=kind, casting="unsafe")
        windows = tuple(sorted({*self.windows, *other.windows}))
        dictionaries = {self.dictionary, other.dictionary} - {None}
        dictionary = dictionaries.pop() if dictionaries else None
        for different in dictionaries:
            dictionary = tuple(sorted({*(dictionary or ()), *(different or ())}))
        memoised = self.memoised or other.memoised
        labels = tuple(sorted({*self.labels, *other.labels}))
        whole = whole_of_sum(self, other)
        return Table(self.mechanism, counts, reports, windows, dictionary, memoised, labels, whole)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Table)
            and self.mechanism == other.mechanism
            and (self.windows, self.dictionary) == (other.windows, other.dictionary)
            and (self.memoised, self.labels) == (other.memoised, other.labels)
            and np.array_equal(self.reports, other.reports)
            and np.array_equal(self.counts, other.counts)
            and self.whole == other.whole
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Table of {counted(self.total, 'report')}, {self.mechanism.describe()}>"

    def of_metric(self, dictionary: tuple[str, ...] | None, memoised: bool = False) -> "Table":
        """Return the table with the metric's candidates and whether it is memoised."""
        whole = unlinked(self, memoised)
        return replace(self, dictionary=dictionary, memoised=memoised, whole=whole)

    def labelled(self, label: Label) -> "Table":
        """Return the table with `label` in place of its labels."""
        return replace(self, labels=(label,))

    def to_bytes(self) -> bytes:
        """Return the table as a self-identifying file: see `docs/wire.md`."""
        part, buffers = self.packed(self.mechanism.name)
        return pack_tables({"tables": [part], "compression": "zstd"}, buffers, self.whole)

    def packed(self, name: str) -> tuple[dict[str, Any], list[bytes]]:
        """Return its description in a table file under `name`, and its two buffers, compressed."""
        most = int(self.reports.max())
        buffers = [
            np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
            for array in (self.counts, self.reports.astype(smallest_type(most)))
        ]
        part: dict[str, Any] = {
            "name": name,
            "mechanism": self.mechanism.parameters(),
            "fingerprint": self.mechanism.fingerprint.hex(),
            "windows": list(self.windows),
            "types": [buffer.dtype.str[1:] for buffer in buffers],
            "dictionary": self.dictionary,
            "memoised": self.memoised,
        }
        if self.labels:
            part["labels"] = [label.fields for label in self.labels]
        return part, [pa.compress(buffer, codec="zstd", asbytes=True) for buffer in buffers]

    @classmethod
    def from_bytes(cls, data: bytes) -> "Table":
        """Return the table of a file's bytes. Raises DecodeError for foreign or damaged bytes, and
        for impossible counts."""
        with decode_errors():
            description, buffers = wire.parse_table(data)
            if "mechanism" in description:
                raise DecodeError("table file has several parts: ldp.server.load_table reads it")
            (part,) = description["tables"]
            table = cls.unpacked(part, buffers[:2])
            whole = read_whole(table.mechanism, table.total, description, buffers[2:])
            return replace(table, whole=whole)

    @classmethod
    def unpacked(cls, part: Mapping[str, Any], buffers: Sequence[memoryview]) -> "Table":
        """Return the table of a description and buffers as from `packed`. Raises DecodeError for
        any others, or one of `decode_errors`."""
        packed_counts, packed_reports = buffers
        mechanism = from_parameters(part["mechanism"])
        if not isinstance(mechanism, Mechanism):
            raise DecodeError("table file holds one table of a mechanism that has several")
        if mechanism.fingerprint.hex() != part["fingerprint"]:
            raise DecodeError("table file's mechanism does not have the fingerprint it states")
        windows, dictionary = part["windows"], part["dictionary"]
        if not isinstance(memoised := part.get("memoised", False), bool):
            raise DecodeError("table file does not say whether its metric is memoised")
        if not are_texts(windows) or not (dictionary is None or are_texts(dictionary)):
            raise DecodeError("table file's windows or dictionary are not lists of texts")
        if not {*part["types"]} <= {f"{sign}{size}" for size in wire.COUNT_TYPES for sign in "ui"}:
            raise DecodeError("table file's counts are not integers")
        rows, columns = mechanism.shape
        counts, reports = (
            np.frombuffer(inflated(packed, size * int(name[1:])), dtype=f"<{name}")
            for packed, size, name in zip(
                (packed_counts, packed_reports), (rows * columns, rows), part["types"], strict=True
            )
        )
        table = cls(
            mechanism,
            counts.reshape(rows, columns),
            reports.astype(np.int64),
            tuple(windows),
            None if dictionary is None else tuple(dictionary),
            memoised,
            tuple(sorted({Label.of(label) for label in part.get("labels", [])})),
        )
        if reason := table._impossible():
            raise DecodeError(f"table file holds counts that no reports can make: {reason}")
        return table

    def _impossible(self) -> str:
        """Return why no reports can make these counts, "" where some can."""
        layout, reports = self.mechanism.layout, self.reports
        if (reports < 0).any() or sum(reports.tolist()) > MOST_REPORTS:
            return f"a row has fewer than 0 reports, or the table more than {MOST_REPORTS}"
        if not layout.is_signed and (self.counts.min(axis=1) < 0).any():
            return "a count is below 0"
        if (self.counts.max(axis=1) > reports).any() or (self.counts.min(axis=1) < -reports).any():
            return "a count is larger than the reports of its row"
        if layout.ones and (self._row_sums() != layout.ones * reports).any():
            return f"each report names {layout.ones}, so a row's counts add to that for each report"
        if (
            layout.is_signed
            and (((sums := self._row_sums()) > reports) | ((sums - reports) % 2 != 0)).any()
        ):
            return "the signs of a row's reports do not add to its counts"
        return ""

    def _row_sums(self) -> Ints:
        """Return the sum of the absolute counts of each row, shape (rows,), without a copy of all
        counts as int64."""
        sums: Ints = self.counts.clip(min=0).sum(axis=1, dtype=np.int64)
        if self.counts.dtype.kind == "i":
            sums -= self.counts.clip(max=0).sum(axis=1, dtype=np.int64)
        return sums

    def named_counts(self) -> AnyInts:
        """Return the number of reports of its row that name each cell: integers, shape (rows,
        columns).

        INDEX and BITS tables count these. A SIGN report names every cell whose Hadamard sign in the
        report's column is the report's: with T the inverse Walsh-Hadamard sum of a row's signs,
        T[cell] = agreeing - disagreeing reports. So (T + reports) / 2 agree. Exact integers.
        """
        if not self.mechanism.kind.is_signed:
            return self.counts
        sums = walsh_hadamard(self.counts)
        sums += self.reports[:, None]
        sums >>= 1
        return sums

    def save(self, path: str | Path) -> None:
        """Write `to_bytes()` to `path`, atomically."""
        write_whole(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> "Table":
        """Read a table file. Raises DecodeError, which names the file, when it is foreign or
        damaged."""
        with errors_in(path, DecodeError):
            return cls.from_bytes(bytes_of(Path(path)))


def one_table(table: Any) -> Table:
    """Return the table. Raises DecodeError for anything but one Table."""
    if not isinstance(table, Table):
        raise DecodeError("give one Table, as Table.load(FILE), or one part of several")
    return table


def unlinked(table: "Table | JointTable", memoised: bool) -> Patterns | None:
    """Return the whole reports of a table. Returns None for a memoised metric over several windows,
    where equal reports would be those of one device."""
    return None if memoised and len(table.windows) > 1 else table.whole


def whole_of_sum(table: "Table | JointTable", other: "Table | JointTable") -> Patterns | None:
    """Return the whole reports of a sum of tables of one class: None where a table with reports
    lacks its whole reports, and for a memoised metric unless both tables name the same window."""
    if not (table.total and other.total):
        return (table if table.total else other).whole
    is_linked = (table.memoised or other.memoised) and len({*table.windows, *other.windows}) != 1
    if is_linked or not (table.whole and other.whole):
        return None
    return table.whole + other.whole


def pack_tables(
    description: dict[str, Any], buffers: Sequence[bytes], whole: Patterns | None
) -> bytes:
    """Return the bytes of a table file, with `whole` reports if there are any."""
    if whole is None:
        return wire.pack_table(description, buffers)
    stated, more = whole.packed()
    return wire.pack_table({**description, "whole": stated}, [*buffers, *more])


def read_whole(
    mechanism: CatalogueMechanism,
    total: int,
    description: Mapping[str, Any],
    buffers: Sequence[memoryview],
) -> Patterns | None:
    """Return the whole reports of a table file of `total` reports, None where it has none. Raises
    DecodeError. `buffers`: those after the tables'."""
    if "whole" not in description:
        if buffers:
            raise DecodeError("table file has more buffers than its tables")
        return None
    whole = Patterns.unpacked(mechanism, description["whole"], buffers)
    if whole.total != total:
        raise DecodeError("table file's tables and whole reports are not of the same reports")
    return whole


class CountsReports(ABC):
    """Counter of reports, one by one or by batches."""

    _mechanism: CatalogueMechanism

    def add(self, report: bytes) -> None:
        """Count a report. Raises ReportError, and counts nothing, unless it is a whole valid report
        of this mechanism."""
        self.add_all([report])

    def add_all(self, reports: Any) -> None:
        """Count many reports. At the first invalid one, raises ReportError with its position, after
        counting those before it. `reports`: an iterable of bytes, an Arrow column of them, or a
        matrix of bytes, uint8, shape (n, bytes of a report)."""
        for rows, payloads in batches(self._mechanism, reports):
            self.add_batch(rows, payloads)

    @abstractmethod
    def add_batch(self, rows: RowNumbers, payloads: Bytes, window: str | None = None) -> None:
        """Count a batch: `rows`, shape (n,), and `payloads`, shape (n, payload bytes), of
        collection window `window`. Raises ReportError, and counts nothing, when a row, a column or
        a padding bit is out of range."""


class TableBuilder(CountsReports):
    """Builder of a table from reports; `build()` returns it. Memory: one table. `workers`: threads;
    `start`: table whose reports are counted already.

    >>> from ldp import CoinResponse
    >>> mechanism = CoinResponse(alpha=0.5, beta=0.5)
    >>> builder = TableBuilder(mechanism)
    >>> builder.add_all(mechanism.encoder().encode("yes") for _ in range(100))
    >>> builder.build().total
    100
    """

    def __init__(
        self, mechanism: Mechanism, workers: int = 1, *, start: "Table | None" = None
    ) -> None:
        if not isinstance(require_mechanism(mechanism), Mechanism):
            raise ReportError("reports of several parts are counted by a JointTableBuilder")
        self._mechanism: Mechanism = mechanism
        self._workers = max(1, workers)
        self._signed = mechanism.kind.is_signed
        self._counts: AnyInts = np.zeros(mechanism.shape, dtype=smallest_type(0, self._signed))
        self._reports = np.zeros(mechanism.shape.rows, dtype=np.int64)
        self._windows: set[str] = set()
        if start is not None:
            self._counts, self._reports = one_table(start).counts.copy(), start.reports.copy()
            self._windows |= {*start.windows}

    def add_batch(self, rows: RowNumbers, payloads: Bytes, window: str | None = None) -> None:
        if not self._counts.flags.writeable:
            raise ReportError("the table is built; start another TableBuilder")
        numbers = payload_numbers(self._mechanism.layout, rows, payloads)
        if not rows.size:
            return
        np.add.at(self._reports, rows, 1)
        needed = smallest_type(int(self._reports[rows].max()), self._signed)
        if needed.itemsize > self._counts.dtype.itemsize:
            self._counts = self._counts.astype(needed)
        if window is not None:
            self._windows.add(window)
        layout = self._mechanism.layout
        count_reports(layout, self._counts, rows, payloads, numbers, self._workers)

    def build(self) -> Table:
        """Return the table; the builder takes no more reports afterwards."""
        for array in (self._counts, self._reports):
            array.setflags(write=False)
        return Table(self._mechanism, self._counts, self._reports, tuple(sorted(self._windows)))


def count_reports(
    layout: Layout,
    counts: AnyInts,
    rows: AnyInts,
    payloads: Bytes,
    numbers: Ints,
    workers: int = 1,
) -> None:
    """Add checked reports to `counts`, shape (rows, columns), of a large enough type. `rows`,
    `payloads`: the batch; `numbers`: its `payload_numbers`. `workers`: threads, each with its own
    range of rows."""
    # another type is added thirty times more slowly
    unit = counts.dtype.type(1)
    if layout.is_bitmap:
        _count_bits(counts, rows.astype(np.uint32, copy=False), payloads, workers)
    elif layout.is_signed:
        add_at(counts, rows, numbers >> 1, unit - 2 * (numbers & 1).astype(counts.dtype))
    else:
        add_at(counts, rows, numbers, unit)


def _count_bits(counts: AnyInts, rows: RowNumbers, payloads: Bytes, workers: int) -> None:
    bounds = np.linspace(0, len(counts), workers + 1).astype(int)
    payloads = np.ascontiguousarray(payloads)
    if workers == 1:
        count_bits(counts, rows, payloads, 0, len(counts))
        return
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(partial(count_bits, counts, rows, payloads), bounds[:-1], bounds[1:]))
