"""Randomised channel of a mechanism: two exact probabilities, and the formulas that use them.

A value touches some cells of a table. A touched cell is reported with probability `touched`, any
other with probability `untouched`. Epsilon, the unbiased estimator, its variance and the posterior
odds are formulas in these two numbers (Wang et al. 2017, "pure" protocols: p and q). Probabilities
are fractions. Logarithms are computed in `decimal` with 60 digits and rounded up to a double. So
the stated epsilon is never below the exact one.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from numbers import Integral
from typing import Any

from ldp.errors import ParameterError, is_real
from ldp.protocol.randomness import ONE

EXACT = Context(prec=60)
MAX_EPSILON = 64.0


def round_up(exact: Fraction | Decimal) -> float:
    """Return the smallest double that is not below `exact`; infinite above all."""
    if exact > sys.float_info.max:
        return math.inf
    nearest = float(exact)
    return math.nextafter(nearest, math.inf) if exact > nearest else nearest


def round_down(exact: Fraction | Decimal) -> float:
    """Return the largest double that is not above `exact`, which must be >= 0."""
    return abs(round_up(-exact))


def rounded_up(number: float, digits: int = 4) -> str:
    """Return `number` as text with this many `digits`, rounded up from the shortest decimal that is
    read as it. From a million on all figures are written out.

    >>> rounded_up(0.1), rounded_up(2.71828), rounded_up(1234567)
    ('0.1', '2.719', '1,235,000')
    """
    if math.isinf(number):
        return "any number"
    context = Context(prec=digits, rounding=ROUND_CEILING)
    rounded = float(context.create_decimal(Decimal(repr(float(number)))))
    return f"{rounded:g}" if rounded < 1e6 else f"{rounded:,.0f}"


def most_differing(touches: int, cells: int) -> tuple[int, int]:
    """Return the numbers of cells that only the first and only the second of the worst two values
    touches, where a value touches up to `touches` of `cells` cells."""
    first = min(touches, cells)
    return first, min(touches, cells - first)


def require_epsilon(epsilon: float, name: str = "epsilon") -> float:
    """Return `epsilon`, of any type of real numbers, as the float in (0, 64] that is nearest and
    not above it. Raises ParameterError, with `name`, otherwise."""
    number = real_number(epsilon, name)
    if not 0 < number <= MAX_EPSILON:
        raise ParameterError(f"{name} must be > 0 and at most 64")
    return number


def real_number(number: object, name: str, *, up: bool = False) -> float:
    """Return `number`, of any type of real numbers, as the nearest float not above it, or with `up`
    not below it. Raises ParameterError, with `name`, otherwise. An integer of numpy must not enter
    a fraction: the products of fractions would overflow."""
    if type(number) is float:
        return number
    if not is_real(number):
        raise ParameterError(f"{name} must be a number")
    exact: Any = int(number) if isinstance(number, Integral) else number
    try:
        nearest = float(exact)
    except OverflowError:
        nearest = math.inf if exact > 0 else -math.inf
    if up and nearest < exact:
        return math.nextafter(nearest, math.inf)
    if nearest > exact and not up:
        return math.nextafter(nearest, -math.inf)
    return nearest


def real_number_up(number: object, name: str) -> float:
    """Return `number` as the nearest float not below it; raise as `real_number`."""
    return real_number(number, name, up=True)


def convert(frozen: object, **converters: Callable[[Any, str], Any]) -> None:
    """Replace attributes of a frozen dataclass, by name, by what their converters return for value
    and name."""
    for name, converter in converters.items():
        object.__setattr__(frozen, name, converter(getattr(frozen, name), name))


def require_whole(number: object, name: str, least: int, most: int) -> None:
    """Raise ParameterError, with `name`, unless `number` is an int from `least` to `most`."""
    kind = type(number)
    if kind is not int or not least <= number <= most:  # type: ignore[operator]
        other = f" of type int, not {kind.__name__}" * (kind is not int)
        raise ParameterError(f"{name} must be a whole number from {least} to {most}{other}")


@lru_cache(maxsize=1024)
def keep_probability(epsilon: float | Fraction, others: int | Fraction) -> Fraction:
    """Return the largest k / 2**64 that is at most e**epsilon / (e**epsilon + others).

    This is the probability of the true answer among 1 + `others`. With several true answers
    `others` is the fraction (number of other answers) / (number of true ones). Rounding it down
    rounds towards more privacy. The quotient is known to 60 digits and 10**-30 is subtracted before
    the floor. So an error in the last digit can never round it up.
    """
    power = EXACT.exp(_decimal(Fraction(epsilon)))
    share = EXACT.divide(power, EXACT.add(power, _decimal(Fraction(others))))
    scaled = EXACT.subtract(EXACT.multiply(share, Decimal(ONE)), Decimal("1e-30"))
    return Fraction(math.floor(scaled), ONE)


def power_plus_one(epsilon: float) -> Decimal:
    """Return e**epsilon + 1 to 60 digits."""
    return EXACT.add(EXACT.exp(Decimal(epsilon)), Decimal(1))


def nearest_whole(number: Decimal, least: int) -> int:
    """Return the whole number nearest to `number`, halves to even. Returns `least` where it is
    less."""
    return max(least, int(number.to_integral_value(ROUND_HALF_EVEN)))


@lru_cache(maxsize=1024)
def exact_log(ratio: Fraction) -> Decimal:
    """Return ln(ratio) to 60 digits."""
    return EXACT.ln(_decimal(ratio))


def _decimal(exact: Fraction) -> Decimal:
    return EXACT.divide(Decimal(exact.numerator), Decimal(exact.denominator))


@dataclass(frozen=True, kw_only=True)
class Channel:
    """Exact probabilities P(cell reported | touched) and P(cell reported | untouched).

    `differing`: of the two values that differ most, the number of independently randomised cells
    that the first alone touches, and that the second alone does. It is (1, 0) for a report that is
    one column (Index), (1, 1) for a sign. Raises ParameterError unless 0 < untouched < touched < 1,
    as fractions, and for other numbers of cells.
    """

    touched: Fraction
    untouched: Fraction
    differing: tuple[int, int] = (1, 0)

    def __post_init__(self) -> None:
        if {type(self.touched), type(self.untouched)} != {Fraction}:
            raise ParameterError("a probability must be a Fraction")
        cells = self.differing
        is_pair = isinstance(cells, tuple) and [*map(type, cells)] == [int, int]
        if not is_pair or min(cells) < 0 or not any(cells):
            raise ParameterError("differing must be two numbers of cells, as (1, 1)")
        if not 0 < self.untouched < 1 or not 0 < self.touched < 1:
            raise ParameterError("a report would give a value away: a probability is 0 or 1")
        if not self.untouched < self.touched:
            raise ParameterError(
                "the report would carry no information: epsilon is too small for probabilities "
                "in steps of 2**-64, or they do not differ"
            )

    def then(self, touched: Fraction, untouched: Fraction) -> "Channel":
        """Return the channel that reports a cell with probability `touched` where this channel
        reports it, else with `untouched`."""
        return Channel(
            touched=self.touched * touched + (1 - self.touched) * untouched,
            untouched=self.untouched * touched + (1 - self.untouched) * untouched,
            differing=self.differing,
        )

    @cached_property
    def chances(self) -> tuple[float, float]:
        """`touched` and `untouched` as floats below 1."""
        return min(float(self.touched), math.nextafter(1, 0)), float(self.untouched)

    @cached_property
    def leverage(self) -> float:
        """Number of honest holders of a value that one fake report naming it can imitate:
        (1 - untouched) / (touched - untouched) (Cao, Jia and Gong 2021)."""
        return float((1 - self.untouched) / (self.touched - self.untouched))

    @cached_property
    def worst_ratio(self) -> Fraction:
        """Exact maximum, over reports and pairs of values, of P(report | a) / P(report | b)."""
        return self.ratio(*self.differing)

    def ratio(self, first: int, second: int) -> Fraction:
        """Return the worst ratio for two values: the first alone touches `first` cells, the second
        alone `second` cells.

        Each cell that only a touches contributes touched/untouched when it is reported, each cell
        that only b touches (1 - untouched)/(1 - touched) when it is not. The larger of the two
        orders of the pair counts.
        """
        reported = self.touched / self.untouched
        absent = (1 - self.untouched) / (1 - self.touched)
        return max(reported**first * absent**second, reported**second * absent**first)

    @cached_property
    def exact_epsilon(self) -> Decimal:
        """Logarithm of `worst_ratio`, to 60 digits."""
        return exact_log(self.worst_ratio)

    @cached_property
    def epsilon(self) -> float:
        """Privacy loss of one report, rounded up to a double."""
        return round_up(self.exact_epsilon)

    @cached_property
    def gain(self) -> float:
        """Mean increase of a cell by one holder: touched - untouched."""
        return float(self.touched - self.untouched)

    def holders(self, reported: Any, reports: Any) -> Any:
        """Return the unbiased number of reports whose value touched the cell.

        (reported - reports q)/(p - q), for numbers or arrays.
        """
        return (reported - reports * float(self.untouched)) / self.gain

    def variance(self, frequency: Any) -> Any:
        """Return the variance of `holders` per report, at a fixed population in which the share
        `frequency` (a number or an array) touches the cell.

        [f p (1 - p) + (1 - f) q (1 - q)] / (p - q)**2.
        """
        of_holder = float(self.touched * (1 - self.touched)) / self.gain**2
        of_other = float(self.untouched * (1 - self.untouched)) / self.gain**2
        return frequency * of_holder + (1 - frequency) * of_other

    def posterior(self, prior: float) -> float:
        """Return the largest posterior probability after one report of a value with probability
        `prior`: prior r / (1 - prior + prior r), with r the worst ratio."""
        weight = prior * float(self.worst_ratio)
        return weight / (1 - prior + weight)


@lru_cache(maxsize=1024)
def direct_channel(
    epsilon: float | Fraction, others: int, touches: int = 1, differing: tuple[int, int] = (1, 0)
) -> Channel:
    """Return the channel that names one of `touches` true cells with P = `keep_probability`, else
    one of `others`: touched = P / touches, untouched = (1 - P) / others."""
    keep = keep_probability(epsilon, Fraction(others, touches))
    return Channel(touched=keep / touches, untouched=(1 - keep) / others, differing=differing)
