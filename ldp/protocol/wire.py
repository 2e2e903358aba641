"""Reports and tables as bytes: the only module that knows byte order and layout.

A report is a 10-byte header (format version, mechanism id, mechanism fingerprint) and a body (row,
payload). There are three kinds of report, and reports of several parts; the layout of each is data,
so that array code can read the same bytes. Everything is little-endian; `docs/wire.md` is the
specification for other languages. What the numbers in a report mean is the mechanisms' business,
not this module's.
"""

import hashlib
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import combinations
from math import comb
from typing import Any

from bitarray import frozenbitarray

from ldp.errors import DecodeError, ReportError

REPORT_VERSION = 1
TABLE_VERSION = 1
TABLE_MAGIC = b"ldp-table"
COUNT_TYPES = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}
"""Bytes of an unsigned count -> its little-endian array type, without the byte-order mark."""

_HEADER = struct.Struct("<BB8s")
HEADER_BYTES = _HEADER.size
_CHECKSUM_BYTES = 16


class Kind(Enum):
    """What a report says about its row: one column, some columns, a fixed number of columns, or one
    column with a sign."""

    INDEX = "index"
    BITS = "bits"
    SUBSET = "subset"
    SIGN = "sign"


@dataclass(frozen=True)
class Index:
    row: int
    column: int


@dataclass(frozen=True)
class Bits:
    row: int
    bits: frozenbitarray
    """One bit a column, column 0 first."""


@dataclass(frozen=True)
class Sign:
    row: int
    column: int
    sign: int
    """+1 or -1."""


Report = Index | Bits | Sign


def _bytes_for(numbers: int) -> int:
    """Bytes that hold any of the integers below `numbers`; none where there is no choice."""
    return ((numbers - 1).bit_length() + 7) // 8


@dataclass(frozen=True)
class Layout:
    """The body of a report: `row_bytes` of row number, then `payload_bytes`.

    The payload is the column (INDEX), 2 * column + (1 for a minus) (SIGN), or the columns' bits,
    column c being bit c % 8 of byte c // 8 (BITS, unused high bits zero; SUBSET, where `ones` of
    them are 1).
    """

    kind: Kind
    rows: int
    columns: int
    ones: int = 0

    @cached_property
    def row_bytes(self) -> int:
        return _bytes_for(self.rows)

    @cached_property
    def payload_limit(self) -> int:
        """The payload, read as an integer, is below this."""
        return {
            Kind.INDEX: self.columns,
            Kind.SIGN: 2 * self.columns,
            Kind.BITS: 1 << self.columns,
            Kind.SUBSET: 1 << self.columns,
        }[self.kind]

    def numbers(self) -> Iterator[int]:
        """All payloads there are, as integers."""
        if self.kind is Kind.SUBSET:
            chosen = combinations(range(self.columns), self.ones)
            return (sum(1 << column for column in columns) for columns in chosen)
        return iter(range(self.payload_limit))

    @cached_property
    def outcomes(self) -> int:
        """How many payloads there are."""
        return comb(self.columns, self.ones) if self.kind is Kind.SUBSET else self.payload_limit

    @cached_property
    def payload_bytes(self) -> int:
        return _bytes_for(self.payload_limit)

    @cached_property
    def body_bytes(self) -> int:
        return self.row_bytes + self.payload_bytes

    def payload_number(self, payload: bytes) -> int:
        """The payload as an integer; refuses columns out of range and set padding bits."""
        number = int.from_bytes(payload, "little")
        if number >= self.payload_limit:
            raise ReportError(
                "report has padding bits set"
                if self.kind in (Kind.BITS, Kind.SUBSET)
                else f"report names a column outside 0..{self.columns - 1}"
            )
        if self.kind is Kind.SUBSET and number.bit_count() != self.ones:
            raise ReportError(f"report does not name exactly {self.ones} columns")
        return number


@dataclass(frozen=True)
class JointLayout:
    """The body of a report of several parts: `row_bytes` of row number, then the bodies of the
    parts. The table of the first part has `rows` times the rows of its body: those of row r start
    at r * its rows."""

    rows: int
    parts: tuple[Layout, ...]

    @cached_property
    def row_bytes(self) -> int:
        return _bytes_for(self.rows)

    @cached_property
    def payload_bytes(self) -> int:
        return sum(part.body_bytes for part in self.parts)

    @cached_property
    def body_bytes(self) -> int:
        return self.row_bytes + self.payload_bytes

    def payload_number(self, payload: bytes) -> int:
        """The payload as an integer; refuses what a part would refuse."""
        start = 0
        for part in self.parts:
            middle, end = start + part.row_bytes, start + part.body_bytes
            if int.from_bytes(payload[start:middle], "little") >= part.rows:
                raise ReportError(f"report names a row outside 0..{part.rows - 1}")
            part.payload_number(payload[middle:end])
            start = end
        return int.from_bytes(payload, "little")

    def split(self, row: int, payload: bytes) -> list[tuple[int, bytes]]:
        """For every part the row of its table, and its payload."""
        found, start, first = [], 0, row * self.parts[0].rows
        for part in self.parts:
            middle, end = start + part.row_bytes, start + part.body_bytes
            own = int.from_bytes(payload[start:middle], "little")
            found.append((first + own, payload[middle:end]))
            start, first = end, 0
        return found


def split_parts(layout: Layout | JointLayout, row: int, payload: bytes) -> list[tuple[int, bytes]]:
    """For every part of a report the row of its table, and its payload."""
    return layout.split(row, payload) if isinstance(layout, JointLayout) else [(row, payload)]


@dataclass(frozen=True)
class Header:
    """Whose report it is: the mechanism's id (1 byte) and its fingerprint (8 bytes)."""

    mechanism_id: int
    fingerprint: bytes

    def to_bytes(self) -> bytes:
        return _HEADER.pack(REPORT_VERSION, self.mechanism_id, self.fingerprint)


def pack_report(header: bytes, layout: Layout, row: int, number: int) -> bytes:
    """A whole report: `header`, row, payload. Trusts its arguments; encoders call it."""
    return (
        header
        + row.to_bytes(layout.row_bytes, "little")
        + number.to_bytes(layout.payload_bytes, "little")
    )


def pack_joint_report(
    header: bytes, layout: JointLayout, drawn: Sequence[tuple[int, int]]
) -> bytes:
    """A whole report of several parts, from the row and payload of each. Trusts its arguments."""
    row = drawn[0][0] // layout.parts[0].rows
    bodies = [
        pack_report(b"", part, part_row % part.rows, number)
        for part, (part_row, number) in zip(layout.parts, drawn, strict=True)
    ]
    return b"".join([header, row.to_bytes(layout.row_bytes, "little"), *bodies])


def split_report(data: bytes, header: Header, layout: Layout | JointLayout) -> tuple[int, bytes]:
    """Row and payload of a report, after every check that needs no look into the payload."""
    expected = HEADER_BYTES + layout.body_bytes
    if len(data) != expected:
        raise ReportError(f"report has {len(data)} bytes, this mechanism's have {expected}")
    version, mechanism_id, fingerprint = _HEADER.unpack_from(data)
    if version != REPORT_VERSION:
        raise ReportError(f"report has format version {version}, this is {REPORT_VERSION}")
    if (mechanism_id, fingerprint) != (header.mechanism_id, header.fingerprint):
        raise ReportError(
            f"report is of mechanism {mechanism_id}/{fingerprint.hex()}, "
            f"expected {header.mechanism_id}/{header.fingerprint.hex()}"
        )
    start = HEADER_BYTES + layout.row_bytes
    row = int.from_bytes(data[HEADER_BYTES:start], "little")
    if row >= layout.rows:
        raise ReportError(f"report names a row outside 0..{layout.rows - 1}")
    return row, data[start:]


def parse_report(data: bytes, header: Header, layout: Layout | JointLayout) -> tuple[Report, ...]:
    """The parts of the report in `data`, one unless it is joint; raises ReportError unless every
    bit of it is as it should be."""
    row, payload = split_report(data, header, layout)
    layout.payload_number(payload)
    parts = layout.parts if isinstance(layout, JointLayout) else (layout,)
    split = zip(parts, split_parts(layout, row, payload), strict=True)
    return tuple(_parsed(part, *found) for part, found in split)


def _parsed(layout: Layout, row: int, payload: bytes) -> Report:
    number = layout.payload_number(payload)
    if layout.kind is Kind.INDEX:
        return Index(row, number)
    if layout.kind is Kind.SIGN:
        return Sign(row, number >> 1, -1 if number & 1 else 1)
    bits = frozenbitarray(buffer=payload, endian="little")
    return Bits(row, bits[: layout.columns])


def pack_table(description: Mapping[str, Any], buffers: Sequence[bytes]) -> bytes:
    """Magic, version, length of the description, description (JSON), buffers, checksum.

    The sizes of the buffers are written into the description under "buffers".
    """
    text = json.dumps(
        {**description, "buffers": [len(buffer) for buffer in buffers]}, sort_keys=True
    ).encode()
    start = TABLE_MAGIC + bytes([TABLE_VERSION]) + len(text).to_bytes(4, "little")
    checksum = hashlib.blake2b(start + text, digest_size=_CHECKSUM_BYTES)
    for buffer in buffers:
        checksum.update(buffer)
    return b"".join([start, text, *buffers, checksum.digest()])


def parse_table(data: bytes) -> tuple[dict[str, Any], list[memoryview]]:
    """The description and the buffers of a table file; refuses foreign and damaged bytes."""
    opening = len(TABLE_MAGIC) + 1
    if data[: len(TABLE_MAGIC)] != TABLE_MAGIC:
        raise DecodeError("not a table file")
    if data[opening - 1 : opening] != bytes([TABLE_VERSION]):
        raise DecodeError(f"table file of another format version, this is {TABLE_VERSION}")
    view = memoryview(data)
    checksum = hashlib.blake2b(view[:-_CHECKSUM_BYTES], digest_size=_CHECKSUM_BYTES)
    if checksum.digest() != data[-_CHECKSUM_BYTES:]:
        raise DecodeError("damaged table file: its checksum does not fit")
    start = opening + 4
    end = start + int.from_bytes(data[opening:start], "little")
    description = json.loads(data[start:end])
    buffers = []
    for size in description["buffers"]:
        buffers.append(view[end : end + size])
        end += size
    return description, buffers
