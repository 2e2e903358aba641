"""What each way of asking for a percentile would say, before anybody is asked.

A way is judged by its decoder, on the table that its reports give on average: the interval of the
percentile that this table has is the one to expect.
"""

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np

from ldp.accounting import Neighbours
from ldp.arrays import Floats
from ldp.central import Exponential
from ldp.decoding.by_category import expected_category
from ldp.decoding.distribution import (
    Distribution,
    bins_of,
    decode_distribution,
    expected_distribution,
)
from ldp.decoding.statistics import Statistic
from ldp.errors import ParameterError
from ldp.mechanisms.bins import Bins, EqualBins, RelativeBins
from ldp.mechanisms.bit_flip import BitFlip
from ldp.mechanisms.hierarchical_histogram import (
    MAGNITUDES,
    MOST_COLUMNS,
    HierarchicalHistogram,
)
from ldp.mechanisms.numeric import Range, number_of, require_range
from ldp.planning.numbers import OF_NUMBERS, Curator
from ldp.planning.question import MOST_USERS, registry_parameters, report_bytes
from ldp.protocol.channel import require_epsilon, require_whole
from ldp.simulation import Population, draw_table

Histogram = HierarchicalHistogram | BitFlip
OF_DOUBLING = (4, 8, 16, 32)
"""Numbers of bins of a doubling that are tried."""
OF_RANGE, FLIPS = (64, 256, 1024), (16, 64, 256)
"""Numbers of bins of a range that are tried: in levels, and as bit flips."""
PEOPLE = 1000
"""Number of people who are taken for all where no population is given."""
FINEST = 1024
"""Number of bins of a doubling among which a curator chooses."""
PARTS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Shares of the users for which a plan says what it would tell of a category."""
HOPELESS, MORE = 4.0, 2
"""Longest interval that is of use, in percentiles; factor by which more users are tried."""
WITHIN = 1.05
"""A report is preferred to a longer one if its interval is at most so many times as long."""


@dataclass(frozen=True, kw_only=True)
class PercentileForecast:
    """Forecast of one way: the expected `percentile` with its interval, which may be open, the
    standard error of the share of people below it, and of the mean, if it has one."""

    mechanism: Histogram
    percentile: Statistic
    share_std_error: float
    mean_std_error: float | None
    part: float = 1.0
    """Share of the users whose numbers these are."""

    @property
    def width(self) -> float:
        """Length of the interval; infinite if it is open."""
        return self.percentile.high - self.percentile.low

    @property
    def is_hopeless(self) -> bool:
        """Return whether the interval is open, or longer than HOPELESS times the percentile; of a
        stated range, than half of it."""
        bounds = getattr(self.mechanism, "bounds", None)
        most = (bounds[1] - bounds[0]) / 2 if bounds else HOPELESS * abs(self.percentile.estimate)
        return self.width > most

    @property
    def words(self) -> str:
        """Name of the way, with its bins."""
        each = "" if getattr(self.mechanism, "bounds", None) else " a doubling"
        return f"{self.mechanism.name}, {self.mechanism.buckets} bins{each}"

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast as JSON-ready data; an open end is None."""
        ends = (self.percentile.low, self.percentile.high)
        low, high = (end if math.isfinite(end) else None for end in ends)
        return {
            **self.mechanism.parameters(),
            "report_bytes": report_bytes(self.mechanism),
            "percentile": self.percentile.estimate,
            "low": low,
            "high": high,
            "share_std_error": self.share_std_error,
            "mean_std_error": self.mean_std_error,
            "part": self.part,
            "is_hopeless": self.is_hopeless,
        }


@dataclass(frozen=True, kw_only=True)
class PercentilePlan:
    """All ways, the recommended one first, and `means`: mechanisms of the mean alone, with its
    standard error for numbers in the middle of the range. By category `forecasts` are of one with
    an equal part of the users, `parts` those of the recommended way for other parts, and
    `users_needed` is the number of users from which an equal part is not hopeless, None where it is
    more than MOST_USERS."""

    forecasts: tuple[PercentileForecast, ...]
    means: dict[str, float]
    parts: tuple[PercentileForecast, ...] = ()
    users_needed: int | None = None

    @property
    def best(self) -> PercentileForecast:
        """The recommended way: of the shortest intervals the one with the shortest report."""
        return self.forecasts[0]

    def registry_lines(self) -> str:
        """Return the lines of metrics.toml that state the recommended mechanism."""
        parameters = registry_parameters(self.best.mechanism)
        return "".join(f"{name} = {json.dumps(value)}\n" for name, value in parameters)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-ready data."""
        forecasts = [row.to_dict() for row in self.forecasts]
        answer = {"forecasts": forecasts, "means": self.means, "registry": self.registry_lines()}
        if not self.parts:
            return answer
        parts = [row.to_dict() for row in self.parts]
        return {**answer, "parts": parts, "users_needed": self.users_needed}


def plan_percentile(
    *,
    users: int,
    epsilon: float,
    q: float = 0.95,
    bounds: Range | None = None,
    people: Population | None = None,
    by: int = 1,
) -> PercentilePlan:
    """Return what each way would say of the `q`-quantile of `users` numbers, one report each, in
    `bounds`, or without a known range; with `by` categories above 1, of the numbers of each.

    The numbers are those of `people`; without them they are spread evenly over the range, or
    lognormal (standard deviation of the logarithm 1) where it is unknown. Raises ParameterError for
    a number out of range.
    """
    require_whole(users, "users", 1, MOST_USERS)
    if not 0 < q < 1:
        raise ParameterError("a quantile must lie strictly between 0 and 1")
    epsilon = require_epsilon(epsilon)
    bounds = None if bounds is None else require_range(bounds, "range")
    held = people or typical_people(bounds)
    require_whole(by, "by", 1, MOST_COLUMNS)
    names = tuple(f"category {number}" for number in range(1, by + 1)) if by > 1 else ()
    rows = [
        _forecast(mechanism, held, users, q, 1 / by)
        for mechanism in percentile_ways(epsilon, bounds, names)
    ]
    if not rows:
        raise ParameterError(f"{by:,} categories are too many for a report: take fewer")
    shortest = min(row.width for row in rows)
    rows.sort(key=lambda row: (row.width > WITHIN * shortest, _cost(row, shortest), row.width))
    if by == 1:
        return PercentilePlan(forecasts=tuple(rows), means=_means(users, epsilon, bounds))
    way = rows[0].mechanism
    parts = tuple(_forecast(way, held, users, q, part) for part in PARTS)
    needed = users
    while needed <= MOST_USERS and _forecast(way, held, needed, q, 1 / by).is_hopeless:
        needed *= MORE
    return PercentilePlan(
        forecasts=tuple(rows),
        means={},
        parts=parts,
        users_needed=needed if needed <= MOST_USERS else None,
    )


def _means(users: int, epsilon: float, bounds: Range | None) -> dict[str, float]:
    if bounds is None:
        return {}
    kinds = ((name, kind(bounds=bounds, epsilon=epsilon)) for name, kind in OF_NUMBERS.items())
    scale = (bounds[1] - bounds[0]) / users**0.5
    return {name: scale * mechanism.mean_variance(0.5) ** 0.5 for name, mechanism in kinds}


def _cost(row: PercentileForecast, shortest: float) -> int:
    return report_bytes(row.mechanism) if row.width <= WITHIN * shortest else 0


def percentile_ways(
    epsilon: float, bounds: Range | None, by: tuple[str, ...] = ()
) -> Iterator[Histogram]:
    """Yield the mechanisms that a plan compares for a number in `bounds`, or of an unknown range,
    by these categories, if any; raises ParameterError for a number out of range."""
    if by:
        for buckets in OF_DOUBLING if bounds is None else OF_RANGE:
            with suppress(ParameterError):  # too many bins for a report
                yield HierarchicalHistogram(epsilon=epsilon, bounds=bounds, buckets=buckets, by=by)
        return
    if bounds is None:
        for buckets in OF_DOUBLING:
            yield HierarchicalHistogram(epsilon=epsilon, buckets=buckets)
        return
    for buckets in OF_RANGE:
        yield HierarchicalHistogram(epsilon=epsilon, bounds=bounds, buckets=buckets)
    for buckets in FLIPS:
        yield BitFlip(epsilon=epsilon, bounds=bounds, buckets=buckets, bits=buckets)


def typical_people(bounds: Range | None, times: int = 1) -> Population:
    """Return PEOPLE numbers, `times` people of each: spread evenly over `bounds`, lognormal where
    no range is known."""
    places = [(i + 0.5) / PEOPLE for i in range(PEOPLE)]
    if bounds is not None:
        numbers = [bounds[0] + (bounds[1] - bounds[0]) * place for place in places]
    else:
        middle = math.sqrt(MAGNITUDES[0] * MAGNITUDES[1])
        numbers = [middle * math.exp(NormalDist().inv_cdf(place)) for place in places]
    return Population(tuple(map(repr, numbers)), counts=np.full(PEOPLE, times))


def _forecast(
    mechanism: Histogram, people: Population, users: int, q: float, part: float = 1.0
) -> PercentileForecast:
    expected = _expected(mechanism, people, users, q, part)
    percentile = expected.quantile(q)
    moments = [row for row in expected.moments() if math.isfinite(row.std_error)]
    return PercentileForecast(
        mechanism=mechanism,
        percentile=percentile,
        share_std_error=_share_std_error(expected, percentile),
        mean_std_error=moments[0].std_error if moments else None,
        part=part,
    )


def _expected(
    mechanism: Histogram, people: Population, users: int, q: float, part: float
) -> Distribution:
    """Return what reports of `users` people give on average; by category that of one with a `part`
    of them, whose `q`-quantile is asked for."""
    bins = bins_of(mechanism)
    share = np.zeros(len(bins))
    np.add.at(share, [bins.place(value) for value in people.values], people.shares)
    if getattr(mechanism, "by", None):
        assert isinstance(mechanism, HierarchicalHistogram)
        return expected_category(mechanism, share, users, part=part, q=q)
    return expected_distribution(mechanism, share, users)


def _finer(bins: Bins) -> Bins:
    """Return bins of the same range, but so fine that they hardly matter."""
    if isinstance(bins, RelativeBins):
        return replace(bins, parts=FINEST)
    assert isinstance(bins, EqualBins)
    return replace(bins, number=FINEST**2 // 16)


def _share_std_error(expected: Distribution, percentile: Statistic) -> float:
    errors = expected.below[1]
    place = expected.bins.place(percentile.estimate)
    return float(errors[min(place, len(errors) - 1)])


@dataclass(frozen=True, eq=False)
class Percentile:
    """Quantile `q` of the numbers of `people`, with counts, and the way that a plan recommends for
    it, `way`."""

    people: Population
    q: float
    way: Histogram
    draws: ClassVar[int] = 40
    """Number of tables from which an error is measured."""

    @classmethod
    def of(cls, people: Population, q: float, bounds: Range | None, epsilon: float) -> "Percentile":
        """Return the quantile, with the way for numbers in `bounds`, or without a known range;
        raises ParameterError for a value that is not a number, and for numbers out of range."""
        planned = plan_percentile(
            users=people.users, epsilon=epsilon, q=q, bounds=bounds, people=people
        )
        return cls(people, q, planned.best.mechanism)

    @property
    def users(self) -> int:
        """Number of people."""
        return self.people.users

    @cached_property
    def _sorted(self) -> tuple[Floats, Floats]:
        """The numbers, increasing, and the share of people up to each."""
        numbers = np.array([number_of(value) for value in self.people.values], dtype=np.float64)
        order = np.argsort(numbers)
        return numbers[order], np.cumsum(self.people.shares[order])

    @cached_property
    def truth(self) -> float:
        """The quantile of these people."""
        numbers, share = self._sorted
        place = int(np.searchsorted(share, self.q - 1e-12))
        return float(numbers[min(place, len(numbers) - 1)])

    @property
    def range(self) -> float:
        """Size of the quantile, of which errors are a share."""
        return abs(self.truth) or 1.0

    def chosen(self, name: str | None, epsilon: float) -> Histogram:
        """Return the way at this `epsilon`. Raises ParameterError for the name of another."""
        if name is not None:
            raise ParameterError("the mechanism of a percentile is the plan's")
        if isinstance(self.way, HierarchicalHistogram):
            return replace(self.way, epsilon=epsilon, branching=0)
        return replace(self.way, epsilon=epsilon)

    def std_error(self, mechanism: Histogram) -> float:
        """Return the root mean squared error of the quantile, over draws of the errors of all
        shares: bins make it larger than the error of the share at the quantile would. By category
        it is that of one with an equal part of the people."""
        part = 1 / len(getattr(mechanism, "by", None) or "1")
        expected = _expected(mechanism, self.people, self.users, self.q, part)
        estimates = expected.quantile_draws(self.q)
        return math.hypot(*(estimates - self.truth)) / math.sqrt(len(estimates))

    def errors(self, mechanism: Histogram, draws: int, generator: np.random.Generator) -> Floats:
        """Draw the error of the quantile of these people: shape (draws,)."""
        bins, one_of = bins_of(mechanism), dict[int, str]()
        people = self.people.mapped(lambda value: one_of.setdefault(bins.place(value), value))
        tables = (
            draw_table(mechanism, people.values, counts=people.counts, generator=generator)
            for _ in range(draws)
        )
        estimates = [decode_distribution(table).quantile(self.q).estimate for table in tables]
        return np.array(estimates) - self.truth

    def curator(self, epsilon: float, draws: int, generator: np.random.Generator) -> Curator:
        """Return what a curator says of the quantile: the errors of `curator_law`."""
        answers, chances = self.curator_law(epsilon)
        errors = answers - self.truth
        return Curator(
            mechanism="exponential",
            parameters={"sensitivity": 1.0},
            std_error=math.hypot(*(chances**0.5 * errors)),  # squares of the largest overflow
            errors=generator.choice(errors, size=draws, p=chances),
        )

    def curator_law(self, epsilon: float) -> tuple[Floats, Floats]:
        """Return the curator's answers, the middles of fine bins, and their probabilities, by the
        exponential mechanism: shapes (bins,). The score of a bin is how many people more, below it
        or in it, would put the quantile there (after Smith 2011, whose candidates are numbers:
        where many people hold one number, no other number is near the quantile)."""
        edges = np.array(_finer(bins_of(self.way)).edges)
        numbers, share = self._sorted
        below = np.concatenate([[0.0], share])[np.searchsorted(numbers, edges)]
        below[-1] = 1.0  # the last bin has its upper edge
        missing = np.maximum(np.maximum(below[:-1] - self.q, self.q - below[1:]), 0.0)
        exponential = Exponential(
            epsilon=epsilon, sensitivity=1.0, neighbours=Neighbours.REPLACE_VALUE
        )
        low, high = edges[:-1], edges[1:]
        middles = np.where(np.isinf(low), high, np.where(np.isinf(high), low, (low + high) / 2))
        return middles, exponential.probabilities(-missing * self.users)
