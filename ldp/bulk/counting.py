"""Counts of many reports, and sums over cells.

Functions that take a row range touch no other row. So threads with disjoint ranges share one table
without locks. Tests hold every output to the scalar code.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.arrays import AnyInts, Bytes, Floats, Ints, Points, RowNumbers
from ldp.bulk.compiled import by_rows, compiled, lanes
from ldp.bulk.hash_kernels import coefficients, row_columns, write_fractions
from ldp.protocol.hashing import PolynomialRows

_7 = np.uint64(7)
_EACH_BYTE = np.uint64(0x01_01_01_01_01_01_01_01)
_ITS_BIT = np.uint64(0x80_40_20_10_08_04_02_01)
_CARRY = np.uint64(0x7F_7F_7F_7F_7F_7F_7F_7F)
_TILE = 512
"""Number of points hashed at once: their fractions and sums stay in the first-level cache."""

_BLOCK = 1 << 12
"""Number of reports whose bits are unpacked at once."""
_REPORTS = 128
"""Number of reports that are counted together by one pair of moduli."""


def sum_cells(places: Points, cells: Floats) -> Floats:
    """Return for every value the sum of the `cells`, shape (rows, columns), that its hashes name,
    each cell once: float64, shape (values,). `places`: as from `bloom_map`."""
    parts = by_rows(lambda part: _sum_cells(places[part], cells), len(places), places.size)
    return np.concatenate(parts)


@compiled(fastmath={"reassoc"})
def _sum_cells(places: Any, cells: Any) -> Any:
    """Sum without branches: no processor predicts whether two hashes name one column."""
    sums = np.zeros(places.shape[0])
    for value in lanes(places.shape[0]):
        total = 0.0
        for i in range(places.shape[2]):
            for row in range(places.shape[1]):
                is_new = True
                for earlier in range(i):
                    is_new &= places[value, row, earlier] != places[value, row, i]
                total += cells[row, places[value, row, i]] * is_new
        sums[value] = total
    return sums


def add_to_cells(places: Points, factors: Floats, columns: int) -> Floats:
    """Return for every cell the sum of the `factors`, shape (values,), of the values whose hashes
    name it, once each: the transpose of `sum_cells`, float64, shape (rows, columns)."""

    def work(part: slice) -> Floats:
        return np.asarray(_add_to_cells(places[:, part], factors, columns))

    return np.concatenate(by_rows(work, places.shape[1], places.size))


@compiled()
def _add_to_cells(places: Any, factors: Any, columns: Any) -> Any:
    values, rows, hashes = places.shape
    cells = np.zeros((rows, columns))
    for value in range(values):
        for i in range(hashes):
            for row in lanes(rows):
                is_new = True
                for earlier in range(i):
                    is_new &= places[value, row, earlier] != places[value, row, i]
                cells[row, places[value, row, i]] += factors[value] * is_new
    return cells


def gather(
    addressing: PolynomialRows,
    counts: AnyInts,
    points: NDArray[np.uint64],
    polynomials: NDArray[np.uint64] | None = None,
) -> Ints:
    """Return for each point the exact sum over all rows of the counts of its cells: int64, shape of
    `points`.

    Hashing and summing are one loop. So the index table (points x rows) is never in memory: 0.6 to
    1 ns a point and row, shared by all cores. `polynomials`: those of the rows of `counts` where
    they are not the first rows.
    """
    width = np.uint64(addressing.width)
    if polynomials is None:
        polynomials = coefficients(addressing, len(counts))

    def work(part: slice) -> Ints:
        return np.asarray(_gather_polynomial(counts[part], polynomials[part], points, width))

    parts = by_rows(work, len(counts), len(counts) * points.size)
    return sum(parts, np.zeros(points.size, dtype=np.int64))


def gather_groups(
    addressing: PolynomialRows,
    counts: AnyInts,
    points: NDArray[np.uint64],
    bounds: Sequence[int],
    polynomials: NDArray[np.uint64] | None = None,
) -> tuple[Ints, Ints]:
    """Return what `gather` does, and its sum over all points in every group of rows, group i from
    row bounds[i] to below bounds[i + 1]: int64, shape of `points` and (groups,)."""
    width = np.uint64(addressing.width)
    if polynomials is None:
        polynomials = coefficients(addressing, len(counts))

    def work(groups: slice) -> tuple[Ints, list[int]]:
        total, sums = np.zeros(points.size, dtype=np.int64), list[int]()
        for first, last in pairwise(bounds[groups.start : groups.stop + 1]):
            rows = slice(first, last)
            part = _gather_polynomial(counts[rows], polynomials[rows], points, width)
            total += part
            sums.append(int(part.sum()))
        return total, sums

    parts = by_rows(work, len(bounds) - 1, len(counts) * points.size)
    total = sum((part for part, _ in parts), np.zeros(points.size, dtype=np.int64))
    return total, np.array([group_sum for _, sums in parts for group_sum in sums])


def sum_of_squares(counts: AnyInts, scale: float, offsets: Floats) -> float:
    """Return the sum over all cells of (scale * counts[row, column] + offsets[row])**2. `counts`:
    shape (rows, columns), `offsets`: shape (rows,)."""

    def work(part: slice) -> Any:
        return _sum_of_squares(counts[part], scale, offsets[part])

    return float(sum(map(np.sum, by_rows(work, len(counts), counts.size))))


def walsh_hadamard(counts: AnyInts) -> Ints:
    """Return for every row and cell the sum over columns l of counts[row, l] (-1)**popcount(l &
    cell): int64, shape of `counts`, whose number of columns must be a power of two."""
    sums = counts.astype(np.int64)
    by_rows(lambda part: _butterflies(sums[part]), len(sums), sums.size)
    return sums


def negative_signs(columns: Ints, cells: Ints) -> Ints:
    """Return popcount(columns & cells) & 1, which is 1 where the Hadamard sign is a minus:
    int64, of the shape to which they broadcast."""
    return np.asarray((np.bitwise_count(columns & cells) & 1).astype(np.int64))


@compiled()
def _butterflies(sums: Any) -> None:
    for row in lanes(sums.shape[0]):
        half = 1
        while half < sums.shape[1]:
            for start in range(0, sums.shape[1], 2 * half):
                for i in range(start, start + half):
                    low, high = sums[row, i], sums[row, i + half]
                    sums[row, i], sums[row, i + half] = low + high, low - high
            half *= 2


@compiled()
def _gather_polynomial(counts: Any, coefficients: Any, points: Any, width: Any) -> Any:
    """Sum a tile of points at a time: first their columns in a row, which the compiler computes
    several at once, then the counts there. Rows without a count are left out: few reports of a
    sketch of many rows fill few of them."""
    sums, columns = np.zeros(points.size, dtype=np.int64), np.empty(_TILE, dtype=np.uint32)
    fractions = np.empty((4, _TILE), dtype=np.uint64)
    filled = [row for row in range(counts.shape[0]) if counts[row].any()]
    for first in range(0, points.size, _TILE):
        tile_points, tile_sums = points[first : first + _TILE], sums[first : first + _TILE]
        write_fractions(fractions, tile_points)
        for row in filled:
            row_columns(columns, coefficients[row], tile_points, fractions, width)
            cells = counts[row]
            for i in lanes(tile_sums.size):
                tile_sums[i] += np.int64(cells[columns[i]])
    return sums


@compiled(fastmath={"reassoc", "contract"})
def _sum_of_squares(counts: Any, scale: float, offsets: Any) -> Any:
    total = 0.0
    for row in lanes(counts.shape[0]):
        for column in range(counts.shape[1]):
            cell = scale * counts[row, column] + offsets[row]
            total += cell * cell
    return total


def _add_unpacked(
    counts: AnyInts, rows: RowNumbers, payloads: Bytes, start: int, stop: int
) -> None:
    some = np.flatnonzero((start <= rows) & (rows < stop))
    for block in np.split(some, range(_BLOCK, some.size, _BLOCK)):
        bits = np.unpackbits(payloads[block], axis=1, bitorder="little", count=counts.shape[1])
        for row, ones in zip(rows[block].tolist(), bits, strict=True):
            counts[row] += ones


@compiled(few=1 << 24, plain=_add_unpacked)
def count_bits(counts: Any, rows: Any, payloads: Any, start: int, stop: int) -> None:
    """Add bit c of the payload to counts[row, c], for every report with start <= row < stop.
    `rows`: shape (reports,), `payloads`: shape (reports, bytes)."""
    # of a report, a byte a column
    spread = np.empty(payloads.shape[1], dtype=np.uint64)
    ones = spread.view(np.uint8)
    for i in range(rows.size):
        row = rows[i]
        if start <= row < stop:
            for byte in range(spread.size):
                # byte k of the product has bit k alone; adding carries it into the byte's top bit
                bits = (np.uint64(payloads[i, byte]) * _EACH_BYTE) & _ITS_BIT
                spread[byte] = ((bits + _CARRY) >> _7) & _EACH_BYTE
            cells = counts[row]
            for c in range(cells.size):
                cells[c] += ones[c]


def count_by_two(
    rests: tuple[Bytes, Bytes],
    moduli: Ints,
    size: int,
    counted: NDArray[np.int32],
    marks: Ints,
    cells: tuple[Bytes, Bytes],
) -> NDArray[np.int32]:
    """Return sums of what is `counted`, shape (reports, statistics), by the remainders of two
    numbers, shape (size, statistics + 4). The number of statistics is even, and none is below 0.
    The last four are of pairs: of the reports with the same remainders the first and the second,
    the third and the fourth, ...: how often the later one names the other's lie, how often it
    could, how often it has the other's row, and how many pairs there are.

    `rests`: remainders of the two numbers by 1, 2, ...: shape (reports, moduli). `moduli`: two
    moduli and the place of their first sum, shape (pairs, 3). `marks`, shape (3, reports): of each
    report a column that is a lie, or -1; its row; its column. `cells`: uint8, shape (reports,
    bytes), a bit a column, the lowest first: which columns it names, and which its value touches.
    The first is of no columns where a report names only the column of its mark, the second where
    every column may be a lie.
    """
    place = {(m, o): (m, o, start) for m, o, start in moduli.tolist()}
    wider = [place.get((2 * m, o), place.get((m, 2 * o))) for m, o in place]
    is_widest = np.array([of is None for of in wider])
    words, of_pairs = _count_by_two(
        rests, moduli, is_widest, size, counted.view(np.int64), marks, cells
    )
    sums: NDArray[np.int32] = np.concatenate([words.view(np.int32), of_pairs], axis=1)
    for (m, o, start), of in sorted(zip(place.values(), wider, strict=True), reverse=True):
        if of is not None:
            twice, other, begin = of
            table = sums[begin : begin + twice * other, :-4].reshape(
                twice // m, m, other // o, o, -1
            )
            sums[start : start + m * o, :-4] = table.sum(axis=(0, 2)).reshape(m * o, -1)
    return sums


def _count_in_arrays(
    rests: Any, moduli: Any, is_widest: Any, size: Any, counted: Any, marks: Any, packed: Any
) -> Any:
    (left, right), (lies, rows, columns), (bits, touched) = rests, marks, packed
    sums = np.zeros((size, counted.shape[1]), dtype=np.int64)
    pairs = np.zeros((size, 4), dtype=np.int32)
    for (modulus, other, start), is_wide in zip(moduli.tolist(), is_widest, strict=True):
        keys = start + left[:, modulus - 1].astype(np.int64) * other + right[:, other - 1]
        for s in range(counted.shape[1] if is_wide else 0):
            np.add.at(sums[:, s], keys, counted[:, s])
        order = np.argsort(keys, kind="stable")
        rank = np.arange(keys.size) - np.searchsorted(keys[order], keys[order])
        ends = np.flatnonzero(rank & 1)
        before, later = order[ends - 1], order[ends]
        lie, key = lies[before], keys[later]
        byte, bit = np.maximum(lie, 0) >> 3, lie & 7
        could = lie >= 0
        if touched.shape[1]:
            could &= (touched[later, byte] >> bit & 1) == 0
        hits = columns[later] == lie
        if bits.shape[1]:
            hits |= (bits[later, byte] >> bit & 1) == 1
        same = rows[before] == rows[later]
        for column, counts in enumerate((hits & could, could, same, 1)):
            np.add.at(pairs[:, column], key, counts)
    return sums, pairs


@compiled(plain=_count_in_arrays)
def _count_by_two(
    rests: Any, moduli: Any, is_widest: Any, size: Any, counted: Any, marks: Any, packed: Any
) -> Any:
    """Count some reports at a time: the sums of two moduli stay in the first-level cache. Sums are
    computed by the widest moduli only, two as the halves of a word: a sum by half of a modulus is
    the sum of two sums by the modulus. Pairs are counted by all moduli."""
    (left, right), (lies, rows, columns), (bits, touched) = rests, marks, packed
    reports, statistics = counted.shape
    sums = np.zeros((size, statistics), dtype=np.int64)
    pairs = np.zeros((size, 4), dtype=np.int32)
    last = np.full(size, -1, dtype=np.int32)
    is_signed = touched.shape[1] == 0
    for begin in range(0, reports, _REPORTS):
        end = min(begin + _REPORTS, reports)
        for pair in range(moduli.shape[0]):
            modulus, other, start = moduli[pair, 0], moduli[pair, 1], moduli[pair, 2]
            if is_widest[pair]:
                for i in range(begin, end):
                    key = start + left[i, modulus - 1] * other + right[i, other - 1]
                    for statistic in range(statistics):
                        sums[key, statistic] += counted[i, statistic]
            for i in range(begin, end):
                key = start + left[i, modulus - 1] * other + right[i, other - 1]
                before = last[key]
                # no report is in two pairs
                last[key] = i if before < 0 else -1
                if before >= 0:
                    lie = lies[before]
                    if lie >= 0 and (is_signed or not touched[i, lie >> 3] >> (lie & 7) & 1):
                        bit = bits[i, lie >> 3] >> (lie & 7) & 1 if bits.shape[1] else 0
                        pairs[key, 0] += bit or columns[i] == lie
                        pairs[key, 1] += 1
                    pairs[key, 2] += rows[before] == rows[i]
                    pairs[key, 3] += 1
    return sums, pairs
