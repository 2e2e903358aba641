"""Points of many hyperplanes at once: the bulk twin of `ldp.mechanisms.projective_geometry`.

The points whose first number other than 0 is at one place are a block of the table: a function A of
the m numbers w that follow it, over a field of s. The hyperplane of a candidate (.., a, v), with a
at that place, has the points with a + <w, v> = 0. The sums of A over all w with the same product
with v are an inverse Fourier transform of s numbers, which the transform of A has at the multiples
of v (the "projection slice"): each block is transformed once and each line through 0 once, so all K
points cost about as much as summing over the points of one candidate.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.arrays import AnyInts, Bools, Floats, Ints, Points, RowNumbers
from ldp.bulk.compiled import compiled
from ldp.bulk.point_kernels import count_sets, pick
from ldp.mechanisms.projective_geometry import Hyperplanes, number_of_points

AT_ONCE = 1 << 19
"""Number of hyperplanes that are computed at one time, which bounds memory."""


@pick.register
def _pick_point(
    addressing: Hyperplanes,
    rows: int,
    points: Points,
    at: RowNumbers,
    is_inside: Bools,
    number: Ints,
) -> Ints:
    field = addressing.field
    inverses = np.array([0, *(pow(i, -1, field) for i in range(1, field))])
    normals = points.astype(np.int64)
    return np.asarray(_points(normals, is_inside, number, inverses, addressing.dimension))


@count_sets.register
def _count_hyperplanes(
    addressing: Hyperplanes, counts: AnyInts, known: Sequence[int] | Ints
) -> Ints:
    normals = vectors(np.asarray(known, np.int64), addressing.field, addressing.dimension)
    return count_incidences(counts, normals, addressing.field)


def vectors(numbers: Ints, field: int, dimension: int) -> NDArray[np.int32]:
    """Return `vector` of each point of `numbers`, shape (n,): shape (n, dimension)."""
    bounds = np.array([number_of_points(field, count + 1) for count in range(dimension)])
    digits = np.searchsorted(bounds, numbers, side="right")
    rest = numbers - np.array([0, *bounds])[digits]
    coordinates = np.empty((len(numbers), dimension), np.int32)
    for place in reversed(range(dimension)):
        coordinates[:, place] = rest % field
        rest //= field
    coordinates[np.arange(len(numbers)), dimension - 1 - digits] = 1
    return coordinates


def count_incidences(counts: AnyInts, normals: AnyInts, field: int) -> Ints:
    """Return for each of the vectors `normals`, shape (candidates, t), over the `field` the sum of
    the `counts`, shape (K,), of all points that are orthogonal to it: int64, shape (candidates,).
    Exact up to 2**52 reports, after rounding."""
    dimension = normals.shape[1]
    inverses = np.array([0, *(pow(number, -1, field) for number in range(1, field))])
    sums = np.zeros(len(normals), dtype=np.int64)
    for size in range(dimension):  # how many numbers follow the first
        start, end = (number_of_points(field, count) for count in (size, size + 1))
        block = counts[start:end].astype(np.float64)
        place = dimension - 1 - size
        first, rest = normals[:, place], normals[:, place + 1 :]
        is_line = rest.any(axis=1)
        sums[~is_line] += np.where(first[~is_line], 0, int(block.sum()))
        if is_line.any():
            sums[is_line] += _along(block, first[is_line], rest[is_line], inverses)
    return sums


def _along(block: Floats, first: AnyInts, rest: AnyInts, inverses: Ints) -> Ints:
    """Return for each candidate, with numbers `first` (a) and `rest` (v, not 0), shape (candidates,
    m), the sum of the block over all w with a + <w, v> = 0: int64, shape (candidates,)."""
    field, size = inverses.size, rest.shape[1]
    weights = field ** np.arange(size)[::-1]
    leading = np.take_along_axis(rest, (rest != 0).argmax(axis=1)[:, None], axis=1)[:, 0]
    keys = np.empty(len(rest), np.int64)
    for start in range(0, len(rest), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        keys[some] = rest[some] * inverses[leading[some], None] % field @ weights
    lines, line = np.unique(keys, return_inverse=True)
    shape = (field,) * size
    half = np.empty((*shape[1:], field // 2 + 1), np.complex128)
    transformed = np.fft.rfftn(block.reshape(shape), out=half)  # otherwise in two such arrays
    sums = np.empty((lines.size, field), np.int64)
    for start in range(0, lines.size, AT_ONCE // field + 1):
        some = slice(start, start + AT_ONCE // field + 1)
        directions = lines[some, None] // weights % field
        slices = [_at(transformed, c * directions % field) for c in range(field // 2 + 1)]
        sums[some] = np.rint(np.fft.irfft(slices, field, axis=0)).T
    return np.asarray(sums[line, -first * inverses[leading] % field])


def _at(transformed: NDArray[np.complex128], places: Ints) -> NDArray[np.complex128]:
    """Return the Fourier transform of real numbers at `places`, shape (n, m), from the half that
    `rfftn` computes: the other half is its conjugate, mirrored."""
    field, half = transformed.shape[0], transformed.shape[-1]
    is_mirrored = places[:, -1] >= half
    places = np.where(is_mirrored[:, None], -places % field, places)
    values = transformed[tuple(places.T)]
    return np.asarray(np.where(is_mirrored, values.conj(), values))


@compiled(few=1 << 17)
def _vector(number: int, field: int, vector: Any) -> None:
    """Write the numbers of a point to `vector`, as `ldp.mechanisms.projective_geometry.vector`."""
    size, digits = 1, 0
    while number >= size:
        number -= size
        size *= field
        digits += 1
    vector[:] = 0
    for i in range(digits):
        vector[vector.size - 1 - i] = number % field
        number //= field
    vector[vector.size - 1 - digits] = 1


@compiled(few=1 << 13)
def _points(normals: Any, is_inside: Any, number: Any, inverses: Any, dimension: int) -> Any:
    """Return the number[i]-th point of the hyperplane of point normals[i], or where not
    is_inside[i] of the points outside of it."""
    field, picked = inverses.size, np.empty(normals.size, dtype=np.int64)
    normal = np.empty(dimension, dtype=np.int64)
    free = np.empty(dimension - 1, dtype=np.int64)
    point = np.empty(dimension, dtype=np.int64)
    for i in range(normals.size):
        _vector(normals[i], field, normal)
        solved = dimension - 1
        while normal[solved] == 0:
            solved -= 1
        left, rest = 0, number[i]
        if is_inside[i]:
            _vector(rest, field, free)
        else:
            left = 1
            for j in range(dimension - 1):
                free[j] = rest % field
                rest //= field
        for j in range(dimension - 1):
            at = j + (j >= solved)
            point[at] = free[j]
            left -= free[j] * normal[at]
        point[solved] = left % field * inverses[normal[solved]] % field
        first = 0
        while point[first] == 0:
            first += 1
        inverse, place, size, before = inverses[point[first]], 0, 1, 0
        for j in range(first + 1, dimension):
            place = place * field + point[j] * inverse % field
            before += size
            size *= field
        picked[i] = before + place
    return picked
