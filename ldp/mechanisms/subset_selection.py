"""Subset selection: the least total error of all mechanisms, in a report of a set of categories.

Sources: Wang et al. 2016 (mutual-information optimal); Ye and Barg 2018, section III. Counts are
recovered by `ldp/decoding/direct.py` from the channel stated here.
"""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property

from ldp.mechanisms.addressing import require_categories
from ldp.mechanisms.base import Case, Setting
from ldp.mechanisms.categorical import Categorical, SetChannel
from ldp.protocol.channel import (
    EXACT,
    keep_probability,
    nearest_whole,
    power_plus_one,
    require_epsilon,
    require_whole,
)
from ldp.protocol.kinds import Subset


@dataclass(frozen=True, kw_only=True)
class SubsetSelection(Categorical):
    """Subset selection: a set of `size` categories. With probability p it is a uniform one of the
    sets with the true category, else a uniform one of the sets without it.

    Report: one bit a category, w = `size` of them 1. With d categories p = w e**epsilon / (w
    e**epsilon + d - w), rounded down to a multiple of 2**-64. Any other category is in the set with
    probability (w - p) / (d - 1). The total error is the least of all mechanisms for the w nearest
    to d / (e**epsilon + 1), which is the default.

    >>> letters = SubsetSelection(categories=tuple("abcdefgh"), epsilon=1.0)
    >>> letters.size, letters.cost.epsilon <= 1.0
    (2, True)
    >>> round(letters.std_error(reports=10_000), 1)
    160.3

    Raises ParameterError for a size outside 1..d - 1. Other parameters, ranges and errors:
    `Categorical`.
    """

    name = "subset"
    wire_id = 15
    kind = Subset
    settings = (Setting({}),)
    cases = (
        Case(*"adg", categories=tuple("abcdefg"), epsilon=0.5),
        Case(*"abd", categories=tuple("abcd"), epsilon=2.0, size=1),
    )

    size: int = 0

    def __post_init__(self) -> None:
        columns = len(require_categories(self.categories))
        if self.size == 0 and type(self.size) is int:
            object.__setattr__(self, "size", tuned_size(require_epsilon(self.epsilon), columns))
        require_whole(self.size, "size", 1, columns - 1)
        super().__post_init__()

    @cached_property
    def channel(self) -> SetChannel:
        columns, size = len(self.categories), self.size
        odds = Fraction(columns - size, size)
        touched = keep_probability(self.epsilon, odds)
        untouched = (size - touched) / (columns - 1)
        return SetChannel(touched=touched, untouched=untouched, any_touched=touched, odds=odds)

    @cached_property
    def layout(self) -> Subset:
        return Subset(*self.shape, ones=self.size)


def tuned_size(epsilon: float, categories: int) -> int:
    """Return the whole number nearest to `categories` / (e**epsilon + 1), at least 1. It is exact
    on every machine."""
    return nearest_whole(EXACT.divide(Decimal(categories), power_plus_one(epsilon)), 1)
