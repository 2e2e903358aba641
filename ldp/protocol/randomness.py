"""Sources of random bits, and the two exact samplers of all mechanisms.

A `BitSource` returns fair bits: `SystemBits` from the operating system (devices), `SeededBits` from
a seed by SHAKE-256 (golden vectors, tests, simulations), `KeyedBits` likewise from a device's
secret (memoised responses). Both samplers use integers only, so private bits depend on no float.
Bernoulli sampling compares a uniform 64-bit number with an integer threshold one bit at a time from
the top, in all lanes at once (Knuth and Yao 1976).
"""

import hashlib
import hmac
import os
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Protocol

PROBABILITY_BITS = 64
PROBABILITY_ONE = 1 << PROBABILITY_BITS
_LOW = PROBABILITY_ONE - 1
_TOP = 1 << (PROBABILITY_BITS + 1)
"""Bit that is set in all uniforms, so that they are integers of one length."""
FEW_LANES = 64
"""Largest number of lanes whose uniforms are drawn whole: with so few, the time of drawing would
depend on a lane that is decided early."""
FEWEST_LANES = 16
"""Lanes from which comparing 64 words at once is faster than adding up lane by lane."""
_DOUBLINGS = (1, 2, 4, 8, 16, 32)


class BitSource(Protocol):
    """Source of fair, independent bits."""

    def draw(self, count: int) -> int:
        """Draw `count` fair bits as an integer in [0, 2**count): ceil(count / 8) bytes,
        little-endian, without the surplus high bits."""
        ...


class SystemBits:
    """Bits of the operating system, without a buffer, so that a forked process repeats no noise."""

    def draw(self, count: int) -> int:
        """Draw `count` fair bits as an integer in [0, 2**count)."""
        word = int.from_bytes(os.urandom((count + 7) >> 3), "little")
        return word & ((1 << count) - 1)


class SeededBits:
    """Reproducible bits for vectors, tests and simulations; never for a device.

    Block i of the stream is the first 4,096 bytes of SHAKE-256(b"ldp seeded bits v1" || i as 8
    bytes little-endian || seed).
    """

    _DOMAIN = b"ldp seeded bits v1"
    _BLOCK = 4096

    def __init__(self, seed: bytes) -> None:
        self._seed = bytes(seed)
        self._blocks = 0
        self._buffer = b""
        self._used = 0

    def draw(self, count: int) -> int:
        """Read `count` bits as an integer in [0, 2**count)."""
        size = (count + 7) >> 3
        word = int.from_bytes(self.peek(size), "little")
        self.skip(size)
        return word & ((1 << count) - 1)

    def peek(self, size: int) -> bytes:
        """Return the next `size` bytes of the stream, which stay unread."""
        while len(self._buffer) - self._used < size:
            self._buffer = self._buffer[self._used :] + self._next_block()
            self._used = 0
        return self._buffer[self._used : self._used + size]

    def skip(self, size: int) -> None:
        """Mark `size` bytes, which `peek` returned, as read."""
        self._used += size

    def _next_block(self) -> bytes:
        number = self._blocks.to_bytes(8, "little")
        self._blocks += 1
        return hashlib.shake_256(self._DOMAIN + number + self._seed).digest(self._BLOCK)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<seed not shown>)"


class KeyedBits(SeededBits):
    """Bits that are a function of a secret and a message, for memoised noise that is not stored.

    The stream is that of `SeededBits` with b"ldp keyed bits v1", blocks of 256 bytes, and
    HMAC-SHA256(secret, message) as the seed.
    """

    _DOMAIN = b"ldp keyed bits v1"
    _BLOCK = 256

    def __init__(self, secret: bytes, message: bytes) -> None:
        super().__init__(hmac.digest(secret, message, "sha256"))


def bernoulli(
    source: BitSource, threshold: int, lanes: int = 1, chosen: int = 0, chosen_threshold: int = 0
) -> int:
    """Draw `lanes` independent bits as one integer, each 1 with probability exactly
    threshold / 2**64, or chosen_threshold / 2**64 in the lanes that are set in `chosen`.

    In every lane a 64-bit uniform U is compared with the threshold from the top bit down; a lane is
    decided at the first bit where they differ, and drawing stops when all lanes are decided or no
    threshold has a 1 left: about log2(lanes) + 2 words instead of 64. Thresholds lie in
    [0, 2**64].

    From the operating system up to FEW_LANES lanes are drawn whole, 64 bits each, in one request:
    the distribution is the same, and neither time nor number of requests depends on the result.
    From a keyed stream up to FEW_LANES lanes compare all 64 words, but read only those that decide
    a lane, so that the stream is used as by more lanes.
    """
    if lanes <= FEW_LANES and isinstance(source, KeyedBits):
        size = (lanes + 7) >> 3
        words = int.from_bytes(source.peek(PROBABILITY_BITS * size), "little")
        below, needed = _compare(words, 8 * size, threshold, lanes, chosen, chosen_threshold)
        source.skip(needed * size)
        return below
    if lanes <= FEW_LANES and isinstance(source, SystemBits):
        words = source.draw(PROBABILITY_BITS * lanes)
        if lanes < FEWEST_LANES:
            return _add_up(words, threshold, lanes, chosen, chosen_threshold)
        return _compare(words, lanes, threshold, lanes, chosen, chosen_threshold)[0]
    all_lanes = (1 << lanes) - 1
    low, high = all_lanes & ~chosen, chosen
    below = low * (threshold >> PROBABILITY_BITS) | high * (chosen_threshold >> PROBABILITY_BITS)
    undecided, ones_of = all_lanes & ~below, (0, low, high, all_lanes)
    is_system = isinstance(source, SystemBits)
    next_word = _words_ahead(lanes).__next__ if is_system else partial(source.draw, lanes)
    for bits, is_read in _comparisons(threshold, chosen_threshold):
        if not undecided or not is_read:
            break
        word, ones = next_word(), ones_of[bits]
        below |= undecided & ones & ~word
        undecided &= ~(word ^ ones)
    return below  # lanes still undecided have U >= threshold, which is not below


def _add_up(word: int, threshold: int, lanes: int, chosen: int, chosen_threshold: int) -> int:
    """Return the bits of `bernoulli` for the uniforms in `word`, 64 bits a lane.

    U >= threshold exactly where U + 2**64 - threshold reaches 2**64: the time of a sum of integers
    of one length does not depend on them, that of a comparison does.
    """
    below = 0
    missing = _TOP | (_LOW + 1 - threshold), _TOP | (_LOW + 1 - chosen_threshold)
    for lane in range(lanes):
        total = (word & _LOW | _TOP) + missing[chosen & 1]
        below |= (~(total >> PROBABILITY_BITS) & 1) << lane
        word, chosen = word >> PROBABILITY_BITS, chosen >> 1
    return below


def _compare(
    words: int, width: int, threshold: int, lanes: int, chosen: int, chosen_threshold: int
) -> tuple[int, int]:
    """Return the bits of `bernoulli` and how many words decide them. `words`: all 64, `width` bits
    each, the first lowest.

    All words are compared at once: integers of one length, whose time does not tell the result.
    """
    undecided = (1 << lanes) - 1
    low = undecided & ~chosen
    below = low * (threshold >> PROBABILITY_BITS) | chosen * (chosen_threshold >> PROBABILITY_BITS)
    undecided &= ~below
    ones = low * _spread(threshold, width) | chosen * _spread(chosen_threshold, width)
    everywhere = undecided * _spread(_LOW, width)
    differs = decided = (words ^ ones) & everywhere
    for shift in _DOUBLINGS:
        decided |= decided << shift * width
    bits = differs & ~(decided << width) & ones  # where a lane's first difference is a 0 below a 1
    for shift in _DOUBLINGS:
        bits |= bits >> shift * width
    open_words = -((everywhere & ~decided).bit_length() // -width)
    needed = min(open_words + 1, _length(threshold | chosen_threshold)) if undecided else 0
    return below | bits & undecided, needed


@lru_cache(maxsize=64)
def _spread(threshold: int, width: int) -> int:
    """Return the 64 bits of `threshold`, the top one lowest, `width` bits apart."""
    places = range(PROBABILITY_BITS)
    return sum((threshold >> place & 1) << (63 - place) * width for place in places)


def _length(thresholds: int) -> int:
    """Return how many of 64 bits from the top end at the lowest 1."""
    rest = thresholds & _LOW
    return PROBABILITY_BITS + 1 - (rest & -rest).bit_length() if rest else 0


def _words_ahead(lanes: int) -> Iterator[int]:
    """Yield words of `lanes` bits or more, as many from one request to the operating system as a
    call needs in most cases."""
    size, words = (lanes + 7) >> 3, lanes.bit_length() + 3
    while True:
        stream = os.urandom(size * words)
        for start in range(0, len(stream), size):
            yield int.from_bytes(stream[start : start + size], "little")


@lru_cache(maxsize=64)
def _comparisons(threshold: int, chosen_threshold: int) -> tuple[tuple[int, bool], ...]:
    """Return for each bit from the top: that of `threshold` plus twice that of `chosen_threshold`,
    and whether a 1 is in either from there on."""
    rest = (threshold | chosen_threshold) & _LOW
    return tuple(
        (threshold >> i & 1 | (chosen_threshold >> i & 1) << 1, bool(rest & ((2 << i) - 1)))
        for i in range(PROBABILITY_BITS - 1, -1, -1)
    )


def uniform_below(source: BitSource, bound: int) -> int:
    """Draw a uniform integer in [0, bound), by rejection; from 0 bits for a bound of 1."""
    width = (bound - 1).bit_length()
    while True:
        number = source.draw(width)
        if number < bound:
            return number
