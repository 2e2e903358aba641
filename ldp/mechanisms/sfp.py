"""Sequence fragment puzzle: Apple's encoder for words that no dictionary lists.

Source: Apple, "Learning with Privacy at Scale" (2017), algorithm "Client-side SFP". A report has
two parts, both count mean sketches: one of the word, one of a fragment of it that carries a hash of
the whole word, the tag, so that fragments of one word can be put together again.
"""

import math
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from ldp.channel import require_epsilon
from ldp.errors import ParameterError
from ldp.hashing import Fragments, Spelling, derived_seed, value_bytes
from ldp.mechanisms.base import Example, Value
from ldp.mechanisms.cms import CountMeanSketch
from ldp.mechanisms.joint import JointEncoder, JointMechanism, Part
from ldp.randomness import BitSource, SystemBits
from ldp.wire import JointLayout, Layout

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, kw_only=True)
class FragmentSketch(CountMeanSketch):
    """A count mean sketch of one tagged fragment of the word, at a uniform position.

    `rows` counts those of all positions together. The rest is as in `SequenceFragmentPuzzle`, of
    which it is a part.
    """

    name: ClassVar[str] = "sfp-fragments"
    wire_id: ClassVar[int] = 9
    is_whole: ClassVar[bool] = False

    length: int
    alphabet: str
    fragment: int
    tag_bits: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rows % self.spelling.positions:
            raise ParameterError("rows must be a multiple of the positions, length / fragment")

    @cached_property
    def spelling(self) -> Spelling:
        return Spelling(self.length, self.alphabet, self.fragment, self.tag_bits)

    @cached_property
    def addressing(self) -> Fragments:  # type: ignore[override]
        fragments = Fragments(
            self.seed, self.width, self.rows // self.spelling.positions, self.spelling
        )
        _ = fragments.rows  # refuses a seed that is none
        return fragments

    @staticmethod
    def examples() -> tuple[Example, ...]:
        return (
            Example(
                FragmentSketch(
                    epsilon=2.0,
                    rows=4,
                    width=3,
                    seed="0123456789abcdef",
                    length=4,
                    alphabet="abc",
                    fragment=2,
                    tag_bits=8,
                ),
                ("cab", "abba", ""),
            ),
        )


@dataclass(frozen=True, kw_only=True)
class SequenceFragmentPuzzle(JointMechanism):
    """Report the word through one count mean sketch and a tagged fragment of it through another.

    Report: a uniform position; of the fragment there (tag || letters) a row and `fragment_width`
    bits; of the word a row and `width` bits. The fragment costs `fragment_epsilon` of `epsilon`,
    the word the rest, because both tell of the whole word. Bits are flipped as in
    `CountMeanSketch`.

    >>> words = SequenceFragmentPuzzle(
    ...     epsilon=8.0, fragment_epsilon=3.0, rows=2048, width=1024, fragment_rows=2048,
    ...     fragment_width=1024, seed="00ff")
    >>> words.cost.epsilon <= 8.0
    True
    >>> [name for name, _ in words.parts]
    ['fragments', 'words']

    `length` (10): letters of a word at most, a multiple of `fragment` (2); `alphabet`: 2 or more
    letters; `tag_bits` (8): 1 to 16; `fragment_rows`: of one position; other ranges as in
    `MeanSketch`. Raises ParameterError. A value that is too long is refused: `cut` it, or let
    `encoder(truncate=True)` cut and count.
    """

    name: ClassVar[str] = "sfp"
    wire_id: ClassVar[int] = 7

    epsilon: float
    fragment_epsilon: float
    rows: int
    width: int
    fragment_rows: int
    fragment_width: int
    seed: str
    length: int = 10
    alphabet: str = LETTERS
    fragment: int = 2
    tag_bits: int = 8

    def __post_init__(self) -> None:
        for name in ("epsilon", "fragment_epsilon"):
            object.__setattr__(self, name, require_epsilon(getattr(self, name)))
        if not self.fragment_epsilon < self.epsilon:
            raise ParameterError("fragment_epsilon must be below epsilon, the word takes the rest")
        if not isinstance(self.seed, str):
            raise ParameterError("seed must be text")
        value_bytes(self.seed)
        if type(self.fragment_rows) is not int or self.fragment_rows < 1:
            raise ParameterError("fragment_rows must be a whole number, 1 or more")
        _ = self.parts, self.layout

    @cached_property
    def fragments(self) -> FragmentSketch:
        """The part that tells of fragments."""
        spelling = Spelling(self.length, self.alphabet, self.fragment, self.tag_bits)
        return FragmentSketch(
            epsilon=self.fragment_epsilon,
            rows=self.fragment_rows * spelling.positions,
            width=self.fragment_width,
            seed=derived_seed("sfp fragments", self.seed),
            length=self.length,
            alphabet=self.alphabet,
            fragment=self.fragment,
            tag_bits=self.tag_bits,
        )

    @cached_property
    def words(self) -> CountMeanSketch:
        """The part that tells of whole words."""
        rest = Fraction(self.epsilon) - Fraction(self.fragment_epsilon)
        epsilon = float(rest)
        if Fraction(epsilon) > rest:
            epsilon = math.nextafter(epsilon, 0)
        return CountMeanSketch(epsilon=epsilon, rows=self.rows, width=self.width, seed=self.seed)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return Part("fragments", self.fragments), Part("words", self.words)

    @cached_property
    def layout(self) -> JointLayout:
        fragments, words = self.fragments.layout, self.words.layout
        positions = self.fragments.spelling.positions
        one = Layout(fragments.kind, self.fragment_rows, fragments.columns)
        return JointLayout(positions, (one, words))

    def cut(self, value: Value) -> Value:
        """The first `length` letters; what is no text stays as it is, to be refused."""
        with suppress(UnicodeDecodeError):
            text = value.decode() if isinstance(value, bytes) else value
            if isinstance(text, str) and len(text) > self.length:
                return text[: self.length]
        return value

    def encoder(self, bits: BitSource | None = None, *, truncate: bool = False) -> "WordEncoder":
        """Encodes words; with `truncate` longer ones are cut, and counted in `truncated`."""
        return WordEncoder(self, SystemBits() if bits is None else bits, truncate)

    @staticmethod
    def examples() -> tuple[Example, ...]:
        return (
            Example(
                SequenceFragmentPuzzle(
                    epsilon=3.0,
                    fragment_epsilon=1.0,
                    rows=2,
                    width=3,
                    fragment_rows=1,
                    fragment_width=2,
                    seed="0123456789abcdef",
                    length=4,
                    alphabet="abc",
                ),
                ("cab", "abba", ""),
            ),
        )


class WordEncoder(JointEncoder):
    """Encodes words; `truncated` counts those that it cut."""

    def __init__(self, mechanism: SequenceFragmentPuzzle, bits: BitSource, truncate: bool) -> None:
        super().__init__(mechanism, bits)
        self._cut = mechanism.cut if truncate else None
        self.truncated = 0

    def encode(self, value: Value) -> bytes:
        if self._cut is None:
            return super().encode(value)
        short = self._cut(value)
        report = super().encode(short)
        self.truncated += short != value
        return report
