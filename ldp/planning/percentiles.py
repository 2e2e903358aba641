"""What each way of asking for a percentile would say, before anybody is asked.

A way is judged by its decoder, on the table that its reports give on average: the interval of the
percentile that this table has is the one to expect.
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np

from ldp.decoding.by_category import expected_category
from ldp.decoding.distribution import Distribution, bins_of, expected_distribution
from ldp.decoding.statistics import Statistic
from ldp.errors import ParameterError
from ldp.mechanisms.bins import Bins, EqualBins, RelativeBins
from ldp.mechanisms.bit_flip import BitFlip
from ldp.mechanisms.hierarchical_histogram import MAGNITUDES, HierarchicalHistogram
from ldp.mechanisms.numeric import Range
from ldp.planning.candidates import report_bytes
from ldp.simulation import Population

Way = HierarchicalHistogram | BitFlip
OF_DOUBLING = (4, 8, 16, 32)
"""Numbers of bins of a doubling that are tried."""
OF_RANGE, FLIPS = (64, 256, 1024), (16, 64, 256)
"""Numbers of bins of a range that are tried: in levels, and as bit flips."""
PEOPLE = 1000
"""Number of people who are taken for all where no population is given."""
FINEST = 1024
"""Number of bins of a doubling among which a curator chooses."""
HOPELESS = 4.0
"""Longest interval that is of use, in percentiles."""
WITHIN = 1.05
"""A report is preferred to a longer one if its interval is at most so many times as long."""


@dataclass(frozen=True, kw_only=True)
class PercentileForecast:
    """Forecast of one way: the expected `percentile` with its interval, which may be open, the
    standard error of the share of people below it, and of the mean, if it has one."""

    mechanism: Way
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


def ways(epsilon: float, bounds: Range | None, by: tuple[str, ...] = ()) -> Iterator[Way]:
    """Yield the mechanisms that a plan compares for a number in `bounds`, or of an unknown range,
    by these categories, if any; raises ParameterError for a number out of range."""
    too_many = (ParameterError,) if by else ()  # bins of all categories for a report
    for buckets in OF_DOUBLING if bounds is None else OF_RANGE:
        with suppress(*too_many):
            yield HierarchicalHistogram(
                epsilon=epsilon, bounds=bounds, buckets=buckets, by=by or None
            )
    if bounds is not None and not by:
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


def forecast(
    mechanism: Way, people: Population, users: int, q: float, part: float = 1.0
) -> PercentileForecast:
    """Return what is expected of a mechanism and `users` who are like these people."""
    law = expected(mechanism, people, users, q, part)
    percentile, errors = law.quantile(q), law.below[1]
    moments = [row for row in law.moments() if math.isfinite(row.std_error)]
    return PercentileForecast(
        mechanism=mechanism,
        percentile=percentile,
        share_std_error=float(errors[min(law.bins.place(percentile.estimate), len(errors) - 1)]),
        mean_std_error=moments[0].std_error if moments else None,
        part=part,
    )


def ranked(rows: Iterable[PercentileForecast]) -> tuple[PercentileForecast, ...]:
    """Return the forecasts, the recommended one first: of the shortest intervals, up to a factor
    WITHIN, the one with the shortest report."""
    rows = [*rows]
    near = WITHIN * min((row.width for row in rows), default=0.0)

    def rank(row: PercentileForecast) -> tuple[bool, int, float]:
        is_far = row.width > near
        return is_far, 0 if is_far else report_bytes(row.mechanism), row.width

    return tuple(sorted(rows, key=rank))


def expected(mechanism: Way, people: Population, users: int, q: float, part: float) -> Distribution:
    """Return what reports of `users` people give on average; by category that of one with a `part`
    of them, whose `q`-quantile is asked for."""
    bins = bins_of(mechanism)
    share = np.zeros(len(bins))
    np.add.at(share, [bins.place(value) for value in people.values], people.shares)
    if getattr(mechanism, "by", None):
        assert isinstance(mechanism, HierarchicalHistogram)
        return expected_category(mechanism, share, users, part=part, q=q)
    return expected_distribution(mechanism, share, users)


def finer(bins: Bins) -> Bins:
    """Return bins of the same range, but so fine that they hardly matter."""
    if isinstance(bins, RelativeBins):
        return replace(bins, parts=FINEST)
    assert isinstance(bins, EqualBins)
    return replace(bins, number=FINEST**2 // 16)
