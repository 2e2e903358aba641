"""Composition of many reports about one person, from the distributions of the reports.

`ldp.accounting.sequential` and `advanced` use epsilons only. Here the loss of a report is ln
P(report | value) / P(report | other), a few points per mechanism, and the losses of fresh reports
add. The result is an upper bound: nothing is rounded down. Sources: Sommer, Meiser and Mohammadi
2019 (privacy loss distributions); Zhu, Dong and Wang 2022, theorem 10 (pairs compose, chosen
adaptively too); Doroshenko and others 2022 (losses rounded onto a grid).
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from ldp.accounting.bisection import bisect
from ldp.accounting.cost import Cost
from ldp.arrays import Floats
from ldp.errors import ParameterError
from ldp.mechanisms.base import CatalogueMechanism
from ldp.mechanisms.joint_base import parts_of
from ldp.mechanisms.outcomes import CurvePoint, Pair, dominating_pair, pair_through, slope
from ldp.privacy_loss.lattice import ROUNDING, Term, Terms, bound, split
from ldp.protocol.channel import exact_log, round_up

SIZE = 1 << 17
"""Largest number of points of the lattice."""
SHARES = 64
"""Largest number of steps in the smallest loss, where that puts every loss on the lattice."""
WIDTH = 10
"""Half-width of the window, in standard deviations of the tilted sum."""
ROUNDED = 1 + 1e-10
"""Factor above the relative rounding error of an exponential or a sum of these."""
STEEPEST = 10.0
"""Largest product of tilt and largest loss: larger tilts improve nothing."""


class _Law(NamedTuple):
    """Distribution of the sum of the losses: places and probabilities, the probability of larger
    sums, and an error in epsilon."""

    losses: Floats
    masses: Floats
    beyond: float
    slack: float

    def delta(self, epsilon: float) -> float:
        # e**-40 is 0
        above, far = np.searchsorted(self.losses, (epsilon, epsilon + 40), "right")
        near = float(self.masses[above:far] @ -np.expm1(epsilon - self.losses[above:far]))
        return (near + float(self.masses[far:].sum()) + self.beyond) * ROUNDED

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon >= 0 with at most this `delta`. It is infinite if the window
        has none.

        Between two places of the lattice delta is a - b e**epsilon, which is inverted.
        """
        start = int(np.searchsorted(self.losses, 0.0))
        places = self.losses[start:].tolist()
        place = start + bisect_left(places, True, key=lambda loss: self.delta(loss) <= delta)
        if place == len(self.losses):
            return math.inf
        loss = float(self.losses[place])
        a = float(self.masses[place:].sum()) + self.beyond
        b = float(self.masses[place:] @ np.exp(loss - self.losses[place:]))
        if a <= delta / ROUNDED:
            return 0.0
        return min(loss, max(0.0, loss + math.log((a - delta / ROUNDED) / b) + 1e-14 * a / b))


POINTS = 32
"""Number of epsilons above 0 at which a profile is evaluated."""
FAR = 1e-15
"""Delta of a profile's last point: what is beyond counts as an infinite loss."""
MOST = 600.0
"""Largest epsilon of a point: e**MOST is a double."""


class Losses(NamedTuple):
    """Classes of a release: their probabilities under two distributions. `infinite`: probability,
    under the first, of releases that the second never gives."""

    pair: Pair
    infinite: Fraction = Fraction(0)


def losses_of(delta: Callable[[float], float], most: float) -> Losses:
    """Return losses whose profile is at least `delta` of epsilon, in either order of neighbours.

    `delta`: an upper bound, for both orders. `most`: a pure epsilon of the release, or infinite.
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
    return Losses(pair_through(hull), hull[-1][1])


def lower_hull(points: Iterable[CurvePoint]) -> list[CurvePoint]:
    """Return the corners of the largest convex function below `points`, sorted by their first
    coordinates: a convex function that is below all points is below this one too."""
    hull: list[CurvePoint] = []
    for point in points:
        while len(hull) > 1 and slope(hull[-2], hull[-1]) >= slope(hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def _last(delta: Callable[[float], float], most: float) -> float:
    """Return the epsilon of the last point: `most`, or where delta is about `FAR`."""
    low, high = 0.0, min(most, 1.0)
    while high < most and delta(high) > FAR:
        low, high = high, min(most, 2 * high)
    while high > 1.05 * low and high > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if delta(middle) > FAR else (low, middle)
    return high


class Composed(ABC):
    """Releases about one person, each with fresh randomness, whose privacy losses add."""

    @property
    @abstractmethod
    def pure(self) -> Cost:
        """Cost by basic composition: the sum of the epsilons, delta 0."""

    @property
    @abstractmethod
    def losses(self) -> Mapping[Losses, int]:
        """Losses of each kind of release, and how many there are of it."""

    def at(self, delta: float) -> Cost:
        """Return the cost of all releases together at this `delta`, with the smallest epsilon,
        rounded up.

        It is `pure` where delta is 0 or too small for less. Raises ParameterError unless
        0 <= delta < 1. Time: milliseconds; under a second for a thousand different mechanisms.
        """
        if not 0 <= delta < 1:
            raise ParameterError(f"delta must be at least 0 and below 1, got {delta!r}")
        if delta == 0 or not self.losses or self._infinite >= delta:
            return self.pure
        law = self._law(lambda tilt, total, mean: tilt * mean - total + math.log(delta))
        epsilon = law.epsilon(delta) + law.slack
        return Cost(epsilon=epsilon, delta=delta) if epsilon < self.pure.epsilon else self.pure

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta, rounded up, of all releases together at `epsilon` >= 0: the
        sum over losses s of P(s) (1 - e**(epsilon - s))_+. Raises ParameterError for less than
        0."""
        if not epsilon >= 0:
            raise ParameterError(f"epsilon must be >= 0, got {epsilon!r}")
        if epsilon >= self.pure.epsilon:
            return 0.0
        if self._infinite >= 1:
            return 1.0
        law = self._law(lambda tilt, total, mean: mean - epsilon)
        return min(1.0, law.delta(max(0.0, epsilon - law.slack)))

    @cached_property
    def _infinite(self) -> float:
        """Probability that a loss is infinite, rounded up."""
        return round_up(sum((n * one.infinite for one, n in self.losses.items()), Fraction(0)))

    @cached_property
    def _terms(self) -> Terms:
        """Finite losses of each kind of release."""
        return Terms.of(
            Term(
                np.array([_loss(first, second) for first, second in pair]),
                # none underflows to 0
                np.array([max(float(first), 1e-300) for first, _ in pair]),
                count,
            )
            for (pair, _), count in self.losses.items()
        )

    def _law(self, excess: Callable[[float, float, float], float]) -> _Law:
        """Return the distribution of the sum of the losses around the tilt at which `excess` (of
        tilt, cumulant and mean), which grows with the tilt, is 0."""
        losses = self._terms

        def is_below(tilt: float) -> bool:
            return excess(tilt, *losses.cumulant(tilt)[:2]) < 0

        steepest = STEEPEST / float(losses.places.max())
        tilt = sum(bisect(is_below, 0.0, steepest, steps=49)) / 2
        _, mean, variance = losses.cumulant(tilt)
        reach = WIDTH * math.sqrt(variance) + 2 * float(losses.places.max())
        bottom = max(mean - reach, float(losses.counts @ losses.places.min(axis=1)))
        top = min(mean + reach, float(losses.counts @ losses.places.max(axis=1)))
        step = _step(losses.places, top - bottom)
        places = losses.places / step
        nearest = np.rint(places)
        is_near = np.abs(places - nearest) < 1e-9
        shift = np.where(is_near, np.maximum(losses.places - nearest * step, 0), 0).max(axis=1)
        largest = np.abs(losses.places).max(axis=1)
        places = np.where(is_near, nearest, places)
        terms = [
            replace(split(places[row], losses.masses[row], step), count=int(count))
            for row, count in enumerate(losses.counts)
        ]
        size = 1 << math.ceil(math.log2((top - bottom) / step + 4))
        law = bound(terms, tilt * step, math.floor(bottom / step) - 1, size)
        return _Law(
            losses=np.multiply(law.places, step, dtype=np.float64),
            # at least 1e-300: upwards, and subnormal numbers are slow
            masses=np.exp(np.clip(law.logarithms(), math.log(1e-300), 0)),
            beyond=math.exp(law.beyond) + self._infinite,
            slack=float(losses.counts @ (shift + 8 * ROUNDING * largest)),
        )


@dataclass(frozen=True)
class Composition(Composed):
    """Composition of fresh reports about one person: mechanisms and their numbers of reports.
    `compose` returns it."""

    reports: tuple[tuple[CatalogueMechanism, int], ...]

    @cached_property
    def pure(self) -> Cost:
        """Cost by basic composition: the sum of the epsilons, delta 0."""
        exact = (count * Fraction(mechanism.cost.epsilon) for mechanism, count in self.reports)
        return Cost(epsilon=round_up(sum(exact, Fraction(0))))

    @cached_property
    def losses(self) -> Mapping[Losses, int]:
        """Losses of each kind of report and part, and the number of these."""
        counts: Counter[Losses] = Counter()
        for mechanism, count in self.reports:
            for part in parts_of(mechanism):
                counts[Losses(dominating_pair(part))] += count
        return counts


def require_fresh(mechanism: Any, number: int, is_fresh: bool) -> None:
    """Raise ParameterError for a `number` of reports that share what is memoised."""
    if mechanism.is_memoisable and number > 1 and not is_fresh:
        raise ParameterError(
            f"reports of {mechanism.name} share what is memoised, and cost.lifetime bounds them: "
            "pass is_fresh=True if each is drawn anew"
        )


def compose(
    reports: Iterable[tuple[CatalogueMechanism, int]], *, is_fresh: bool = False
) -> Composition:
    """Return the composition of `reports`, (mechanism, number) pairs, about one person.

    Every report must be drawn independently: row, cohort, noise. Reports of a memoised mechanism
    are not, unless `is_fresh` is True. `cost.lifetime` bounds those about one value. The numbers
    must not depend on the values or on earlier reports. Values may. Raises ParameterError for a
    negative number, for a `Cost` in place of a mechanism, for messages for a shuffler
    (`compose_shuffled` composes their batches), and for several reports of a memoised mechanism
    unless `is_fresh`.

    >>> from ldp import CountMeanSketch
    >>> words = CountMeanSketch(epsilon=0.5, rows=65536, width=1024, seed="00ff")
    >>> quarter = compose([(words, 90)])
    >>> quarter.pure.epsilon, round(quarter.at(delta=1e-9).epsilon, 1)
    (45.0, 24.3)
    """
    counts: Counter[CatalogueMechanism] = Counter()
    for report in reports:
        if isinstance(report, Cost) or isinstance(report[0], Cost):
            raise ParameterError(
                "compose takes (mechanism, number) pairs: ldp.accounting.sequential adds costs, "
                "and compose_shuffled batches"
            )
        mechanism, count = report
        if type(count) is not int or count < 0:
            raise ParameterError("a number of reports must be a whole number, 0 or more")
        counts[mechanism] += count
        if mechanism.needs_shuffler:
            raise ParameterError(f"{mechanism.name} has no bound before a relay shuffles")
        require_fresh(mechanism, counts[mechanism], is_fresh)
    return Composition(tuple((mechanism, n) for mechanism, n in counts.items() if n))


def _loss(first: Fraction, second: Fraction) -> float:
    """Return ln(first / second), correctly rounded; swapped arguments give the exact negative."""
    if first == second:
        return 0.0
    return -_loss(second, first) if first < second else _logarithm(first / second)


@lru_cache
def _logarithm(ratio: Fraction) -> float:
    return float(exact_log(ratio))


def _step(losses: Floats, width: float) -> float:
    """Return the widest step of a lattice with every loss and with `width` in at most SIZE steps.
    If there is none, returns the finest step with `width` in SIZE steps."""
    unit = float(np.min(losses[losses > 0]))
    for share in range(1, SHARES + 1):
        places = losses * (share / unit)
        if (np.abs(places - np.rint(places)) < 1e-9).all() and width * share / unit < SIZE - 8:
            return unit / share
    return width / (SIZE - 8)
