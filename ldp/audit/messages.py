"""Audit of messages for a shuffler: a record's messages against their law, and the certificate of a
batch against enumeration.

Nothing can be claimed of one person's messages. What is checked: that a record always becomes as
many, in a random order; how many of them name its value, and how many any value; that devices draw
by the very numbers that are certified; and that delta of small batches is never below the sum over
all that could be opened. That devices run this encoder, and that a relay shuffles, no audit sees.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
from scipy.stats import binom

from ldp.audit.judging import Checks, judge
from ldp.errors import ReportError
from ldp.mechanisms.base import threshold
from ldp.mechanisms.dummies import Dummies
from ldp.privacy_loss import DummyMessages
from ldp.protocol.hashing import Value
from ldp.protocol.randomness import PROBABILITY_ONE
from ldp.protocol.wire import pack_report, split_report

Encode = Callable[[Value], bytes]
Columns = tuple[int, ...]
Law = Mapping[Columns, float]
MOST_TRIED = 20
"""Largest number of categories whose records are drawn."""
EPSILONS = (0.1, 0.5, 1.0, 2.0)
"""At which delta of a small batch is compared."""
PEOPLE, VALUES, SLOTS = 3, 3, 2
"""Size of the small batch: what it has at most."""


def columns_of(mechanism: Dummies, record: bytes) -> Columns:
    """Return the column of each message of a record; raise ReportError for other bytes, and for
    another number of messages."""
    messages = mechanism.split(record)
    if len(messages) != mechanism.messages:
        raise ReportError(f"{len(messages)} messages, stated are {mechanism.messages}")
    payloads = (split_report(one, mechanism.header, mechanism.layout)[1] for one in messages)
    return tuple(map(mechanism.layout.payload_number, payloads))


def record_law(mechanism: Dummies) -> dict[tuple[int, int], float]:
    """Return the probabilities of (messages that name the person's value, messages that name any
    value) of a record."""
    law: Counter[tuple[int, int]] = Counter()
    share = 1 / len(mechanism.categories)
    for sent, dummies in product((0, 1), range(mechanism.slots + 1)):
        chance = mechanism.sending if sent else 1 - mechanism.sending
        chance *= binom.pmf(dummies, mechanism.slots, mechanism.probability)
        for own in range(dummies + 1):
            key = sent + own, sent + dummies
            law[key] += float(chance * binom.pmf(own, dummies, share))  # type: ignore[assignment]
    return dict(law)


def record_checks(mechanism: Dummies, encode: Encode, trials: int) -> list[Checks]:
    """Return the checks of `trials` records of each of the first MOST_TRIED values: the law of a
    record, the column of the message at each place, and how often dummies name each other value.
    Raises ReportError for bytes that are no record."""
    law, width = record_law(mechanism), len(mechanism.categories)
    checks: list[Checks] = []
    for value in mechanism.categories[:MOST_TRIED]:
        own = mechanism.addressing.point(value)
        records = np.array([columns_of(mechanism, encode(value)) for _ in range(trials)])
        pairs = Counter(
            zip(
                (records == own).sum(axis=1).tolist(),
                (records < width).sum(axis=1).tolist(),
                strict=True,
            )
        )
        law |= dict.fromkeys(pairs.keys() - law.keys(), 0.0)
        checks.append(_against(f"records of {value!r}", pairs, law, trials))
        touched, untouched = map(float, (mechanism.channel.touched, mechanism.channel.untouched))
        chances = dict.fromkeys(range(width), untouched) | {own: touched}
        chances[width] = 1 - sum(chances.values())
        for place in range(mechanism.messages):
            seen = Counter(records[:, place].tolist())
            checks.append(_against(f"message {place} of {value!r}", seen, chances, trials))
    return checks


def _against(what: str, seen: Mapping[Any, int], law: Mapping[Any, float], trials: int) -> Checks:
    """Return the checks of counts against their probabilities."""
    observed = np.array([seen.get(key, 0) for key in law], dtype=np.int64)
    return what, observed, np.full(len(law), trials), np.clip([*law.values()], 0.0, 1.0)


def exact_findings(mechanism: Dummies) -> list[str]:
    """Return what refutes the certificate, a sentence each: a device that draws by other numbers
    than are certified, and a delta of a small batch below the enumerated one."""
    findings = []
    for name in ("sending", "probability"):
        stated = Fraction(getattr(mechanism, name))
        if Fraction(threshold(stated), PROBABILITY_ONE) != stated:
            findings.append(f"{name} is drawn as another number than {float(stated)!r}")
    small = DummyMessages(
        values=min(VALUES, len(mechanism.categories)),
        slots=min(SLOTS, mechanism.slots),
        probability=mechanism.probability,
        sending=mechanism.sending,
    )
    for people, epsilon in product(range(1, PEOPLE + 1), EPSILONS):
        delta, least = small.delta(epsilon, reports=people), enumerated(small, people, epsilon)
        if delta * (1 + 1e-9) < least:
            findings.append(f"delta of {people} people at {epsilon} is {least}, certified {delta}")
    return findings


def enumerated(messages: DummyMessages, people: int, epsilon: float) -> float:
    """Return delta at `epsilon` by its definition, for a batch of a few `people`: the sum over all
    numbers of messages that could be opened, for somebody who knows everybody else's value."""
    nothing = (0,) * messages.values
    others = reduce(_joined, [_person(messages, None)] * (people - 1), {nothing: 1.0})
    first, second = (_joined(others, _person(messages, value)) for value in (0, 1))
    return math.fsum(max(0.0, p - math.exp(epsilon) * second.get(z, 0.0)) for z, p in first.items())


def _joined(first: Law, second: Law) -> dict[Columns, float]:
    law: Counter[Columns] = Counter()
    for (a, p), (b, q) in product(first.items(), second.items()):
        law[tuple(x + y for x, y in zip(a, b, strict=True))] += p * q  # type: ignore[assignment]
    return dict(law)


def _person(messages: DummyMessages, value: int | None) -> dict[Columns, float]:
    """Return the law of the numbers of messages of one person; without a value, of the dummies."""
    d, nothing = messages.values, (0,) * messages.values

    def one(value: int) -> Columns:
        return tuple(int(place == value) for place in range(d))

    uniform = {one(v): messages.probability / d for v in range(d)}
    parts = [{nothing: 1 - messages.probability, **uniform}] * messages.slots
    if value is not None:
        parts += [{one(value): messages.sending, nothing: 1 - messages.sending}]
    return reduce(_joined, parts, {nothing: 1.0})


Change = Callable[[list[int], int, int], list[int]]
"""Change of the columns of a record's messages, from these, the value's and that of empty ones."""


def _emptied(is_left_out: Callable[[int, int, int], bool]) -> Change:
    """Return the change that empties the dummies of which `is_left_out` says so, from the number of
    dummies before, the dummy's column and the value's."""

    def change(columns: list[int], own: int, empty: int) -> list[int]:
        full = [place for place, column in enumerate(columns) if column < empty]
        dummies = [place for place in full if columns[place] != own]
        dummies += [place for place in full if columns[place] == own][1:]
        left_out = [p for n, p in enumerate(dummies) if is_left_out(n, columns[p], own)]
        return [empty if place in left_out else c for place, c in enumerate(columns)]

    return change


CHEATS: Mapping[str, Change] = {
    "no dummies": _emptied(lambda *_: True),
    "a dummy fewer": _emptied(lambda number, *_: number == 0),
    "no dummy of the own value": _emptied(lambda _, column, own: column == own),
    "the own value first": lambda columns, own, _: sorted(columns, key=lambda c: c != own),
    "a message more": lambda columns, _, empty: [*columns, empty],
}
"""Encoders that cheat, made of an honest one: what each makes of a record's messages."""


def cheating(mechanism: Dummies, change: Change) -> Encode:
    """Return an encoder that sends changed records."""
    encode, empty = mechanism.encoder().encode, len(mechanism.categories)

    def cheat(value: Value) -> bytes:
        columns = [*columns_of(mechanism, encode(value))]
        changed = change(columns, mechanism.addressing.point(value), empty)
        return b"".join(pack_report(mechanism.header, mechanism.layout, 0, c) for c in changed)

    return cheat


def caught(mechanism: Dummies, trials: int, alpha: float) -> dict[str, bool]:
    """Return which of the CHEATS the checks of `trials` records of each value catch."""

    def is_caught(change: Change) -> bool:
        try:
            checks = record_checks(mechanism, cheating(mechanism, change), trials)
        except ReportError:
            return True
        return not judge(checks, alpha).passed

    return {name: is_caught(change) for name, change in CHEATS.items()}
