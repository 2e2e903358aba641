"""Subset selection: the least total error there is, told by a set of categories.

Sources: Wang et al. 2016 (mutual-information optimal); Ye and Barg 2018, section III. Counts are
recovered by `ldp/decoding/direct.py` from the channel stated here.
"""

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from ldp.errors import ParameterError
from ldp.mechanisms.base import Example
from ldp.mechanisms.categorical import Categorical, require_categories
from ldp.protocol.channel import EXACT, Channel, keep_probability, require_epsilon
from ldp.protocol.wire import Kind, Layout


@dataclass(frozen=True, kw_only=True)
class SubsetChannel(Channel):
    """Whether a cell is among the `size` reported of `columns`: these depend on each other, so what
    two values tell apart is not what their two cells tell by themselves."""

    size: int
    columns: int

    def ratio(self, first: int, second: int) -> Fraction:
        """Of a set with the first value and without the second: p (d - w) / ((1 - p) w)."""
        if not first and not second:
            return Fraction(1)
        return self.touched * (self.columns - self.size) / ((1 - self.touched) * self.size)


@dataclass(frozen=True, kw_only=True)
class SubsetSelection(Categorical):
    """Tell a set of `size` categories: uniform among those that hold the true one with probability
    p, else among those that do not.

    Report: one bit a category, w = `size` of them 1. With d categories p = w e**epsilon /
    (w e**epsilon + d - w), rounded down to a multiple of 2**-64; any other category is in the set
    with probability (w - p) / (d - 1). Bits have no order, so the place of the true one says
    nothing. The total error is the least of all mechanisms where w is nearest to
    d / (e**epsilon + 1), as it is unless told.

    >>> letters = SubsetSelection(categories=tuple("abcdefgh"), epsilon=1.0)
    >>> letters.size, letters.cost.epsilon <= 1.0
    (2, True)
    >>> round(letters.std_error(reports=10_000), 1)
    160.3

    Raises ParameterError for a size outside 1..d - 1. Other parameters, ranges and errors:
    `Categorical`.
    """

    name: ClassVar[str] = "subset"
    wire_id: ClassVar[int] = 15
    kind: ClassVar[Kind] = Kind.SUBSET

    size: int = 0

    def __post_init__(self) -> None:
        many = len(require_categories(self.categories))
        if self.size == 0 and type(self.size) is int:
            object.__setattr__(self, "size", tuned_size(require_epsilon(self.epsilon), many))
        if type(self.size) is not int or not 1 <= self.size < many:
            raise ParameterError("size must be a whole number, and below that of the categories")
        super().__post_init__()

    @cached_property
    def channel(self) -> SubsetChannel:
        many, size = len(self.categories), self.size
        told = keep_probability(self.epsilon, Fraction(many - size, size))
        return SubsetChannel(
            touched=told, untouched=(size - told) / (many - 1), size=size, columns=many
        )

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.kind, *self.shape, ones=self.size)

    @staticmethod
    def examples() -> tuple[Example, ...]:
        return (
            Example(SubsetSelection(categories=tuple("abcdefg"), epsilon=0.5), tuple("adg")),
            Example(SubsetSelection(categories=tuple("abcd"), epsilon=2.0, size=1), tuple("abd")),
        )


def tuned_size(epsilon: float, categories: int) -> int:
    """The whole number nearest to d / (e**epsilon + 1), 1 at least; exact on every machine."""
    power = EXACT.add(EXACT.exp(Decimal(epsilon)), Decimal(1))
    best = EXACT.divide(Decimal(categories), power)
    return max(1, int(best.to_integral_value(ROUND_HALF_EVEN)))
