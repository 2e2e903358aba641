"""Words of an alphabet: how they are cleaned, cut into fragments and hashed by position."""

import hashlib
import unicodedata
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, combinations, islice

from ldp.errors import ParameterError
from ldp.protocol.bloom import PolynomialBloom
from ldp.protocol.channel import require_whole
from ldp.protocol.hashing import PolynomialRows, Value, value_bytes, value_point

PAD = "\0"
"""Character that pads a word to its length; no alphabet has it."""
MOST_LETTERS = 64
MOST_TAG_BITS = 16


@dataclass(frozen=True)
class Spelling:
    """Set of words of at most `length` letters of `alphabet`, divided into fragments of `fragment`
    letters, with tags of `tag_bits` bits. Raises ParameterError for parameters out of range."""

    length: int
    alphabet: str
    fragment: int
    tag_bits: int = 1

    def __post_init__(self) -> None:
        require_whole(self.length, "length", 1, MOST_LETTERS)
        require_whole(self.fragment, "fragment", 1, MOST_LETTERS)
        require_whole(self.tag_bits, "tag_bits", 1, MOST_TAG_BITS)
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
        """Number of fragments of a word."""
        return self.length // self.fragment

    def clean(self, word: Value) -> str:
        """Return the word that any text is reported as, at most `length` letters.

        A letter outside the alphabet is replaced by its lower case, else by that without accents,
        else dropped. Raises ParameterError for bytes that are not text.
        """
        try:
            text = unicodedata.normalize("NFC", value_bytes(word).decode())
        except UnicodeDecodeError:
            raise ParameterError("a word must be text") from None
        return "".join(islice(chain.from_iterable(map(self._letters, text)), self.length))

    def _letters(self, letter: str) -> list[str]:
        """Return the letters of the alphabet that replace `letter`."""
        lower = letter.casefold()
        forms = (letter, lower, unicodedata.normalize("NFKD", lower))
        return next(filter(None, ([x for x in form if x in self.alphabet] for form in forms)), [])

    def pad(self, word: Value) -> str:
        """Return `word` padded with PAD to `length`. Raises ParameterError if it is not a word."""
        try:
            text = value_bytes(word).decode()
        except UnicodeDecodeError:
            text = PAD
        if not set(text) <= set(self.alphabet):
            raise ParameterError("a letter is outside the alphabet: use spelling.clean")
        if len(text) > self.length:
            raise ParameterError(f"a value has more than {self.length} letters; cut it first")
        return text.ljust(self.length, PAD)

    def fragments(self, word: Value) -> list[str]:
        """Return the fragments of the padded `word`, one a position. Raises as `pad` does."""
        text, size = self.pad(word), self.fragment
        return [text[start : start + size] for start in range(0, self.length, size)]


class PositionAddressing(ABC):
    """Addressing of words by a point for each position of their spelling."""

    spelling: Spelling

    @abstractmethod
    def position_points(self, value: Value) -> list[int]:
        """Return the points of the word `value`, one a position."""

    def point(self, value: Value) -> int:
        """Return the points of all positions, eight bytes each, as one integer."""
        points = self.position_points(value)
        return int.from_bytes(b"".join(point.to_bytes(8, "little") for point in points), "little")

    @staticmethod
    def at(point: int, position: int) -> int:
        """Return the point at one `position`, given the `point` of the word."""
        return point >> 64 * position & ((1 << 64) - 1)


@dataclass(frozen=True)
class Blocks(PositionAddressing):
    """Addressing with `rows_each` rows for each position of the word: its point there touches one
    column of each of these rows, by `PolynomialRows`."""

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
    """Addressing by the fragment at each position, after the tag of the whole word."""

    def tag(self, word: str) -> int:
        """Return the tag of a padded word: a keyed BLAKE2b of it, `tag_bits` bits."""
        digest = hashlib.blake2b(
            word.encode(), digest_size=8, key=bytes.fromhex(self.seed), person=b"ldp tag v1"
        ).digest()
        return int.from_bytes(digest, "little") & ((1 << self.spelling.tag_bits) - 1)

    def fragment_point(self, tag: int, fragment: str) -> int:
        """Return the point of `tag`, as 2 bytes little-endian, and the letters of `fragment`."""
        return value_point(tag.to_bytes(2, "little") + fragment.encode())

    def position_points(self, value: Value) -> list[int]:
        tag = self.tag(self.spelling.pad(value))
        return [self.fragment_point(tag, fragment) for fragment in self.spelling.fragments(value)]


class Prefixes(Blocks):
    """Addressing by the prefixes of the word, each up to and with the fragment at a position."""

    def position_points(self, value: Value) -> list[int]:
        return [value_point(prefix) for prefix in accumulate(self.spelling.fragments(value))]


@dataclass(frozen=True)
class FragmentPairs(PositionAddressing):
    """Addressing with `cohorts` rows for each of `pairs`: the two fragments set bits of two Bloom
    filters side by side, with the same hash functions."""

    bloom: PolynomialBloom
    cohorts: int
    spelling: Spelling

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs of positions, the earlier one first: (0, 1), (0, 2), ..., (1, 2), ..."""
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
