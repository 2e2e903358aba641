"""Audit of messages for a shuffler: a record's messages against their law, and the certificate of a
batch against enumeration.

One person's messages have no privacy claim of their own. The audit checks that all records become
the same number of messages; how many of them name the record's value, and how many name any value;
the law of all messages together, or of each two, and of each place; that records are independent;
that devices draw by the same numbers that are certified; and that the delta of small batches is
never below the sum over all that could be opened. No audit sees that devices run this encoder, or
that a relay shuffles.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import Any

import numpy as np

from ldp.arrays import Floats, Ints, binomial_law
from ldp.audit.judging import Checks, judge
from ldp.errors import ReportError
from ldp.mechanisms.base import threshold
from ldp.mechanisms.dummies import Dummies
from ldp.privacy_loss import DummyMessages
from ldp.protocol.hashing import Value
from ldp.protocol.randomness import ONE
from ldp.protocol.wire import pack_report

EncodeMessages = Callable[[Value], bytes]
SentColumns = tuple[int, ...]
MessageLaw = Mapping[SentColumns, float]
MOST_TRIED = 10
"""Largest number of categories whose records are drawn."""
FEW_TRIED = 4
"""Largest number of categories whose records are drawn by encoders that cheat."""
MOST_RECORDS = 200
"""Largest number of different dummies of a record of which each is counted."""
CLASSES = 32
"""Largest number of classes of columns whose pairs are counted."""
EPSILONS = (0.1, 0.5, 1.0, 2.0)
"""Epsilons at which the delta of a small batch is compared."""
PEOPLE, VALUES, SLOTS = 3, 3, 2
"""Size of the small batch: what it has at most."""


def message_columns(mechanism: Dummies, record: bytes) -> SentColumns:
    """Return the column of each message of a record. Raises ReportError for other bytes, and for
    another number of messages."""
    messages = mechanism.split(record)
    if len(messages) != mechanism.messages:
        raise ReportError(f"{len(messages)} messages, stated are {mechanism.messages}")
    payloads = (mechanism.row_and_payload(one)[1] for one in messages)
    return tuple(map(mechanism.layout.payload_number, payloads))


def record_law(mechanism: Dummies) -> dict[tuple[int, int], float]:
    """Return the probabilities of (messages that name the person's value, messages that name any
    value) of a record."""
    law = defaultdict[tuple[int, int], float](float)
    share = 1 / len(mechanism.categories)
    slots = binomial_law(mechanism.slots, mechanism.probability)
    for sent, dummies in product((0, 1), range(mechanism.slots + 1)):
        chance = mechanism.sending if sent else 1 - mechanism.sending
        chance *= slots[dummies]
        for own, among in enumerate(binomial_law(dummies, share)):
            key = sent + own, sent + dummies
            law[key] += float(chance * among)
    return dict(law)


def record_checks(
    mechanism: Dummies, encode: EncodeMessages, trials: int, most: int = MOST_TRIED
) -> list[Checks]:
    """Return the checks of `trials` records of each of the first `most` values, or one more,
    encoded by twos (a, a, b, b, a, a, ...). Checked are the numbers of messages that name the value
    and that name any, the column at each place, each two columns of a record, independence of the
    record before, and all messages together where there are at most MOST_RECORDS different sets of
    dummies. Raises ReportError for bytes that are no record."""
    values, checks = mechanism.categories[:most], list[Checks]()
    values_and_slots = len(mechanism.categories) + mechanism.slots
    has_few_records = math.comb(values_and_slots, mechanism.slots) <= MOST_RECORDS
    for first, second in zip(values[::2], (*values[1::2], values[0]), strict=False):
        order = [first, first, second, second] * math.ceil(trials / 2)
        columns = np.array([message_columns(mechanism, encode(value)) for value in order])
        for number, value in enumerate((first, second)):
            records = columns.reshape(-1, 2, 2, mechanism.messages)[:, number]
            checks += _value_checks(mechanism, value, records.reshape(-1, mechanism.messages))
            if has_few_records:
                checks.append(_multiset_checks(mechanism, value, records))
        checks += _pair_checks(mechanism, first, second, columns)
    return checks


def _value_checks(mechanism: Dummies, value: Value, records: Ints) -> list[Checks]:
    """Return the checks of how many messages name this value and how many any, and of each place.
    `records`: columns, shape (trials, messages)."""
    law, width, trials = record_law(mechanism), len(mechanism.categories), len(records)
    own = mechanism.addressing.point(value)
    counts = (records == own).sum(axis=1).tolist(), (records < width).sum(axis=1).tolist()
    pairs = Counter(zip(*counts, strict=True))
    checks = [_against(f"records of {value!r}", pairs, law, trials)]
    touched, untouched = mechanism.channel.chances
    chances = dict.fromkeys(range(width), untouched) | {own: touched}
    chances[width] = 1 - sum(chances.values())
    for place in range(mechanism.messages):
        seen = Counter(records[:, place].tolist())
        checks.append(_against(f"message {place} of {value!r}", seen, chances, trials))
    return checks


def _multiset_checks(mechanism: Dummies, value: Value, records: Ints) -> Checks:
    """Return the check of all messages of a record, in any order."""
    width, own = len(mechanism.categories), mechanism.addressing.point(value)
    rows = records.reshape(-1, mechanism.messages)
    counts = (rows[:, :, None] == np.arange(width)).sum(axis=1)
    seen = Counter(map(tuple, counts.tolist()))
    law = _person(DummyMessages.of(mechanism), own)
    return _against(f"all messages of {value!r}", seen, law, len(rows))


def _pair_checks(mechanism: Dummies, first: Value, second: Value, columns: Ints) -> list[Checks]:
    """Return the checks of how many records name each two columns, and of how many name one and the
    next record another. `columns`: the columns of records of `first` and `second` by twos, shape
    (records, messages). Columns CLASSES apart count as one, but empty messages by themselves."""
    width = len(mechanism.categories)
    size = min(CLASSES, width)
    classes = np.where(columns < width, columns % size, size)
    numbers = (classes[:, :, None] == np.arange(size + 1)).sum(axis=1).reshape(-1, 4, size + 1)
    has = (numbers > 0).astype(np.float64)
    laws = [_class_laws(mechanism, value, size) for value in (first, second)]
    checks = list[Checks]()
    upper, values = np.triu_indices(size + 1), (first, second)
    for number, value in enumerate(values):
        places = slice(2 * number, 2 * number + 2)
        some = has[:, places].reshape(-1, size + 1)
        both = some.T @ some
        np.fill_diagonal(both, (numbers[:, places] > 1).sum(axis=(0, 1)))
        checks.append(_table(f"pairs of {value!r}", both[upper], len(some), laws[number][1][upper]))
    for a, b in ((0, 1), (1, 2), (2, 3)):
        chance = np.outer(laws[a // 2][0], laws[b // 2][0]).ravel()
        seen = (has[:, a].T @ has[:, b]).ravel()
        before, after = (values[number // 2] for number in (a, b))
        name = f"a record of {after!r} after one of {before!r}"
        checks.append(_table(name, seen, len(has), chance))
    return checks


def _class_laws(mechanism: Dummies, value: Value, size: int) -> tuple[Floats, Floats]:
    """Return the probabilities that a record names each class, shape (size + 1,), and each two, or
    one twice, shape (size + 1, size + 1)."""
    width, slots = len(mechanism.categories), mechanism.slots
    dummy = np.bincount(np.arange(width) % size, minlength=size + 1) / width * mechanism.probability
    dummy[size] = 1 - mechanism.probability
    own = np.zeros(size + 1)
    own[mechanism.addressing.point(value) % size] = mechanism.sending
    own[size] = 1 - mechanism.sending

    def none(own: Floats, dummy: Floats) -> Floats:
        return np.asarray(np.maximum(1 - own, 0) * np.maximum(1 - dummy, 0) ** slots)

    without = none(own, dummy)
    neither = none(own[:, None] + own, dummy[:, None] + dummy)
    both = 1 - without[:, None] - without + neither
    rest = np.maximum(1 - dummy, 0)
    once = own * rest**slots + (1 - own) * slots * dummy * rest ** (slots - 1)
    np.fill_diagonal(both, 1 - without - once)
    return 1 - without, both


def _table(what: str, seen: Floats, trials: int, chances: Floats) -> Checks:
    return what, seen.astype(np.int64), np.full(seen.size, trials), np.clip(chances, 0.0, 1.0)


def _against(what: str, seen: Mapping[Any, int], law: dict[Any, float], trials: int) -> Checks:
    """Return the checks of counts against their probabilities, 0 for what has none."""
    law = dict.fromkeys(seen, 0.0) | law
    observed = np.array([seen.get(key, 0) for key in law], dtype=np.int64)
    return what, observed, np.full(len(law), trials), np.clip([*law.values()], 0.0, 1.0)


def message_findings(mechanism: Dummies) -> list[str]:
    """Return what refutes the certificate, a sentence each: a device that draws by other numbers
    than are certified, and a delta of a small batch below the enumerated one."""
    findings = []
    shares = {"sending": mechanism.sending, "probability": mechanism.probability}
    for name, share in shares.items():
        if Fraction(threshold(Fraction(share)), ONE) != share:
            findings.append(f"{name} is drawn as another number than {float(share)!r}")
    whole = DummyMessages.of(mechanism)
    small = replace(whole, values=min(VALUES, whole.values), slots=min(SLOTS, whole.slots))
    for people, epsilon in product(range(1, PEOPLE + 1), EPSILONS):
        delta, least = small.delta(epsilon, reports=people), enumerated(small, people, epsilon)
        if delta * (1 + 1e-9) < least:
            findings.append(f"delta of {people} people at {epsilon} is {least}, certified {delta}")
    return findings


def enumerated(messages: DummyMessages, people: int, epsilon: float) -> float:
    """Return delta at `epsilon` by its definition, for a batch of a few `people` and somebody who
    knows all values but one: a sum over all counts of messages that the collector can see."""
    nothing = (0,) * messages.values
    others = reduce(_joined, [_person(messages, None)] * (people - 1), {nothing: 1.0})
    first, second = (_joined(others, _person(messages, value)) for value in (0, 1))
    return math.fsum(max(0.0, p - math.exp(epsilon) * second.get(z, 0.0)) for z, p in first.items())


def _joined(first: MessageLaw, second: MessageLaw) -> dict[SentColumns, float]:
    law = defaultdict[SentColumns, float](float)
    for (a, p), (b, q) in product(first.items(), second.items()):
        law[tuple(x + y for x, y in zip(a, b, strict=True))] += p * q
    return dict(law)


def _person(messages: DummyMessages, value: int | None) -> dict[SentColumns, float]:
    """Return the law of the numbers of messages of one person. Without a value it is the law of the
    dummies."""
    d, nothing = messages.values, (0,) * messages.values

    def one(value: int) -> SentColumns:
        return tuple(int(place == value) for place in range(d))

    uniform = {one(v): messages.probability / d for v in range(d)}
    parts = [{nothing: 1 - messages.probability, **uniform}] * messages.slots
    if value is not None:
        parts += [{nothing: 1 - messages.sending, one(value): messages.sending}]
    return reduce(_joined, parts, {nothing: 1.0})


ColumnChange = Callable[[list[int], int, int, list[list[int]]], list[int]]
"""Function that changes the columns of a record's messages. It takes these, the column of the
value, the column of empty messages, and the records that were sent before."""


def _dummies(columns: list[int], own: int, empty: int) -> list[int]:
    """Return the places of dummies: all that are full but one that names the value."""
    full = [place for place, column in enumerate(columns) if column < empty]
    return [place for place in full if columns[place] != own] + [
        place for place in full if columns[place] == own
    ][1:]


def _emptied(is_left_out: Callable[[int, int, int], bool]) -> ColumnChange:
    """Return the change that empties the dummies of which `is_left_out` says so, from the number of
    dummies before, the dummy's column and the value's."""

    def change(columns: list[int], own: int, empty: int, _: list[list[int]]) -> list[int]:
        dummies = _dummies(columns, own, empty)
        left_out = [p for n, p in enumerate(dummies) if is_left_out(n, columns[p], own)]
        return [empty if place in left_out else c for place, c in enumerate(columns)]

    return change


def _second(column: Callable[[int, int], int]) -> ColumnChange:
    """Return the change that makes the second dummy from the first one's column and the number of
    categories."""

    def change(columns: list[int], own: int, empty: int, _: list[list[int]]) -> list[int]:
        dummies = _dummies(columns, own, empty)
        if len(dummies) > 1:
            columns[dummies[1]] = column(columns[dummies[0]], empty)
        return columns

    return change


def _cycling(columns: list[int], own: int, empty: int, before: list[list[int]]) -> list[int]:
    for number, place in enumerate(_dummies(columns, own, empty)):
        columns[place] = (len(before) + number) % empty
    return columns


def _repeated(columns: list[int], own: int, _: int, before: list[list[int]]) -> list[int]:
    is_second = len(before) % 2 == 1 and own in before[-1]
    return before[-1] if is_second else columns


CHEATS: Mapping[str, ColumnChange] = {
    "no dummies": _emptied(lambda *_: True),
    "a dummy fewer": _emptied(lambda number, *_: number == 0),
    "no dummy of the own value": _emptied(lambda _, column, own: column == own),
    "the own value first": lambda columns, own, *_: sorted(columns, key=lambda c: c != own),
    "a message more": lambda columns, _, empty, __: [*columns, empty],
    "cycling dummies": _cycling,
    "a record repeated": _repeated,
}
"""Encoders that cheat, made of an honest one: what each makes of a record's messages."""
CHEATS_OF_TWO: Mapping[str, ColumnChange] = {
    "equal dummies": _second(lambda first, _: first),
    "dummies that cancel": _second(lambda first, categories: categories - 1 - first),
}
"""Encoders that cheat with records of two dummies or more."""


def cheating(mechanism: Dummies, change: ColumnChange) -> EncodeMessages:
    """Return an encoder that sends changed records."""
    encode, empty = mechanism.encoder().encode, len(mechanism.categories)
    before: list[list[int]] = []

    def cheat(value: Value) -> bytes:
        columns = [*message_columns(mechanism, encode(value))]
        changed = change(columns, mechanism.addressing.point(value), empty, before)
        before.append(changed)
        return b"".join(pack_report(mechanism.header, mechanism.layout, 0, c) for c in changed)

    return cheat


def caught(mechanism: Dummies, trials: int, alpha: float) -> dict[str, bool]:
    """Return which of the CHEATS `trials` records of each of FEW_TRIED values show."""

    def is_caught(change: ColumnChange) -> bool:
        try:
            checks = record_checks(mechanism, cheating(mechanism, change), trials, FEW_TRIED)
        except ReportError:
            return True
        return not judge(checks, alpha).passed

    cheats = {**CHEATS, **(CHEATS_OF_TWO if mechanism.slots > 1 else {})}
    return {name: is_caught(change) for name, change in cheats.items()}
