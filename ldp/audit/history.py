"""What a history of reports tells: memoised encoders over many days of a changing value (check C).

Exactly: given the histories, the units of a report are independent: RAPPOR's bits, which are 0 or
1, or all of it where it is one column. Reports of a unit that share a permanent response count only
by how often they show which symbol, so the worst ratio is a maximum over short lists. From outside:
real encoders, each with a secret of its own, told apart by all that they sent. Source: Erlingsson
et al. 2014, section 3.2, for a value that never changes; the rest is this.
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

from ldp.audit.black_box import separation
from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.protocol.channel import exact_log
from ldp.protocol.hashing import Value
from ldp.protocol.wire import Kind, split_report

History = tuple[Value, ...]
"""The value of each day; one report a day."""
Pair = tuple[History, History]
Device = Callable[[], Callable[[Value], bytes]]
"""Makes a new device: its `encode`."""
Kinds = tuple[tuple[tuple[int, int], tuple[int, int], int], ...]
"""Criterion by which a unit tells days apart: (which truth, its symbol) in either history, and how
many days. Reports of one truth share a permanent symbol."""
Times = tuple[int, ...]
"""How often a symbol is shown on each kind of day."""
Shown = tuple[Times, ...]
"""Criterion of all symbols: of those that are true on some day by their numbers; of the others,
which are alike, only what was shown, in order."""
Law = Mapping[Shown, tuple[Fraction, Fraction]]
"""P(such reports | history), for two histories and up to a factor that they share."""
MOST, PARTS = 50.0, 8
"""Scores are cut at +-MOST: no number of devices can show so much; a unit has PARTS levels."""


def exact_epsilon(mechanism: MemoisedMechanism, pair: Pair, memoise: str) -> Decimal:
    """Return the worst log-ratio of all that two histories of one length can send, in the worst
    cohort.

    `memoise`: "per-value" or "epoch". Exact where the keyed function is as good as random. Time:
    the different units x what each can show on all days.
    """
    worst, different = Fraction(1), set[frozenset[tuple[Kinds, int]]]()
    for row in range(mechanism.shape.rows):
        different.add(frozenset(Counter(_days(mechanism, pair, memoise, row).units).items()))
    for units_of_row in different:
        forward = backward = Fraction(1)
        for kinds, units in units_of_row:
            possible = [both for both in _law(mechanism, kinds).values() if any(both)]
            if not all(map(all, possible)):
                return Decimal("Infinity")
            ratios = [one / other for one, other in possible]
            forward, backward = forward * max(ratios) ** units, backward / min(ratios) ** units
        worst = max(worst, forward, backward)
    return exact_log(worst)


def epsilon_at_least(
    mechanism: MemoisedMechanism,
    pair: Pair,
    device: Device,
    *,
    trials: int,
    error: float = 1e-6,
) -> float:
    """Return an epsilon that the histories of real devices have at least, wrong with probability
    `error`.

    Each trial is a new device that lives a whole history. What it sent is reduced to the log-ratio
    that an honest per-value encoder would give it, in levels fixed beforehand, and cut where that
    separates best: the bound holds whatever the encoder does.
    """
    scores: dict[object, float] = {}
    shown = [
        np.array([_score(mechanism, pair, history, device(), scores) for _ in range(trials)])
        for history in pair
    ]
    levels = [np.floor(PARTS * (part.clip(-MOST, MOST) + MOST)).astype(np.int64) for part in shown]
    return separation(levels, error, tails=True)


def cohorts_named(
    mechanism: MemoisedMechanism, history: History, device: Device, *, trials: int
) -> set[int]:
    """Return how many cohorts a device names in a history: of one that is memoised, one."""
    named = set()
    for _ in range(trials):
        encode = device()
        reports = [
            split_report(encode(value), mechanism.header, mechanism.layout) for value in history
        ]
        named.add(len({row for row, _ in reports}))
    return named


def _score(
    mechanism: MemoisedMechanism,
    pair: Pair,
    history: History,
    encode: Callable[[Value], bytes],
    scores: dict[object, float],
) -> float:
    """Return ln of P(what this device sends | first history) / P(it | second); `scores` keeps those
    of units that were met before."""
    sent = [split_report(encode(value), mechanism.header, mechanism.layout) for value in history]
    days = _days(mechanism, pair, "per-value", sent[0][0])
    words = [mechanism.layout.payload_number(payload) for _, payload in sent]
    symbols = [_symbols(mechanism, days.labels, word) for word in words]
    order, score = tuple(days.kinds), 0.0
    for kinds, shows in zip(days.units, zip(*symbols, strict=True), strict=True):
        key = kinds, order, shows
        if key not in scores:
            seen = Counter(zip(shows, days.kinds, strict=True))
            scores[key] = _log_ratio(*_law(mechanism, kinds)[_shown(mechanism, kinds, seen)])
        score += scores[key]
    return score


class _Days(NamedTuple):
    """What two histories tell in a row: the kind of each day, for every unit the kinds, and the
    numbers of the columns that are true on some day."""

    kinds: list[int]
    units: list[Kinds]
    labels: Mapping[int, int]


@lru_cache
def _days(mechanism: MemoisedMechanism, pair: Pair, memoise: str, row: int) -> _Days:
    """ "epoch" tells the first value every day."""
    told = [history[:1] * len(history) if memoise == "epoch" else history for history in pair]
    truth = {
        value: mechanism.true_response(mechanism.cells(value, row))
        for value in dict.fromkeys(chain(*told))
    }
    truths = [(truth[one], truth[other]) for one, other in zip(*told, strict=True)]
    different = Counter(truths)
    labels = {truth: number for number, truth in enumerate(dict.fromkeys(chain(*different)))}
    which = [list(dict.fromkeys(pair[side] for pair in different)) for side in (0, 1)]
    symbols = {truth: _symbols(mechanism, labels, truth) for truth in labels}
    units = [
        tuple(
            (
                (which[0].index(one), symbols[one][unit]),
                (which[1].index(other), symbols[other][unit]),
                days,
            )
            for (one, other), days in different.items()
        )
        for unit in range(len(symbols[truths[0][0]]))
    ]
    return _Days([list(different).index(day) for day in truths], units, labels)


def _symbols(mechanism: MemoisedMechanism, labels: Mapping[int, int], word: int) -> tuple[int, ...]:
    """Return the symbol that each unit shows in a payload; a column that is never true is none of
    the `labels`."""
    if mechanism.kind is Kind.BITS:
        return tuple(word >> bit & 1 for bit in range(mechanism.shape.columns))
    return (labels.get(word, ~word),)


def _counted(mechanism: MemoisedMechanism, kinds: Kinds) -> tuple[int, int]:
    """Return how many symbols a unit has, and how many of them count by their numbers."""
    if mechanism.kind is Kind.BITS:
        return 2, 2
    numbers = {symbol for *sides, _ in kinds for _, symbol in sides}
    return mechanism.shape.columns, len(numbers)


def _shown(
    mechanism: MemoisedMechanism, kinds: Kinds, seen: Mapping[tuple[int, int], int]
) -> Shown:
    """Return the evidence that a unit shows, of how often it was `seen` to show (symbol, kind of
    day)."""
    _, named = _counted(mechanism, kinds)
    different = dict.fromkeys([*range(named), *(symbol for symbol, _ in seen)])
    times = [tuple(seen.get((each, k), 0) for k in range(len(kinds))) for each in different]
    return (*times[:named], *sorted(times[named:]))


@lru_cache
def _law(mechanism: MemoisedMechanism, kinds: Kinds) -> Law:
    """Of everything that a unit can show, grown day by day."""
    symbols, named = _counted(mechanism, kinds)
    possible: set[Shown] = {((0,) * len(kinds),) * named}
    for kind, (_, _, days) in enumerate(kinds):
        for _ in range(days):
            possible = {
                (*after[:named], *sorted(after[named:]))
                for shown in possible
                for after in _one_more(shown, kind, len(kinds), symbols)
            }
    return {
        shown: tuple(_likelihood(mechanism, kinds, side, shown) for side in (0, 1))  # type: ignore[misc]
        for shown in possible
    }


def _one_more(shown: Shown, kind: int, kinds: int, symbols: int) -> Iterator[Shown]:
    """With one report more, on a day of this kind: of a symbol that was shown, or a new one."""
    fresh = ((0,) * kinds,) if len(shown) < symbols else ()
    every = (*shown, *fresh)
    for at, times in enumerate(every):
        more = tuple(n + (k == kind) for k, n in enumerate(times))
        yield (*shown[:at], more, *shown[at + 1 :])


def _likelihood(mechanism: MemoisedMechanism, kinds: Kinds, side: int, shown: Shown) -> Fraction:
    """Return a product over the truths of the history: each has a permanent symbol of its own."""
    truths: dict[int, int] = dict((kind[0], kind[1])[side] for kind in kinds)
    probability = Fraction(1)
    for truth, symbol in truths.items():
        days = [k for k, kind in enumerate(kinds) if (kind[0], kind[1])[side][0] == truth]
        times = [sum(each[k] for k in days) for each in shown]
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
    mechanism: MemoisedMechanism, probabilities: tuple[Fraction, Fraction], shown: int, about: int
) -> Fraction:
    """Return P(a step shows this symbol | it is about that one), from P(named) where that one is
    the cell and P(named) where it is not."""
    named, unnamed = probabilities
    if mechanism.kind is Kind.BITS:
        one = named if about else unnamed
        return one if shown else 1 - one
    return named if shown == about else unnamed


def _log_ratio(one: Fraction, other: Fraction) -> float:
    """ln(one / other), MOST or -MOST where one of them cannot be."""
    if not one or not other:
        return MOST * (bool(one) - bool(other))
    return log(one / other)
