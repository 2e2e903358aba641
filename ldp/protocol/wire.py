"""Reports and tables as bytes: byte order and layout, with `ldp.protocol.kinds`.

A report is a 10-byte header (format version, mechanism id, mechanism fingerprint) and a body (row,
payload), or the bodies of several parts. Everything is little-endian; `docs/wire.md` is the
specification for other languages. Mechanisms, not this module, define what the numbers mean.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ldp.errors import DecodeError, ReportError
from ldp.protocol.strict_json import parse_json

if TYPE_CHECKING:
    from ldp.protocol.joint_layout import JointLayout
    from ldp.protocol.kinds import Layout

REPORT_VERSION = 1
TABLE_VERSIONS = {False: 1, True: 2}
"""Format version of a table file, by whether it also holds whole reports."""
TABLE_MAGIC = b"ldp-table"
COUNT_TYPES = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}
"""Array types of unsigned counts by size in bytes, without the byte-order mark."""

HEADER_BYTES = 10
_CHECKSUM_BYTES = 16


def pack_report(header: bytes, layout: "Layout | JointLayout", row: int, number: int) -> bytes:
    """Return a report: `header`, row, payload `number`. The arguments are not checked. Two bytes
    more are written at first, because the time of writing a number of bytes tells of 0."""
    size = layout.payload_bytes
    payload = (number + (1 << 8 * size + 8)).to_bytes(size + 2, "little")
    return header + row.to_bytes(layout.row_bytes, "little") + payload[:size]


def split_report(data: bytes, header: bytes, layout: "Layout | JointLayout") -> tuple[int, bytes]:
    """Return row and payload of the report in `data`. Raises ReportError for a wrong length, header
    or row. The payload is not checked."""
    expected = HEADER_BYTES + layout.body_bytes
    if len(data) != expected:
        raise ReportError(f"report has {len(data)} bytes, this mechanism's have {expected}")
    if data[0] != header[0]:
        raise ReportError(f"report has format version {data[0]}, this is {header[0]}")
    if data[:HEADER_BYTES] != header:
        raise ReportError(
            f"report is of mechanism {data[1]}/{data[2:HEADER_BYTES].hex()}, "
            f"expected {header[1]}/{header[2:].hex()}: another mechanism, or other parameters"
        )
    start = HEADER_BYTES + layout.row_bytes
    row = int.from_bytes(data[HEADER_BYTES:start], "little")
    if row >= layout.rows:
        raise ReportError(f"report names a row outside 0..{layout.rows - 1}")
    return row, data[start:]


def pack_table(description: Mapping[str, Any], buffers: Sequence[bytes]) -> bytes:
    """Return the bytes of a table file: magic, version, length of the description, description
    (JSON), buffers, checksum.

    The key "buffers" of the written description holds the sizes of `buffers` in bytes.
    """
    text = json.dumps(
        {**description, "buffers": [len(buffer) for buffer in buffers]}, sort_keys=True
    ).encode()
    version = TABLE_VERSIONS["whole" in description]
    start = TABLE_MAGIC + bytes([version]) + len(text).to_bytes(4, "little")
    checksum = hashlib.blake2b(start + text, digest_size=_CHECKSUM_BYTES)
    for buffer in buffers:
        checksum.update(buffer)
    return b"".join([start, text, *buffers, checksum.digest()])


def parse_table(data: bytes) -> tuple[dict[str, Any], list[memoryview]]:
    """Return the description and the buffers of the table file in `data`. Raises DecodeError for
    other or damaged bytes."""
    version_at = len(TABLE_MAGIC)
    if data[:version_at] != TABLE_MAGIC:
        raise DecodeError("not a table file")
    versions = [*TABLE_VERSIONS.values()]
    if not data[version_at : version_at + 1] or data[version_at] not in versions:
        raise DecodeError(f"table file of another format version, this reads {versions}")
    view = memoryview(data)
    checksum = hashlib.blake2b(view[:-_CHECKSUM_BYTES], digest_size=_CHECKSUM_BYTES)
    if checksum.digest() != data[-_CHECKSUM_BYTES:]:
        raise DecodeError("damaged table file: its checksum does not fit")
    start = version_at + 5
    end = start + int.from_bytes(data[version_at + 1 : start], "little")
    description = parse_json(data[start:end])
    if TABLE_VERSIONS["whole" in description] != data[version_at]:
        raise DecodeError("table file's description does not fit its format version")
    buffers = []
    for size in description["buffers"]:
        buffers.append(view[end : end + size])
        end += size
    return description, buffers
