"""What many reports about one person cost together, from the laws of the reports themselves.

`ldp.accounting.sequential` and `advanced` know epsilons only; here the loss of a report is
ln P(report | value) / P(report | other), a few points per mechanism, and the losses of fresh
reports add. The answer is an upper bound: nothing is rounded down. Sources: Sommer, Meiser and
Mohammadi 2019 (privacy loss distributions); Zhu, Dong and Wang 2022, theorem 10 (pairs compose,
chosen adaptively too); Doroshenko and others 2022 (losses rounded onto a grid).
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from ldp.accounting.cost import Cost
from ldp.arrays import Floats
from ldp.errors import ParameterError
from ldp.mechanisms.base import Catalogued
from ldp.mechanisms.joint_base import parts_of
from ldp.privacy_loss.lattice import ROUNDING, bound, split
from ldp.privacy_loss.outcomes import dominating_pair
from ldp.protocol.channel import exact_log, round_up

SIZE = 1 << 17
"""Points of the lattice, at most."""
SHARES = 64
"""The smallest epsilon is up to so many steps where that puts every loss on the lattice."""
WIDTH = 10
"""Standard deviations of the sum, tilted, on either side of the window."""
ROUNDED = 1 + 1e-10
"""More than what rounding takes off an exponential or a sum of these."""
STEEPEST = 10.0
"""The tilt, times the largest loss, at most: beyond it nothing is left to gain."""


class _Losses(NamedTuple):
    """A row for each kind of report and part: its losses, filled up with 0, their probabilities,
    filled up with 0, and how many reports there are."""

    values: Floats
    masses: Floats
    counts: Floats

    def cumulant(self, tilt: float) -> tuple[float, float, float]:
        """ln E e**(tilt sum), and mean and variance of the tilted sum."""
        exponents = np.where(self.masses > 0, tilt * self.values, -np.inf)
        most = exponents.max(axis=1, keepdims=True)
        weights = self.masses * np.exp(exponents - most)
        shares = weights.sum(axis=1, keepdims=True)
        weights /= shares
        means = (weights * self.values).sum(axis=1)
        variances = (weights * (self.values - means[:, None]) ** 2).sum(axis=1)
        logarithms = (most + np.log(shares))[:, 0]
        return tuple(float(self.counts @ each) for each in (logarithms, means, variances))  # type: ignore[return-value]


class _Law(NamedTuple):
    """The sum of the losses: (places, probabilities), that of larger ones, an error in epsilon."""

    losses: Floats
    masses: Floats
    beyond: float
    slack: float

    def delta(self, epsilon: float) -> float:
        above, far = np.searchsorted(self.losses, (epsilon, epsilon + 40), "right")  # e**-40 is 0
        missed = float(self.masses[above:far] @ -np.expm1(epsilon - self.losses[above:far]))
        return (missed + float(self.masses[far:].sum()) + self.beyond) * ROUNDED

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon >= 0 of that delta; infinite where there is none in the window.

        Between two places of the lattice delta is a - b e**epsilon, which is inverted.
        """
        start = int(np.searchsorted(self.losses, 0.0))
        kept = bisect_left(self.losses[start:].tolist(), True, key=lambda s: self.delta(s) <= delta)
        place = start + kept
        if place == len(self.losses):
            return math.inf
        loss = float(self.losses[place])
        a = float(self.masses[place:].sum()) + self.beyond
        b = float(self.masses[place:] @ np.exp(loss - self.losses[place:]))
        if a <= delta / ROUNDED:
            return 0.0
        return min(loss, max(0.0, loss + math.log((a - delta / ROUNDED) / b) + 1e-14 * a / b))


@dataclass(frozen=True)
class Composition:
    """So many fresh reports of each mechanism about one person; made by `compose`."""

    reports: tuple[tuple[Catalogued, int], ...]

    @cached_property
    def pure(self) -> Cost:
        """Basic composition: the epsilons add, delta is 0."""
        exact = (count * Fraction(one.cost.epsilon) for one, count in self.reports)
        return Cost(epsilon=round_up(sum(exact, Fraction(0))))

    def at(self, delta: float) -> Cost:
        """The smallest (epsilon, delta) of all reports together, epsilon rounded up.

        It is `pure` where delta is 0 or too small to help. Raises ParameterError unless
        0 <= delta < 1. Time: milliseconds; under a second for a thousand different mechanisms.
        """
        if not 0 <= delta < 1:
            raise ParameterError(f"delta must be at least 0 and below 1, got {delta!r}")
        if delta == 0 or not self.reports:
            return self.pure
        law = self._law(lambda tilt, total, mean: tilt * mean - total + math.log(delta))
        epsilon = law.epsilon(delta) + law.slack
        return Cost(epsilon=epsilon, delta=delta) if epsilon < self.pure.epsilon else self.pure

    def delta(self, epsilon: float) -> float:
        """The smallest delta, rounded up, at which all reports together keep `epsilon` >= 0.

        The sum over losses s of P(s) (1 - e**(epsilon - s))_+.
        """
        if not epsilon >= 0:
            raise ParameterError(f"epsilon must be >= 0, got {epsilon!r}")
        if epsilon >= self.pure.epsilon:
            return 0.0
        law = self._law(lambda tilt, total, mean: mean - epsilon)
        return min(1.0, law.delta(max(0.0, epsilon - law.slack)))

    @cached_property
    def _losses(self) -> _Losses:
        pairs: Counter[tuple[tuple[Fraction, Fraction], ...]] = Counter()
        for one, count in self.reports:
            for part in parts_of(one):
                pairs[dominating_pair(part)] += count
        shape = (len(pairs), max(map(len, pairs)))
        values, masses = np.zeros(shape), np.zeros(shape)
        for row, pair in enumerate(pairs):
            for place, (first, second) in enumerate(pair):
                values[row, place] = _loss(first, second)
                masses[row, place] = max(float(first), 1e-300)  # no mass is lost to underflow
        return _Losses(values, masses, np.array([*pairs.values()], dtype=np.float64))

    def _law(self, wanted: Callable[[float, float, float], float]) -> _Law:
        """The sum of the losses around the place that `wanted` (of tilt, cumulant and mean) makes
        0; it grows with the tilt."""
        losses = self._losses
        steep = STEEPEST / float(losses.values.max())
        low, high = 0.0, steep
        for _ in range(50):
            tilt = (low + high) / 2
            below = wanted(tilt, *losses.cumulant(tilt)[:2]) < 0
            low, high = (tilt, high) if below else (low, tilt)
        _, mean, variance = losses.cumulant(tilt)
        reach = WIDTH * math.sqrt(variance) + 2 * float(losses.values.max())
        bottom = max(mean - reach, float(losses.counts @ losses.values.min(axis=1)))
        top = min(mean + reach, float(losses.counts @ losses.values.max(axis=1)))
        step = _step(losses.values, top - bottom)
        places = losses.values / step
        whole = np.rint(places)
        near = np.abs(places - whole) < 1e-9
        moved = np.where(near, np.maximum(losses.values - whole * step, 0), 0).max(axis=1)
        far = np.abs(losses.values).max(axis=1)
        places = np.where(near, whole, places)
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
            beyond=math.exp(law.beyond),
            slack=float(losses.counts @ (moved + 8 * ROUNDING * far)),
        )


def compose(reports: Iterable[tuple[Catalogued, int]], *, is_fresh: bool = False) -> Composition:
    """Return what so many reports of each mechanism tell together about one person.

    Every report must be drawn afresh: row, cohort, noise. Reports of a mechanism that memoises are
    not, unless `is_fresh` says so: there `cost.lifetime` bounds the reports about one value. How
    many there are must not depend on the values or on earlier reports; values may. Raises
    ParameterError for a negative number, and for several reports that may be memoised.

    >>> from ldp import CountMeanSketch
    >>> words = CountMeanSketch(epsilon=0.5, rows=65536, width=1024, seed="00ff")
    >>> quarter = compose([(words, 90)])
    >>> quarter.pure.epsilon, round(quarter.at(delta=1e-9).epsilon, 1)
    (45.0, 24.3)
    """
    counts: Counter[Catalogued] = Counter()
    for one, count in reports:
        if type(count) is not int or count < 0:
            raise ParameterError("a number of reports must be a whole number, 0 or more")
        counts[one] += count
        if one.memoisable and counts[one] > 1 and not is_fresh:
            raise ParameterError(
                f"reports of {one.name} share what is memoised, and cost.lifetime bounds them: "
                "pass is_fresh=True if each is drawn anew"
            )
    return Composition(tuple((one, count) for one, count in counts.items() if count))


def _loss(first: Fraction, second: Fraction) -> float:
    """ln(first / second), to the last bit; 0 and turned pairs without a logarithm of their own."""
    if first == second:
        return 0.0
    return -_loss(second, first) if first < second else _logarithm(first / second)


@lru_cache
def _logarithm(ratio: Fraction) -> float:
    return float(exact_log(ratio))


def _step(losses: Floats, width: float) -> float:
    """The widest step that has every loss on the lattice and `width` in at most SIZE steps; where
    there is none, the finest that has the latter."""
    unit = float(np.min(losses[losses > 0]))
    for share in range(1, SHARES + 1):
        places = losses * (share / unit)
        if (np.abs(places - np.rint(places)) < 1e-9).all() and width * share / unit < SIZE - 8:
            return unit / share
    return width / (SIZE - 8)
