"""Bloom filters as google/rappor's clients hash them; `docs/wire.md` specifies them too."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from ldp.errors import ParameterError
from ldp.protocol.hashing import Value, value_bytes


class Md5Scheme(NamedTuple):
    """Division of an MD5 digest into hashes by a client of google/rappor: `size` bytes a hash (0:
    as few as can address all bits), their byte `order`, and the size of the largest filter."""

    size: int
    order: Literal["little", "big"]
    most_bits: int


MD5_SCHEMES = {
    "rappor-md5-1byte": Md5Scheme(1, "little", 256),
    "rappor-md5-le": Md5Scheme(0, "little", 1 << 16),
    "rappor-md5-be16": Md5Scheme(2, "big", 4096),
}
"""Schemes of google/rappor @a13fa96: client/python and client/cpp up to 256 bits; client/cpp;
client/java."""


@dataclass(frozen=True)
class Md5Bloom:
    """Addressing by google/rappor's filters: hash i of row j is the i-th group of `size` bytes of
    MD5(j as 4 bytes big-endian || value), modulo `bits`. Raises ParameterError for more bits or
    hashes than that scheme has."""

    scheme: str
    bits: int
    hashes: int

    def __post_init__(self) -> None:
        if self.bits > (most := MD5_SCHEMES[self.scheme].most_bits):
            raise ParameterError(f'scheme "{self.scheme}" has {most} bits at most')
        if self.hashes > (most := 16 // self.size):
            raise ParameterError(f"an MD5 digest holds {most} hashes of {self.bits} bits")

    @cached_property
    def size(self) -> int:
        """Size of a hash, in bytes."""
        return MD5_SCHEMES[self.scheme].size or ((self.bits - 1).bit_length() + 7) // 8

    def point(self, value: Value) -> int:
        """Return a byte 1 and the bytes of `value` as one big-endian integer, without loss."""
        return int.from_bytes(b"\1" + value_bytes(value), "big")

    def cells(self, point: int, row: int) -> tuple[int, ...]:
        value = point.to_bytes((point.bit_length() + 7) // 8, "big")[1:]
        digest = hashlib.md5(row.to_bytes(4, "big") + value, usedforsecurity=False).digest()
        order, size = MD5_SCHEMES[self.scheme].order, self.size
        parts = (digest[size * i : size * (i + 1)] for i in range(self.hashes))
        return tuple(sorted({int.from_bytes(part, order) % self.bits for part in parts}))
