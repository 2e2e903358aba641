"""Base of mechanisms over a list of categories: one row, and a column for each category."""

from abc import ABC
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from ldp.mechanisms.addressing import Addressing, Identity, require_categories
from ldp.mechanisms.base import Mechanism, Setting, Shape
from ldp.protocol.channel import Channel, convert, direct_channel, require_epsilon
from ldp.protocol.kinds import Index


@dataclass(frozen=True, kw_only=True)
class Categorical(Mechanism, ABC):
    """Mechanism over a list of categories.

    `categories`: 2 or more distinct texts, in the order of the columns. `epsilon`: in (0, 64].
    Raises ParameterError otherwise.
    """

    categories: tuple[str, ...]
    epsilon: float

    def __post_init__(self) -> None:
        convert(self, categories=require_categories, epsilon=require_epsilon)
        # raises for an epsilon too small for the thresholds
        _ = self.channel

    @cached_property
    def addressing(self) -> Addressing:
        return Identity(self.categories)

    @cached_property
    def shape(self) -> Shape:
        return Shape(1, len(self.categories))


@dataclass(frozen=True, kw_only=True)
class SetChannel(Channel):
    """Channel of reports that name a set of cells: a uniform one of the sets with at least one of a
    value's cells, or a uniform one of the sets without.

    `any_touched`: probability of a set with one. `odds`: (number of sets without) / (number of sets
    with). The cells of a report depend on each other. So the ratio of two values is not a product.
    """

    any_touched: Fraction
    odds: Fraction

    def ratio(self, first: int, second: int) -> Fraction:
        """Return P(set | first value) / P(set | second value) for a set with a cell of the first
        value and none of the second. It is 1 if `first` and `second` are 0."""
        if not first and not second:
            return Fraction(1)
        return self.any_touched * self.odds / (1 - self.any_touched)


@dataclass(frozen=True, kw_only=True)
class SetResponse(Categorical, ABC):
    """Mechanism whose report is one column. The columns of the category's own set are likelier.

    Of K columns S = `touches` are in the set, and `overlap` of them in any other. A column of the
    value's set has probability P / S, with P = S e**epsilon / (S e**epsilon + K - S) rounded down
    to a multiple of 2**-64, any other (1 - P) / (K - S).
    """

    kind = Index
    settings = (Setting({}),)

    @cached_property
    def channel(self) -> Channel:
        return direct_channel(self.epsilon, self.shape.columns - self.touches, self.touches)

    @cached_property
    def support(self) -> Channel:
        p, q = self.channel.touched, self.channel.untouched
        shared, others = self.overlap, self.touches - self.overlap
        return Channel(touched=self.touches * p, untouched=shared * p + others * q)
