"""Bit flips: a histogram of numbers from a few bits a device.

Source: Ding, Kulkarni and Yekhanin 2017, section 3 (dBitFlip), with neighbouring buckets instead of
random ones: all buckets have the same probability of being in a report. Counts are recovered by
`ldp/decoding/histogram.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from ldp.errors import ParameterError
from ldp.mechanisms.base import FAKES, MAX_CELLS, Case, Mechanism, Setting, Shape
from ldp.mechanisms.bins import EqualBins
from ldp.mechanisms.numeric import Range, require_outside, require_range
from ldp.protocol.channel import Channel, convert, direct_channel, require_epsilon, require_whole
from ldp.protocol.hashing import Value
from ldp.protocol.kinds import Bits

MOST_BUCKETS = 1 << 16


@dataclass(frozen=True)
class Buckets(EqualBins):
    """Addressing of numbers by equal parts of their range: column c of row r is bucket
    (r + c) mod `number`, for c < `bits`."""

    bits: int

    point = EqualBins.place

    def cells(self, point: int, row: int) -> Sequence[int]:
        column = (point - row) % self.number
        return (column,) if column < self.bits else ()


@dataclass(frozen=True, kw_only=True)
class BitFlip(Mechanism):
    """Histogram of numbers: one randomised bit for each of a few neighbouring buckets.

    Report: (first bucket, `bits` bits). The first bucket is uniform among the `buckets` equal parts
    of the range. Every bit is true with probability e**(epsilon/2) / (e**(epsilon/2) + 1), rounded
    down to a multiple of 2**-64. Two numbers differ in at most two bits. With `bits` 1 they differ
    in one, and the probability is e**epsilon / (e**epsilon + 1).

    >>> minutes = BitFlip(bounds=(0, 1440), buckets=24, bits=4, epsilon=2.0)
    >>> minutes.cost.epsilon <= 2.0, len(minutes.encoder().encode(35.5))
    (True, 12)
    >>> minutes.labels[:2]
    ('[0, 60)', '[60, 120)')

    `bounds`, `outside` and `epsilon` as `Numeric`. `buckets`: 2 to 65536. `bits`: 1 to `buckets`.
    Raises ParameterError for anything else.
    """

    name = "bit-flip"
    wire_id = 16
    kind = Bits
    settings: ClassVar[tuple[Setting, ...]] = (
        Setting({"bounds": (0.0, 10.0), "buckets": 10, "bits": 4}),
    )
    cases = (
        Case(0, 3.5, 9.0, bounds=(0.0, 8.0), buckets=4, bits=3, epsilon=2.0, outside="clip"),
        Case(-1.0, 0, 1.0, bounds=(-1.0, 1.0), buckets=3, bits=1, epsilon=1.0),
    )

    bounds: Range
    buckets: int
    bits: int
    epsilon: float
    outside: str = "clip"

    def __post_init__(self) -> None:
        convert(self, bounds=require_range, epsilon=require_epsilon)
        require_outside(self.outside)
        require_whole(self.buckets, "buckets", 2, MOST_BUCKETS)
        require_whole(self.bits, "bits", 1, self.buckets)
        if self.buckets * self.bits > MAX_CELLS:
            raise ParameterError(f"buckets times bits must be at most {MAX_CELLS}")
        # raises for an epsilon too small for the thresholds
        _ = self.channel

    @property
    def differing(self) -> int:
        """Largest number of bits in which two numbers differ."""
        return min(2, self.bits)

    @cached_property
    def channel(self) -> Channel:
        return self.bit_channel(self.epsilon)

    def bit_channel(self, epsilon: float) -> Channel:
        """Return the channel of one bit at which a report costs at most `epsilon`."""
        differing = (1, self.differing - 1)
        return direct_channel(Fraction(epsilon) / self.differing, others=1, differing=differing)

    def label(self, value: Value) -> str:
        """Return the label of the bucket of a number. Raises ParameterError as `check` does."""
        return self.labels[self.addressing.point(value)]

    @property
    def bins(self) -> EqualBins:
        """Bins of the numbers: the buckets."""
        return self.addressing

    @cached_property
    def addressing(self) -> Buckets:
        return Buckets(self.bounds, self.outside, self.buckets, self.bits)

    @cached_property
    def shape(self) -> Shape:
        return Shape(self.buckets, self.bits)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Labels of the buckets, in order, such as "[0, 60)"."""
        texts = [f"{end:.10g}" for end in self.bins.edges]
        if len(set(texts)) < len(texts):
            texts = [*map(repr, self.bins.edges)]
        last = self.buckets - 1
        return tuple(
            f"[{texts[i]}, {texts[i + 1]}{']' if i == last else ')'}" for i in range(self.buckets)
        )

    def fakes_move(self, share: float = FAKES) -> float:
        """Return what `Mechanism.fakes_move` does. All fake reports are about the value's bucket,
        but only `bits` in `buckets` of the honest ones."""
        return super().fakes_move(self._about_bucket(share))

    def fakes_lower(self, share: float = FAKES) -> float:
        """Return what `Mechanism.fakes_lower` does, for fake reports as in `fakes_move`."""
        return super().fakes_lower(self._about_bucket(share))

    def _about_bucket(self, share: float) -> float:
        """Return the part of the reports about a bucket that are fake, if all fakes are."""
        honest = (1 - share) * self.bits / self.buckets
        return share / (honest + share)

    def variance_through(
        self, channel: Channel, reports: int, frequency: Any, others_squared: Any
    ) -> Any:
        """Return n [(b / r) V(f) + (b / r - 1) f (1 - f)] for n `reports`, with b buckets, r bits
        and the channel's variance V: a sample of r / b of the reports is about a bucket."""
        times = self.buckets / self.bits
        sampled = (times - 1) * frequency * (1 - frequency)
        return reports * (times * channel.variance(frequency) + sampled)
