"""Projective geometry response: nearly the least possible error, in a report of a few bytes.

Source: Feldman, Nelson, Nguyen and Talwar 2022 (ICML). Counts are recovered by
`ldp/decoding/geometry.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count

from ldp.errors import ParameterError
from ldp.mechanisms.addressing import CellSets, require_categories
from ldp.mechanisms.base import Case, Shape
from ldp.mechanisms.categorical import SetResponse
from ldp.protocol.channel import power_plus_one, require_epsilon
from ldp.protocol.kinds import ManyCells

MAX_POINTS = 1 << 26
"""Largest number of points: a server keeps a number for each."""


@dataclass(frozen=True, kw_only=True)
class ProjectiveGeometry(SetResponse):
    """Projective geometry response: a point of a finite projective space, in which the points on
    the value's hyperplane are likelier.

    Report: one of K = (s**t - 1) / (s - 1) points, with s = `field` and t the least dimension for
    which K is at least the number of categories. Category i stands for the hyperplane orthogonal to
    point i, which has S = (s**(t-1) - 1) / (s - 1) points. Any two share (s**(t-2) - 1) / (s - 1).
    A point of the value's hyperplane has probability P / S, with P = S e**epsilon / (S e**epsilon +
    K - S) rounded down to a multiple of 2**-64, any other point (1 - P) / (K - S). `field` is prime
    and defaults to the prime nearest to e**epsilon + 1: there the variance is nearly the least
    possible, 4 e**epsilon / (e**epsilon - 1)**2 a report, and unlike with hashing no collision adds
    to it.

    >>> letters = ProjectiveGeometry(categories=tuple("abcdefgh"), epsilon=2.0)
    >>> letters.field, letters.shape.columns, letters.cost.epsilon <= 2.0
    (7, 8, True)
    >>> round(letters.std_error(reports=10_000), 1)
    57.3

    Raises ParameterError for a field that is not prime, and for more than 2**26 points. Other
    parameters, ranges and errors: `Categorical`.
    """

    name = "pgr"
    wire_id = 11
    cases = (
        Case(*"aceg", categories=tuple("abcdefg"), epsilon=1.0),
        Case(*"adh", categories=tuple("abcdefgh"), epsilon=0.5, field=2),
    )

    field: int = 0

    def __post_init__(self) -> None:
        size = len(require_categories(self.categories))
        if self.field == 0 and type(self.field) is int:
            object.__setattr__(self, "field", tuned_field(require_epsilon(self.epsilon), size))
        if type(self.field) is not int or not is_prime(self.field):
            raise ParameterError("field must be a prime number")
        if self.field > (most := least_line(size)):
            raise ParameterError(f"field must be at most {most} for {size} categories")
        super().__post_init__()

    @cached_property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        size = len(self.categories)
        dimension = next(d for d in count(2) if number_of_points(self.field, d) >= size)
        if number_of_points(self.field, dimension) > MAX_POINTS:
            raise ParameterError(
                f"the geometry over a field of {self.field} numbers would have more than "
                f"{MAX_POINTS} points for {size} categories; choose a smaller field"
            )
        return dimension

    @property
    def touches(self) -> int:
        return number_of_points(self.field, self.dimension - 1)

    @property
    def overlap(self) -> int:
        return number_of_points(self.field, self.dimension - 2)

    @cached_property
    def addressing(self) -> "Hyperplanes":
        return Hyperplanes(self.categories, field=self.field, dimension=self.dimension)

    @cached_property
    def shape(self) -> Shape:
        return Shape(1, number_of_points(self.field, self.dimension))


def number_of_points(field: int, dimension: int) -> int:
    """Return the number of points of the projective space over `field` with `dimension`
    coordinates."""
    return (int(field**dimension) - 1) // (field - 1)


def is_prime(number: int) -> bool:
    """Return whether `number` is prime, by trial division; False above `MAX_POINTS`."""
    if number < 2 or number > MAX_POINTS:
        return False
    divisor = 2
    while divisor * divisor <= number:
        if number % divisor == 0:
            return False
        divisor += 1
    return True


def least_line(categories: int) -> int:
    """Return the least prime whose line has a point for each of `categories`, the largest useful
    field."""
    least = max(2, categories - 1)
    return next(filter(is_prime, count(least)))


def tuned_field(epsilon: float, categories: int) -> int:
    """Return the prime nearest to e**epsilon + 1, or `least_line` for this number of categories if
    that is smaller. It is exact on every machine."""
    most, best = least_line(categories), power_plus_one(epsilon)
    if best >= most:
        return most
    low = next(filter(is_prime, range(int(best), 1, -1)))
    high = next(filter(is_prime, count(int(best) + 1)))
    return low if best - low <= high - best else high


@dataclass(frozen=True)
class Hyperplanes(CellSets):
    """Addressing in which the i-th category touches the hyperplane of the i-th point.

    A point is represented by its vector whose first nonzero coordinate is 1. Points are ordered by
    the number of coordinates after that 1, and then by these, read as digits.
    """

    field: int = 2
    dimension: int = 2

    def cells(self, point: int, row: int) -> ManyCells:
        return Hyperplane(self.field, vector(point, self.field, self.dimension))


def vector(number: int, field: int, dimension: int) -> tuple[int, ...]:
    """Return the `dimension` coordinates, below `field`, of the point `number`."""
    digits, rest = [], digits_of(number, field)
    for _ in range(dimension):
        rest, digit = divmod(rest, field)
        digits.append(digit)
    return tuple(reversed(digits))


def point_number(coordinates: Sequence[int], field: int) -> int:
    """Return the number of the point of any nonzero vector: the inverse of `vector`."""
    inverse, digits = pow(next(filter(None, coordinates)), -1, field), 0
    for coordinate in coordinates:
        digits = digits * field + coordinate * inverse % field
    return _number_of(digits, field)


def digits_of(number: int, field: int) -> int:
    """Return the coordinates of the point `number` as digits of one integer of base `field`."""
    size = 1
    while number >= size:
        number -= size
        size *= field
    return size + number


def _number_of(digits: int, field: int) -> int:
    """Return the number of the point with these `digits`, of which the first is 1."""
    size = 1
    while digits >= size * field:
        size *= field
    return digits - size + (size - 1) // (field - 1)


class Hyperplane(ManyCells):
    """Sequence of the points orthogonal to the vector `normal`, over the `field`.

    The coordinate at the last nonzero place of `normal` is solved for, the others are free. For a
    product of 0 (points of the hyperplane) they are the coordinates of a point of one dimension
    less. For a product of 1 (points outside) they are any numbers of the field.
    """

    __slots__ = ("_field", "_inverse", "_normal", "_places", "_solved")

    def __init__(self, field: int, normal: Sequence[int]) -> None:
        solved = self._places = len(normal) - 1
        while not normal[solved]:
            solved -= 1
        self._field, self._normal, self._solved = field, normal, solved
        self._inverse = pow(normal[solved], -1, field)

    def __len__(self) -> int:
        return number_of_points(self._field, self._places)

    def inside(self, number: int) -> int:
        field, after = self._field, self._field ** (self._places - self._solved)
        free, total = digits_of(number, field), 0
        before = rest = free // after
        for place in range(self._solved - 1, -1, -1):
            rest, digit = divmod(rest, field)
            total -= digit * self._normal[place]
        coordinate = total * self._inverse % field
        return _number_of((before * field + coordinate) * after + free % after, field)

    def outside(self, number: int) -> int:
        field, solved, total, free = self._field, self._solved, 1, list[int]()
        for coordinate in self._normal[:-1]:
            number, digit = divmod(number, field)
            free.append(digit)
            if len(free) <= solved:
                total -= digit * coordinate
        free.insert(solved, total * self._inverse % field)
        return point_number(free, field)

    def __contains__(self, column: object) -> bool:
        assert isinstance(column, int)
        numbers = vector(column, self._field, len(self._normal))
        return sum(a * b for a, b in zip(numbers, self._normal, strict=True)) % self._field == 0
