"""Numbers: one-bit mean and piecewise mechanism, whose reports are one of some evenly spaced bins.

A number lies between two of `steps` + 1 evenly spaced steps and is rounded to one of them at random
before anything else happens, so that on average it stays what it is; a step touches `width` bins in
a row of them, the more to the right the larger it is. The mean bin of many reports is linear in the
mean step, and `ldp/decoding/numeric.py` solves for it.

Sources: Ding, Kulkarni and Yekhanin 2017, section 2.1 (1BitMean); Wang et al. 2019, "Collecting and
analyzing multidimensional data with local differential privacy", section 3.2 (piecewise), here in
bins so that no float decides a private bit.
"""

import math
import re
from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from ldp.errors import ParameterError
from ldp.mechanisms.addressing import Rounding
from ldp.mechanisms.base import Example, Mechanism, Shape
from ldp.protocol.channel import EXACT, Channel, keep_probability, require_epsilon
from ldp.protocol.hashing import Value
from ldp.protocol.randomness import PROBABILITY_BITS, PROBABILITY_ONE
from ldp.protocol.wire import Kind

LARGEST = float(1 << 53)
"""Bounds lie within it, and are written without an exponent."""
MOST_BINS = 1 << 16
LONGEST = 1000
"""Characters of a number as text."""
_DECIMAL = re.compile(r" *[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)? *")
Range = tuple[float, float]


def require_range(given: object, what: str = "bounds") -> Range:
    """`given` as (low, high), or a ParameterError."""
    if isinstance(given, list | tuple) and len(given) == 2:
        low, high = given
        if all(type(end) in (int, float) and -LARGEST <= end <= LARGEST for end in given):
            low, high = float(low) + 0.0, float(high) + 0.0  # one zero, not two
            if low < low + (high - low) / MOST_BINS < high:
                return low, high
    raise ParameterError(
        f"{what} must be two numbers, the lower first, at most 2**53 in size and not too near"
    )


def require_outside(given: object) -> None:
    """Raises ParameterError unless `given` says what becomes of numbers out of bounds."""
    if given not in ("clip", "refuse"):
        raise ParameterError('outside must be "clip" or "refuse"')


def position(value: Value, bounds: Range, outside: str) -> Fraction:
    """Where between its bounds a number lies, exactly: 0 at the lower, 1 at the upper. Text is read
    as a double (`_DECIMAL`). Raises ParameterError for what is no number, and for one out of bounds
    unless `outside` is "clip"."""
    number = math.nan
    if isinstance(value, str) and len(value) <= LONGEST and _DECIMAL.fullmatch(value):
        number = float(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = value
    if number != number:
        raise ParameterError("value is not a number")
    low, high = bounds
    if not low <= number <= high and outside != "clip":
        raise ParameterError(f"value lies outside of the bounds {low:g} to {high:g}")
    inside = Fraction(min(max(number, low), high))
    return (inside - Fraction(low)) / (Fraction(high) - Fraction(low))


@dataclass(frozen=True)
class Numbers(Rounding):
    """Step j of `steps` + 1 touches the columns j to j + `width` - 1."""

    bounds: Range
    outside: str
    steps: int
    width: int

    def point(self, value: Value) -> int:
        return math.floor(position(value, self.bounds, self.outside) * self.steps * PROBABILITY_ONE)

    def rounding(self, point: int, row: int) -> tuple[int, int]:
        return point >> PROBABILITY_BITS, point & (PROBABILITY_ONE - 1)

    def cells(self, point: int, row: int) -> Sequence[int]:
        return range(point, point + self.width)


@dataclass(frozen=True, kw_only=True)
class Numeric(Mechanism, ABC):
    """`bounds`: the least and the largest number there is, public; `epsilon` in (0, 64]; `outside`:
    "clip" numbers out of bounds to the nearer bound, or "refuse" them: then whether a report is
    sent tells whether there was a number within bounds. Raises ParameterError for anything else."""

    kind: ClassVar[Kind] = Kind.INDEX

    bounds: Range
    epsilon: float
    outside: str = "clip"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", require_range(self.bounds))
        object.__setattr__(self, "epsilon", require_epsilon(self.epsilon))
        require_outside(self.outside)
        _ = self.channel  # refuses an epsilon that no threshold can honour

    @property
    def bins(self) -> int:
        """How many different reports there are."""
        return 2

    @cached_property
    def width(self) -> int:
        """How many neighbouring bins a step touches."""
        return 1

    @property
    def touches(self) -> int:
        return self.width

    @property
    def overlap(self) -> int:
        return max(0, 2 * self.width - self.bins)

    @cached_property
    def channel(self) -> Channel:
        others = self.bins - self.width
        told = keep_probability(self.epsilon, Fraction(others, self.width))
        return Channel(touched=told / self.width, untouched=(1 - told) / others)

    @cached_property
    def addressing(self) -> Numbers:
        return Numbers(self.bounds, self.outside, self.bins - self.width, self.width)

    @cached_property
    def shape(self) -> Shape:
        return Shape(1, self.bins)

    @property
    def reach(self) -> float:
        """How far, in ranges, the number that one report stands for can lie from any person's."""
        q, per_step = float(self.channel.untouched), self.channel.gain * self.width
        mean = q * sum(range(self.bins)) + per_step * (self.width - 1) / 2
        return max((self.bins - 1 - mean) / per_step, mean / per_step) / self.addressing.steps

    def mean_variance(self, place: float) -> float:
        """Variance, in squared shares of the range, of the number that one report of a person at
        `place` (0 at the lower bound, 1 at the upper) stands for: the rounding and the noise."""
        steps, width, bins = self.addressing.steps, self.width, self.bins
        gain, q = self.channel.gain, float(self.channel.untouched)
        low = min(int(place * steps), steps - 1)
        first = second = 0.0
        for step, share in ((low, low + 1 - place * steps), (low + 1, place * steps - low)):
            own = range(step, step + width)
            first += share * (q * sum(range(bins)) + gain * sum(own))
            squares = q * sum(k * k for k in range(bins)) + gain * sum(k * k for k in own)
            second += share * squares
        return (second - first**2) / (gain * width * steps) ** 2


@dataclass(frozen=True, kw_only=True)
class OneBitMean(Numeric):
    """Round the number to one of its bounds at random, and tell that bound or the other.

    Report: one of two bins. The true one is told with probability e**epsilon / (e**epsilon + 1),
    rounded down to a multiple of 2**-64. Of a number x the upper bin is told with probability
    1 / (e**epsilon + 1) + (x - low) / (high - low) (e**epsilon - 1) / (e**epsilon + 1).

    >>> minutes = OneBitMean(bounds=(0, 1440), epsilon=2.0)
    >>> minutes.cost.epsilon <= 2.0, len(minutes.encoder().encode(35.5))
    (True, 11)

    Parameters, their ranges and errors: `Numeric`.
    """

    name: ClassVar[str] = "one-bit-mean"
    wire_id: ClassVar[int] = 12

    @staticmethod
    def examples() -> tuple[Example, ...]:
        return (
            Example(OneBitMean(bounds=(0.0, 10.0), epsilon=1.0), (0.0, 3.5, 10.0)),
            Example(OneBitMean(bounds=(-2.5, 1.0), epsilon=2.0, outside="clip"), (-9, 0.25, 4.0)),
        )


@dataclass(frozen=True, kw_only=True)
class Piecewise(Numeric):
    """Round the number to a step at random, and tell a bin of the window above that step, or
    another one.

    Report: one of `bins` bins. A step's window has W of them, nearest to bins / (e**(epsilon/2)
    + 1): one of it is told with probability P = W e**epsilon / (W e**epsilon + bins - W), rounded
    down to a multiple of 2**-64, and any other with (1 - P) / (bins - W). With many bins this is
    the piecewise mechanism; it beats `one-bit-mean` from an epsilon of about 1.3.

    >>> minutes = Piecewise(bounds=(0, 1440), epsilon=4.0)
    >>> minutes.bins, minutes.width, minutes.cost.epsilon <= 4.0
    (256, 31, True)

    Raises ParameterError for bins outside 2..65536. Other parameters, ranges and errors: `Numeric`.
    """

    name: ClassVar[str] = "piecewise"
    wire_id: ClassVar[int] = 13

    bins: int = 256

    def __post_init__(self) -> None:
        if type(self.bins) is not int or not 2 <= self.bins <= MOST_BINS:
            raise ParameterError(f"bins must be a whole number from 2 to {MOST_BINS}")
        super().__post_init__()

    @cached_property
    def width(self) -> int:
        power = EXACT.exp(Decimal(self.epsilon) / 2)
        best = EXACT.divide(Decimal(self.bins), EXACT.add(power, Decimal(1)))
        return max(1, int(best.to_integral_value(ROUND_HALF_EVEN)))

    @staticmethod
    def examples() -> tuple[Example, ...]:
        return (
            Example(Piecewise(bounds=(0.0, 1.0), epsilon=1.0, bins=8), (0.0, 0.2, 0.61, 1)),
            Example(Piecewise(bounds=(-1.0, 1.0), epsilon=3.0, bins=7), (-1, 0, 1)),
        )
