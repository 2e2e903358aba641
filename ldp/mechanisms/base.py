"""What every mechanism is, and how every report is drawn.

A mechanism is a frozen value that states its channel and which cells a value touches; costs,
reports, tables, estimates, simulations and audits follow from that. What leaves a device is what an
encoder draws: read `Encoder.draw` and `_DRAW` to see exactly what. RAPPOR draws in two steps
(`RapporEncoder._draw`), a joint mechanism once for each of its parts.
"""

import dataclasses
import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

from ldp.accounting.cost import Cost
from ldp.channel import Channel
from ldp.errors import ParameterError
from ldp.randomness import (
    PROBABILITY_ONE,
    BitSource,
    SystemBits,
    bernoulli,
    uniform_below,
)
from ldp.wire import Header, JointLayout, Kind, Layout, pack_report

Value = str | bytes


class Addressing(Protocol):
    """Which cells of a row a value touches: a point of the value, then the cells of the point."""

    def point(self, value: Value) -> int:
        """An integer that stands for the value; raises ParameterError for one it cannot place."""
        ...

    def cells(self, point: int, row: int) -> tuple[int, ...]:
        """The columns of `row` that the point touches."""
        ...


@dataclass(frozen=True)
class Identity:
    """One column a category, in their order; values listed in `untouching` touch no cell."""

    categories: tuple[str, ...]
    untouching: tuple[str, ...] = ()

    @cached_property
    def _points(self) -> dict[Value, int]:
        names = self.categories + self.untouching
        return {name: i for i, name in enumerate(names)} | {
            name.encode(): i for i, name in enumerate(names)
        }

    def point(self, value: Value) -> int:
        found = self._points.get(value) if isinstance(value, str | bytes) else None
        if found is None:  # not raised while handling a KeyError: that would carry the value along
            many = len(self._points) // 2
            raise ParameterError(f"value is not one of the {many} categories")
        return found

    def cells(self, point: int, row: int) -> tuple[int, ...]:
        return (point,) if point < len(self.categories) else ()


class Shape(NamedTuple):
    """The table a mechanism's reports are counted in."""

    rows: int
    columns: int


class Example(NamedTuple):
    """A small instance and values to try it on: conformance, audit and vectors run on these."""

    mechanism: "Catalogued"
    values: tuple[Value, ...]


class DrawsReports(Protocol):
    """An encoder: the only thing that makes a report of a value."""

    def encode(self, value: Value) -> bytes:
        """One report as bytes; raises ParameterError, before a bit is drawn, for a value that the
        mechanism does not know."""
        ...


@dataclass(frozen=True, kw_only=True)
class Catalogued(ABC):
    """What everything in the catalogue has: parameters, a cost, reports as bytes.

    Subclasses are frozen, keyword-only dataclasses whose fields are their parameters.
    """

    name: ClassVar[str]
    """What metrics.toml calls it."""
    wire_id: ClassVar[int]
    """The mechanism byte of its reports; never reused."""
    is_whole: ClassVar[bool] = True
    """Whether it can be a metric's by itself."""
    memoisable: ClassVar[bool] = False
    """Whether its encoder takes a secret, and memoises a permanent response under it."""

    @cached_property
    @abstractmethod
    def cost(self) -> Cost:
        """What one report costs, from the probabilities that run."""

    @cached_property
    @abstractmethod
    def layout(self) -> Layout | JointLayout:
        """What a report looks like after its header."""

    @abstractmethod
    def check(self, value: Value) -> None:
        """Raises ParameterError for a value that the mechanism does not know."""

    @property
    def none(self) -> Value | None:
        """The value that stands for no record at all, where presence is hidden; None if there is no
        such value."""
        return None

    @abstractmethod
    def encoder(self, bits: BitSource | None = None) -> "DrawsReports":
        """Encodes values of this mechanism; `bits` defaults to the operating system's source."""

    @staticmethod
    @abstractmethod
    def examples() -> tuple["Example", ...]:
        """Small instances that cover the mechanism's variants."""

    @classmethod
    def seeded(cls, parameters: Mapping[str, Any]) -> bool:
        """Whether a mechanism of these parameters hashes with a public seed."""
        return "seed" in cls.__dataclass_fields__

    def parameters(self) -> dict[str, Any]:
        """The mechanism as JSON-ready data; `ldp.mechanisms.from_parameters` reads it back."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {"mechanism": self.name} | {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
        }

    @cached_property
    def fingerprint(self) -> bytes:
        """8 bytes of BLAKE2b over the parameters as JSON (sorted keys, no spaces, ASCII)."""
        text = json.dumps(self.parameters(), sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=8, person=b"ldp mechanism v1").digest()

    @cached_property
    def header(self) -> Header:
        """What every report of this mechanism starts with."""
        return Header(self.wire_id, self.fingerprint)

    def describe(self) -> str:
        """One line that names the mechanism in messages: no values, no seeds."""
        return f"{self.name} {self.fingerprint.hex()}"


@dataclass(frozen=True, kw_only=True)
class Mechanism(Catalogued, ABC):
    """A local randomizer whose report is counted in one table of integers."""

    kind: ClassVar[Kind]

    @cached_property
    @abstractmethod
    def channel(self) -> Channel:
        """The exact probabilities; the only place they are written."""

    @cached_property
    @abstractmethod
    def addressing(self) -> Addressing:
        """Which cells a value touches."""

    @cached_property
    @abstractmethod
    def shape(self) -> Shape:
        """(rows, columns) of the table."""

    def cells(self, value: Value, row: int) -> tuple[int, ...]:
        """The columns of `row` that `value` touches; raises ParameterError for a foreign value."""
        return self.addressing.cells(self.addressing.point(value), row)

    @cached_property
    def none(self) -> Value | None:
        """The category "none", where there is one; the empty text where values are hashed."""
        addressing = self.addressing
        if isinstance(addressing, Identity):
            return "none" if "none" in addressing.categories else None
        return ""

    def check(self, value: Value) -> None:
        self.addressing.point(value)

    def encoder(self, bits: BitSource | None = None) -> "Encoder":
        return Encoder(self, SystemBits() if bits is None else bits)

    @cached_property
    def cost(self) -> Cost:
        return Cost(epsilon=self.channel.epsilon)

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.kind, *self.shape)

    def describe(self) -> str:
        return f"{self.name} {self.shape.rows}x{self.shape.columns} {self.fingerprint.hex()}"

    def variance(self, reports: int, frequency: Any = 0.0, others_squared: Any = 0.0) -> Any:
        """Variance, in reports squared, of the estimated count of a value: numbers or arrays.

        `reports`: how many were collected; `frequency`: the share that holds the value;
        `others_squared`: sum of the squared frequencies of all other values (only a sketch's
        collisions depend on it). For a fixed population: reports * channel.variance(frequency).
        """
        return reports * self.channel.variance(frequency)

    def std_error(self, reports: int, frequency: float = 0.0, others_squared: float = 0.0) -> float:
        """Standard error, in reports, of the estimated count of a value: root of `variance`."""
        return math.sqrt(self.variance(reports, frequency, others_squared))

    def detectable_frequency(
        self,
        reports: int,
        alpha: float = 0.05,
        candidates: int = 1,
        power: float = 0.5,
        others_squared: float = 0.0,
    ) -> float:
        """The frequency found with probability `power` when `candidates` values are each tested
        one-sided at alpha / candidates (Bonferroni); infinite when even frequency 1 is not.

        Solves reports f = z_alpha std_error(0) + z_power std_error(f) for f.
        """
        from statistics import NormalDist  # late: it is slow to import and devices never plan

        if not 0 < alpha < 1 or not 0 < power < 1 or candidates < 1 or reports < 1:
            raise ParameterError(
                "alpha and power must lie strictly between 0 and 1, candidates and reports be >= 1"
            )
        critical = NormalDist().inv_cdf(1 - alpha / candidates)
        wanted = NormalDist().inv_cdf(power)
        threshold = critical * self.std_error(reports, 0.0, others_squared)

        def margin(frequency: float) -> float:
            spread = wanted * self.std_error(reports, frequency, others_squared)
            return reports * frequency - threshold - spread

        if margin(1.0) < 0:
            return math.inf
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if margin(middle) < 0 else (low, middle)
        return high


class Encoder:
    """Draws one report a value through the mechanism's channel.

    >>> from ldp import RandomizedResponse
    >>> encoder = RandomizedResponse(categories=("a", "b", "c"), epsilon=1.0).encoder()
    >>> len(encoder.encode("b"))
    11
    """

    def __init__(self, mechanism: Mechanism, bits: BitSource) -> None:
        self._mechanism = mechanism
        self._bits = bits
        self._addressing = mechanism.addressing
        self._layout = mechanism.layout
        self._header = mechanism.header.to_bytes()
        channel = mechanism.channel
        self._touched = threshold(channel.touched)
        self._untouched = threshold(channel.untouched)

    def encode(self, value: Value) -> bytes:
        """One report as bytes; raises ParameterError, before a bit is drawn, for a value that the
        mechanism does not know. The row is uniform and independent of the value."""
        return pack_report(self._header, self._layout, *self.draw(self._addressing.point(value)))

    def draw(self, point: int) -> tuple[int, int]:
        """Row and payload, as an integer, of one report of a value with this point."""
        row = self._row()
        return row, self._draw(self._addressing.cells(point, row))

    def __repr__(self) -> str:
        return f"<Encoder of {self._mechanism.describe()}>"

    def _row(self) -> int:
        return uniform_below(self._bits, self._layout.rows)

    def _draw(self, true_cells: tuple[int, ...]) -> int:
        """The payload, as an integer, of a value that touches these cells of the row."""
        return _DRAW[self._layout.kind](self, true_cells)

    def _draw_bits(self, true_cells: tuple[int, ...]) -> int:
        """Every column's bit is 1 with probability `untouched`; the true cells' with `touched`."""
        columns, truth = self._layout.columns, as_bits(true_cells)
        return bernoulli(self._bits, self._untouched, columns, truth, self._touched)

    def _draw_index(self, true_cells: tuple[int, ...]) -> int:
        """The true column with probability `touched`, else one of the others uniformly."""
        (truth,) = true_cells
        if bernoulli(self._bits, self._touched):
            return truth
        other = uniform_below(self._bits, self._layout.columns - 1)
        return other + (other >= truth)

    def _draw_sign(self, true_cells: tuple[int, ...]) -> int:
        """A uniform column of the Hadamard matrix, and the sign there of the true cell, told
        truly with probability `touched`."""
        (truth,) = true_cells
        column = uniform_below(self._bits, self._layout.columns)
        negative = (column & truth).bit_count() & 1
        flipped = 1 - bernoulli(self._bits, self._touched)
        return column << 1 | (negative ^ flipped)


_DRAW: dict[Kind, Callable[[Encoder, tuple[int, ...]], int]] = {
    Kind.BITS: Encoder._draw_bits,
    Kind.INDEX: Encoder._draw_index,
    Kind.SIGN: Encoder._draw_sign,
}


def threshold(probability: Fraction) -> int:
    """floor(2**64 * probability): exact for the thresholds that encoders run on."""
    return math.floor(probability * PROBABILITY_ONE)


def as_bits(cells: tuple[int, ...]) -> int:
    """The integer whose bits at `cells`, all different, are 1."""
    return sum(1 << cell for cell in cells)
