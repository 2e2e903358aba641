"""Hashed cells of many values: the bulk twins of `ldp.protocol.hashing` and `spelling`."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.arrays import Ints, Points, RowNumbers
from ldp.bulk.compiled import by_rows, compiled, lanes
from ldp.bulk.md5 import md5_of_rows
from ldp.bulk.point_kernels import NO_COLUMN, columns, points, scatter
from ldp.protocol.bloom import PolynomialBloom
from ldp.protocol.cityhash import MIX, Bloom, CityBloom
from ldp.protocol.hashing import FIELD, PolynomialRows, Value, value_bytes
from ldp.protocol.md5_bloom import MD5_SCHEMES, Md5Bloom
from ldp.protocol.spelling import Blocks, FragmentPairs

_FIELD = np.uint64(FIELD)
_LOW_31, _LOW_30 = np.uint64((1 << 31) - 1), np.uint64((1 << 30) - 1)
_0, _1, _3, _8_UNITS, _29, _30, _31, _32, _58, _61 = (
    np.uint64(n) for n in (0, 1, 3, 8, 29, 30, 31, 32, 58, 61)
)
_LOW_8, _8 = np.uint32(255), np.uint32(8)
_MIX, _47, _LOW_32 = np.uint64(MIX), np.uint64(47), np.uint64((1 << 32) - 1)


@lru_cache(maxsize=4)
def coefficients(addressing: PolynomialRows, rows: int) -> NDArray[np.uint64]:
    """Return the polynomials of rows 0..rows-1: uint64, shape (rows, 3), highest power first."""
    digests = b"".join(addressing.row_digest(row) for row in range(rows))
    table = np.frombuffer(digests, dtype="<u8").reshape(rows, 3) % _FIELD
    table.setflags(write=False)
    return table


@points.register
def _position_points(
    addressing: Blocks | FragmentPairs, rows: int, values: Sequence[Value]
) -> Points:
    numbers = [addressing.position_points(value) for value in values]
    return np.array(numbers, dtype=np.uint64).reshape(len(values), addressing.spelling.positions)


@points.register
def _md5_points(addressing: Md5Bloom, rows: int, values: Sequence[Value]) -> Points:
    return bloom_map(addressing, rows, values)


@columns.register
def _row_columns(addressing: PolynomialRows, rows: int, points: Points, at: RowNumbers) -> Ints:
    polynomials, width = coefficients(addressing, rows), np.uint64(addressing.width)
    return np.asarray(_polynomial_columns(polynomials, points, at, width))[:, None]


@columns.register
def _block_columns(addressing: Blocks, rows: int, points: Points, at: RowNumbers) -> Ints:
    at_position = points[np.arange(len(points)), at // addressing.rows_each]
    return columns(addressing.rows, rows, at_position, at)


@columns.register
def _bloom_columns(addressing: PolynomialBloom, rows: int, points: Points, at: RowNumbers) -> Ints:
    hashes, width = addressing.hashes, np.uint64(addressing.bits)
    polynomials = coefficients(addressing.rows, rows * hashes)
    by_hash = [
        _polynomial_columns(polynomials, points, at * np.uint32(hashes) + np.uint32(i), width)
        for i in range(hashes)
    ]
    return _mask_repeats(np.stack(by_hash, axis=1))


@columns.register
def _md5_filter_columns(addressing: Md5Bloom, rows: int, points: Points, at: RowNumbers) -> Ints:
    return _mask_repeats(points[np.arange(len(points)), at].astype(np.int64))


@columns.register
def _city_filter_columns(addressing: CityBloom, rows: int, points: Points, at: RowNumbers) -> Ints:
    seeds = at.astype(np.uint64)[:, None] * np.uint64(addressing.hashes)
    numbers: Points = np.arange(addressing.hashes, dtype=np.uint64)
    return _mask_repeats(_city_columns(addressing, points[:, None], seeds + numbers))


def _city_columns(addressing: CityBloom, points: Points, seeds: Points) -> Ints:
    """Return the columns of points under seeds, int64, broadcast: CityBloom in whole arrays."""
    a = (points ^ seeds) * _MIX
    a ^= a >> _47
    b = (seeds ^ a) * _MIX
    hashed = (b ^ b >> _47) * _MIX & _LOW_32
    return (hashed % np.uint64(addressing.bits)).astype(np.int64)


@columns.register
def _pair_columns(addressing: FragmentPairs, rows: int, points: Points, at: RowNumbers) -> Ints:
    bloom, cohorts, pairs = addressing.bloom, addressing.cohorts, np.array(addressing.pairs)
    halves = []
    for half, position in enumerate(pairs[at // cohorts].T):
        at_position = points[np.arange(len(points)), position]
        bits = columns(bloom, cohorts, at_position, at % np.uint32(cohorts))
        halves.append(np.where(bits == NO_COLUMN, NO_COLUMN, bits + half * bloom.bits))
    return np.concatenate(halves, axis=1)


@scatter.register
def _scatter_rows(
    addressing: PolynomialRows, rows: int, counts: Ints, by_value: Ints, points: Points, start: int
) -> None:
    polynomials = coefficients(addressing, rows)[start : start + len(counts)]
    _scatter_polynomial(counts, by_value, polynomials, points, np.uint64(addressing.width))


@scatter.register
def _scatter_blocks(
    addressing: Blocks, rows: int, counts: Ints, by_value: Ints, points: Points, start: int
) -> None:
    for position, at_position in enumerate(np.ascontiguousarray(points.T)):
        first = max(start, position * addressing.rows_each)
        stop = min(start + len(counts), (position + 1) * addressing.rows_each)
        if first < stop:
            part = slice(first - start, stop - start)
            scatter(addressing.rows, rows, counts[part], by_value[:, part], at_position, first)


def bloom_map(addressing: Bloom, rows: int, values: Sequence[Value]) -> Points:
    """Return the columns that each value's hashes name in every row: uint8 or uint16, shape
    (values, rows, hashes). A column that two hashes name may occur twice. Time: 1 to 2 ns a hash of
    the polynomial family, 15 to 40 ns an MD5 digest where there are many rows, shared by all
    cores."""
    kind = np.uint8 if addressing.bits <= 256 else np.uint16
    places = np.empty((len(values), rows, addressing.hashes), dtype=kind)
    if isinstance(addressing, Md5Bloom):
        spelled = [value_bytes(value) for value in values]
        letters = np.frombuffer(b"".join(spelled), dtype=np.uint8)
        bounds = np.cumsum([0, *map(len, spelled)], dtype=np.int64)
        starts, ends = bounds[:-1], bounds[1:]
        is_big = MD5_SCHEMES[addressing.scheme].order == "big"
        size, bits = addressing.size, np.uint32(addressing.bits)
        by_rows(
            lambda part: _md5_columns(
                places[part], letters, starts[part], ends[part], size, is_big, bits
            ),
            len(places),
        )
        return places
    if isinstance(addressing, CityBloom):
        at = points(addressing, rows, values)[:, None, None]
        seeds = np.arange(rows * addressing.hashes, dtype=np.uint64).reshape(1, rows, -1)
        places[:] = _city_columns(addressing, at, seeds)
        return places
    polynomials = np.ascontiguousarray(coefficients(addressing.rows, rows * addressing.hashes).T)
    value_points, width = points(addressing, rows, values), np.uint64(addressing.bits)
    flat = places.reshape(len(values), rows * addressing.hashes)

    def work(part: slice) -> None:
        _all_columns(flat[part], polynomials, value_points[part], width)

    by_rows(work, len(values), flat.size)
    return places


@compiled()
def _md5_columns(
    places: Any, letters: Any, starts: Any, ends: Any, size: int, is_big: bool, bits: Any
) -> None:
    for value in range(places.shape[0]):
        words = md5_of_rows(letters[starts[value] : ends[value]], places.shape[1])
        for row in lanes(places.shape[1]):
            for i in range(places.shape[2]):
                number = np.uint32(0)
                for k in range(size):
                    byte = i * size + (k if is_big else size - 1 - k)
                    word = words[byte >> 2, row] >> np.uint32(8 * (byte & 3))
                    number = number << _8 | word & _LOW_8
                places[value, row, i] = number % bits


@compiled()
def _all_columns(places: Any, polynomials: Any, points: Any, width: Any) -> None:
    a, b, c = polynomials[0], polynomials[1], polynomials[2]
    for value in range(places.shape[0]):
        high, low, columns = points[value] >> _31, points[value] & _LOW_31, places[value]
        for i in lanes(columns.size):
            columns[i] = hashed_column(a[i], b[i], c[i], high, low, width)


def _mask_repeats(row_columns: Ints) -> Ints:
    """Put NO_COLUMN where an earlier hash names the column, and return the array."""
    for i in range(1, row_columns.shape[1]):
        row_columns[(row_columns[:, :i] == row_columns[:, i : i + 1]).any(axis=1), i] = NO_COLUMN
    return row_columns


@compiled(few=1 << 22, inline="always")
def _step(hashed: Any, high: Any, low: Any, added: Any) -> Any:
    """Return hashed x + added modulo 2**61 - 1 with x = high 2**31 + low, not fully reduced: below
    2**61 + 8 for `hashed` below that and `added` below 2**61. A product of halves below 2**32 is
    one machine instruction, also as a vector."""
    upper, lower = (hashed >> _31) & _LOW_31, hashed & _LOW_31
    middle = upper * low + lower * high
    total = (
        ((upper * high) << _1) + lower * low + (middle >> _30) + ((middle & _LOW_30) << _31) + added
    )
    return (total & _FIELD) + (total >> _61)


@compiled(few=1 << 22, inline="always")
def _reduced(number: Any) -> Any:
    """Return a number below 2**61 + 8 modulo FIELD = 2**61 - 1: from FIELD on, 1 more drops the
    highest bit."""
    return (number + ((number + _1) >> _61)) & _FIELD


@compiled(few=1 << 22, inline="always")
def hashed_column(a: Any, b: Any, c: Any, high: Any, low: Any, width: Any) -> Any:
    """Return the column of the point high 2**31 + low under the polynomial (a, b, c)."""
    hashed = _reduced(_step(_step(a, high, low, b), high, low, c))
    return ((hashed >> _29) * width) >> _32


@compiled()
def write_fractions(fractions: Any, points: Any) -> None:
    """Write 2**31 x**2, x**2, 2**31 x and x modulo FIELD = 2**61 - 1 of the points x as fractions
    of FIELD, in units of 2**-64 and rounded down, into `fractions`: uint64, shape (4, points)."""
    for i in lanes(points.size):
        point = points[i]
        square = _reduced(_step(point, point >> _31, point & _LOW_31, _0))
        fractions[0, i], fractions[1, i] = _fraction(_shift_31(square)), _fraction(square)
        fractions[2, i], fractions[3, i] = _fraction(_shift_31(point)), _fraction(point)


@compiled(inline="always")
def _shift_31(number: Any) -> Any:
    """Return 2**31 number modulo FIELD, for a number below it: its bits, rotated."""
    return ((number << _31) & _FIELD) | (number >> _30)


@compiled(inline="always")
def _fraction(number: Any) -> Any:
    """Return number 2**64 / FIELD, rounded down, for a number below FIELD."""
    return (number << _3) | (number >> _58)


def _exact_columns(columns: Any, polynomial: Any, points: Any, _: Any, width: Any) -> None:
    parts = points >> _31, points & _LOW_31
    columns[: points.size] = hashed_column(*polynomial, *parts, width)


@compiled(plain=_exact_columns)
def row_columns(columns: Any, polynomial: Any, points: Any, fractions: Any, width: Any) -> None:
    """Write the columns of a few hundred points under one row's `polynomial`, shape (3,), into
    `columns`. `fractions`: those of the points.

    The polynomial's value is a fraction of FIELD. So nothing is reduced: overflow drops whole ones.
    With a, b and c in halves, high 2**31 + low, four products and c are added. Each product is too
    small by less than its half of a coefficient, below 2**31, and a fraction of FIELD exceeds 8
    times the value, which a column is made of, by less than 8. So with 8 subtracted the sum is
    below 8 times the value, by less than 2**33, and the upper 32 bits are too small by 2 at most.
    Where 2 more would be in the next column, all are computed by `hashed_column`.
    """
    a, b, c = polynomial[0], polynomial[1], polynomial[2]
    a_high, a_low, b_high, b_low = a >> _31, a & _LOW_31, b >> _31, b & _LOW_31
    squares_high, squares_low = fractions[0], fractions[1]
    points_high, points_low = fractions[2], fractions[3]
    added, margin, doubt = _fraction(c) - _8_UNITS, width + width, _0
    for i in range(points.size):
        value = a_high * squares_high[i] + a_low * squares_low[i]
        value += b_high * points_high[i] + b_low * points_low[i] + added
        place = (value >> _32) * width
        columns[i] = place >> _32
        doubt |= (place & _LOW_32) + margin
    if doubt >> _32:
        for i in range(points.size):
            columns[i] = hashed_column(a, b, c, points[i] >> _31, points[i] & _LOW_31, width)


@compiled(few=1 << 20)
def _polynomial_columns(coefficients: Any, points: Any, at: Any, width: Any) -> Any:
    hashed_columns = np.empty(points.size, dtype=np.int64)
    for i in lanes(points.size):
        a, b, c = coefficients[at[i], 0], coefficients[at[i], 1], coefficients[at[i], 2]
        hashed_columns[i] = hashed_column(a, b, c, points[i] >> _31, points[i] & _LOW_31, width)
    return hashed_columns


def _scatter_by_point(
    counts: Any, by_value: Any, coefficients: Any, points: Any, width: Any
) -> None:
    for point, by_row in zip(points, by_value, strict=True):
        rows = np.flatnonzero(by_row)
        at = np.broadcast_to(point, rows.size)
        counts[rows, _polynomial_columns(coefficients, at, rows, width)] += by_row[rows]


@compiled(plain=_scatter_by_point)
def _scatter_polynomial(
    counts: Any, by_value: Any, coefficients: Any, points: Any, width: Any
) -> None:
    for i in range(points.size):
        for row in range(counts.shape[0]):
            if by_value[i, row]:
                a, b, c = coefficients[row, 0], coefficients[row, 1], coefficients[row, 2]
                column = hashed_column(a, b, c, points[i] >> _31, points[i] & _LOW_31, width)
                counts[row, column] += by_value[i, row]
