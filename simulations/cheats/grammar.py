"""Draw cheats: a condition of one or two atoms, what goes wrong there, and how often.

Every choice is a line of a table. A condition's residues and limits are those of one event of the
stated lives, so the condition can hold. Whether it holds for one input in a hundred is measured
afterwards.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from ldp.mechanisms.joint_base import parts_of
from ldp.mechanisms.memoisation import MemoisedMechanism
from simulations.cheats import Event, Memory, Subject
from simulations.cheats.conditions import Atom, Condition, look
from simulations.cheats.population import lives
from simulations.cheats.values import value_type
from simulations.cheats.wrongs import (
    SCOPES,
    Lie,
    PermanentOnly,
    Plain,
    Repeated,
    Shared,
    Weaker,
    Wrong,
)

FIELDS = {
    "value": 8,
    "value before": 2,
    "repetition": 1,
    "call": 3,
    "row": 2,
    "epoch": 2,
    "metric": 2,
    "device": 2,
}
"""Quantities that an atom may be about, each with its weight."""
MOST_MODULUS = 64
FEWEST_OF_TWO = 0.6
"""Share of conditions with two atoms."""
BLOCKS = (1, 1, 1, 2, 4, 8, 16, 32)
"""Lengths of the blocks in which calls and devices are counted.

A condition repeats after `MOST_MODULUS` calls or devices at most.
"""
HALVINGS = (0, 0, 1, 2)
"""How often the share of the events on which a cheat acts is halved."""
LONGEST_SAMPLE = 300
SAMPLE = 100
"""Number of drawn values from which the largest modulus is chosen."""
EARLIEST = 2
"""Least number of events before a sampled event, so that it has a value before."""


@dataclass(frozen=True)
class ConditionedWrong:
    """Cheat of this grammar: a `fault` on some of the events where `condition` holds.

    A private coin chooses 1 in 2**`halvings` of these events.
    """

    condition: Condition
    fault: Wrong
    halvings: int

    @property
    def wrong(self) -> str:
        """Class of what goes wrong."""
        return self.fault.name

    @property
    def sentence(self) -> str:
        """Clause that says what is wrong, where and how often."""
        share = "" if not self.halvings else f", on 1 in {2**self.halvings} of them"
        part = f" in part {self.fault.part}" if self.fault.part else ""
        return f"{self.fault}{part} where {self.condition}{share}"

    def holds(self, event: Event) -> bool:
        """Return whether the condition holds, or whether it may where the row is not drawn yet."""
        return self.condition.holds(event)

    def alter(self, event: Event, memory: Memory) -> bytes:
        """Return the report that leaves."""
        if not self.condition.holds(event):
            return event.report
        altered = self.fault.alter(event, memory)
        is_spared = self.halvings and memory.bits.draw(self.halvings)
        return event.report if is_spared else altered

    def statistic(self, event: Event, report: bytes, memory: Memory) -> tuple[bool, float] | None:
        """Return what the knowing test sees in a report whose condition holds."""
        return self.fault.statistic(event, report, memory)


def draw(generator: np.random.Generator, subject: Subject) -> ConditionedWrong:
    """Draw a cheat for what is audited."""
    event = _sample(generator, subject)
    fault = _fault(generator, subject, event)
    return ConditionedWrong(_condition(generator, event), fault, _pick(generator, HALVINGS))


def _sample(generator: np.random.Generator, subject: Subject) -> Event:
    """Return an event of the stated lives, with a report."""
    place = int(generator.integers(EARLIEST, LONGEST_SAMPLE))
    event, stream = next(islice(lives(subject, generator), place, None))
    return stream.report(event)


def _pick(generator: np.random.Generator, choices: Sequence[Any]) -> Any:
    return choices[int(generator.integers(len(choices)))]


def _condition(generator: np.random.Generator, event: Event) -> Condition:
    atoms: dict[tuple[str, str], Atom] = {}
    wanted = 1 + (generator.random() < FEWEST_OF_TWO)
    while len(atoms) < wanted:
        atom = _atom(generator, event)
        if atom is not None:
            atoms[atom.field, atom.feature] = atom
    return Condition(tuple(atoms.values()))


def _atom(generator: np.random.Generator, event: Event) -> Atom | None:
    """Draw an atom that holds for the event; return None if the event has no integer for it."""
    weights = np.array(list(FIELDS.values())) / sum(FIELDS.values())
    field = list(FIELDS)[generator.choice(len(weights), p=weights)]
    is_value = field in ("value", "value before")
    features = list(value_type(event.mechanism).features)
    feature = _pick(generator, features) if is_value else ""
    number = look(event, field, feature)
    if number is None or (field == "row" and _rows(event) == 1):
        return None
    if field == "repetition":
        return Atom(field, modulus=2, residues=(number,))
    if is_value and generator.random() < 1 / 3:
        span = int(generator.integers(abs(number) // 2 + 1))
        limits = _pick(
            generator, ((number - span, None), (None, number + span), (number, number + span))
        )
        return Atom(field, feature, least=limits[0], most=limits[1])
    block = _pick(generator, BLOCKS) if field in ("call", "device") else 1
    most = _spread(generator, event, feature) if is_value else MOST_MODULUS // block
    modulus = round(2 * (most / 2) ** generator.random())
    residue = number // block % modulus
    size = 1 if generator.random() < 2 / 3 else int(generator.integers(1, modulus // 2 + 1))
    others = generator.choice(modulus, size, replace=False).tolist()[1:]
    return Atom(field, feature, block, modulus, tuple(sorted({residue, *others})))


def _spread(generator: np.random.Generator, event: Event, feature: str) -> int:
    """Return the largest modulus by which people's values differ in a feature, at least 2."""
    kind = value_type(event.mechanism)
    numbers = [kind.features[feature](kind.draw(generator)) for _ in range(SAMPLE)]
    return min(MOST_MODULUS, max(2, max(numbers) - min(numbers) + 1))


def _rows(event: Event) -> int:
    return parts_of(event.mechanism)[0].shape.rows


def _fault(generator: np.random.Generator, subject: Subject, event: Event) -> Wrong:
    parts = parts_of(event.mechanism)
    part = int(generator.integers(len(parts)))
    is_memoised = any(metric.memoise != "fresh" for metric in subject.metrics)
    is_memoised &= subject.path != "typescript"  # its hook does not know permanent responses
    faults: list[Callable[[], Wrong]] = [
        lambda: Plain(part),
        lambda: Weaker(part, *_pick(generator, ((2, 0), (3, 0), (1, 2)))),
        lambda: Lie(part, _pick(generator, (2, 3, 4))),
        lambda: _shared(generator, subject, part, isinstance(parts[part], MemoisedMechanism)),
        lambda: Repeated(0, bool(generator.integers(2)), _pick(generator, (2, 3, 10, 1000))),
    ]
    if is_memoised:
        faults.append(lambda: PermanentOnly(0))
    return _pick(generator, faults)()  # type: ignore[no-any-return]


def _shared(
    generator: np.random.Generator, subject: Subject, part: int, is_memoised: bool
) -> Shared:
    has_metrics = len({metric.name for metric in subject.metrics}) > 1
    scopes = [scope for scope in SCOPES if has_metrics or scope != "other metrics"]
    salt = int(generator.integers(1 << 62))
    permanent = is_memoised and bool(generator.integers(2))
    return Shared(part, _pick(generator, scopes), _pick(generator, (2, 3, 5, 16)), salt, permanent)
