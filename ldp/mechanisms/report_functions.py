"""Encoders as one function, for reports that name one column or a set of columns.

`report_function` returns such a function, which takes the operating system's bits. Its reports have
the distribution of `Layout.draw` of the mechanism's kind, and take less time. The touched cell and
another cell (a lie) are both drawn, and a sum of integers of one length (`is_below`) chooses
between them, so that the time does not tell which of the two is reported. The uniform of that sum
is the exclusive or of two, so that it is independent of the length of either.
"""

import os
from collections.abc import Callable, Iterator
from struct import Struct
from typing import TYPE_CHECKING

from ldp.mechanisms.addressing import CellSets, Identity, RandomizedAddressing
from ldp.protocol.kinds import Index, ManyCells, Subset
from ldp.protocol.randomness import LENGTH, ONE, PRECISION

if TYPE_CHECKING:
    from ldp.mechanisms.base import Mechanism
    from ldp.protocol.hashing import Value

ReportFunction = Callable[["Value"], bytes]
_PAIR = Struct("<QQ")
_COLUMNS = Struct("<32I")
_COLUMN_LIMIT = 1 << 32
_ZERO, _ONE = b"01"


def report_function(mechanism: "Mechanism") -> ReportFunction | None:
    """Return the function that draws a report of a value of `mechanism`, and raises ParameterError
    before a bit is drawn for one outside the domain. Returns None for other kinds of reports, for
    values that are replaced at random, and for those that touch several cells of a list."""
    addressing = mechanism.addressing
    if mechanism.kind is Index and isinstance(addressing, CellSets):
        return _one_of_many_cells(mechanism)
    if isinstance(addressing, RandomizedAddressing) or mechanism.touches > 1:
        return None
    if mechanism.kind is Index:
        return (_category if type(addressing) is Identity else _cell_of_row)(mechanism)
    return _set_of_cells(mechanism) if mechanism.kind is Subset else None


def _bounds(mechanism: "Mechanism", choices: int) -> tuple[int, int]:
    """Return two numbers: the bound below which numbers of 64 bits have a uniform remainder after
    division by `choices`, and the term that `is_below` adds to a uniform number: bits 64 and up of
    the sum are then 5 for a lie, else 4."""
    above = ONE - mechanism.report_thresholds[0] | LENGTH
    return ONE // choices * choices, above


def _category(mechanism: "Mechanism") -> ReportFunction:
    """Return the function for reports of a category. All reports are listed beforehand, because
    writing a column as bytes takes a time that depends on the column. The list takes a fifth of the
    memory of the categories' names."""
    urandom, pair, point_of = os.urandom, _PAIR.unpack, mechanism.addressing.point
    others, size = mechanism.shape.columns - 1, mechanism.layout.body_bytes
    reports = tuple(mechanism.header + n.to_bytes(size, "little") for n in range(others + 1))
    limit, above = _bounds(mechanism, others)

    def report(value: "Value") -> bytes:
        cell = point_of(value)
        number, uniform = pair(urandom(16))
        while number >= limit:
            number, uniform = pair(urandom(16))
        other = number % others
        other += other >= cell
        return reports[(cell, other)[(((uniform | LENGTH) ^ number) + above >> PRECISION) - 4]]

    return report


def _cell_of_row(mechanism: "Mechanism") -> ReportFunction:
    """Return the function for reports of a row and a column in it. A uniform number below the
    product of rows and other columns determines both the row and the lie."""
    urandom, pair, header = os.urandom, _PAIR.unpack, mechanism.header
    point_of, cells_of = mechanism.addressing.point, mechanism.addressing.cells
    row_bits, size = 8 * mechanism.layout.row_bytes, mechanism.layout.body_bytes
    rows, others = mechanism.shape.rows, mechanism.shape.columns - 1
    limit, above = _bounds(mechanism, rows * others)

    def report(value: "Value") -> bytes:
        point = point_of(value)
        number, uniform = pair(urandom(16))
        while number >= limit:
            number, uniform = pair(urandom(16))
        row: int = number // others % rows
        (cell,) = cells_of(point, row)
        other = number % others
        other += other >= cell
        column: int = (cell, other)[(((uniform | LENGTH) ^ number) + above >> PRECISION) - 4]
        return header + (column << row_bits | row).to_bytes(size, "little")

    return report


def _one_of_many_cells(mechanism: "Mechanism") -> ReportFunction:
    """Return the function for reports of a column in the only row. A uniform number below the
    product of touched and other columns determines one of each."""
    urandom, pair, header = os.urandom, _PAIR.unpack, mechanism.header
    point_of, cells_of = mechanism.addressing.point, mechanism.addressing.cells
    size, touches = mechanism.layout.body_bytes, mechanism.touches
    others = mechanism.shape.columns - touches
    limit, above = _bounds(mechanism, touches * others)

    def report(value: "Value") -> bytes:
        cells = cells_of(point_of(value), 0)
        assert isinstance(cells, ManyCells)
        number, uniform = pair(urandom(16))
        while number >= limit:
            number, uniform = pair(urandom(16))
        columns = cells.inside(number // others % touches), cells.outside(number % others)
        column: int = columns[(((uniform | LENGTH) ^ number) + above >> PRECISION) - 4]
        return header + column.to_bytes(size, "little")

    return report


def _set_of_cells(mechanism: "Mechanism") -> ReportFunction:
    """Return the function for reports of a set of columns, written as binary digits until it is
    sent. A random byte for each column but the touched one decides whether it begins in the set.
    Uniform columns then enter or leave the set until one column is missing: the touched column, or
    another uniform one."""
    urandom, header, layout = os.urandom, mechanism.header, mechanism.layout
    assert isinstance(layout, Subset)
    point_of, cells_of = mechanism.addressing.point, mechanism.addressing.cells
    columns, size, few = layout.columns, layout.body_bytes, layout.ones - 1
    digits = bytes(_ONE if byte < layout.coarse_coin >> 56 else _ZERO for byte in range(256))
    _, above = _bounds(mechanism, 1)

    def report(value: "Value") -> bytes:
        (cell,) = cells_of(point_of(value), 0)
        place = columns - 1 - cell
        subset = bytearray(urandom(columns).translate(digits))
        subset[place] = _ZERO
        missing = few - subset.count(_ONE)
        for other in _uniform_columns(columns):
            if missing < 0:
                missing += subset[other] == _ONE
                subset[other] = _ZERO
            elif subset[other] == _ZERO and other != place:
                if not missing:
                    break
                subset[other] = _ONE
                missing -= 1
        uniform = int.from_bytes(urandom(8) + b"\2", "little")  # with LENGTH
        chosen = (place, other)[(uniform + above >> PRECISION) - 4]
        subset[chosen] = _ONE
        return header + int(subset, 2).to_bytes(size, "little")

    return report


def _uniform_columns(columns: int) -> Iterator[int]:
    """Yield independent uniform numbers below `columns`, without end."""
    limit = _COLUMN_LIMIT // columns * columns
    while True:
        for number in _COLUMNS.unpack(os.urandom(_COLUMNS.size)):
            if number < limit:
                yield number % columns
