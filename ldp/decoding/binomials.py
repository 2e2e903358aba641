"""Intervals for a count of holders, from how many of n reports name them.

Of n reports c are about holders and name the cell with probability p each, the others with q: the
number of reports that name it is a sum S of two binomials. The interval is every c from 0 to n for
which neither P(S >= s) nor P(S <= s) is below half of `miss` (Clopper and Pearson 1934), so it
covers every c with the probability stated or more, however few reports there are. With up to k
made-up reports the honest ones name the cell at least S - k times and are at least n - k. The lower
end is then that of (S - k, n - k), the upper end that of (S, n - k): the least and the largest over
all possible made-up reports, because one more report names the cell at most once more. The tails
are saddlepoint approximations: Barndorff-Nielsen 1986, with Daniels' continuity correction of 1987.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
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


@dataclass(frozen=True, eq=False)
class BinomialBounds:
    """Intervals of counts. `named_counts`, integers of shape (candidates,): how many of `reports`
    reports name a value through `channel`; `count`: the estimates, which an interval always holds.

    `reports_about`, shape (candidates,): number of reports about a value, drawn at random from all;
    None where all reports are about all values. `fakes`: largest number of made-up reports; the
    counts are then those of the other reports.
    """

    named_counts: Ints
    reports: int
    channel: Channel
    count: Floats
    reports_about: Ints | None = None
    fakes: int = 0

    @property
    def p_value(self) -> Floats:
        """Return p-values for "nobody holds it": the exact binomial probability that honest reports
        name a value at least as often as is left when all made-up ones name it. Shape
        (candidates,)."""
        about = self.reports if self.reports_about is None else self.reports_about
        honest = np.maximum(about - self.fakes, 0)
        lies = float(self.channel.untouched)
        return binomial_above(self.named_counts - self.fakes - 1, honest, lies)

    @property
    def law(self) -> "BinomialLaw":
        """Distribution of the error of a value that nobody holds."""
        about = self.reports_about
        reports = self.reports if about is None else round(about.mean())
        return BinomialLaw(reports, float(self.channel.untouched))

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
                ends = share_interval(names, honest, self.channel, tail)
                low, high = (end * (self.reports / honest) for end in ends)
                return low[place], high[place]
            low, high = count_interval(names, honest, self.channel.chances, tail)
            if fakes:
                # the most of which `seen` or fewer name the value, if all are holders
                all_hold = bdtrin(seen, tail, self.channel.chances[0])
                high = np.where(high < honest, high, all_hold)
            return low[place], high[place]
        about = np.maximum(self.reports_about - fakes, 1)
        seen = np.clip(self.named_counts - fakes * all_name, 0, about)
        low, high = share_interval(seen, about, self.channel, tail)
        scale = honest / about
        if population:
            scale = self.reports / about
        return low * scale, high * scale


@dataclass(frozen=True, eq=False)
class PooledBounds:
    """Intervals of counts where clients sent several reports under a permanent response: as those
    of fewer reports (Kish 1965), of which each stands for `unit`. `least`, `most`: bounds of the
    lower and of the upper end, whose counts are rounded down and up."""

    least: BinomialBounds
    most: BinomialBounds
    unit: float

    @classmethod
    def of(cls, exact: BinomialBounds, effect: float) -> "PooledBounds":
        """Return the bounds from those of one report a client. `effect`: factor by which variances
        are larger, at most."""
        most: Any = max(1, math.floor(exact.reports / effect))
        unit = exact.reports / most
        fewer = replace(exact, reports=most, count=exact.count / unit)
        if exact.reports_about is not None:
            most = np.maximum(1, np.floor(exact.reports_about / unit))
            fewer = replace(fewer, reports_about=most)
        low, high = (
            np.minimum(end(exact.named_counts / unit), most).astype(np.int64)
            for end in (np.floor, np.ceil)
        )
        least = replace(fewer, named_counts=low)
        return cls(least, replace(fewer, named_counts=high), unit)

    @property
    def p_value(self) -> Floats:
        """P-values of counts that are rounded down."""
        return self.least.p_value

    @property
    def law(self) -> "BinomialLaw":
        """Distribution of the error of a value that nobody holds."""
        return self.least.law

    def under(self, fakes: Fakes) -> Mapping[str, Any]:
        """Return what differs under `fakes`; see `CountBounds.under`."""
        number = math.ceil(fakes.number / self.unit)
        least = replace(self.least, fakes=number)
        most = replace(self.most, fakes=number)
        bounds = PooledBounds(least, most, self.unit)
        return {"bounds": bounds, "p_value": bounds.p_value}

    def __call__(self, miss: float, population: bool) -> tuple[Floats, Floats]:
        low, _ = self.least(miss, population)
        _, high = self.most(miss, population)
        return low * self.unit, high * self.unit


class BinomialLaw(NamedTuple):
    """Distribution of a count that is Binomial(`number`, `share`), around its mean."""

    number: int
    share: float

    def upper(self, p: float) -> float:
        """Return the distance above the mean, in standard deviations, of the least count that is
        reached with probability p or less."""
        return self._above(1 + binomial_ends(p, *self)[1])

    def lower(self, p: float) -> float:
        """Return the distance below the mean of the largest such count."""
        return -self._above(binomial_ends(p, *self)[0] - 1)

    def _above(self, count: int) -> float:
        mean = self.number * self.share
        return (count - mean) / math.sqrt(mean * (1 - self.share))


def share_interval(
    seen: Ints, reports: Ints | int, channel: Channel, tail: float
) -> tuple[Floats, Floats]:
    """Return the ends of the interval for the expected number of holders among `reports` drawn from
    a population, of which `seen` name the value: S is one binomial. Each end misses with
    probability `tail` at most; all shapes (candidates,)."""
    from scipy.special import betaincinv

    rest = reports - seen
    low = np.where(seen > 0, betaincinv(np.maximum(seen, 1), rest + 1, tail), 0.0)
    high = np.where(rest > 0, betaincinv(seen + 1, np.maximum(rest, 1), 1 - tail), 1.0)
    return channel.holders(low * reports, reports), channel.holders(high * reports, reports)


def count_interval(
    seen: Ints, reports: int, chances: tuple[float, float], tail: float, others: int | None = None
) -> tuple[Floats, Floats]:
    """Return the ends of the interval for the number of holders among these reports. `seen`: how
    many name the value, the sum of two binomials; `chances`: probabilities for a holder and for
    another; `others`: number of others, by default all reports but the holders'. Each end misses
    with probability `tail` at most; `seen` and the ends have shape (candidates,)."""
    from scipy.special import ndtri

    z, at = float(-ndtri(tail)), seen.astype(np.float64)
    low, high = np.zeros(seen.size), np.full(seen.size, float(reports))
    is_inside = seen > 0
    low[is_inside] = _solve(at[is_inside] - 0.5, reports, chances, z, others)
    is_inside = seen < reports + (others or 0)
    high[is_inside] = _solve(at[is_inside] + 0.5, reports, chances, -z, others)
    return low, high


def _solve(
    x: Floats, reports: int, chances: tuple[float, float], z: float, others: int | None
) -> Floats:
    """Return the number of holders at which x lies z standard normals above its expectation; the
    fewest or all where there is no such number. By the Illinois method: the function falls and is
    nearly straight. With the fewest holders, x is half a report below the number of holders and
    others together."""
    low = np.zeros(x.size) if others is None else np.clip(x + 0.5 - others, 0, reports)
    high = np.full(x.size, float(reports))

    def normal(places: Any, held: Floats) -> Floats:
        rest = reports - held if others is None else np.float64(others)
        return _normal(x[places], held, rest, chances)

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


def _normal(x: Floats, held: Floats, others: Any, chances: tuple[float, float]) -> Floats:
    """Return the distance of x above its expectation with `held` holders and `others`, as the
    standard normal with the same upper tail; all shapes (candidates,)."""
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
        shares = [(p * np.exp(t) / (1 + p * turn)), (q * np.exp(t) / (1 + q * turn))]
        weighted = held * shares[0] * (1 - shares[0]) + others * shares[1] * (1 - shares[1])
        u = 2 * np.sinh(t / 2) * np.sqrt(weighted)
        normal: Floats = np.where(np.abs(w) > 1e-3, w + np.log(u / w) / w, w)
    return normal
