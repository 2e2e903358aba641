"""PrivSet: a person's set of answers, in a report of a set of categories.

Source: Wang and others 2018 (INFOCOM), PrivSet: analyses of set-valued data. Counts are recovered
by `ldp/decoding/direct.py` from its channel.
"""

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb

from ldp.mechanisms.addressing import Answers, require_categories
from ldp.mechanisms.base import Case, Setting, Shape
from ldp.mechanisms.categorical import Categorical, SetChannel
from ldp.protocol.channel import keep_probability, require_epsilon, require_whole
from ldp.protocol.kinds import Subset

SETS = (frozenset("ab"), frozenset("d"), frozenset[str]())
"""Values of examples."""


@dataclass(frozen=True, kw_only=True)
class PrivSet(Categorical):
    """PrivSet: a set of `size` columns, likelier if it names an answer of the person.

    A value is a set of answers. The table has a column for each of d categories and for each of
    `at_most` = m pads. A person with j < m answers also touches the first m - j pads. So every
    value touches m of d + m columns, and its number of answers is not reported. From a larger set m
    answers are drawn, uniformly: an answer of somebody with j > m is counted with probability m/j.

    Report: one bit a column, w = `size` of them 1. Of C(d + m, w) such sets D = C(d, w) name no
    touched column and H = C(d + m, w) - D name one or more. With probability P = H e**epsilon /
    (H e**epsilon + D), rounded down to a multiple of 2**-64, the report is a uniform one of the H
    sets, else of the D. A touched column is named with probability P C(d + m - 1, w - 1) / H, any
    other with (w - m touched) / d. `size` is by default the one with the least variance for rare
    answers.

    >>> apps = PrivSet(categories=tuple("abcdefghijkl"), epsilon=2.0, at_most=3)
    >>> apps.size, apps.cost.epsilon <= 2.0
    (1, True)
    >>> round(apps.std_error(reports=10_000), 1)
    90.1

    Raises ParameterError for a size outside 1..d and for `at_most` outside 1..d. Other parameters,
    ranges and errors: `Categorical`.
    """

    name = "privset"
    wire_id = 24
    kind = Subset
    settings = (Setting({"at_most": 3}),)
    cases = (
        Case(*SETS, categories=tuple("abcdef"), epsilon=1.0, at_most=2, size=3),
        Case(*SETS, categories=tuple("abcd"), epsilon=2.0, at_most=3),
    )

    at_most: int
    size: int = 0

    def __post_init__(self) -> None:
        categories = len(require_categories(self.categories))
        require_whole(self.at_most, "at_most", 1, categories)
        if self.size == 0 and type(self.size) is int:
            epsilon = require_epsilon(self.epsilon)
            object.__setattr__(self, "size", tuned_set_size(epsilon, categories, self.at_most))
        require_whole(self.size, "size", 1, categories)
        super().__post_init__()

    @cached_property
    def channel(self) -> SetChannel:
        return channel_of(self.epsilon, len(self.categories), self.at_most, self.size)

    @cached_property
    def addressing(self) -> Answers:
        return Answers(super().addressing, self.at_most, pads=len(self.categories))

    @cached_property
    def shape(self) -> Shape:
        return Shape(1, len(self.categories) + self.at_most)

    @cached_property
    def layout(self) -> Subset:
        return Subset(*self.shape, ones=self.size)

    @property
    def touches(self) -> int:
        return self.at_most


def channel_of(epsilon: float, categories: int, at_most: int, size: int) -> SetChannel:
    """Return the channel of sets of `size` of `categories` + `at_most` columns."""
    columns = categories + at_most
    without = comb(categories, size)
    odds = Fraction(without, comb(columns, size) - without)
    any_touched = keep_probability(epsilon, odds)
    touched = any_touched * odds * comb(columns - 1, size - 1) / without
    untouched = (size - at_most * touched) / categories
    return SetChannel(touched=touched, untouched=untouched, any_touched=any_touched, odds=odds)


def tuned_set_size(epsilon: float, categories: int, at_most: int) -> int:
    """Return the size with the least variance for rare answers, which has one minimum. It comes
    from exact fractions, so it is the same on every machine."""

    def noise(size: int) -> Fraction:
        channel = channel_of(epsilon, categories, at_most, size)
        spread = channel.untouched * (1 - channel.untouched)
        return spread / (channel.touched - channel.untouched) ** 2

    sizes = range(1, categories)
    return 1 + bisect_left(sizes, True, key=lambda size: noise(size) <= noise(size + 1))
