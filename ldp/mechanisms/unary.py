"""Unary encoding: a bit for every category, randomised independently.

Source: Wang, Blocki, Li and Jha 2017, section 4.3 (symmetric: basic one-time RAPPOR; optimised:
OUE). Counts are recovered by `ldp/decoding/direct.py` from the channel stated here.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from ldp.errors import ParameterError
from ldp.mechanisms.base import Example, Setting
from ldp.mechanisms.categorical import Categorical
from ldp.protocol.channel import Channel, direct_channel, keep_probability
from ldp.protocol.kinds import Bits, Kind


@dataclass(frozen=True, kw_only=True)
class UnaryEncoding(Categorical):
    """Unary encoding: a one-hot vector of the categories, every bit randomised.

    Report: one bit a category. `variant` "symmetric" keeps every bit with probability
    e**(epsilon/2) / (e**(epsilon/2) + 1), rounded down to a multiple of 2**-64; "optimized" sets
    the true bit with probability 1/2 and any other with 1 / (e**epsilon + 1), rounded up, which has
    the least variance for rare values. Two values differ in two bits, so
    epsilon = ln(touched (1 - untouched) / (untouched (1 - touched))).

    >>> letters = UnaryEncoding(categories=("a", "b", "c"), epsilon=2.0, variant="optimized")
    >>> letters.cost.epsilon <= 2.0
    True
    >>> round(letters.std_error(reports=10_000), 1)   # sqrt(4 n e**eps / (e**eps - 1)**2)
    85.1

    Other parameters, ranges and errors: `Categorical`.
    """

    name: ClassVar[str] = "unary"
    wire_id: ClassVar[int] = 4
    kind: ClassVar[Kind] = Bits
    settings: ClassVar[tuple[Setting, ...]] = (
        Setting({"variant": "symmetric"}),
        Setting({"variant": "optimized"}),
    )

    variant: str = "symmetric"

    def __post_init__(self) -> None:
        if self.variant not in ("symmetric", "optimized"):
            raise ParameterError('variant must be "symmetric" or "optimized"')
        super().__post_init__()

    @cached_property
    def channel(self) -> Channel:
        if self.variant == "symmetric":
            return direct_channel(Fraction(self.epsilon) / 2, others=1, differing=(1, 1))
        untouched = 1 - keep_probability(self.epsilon, others=1)
        return Channel(touched=Fraction(1, 2), untouched=untouched, differing=(1, 1))

    @staticmethod
    def examples() -> tuple[Example, ...]:
        return tuple(
            Example(
                UnaryEncoding(categories=tuple("abcd"), epsilon=epsilon, variant=variant),
                tuple("abd"),
            )
            for epsilon, variant in ((2.0, "symmetric"), (1.0, "optimized"))
        )
