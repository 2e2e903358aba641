"""Which cells of a table a value touches: the ways that know no hash."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from ldp.errors import ParameterError
from ldp.protocol.hashing import Value as Value


class Addressing(Protocol):
    """Which cells of a row a value touches: a point of the value, then the cells of the point."""

    def point(self, value: Value) -> int:
        """An integer that stands for the value; raises ParameterError for one it cannot place."""
        ...

    def cells(self, point: int, row: int) -> Sequence[int]:
        """The columns of `row` that the point touches, all different."""
        ...


class Rounding(ABC):
    """An addressing of numbers. A number lies between two whole steps, and the device rounds it to
    one of them at random before anything else happens: up with a probability in proportion, so that
    on average it stays what it is. The steps are the points that touch cells."""

    @abstractmethod
    def point(self, value: Value) -> int:
        """An integer that stands for the value; raises ParameterError for one it cannot place."""

    steps: int
    """The last step; the first is 0."""
    by_row: bool = False
    """Whether a point is rounded differently in every row."""

    @abstractmethod
    def rounding(self, point: int, row: int) -> tuple[int, int]:
        """The step below, and 2**64 times the probability of the next one."""

    @abstractmethod
    def cells(self, point: int, row: int) -> Sequence[int]:
        """The columns of `row` that a step touches."""


class ManyCells(Sequence[int]):
    """Cells of a row too many to list: how many there are, the number-th of them, and the number-th
    of those it leaves out."""

    @abstractmethod
    def outside(self, number: int) -> int:
        """A column that is not among the cells; a different one for each number."""


def outside(cells: Sequence[int], number: int) -> int:
    """The number-th of the columns that are not among `cells`."""
    if isinstance(cells, ManyCells):
        return cells.outside(number)
    for cell in sorted(cells):
        number += number >= cell
    return number


@dataclass(frozen=True)
class Identity:
    """One column a category, in their order; values listed in `untouching` touch no cell."""

    categories: tuple[str, ...]
    untouching: tuple[str, ...] = ()

    @cached_property
    def _points(self) -> dict[Value, int]:
        names = self.categories + self.untouching
        points: dict[Value, int] = {name: i for i, name in enumerate(names)}
        return points | {name.encode(): i for i, name in enumerate(names)}

    def point(self, value: Value) -> int:
        found = self._points.get(value) if isinstance(value, str | bytes) else None
        if found is None:  # not raised while handling a KeyError: that would carry the value along
            many = len(self._points) // 2
            raise ParameterError(f"value is not one of the {many} categories")
        return found

    def cells(self, point: int, row: int) -> Sequence[int]:
        return (point,) if point < len(self.categories) else ()
