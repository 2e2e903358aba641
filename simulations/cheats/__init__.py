"""Cheats that are generated, not listed: encoders that break their law in a drawn place.

A grammar is a module with one function, `draw(generator, subject) -> Cheat`, which draws one cheat
for what is audited, by the bits of a numpy generator only. `simulations.cheats.grammar` is the one
that the audit's authors know; `python -m simulations.cheats --grammar MODULE` takes another.

A `Cheat` sees an `Event`, an honest report and what a program that draws it could see, and returns
the bytes that leave instead. So the same cheats work on an encoder, in the Python client and, over
a pipe, in the TypeScript client. A cheat also has the statistic of a test that knows its condition:
`simulations.cheats.qualification` computes with it whether the cheat could be seen at all. Nothing
in this package may import from `ldp.audit` but the campaign's call of the audit (`paths.py`).
"""

from collections.abc import Hashable
from typing import Any, NamedTuple, Protocol

from ldp.mechanisms.base import CatalogueMechanism
from ldp.protocol.randomness import SeededBits


class Event(NamedTuple):
    """One honest report, and what a program that draws it could see.

    `before`: the value before, of this metric on this device, None for none; `call`: the number of
    the report, from 0, among those of this encoder, or of this metric on this device; `row`: of the
    honest report (of a joint one, of its first part); `epoch` and `metric`: names, or None;
    `device`: a number; `report`: the honest bytes; `permanent`: of a memoised report, the permanent
    response as a payload, where the hook can know it. `row` and `report` are None and empty before
    a report is drawn."""

    mechanism: CatalogueMechanism
    value: Any
    before: Any
    call: int
    row: int | None
    epoch: str | None
    metric: str | None
    device: int
    report: bytes
    permanent: int | None = None


class Memory:
    """What a cheat, or the test that knows it, keeps between events: private random `bits`, and any
    `state` of its own. There is one for all devices; keys of the state say which device is
    meant."""

    def __init__(self, seed: bytes) -> None:
        self.bits = SeededBits(seed)
        self.state: dict[Hashable, Any] = {}


class Cheat(Protocol):
    """Encoder's fault with a condition. All methods get events in the order of their reports."""

    @property
    def sentence(self) -> str:
        """What is wrong, where, and how often, in a clause."""
        ...

    @property
    def wrong(self) -> str:
        """Class of what goes wrong, a line of the campaign's table."""
        ...

    def holds(self, event: Event) -> bool:
        """Return whether the condition holds; whether it may, where `row` is None."""
        ...

    def alter(self, event: Event, memory: Memory) -> bytes:
        """Return the report that leaves: the honest one where the condition does not hold."""
        ...

    def statistic(self, event: Event, report: bytes, memory: Memory) -> tuple[bool, float] | None:
        """Return whether a `report` shows what the test that knows the cheat looks for, and the
        exact probability of that for an honest report, given all reports before it. The event's
        condition holds. Return None where the report says nothing about it."""
        ...


class Metric(NamedTuple):
    """What one kind of event is about. `memoise`: "fresh" noise in every report, one permanent
    response a "value", or one an "epoch"; `name`: None for an encoder alone."""

    name: str | None
    mechanism: CatalogueMechanism
    memoise: str = "fresh"


class Subject(NamedTuple):
    """What is audited: an encoder, or a client. `reports`: how many of them an honest audit
    draws; `size`: how many counts and checks it has."""

    path: str
    name: str
    metrics: tuple[Metric, ...]
    reports: int
    size: tuple[int, int] = (0, 0)
