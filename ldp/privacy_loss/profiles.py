"""Privacy loss distributions from bounds on delta, and their composition.

The profile of a release is the function epsilon -> delta. Upper bounds of it at some points give
two distributions whose profile is nowhere below: delta is convex in e**epsilon, so it lies under
the chords between the points. Pairs of such distributions compose, chosen adaptively too. Sources:
Zhu, Dong and Wang 2022, proposition 9 (a pair from a profile) and theorem 10 (composition);
Doroshenko and others 2022 (chords).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from ldp.mechanisms.outcomes import Pair

POINTS = 32
"""Number of epsilons above 0 at which a profile is evaluated."""
FAR = 1e-15
"""Delta of a profile's last point: what is beyond counts as an infinite loss."""
MOST = 600.0
"""Largest epsilon of a point: e**MOST is a double."""

Point = tuple[Fraction, Fraction]
"""e**epsilon, and delta there."""


class Losses(NamedTuple):
    """Classes of a release under two distributions, and the probability `infinite` under the first
    of what the second never gives."""

    pair: Pair
    infinite: Fraction = Fraction(0)


def losses_of(delta: Callable[[float], float], most: float) -> Losses:
    """Return losses whose profile is at least `delta` of epsilon, in either order of neighbours.

    `delta`: an upper bound, for both orders; `most`: a pure epsilon of the release, or infinite.
    """
    last = _last(delta, min(most, MOST))
    epsilons = [last * step / POINTS for step in range(POINTS + 1)]
    heights = [min(1.0, delta(epsilon)) for epsilon in epsilons]
    above = [
        (Fraction(math.exp(epsilon) * (1 + 2**-50)), Fraction(height))
        for epsilon, height in zip(epsilons, heights, strict=True)
    ]
    # of the other order: P - x Q = x (Q - P / x) + P - x Q
    below = [(1 / x, 1 - 1 / x + height / x) for x, height in reversed(above)]
    hull = lower_hull([(Fraction(0), Fraction(1)), *below, *above])
    return Losses(_pair(hull), hull[-1][1])


def lower_hull(points: Iterable[Point]) -> list[Point]:
    """Return the corners of the largest convex function below `points`, sorted by their first
    coordinates: a convex function that is below all points is below this one too."""
    hull: list[Point] = []
    for point in points:
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def _pair(corners: Sequence[Point]) -> Pair:
    """Return the classes of the profile through `corners`, constant from the last on: where its
    slope grows by Q there is a class of masses (x Q, Q)."""
    slopes = [_slope(*chord) for chord in pairwise(corners)]
    steps = zip(corners[1:], pairwise((*slopes, Fraction(0))), strict=True)
    return tuple(
        (x * (after - before), after - before)
        for (x, _), (before, after) in steps
        if after > before
    )


def _slope(left: Point, right: Point) -> Fraction:
    return (right[1] - left[1]) / (right[0] - left[0])


def _last(delta: Callable[[float], float], most: float) -> float:
    """Return the epsilon of the last point: `most`, or where delta is about `FAR`."""
    low, high = 0.0, min(most, 1.0)
    while high < most and delta(high) > FAR:
        low, high = high, min(most, 2 * high)
    while high > 1.05 * low and high > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if delta(middle) > FAR else (low, middle)
    return high
