"""Changes of all metrics in a publication, in files beside its data set."""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ldp.files import open_replacement
from ldp.mechanisms.base import FAKES
from ldp.publishing.data_set_rows import CHANGES_SCHEMA, DIGEST, read_rows
from ldp.publishing.detection import ALPHA, Series, detect
from ldp.publishing.outputs import OutputPart, changes_path, parts, summary_of
from ldp.publishing.period import Problem, passing_by
from ldp.publishing.state import ALL_VERSIONS, kept_versions, published_versions
from ldp.report.formats import in_points, quantity, signed
from ldp.report.value_face import UNLISTED
from ldp.tables.saved import Facts

WEEKDAYS = 7
LineKey = tuple[str, str]
"""Statistic and value of a line."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """Change of a value: first reported in the period whose first day is `period`, most likely from
    `since` on, by `difference` (of the share, or of a mean) with its standard error."""

    metric: str
    version: int
    period: date
    since: date
    statistic: str
    value: str
    difference: float
    std_error: float

    @property
    def key(self) -> tuple[str, str, date]:
        """Statistic, value and period."""
        return self.statistic, self.value, self.period

    @property
    def size(self) -> str:
        """Difference and standard error as text; for a share in percentage points."""
        if self.statistic != "count":
            return f"{signed(self.difference)} ± {quantity(self.std_error)}"
        return f"{in_points(self.difference)} ± {in_points(self.std_error).lstrip('+')} points"

    def __str__(self) -> str:
        name = self.value or self.statistic
        return f"{self.metric}: {name} changed by {self.size}, since {self.since}"


def update_changes(out: Path, problems: list[Problem]) -> list[Change]:
    """Look for changes in the metrics of a publication: in the series over versions if there is
    one, else in each version. What is the same as at the last search is skipped. Write the
    changes, and return the new ones: for their value and period no change was reported before.
    Errors of a metric are added to the `problems`."""
    fresh, published = list[Change](), published_versions(out)
    of_all = {metric for metric, version in published if version == ALL_VERSIONS}
    for metric, version in published:
        if version == ALL_VERSIONS or metric not in of_all:
            with passing_by(problems, metric):
                fresh += _new_changes(out, metric, version)
    return fresh


def _new_changes(out: Path, metric: str, version: int) -> list[Change]:
    """Write the changes of one version of a metric, and return those that are new."""
    listed = parts(out, metric, version)
    said, before = _saved_changes(out, metric, version)
    digest = hashlib.blake2b("".join(part.digest for part in listed).encode()).hexdigest()
    if not listed or said == digest.encode():
        return []
    changes = [*_changes(out, listed)]
    rows = [vars(change) for change in changes]
    table = pa.Table.from_pylist(rows, CHANGES_SCHEMA.with_metadata({DIGEST: digest}))
    with open_replacement(changes_path(out, metric, version)) as temporary:
        pq.write_table(table, temporary)
    # said of versions, before there was a series
    if version == ALL_VERSIONS and not before:
        for name, of_one in kept_versions(out):
            before += read_changes(out, metric, of_one) if name == metric else []
    known = {change.key for change in before}
    return [change for change in changes if change.key not in known]


def read_changes(out: Path, metric: str, version: int) -> list[Change]:
    """Return the changes of one version of a metric, in the order of time."""
    return _saved_changes(out, metric, version)[1]


def _saved_changes(out: Path, metric: str, version: int) -> tuple[bytes, list[Change]]:
    """Return the changes of one version of a metric, and the digest of the data searched for
    them."""
    path = changes_path(out, metric, version)
    if not path.exists():
        return b"", []
    table = read_rows(path, CHANGES_SCHEMA)
    digest = (table.schema.metadata or {}).get(DIGEST, b"")
    return digest, [Change(**row) for row in table.to_pylist()]


def _changes(out: Path, listed: Sequence[OutputPart]) -> Iterator[Change]:
    """Yield the changes of one version of a metric."""
    summaries = [summary_of(out, part) for part in listed]
    if summaries[-1].get("method") in UNLISTED:  # other words in each period
        return
    tables = [
        numbers_of(read_rows(part.path), s) for part, s in zip(listed, summaries, strict=True)
    ]
    keys = [*tables[-1]]
    if not keys:
        return
    cells = np.array([[table.get(key, _UNKNOWN) for key in keys] for table in tables])
    days = read_rows(listed[0].path)["days"][0].as_py()
    shared = max(0.0, *map(shared_of, summaries))
    # collisions change with version and method
    is_mixed = listed[0].version == ALL_VERSIONS
    is_mixed |= len({summary.get("method") for summary in summaries}) > 1
    series = Series(
        share=cells[:, :, 0],
        std_error=cells[:, :, 1],
        reports=np.array([max(1, summary["reports"]) for summary in summaries], np.float64),
        season=np.array([part.period.weekday() if days < WEEKDAYS else 0 for part in listed]),
        is_share=np.array([float(statistic == "count") for statistic, _ in keys]),
        reports_per_person=np.array([people_of(summary) for summary in summaries]),
        reach=max(reach_of(summary) for summary in summaries),
        shared=shared if shared == 1 or is_mixed else 0.0,
    )
    for detection in detect(series, ALPHA):
        statistic, value = keys[detection.column]
        yield Change(
            metric=listed[0].metric,
            version=listed[0].version,
            period=listed[detection.at].period,
            since=listed[detection.since].period,
            statistic=statistic,
            value=value,
            difference=detection.difference,
            std_error=detection.std_error,
        )


_UNKNOWN = (math.nan, math.nan)


def people_of(summary: Facts) -> float:
    """Return the most reports of one person in a period, 1 where the number is not known."""
    return float(summary.get("reports_per_person", 1))


def shared_of(summary: Facts) -> float:
    """Return the share of the variance of noise that periods may have in common, from permanent
    responses and from collisions by hash functions that stay. A regression estimates this share, so
    that it may be below 0."""
    return 1.0 if summary.get("memoised") else float(summary.get("shared_variance", 0.0))


def reach_of(summary: Facts) -> float:
    """Return the largest amount by which one report moves a sum over reports, of shares or of
    numbers."""
    moves = summary.get("fakes_move")
    if moves is None:  # a regression
        return max(1.0, float(summary.get("reach", 1.0)))
    most: float = max(moves.values()) if isinstance(moves, dict) else moves
    # of a mean, whose range may be short
    if "bounds" in summary:
        return most / FAKES
    unit = 1 if isinstance(moves, dict) else max(1, summary["reports"])
    return max(1.0, most / FAKES / unit)


def numbers_of(table: pa.Table, summary: Facts) -> Mapping[LineKey, tuple[float, float]]:
    """Return estimate and standard error of each count, as shares of the reports, and of each mean
    in one period. Where errors reach further than normal ones, standard errors are as much wider.
    Both are NaN for a period that claims no error rate, and for numbers of which only some reports
    tell."""
    names = ("statistic", "value", "estimate", "std_error", "reports")
    is_known, columns = not summary.get("warning"), (table[name].to_pylist() for name in names)
    units = {"count": max(1, summary["reports"]), "mean": 1}
    tail = summary.get("tail", 1.0)
    return {
        (statistic, value): (estimate / units[statistic], tail * error / units[statistic])
        if is_known
        and reports == summary["reports"]
        and estimate is not None
        and error is not None
        and math.isfinite(error)
        else _UNKNOWN
        for statistic, value, estimate, error, reports in zip(*columns, strict=True)
        if statistic in units
    }
