"""What a history of reports tells: memoised encoders over many days of a changing value (check C).

Exactly: given the histories, bits are independent, and the reports of a bit that share a permanent
response count only by how many ones they show, so the worst ratio is a maximum over short lists.
From outside: real encoders, each with a secret of its own, told apart by all that they sent.
Source: Erlingsson et al. 2014, section 3.2, for a value that never changes; the rest is this.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import log

import numpy as np

from ldp.audit.black_box import separation
from ldp.channel import exact_log
from ldp.mechanisms.base import Value, as_bits
from ldp.mechanisms.rappor import Rappor
from ldp.wire import split_report

History = tuple[Value, ...]
"""The value of each day; one report a day."""
Pair = tuple[History, History]
Device = Callable[[], Callable[[Value], bytes]]
"""Makes a new device: its `encode`."""
Kind = tuple[tuple[int, int], tuple[int, int], int]
"""What a bit can tell days apart by: (which filter, its bit) in either history, and how many days.
Reports of one filter share a permanent bit."""
Law = Mapping[tuple[int, ...], tuple[Fraction, Fraction]]
"""Ones that a bit shows on each kind of day -> P(such reports | history), for two histories and up
to a factor that they share."""
MOST, PARTS = 50.0, 8
"""Scores are cut at +-MOST: no number of devices can show so much; a unit has PARTS levels."""


def exact_epsilon(mechanism: Rappor, pair: Pair, memoise: str) -> Decimal:
    """The worst log-ratio of all that two histories of one length can send, in the worst cohort.

    `memoise`: "per-value" or "epoch". Exact where the keyed function is as good as random. Time:
    the different bits of the filters x the product of (days + 1) over the kinds of day.
    """
    worst = Fraction(1)
    for row in range(mechanism.cohorts):
        forward = backward = Fraction(1)
        for kinds, bits in Counter(_kinds(mechanism, pair, memoise, row)).items():
            possible = [both for both in _law(mechanism, kinds).values() if any(both)]
            if not all(map(all, possible)):
                return Decimal("Infinity")
            ratios = [one / other for one, other in possible]
            forward, backward = forward * max(ratios) ** bits, backward / min(ratios) ** bits
        worst = max(worst, forward, backward)
    return exact_log(worst)


def epsilon_at_least(
    mechanism: Rappor,
    pair: Pair,
    device: Device,
    *,
    trials: int,
    error: float = 1e-6,
) -> float:
    """An epsilon that the histories of real devices have at least, wrong with probability `error`.

    Each trial is a new device that lives a whole history. What it sent is reduced to the log-ratio
    that an honest per-value encoder would give it, in levels fixed beforehand, and cut where that
    separates best: the bound holds whatever the encoder does.
    """
    shown = [
        np.array([_score(mechanism, pair, history, device()) for _ in range(trials)])
        for history in pair
    ]
    levels = [np.floor(PARTS * (part.clip(-MOST, MOST) + MOST)).astype(np.int64) for part in shown]
    return separation(levels, error, tails=True)


def cohorts_named(mechanism: Rappor, history: History, device: Device, *, trials: int) -> set[int]:
    """How many cohorts a device names in a history: of one that is memoised, one."""
    named = set()
    for _ in range(trials):
        encode = device()
        reports = [
            split_report(encode(value), mechanism.header, mechanism.layout) for value in history
        ]
        named.add(len({row for row, _ in reports}))
    return named


def _score(
    mechanism: Rappor, pair: Pair, history: History, encode: Callable[[Value], bytes]
) -> float:
    """ln of P(what this device sends | first history) / P(it | second)."""
    sent = [split_report(encode(value), mechanism.header, mechanism.layout) for value in history]
    row = sent[0][0]
    words = [mechanism.layout.payload_number(payload) for _, payload in sent]
    days = _filters(mechanism, pair, "per-value", row)
    ones = [
        [word for word, day in zip(words, days, strict=True) if day == kind]
        for kind in dict.fromkeys(days)
    ]
    return sum(
        _log_ratio(
            *_law(mechanism, kinds)[tuple(sum(w >> bit & 1 for w in shown) for shown in ones)]
        )
        for bit, kinds in enumerate(_kinds(mechanism, pair, "per-value", row))
    )


@lru_cache
def _filters(mechanism: Rappor, pair: Pair, memoise: str, row: int) -> list[tuple[int, int]]:
    """The filters of each day in the cohort `row`; "epoch" tells the first value every day."""
    told = [history[:1] * len(history) if memoise == "epoch" else history for history in pair]
    return [
        (as_bits(mechanism.cells(one, row)), as_bits(mechanism.cells(other, row)))
        for one, other in zip(*told, strict=True)
    ]


@lru_cache
def _kinds(mechanism: Rappor, pair: Pair, memoise: str, row: int) -> list[tuple[Kind, ...]]:
    """For every bit the kinds of day, in the order in which they come first."""
    days = Counter(_filters(mechanism, pair, memoise, row))
    numbers = [list(dict.fromkeys(filters[side] for filters in days)) for side in (0, 1)]
    return [
        tuple(
            (
                (numbers[0].index(one), one >> bit & 1),
                (numbers[1].index(other), other >> bit & 1),
                count,
            )
            for (one, other), count in days.items()
        )
        for bit in range(mechanism.bits)
    ]


@lru_cache
def _law(mechanism: Rappor, kinds: tuple[Kind, ...]) -> Law:
    return {
        shown: (_likelihood(mechanism, kinds, 0, shown), _likelihood(mechanism, kinds, 1, shown))
        for shown in product(*(range(days + 1) for _, _, days in kinds))
    }


def _likelihood(
    mechanism: Rappor, kinds: Sequence[Kind], side: int, shown: Sequence[int]
) -> Fraction:
    pooled: dict[tuple[int, int], tuple[int, int]] = {}
    for (*filters, days), ones in zip(kinds, shown, strict=True):
        before = pooled.get(filters[side], (0, 0))
        pooled[filters[side]] = (before[0] + ones, before[1] + days - ones)
    kept = 1 - Fraction(mechanism.f) / 2
    p, q = Fraction(mechanism.p), Fraction(mechanism.q)
    probability = Fraction(1)
    for (_, bit), (ones, zeros) in pooled.items():
        one = kept if bit else 1 - kept
        probability *= one * q**ones * (1 - q) ** zeros + (1 - one) * p**ones * (1 - p) ** zeros
    return probability


def _log_ratio(one: Fraction, other: Fraction) -> float:
    """ln(one / other), MOST or -MOST where one of them cannot be."""
    if not one or not other:
        return MOST * (bool(one) - bool(other))
    return log(one / other)
