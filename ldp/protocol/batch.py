"""Sealed batches as bytes: what a device sends, and a collector reads.

A batch is a random id, the day on which it was sealed, and reports with the names and versions of
their metrics, filled up with zeros to one of a few sizes. It holds nothing about its sender.
`docs/wire.md`, section 11, is the specification for other languages.
"""

from typing import TYPE_CHECKING

from ldp.errors import ParameterError

if TYPE_CHECKING:
    pass

import struct
from dataclasses import dataclass
from datetime import date, timedelta
from typing import NamedTuple

from ldp.errors import ReportError

BATCH_MAGIC = b"ldp-batch"
BATCH_VERSION = 1
ID_BYTES = 16
LEAST_BYTES, MOST_BYTES = 1 << 10, 1 << 20
"""The smallest size class and the largest; each is twice the one before."""
MOST_ITEMS = 500

_HEAD = struct.Struct("<9sB16sIH")
HEAD_BYTES = _HEAD.size
_ITEM = struct.Struct("<BII")
_EPOCH = date(1970, 1, 1)


class Item(NamedTuple):
    """One report, with the name and version of its metric."""

    metric: str
    version: int
    report: bytes

    @property
    def size(self) -> int:
        """Its bytes in a batch."""
        return _ITEM.size + len(self.metric.encode()) + len(self.report)


@dataclass(frozen=True)
class Batch:
    """`id`: 16 random bytes, drawn when it is sealed; `day`: UTC, of sealing."""

    id: bytes
    day: date
    items: tuple[Item, ...]

    def to_bytes(self) -> bytes:
        """The batch filled up to its size class; raises ParameterError beyond the largest."""
        parts = [
            _HEAD.pack(
                *(BATCH_MAGIC, BATCH_VERSION, self.id, (self.day - _EPOCH).days, len(self.items))
            )
        ]
        for metric, version, report in self.items:
            name = metric.encode()
            parts += [_ITEM.pack(len(name), version, len(report)), name, report]
        data = b"".join(parts)
        if len(data) > MOST_BYTES or len(self.items) > MOST_ITEMS:
            raise ParameterError(f"a batch has at most {MOST_ITEMS} reports and {MOST_BYTES} bytes")
        return data.ljust(max(LEAST_BYTES, 1 << (len(data) - 1).bit_length()), b"\0")

    @classmethod
    def from_bytes(cls, data: bytes) -> "Batch":
        """Raises ReportError for anything that `to_bytes` does not write."""
        try:
            magic, version, identity, day, count = _HEAD.unpack_from(data)
            if (magic, version) != (BATCH_MAGIC, BATCH_VERSION):
                raise ReportError("not a batch of this format")
            items, at = list[Item](), HEAD_BYTES
            for _ in range(count):
                named, metric_version, size = _ITEM.unpack_from(data, at)
                at += _ITEM.size
                name, report = data[at : at + named], data[at + named : at + named + size]
                at += named + size
                items.append(Item(name.decode(), metric_version, report))
            batch = cls(identity, _EPOCH + timedelta(days=day), tuple(items))
            whole = batch.to_bytes() == data
        except ReportError:
            raise
        except (struct.error, ValueError, OverflowError):
            whole = False
        if not whole:
            raise ReportError("a batch is damaged")
        return batch


class Uniform(NamedTuple):
    """A batch whose items all have the metric, version and length of the `first`: report i begins
    at `start` + i * `step`."""

    id: bytes
    day: date
    items: int
    first: Item
    start: int
    step: int


def read_uniform(data: bytes) -> Uniform | None:
    """The bulk twin of `Batch.from_bytes` for what relays send: None for a batch of different items
    and for bytes that are none. Time: a comparison of some bytes an item."""
    try:
        magic, version, identity, day, count = _HEAD.unpack_from(data)
        named, metric_version, size = _ITEM.unpack_from(data, HEAD_BYTES)
        start = HEAD_BYTES + _ITEM.size + named
        name = data[HEAD_BYTES + _ITEM.size : start].decode()
        sealed = _EPOCH + timedelta(days=day)
    except (struct.error, ValueError, OverflowError):
        return None
    head, step = data[HEAD_BYTES:start], start - HEAD_BYTES + size
    end = HEAD_BYTES + count * step
    if (magic, version) != (BATCH_MAGIC, BATCH_VERSION) or not 1 <= count <= MOST_ITEMS:
        return None
    if not end <= len(data) == max(LEAST_BYTES, 1 << (end - 1).bit_length()) <= MOST_BYTES:
        return None
    if data[end:] != bytes(len(data) - end):
        return None
    for at, byte in enumerate(head, HEAD_BYTES):  # a slice for each byte, not one for each item
        if data[at:end:step].count(byte) != count:
            return None
    first = Item(name, metric_version, data[start : start + size])
    return Uniform(identity, sealed, count, first, start, step)


def packed(items: list[Item]) -> list[tuple[Item, ...]]:
    """The items in their order, in as few batches as their sizes allow; raises ParameterError for
    an item that is larger than any batch."""
    batches: list[list[Item]] = [[]]
    size = HEAD_BYTES
    for item in items:
        if HEAD_BYTES + item.size > MOST_BYTES:
            raise ParameterError(f"a report of {len(item.report)} bytes fits in no batch")
        if size + item.size > MOST_BYTES or len(batches[-1]) == MOST_ITEMS:
            batches.append([])
            size = HEAD_BYTES
        batches[-1].append(item)
        size += item.size
    return [tuple(batch) for batch in batches if batch]


MEDIA_TYPE = "application/vnd.ldp.batch"
