"""Randomised response: `CoinResponse` for one yes/no question, `RandomizedResponse` for k answers.

Sources: Warner 1965; Boenisch 2019, section 3.2.2 (two coins); Kairouz, Bonawitz and Ramage 2016
(k-ary). Counts are recovered by `ldp/decoding/direct.py` from the channel stated here.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, floor

from ldp.errors import require_share
from ldp.mechanisms.addressing import Identity
from ldp.mechanisms.base import Case, Mechanism, Shape
from ldp.mechanisms.categorical import Categorical
from ldp.protocol.channel import Channel, convert, direct_channel, require_epsilon, round_up
from ldp.protocol.kinds import Bits, Index
from ldp.protocol.randomness import ONE


@dataclass(frozen=True, kw_only=True)
class CoinResponse(Mechanism):
    """Randomised response by two coins: the true answer with probability `alpha`, else "yes" with
    probability `beta`.

    Report: one bit, "yes" or "no". P(yes | yes) = alpha + (1 - alpha) beta and P(yes | no) = (1 -
    alpha) beta, rounded inwards to multiples of 2**-64. Epsilon is the larger of the two answers'
    log ratios. Two fair coins give ln 3:

    >>> coins = CoinResponse(alpha=0.5, beta=0.5)
    >>> round(coins.cost.epsilon, 6)
    1.098612
    >>> round(coins.std_error(reports=3000), 2)   # sqrt(3 n / 4) when beta = 1/2
    47.43

    `alpha` and `beta` lie strictly between 0 and 1; raises ParameterError otherwise.
    """

    name = "coin"
    wire_id = 1
    kind = Bits
    cases = (Case("yes", "no", alpha=0.5, beta=0.5), Case("yes", "no", alpha=0.3, beta=0.8))

    alpha: float
    beta: float

    def __post_init__(self) -> None:
        convert(self, alpha=require_share, beta=require_share)
        require_epsilon(round_up(self.channel.exact_epsilon))

    @cached_property
    def channel(self) -> Channel:
        alpha, beta = Fraction(self.alpha), Fraction(self.beta)
        yes_if_no = (1 - alpha) * beta
        return Channel(
            touched=Fraction(floor((alpha + yes_if_no) * ONE), ONE),
            untouched=Fraction(ceil(yes_if_no * ONE), ONE),
        )

    @cached_property
    def addressing(self) -> Identity:
        return Identity(("yes",), untouching=("no",))

    @cached_property
    def shape(self) -> Shape:
        return Shape(1, 1)


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(Categorical):
    """K-ary randomised response: the true category with probability p, else a uniform other one.

    Report: one category. With k categories p = e**epsilon / (e**epsilon + k - 1), rounded down to a
    multiple of 2**-64, and every other category has q = (1 - p) / (k - 1). Then epsilon = ln(p /
    q). Best for few categories (k < 3 e**epsilon + 2).

    >>> browsers = RandomizedResponse(categories=("chrome", "firefox", "safari"), epsilon=2.0)
    >>> browsers.cost.epsilon <= 2.0
    True
    >>> round(browsers.std_error(reports=10_000, frequency=0.2), 1)
    48.7

    Parameters, their ranges and errors: `Categorical`.
    """

    name = "rr"
    wire_id = 2
    kind = Index
    cases = (
        Case(*"ab", categories=("a", "b"), epsilon=1.0),
        Case(*"abcd", categories=tuple("abcd"), epsilon=2.0),
    )

    @cached_property
    def channel(self) -> Channel:
        return direct_channel(self.epsilon, len(self.categories) - 1)
