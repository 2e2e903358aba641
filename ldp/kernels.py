"""The bulk twin of the scalar code: hashing, packed Bernoulli bits, counting, gathering.

Compiled with numba and held to `ldp.hashing`, `ldp.randomness` and `ldp.wire` by tests that compare
every output. Knows layouts and addressings, no mechanism. Functions that take a row range touch no
other row, so threads that own disjoint ranges share one table without locks.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from os import cpu_count
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ldp.compiled import compiled
from ldp.hashing import (
    FIELD,
    MD5_SCHEMES,
    Blocks,
    ByPosition,
    FragmentPairs,
    Md5Bloom,
    PolynomialBloom,
    PolynomialRows,
    value_bytes,
)
from ldp.md5 import md5_of_rows
from ldp.mechanisms.base import Addressing, Identity, Rounding, Value
from ldp.mechanisms.bit_flip import Buckets
from ldp.mechanisms.moments import Products
from ldp.mechanisms.numeric import Numbers
from ldp.mechanisms.projective_geometry import Hyperplanes
from ldp.randomness import PROBABILITY_BITS

_FIELD = np.uint64(FIELD)
_LOW_31, _LOW_30 = np.uint64((1 << 31) - 1), np.uint64((1 << 30) - 1)
_1, _7, _29, _30, _31, _32, _61, _63 = (np.uint64(n) for n in (1, 7, 29, 30, 31, 32, 61, 63))
_LOW_8, _8 = np.uint32(255), np.uint32(8)
_EACH_BYTE = np.uint64(0x01_01_01_01_01_01_01_01)
_ITS_BIT = np.uint64(0x80_40_20_10_08_04_02_01)
_CARRY = np.uint64(0x7F_7F_7F_7F_7F_7F_7F_7F)
_NO_LANES, _ALL_LANES = np.uint64(0), np.uint64((1 << 64) - 1)
_STREAM = 32_768
_Part = TypeVar("_Part")
_FEW = 1 << 19
"""Cells that are summed before two threads could begin."""
_TILE = 2048
"""Points hashed at once: their columns and sums stay in the cache nearest to a core."""
NO_COLUMN = -1
"""Stands for "touches no cell" where a column is expected."""


def points(
    addressing: Addressing, rows: int, values: Sequence[Value]
) -> NDArray[np.unsignedinteger]:
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


def columns(
    addressing: Addressing, rows: int, points: NDArray[np.unsignedinteger], at: NDArray[np.uint32]
) -> NDArray[np.int64]:
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


def rounded(
    points: NDArray[np.unsignedinteger], at: NDArray[np.uint32], generator: np.random.Generator
) -> NDArray[np.unsignedinteger]:
    """The steps that numbers (`points`) are rounded to at random in rows `at`: uint64, shape of
    `at`."""
    each = points[np.arange(len(at)), at % points.shape[1]]
    drawn = generator.integers(0, 1 << 64, size=len(at), dtype=np.uint64)
    steps: NDArray[np.unsignedinteger] = each[:, 0] + (drawn < each[:, 1])
    return steps


def pick(
    addressing: Addressing,
    rows: int,
    points: NDArray[np.unsignedinteger],
    at: NDArray[np.uint32],
    is_inside: NDArray[np.bool_],
    number: NDArray[np.int64],
) -> NDArray[np.int64]:
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


def bloom_map(
    addressing: PolynomialBloom | Md5Bloom, rows: int, values: Sequence[Value]
) -> NDArray[np.unsignedinteger]:
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
        _by_rows(
            lambda some: _md5_columns(
                found[some], letters, starts[some], ends[some], size, is_big, bits
            ),
            len(found),
        )
        return found
    polynomials = np.ascontiguousarray(coefficients(addressing.rows, rows * addressing.hashes).T)
    placed, width = points(addressing, rows, values), np.uint64(addressing.bits)
    flat = found.reshape(len(values), rows * addressing.hashes)
    _by_rows(lambda some: _all_columns(flat[some], polynomials, placed[some], width), len(values))
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
            columns[i] = _column(a[i], b[i], c[i], high, low, width)


def sum_cells(
    places: NDArray[np.unsignedinteger], cells: NDArray[np.float64]
) -> NDArray[np.float64]:
    """For every value the sum of the `cells`, shape (rows, columns), that its hashes name, each
    once: `places` as by `bloom_map`; float64, shape (values,)."""
    if places.size < _FEW:
        return np.asarray(_sum_cells(places, cells))
    return np.concatenate(_by_rows(lambda some: _sum_cells(places[some], cells), len(places)))


@compiled(fastmath={"reassoc"})
def _sum_cells(places: Any, cells: Any) -> Any:
    """Without branches: whether two hashes name one column is a coin that no processor predicts."""
    sums = np.zeros(places.shape[0])
    for value in range(places.shape[0]):
        named, total = places[value], 0.0
        for i in range(named.shape[1]):
            for row in range(named.shape[0]):
                is_new = True
                for earlier in range(i):
                    is_new &= named[row, earlier] != named[row, i]
                total += cells[row, named[row, i]] * is_new
        sums[value] = total
    return sums


def _hashed(
    polynomials: NDArray[np.uint64],
    points: NDArray[np.unsignedinteger],
    at: NDArray[np.uint32],
    width: int,
) -> NDArray[np.int64]:
    found: NDArray[np.int64] = _polynomial_columns(polynomials, points, at, np.uint64(width))
    return found


def _distinct(found: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same, with NO_COLUMN where an earlier hash names the column."""
    for i in range(1, found.shape[1]):
        found[(found[:, :i] == found[:, i : i + 1]).any(axis=1), i] = NO_COLUMN
    return found


def scatter(
    addressing: Addressing,
    rows: int,
    held: NDArray[np.int64],
    by_value: NDArray[np.int64],
    points: NDArray[np.unsignedinteger],
    start: int,
) -> None:
    """held[r, column of points[i] in row start + r] += by_value[i, r], for the rows of `held`."""
    stop = start + len(held)
    if isinstance(addressing, PolynomialRows):
        part = coefficients(addressing, rows)[start:stop]
        _scatter_polynomial(held, by_value, part, points, np.uint64(addressing.width))
        return
    if isinstance(addressing, Blocks):
        for position, there in enumerate(np.ascontiguousarray(points.T)):
            first = max(start, position * addressing.rows_each)
            last = min(stop, (position + 1) * addressing.rows_each)
            if first < last:
                at_once = slice(first - start, last - start)
                part = coefficients(addressing.rows, rows)[first:last]
                _scatter_polynomial(
                    held[at_once], by_value[:, at_once], part, there, np.uint64(addressing.width)
                )
        return
    for r in range(len(held)):
        at = np.full(len(points), start + r, dtype=np.uint32)
        for cells in columns(addressing, rows, points, at).T:
            np.add.at(held[r], cells[cells != NO_COLUMN], by_value[cells != NO_COLUMN, r])


def gather(
    addressing: PolynomialRows,
    counts: NDArray[np.integer],
    points: NDArray[np.uint64],
    polynomials: NDArray[np.uint64] | None = None,
) -> NDArray[np.int64]:
    """For each point the counts of its cells summed over all rows, exactly: int64, shape of points.

    The hash is fused with the gather, so the index table (points x rows) is never in memory: 1 to 2
    ns a point and row, shared by all cores. `polynomials`: those of the rows of `counts` where they
    are not the first rows.
    """
    width = np.uint64(addressing.width)
    if polynomials is None:
        polynomials = coefficients(addressing, len(counts))
    parts = _by_rows(
        lambda some: _gather_polynomial(counts[some], polynomials[some], points, width), len(counts)
    )
    return sum(parts, np.zeros(points.size, dtype=np.int64))


def gather_groups(
    addressing: PolynomialRows,
    counts: NDArray[np.integer],
    points: NDArray[np.uint64],
    bounds: Sequence[int],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """What `gather` gives; and the sum of it over all points in every group of rows, the i-th being
    those from bounds[i] to bounds[i + 1]: int64, shape of points and (groups,)."""
    width, polynomials = np.uint64(addressing.width), coefficients(addressing, len(counts))

    def work(groups: slice) -> tuple[NDArray[np.int64], list[int]]:
        named, sums = np.zeros(points.size, dtype=np.int64), list[int]()
        for first, last in pairwise(bounds[groups.start : groups.stop + 1]):
            some = slice(first, last)
            part = _gather_polynomial(counts[some], polynomials[some], points, width)
            named += part
            sums.append(int(part.sum()))
        return named, sums

    parts = _by_rows(work, len(bounds) - 1)
    total = sum((named for named, _ in parts), np.zeros(points.size, dtype=np.int64))
    return total, np.array([each for _, sums in parts for each in sums])


def sum_of_squares(
    counts: NDArray[np.integer], scale: float, offsets: NDArray[np.float64]
) -> float:
    """The sum over all cells of (scale * counts[row, column] + offsets[row])**2; `offsets`: shape
    (rows,)."""
    parts = _by_rows(lambda some: _sum_of_squares(counts[some], scale, offsets[some]), len(counts))
    return float(sum(parts))


def _by_rows(work: Callable[[slice], _Part], rows: int) -> list[_Part]:
    """`work` on as many slices of the rows as there are cores, each in its thread."""
    workers = max(1, min(rows, cpu_count() or 1))
    bounds = np.linspace(0, rows, workers + 1).astype(int)
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, map(slice, bounds[:-1], bounds[1:])))


def walsh_hadamard(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    """For every row the sums over columns l of counts[row, l] (-1)**popcount(l & cell): int64,
    shape of `counts`, whose columns must be a power of two."""
    sums = counts.astype(np.int64)
    _by_rows(lambda some: _butterflies(sums[some]), len(sums))
    return sums


@compiled()
def _butterflies(sums: Any) -> None:
    for row in range(sums.shape[0]):
        cells = sums[row]
        half = 1
        while half < cells.size:
            for start in range(0, cells.size, 2 * half):
                for i in range(start, start + half):
                    low, high = cells[i], cells[i + half]
                    cells[i], cells[i + half] = low + high, low - high
            half *= 2


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
def _column(a: Any, b: Any, c: Any, high: Any, low: Any, width: Any) -> Any:
    hashed = _step(_step(a, high, low, b), high, low, c)
    hashed = min(hashed, hashed - _FIELD)  # where it is below FIELD the difference wraps around
    return ((hashed >> _29) * width) >> _32


@compiled()
def _polynomial_columns(coefficients: Any, points: Any, at: Any, width: Any) -> Any:
    found = np.empty(points.size, dtype=np.int64)
    for i in range(points.size):
        a, b, c = coefficients[at[i], 0], coefficients[at[i], 1], coefficients[at[i], 2]
        found[i] = _column(a, b, c, points[i] >> _31, points[i] & _LOW_31, width)
    return found


@compiled()
def _gather_polynomial(counts: Any, coefficients: Any, points: Any, width: Any) -> Any:
    """A tile of points at a time: first their columns in a row, which the compiler does several at
    once because it sees halves of 32 bits, then the counts there. Wide rows take larger tiles, so
    that a row is fetched from afar for many points."""
    sums = np.zeros(points.size, dtype=np.int64)
    tile = max(_TILE, counts.shape[1])
    found = np.empty(tile, dtype=np.uint32)
    for first in range(0, points.size, tile):
        some, here = points[first : first + tile], sums[first : first + tile]
        high, low = (some >> _31).astype(np.uint32), (some & _LOW_31).astype(np.uint32)
        for row in range(counts.shape[0]):
            a, b, c = coefficients[row, 0], coefficients[row, 1], coefficients[row, 2]
            cells = counts[row]
            for i in range(some.size):
                found[i] = _column(a, b, c, np.uint64(high[i]), np.uint64(low[i]), width)
            for i in range(some.size):
                here[i] += np.int64(cells[found[i]])
    return sums


@compiled(fastmath={"reassoc", "contract"})
def _sum_of_squares(counts: Any, scale: float, offsets: Any) -> float:
    total = 0.0
    for row in range(counts.shape[0]):
        offset = offsets[row]
        for column in range(counts.shape[1]):
            cell = scale * counts[row, column] + offset
            total += cell * cell
    return total


@compiled()
def _scatter_polynomial(
    held: Any, by_value: Any, coefficients: Any, points: Any, width: Any
) -> None:
    for i in range(points.size):
        for row in range(held.shape[0]):
            if by_value[i, row]:
                a, b, c = coefficients[row, 0], coefficients[row, 1], coefficients[row, 2]
                column = _column(a, b, c, points[i] >> _31, points[i] & _LOW_31, width)
                held[row, column] += by_value[i, row]


@compiled()
def count_bits(counts: Any, rows: Any, payloads: Any, start: int, stop: int) -> None:
    """counts[row, c] += bit c of the payload, for every report with start <= row < stop."""
    spread = np.empty(payloads.shape[1], dtype=np.uint64)  # of one report, a byte a column
    ones = spread.view(np.uint8)
    for i in range(rows.size):
        row = rows[i]
        if start <= row < stop:
            for byte in range(spread.size):
                # byte k of the product keeps bit k, and carries it into its top bit when it is set
                kept = (np.uint64(payloads[i, byte]) * _EACH_BYTE) & _ITS_BIT
                spread[byte] = ((kept + _CARRY) >> _7) & _EACH_BYTE
            cells = counts[row]
            for c in range(cells.size):
                cells[c] += ones[c]


def packed_bernoulli(
    generator: np.random.Generator, threshold: int, words: int
) -> NDArray[np.uint64]:
    """uint64 array, shape (words,): every bit 1 with probability threshold / 2**64 exactly.

    The same comparison from the top bit down as `ldp.randomness.bernoulli`, 64 lanes a word, about
    7 words drawn for each. `threshold` lies in [0, 2**64).
    """
    below = np.empty(words, dtype=np.uint64)
    done = 0
    while done < words:
        # not random_raw: of some bit generators a raw word has 32 bits only
        size = min(_STREAM, PROBABILITY_BITS + 8 * (words - done))
        stream = generator.integers(0, 1 << 64, size=size, dtype=np.uint64)
        done = _fill_below(below, done, np.uint64(threshold), stream)
    return below


@compiled()
def _fill_below(below: Any, done: int, threshold: Any, stream: Any) -> int:
    """Fills `below` from `done` on while `stream` lasts; the number of words filled by then.

    A word is begun only where the longest one would still fit: to begin and drop it for want of
    bits would favour the words that are decided early. What is left of the stream is unseen.
    """
    used = 0
    while done < below.size and used + PROBABILITY_BITS <= stream.size:
        found, undecided = _NO_LANES, _ALL_LANES
        bits = threshold  # those not compared yet; without a 1 among them nothing is below
        while bits and undecided:
            ones = _ALL_LANES if bits >> _63 else _NO_LANES
            differing = undecided & (stream[used] ^ ones)
            found |= differing & ones
            undecided ^= differing
            bits <<= _1
            used += 1
        below[done] = found
        done += 1
    return done


@compiled()
def fit_subsets(
    named: Any, truths: Any, is_told: Any, columns: int, ones: int, generator: Any
) -> None:
    """Makes sets of `ones` columns of random words, shape (n, words): report i names truths[i] if
    is_told[i], and a uniform set of the others, filled up or thinned out as `Encoder` does."""
    last = (_1 << np.uint64((columns - 1) % 64 + 1)) - _1 if columns % 64 else _ALL_LANES
    for i in range(named.shape[0]):
        words, truth = named[i], truths[i]
        words[-1] &= last
        words[truth >> 6] &= ~(_1 << np.uint64(truth & 63))
        missing = ones - is_told[i]
        for word in words:
            missing -= _ones(word)
        while missing != 0:
            column = generator.integers(0, columns)
            bit = _1 << np.uint64(column & 63)
            is_named = (words[column >> 6] & bit) != 0
            if column != truth and is_named == (missing < 0):
                words[column >> 6] ^= bit
                missing += 1 if missing < 0 else -1
        if is_told[i]:
            words[truth >> 6] |= _1 << np.uint64(truth & 63)


@compiled()
def _ones(word: Any) -> Any:
    """How many bits of a word of 64 are 1."""
    word -= (word >> _1) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + (
        (word >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * _EACH_BYTE) >> np.uint64(56))


def bernoulli_each(generator: np.random.Generator, threshold: int, size: int) -> NDArray[np.bool_]:
    """bool array: each True with probability threshold / 2**64 exactly."""
    return generator.integers(0, 1 << 64, size=size, dtype=np.uint64) < np.uint64(threshold)
