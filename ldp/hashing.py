"""The one scalar place that hashes; `docs/wire.md` specifies it for other languages.

A value is hashed once to a point of the field of integers modulo 2**61 - 1 (MurmurHash3); each row
of a sketch maps points to columns by its own random polynomial of degree 2, a 3-wise independent
family (Wegman and Carter 1981), whose coefficients are a keyed BLAKE2b of the row number.
"""

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass

import mmh3

from ldp.errors import ParameterError

FIELD = (1 << 61) - 1
MAX_WIDTH = 1 << 24


def value_bytes(value: str | bytes) -> bytes:
    """The bytes of a value: UTF-8 for text, taken as they are; no Unicode normalisation."""
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise ParameterError("a value must be str or bytes")
    with suppress(UnicodeEncodeError):  # its own error would carry the value along
        return value.encode()
    raise ParameterError("a value holds text that is not valid Unicode")


def value_point(value: str | bytes) -> int:
    """The point of a value: first 8 bytes (little-endian) of MurmurHash3_x64_128, seed 0, modulo
    2**61 - 1."""
    return mmh3.hash64(value_bytes(value), 0, True, signed=False)[0] % FIELD


def derived_seed(*parts: str) -> str:
    """32 hex digits derived from names (product, metric, version), each length-prefixed."""
    digest = hashlib.blake2b(digest_size=16, person=b"ldp seed v1")
    for part in parts:
        text = part.encode()
        digest.update(len(text).to_bytes(4, "little") + text)
    return digest.hexdigest()


@dataclass(frozen=True)
class PolynomialRows:
    """Row j maps the point x to column floor(h_j(x) / 2**29) * width / 2**32, where
    h_j(x) = (a x**2 + b x + c) modulo 2**61 - 1.

    `seed`: 1 to 64 bytes as hex, public, the same on devices and servers. For a width that is no
    power of two a column's probability is off by at most width / 2**32 of itself.
    """

    seed: str
    width: int

    def __post_init__(self) -> None:
        if not isinstance(self.seed, str) or not re.fullmatch("([0-9a-f]{2}){1,64}", self.seed):
            raise ParameterError("seed must be 1 to 64 bytes as lower-case hexadecimal digits")

    def row_digest(self, row: int) -> bytes:
        """24 bytes: a, b, c as 8 bytes little-endian each, before reduction to the field."""
        return hashlib.blake2b(
            row.to_bytes(4, "little"),
            digest_size=24,
            key=bytes.fromhex(self.seed),
            person=b"ldp rows v1",
        ).digest()

    def point(self, value: str | bytes) -> int:
        return value_point(value)

    def cells(self, point: int, row: int) -> tuple[int, ...]:
        digest = self.row_digest(row)
        a, b, c = (int.from_bytes(digest[i : i + 8], "little") % FIELD for i in (0, 8, 16))
        hashed = ((a * point + b) * point + c) % FIELD
        return (((hashed >> 29) * self.width) >> 32,)
