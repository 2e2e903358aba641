"""Count mean sketch: Apple's encoder for large dictionaries.

Source: Apple, "Learning with Privacy at Scale" (2017), algorithms "Client-side CMS" and "Sketch
CMS". Counts are recovered by `ldp/decoding/mean_sketch.py` from the channel stated here.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from ldp.channel import Channel, keep_probability, require_epsilon
from ldp.errors import ParameterError
from ldp.hashing import MAX_WIDTH, PolynomialRows
from ldp.mechanisms.base import Example, Mechanism, Shape
from ldp.wire import Kind

MAX_ROWS = 1 << 24


@dataclass(frozen=True, kw_only=True)
class CountMeanSketch(Mechanism):
    """Pick a row, hash the value to one of its columns, report the row's bits, each flipped.

    Report: (row, `width` bits). The row is uniform; a bit of the one-hot vector is flipped with
    probability 1 / (e**(epsilon/2) + 1), rounded up to a multiple of 2**-64; two values differ in
    two bits, so epsilon = 2 ln(touched / untouched). Estimates have, for a value of frequency f
    among n reports over the draw of the hash functions, the variance (frequency scale)

        (m/(m-1))**2 B/n + [(1-f)(1-1/k)/n + sum of f_y**2 over the others / k] / (m-1),

    B = e**(epsilon/2) / (e**(epsilon/2) - 1)**2, k = `rows`, m = `width` (Apple's letters).

    >>> emoji = CountMeanSketch(epsilon=4.0, rows=65536, width=1024, seed="00ff")
    >>> emoji.cost.epsilon <= 4.0
    True
    >>> round(emoji.std_error(reports=1_000_000), 1)   # in reports
    427.0

    `seed`: hex, public, shared by devices and server. Raises ParameterError for rows outside
    1..2**24, width outside 2..2**24, and an epsilon outside (0, 64].
    """

    name: ClassVar[str] = "cms"
    wire_id: ClassVar[int] = 3
    kind: ClassVar[Kind] = Kind.BITS

    epsilon: float
    rows: int
    width: int
    seed: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", require_epsilon(self.epsilon))
        for name, number, least, most in (
            ("rows", self.rows, 1, MAX_ROWS),
            ("width", self.width, 2, MAX_WIDTH),
        ):
            if type(number) is not int or not least <= number <= most:
                raise ParameterError(f"{name} must be a whole number from {least} to {most}")
        _ = self.channel, self.addressing  # refuses what no threshold or seed can honour

    @cached_property
    def channel(self) -> Channel:
        keep = keep_probability(Fraction(self.epsilon) / 2, others=1)
        return Channel(touched=keep, untouched=1 - keep, differing=(1, 1))

    @cached_property
    def addressing(self) -> PolynomialRows:
        return PolynomialRows(self.seed, self.width)

    @cached_property
    def shape(self) -> Shape:
        return Shape(self.rows, self.width)

    def std_error(self, reports: int, frequency: float = 0.0, others_squared: float = 0.0) -> float:
        stretch = self.width / (self.width - 1)
        noise = stretch**2 * self.channel.variance(frequency) * reports
        single = (1 - frequency) * (1 - 1 / self.rows) * reports
        shared = others_squared * reports**2 / self.rows
        return math.sqrt(noise + (single + shared) / (self.width - 1))

    @staticmethod
    def examples() -> tuple[Example, ...]:
        return tuple(
            Example(
                CountMeanSketch(epsilon=epsilon, rows=rows, width=width, seed="0123456789abcdef"),
                ("lol", "afk", "brb"),
            )
            for epsilon, rows, width in ((2.0, 3, 4), (4.0, 2, 3))
        )
