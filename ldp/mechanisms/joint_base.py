"""Mechanisms whose report has several parts: each part is a mechanism with a channel and a table of
its own, drawn independently, and what they cost adds up."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from ldp.accounting.cost import Cost
from ldp.mechanisms.base import Catalogued, Mechanism
from ldp.protocol.channel import exact_log, round_up
from ldp.protocol.hashing import Value
from ldp.protocol.randomness import BitSource, SystemBits
from ldp.protocol.wire import JointLayout, pack_joint_report


class Part(NamedTuple):
    """One part of a report; `name` is that of its table."""

    name: str
    mechanism: Mechanism


@dataclass(frozen=True, kw_only=True)
class JointMechanism(Catalogued, ABC):
    """A report of several parts, about the same value each or about what it tells of it (`told`).

    On the wire the row of the first part is split: `layout.rows` times as many rows as fit into
    its part of the payload.
    """

    @cached_property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The parts, in the order in which they are drawn."""

    @cached_property
    @abstractmethod
    def layout(self) -> JointLayout:
        """What the report looks like."""

    def part_values(self, value: Any) -> tuple[Value, ...]:
        """What each part is told of a value: all of it, unless a mechanism says otherwise. Raises
        ParameterError for a value that has no parts."""
        return (value,) * len(self.parts)

    @cached_property
    def cost(self) -> Cost:
        """The parts' costs, added: the logarithm of their ratios' product, rounded up."""
        return Cost(epsilon=round_up(exact_log(claimed_ratio(self))))

    def check(self, value: Any) -> None:
        for part, (own,) in values_of_parts(self, [value]):
            part.check(own)

    def encoder(self, bits: BitSource | None = None) -> "JointEncoder":
        return JointEncoder(self, SystemBits() if bits is None else bits)


def parts_of(mechanism: Catalogued) -> tuple[Mechanism, ...]:
    """The mechanisms, each with one table, whose reports make one report of this one."""
    if isinstance(mechanism, JointMechanism):
        return tuple(part for _, part in mechanism.parts)
    assert isinstance(mechanism, Mechanism)
    return (mechanism,)


def values_of_parts(
    mechanism: Catalogued, values: Sequence[Any]
) -> Iterator[tuple[Mechanism, Sequence[Value]]]:
    """Every part of a mechanism's reports, and what it is told of each of the values."""
    if isinstance(mechanism, JointMechanism):
        each = [mechanism.part_values(value) for value in values]
        for number, part in enumerate(parts_of(mechanism)):
            yield part, [parts[number] for parts in each]
    else:
        yield from ((part, values) for part in parts_of(mechanism))


def claimed_ratio(mechanism: Catalogued) -> Fraction:
    """The worst ratio that the mechanism's channels claim: those of its parts multiplied."""
    ratios = (part.channel.worst_ratio for part in parts_of(mechanism))
    return math.prod(ratios, start=Fraction(1))


class JointEncoder:
    """Draws one report a value through the channels of all parts."""

    def __init__(self, mechanism: JointMechanism, bits: BitSource) -> None:
        self._mechanism = mechanism
        self._header = mechanism.header.to_bytes()
        self._encoders = [part.encoder(bits) for _, part in mechanism.parts]

    def encode(self, value: Any) -> bytes:
        """One report as bytes; raises ParameterError, before a bit is drawn, for a value that a
        part does not know."""
        points = [
            part.addressing.point(own) for part, (own,) in values_of_parts(self._mechanism, [value])
        ]
        pairs = zip(self._encoders, points, strict=True)
        drawn = [encoder.draw(point) for encoder, point in pairs]
        return pack_joint_report(self._header, self._mechanism.layout, drawn)

    def __repr__(self) -> str:
        return f"<Encoder of {self._mechanism.describe()}>"
