"""Reports of known values, with the cells that each value touches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ldp.arrays import Bools, Floats, Ints
from ldp.audit.binomial_checks import payload_bits
from ldp.mechanisms.addressing import Answers, Identity, Rounding, unpacked
from ldp.mechanisms.base import Mechanism
from ldp.protocol.hashing import Value
from ldp.protocol.kinds import Index

VALUE, VALUE_BEFORE = "value", "value before"
"""Names of two numbers of a report. A check "by" one of them alone has as many counts for each
value."""
ROW = "row"
"""Name of the number by which counts of rows are not split."""
CALLS, DEVICES = 1 << 9, 1 << 7
"""Moduli of the numbers of calls and devices, by which they are also counted one by one."""


@dataclass(frozen=True, eq=False)
class Reports:
    """Reports through one mechanism, and the cells that each report's value touches or could touch.

    `which`: int, shape (reports,), the number of each report's value, below `values`. `before`: the
    number for the report before (for the first report, that of the last). `calls`, `devices`: int,
    shape (reports,), the number of each report's call, and of its device. `true_cells`: the columns
    of the report's row that its value touches, or, for a value that is replaced at random, could
    touch. `cells_before`: the same columns for the value before. `reported`, `touched`: bool, shape
    (reports, columns), for all kinds except SIGN. `firsts`: the first touched cell, or -1.
    `chances`: P(this cell is named), 0 where there is none. `usual_chances`: the same for each
    value in row 0. `keeps_row`: whether a device has one row for all calls.
    """

    mechanism: Mechanism
    values: int
    which: Ints
    before: Ints
    calls: Ints
    devices: Ints
    rows: Ints
    numbers: Sequence[int]
    true_cells: Sequence[Sequence[int]]
    cells_before: Sequence[Sequence[int]]
    reported: Bools
    touched: Bools
    firsts: Ints
    chances: Floats
    usual_chances: Floats
    keeps_row: bool

    @classmethod
    def of(
        cls,
        mechanism: Mechanism,
        values: Sequence[Value],
        which: Ints,
        reports: Sequence[tuple[int, bytes]],
        calls: Ints,
        devices: Ints,
        *,
        keeps_row: bool = False,
    ) -> "Reports":
        """Return the `Reports` of reports (row, payload) about values[which], in the order in which
        they were made. Raises ParameterError for a value that the mechanism does not know."""
        columns = mechanism.shape.columns
        numbers = [int.from_bytes(payload, "little") for _, payload in reports]
        rows, before = np.array([row for row, _ in reports], dtype=np.int64), np.roll(which, 1)
        places, places_before = (
            list(zip(numbers_of.tolist(), rows.tolist(), strict=True))
            for numbers_of in (which, before)
        )
        points = [mechanism.addressing.point(value) for value in values]
        every = {*places, *places_before, *((at, 0) for at in range(len(values)))}
        known = {(at, row): _touches(mechanism, points[at], row) for at, row in every}
        true_cells, firsts, chances = zip(*(known[key] for key in places), strict=True)
        if mechanism.kind.is_bitmap:
            reported = payload_bits([payload for _, payload in reports], columns)
        elif mechanism.kind is Index:
            reported = np.arange(columns) == np.array(numbers)[:, None]
        else:
            reported = np.zeros((len(reports), 0), dtype=bool)
        touched = np.zeros(reported.shape, dtype=bool)
        if reported.size:
            for i, cells in enumerate(true_cells):
                touched[i, cells] = True
        usual = np.array([known[at, 0][2] for at in range(len(values))])
        cells_before = [known[key][0] for key in places_before]
        return cls(
            *(mechanism, len(values), which, before, calls, devices, rows, numbers, true_cells),
            *(cells_before, reported, touched, np.array(firsts), np.array(chances), usual),
            keeps_row,
        )

    @cached_property
    def columns(self) -> Ints:
        """Column of each report of kind Index or Sign, -1 for others: int, shape (reports,)."""
        if self.mechanism.kind.is_bitmap:
            return np.full(len(self.numbers), -1)
        shift = int(self.mechanism.kind.is_signed)
        return np.array([number >> shift for number in self.numbers], dtype=np.int64)

    def numbers_by(self) -> Iterator[tuple[str, Ints, int]]:
        """Yield numbers that each report has, by which reports are counted, each with its name and
        the limit below which it is counted one by one."""
        yield ROW, self.rows, self.mechanism.shape.rows
        yield "call", self.calls, CALLS
        if self.values > 1:
            yield "device", self.devices, DEVICES
            yield VALUE, self.which, self.values
            yield VALUE_BEFORE, self.before, self.values

    def names(self, cells: Ints) -> Bools:
        """Return whether each report names its cell in `cells`. A cell of -1 stands for none."""
        if self.mechanism.kind.is_signed:
            names = self.mechanism.layout.names
            pairs = zip(self.numbers, cells.tolist(), strict=True)
            return np.array([cell >= 0 and names(number, cell) for number, cell in pairs])
        return np.take_along_axis(self.reported, cells[:, None], axis=1)[:, 0] & (cells >= 0)

    def touches(self, cells: Ints) -> Bools:
        """Return whether each report's value touches its cell in `cells`, or could touch it. A cell
        of -1 stands for none."""
        return np.take_along_axis(self.touched, cells[:, None], axis=1)[:, 0] & (cells >= 0)

    @cached_property
    def first_before(self) -> Ints:
        """First cell of the value before that each report's own value does not touch, or -1."""
        pairs = zip(self.cells_before, self.true_cells, strict=True)
        firsts = (next((c for c in cells if c not in true), -1) for cells, true in pairs)
        return np.fromiter(firsts, dtype=np.int64, count=len(self.numbers))


def _touches(mechanism: Mechanism, point: int, row: int) -> tuple[Sequence[int], int, float]:
    """Return the columns of `row` that a point touches or could touch, the one of them that it most
    often touches, and the probability that a report names this one."""
    addressing, channel = mechanism.addressing, mechanism.channel
    (touched, lie), chosen = channel.chances, 1.0
    untouched = 0.5 if mechanism.kind.is_signed else lie
    if isinstance(addressing, Rounding):
        steps = sorted(addressing.alternatives(point, row), reverse=True)
        sets = [(float(share), addressing.cells(place, row)) for share, place in steps]
        first = sets[0][1][0]
        chosen = sum(share for share, cells in sets if first in cells)
        cells: Sequence[int] = tuple(sorted({cell for _, some in sets for cell in some}))
    else:
        cells = tuple(addressing.cells(point, row))
        if not cells:
            return cells, -1, 0.0
        first = cells[0]
        if isinstance(addressing, Answers) and len(unpacked(point)) > addressing.at_most:
            # two answers may touch one cell
            if not isinstance(addressing.of, Identity):
                return cells, -1, 0.0
            chosen = addressing.at_most / len(unpacked(point))
    return cells, first, untouched + (touched - untouched) * chosen
