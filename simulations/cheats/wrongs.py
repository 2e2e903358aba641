"""Define what goes wrong in a report, each with the statistic of the test that knows it.

A wrong replaces the payload of one part of a report; a repeated draw replaces the whole report. The
chances come from `law.py`: exact, and conditional on all reports before. So what is seen over any
number of events is a sum of independent trials.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.protocol.kinds import Bits, Index, Sign, Subset, as_bits
from ldp.protocol.randomness import SeededBits, uniform_below
from simulations.cheats import Event, Memory
from simulations.cheats.law import Law, Part, clear, is_true, parts, replaced, scaled

Seen = tuple[bool, float]
TRIES = 200
"""Draws after which a lie with a property counts as impossible."""


@dataclass(frozen=True)
class Wrong(ABC):
    """Fault in the part `part` of a report, or in all of it."""

    name: ClassVar[str]
    """Class of the fault, which is a line of the campaign's table."""

    part: int

    @abstractmethod
    def __str__(self) -> str:
        """Return what goes wrong, in a few words."""

    @abstractmethod
    def alter(self, event: Event, memory: Memory) -> bytes:
        """Return the report that leaves in place of the event's report."""

    @abstractmethod
    def statistic(self, event: Event, report: bytes, memory: Memory) -> Seen | None:
        """Return what `Cheat.statistic` does, for an event whose condition holds."""


class WrongPart(Wrong):
    """Fault that replaces the payload of a part."""

    def alter(self, event: Event, memory: Memory) -> bytes:
        """Return the report that leaves in place of the event's report."""
        number, part = self._part_of(event, event.report)
        return replaced(event, number, self.payload(event, part, memory))

    def statistic(self, event: Event, report: bytes, memory: Memory) -> Seen | None:
        """Return what `Cheat.statistic` does, for an event whose condition holds."""
        return self.seen(event, self._part_of(event, report)[1], memory)

    def _part_of(self, event: Event, report: bytes) -> tuple[int, Part]:
        """Return the part that is wrong, with its number; if there is no such part, the last
        one."""
        every = parts(event, report)
        number = min(self.part, len(every) - 1)
        return number, every[number]

    @abstractmethod
    def payload(self, event: Event, part: Part, memory: Memory) -> int:
        """Return the payload that leaves in place of the payload of `part`."""

    @abstractmethod
    def seen(self, event: Event, part: Part, memory: Memory) -> Seen | None:
        """Return what `Cheat.statistic` does, for the `part` of the report that left."""


@dataclass(frozen=True)
class Plain(WrongPart):
    """Payload without noise: the value's cells as they are; a number is still rounded."""

    name: ClassVar[str] = "plain"

    def __str__(self) -> str:
        return "plain"

    def payload(self, event: Event, part: Part, memory: Memory) -> int:
        return clear(part.layout, part.rounded(memory.bits), part.number)

    def seen(self, event: Event, part: Part, memory: Memory) -> Seen:
        number = clear(part.layout, part.cells, part.number)
        return part.number == number, part.law.of_sign(number)


@dataclass(frozen=True)
class PermanentOnly(WrongPart):
    """Permanent response without the noise of a report; an honest report where it is not known."""

    name: ClassVar[str] = "permanent response"

    def __str__(self) -> str:
        return "the permanent response as it is"

    def payload(self, event: Event, part: Part, memory: Memory) -> int:
        return part.number if event.permanent is None else event.permanent

    def seen(self, event: Event, part: Part, memory: Memory) -> Seen | None:
        if event.permanent is None:
            return None
        return part.number == event.permanent, part.law.of_payload(event.permanent)


@dataclass(frozen=True)
class Weaker(WrongPart):
    """Noise of a larger epsilon: `times` that of the channel, plus `more`."""

    name: ClassVar[str] = "weaker noise"

    times: int
    more: int

    def __str__(self) -> str:
        return (
            f"noise of epsilon x {self.times}"
            if self.times > 1
            else (f"noise of epsilon + {self.more}")
        )

    def payload(self, event: Event, part: Part, memory: Memory) -> int:
        channel, layout = part.mechanism.channel, part.layout
        gain = (self.times - 1) * channel.epsilon + self.more
        cells = part.rounded(memory.bits)
        touched = float(layout.any_probability(channel.touched, len(cells)))
        if layout.is_bitwise:
            gain /= sum(channel.differing)
        untouched = _odds_times(float(channel.untouched), -gain)
        return layout.draw(
            memory.bits, cells, scaled(_odds_times(touched, gain)), scaled(untouched)
        )

    def seen(self, event: Event, part: Part, memory: Memory) -> Seen:
        if part.layout.is_bitwise:
            return _agrees(part.law, part.number, as_bits(part.cells), -1)
        return _truth(part)


def _odds_times(probability: float, logarithm: float) -> float:
    """Return the probability whose odds are e**`logarithm` times those of `probability`."""
    return 1 / (1 + (1 - probability) / probability * math.exp(-logarithm))


def _agrees(law: Law, number: int, target: int, mask: int) -> Seen:
    """Return whether a bitmap agrees with a target, and how likely that is.

    A bitmap agrees if it differs in few enough columns for that to be rare.
    """
    mask &= (1 << law.layout.columns) - 1
    most, chance = law.of_agreement(target, mask)
    return ((number ^ target) & mask).bit_count() <= most, chance


def _truth(part: Part) -> Seen:
    """Return whether a report names a cell of its value, and how likely that is."""
    cells = part.cells
    return is_true(part.layout, cells, part.number), part.law.of_truth(cells)


@dataclass(frozen=True)
class Lie(WrongPart):
    """Lies that keep a part of the value.

    An index or a sign that names no cell of the value has the value's column by `modulus`. A bitmap
    or a set names the first column after the value's, in place of another one.
    """

    name: ClassVar[str] = "lie that keeps a part"

    modulus: int

    def __str__(self) -> str:
        column = f"keep the value's column modulo {self.modulus}"
        return f"lies that {column}, of bitmaps and sets name the next one"

    def payload(self, event: Event, part: Part, memory: Memory) -> int:
        layout, cells, number = part.layout, part.cells, part.number
        if isinstance(layout, Sign):
            return self._signed(part, memory)
        if isinstance(layout, Bits):
            return self._moved(part)
        if is_true(layout, cells, number):
            return number
        for _ in range(TRIES):
            column = uniform_below(memory.bits, layout.columns)
            if column % self.modulus == self._residue(part) and column not in cells:
                return column
        return number

    def _residue(self, part: Part) -> int:
        return clear(part.layout, part.cells, 0) % self.modulus

    def _signed(self, part: Part, memory: Memory) -> int:
        cell, number = part.cells[0], part.number
        if part.layout.names(number, cell):
            return number
        for _ in range(TRIES):
            column = uniform_below(memory.bits, part.layout.columns)
            if column % self.modulus == cell % self.modulus:
                return column << 1 | (column & cell).bit_count() & 1 ^ 1
        return number

    def _moved(self, part: Part) -> int:
        number = part.number
        false = number & ~as_bits(part.cells)
        after = self._next(part)
        is_lie = not isinstance(part.layout, Subset) or false == number
        if after is None or not false or not is_lie or false >> after & 1:
            return number
        return number ^ (false & -false) | 1 << after

    @staticmethod
    def _next(part: Part) -> int | None:
        """Return the first untouched column after the value's first; column 0 follows the last.

        Returns None if the value touches all columns.
        """
        cells, columns = set(part.cells), part.layout.columns
        first = min(cells, default=0)
        circle = ((first + step) % columns for step in range(columns))
        return next((column for column in circle if column not in cells), None)

    def seen(self, event: Event, part: Part, memory: Memory) -> Seen | None:
        if isinstance(part.layout, Index | Sign):
            return self._seen_residue(part)
        after = self._next(part)
        if after is None:
            return None
        names = part.layout.names(part.number, after)
        if not isinstance(part.layout, Subset):
            return names, part.law.of_column(after)
        if is_true(part.layout, part.cells, part.number) or len(part.law.alternatives) > 1:
            return None
        return names, part.layout.ones / (part.layout.columns - len(part.cells))

    def _seen_residue(self, part: Part) -> Seen | None:
        layout, cells = part.layout, part.cells
        if is_true(layout, cells, part.number):
            return None
        columns = range(layout.columns)
        if isinstance(layout, Sign):
            residue = cells[0] % self.modulus
            share = len(columns[residue :: self.modulus]) / layout.columns
            return (part.number >> 1) % self.modulus == residue, share
        residue, law = self._residue(part), part.law
        lies = {column: law.of_payload(column) for column in columns if column not in cells}
        alike = sum(p for column, p in lies.items() if column % self.modulus == residue)
        return part.number % self.modulus == residue, alike / sum(lies.values())


Key = Callable[[Event, Memory, int], Hashable]


def _pair(event: Event, memory: Memory, length: int) -> Hashable:
    counter = ("count", event.device, event.metric)
    count = memory.state.get(counter, 0)
    memory.state[counter] = count + 1
    return event.device, event.metric, count // length


SCOPES: Mapping[str, tuple[str, Key]] = {
    "report before": ("every {} such reports of a device share their noise", _pair),
    "other values": (
        "noise depends on the call // {}, whatever the value",
        lambda event, _, length: (event.device, event.metric, event.call // length),
    ),
    "stream": (
        "noise repeats after {} calls",
        lambda event, _, length: (event.device, event.metric, event.call % length),
    ),
    "other epochs": (
        "noise of a value is the same in all calls and epochs",
        lambda event, _, length: (event.device, event.metric, event.value),
    ),
    "other devices": (
        "noise of a call is the same on all devices",
        lambda event, _, length: (event.metric, event.call),
    ),
    "other devices' values": (
        "noise of a value is the same on all devices",
        lambda event, _, length: (event.metric, event.value),
    ),
    "other metrics": (
        "noise of a call is the same for all metrics",
        lambda event, _, length: (event.device, event.call),
    ),
}
"""Reports that share their noise: a clause, and the key that they have in common."""


@dataclass(frozen=True)
class Shared(WrongPart):
    """Noise that is a function of a key, so that reports with the same key share it.

    With `permanent`, the noise of the permanent response is shared, where there is one, and the
    noise of a report is fresh.
    """

    name: ClassVar[str] = "shared noise"

    scope: str
    length: int
    salt: int
    permanent: bool = False

    def __str__(self) -> str:
        step = "permanent " if self.permanent else ""
        return step + SCOPES[self.scope][0].format(self.length)

    def _key(self, event: Event, memory: Memory) -> Hashable:
        return SCOPES[self.scope][1](event, memory, self.length)

    def payload(self, event: Event, part: Part, memory: Memory) -> int:
        key = self._key(event, memory)
        streams = memory.state.setdefault("streams", {})
        if key not in streams:
            streams[key] = len(streams)
        bits = SeededBits(f"{self.salt} {streams[key]}".encode())
        if not self.permanent:
            return part.redrawn(bits)
        mechanism = part.mechanism
        if not isinstance(mechanism, MemoisedMechanism):
            return part.number
        true_response = mechanism.layout.payload_of(part.rounded(bits))
        response = mechanism.memory.draw(bits, true_response)
        return mechanism.layout.randomise(memory.bits, response, *mechanism.thresholds)

    def seen(self, event: Event, part: Part, memory: Memory) -> Seen | None:
        key = self._key(event, memory)
        earlier: Part | None = memory.state.get(("part", key))
        memory.state["part", key] = part
        return None if earlier is None else alike(part, earlier)


def alike(part: Part, earlier: Part) -> Seen | None:
    """Return whether two reports have the same noise, and how likely that is, given the earlier
    one.

    Bitmaps have the same noise if the bits with one law in both agree. Other reports of the same
    cells must be equal. Reports of different cells must both be true, or both be lies.
    """
    layout, other = part.layout, earlier.layout
    if layout.is_bitwise or other.is_bitwise:
        if type(layout) is not type(other) or layout.columns != other.columns:
            return None
        mask = ~(as_bits(_centre(part)) ^ as_bits(_centre(earlier)))
        return _agrees(part.law, part.number, earlier.number, mask)
    if layout.columns == other.columns and _cell_set(part) == _cell_set(earlier):
        return part.number == earlier.number, part.law.of_payload(earlier.number)
    truth = is_true(other, earlier.cells, earlier.number)
    is_same, chance = _truth(part)
    chance = chance if truth else 1 - chance
    if isinstance(layout, Sign) and isinstance(other, Sign):
        has_column = part.number >> 1 == earlier.number >> 1
        return has_column and is_same == truth, chance / layout.columns
    return is_same == truth, chance


def _centre(part: Part) -> Any:
    """Return the cells of a bitmap that are named with the larger probability."""
    return part.law.alternatives[0][1] if part.permanent is not None else part.cells


def _cell_set(part: Part) -> frozenset[int]:
    return frozenset(part.cells)


@dataclass(frozen=True)
class Repeated(Wrong):
    """Report about this value that left before and leaves again, until it has left `times` times.

    The earlier report is from this device, or from any.
    """

    name: ClassVar[str] = "repeated draw"

    is_global: bool
    times: int

    def __str__(self) -> str:
        place = "any device" if self.is_global else "this device"
        return f"the report before of {place} about this value, up to {self.times} times in a row"

    def _key(self, event: Event) -> Hashable:
        return ("sent", None if self.is_global else event.device, event.metric, event.value)

    def alter(self, event: Event, memory: Memory) -> bytes:
        key = self._key(event)
        report, times = memory.state.get(key, (event.report, 0))
        if times >= self.times:
            report, times = event.report, 0
        memory.state[key] = report, times + 1
        return bytes(report)

    def statistic(self, event: Event, report: bytes, memory: Memory) -> Seen | None:
        key = self._key(event)
        earlier: bytes | None = memory.state.get(key)
        memory.state[key] = report
        if earlier is None:
            return None
        chance = 1.0
        for part, before in zip(parts(event, report), parts(event, earlier), strict=True):
            is_possible = part.permanent is None or part.row == before.row
            in_row = part._replace(row=before.row)
            chance *= in_row.row_chance * in_row.law.of_payload(before.number) * is_possible
        return report == earlier, min(1.0, chance)
