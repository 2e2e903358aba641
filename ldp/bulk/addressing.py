"""The cells of many values at once: the bulk twin of the addressings.

Compiled with numba and held to `ldp.protocol.hashing` by tests that compare every output.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.arrays import Bools, Ints, Points
from ldp.bulk.compiled import by_rows, compiled
from ldp.bulk.md5 import md5_of_rows
from ldp.mechanisms.addressing import Addressing, Identity, Rounding
from ldp.mechanisms.bit_flip import Buckets
from ldp.mechanisms.moments import Products
from ldp.mechanisms.numeric import Numbers
from ldp.mechanisms.projective_geometry import Hyperplanes
from ldp.protocol.hashing import (
    FIELD,
    MD5_SCHEMES,
    Md5Bloom,
    PolynomialBloom,
    PolynomialRows,
    Value,
    value_bytes,
)
from ldp.protocol.spelling import Blocks, ByPosition, FragmentPairs

_FIELD = np.uint64(FIELD)
_LOW_31, _LOW_30 = np.uint64((1 << 31) - 1), np.uint64((1 << 30) - 1)
_1, _29, _30, _31, _32, _61 = (np.uint64(n) for n in (1, 29, 30, 31, 32, 61))
_LOW_8, _8 = np.uint32(255), np.uint32(8)
NO_COLUMN = -1
"""Stands for "touches no cell" where a column is expected."""


def points(addressing: Addressing, rows: int, values: Sequence[Value]) -> Points:
    """What stands for many values in bulk: their points, uint64, shape (values,); of words those of
    what they have at every position, shape (values, positions); where a hash needs the whole value
    its `bloom_map`; and of numbers how they are rounded, in every row or in all, shape (values,
    rows or 1, 2)."""
    if isinstance(addressing, ByPosition):
        return np.array(
            [addressing.position_points(value) for value in values], dtype=np.uint64
        ).reshape(len(values), addressing.spelling.positions)
    if isinstance(addressing, Md5Bloom):
        return bloom_map(addressing, rows, values)
    if isinstance(addressing, Rounding):
        at, found = range(rows if addressing.by_row else 1), map(addressing.point, values)
        each = [[addressing.rounding(point, row) for row in at] for point in found]
        return np.array(each, dtype=np.uint64).reshape(len(values), len(at), 2)
    return np.array([addressing.point(value) for value in values], dtype=np.uint64)


@lru_cache(maxsize=4)
def coefficients(addressing: PolynomialRows, rows: int) -> NDArray[np.uint64]:
    """The polynomials of rows 0..rows-1: uint64 array, shape (rows, 3), highest power first."""
    digests = b"".join(addressing.row_digest(row) for row in range(rows))
    table = np.frombuffer(digests, dtype="<u8").reshape(rows, 3) % _FIELD
    table.setflags(write=False)
    return table


def columns(addressing: Addressing, rows: int, points: Points, at: NDArray[np.uint32]) -> Ints:
    """The columns that points[i] touches in row at[i], filled up with NO_COLUMN: int64 array, shape
    (points, hashes), one hash where there is no Bloom filter.

    Of numbers `points` are the steps they were rounded to. Raises TypeError for an addressing it
    has no bulk code for.
    """
    if isinstance(addressing, Hyperplanes):
        return np.array([list(addressing.cells(point, 0)) for point in points.tolist()])
    if isinstance(addressing, Identity):
        listed = points.astype(np.int64)
        listed[listed >= len(addressing.categories)] = NO_COLUMN
        return listed[:, None]
    if isinstance(addressing, PolynomialRows):
        return _hashed(coefficients(addressing, rows), points, at, addressing.width)[:, None]
    if isinstance(addressing, Blocks):
        there = points[np.arange(len(points)), at // addressing.rows_each]
        return _hashed(coefficients(addressing.rows, rows), there, at, addressing.width)[:, None]
    if isinstance(addressing, PolynomialBloom):
        hashes = addressing.hashes
        polynomials = coefficients(addressing.rows, rows * hashes)
        each = [
            _hashed(polynomials, points, at * np.uint32(hashes) + np.uint32(i), addressing.bits)
            for i in range(hashes)
        ]
        return _distinct(np.stack(each, axis=1))
    if isinstance(addressing, FragmentPairs):
        bloom, cohorts, pairs = addressing.bloom, addressing.cohorts, np.array(addressing.pairs)
        halves = []
        for half, position in enumerate(pairs[at // cohorts].T):
            there = points[np.arange(len(points)), position]
            found = columns(bloom, cohorts, there, at % np.uint32(cohorts))
            halves.append(np.where(found == NO_COLUMN, NO_COLUMN, found + half * bloom.bits))
        return np.concatenate(halves, axis=1)
    if isinstance(addressing, Numbers):
        return points.astype(np.int64)[:, None] + np.arange(addressing.width)
    if isinstance(addressing, Buckets):
        found = (points.astype(np.int64) - at) % addressing.buckets
        found[found >= addressing.bits] = NO_COLUMN
        return found[:, None]
    if isinstance(addressing, Products):
        return points.astype(np.int64)[:, None]
    if isinstance(addressing, Md5Bloom):
        return _distinct(points[np.arange(len(points)), at].astype(np.int64))
    raise TypeError(f"no bulk code for {type(addressing).__name__}")


def pick(
    addressing: Addressing,
    rows: int,
    points: Points,
    at: NDArray[np.uint32],
    is_inside: Bools,
    number: Ints,
) -> Ints:
    """For point i, the number[i]-th column that it touches in row at[i], or where not is_inside[i]
    the number[i]-th that it does not: int64, shape of `number`."""
    if isinstance(addressing, Hyperplanes):
        field = addressing.field
        inverses = np.array([0, *(pow(i, -1, field) for i in range(1, field))])
        named = points.astype(np.int64)
        return np.asarray(_points(named, is_inside, number, inverses, addressing.dimension))
    touched = np.sort(columns(addressing, rows, points, at), axis=1)
    inside = touched[np.arange(len(touched)), np.where(is_inside, number, 0)]
    outside = number.copy()
    for cells in touched.T:
        outside += outside >= cells
    return np.where(is_inside, inside, outside)


@compiled()
def _vector(number: int, field: int, vector: Any) -> None:
    """The numbers of a point, as `ldp.mechanisms.projective_geometry.vector`."""
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
def _points(named: Any, is_inside: Any, number: Any, inverses: Any, dimension: int) -> Any:
    """The number[i]-th point of the hyperplane of point named[i], or outside of it."""
    field, found = inverses.size, np.empty(named.size, dtype=np.int64)
    normal = np.empty(dimension, dtype=np.int64)
    free = np.empty(dimension - 1, dtype=np.int64)
    whole = np.empty(dimension, dtype=np.int64)
    for i in range(named.size):
        _vector(named[i], field, normal)
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
            whole[at] = free[j]
            left -= free[j] * normal[at]
        whole[solved] = left % field * inverses[normal[solved]] % field
        first = 0
        while whole[first] == 0:
            first += 1
        inverse, place, size, before = inverses[whole[first]], 0, 1, 0
        for j in range(first + 1, dimension):
            place = place * field + whole[j] * inverse % field
            before += size
            size *= field
        found[i] = before + place
    return found


def bloom_map(addressing: PolynomialBloom | Md5Bloom, rows: int, values: Sequence[Value]) -> Points:
    """The columns that each value's hashes name in every row: uint8 or uint16, shape (values, rows,
    hashes); a column that two hashes name may stand there twice. Time: 1 to 2 ns a hash of the
    polynomial family, 15 to 40 ns an MD5 digest where there are many rows, shared by all cores."""
    kind = np.uint8 if addressing.bits <= 256 else np.uint16
    found = np.empty((len(values), rows, addressing.hashes), dtype=kind)
    if isinstance(addressing, Md5Bloom):
        spelled = [value_bytes(value) for value in values]
        letters = np.frombuffer(b"".join(spelled), dtype=np.uint8)
        bounds = np.cumsum([0, *map(len, spelled)], dtype=np.int64)
        starts, ends = bounds[:-1], bounds[1:]
        is_big = MD5_SCHEMES[addressing.scheme].order == "big"
        size, bits = addressing.size, np.uint32(addressing.bits)
        by_rows(
            lambda some: _md5_columns(
                found[some], letters, starts[some], ends[some], size, is_big, bits
            ),
            len(found),
        )
        return found
    polynomials = np.ascontiguousarray(coefficients(addressing.rows, rows * addressing.hashes).T)
    placed, width = points(addressing, rows, values), np.uint64(addressing.bits)
    flat = found.reshape(len(values), rows * addressing.hashes)
    by_rows(lambda some: _all_columns(flat[some], polynomials, placed[some], width), len(values))
    return found


@compiled()
def _md5_columns(
    found: Any, letters: Any, starts: Any, ends: Any, size: int, is_big: bool, bits: Any
) -> None:
    for value in range(found.shape[0]):
        words = md5_of_rows(letters[starts[value] : ends[value]], found.shape[1])
        for row in range(found.shape[1]):
            for i in range(found.shape[2]):
                number = np.uint32(0)
                for k in range(size):
                    byte = i * size + (k if is_big else size - 1 - k)
                    word = words[byte >> 2, row] >> np.uint32(8 * (byte & 3))
                    number = number << _8 | word & _LOW_8
                found[value, row, i] = number % bits


@compiled()
def _all_columns(found: Any, polynomials: Any, points: Any, width: Any) -> None:
    a, b, c = polynomials[0], polynomials[1], polynomials[2]
    for value in range(found.shape[0]):
        high, low, columns = points[value] >> _31, points[value] & _LOW_31, found[value]
        for i in range(columns.size):
            columns[i] = hashed_column(a[i], b[i], c[i], high, low, width)


def _hashed(
    polynomials: NDArray[np.uint64],
    points: Points,
    at: NDArray[np.uint32],
    width: int,
) -> Ints:
    found: Ints = _polynomial_columns(polynomials, points, at, np.uint64(width))
    return found


def _distinct(found: Ints) -> Ints:
    """The same, with NO_COLUMN where an earlier hash names the column."""
    for i in range(1, found.shape[1]):
        found[(found[:, :i] == found[:, i : i + 1]).any(axis=1), i] = NO_COLUMN
    return found


@compiled()
def negative_signs(columns: Any, cells: Any) -> Any:
    """popcount(columns[i] & cells[i]) & 1: whether the Hadamard sign is a minus. int64 array."""
    found = columns & cells
    for i in range(found.size):
        word = found[i]
        for shift in (32, 16, 8, 4, 2, 1):
            word ^= word >> shift
        found[i] = word & 1
    return found


@compiled(inline="always")
def _step(hashed: Any, high: Any, low: Any, added: Any) -> Any:
    """hashed x + added modulo 2**61 - 1 with x = high 2**31 + low, not fully reduced: below
    2**61 + 8 for `hashed` below that and `added` below 2**61. A product of halves below 2**32 is
    one machine instruction, also of several at once."""
    upper, lower = (hashed >> _31) & _LOW_31, hashed & _LOW_31
    middle = upper * low + lower * high
    total = (
        ((upper * high) << _1) + lower * low + (middle >> _30) + ((middle & _LOW_30) << _31) + added
    )
    return (total & _FIELD) + (total >> _61)


@compiled(inline="always")
def hashed_column(a: Any, b: Any, c: Any, high: Any, low: Any, width: Any) -> Any:
    hashed = _step(_step(a, high, low, b), high, low, c)
    hashed = min(hashed, hashed - _FIELD)  # where it is below FIELD the difference wraps around
    return ((hashed >> _29) * width) >> _32


@compiled()
def _polynomial_columns(coefficients: Any, points: Any, at: Any, width: Any) -> Any:
    found = np.empty(points.size, dtype=np.int64)
    for i in range(points.size):
        a, b, c = coefficients[at[i], 0], coefficients[at[i], 1], coefficients[at[i], 2]
        found[i] = hashed_column(a, b, c, points[i] >> _31, points[i] & _LOW_31, width)
    return found
