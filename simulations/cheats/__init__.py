"""Define cheats: encoders that break their law where a drawn condition holds.

A grammar is a module with a function `draw(generator, subject) -> Cheat`. It draws one cheat for
what is audited, and takes all randomness from a numpy generator. The audit's authors know
`simulations.cheats.grammar`; `python -m simulations.cheats --grammar MODULE` takes another one.

A `Cheat` sees an `Event`: an honest report, and what a program that draws it could see. It returns
the bytes that leave instead. So the same cheats work on an encoder, in the Python client and, over
a pipe, in the TypeScript client. A cheat also has the statistic of a test that knows its condition.
With it, `simulations.cheats.qualification` computes whether the cheat could be seen at all. Only
`paths.py`, which calls the audit, may import from `ldp.audit`.
"""

from collections.abc import Hashable
from typing import Any, NamedTuple, Protocol

from ldp.mechanisms.base import CatalogueMechanism
from ldp.protocol.randomness import SeededBits


class Event(NamedTuple):
    """One honest report, and what a program that draws it could see.

    `before`: the value before, of this metric on this device; None for the first. `call`: number of
    the report, from 0, among those of this encoder, or of this metric on this device. `row`: row of
    the honest report, or of the first part of a joint report; None before a report is drawn.
    `epoch`, `metric`: names, or None. `device`: a number. `report`: the honest bytes, empty before
    a report is drawn. `permanent`: permanent response of a memoised report as a payload, where the
    hook can know it.
    """

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
    """State that a cheat, or the test that knows it, keeps between events.

    It has private random `bits` and any `state`. All devices share one memory; keys of the state
    say which device is meant.
    """

    def __init__(self, seed: bytes) -> None:
        self.bits = SeededBits(seed)
        self.state: dict[Hashable, Any] = {}


class Cheat(Protocol):
    """Fault of an encoder, with a condition.

    All methods get events in the order of their reports.
    """

    @property
    def sentence(self) -> str:
        """Clause that says what is wrong, where, and how often."""
        ...

    @property
    def wrong(self) -> str:
        """Class of what goes wrong, which is a line of the campaign's table."""
        ...

    def holds(self, event: Event) -> bool:
        """Return whether the condition holds, or, where `row` is None, whether it may hold."""
        ...

    def alter(self, event: Event, memory: Memory) -> bytes:
        """Return the report that leaves: the honest one where the condition does not hold."""
        ...

    def statistic(self, event: Event, report: bytes, memory: Memory) -> tuple[bool, float] | None:
        """Return whether a `report` shows what the knowing test looks for, and how likely that is.

        The event's condition holds. The probability is exact, of an honest report, given all
        reports before it. Returns None where the report says nothing about the condition.
        """
        ...


class Metric(NamedTuple):
    """Metric that an event can belong to.

    `memoise`: "fresh" noise in every report, one permanent response a "value", or one an "epoch".
    `name`: None for an encoder alone.
    """

    name: str | None
    mechanism: CatalogueMechanism
    memoise: str = "fresh"


class Subject(NamedTuple):
    """Encoder or client that is audited.

    `reports`: number of reports that an honest audit draws; `size`: numbers of its counts and of
    its checks.
    """

    path: str
    name: str
    metrics: tuple[Metric, ...]
    reports: int
    size: tuple[int, int] = (0, 0)
