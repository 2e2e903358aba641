"""Base of mean sketches: rows of hash functions, and the variance with their collisions.

Source: Apple, "Learning with Privacy at Scale" (2017). The variance is derived for a fixed
population over the draw of 3-wise independent hash functions (see docs/mechanisms). Subclasses
state their channels.
"""

from abc import ABC
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from ldp.errors import ParameterError
from ldp.mechanisms.base import FAKES, MAX_CELLS, Case, Mechanism, Shape
from ldp.protocol.channel import Channel, convert, require_epsilon, require_whole
from ldp.protocol.hashing import MAX_WIDTH, PolynomialRows, require_seed

MAX_ROWS = 1 << 24


SEED = "0123456789abcdef"
"""Seed of examples."""


def case_of(**parameters: Any) -> Case:
    """Return the case of a sketch with these `parameters`, a seed for examples, and texts."""
    return Case("lol", "afk", "brb", seed=SEED, **parameters)


@dataclass(frozen=True, kw_only=True)
class MeanSketch(Mechanism, ABC):
    """Mechanism in which a value touches one column of every row. `rows` is Apple's k, `width` m.

    `seed`: lower-case hex, public, shared by devices and server. A registry derives one by default.
    Raises ParameterError for rows outside 1..2**24, width outside 2..2**24, more than 2**30 cells,
    or epsilon outside (0, 64]. Subclasses have a field for the width, whose name is `columns_are`.
    """

    columns_are: ClassVar[str] = "width"
    """Name of the field with the number of columns."""

    epsilon: float
    rows: int
    seed: str = "00"

    def __post_init__(self) -> None:
        convert(self, epsilon=require_epsilon)
        require_whole(self.rows, "rows", 1, MAX_ROWS)
        require_whole(self.columns, self.columns_are, 2, MAX_WIDTH)
        if self.rows * self.columns > MAX_CELLS:
            raise ParameterError(f"rows times {self.columns_are} must be at most {MAX_CELLS}")
        require_seed(self.seed)
        # raises for an epsilon too small
        _ = self.channel

    @property
    def columns(self) -> int:
        """Number of columns of the table."""
        return getattr(self, self.columns_are)  # type: ignore[no-any-return]

    @cached_property
    def addressing(self) -> PolynomialRows:
        return PolynomialRows(self.seed, self.columns)

    @cached_property
    def shape(self) -> Shape:
        return Shape(self.rows, self.columns)

    def fakes_move(self, share: float = FAKES) -> float:
        """Return `share` (m L - 1) / (m - 1), for m columns and the channel's leverage L."""
        m = self.columns
        return share * ((m * self.support.leverage - 1) / (m - 1))

    def fakes_lower(self, share: float = FAKES) -> float:
        """Return what `Mechanism.fakes_lower` does: `share` m / ((m - 1) (touched - untouched))
        less `fakes_move`."""
        m = self.columns
        return share * m / ((m - 1) * self.support.gain) - self.fakes_move(share)

    def variance_through(
        self, channel: Channel, reports: int, frequency: Any, others_squared: Any
    ) -> Any:
        """Return (m/(m-1))**2 n V + [(1-f) (1-1/k) n + others_squared n**2 / k] / (m-1), for n
        `reports`, frequency f and the `channel` in place of the report's.

        V is the channel's variance. For reports of other values it is averaged over whether they
        collide. The bracket is the variance of the collisions. Its last part does not shrink
        relative to n**2 with more reports.
        """
        k, m = self.shape
        of_holder, of_other = channel.variance(1.0), channel.variance(0.0)
        noise = frequency * of_holder + (1 - frequency) * (of_other + (of_holder - of_other) / m)
        sampling = (1 - frequency) * (1 - 1 / k) * reports
        shared = others_squared * reports**2 / k
        return (m / (m - 1)) ** 2 * reports * noise + (sampling + shared) / (m - 1)
