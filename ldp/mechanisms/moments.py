"""Moments of a regression from devices: one randomised sign of one product a report.

A person holds (x_1, .., x_d, y), each mapped from its public bounds to [-1, 1], and 1 for the
intercept. The products of two of (1, x_1, .., x_d, y) are the coordinates. A report is about one of
them. `ldp/regression/signs.py` computes moments from the counts, and a regression from these.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement
from typing import ClassVar

from ldp.data_files import require_pairs
from ldp.errors import ParameterError
from ldp.mechanisms.addressing import Rounding
from ldp.mechanisms.base import Case, Mechanism, Shape
from ldp.mechanisms.numeric import Range, position, require_outside, require_range
from ldp.protocol.channel import Channel, convert, direct_channel, require_epsilon, require_whole
from ldp.protocol.hashing import Value
from ldp.protocol.kinds import Index
from ldp.protocol.randomness import ONE, PRECISION

MOST_FEATURES = 50
_FIELD = PRECISION + 1


@dataclass(frozen=True)
class Products(Rounding):
    """Addressing of products of two of (1, x_1, .., x_d, y): row j is the j-th product in the order
    of an upper triangle, without 1 * 1. Column 1 is its largest value and column 0 its least."""

    bounds: tuple[Range, ...]
    outside: str
    steps: ClassVar[int] = 1  # type: ignore[misc]
    has_row_rounding: ClassVar[bool] = True  # type: ignore[misc]

    @cached_property
    def factors(self) -> tuple[tuple[int, int], ...]:
        """Pair of factors of each product: 0 is the constant 1, i > 0 the i-th number."""
        return tuple(combinations_with_replacement(range(len(self.bounds) + 1), 2))[1:]

    def point(self, value: Value) -> int:
        """Return 65 bits a product, the first lowest: 2**64 times its place between least and
        largest. Raises ParameterError unless `value` is a tuple (or text) of as many numbers as
        `bounds`."""
        if isinstance(value, str):
            value = tuple(value.strip("()").split(","))
        if not isinstance(value, tuple) or len(value) != len(self.bounds):
            raise ParameterError(f"value is not a tuple of {len(self.bounds)} numbers")
        entries = [Fraction(1)] + [
            2 * position(number, bounds, self.outside) - 1
            for number, bounds in zip(value, self.bounds, strict=True)
        ]
        point = 0
        for i, (first, second) in enumerate(self.factors):
            product = entries[first] * entries[second]
            place = product if first == second else (product + 1) / 2
            point |= math.floor(place * ONE) << _FIELD * i
        return point

    def rounding(self, point: int, row: int) -> tuple[int, int]:
        place = point >> _FIELD * row & ((1 << _FIELD) - 1)
        return place >> PRECISION, place & (ONE - 1)

    def cells(self, point: int, row: int) -> Sequence[int]:
        return (point,)


@dataclass(frozen=True, kw_only=True)
class RegressionMoments(Mechanism):
    """Moments of a regression: a product of two of (1, x_1, .., x_d, y), rounded to its least or
    largest value at random and randomised.

    Report: (product, one of two columns). The product is uniform among all D = (d + 1)(d + 2) / 2 +
    d + 1. With values mapped to [-1, 1], squares lie in [0, 1] and all other products in [-1, 1].
    The column is true with probability e**epsilon / (e**epsilon + 1), rounded down to a multiple of
    2**-64.

    >>> flats = RegressionMoments(features=1, bounds=((3, 9), (5, 50)), epsilon=2.0)
    >>> flats.shape.rows, len(flats.encoder().encode((6.5, 24.0)))
    (5, 12)

    `features`: d, 1 to 50. `bounds`: (low, high) of x_1, .., x_d and y, in this order. `outside`:
    "refuse" values out of bounds, or "clip" them. Values are tuples of d + 1 numbers, or text with
    commas between them. Raises ParameterError for anything else.
    """

    name = "moments"
    wire_id = 14
    kind = Index
    answers = "moments"
    cases = (
        Case(
            *((0.0, 1.0), (3, 0.5), (4.0, -1.0)),
            features=1,
            bounds=((0.0, 4.0), (-1.0, 1.0)),
            epsilon=1.0,
        ),
    )

    features: int
    bounds: tuple[Range, ...]
    epsilon: float
    outside: str = "clip"

    def __post_init__(self) -> None:
        require_whole(self.features, "features", 1, MOST_FEATURES)
        require_pairs(self.bounds)
        pairs = self.bounds if isinstance(self.bounds, list | tuple) else ()
        if len(pairs) != self.features + 1:
            raise ParameterError(
                "bounds must be a pair (low, high) for every feature, and one for the target, as "
                "[(0, 5), (1, 10)], not (lows, highs)"
            )
        object.__setattr__(self, "bounds", tuple(map(require_range, pairs)))
        convert(self, epsilon=require_epsilon)
        require_outside(self.outside)
        # raises for an epsilon too small for the thresholds
        _ = self.channel

    @cached_property
    def channel(self) -> Channel:
        return direct_channel(self.epsilon, others=1)

    @cached_property
    def addressing(self) -> Products:
        return Products(self.bounds, self.outside)

    @cached_property
    def shape(self) -> Shape:
        return Shape(len(self.addressing.factors), 2)
