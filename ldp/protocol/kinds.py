"""Kinds of report: one column, any columns, a fixed number of columns, a column with a sign.

A kind is a class of layouts. It states how a payload is written, which cells it names, how likely
it is and how it is drawn: all that leaves a device is drawn by the `draw` methods, or in less time,
with the same distribution, by `ldp.mechanisms.report_functions`. Payloads are integers. As bytes
they are little-endian (`docs/wire.md` is the specification for other languages). Mechanisms state
the probabilities. Code for arrays of payloads is in `ldp.tables.table` and
`ldp.simulation.bulk_reports`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, combinations
from math import comb, isqrt
from typing import Any, ClassVar, overload

from ldp.errors import ParameterError, ReportError
from ldp.protocol.randomness import (
    ONE,
    PRECISION,
    BitSource,
    KeyedBits,
    SystemBits,
    bernoulli,
    is_below,
    uniform_below,
    usual_bytes,
)


class ManyCells(Sequence[int]):
    """Cells of a row, too many to list: a sequence that computes its entries."""

    @abstractmethod
    def inside(self, number: int) -> int:
        """Return one of the cells, a different one for each `number` from 0."""

    @abstractmethod
    def outside(self, number: int) -> int:
        """Return a column that is not among the cells, a different one for each `number` from 0."""

    @overload
    def __getitem__(self, number: int) -> int: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[int]: ...
    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self.inside(i) for i in range(*number.indices(len(self)))]
        if not -len(self) <= number < len(self):
            raise IndexError("no such cell")
        return self.inside(number % len(self))

    def __iter__(self) -> Iterator[int]:
        return map(self.inside, range(len(self)))


def outside(cells: Sequence[int], number: int) -> int:
    """Return the column at index `number` among the columns that are not in `cells`, which are
    `ManyCells` or a tuple or range in increasing order."""
    if isinstance(cells, (tuple, range)):
        for cell in cells:
            number += number >= cell
        return number
    assert isinstance(cells, ManyCells)
    return cells.outside(number)


def as_bits(cells: Iterable[int]) -> int:
    """Return the integer whose bits at `cells`, all different, are 1."""
    bits = 0
    for cell in cells:
        bits |= 1 << cell
    return bits


def bytes_below(limit: int) -> int:
    """Return how many bytes hold any integer in [0, limit). Returns 0 for a limit of 1."""
    return ((limit - 1).bit_length() + 7) // 8


class Layout(ABC):
    """Body of a report: `row_bytes` of row number, then `payload_bytes`. Subclasses are the kinds.

    `rows`, `columns`: of the table. `ones`: number of columns that every report names, 0 where that
    varies. In all methods `number` is a payload as an integer, and `cells` are the columns of the
    report's row that a value touches. `touched` and `untouched` are the probabilities that a report
    names one of these and one of the others. For a sign they are the probability that it is true,
    and 1/2.
    """

    is_bitmap: ClassVar[bool] = False
    """True if the payload has a bit for every column: column c is bit c % 8 of byte c // 8."""
    is_bitwise: ClassVar[bool] = False
    """True if a report names every column independently of the others."""
    is_signed: ClassVar[bool] = False
    """True if a report adds 1 or -1 to a cell."""

    def __init__(self, rows: int, columns: int, ones: int = 0) -> None:
        self.rows, self.columns, self.ones = rows, columns, ones
        self.row_bytes = bytes_below(rows)
        self.payload_bytes = bytes_below(self.payload_limit)
        self.body_bytes = self.row_bytes + self.payload_bytes

    @cached_property
    @abstractmethod
    def payload_limit(self) -> int:
        """Number that every payload, as an integer, is below."""

    @abstractmethod
    def names(self, number: int, cell: int) -> bool:
        """Return whether the payload `number` names the column `cell`."""

    @abstractmethod
    def probability(self, number: int, cells: Sequence[int], touched: Any, untouched: Any) -> Any:
        """Return P(payload is `number` | row), exact where `touched` and `untouched` are
        fractions."""

    @abstractmethod
    def draw(self, source: BitSource, cells: Sequence[int], touched: int, untouched: int) -> int:
        """Draw the payload of a value that touches `cells`. `touched` and `untouched`: 2**64 times
        the probabilities, `touched` being that of naming any of the cells (Index, Subset)."""

    def any_probability(self, touched: Any, touches: int) -> Any:
        """Return what `draw` takes as `touched`, before it is scaled, where a value touches
        `touches` cells, each named with probability `touched`: itself, unless overridden."""
        return touched

    @cached_property
    def random_bytes(self) -> tuple[int, int]:
        """Numbers of bytes with which a report's `ReportBits` is made: `size` and `tops`."""
        size, tops = usual_bytes(self.columns if self.is_bitmap else 1)
        return 24 + size, tops

    @property
    def outcomes(self) -> int:
        """Number of different payloads."""
        return self.payload_limit

    @property
    def parts(self) -> tuple["Layout", ...]:
        """The layout itself, as the only part of the report."""
        return (self,)

    def split(self, row: int, payload: bytes) -> list[tuple[int, bytes]]:
        """Return `row` and `payload`, those of the only part."""
        return [(row, payload)]

    def join(self, parts: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Return row and payload of the only one of `parts`."""
        return parts[0]

    def numbers(self) -> Iterable[int]:
        """Return all payloads, as integers."""
        return range(self.payload_limit)

    def payload_number(self, payload: bytes) -> int:
        """Return `payload` as an integer. Raises ReportError for a column out of range, padding
        bits that are set, or a wrong number of ones."""
        number = int.from_bytes(payload, "little")
        if number >= self.payload_limit:
            raise ReportError(
                "report has padding bits set"
                if self.is_bitmap
                else f"report names a column outside 0..{self.columns - 1}"
            )
        return number


Kind = type[Layout]
"""Kind of report, as its class: `Index`, `Bits`, `Subset` or `Sign`."""


class Index(Layout):
    """Layout of a report that names one column. The payload is the column."""

    def __init__(self, rows: int, columns: int, ones: int = 1) -> None:
        super().__init__(rows, columns, ones)

    @cached_property
    def payload_limit(self) -> int:
        return self.columns

    def names(self, number: int, cell: int) -> bool:
        return number == cell

    def payload_of(self, cells: Sequence[int]) -> int:
        """Return the payload that names the only one of `cells`."""
        (column,) = cells
        return column

    def probability(self, number: int, cells: Sequence[int], touched: Any, untouched: Any) -> Any:
        return touched if number in cells else untouched

    def any_probability(self, touched: Any, touches: int) -> Any:
        return touches * touched

    def draw(self, source: BitSource, cells: Sequence[int], touched: int, untouched: int) -> int:
        """Draw one of `cells` with probability `touched`, else one of the other columns. The draw
        is uniform either way.

        From the operating system, and from a keyed stream that nothing else reads later, both a
        cell and another column are drawn, so that the time does not depend on which is returned.
        """
        touches = len(cells)
        others = self.columns - touches
        if isinstance(source, SystemBits):
            other = outside(cells, uniform_below(source, others)) if others else 0
            cell = cells[uniform_below(source, touches) if touches > 1 else 0]
            return (other, cell)[is_below(source.uniform(), touched)]
        is_touched = bernoulli(source, touched)
        if isinstance(source, KeyedBits):
            other = outside(cells, uniform_below(copy(source), others)) if others else 0
            return (other, cells[uniform_below(copy(source), touches)])[is_touched]
        if is_touched:
            return cells[uniform_below(source, touches)]
        return outside(cells, uniform_below(source, others))

    def randomise(self, source: BitSource, number: int, touched: int, untouched: int) -> int:
        """Draw the column `number` with probability `touched`, else another column."""
        return self.draw(source, (number,), touched, untouched)


class Bits(Layout):
    """Layout of a report that names any number of columns: a bit a column, unused high bits 0."""

    is_bitmap = True
    is_bitwise = True

    @cached_property
    def payload_limit(self) -> int:
        return 1 << self.columns

    def names(self, number: int, cell: int) -> bool:
        return bool(number >> cell & 1)

    def payload_of(self, cells: Sequence[int]) -> int:
        """Return the payload that names exactly `cells`."""
        return as_bits(cells)

    def probability(self, number: int, cells: Sequence[int], touched: Any, untouched: Any) -> Any:
        true = sum(number >> cell & 1 for cell in cells)
        false = number.bit_count() - true
        absent, others = len(cells) - true, self.columns - len(cells) - false
        of_cells = touched**true * (1 - touched) ** absent
        return of_cells * untouched**false * (1 - untouched) ** others

    def draw(self, source: BitSource, cells: Sequence[int], touched: int, untouched: int) -> int:
        """Draw a bit for every column: 1 with probability `touched` at `cells`, elsewhere with
        `untouched`."""
        return bernoulli(source, untouched, self.columns, as_bits(cells), touched)

    def randomise(self, source: BitSource, number: int, touched: int, untouched: int) -> int:
        """Draw a bit for every column: 1 with probability `touched` where `number` names it,
        elsewhere with `untouched`."""
        return bernoulli(source, untouched, self.columns, number, touched)


class Subset(Bits):
    """Layout of a report that names a set of `ones` columns. With one probability the set has some
    of the cells that a value touches, else none. All such sets are equally probable."""

    is_bitwise = False

    def __init__(self, rows: int, columns: int, ones: int = 0) -> None:
        if not 0 < ones <= columns:
            raise ParameterError("a set needs `ones`, from 1 to its columns")
        super().__init__(rows, columns, ones)

    @property
    def outcomes(self) -> int:
        return comb(self.columns, self.ones)

    def numbers(self) -> Iterable[int]:
        return map(as_bits, combinations(range(self.columns), self.ones))

    def payload_number(self, payload: bytes) -> int:
        number = super().payload_number(payload)
        if number.bit_count() != self.ones:
            raise ReportError(f"report does not name exactly {self.ones} columns")
        return number

    def any_probability(self, touched: Any, touches: int) -> Any:
        naming_one = comb(self.columns - 1, self.ones - 1)
        return touched * (self.outcomes - self.naming(touches, 0)) / naming_one

    def probability(self, number: int, cells: Sequence[int], touched: Any, untouched: Any) -> Any:
        if any(self.names(number, cell) for cell in cells):
            return touched / comb(self.columns - 1, self.ones - 1)
        return (1 - self.any_probability(touched, len(cells))) / self.naming(len(cells), 0)

    def pair_probabilities(self, touched: Any, touches: int) -> tuple[Any, Any]:
        """Return the probabilities that a report names both of two cells: if one or both are
        touched, and if neither is. A value touches `touches` cells, each of which is named with
        probability `touched`. It is exact where that is a fraction."""
        if self.ones < 2:
            return 0 * touched, 0 * touched
        with_both = comb(self.columns - 2, self.ones - 2)
        with_others = comb(max(0, self.columns - touches - 2), self.ones - 2)
        cells = range(touches)
        of_touched, of_others = (self.probability(n, cells, touched, 0) for n in (1, 0))
        pair = (with_both - with_others) * of_touched + with_others * of_others
        return with_both * of_touched, pair

    def draw(self, source: BitSource, cells: Sequence[int], touched: int, untouched: int) -> int:
        """Draw with probability `touched` a uniform set of columns among those that name one of
        `cells` or more, else among the others.

        From the operating system all numbers of cells are drawn, so that the time does not depend
        on which is returned.
        """
        if isinstance(source, SystemBits):
            inside, subset = self._draw_each_size(source, len(cells))[
                bernoulli(source, touched) * self._draw_size(source, len(cells))
            ]
        else:
            size = bernoulli(source, touched) * self._draw_size(source, len(cells))
            inside = _draw_set(source, len(cells), size) if len(cells) > 1 else size
            subset = _draw_set(source, self.columns - len(cells), self.ones - size, self._coin)
        for place, cell in enumerate(cells):  # in increasing order
            below = (1 << cell) - 1
            subset = subset & below | (inside >> place & 1) << cell | (subset & ~below) << 1
        return subset

    @cached_property
    def _coin(self) -> int:
        return self.ones * ONE // self.columns

    @cached_property
    def coarse_coin(self) -> int:
        """Coin for all columns but one, decided by one byte. Where columns are few it errs towards
        too few, because adding columns costs less than removing them."""
        few = self.ones - 1
        usual = few - isqrt(few) * (self.columns - 2 * few) // self.columns
        return min(256, 256 * usual // self.columns) << PRECISION - 8

    def naming(self, cells: int, size: int) -> int:
        """Return the number of reports that name exactly `size` of `cells` cells."""
        return comb(cells, size) * comb(self.columns - cells, self.ones - size)

    def size_shares(self, cells: int) -> list[Fraction]:
        """Return the probabilities that a uniform report among those that name one or more of
        `cells` cells names exactly 1, 2, ... of them."""
        naming_any = self.outcomes - self.naming(cells, 0)
        sizes = range(1, min(cells, self.ones) + 1)
        return [Fraction(self.naming(cells, size), naming_any) for size in sizes]

    def _draw_size(self, source: BitSource, cells: int) -> int:
        """Draw how many of `cells` cells such a report names."""
        if cells == 1:
            return 1
        bounds = _size_bounds(self, cells)
        number = uniform_below(source, bounds[-1])
        return 1 + sum(number >= bound for bound in bounds)

    def _draw_each_size(self, source: BitSource, cells: int) -> list[tuple[int, int]]:
        """Draw a uniform set of `cells` cells and one of the other columns for each number of cells
        that a report may name, 0 first. Each set has all of a smaller one."""
        most, others = min(cells, self.ones), self.columns - cells
        inside, left = [0], list(range(cells))
        subsets = [_draw_set(source, others, self.ones - most, self.coarse_coin)]
        for size in range(most):
            inside.append(inside[-1] | 1 << left.pop(uniform_below(source, cells - size)))
            subsets.append(_resize(source, others, subsets[-1], self.ones - most + size + 1))
        return list(zip(inside, reversed(subsets), strict=True))


@lru_cache(maxsize=64)
def _size_bounds(layout: Subset, cells: int) -> tuple[int, ...]:
    """Return the numbers of reports that name at least one and at most 1, 2, ... of `cells`
    cells."""
    sizes = range(1, min(cells, layout.ones) + 1)
    return tuple(accumulate(layout.naming(cells, size) for size in sizes))


def _draw_set(source: BitSource, columns: int, size: int, coin: int = 0) -> int:
    """Draw a uniform set of `size` of `columns` columns, as bits: coins of probability coin / 2**64
    choose its first columns, and uniform columns are added or removed until the number is right."""
    return _resize(source, columns, bernoulli(source, coin, columns), size)


def _resize(source: BitSource, columns: int, subset: int, size: int) -> int:
    """Add or remove uniform ones of `columns` columns until `subset` has `size` of them."""
    missing = size - subset.bit_count()
    while missing:
        column = 1 << uniform_below(source, columns)
        if bool(subset & column) == (missing < 0):
            subset ^= column
            missing += 1 if missing < 0 else -1
    return subset


class Sign(Layout):
    """Layout of a report that names a column of the Hadamard matrix with a sign, as the payload
    2 * column + (1 for a minus). It names every cell whose sign in that column is the report's. A
    value touches one cell."""

    is_signed = True

    def __init__(self, rows: int, columns: int) -> None:
        if columns & columns - 1:
            raise ParameterError("a sign needs columns in a power of 2")
        super().__init__(rows, columns)

    @cached_property
    def payload_limit(self) -> int:
        return 2 * self.columns

    def names(self, number: int, cell: int) -> bool:
        return (number >> 1 & cell).bit_count() & 1 == number & 1

    def probability(self, number: int, cells: Sequence[int], touched: Any, untouched: Any) -> Any:
        (cell,) = cells
        return (touched if self.names(number, cell) else 1 - touched) / self.columns

    def draw(self, source: BitSource, cells: Sequence[int], touched: int, untouched: int) -> int:
        """Draw a uniform column of the Hadamard matrix, and the touched cell's sign there, which is
        true with probability `touched`."""
        (cell,) = cells
        column = uniform_below(source, self.columns)
        true = column << 1 | (column & cell).bit_count() & 1
        return (true ^ 1, true)[bernoulli(source, touched)]
