"""Sources of random bits, and the two exact samplers of all mechanisms.

A `BitSource` returns fair bits: `SystemBits` from the operating system (devices), `SeededBits` from
a seed by SHAKE-256 (golden vectors, tests, simulations), `KeyedBits` likewise from a device's
secret (memoised responses). Both samplers use integers only, so private bits depend on no float.
Bernoulli sampling compares a uniform 64-bit number with an integer threshold one bit at a time from
the top, in all lanes at once (Knuth and Yao 1976). From the operating system, where lanes are few,
it compares whole numbers by one sum.
"""

import hashlib
import hmac
import os
from functools import lru_cache
from typing import Protocol

PRECISION = 64
ONE = 1 << PRECISION
_LOW = ONE - 1
LENGTH = 1 << (PRECISION + 1)
"""Bit that is set in all uniforms, so that they are integers of one length."""
FEW_LANES = 64
"""Largest number of lanes whose uniforms are drawn whole: with so few, the time of drawing would
depend on a lane that is decided early."""
_DOUBLINGS = (1, 2, 4, 8, 16, 32)
MORE_BITS = 256
"""Least number of bits of a further request for one report."""
_TAIL_BITS = PRECISION - 8
_ZERO, _ONE, _OPEN = b"01?"
_LANE_BYTES = PRECISION // 8 + 1
"""Bytes of a uniform in a sum of several, with one for its carry."""
_IS_BELOW = bytes.maketrans(b"\x00\x01\x80\x81", b"1010")


class BitSource(Protocol):
    """Source of fair, independent bits."""

    def draw(self, count: int) -> int:
        """Draw `count` fair bits as an integer in [0, 2**count): ceil(count / 8) bytes,
        little-endian, without the surplus high bits."""


class SystemBits:
    """Bits of the operating system, without a buffer, so that a forked process repeats no noise."""

    __slots__ = ()

    def draw(self, count: int) -> int:
        """Draw `count` fair bits as an integer in [0, 2**count)."""
        word = int.from_bytes(os.urandom((count + 7) >> 3), "little")
        return word & ((1 << count) - 1)

    def uniform(self) -> int:
        """Draw an integer in [0, 2**64), to which LENGTH is added."""
        return self.draw(PRECISION) | LENGTH

    def draw_bytes(self, size: int) -> bytes:
        """Draw `size` bytes."""
        return os.urandom(size)


class ReportBits(SystemBits):
    """Bits of the operating system for one report, at one request: `size` bytes, of which the first
    `tops` are for `draw_bytes`. Further bits are requested when they are drawn. The object must be
    dropped with the report, so that nothing keeps its noise."""

    __slots__ = ("_left", "_tops", "_word")

    def __init__(self, size: int, tops: int) -> None:
        data = os.urandom(size)
        self._tops, self._left = b"", 8 * (size - tops)
        if tops:
            self._tops, data = data[:tops], data[tops:]
        # of one length, whatever the bits
        self._word = int.from_bytes(data + b"\1", "little")

    def draw(self, count: int) -> int:
        """Draw `count` fair bits as an integer in [0, 2**count)."""
        if count > self._left:
            self._left = max(count, MORE_BITS)
            self._word = SystemBits.draw(self, self._left) | 1 << self._left
        word = self._word
        self._word = word >> count
        self._left -= count
        return word & ((1 << count) - 1)

    def uniform(self) -> int:
        """Draw an integer in [0, 2**64), to which LENGTH is added before others are taken away."""
        if self._left < PRECISION:
            return super().uniform()
        word = self._word
        self._word = word >> PRECISION
        self._left -= PRECISION
        return (word | LENGTH) & (LENGTH | _LOW)

    def draw_bytes(self, size: int) -> bytes:
        """Draw `size` bytes."""
        tops, self._tops = self._tops[:size], b""
        return tops if len(tops) == size else os.urandom(size)


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

    In every lane a 64-bit uniform U is compared with the threshold from the top bit down. A lane is
    decided at the first bit where they differ, and drawing stops when all lanes are decided or no
    threshold has a 1 left: about log2(lanes) + 2 words instead of 64. Thresholds lie in [0, 2**64].

    From the operating system up to FEW_LANES lanes are drawn whole and compared by one sum: the
    distribution is the same, and the time does not depend on the result. For more lanes the top
    byte is drawn, and the others where it does not decide. From a keyed stream up to FEW_LANES
    lanes compare all 64 words, but read only those that decide a lane, so that the stream is used
    as by more lanes.
    """
    if isinstance(source, SystemBits):
        if lanes > FEW_LANES:
            return _compare_bytes(source, threshold, lanes, chosen, chosen_threshold)
        if lanes == 1:
            return is_below(source.uniform(), chosen_threshold if chosen else threshold)
        words = source.draw(8 * _LANE_BYTES * lanes)
        return _add_up(words, threshold, lanes, chosen, chosen_threshold)
    if lanes <= FEW_LANES and isinstance(source, KeyedBits):
        size = (lanes + 7) >> 3
        words = int.from_bytes(source.peek(PRECISION * size), "little")
        below, needed = _compare(words, 8 * size, threshold, lanes, chosen, chosen_threshold)
        source.skip(needed * size)
        return below
    all_lanes = (1 << lanes) - 1
    low, high = all_lanes & ~chosen, chosen
    below = low * (threshold >> PRECISION) | high * (chosen_threshold >> PRECISION)
    undecided, ones_of = all_lanes & ~below, (0, low, high, all_lanes)
    for bits, is_read in _comparisons(threshold, chosen_threshold):
        if not undecided or not is_read:
            break
        word, ones = source.draw(lanes), ones_of[bits]
        below |= undecided & ones & ~word
        undecided &= ~(word ^ ones)
    # lanes still undecided have U >= threshold, which is not below
    return below


def usual_bytes(lanes: int) -> tuple[int, int]:
    """Return how many bytes `bernoulli` takes at most, except in one call of a hundred, and how
    many of them are top bytes."""
    if lanes > FEW_LANES:
        return lanes + lanes // 16, lanes
    return (_LANE_BYTES * lanes if lanes > 1 else PRECISION // 8), 0


def _add_up(words: int, threshold: int, lanes: int, chosen: int, chosen_threshold: int) -> int:
    """Return the bits of `bernoulli` for the uniforms in `words`, 64 bits of every _LANE_BYTES. All
    are compared with both thresholds in one sum, as in `is_below`: none reaches the next lane. The
    top bit is set, so that the integers are of one length."""
    uniforms, numbers, width = _in_lanes(threshold, chosen_threshold, lanes)
    words = words & uniforms | 1 << width - 1
    total = (words | words << width) + numbers
    tops = total.to_bytes(width // 4, "big")[::_LANE_BYTES]
    both = int(tops.translate(_IS_BELOW), 2)
    below = both & ((1 << lanes) - 1)
    return below ^ (below ^ both >> lanes) & chosen


@lru_cache(maxsize=64)
def _in_lanes(threshold: int, chosen_threshold: int, lanes: int) -> tuple[int, int, int]:
    """Return the bits of all uniforms, 2**64 - threshold in every lane and above them
    2**64 - chosen_threshold, and the bits of all lanes."""
    ones = sum(1 << 8 * _LANE_BYTES * lane for lane in range(lanes))
    width = 8 * _LANE_BYTES * lanes
    above = ONE - threshold | ONE - chosen_threshold << width
    return _LOW * ones, above * ones, width


def is_below(uniform: int, threshold: int) -> int:
    """Return 1 if the 64-bit `uniform`, to which LENGTH is added, is below `threshold`, else 0.

    The result is 0 exactly where uniform + 2**64 - threshold reaches 2**64: bits 64 and up of the
    total are 5 there, else 4. The time of a sum of integers of one length does not depend on the
    integers. That of a comparison does, and that of other operations with the result 0.
    """
    total = uniform + (ONE - threshold | LENGTH)
    return (1, 0)[(total >> PRECISION) - 4]


def _compare(
    words: int, width: int, threshold: int, lanes: int, chosen: int, chosen_threshold: int
) -> tuple[int, int]:
    """Return the bits of `bernoulli` and how many words decide them. `words`: all 64, `width` bits
    each, the first lowest.

    All words are compared at once: integers of one length, whose time does not tell the result.
    """
    undecided = (1 << lanes) - 1
    low = undecided & ~chosen
    below = low * (threshold >> PRECISION) | chosen * (chosen_threshold >> PRECISION)
    undecided &= ~below
    ones = low * _spread(threshold, width) | chosen * _spread(chosen_threshold, width)
    everywhere = undecided * _spread(_LOW, width)
    differs = decided = (words ^ ones) & everywhere
    for shift in _DOUBLINGS:
        decided |= decided << shift * width
    # where a lane's first difference is a 0 below a 1
    bits = differs & ~(decided << width) & ones
    for shift in _DOUBLINGS:
        bits |= bits >> shift * width
    open_words = -((everywhere & ~decided).bit_length() // -width)
    needed = min(open_words + 1, _length(threshold | chosen_threshold)) if undecided else 0
    return below | bits & undecided, needed


@lru_cache(maxsize=64)
def _spread(threshold: int, width: int) -> int:
    """Return the 64 bits of `threshold`, the top one lowest, `width` bits apart."""
    places = range(PRECISION)
    return sum((threshold >> place & 1) << (63 - place) * width for place in places)


def _length(thresholds: int) -> int:
    """Return the number of bits, of 64, from the top one to the lowest 1."""
    rest = thresholds & _LOW
    return PRECISION + 1 - (rest & -rest).bit_length() if rest else 0


def _compare_bytes(
    source: SystemBits, threshold: int, lanes: int, chosen: int, chosen_threshold: int
) -> int:
    """Return the bits of `bernoulli` for uniforms whose top bytes are the first `lanes` bytes, that
    of the last lane first."""
    tops = source.draw_bytes(lanes)
    below = _below(source, tops, threshold)
    if chosen.bit_count() * 128 > lanes:
        return below & ~chosen | _below(source, tops, chosen_threshold) & chosen
    below &= ~chosen
    # so few that each by itself is faster
    while chosen:
        lane = chosen.bit_length() - 1
        below |= _below(source, tops[~lane : -lane or None], chosen_threshold) << lane
        chosen ^= 1 << lane
    return below


def _below(source: SystemBits, tops: bytes, threshold: int) -> int:
    """Return which of the uniforms with these top bytes are below `threshold`, the last lowest.
    Bits of those that the top byte leaves open are drawn."""
    symbols = bytearray(tops.translate(_symbols(threshold)))
    tail, lane = threshold & ((1 << _TAIL_BITS) - 1), symbols.find(_OPEN)
    while lane >= 0:
        symbols[lane] = _ONE if source.draw(_TAIL_BITS) < tail else _ZERO
        lane = symbols.find(_OPEN, lane)
    return int(symbols, 2)


@lru_cache(maxsize=64)
def _symbols(threshold: int) -> bytes:
    """Return for each top byte of a uniform whether it is below `threshold`, as a binary digit, or
    whether the other bytes decide."""
    top, tail = divmod(threshold, 1 << _TAIL_BITS)
    least = top + (tail > 0)
    return bytes(_ONE if byte < top else _OPEN if byte < least else _ZERO for byte in range(256))


@lru_cache(maxsize=64)
def _comparisons(threshold: int, chosen_threshold: int) -> tuple[tuple[int, bool], ...]:
    """Return for each bit from the top: that of `threshold` plus twice that of `chosen_threshold`,
    and whether a 1 is in either from there on."""
    rest = (threshold | chosen_threshold) & _LOW
    return tuple(
        (threshold >> i & 1 | (chosen_threshold >> i & 1) << 1, bool(rest & ((2 << i) - 1)))
        for i in range(PRECISION - 1, -1, -1)
    )


def uniform_below(source: BitSource, bound: int) -> int:
    """Draw a uniform integer in [0, bound), by rejection. It takes 0 bits for a bound of 1."""
    if bound == 1:
        return 0
    width = (bound - 1).bit_length()
    while True:
        number = source.draw(width)
        if number < bound:
            return number
