"""Many bits at once, for simulation: the distributions of `ldp.protocol.randomness`, by numpy."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.arrays import Bools, Generator, Ints, Points, RowNumbers
from ldp.bulk.compiled import compiled
from ldp.protocol.randomness import PRECISION

_NO_LANES, _ALL_LANES = np.uint64(0), np.uint64((1 << 64) - 1)
_1, _63 = np.uint64(1), np.uint64(63)
_STREAM = 32_768
_MANY, _INVERTED = 1 << 18, 30
"""Number of binomial numbers from which they are drawn by a compiled loop; largest expected one
that numpy draws by inversion."""


def draw_steps(points: Points, at: RowNumbers, generator: Generator) -> Points:
    """Draw the steps that numbers (`points`) are rounded to in rows `at`: uint64, shape of `at`."""
    roundings = points[np.arange(len(at)), at % points.shape[1]]
    draws = generator.integers(0, 1 << 64, size=len(at), dtype=np.uint64)
    return np.asarray(roundings[:, 0] + (draws < roundings[:, 1]))


def packed_bernoulli(generator: Generator, threshold: int, words: int) -> NDArray[np.uint64]:
    """Draw bits that are 1 with probability threshold / 2**64 exactly: uint64, shape (words,).

    The comparison of `ldp.protocol.randomness.bernoulli` from the top bit down, 64 lanes a word. A
    word takes about 7 words of the generator. `threshold` lies in [0, 2**64).
    """
    below = np.empty(words, dtype=np.uint64)
    filled = 0
    while filled < words:
        # not random_raw: of some bit generators a raw word has 32 bits only
        size = min(_STREAM, PRECISION + 8 * (words - filled))
        stream = generator.integers(0, 1 << 64, size=size, dtype=np.uint64)
        filled = _fill_below(below, filled, np.uint64(threshold), stream)
    return below


@compiled(few=1 << 17)
def _fill_below(below: Any, filled: int, threshold: Any, stream: Any) -> int:
    """Fill `below` from word `filled` on while `stream` lasts. Returns the number of words filled.

    A word starts only where the longest one would still fit: dropping an unfinished word would
    favour words that are decided early. The rest of the stream is not used.
    """
    used = 0
    while filled < below.size and used + PRECISION <= stream.size:
        lanes, undecided = _NO_LANES, _ALL_LANES
        # those not compared yet; without a 1 among them nothing is below
        bits = threshold
        while bits and undecided:
            ones = _ALL_LANES if bits >> _63 else _NO_LANES
            differing = undecided & (stream[used] ^ ones)
            lanes |= differing & ones
            undecided ^= differing
            bits <<= _1
            used += 1
        below[filled] = lanes
        filled += 1
    return filled


def fit_subsets(
    subsets: Points, touched: Ints, sizes: Ints, columns: int, ones: int, generator: Generator
) -> None:
    """Turn random words `subsets`, shape (n, words), contiguous, into sets of `ones` columns, in
    place: report i names the first sizes[i] of the columns touched[i], shape (n, touched), and a
    uniform set of those that are not touched, filled up or thinned out as `Subset.draw` does."""
    flat, words = subsets.reshape(-1), touched.T >> 6
    words += subsets.shape[1] * np.arange(len(subsets))
    bits = _1 << (touched.T & 63).astype(np.uint64)
    if columns % 64:
        subsets[:, -1] &= (_1 << np.uint64(columns % 64)) - _1
    for word, bit in zip(words, bits, strict=True):
        flat[word] &= ~bit
    missing = ones - sizes - np.einsum("ij->i", np.bitwise_count(subsets), dtype=np.int64)
    _fit(subsets, touched, missing, columns, generator)
    for place, (word, bit) in enumerate(zip(words, bits, strict=True)):
        flat[word] |= bit * (place < sizes)


@compiled(few=1 << 10)
def _fit(subsets: Any, touched: Any, missing: Any, columns: int, generator: Any) -> None:
    for i in range(subsets.shape[0]):
        words, left = subsets[i], missing[i]
        while left != 0:
            column = generator.integers(0, columns)
            bit = _1 << np.uint64(column & 63)
            is_named = (words[column >> 6] & bit) != 0
            is_free = True
            for cell in touched[i]:
                is_free &= column != cell
            if is_free and is_named == (left < 0):
                words[column >> 6] ^= bit
                left += 1 if left < 0 else -1


def add_binomials(
    cells: Ints, reports: Ints, held: Ints, chance: float, generator: Generator
) -> None:
    """Add `generator.binomial(reports[:, None] - held, chance)` to `cells`, shape (rows, columns).
    Takes a third of numpy's time for many small numbers."""
    if held.size >= _MANY and chance <= 0.5 and reports.max() * chance <= _INVERTED:
        _add_inverted(cells, reports, held, chance, generator)
    else:
        _add_by_numpy(cells, reports, held, chance, generator)


def _add_by_numpy(
    cells: Ints, reports: Ints, held: Ints, chance: float, generator: Generator
) -> None:
    cells += generator.binomial(reports[:, None] - held, chance)


@compiled(plain=_add_by_numpy)
def _add_inverted(cells: Any, reports: Any, held: Any, chance: float, generator: Any) -> None:
    """Add binomial numbers by inversion, in the order and with the roundings of numpy."""
    last, none = 0, 1.0
    for row in range(reports.size):
        for column in range(held.shape[1]):
            number = reports[row] - held[row, column]
            if number > 0:
                if number != last:
                    last, none = number, math.exp(number * math.log(1 - chance))
                left, part, count = generator.random(), none, 0
                while left > part and count < number:
                    count += 1
                    left -= part
                    part = (number - count + 1) * chance * part / (count * (1 - chance))
                cells[row, column] += count


def bernoulli_each(generator: Generator, threshold: int, size: int) -> Bools:
    """Draw bools, shape (size,), that are True with probability threshold / 2**64 exactly."""
    return generator.integers(0, 1 << 64, size=size, dtype=np.uint64) < np.uint64(threshold)
