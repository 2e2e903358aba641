"""Addressings, which map values to cells of a table: base classes, and those without hashing."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import comb
from typing import ClassVar, Protocol

from ldp.errors import ParameterError
from ldp.protocol.channel import require_whole
from ldp.protocol.hashing import Value as Value
from ldp.protocol.hashing import value_bytes
from ldp.protocol.kinds import ManyCells
from ldp.protocol.randomness import ONE, BitSource, bernoulli, uniform_below

POINT_BITS = 61
"""Number of bits that hold any point plus 1: of the hash functions' field or of categories."""


class Addressing(Protocol):
    """Map from a value to a point, and from a point to the cells of a row that it touches."""

    def point(self, value: Value) -> int:
        """Return the integer that stands for `value`; raise ParameterError outside the domain."""

    def cells(self, point: int, row: int) -> Sequence[int]:
        """Return the columns of `row` that `point` touches, in increasing order."""


class RandomizedAddressing(Addressing, ABC):
    """Addressing in which a value is first replaced at random: a number by one of two steps, a set
    of too many answers by some of them. The points that `draw` returns touch cells."""

    @abstractmethod
    def draw(self, source: BitSource, point: int, row: int) -> int:
        """Draw the point that replaces `point` in `row`."""

    @abstractmethod
    def alternatives(self, point: int, row: int) -> Sequence[tuple[Fraction, int]]:
        """Return the points that `draw` may return, each after its probability, which is not 0."""


class Rounding(RandomizedAddressing):
    """Addressing of numbers by steps.

    A number lies between two whole steps, and the device rounds it to one of them at random: up
    with a probability in proportion to its distance from the step below, so that its mean is the
    number. The steps are the points that touch cells.
    """

    steps: int
    """Last step; the first is 0."""
    has_row_rounding: bool = False
    """True if a point is rounded differently in every row."""

    @abstractmethod
    def rounding(self, point: int, row: int) -> tuple[int, int]:
        """Return the step below `point`, and 2**64 times the probability of the step above."""

    def draw(self, source: BitSource, point: int, row: int) -> int:
        step, weight = self.rounding(point, row)
        return step + bernoulli(source, weight)

    def alternatives(self, point: int, row: int) -> Sequence[tuple[Fraction, int]]:
        step, weight = self.rounding(point, row)
        up = Fraction(weight, ONE)
        return [(share, place) for share, place in ((1 - up, step), (up, step + 1)) if share]


class Categories(tuple[str, ...]):
    """Categories that were checked, so that no mechanism over the same list checks them again."""


def require_categories(categories: Sequence[str], name: str = "categories") -> Categories:
    """Return `categories`, 2 or more distinct texts. Raises ParameterError, with `name`, for
    anything else."""
    if isinstance(categories, Categories):
        return categories
    as_list = getattr(categories, "to_list", None) or getattr(categories, "tolist", None)
    # an array, or a Series
    categories = categories if as_list is None else as_list()
    if not isinstance(categories, list | tuple) or not all(isinstance(c, str) for c in categories):
        raise ParameterError(f"{name} must be a list of texts")
    if len(set(categories)) < max(2, len(categories)):
        raise ParameterError(f"{name} must be 2 or more, all different")
    value_bytes("".join(categories))
    return Categories(categories)


@dataclass(frozen=True)
class Identity:
    """Addressing with one column a category, in their order. Values in `untouching` touch no
    cell."""

    categories: tuple[str, ...]
    untouching: tuple[str, ...] = ()

    @cached_property
    def _points(self) -> dict[Value, int]:
        return {name: i for i, name in enumerate(self.categories + self.untouching)}

    def point(self, value: Value) -> int:
        try:
            return self._points[value.decode() if isinstance(value, bytes) else value]
        except (KeyError, TypeError, UnicodeDecodeError):
            # it holds the value, and would be chained to an error that is raised here
            pass
        raise ParameterError(f"value is not one of the {len(self._points)} categories")

    def cells(self, point: int, row: int) -> Sequence[int]:
        return (point,) if point < len(self.categories) else ()


class CellSets(Identity, ABC):
    """Addressing with a set of columns for each category, all of one size. Any two sets share
    equally many columns. Category i stands for row i + `first_row` of a symmetric matrix of zeros
    and ones. The ones of this row are the set's columns."""

    first_row: ClassVar[int] = 0

    @abstractmethod
    def cells(self, point: int, row: int) -> ManyCells: ...


class Answers(RandomizedAddressing):
    """Addressing of sets of answers: a set touches all cells that its answers touch.

    `of`: addressing of one answer. `at_most`: largest number of answers that are reported. From a
    larger set this many are drawn, uniformly. `pads`: first pad column. A set with j answers fewer
    than `at_most` also touches j columns from this one on. None for no pads.
    """

    def __init__(self, of: Addressing, at_most: int, pads: int | None = None) -> None:
        self.of, self.at_most, self.pads = of, at_most, pads

    def point(self, value: Value) -> int:
        """Return the answers' points plus 1, in increasing order, as digits of base 2**61. Raises
        ParameterError for anything but a set of values of `of`."""
        if not isinstance(value, set | frozenset):
            raise ParameterError("a value must be a set of answers")
        return _packed(sorted({self.of.point(answer) for answer in value}))

    def draw(self, source: BitSource, point: int, row: int) -> int:
        answers = unpacked(point)
        if len(answers) <= self.at_most:
            return point
        for place in range(self.at_most):
            other = place + uniform_below(source, len(answers) - place)
            answers[place], answers[other] = answers[other], answers[place]
        return _packed(sorted(answers[: self.at_most]))

    def alternatives(self, point: int, row: int) -> Sequence[tuple[Fraction, int]]:
        answers = unpacked(point)
        size = min(self.at_most, len(answers))
        share = Fraction(1, comb(len(answers), size))
        return [(share, _packed(some)) for some in combinations(answers, size)]

    def cells(self, point: int, row: int) -> Sequence[int]:
        answers = unpacked(point)
        cells = {cell for answer in answers for cell in self.of.cells(answer, row)}
        if self.pads is not None:
            cells.update(range(self.pads, self.pads + self.at_most - len(answers)))
        return tuple(sorted(cells))


def _packed(answers: Sequence[int]) -> int:
    return sum(answer + 1 << POINT_BITS * place for place, answer in enumerate(answers))


def unpacked(point: int) -> list[int]:
    """Return the points of the answers of a set, in increasing order, from `Answers.point`."""
    answers = []
    while point:
        answers.append((point & (1 << POINT_BITS) - 1) - 1)
        point >>= POINT_BITS
    return answers


def require_at_most(at_most: object, answers: int, name: str = "at_most") -> None:
    """Raise ParameterError, with `name`, unless `at_most` is None, for one answer a person, or a
    whole number from 1 to `answers`."""
    if at_most is not None:
        require_whole(at_most, name, 1, answers)
