"""Prefix extension: words that no dictionary lists, from prefixes of growing length.

Source: Wang, Li and Jha 2019, "Locally differentially private heavy hitter identification" (PEM).
A report is about one prefix of the word, which takes all of epsilon. `ldp/decoding/prefixes.py`
finds the words.
"""

from dataclasses import dataclass
from functools import cached_property

from ldp.errors import ParameterError
from ldp.mechanisms.base import FAKES, Case
from ldp.mechanisms.local_hashing import LocalHashing
from ldp.mechanisms.sketch import SEED
from ldp.mechanisms.words import LETTERS
from ldp.protocol.channel import require_whole
from ldp.protocol.spelling import MOST_LETTERS, Prefixes, Spelling


@dataclass(frozen=True, kw_only=True)
class PrefixExtension(LocalHashing):
    """Prefix extension: local hashing of the word's prefix, in one of `groups` lengths.

    Report: (row, bucket). `rows` is the number for all lengths together, a block for each. With
    `length` 10 and 5 groups the lengths are 2, 4, 6, 8 and 10 letters. Shorter words are padded.
    Otherwise as `LocalHashing`.

    >>> words = PrefixExtension(epsilon=4.0, rows=10240, seed="00ff")
    >>> words.cost.epsilon <= 4.0, len(words.encoder().encode("hello"))
    (True, 13)

    `length` (10): most letters of a word, a multiple of `groups` (5). `alphabet`: 2 or more
    letters; `rows` a multiple of `groups`. Raises ParameterError for anything else, and for words
    that are too long or have other letters.
    """

    name = "prefix"
    wire_id = 17
    settings = ()  # no value is named beforehand
    answers = "words"
    cases = (
        Case("cab", "abba", "", epsilon=1.0, rows=4, seed=SEED, length=4, alphabet="abc", groups=2),
    )

    length: int = 10
    alphabet: str = LETTERS
    groups: int = 5

    def __post_init__(self) -> None:
        require_whole(self.length, "length", 1, MOST_LETTERS)
        require_whole(self.groups, "groups", 1, self.length)
        if self.length % self.groups:
            raise ParameterError(f"length must be a multiple of groups, {self.groups}")
        super().__post_init__()
        if self.rows % self.groups:
            raise ParameterError(f"rows must be a multiple of groups, {self.groups}")
        # raises for a wrong alphabet
        _ = self.spelling

    @cached_property
    def spelling(self) -> Spelling:
        return Spelling(self.length, self.alphabet, self.length // self.groups)

    @cached_property
    def addressing(self) -> Prefixes:  # type: ignore[override]
        return Prefixes(self.seed, self.buckets, self.rows // self.groups, self.spelling)

    @cached_property
    def single(self) -> LocalHashing:
        """Local hashing of the reports about one length, which have rows of their own."""
        rows = self.rows // self.groups
        return LocalHashing(epsilon=self.epsilon, rows=rows, seed=self.seed, buckets=self.buckets)

    def fakes_move(self, share: float = FAKES) -> float:
        """Return what `Mechanism.fakes_move` does. All fake reports are about whole words, but only
        one in `groups` of the honest ones."""
        honest = (1 - share) / self.groups
        return super().fakes_move(share / (honest + share))
