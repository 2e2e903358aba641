"""Columns that go to Arrow, pandas and polars, and show themselves in notebooks."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from ldp.arrays import Floats, Ints
from ldp.errors import MissingPackage, from_extra

CELL_STYLE = "text-align:left;padding:2px 10px"
"""Style of a cell of a table in a notebook."""
Column = Sequence[str] | Floats | Ints
Columns = Mapping[str, Column]
"""Columns by name, in the order of COLUMNS: texts, or float64 with NaN where there is no number.
`discovered` has integers."""


def holds_numbers(column: Column) -> bool:
    """Return whether a column is an array of numbers."""
    return isinstance(column, np.ndarray) and column.dtype.kind in "biuf"


class Frame(ABC):
    """Columns by name, with one line that says what they are about."""

    @property
    @abstractmethod
    def headline(self) -> str:
        """One line that says what the columns are about."""

    @property
    @abstractmethod
    def columns(self) -> Columns:
        """Columns by name."""

    def __repr__(self) -> str:
        return f"<{self.headline}>"

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary for each row, with None where it has no number."""
        rows: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return rows

    def to_arrow(self) -> Any:
        """Return the columns as a pyarrow Table, null where there is no number."""
        import pyarrow

        arrays = {
            name: pyarrow.array(column, from_pandas=holds_numbers(column))
            for name, column in self.columns.items()
        }
        return pyarrow.table(arrays)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """Return the columns as a stream of Arrow, which other packages ask for."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Return the columns as a pandas DataFrame; raises MissingPackage without pandas."""
        return _package("pandas", "to_pandas").DataFrame(dict(self.columns))

    def to_polars(self) -> Any:
        """Return the columns as a polars DataFrame; raises MissingPackage without polars."""
        return _package("polars", "to_polars").from_arrow(self.to_arrow())


def new_axes(axes: Any, title: str, pad: float | None = None) -> Any:
    """Return `axes`, or new ones if they are None, with a `title`, `pad` points above them. Raises
    MissingPackage without matplotlib."""
    with from_extra("plot", "plot"):
        from matplotlib import pyplot
    if axes is None:
        _, axes = pyplot.subplots(layout="constrained")
    axes.set_title(title, fontsize="medium", pad=pad, parse_math=False, wrap=True)
    return axes


def _package(name: str, method: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise MissingPackage(f"{method} needs {name}: pip install {name}") from None


def number_text(number: float) -> str:
    """Return a number as a notebook shows it."""
    if not math.isfinite(number):
        return "open"
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:z.4g}"


def round_numbers(low: float, high: float, digits: Sequence[Sequence[float]]) -> list[float]:
    """Return round numbers from `low` to `high` for a logarithmic axis: those that begin with the
    first of these `digits` of which there are three numbers or more, else with the last."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for some in digits:
        numbers = [digit * 10.0**power for power in powers for digit in some]
        numbers = [number for number in numbers if low <= number <= high]
        if len(numbers) >= 3:
            break
    return numbers


def table_html(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table of texts for a notebook."""

    def line(cells: Iterable[str], tag: str) -> str:
        texts = (f'<{tag} style="{CELL_STYLE}"><bdi>{escape(c)}</bdi></{tag}>' for c in cells)
        return f"<tr>{''.join(texts)}</tr>"

    body = "".join(line(cells, "td") for cells in rows)
    return f"<table><thead>{line(heads, 'th')}</thead><tbody>{body}</tbody></table>"
