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

from ldp.arrays import AnyInts, Bools, Ints, Points, RowNumbers
from ldp.bulk.compiled import compiled
from ldp.bulk.point_kernels import count_sets, pick
from ldp.mechanisms.projective_geometry import Hyperplanes, number_of_points

AT_ONCE = 1 << 16
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
    addressing: Hyperplanes, counts: AnyInts, known: Sequence[int] | AnyInts
) -> Ints:
    field, numbers = addressing.field, np.asarray(known)
    normals = np.empty((numbers.size, addressing.dimension), np.min_scalar_type(field))
    for some in _slices(numbers.size):
        normals[some] = vectors(numbers[some].astype(np.int64), field, addressing.dimension)
    return count_incidences(counts, normals, field)


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
    inverses = np.array([1, *(pow(number, -1, field) for number in range(1, field))])
    sums = np.where(normals[:, -1] == 0, counts[0], 0).astype(np.int64)
    # how many numbers follow the first
    for size in range(1, dimension):
        start, end = (number_of_points(field, count) for count in (size, size + 1))
        block = counts[start:end].reshape((field,) * size)
        _add_along(sums, block, normals[:, dimension - 1 - size :], inverses)
    return sums


def _add_along(sums: Ints, block: AnyInts, normals: AnyInts, inverses: Ints) -> None:
    """Add to `sums` for each candidate, with numbers (a, v), shape (candidates, 1 + m), the sum of
    the block, shape (field, ...), over all w with a + <w, v> = 0."""
    field, size = inverses.size, block.ndim
    weights = field ** np.arange(size)[::-1]
    keys, number = np.empty(len(normals), np.int32), np.zeros(field**size, np.int32)
    for some in _slices(len(normals)):
        rest = normals[some, 1:]
        keys[some] = rest * _scales(rest, inverses)[:, None] % field @ weights
    number[keys] = 1
    lines = np.flatnonzero(number)
    number[lines] = np.arange(lines.size)
    transformed = np.empty((*block.shape[1:], field // 2 + 1), np.complex128)
    rows, halves = block.reshape(-1, field), transformed.reshape(-1, field // 2 + 1)
    # in one such array: rfftn holds two
    for some in _slices(len(rows), AT_ONCE // field + 1):
        halves[some] = np.fft.rfft(rows[some])
    for axis in reversed(range(size - 1)):
        np.fft.fft(transformed, axis=axis, out=transformed)
    by_line = np.empty((lines.size, field), np.min_scalar_type(-int(block.sum())))
    for some in _slices(lines.size, AT_ONCE // field + 1):
        directions = lines[some, None] // weights % field
        slices = [_at(transformed, c * directions % field) for c in range(field // 2 + 1)]
        by_line[some] = np.rint(np.fft.irfft(slices, field, axis=0)).T
    for some in _slices(len(normals)):
        scales = _scales(normals[some, 1:], inverses)
        sums[some] += by_line[number[keys[some]], (field - normals[some, 0]) * scales % field]


def _slices(size: int, at_once: int = 0) -> list[slice]:
    """Return slices that cover `size` places, each of `at_once`, by default AT_ONCE."""
    step = at_once or AT_ONCE
    return [slice(start, start + step) for start in range(0, size, step)]


def _scales(vectors: AnyInts, inverses: Ints) -> Ints:
    """Return the inverse of the first number other than 0 of each vector, shape (n, m). The result
    for zeros is 1."""
    first = np.take_along_axis(vectors, (vectors != 0).argmax(axis=1)[:, None], axis=1)[:, 0]
    return inverses[first]


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
