"""Where private bits come from, and the two exact samplers every mechanism is built from.

A `BitSource` hands out fair bits; `SystemBits` asks the operating system (devices), `SeededBits`
stretches a seed with SHAKE-256 (golden vectors, tests, simulations). Both samplers use integers
only: no float ever decides a private bit. Bernoulli sampling compares a uniform 64-bit number with
an integer threshold one bit at a time from the top, in all lanes at once (Knuth and Yao 1976).
"""

import hashlib
import os
from typing import Protocol

PROBABILITY_BITS = 64
PROBABILITY_ONE = 1 << PROBABILITY_BITS


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

    _BLOCK = 4096

    def __init__(self, seed: bytes) -> None:
        self._seed = bytes(seed)
        self._blocks = 0
        self._buffer = b""
        self._used = 0

    def draw(self, count: int) -> int:
        size = (count + 7) >> 3
        while len(self._buffer) - self._used < size:
            self._buffer = self._buffer[self._used :] + self._next_block()
            self._used = 0
        word = int.from_bytes(self._buffer[self._used : self._used + size], "little")
        self._used += size
        return word & ((1 << count) - 1)

    def _next_block(self) -> bytes:
        number = self._blocks.to_bytes(8, "little")
        self._blocks += 1
        return hashlib.shake_256(b"ldp seeded bits v1" + number + self._seed).digest(self._BLOCK)

    def __repr__(self) -> str:
        return "SeededBits(<seed not shown>)"


def bernoulli(source: BitSource, threshold: int, lanes: int = 1) -> int:
    """`lanes` independent bits as one integer, each 1 with probability threshold / 2**64 exactly.

    In every lane a 64-bit uniform U is compared with `threshold` from the top bit down; a lane is
    decided at the first bit where they differ, and drawing stops when all lanes are decided:
    about log2(lanes) + 2 words instead of 64. `threshold` lies in [0, 2**64].
    """
    if threshold >= PROBABILITY_ONE:
        return (1 << lanes) - 1
    below = 0  # lanes where U < threshold is certain
    undecided = (1 << lanes) - 1
    for position in range(PROBABILITY_BITS - 1, -1, -1):
        word = source.draw(lanes)
        if threshold >> position & 1:
            below |= undecided & ~word
            undecided &= word
        else:
            undecided &= ~word
        if not undecided:
            break
    return below  # lanes still undecided have U == threshold, which is not below


def uniform_below(source: BitSource, bound: int) -> int:
    """An unbiased integer in [0, bound), by rejection; draws nothing when bound is 1."""
    width = (bound - 1).bit_length()
    while True:
        number = source.draw(width)
        if number < bound:
            return number
