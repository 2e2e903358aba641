"""Hadamard count mean sketch: Apple's mechanism for large dictionaries in one bit.

Source: Apple, "Learning with Privacy at Scale" (2017), algorithms "Client-side HCMS" and "Sketch
HCMS". Counts are recovered by `ldp/decoding/mean_sketch.py` from the channel stated here.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from ldp.errors import ParameterError
from ldp.mechanisms.base import Setting
from ldp.mechanisms.sketch import MeanSketch, case_of
from ldp.protocol.channel import Channel, keep_probability
from ldp.protocol.kinds import Sign


@dataclass(frozen=True, kw_only=True)
class HadamardCountMeanSketch(MeanSketch):
    """Hadamard count mean sketch: a randomised sign of the value's cell at a uniform column of the
    Hadamard matrix.

    Report: (row, column, sign), of which only the sign depends on the value. With h the cell that
    the value hashes to, the true sign is (-1)**popcount(column & h). The reported sign is true with
    probability e**epsilon / (e**epsilon + 1), rounded down to a multiple of 2**-64. A report
    *names* a cell when its sign is that cell's: the value's cell with `touched`, any other with
    exactly 1/2, because two rows of a Hadamard matrix agree in half of the columns. The matrix
    itself is never built.

    >>> energy = HadamardCountMeanSketch(epsilon=4.0, rows=1024, width=32768, seed="00ff")
    >>> energy.cost.epsilon <= 4.0
    True
    >>> round(energy.std_error(reports=1_000_000), 1)   # in reports
    1037.3

    `width`: a power of two, at most 2**23. Other parameters, ranges and errors: `MeanSketch`.
    """

    name = "hcms"
    wire_id = 6
    kind = Sign
    settings = (Setting({"rows": 16, "width": 16}),)
    cases = (
        case_of(epsilon=1.0, rows=2, width=8),
        case_of(epsilon=3.0, rows=3, width=4),
    )

    width: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width & (self.width - 1):
            raise ParameterError("width must be a power of two")

    @cached_property
    def channel(self) -> Channel:
        keep = keep_probability(self.epsilon, others=1)
        return Channel(touched=keep, untouched=Fraction(1, 2), differing=(1, 1))
