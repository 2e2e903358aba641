"""Forecasts of percentiles: what each way of asking would say, before anybody is asked.

A way is judged by its decoder, on the table that its reports give on average. Where nobody says
which numbers people hold, few are assumed to be near the percentile (`spread_people`).
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from ldp.arrays import Floats, Generator, increasing
from ldp.decoding.by_category import decode_by_category, expected_category
from ldp.decoding.distribution import (
    Distribution,
    decode_distribution,
    expected_distribution,
    std_error_of_ends,
)
from ldp.errors import DecodeError, ParameterError
from ldp.files import finite
from ldp.mechanisms.bins import Bins, EqualBins, RelativeBins
from ldp.mechanisms.bit_flip import BitFlip
from ldp.mechanisms.hierarchical_histogram import MAGNITUDES, HierarchicalHistogram
from ldp.mechanisms.numeric import Range, number_of
from ldp.planning.mechanism_choice import report_bytes
from ldp.planning.question import counts_held
from ldp.simulation import Population, draw_table
from ldp.tables.result import COUNT
from ldp.tables.saved import SavedResult
from ldp.tables.statistics import Statistic

Way = HierarchicalHistogram | BitFlip
OF_DOUBLING = (4, 8, 16, 32)
"""Numbers of bins of a doubling that are tried."""
OF_RANGE, FLIPS = (64, 256, 1024), (16, 64, 256)
"""Numbers of bins of a range that are tried: in levels, and as bit flips."""
PEOPLE, SPREAD = 1000, 4
"""Number of typical numbers, and number of numbers that stand for those of a bin."""
DENSITY, TAIL = 0.18, 1.5
"""Least share of people that is assumed within a factor of e of a percentile (an eighth within a
factor of 2), and the least as a multiple of the people beyond it, as in a Pareto distribution of
this index. The smaller of the two holds."""
REACH, FINE, FAR = 10, 128, (8, 3)
"""Number of doublings about the percentile in which assumed people are, number of their numbers in
a doubling, and number of doublings from the least percentile assumed to the end of a range, without
and with numbers below 0."""
TABLES, SEED = 21, 1
"""Number of tables whose median interval is the one to expect, and seed of their draws."""
DOUBLINGS = 10
"""Number of doublings up to the end of a range that have bins of their own, where bins are
relative."""
FINEST = 1024
"""Number of bins of a doubling among which a curator chooses."""
HOPELESS = 4.0
"""Longest interval that is of use, in percentiles."""
WITHIN = 1.05
"""Largest ratio of two intervals at which the shorter report is preferred."""


@dataclass(frozen=True, kw_only=True)
class PercentileForecast:
    """Forecast of one way: the expected `percentile` with its interval, which may be open, the
    standard error of the share of people below it, and the most of the mean, if it has one: all
    who are in a bin may hold its end."""

    mechanism: Way
    percentile: Statistic
    share_std_error: float
    mean_std_error: float | None
    part: float = 1.0
    """Share of the users whose numbers these are."""
    true: float = 1.0
    """The percentile of the numbers that are assumed."""

    @property
    def width(self) -> float:
        """Length of the interval; infinite if it is open."""
        return self.percentile.high - self.percentile.low

    @property
    def relative_width(self) -> float:
        """Length of the interval, as a share of the percentile."""
        return self.width / (abs(self.true) or 1.0)

    @property
    def is_hopeless(self) -> bool:
        """Return whether the interval is open or too long: longer than half of the range where one
        is stated, else than HOPELESS times the percentile."""
        bounds = self.mechanism.bounds
        most = (bounds[1] - bounds[0]) / 2 if bounds else HOPELESS * abs(self.percentile.estimate)
        return self.width > most

    @property
    def words(self) -> str:
        """Name of the mechanism, with its number of bins."""
        each = "" if self.mechanism.bounds else " a doubling"
        return f"{self.mechanism.name}, {self.mechanism.buckets} bins{each}"

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast as JSON-ready data; an open end is None."""
        row = self.percentile
        estimate, low, high = finite([row.estimate, row.low, row.high])
        return {
            **self.mechanism.parameters(),
            "report_bytes": report_bytes(self.mechanism),
            "percentile": estimate,
            "low": low,
            "high": high,
            "share_std_error": self.share_std_error,
            "mean_std_error": self.mean_std_error,
            "part": self.part,
            "is_hopeless": self.is_hopeless,
        }


def ways(epsilon: float, bounds: Range | None, by: tuple[str, ...] = ()) -> Iterator[Way]:
    """Yield the mechanisms that a plan compares for a number in `bounds`, or of an unknown range,
    by these categories, if any. Raises ParameterError for a number out of range."""
    # bins of all categories for a report
    too_many = (ParameterError,) if by else ()
    shared: dict[str, Any] = {"epsilon": epsilon, "by": by or None}
    for buckets in OF_DOUBLING if bounds is None else OF_RANGE:
        with suppress(*too_many):
            yield HierarchicalHistogram(**shared, bounds=bounds, buckets=buckets)
    if bounds is not None and bounds[0] >= 0:
        magnitudes = (max(bounds[0], bounds[1] / 2**DOUBLINGS), bounds[1])
        for buckets in OF_DOUBLING:
            # too small for bins of doublings, or too many
            with suppress(ParameterError):
                yield HierarchicalHistogram(**shared, magnitudes=magnitudes, buckets=buckets)
    if bounds is not None and not by:
        for buckets in FLIPS:
            yield BitFlip(epsilon=epsilon, bounds=bounds, buckets=buckets, bits=buckets)


def typical_people(bounds: Range | None) -> Population:
    """Return PEOPLE numbers, a person each: evenly spaced in a range. Without a range they are
    lognormal, of deviation 1 about the middle of the magnitudes."""
    places = (np.arange(PEOPLE) + 0.5) / PEOPLE
    if bounds is None:
        sizes = np.exp([*map(NormalDist().inv_cdf, places)])
        numbers = sizes * (math.sqrt(MAGNITUDES[0] * MAGNITUDES[1]) / np.median(sizes))
    else:
        numbers = np.minimum(bounds[0] + (bounds[1] - bounds[0]) * places / 0.999, bounds[1])
    return Population(tuple(map(repr, numbers.tolist())), counts=np.full(PEOPLE, 1))


def shares_near(q: float, ratio: Any) -> tuple[Any, Any]:
    """Return the least shares of people that a plan assumes from the `q`-quantile divided by
    `ratio` to it, and from it to `ratio` times it. `ratio`: a number or an array."""
    density = min(DENSITY, TAIL * q, TAIL * (1 - q))
    return tuple(side * (1 - ratio ** (-density / side)) for side in (q, 1 - q))


@lru_cache(maxsize=64)
def spread_people(q: float, true: float, bounds: Range) -> Population:
    """Return people with the `q`-quantile `true`, of whom no more are near it than `shares_near`
    says. Those who would be outside of the `bounds` hold the bound."""
    doublings = np.arange(-REACH * FINE, REACH * FINE + 1) / FINE
    below, above = shares_near(q, 2.0 ** abs(doublings))
    up_to = q + np.where(doublings < 0, -below, above)
    up_to[-1] = 1.0
    numbers = np.clip(true * 2.0 ** np.copysign(doublings, true * doublings), *bounds)
    return _people_at(numbers, np.diff(up_to, prepend=0.0))


def places_of(bounds: Range | None) -> Floats:
    """Return the values of the quantile for which a plan is made: the one nearest to 0 that it
    assumes, and the geometric mean of that and the larger end. Without a range return 1.0, which
    stands for all."""
    if bounds is None:
        return np.array([1.0])
    end = max(bounds[1], bounds[0], key=abs)
    least = max(bounds[0], -bounds[1], abs(end) / 2 ** FAR[bounds[0] < 0])
    return np.copysign([least, math.sqrt(least * abs(end))], end)


def people_of_result(path: Path) -> Population:
    """Return the numbers in the histogram of a result that `ldp decode` or `ldp publish` wrote. The
    numbers of a bin are spread over it. Raises ParameterError for a result that is not about one
    number, or has no histogram with a count above 0."""
    result = SavedResult.load(path)
    if result.facts["kind"] != "numbers":
        raise ParameterError(f"{path} is not the result of one number")
    at = np.array(result.texts("statistic")) == COUNT
    low, high, count = (result.numbers(name)[at] for name in ("bin_low", "bin_high", "estimate"))
    if not count.sum() > 0:
        raise ParameterError(f"{path} has no histogram with a count above 0")
    low, high = np.where(np.isnan(low), high, low), np.where(np.isnan(high), low, high)
    below = increasing(np.cumsum(count) / count.sum()).clip(0, 1)
    share = np.repeat(np.diff(below, prepend=0.0) / SPREAD, SPREAD)
    places = (np.arange(SPREAD) + 0.5) / SPREAD
    numbers = (low[:, None] + (high - low)[:, None] * places).ravel()
    return _people_at(numbers, share)


def _people_at(numbers: Floats, share: Floats) -> Population:
    """Return people who hold these numbers, of which some may be equal: shape (numbers,) each."""
    held, place = np.unique(numbers, return_inverse=True)
    total = np.bincount(place, share)
    return Population(tuple(map(repr, held.tolist())), frequencies=total / total.sum())


class KnownQuantile(NamedTuple):
    """The `q`-quantile, whose value is `true`, and the people of whom it is asked: a `part` of
    `users` (one category, where there are several), who are like `people`."""

    people: Population
    users: int
    q: float
    part: float
    true: float


def forecast(mechanism: Way, known: KnownQuantile, tables: int = 0) -> PercentileForecast:
    """Return the forecast of a mechanism: medians over `tables` drawn tables, or for 0 tables the
    result of the average table."""
    q = known.q
    law = expected(mechanism, known)
    errors = law.below[1]
    generator = np.random.default_rng(SEED)
    nothing = Statistic(law.quantile(q).name, math.nan, math.nan, -math.inf, math.inf)
    rows = []
    for _ in range(tables):
        try:
            rows.append(draw_law(mechanism, known, generator).quantile(q))
        except DecodeError:
            # of so few users that no report is of some level or bin
            rows.append(nothing)
    rows = rows or [law.quantile(q)]
    some = [row.estimate for row in rows if not math.isnan(row.estimate)] or [math.nan]
    columns = (some, [row.low for row in rows], [row.high for row in rows])
    estimate, low, high = (sorted(column)[len(column) // 2] for column in columns)
    moments = [row for row in law.moments() if math.isfinite(row.std_error)]
    half = float(np.diff(law.bins.edges).max()) / 2
    return PercentileForecast(
        mechanism=mechanism,
        percentile=Statistic(rows[0].name, estimate, std_error_of_ends(low, high), low, high),
        share_std_error=float(errors[min(law.bins.place(known.true), len(errors) - 1)]),
        mean_std_error=math.hypot(moments[0].std_error, half) if moments else None,
        part=known.part,
        true=known.true,
    )


def people_by_bin(mechanism: Way, people: Population) -> Population:
    """Return the people with one number in place of all numbers of a bin."""
    bins, one_of = mechanism.bins, dict[int, str]()
    return people.mapped(lambda value: one_of.setdefault(bins.place(value), value))


def draw_law(mechanism: Way, known: KnownQuantile, generator: Generator) -> Distribution:
    """Draw a table of reports and return its distribution. By category, it is that of the first
    category. The other categories have equal sizes."""
    by = mechanism.by
    people = people_by_bin(mechanism, known.people)
    values: Any = people.values
    sizes = [1.0]
    if by:
        values = [(name, value) for name in by for value in values]
        sizes = [known.part, *[(1 - known.part) / (len(by) - 1)] * (len(by) - 1)]
    counts = counts_held(np.outer(sizes, people.shares).ravel(), known.users)
    table = draw_table(mechanism, values, counts=counts, generator=generator)
    return decode_by_category(table).of[by[0]] if by else decode_distribution(table)


def ranked(rows: Iterable[PercentileForecast]) -> tuple[PercentileForecast, ...]:
    """Return the forecasts, the recommended one first: the one with the shortest report among the
    intervals that are, relative to the percentile, at most WITHIN times as long as the
    shortest."""
    rows = [*rows]
    near = WITHIN * min((row.relative_width for row in rows), default=0.0)

    def rank(row: PercentileForecast) -> tuple[bool, int, float]:
        is_far = row.relative_width > near
        return is_far, 0 if is_far else report_bytes(row.mechanism), row.relative_width

    return tuple(sorted(rows, key=rank))


def expected(mechanism: Way, known: KnownQuantile) -> Distribution:
    """Return the distribution that reports give on average. By category, it is that of the category
    `known.part` is about."""
    share = people_in_bins(mechanism.bins, known.people)
    if mechanism.by:
        assert isinstance(mechanism, HierarchicalHistogram)
        return expected_category(mechanism, share, known.users, part=known.part, q=known.q)
    return expected_distribution(mechanism, share, known.users)


@lru_cache(maxsize=1024)
def root_mean_squared_error(mechanism: Way, known: KnownQuantile, noisier: float = 1.0) -> float:
    """Return the root mean squared error of the quantile, over draws, for a unit of noise. In a
    draw there are `noisier` units."""
    errors = expected(mechanism, known).quantile_draws(known.q, noisier) - known.true
    return math.hypot(*errors) / math.sqrt(len(errors)) / noisier


@lru_cache(maxsize=64)
def people_in_bins(bins: Bins, people: Population) -> Floats:
    """Return the share of the people in every bin."""
    numbers, edges = held_numbers(people), np.array(bins.edges)
    for end in (numbers.min(), numbers.max()):
        # raises for a number that is refused
        bins.place(float(end))
    places = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(bins) - 1)
    # an edge is rounded, a place is exact
    is_edge = np.isin(numbers, edges)
    places[is_edge] = [bins.place(number) for number in numbers[is_edge].tolist()]
    share = np.zeros(len(bins))
    np.add.at(share, places, people.shares)
    return share


@lru_cache(maxsize=64)
def held_numbers(people: Population) -> Floats:
    """Return the number that each of the people's values is."""
    return np.array([number_of(value) for value in people.values], dtype=np.float64)


def finer(bins: Bins) -> Bins:
    """Return bins of the same range, but so fine that they hardly matter."""
    if isinstance(bins, RelativeBins):
        return replace(bins, parts=FINEST)
    assert isinstance(bins, EqualBins)
    return replace(bins, number=FINEST**2 // 16)
