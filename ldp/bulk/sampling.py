"""Many bits at once, for simulation: the laws of `ldp.protocol.randomness`, drawn by numpy."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.arrays import Bools, Points, RowNumbers
from ldp.bulk.compiled import compiled
from ldp.protocol.randomness import PROBABILITY_BITS

_NO_LANES, _ALL_LANES = np.uint64(0), np.uint64((1 << 64) - 1)
_1, _63 = np.uint64(1), np.uint64(63)
_EACH_BYTE = np.uint64(0x01_01_01_01_01_01_01_01)
_STREAM = 32_768


def draw_steps(points: Points, at: RowNumbers, generator: np.random.Generator) -> Points:
    """The steps that numbers (`points`) are rounded to at random in rows `at`: uint64, shape of
    `at`."""
    each = points[np.arange(len(at)), at % points.shape[1]]
    drawn = generator.integers(0, 1 << 64, size=len(at), dtype=np.uint64)
    steps: Points = each[:, 0] + (drawn < each[:, 1])
    return steps


def packed_bernoulli(
    generator: np.random.Generator, threshold: int, words: int
) -> NDArray[np.uint64]:
    """uint64 array, shape (words,): every bit 1 with probability threshold / 2**64 exactly.

    The comparison of `ldp.protocol.randomness.bernoulli` from the top bit down, 64 lanes a word,
    about 7 words drawn for each. `threshold` lies in [0, 2**64).
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


def bernoulli_each(generator: np.random.Generator, threshold: int, size: int) -> Bools:
    """bool array: each True with probability threshold / 2**64 exactly."""
    return generator.integers(0, 1 << 64, size=size, dtype=np.uint64) < np.uint64(threshold)
