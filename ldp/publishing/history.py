"""History of a metric: the numbers of all its periods in the data set, as lines to draw."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ldp.protocol.strict_json import parse_json
from ldp.publishing.changes import Change, read_changes
from ldp.publishing.data_set_rows import read_rows
from ldp.publishing.outputs import OutputPart, parts, summary_of
from ldp.publishing.period import Problem, passing_by
from ldp.publishing.state import ALL_VERSIONS, kept_versions, published_versions
from ldp.report.formats import percent, quantity, span
from ldp.tables.saved import Facts

MOST_LINES = 30
"""Most lines of a history; the data set has all."""
STATISTICS = ("mean", "p50", "p90", "p95", "p99", "coefficient", "count")
"""Statistics that have a line, in their order; `variance` has none."""
WIDTH, HEIGHT, EDGE = 240, 44, 4
"""Size of the drawing of a line and its margin, in its own units."""


@dataclass(frozen=True, kw_only=True)
class LinePoint:
    """One period of a line. `at`, `low`, `high`: shares of the period's reports, or numbers in
    their own unit. They are None where an end is open."""

    period: date
    at: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class HistoryLine:
    """History of one value, statistic or coefficient. `is_cell`: whether the value is a cell of a
    cross table, a list as JSON."""

    statistic: str
    value: str
    points: Sequence[LinePoint]
    changes: Sequence[Change] = ()
    is_cell: bool = False

    @property
    def name(self) -> str:
        """Text that names the line."""
        if self.is_cell:
            return " × ".join(parse_json(self.value))
        own = "" if self.statistic in ("count", "coefficient") else self.statistic
        return ", ".join(filter(None, (self.value, own))) or self.statistic

    @property
    def latest(self) -> str:
        """Latest number as text."""
        return self._text(self.points[-1].at)

    @property
    def interval(self) -> str:
        """Interval of the latest number as text."""
        low, high = self.points[-1].low, self.points[-1].high
        if self.statistic != "count":
            return span(low, high)
        return f"{percent(low or 0.0)} to {percent(1.0 if high is None else high)}"

    def _text(self, number: float) -> str:
        return percent(number) if self.statistic == "count" else quantity(number)

    def drawing(self, first: date, last: date, seams: Iterable[date] = ()) -> Mapping[str, Any]:
        """Return the places of the line in a drawing from the day `first` to `last`: `line`, and
        `band` of the intervals, as points of SVG; `end` and `whisker`, the latest number and the
        ends of its interval; `marks`, where changes began; `seams`, where versions began; and the
        same in `words`."""
        ends = [end for p in self.points for end in (p.at, p.low, p.high) if end is not None]
        bottom, top = min(0.0, *ends), max(1e-12, *ends)
        days = max(1, (last - first).days)

        def x_of(day: date) -> str:
            return f"{EDGE + (WIDTH - 2 * EDGE) * (day - first).days / days:.1f}"

        def y(number: float | None, otherwise: float) -> str:
            share = ((otherwise if number is None else number) - bottom) / (top - bottom)
            return f"{HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * share:.1f}"

        upper = [f"{x_of(p.period)},{y(p.high, top)}" for p in self.points]
        lower = [f"{x_of(p.period)},{y(p.low, bottom)}" for p in reversed(self.points)]
        start, end = self.points[0], self.points[-1]
        return {
            "line": " ".join(f"{x_of(p.period)},{y(p.at, 0.0)}" for p in self.points),
            "band": " ".join(upper + lower),
            "end": x_of(end.period),
            "marks": [x_of(change.since) for change in self.changes],
            "seams": [*map(x_of, seams)],
            "whisker": (y(end.low, bottom), y(end.high, top)),
            "words": f"{self._text(start.at)} on {start.period}, {self.latest} on {end.period}",
        }


@dataclass(frozen=True, kw_only=True)
class WholePeriod:
    """One period as a whole. `discovered`: number of values that are more than noise, None where
    the metric has no values. `fakes`: largest share of made-up reports that its intervals allow
    for, None where all are taken as honest."""

    first: date
    reports: int
    discovered: int | None
    noise_floor: float | None
    revision: int
    fakes: float | None


@dataclass(frozen=True, kw_only=True)
class History:
    """All periods of one version of a metric, or of all its versions together, in the order of
    time, and their lines. `seams`: later versions, and when the first of their periods begins."""

    metric: str
    version: int
    periods: Sequence[WholePeriod]
    lines: Sequence[HistoryLine]
    seams: Mapping[int, date]

    @property
    def changes(self) -> Sequence[Change]:
        """Changes of all lines, the latest first."""
        listed = (change for line in self.lines for change in line.changes)
        return sorted(listed, key=lambda change: change.period, reverse=True)

    @property
    def first(self) -> date:
        """First day of the first period."""
        return self.periods[0].first

    @property
    def last(self) -> date:
        """First day of the last period."""
        return self.periods[-1].first


def histories(out: Path, problems: list[Problem]) -> Mapping[str, Sequence[History]]:
    """Return the histories of all metrics in the folder of a publication, by metric: the history of
    its series if there is one, else those of its versions, the latest first. Errors of a metric are
    added to the `problems`."""
    by_metric = defaultdict[str, list[History]](list)
    for metric, version in reversed(published_versions(out)):
        with passing_by(problems, metric):
            if version == ALL_VERSIONS:
                by_metric[metric].clear()
            if several := parts(out, metric, version):
                by_metric[metric] += [_history(out, metric, version, several)]
    return by_metric


def _history(out: Path, metric: str, version: int, several: Sequence[OutputPart]) -> History:
    tables = [read_rows(part.path) for part in several]
    changed = defaultdict[tuple[str, str], list[Change]](list)
    for change in read_changes(out, metric, version):
        changed[change.statistic, change.value].append(change)
    largest = [(row["statistic"], row["value"]) for row in _largest(tables[-1])]
    chosen = dict.fromkeys([*largest, *sorted(changed)])
    points: dict[tuple[str, str], list[LinePoint]] = {key: [] for key in chosen}
    values = pa.array(sorted({value for _, value in chosen}), pa.string())
    for part, table in zip(several, tables, strict=True):
        for row in table.filter(pc.is_in(table["value"], values)).to_pylist():
            if (key := (row["statistic"], row["value"])) in points and row["estimate"] is not None:
                points[key].append(_point(part.period, row))
    is_cell = tables[-1]["axes"].null_count < len(tables[-1])
    lines = [
        HistoryLine(
            statistic=key[0], value=key[1], points=line, changes=changed[key], is_cell=is_cell
        )
        for key, line in points.items()
        if line
    ]
    periods = [_period(out, part, table) for part, table in zip(several, tables, strict=True)]
    several_versions = [] if version else [v for name, v in kept_versions(out) if name == metric]
    begun = {v: listed[0].period for v in several_versions[1:] if (listed := parts(out, metric, v))}
    return History(metric=metric, version=version, periods=periods, lines=lines, seams=begun)


def _largest(table: pa.Table) -> Iterator[Facts]:
    """Yield the rows of one period that have a line: statistics, then the largest counts, without
    bins of numbers."""
    is_listed = pc.is_in(table["statistic"], pa.array(STATISTICS))
    has_line = pc.and_(is_listed, pc.is_null(table["bin_low"]))
    rows = table.filter(pc.and_(has_line, pc.is_null(table["bin_high"]))).to_pylist()
    rows.sort(key=lambda row: (STATISTICS.index(row["statistic"]), -(row["estimate"] or 0.0)))
    yield from rows[:MOST_LINES]


def _point(period: date, row: Facts) -> LinePoint:
    unit = max(1, row["reports"]) if row["statistic"] == "count" else 1
    at, low, high = (
        None if row[name] is None else row[name] / unit for name in ("estimate", "low", "high")
    )
    assert at is not None
    return LinePoint(period=period, at=at, low=low, high=high)


def _period(out: Path, part: OutputPart, table: pa.Table) -> WholePeriod:
    """Return a period as a whole. A period without a discovery has no row. The rest comes from the
    summary beside its estimates."""
    rows = table.slice(0, 1).to_pylist() if part.version else []
    facts: Facts = rows[0] if rows else summary_of(out, part)
    shared: dict[str, Any] = {name: facts.get(name) for name in ("reports", "noise_floor", "fakes")}
    discovered = pc.sum(table["discovered"]).as_py() if len(table) else 0
    return WholePeriod(first=part.period, discovered=discovered, revision=part.revision, **shared)
