"""Draw cheats from a second, held-out grammar, which the audit's authors have not seen.

A cheat has a condition of one or two atoms, a fault, and the probability with which the fault acts
where the condition holds. An atom is a predicate of a quantity, or compares two quantities.
Quantities are features of the value and of the value before, call, row, epoch, metric and device. A
fault states what the program sends, and what a test that knows it looks for. Both keep a state,
which only events that meet the condition change.
"""

import hashlib
import math
import re
import struct
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from ldp.errors import ParameterError
from ldp.mechanisms.joint_base import parts_of
from ldp.protocol.hashing import value_bytes
from ldp.protocol.kinds import Index, Layout, Subset, as_bits
from ldp.protocol.randomness import SeededBits, uniform_below
from simulations.cheats import Event, Memory, Subject
from simulations.cheats.law import Law, Part, cells_of, clear, is_true, parts, replaced, scaled
from simulations.cheats.population import lives

WRONGS = ("plain", "weaker noise", "shared noise", "lie that keeps a part", "repeated draw")
SAMPLE = 1_500
"""Events by which the share of a condition is estimated."""
LEAST_SHARE = 0.012
TRIES = 60
MOST_RESIDUE = 64
MOST_OUTCOMES = 512
"""Most payloads that a layout may have for them to be listed."""
Quantity = Callable[[Event], int | None]
Feature = Callable[[Any], int]


def text_of(value: Any) -> bytes:
    """Return any value as bytes, the same bytes for equal values."""
    if isinstance(value, set | frozenset):
        return b",".join(sorted(map(text_of, value)))
    if isinstance(value, list | tuple):
        return b";".join(map(text_of, value))
    return repr(float(value)).encode() if isinstance(value, int | float) else value_bytes(value)


def _hash(value: Any) -> int:
    return int.from_bytes(hashlib.blake2b(text_of(value), digest_size=4).digest(), "big")


FEATURES: Mapping[type, Mapping[str, Feature]] = {
    object: {
        "hash": _hash,
        "sum of bytes": lambda value: sum(text_of(value)),
        "number of bytes": lambda value: len(text_of(value)),
        "number of different bytes": lambda value: len(set(text_of(value))),
    },
    str: {
        "code of the middle letter": lambda value: ord(value[len(value) // 2]),
        "number of vowels": lambda value: sum(letter in "aeiouy" for letter in value),
        "distance of first and last letter": lambda value: abs(ord(value[0]) - ord(value[-1])),
    },
    float: {
        "binary exponent": lambda value: math.frexp(value)[1],
        "leading digit": lambda value: int(f"{abs(float(value)):e}"[0]),
        "low byte of the double": lambda value: struct.pack("<d", value)[0],
        "tenth of the number": lambda value: math.floor(value * 10),
        "wholeness": lambda value: int(float(value).is_integer()),
    },
    frozenset: {
        "number of answers": len,
        "hash of the least answer": lambda value: _hash(min(map(text_of, value))),
        "hash of the largest answer": lambda value: _hash(max(map(text_of, value))),
    },
}


def features_of(sample: Any) -> dict[str, Feature]:
    """Return features, by name, of values like `sample`; features of a tuple are also those of its
    parts."""
    every = {**FEATURES[object], **FEATURES.get(type(sample), {})}
    if isinstance(sample, tuple):
        for number, part in enumerate(sample):
            for name, look in features_of(part).items():
                every[f"{name} of part {number}"] = _of_part(number, look)
        every["order of the parts"] = lambda value: int(text_of(value[0]) < text_of(value[-1]))
    return every


def _of_part(number: int, feature: Feature) -> Feature:
    return lambda value: feature(value[number])


def looked(feature: Feature, value: Any) -> int | None:
    """Return a feature of a value; None for a value that has none."""
    try:
        return None if value is None else feature(value)
    except (ParameterError, TypeError, ValueError, IndexError, OverflowError, struct.error):
        return None


class Atom(NamedTuple):
    """Condition on an event, in words.

    `has_row`: it is about the row, which may not be drawn yet.
    """

    sentence: str
    holds: Callable[[Event], bool]
    has_row: bool = False


def _epoch_number(event: Event) -> int | None:
    digits = re.search(r"\d+$", event.epoch or "")
    return int(digits[0]) if digits else None


def _quantities(features: Mapping[str, Feature]) -> dict[str, list[tuple[str, Quantity]]]:
    """Return quantities, each with its name, grouped by what they describe."""

    def of(feature: Feature, is_before: bool) -> Quantity:
        return lambda event: looked(feature, event.before if is_before else event.value)

    def metric(event: Event) -> int | None:
        return None if event.metric is None else _hash(event.metric)

    return {
        "value": [(f"{name} of the value", of(f, False)) for name, f in features.items()],
        "before": [(f"{name} of the value before", of(f, True)) for name, f in features.items()],
        "call": [("call", lambda event: event.call)],
        "row": [("row", lambda event: event.row)],
        "epoch": [("number of the epoch", _epoch_number)],
        "metric": [("hash of the metric's name", metric)],
        "device": [("device", lambda event: event.device)],
    }


def _predicate(
    generator: np.random.Generator, seen: Sequence[int]
) -> tuple[str, Callable[[int], bool]]:
    """Draw a predicate, in words, that holds for one of the integers `seen`."""
    pick, end = (seen[int(generator.integers(len(seen)))] for _ in range(2))
    low, high = sorted((pick, end))
    digit, odd, bit = abs(pick) % 10, pick.bit_count() & 1, int(generator.integers(6))
    modulus = round(2 * (MOST_RESIDUE / 2) ** generator.random())
    residue = (f"is {pick % modulus} modulo {modulus}", lambda q: q % modulus == pick % modulus)
    predicates: list[tuple[str, Callable[[int], bool]]] = [
        (f"is from {low} to {high}", lambda q: low <= q <= high),
        ("is a power of two", lambda q: q > 0 and q & (q - 1) == 0),
        (f"ends in the digit {digit}", lambda q: abs(q) % 10 == digit),
        (f"has {odd} as the parity of its bits", lambda q: q.bit_count() & 1 == odd),
        (f"has {pick >> bit & 1} as bit {bit}", lambda q: (q ^ pick) >> bit & 1 == 0),
        *[residue] * 2,
    ]
    return predicates[generator.integers(len(predicates))]


def _relation(generator: np.random.Generator, features: Mapping[str, Feature]) -> Atom:
    """Draw an atom that compares the value with the value before, or the call with the device."""
    name = sorted(features)[int(generator.integers(len(features)))]
    turns = int(generator.integers(2, 17))
    turn = int(generator.integers(turns))

    def compares(is_met: Callable[[int, int], bool]) -> Callable[[Event], bool]:
        def holds(event: Event) -> bool:
            now, before = (looked(features[name], v) for v in (event.value, event.before))
            return now is not None and before is not None and is_met(now, before)

        return holds

    atoms = (
        Atom("the value is that before", lambda event: event.value == event.before),
        Atom("the value is not that before", lambda e: e.before not in (None, e.value)),
        Atom(f"the {name} rises", compares(lambda now, before: now > before)),
        Atom(f"the {name} is that before", compares(lambda now, before: now == before)),
        Atom("no value was before", lambda event: event.before is None),
        Atom(
            f"call plus device is {turn} modulo {turns}",
            lambda event: (event.call + event.device) % turns == turn,
        ),
    )
    return atoms[generator.integers(len(atoms))]


def _atom(
    generator: np.random.Generator, features: Mapping[str, Feature], sample: Sequence[Event]
) -> Atom:
    """Draw an atom of something that events of `sample` have."""
    quantities = _quantities(features)
    while True:
        subject = [*quantities, "value", "relation"][generator.integers(len(quantities) + 2)]
        if subject == "relation":
            return _relation(generator, features)
        name, quantity = quantities[subject][int(generator.integers(len(quantities[subject])))]
        seen = sorted(q for event in sample[:500] if (q := quantity(event)) is not None)
        if not seen or seen[0] == seen[-1]:
            continue
        sentence, holds = _predicate(generator, seen)

        def meets(event: Event, look: Quantity = quantity, is_met: Any = holds) -> bool:
            quantity = look(event)
            return quantity is not None and is_met(quantity)

        return Atom(f"the {name} {sentence}", meets, subject == "row")


class View(NamedTuple):
    """Report as a fault sees it.

    `event`: its event; `parts`: its parts, as far as the program knows them; `number`: number of
    the part that the fault changes; `cells`: cells of that part which it takes for true.
    """

    event: Event
    parts: list[Part]
    number: int
    cells: Sequence[int]

    @property
    def part(self) -> Part:
        return self.parts[self.number]

    @property
    def clear(self) -> int:
        return clear(self.part.layout, self.cells, self.part.number)

    @property
    def every(self) -> int:
        """All columns, as bits."""
        return (1 << self.part.layout.columns) - 1


Sight = tuple[bool, float] | None
Target = Callable[[View, Memory], int | None]
Key = Callable[[View], Hashable]
Mask = Callable[[View], int]


class Fault(NamedTuple):
    """Fault in a part of a report.

    `payload`: returns what leaves, None for the honest payload. `sight`: returns what
    `Cheat.statistic` does, given the honest law of the part. `content`: returns what of the payload
    is kept, under a `key`, for later reports.
    """

    sentence: str
    payload: Target
    sight: Callable[[View, Law, Memory], Sight]
    content: Callable[[View, int], Any] = lambda view, number: None
    key: Key = lambda view: None
    keeps_first: bool = False

    def keep(self, view: View, number: int, memory: Memory) -> None:
        """Keep what later reports need of the payload `number`, which left."""
        key = self.key(view)
        if not (self.keeps_first and key in memory.state):
            memory.state[key] = self.content(view, number)


def aimed(
    sentence: str,
    target: Target,
    mask: Mask = lambda view: view.every,
    has_coins: bool = False,
    fixes: bool = False,
    **keeping: Any,
) -> Fault:
    """Return a fault that sends a `target` which the knowing test can compute too.

    A bitmap equals the target in the columns of `mask`; its other columns are honest, or coins.
    With `fixes`, the test also compares the column of a signed payload.
    """

    def payload(view: View, memory: Memory) -> int | None:
        aim, columns, sent = target(view, memory), view.part.layout.columns, mask(view)
        if aim is None or not view.part.layout.is_bitwise:
            return aim
        others = memory.bits.draw(columns) if has_coins else view.part.number
        return (aim & sent | others & ~sent) & view.every

    def sight(view: View, law: Law, memory: Memory) -> Sight:
        aim, number, looked_at = target(view, memory), view.part.number, mask(view) & view.every
        if aim is None or not looked_at:
            return None
        if law.layout.is_bitwise:
            most, chance = law.of_agreement(aim, looked_at)
            return ((number ^ aim) & looked_at).bit_count() <= most, chance
        return number == aim, law.of_payload(aim) if fixes else law.of_sign(aim)

    return Fault(sentence, payload, sight, **keeping)


def best(draws: int) -> Fault:
    """Return a fault that sends the most truthful of several draws."""

    def payload(view: View, memory: Memory) -> int:
        numbers = [view.part.redrawn(memory.bits) for _ in range(draws - 1)]
        layout = view.part.layout

        def score(number: int) -> int:
            if layout.is_bitwise:
                return -(number ^ view.clear).bit_count()
            return is_true(layout, view.cells, number)

        return max((view.part.number, *numbers), key=score)

    def sight(view: View, law: Law, memory: Memory) -> Sight:
        if law.layout.is_bitwise:
            most, chance = law.of_agreement(view.clear, view.every)
            return (view.part.number ^ view.clear).bit_count() <= most, chance
        return is_true(law.layout, view.cells, view.part.number), law.of_truth(view.cells)

    return Fault(f"sends the most truthful of {draws} draws", payload, sight)


def congruent(modulus: int) -> Fault:
    """Return a fault that sends a uniform payload with the right sum of columns modulo `modulus`.

    Where bits are independent, the payload has the right parity of the number of ones instead.
    """

    def payload(view: View, memory: Memory) -> int | None:
        layout = view.part.layout
        if layout.is_bitwise:
            word = memory.bits.draw(layout.columns)
            return word ^ (word ^ view.clear).bit_count() & 1
        if layout.outcomes > MOST_OUTCOMES:
            return None
        alike = _congruent(layout, modulus, _sum(layout, view.clear, modulus))
        return alike[uniform_below(memory.bits, len(alike))]

    def sight(view: View, law: Law, memory: Memory) -> Sight:
        layout, number = view.part.layout, view.part.number
        if layout.is_bitwise:
            bias = sum(share * _evenness(law, len(cells)) for share, cells in law.alternatives)
            differs = (number ^ view.clear).bit_count() & 1
            return not differs, (1 + (-bias if view.clear.bit_count() & 1 else bias)) / 2
        if layout.outcomes > MOST_OUTCOMES:
            return None
        alike = _congruent(layout, modulus, _sum(layout, view.clear, modulus))
        return number in alike, min(1.0, sum(map(law.of_payload, alike)))

    return Fault(f"sends any payload that keeps the columns modulo {modulus}", payload, sight)


def _evenness(law: Law, touches: int) -> float:
    """Return P(number of ones is even) - P(it is odd) for independent bits."""
    others = law.layout.columns - touches
    return float((1 - 2 * law.touched) ** touches * (1 - 2 * law.untouched) ** others)


def _sum(layout: Layout, number: int, modulus: int) -> int:
    return sum(cells_of(layout, number)) % modulus


@lru_cache(maxsize=256)
def _congruent(layout: Layout, modulus: int, rest: int) -> list[int]:
    return [n for n in layout.numbers() if _sum(layout, n, modulus) == rest]


def noise_of(view: View, number: int) -> int:
    """Return the noise in a payload: flipped bits, a flipped sign, or a distance of columns."""
    layout, truth = view.part.layout, view.clear
    if layout.is_bitwise or layout.is_signed:
        return number ^ truth
    return (cells_of(layout, number)[0] - cells_of(layout, truth)[0]) % layout.columns


def with_noise(view: View, noise: int) -> int:
    """Return the true payload with this noise."""
    layout, truth = view.part.layout, view.clear
    if layout.is_bitwise:
        return truth ^ noise & view.every
    if layout.is_signed:
        return truth ^ noise & 1
    if isinstance(layout, Subset):
        return as_bits((cell + noise) % layout.columns for cell in cells_of(layout, truth))
    return (truth + noise) % layout.columns


class Draft(NamedTuple):
    """Choices from which a fault is drawn: a generator, a part's layout and number, and
    features."""

    generator: np.random.Generator
    layout: Layout
    number: int
    features: Mapping[str, Feature]

    def below(self, bound: int) -> int:
        return int(self.generator.integers(bound))

    @property
    def has_many_bits(self) -> bool:
        return self.layout.is_bitwise and self.layout.columns > 1

    def mask(self) -> tuple[str, Mask]:
        """Draw a part of the columns, in words and as bits."""
        columns, steps = self.layout.columns, 2 + self.below(3)
        rest = self.below(min(steps, columns))
        chosen = as_bits(range(rest, columns, steps))
        masks: tuple[tuple[str, Mask], ...] = (
            (f"the columns that are {rest} modulo {steps}", lambda view: chosen),
            ("the lower columns", lambda view: (1 << (columns + 1) // 2) - 1),
            ("the higher columns", lambda view: view.every >> columns // 2 << columns // 2),
        )
        return masks[self.below(len(masks))]


def _truth(view: View, memory: Memory) -> int:
    return view.clear


def _stream(view: View) -> tuple[Hashable, ...]:
    return view.event.mechanism.fingerprint, view.event.metric, view.number


def _plain(draft: Draft) -> Fault:
    shift = draft.below(2) * (1 + draft.below(MOST_RESIDUE))
    words = f"sends the truth, changed by the constant {shift}" if shift else "sends the truth"
    return aimed(words, lambda view, memory: with_noise(view, shift))


def _weaker(draft: Draft) -> Fault:
    faults = [best(2 + draft.below(4))]
    if draft.has_many_bits:
        words, mask = draft.mask()
        faults += [
            aimed(f"adds no noise in {words}", _truth, mask),
            aimed("never clears a true bit", _truth, lambda view: view.clear),
            aimed("never sets a false bit", _truth, lambda view: ~view.clear),
        ]
    return faults[draft.below(len(faults))]


def _seeded(words: str, seed: Callable[[Event], Hashable]) -> Fault:
    def target(view: View, memory: Memory) -> int:
        return view.part.redrawn(SeededBits(repr((view.number, seed(view.event))).encode()))

    return aimed(f"seeds its generator with {words}", target, fixes=True)


def _old_noise(words: str, key: Key, first: bool = False) -> Fault:
    def target(view: View, memory: Memory) -> int | None:
        noise = memory.state.get(key(view))
        return None if noise is None else with_noise(view, noise)

    return aimed(f"adds {words}", target, content=noise_of, key=key, keeps_first=first)


def _shared(draft: Draft) -> Fault:
    turns, half = 1 + draft.below(8), draft.layout.columns // 2

    def halves(view: View, memory: Memory) -> int | None:
        if len(view.part._replace(permanent=None).law.alternatives) > 1:
            return None  # the lower half tells how the value was rounded
        lower = noise_of(view, view.part.number) & (1 << half) - 1
        return with_noise(view, lower << half)

    def before(view: View, memory: Memory) -> int:
        other = view._replace(number=view.number - 1)
        noise = noise_of(other._replace(cells=other.part.cells), other.part.number)
        return with_noise(view, noise)

    coins = aimed("uses each coin for two columns", halves, lambda view: (1 << half) - 1 << half)
    faults = [
        _seeded("a constant", lambda event: 0),
        _seeded(f"the call modulo {turns}", lambda event: event.call % turns),
        _seeded(f"the device modulo {turns}", lambda event: event.device % turns),
        _seeded("epoch and row", lambda event: (event.epoch, event.row)),
        _old_noise("the noise of the device's last report", lambda view: view.event.device),
        _old_noise("the noise of the device's first report", lambda view: view.event.device, True),
        _old_noise("the noise of another person's last report", _stream),
        *[coins] * (2 * draft.has_many_bits),
        *[aimed("adds the noise of the part before", before)] * (5 * (draft.number > 0)),
    ]
    return faults[draft.below(len(faults))]


def _lie(draft: Draft) -> Fault:
    layout = draft.layout
    name = sorted(draft.features)[draft.below(len(draft.features))]
    modulus = 2 + draft.below(7)

    def key(view: View) -> Hashable:
        residue = looked(draft.features[name], view.event.value)
        return _stream(view), None if residue is None else residue % modulus

    def other(view: View, memory: Memory) -> int | None:
        value = memory.state.get(key(view))
        if value is None or value == view.part.value:
            return None
        part = view.part._replace(value=value, permanent=None)
        return clear(part.layout, part.cells, part.number)

    words = f"sends the last other value of the same {name} modulo {modulus}"
    faults = [aimed(words, other, content=lambda view, number: view.part.value, key=key)]
    if draft.has_many_bits:
        words, mask = draft.mask()
        words = f"keeps the truth in {words} and throws coins for the others"
        faults += [aimed(words, _truth, mask, has_coins=True), congruent(2)]
    elif layout.is_signed:
        low = (1 << max(1, layout.columns.bit_length() // 2)) - 1
        bits = (low, ~low)[draft.below(2)]

        def sign(view: View, memory: Memory) -> int:
            return clear(view.part.layout, [view.cells[0] & bits], view.part.number)

        faults.append(aimed("sends the sign of a part of the cell's bits", sign))
    elif isinstance(layout, Index | Subset) and 3 < layout.outcomes <= MOST_OUTCOMES:
        faults += [congruent(2 + draft.below(max(1, layout.columns // 2 - 1)))] * 2
    return faults[draft.below(len(faults))]


def _repeated(draft: Draft) -> Fault:
    turns, first = 2 + draft.below(15), bool(draft.below(2))

    def value(view: View) -> int | None:
        return looked(_hash, view.part.value)

    keys: list[tuple[str, Key]] = [
        ("of this device", lambda view: view.event.device),
        ("of this device about the value", lambda view: (view.event.device, value(view))),
        ("of this device in the same row", lambda view: (view.event.device, view.part.row)),
        (f"within {turns} calls", lambda view: (view.event.device, view.event.call // turns)),
        (f"in turns of {turns}", lambda view: (view.event.device, view.event.call % turns)),
        ("of anybody about the value", value),
    ]
    if not draft.below(4):
        return _seeded(
            f"the value and the device modulo {turns}",
            lambda event: (looked(_hash, event.value), event.device % turns),
        )
    words, chosen = keys[draft.below(len(keys))]

    def key(view: View) -> Hashable:
        return _stream(view), chosen(view)

    return aimed(
        f"repeats the {'first' if first else 'last'} payload {words}",
        lambda view, memory: memory.state.get(key(view)),
        fixes=True,
        content=lambda view, number: number,
        key=key,
        keeps_first=first,
    )


FAULTS: Mapping[str, Callable[[Draft], Fault]] = dict(
    zip(WRONGS, (_plain, _weaker, _shared, _lie, _repeated), strict=True)
)


@dataclass(frozen=True)
class HeldOut:
    """Cheat of this grammar: a `fault` in a part, with probability `strength`, where `atoms` hold.

    `is_blind`: the program does not know permanent responses. `of_permanent`: it takes the
    permanent response for the truth.
    """

    wrong: str
    atoms: tuple[Atom, ...]
    fault: Fault
    strength: float
    kind: type[Layout]
    number: int
    is_blind: bool
    of_permanent: bool

    @property
    def sentence(self) -> str:
        where = " and ".join(atom.sentence for atom in self.atoms)
        about = ", about the permanent response," if self.of_permanent else ""
        return (
            f"{self.fault.sentence}{about} in part {self.number} of a report, if that is of the"
            f" kind {self.kind.__name__}, with probability {self.strength}, where {where}"
        )

    def holds(self, event: Event) -> bool:
        every = parts_of(event.mechanism)
        is_kind = type(every[self.number % len(every)].layout) is self.kind
        atoms = (atom for atom in self.atoms if not (atom.has_row and event.row is None))
        return is_kind and all(atom.holds(event) for atom in atoms)

    def _view(self, event: Event, report: bytes) -> View:
        blind = event._replace(permanent=None) if self.is_blind else event
        every = parts(blind, report)
        number = self.number % len(every)
        part = every[number]
        if self.of_permanent and part.permanent is not None:
            return View(blind, every, number, cells_of(part.layout, part.permanent))
        return View(blind, every, number, part.cells)

    def alter(self, event: Event, memory: Memory) -> bytes:
        if not self.holds(event):
            return event.report
        view = self._view(event, event.report)
        payload = self.fault.payload(view, memory)
        if payload is None or memory.bits.draw(64) >= scaled(self.strength):
            payload = view.part.number
        self.fault.keep(view, payload, memory)
        return replaced(event, view.number, payload)

    def statistic(self, event: Event, report: bytes, memory: Memory) -> tuple[bool, float] | None:
        view = self._view(event, report)
        sight = self.fault.sight(view, parts(event, report)[view.number].law, memory)
        self.fault.keep(view, view.part.number, memory)
        return sight


def _sample(subject: Subject, generator: np.random.Generator) -> list[Event]:
    """Draw events of the stated lives, without reports, with rows and devices of their own."""

    def row(event: Event) -> int:
        return int(generator.integers(parts_of(event.mechanism)[0].shape.rows))

    events = (event for event, _ in islice(lives(subject, generator), SAMPLE))
    sample = [
        event._replace(row=row(event), device=int(generator.integers(1 << 12))) for event in events
    ]
    return [sample[i] for i in generator.permutation(len(sample))]


def _condition(
    generator: np.random.Generator,
    features: Mapping[str, Feature],
    subject: Subject,
    metric: str | None,
) -> tuple[Atom, ...]:
    """Draw a condition that holds on 1 % of the inputs or more.

    With `metric`, the first atom is that the event is of this metric.
    """
    sample = _sample(subject, generator)
    only = Atom(f"the metric is {metric}", lambda event: event.metric == metric)
    atoms: tuple[Atom, ...] = ()
    for _ in range(TRIES):
        atoms = (only,) if metric is not None else ()
        for _ in range(1 + int(generator.integers(2)) - len(atoms)):
            atoms += (_atom(generator, features, sample),)
        share = sum(all(atom.holds(e) for atom in atoms) for e in sample) / len(sample)
        if atoms and share >= LEAST_SHARE:
            return atoms
    return atoms[:1]


def draw_of(generator: np.random.Generator, subject: Subject, wrong: str) -> HeldOut:
    """Draw a cheat with the fault `wrong`, one of `WRONGS`."""
    about = subject.metrics[generator.integers(len(subject.metrics))]
    events = lives(subject._replace(metrics=(about,)), generator)
    features = features_of(next(event.value for event, _ in events if event.value))
    is_only = about.name is not None and generator.random() < 0.5
    atoms = _condition(generator, features, subject, about.name if is_only else None)
    every = parts_of(about.mechanism)
    number = int(generator.integers(len(every)))
    fault = FAULTS[wrong](Draft(generator, every[number].layout, number, features))
    strength = round(float(generator.uniform(0.25, 1.0)), 2)
    is_blind = subject.path == "typescript"
    of_permanent = every[number].is_memoisable and not is_blind and generator.random() < 0.5
    kind = type(every[number].layout)
    return HeldOut(wrong, atoms, fault, strength, kind, number, is_blind, of_permanent)


def draw(generator: np.random.Generator, subject: Subject) -> HeldOut:
    """Draw a cheat for what is audited."""
    return draw_of(generator, subject, WRONGS[generator.integers(len(WRONGS))])
