"""Hash functions of single values; `docs/wire.md` specifies them for other languages.

A value is hashed once to a point of the field of integers modulo 2**61 - 1 (MurmurHash3); each row
of a sketch maps points to columns by its own random polynomial of degree 2, a 3-wise independent
family (Wegman and Carter 1981), whose coefficients are a keyed BLAKE2b of the row number. Bloom
filters (Bloom 1970) and fragments of words are hashed alike, or as google/rappor's clients do.
"""

import hashlib
import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, lru_cache
from struct import Struct
from typing import Any, Literal, NamedTuple

import mmh3

from ldp.errors import ParameterError

FIELD = (1 << 61) - 1
MAX_WIDTH = 1 << 24
_COEFFICIENTS = Struct("<3Q")

Value = str | bytes | int | float | tuple[Any, ...] | AbstractSet[str | bytes]
"""Value of a person: text or bytes; for some mechanisms a number, a tuple, or a set of answers."""


def value_bytes(value: Value) -> bytes:
    """Return `value` as bytes: UTF-8 for text, without Unicode normalisation. Raises ParameterError
    for anything but bytes and valid text."""
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise ParameterError("a value must be str or bytes")
    try:
        return value.encode()
    except UnicodeEncodeError:
        pass  # it holds the value, and would be chained to an error that is raised here
    raise ParameterError("a value holds text that is not valid Unicode")


def value_point(value: Value) -> int:
    """Return the point of `value`: the first 8 bytes (little-endian) of MurmurHash3_x64_128 with
    seed 0, modulo 2**61 - 1."""
    return mmh3.hash64(value_bytes(value), 0, True, signed=False)[0] % FIELD


def derived_seed(*parts: str) -> str:
    """Return 32 hex digits that depend on `parts` (product, metric, version), length-prefixed."""
    digest = hashlib.blake2b(digest_size=16, person=b"ldp seed v1")
    for part in parts:
        text = part.encode()
        digest.update(len(text).to_bytes(4, "little") + text)
    return digest.hexdigest()


@lru_cache(maxsize=64)
def _keyed_rows(seed: str) -> "hashlib.blake2b":
    """Return the hash of `PolynomialRows` before it is given a row; to be copied."""
    return hashlib.blake2b(digest_size=24, key=bytes.fromhex(seed), person=b"ldp rows v1")


@lru_cache(maxsize=1024)
def _row_digest(seed: str, row: int) -> bytes:
    digest = _keyed_rows(seed).copy()
    digest.update(row.to_bytes(4, "little"))
    return digest.digest()


@dataclass(frozen=True)
class PolynomialRows:
    """Addressing in which row j maps the point x to the column
    floor(floor(h_j(x) / 2**29) * width / 2**32) with h_j(x) = (a x**2 + b x + c) modulo 2**61 - 1.

    `seed`: 1 to 64 bytes as hex, public, the same on devices and servers; ParameterError otherwise.
    For a width that is not a power of two the relative error of a column's probability is at most
    width / 2**32.
    """

    seed: str
    width: int

    def __post_init__(self) -> None:
        if not isinstance(self.seed, str) or not re.fullmatch("([0-9a-f]{2}){1,64}", self.seed):
            raise ParameterError("seed must be 1 to 64 bytes as lower-case hexadecimal digits")

    def row_digest(self, row: int) -> bytes:
        """Return 24 bytes: a, b, c of `row`, 8 bytes little-endian each, not yet reduced."""
        return _row_digest(self.seed, row)

    def point(self, value: Value) -> int:
        return value_point(value)

    def column(self, point: int, row: int) -> int:
        """Return the column, 0 .. width - 1, of `point` in `row`."""
        a, b, c = _COEFFICIENTS.unpack(self.row_digest(row))
        hashed: int = ((a * point + b) * point + c) % FIELD
        return ((hashed >> 29) * self.width) >> 32

    def cells(self, point: int, row: int) -> tuple[int, ...]:
        return (self.column(point, row),)


@dataclass(frozen=True)
class PolynomialBloom:
    """Addressing by a Bloom filter a row: hash i of row j is row `hashes` j + i of
    `PolynomialRows`.

    `seed`: as there; `bits`: size of the filter. Two hashes of a value may be equal.
    """

    seed: str
    bits: int
    hashes: int

    @cached_property
    def rows(self) -> PolynomialRows:
        return PolynomialRows(self.seed, self.bits)

    def point(self, value: Value) -> int:
        return value_point(value)

    def cells(self, point: int, row: int) -> tuple[int, ...]:
        first = row * self.hashes
        return tuple(sorted({self.rows.column(point, first + i) for i in range(self.hashes)}))


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
    MD5(j as 4 bytes big-endian || value), modulo `bits`."""

    scheme: str
    bits: int
    hashes: int

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
