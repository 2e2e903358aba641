"""Addressings, which map values to cells of a table: base classes, and those without hashing."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from ldp.errors import ParameterError
from ldp.protocol.hashing import Value as Value
from ldp.protocol.hashing import value_bytes
from ldp.protocol.kinds import ManyCells


class Addressing(Protocol):
    """Map from a value to a point, and from a point to the cells of a row that it touches."""

    def point(self, value: Value) -> int:
        """Return the integer that stands for `value`; raise ParameterError outside the domain."""
        ...

    def cells(self, point: int, row: int) -> Sequence[int]:
        """Return the columns of `row` that `point` touches, all different."""
        ...


class Rounding(ABC):
    """Addressing of numbers by steps.

    A number lies between two whole steps, and the device rounds it to one of them at random: up
    with a probability in proportion to its distance from the step below, so that its mean is the
    number. The steps are the points that touch cells.
    """

    @abstractmethod
    def point(self, value: Value) -> int:
        """Return the integer that stands for `value`; raise ParameterError outside the domain."""

    steps: int
    """Last step; the first is 0."""
    has_row_rounding: bool = False
    """True if a point is rounded differently in every row."""

    @abstractmethod
    def rounding(self, point: int, row: int) -> tuple[int, int]:
        """Return the step below `point`, and 2**64 times the probability of the step above."""

    @abstractmethod
    def cells(self, point: int, row: int) -> Sequence[int]:
        """Return the columns of `row` that the step `point` touches."""


class Categories(tuple[str, ...]):
    """Categories that were checked, so that no mechanism over the same list checks them again."""


def require_categories(categories: Sequence[str]) -> Categories:
    """Return `categories`, 2 or more distinct texts; raise ParameterError for anything else."""
    if isinstance(categories, Categories):
        return categories
    if not isinstance(categories, list | tuple) or not all(isinstance(c, str) for c in categories):
        raise ParameterError("categories must be a list of texts")
    if len(set(categories)) < max(2, len(categories)):
        raise ParameterError("categories must be 2 or more, all different")
    value_bytes("".join(categories))
    return Categories(categories)


@dataclass(frozen=True)
class Identity:
    """Addressing with one column a category, in their order; values in `untouching` touch no
    cell."""

    categories: tuple[str, ...]
    untouching: tuple[str, ...] = ()

    @cached_property
    def _points(self) -> dict[Value, int]:
        names = self.categories + self.untouching
        points: dict[Value, int] = {name: i for i, name in enumerate(names)}
        return points | {name.encode(): i for i, name in enumerate(names)}

    def point(self, value: Value) -> int:
        point = self._points.get(value) if isinstance(value, str | bytes) else None
        if point is None:  # not raised while handling a KeyError, which would hold the value
            raise ParameterError(f"value is not one of the {len(self._points) // 2} categories")
        return point

    def cells(self, point: int, row: int) -> Sequence[int]:
        return (point,) if point < len(self.categories) else ()


class CellSets(Identity, ABC):
    """Addressing with a set of columns for each category, all of one size; any two sets share
    equally many columns."""

    @abstractmethod
    def cells(self, point: int, row: int) -> ManyCells: ...
