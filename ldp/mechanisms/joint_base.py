"""Base of mechanisms whose report has several parts. Each part is a mechanism with its own channel
and table. Parts are drawn independently, and their costs add."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from ldp.accounting.cost import Cost
from ldp.mechanisms.base import CatalogueMechanism, Mechanism, ReportEncoder, require_mechanism
from ldp.protocol.channel import exact_log, round_up
from ldp.protocol.hashing import Value
from ldp.protocol.joint_layout import JointLayout
from ldp.protocol.randomness import BitSource, SystemBits
from ldp.protocol.wire import pack_report


class Part(NamedTuple):
    """Part of a report: the `name` of its table, and its mechanism."""

    name: str
    mechanism: Mechanism


class JointMechanism(CatalogueMechanism, ABC):
    """Mechanism whose report has several parts, each about the value or about `part_values` of it.

    On the wire the row of the first part is split in two: one of the `blocks` blocks of its table's
    rows, and the row in that block.
    """

    @cached_property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """Parts, in the order in which they are drawn."""

    @property
    def blocks(self) -> int:
        """Number of blocks of the first part's rows."""
        return 1

    @cached_property
    def layout(self) -> JointLayout:
        first, *others = parts_of(self)
        layout = first.layout
        block = type(layout)(first.shape.rows // self.blocks, layout.columns, layout.ones)
        return JointLayout(self.blocks, (block, *(part.layout for part in others)))

    def part_values(self, value: Any) -> tuple[Value, ...]:
        """Return the value that each part reports: `value` itself, unless overridden. Raises
        ParameterError for a value that has no parts."""
        return (value,) * len(self.parts)

    @cached_property
    def cost(self) -> Cost:
        """Sum of the parts' costs: the logarithm of their ratios' product, rounded up."""
        return Cost(epsilon=round_up(exact_log(claimed_ratio(self))))

    def check(self, value: Any) -> None:
        """Raise ParameterError for a `value` outside the domain of a part."""
        for part, (part_value,) in values_of_parts(self, [value]):
            part.check(part_value)

    def encoder(self, bits: BitSource | None = None) -> "JointEncoder":
        return JointEncoder(self, SystemBits() if bits is None else bits)


def parts_of(mechanism: CatalogueMechanism) -> tuple[Mechanism, ...]:
    """Return the mechanisms, each with one table, that make up `mechanism`: itself or its parts."""
    if isinstance(mechanism, JointMechanism):
        return tuple(part for _, part in mechanism.parts)
    require_mechanism(mechanism)
    assert isinstance(mechanism, Mechanism)
    return (mechanism,)


def values_of_parts(
    mechanism: CatalogueMechanism, values: Sequence[Any]
) -> Iterator[tuple[Mechanism, Sequence[Value]]]:
    """Yield every part of `mechanism` with what it reports of each of `values`. Raises
    ParameterError for a value that has no parts."""
    if isinstance(mechanism, JointMechanism):
        tuples = [mechanism.part_values(value) for value in values]
        for number, part in enumerate(parts_of(mechanism)):
            yield part, [parts[number] for parts in tuples]
    else:
        yield from ((part, values) for part in parts_of(mechanism))


def claimed_ratio(mechanism: CatalogueMechanism) -> Fraction:
    """Return the worst ratio that the channels of `mechanism` state: the product over its parts."""
    ratios = (part.channel.worst_ratio for part in parts_of(mechanism))
    return math.prod(ratios, start=Fraction(1))


class JointEncoder(ReportEncoder):
    """Encoder that draws one report a value through the channels of all parts."""

    def __init__(self, mechanism: JointMechanism, bits: BitSource) -> None:
        self._mechanism = mechanism
        self._header = mechanism.header
        self._layout = mechanism.layout
        self._encoders = [part.encoder(bits) for _, part in mechanism.parts]

    def encode(self, value: Any) -> bytes:
        """Draw one report of `value`, as bytes. Raises ParameterError, before a bit is drawn, for a
        value outside the domain of a part."""
        points = [
            part.addressing.point(part_value)
            for part, (part_value,) in values_of_parts(self._mechanism, [value])
        ]
        parts = [encoder.draw(p) for encoder, p in zip(self._encoders, points, strict=True)]
        return pack_report(self._header, self._layout, *self._layout.join(parts))
