"""Base classes of mechanisms, and the encoder that draws every report.

A mechanism is a frozen value that states its channel and which cells a value touches. Costs,
reports, tables, estimates, simulations and audits follow from these. `Encoder.draw` draws a report
by `Layout.draw` of its kind, and `report_functions` has functions that do so faster with the
operating system's bits. A memoised mechanism draws in two steps (`MemoisedEncoder.draw`), a joint
mechanism once for each of its parts.
"""

import dataclasses
import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

from ldp.accounting.bisection import bisect
from ldp.accounting.cost import Cost
from ldp.errors import ParameterError
from ldp.mechanisms.addressing import (
    Addressing,
    Answers,
    Categories,
    Identity,
    RandomizedAddressing,
)
from ldp.mechanisms.report_functions import report_function
from ldp.protocol.channel import Channel, require_whole
from ldp.protocol.hashing import Value as Value
from ldp.protocol.kinds import Kind, Layout
from ldp.protocol.randomness import (
    ONE,
    BitSource,
    ReportBits,
    SystemBits,
    uniform_below,
)
from ldp.protocol.wire import HEADER_BYTES, REPORT_VERSION, pack_report, split_report

if TYPE_CHECKING:
    from ldp.protocol.joint_layout import JointLayout
    from ldp.protocol.spelling import Spelling

FAKES = 0.01
"""Share of fake reports for which the shift of every estimate is stated."""
MAX_CELLS = 1 << 30
"""Largest number of cells of a table: a server keeps a number for each."""
LEAST_ALPHA = 1e-300
"""Least error rate of one test: for a smaller one the normal tail is not a double."""
AnswerKind = Literal["values", "sets", "number", "numbers by category", "words", "pairs", "moments"]
"""Kinds of answers. Ranges of a number are "values" where each is counted by itself."""


class Shape(NamedTuple):
    """Rows and columns of the table in which a mechanism's reports are counted."""

    rows: int
    columns: int


class Example(NamedTuple):
    """Small instance of a mechanism, and values for it: conformance, audit and vectors use both."""

    mechanism: "CatalogueMechanism"
    values: tuple[Value, ...]


class Case:
    """Parameters of a small instance of a mechanism, and values for it."""

    def __init__(self, *values: Any, **parameters: Any) -> None:
        self.values, self.parameters = values, parameters


class Setting(NamedTuple):
    """Parameters with which campaigns measure a mechanism, the number of `reports` of a table, and
    the `values` that people hold, where the mechanism needs special ones. The campaigns add the
    parameters categories, seed and epsilon to mechanisms that have them."""

    parameters: Mapping[str, Any]
    reports: int = 2_000
    values: tuple[Value, ...] = ()


class ReportEncoder(Protocol):
    """Encoder of any mechanism: the only object that turns a value into a report."""

    _mechanism: "CatalogueMechanism"

    def encode(self, value: Value) -> bytes:
        """Draw one report of `value`, as bytes. Raises ParameterError, before a bit is drawn, for a
        value outside the mechanism's domain."""

    def __repr__(self) -> str:
        return f"<Encoder of {self._mechanism.describe()}>"


class CatalogueMechanism(ABC):
    """Mechanism of the catalogue: parameters, a cost, reports as bytes.

    Subclasses are frozen, keyword-only dataclasses whose fields are their parameters.
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]
    name: ClassVar[str]
    """Name in metrics.toml."""
    wire_id: ClassVar[int]
    """Mechanism byte of the reports; never reused."""
    is_whole: ClassVar[bool] = True
    """False for a mechanism that is only a part of others, never a metric's own."""
    is_memoisable: ClassVar[bool] = False
    """True if the encoder takes a secret and memoises a permanent response."""
    needs_shuffler: ClassVar[bool] = False
    """True if one person's reports protect nothing until a relay has shuffled them with the reports
    of others."""
    needs_whole: ClassVar[bool] = False
    """True if counts do not say which values or fragments go together, so that tables hold the
    whole reports."""
    cases: ClassVar[tuple[Case, ...]] = ()
    """Small instances that cover the mechanism's variants."""
    settings: ClassVar[tuple[Setting, ...]] = ()
    """Settings in which campaigns compare variance and intervals of a value's count with the
    formulas. They are empty for a mechanism whose reports are not counted by value in one table."""

    @property
    def answers(self) -> AnswerKind:
        """Kind of the answers that its reports are about."""
        return "values"

    @property
    def is_numeric(self) -> bool:
        """Return whether its tables say numbers, not counts of values."""
        return self.answers in ("number", "numbers by category", "moments")

    @property
    def at_most_answers(self) -> int:
        """Largest number of answers that a report is about: 1 unless a value is a set of them."""
        return 1

    @property
    def listed(self) -> tuple[str, ...]:
        """Categories that touch cells. There are none where a value is not one of a list."""
        return ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Values that a table counts, where the mechanism lists them."""
        return self.listed

    def label(self, value: Value) -> Value:
        """Return what stands for `value` in a table."""
        return value

    @property
    def by(self) -> tuple[str, ...] | None:
        """Categories by which the numbers are counted; None without categories."""
        return None

    @property
    def outside(self) -> str | None:
        """Way in which numbers out of bounds are treated, "clip" or "refuse". It is None where
        values are no numbers."""
        return None

    @property
    def spelling(self) -> "Spelling | None":
        """Letters of the words; None where values are not spelled."""
        return None

    @cached_property
    @abstractmethod
    def cost(self) -> Cost:
        """Cost of one report, from the exact probabilities."""

    @property
    def messages(self) -> int:
        """Number of reports that a record becomes: 1 unless they are messages for a shuffler."""
        return 1

    def split(self, record: bytes) -> list[bytes]:
        """Return the `messages` reports of a record, which an encoder returns as one."""
        size = HEADER_BYTES + self.layout.body_bytes
        return [record[at : at + size] for at in range(0, len(record), size)]

    @cached_property
    @abstractmethod
    def layout(self) -> "Layout | JointLayout":
        """Layout of a report after its header."""

    @abstractmethod
    def check(self, value: Value) -> None:
        """Raise ParameterError for a `value` outside the mechanism's domain."""

    @property
    def placeholder(self) -> Value | None:
        """Value that is reported in place of no record, where presence is hidden. It is None if
        there is no such value."""
        return None

    @abstractmethod
    def encoder(self, bits: BitSource | None = None) -> ReportEncoder:
        """Return an encoder of this mechanism. `bits` defaults to the operating system's source."""

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Return the instances that are its `cases`."""
        kind: Any = cls
        return tuple(Example(kind(**case.parameters), case.values) for case in cls.cases)

    @classmethod
    def has_seed(cls, parameters: Mapping[str, Any]) -> bool:
        """Return whether a mechanism of these `parameters` hashes with a public seed."""
        return "seed" in cls.__dataclass_fields__

    def parameters(self) -> dict[str, Any]:
        """Return the mechanism as JSON-ready data, which `ldp.mechanisms.from_parameters` reads."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        stated = {name: _as_list(value) for name, value in values.items() if value is not None}
        return {"mechanism": self.name} | stated

    @cached_property
    def fingerprint(self) -> bytes:
        """Digest of the parameters: 8 bytes of BLAKE2b over their JSON (sorted keys, no spaces,
        ASCII)."""
        text = json.dumps(self.parameters(), sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=8, person=b"ldp mechanism v1").digest()

    @cached_property
    def header(self) -> bytes:
        """Header of every report: the format's version, `wire_id` and `fingerprint`, 10 bytes."""
        return bytes([REPORT_VERSION, self.wire_id]) + self.fingerprint

    def row_and_payload(self, report: bytes) -> tuple[int, bytes]:
        """Return row and payload of a report. Raises ReportError for a wrong length, header or row.
        The payload is not checked."""
        return split_report(report, self.header, self.layout)

    def describe(self) -> str:
        """Return one line that names the mechanism in messages, without values and seeds."""
        return f"{self.name} {self.fingerprint.hex()}"


def require_mechanism(mechanism: Any) -> Any:
    """Return `mechanism`. Raises ParameterError unless it is one whose values fit its table."""
    if not isinstance(mechanism, CatalogueMechanism):
        raise ParameterError(f"{mechanism!r} is not a mechanism, such as RandomizedResponse(...)")
    if isinstance(mechanism, Mechanism):
        mechanism.require_columns()
    return mechanism


class Mechanism(CatalogueMechanism, ABC):
    """Local randomizer whose report is counted in one table of integers."""

    kind: ClassVar[Kind]

    @cached_property
    @abstractmethod
    def channel(self) -> Channel:
        """Exact probabilities of a cell; the only place that states them."""

    @cached_property
    @abstractmethod
    def addressing(self) -> Addressing:
        """Map from a value to the cells that it touches."""

    @cached_property
    @abstractmethod
    def shape(self) -> Shape:
        """Rows and columns of the table."""

    def cells(self, value: Value, row: int) -> Sequence[int]:
        """Return the columns of `row` that `value` touches. Raises ParameterError for a value
        outside the domain, and for one that is replaced at random before it is reported."""
        (_, cells), *alternatives = self.roundings(value, row)
        if alternatives:
            raise ParameterError("value is replaced at random, so it touches no cells for certain")
        return cells

    def roundings(self, value: Value, row: int) -> tuple[tuple[Fraction, Sequence[int]], ...]:
        """Return pairs (probability, columns of `row` that `value` then touches): one pair, or two
        for a number between two steps, or one for each choice among too many answers. Raises
        ParameterError for a value outside the domain."""
        addressing = self.addressing
        point = addressing.point(value)
        if not isinstance(addressing, RandomizedAddressing):
            return ((Fraction(1), addressing.cells(point, row)),)
        alternatives = addressing.alternatives(point, row)
        return tuple((share, addressing.cells(place, row)) for share, place in alternatives)

    @cached_property
    def candidate_addressing(self) -> Addressing:
        """Addressing of what is counted: of a value, or, where a value is a set, of one answer."""
        return self.addressing.of if isinstance(self.addressing, Answers) else self.addressing

    @property
    def answers(self) -> AnswerKind:
        return "sets" if isinstance(self.addressing, Answers) else "values"

    @property
    def has_roundings(self) -> bool:
        """Return whether some values are replaced at random before they are reported."""
        return isinstance(self.addressing, RandomizedAddressing)

    @property
    def at_most_answers(self) -> int:
        return self.addressing.at_most if isinstance(self.addressing, Answers) else 1

    @property
    def listed(self) -> tuple[str, ...]:
        addressing = self.candidate_addressing
        return addressing.categories if isinstance(addressing, Identity) else ()

    @property
    def most_cells(self) -> int:
        """Largest number of cells of a row that a value touches, of one bit each."""
        return self.at_most_answers

    @cached_property
    def support(self) -> Channel:
        """Channel of a whole value: the probabilities that a report names a cell that the value
        touches, for holders and for others. Equals `channel` if a value touches one cell a row."""
        return self.channel

    @cached_property
    def report_thresholds(self) -> tuple[int, int]:
        """Floors of 2**64 times P(a report names a touched cell) and P(it names an untouched
        one)."""
        touched = self.layout.any_probability(self.channel.touched, self.touches)
        return threshold(touched), threshold(self.channel.untouched)

    @property
    def permanent_channel(self) -> Channel | None:
        """Channel of the permanent response. It is None if there is none or it is the true
        response."""
        return None

    @property
    def touches(self) -> int:
        """Number of cells of a row that a value touches, where a report names one of them (INDEX)
        or a set of cells (SUBSET)."""
        return 1

    @property
    def overlap(self) -> int:
        """Least number of cells that two values share, of the cells that `touches` counts."""
        return 0

    @cached_property
    def placeholder(self) -> Value | None:
        """Category "none", if there is one; the empty text where values are hashed; the empty set
        where they are sets of answers; else None."""
        addressing = self.addressing
        if isinstance(addressing, Answers):
            return frozenset()
        if self.outside is not None or self.has_roundings:
            return None
        if isinstance(addressing, Identity):
            return "none" if "none" in addressing.categories else None
        return ""

    def check(self, value: Value) -> None:
        """Raise ParameterError for a `value` outside the mechanism's domain."""
        self.addressing.point(value)

    def encoder(self, bits: BitSource | None = None) -> "Encoder":
        """Return an encoder of this mechanism. `bits` defaults to the operating system's source."""
        return Encoder(self, SystemBits() if bits is None else bits)

    @cached_property
    def cost(self) -> Cost:
        return _cost(self.channel.epsilon)

    @cached_property
    def layout(self) -> Layout:
        """Layout of a report. Raises ParameterError for a shape or kind that is none."""
        return _layout(self.kind, self.shape)

    def require_columns(self) -> None:
        """Raise ParameterError if a report has fewer columns than there are categories."""
        if len(self.listed) > self.layout.columns > 1:
            raise ParameterError(f"{self.name}: a table has a column for each category")

    def describe(self) -> str:
        """Return one line that names mechanism, shape and fingerprint."""
        return f"{self.name} {self.shape.rows}x{self.shape.columns} {self.fingerprint.hex()}"

    def fakes_move(self, share: float = FAKES) -> float:
        """Return the frequency that fake reports, a `share` of all, add to a value if all of them
        name it: `share` times the channel's leverage."""
        return share * self.support.leverage

    def fakes_lower(self, share: float = FAKES) -> float:
        """Return the frequency by which the estimate of a value falls below its frequency among the
        honest reports if fake reports, a `share` of all, do not name it: `share` times untouched /
        (touched - untouched)."""
        return share / self.support.gain - share * self.support.leverage

    def variance(self, reports: int, frequency: Any = 0.0, others_squared: Any = 0.0) -> Any:
        """Return the variance, in reports squared, of the estimated count of a value.

        `reports`: number collected. `frequency`: share that holds the value. `others_squared`: sum
        of the squared frequencies of all other values (only a sketch's collisions depend on it);
        numbers or arrays. For a fixed population: `variance_through` the mechanism's `support`.
        """
        return self.variance_through(self.support, reports, frequency, others_squared)

    def variance_through(
        self, channel: Channel, reports: int, frequency: Any, others_squared: Any
    ) -> Any:
        """Return what `variance` does, with `channel` in place of the report's: `reports` times the
        channel's variance at this `frequency`."""
        return reports * channel.variance(frequency)

    def pooled_variance(self, reports: int, frequency: Any = 0.0) -> Any:
        """Return by how much the variance of a count, in `reports` squared, grows with each further
        report that every client sends under the same permanent response, if there is one.

        Averaging does not remove the noise of the permanent response. With K reports a client, two
        of them have the covariance (h - l)**2 Var(B) given the value, where B is 1 if the permanent
        response names the cell and h, l are the probabilities of the instantaneous step. n reports
        have n (K - 1) such terms, and the estimator divides by (h - l)**2
        `permanent_channel.gain`**2. The sum is (K - 1) n permanent_channel.variance(f). The result
        is this sum divided by K - 1. A client's reports also share its row, so the collisions, and
        its sample of buckets: `variance_through` adds them. `frequency`: a number or an array.
        """
        if (channel := self.permanent_channel) is None:
            return 0.0 * frequency
        return self.variance_through(channel, reports, frequency, 0.0)

    def std_error(self, reports: int, frequency: float = 0.0, others_squared: float = 0.0) -> float:
        """Return the standard error, in reports, of the estimated count of a value: the root of
        `variance`, with the same arguments."""
        return math.sqrt(self.variance(reports, frequency, others_squared))

    def detectable_frequency(
        self,
        reports: int,
        alpha: float = 0.05,
        candidates: int = 1,
        power: float = 0.5,
        others_squared: float = 0.0,
    ) -> float:
        """Return the frequency that is detected with probability `power` when `candidates` values
        are each tested one-sided at alpha / candidates (Bonferroni). It is infinite if none up to 1
        is.

        Solves reports f = z_alpha std_error(0) + z_power std_error(f) + r for f. Here r is how much
        further the test reaches because a number of reports is skewed and whole (Cornish and Fisher
        1938). Raises ParameterError for arguments out of range and for alpha / candidates below
        `LEAST_ALPHA`.
        """
        from statistics import NormalDist  # late: devices do not plan

        if not 0 < alpha < 1 or not 0 < power < 1 or candidates < 1 or reports < 1:
            raise ParameterError(
                "alpha and power must lie strictly between 0 and 1, candidates and reports be >= 1"
            )
        if alpha / candidates < LEAST_ALPHA:
            raise ParameterError(f"alpha / candidates must be {LEAST_ALPHA} or more")
        critical = -NormalDist().inv_cdf(alpha / candidates)
        quantile = NormalDist().inv_cdf(power)
        skewed = (critical**2 - 1) * float(1 - 2 * self.support.untouched) / 6
        least_count = critical * self.std_error(reports, 0.0, others_squared)
        least_count += (skewed + 0.5) / self.support.gain

        def is_missed(frequency: float) -> bool:
            spread = quantile * self.std_error(reports, frequency, others_squared)
            return reports * frequency - least_count - spread < 0

        if is_missed(1.0):
            return math.inf
        return bisect(is_missed, 0.0, 1.0, 60)[1]


class Encoder(ReportEncoder):
    """Encoder that draws one report a value through the mechanism's channel.

    >>> from ldp import RandomizedResponse
    >>> encoder = RandomizedResponse(categories=("a", "b", "c"), epsilon=1.0).encoder()
    >>> len(encoder.encode("b"))
    11
    """

    def __init__(self, mechanism: Mechanism, bits: BitSource) -> None:
        mechanism.require_columns()
        self._mechanism = mechanism
        self._bits = bits
        self._addressing = mechanism.addressing
        self._layout = mechanism.layout
        self._rows = mechanism.layout.rows
        self._header = mechanism.header
        self._randomized = (
            self._addressing if isinstance(self._addressing, RandomizedAddressing) else None
        )
        self._touched, self._untouched = mechanism.report_thresholds
        self._size, self._tops = self._layout.random_bytes
        self._is_system = type(bits) is SystemBits
        is_usual = self._is_system and type(self).draw is _USUAL_DRAW
        self._report = report_function(mechanism) if is_usual else None

    def encode(self, value: Value) -> bytes:
        """Draw one report of `value`, as bytes. Raises ParameterError, before a bit is drawn, for a
        value outside the domain. The row is uniform and independent of the value."""
        if self._report is not None:
            return self._report(value)
        row, number = self.draw(self._addressing.point(value))
        return pack_report(self._header, self._layout, row, number)

    def draw(self, point: int) -> tuple[int, int]:
        """Draw (row, payload as an integer) of one report of a value with this `point`."""
        bits = self._report_bits()
        row = uniform_below(bits, self._rows)
        if self._randomized is not None:
            point = self._randomized.draw(bits, point, row)
        cells = self._addressing.cells(point, row)
        return row, self._layout.draw(bits, cells, self._touched, self._untouched)

    def _report_bits(self) -> BitSource:
        """Return the source of one report's bits: those of the operating system at one request."""
        return ReportBits(self._size, self._tops) if self._is_system else self._bits


_USUAL_DRAW = Encoder.draw
"""Method that `report_function` replaces, unless a subclass or a test draws in another way."""


@lru_cache(maxsize=64)
def _cost(epsilon: float) -> Cost:
    return Cost(epsilon=epsilon)


@lru_cache(maxsize=64, typed=True)
def _layout(kind: Kind, shape: Shape) -> Layout:
    is_kind = isinstance(kind, type) and issubclass(kind, Layout)
    if not isinstance(shape, Shape) or not is_kind:
        raise ParameterError("shape must be a Shape, kind one of the four")
    for name, number in zip(Shape._fields, shape, strict=True):
        require_whole(number, name, 1, MAX_CELLS)
    return kind(*shape)


def _as_list(value: Any) -> Any:
    if isinstance(value, Categories):  # up to millions of texts
        return [*value]
    return [*map(_as_list, value)] if isinstance(value, tuple) else value


def threshold(probability: Fraction) -> int:
    """Return floor(2**64 * probability), which is exact for the thresholds of encoders."""
    return math.floor(probability * ONE)
