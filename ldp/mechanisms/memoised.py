"""Memoised randomised response, local hashing and bit flips: a permanent and a fresh response.

Sources: Arcolezi et al. 2022 (L-GRR: k-ary randomised response about a permanent one); Arcolezi,
Pinzon, Palamidessi and Gambs 2023 (LOLOHA: L-GRR about a hash, so that values which share a bucket
share a response); Ding, Kulkarni and Yekhanin 2017, section 4 (dBitFlipPM, which sends the
permanent bits unchanged). Rows are a shared family of hash functions, as in `local_hashing.py`.
The instantaneous step uses the exact channel. The papers use a bound of it that is exact for two
columns only and loses accuracy for more. Counts are recovered as those of `rr`, `local-hashing`
and `bit-flip`.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property

from ldp.errors import ParameterError
from ldp.mechanisms.base import Case, Setting, threshold
from ldp.mechanisms.bit_flip import BitFlip
from ldp.mechanisms.categorical import Categorical
from ldp.mechanisms.local_hashing import LocalHashing
from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.mechanisms.permanent_response import KeyedFilter, KeyedMemory
from ldp.mechanisms.sketch import case_of
from ldp.protocol.channel import EXACT, Channel, convert, direct_channel, require_epsilon
from ldp.protocol.kinds import Index
from ldp.protocol.randomness import ONE, BitSource

_CERTAIN = Fraction(1, 10**50)
"""Bound of the error of a probability that was computed with 60 digits."""


def instantaneous_step(
    permanent: Channel, epsilon: float, others: int
) -> tuple[Fraction, Fraction]:
    """Return P(cell reported | in the permanent response) and P(cell reported | not in it).

    The first is the largest k / 2**64 with which both steps together report the true one of 1 +
    `others` columns with probability at most e**epsilon / (e**epsilon + others), the second (1 - k
    / 2**64) / others. Both steps report the true column with probability untouched + (touched -
    untouched) k / 2**64 of the `permanent` channel. The limit is known to 60 digits and 10**-50 is
    subtracted. Raises ParameterError where k would be 2**64 or more, because the permanent step
    costs no more than `epsilon`.
    """
    power = Fraction(EXACT.exp(Decimal(epsilon)))
    limit = power / (power + others) - _CERTAIN
    share = (limit - permanent.untouched) / (permanent.touched - permanent.untouched)
    steps = math.floor(share * ONE)
    if steps >= ONE:
        raise ParameterError("lifetime_epsilon must be above epsilon, that of one report")
    keep = Fraction(steps, ONE)
    return keep, (1 - keep) / others


@dataclass(frozen=True)
class KeyedColumn(KeyedMemory):
    """Permanent response that is one of `columns`: the true one with probability `keep`, else one
    of the others."""

    columns: int
    cohorts: int
    keep: Fraction
    identity: bytes = b""

    @property
    def limit(self) -> int:
        return self.columns

    def draw(self, source: BitSource, true_response: int) -> int:
        keep, layout = threshold(self.keep), Index(self.cohorts, self.columns)
        # any other column is as likely
        return layout.randomise(source, true_response, keep, 0)


@dataclass(frozen=True, kw_only=True)
class _Lifetime(MemoisedMechanism, ABC):
    """Memoised mechanism with a `lifetime_epsilon`, whose channel is that of both steps."""

    epsilon: float
    lifetime_epsilon: float

    @cached_property
    @abstractmethod
    def permanent_channel(self) -> Channel:
        """Channel of the permanent response."""

    @cached_property
    def channel(self) -> Channel:
        return self.permanent_channel.then(*self.instantaneous)

    def __post_init__(self) -> None:
        convert(self, lifetime_epsilon=require_epsilon)
        super().__post_init__()  # type: ignore[misc]


@dataclass(frozen=True, kw_only=True)
class MemoisedColumn(_Lifetime, ABC):
    """Memoised mechanism whose report is one column.

    The permanent response replaces the value's column at cost `lifetime_epsilon`, once. Every
    report replaces the permanent column again, so that one report costs `epsilon`. With k columns
    p1 = e**lifetime_epsilon / (e**lifetime_epsilon + k - 1), rounded down to a multiple of 2**-64.
    A report keeps the permanent column with the largest p2 of that form for which touched = p1 p2 +
    (1 - p1) (1 - p2) / (k - 1) allows no more than `epsilon`. So the cost and the error of one
    report are those of a mechanism with fresh noise. Raises ParameterError unless 0 < epsilon <
    lifetime_epsilon <= 64.
    """

    kind = Index

    @cached_property
    def permanent_channel(self) -> Channel:
        return direct_channel(self.lifetime_epsilon, self.shape.columns - 1)

    @cached_property
    def instantaneous(self) -> tuple[Fraction, Fraction]:
        return instantaneous_step(self.permanent_channel, self.epsilon, self.shape.columns - 1)

    @cached_property
    def memory(self) -> KeyedColumn:
        rows, columns = self.shape
        return KeyedColumn(columns, rows, self.permanent_channel.touched, self.fingerprint)


@dataclass(frozen=True, kw_only=True)
class MemoisedResponse(MemoisedColumn, Categorical):
    """Memoised randomised response over a list of categories.

    How it is memoised: `MemoisedColumn`.

    >>> places = MemoisedResponse(categories=("home", "work"), epsilon=1.0, lifetime_epsilon=2.0)
    >>> places.cost.epsilon <= 1.0, 1.99 < places.cost.lifetime <= 2.0
    (True, True)
    >>> device = places.encoder(secret=bytes(32))
    >>> len({device.encode("home") for _ in range(40)})   # fresh noise, one permanent response
    2

    Other parameters, their ranges and errors: `Categorical`.
    """

    name = "memoised-rr"
    wire_id = 18
    settings = (Setting({"lifetime_epsilon": 6.0}),)
    cases = (
        Case(*"ab", categories=("a", "b"), epsilon=1.0, lifetime_epsilon=1.5),
        Case(*"abcd", categories=tuple("abcd"), epsilon=1.5, lifetime_epsilon=3.0),
    )


@dataclass(frozen=True, kw_only=True)
class MemoisedHashing(MemoisedColumn, LocalHashing):
    """Memoised local hashing: memoised randomised response over the buckets of a row.

    How it is memoised: `MemoisedColumn`. A device stays in one row, which its secret determines.
    Values in the same bucket share their response. So at most `buckets` responses are ever charged,
    for any number of values: with 2 buckets at most 2 lifetime_epsilon. `buckets` defaults to the
    whole number nearest to e**epsilon + 1, which has the least error of one report.

    >>> words = MemoisedHashing(epsilon=1.0, lifetime_epsilon=2.0, rows=65536, seed="00ff")
    >>> words.buckets, words.cost.epsilon <= 1.0, words.cost.lifetime <= 2.0
    (4, True, True)

    Other parameters, their ranges and errors: `LocalHashing`.
    """

    name = "memoised-hashing"
    wire_id = 19
    settings = (Setting({"lifetime_epsilon": 6.0, "rows": 256}, reports=3_000),)
    cases = (
        case_of(epsilon=1.0, lifetime_epsilon=2.0, rows=3),
        case_of(epsilon=0.5, lifetime_epsilon=0.75, rows=2),
    )


@dataclass(frozen=True, kw_only=True)
class MemoisedBitFlip(_Lifetime, BitFlip):
    """Memoised bit flips: a histogram of numbers, reported repeatedly.

    A device always reports about the same buckets, which its secret determines. The permanent
    response flips every bit as `BitFlip` of `lifetime_epsilon` does. Every report flips the
    permanent bits again, keeping each with the largest multiple of 2**-64 at which one report costs
    at most `epsilon`. Numbers in one bucket share their response, and so do numbers in all buckets
    that the device does not report about: at most `bits` + 1 responses are ever charged.

    >>> minutes = MemoisedBitFlip(
    ...     bounds=(0, 1440), buckets=24, bits=2, epsilon=1.0, lifetime_epsilon=2.0)
    >>> minutes.cost.epsilon <= 1.0, 1.99 < minutes.cost.lifetime <= 2.0
    (True, True)

    Raises ParameterError unless 0 < epsilon < lifetime_epsilon <= 64. Other parameters, their
    ranges and errors: `BitFlip`.
    """

    name = "memoised-bit-flip"
    wire_id = 22
    settings = tuple(Setting({"lifetime_epsilon": 6.0, **s.parameters}) for s in BitFlip.settings)
    cases = (
        Case(0, 3.5, 9.0, bounds=(0.0, 8.0), buckets=4, bits=2, epsilon=1.0, lifetime_epsilon=2.0),
        Case(
            -1.0, 0, 1.0, bounds=(-1.0, 1.0), buckets=3, bits=1, epsilon=0.5, lifetime_epsilon=0.75
        ),
    )

    @cached_property
    def permanent_channel(self) -> Channel:
        return self.bit_channel(self.lifetime_epsilon)

    @cached_property
    def instantaneous(self) -> tuple[Fraction, Fraction]:
        return instantaneous_step(self.permanent_channel, self.epsilon / self.differing, others=1)

    @cached_property
    def memory(self) -> KeyedFilter:
        f = 2 * self.permanent_channel.untouched
        return KeyedFilter(self.bits, self.buckets, f, self.fingerprint)
