"""Results: what is decoded, as columns and a summary, whatever it is about.

A result is a file, a table on a page, and a frame of another package: `polars.DataFrame(result)`,
`duckdb.sql("SELECT * FROM result")`. Only its kind, a subclass beside its decoder, knows what its
error is and how it is distributed. A result that was read from a file has numbers alone.
"""

import json
import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from html import escape
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ldp.errors import ParameterError, require_share
from ldp.files import csv_cells, finite, write_together
from ldp.protocol.channel import convert, real_number
from ldp.tables.fakes import NoBound, fake_share
from ldp.tables.frame import CELL_STYLE, Column, Columns, Frame, new_axes, number_text

COLUMNS = (
    *("statistic", "value", "bin_low", "bin_high", "estimate", "unbiased", "std_error"),
    *("low", "high", "p_value", "discovered", "selected_low", "selected_high"),
)
"""Columns of a result; for combinations `value_1`, `value_2`, ... stand in place of `value`."""
COUNT = "count"
"""Statistic of a row that counts reports. It is the only one where there is no column of
statistics."""
OTHER = "(other)"
"""Name of the category of all values that are not listed, or not detected."""
EXACT = {"bin_low": 10, "bin_high": 10, "p_value": 4}
"""Significant digits of columns that are not written as others are."""
CSV_DIGEST = "csv_sha256"
"""Key of a summary: the SHA-256 of the CSV file beside which it was written."""
SUMMARY_DIGEST = "summary_sha256"
"""Key of a summary: the SHA-256 of all its other keys."""
MOST_LINES = 20
"""Number of lines of a result that a notebook shows, and of bars of its plot."""
_BAR = "display:block;height:10px;min-width:1px;background:#7fa8dc;width:{:.1f}%"


def is_text(column: str) -> bool:
    """Return whether a column of this name has texts."""
    return column == "statistic" or column.startswith("value")


class Line(NamedTuple):
    """Line that a notebook shows: a name, its estimate and interval (infinite where open), and
    whether it was discovered, None where nothing is."""

    name: str
    estimate: float
    low: float
    high: float
    discovered: bool | None = None
    instead: str = ""
    """Text that is shown in place of an estimate that the reports do not tell."""


@dataclass(frozen=True, eq=False, repr=False)
class Result(Frame):
    """Estimates with standard errors and intervals at `level`, the probability with which each
    holds the truth. `reports_per_person`: upper bound of the number of reports by the sender of a
    report, on average over the reports. It is None where it is not known, and then taken as 1.
    `digits`: significant digits that are written; None: two decimals."""

    level: float = field(default=0.95, kw_only=True)
    reports_per_person: float | None = field(default=None, kw_only=True)
    kind: ClassVar[str]
    digits: ClassVar[int | None] = 6
    offers: ClassVar[frozenset[str]] = frozenset()
    """Other intervals that this kind has: of `selected` values, of the `population`."""

    @property
    @abstractmethod
    def summary(self) -> dict[str, Any]:
        """Summary for the file beside the CSV: method, table, level and controls; JSON-ready."""

    @abstractmethod
    def _columns(self) -> Columns:
        """Return all columns that this kind of result has."""

    @property
    def columns(self) -> Columns:
        """Columns by name, without those that are wholly empty."""
        columns = self._columns()
        return {
            name: column
            for name, column in columns.items()
            if name == "estimate" or not _is_empty(column)
        }

    def at(self, **settings: Any) -> Self:
        """Return the result at another `level`, of other `reports_per_person`, or with other
        settings of its kind, by name. Raises ParameterError for a level outside (0, 1), and for
        fewer than one report."""
        changed = replace(self, **settings)
        convert(changed, level=require_share)
        if changed.reports_per_person is not None:
            convert(changed, reports_per_person=real_number)
        if not 0 <= changed.more < math.inf:
            raise ParameterError("reports_per_person must be 1 or more")
        return changed

    @property
    def more(self) -> float:
        """Number of further reports by the sender of a report, in the mean over all reports."""
        return (1.0 if self.reports_per_person is None else self.reports_per_person) - 1

    @property
    def controls(self) -> dict[str, float]:
        """Keys of a summary that describe the intervals: `level`, `reports_per_person`."""
        people = self.reports_per_person
        return {"level": self.level, **({} if people is None else {"reports_per_person": people})}

    def under_fakes(self, share: float | None) -> Self:
        """Return the result with intervals and discoveries about the honest reports. They hold even
        if a `share` of all reports is made up with knowledge of the others. None means that all are
        honest. Raises NoBound where no such intervals are known, and ParameterError for a share out
        of range."""
        return self if share is None else self._under_fakes(fake_share(share))

    def _under_fakes(self, share: float) -> Self:
        raise NoBound(
            f"a result of {self.kind} has no intervals that hold when {share:.4g} of the reports "
            "are made up; leave --fakes out"
        )

    def interval(
        self, level: float | None = None, *, selected: bool = False, population: bool = False
    ) -> tuple[Any, Any]:
        """Return the low and high ends of all intervals, float64, not clipped.

        They are in the order of what was decoded, which is not that of the rows. `level`: by
        default that of the result. `selected`: adjusted for discovery. `population`: for what is
        expected in a new sample of as many reports. Raises ParameterError for a level outside (0,
        1), and where the kind of result has no such intervals."""
        level = require_share(self.level if level is None else level, "level")
        settings = {"selected": selected, "population": population}
        others = {name: True for name, is_set in settings.items() if is_set}
        if not others.keys() <= self.offers:
            raise ParameterError(f"a result of {self.kind} has no such intervals")
        return self._interval(level, **others)

    def _interval(self, level: float, **_: bool) -> tuple[Any, Any]:
        columns = self.at(level=level)._columns()
        return columns["low"], columns["high"]

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return the columns as CSV text. With `path`, write it there and the summary beside it.
        Raises ParameterError for a path that ends in .json."""
        text = self._text()
        if path is not None:
            write_with_summary(Path(path), text, self.summary)
        return text

    def _text(self) -> str:
        columns = self.columns
        cells = (self._cells(name, column) for name, column in columns.items())
        rows = chain([columns], zip(*cells, strict=True))
        return "\n".join(map(",".join, rows)) + "\n"

    def _cells(self, name: str, column: Column) -> Sequence[str]:
        """Return the cells of a column as they are written. Numbers need no quotes. So they do not
        pass csv's writer, which would look at each of their digits."""
        if is_text(name):
            return csv_cells(column)
        array = np.asarray(column)
        numbers: list[float] = array.tolist()
        digits = EXACT.get(name, self.digits)
        if name == "discovered":
            return ["01"[number > 0] for number in numbers]
        if digits is not None and not (np.abs(array) < 10**digits).all():
            return [_written(number, digits) for number in numbers]
        form = "%.2f" if digits is None else f"%.{digits}g"
        return ["" if number != number else form % number for number in numbers]

    def lines(self) -> Iterator[Line]:
        """Yield what a notebook shows: all rows but bins, in their order."""
        columns = self.columns
        size = len(columns["estimate"])
        nothing = np.full(size, np.nan)
        estimates, lows, highs = (columns.get(n, nothing) for n in ("estimate", "low", "high"))
        statistics = columns.get("statistic", [COUNT] * size)
        texts = [column for name, column in columns.items() if name.startswith("value")]
        parts = [*texts, *([statistics] if not texts or len({*statistics}) > 1 else [])]
        separator = ", " if len(parts) > len(texts) else " + "
        discovered = columns.get("discovered")
        for row in range(size):
            if "bin_low" in columns and statistics[row] == COUNT:
                continue
            estimate, low, high = (float(column[row]) for column in (estimates, lows, highs))
            name = separator.join(str(part[row]) for part in parts)
            yield Line(
                name, estimate, low, high, None if discovered is None else bool(discovered[row])
            )

    def _repr_html_(self) -> str:
        """Return the table that Jupyter shows."""
        lines = self.lines()
        rows = "".join(_html_rows([*islice(lines, MOST_LINES)]))
        left_out = sum(1 for _ in lines)
        more = f"<p>{left_out:,} more</p>" if left_out else ""
        interval = f"{100 * self.level:.10g} % interval"
        heads = "".join(
            f'<th style="{CELL_STYLE}">{head}</th>' for head in ("", "estimate", interval, "")
        )
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
        return f"<p>{escape(self.headline)}</p>{table}{more}"

    def plot(self, axes: Any = None) -> Any:
        """Draw the first MOST_LINES estimates with their intervals, and return the axes of
        matplotlib: `axes`, or new ones. Raises MissingPackage without matplotlib."""
        axes = new_axes(axes, self.headline)
        known = (line for line in self.lines() if math.isfinite(line.estimate))
        lines = [*islice(known, MOST_LINES)]
        places = [*range(len(lines))]
        axes.barh(places, [line.estimate for line in lines], color="#7fa8dc")
        for place, line in zip(places, lines, strict=True):
            ends = [end if math.isfinite(end) else line.estimate for end in line[2:4]]
            axes.plot(ends, [place, place], color="#17345f")
        axes.set_yticks(places, [line.name for line in lines], parse_math=False)
        axes.invert_yaxis()
        return axes


def _is_empty(column: Column) -> bool:
    """Return whether a column has rows, and no number in any of them."""
    return isinstance(column, np.ndarray) and bool(column.size) and bool(np.isnan(column).all())


def _written(number: float, digits: int) -> str:
    """Return a number with `digits` significant digits, or as a whole one. Returns "" for an open
    end."""
    if not math.isfinite(number):
        return ""
    return f"{number:.0f}" if abs(number) >= 10**digits else f"{number:.{digits}g}"


def write_with_summary(path: Path, text: str, summary: Mapping[str, Any]) -> None:
    """Write the CSV `text` to `path` and its `summary` beside it, with the digests of both, both or
    none. Null stands for a number that is not finite."""
    whole = finite({**summary, CSV_DIGEST: sha256(text.encode()).hexdigest()})
    whole[SUMMARY_DIGEST] = summary_digest(whole)
    json_text = json.dumps(whole, indent=2, allow_nan=False) + "\n"
    write_together({path: text, summary_path(path): json_text})


def summary_digest(summary: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a summary's JSON, without its SUMMARY_DIGEST, in hexadecimal."""
    others = {name: value for name, value in summary.items() if name != SUMMARY_DIGEST}
    return sha256(json.dumps(others).encode()).hexdigest()


def summary_path(path: Path) -> Path:
    """Return the path of the summary of the result in `path`: E.json for E.csv, else path + .json.
    Raises ParameterError for a path that ends in .json or .html."""
    if path.suffix in (".json", ".html"):
        raise ParameterError(f"{path}: .json is for the summary, .html for pages; name it .csv")
    return path.with_suffix(".json") if path.suffix == ".csv" else Path(f"{path}.json")


def _html_rows(lines: list[Line]) -> Iterable[str]:
    most = max((line.estimate for line in lines if line.discovered is not None), default=0.0)
    for line in lines:
        cells = [f"<bdi>{escape(line.name)}</bdi>", line.instead or number_text(line.estimate)]
        cells.append(f"{number_text(line.low)} to {number_text(line.high)}")
        share = max(0.0, line.estimate / most) if line.discovered is not None and most > 0 else 0.0
        cells.append(f'<span style="{_BAR.format(100 * share)}"></span>' if share else "")
        width = "" if line.discovered is None else ";width:12em"
        *texts, bar = (f'<td style="{CELL_STYLE}">{cell}</td>' for cell in cells)
        weight = ' style="font-weight:bold"' if line.discovered else ""
        yield f"<tr{weight}>{''.join(texts)}{bar.replace(CELL_STYLE, CELL_STYLE + width)}</tr>"
