"""Layout of reports of several parts; `docs/wire.md` specifies it for other languages."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ldp.errors import ReportError
from ldp.protocol.kinds import Layout, bytes_below


@dataclass(frozen=True)
class JointLayout:
    """Body of a report of several parts: `row_bytes` of row number, then the bodies of the parts.

    The table of the first part has `rows` times the rows of its body: those of row r begin at
    r * (rows of its body).
    """

    rows: int
    parts: tuple[Layout, ...]

    @cached_property
    def row_bytes(self) -> int:
        return bytes_below(self.rows)

    @cached_property
    def payload_bytes(self) -> int:
        return sum(part.body_bytes for part in self.parts)

    @cached_property
    def body_bytes(self) -> int:
        return self.row_bytes + self.payload_bytes

    def payload_number(self, payload: bytes) -> int:
        """Return `payload` as an integer. Raises ReportError for a row out of range, and as
        `Layout.payload_number` for each part."""
        for part, (row, part_payload) in zip(self.parts, self.split(0, payload), strict=True):
            if row >= part.rows:
                raise ReportError(f"report names a row outside 0..{part.rows - 1}")
            part.payload_number(part_payload)
        return int.from_bytes(payload, "little")

    def split(self, row: int, payload: bytes) -> list[tuple[int, bytes]]:
        """Return for every part the row of its table and its payload."""
        parts, start, first_row = [], 0, row * self.parts[0].rows
        for part in self.parts:
            middle, end = start + part.row_bytes, start + part.body_bytes
            part_row = int.from_bytes(payload[start:middle], "little")
            parts.append((first_row + part_row, payload[middle:end]))
            start, first_row = end, 0
        return parts

    def join(self, parts: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Return row and payload, as an integer, of a report from row and payload of each part: the
        inverse of `split`. The arguments are not checked."""
        payload = shift = 0
        for part, (row, number) in zip(self.parts, parts, strict=True):
            payload |= (row % part.rows | number << 8 * part.row_bytes) << shift
            shift += 8 * part.body_bytes
        return parts[0][0] // self.parts[0].rows, payload
