"""Words of an alphabet: how they are cleaned, cut into fragments and hashed by position."""

import hashlib
import unicodedata
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, combinations, islice

from ldp.errors import ParameterError
from ldp.protocol.hashing import PolynomialBloom, PolynomialRows, Value, value_bytes, value_point

PAD = "\0"
"""Fills a word up to its length; in no alphabet."""


MOST_LETTERS = 64


MOST_TAG_BITS = 16


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
