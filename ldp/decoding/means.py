"""Tables of numbers: the mean of the reporters' numbers, and the regression of their tuples.

The mean bin of n reports is linear in the mean step (`ldp/mechanisms/numeric.py`): with B bins and
windows of W, p and q the channel's probabilities,

    mean bin = q B (B - 1) / 2 + (p - q) W (mean step + (W - 1) / 2).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ldp.arrays import Floats, Ints
from ldp.decoding.binomials import share_interval
from ldp.decoding.by_category import Distributions, decode_by_category
from ldp.decoding.distribution import Distribution, decode_distribution
from ldp.errors import DecodeError
from ldp.files import counted, finite
from ldp.mechanisms.base import FAKES
from ldp.mechanisms.moments import RegressionMoments
from ldp.mechanisms.numeric import Numeric
from ldp.regression.bounds import Unmapped
from ldp.regression.intervals import LEAST_SIGNAL, NO_BETTER, Equations
from ldp.regression.ridge import floored
from ldp.regression.signs import from_signs, keep_ratio, unmapped_of
from ldp.tables.estimates import Normal, table_details, widened
from ldp.tables.fakes import NO_FAKES, Fakes, fake_reports
from ldp.tables.frame import Columns
from ldp.tables.result import Result
from ldp.tables.statistics import Statistic, columns_of
from ldp.tables.table import Table, one_table

FEW = 100
"""Number of reports below which a mean of windows has no normal interval."""
QUIET = 10.0
"""Noise of all reports, in squared ranges, below which rare numbers skew a mean's error."""
Ends = tuple[float, float]
"""Ends of an interval or of a range."""
TILTS = np.geomspace(1e-3, 500.0, 400)
"""Exponents, for the range of all bins, at which Chernoff's bound is tried."""


@dataclass(frozen=True, eq=False, repr=False)
class MeanEstimate(Result):
    """Mean and its `std_error`, in the units of the numbers, from `reports` reports.

    The standard error is around the mean of the population from which the reporters were drawn at
    random: noise, rounding, and the spread of their numbers. It is `error` where everybody sent one
    report. Further ones add the most that the mean and the range allow. `places`: function from the
    probability that the interval misses to its ends, in shares of the range. It is None where the
    interval is normal. `fakes`: made-up reports that the interval allows for, if any. `honest`:
    function from a share of them to the result that allows for these.
    """

    kind = "numbers"

    mean: float
    error: float
    reports: int
    bounds: Ends
    details: dict[str, Any]
    places: Callable[[float], Ends] | None = None
    fakes: Fakes = NO_FAKES
    honest: "Callable[[float], MeanEstimate] | None" = None

    def _under_fakes(self, share: float) -> "MeanEstimate":
        assert self.honest is not None
        return replace(
            self.honest(share), level=self.level, reports_per_person=self.reports_per_person
        )

    @property
    def std_error(self) -> float:
        """Standard error of the mean."""
        return math.hypot(self.error, self._further)

    @property
    def _further(self) -> float:
        """Standard error that the reports of a person beyond one add."""
        (low, high), n, each = self.bounds, self.reports, 1 + self.more
        mean = (n * min(max(self.mean, low), high) + 2 * each * (low + high)) / (n + 4 * each)
        return math.sqrt(self.more * (high - mean) * (mean - low) / n)

    def _interval(self, level: float, **_: bool) -> Ends:
        """Return (low, high) within the bounds, which holds the population's mean with probability
        `level`: at least that for one bit and for fewer than 100 reports, else by the normal
        distribution, about a mean nearer to the middle where noise is small."""
        miss, (least, most) = 1 - level, self.bounds
        down = self.mean - self.fakes.raised
        up = self.mean + self.fakes.lowered
        if self.places is not None:
            extent = most - least
            low, high = (least + extent * place for place in self.places(miss))
        else:
            reach = Normal().upper(miss / 2) * self.error
            low, high = down - reach, up + reach
        if self.more:
            honest = self.reports - self.fakes.number
            ends = np.array([low, high, down, up]) - least
            wider = widened(ends, most - least, honest, self.more, miss)
            low, high = (least + float(end) for end in wider)
        return float(np.clip(low, least, most)), float(np.clip(high, least, most))

    @property
    def summary(self) -> dict[str, Any]:
        """Summary for the file beside the CSV: all numbers and details."""
        low, high = self.interval()
        numbers = {"mean": self.mean, "std_error": self.std_error, "low": low, "high": high}
        controls = {"reports": self.reports, **self.controls, "quantiles": []}
        return {"kind": self.kind, **numbers, **controls, **self.details, **self.fakes.details}

    @property
    def headline(self) -> str:
        """One line: the mean, its standard error and the number of reports."""
        reports = counted(self.reports, "report")
        return f"Mean {self.mean:.6g} +- {self.std_error:.2g} from {reports}"

    def _columns(self) -> Columns:
        return columns_of([Statistic("mean", self.mean, self.std_error, *self.interval())])


def decode_mean(table: Table) -> MeanEstimate:
    """Return the mean of a `table` of `one-bit-mean` or `piecewise`. It is unbiased, so it may lie
    outside of the bounds. Raises DecodeError for another table and for an empty one."""
    mechanism = one_table(table).mechanism
    if not isinstance(mechanism, Numeric):
        raise DecodeError(f"decode_mean reads no table of {mechanism.name}")
    if not table.total:
        raise DecodeError("the table holds no reports")
    return _mean(table, mechanism)


def _mean(table: Table, mechanism: Numeric, share: float | None = None) -> MeanEstimate:
    """Return the mean with an interval that holds under a `share` of made-up reports: for the lower
    end these are the largest of all reports, for the upper end the least."""
    n = table.total
    counts, bins = table.counts[0].astype(np.int64), np.arange(mechanism.bins)
    mean_bin = float(counts @ bins) / n
    spread = float(counts @ (bins - mean_bin) ** 2) / n
    q, gain, width = float(mechanism.channel.untouched), mechanism.channel.gain, mechanism.width
    per_range = gain * width * mechanism.addressing.steps
    first = q * float(bins.sum()) + gain * width * (width - 1) / 2
    place = (mean_bin - first) / per_range
    # a few reports may all be equal: their noise is that of a mean nearer to the middle
    middle = _nearer_to_middle(place, n)
    noise = mechanism.mean_variance(middle)
    k = fake_reports(n, share or 0.0)
    honest = n - k
    variance = max(spread * (n / honest) / per_range**2, noise) / honest
    most = _mean_without(counts, k)
    least = mechanism.bins - 1 - _mean_without(counts[::-1], k)
    places: Callable[[float], Ends] | None = None
    if mechanism.bins == 2:
        ends = (max(0, int(counts[1]) - k), min(int(counts[1]), honest))
        places = partial(_places_of_one_bit, mechanism, ends, honest)
    elif n < FEW:
        places = partial(_places_of_few, mechanism, (least, most), honest)
    elif n * noise < QUIET:
        variance += 2 * (middle**2 + (1 - middle) ** 2) / honest**2
        outer = [(end - first) / per_range for end in (least, most)]
        places = partial(_places_about, outer, honest, variance)
    low, high = mechanism.bounds
    fakes_move = FAKES * (high - low) * mechanism.reach
    to_numbers = (high - low) / per_range
    moved = ((mean_bin - least) * to_numbers, (most - mean_bin) * to_numbers)
    return MeanEstimate(
        mean=low + (high - low) * place,
        error=(high - low) * variance**0.5,
        reports=n,
        bounds=mechanism.bounds,
        details={
            **table_details(table, "mean"),
            "bounds": list(mechanism.bounds),
            "fakes_move": fakes_move,
        },
        places=places,
        fakes=NO_FAKES
        if share is None
        else Fakes(share=share, number=k, raised=moved[0], lowered=moved[1]),
        honest=partial(_mean, table, mechanism),
    )


def _mean_without(counts: Ints, fewest: int) -> float:
    """Return the mean bin of the reports `counts`, shape (bins,), without the `fewest` least."""
    left = np.diff(np.maximum(counts.cumsum() - fewest, 0), prepend=0)
    return float(left @ np.arange(counts.size)) / float(left.sum())


def _places_of_one_bit(
    mechanism: Numeric, named_counts: tuple[int, int], reports: int, miss: float
) -> Ends:
    """Return the interval's ends for the least and the largest number of reports of the upper bin:
    their probability is linear in the mean of the population, whatever its distribution, so the
    number is a binomial."""
    counts, total = np.array(named_counts), np.array([reports])
    low, high = share_interval(counts, total, mechanism.channel, miss / 2)
    return float(low[0]) / reports, float(high[1]) / reports


def _nearer_to_middle(place: float, reports: int, more: float = 2.0) -> float:
    """Return the mean place of the reports and of `more` at either end of the range."""
    return (reports * min(max(place, 0.0), 1.0) + more) / (reports + 2 * more)


def _places_about(ends: Sequence[float], reports: int, variance: float, miss: float) -> Ends:
    """Return the ends of a normal interval about the least and the largest place in `ends`, with up
    to two reports added at either end, fewer at low levels (Agresti and Coull 1998): numbers that
    are rare may have no report."""
    reach = Normal().upper(miss / 2)
    more = min(2.0, reach**2 / 2)
    low, high = (_nearer_to_middle(end, reports, more) for end in ends)
    return low - reach * variance**0.5, high + reach * variance**0.5


def _places_of_few(mechanism: Numeric, mean_bins: Ends, reports: int, miss: float) -> Ends:
    """Return the ends of an interval that holds for any number of reports and any population, for
    the least and the largest mean bin that they can have.

    With M(t) the mean of e**(t bin), P(mean bin >= x) <= (M(t) e**(-t x))**n for every t > 0
    (Chernoff 1952), and of all populations of one mean M is largest where everybody is at one end
    of the range: a function of the mean place that is linear. So each t excludes the places for
    which the right-hand side is below half of `miss`. A t below 0 does likewise on the other side.
    """
    steps, width, bins = mechanism.addressing.steps, mechanism.width, mechanism.bins
    q, gain, ends = float(mechanism.channel.untouched), mechanism.channel.gain, []
    for tilts, mean_bin in zip((TILTS / bins, -TILTS / bins), mean_bins, strict=True):
        powers = np.exp(tilts[:, None] * (np.arange(bins) - mean_bin))
        lowest = q * powers.sum(axis=1) + gain * powers[:, :width].sum(axis=1)
        highest = q * powers.sum(axis=1) + gain * powers[:, steps:].sum(axis=1)
        ends.append(((miss / 2) ** (1 / reports) - lowest) / (highest - lowest))
    return float(ends[0].max()), float(ends[1].min())


@dataclass(frozen=True, eq=False, repr=False)
class RegressionEstimate(Result):
    """Linear regression of the last number of each tuple on the others: `coef`, shape (features,),
    and `intercept`, in the units of the numbers.

    `equations`: those for people who sent one report each, in mapped units. `damage`: function that
    computes `fakes_move`.
    """

    kind = "regression"

    coef: Floats
    intercept: float
    reports: int
    details: dict[str, Any]
    equations: Equations
    unmapped: Unmapped
    damage: Callable[[], Floats]

    @cached_property
    def _widened(self) -> Equations:
        """Equations with variances for people who sent several reports: of the variance of a sign,
        c**2 - v**2, people's part, 1 - v**2, is 1 / c**2 at most."""
        more = 1 + self.more / keep_ratio(self.details["epsilon"]) ** 2
        matrix, vector = self.equations.xx_variances, self.equations.xy_variances
        return replace(self.equations, xx_variances=more * matrix, xy_variances=more * vector)

    @cached_property
    def std_error(self) -> Floats:
        """Standard errors of the least-squares coefficients, shape (features + 1,), the intercept
        last. They are infinite where the reports do not determine them. The ridge shrinks
        `coef`."""
        return self.unmapped.std_errors(self._widened)

    @cached_property
    def fakes_move(self) -> Floats:
        """Largest move of each coefficient by 1 % of made-up reports, all about one product: shape
        (features + 1,). The first access computes it, which takes seconds with 50 features."""
        return self.damage()

    def _interval(self, level: float, **_: bool) -> tuple[Floats, Floats]:
        """Return (low, high), each of shape (features + 1,), the intercept last: each interval
        holds the least-squares coefficient of the population from which the reporters were drawn
        with probability `level`. An end is infinite where the reports set none."""
        low, high = self.unmapped.intervals(self._widened, level).T
        return low, high

    @property
    def summary(self) -> dict[str, Any]:
        """Summary for the file beside the CSV: all numbers and details. Null stands for an infinite
        number."""
        low, high = self.interval()
        numbers = {
            "coef": self.coef.tolist(),
            "intercept": self.intercept,
            "std_error": finite(self.std_error.tolist()),
            "low": finite(low.tolist()),
            "high": finite(high.tolist()),
            "fakes_move": finite(self.fakes_move.tolist()),
        }
        controls = {"reports": self.reports, **self.controls, "signal": self._widened.signal(True)}
        warning = {"warning": NO_BETTER} if controls["signal"] < LEAST_SIGNAL else {}
        return {"kind": self.kind, **numbers, **controls, **self.details, **warning}

    @property
    def headline(self) -> str:
        """One line: the numbers of features and of reports."""
        features, reports = counted(len(self.coef), "feature"), counted(self.reports, "report")
        return f"Regression on {features}, from {reports}"

    def _columns(self) -> Columns:
        """Return the terms, the intercept last."""
        terms = [*(f"x{number}" for number in range(1, len(self.coef) + 1)), "intercept"]
        low, high = self.interval()
        return {
            "statistic": ["coefficient"] * len(terms),
            "value": terms,
            "estimate": np.append(self.coef, self.intercept),
            "std_error": self.std_error,
            "low": low,
            "high": high,
        }


def decode_regression(table: Table) -> RegressionEstimate:
    """Return the regression of a table of `moments`. Raises DecodeError for another table, and for
    a product without reports."""
    mechanism = one_table(table).mechanism
    if not isinstance(mechanism, RegressionMoments):
        raise DecodeError(f"a {mechanism.name} table holds no moments of a regression")
    if not table.reports.all():
        raise DecodeError("one of the products was never reported: the table has too few reports")
    signs = table.counts[:, 1].astype(np.int64) - table.counts[:, 0]
    unmapped = unmapped_of(mechanism.bounds)
    moments_of = partial(from_signs, epsilon=mechanism.epsilon, features=mechanism.features)
    moments = moments_of(table.reports, signs)
    coef, intercept = unmapped.coefficients(floored(moments))

    def damage() -> Floats:
        fakes = max(1, round(FAKES / (1 - FAKES) * table.total)) * np.eye(
            len(signs), dtype=np.int64
        )
        moved = [
            unmapped.coefficients(floored(moments_of(table.reports + row, signs + way * row)))
            for row in fakes
            for way in (-1, 1)
        ]
        ends = np.array([[*slopes, level] for slopes, level in moved])
        return np.asarray(np.abs(ends - [*coef, intercept]).max(axis=0))

    return RegressionEstimate(
        coef,
        intercept,
        table.total,
        table_details(table, "regression"),
        moments.equations,
        unmapped,
        damage,
    )


def decode_numbers(
    table: Table,
) -> MeanEstimate | RegressionEstimate | Distribution | Distributions:
    """Return the mean, the regression or the distributions of a `table`, whichever its mechanism
    has."""
    if table.mechanism.answers == "moments":
        return decode_regression(table)
    if isinstance(table.mechanism, Numeric):
        return decode_mean(table)
    return decode_by_category(table) if table.mechanism.by else decode_distribution(table)
