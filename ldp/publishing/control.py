"""Health of the builds from their reports alone: whether reports of a control metric have the
distribution that its mechanism states.

Every build records the public `control` value of the metric. Of n reports of a period the number S
that support it (`Mechanism.support`) is then Binomial(n, p), and rows are uniform. Where SHARE of
the reports come from a broken build, S is Binomial(n, (1 - SHARE) p + SHARE t). Here t is 1 for a
build without noise; the probability `untouched` where values are hashed with another seed; and 1 or
0 where randomness is stuck at one report, which also adds SHARE of the reports to one row. The
likelihood ratio e of each cause has mean 1 while all builds are right, so M = max(M, 1) e is an
e-detector, and the mean of M over the causes, by WEIGHTS, is one too: it is expected to take `most`
periods or more until it passes `most` (Shin, Ramdas and Rinaldo 2023). Periods without reports do
not change it.

A source of randomness that is stuck differently on each device cannot be seen.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta
from typing import NamedTuple

import numpy as np

from ldp.publishing.period import Problem, passing_by
from ldp.publishing.publish import Job, days_of
from ldp.publishing.state import kept_versions, load_states, publisher_folder
from ldp.tables.joint_table import load_table
from ldp.tables.table import Table

SHARE = 0.01
"""Share of reports from a broken build to which the detector is tuned."""
LATEST = 90
"""Number of latest periods that are looked at."""
RECENT = 7
"""Number of latest periods that are reported, and the most between two alarms of one run."""
WITHOUT_NOISE = "a build without noise, or whose randomness is stuck"
HASHED = (
    "a build that hashes with another seed, records another value, or whose randomness is stuck"
)
STUCK = "a build whose randomness is stuck"
WEIGHTS = {WITHOUT_NOISE: 0.24, HASHED: 0.74, STUCK: 0.02}
"""Weight of each cause; they add to 1. It is larger for a cause of which a day has less evidence.
"""
DAYS = 365
"""Least mean number of days until a false alarm, while all builds are right."""


class Broken(NamedTuple):
    """Deviation of a control metric's reports from their stated distribution: reported in `period`,
    most likely present `since` then, with its most likely `cause`."""

    metric: str
    version: int
    period: date
    since: date
    cause: str

    def __str__(self) -> str:
        return (
            f"{self.metric} v{self.version}: since {self.since} the reports do not follow "
            f"the stated distribution: {self.cause}"
        )


def supporting(table: Table, value: str) -> int:
    """Return the number of reports in the table that name a cell which `value` touches."""
    addressing, counts = table.mechanism.candidate_addressing, table.named_counts()
    point = addressing.point(value)
    cells = ((row, cell) for row in range(len(counts)) for cell in addressing.cells(point, row))
    return sum(int(counts[place]) for place in cells)


def log_ratios(table: Table, value: str) -> Mapping[str, float]:
    """Return the logarithm of the likelihood ratio of each cause, by the words for the cause. Each
    ratio has mean 1 over tables of as many reports that are all about `value`."""
    support, n = table.mechanism.support, table.total
    # 1 - p of floats is 0 from an epsilon of 37 on
    p, lie, count = float(support.touched), float(1 - support.touched), supporting(table, value)
    ratios = dict[str, float]()
    for cause, t in ((WITHOUT_NOISE, 1.0), (HASHED, float(support.untouched))):
        ratios[cause] = count * math.log1p(SHARE * (t / p - 1))
        ratios[cause] += (n - count) * math.log1p(SHARE * ((1 - t) / lie - 1))
    rows, base = len(table.reports), math.log1p(-SHARE)
    more = math.log1p(SHARE * (rows - 1)) - base
    stuck = np.logaddexp.reduce(more * table.reports) + n * base - math.log(rows)
    return {**ratios, STUCK: float(stuck)}


def broken(
    tables: Iterable[tuple[date, Table]], value: str, most: float
) -> Iterator[tuple[date, date, str]]:
    """Yield (period, since, cause) for each of the `tables`, in the order of time, in which the
    detector passes `most`. After each the detector starts again."""
    log_m, since = dict.fromkeys(WEIGHTS, 0.0), dict[str, date]()
    for period, table in tables:
        for cause, ratio in log_ratios(table, value).items():
            if log_m[cause] <= 0:
                log_m[cause], since[cause] = 0.0, period
            log_m[cause] += ratio
        weighted = [math.log(weight) + log_m[cause] for cause, weight in WEIGHTS.items()]
        if np.logaddexp.reduce(weighted) >= math.log(most):
            cause = max(log_m, key=lambda cause: log_m[cause])
            yield period, since[cause], cause
            log_m = dict.fromkeys(WEIGHTS, 0.0)


def joined(
    alarms: Iterable[tuple[date, date, str]], most: timedelta
) -> Iterator[tuple[date, date, str]]:
    """Yield the `alarms` of `broken`, each with the `since` of the first alarm of its run. In a run
    each alarm begins at most `most` after the one before."""
    last, first = date.min, date.min
    for period, since, cause in alarms:
        if since - last > most:
            first = since
        yield period, first, cause
        last = period


def broken_builds(job: Job, problems: list[Problem]) -> Iterator[Broken]:
    """Yield the last alarm of each of a job's control metrics, if it is in the latest `RECENT`
    tables. The detector reads the latest `LATEST` tables of the registry's version: earlier ones
    may have had another control. Errors of a metric are added to the `problems`."""
    versions = kept_versions(job.out)
    for metric, known in job.registry.metrics.items():
        if known.control is not None and (metric, known.version) in versions:
            with passing_by(problems, metric):
                yield from _broken(job, metric, known.version, known.control)


def _broken(job: Job, metric: str, version: int, control: str) -> list[Broken]:
    length = days_of(job.period)
    states = load_states(publisher_folder(job.out, metric, version))
    latest = [*states.items()][-LATEST:]
    loaded = ((period, load_table(state.table_path)) for period, state in latest)
    tables = ((period, table) for period, table in loaded if isinstance(table, Table))
    recent = {period for period, _ in latest[-RECENT:]}
    alarms = broken(tables, control, DAYS / length)
    last = [*joined(alarms, timedelta(days=RECENT * length))][-1:]
    return [Broken(metric, version, *alarm) for alarm in last if alarm[0] in recent]
