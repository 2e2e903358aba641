"""Counts of many reports, and sums over cells.

Functions that take a row range touch no other row, so threads that own disjoint ranges share one
table without locks. Held to the scalar code by tests that compare every output.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.arrays import AnyInts, Floats, Ints, Points
from ldp.bulk.compiled import by_rows, compiled
from ldp.bulk.hashing import coefficients, hashed_column
from ldp.protocol.hashing import PolynomialRows

_7, _31, _LOW_31 = np.uint64(7), np.uint64(31), np.uint64((1 << 31) - 1)
_EACH_BYTE = np.uint64(0x01_01_01_01_01_01_01_01)
_ITS_BIT = np.uint64(0x80_40_20_10_08_04_02_01)
_CARRY = np.uint64(0x7F_7F_7F_7F_7F_7F_7F_7F)
_FEW = 1 << 19
"""Cells that are summed before two threads could begin."""
_TILE = 2048
"""Points hashed at once: their columns and sums stay in the cache nearest to a core."""


def sum_cells(places: Points, cells: Floats) -> Floats:
    """For every value the sum of the `cells`, shape (rows, columns), that its hashes name, each
    once: `places` as by `bloom_map`; float64, shape (values,)."""
    if places.size < _FEW:
        return np.asarray(_sum_cells(places, cells))
    return np.concatenate(by_rows(lambda some: _sum_cells(places[some], cells), len(places)))


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


def gather(
    addressing: PolynomialRows,
    counts: AnyInts,
    points: NDArray[np.uint64],
    polynomials: NDArray[np.uint64] | None = None,
) -> Ints:
    """For each point the counts of its cells summed over all rows, exactly: int64, shape of points.

    The hash is fused with the gather, so the index table (points x rows) is never in memory: 1 to 2
    ns a point and row, shared by all cores. `polynomials`: those of the rows of `counts` where they
    are not the first rows.
    """
    width = np.uint64(addressing.width)
    if polynomials is None:
        polynomials = coefficients(addressing, len(counts))
    parts = by_rows(
        lambda some: _gather_polynomial(counts[some], polynomials[some], points, width), len(counts)
    )
    return sum(parts, np.zeros(points.size, dtype=np.int64))


def gather_groups(
    addressing: PolynomialRows,
    counts: AnyInts,
    points: NDArray[np.uint64],
    bounds: Sequence[int],
) -> tuple[Ints, Ints]:
    """What `gather` gives; and the sum of it over all points in every group of rows, the i-th being
    those from bounds[i] to bounds[i + 1]: int64, shape of points and (groups,)."""
    width, polynomials = np.uint64(addressing.width), coefficients(addressing, len(counts))

    def work(groups: slice) -> tuple[Ints, list[int]]:
        named, sums = np.zeros(points.size, dtype=np.int64), list[int]()
        for first, last in pairwise(bounds[groups.start : groups.stop + 1]):
            some = slice(first, last)
            part = _gather_polynomial(counts[some], polynomials[some], points, width)
            named += part
            sums.append(int(part.sum()))
        return named, sums

    parts = by_rows(work, len(bounds) - 1)
    total = sum((named for named, _ in parts), np.zeros(points.size, dtype=np.int64))
    return total, np.array([each for _, sums in parts for each in sums])


def sum_of_squares(counts: AnyInts, scale: float, offsets: Floats) -> float:
    """The sum over all cells of (scale * counts[row, column] + offsets[row])**2; `offsets`: shape
    (rows,)."""
    parts = by_rows(lambda some: _sum_of_squares(counts[some], scale, offsets[some]), len(counts))
    return float(sum(parts))


def walsh_hadamard(counts: AnyInts) -> Ints:
    """For every row the sums over columns l of counts[row, l] (-1)**popcount(l & cell): int64,
    shape of `counts`, whose columns must be a power of two."""
    sums = counts.astype(np.int64)
    by_rows(lambda some: _butterflies(sums[some]), len(sums))
    return sums


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
                found[i] = hashed_column(a, b, c, np.uint64(high[i]), np.uint64(low[i]), width)
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
