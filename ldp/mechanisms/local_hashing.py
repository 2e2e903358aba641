"""Local hashing: randomised response about a hash of the value, for large dictionaries.

Sources: Wang, Blocki, Li and Jha 2017, section 4.4 (OLH); with hash functions that everybody
shares, so that a server counts before it knows the candidates: Cormode, Maddock and Maple 2021,
section 3 ("fast local hashing"). Counts are recovered by `ldp/decoding/mean_sketch.py`.
"""

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cached_property
from typing import ClassVar

from ldp.mechanisms.base import Example
from ldp.mechanisms.sketch import MeanSketch
from ldp.protocol.channel import EXACT, Channel, keep_probability, require_epsilon
from ldp.protocol.wire import Kind


@dataclass(frozen=True, kw_only=True)
class LocalHashing(MeanSketch):
    """Pick a row, hash the value to one of its buckets, tell that bucket or another one.

    Report: (row, bucket). The row is uniform; with g buckets the true one is told with probability
    p = e**epsilon / (e**epsilon + g - 1), rounded down to a multiple of 2**-64, every other with
    (1 - p) / (g - 1). The variance for rare values is least at g = e**epsilon + 1, where it is
    that of the best mechanism there is, 4 e**epsilon / (e**epsilon - 1)**2 a report; `buckets` is
    the nearest whole number unless told.

    >>> words = LocalHashing(epsilon=4.0, rows=65536, seed="00ff")
    >>> words.buckets, words.cost.epsilon <= 4.0
    (56, True)
    >>> round(words.std_error(reports=1_000_000), 1)   # in reports; count mean sketch: 427.0
    275.7

    Other parameters, their ranges and errors: `MeanSketch`, with `buckets` for its width.
    """

    name: ClassVar[str] = "local-hashing"
    wire_id: ClassVar[int] = 10
    kind: ClassVar[Kind] = Kind.INDEX
    columns_are: ClassVar[str] = "buckets"

    buckets: int = 0

    def __post_init__(self) -> None:
        if self.buckets == 0 and type(self.buckets) is int:
            object.__setattr__(self, "buckets", tuned_buckets(require_epsilon(self.epsilon)))
        super().__post_init__()

    @cached_property
    def channel(self) -> Channel:
        others = self.buckets - 1
        keep = keep_probability(self.epsilon, others)
        return Channel(touched=keep, untouched=(1 - keep) / others)

    @staticmethod
    def examples() -> tuple[Example, ...]:
        return tuple(
            Example(
                LocalHashing(epsilon=epsilon, rows=rows, seed="0123456789abcdef"),
                ("lol", "afk", "brb"),
            )
            for epsilon, rows in ((1.0, 3), (0.5, 2))
        )


def tuned_buckets(epsilon: float) -> int:
    """The whole number nearest to e**epsilon + 1, 2 at least; exact on every machine."""
    best = EXACT.add(EXACT.exp(Decimal(epsilon)), Decimal(1))
    return max(2, int(best.to_integral_value(ROUND_HALF_EVEN)))
