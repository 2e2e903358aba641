"""Where private bits come from, and the two exact samplers every mechanism is built from.

A `BitSource` hands out fair bits; `SystemBits` asks the operating system (devices), `SeededBits`
stretches a seed with SHAKE-256 (golden vectors, tests, simulations), `KeyedBits` does so from a
device's secret (memoised responses). Both samplers use integers
only: no float ever decides a private bit. Bernoulli sampling compares a uniform 64-bit number with
an integer threshold one bit at a time from the top, in all lanes at once (Knuth and Yao 1976).
"""

import hashlib
import hmac
import os
from typing import Protocol

PROBABILITY_BITS = 64
PROBABILITY_ONE = 1 << PROBABILITY_BITS
_LOW = PROBABILITY_ONE - 1
_TOP = 1 << (PROBABILITY_BITS + 1)
"""Makes all uniforms integers of one length."""
FEW_LANES = 64
"""Up to so many lanes one that is decided early would be seen in the time that all take."""


class BitSource(Protocol):
    """Fair, independent bits."""

    def draw(self, count: int) -> int:
        """`count` fair bits as an integer in [0, 2**count): ceil(count / 8) bytes, little-endian,
        the surplus high bits dropped."""
        ...


class SystemBits:
    """The operating system's source. Unbuffered: a forked process can never replay its noise."""

    def draw(self, count: int) -> int:
        word = int.from_bytes(os.urandom((count + 7) >> 3), "little")
        return word & ((1 << count) - 1)


class SeededBits:
    """A reproducible stream for vectors, tests and simulations; never for a device.

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
        """Read `size` bytes that were returned by `peek`."""
        self._used += size

    def _next_block(self) -> bytes:
        number = self._blocks.to_bytes(8, "little")
        self._blocks += 1
        return hashlib.shake_256(self._DOMAIN + number + self._seed).digest(self._BLOCK)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<seed not shown>)"


class KeyedBits(SeededBits):
    """A stream that only the holder of a secret can make, and the same whenever it is asked for
    the same `message`: what is memoised without being stored.

    As `SeededBits`, with b"ldp keyed bits v1", blocks of 256 bytes, and HMAC-SHA256(secret,
    message) as the seed.
    """

    _DOMAIN = b"ldp keyed bits v1"
    _BLOCK = 256

    def __init__(self, secret: bytes, message: bytes) -> None:
        super().__init__(hmac.digest(secret, message, "sha256"))


def bernoulli(
    source: BitSource, threshold: int, lanes: int = 1, chosen: int = 0, chosen_threshold: int = 0
) -> int:
    """`lanes` independent bits as one integer, each 1 with probability threshold / 2**64 exactly;
    in the lanes that are set in `chosen` with chosen_threshold / 2**64.

    In every lane a 64-bit uniform U is compared with the threshold from the top bit down; a lane is
    decided at the first bit where they differ, and drawing stops when all lanes are decided or no
    threshold has a 1 left: about log2(lanes) + 2 words instead of 64. Thresholds lie in
    [0, 2**64].

    From the operating system up to FEW_LANES lanes are drawn whole, 64 bits each, at one request:
    the law is the same, and neither the time nor the number of requests depends on the result. Of a
    keyed stream as many lanes compare all 64 words, and skip those that decided: the same stream.
    """
    if lanes <= FEW_LANES and isinstance(source, KeyedBits):
        return _compared(source, threshold, lanes, chosen, chosen_threshold)
    if lanes <= FEW_LANES and isinstance(source, SystemBits):
        return _whole(
            source.draw(PROBABILITY_BITS * lanes), threshold, lanes, chosen, chosen_threshold
        )
    every = (1 << lanes) - 1
    others = every & ~chosen
    below = (others if threshold == PROBABILITY_ONE else 0) | (
        chosen if chosen_threshold == PROBABILITY_ONE else 0
    )  # lanes where U < threshold is certain
    undecided = every & ~below
    left = threshold | chosen_threshold
    for position in range(PROBABILITY_BITS - 1, -1, -1):
        left &= (2 << position) - 1
        if not undecided or not left:
            break
        word = source.draw(lanes)
        ones = (others if threshold >> position & 1 else 0) | (
            chosen if chosen_threshold >> position & 1 else 0
        )
        below |= undecided & ones & ~word
        undecided &= ~(word ^ ones)
    return below  # lanes still undecided have U >= threshold, which is not below


def _whole(word: int, threshold: int, lanes: int, chosen: int, chosen_threshold: int) -> int:
    """Return what `bernoulli` draws of uniforms that are drawn already, 64 bits a lane.

    U >= threshold exactly where U + 2**64 - threshold reaches 2**64: a sum of integers of one
    length takes the same time whatever they are, which a comparison does not.
    """
    below, missing = 0, (_LOW + 1 - threshold, _LOW + 1 - chosen_threshold)
    for lane in range(lanes):
        total = (word & _LOW | _TOP) + missing[chosen & 1]
        below |= (~(total >> PROBABILITY_BITS) & 1) << lane
        word, chosen = word >> PROBABILITY_BITS, chosen >> 1
    return below


def _compared(
    source: SeededBits, threshold: int, lanes: int, chosen: int, chosen_threshold: int
) -> int:
    """Return what `bernoulli` draws from a stream, after comparing all 64 words."""
    every, size = (1 << lanes) - 1, (lanes + 7) >> 3
    stream = source.peek(PROBABILITY_BITS * size)
    low, high = every & ~chosen, chosen
    below = low * (threshold >> PROBABILITY_BITS) | high * (chosen_threshold >> PROBABILITY_BITS)
    undecided, left, read = every & ~below, (threshold | chosen_threshold) & _LOW, 0
    for place in range(PROBABILITY_BITS):
        position = PROBABILITY_BITS - 1 - place
        read += bool(undecided) & bool(left & ((2 << position) - 1))
        word = int.from_bytes(stream[place * size : (place + 1) * size], "little")
        ones = low * (threshold >> position & 1) | high * (chosen_threshold >> position & 1)
        below |= undecided & ones & ~word
        undecided &= ~(word ^ ones)
    source.skip(read * size)
    return below


def uniform_below(source: BitSource, bound: int) -> int:
    """An unbiased integer in [0, bound), by rejection; draws nothing when bound is 1."""
    width = (bound - 1).bit_length()
    while True:
        number = source.draw(width)
        if number < bound:
            return number
