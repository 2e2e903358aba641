"""Mechanisms for numbers: one-bit mean and piecewise, whose report is one of evenly spaced bins.

A number lies between two of `steps` + 1 evenly spaced steps and is first rounded to one of them at
random, so that its mean is unchanged. Step j touches the `width` neighbouring bins from j on. The
mean bin of many reports is linear in the mean step, and `ldp/decoding/means.py` solves for it.

Sources: Ding, Kulkarni and Yekhanin 2017, section 2.1 (1BitMean); Wang et al. 2019, "Collecting and
analyzing multidimensional data with local differential privacy", section 3.2 (piecewise), here with
bins, so that private bits depend on integers only.
"""

import math
import re
from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from numbers import Integral
from typing import Any

from ldp.errors import ParameterError, is_real, require_one_of
from ldp.mechanisms.addressing import Rounding
from ldp.mechanisms.base import Case, Mechanism, Shape
from ldp.protocol.channel import (
    EXACT,
    Channel,
    convert,
    direct_channel,
    nearest_whole,
    real_number,
    real_number_up,
    require_epsilon,
    require_whole,
)
from ldp.protocol.hashing import Value
from ldp.protocol.kinds import Index
from ldp.protocol.randomness import ONE, PRECISION

LARGEST = float(1 << 53)
"""Largest absolute value of a bound, so that bounds are written without an exponent."""
MOST_BINS = 1 << 16
LONGEST = 1000
"""Largest number of characters of a number as text."""
_DECIMAL = re.compile(r" *[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)? *")
Range = tuple[float, float]


def require_range(bounds: Any, name: str = "bounds") -> Range:
    """Return `bounds` as (low, high). Raises ParameterError, with `name`, unless they are two
    numbers, low < high, within `LARGEST` and far enough apart for `MOST_BINS` bins."""
    is_pair = isinstance(bounds, list | tuple) and len(bounds) == 2
    if is_pair and all(map(is_real, bounds)):
        # turns -0.0 into 0.0
        low, high = (real_number(end, name) + 0.0 for end in bounds)
        is_right = -LARGEST <= low < low + (high - low) / MOST_BINS < high
        if is_right and real_number_up(bounds[1], name) <= LARGEST:
            return low, high
    raise ParameterError(
        f"{name} must be two numbers, the lower first, at most 2**53 in size and not too close"
    )


def require_outside(outside: object) -> None:
    """Raise ParameterError unless `outside` is "clip" or "refuse"."""
    require_one_of(outside, ("clip", "refuse"), "outside")


def number_of(value: Value) -> int | float:
    """Return the number that `value` is, of any type of real numbers, or that its text writes, as a
    double. Raises ParameterError for anything else."""
    if isinstance(value, str) and len(value) <= LONGEST and _DECIMAL.fullmatch(value):
        return float(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and value == value:
        return value
    if is_real(value) or isinstance(value, Decimal):  # numpy's, Fraction
        try:
            number = int(value) if isinstance(value, Integral) else float(value)
        except OverflowError:  # a fraction beyond all doubles
            number = int(value)
        except ValueError:  # Decimal's signalling NaN
            number = math.nan
        if number == number:
            return number
    raise ParameterError("value is not a number")


def is_number(value: Value) -> bool:
    """Return whether `number_of` reads `value` as a finite number."""
    try:
        return math.isfinite(number_of(value))
    except (ParameterError, OverflowError):
        return False


def position(value: Value, bounds: Range, outside: str) -> Fraction:
    """Return the exact place of a number between its bounds: 0 at the lower, 1 at the upper.

    Text is read as a double (`_DECIMAL`). Raises ParameterError for a `value` that is not a number,
    and for one out of bounds unless `outside` is "clip".
    """
    number = number_of(value)
    low, high = bounds
    if not low <= number <= high and outside != "clip":
        raise ParameterError(f"value lies outside of the bounds {low:g} to {high:g}")
    clipped = Fraction(min(max(number, low), high))
    return (clipped - Fraction(low)) / (Fraction(high) - Fraction(low))


@dataclass(frozen=True)
class Numbers(Rounding):
    """Addressing of numbers: step j of `steps` + 1 touches the columns j to j + `width` - 1."""

    bounds: Range
    outside: str
    steps: int
    width: int

    def point(self, value: Value) -> int:
        return math.floor(position(value, self.bounds, self.outside) * self.steps * ONE)

    def rounding(self, point: int, row: int) -> tuple[int, int]:
        return point >> PRECISION, point & (ONE - 1)

    def cells(self, point: int, row: int) -> Sequence[int]:
        return range(point, point + self.width)


@dataclass(frozen=True, kw_only=True)
class Numeric(Mechanism, ABC):
    """Mechanism whose report is one bin of a number's range.

    `bounds`: the least and the largest number, public; `epsilon` in (0, 64]. `outside`: "clip"
    moves numbers out of bounds to the nearer bound, "refuse" raises ParameterError for them, so
    that the presence of a report reveals whether the number was within bounds. Raises
    ParameterError for anything else.
    """

    kind = Index
    answers = "number"

    bounds: Range
    epsilon: float
    outside: str = "clip"

    def __post_init__(self) -> None:
        convert(self, bounds=require_range, epsilon=require_epsilon)
        require_outside(self.outside)
        # raises for an epsilon too small for the thresholds
        _ = self.channel

    @property
    def bins(self) -> int:
        """Number of different reports."""
        return 2

    @cached_property
    def width(self) -> int:
        """Number of neighbouring bins that a step touches."""
        return 1

    @property
    def touches(self) -> int:
        return self.width

    @property
    def overlap(self) -> int:
        return max(0, 2 * self.width - self.bins)

    @cached_property
    def channel(self) -> Channel:
        return direct_channel(self.epsilon, self.bins - self.width, self.width)

    @cached_property
    def addressing(self) -> Numbers:
        return Numbers(self.bounds, self.outside, self.bins - self.width, self.width)

    @cached_property
    def shape(self) -> Shape:
        return Shape(1, self.bins)

    @property
    def reach(self) -> float:
        """Largest distance, in ranges, between the estimate from one report and a number."""
        q, per_step = float(self.channel.untouched), self.channel.gain * self.width
        mean = q * sum(range(self.bins)) + per_step * (self.width - 1) / 2
        return max((self.bins - 1 - mean) / per_step, mean / per_step) / self.addressing.steps

    def mean_variance(self, place: float) -> float:
        """Return the variance, in squared ranges, of the estimate from one report of the number at
        `place` (0 at the lower bound, 1 at the upper), from rounding and noise."""
        steps, width, bins = self.addressing.steps, self.width, self.bins
        gain, q = self.channel.gain, float(self.channel.untouched)
        low = min(int(place * steps), steps - 1)
        mean = mean_square = 0.0
        for step, share in ((low, low + 1 - place * steps), (low + 1, place * steps - low)):
            window = range(step, step + width)
            mean += share * (q * sum(range(bins)) + gain * sum(window))
            squares = q * sum(k * k for k in range(bins)) + gain * sum(k * k for k in window)
            mean_square += share * squares
        return (mean_square - mean**2) / (gain * width * steps) ** 2


@dataclass(frozen=True, kw_only=True)
class OneBitMean(Numeric):
    """One-bit mean: randomised response about the bound to which the number is rounded at random.

    Report: one of two bins. The true one has probability e**epsilon / (e**epsilon + 1), rounded
    down to a multiple of 2**-64. For a number x the upper bin has probability
    1 / (e**epsilon + 1) + (x - low) / (high - low) (e**epsilon - 1) / (e**epsilon + 1).

    >>> minutes = OneBitMean(bounds=(0, 1440), epsilon=2.0)
    >>> minutes.cost.epsilon <= 2.0, len(minutes.encoder().encode(35.5))
    (True, 11)

    Parameters, their ranges and errors: `Numeric`.
    """

    name = "one-bit-mean"
    wire_id = 12
    cases = (
        Case(0.0, 3.5, 10.0, bounds=(0.0, 10.0), epsilon=1.0),
        Case(-9, 0.25, 4.0, bounds=(-2.5, 1.0), epsilon=2.0, outside="clip"),
    )


@dataclass(frozen=True, kw_only=True)
class Piecewise(Numeric):
    """Piecewise mechanism: the number, rounded to a step at random. A bin of that step's window is
    likelier than any other.

    Report: one of `bins` bins. A step's window has W of them, nearest to bins / (e**(epsilon/2) +
    1): the report is one of these with probability P = W e**epsilon / (W e**epsilon + bins - W),
    rounded down to a multiple of 2**-64, and any other with (1 - P) / (bins - W). With many bins
    this is the piecewise mechanism. It has less error than `one-bit-mean` from an epsilon of about
    1.3.

    >>> minutes = Piecewise(bounds=(0, 1440), epsilon=4.0)
    >>> minutes.bins, minutes.width, minutes.cost.epsilon <= 4.0
    (256, 31, True)

    Raises ParameterError for bins outside 2..65536. Other parameters, ranges and errors: `Numeric`.
    """

    name = "piecewise"
    wire_id = 13
    cases = (
        Case(0.0, 0.2, 0.61, 1, bounds=(0.0, 1.0), epsilon=1.0, bins=8),
        Case(-1, 0, 1, bounds=(-1.0, 1.0), epsilon=3.0, bins=7),
    )

    bins: int = 256

    def __post_init__(self) -> None:
        require_whole(self.bins, "bins", 2, MOST_BINS)
        super().__post_init__()

    @cached_property
    def width(self) -> int:
        power = EXACT.exp(Decimal(self.epsilon) / 2)
        best = EXACT.divide(Decimal(self.bins), EXACT.add(power, Decimal(1)))
        return nearest_whole(best, 1)
