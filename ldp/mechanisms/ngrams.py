"""RAPPOR n-grams: Google's route to strings that no dictionary lists.

Source: Fanti, Pihur and Erlingsson 2016, "Building a RAPPOR with the Unknown", section 4. A report
tells of the string and of what stands at two positions of it, so that the server learns which
n-grams go together; strings are found by `ldp/decoding/ngrams.py`. Both parts are one-time RAPPOR:
Bloom filters, and one randomised response.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from ldp.errors import ParameterError
from ldp.mechanisms.base import Example, Mechanism, Shape
from ldp.mechanisms.joint_base import Part
from ldp.mechanisms.rappor import MOST_COHORTS, Rappor
from ldp.mechanisms.words import ToldWords
from ldp.protocol.channel import Channel, keep_probability, require_epsilon
from ldp.protocol.hashing import PolynomialBloom, derived_seed
from ldp.protocol.spelling import FragmentPairs, Spelling
from ldp.protocol.wire import JointLayout, Kind, Layout

DOUBLE = 1 << 53
"""Truths are told with a multiple of 1 / DOUBLE, so that RAPPOR's doubles hold them exactly."""


@dataclass(frozen=True, kw_only=True)
class PairedFilters(Mechanism):
    """The fragments at a uniform pair of positions, a Bloom filter each, side by side.

    `cohorts` counts those of one pair. The rest is as in `RapporNgrams`, of which it is a part.
    """

    name: ClassVar[str] = "rappor-ngram-pairs"
    wire_id: ClassVar[int] = 21
    is_whole: ClassVar[bool] = False
    kind: ClassVar[Kind] = Kind.BITS

    epsilon: float
    bits: int
    hashes: int
    cohorts: int
    seed: str
    length: int
    alphabet: str
    fragment: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", require_epsilon(self.epsilon))
        if self.spelling.positions < 2:
            raise ParameterError("length must be two fragments or more, which make a pair")
        if self.one.cohorts * len(self.addressing.pairs) > MOST_COHORTS:
            raise ParameterError(f"cohorts of all pairs must be {MOST_COHORTS:,} at most")
        _ = self.channel

    @cached_property
    def spelling(self) -> Spelling:
        return Spelling(self.length, self.alphabet, self.fragment)

    @cached_property
    def one(self) -> Rappor:
        """How one of the two fragments is told: half of epsilon is its."""
        return one_time(self.epsilon / 2, self.bits, self.hashes, self.cohorts, self.seed)

    @cached_property
    def channel(self) -> Channel:
        own, cells = self.one.channel, 2 * self.hashes
        return Channel(touched=own.touched, untouched=own.untouched, differing=(cells, cells))

    @cached_property
    def addressing(self) -> FragmentPairs:
        bloom = self.one.addressing
        assert isinstance(bloom, PolynomialBloom)
        return FragmentPairs(bloom, self.cohorts, self.spelling)

    @cached_property
    def shape(self) -> Shape:
        return Shape(self.cohorts * len(self.addressing.pairs), 2 * self.bits)

    @staticmethod
    def examples() -> tuple[Example, ...]:
        mechanism = PairedFilters(
            epsilon=2.0,
            bits=3,
            hashes=1,
            cohorts=2,
            seed="0000",
            length=6,
            alphabet="abc",
            fragment=2,
        )
        return (Example(mechanism, ("cabbac", "abba", "")),)


@dataclass(frozen=True, kw_only=True)
class RapporNgrams(ToldWords):
    """Report the string by RAPPOR, and with it the fragments (n-grams) at two positions of it.

    Report: a uniform pair of positions; of the fragments there a cohort and 2 `bits` bits; of the
    string a cohort and `bits` bits. A value sets `hashes` bits of a filter of `bits`; every bit is
    told truly with probability e**x / (e**x + 1), rounded down to a multiple of 2**-53, where
    x = fragment_epsilon / (4 hashes), or (epsilon - fragment_epsilon) / (2 hashes) of the string's.
    There is no permanent response: a person who reports again pays again.

    >>> strings = RapporNgrams(
    ...     epsilon=12.0, fragment_epsilon=8.0, bits=128, hashes=2, cohorts=16, seed="00ff")
    >>> strings.cost.epsilon <= 12.0
    True
    >>> [(name, part.shape) for name, part in strings.parts]
    [('pairs', Shape(rows=160, columns=256)), ('words', Shape(rows=16, columns=128))]

    `length`: two fragments or more; `cohorts`: of one pair, and of the string; other ranges as in
    `ToldWords` and `Rappor`. Raises ParameterError.
    """

    name: ClassVar[str] = "rappor-ngrams"
    wire_id: ClassVar[int] = 20

    bits: int = 128
    hashes: int = 2
    cohorts: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.parts, self.layout

    @cached_property
    def pairs(self) -> PairedFilters:
        """The part that tells of fragments."""
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
        """The part that tells of whole strings."""
        return one_time(self.word_epsilon, self.bits, self.hashes, self.cohorts, self.seed)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return Part("pairs", self.pairs), Part("words", self.words)

    @cached_property
    def layout(self) -> JointLayout:
        pairs = self.pairs
        one = Layout(pairs.kind, self.cohorts, pairs.shape.columns)
        return JointLayout(len(pairs.addressing.pairs), (one, self.words.layout))

    @staticmethod
    def examples() -> tuple[Example, ...]:
        strings = RapporNgrams(
            epsilon=3.0,
            fragment_epsilon=2.0,
            bits=2,
            hashes=1,
            cohorts=1,
            seed="0000",
            length=6,
            alphabet="abc",
        )
        return (Example(strings, ("cabbac", "abba", "")),)


def one_time(epsilon: float, bits: int, hashes: int, cohorts: int, seed: str) -> Rappor:
    """RAPPOR without a permanent response that costs at most `epsilon`: every bit is told truly
    with the same probability."""
    if type(hashes) is not int or hashes < 1:
        raise ParameterError("hashes must be a whole number, 1 or more")
    share = Fraction(require_epsilon(epsilon)) / (2 * hashes)
    q = math.floor(DOUBLE * keep_probability(share, others=1)) / DOUBLE
    if q <= 0.5:
        raise ParameterError("the report would carry no information: its epsilon is too small")
    return Rappor(bits=bits, hashes=hashes, cohorts=cohorts, f=0.0, p=1 - q, q=q, seed=seed)
