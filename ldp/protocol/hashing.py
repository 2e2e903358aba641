"""Hash functions of single values; `docs/wire.md` specifies them for other languages.

A value is hashed once to a point of the field of integers modulo 2**61 - 1 (MurmurHash3). Each row
of a sketch maps points to columns by its own random polynomial of degree 2, a 3-wise independent
family (Wegman and Carter 1981), whose coefficients are a keyed BLAKE2b of the row number. Bloom
filters (`bloom`) and fragments of words (`spelling`) are hashed alike.
"""

import hashlib
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import Any

import mmh3

from ldp.errors import ParameterError

FIELD = (1 << 61) - 1
MAX_WIDTH = 1 << 24
_SEED_DIGITS = range(2, 129, 2)
_COEFFICIENTS = Struct("<3Q")

Value = str | bytes | int | float | tuple[Any, ...] | AbstractSet[str | bytes]
"""Value of a person: text or bytes. For some mechanisms it is a number, a tuple, or a set of
answers."""


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
        # it holds the value, and would be chained to an error that is raised here
        pass
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


def require_seed(seed: Any) -> None:
    """Raise ParameterError unless `seed` is 1 to 64 bytes as lower-case hexadecimal digits."""
    is_hex = isinstance(seed, str) and not seed.strip("0123456789abcdef")
    if not (is_hex and len(seed) in _SEED_DIGITS):
        raise ParameterError("seed must be 1 to 64 bytes as lower-case hexadecimal digits")


@lru_cache(maxsize=64)
def _keyed_rows(seed: str) -> "hashlib.blake2b":
    """Return the hash of `PolynomialRows` before it is given a row. It is to be copied."""
    return hashlib.blake2b(digest_size=24, key=bytes.fromhex(seed), person=b"ldp rows v1")


def _row_digest(seed: str, row: int) -> bytes:
    digest = _keyed_rows(seed).copy()
    digest.update(row.to_bytes(4, "little"))
    return digest.digest()


@lru_cache(maxsize=2048)
def _coefficients(seed: str, row: int) -> tuple[int, int, int]:
    return _COEFFICIENTS.unpack(_row_digest(seed, row))


@dataclass(frozen=True)
class PolynomialRows:
    """Addressing in which row j maps the point x to the column
    floor(floor(h_j(x) / 2**29) * width / 2**32) with h_j(x) = (a x**2 + b x + c) modulo 2**61 - 1.

    `seed`: 1 to 64 bytes as hex, public, the same on devices and servers. Raises ParameterError
    otherwise. For a width that is not a power of two the relative error of a column's probability
    is at most width / 2**32.
    """

    seed: str
    width: int

    def __post_init__(self) -> None:
        require_seed(self.seed)

    def row_digest(self, row: int) -> bytes:
        """Return 24 bytes: a, b, c of `row`, 8 bytes little-endian each, not yet reduced."""
        return _row_digest(self.seed, row)

    point = staticmethod(value_point)

    def column(self, point: int, row: int) -> int:
        """Return the column, 0 .. width - 1, of `point` in `row`."""
        return self.cells(point, row)[0]

    def cells(self, point: int, row: int) -> tuple[int, ...]:
        a, b, c = _coefficients(self.seed, row)
        return (((((a * point + b) * point + c) % FIELD) >> 29) * self.width >> 32,)
