"""Sealed reports as bytes: a report and the day of its sealing, neither of which a relay can read.

A sealed batch carries sealed reports as items with the name of their queue. Metric, version and day
are encrypted (`ldp.protocol.sealing_keys`). `docs/wire.md`, section 14, is the specification for
other languages.
"""

import hashlib
import struct
from collections.abc import Iterable
from datetime import date, timedelta
from typing import NamedTuple

from ldp.errors import ParameterError, ReportError
from ldp.protocol.batch import HEAD_BYTES, ID_BYTES, ITEM_BYTES, Item

SEALED_VERSION = 1
"""Version of the format: that of every item that carries a sealed report."""
QUEUE = "queue:"
"""Beginning of the name of an item that carries a sealed report. The name of its queue follows. No
metric's name has a colon."""
SHUFFLER = "shuffler:"
"""Beginning of the name of a queue of messages that protect nothing before they are shuffled."""
ATTESTED = "batch:"
"""Beginning of the name of an item that carries a relay's attestation. A queue's name follows."""
STATEMENT_VERSION = 2
SIGNATURE_BYTES = 64
OVERHEAD = 32 + 16
"""Bytes that encryption adds: an ephemeral public key, and a tag."""
LEAST_BYTES = 128
"""Smallest size of a sealed report. Each size is twice the one before."""
_HEAD, _SIZE = struct.Struct("<IBII"), struct.Struct("<I")
_EPOCH = date(1970, 1, 1)


class Content(NamedTuple):
    """Content of a sealed report: `day` of sealing on the device, UTC, and the report's `item`."""

    day: date
    item: Item

    def to_bytes(self, size: int) -> bytes:
        """Return the bytes to encrypt, padded so that the sealed report has `size` bytes. Raises
        ParameterError where the report does not fit."""
        (metric, version, report), days = self.item, (self.day - _EPOCH).days
        name = metric.encode()
        data = _HEAD.pack(days, len(name), version, len(report)) + name + report
        if len(data) > size - OVERHEAD:
            raise ParameterError(f"a report of metric {metric!r} is larger than its queue allows")
        return data.ljust(size - OVERHEAD, b"\0")

    @classmethod
    def from_bytes(cls, data: bytes) -> "Content":
        """Return the content in `data`. Raises ReportError for bytes that `to_bytes` cannot
        write."""
        try:
            days, name_size, version, size = _HEAD.unpack_from(data)
            start = _HEAD.size + name_size
            item = Item(data[_HEAD.size : start].decode(), version, data[start : start + size])
            content = cls(_EPOCH + timedelta(days=days), item)
            if content.to_bytes(len(data) + OVERHEAD) == data:
                return content
        except (struct.error, ValueError, OverflowError):
            pass
        raise ReportError("the content of a sealed report is damaged")


class Attestation(NamedTuple):
    """Statement of a relay about a batch: its `queue`, its name `batch` (ID_BYTES random bytes) and
    how many `reports` it has. `digest`: that of the sealed reports with which the statement comes
    (`digest_of_all`). Each of these reports counts once, so a statement has no other use."""

    queue: str
    batch: bytes
    reports: int
    digest: bytes

    @property
    def message(self) -> bytes:
        """Bytes that the relay signs: the whole statement, and the purpose of the signature."""
        head = b"ldp relay batch" + bytes([STATEMENT_VERSION]) + self.batch
        return head + _SIZE.pack(self.reports) + self.digest + self.queue.encode()

    @property
    def size(self) -> int:
        """Size of its item in a batch, in bytes."""
        return self.to_item(bytes(SIGNATURE_BYTES)).size

    def to_item(self, signature: bytes) -> Item:
        """Return the item that carries the statement, without the digest, which a reader
        computes."""
        statement = self.batch + _SIZE.pack(self.reports) + signature
        return Item(ATTESTED + self.queue, SEALED_VERSION, statement)

    @classmethod
    def from_item(cls, item: Item, digest: bytes) -> tuple["Attestation", bytes]:
        """Return what an item states of reports with this digest, and the signature. Raises
        ReportError for another item."""
        queue, size = item.metric.removeprefix(ATTESTED), ID_BYTES + _SIZE.size + SIGNATURE_BYTES
        if (item.metric, item.version, len(item.report)) != (
            ATTESTED + queue,
            SEALED_VERSION,
            size,
        ):
            raise ReportError("an item carries no attestation of this version")
        batch, (reports,) = item.report[:ID_BYTES], _SIZE.unpack_from(item.report, ID_BYTES)
        return cls(queue, batch, reports, digest), item.report[-SIGNATURE_BYTES:]


def digest_of_all(reports: Iterable[bytes]) -> bytes:
    """Return the digest of sealed reports in their order: SHA-256 of each one's length, as 4 bytes,
    and bytes."""
    parts = (_SIZE.pack(len(report)) + report for report in reports)
    return hashlib.sha256(b"".join(parts)).digest()


def sealed_bytes(items: list[Item]) -> int:
    """Return the size of all sealed reports of a queue that carries any of these items: a power of
    two, LEAST_BYTES at least."""
    largest = max(_HEAD.size - ITEM_BYTES + item.size for item in items) + OVERHEAD
    return max(LEAST_BYTES, 1 << (largest - 1).bit_length())


def is_sealed(batch: bytes) -> bool:
    """Return whether the items of a batch are sealed reports: all of them are, or none."""
    return batch[HEAD_BYTES + ITEM_BYTES :].startswith(QUEUE.encode())


def shuffled_group(batch: bytes) -> str:
    """Return the group of the messages in a batch, if they protect nothing until a relay has
    shuffled them. Returns "" for a batch of other reports."""
    name, start = batch[HEAD_BYTES + ITEM_BYTES :], (QUEUE + SHUFFLER).encode()
    return name.removeprefix(start).partition(b"/")[0].decode() if name.startswith(start) else ""
