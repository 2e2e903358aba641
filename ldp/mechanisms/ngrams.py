"""RAPPOR n-grams: strings that no dictionary lists.

Source: Fanti, Pihur and Erlingsson 2016, "Building a RAPPOR with the Unknown", section 4. A report
carries the string and the fragments (n-grams) at two positions of it, so that the server learns
which n-grams occur together. `ldp/decoding/ngram_search.py` finds the strings. Both parts are
one-time RAPPOR: Bloom filters, randomised once.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from ldp.errors import ParameterError
from ldp.mechanisms.base import Case, Mechanism, Shape
from ldp.mechanisms.joint_base import Part
from ldp.mechanisms.rappor import MOST_COHORTS, MOST_HASHES, Rappor
from ldp.mechanisms.words import UnlistedWords
from ldp.protocol.bloom import PolynomialBloom
from ldp.protocol.channel import Channel, convert, keep_probability, require_epsilon, require_whole
from ldp.protocol.hashing import derived_seed
from ldp.protocol.kinds import Bits
from ldp.protocol.spelling import FragmentPairs, Spelling

DOUBLE = 1 << 53
"""Denominator of the probabilities p and q, so that RAPPOR's doubles hold them exactly."""
_WORDS = ("cabbac", "abba", "")
_SMALL: Any = {"hashes": 1, "seed": "0000", "length": 6, "alphabet": "abc"}
"""Values of the small instances, and their common parameters."""


@dataclass(frozen=True, kw_only=True)
class PairedFilters(Mechanism):
    """Part of `RapporNgrams`: two Bloom filters side by side, one for each of the fragments at a
    uniform pair of positions.

    `cohorts`: the number for one pair of positions; other parameters: `RapporNgrams`.
    """

    name = "rappor-ngram-pairs"
    wire_id = 21
    is_whole = False
    kind = Bits
    cases = (Case(*_WORDS, **_SMALL, epsilon=2.0, bits=3, cohorts=2, fragment=2),)

    epsilon: float
    bits: int
    hashes: int
    cohorts: int
    seed: str = "00"
    length: int
    alphabet: str
    fragment: int

    def __post_init__(self) -> None:
        convert(self, epsilon=require_epsilon)
        if self.spelling.positions < 2:
            raise ParameterError("length must be two fragments or more, which make a pair")
        if self.cohorts * len(self.addressing.pairs) > MOST_COHORTS:
            raise ParameterError(f"cohorts of all pairs must be {MOST_COHORTS:,} at most")
        _ = self.channel

    @cached_property
    def spelling(self) -> Spelling:
        return Spelling(self.length, self.alphabet, self.fragment)

    @cached_property
    def rappor(self) -> Rappor:
        """Mechanism of one of the two fragments, at half of epsilon."""
        return one_time_rappor(self.epsilon / 2, self.bits, self.hashes, self.cohorts, self.seed)

    @property
    def most_cells(self) -> int:
        return 2 * self.hashes

    @cached_property
    def channel(self) -> Channel:
        return replace(self.rappor.channel, differing=(self.most_cells, self.most_cells))

    @cached_property
    def addressing(self) -> FragmentPairs:
        bloom = self.rappor.addressing
        assert isinstance(bloom, PolynomialBloom)
        return FragmentPairs(bloom, self.cohorts, self.spelling)

    @cached_property
    def shape(self) -> Shape:
        return Shape(self.cohorts * len(self.addressing.pairs), 2 * self.bits)


@dataclass(frozen=True, kw_only=True)
class RapporNgrams(UnlistedWords):
    """RAPPOR of a string and of the fragments (n-grams) at two positions of it.

    Report: a uniform pair of positions; for the fragments there a cohort and 2 `bits` bits; for the
    string a cohort and `bits` bits. A value sets `hashes` bits of a filter of `bits`. Every bit is
    reported unchanged with probability e**x / (e**x + 1), rounded down to a multiple of 2**-53,
    with x = fragment_epsilon / (4 hashes) for fragments and (epsilon - fragment_epsilon) / (2
    hashes) for the string. There is no permanent response: further reports of a person cost as much
    again.

    >>> strings = RapporNgrams(
    ...     epsilon=12.0, fragment_epsilon=8.0, bits=128, hashes=2, cohorts=16, seed="00ff")
    >>> strings.cost.epsilon <= 12.0
    True
    >>> [(name, part.shape) for name, part in strings.parts]
    [('pairs', Shape(rows=160, columns=256)), ('words', Shape(rows=16, columns=128))]

    `length`: two fragments or more. `cohorts`: the number for one pair, and for the string. Other
    ranges are those of `UnlistedWords` and `Rappor`. Raises ParameterError for anything else.
    """

    name = "rappor-ngrams"
    wire_id = 20
    needs_whole = True
    cases = (Case(*_WORDS, **_SMALL, epsilon=3.0, fragment_epsilon=2.0, bits=2, cohorts=1),)

    bits: int = 128
    hashes: int = 2
    cohorts: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.parts, self.layout

    @cached_property
    def pairs(self) -> PairedFilters:
        """Part about fragments."""
        return PairedFilters(
            epsilon=self.fragment_epsilon,
            bits=self.bits,
            hashes=self.hashes,
            cohorts=self.cohorts,
            seed=derived_seed("rappor ngrams", self.seed),
            length=self.length,
            alphabet=self.alphabet,
            fragment=self.fragment,
        )

    @cached_property
    def words(self) -> Rappor:
        """Part about whole strings."""
        return one_time_rappor(self.word_epsilon, self.bits, self.hashes, self.cohorts, self.seed)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return Part("pairs", self.pairs), Part("words", self.words)

    @property
    def blocks(self) -> int:
        return len(self.pairs.addressing.pairs)


def one_time_rappor(epsilon: float, bits: int, hashes: int, cohorts: int, seed: str) -> Rappor:
    """Return RAPPOR without a permanent response that costs at most `epsilon`: every bit is
    reported unchanged with the same probability. Raises ParameterError as `Rappor` does."""
    require_whole(hashes, "hashes", 1, MOST_HASHES)
    share = Fraction(require_epsilon(epsilon)) / (2 * hashes)
    q = math.floor(DOUBLE * keep_probability(share, others=1)) / DOUBLE
    if q <= 0.5:
        raise ParameterError("the report would carry no information: its epsilon is too small")
    return Rappor(bits=bits, hashes=hashes, cohorts=cohorts, f=0.0, p=1 - q, q=q, seed=seed)
