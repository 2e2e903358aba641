"""Sealed batches as bytes: devices send them, collectors read them.

A batch is a random id, the day on which it was sealed, and reports with the names and versions of
their metrics, padded with zeros to one of a few sizes. It contains nothing about its sender.
`docs/wire.md`, section 11, is the specification for other languages.
"""

import struct
from collections.abc import Mapping
from datetime import date, timedelta
from typing import NamedTuple, Protocol

from ldp.errors import ParameterError, ReportError

ID_HEADER = "Ldp-Batch"
"""Header of a request that states the id of its batch, as 32 hexadecimal digits."""
MEDIA_TYPE = "application/vnd.ldp.batch"
BATCH_MAGIC = b"ldp-batch"
BATCH_VERSION = 1
ID_BYTES = 16
LEAST_BYTES, MOST_BYTES = 1 << 10, 1 << 20
"""Smallest and largest size class, in bytes; each class is twice the one before."""
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
        """Take a batch; return, when it is stored, how many of its reports were refused for good.
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
        """Return the bytes, padded to a size class; raise ParameterError beyond the largest."""
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
        """Return the batch in `data`; raise ReportError for bytes that `to_bytes` cannot write."""
        try:
            magic, version, identity, day, count = _HEAD.unpack_from(data)
            if (magic, version) != (BATCH_MAGIC, BATCH_VERSION):
                raise ReportError("not a batch of this format")
            items, at = list[Item](), HEAD_BYTES
            for _ in range(count):
                name_size, metric_version, size = _ITEM.unpack_from(data, at)
                middle = at + _ITEM.size + name_size
                name, at = data[at + _ITEM.size : middle].decode(), middle + size
                items.append(Item(name, metric_version, data[middle:at]))
            batch = cls(identity, _EPOCH + timedelta(days=day), tuple(items))
            if batch.to_bytes() == data:
                return batch
        except ReportError:
            raise
        except (struct.error, ValueError, OverflowError):
            pass
        raise ReportError("a batch is damaged")


class Uniform(NamedTuple):
    """Batch whose items all have the metric, version and length of the `first`: report i begins at
    byte `start` + i * `step`."""

    id: bytes
    day: date
    items: int
    first: Item
    start: int
    step: int


def read_uniform(data: bytes) -> Uniform | None:
    """Return the batch in `data` if its items are uniform, else None, as for other bytes.

    It is a faster `Batch.from_bytes` for the batches of relays.
    """
    try:
        magic, version, identity, day, count = _HEAD.unpack_from(data)
        name_size, metric_version, size = _ITEM.unpack_from(data, HEAD_BYTES)
        start = HEAD_BYTES + _ITEM.size + name_size
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


def item_beginning(metric: str, version: int, header: bytes, body_bytes: int) -> bytes:
    """Return the bytes with which an item begins, if its report is `header` and `body_bytes`."""
    name = metric.encode()
    return _ITEM.pack(len(name), version, len(header) + body_bytes) + name + header


def read_known(
    data: bytes, sizes: Mapping[bytes, int], header_bytes: int
) -> tuple[bytes, date, dict[bytes, list[bytes]]] | None:
    """Return a batch's id, its day and its bodies by their `item_beginning`; None for other bytes,
    and for a batch with a beginning that is not in `sizes`. `sizes`: size of a body by the
    beginning of its item. It is a faster `Batch.from_bytes`."""
    step, bodies = ITEM_BYTES + header_bytes, dict[bytes, list[bytes]]()
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
    if (magic, version) != (BATCH_MAGIC, BATCH_VERSION) or count > MOST_ITEMS:
        return None
    if not at <= len(data) == max(LEAST_BYTES, 1 << (at - 1).bit_length()) <= MOST_BYTES:
        return None
    return None if data[at:].strip(b"\0") else (identity, sealed, bodies)


def pack_batches(items: list[Item]) -> list[tuple[Item, ...]]:
    """Return the `items` of as few batches as possible, in order; raise ParameterError for an item
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
