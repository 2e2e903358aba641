"""Points of many hyperplanes at once: the bulk twin of `ldp.mechanisms.projective_geometry`."""

from typing import Any

import numpy as np

from ldp.arrays import Bools, Ints, Points, RowNumbers
from ldp.bulk.addressing import columns, pick
from ldp.bulk.compiled import compiled
from ldp.mechanisms.projective_geometry import Hyperplanes


@columns.register
def _hyperplane_columns(addressing: Hyperplanes, rows: int, points: Points, at: RowNumbers) -> Ints:
    return np.array([list(addressing.cells(point, 0)) for point in points.tolist()])


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


@compiled()
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


@compiled()
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
