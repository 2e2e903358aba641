"""Sealed batches as bytes: devices send them, collectors read them.

A batch is a random id, the day on which it was sealed, and reports with the names and versions of
their metrics, padded with zeros to one of a few sizes. It contains nothing about its sender.
`docs/wire.md`, section 11, is the specification for other languages.
"""

import struct
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, timedelta
from typing import NamedTuple, Protocol

from ldp.errors import ParameterError, ReportError
from ldp.protocol.wire import HEADER_BYTES

ID_HEADER = "Ldp-Batch"
"""Header of a request that states the id of its batch, as 32 hexadecimal digits."""
MEDIA_TYPE = "application/vnd.ldp.batch"
BATCH_MAGIC = b"ldp-batch"
BATCH_VERSION = 1
ID_BYTES = 16
LEAST_BYTES, MOST_BYTES = 1 << 10, 1 << 20
"""Smallest and largest size class, in bytes. Each class is twice the one before."""
MOST_ITEMS = 500

_HEAD = struct.Struct("<9sB16sIH")
HEAD_BYTES = _HEAD.size
_ITEM = struct.Struct("<BII")
ITEM_BYTES = _ITEM.size
"""Bytes of an item before its name."""
_EPOCH = date(1970, 1, 1)


class Destination(Protocol):
    """Interface of a destination, which must accept the same bytes again."""

    def send(self, identity: bytes, body: bytes) -> int:
        """Take a batch. Returns, when it is stored, how many of its reports were refused for good.
        Raise Unreachable if it is not taken now. `identity`: the 16 bytes of its id."""


class Item(NamedTuple):
    """Report with the name and version of its metric."""

    metric: str
    version: int
    report: bytes

    @property
    def size(self) -> int:
        """Size in a batch, in bytes."""
        return _ITEM.size + len(self.metric.encode()) + len(self.report)


class Batch(NamedTuple):
    """Sealed batch: `id`, 16 random bytes drawn at sealing; `day` of sealing, UTC; `items`."""

    id: bytes
    day: date
    items: tuple[Item, ...]

    def to_bytes(self) -> bytes:
        """Return the bytes, padded to a size class. Raises ParameterError beyond the largest."""
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
        """Return the batch in `data`. Raises ReportError for bytes that `to_bytes` cannot write."""
        with suppress(struct.error, ValueError, OverflowError):
            _, _, identity, day, count = _HEAD.unpack_from(data)
            items, at = list[Item](), HEAD_BYTES
            for _ in range(count):
                name_size, metric_version, size = _ITEM.unpack_from(data, at)
                middle = at + _ITEM.size + name_size
                name, at = data[at + _ITEM.size : middle].decode(), middle + size
                items.append(Item(name, metric_version, data[middle:at]))
            batch = cls(identity, _EPOCH + timedelta(days=day), tuple(items))
            if batch.to_bytes() == data:
                return batch
        raise ReportError("a batch is damaged, or not of this format")


def item_beginning(metric: str, version: int, header: bytes, body_bytes: int) -> bytes:
    """Return the bytes with which an item begins, if its report is `header` and `body_bytes`."""
    name = metric.encode()
    return _ITEM.pack(len(name), version, len(header) + body_bytes) + name + header


def read_uniform(data: bytes, sizes: Mapping[bytes, int]) -> tuple[bytes, date, bytes, int] | None:
    """Return a batch's id, its day, the beginning of its first item and the number of items, if its
    length fits that number of items of one size. The caller must compare their beginnings.
    Arguments, and None for other bytes, as for `read_known`."""
    try:
        magic, version, identity, day, count = _HEAD.unpack_from(data)
        sealed, start = _EPOCH + timedelta(days=day), HEAD_BYTES + ITEM_BYTES + HEADER_BYTES
        beginning = data[HEAD_BYTES : start + data[HEAD_BYTES]]
        step = len(beginning) + sizes[beginning]
    except (struct.error, OverflowError, IndexError, KeyError):
        return None
    is_whole = _is_whole(data, magic, version, count, HEAD_BYTES + count * step)
    return (identity, sealed, beginning, count) if is_whole else None


def read_known(
    data: bytes, sizes: Mapping[bytes, int]
) -> tuple[bytes, date, dict[bytes, list[bytes]]] | None:
    """Return a batch's id, its day and its bodies by their `item_beginning`. Returns None for other
    bytes, and for a batch with a beginning that is not in `sizes`. `sizes`: size of a body by the
    beginning of its item. It is a faster `Batch.from_bytes`."""
    step, bodies = ITEM_BYTES + HEADER_BYTES, dict[bytes, list[bytes]]()
    try:
        magic, version, identity, day, count = _HEAD.unpack_from(data)
        sealed, at = _EPOCH + timedelta(days=day), HEAD_BYTES
        for _ in range(count):
            start = at + step + data[at]
            beginning = data[at:start]
            at = start + sizes[beginning]
            if beginning in bodies:
                bodies[beginning].append(data[start:at])
            else:
                bodies[beginning] = [data[start:at]]
    except (struct.error, OverflowError, IndexError, KeyError):
        return None
    return (identity, sealed, bodies) if _is_whole(data, magic, version, count, at) else None


def _is_whole(data: bytes, magic: bytes, version: int, count: int, end: int) -> bool:
    """Return whether bytes have the head and the size of a batch whose items end at `end`."""
    is_batch = (magic, version) == (BATCH_MAGIC, BATCH_VERSION) and count <= MOST_ITEMS
    size = max(LEAST_BYTES, 1 << (end - 1).bit_length())
    return is_batch and end <= len(data) == size <= MOST_BYTES and not data[end:].strip(b"\0")


def pack_batches(items: list[Item]) -> list[tuple[Item, ...]]:
    """Return the `items` of as few batches as possible, in order. Raises ParameterError for an item
    that is larger than any batch."""
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
