"""Count mean sketch: Apple's mechanism for large dictionaries.

Source: Apple, "Learning with Privacy at Scale" (2017), algorithms "Client-side CMS" and "Sketch
CMS". Counts are recovered by `ldp/decoding/mean_sketch.py` from the channel stated here.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from ldp.mechanisms.base import Case, Setting
from ldp.mechanisms.sketch import MeanSketch, case_of
from ldp.protocol.channel import Channel, direct_channel
from ldp.protocol.kinds import Bits


@dataclass(frozen=True, kw_only=True)
class CountMeanSketch(MeanSketch):
    """Count mean sketch: a uniform row, and the randomised one-hot vector of the value's column.

    Report: (row, `width` bits). The row is uniform. A bit of the one-hot vector is flipped with
    probability 1 / (e**(epsilon/2) + 1), rounded up to a multiple of 2**-64. Two values differ in
    two bits, so epsilon = 2 ln(touched / untouched). A cell's variance for each report is
    e**(epsilon/2) / (e**(epsilon/2) - 1)**2, whether or not it is touched.

    >>> emoji = CountMeanSketch(epsilon=4.0, rows=65536, width=1024, seed="00ff")
    >>> emoji.cost.epsilon <= 4.0
    True
    >>> round(emoji.std_error(reports=1_000_000), 1)   # in reports
    427.0

    Parameters, their ranges and errors: `MeanSketch`.
    """

    name = "cms"
    wire_id = 3
    kind = Bits
    settings = (Setting({"rows": 64, "width": 16}, reports=3_000),)
    cases: ClassVar[tuple[Case, ...]] = (
        case_of(epsilon=2.0, rows=3, width=4),
        case_of(epsilon=4.0, rows=2, width=3),
    )

    width: int

    @cached_property
    def channel(self) -> Channel:
        return direct_channel(self.epsilon / 2, others=1, differing=(1, 1))
