"""Give the catalogue-wide tests their subjects: every mechanism's own examples, and one toy.

The toy is a sign without hashing. It proves that a mechanism is one class, since nothing else here
knows it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, NamedTuple

import pytest

from ldp.mechanisms import CATALOGUE, CatalogueMechanism, JointReport
from ldp.mechanisms.addressing import Identity
from ldp.mechanisms.base import Example, Mechanism, Shape
from ldp.mechanisms.joint_base import parts_of
from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.protocol.channel import Channel, keep_probability
from ldp.protocol.hashing import Value
from ldp.protocol.kinds import Kind, Sign


@dataclass(frozen=True, kw_only=True)
class SignToy(Mechanism):
    """One Hadamard coefficient of a category, whose sign is true with e**eps / (e**eps + 1)."""

    name: ClassVar[str] = "sign-toy"
    wire_id: ClassVar[int] = 255
    kind: ClassVar[Kind] = Sign

    epsilon: float

    @cached_property
    def channel(self) -> Channel:
        keep = keep_probability(self.epsilon, others=1)
        return Channel(touched=keep, untouched=Fraction(1, 2), differing=(1, 1))

    @cached_property
    def addressing(self) -> Identity:
        return Identity(("a", "b", "c", "d"))

    @cached_property
    def shape(self) -> Shape:
        return Shape(1, 4)

    @staticmethod
    def examples() -> tuple[Example, ...]:
        return (Example(SignToy(epsilon=1.5), ("a", "b", "d")),)


class Tabled(NamedTuple):
    """Example of a mechanism whose reports have one part, counted in one table."""

    mechanism: Mechanism
    values: tuple[Value, ...]


def _kind(mechanism: CatalogueMechanism) -> object:
    """Return the kind of a mechanism's reports: its parts' kinds, and whether its noise is
    memoised."""
    kinds = tuple(dict.fromkeys(part.kind for part in parts_of(mechanism)))
    return kinds, isinstance(mechanism, JointReport), isinstance(mechanism, MemoisedMechanism)


def _named(
    examples: Sequence[Example | Tabled], sampled: bool = False, slow: bool = True
) -> list[pytest.ParameterSet]:
    """Return the examples as parameters of tests, with their marks.

    With `sampled`, the first example of each kind of report is for the fast tests. The first of
    each mechanism is for the slow tests, if there are any, and all others are for the campaign.
    """
    parameters, kinds, names = [], set[object](), list[str]()
    for number, example in enumerate(examples):
        mechanism = example.mechanism
        kind, marks = _kind(mechanism), []
        if sampled and (kind in kinds or not mechanism.is_whole):
            is_slow = slow and mechanism.name not in names
            marks = [pytest.mark.slow if is_slow else pytest.mark.campaign]
        else:
            kinds.add(kind)
        parameters.append(pytest.param(example, id=f"{mechanism.name}-{number}", marks=marks))
        names.append(mechanism.name)
    return parameters


def _tabled(examples: Iterable[Example]) -> list[Tabled]:
    return [
        Tabled(example.mechanism, example.values)
        for example in examples
        if isinstance(example.mechanism, Mechanism)
    ]


WHOLE = [example for mechanism in CATALOGUE.values() for example in mechanism.examples()]
"""Everything in the catalogue, also reports of several parts."""
CATALOGUED = _tabled(WHOLE)
for_everything = pytest.mark.parametrize("example", _named(WHOLE))
for_each_mechanism = pytest.mark.parametrize("example", _named(CATALOGUED))
sampling_everything = pytest.mark.parametrize("example", _named(WHOLE, sampled=True))
sampling_each_kind = pytest.mark.parametrize("example", _named(WHOLE, sampled=True, slow=False))
sampling_each_mechanism = pytest.mark.parametrize("example", _named(CATALOGUED, sampled=True))
for_each_kind = pytest.mark.parametrize(
    "example", _named([*CATALOGUED, *_tabled(SignToy.examples())])
)


def part_numbers(
    mechanism: CatalogueMechanism, row: int, payload: bytes
) -> list[tuple[Mechanism, int, int]]:
    """Return mechanism, row and payload, as an integer, of every part of a report.

    Raises ReportError when a part is out of range.
    """
    mechanism.layout.payload_number(payload)
    split = mechanism.layout.split(row, payload)
    return [
        (part, part_row, int.from_bytes(part_payload, "little"))
        for part, (part_row, part_payload) in zip(parts_of(mechanism), split, strict=True)
    ]
