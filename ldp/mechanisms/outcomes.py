"""Distributions of one report under two values, in fractions, from a mechanism's kind and channel.

The reports of a mechanism fall into a few classes. Within each class P(report | first value),
P(report | second value) and the least probability under any value have fixed ratios. Composition
needs the first two, shuffling all three. Rows, and a Hadamard column, are drawn independently of
the value and do not matter. Collisions in a row only reduce the loss. Sources: Zhu, Dong and Wang
2022, definition 7 (dominating pairs); Balle, Bell, Gascon and Nissim 2019, section 3 (the privacy
blanket).
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise, product
from math import comb, prod
from typing import NamedTuple

from ldp.errors import ParameterError
from ldp.mechanisms.base import CatalogueMechanism, Mechanism
from ldp.mechanisms.joint_base import parts_of
from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.protocol.channel import Channel
from ldp.protocol.kinds import Bits, Index, Sign, Subset


class Outcome(NamedTuple):
    """Class of reports: its probabilities under the `first` and the `second` of a pair of values,
    and `blanket`, at most the sum of its reports' least probabilities under any value."""

    first: Fraction
    second: Fraction
    blanket: Fraction


Pair = tuple[tuple[Fraction, Fraction], ...]
"""Probabilities of the classes of reports under two distributions. Each side adds to 1."""
CurvePoint = tuple[Fraction, Fraction]
"""e**epsilon, and delta there."""


Outcomes = tuple[Outcome, ...]
"""Classes of the reports of a mechanism under a pair of values."""


def outcomes(mechanism: CatalogueMechanism) -> tuple[Outcomes, ...]:
    """Return the classes of reports for each pair of values of `mechanism` that may be the worst:
    one pair, except for sets of more than half of the cells, two of which can overlap in several
    ways.

    RAPPOR has (hashes + 1)**2 classes, a joint mechanism the product of the numbers of its parts.

    >>> from ldp import RandomizedResponse
    >>> (pair,) = outcomes(RandomizedResponse(categories=("a", "b", "c"), epsilon=2.0))
    >>> for outcome in pair:
    ...     print(*(f"{float(mass):.3f}" for mass in outcome))
    0.787 0.107 0.107
    0.107 0.787 0.107
    0.107 0.107 0.107
    """
    if mechanism.needs_shuffler:
        raise ParameterError(f"{mechanism.name} has no bound before a relay shuffles")
    parts = [_pairs(part, part.channel) for part in parts_of(mechanism)]
    if len(parts) == 1:
        return parts[0]
    return tuple(
        _merge(
            Outcome(*(prod(masses, start=Fraction(1)) for masses in zip(*classes, strict=True)))
            for classes in product(*pairs)
        )
        for pairs in product(*parts)
    )


def _pairs(mechanism: Mechanism, channel: Channel) -> tuple[Outcomes, ...]:
    """Return the classes of reports for each split of the cells that only one of two values
    touches: of four cells, (1, 3), (2, 2) and (3, 1) where a value touches up to three."""
    many, few = channel.differing
    splits = (replace(channel, differing=(one, many + few - one)) for one in range(few, many + 1))
    classes = [_merge(_OUTCOMES[mechanism.kind](mechanism, split)) for split in splits]
    return tuple(dict.fromkeys(classes) if classes[1:] else classes)


def permanent_outcomes(mechanism: CatalogueMechanism) -> tuple[Outcomes, ...]:
    """Return what `outcomes` does, of the permanent response of a memoised `mechanism`. Raises
    ParameterError where the permanent response has no noise."""
    assert isinstance(mechanism, MemoisedMechanism)
    if (channel := mechanism.permanent_channel) is None:
        raise ParameterError("a permanent response without noise tells everything")
    return _pairs(mechanism, channel)


def dominating_pair(mechanism: Mechanism) -> Pair:
    """Return two distributions whose divergence is at least that of reports of `mechanism` about
    any two values, in either order.

    Any number of reports, chosen adaptively, is bounded by as many draws from these.
    """
    pairs = dict[frozenset[tuple[Fraction, Fraction]], Pair]()
    for classes in outcomes(mechanism):
        groups: dict[tuple[int, int], list[tuple[Fraction, Fraction]]] = defaultdict(list)
        for first, second, _ in classes:
            groups[(first / second).as_integer_ratio()].append((first, second))
        columns = (zip(*group, strict=True) for group in groups.values())
        pair = tuple((_total(firsts), _total(seconds)) for firsts, seconds in columns)
        swapped = tuple((second, first) for first, second in pair)
        pairs |= {frozenset(order): order for order in (swapped, pair)}
    return upper_envelope(*pairs.values()) if len(pairs) > 1 else pair


def upper_envelope(*pairs: Pair) -> Pair:
    """Return the pair whose curve x -> sum (P - x Q)_+ is the largest of those of `pairs`. For
    three or more pairs it may lie above all of their curves where these cross.

    Each curve is convex and piecewise linear, and falls from 1 to 0 (no class has Q = 0). So is
    their maximum.
    """
    ratios = sorted({Fraction(0)} | {p / q for pair in pairs for p, q in pair})
    curves = [*map(_curve, pairs)]
    deltas = [(x, [curve(x) for curve in curves]) for x in ratios]
    for (low, left), (high, right) in pairwise(deltas):
        one, other = left.index(max(left)), right.index(max(right))
        gaps = left[one] - left[other], right[other] - right[one]
        if min(gaps) > 0:
            ratios.append(low + (high - low) * gaps[0] / sum(gaps))
    ratios.sort()
    return pair_through([(x, max(curve(x) for curve in curves)) for x in ratios])


def pair_through(corners: Sequence[CurvePoint]) -> Pair:
    """Return the classes of the convex profile through `corners`, constant from the last on: where
    its slope grows by Q there is a class of masses (x Q, Q)."""
    slopes = [slope(*chord) for chord in pairwise(corners)]
    steps = zip(corners[1:], pairwise((*slopes, Fraction(0))), strict=True)
    return tuple(
        (x * (after - before), after - before)
        for (x, _), (before, after) in steps
        if after > before
    )


def slope(left: CurvePoint, right: CurvePoint) -> Fraction:
    """Return the slope of a curve between two of its points."""
    return (right[1] - left[1]) / (right[0] - left[0])


def _curve(pair: Pair) -> Callable[[Fraction], Fraction]:
    """Return the function x -> delta at epsilon = ln x: the sum of p - x q over the classes whose
    ratio p / q is above x."""
    classes = sorted(((p / q, p, q) for p, q in pair), reverse=True)
    falling = [-ratio for ratio, _, _ in classes]
    sums = [[*accumulate((one[at] for one in classes), initial=Fraction(0))] for at in (1, 2)]

    def delta(x: Fraction) -> Fraction:
        above = bisect_left(falling, -x)
        return sums[0][above] - x * sums[1][above]

    return delta


def cell_factors(mechanism: Mechanism) -> tuple[Fraction, Fraction]:
    """Return the factor of P(report | value) for a cell that the value touches, divided by that for
    a cell that it does not touch: where the report names the cell, and where it does not. Of sets
    the cell stands for all cells of the value. Factors of signs are only proportional."""
    channel, layout = mechanism.channel, mechanism.layout
    touched, untouched = channel.touched, channel.untouched
    if mechanism.kind.is_signed:
        return touched, 1 - touched
    if isinstance(layout, Subset):
        cells = range(mechanism.touches)
        with_cell, without = (layout.probability(n, cells, touched, 0) for n in (1, 0))
        return with_cell / without, Fraction(1)
    is_index = mechanism.kind is Index
    return touched / untouched, Fraction(1) if is_index else (1 - touched) / (1 - untouched)


def _index(mechanism: Mechanism, channel: Channel) -> Outcomes:
    """Return the classes: columns of only the first value, only the second, both, or neither.

    The blanket is `untouched`, the least probability of a column under any value.
    """
    p, q, shared = channel.touched, channel.untouched, mechanism.overlap
    only = mechanism.touches - shared
    neither = (mechanism.shape.columns - 2 * only - shared) * q
    return (
        Outcome(only * p, only * q, only * q),
        Outcome(only * q, only * p, only * q),
        Outcome(shared * p, shared * p, shared * q),
        Outcome(neither, neither, neither),
    )


def _subset(mechanism: Mechanism, channel: Channel) -> Outcomes:
    """Return the classes: sets that name cells of only the first value, only the second, both, or
    neither. The blanket is the probability under a third value, none of whose cells is named."""
    layout, touches = mechanism.layout, mechanism.touches
    assert isinstance(layout, Subset)
    without, neither = layout.naming(touches, 0), layout.naming(2 * touches, 0)
    only, both = without - neither, layout.outcomes - 2 * without + neither
    high = layout.probability(1, range(touches), channel.touched, 0)
    low = layout.probability(0, range(touches), channel.touched, 0)
    return (
        Outcome(only * high, only * low, only * low),
        Outcome(only * low, only * high, only * low),
        Outcome(both * high, both * high, both * low),
        Outcome(neither * low, neither * low, neither * low),
    )


def _sign(mechanism: Mechanism, channel: Channel) -> Outcomes:
    """Return the classes: columns in which the two values' signs differ, and in which they agree,
    each with either sign."""
    p, q = channel.touched / 2, (1 - channel.touched) / 2
    return Outcome(p, q, q), Outcome(q, p, q), Outcome(p, p, q), Outcome(q, q, q)


def _bits(mechanism: Mechanism, channel: Channel) -> Outcomes:
    """Return the classes, by the numbers of reported cells of only the first and only the second
    value.

    The blanket: a value that touches c of the report's zeros and none of its ones has the least
    probability, ((1 - touched) / (1 - untouched))**c times that of touching nothing, and no value
    touches more cells than the worst one. With a single column the blanket is the smaller side.
    """
    p, q = channel.touched, channel.untouched
    if mechanism.shape.columns == 1:
        return Outcome(p, q, q), Outcome(1 - p, 1 - q, 1 - p)
    first, second = channel.differing
    least = ((1 - p) / (1 - q)) ** max(mechanism.channel.differing)
    a_touched, a_untouched = _binomial(first, p), _binomial(first, q)
    b_touched, b_untouched = _binomial(second, p), _binomial(second, q)
    return tuple(
        Outcome(
            a_touched[i] * b_untouched[j],
            a_untouched[i] * b_touched[j],
            a_untouched[i] * b_untouched[j] * least,
        )
        for i in range(first + 1)
        for j in range(second + 1)
    )


_OUTCOMES = {Bits: _bits, Index: _index, Subset: _subset, Sign: _sign}


def _binomial(trials: int, probability: Fraction) -> list[Fraction]:
    """Return P(hits) for 0 .. trials."""
    if trials == 1:
        return [1 - probability, probability]
    return [
        comb(trials, hits) * probability**hits * (1 - probability) ** (trials - hits)
        for hits in range(trials + 1)
    ]


def _merge(classes: Iterable[Outcome]) -> Outcomes:
    """Return the classes with those of equal ratios merged, without empty ones."""
    groups: dict[tuple[tuple[int, int], ...], list[Outcome]] = defaultdict(list)
    for outcome in classes:
        if outcome.first:
            ratios = outcome.second / outcome.first, outcome.blanket / outcome.first
            # integers are hashed faster than fractions
            groups[tuple(ratio.as_integer_ratio() for ratio in ratios)].append(outcome)
    return tuple(Outcome(*map(_total, zip(*group, strict=True))) for group in groups.values())


def _total(masses: Sequence[Fraction]) -> Fraction:
    return sum(masses[1:], masses[0])
