"""What the mean sketches of Apple share: rows of hash functions, and the variance they cost.

Source: Apple, "Learning with Privacy at Scale" (2017); the variance is derived for a fixed
population over the draw of 3-wise independent hash functions (see docs/mechanisms). No report is
drawn here: `cms.py` and `hcms.py` state their channels.
"""

from abc import ABC
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from ldp.errors import ParameterError
from ldp.mechanisms.base import FAKES, MAX_CELLS, Mechanism, Shape
from ldp.protocol.channel import Channel, require_epsilon
from ldp.protocol.hashing import MAX_WIDTH, PolynomialRows

MAX_ROWS = 1 << 24


@dataclass(frozen=True, kw_only=True)
class MeanSketch(Mechanism, ABC):
    """A value touches one column of every row; `rows` is Apple's k, `width` its m.

    `seed`: lower-case hex, public, shared by devices and server. Raises ParameterError for rows
    outside 1..2**24, width outside 2..2**24, more than 2**30 cells, epsilon outside (0, 64].
    Subclasses have the field that `columns_are` names.
    """

    columns_are: ClassVar[str] = "width"

    epsilon: float
    rows: int
    seed: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", require_epsilon(self.epsilon))
        for name, number, least, most in (
            ("rows", self.rows, 1, MAX_ROWS),
            (self.columns_are, self.columns, 2, MAX_WIDTH),
        ):
            if type(number) is not int or not least <= number <= most:
                raise ParameterError(f"{name} must be a whole number from {least} to {most}")
        if self.rows * self.columns > MAX_CELLS:
            raise ParameterError(f"rows times {self.columns_are} must be at most {MAX_CELLS}")
        _ = self.channel, self.addressing  # refuses what no threshold or seed can honour

    @property
    def columns(self) -> int:
        """The number of cells that a row's hash function chooses from."""
        return getattr(self, self.columns_are)  # type: ignore[no-any-return]

    @cached_property
    def addressing(self) -> PolynomialRows:
        return PolynomialRows(self.seed, self.columns)

    @cached_property
    def shape(self) -> Shape:
        return Shape(self.rows, self.columns)

    def fakes_move(self, share: float = FAKES) -> float:
        """Return share (m L - 1) / (m - 1), for m columns and the channel's leverage L."""
        m = self.columns
        return share * (m * self.support.leverage - 1) / (m - 1)

    def variance(self, reports: int, frequency: Any = 0.0, others_squared: Any = 0.0) -> Any:
        return self.variance_through(self.channel, reports, frequency, others_squared)

    def variance_through(
        self, channel: Channel, reports: int, frequency: Any, others_squared: Any
    ) -> Any:
        """(m/(m-1))**2 n V + [(1-f) (1-1/k) n + others_squared n**2 / k] / (m-1).

        V is the channel's variance, that of a report which does not hold the value being averaged
        over whether it collides; the bracket is the collisions' own, and its last part the floor
        that no number of reports lowers.
        """
        k, m = self.shape
        held, other = channel.variance(1.0), channel.variance(0.0)
        noise = frequency * held + (1 - frequency) * (other + (held - other) / m)
        single = (1 - frequency) * (1 - 1 / k) * reports
        shared = others_squared * reports**2 / k
        return (m / (m - 1)) ** 2 * reports * noise + (single + shared) / (m - 1)
