"""Unary encoding: a bit for every category, randomised independently. It takes one answer or
several.

Source: Wang, Blocki, Li and Jha 2017, section 4.3 (symmetric: basic one-time RAPPOR; optimised:
OUE). Counts are recovered by `ldp/decoding/direct.py` from the channel stated here.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from ldp.errors import require_one_of
from ldp.mechanisms.addressing import Addressing, Answers, require_at_most, require_categories
from ldp.mechanisms.base import Case, Setting
from ldp.mechanisms.categorical import Categorical
from ldp.protocol.channel import Channel, keep_probability, most_differing
from ldp.protocol.kinds import Bits


@dataclass(frozen=True, kw_only=True)
class UnaryEncoding(Categorical):
    """Unary encoding: a one-hot vector of the categories, every bit randomised.

    Report: one bit a category. `variant` "symmetric" keeps every bit with probability
    e**(epsilon/2) / (e**(epsilon/2) + 1), rounded down to a multiple of 2**-64. "optimized" sets
    the true bit with probability 1/2 and any other with 1 / (e**epsilon + 1), rounded up, which has
    the least variance for rare values. Two values differ in two bits. So epsilon = ln(touched (1 -
    untouched) / (untouched (1 - touched))).

    With `at_most` = m a value is a set of answers. Two sets differ in up to 2 m bits (all, if there
    are fewer categories), so each bit has the channel of epsilon / m: m times the epsilon of one
    answer at the same accuracy. From a larger set m answers are drawn, uniformly. So the counts of
    its answers are too low. `privset` has less variance.

    >>> letters = UnaryEncoding(categories=("a", "b", "c"), epsilon=2.0, variant="optimized")
    >>> letters.cost.epsilon <= 2.0
    True
    >>> round(letters.std_error(reports=10_000), 1)   # sqrt(4 n e**eps / (e**eps - 1)**2)
    85.1

    Other parameters, ranges and errors: `Categorical`.
    """

    name = "unary"
    wire_id = 4
    kind = Bits
    settings = (
        Setting({"variant": "symmetric"}),
        Setting({"variant": "optimized"}),
    )
    cases = (
        Case(*"abd", categories=tuple("abcd"), epsilon=2.0),
        Case(*"abd", categories=tuple("abcd"), epsilon=1.0, variant="optimized"),
        Case(*map(frozenset, ("abc", "d", "b")), categories=tuple("abcd"), epsilon=3.0, at_most=3),
        Case(
            *map(frozenset, ("ab", "cd", "")),
            categories=tuple("abcd"),
            epsilon=2.0,
            variant="optimized",
            at_most=2,
        ),
    )

    variant: str = "symmetric"
    at_most: int | None = None

    def __post_init__(self) -> None:
        require_one_of(self.variant, ("symmetric", "optimized"), "variant")
        require_at_most(self.at_most, len(require_categories(self.categories)))
        super().__post_init__()

    @cached_property
    def addressing(self) -> Addressing:
        single = super().addressing
        return Answers(single, self.at_most) if self.at_most else single

    @cached_property
    def channel(self) -> Channel:
        answers = self.at_most or 1
        differing = most_differing(answers, len(self.categories))
        if self.variant == "symmetric":
            touched = keep_probability(Fraction(self.epsilon) / sum(differing), others=1)
            return Channel(touched=touched, untouched=1 - touched, differing=differing)
        untouched = 1 - keep_probability(Fraction(self.epsilon) / answers, others=1)
        return Channel(touched=Fraction(1, 2), untouched=untouched, differing=differing)
