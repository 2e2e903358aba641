"""The one scalar place that hashes; `docs/wire.md` specifies it for other languages.

A value is hashed once to a point of the field of integers modulo 2**61 - 1 (MurmurHash3); each row
of a sketch maps points to columns by its own random polynomial of degree 2, a 3-wise independent
family (Wegman and Carter 1981), whose coefficients are a keyed BLAKE2b of the row number. Bloom
filters (Bloom 1970) hash the same way, or as google/rappor's clients do; so do fragments of words.
"""

import hashlib
import re
import unicodedata
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, combinations, islice
from typing import Literal, NamedTuple

import mmh3

from ldp.errors import ParameterError
from ldp.value import Value

PAD = "\0"
"""Fills a word up to its length; in no alphabet."""
MOST_LETTERS = 64
MOST_TAG_BITS = 16
FIELD = (1 << 61) - 1
MAX_WIDTH = 1 << 24


def value_bytes(value: Value) -> bytes:
    """The bytes of a value: UTF-8 for text, taken as they are; no Unicode normalisation."""
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise ParameterError("a value must be str or bytes")
    with suppress(UnicodeEncodeError):  # its own error would carry the value along
        return value.encode()
    raise ParameterError("a value holds text that is not valid Unicode")


def value_point(value: Value) -> int:
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

    def point(self, value: Value) -> int:
        return value_point(value)

    def column(self, point: int, row: int) -> int:
        digest = self.row_digest(row)
        a, b, c = (int.from_bytes(digest[i : i + 8], "little") % FIELD for i in (0, 8, 16))
        hashed = ((a * point + b) * point + c) % FIELD
        return ((hashed >> 29) * self.width) >> 32

    def cells(self, point: int, row: int) -> tuple[int, ...]:
        return (self.column(point, row),)


@dataclass(frozen=True)
class PolynomialBloom:
    """A Bloom filter a row: hash i of row j is row `hashes` j + i of `PolynomialRows`.

    `seed`: as there; `bits`: size of the filter. Two hashes may fall on one bit.
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
    """How a client of google/rappor cuts an MD5 digest into hashes: `size` bytes a hash (0: as
    few as can address all bits), read in this byte `order`; its largest filter."""

    size: int
    order: Literal["little", "big"]
    most_bits: int


MD5_SCHEMES = {
    "rappor-md5-1byte": Md5Scheme(1, "little", 256),
    "rappor-md5-le": Md5Scheme(0, "little", 1 << 16),
    "rappor-md5-be16": Md5Scheme(2, "big", 4096),
}
"""google/rappor @a13fa96: client/python and client/cpp up to 256 bits; client/cpp; client/java."""


@dataclass(frozen=True)
class Md5Bloom:
    """google/rappor's filters: hash i of row j is bytes `size` i .. of MD5(j as 4 bytes big-endian
    || value), modulo `bits`."""

    scheme: str
    bits: int
    hashes: int

    @cached_property
    def size(self) -> int:
        """Bytes a hash."""
        return MD5_SCHEMES[self.scheme].size or ((self.bits - 1).bit_length() + 7) // 8

    def point(self, value: Value) -> int:
        """The bytes of the value after a 1, as one big-endian integer: nothing of it is lost."""
        return int.from_bytes(b"\1" + value_bytes(value), "big")

    def cells(self, point: int, row: int) -> tuple[int, ...]:
        value = point.to_bytes((point.bit_length() + 7) // 8, "big")[1:]
        digest = hashlib.md5(row.to_bytes(4, "big") + value, usedforsecurity=False).digest()
        order, size = MD5_SCHEMES[self.scheme].order, self.size
        parts = (digest[size * i : size * (i + 1)] for i in range(self.hashes))
        return tuple(sorted({int.from_bytes(part, order) % self.bits for part in parts}))


@dataclass(frozen=True)
class Spelling:
    """Words of at most `length` letters of `alphabet`, in fragments of `fragment` letters, tagged
    with `tag_bits` bits. Raises ParameterError for what spells no word."""

    length: int
    alphabet: str
    fragment: int
    tag_bits: int = 1

    def __post_init__(self) -> None:
        for name, most in (
            ("length", MOST_LETTERS),
            ("fragment", MOST_LETTERS),
            ("tag_bits", MOST_TAG_BITS),
        ):
            number = getattr(self, name)
            if type(number) is not int or not 1 <= number <= most:
                raise ParameterError(f"{name} must be a whole number from 1 to {most}")
        letters = self.alphabet
        if not isinstance(letters, str) or len(set(letters)) < max(2, len(letters)):
            raise ParameterError("alphabet must be a text of 2 or more different letters")
        value_bytes(letters)
        if PAD in letters:
            raise ParameterError("alphabet must not hold the character 0, which pads words")
        if self.length % self.fragment:
            raise ParameterError("length must be a multiple of fragment")

    @property
    def positions(self) -> int:
        return self.length // self.fragment

    def cleaned(self, word: Value) -> str:
        """Return what is told of any text: letters of the alphabet stay, others are tried in lower
        case, then without accents, and dropped if that is no letter either; the rest is cut to
        `length`. Raises ParameterError for what is no text."""
        try:
            text = unicodedata.normalize("NFC", value_bytes(word).decode())
        except UnicodeDecodeError:
            raise ParameterError("a word must be text") from None
        return "".join(islice(chain.from_iterable(map(self._letters, text)), self.length))

    def _letters(self, letter: str) -> list[str]:
        """The letters of the alphabet that stand for any letter."""
        lower = letter.casefold()
        forms = (letter, lower, unicodedata.normalize("NFKD", lower))
        return next(filter(None, ([x for x in form if x in self.alphabet] for form in forms)), [])

    def padded(self, word: Value) -> str:
        """The word filled up with PAD; raises ParameterError when it is no word."""
        try:
            text = value_bytes(word).decode()
        except UnicodeDecodeError:
            text = PAD
        if not set(text) <= set(self.alphabet):
            raise ParameterError("a value holds a letter outside the alphabet")
        if len(text) > self.length:
            raise ParameterError(f"a value has more than {self.length} letters; cut it first")
        return text.ljust(self.length, PAD)

    def fragments(self, word: Value) -> list[str]:
        """The fragments of the padded word, one a position; raises as `padded`."""
        text, size = self.padded(word), self.fragment
        return [text[start : start + size] for start in range(0, self.length, size)]


class ByPosition(ABC):
    """An addressing of words, by what they have at each position of their spelling."""

    spelling: Spelling

    @abstractmethod
    def position_points(self, value: Value) -> list[int]:
        """The points of what the word has at each position."""

    def point(self, value: Value) -> int:
        """The points of all positions, eight bytes each, as one integer."""
        points = self.position_points(value)
        return int.from_bytes(b"".join(point.to_bytes(8, "little") for point in points), "little")

    @staticmethod
    def at(point: int, position: int) -> int:
        """The point at one position, of those of all."""
        return point >> 64 * position & ((1 << 64) - 1)


@dataclass(frozen=True)
class Blocks(ByPosition):
    """Rows in blocks of `rows_each`, one block a position of the word: what a word has there
    touches one column of each row of its block, by `PolynomialRows`."""

    seed: str
    width: int
    rows_each: int
    spelling: Spelling

    @cached_property
    def rows(self) -> PolynomialRows:
        return PolynomialRows(self.seed, self.width)

    def cells(self, point: int, row: int) -> tuple[int, ...]:
        return (self.rows.column(self.at(point, row // self.rows_each), row),)


class Fragments(Blocks):
    """The fragment at the position, after the tag of the whole word."""

    def tag(self, word: str) -> int:
        """The tag of a padded word: a keyed BLAKE2b of it, `tag_bits` bits."""
        digest = hashlib.blake2b(
            word.encode(), digest_size=8, key=bytes.fromhex(self.seed), person=b"ldp tag v1"
        ).digest()
        return int.from_bytes(digest, "little") & ((1 << self.spelling.tag_bits) - 1)

    def fragment_point(self, tag: int, fragment: str) -> int:
        """The point of a fragment: that of its tag, 2 bytes little-endian, and its letters."""
        return value_point(tag.to_bytes(2, "little") + fragment.encode())

    def position_points(self, value: Value) -> list[int]:
        tag = self.tag(self.spelling.padded(value))
        return [self.fragment_point(tag, fragment) for fragment in self.spelling.fragments(value)]


class Prefixes(Blocks):
    """The word's beginning, up to the position and with what stands there."""

    def position_points(self, value: Value) -> list[int]:
        return [value_point(beginning) for beginning in accumulate(self.spelling.fragments(value))]


@dataclass(frozen=True)
class FragmentPairs(ByPosition):
    """Rows in blocks of `cohorts`, one block a pair of positions, in the order of `pairs`: the
    fragments at the two set bits of two Bloom filters side by side, with the same hashes."""

    bloom: PolynomialBloom
    cohorts: int
    spelling: Spelling

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Two positions each, the earlier one first: (0, 1), (0, 2), ..., (1, 2), ..."""
        return tuple(combinations(range(self.spelling.positions), 2))

    def position_points(self, value: Value) -> list[int]:
        return list(map(value_point, self.spelling.fragments(value)))

    def cells(self, point: int, row: int) -> tuple[int, ...]:
        pair, cohort = divmod(row, self.cohorts)
        return tuple(
            half * self.bloom.bits + bit
            for half, position in enumerate(self.pairs[pair])
            for bit in self.bloom.cells(self.at(point, position), cohort)
        )
