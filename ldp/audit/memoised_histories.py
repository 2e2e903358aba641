"""Privacy loss of a history of reports: memoised encoders over many days of a value (check C).

The exact part: given the histories, the units of a report are independent. They are RAPPOR's bits,
or the whole report where it is one column. Of the reports of a unit that share a permanent response
only the number of times that each symbol is shown counts, so that the worst ratio is a maximum over
short lists. The part from outside: real encoders, each with a secret of its own, are distinguished
by all that they sent. Source: Erlingsson et al. 2014, section 3.2, for a value that never changes.
Changing values are this project's extension.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from math import log
from typing import NamedTuple

import numpy as np

from ldp.audit.black_box import reports_of, separation
from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.protocol.channel import exact_log
from ldp.protocol.hashing import Value

DayValues = tuple[Value, ...]
"""The value of each day; one report a day."""
TwoHistories = tuple[DayValues, DayValues]
MakeDevice = Callable[[], Callable[[Value], bytes]]
"""Makes a new device: its `encode`."""
DayKinds = tuple[tuple[tuple[int, int], tuple[int, int], int], ...]
"""Criterion by which a unit tells days apart: (which truth, its symbol) in either history, and how
many days. Reports of one truth share a permanent symbol."""
Times = tuple[int, ...]
"""How often a symbol is shown on each kind of day."""
DayEvidence = tuple[Times, ...]
"""Criterion of all symbols: of those that are true on some day by their numbers; of the others,
which are alike, only what was shown, in order."""
HistoryLaw = Mapping[DayEvidence, tuple[Fraction, ...]]
"""P(such reports | history), for two histories and up to a factor that they share."""
MOST, PARTS = 50.0, 8
"""Scores are cut at +-MOST: no number of devices can show so much. A unit has PARTS levels."""


def exact_epsilon(mechanism: MemoisedMechanism, pair: TwoHistories, memoise: str) -> Decimal:
    """Return the worst log-ratio of all that two histories of one length can send, in the worst
    cohort.

    `memoise`: "per-value" or "epoch". Exact where the keyed function is as good as random. Time:
    the different units x what each can show on all days.
    """
    worst, different = Fraction(1), set[frozenset[tuple[DayKinds, int]]]()
    for row in range(mechanism.shape.rows):
        different.add(frozenset(Counter(_days(mechanism, pair, memoise, row).units).items()))
    for units_of_row in different:
        forward = backward = Fraction(1)
        for kinds, units in units_of_row:
            possible = [both for both in _law(mechanism, kinds).values() if any(both)]
            if not all(map(all, possible)):
                return Decimal("Infinity")
            ratios = [first / second for first, second in possible]
            forward, backward = forward * max(ratios) ** units, backward / min(ratios) ** units
        worst = max(worst, forward, backward)
    return exact_log(worst)


def history_epsilon(
    mechanism: MemoisedMechanism,
    pair: TwoHistories,
    device: MakeDevice,
    *,
    trials: int,
    error: float = 1e-6,
) -> float:
    """Return a lower bound on the epsilon of the histories of real devices, wrong with probability
    `error`.

    Each trial is a new device that lives a whole history. Its reports are reduced to the log-ratio
    that they have under an honest per-value encoder, in levels fixed beforehand, and cut at the
    level that separates best. The bound holds whatever the encoder does.
    """
    scores: dict[object, float] = {}
    log_ratios = [
        np.array([_score(mechanism, pair, history, device(), scores) for _ in range(trials)])
        for history in pair
    ]
    levels = [
        np.floor(PARTS * (part.clip(-MOST, MOST) + MOST)).astype(np.int64) for part in log_ratios
    ]
    return separation(levels, error, tails=True)


def cohorts_named(
    mechanism: MemoisedMechanism, history: DayValues, device: MakeDevice, *, trials: int
) -> set[int]:
    """Return how many cohorts a device names in a history. A device that memoises names one."""
    return {
        len({row for row, _ in reports_of(mechanism, history, device())}) for _ in range(trials)
    }


def _score(
    mechanism: MemoisedMechanism,
    pair: TwoHistories,
    history: DayValues,
    encode: Callable[[Value], bytes],
    scores: dict[object, float],
) -> float:
    """Return ln of P(what this device sends | first history) / P(it | second). `scores` keeps those
    of units that were met before."""
    sent = reports_of(mechanism, history, encode)
    days = _days(mechanism, pair, "per-value", sent[0][0])
    words = [mechanism.layout.payload_number(payload) for _, payload in sent]
    symbols = [_symbols(mechanism, days.labels, word) for word in words]
    order, score = tuple(days.kinds), 0.0
    for kinds, shows in zip(days.units, zip(*symbols, strict=True), strict=True):
        key = kinds, order, shows
        if key not in scores:
            seen = Counter(zip(shows, days.kinds, strict=True))
            scores[key] = _log_ratio(*_law(mechanism, kinds)[_evidence(mechanism, kinds, seen)])
        score += scores[key]
    return score


class _Days(NamedTuple):
    """Days of two histories in a row: the kind of each day, for every unit the kinds, and the
    numbers of the columns that are true on some day."""

    kinds: list[int]
    units: list[DayKinds]
    labels: Mapping[int, int]


@lru_cache
def _days(mechanism: MemoisedMechanism, pair: TwoHistories, memoise: str, row: int) -> _Days:
    """Return the days of two histories in a row. By "epoch" every report is about the first
    value."""
    histories = [history[:1] * len(history) if memoise == "epoch" else history for history in pair]
    truth = {
        value: mechanism.layout.payload_of(mechanism.cells(value, row))
        for value in dict.fromkeys(chain(*histories))
    }
    truths = [(truth[first], truth[second]) for first, second in zip(*histories, strict=True)]
    different = Counter(truths)
    labels = {truth: number for number, truth in enumerate(dict.fromkeys(chain(*different)))}

    symbols = {truth: _symbols(mechanism, labels, truth) for truth in labels}
    units = [
        tuple(
            ((labels[first], symbols[first][unit]), (labels[second], symbols[second][unit]), days)
            for (first, second), days in different.items()
        )
        for unit in range(len(symbols[truths[0][0]]))
    ]
    return _Days([list(different).index(day) for day in truths], units, labels)


def _symbols(mechanism: MemoisedMechanism, labels: Mapping[int, int], word: int) -> tuple[int, ...]:
    """Return the symbol that each unit shows in a payload. `labels` numbers the payloads that may
    be true. Any other payload is a symbol of its own."""
    if mechanism.kind.is_bitwise:
        return tuple(word >> bit & 1 for bit in range(mechanism.shape.columns))
    return (labels.get(word, ~word),)


def _counted(mechanism: MemoisedMechanism, kinds: DayKinds) -> tuple[int, int]:
    """Return how many symbols a unit has, and how many of them count by their numbers."""
    if mechanism.kind.is_bitwise:
        return 2, 2
    numbers = {symbol for *sides, _ in kinds for _, symbol in sides}
    return mechanism.shape.columns, len(numbers)


def _evidence(
    mechanism: MemoisedMechanism, kinds: DayKinds, seen: Mapping[tuple[int, int], int]
) -> DayEvidence:
    """Return the evidence of a unit, from how often each (symbol, kind of day) was `seen`."""
    _, numbered = _counted(mechanism, kinds)
    different = dict.fromkeys([*range(numbered), *(symbol for symbol, _ in seen)])
    times = [tuple(seen.get((symbol, k), 0) for k in range(len(kinds))) for symbol in different]
    return (*times[:numbered], *sorted(times[numbered:]))


@lru_cache
def _law(mechanism: MemoisedMechanism, kinds: DayKinds) -> HistoryLaw:
    """Return the law of everything that a unit can show, grown day by day."""
    symbols, numbered = _counted(mechanism, kinds)
    possible: set[DayEvidence] = {((0,) * len(kinds),) * numbered}
    for kind, (_, _, days) in enumerate(kinds):
        for _ in range(days):
            possible = {
                (*after[:numbered], *sorted(after[numbered:]))
                for evidence in possible
                for after in _one_more(evidence, kind, len(kinds), symbols)
            }
    return {
        evidence: tuple(_likelihood(mechanism, kinds, side, evidence) for side in (0, 1))
        for evidence in possible
    }


def _one_more(evidence: DayEvidence, kind: int, kinds: int, symbols: int) -> Iterator[DayEvidence]:
    """Yield the evidence with one report more, on a day of this kind: of a symbol that was shown,
    or of a new one."""
    fresh = ((0,) * kinds,) if len(evidence) < symbols else ()
    every = (*evidence, *fresh)
    for at, times in enumerate(every):
        more = tuple(n + (k == kind) for k, n in enumerate(times))
        yield (*evidence[:at], more, *evidence[at + 1 :])


def _likelihood(
    mechanism: MemoisedMechanism, kinds: DayKinds, side: int, evidence: DayEvidence
) -> Fraction:
    """Return a product over the truths of the history: each has a permanent symbol of its own."""
    truths: dict[int, int] = dict((kind[0], kind[1])[side] for kind in kinds)
    probability = Fraction(1)
    for truth, symbol in truths.items():
        days = [k for k, kind in enumerate(kinds) if (kind[0], kind[1])[side][0] == truth]
        times = [sum(symbol_times[k] for k in days) for symbol_times in evidence]
        probability *= _about(mechanism, symbol, times, _counted(mechanism, kinds)[0])
    return probability


def _about(mechanism: MemoisedMechanism, true: int, times: Sequence[int], symbols: int) -> Fraction:
    """Return P(reports show each symbol so many `times` | all are about `true`): a sum over the
    permanent symbols, those that were shown and the rest, which were not."""
    channel = mechanism.permanent_channel
    first = (channel.touched, channel.untouched) if channel else (Fraction(1), Fraction(0))
    total, left = Fraction(0), symbols - len(times)
    for permanent in range(len(times) + (left > 0)):
        chance = _chance(mechanism, first, permanent, true)
        for symbol, often in enumerate(times):
            if often:
                chance *= _chance(mechanism, mechanism.instantaneous, symbol, permanent) ** often
        total += chance * (left if permanent == len(times) else 1)
    return total


def _chance(
    mechanism: MemoisedMechanism, probabilities: tuple[Fraction, Fraction], symbol: int, about: int
) -> Fraction:
    """Return P(a step shows this symbol | it is about that one), from P(named) where that one is
    the cell and P(named) where it is not."""
    if_cell, if_not_cell = probabilities
    if mechanism.kind.is_bitwise:
        of_one = if_cell if about else if_not_cell
        return of_one if symbol else 1 - of_one
    return if_cell if symbol == about else if_not_cell


def _log_ratio(first: Fraction, second: Fraction) -> float:
    """Return ln(first / second), MOST or -MOST where one of them cannot be."""
    if not first or not second:
        return MOST * (bool(first) - bool(second))
    return log(first / second)
