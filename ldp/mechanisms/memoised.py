"""Memoised randomised response, local hashing and bit flips: twice randomised, once for good.

Sources: Arcolezi et al. 2022 (L-GRR: k-ary randomised response about a permanent one); Arcolezi,
Pinzon, Palamidessi and Gambs 2023 (LOLOHA: the same about a hash, so that values which share a
bucket share a response); Ding, Kulkarni and Yekhanin 2017, section 4 (dBitFlipPM, which sends the
permanent bits as they are). Rows are a shared family of hash functions, as in `local_hashing.py`.
The second step here is that of the exact channel; the papers' keeps a bound of it that is exact for
two columns only, and gives away accuracy for more. Counts are recovered as those of `rr`,
`local-hashing` and `bit-flip` are.
"""

import math
from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from ldp.errors import ParameterError
from ldp.mechanisms.base import Example, draw_column
from ldp.mechanisms.bit_flip import BitFlip
from ldp.mechanisms.categorical import Categorical
from ldp.mechanisms.local_hashing import tuned_buckets
from ldp.mechanisms.memoisation import MemoisedBits, Memoising
from ldp.mechanisms.permanent_response import Keyed, KeyedColumn
from ldp.mechanisms.sketch import MeanSketch
from ldp.protocol.channel import EXACT, Channel, keep_probability, require_epsilon
from ldp.protocol.randomness import PROBABILITY_ONE, BitSource
from ldp.protocol.wire import Kind

_CERTAIN = Fraction(1, 10**50)
"""What 60 digits are good for, with room."""


def second_step(first: Channel, epsilon: float, others: int) -> Fraction:
    """The largest k / 2**64 to keep the column of a first step with, such that both steps together
    tell the truth among 1 + `others` columns with e**epsilon / (e**epsilon + others) at most.

    They do with untouched + (touched - untouched) k / 2**64, of the first step; the limit is known
    to 60 digits and 10**-50 is taken off. Raises ParameterError where k would be 2**64 or more: a
    first step that spends no more than epsilon.
    """
    power = Fraction(EXACT.exp(Decimal(epsilon)))
    limit = power / (power + others) - _CERTAIN
    share = (limit - first.untouched) / (first.touched - first.untouched)
    kept = math.floor(share * PROBABILITY_ONE)
    if kept >= PROBABILITY_ONE:
        raise ParameterError("lifetime_epsilon must be above epsilon, that of one report")
    return Fraction(kept, PROBABILITY_ONE)


@dataclass(frozen=True, kw_only=True)
class MemoisedColumn(Memoising, ABC):
    """A report is one column: the value's own is randomised for good with `lifetime_epsilon`, and
    the permanent column in every report, so far that one report costs `epsilon`.

    With k columns p1 = e**lifetime_epsilon / (e**lifetime_epsilon + k - 1), rounded down to a
    multiple of 2**-64; the second step keeps the permanent column with the largest p2 of that form
    for which touched = p1 p2 + (1 - p1) (1 - p2) / (k - 1) allows no more than `epsilon`. So what
    one report costs, and its error, are those of a mechanism with fresh noise. Raises
    ParameterError unless 0 < epsilon < lifetime_epsilon <= 64.
    """

    kind: ClassVar[Kind] = Kind.INDEX

    epsilon: float
    lifetime_epsilon: float

    def _require_lifetime(self) -> None:
        lifetime = require_epsilon(self.lifetime_epsilon, "lifetime_epsilon")
        object.__setattr__(self, "lifetime_epsilon", lifetime)

    @property
    def _others(self) -> int:
        return self.shape.columns - 1

    @cached_property
    def permanent_channel(self) -> Channel:
        keep = keep_probability(self.lifetime_epsilon, self._others)
        return Channel(touched=keep, untouched=(1 - keep) / self._others)

    @cached_property
    def instantaneous(self) -> tuple[Fraction, Fraction]:
        keep = second_step(self.permanent_channel, self.epsilon, self._others)
        return keep, (1 - keep) / self._others

    @cached_property
    def channel(self) -> Channel:
        return self.permanent_channel.then(*self.instantaneous)

    @cached_property
    def memory(self) -> KeyedColumn:
        rows, columns = self.shape
        return KeyedColumn(columns, rows, self.permanent_channel.touched, self.fingerprint)

    def true_response(self, cells: Sequence[int]) -> int:
        (column,) = cells
        return column

    def instantaneous_response(self, source: BitSource, response: int) -> int:
        return draw_column(source, self.thresholds[0], (response,), self.shape.columns)


@dataclass(frozen=True, kw_only=True)
class MemoisedResponse(MemoisedColumn, Categorical):
    """Randomised response whose reports share a permanent one: `MemoisedColumn` of the categories.

    >>> places = MemoisedResponse(categories=("home", "work"), epsilon=1.0, lifetime_epsilon=2.0)
    >>> places.cost.epsilon <= 1.0, 1.99 < places.cost.lifetime <= 2.0
    (True, True)
    >>> device = places.encoder(secret=bytes(32))
    >>> len({device.encode("home") for _ in range(40)})   # noise about one permanent answer
    2

    Other parameters, their ranges and errors: `Categorical`.
    """

    name: ClassVar[str] = "memoised-rr"
    wire_id: ClassVar[int] = 18

    def __post_init__(self) -> None:
        self._require_lifetime()
        super().__post_init__()

    @staticmethod
    def examples() -> tuple[Example, ...]:
        return tuple(
            Example(
                MemoisedResponse(categories=tuple(letters), epsilon=epsilon, lifetime_epsilon=life),
                tuple(letters),
            )
            for letters, epsilon, life in (("ab", 1.0, 1.5), ("abcd", 1.5, 3.0))
        )


@dataclass(frozen=True, kw_only=True)
class MemoisedHashing(MemoisedColumn, MeanSketch):
    """Local hashing whose reports share a permanent one: `MemoisedColumn` of a row's buckets.

    A device stays in one row, which its secret picks. Values that share its bucket share their
    response, so however many values there are, no more than `buckets` responses are ever charged:
    with 2 these are 2 lifetime_epsilon. `buckets` is the whole number nearest to
    e**epsilon + 1 unless told, best for the error of one report.

    >>> words = MemoisedHashing(epsilon=1.0, lifetime_epsilon=2.0, rows=65536, seed="00ff")
    >>> words.buckets, words.cost.epsilon <= 1.0, words.cost.lifetime <= 2.0
    (4, True, True)

    Other parameters, their ranges and errors: `MeanSketch`, with `buckets` for its width.
    """

    name: ClassVar[str] = "memoised-hashing"
    wire_id: ClassVar[int] = 19
    columns_are: ClassVar[str] = "buckets"

    buckets: int = 0

    def __post_init__(self) -> None:
        self._require_lifetime()
        if self.buckets == 0 and type(self.buckets) is int:
            object.__setattr__(self, "buckets", tuned_buckets(require_epsilon(self.epsilon)))
        super().__post_init__()

    def pooled_variance(self, reports: int, frequency: Any = 0.0) -> Any:
        """That of `Memoising`, and that all reports of a client are about one row: a collision is
        shared as the permanent response is."""
        return self.variance_through(self.permanent_channel, reports, frequency, 0.0)

    @staticmethod
    def examples() -> tuple[Example, ...]:
        return tuple(
            Example(
                MemoisedHashing(
                    epsilon=epsilon, lifetime_epsilon=life, rows=rows, seed="0123456789abcdef"
                ),
                ("lol", "afk", "brb"),
            )
            for epsilon, life, rows in ((1.0, 2.0, 3), (0.5, 0.75, 2))
        )


@dataclass(frozen=True, kw_only=True)
class MemoisedBitFlip(MemoisedBits, BitFlip):
    """Bit flips whose reports share permanent ones: a histogram of numbers, day after day.

    A device stays with the buckets it is asked about, which its secret picks. Every bit is flipped
    for good as `BitFlip` of `lifetime_epsilon` would, and again in every report, with the largest
    multiple of 2**-64 to keep it that allows one report no more than `epsilon`. Numbers in one
    bucket share their response, and so do all buckets that the device is not asked about: no more
    than `bits` + 1 responses are ever charged.

    >>> minutes = MemoisedBitFlip(
    ...     bounds=(0, 1440), buckets=24, bits=2, epsilon=1.0, lifetime_epsilon=2.0)
    >>> minutes.cost.epsilon <= 1.0, 1.99 < minutes.cost.lifetime <= 2.0
    (True, True)

    Raises ParameterError unless 0 < epsilon < lifetime_epsilon <= 64; other parameters, their
    ranges and errors: `BitFlip`.
    """

    name: ClassVar[str] = "memoised-bit-flip"
    wire_id: ClassVar[int] = 22

    lifetime_epsilon: float

    def __post_init__(self) -> None:
        lifetime = require_epsilon(self.lifetime_epsilon, "lifetime_epsilon")
        object.__setattr__(self, "lifetime_epsilon", lifetime)
        super().__post_init__()

    @cached_property
    def permanent_channel(self) -> Channel:
        return self.flipped(self.lifetime_epsilon)

    @cached_property
    def instantaneous(self) -> tuple[Fraction, Fraction]:
        keep = second_step(self.permanent_channel, self.epsilon / self.differing, others=1)
        return keep, 1 - keep

    @cached_property
    def channel(self) -> Channel:
        return self.permanent_channel.then(*self.instantaneous)

    @cached_property
    def memory(self) -> Keyed:
        return Keyed(
            self.bits, self.buckets, 2 * self.permanent_channel.untouched, self.fingerprint
        )

    def pooled_variance(self, reports: int, frequency: Any = 0.0) -> Any:
        """That of `Memoising`, and that all reports of a client are about the same buckets."""
        return self.variance_through(self.permanent_channel, reports, frequency)

    @staticmethod
    def examples() -> tuple[Example, ...]:
        return (
            Example(
                MemoisedBitFlip(
                    bounds=(0.0, 8.0), buckets=4, bits=2, epsilon=1.0, lifetime_epsilon=2.0
                ),
                (0, 3.5, 9.0),
            ),
            Example(
                MemoisedBitFlip(
                    bounds=(-1.0, 1.0), buckets=3, bits=1, epsilon=0.5, lifetime_epsilon=0.75
                ),
                (-1.0, 0, 1.0),
            ),
        )
