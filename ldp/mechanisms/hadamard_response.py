"""Hadamard response: nearly the least error there is at small epsilon, in a report of a few bytes.

Source: Acharya, Sun and Zhang 2019 (AISTATS), section 3. Counts are recovered by
`ldp/decoding/geometry.py`, with one fast Walsh-Hadamard transform of the table.
"""

from dataclasses import dataclass
from functools import cached_property

from ldp.errors import ParameterError
from ldp.mechanisms.addressing import CellSets
from ldp.mechanisms.base import Case, Shape
from ldp.mechanisms.categorical import SetResponse
from ldp.protocol.kinds import ManyCells

MAX_COLUMNS = 1 << 26
"""Largest number of columns: a server keeps a number for each."""


@dataclass(frozen=True, kw_only=True)
class HadamardResponse(SetResponse):
    """Hadamard response: a column of a Hadamard matrix. Those with a plus in the category's row are
    likelier.

    Report: one of K columns, K being the least power of two above the number of categories.
    Category i has row i + 1 of the Sylvester matrix: of its K / 2 columns c in which
    popcount(c & (i + 1)) is even, one is reported with probability e**epsilon / (e**epsilon + 1),
    rounded down to a multiple of 2**-64, else one of the others. Any two rows share K / 4 columns.
    The variance of a rare value is (e**epsilon + 1)**2 / (e**epsilon - 1)**2 a report:
    cosh(epsilon / 2)**2 times the least possible, 1.06 times at epsilon 0.5 and 1.27 times at 1.

    >>> letters = HadamardResponse(categories=tuple("abcdefgh"), epsilon=0.5)
    >>> letters.shape.columns, letters.cost.epsilon <= 0.5
    (16, True)
    >>> round(letters.std_error(reports=10_000), 1)
    408.3

    Raises ParameterError for more than 2**26 columns. Other parameters, ranges and errors:
    `Categorical`.
    """

    name = "hadamard"
    wire_id = 23
    cases = (
        Case(*"aceg", categories=tuple("abcdefg"), epsilon=0.5),
        Case(*"abd", categories=tuple("abcd"), epsilon=1.0),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shape.columns > MAX_COLUMNS:
            raise ParameterError(f"categories must be fewer than {MAX_COLUMNS}")

    @property
    def touches(self) -> int:
        return self.shape.columns // 2

    @property
    def overlap(self) -> int:
        return self.shape.columns // 4

    @cached_property
    def addressing(self) -> "HadamardRows":
        return HadamardRows(self.categories)

    @cached_property
    def shape(self) -> Shape:
        return Shape(1, 1 << len(self.categories).bit_length())


@dataclass(frozen=True)
class HadamardRows(CellSets):
    """Addressing with the columns of row i + 1 of a Hadamard matrix that hold a plus, for the i-th
    category."""

    first_row = 1

    def cells(self, point: int, row: int) -> ManyCells:
        return PlusColumns(point + 1, 1 << len(self.categories).bit_length())


@dataclass(frozen=True)
class PlusColumns(ManyCells):
    """Columns c below `columns`, a power of two, in which popcount(c & `row`) is even (inside) or
    odd (outside). The number of a column has all its bits but the one at the lowest 1 of `row`.
    That bit follows from the parity."""

    row: int
    columns: int

    def _column(self, number: int, parity: int) -> int:
        pivot = self.row & -self.row
        column = (number & -pivot) << 1 | number & (pivot - 1)
        return column | pivot * ((column & self.row).bit_count() & 1 ^ parity)

    def __len__(self) -> int:
        return self.columns // 2

    def inside(self, number: int) -> int:
        return self._column(number, 0)

    def outside(self, number: int) -> int:
        return self._column(number, 1)

    def __contains__(self, column: object) -> bool:
        assert isinstance(column, int)
        return not (column & self.row).bit_count() & 1
