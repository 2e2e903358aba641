"""The moments of a regression, told by devices: one randomised sign of one product a report.

A person holds (x_1, .., x_d, y), each mapped from its public bounds to [-1, 1], and 1 for the
intercept. The products of two of (1, x_1, .., x_d, y) are the coordinates; a report is about one of
them. `ldp/central/regression/local.py` makes moments of the counts, and a regression of these.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement
from typing import ClassVar

from ldp.errors import ParameterError
from ldp.mechanisms.addressing import Rounding
from ldp.mechanisms.base import Example, Mechanism, Shape
from ldp.mechanisms.numeric import Range, position, require_outside, require_range
from ldp.protocol.channel import Channel, keep_probability, require_epsilon
from ldp.protocol.hashing import Value
from ldp.protocol.randomness import PROBABILITY_BITS, PROBABILITY_ONE
from ldp.protocol.wire import Kind

MOST_FEATURES = 50
_FIELD = PROBABILITY_BITS + 1


@dataclass(frozen=True)
class Products(Rounding):
    """Row j is the j-th product, but 1 * 1, of two of (1, x_1, .., x_d, y) in the order of an upper
    triangle; column 1 stands for the largest it can be and column 0 for the least."""

    bounds: tuple[Range, ...]
    outside: str
    steps: ClassVar[int] = 1  # type: ignore[misc]
    by_row: ClassVar[bool] = True  # type: ignore[misc]

    @cached_property
    def factors(self) -> tuple[tuple[int, int], ...]:
        """Of every product the numbers multiplied: 0 for the 1, then from 1 the values."""
        return tuple(combinations_with_replacement(range(len(self.bounds) + 1), 2))[1:]

    def point(self, value: Value) -> int:
        """65 bits a product, the first lowest: 2**64 times its place between least and largest."""
        if isinstance(value, str):
            value = tuple(value.strip("()").split(","))
        if not isinstance(value, tuple) or len(value) != len(self.bounds):
            raise ParameterError(f"value is not a tuple of {len(self.bounds)} numbers")
        entries = [Fraction(1)] + [
            2 * position(number, bounds, self.outside) - 1
            for number, bounds in zip(value, self.bounds, strict=True)
        ]
        point = 0
        for i, (one, other) in enumerate(self.factors):
            product = entries[one] * entries[other]
            place = product if one == other else (product + 1) / 2
            point |= math.floor(place * PROBABILITY_ONE) << _FIELD * i
        return point

    def rounding(self, point: int, row: int) -> tuple[int, int]:
        place = point >> _FIELD * row & ((1 << _FIELD) - 1)
        return place >> PROBABILITY_BITS, place & (PROBABILITY_ONE - 1)

    def cells(self, point: int, row: int) -> Sequence[int]:
        return (point,)


@dataclass(frozen=True, kw_only=True)
class RegressionMoments(Mechanism):
    """Pick one product of two of (1, x_1, .., x_d, y), round it to its least or largest at random,
    and tell that or the other.

    Report: (product, one of two columns). The product is uniform among all D = (d + 1)(d + 2) / 2 +
    d + 1; with values mapped to [-1, 1] squares lie in [0, 1] and the others in [-1, 1]. The truth
    is told with probability e**epsilon / (e**epsilon + 1), rounded down to a multiple of 2**-64.

    >>> rooms = RegressionMoments(features=1, bounds=((3, 9), (5, 50)), epsilon=2.0)
    >>> rooms.shape.rows, len(rooms.encoder().encode((6.5, 24.0)))
    (5, 12)

    `features`: d, 1 to 50; `bounds`: (low, high) of x_1, .., x_d and y, in this order; `outside`:
    "refuse" values out of bounds, or "clip" them. Values are tuples of d + 1 numbers, or text with
    commas between them. Raises ParameterError for anything else.
    """

    name: ClassVar[str] = "moments"
    wire_id: ClassVar[int] = 14
    kind: ClassVar[Kind] = Kind.INDEX

    features: int
    bounds: tuple[Range, ...]
    epsilon: float
    outside: str = "clip"

    def __post_init__(self) -> None:
        if type(self.features) is not int or not 1 <= self.features <= MOST_FEATURES:
            raise ParameterError(f"features must be a whole number from 1 to {MOST_FEATURES}")
        pairs = self.bounds if isinstance(self.bounds, list | tuple) else ()
        if len(pairs) != self.features + 1:
            raise ParameterError("bounds must be a pair for every feature, and one for the target")
        object.__setattr__(self, "bounds", tuple(map(require_range, pairs)))
        object.__setattr__(self, "epsilon", require_epsilon(self.epsilon))
        require_outside(self.outside)
        _ = self.channel  # refuses an epsilon that no threshold can honour

    @cached_property
    def channel(self) -> Channel:
        keep = keep_probability(self.epsilon, others=1)
        return Channel(touched=keep, untouched=1 - keep)

    @cached_property
    def addressing(self) -> Products:
        return Products(self.bounds, self.outside)

    @cached_property
    def shape(self) -> Shape:
        return Shape(len(self.addressing.factors), 2)

    @staticmethod
    def examples() -> tuple[Example, ...]:
        mechanism = RegressionMoments(features=1, bounds=((0.0, 4.0), (-1.0, 1.0)), epsilon=1.0)
        return (Example(mechanism, ((0.0, 1.0), (3, 0.5), (4.0, -1.0))),)
