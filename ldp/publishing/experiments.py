"""Experiments: differences of the shares or the means of two metrics, one for each public arm, with
intervals that hold at every look.

The noise of period t has variance v, and differs from that of all other periods. With weights 1/v,
I their sum and d the weighted mean of the differences, all of

    |d - D| <= sqrt((I + r) log((I + r) / (r a^2))) / I

hold together with probability 1 - a or more (Robbins 1970), D being the weighted mean of the true
differences. Rare reports skew noise: with z standard errors on the right-hand side, and the most b
that the noise of one report moves d, b (z^2 + 2) / 6 is added (`ldp/publishing/detection.py`). v is
in proportion to 1 / n, from all periods together: a variance from a period's own shares is larger
where their errors are above 0, and would bias d. Who reports is chance, too, and the same people
may report every day, so that the errors of people are not taken to be independent between periods.
Nor are those of collisions, which stay with the hash functions. The error of each period's people
and collisions has a bound that fails with probability 6 a / (pi t)^2, and the weighted mean of the
errors is within the weighted mean of the bounds. One person may send K reports of a period's n.
They count as one, so that variances are K times as large as with n people.

A share is the mean of numbers from 0 to 1. Numbers from L to H with the mean m have a variance of
(H - m) (m - L) at most (Bhatia and Davis 2000). The bounds use this variance.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from ldp.arrays import Floats
from ldp.errors import ParameterError
from ldp.files import csv_text, write_whole
from ldp.publishing.changes import LineKey, numbers_of, people_of, reach_of, shared_of
from ldp.publishing.data_set_rows import read_rows
from ldp.publishing.outputs import OutputPart, parts, summary_of
from ldp.publishing.state import kept_versions
from ldp.report.formats import in_points, percent, quantity, signed

ALPHA = 0.05
"""Largest probability that any interval of an experiment ever misses."""
TYPICAL = 4.0
"""The r of the module's formula, in the information of the first period: intervals are narrowest,
beside those for one look, at about 8 r."""


class ArmDifference(NamedTuple):
    """Number of the first arm minus that of the second, over the periods from `first` to `last`.
    The number is the share of a `value` if the `statistic` is a count, else the mean."""

    statistic: str
    value: str
    difference: float
    low: float
    high: float
    first: date
    last: date
    periods: int

    @property
    def name(self) -> str:
        """The value, or the statistic where there is none."""
        return self.value or self.statistic

    @property
    def texts(self) -> tuple[str, str, str]:
        """Difference and the ends of its interval as text. For a share they are in percentage
        points, the ends cut to -100 and 100."""
        if self.statistic != "count":
            return signed(self.difference), signed(self.low), signed(self.high)
        low, high = max(-1.0, self.low), min(1.0, self.high)
        return in_points(self.difference), in_points(low), in_points(high)

    @property
    def size(self) -> str:
        """Difference as text, with its unit if it has one."""
        return f"{self.texts[0]} points" if self.statistic == "count" else self.texts[0]

    @property
    def is_real(self) -> bool:
        """Return whether the whole interval is above 0 or below 0."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        text = percent if self.statistic == "count" else quantity
        size, low, high = (text(x) for x in (self.difference, self.low, self.high))
        return f"{self.name}: {size} ({low} to {high}), {self.first} to {self.last}"


@dataclass(frozen=True)
class Experiment:
    """Two metrics that are compared, and the differences of the shares of their values (one at
    least) or of their means."""

    first: str
    second: str
    differences: Sequence[ArmDifference]

    @property
    def name(self) -> str:
        """Name of the experiment, FIRST:SECOND."""
        return f"{self.first}:{self.second}"

    @property
    def file_name(self) -> str:
        """Name of the experiment's file and page, without the ending. Names of metrics have no
        point."""
        return f"{self.first}.{self.second}"

    @property
    def real(self) -> Sequence[ArmDifference]:
        """Differences whose interval leaves 0 out, the largest first."""
        return [d for d in self.largest if d.is_real]

    @property
    def largest(self) -> Sequence[ArmDifference]:
        """All differences, real ones first, then by their size."""
        return sorted(self.differences, key=lambda d: (not d.is_real, -abs(d.difference)))

    @property
    def is_of_shares(self) -> bool:
        """Return whether shares are compared, and not means."""
        return self.differences[0].statistic == "count"

    @property
    def extent(self) -> float:
        """Largest distance from 0 of any interval's end. It is at most 1 for shares."""
        most = max(max(abs(d.low), abs(d.high)) for d in self.differences)
        return min(1.0, most) if self.is_of_shares else most


def intervals(
    difference: Floats,
    variance: Floats,
    people: Floats,
    alpha: float = ALPHA,
    *,
    step: Floats | float = 0.0,
) -> tuple[Floats, Floats]:
    """Return the mean difference of each value and the distance of its interval's ends from it,
    infinite without a period. `difference`; `variance`, that of the noise; and `people`, the
    standard error from the choice of people: float64, shape (periods, values), NaN where there is
    none. `step`: how far the noise of one report moves a difference at most, of a shape that fits.
    With probability 1 - `alpha` or more all intervals hold, of all values and after every
    period."""
    count, many = difference.shape
    a = alpha / (2 * many)
    is_known = np.isfinite(difference + variance + people) & (variance > 0)
    weight = np.where(is_known, 1 / np.where(is_known, variance, 1), 0)
    information = np.maximum(weight.sum(0), 1e-300)
    r = TYPICAL * np.maximum(weight[np.argmax(is_known, 0), np.arange(many)], 1e-300)
    total = information + r
    square = total / information * np.log(total / (r * a**2))
    skew = (weight * step).max(0, initial=0.0) / information * (square + 2) / 6
    noise = np.sqrt(square / information) + skew
    bound = -ndtri(3 * a / (math.pi * np.arange(1, count + 1)) ** 2)[:, None]
    held = (weight * np.where(is_known, people * bound, 0)).sum(0) / information
    mean = (weight * np.where(is_known, difference, 0)).sum(0) / information
    return mean, np.where(is_known.any(0), noise + held, np.inf)


def arm_differences(out: Path, first: str, second: str) -> list[ArmDifference]:
    """Return the differences of the latest versions of two metrics in the folder of a publication,
    over all periods that both have: of the shares of all values, or of the means. Raises
    ParameterError for memoised metrics, whose periods share noise, and for metrics without a period
    or number in common."""
    arms = [{part.period: part for part in _latest(out, metric)} for metric in (first, second)]
    periods = sorted(arms[0].keys() & arms[1].keys())
    if not periods:
        raise ParameterError("no period that both have")
    measured = [[ArmPeriod.of(out, arm[period]) for period in periods] for arm in arms]
    if any(period.shared == 1 for arm in measured for period in arm):
        raise ParameterError("memoised metrics share noise between periods")
    common = measured[1][-1].cells.keys()
    keys = [key for key in measured[0][-1].cells if key in common]
    if not keys:
        raise ParameterError("they have neither a value nor a mean in common in the last period")
    ranges = [arm[-1].bounds for arm in measured]
    if ranges[0] != ranges[1]:
        words = " and ".join(f"{low:g} to {high:g}" for low, high in ranges)
        raise ParameterError(f"their ranges differ, {words}: what is cut off would differ, too")
    (share, noise, people), (share2, noise2, people2) = (
        numbers_of_arm(arm, keys) for arm in measured
    )
    pairs = zip(*measured, strict=True)
    step = np.array([[max(arm.reach / arm.reports for arm in pair)] for pair in pairs])
    parts = share - share2, noise + noise2, np.sqrt(people + people2)
    mean, distance = intervals(*parts, step=step)
    rows = []
    for (statistic, value), d, r, numbers in zip(
        keys, mean, distance, (share - share2).T, strict=True
    ):
        places = np.flatnonzero(np.isfinite(numbers)).tolist()
        known = [periods[t] for t in places] or periods
        rows.append(
            ArmDifference(
                statistic=statistic,
                value=value,
                difference=float(d),
                low=float(d - r),
                high=float(d + r),
                first=known[0],
                last=known[-1],
                periods=len(places),
            )
        )
    return rows


class ArmPeriod(NamedTuple):
    """Numbers of one arm in one period. `cells`: shares or the mean, with standard errors.
    `bounds`: the least and the largest number of one person. `reports`: their number.
    `reports_per_person`: the most of one person. `shared`: share of the noise that periods may have
    in common (`shared_of`). `reach`: how far one report moves the sum of a number (`reach_of`)."""

    cells: Mapping[LineKey, tuple[float, float]]
    bounds: tuple[float, float]
    reports: float
    reports_per_person: float
    shared: float
    reach: float = 1.0

    @classmethod
    def of(cls, out: Path, part: OutputPart) -> "ArmPeriod":
        summary = summary_of(out, part)
        low, high = summary.get("bounds", (0.0, 1.0))
        compared = "mean" if "bounds" in summary else "count"
        numbers = numbers_of(read_rows(part.path), summary)
        cells = {key: cell for key, cell in numbers.items() if key[0] == compared}
        reports, people = max(1, summary["reports"]), people_of(summary)
        return cls(cells, (low, high), reports, people, shared_of(summary), reach_of(summary))


def numbers_of_arm(
    arm: Sequence[ArmPeriod], keys: Sequence[LineKey]
) -> tuple[Floats, Floats, Floats]:
    """Return the numbers of an arm's periods, the variances of the noise that is new in each, and
    the variances of everything else, people and the noise that periods share: shape (periods,
    values). Four more people in the middle of the range (as in Agresti and Coull 1998) keep the
    latter above 0 where few hold a rare value."""
    unknown = (math.nan, math.nan)
    cells = np.array([[period.cells.get(key, unknown) for key in keys] for period in arm])
    number, error = cells[:, :, 0], cells[:, :, 1]
    n = np.array([[period.reports] for period in arm])
    people = n / [[period.reports_per_person] for period in arm]
    known = np.maximum((n * np.isfinite(number)).sum(0), 1)
    low, high = arm[-1].bounds
    mean = np.clip(np.nansum(n * number, 0) / known, low, high)
    mean = (people * mean + 2 * (low + high)) / (people + 4)
    shared = error**2 * max(0.0, float(np.mean([period.shared for period in arm])))
    new = np.nansum(n**2 * (error**2 - shared), 0) / known / np.where(np.isfinite(error), n, np.nan)
    return number, new, (high - mean) * (mean - low) / people + shared


def _latest(out: Path, metric: str) -> list[OutputPart]:
    """Return the parts of the latest version of a metric."""
    versions = [version for name, version in kept_versions(out) if name == metric]
    listed = (parts(out, metric, version) for version in reversed(versions))
    return next(filter(None, listed), [])


def write_differences(out: Path, first: str, second: str) -> Experiment:
    """Write the differences of two metrics to `arms/FIRST.SECOND.csv` in the folder `out`, and
    return them. Raises ParameterError as `arm_differences` does."""
    experiment = Experiment(first, second, arm_differences(out, first, second))
    path = out / "arms" / f"{experiment.file_name}.csv"
    write_whole(path, csv_text([ArmDifference._fields, *experiment.differences]))
    return experiment
