"""CityHash64, version 1.0.3, by which Chromium's RAPPOR client fills its Bloom filters.

Source: Pike and Alakuijala 2011, CityHash 1.0.3; Chromium, components/rappor/bloom_filter.cc. Later
versions of CityHash have other values. All numbers are modulo 2**64; words are little-endian.
"""

from dataclasses import dataclass

from ldp.protocol.bloom import PolynomialBloom
from ldp.protocol.hashing import Value, value_bytes
from ldp.protocol.md5_bloom import Md5Bloom

_WORD = (1 << 64) - 1
_K0, _K1, _K2, _K3 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
MIX = 0x9DDFEA08EB382D69
"""Factor by which two words become one."""


@dataclass(frozen=True)
class CityBloom:
    """Addressing by Chromium's filters: hash i of row j is the lower half of CityHash64 of the
    value with seed `hashes` j + i, modulo `bits`."""

    bits: int
    hashes: int

    def point(self, value: Value) -> int:
        """Return CityHash64 of the value less the constant that stands for a first seed."""
        return city_hash(value_bytes(value)) - _K2 & _WORD

    def cells(self, point: int, row: int) -> tuple[int, ...]:
        seeds = range(row * self.hashes, (row + 1) * self.hashes)
        return tuple(sorted({(_mixed(point, seed) & 0xFFFFFFFF) % self.bits for seed in seeds}))


Bloom = PolynomialBloom | Md5Bloom | CityBloom
"""Any addressing by Bloom filters."""


def city_hash(data: bytes) -> int:
    """Return CityHash64 of `data`."""
    size = len(data)
    if size > 64:
        return _long(data)
    if size > 32:
        return _medium(data)
    if size > 16:
        a, b = _word(data, 0) * _K1 & _WORD, _word(data, 8)
        c, d = _word(data, -8) * _K2, _word(data, -16) * _K0
        return _mixed(_turn(a - b, 43) + _turn(c, 30) + d, a + _turn(b ^ _K3, 20) - c + size)
    if size > 8:
        a, b = _word(data, 0), _word(data, -8)
        return _mixed(a, _turn(b + size, size)) ^ b
    if size >= 4:
        first, last = (int.from_bytes(part, "little") for part in (data[:4], data[-4:]))
        return _mixed(size + (first << 3), last)
    if size:
        low, high = data[0] + (data[size // 2] << 8), size + (data[-1] << 2)
        return _folded(low * _K2 ^ high * _K3) * _K2 & _WORD
    return _K2


def _medium(data: bytes) -> int:
    """Return the hash of 33 to 64 bytes."""
    first = _word(data, 0) + (len(data) + _word(data, -16)) * _K0
    v_low, v_high = _chained(first, [_word(data, i) for i in (8, 16, 24)])
    w_low, w_high = _chained(
        _word(data, 16) + _word(data, -32), [_word(data, i) for i in (-24, -16, -8)]
    )
    mixed = _folded((v_low + w_high) * _K2 + (w_low + v_high) * _K0)
    return _folded(mixed * _K0 + v_high) * _K2 & _WORD


def _chained(a: int, words: list[int]) -> tuple[int, int]:
    second, third, last = words
    b, c = _turn(a + last, 52), _turn(a, 37)
    a += second
    c += _turn(a, 7)
    a += third
    return a + last, b + _turn(a, 31) + c


def _long(data: bytes) -> int:
    """Return the hash of more than 64 bytes: the end first, then blocks of 64."""
    size = len(data)
    x, y, z = _word(data, 0), _word(data, -16) ^ _K1, _word(data, -56) ^ _K0
    v = _of_32(data, size - 64, size, y)
    w = _of_32(data, size - 32, size * _K1, _K0)
    z += _folded(v[1]) * _K1
    x = _turn(z + x, 39) * _K1
    y = _turn(y, 33) * _K1
    for at in range(0, (size - 1) // 64 * 64, 64):
        x = _turn(x + y + v[0] + _word(data, at + 16), 37) * _K1 & _WORD ^ w[1]
        y = _turn(y + v[1] + _word(data, at + 48), 42) * _K1 & _WORD ^ v[0]
        z = _turn((z ^ w[0]) & _WORD, 33)
        v = _of_32(data, at, v[1] * _K1, x + w[0])
        w = _of_32(data, at + 32, z + w[1], y)
        z, x = x, z
    return _mixed(_mixed(v[0], w[0]) + _folded(y) * _K1 + z, _mixed(v[1], w[1]) + x)


def _of_32(data: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    """Return two words of the 32 bytes from `at` on, and of a and b."""
    first, second, third, last = (_word(data, at + 8 * i) for i in range(4))
    a += first
    b = _turn(b + a + last, 21)
    c = a
    a += second + third
    return (a + last) & _WORD, (b + _turn(a, 44) + c) & _WORD


def _word(data: bytes, at: int) -> int:
    # a negative place counts from the end
    start = at % len(data)
    return int.from_bytes(data[start : start + 8], "little")


def _turn(number: int, by: int) -> int:
    number &= _WORD
    return number >> by | number << (64 - by) & _WORD


def _folded(number: int) -> int:
    number &= _WORD
    return number ^ number >> 47


def _mixed(low: int, high: int) -> int:
    """Return one word of two."""
    a = _folded((low ^ high) * MIX)
    return _folded((high ^ a) * MIX) * MIX & _WORD
