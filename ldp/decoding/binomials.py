"""Intervals for a count of holders, from how many of n reports name them.

Of n reports c are about holders and name the cell with probability p each, the others with q: the
number of reports that name it is a sum S of two binomials. The interval is every c from 0 to n for
which neither P(S >= s) nor P(S <= s) is below half of `miss` (Clopper and Pearson 1934), so it
covers every c with the probability stated or more, however few reports there are. With up to k
made-up reports the honest ones name the cell at least S - k times and are at least n - k. The lower
end is then that of (S - k, n - k), the upper end that of (S, n - k): the least and the largest over
all possible made-up reports, because one more report names the cell at most once more. The tails
are saddlepoint approximations: Barndorff-Nielsen 1986, with Daniels' continuity correction of 1987.

Where clients sent several reports under a permanent response, the number M of these responses that
name the cell is a sum of two binomials, and so is S given M: P(S >= s) is the sum over m of
P(M >= m) (P(S >= s | M = m) - P(S >= s | M = m - 1)), with P(S >= s | M = 0) (`Pooled`).
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ldp.arrays import Floats, Ints, binomial_above, binomial_ends
from ldp.protocol.channel import Channel
from ldp.tables.fakes import Fakes

STEPS = 90
EXACT = 1e-6
"""Largest error of the solution, in standard normals."""
FEW_LIES, HARDLY_ANY_LIES = 100, 10
"""Variances of the number of reports that name a value by chance: below the first errors are not
normal, below the second a regression makes more false discoveries than its rule promises."""
REACH, POINTS = 8.0, 128
"""Standard deviations, of the reports given their permanent responses, at which a tail is taken as
0 or 1, and number of responses at which it is computed between them."""
Distance = Callable[[Floats, Any, Any], Floats]
"""Function from a count, and the reports of holders and of others, to the standard normal whose
upper tail is the probability of that count or more. All shapes are (candidates,)."""


class Pooled(NamedTuple):
    """Reports of clients that sent `per_client` each under one permanent response.

    `permanent`: chances that this response names the cell, of a holder and of anybody else.
    `shows`: chances that a report names it where the response does, and where it does not."""

    per_client: float
    permanent: tuple[float, float]
    shows: tuple[float, float]

    @property
    def effect(self) -> float:
        """Factor by which the variance is larger, if nobody holds the value, than of as many
        independent reports."""
        (_, q), (high, low) = self.permanent, self.shows
        share = low + q * (high - low)
        shared = (high - low) ** 2 * q * (1 - q) / (share * (1 - share))
        return 1 + (self.per_client - 1) * shared

    def normal(self, x: Floats, held: Any, others: Any, is_sample: bool = False) -> Floats:
        """Return the standard normal with the upper tail of x, for `held` reports of holders and
        `others`, real numbers. All shapes are (candidates,). The sum is over the m near the mean of
        M for which S given m is near x, or over POINTS among them. `is_sample`: whether `held` is
        what a sample of a population is expected to hold, so that M is one binomial."""
        from scipy.special import ndtr, ndtri

        x, held, others = (np.asarray(of, float)[..., None] for of in (x, held, others))
        size, reports = self.per_client, held + others
        clients, (p, q) = reports / size, self.shows
        chances, parts = self.permanent, (held / size, others / size)
        usual = parts[0] * chances[0] + parts[1] * chances[1]
        if is_sample:
            chances = (usual / clients,) * 2
        gain, noise = size * (p - q), max(p * (1 - p), q * (1 - q))
        around = (x - reports * q) / gain
        reach = REACH * np.sqrt(reports * noise) / gain
        spread = REACH * (np.sqrt(usual) + REACH)
        low = np.maximum(around - reach, usual - spread)
        high = np.minimum(around + reach, usual + spread)
        low = np.clip(low, 0, clients)
        high = np.clip(high, low, clients)
        step = np.maximum(1.0, (high - np.floor(low)) / POINTS)
        responses = np.minimum(np.floor(low) + step * np.arange(POINTS + 2), np.floor(clients))
        naming = size * responses
        tails = ndtr(-_normal(x, naming, reports - naming, self.shows))
        reached = ndtr(-_normal(responses[..., 1:] - step / 2, *parts, chances))
        tail = tails[..., 0] + (np.diff(tails) * reached).sum(axis=-1)
        return np.asarray(-ndtri(np.clip(tail, 1e-300, 1 - 1e-16)))


@dataclass(frozen=True, eq=False)
class BinomialBounds:
    """Intervals of counts. `named_counts`, integers of shape (candidates,): how many of `reports`
    reports name a value through `channel`. `count`: the estimates, which an interval always holds.

    `reports_about`, shape (candidates,): number of reports about a value, drawn at random from all.
    It is None where all reports are about all values. `fakes`: largest number of made-up reports.
    The counts are then those of the other reports. `pooled`: where clients sent several each.
    """

    named_counts: Ints
    reports: int
    channel: Channel
    count: Floats
    reports_about: Ints | None = None
    fakes: int = 0
    pooled: Pooled | None = None

    @property
    def p_value(self) -> Floats:
        """Return p-values for "nobody holds it": the exact binomial probability that honest reports
        name a value at least as often as is left when all made-up ones name it. Shape
        (candidates,)."""
        about = self.reports if self.reports_about is None else self.reports_about
        honest = np.maximum(about - self.fakes, 0)
        law = CountLaw(honest, float(self.channel.untouched), self.pooled)
        return law.above(self.named_counts - self.fakes - 1)

    def under(self, fakes: Fakes) -> Mapping[str, Any]:
        """Return what differs under `fakes`; see `CountBounds.under`."""
        bounds = replace(self, fakes=fakes.number)
        return {"bounds": bounds, "p_value": bounds.p_value}

    def __call__(self, miss: float, population: bool) -> tuple[Floats, Floats]:
        low, high = self._ends(miss / 2, population, 0)
        if self.fakes:
            low, _ = self._ends(miss / 2, population, self.fakes, all_name=True)
            high = np.maximum(high, self._ends(miss / 2, population, self.fakes)[1])
        low, high = (np.clip(end, 0, self.reports) for end in (low, high))
        return np.minimum(low, self.count), np.maximum(high, self.count)

    def _ends(
        self, tail: float, population: bool, fakes: int, all_name: bool = False
    ) -> tuple[Floats, Floats]:
        """Return the ends where `fakes` of the reports, which all or none name the value, are made
        up."""
        from scipy.special import bdtrin

        honest = self.reports - fakes
        seen, place = np.unique(self.named_counts, return_inverse=True)
        if self.reports_about is None:
            seen = np.maximum(seen - fakes * all_name, 0)
            names = np.minimum(seen, honest)
            if population:
                ends = share_interval(names, honest, self.channel, tail, self.pooled)
                low, high = (end * (self.reports / honest) for end in ends)
                return low[place], high[place]
            if self.pooled:
                low, high = _interval(names, honest, self.pooled.normal, tail)
            else:
                low, high = count_interval(names, honest, self.channel.chances, tail)
            if fakes:
                # the most of which `seen` or fewer name the value, if all are holders
                each = self.pooled.per_client if self.pooled else 1
                all_hold = each * bdtrin(np.ceil(seen / each), tail, self.channel.chances[0])
                high = np.where(high < honest, high, all_hold)
            return low[place], high[place]
        about = np.maximum(self.reports_about - fakes, 1)
        seen = np.clip(self.named_counts - fakes * all_name, 0, about)
        low, high = share_interval(seen, about, self.channel, tail, self.pooled)
        scale = honest / about
        if population:
            scale = self.reports / about
        return low * scale, high * scale


class CountLaw(NamedTuple):
    """Distribution of how many of so many `reports` name a value that nobody holds, each by itself
    with the chance `share`, around its mean."""

    reports: Any
    share: float
    pooled: Pooled | None = None

    def above(self, counts: Any) -> Floats:
        """Return the probabilities that more reports than `counts` name it."""
        if self.pooled is None:
            return binomial_above(counts, self.reports, self.share)
        from scipy.special import ndtr

        counts, reports = np.broadcast_arrays(np.asarray(counts, float), self.reports)
        (inside, about), place = _distinct(counts, reports)
        about = np.maximum(about, 1)
        inside = np.clip(inside, 0, about - 1)
        tails = ndtr(-self.pooled.normal(inside + 0.5, 0.0, about))
        tails = tails[place.reshape(counts.shape)]
        return np.where(counts < 0, 1.0, np.where(counts < reports, tails, 0.0))

    def upper(self, p: float) -> float:
        """Return the distance above the mean, in standard deviations, of the least count that is
        reached with probability p or less."""
        return self._distance(1 + self._ends(p)[1])

    def lower(self, p: float) -> float:
        """Return the distance below the mean of the largest such count."""
        return -self._distance(self._ends(p)[0] - 1)

    def _ends(self, p: float) -> tuple[int, int]:
        """Return what `binomial_ends` does."""
        if self.pooled is None:
            return binomial_ends(p, self.reports, self.share)
        every = range(self.reports + 1)
        first = partial(bisect_left, every, key=lambda count: -self.above(count))
        return first(p - 1), first(-p)

    def _distance(self, count: int) -> float:
        mean = self.reports * self.share
        effect = self.pooled.effect if self.pooled else 1.0
        return float((count - mean) / math.sqrt(mean * (1 - self.share) * effect))


def _distinct(counts: Any, reports: Any) -> tuple[tuple[Floats, Floats], Ints]:
    """Return the pairs of a count and of reports once each, for laws that take POINTS numbers a
    pair, and the place of every pair among them."""
    pairs, place = np.unique(counts + 1j * reports, return_inverse=True)
    return (pairs.real, pairs.imag), place


def share_interval(
    seen: Ints,
    reports: Ints | int,
    channel: Channel,
    tail: float,
    pooled: Pooled | None = None,
) -> tuple[Floats, Floats]:
    """Return the ends of the interval for the expected number of holders among `reports` drawn from
    a population, of which `seen` name the value: S is one binomial, but where clients sent several.
    Each end misses with probability `tail` at most; all shapes (candidates,)."""
    from scipy.special import betaincinv

    if pooled:
        pairs, place = _distinct(seen, reports)
        low, high = _interval(*pairs, partial(pooled.normal, is_sample=True), tail)
        return low[place], high[place]
    rest = reports - seen
    low = np.where(seen > 0, betaincinv(np.maximum(seen, 1), rest + 1, tail), 0.0)
    high = np.where(rest > 0, betaincinv(seen + 1, np.maximum(rest, 1), 1 - tail), 1.0)
    return channel.holders(low * reports, reports), channel.holders(high * reports, reports)


def count_interval(
    seen: Ints, reports: int, chances: tuple[float, float], tail: float, others: int | None = None
) -> tuple[Floats, Floats]:
    """Return the ends of the interval for the number of holders among these reports. `seen`: how
    many name the value, the sum of two binomials. `chances`: probabilities for a holder and for
    another. `others`: number of others, by default all reports but the holders'. Each end misses
    with probability `tail` at most. `seen` and the ends have shape (candidates,)."""
    return _interval(seen, reports, partial(_normal, chances=chances), tail, others)


def _interval(
    seen: Ints | Floats,
    reports: Ints | Floats | int,
    normal: Distance,
    tail: float,
    others: int | None = None,
) -> tuple[Floats, Floats]:
    """Return what `count_interval` does, under any law of how many reports name the value."""
    from scipy.special import ndtri

    z, at = float(-ndtri(tail)), seen.astype(np.float64)
    high = np.broadcast_to(reports, seen.shape).astype(np.float64)
    total, low = high.copy(), np.zeros(seen.size)
    solve = partial(_solve, normal, others)
    is_inside = seen > 0
    low[is_inside] = solve(total[is_inside], at[is_inside] - 0.5, z)
    is_inside = seen < total + (others or 0)
    high[is_inside] = solve(total[is_inside], at[is_inside] + 0.5, -z)
    return low, high


def _solve(normal_of: Distance, others: int | None, reports: Floats, x: Floats, z: float) -> Floats:
    """Return the number of holders at which x lies z standard normals above its expectation.
    Returns the fewest or all where there is no such number. By the Illinois method: the function
    falls and is nearly straight. With the fewest holders, x is half a report below the number of
    holders and others together."""
    low, high = np.zeros(x.size), reports.copy()
    if others is not None:
        low = np.clip(x + 0.5 - others, 0, reports)

    def normal(places: Any, held: Floats) -> Floats:
        rest = reports[places] - held if others is None else np.float64(others)
        return normal_of(x[places], held, rest)

    at_low, at_high = (normal(slice(None), end) - z for end in (low, high))
    holders = np.where(at_low <= 0, low, high)
    places = np.flatnonzero((at_low > 0) & (at_high < 0))
    low, high, at_low, at_high = (array[places] for array in (low, high, at_low, at_high))
    for _ in range(STEPS):
        if not places.size:
            break
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        at = normal(places, middle) - z
        holders[places] = middle
        is_above = at > 0
        at_high = np.where(is_above, at_high / 2, at)
        at_low = np.where(is_above, at, at_low / 2)
        low, high = np.where(is_above, middle, low), np.where(is_above, high, middle)
        is_open = np.abs(at) > EXACT
        places = places[is_open]
        low, high, at_low, at_high = (array[is_open] for array in (low, high, at_low, at_high))
    return holders


def _normal(x: Floats, held: Any, others: Any, chances: tuple[Any, Any]) -> Floats:
    """Return the distance of x above its expectation with `held` holders and `others`, as the
    standard normal with the same upper tail. All shapes are (candidates,)."""
    (p, q), (not_p, not_q) = chances, (1 - chance for chance in chances)
    mean = held * p + others * q
    # the saddlepoint t: the mean of S under weights e**(t S) is x, a quadratic in e**t
    a = (held + others - x) * p * q
    b = held * p * not_q + others * q * not_p - x * (not_p * q + p * not_q)
    c = x * not_p * not_q
    root = np.sqrt(b * b + 4 * a * c)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        t = np.log(np.where(b > 0, 2 * c / (b + root), (root - b) / (2 * a)))
        turn = np.expm1(t)
        cumulant = held * (np.log1p(p * turn) - p * t) + others * (np.log1p(q * turn) - q * t)
        w = np.sign(t) * np.sqrt(2 * np.maximum(t * (x - mean) - cumulant, 0))
        spread = [np.exp(t) * s * (1 - s) / (1 + s * turn) ** 2 for s in (p, q)]
        u = 2 * np.sinh(t / 2) * np.sqrt(held * spread[0] + others * spread[1])
        normal: Floats = np.where(np.abs(w) > 1e-3, w + np.log(u / w) / w, w)
    return normal
