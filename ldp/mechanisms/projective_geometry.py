"""Projective geometry response: the least error there is, in a report of a few bytes.

Source: Feldman, Nelson, Nguyen and Talwar 2022 (ICML). Counts are recovered by
`ldp/decoding/geometry.py`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, overload

from ldp.errors import ParameterError
from ldp.mechanisms.addressing import Identity, ManyCells
from ldp.mechanisms.base import Example, Shape
from ldp.mechanisms.categorical import Categorical, require_categories
from ldp.protocol.channel import EXACT, Channel, keep_probability, require_epsilon
from ldp.protocol.wire import Kind

MAX_POINTS = 1 << 26
"""A server keeps a number for every point."""


@dataclass(frozen=True, kw_only=True)
class ProjectiveGeometry(Categorical):
    """Tell a point of a finite projective space; those on the value's own hyperplane are likelier.

    Report: one of K = (s**t - 1) / (s - 1) points, s being `field` and t the least dimension with
    K categories or more. Category i stands for the hyperplane orthogonal to point i, which has
    S = (s**(t-1) - 1) / (s - 1) points; any two share (s**(t-2) - 1) / (s - 1). A point of the own
    hyperplane is told with probability P / S, P = S e**epsilon / (S e**epsilon + K - S) rounded
    down to a multiple of 2**-64, any other with (1 - P) / (K - S). `field`, a prime number, is
    the one nearest to e**epsilon + 1 unless told: there the variance is nearly the least possible,
    4 e**epsilon / (e**epsilon - 1)**2 a report, and unlike a hash no collision adds to it.

    >>> letters = ProjectiveGeometry(categories=tuple("abcdefgh"), epsilon=2.0)
    >>> letters.field, letters.shape.columns, letters.cost.epsilon <= 2.0
    (7, 8, True)
    >>> round(letters.std_error(reports=10_000), 1)
    57.3

    Raises ParameterError for a field that is not prime, and for more than 2**26 points. Other
    parameters, ranges and errors: `Categorical`.
    """

    name: ClassVar[str] = "pgr"
    wire_id: ClassVar[int] = 11
    kind: ClassVar[Kind] = Kind.INDEX

    field: int = 0

    def __post_init__(self) -> None:
        if self.field == 0 and type(self.field) is int:
            many = len(require_categories(self.categories))
            object.__setattr__(self, "field", tuned_field(require_epsilon(self.epsilon), many))
        if type(self.field) is not int or not is_prime(self.field):
            raise ParameterError("field must be a prime number")
        if self.field > (most := least_line(len(require_categories(self.categories)))):
            raise ParameterError(f"field must be at most {most} for so many categories")
        super().__post_init__()

    @cached_property
    def dimension(self) -> int:
        """How many numbers below `field` a point has."""
        dimension = 2
        while points(self.field, dimension) < len(self.categories):
            dimension += 1
        if points(self.field, dimension) > MAX_POINTS:
            raise ParameterError(
                f"the geometry over a field of {self.field} numbers would have more than "
                f"{MAX_POINTS} points for so many categories; name a smaller field"
            )
        return dimension

    @property
    def touches(self) -> int:
        return points(self.field, self.dimension - 1)

    @property
    def overlap(self) -> int:
        return points(self.field, self.dimension - 2)

    @cached_property
    def channel(self) -> Channel:
        own = self.touches
        others = self.shape.columns - own
        told = keep_probability(self.epsilon, Fraction(others, own))
        return Channel(touched=told / own, untouched=(1 - told) / others)

    @cached_property
    def support(self) -> Channel:
        both, own = self.overlap, self.touches - self.overlap
        p, q = self.channel.touched, self.channel.untouched
        return Channel(touched=self.touches * p, untouched=both * p + own * q)

    @cached_property
    def addressing(self) -> "Hyperplanes":
        return Hyperplanes(self.categories, field=self.field, dimension=self.dimension)

    @cached_property
    def shape(self) -> Shape:
        return Shape(1, points(self.field, self.dimension))

    @staticmethod
    def examples() -> tuple[Example, ...]:
        return (
            Example(ProjectiveGeometry(categories=tuple("abcdefg"), epsilon=1.0), tuple("aceg")),
            Example(
                ProjectiveGeometry(categories=tuple("abcdefgh"), epsilon=0.5, field=2),
                tuple("adh"),
            ),
        )


def points(field: int, dimension: int) -> int:
    """How many points the projective space of so many dimensions has."""
    return (int(field**dimension) - 1) // (field - 1)


def is_prime(number: int) -> bool:
    """Trial division: the numbers asked about are below 2**26."""
    if number < 2 or number > MAX_POINTS:
        return False
    divisor = 2
    while divisor * divisor <= number:
        if number % divisor == 0:
            return False
        divisor += 1
    return True


def least_line(categories: int) -> int:
    """The least prime whose line has a point for each category: a larger field gains nothing."""
    field = max(2, categories - 1)
    while not is_prime(field):
        field += 1
    return field


def tuned_field(epsilon: float, categories: int) -> int:
    """The prime nearest to e**epsilon + 1, or the least that gives each category a point of a line
    if that is smaller; exact on every machine."""
    enough = least_line(categories)
    best = EXACT.add(EXACT.exp(Decimal(epsilon)), Decimal(1))
    if best >= enough:
        return enough
    low = high = int(best)
    while low > 2 and not is_prime(low):
        low -= 1
    high += 1
    while not is_prime(high):
        high += 1
    return low if best - low <= high - best else high


@dataclass(frozen=True)
class Hyperplanes(Identity):
    """The hyperplane of the i-th point for the i-th category.

    A point is told by the only vector of it whose first number that is not 0 is 1. They are
    numbered by how many numbers follow that 1, and then by these read as digits.
    """

    field: int = 2
    dimension: int = 2

    def cells(self, point: int, row: int) -> Sequence[int]:
        return Hyperplane(self.field, vector(point, self.field, self.dimension))


def vector(number: int, field: int, dimension: int) -> tuple[int, ...]:
    """The numbers of a point."""
    digits = 0
    while number >= points(field, digits + 1):
        digits += 1
    rest = number - points(field, digits)
    found = [rest // field**power % field for power in reversed(range(digits))]
    return (0,) * (dimension - 1 - digits) + (1, *found)


def number_of(numbers: Sequence[int], field: int) -> int:
    """The point of any vector but 0: undoes `vector`."""
    first = next(i for i, number in enumerate(numbers) if number)
    inverse = pow(numbers[first], -1, field)
    digits = numbers[first + 1 :]
    rest = 0
    for digit in digits:
        rest = rest * field + digit * inverse % field
    return points(field, len(digits)) + rest


@dataclass(frozen=True)
class Hyperplane(ManyCells):
    """The points orthogonal to a vector, and those that are not.

    The last number of the vector that is not 0 is solved for: the others are free, those of a point
    of one dimension less where the product shall be 0, and any at all where it shall be 1.
    """

    field: int
    normal: tuple[int, ...]

    @cached_property
    def _solved(self) -> int:
        return max(i for i, number in enumerate(self.normal) if number)

    def _completed(self, free: Sequence[int], product: int) -> int:
        """The point of the vector with these other numbers whose product with the normal is so."""
        solved, normal, field = self._solved, self.normal, self.field
        others = (*normal[:solved], *normal[solved + 1 :])
        left = product - sum(a * b for a, b in zip(free, others, strict=True))
        number = left * pow(normal[solved], -1, field) % field
        return number_of((*free[:solved], number, *free[solved:]), field)

    def __len__(self) -> int:
        return points(self.field, len(self.normal) - 1)

    @overload
    def __getitem__(self, number: int) -> int: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[int]: ...
    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        if not -len(self) <= number < len(self):
            raise IndexError("no such point")
        return self._completed(vector(number % len(self), self.field, len(self.normal) - 1), 0)

    def outside(self, number: int) -> int:
        size = len(self.normal) - 1
        free = [number // self.field**power % self.field for power in range(size)]
        return self._completed(free, 1)

    def __contains__(self, column: object) -> bool:
        assert isinstance(column, int)
        numbers = vector(column, self.field, len(self.normal))
        return sum(a * b for a, b in zip(numbers, self.normal, strict=True)) % self.field == 0

    def __iter__(self) -> Iterator[int]:
        return map(self.__getitem__, range(len(self)))
