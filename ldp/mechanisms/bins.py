"""Bins of numbers: equal parts of a stated range, or parts of every doubling for an unknown one.

Which bin a number is in is decided by comparisons and by the exponent and the leading bits of its
double. So it is the same on every platform. There is no logarithm. Sources: Masson, Rim and Lee
2019 (DDSketch: bins of relative width); HdrHistogram (equal parts of a doubling).
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from ldp.errors import ParameterError
from ldp.mechanisms.numeric import Range, number_of, position
from ldp.protocol.hashing import Value


class Bins(ABC):
    """Bins of numbers, in increasing order, without gaps."""

    @property
    @abstractmethod
    def edges(self) -> tuple[float, ...]:
        """All edges: one more than there are bins. They are infinite at an end that is open."""

    @abstractmethod
    def place(self, value: Value) -> int:
        """Return the bin, from 0, of a number. Raises ParameterError for a value that is no number,
        and for a number that is refused."""

    def __len__(self) -> int:
        return len(self.edges) - 1


@dataclass(frozen=True)
class EqualBins(Bins):
    """`number` equal parts of the range `bounds`. The upper bound belongs to the last one.
    `outside`: as for `Numeric`."""

    bounds: Range
    outside: str
    number: int

    @cached_property
    def edges(self) -> tuple[float, ...]:
        return _equal_edges(*self.bounds, self.number)

    def place(self, value: Value) -> int:
        place = position(value, self.bounds, self.outside)
        return min(self.number - 1, int(place * self.number))


@lru_cache(maxsize=64)
def _equal_edges(low: float, high: float, number: int) -> tuple[float, ...]:
    start, width = Fraction(low), Fraction(high) - Fraction(low)
    return tuple(float(start + width * i / number) for i in range(number + 1))


@dataclass(frozen=True)
class RelativeBins(Bins):
    """Bins of numbers whose range is unknown: `parts` equal parts, a power of two, of each doubling
    from 2**`least` to 2**`most`. The width of a bin is its lower edge times 1 / (2 `parts`) to
    1 / `parts`.

    One bin holds the numbers below 2**`least`, and one those from 2**`most` on. If `is_signed`,
    negative numbers have the mirrored bins, and the bin about 0 reaches from -2**`least` to
    2**`least`. If not, the lowest bin also holds the negative numbers. Unless `outside` is "clip",
    numbers are refused from 2**`most` on, and below -2**`most` or, if not `is_signed`, below 0.
    """

    least: int
    most: int
    parts: int
    is_signed: bool
    outside: str

    @cached_property
    def edges(self) -> tuple[float, ...]:
        doublings = range(self.least, self.most)
        inner = [
            math.ldexp(1 + part / self.parts, i) for i in doublings for part in range(self.parts)
        ]
        inner.append(math.ldexp(1, self.most))
        below = [-edge for edge in reversed(inner)] if self.is_signed else []
        return (-math.inf, *below, *inner, math.inf)

    def place(self, value: Value) -> int:
        number = number_of(value)
        top = math.ldexp(1, self.most)
        least = -top if self.is_signed else 0
        if self.outside != "clip" and not least <= number < top:
            raise ParameterError(f"value lies outside of the range {least:g} to {top:g}")
        magnitude = self._magnitude(min(abs(number), top))
        if not self.is_signed:
            return magnitude if number > 0 else 0
        middle = len(self.edges) // 2 - 1
        return middle - magnitude if number < 0 else middle + magnitude

    def _magnitude(self, size: float) -> int:
        """Return the number of edges from 2**`least` on that are at most `size`."""
        mantissa, exponent = math.frexp(size)  # mantissa >= 1/2
        if size < math.ldexp(1, self.least):
            return 0
        part = int((2 * mantissa - 1) * self.parts)
        return 1 + (exponent - 1 - self.least) * self.parts + part
