"""Sequence fragment puzzle: Apple's mechanism for words that no dictionary lists.

Source: Apple, "Learning with Privacy at Scale" (2017), algorithm "Client-side SFP". A report has
two parts, both count mean sketches: one of the word, one of a fragment of it with a hash of the
whole word, the tag, so that the server can join the fragments of one word.
"""

from dataclasses import dataclass
from functools import cached_property

from ldp.errors import ParameterError
from ldp.mechanisms.base import Case
from ldp.mechanisms.cms import CountMeanSketch
from ldp.mechanisms.joint_base import Part
from ldp.mechanisms.sketch import MAX_ROWS, SEED
from ldp.mechanisms.words import UnlistedWords
from ldp.protocol.channel import require_whole
from ldp.protocol.hashing import derived_seed
from ldp.protocol.spelling import Fragments, Spelling


@dataclass(frozen=True, kw_only=True)
class FragmentSketch(CountMeanSketch):
    """Part of `SequenceFragmentPuzzle`: count mean sketch of one tagged fragment of the word, at a
    uniform position.

    `rows`: the number for all positions together; other parameters: `SequenceFragmentPuzzle`.
    """

    name = "sfp-fragments"
    wire_id = 9
    is_whole = False
    cases = (
        Case(
            *("cab", "abba", ""),
            epsilon=2.0,
            rows=4,
            width=3,
            seed=SEED,
            length=4,
            alphabet="abc",
            fragment=2,
            tag_bits=8,
        ),
    )

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
        positions = self.spelling.positions
        return Fragments(self.seed, self.width, self.rows // positions, self.spelling)


@dataclass(frozen=True, kw_only=True)
class SequenceFragmentPuzzle(UnlistedWords):
    """Sequence fragment puzzle: one count mean sketch of the word, one of a tagged fragment of it.

    Report: a uniform position; for the fragment there (tag || letters) a row and `fragment_width`
    bits; for the word a row and `width` bits. Bits are flipped as in `CountMeanSketch`.

    >>> words = SequenceFragmentPuzzle(
    ...     epsilon=8.0, fragment_epsilon=3.0, rows=2048, width=1024, fragment_rows=2048,
    ...     fragment_width=1024, seed="00ff")
    >>> words.cost.epsilon <= 8.0
    True
    >>> [name for name, _ in words.parts]
    ['fragments', 'words']

    `tag_bits` (8): 1 to 16. `fragment_rows`: the number for one position. Other ranges are those of
    `UnlistedWords` and `MeanSketch`. Raises ParameterError for anything else.
    """

    name = "sfp"
    wire_id = 7
    cases = (
        Case(
            *("cab", "abba", ""),
            epsilon=3.0,
            fragment_epsilon=1.0,
            rows=2,
            width=3,
            seed=SEED,
            fragment_rows=1,
            fragment_width=2,
            length=4,
            alphabet="abc",
        ),
    )

    rows: int
    width: int
    fragment_rows: int
    fragment_width: int
    tag_bits: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(self.fragment_rows, "fragment_rows", 1, MAX_ROWS)
        _ = self.parts, self.layout

    @cached_property
    def fragments(self) -> FragmentSketch:
        """Part about fragments."""
        return FragmentSketch(
            epsilon=self.fragment_epsilon,
            rows=self.fragment_rows * self.spelling.positions,
            width=self.fragment_width,
            seed=derived_seed("sfp fragments", self.seed),
            length=self.length,
            alphabet=self.alphabet,
            fragment=self.fragment,
            tag_bits=self.tag_bits,
        )

    @cached_property
    def words(self) -> CountMeanSketch:
        """Part about whole words."""
        return CountMeanSketch(
            epsilon=self.word_epsilon, rows=self.rows, width=self.width, seed=self.seed
        )

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return Part("fragments", self.fragments), Part("words", self.words)

    @property
    def blocks(self) -> int:
        return self.spelling.positions
