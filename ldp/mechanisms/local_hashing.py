"""Local hashing: randomised response about a hash of the value, for large dictionaries.

Sources: Wang, Blocki, Li and Jha 2017, section 4.4 (OLH); Cormode, Maddock and Maple 2021,
section 3 ("fast local hashing"): all devices share the hash functions, so a server can count before
the candidates are known. Counts are recovered by `ldp/decoding/mean_sketch.py`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from ldp.mechanisms.base import Case, Setting
from ldp.mechanisms.sketch import MeanSketch, case_of
from ldp.protocol.channel import (
    Channel,
    direct_channel,
    nearest_whole,
    power_plus_one,
    require_epsilon,
)
from ldp.protocol.kinds import Index


@dataclass(frozen=True, kw_only=True)
class LocalHashing(MeanSketch):
    """Local hashing: a uniform row, and k-ary randomised response over the value's bucket there.

    Report: (row, bucket). The row is uniform. With g buckets the true one has probability p =
    e**epsilon / (e**epsilon + g - 1), rounded down to a multiple of 2**-64, every other one (1 - p)
    / (g - 1). The variance for rare values is least at g = e**epsilon + 1, where it is the optimum
    of all mechanisms, 4 e**epsilon / (e**epsilon - 1)**2 a report. `buckets` defaults to the
    nearest whole number.

    >>> words = LocalHashing(epsilon=4.0, rows=65536, seed="00ff")
    >>> words.buckets, words.cost.epsilon <= 4.0
    (56, True)
    >>> round(words.std_error(reports=1_000_000), 1)   # in reports; count mean sketch: 427.0
    275.7

    Other parameters, their ranges and errors: `MeanSketch`, with `buckets` as its width.
    """

    name = "local-hashing"
    wire_id = 10
    kind = Index
    columns_are = "buckets"
    settings: ClassVar[tuple[Setting, ...]] = (Setting({"rows": 256}, reports=3_000),)
    cases: ClassVar[tuple[Case, ...]] = (
        case_of(epsilon=1.0, rows=3),
        case_of(epsilon=0.5, rows=2),
    )

    buckets: int = 0

    def __post_init__(self) -> None:
        if self.buckets == 0 and type(self.buckets) is int:
            object.__setattr__(self, "buckets", tuned_buckets(require_epsilon(self.epsilon)))
        super().__post_init__()

    @cached_property
    def channel(self) -> Channel:
        return direct_channel(self.epsilon, self.buckets - 1)


def tuned_buckets(epsilon: float) -> int:
    """Return the whole number nearest to e**epsilon + 1, at least 2. It is exact on every
    machine."""
    return nearest_whole(power_plus_one(epsilon), 2)
