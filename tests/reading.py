"""Read reports one by one, for people and tests; servers count reports from arrays."""

from typing import TYPE_CHECKING, NamedTuple

from ldp.protocol.joint_layout import JointLayout
from ldp.protocol.kinds import Layout
from ldp.protocol.wire import split_report

if TYPE_CHECKING:
    from bitarray import bitarray


class PartOfReport(NamedTuple):
    """Part of a report: `row` of its table, and `columns`, in which bit c is 1 if the report names
    column c of that row."""

    row: int
    columns: "bitarray"


def read_report(data: bytes, header: bytes, layout: Layout | JointLayout) -> list[PartOfReport]:
    """Return the parts of a report of a mechanism with this `header` and `layout`, one for most
    mechanisms. Raises ReportError for another mechanism's report, and for numbers out of range.

    >>> from ldp import UnaryEncoding
    >>> unary = UnaryEncoding(categories=("Oslo", "Bergen", "Hell"), epsilon=64.0)
    >>> read_report(unary.encoder().encode("Bergen"), unary.header, unary.layout)
    [PartOfReport(row=0, columns=bitarray('010'))]
    """
    from bitarray import bitarray  # late: a device that only sends needs none

    row, payload = split_report(data, header, layout)
    parts = []
    for part, (part_row, part_payload) in zip(
        layout.parts, layout.split(row, payload), strict=True
    ):
        number = part.payload_number(part_payload)
        columns = bitarray(part.names(number, column) for column in range(part.columns))
        parts.append(PartOfReport(part_row, columns))
    return parts
