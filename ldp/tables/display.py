"""How results show themselves in notebooks, and hand their rows to other packages.

Whatever reads Arrow streams (Polars, DuckDB, pandas, pyarrow) takes a result as it is:
`polars.DataFrame(estimates)`, `duckdb.sql("SELECT * FROM estimates")`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from html import escape
from typing import Any, NamedTuple

from ldp.errors import MissingPackage

MOST_LINES = 20
"""Number of lines of a result that a notebook shows, and of bars of its plot."""
_STYLE = "text-align:left;padding:2px 10px"
_BAR = "display:block;height:10px;min-width:1px;background:#7fa8dc;width:{:.1f}%"


class Line(NamedTuple):
    """Line that a notebook shows: a name, its estimate and interval (infinite where open), and
    whether it was discovered, None where nothing is."""

    name: str
    estimate: float
    low: float
    high: float
    detected: bool | None = None


class Displayed(ABC):
    """Result that notebooks show as a table and plot, and that other packages read as one."""

    @property
    @abstractmethod
    def headline(self) -> str:
        """One line that says what the result is of."""

    @abstractmethod
    def rows(self, level: float = 0.95) -> list[dict[str, Any]]:
        """Return the columns of the CSV as dictionaries, a row each; intervals at `level`."""

    @abstractmethod
    def lines(self, level: float = 0.95) -> list[Line]:
        """Return what a notebook shows, the first line first; intervals at `level`."""

    def __repr__(self) -> str:
        return f"<{self.headline}>"

    def _repr_html_(self) -> str:
        """Return the table that Jupyter shows."""
        lines = self.lines()
        rows = "".join(_html_rows(lines[:MOST_LINES]))
        more = f"<p>{len(lines) - MOST_LINES:,} more</p>" if len(lines) > MOST_LINES else ""
        heads = "".join(
            f'<th style="{_STYLE}">{head}</th>' for head in ("", "estimate", "95 % interval", "")
        )
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
        return f"<p>{escape(self.headline)}</p>{table}{more}"

    def to_arrow(self, level: float = 0.95) -> Any:
        """Return `rows` as a pyarrow Table; intervals at `level`."""
        import pyarrow

        return pyarrow.Table.from_pylist(self.rows(level))

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """Return `rows` as a stream of Arrow, which other packages ask for."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self, level: float = 0.95) -> Any:
        """Return `rows` as a pandas DataFrame; raises MissingPackage without pandas."""
        try:
            import pandas
        except ModuleNotFoundError:
            raise MissingPackage("to_pandas needs pandas: pip install pandas") from None
        return pandas.DataFrame(self.rows(level))

    def plot(self, axes: Any = None, level: float = 0.95) -> Any:
        """Draw the first MOST_LINES estimates with their intervals at `level`, and return the axes
        of matplotlib: `axes`, or new ones. Raises MissingPackage without matplotlib."""
        axes = new_axes(axes)
        lines = [line for line in self.lines(level) if math.isfinite(line.estimate)][:MOST_LINES]
        places = [*range(len(lines))]
        axes.barh(places, [line.estimate for line in lines], color="#7fa8dc")
        for place, line in zip(places, lines, strict=True):
            ends = [end if math.isfinite(end) else line.estimate for end in line[2:4]]
            axes.plot(ends, [place, place], color="#17345f")
        axes.set_yticks(places, [line.name for line in lines], parse_math=False)
        axes.invert_yaxis()
        axes.set_title(self.headline, fontsize="medium", parse_math=False)
        return axes


def new_axes(axes: Any) -> Any:
    """Return `axes`, or new ones of matplotlib if they are None; raise MissingPackage."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise MissingPackage.of("plot", error.name, "plot") from None
    if axes is None:
        _, axes = pyplot.subplots(layout="constrained")
    return axes


def _html_rows(lines: list[Line]) -> Iterable[str]:
    most = max((line.estimate for line in lines if line.detected is not None), default=0.0)
    for line in lines:
        cells = [f"<bdi>{escape(line.name)}</bdi>", _number(line.estimate)]
        cells.append(f"{_number(line.low)} to {_number(line.high)}")
        share = max(0.0, line.estimate / most) if line.detected is not None and most > 0 else 0.0
        cells.append(f'<span style="{_BAR.format(100 * share)}"></span>' if share else "")
        width = "" if line.detected is None else ";width:12em"
        *texts, bar = (f'<td style="{_STYLE}">{cell}</td>' for cell in cells)
        weight = ' style="font-weight:bold"' if line.detected else ""
        yield f"<tr{weight}>{''.join(texts)}{bar.replace(_STYLE, _STYLE + width)}</tr>"


def _number(number: float) -> str:
    if not math.isfinite(number):
        return "open"
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"
