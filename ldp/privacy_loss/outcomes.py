"""What one report tells of two values, in fractions, derived from a mechanism's kind and channel.

A mechanism states its channel and nothing here knows one by name: the reports fall into a few
classes, and within each P(report | one value), P(report | the other) and the least probability
under any value stand in fixed ratios. Local composition needs the first two, shuffling all three.
Rows, and a Hadamard column, are drawn independently of the value and say nothing; values that
collide in a row only say less there. Sources: Zhu, Dong and Wang 2022, definition 7 (dominating
pairs); Balle, Bell, Gascon and Nissim 2019, section 3 (the privacy blanket).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise, product
from math import comb, prod
from typing import NamedTuple

from ldp.mechanisms.base import Catalogued, Mechanism
from ldp.mechanisms.joint_base import parts_of
from ldp.protocol.channel import Channel
from ldp.protocol.wire import Kind


class Outcome(NamedTuple):
    """A class of reports: its probability under either of the two values that reports tell apart
    best, and at most the sum of its reports' least probabilities under any value."""

    first: Fraction
    second: Fraction
    blanket: Fraction


Pair = tuple[tuple[Fraction, Fraction], ...]
"""Masses of the classes of reports under two laws; both sides add to 1."""


def outcomes(mechanism: Catalogued) -> tuple[Outcome, ...]:
    """The classes of reports of the mechanism's worst pair of values.

    Time: of RAPPOR (hashes + 1)**2 classes, of a joint mechanism the product of its parts'.

    >>> from ldp import RandomizedResponse
    >>> for one in outcomes(RandomizedResponse(categories=("a", "b", "c"), epsilon=2.0)):
    ...     print(*(f"{float(mass):.3f}" for mass in one))
    0.787 0.107 0.107
    0.107 0.787 0.107
    0.107 0.107 0.107
    """
    each = [_of_one_table(part) for part in parts_of(mechanism)]
    return _merged(
        Outcome(*(prod(masses, start=Fraction(1)) for masses in zip(*classes, strict=True)))
        for classes in product(*each)
    )


def dominating_pair(mechanism: Mechanism) -> Pair:
    """Two laws that tell apart at least as well as reports of any two values, in either order.

    Any number of reports, chosen one after the other, tells no more than as many draws from these.
    """
    alike: dict[Fraction, list[tuple[Fraction, Fraction]]] = defaultdict(list)
    for first, second, _ in _of_one_table(mechanism):
        if first:
            alike[first / second].append((first, second))
    pair = tuple(
        (_total([p for p, _ in ones]), _total([q for _, q in ones])) for ones in alike.values()
    )
    turned = tuple((second, first) for first, second in pair)
    return pair if set(pair) == set(turned) else upper_envelope(pair, turned)


def upper_envelope(one: Pair, other: Pair) -> Pair:
    """The pair whose curve x -> sum (P - x Q)_+ is the larger of the two pairs' curves at every x.

    Each curve is convex and piecewise linear, and falls from 1 to 0 (no class has Q = 0); so is
    their maximum. Where its slope grows by Q there is a class of masses (x Q, Q).
    """
    ratios = sorted({Fraction(0)} | {first / second for first, second in (*one, *other)})
    for low, high in pairwise(tuple(ratios)):
        gaps = [_curve(one, x) - _curve(other, x) for x in (low, high)]
        if gaps[0] * gaps[1] < 0:
            ratios.append(low + (high - low) * gaps[0] / (gaps[0] - gaps[1]))
    ratios.sort()
    heights = [max(_curve(one, x), _curve(other, x)) for x in ratios]
    slopes = [
        (end - start) / (high - low)
        for (low, high), (start, end) in zip(pairwise(ratios), pairwise(heights), strict=True)
    ]
    steps = pairwise((*slopes, Fraction(0)))
    return tuple(
        (x * (after - before), after - before)
        for x, (before, after) in zip(ratios[1:], steps, strict=True)
        if after != before
    )


def _curve(pair: Pair, x: Fraction) -> Fraction:
    """delta at epsilon = ln x."""
    return sum((max(Fraction(0), first - x * second) for first, second in pair), Fraction(0))


def _of_one_table(mechanism: Mechanism) -> tuple[Outcome, ...]:
    if mechanism.kind is Kind.BITS:
        return _bits(mechanism.channel, mechanism.shape.columns)
    if mechanism.kind is Kind.INDEX:
        return _index(mechanism)
    if mechanism.kind is Kind.SUBSET:
        return _subset(mechanism)
    return _sign(mechanism.channel)


def _index(mechanism: Mechanism) -> tuple[Outcome, ...]:
    """The first value's own columns, the second's, those of both, or the others.

    No value gives a report less than `untouched`, which is the blanket.
    """
    p, q, both = mechanism.channel.touched, mechanism.channel.untouched, mechanism.overlap
    own = mechanism.touches - both
    others = (mechanism.shape.columns - 2 * own - both) * q
    told, lied = own * p, own * q
    return (
        Outcome(told, lied, lied),
        Outcome(lied, told, lied),
        Outcome(both * p, both * p, both * q),
        Outcome(others, others, others),
    )


def _subset(mechanism: Mechanism) -> tuple[Outcome, ...]:
    """Sets of w of d with the first value and without the second, the other way round, with both
    and with neither; the blanket is that a third value is held, which the set does not name."""
    p, w, others = mechanism.channel.touched, mechanism.layout.ones, mechanism.shape.columns - 1
    one = p * (others + 1 - w) / others
    lie = (1 - p) * w / others
    both = Fraction(w - 1, others)
    neither = (1 - p) * (others - w) / others
    return (
        Outcome(one, lie, lie),
        Outcome(lie, one, lie),
        Outcome(p * both, p * both, (1 - p) * both * w / (others + 1 - w)),
        Outcome(neither, neither, neither),
    )


def _sign(channel: Channel) -> tuple[Outcome, ...]:
    """In half of the columns the two values' signs agree, in the other half they do not."""
    p, q = channel.touched / 2, (1 - channel.touched) / 2
    return Outcome(p, q, q), Outcome(q, p, q), Outcome(p, p, q), Outcome(q, q, q)


def _bits(channel: Channel, columns: int) -> tuple[Outcome, ...]:
    """How many of the first value's own cells are reported, and how many of the second's.

    The blanket: a value that touches c of the report's zeros and none of its ones has the least
    probability, ((1 - touched) / (1 - untouched))**c times that of touching nothing, and no value
    touches more cells than the worst one. A single column is its own blanket.
    """
    p, q = channel.touched, channel.untouched
    if columns == 1:
        return Outcome(p, q, q), Outcome(1 - p, 1 - q, 1 - p)
    first, second = channel.differing
    least = ((1 - p) / (1 - q)) ** max(first, second)
    mine, theirs = _binomial(first, p), _binomial(first, q)  # the first value's own cells
    other, own = _binomial(second, q), _binomial(second, p)  # the second's
    return tuple(
        Outcome(mine[i] * other[j], theirs[i] * own[j], theirs[i] * other[j] * least)
        for i in range(first + 1)
        for j in range(second + 1)
    )


def _binomial(trials: int, probability: Fraction) -> list[Fraction]:
    """P(hits) for 0 .. trials."""
    if trials == 1:
        return [1 - probability, probability]
    return [
        comb(trials, hits) * probability**hits * (1 - probability) ** (trials - hits)
        for hits in range(trials + 1)
    ]


def _merged(classes: Iterable[Outcome]) -> tuple[Outcome, ...]:
    """One class of those whose masses stand in the same ratios; none without mass."""
    alike: dict[tuple[Fraction, Fraction], list[Outcome]] = defaultdict(list)
    for one in classes:
        if one.first:
            alike[one.second / one.first, one.blanket / one.first].append(one)
    return tuple(Outcome(*map(_total, zip(*ones, strict=True))) for ones in alike.values())


def _total(masses: Sequence[Fraction]) -> Fraction:
    return sum(masses, Fraction(0))
