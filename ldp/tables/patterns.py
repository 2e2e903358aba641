"""Report patterns: the different reports of a mechanism, and the number of each.

A table counts each part, and each bit, by itself. So it does not show which values or bits occur
together. A pattern does: a row and a payload (of each part), and the number of reports that are
equal to it. If reports are small, there are far fewer patterns than reports. Patterns hold no more
than the reports: the same epsilon covers them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ldp.arrays import Ints, Places
from ldp.errors import DecodeError, MergeError, ReportError
from ldp.mechanisms import CatalogueMechanism
from ldp.tables.batches import ReportArrays, require_same, split_batch

BLOCK = 1 << 16
"""Least number of reports that are grouped at once."""
MOST_DIFFERENT, MOST_BYTES = 1 << 24, 512 << 20
"""Largest number of different reports that are kept, and of their bytes with rows and counts."""
MOST_UNSEEN, MOST_RATIO = 1 << 28, 1000
"""Bytes of counts from which on they must not be MOST_RATIO times as many as those in the file."""


@dataclass(frozen=True, eq=False)
class Patterns:
    """Different reports of a mechanism: `rows`, uint32, shape (patterns,), `payloads`, uint8,
    shape (patterns, payload bytes), and `counts`, int64, shape (patterns,), the reports of each."""

    mechanism: CatalogueMechanism
    rows: NDArray[np.uint32]
    payloads: NDArray[np.uint8]
    counts: Ints

    @property
    def total(self) -> int:
        """Number of reports."""
        return int(self.counts.sum())

    def __add__(self, other: "Patterns") -> "Patterns":
        if not isinstance(other, Patterns):
            raise MergeError("patterns cannot be added to anything but patterns")
        require_same(self.mechanism, other.mechanism)
        return _group([self, other])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Patterns)
            and self.mechanism == other.mechanism
            and np.array_equal(self.rows, other.rows)
            and np.array_equal(self.payloads, other.payloads)
            and np.array_equal(self.counts, other.counts)
        )

    __hash__ = None  # type: ignore[assignment]

    def parts(self) -> list[ReportArrays]:
        """Return for every part its rows and its payloads, one for each pattern: shapes
        (patterns,) and (patterns, payload bytes)."""
        return list(split_batch(self.mechanism.layout, self.rows, self.payloads))

    def packed(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return the description in a table file, and three buffers, compressed: rows, payloads
        and counts."""
        arrays = self.rows.astype("<u4"), np.ascontiguousarray(self.payloads), self.counts
        buffers = [pa.compress(array, codec="zstd", asbytes=True) for array in arrays]
        return {"different": len(self.counts)}, buffers

    @classmethod
    def unpacked(
        cls, mechanism: CatalogueMechanism, description: Any, buffers: Sequence[memoryview]
    ) -> "Patterns":
        """Return the patterns of a description and buffers as from `packed`. Raises DecodeError, or
        ReportError for an invalid report."""
        number, size = description["different"], mechanism.layout.payload_bytes
        if type(number) is not int or not 0 <= number <= MOST_DIFFERENT:
            raise DecodeError("table file does not say how many reports are different")
        _require_few(number, size)
        rows, payloads, counts = (
            np.frombuffer(inflated(buffer, number * width), kind)
            for buffer, width, kind in zip(buffers, (4, size, 8), ("<u4", "u1", "<i8"), strict=True)
        )
        whole = cls(mechanism, rows.astype(np.uint32), payloads.reshape(number, size), counts)
        split_batch(mechanism.layout, whole.rows, whole.payloads)
        if number and int(whole.counts.min()) < 1:
            raise DecodeError("table file holds counts that no reports can make")
        return whole


def inflated(packed: memoryview, size: int) -> bytes:
    """Return the `size` bytes of a compressed buffer. Raises DecodeError for a size that no counts
    in so few bytes can have."""
    if size > MOST_UNSEEN and size > MOST_RATIO * len(packed):
        raise DecodeError(f"table file holds {size:,} bytes in {len(packed):,}: no counts do")
    return bytes(pa.decompress(packed, size, codec="zstd", asbytes=True))


class PatternsBuilder:
    """Builder of the patterns of reports that are checked."""

    def __init__(self, mechanism: CatalogueMechanism) -> None:
        empty = np.empty(0, np.uint32), np.empty((0, mechanism.layout.payload_bytes), np.uint8)
        self._grouped = Patterns(mechanism, *empty, np.empty(0, np.int64))
        self._waiting = list[Patterns]()

    def add_batch(self, rows: NDArray[np.uint32], payloads: NDArray[np.uint8]) -> None:
        """Count a batch: `rows`, shape (n,), and `payloads`, shape (n, payload bytes)."""
        each = np.ones(len(rows), np.int64)
        self._waiting.append(Patterns(self._grouped.mechanism, rows, payloads, each))
        # waiting for as many as are grouped already keeps the time of sorting low
        waiting = sum(len(batch.counts) for batch in self._waiting)
        if waiting > max(BLOCK, len(self._grouped.counts)):
            self.build()

    def build(self) -> Patterns:
        """Return the patterns of all batches so far."""
        self._grouped, self._waiting = _group([self._grouped, *self._waiting]), []
        return self._grouped


def _require_few(number: int, payload_bytes: int) -> None:
    """Raise ReportError where more reports are different than a table keeps."""
    if number > MOST_DIFFERENT or number * (payload_bytes + 12) > MOST_BYTES:
        raise ReportError(
            f"{number:,} reports are different, more than a table keeps: count a shorter period"
        )


def group_reports(rows: NDArray[np.uint32], payloads: NDArray[np.uint8]) -> tuple[Places, Places]:
    """Return the index of the first of every different pair of row and payload: shape (groups,);
    and the group of every pair: shape (reports,)."""
    keys = np.column_stack([rows.astype("<u4").view(np.uint8).reshape(-1, 4), payloads])
    whole = np.ascontiguousarray(keys).view(f"V{keys.shape[1]}")[:, 0]
    _, first, group = np.unique(whole, return_index=True, return_inverse=True)
    return first, group.ravel()


def _group(patterns: Sequence[Patterns]) -> Patterns:
    rows = np.concatenate([part.rows for part in patterns])
    payloads = np.concatenate([part.payloads for part in patterns])
    first, group = group_reports(rows, payloads)
    _require_few(first.size, payloads.shape[1])
    counts = np.zeros(first.size, np.int64)
    np.add.at(counts, group, np.concatenate([part.counts for part in patterns]))
    return Patterns(patterns[0].mechanism, rows[first], payloads[first], counts)
