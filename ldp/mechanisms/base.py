"""What every mechanism is, and how every report is drawn.

A mechanism is a frozen value that states its channel and which cells a value touches; costs,
reports, tables, estimates, simulations and audits follow from that. What leaves a device is what an
encoder draws: read `Encoder.draw` and `_DRAW` to see exactly what. What is memoised draws in two
steps (`MemoisingEncoder.draw`), a joint mechanism once for each of its parts.
"""

import dataclasses
import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

from ldp.accounting.cost import Cost
from ldp.errors import ParameterError
from ldp.mechanisms.addressing import Addressing, Identity, Rounding, outside
from ldp.protocol.channel import Channel
from ldp.protocol.hashing import Value as Value
from ldp.protocol.randomness import (
    PROBABILITY_ONE,
    BitSource,
    KeyedBits,
    SystemBits,
    bernoulli,
    uniform_below,
)
from ldp.protocol.wire import Header, JointLayout, Kind, Layout, pack_report

FAKES = 0.01
"""The share of fake reports whose damage is stated with every estimate."""
MAX_CELLS = 1 << 30
"""Of a table: a server keeps a number for every cell."""


def draw_column(source: BitSource, told: int, cells: Sequence[int], columns: int) -> int:
    """Draw one of the `cells` with probability told / 2**64, else one of the other columns;
    uniformly either way. From the operating system and from a keyed stream, of which it is the last
    reader, both are drawn, so that the time does not tell which it is."""
    many = len(cells)
    if isinstance(source, SystemBits):
        others = columns - many
        lie = outside(cells, uniform_below(source, others)) if others else 0
        truth = cells[uniform_below(source, many)]
        return (lie, truth)[bernoulli(source, told)]
    is_told = bernoulli(source, told)
    if isinstance(source, KeyedBits):
        lie = outside(cells, uniform_below(copy(source), columns - many)) if columns > many else 0
        return (lie, cells[uniform_below(copy(source), many)])[is_told]
    if is_told:
        return cells[uniform_below(source, many)]
    return outside(cells, uniform_below(source, columns - many))


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
        return {"mechanism": self.name} | {name: _listed(value) for name, value in values.items()}

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

    def cells(self, value: Value, row: int) -> Sequence[int]:
        """The columns of `row` that `value` touches; raises ParameterError for a foreign value, and
        for a number that is rounded at random."""
        (_, cells), *others = self.roundings(value, row)
        if others:
            raise ParameterError("value is rounded at random, so it touches no cells for certain")
        return cells

    def roundings(self, value: Value, row: int) -> tuple[tuple[Fraction, Sequence[int]], ...]:
        """What `value` may touch in `row`, and with which probability: one possibility, except for
        numbers between two steps. Raises ParameterError for a foreign value."""
        addressing = self.addressing
        point = addressing.point(value)
        if not isinstance(addressing, Rounding):
            return ((Fraction(1), addressing.cells(point, row)),)
        step, weight = addressing.rounding(point, row)
        up = Fraction(weight, PROBABILITY_ONE)
        possible = ((1 - up, step), (up, step + 1))
        return tuple((share, addressing.cells(to, row)) for share, to in possible if share)

    @cached_property
    def support(self) -> Channel:
        """The channel of a whole value: how likely a report names a cell that the value touches,
        for those who hold it and for all others. With one cell in a row that is `channel`."""
        return self.channel

    @property
    def touches(self) -> int:
        """How many cells of a row a value touches, where a report names one (INDEX)."""
        return 1

    @property
    def overlap(self) -> int:
        """How many of these two values share at least."""
        return 0

    @cached_property
    def none(self) -> Value | None:
        """The category "none", where there is one; the empty text where values are hashed."""
        addressing = self.addressing
        if isinstance(addressing, Rounding):
            return None
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

    def fakes_move(self, share: float = FAKES) -> float:
        """Return the frequency that fake reports, `share` of all, add to a value by naming it in
        each: `share` times the channel's leverage."""
        return share * self.support.leverage

    def variance(self, reports: int, frequency: Any = 0.0, others_squared: Any = 0.0) -> Any:
        """Variance, in reports squared, of the estimated count of a value: numbers or arrays.

        `reports`: how many were collected; `frequency`: the share that holds the value;
        `others_squared`: sum of the squared frequencies of all other values (only a sketch's
        collisions depend on it). For a fixed population: reports * support.variance(frequency).
        """
        return reports * self.support.variance(frequency)

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
        if alpha / candidates < LEAST_ALPHA:
            raise ParameterError(f"alpha / candidates must be {LEAST_ALPHA} or more")
        critical = -NormalDist().inv_cdf(alpha / candidates)
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


LEAST_ALPHA = 1e-300
"""Of one test: below it a normal tail is no double."""


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
        self._rounds = isinstance(mechanism.addressing, Rounding)
        together = mechanism.touches if mechanism.kind is Kind.INDEX else 1
        self._touched = threshold(together * channel.touched)
        self._untouched = threshold(channel.untouched)
        self._even = threshold(Fraction(self._layout.ones, self._layout.columns))

    def encode(self, value: Value) -> bytes:
        """One report as bytes; raises ParameterError, before a bit is drawn, for a value that the
        mechanism does not know. The row is uniform and independent of the value."""
        return pack_report(self._header, self._layout, *self.draw(self._addressing.point(value)))

    def draw(self, point: int) -> tuple[int, int]:
        """Row and payload, as an integer, of one report of a value with this point."""
        row = self._row()
        if self._rounds:
            point = self._rounded(point, row)
        return row, self._draw(self._addressing.cells(point, row))

    def __repr__(self) -> str:
        return f"<Encoder of {self._mechanism.describe()}>"

    def _row(self) -> int:
        return uniform_below(self._bits, self._layout.rows)

    def _rounded(self, point: int, row: int) -> int:
        assert isinstance(self._addressing, Rounding)
        step, weight = self._addressing.rounding(point, row)
        return step + bernoulli(self._bits, weight)

    def _draw(self, true_cells: Sequence[int]) -> int:
        """The payload, as an integer, of a value that touches these cells of the row."""
        return _DRAW[self._layout.kind](self, true_cells)

    def _draw_bits(self, true_cells: Sequence[int]) -> int:
        """Every column's bit is 1 with probability `untouched`; the true cells' with `touched`."""
        columns, truth = self._layout.columns, as_bits(true_cells)
        return bernoulli(self._bits, self._untouched, columns, truth, self._touched)

    def _draw_index(self, true_cells: Sequence[int]) -> int:
        """Each true column with probability `touched`, else one of the others uniformly."""
        return draw_column(self._bits, self._touched, true_cells, self._layout.columns)

    def _draw_subset(self, true_cells: Sequence[int]) -> int:
        """The true column with probability `touched`, and as many of the others as are missing: a
        uniform set of them, because coins that are alike name one, and it is filled up or thinned
        out uniformly."""
        (truth,) = true_cells
        is_told, others = bernoulli(self._bits, self._touched), self._layout.columns - 1
        named, missing = bernoulli(self._bits, self._even, others), self._layout.ones - is_told
        missing -= named.bit_count()
        while missing:
            column = 1 << uniform_below(self._bits, others)
            if bool(named & column) == (missing < 0):
                named ^= column
                missing += 1 if missing < 0 else -1
        below = (1 << truth) - 1
        return named & below | is_told << truth | (named & ~below) << 1

    def _draw_sign(self, true_cells: Sequence[int]) -> int:
        """A uniform column of the Hadamard matrix, and the sign there of the true cell, told
        truly with probability `touched`."""
        (truth,) = true_cells
        column = uniform_below(self._bits, self._layout.columns)
        negative = (column & truth).bit_count() & 1
        flipped = 1 - bernoulli(self._bits, self._touched)
        return column << 1 | (negative ^ flipped)


_DRAW: dict[Kind, Callable[[Encoder, Sequence[int]], int]] = {
    Kind.BITS: Encoder._draw_bits,
    Kind.INDEX: Encoder._draw_index,
    Kind.SUBSET: Encoder._draw_subset,
    Kind.SIGN: Encoder._draw_sign,
}


def _listed(value: Any) -> Any:
    return [_listed(each) for each in value] if isinstance(value, tuple) else value


def threshold(probability: Fraction) -> int:
    """floor(2**64 * probability): exact for the thresholds that encoders run on."""
    return math.floor(probability * PROBABILITY_ONE)


def as_bits(cells: Sequence[int]) -> int:
    """The integer whose bits at `cells`, all different, are 1."""
    return sum(1 << cell for cell in cells)
