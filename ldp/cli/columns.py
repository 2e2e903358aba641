"""Columns of data, and public bounds of numbers."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from ldp.cli.reading import chosen_reading
from ldp.data_files import ARROW, SHOWN, DataTable, Reading, number_forms, read_table
from ldp.errors import ParameterError
from ldp.mechanisms.numeric import is_number


def read_column(path: Path, column: str | None) -> tuple[str, DataTable]:
    """Return the name of a column and the table of the file. Without `column` it is the only one.
    Raise ParameterError for a file that is no table or lacks the column, or whose only column has
    a number for its name."""
    table = read_table(path, chosen_reading(), [] if column is None else [column])
    if column is None and len(table.header) != 1:
        raise ParameterError(f"{path}: give --column, one of {table.names}")
    if column is None and path.suffix not in ARROW and number_forms(table.header[0]):
        raise ParameterError(
            f"{path}, line 1: {table.header[0]!r} is a number where the name of the column stands: "
            "write the name above it, or give it as --column"
        )
    name = table.header[0] if column is None else column
    table.place(name)
    return name, table


def read_texts(path: Path, column: str) -> list[str]:
    """Return the texts of a column. Raises ParameterError for an empty cell, with its line."""
    table = read_column(path, column)[1]
    cells = table.cells(column)
    if "" in cells:
        raise ParameterError(f"{table.where(table.rows[cells.index('')][0])}: {column} is empty")
    return cells


def read_bounds(path: Path) -> dict[str, tuple[float, float]]:
    """Return low and high by column, in the file's order, from a table `column,low,high`. Raise
    ParameterError, with the line, for another file."""
    bounds: dict[str, tuple[float, float]] = {}
    reading = chosen_reading()
    table = read_table(path, Reading(encoding=reading.encoding))
    if table.header != ["column", "low", "high"]:
        raise ParameterError(f"{path} must start with the line column,low,high")
    if table.delimiter != ",":
        table = table._replace(reading=reading)
    ends = _finite(table, ["low", "high"])
    for (line, (name, *_)), (low, high) in zip(table.rows, ends.tolist(), strict=True):
        if name in bounds:
            raise ParameterError(f"{table.where(line)}: the column {name!r} is listed twice")
        if not low < high:
            raise ParameterError(
                f"{table.where(line)}: low must be below high, not {low:g}, {high:g}"
            )
        bounds[name] = low, high
    return bounds


def read_columns(path: Path, names: list[str], *, is_private: bool, kinds: Any = None) -> Any:
    """Return the columns `names` of a file as numbers: shape (rows, names). A cell that is no
    number is NaN in a private file, which may have no rows. Raise ParameterError for such a cell in
    another file, with its line, and for a file that is no table, or lacks a column or rows.
    `kinds`: words for the numbers of a column, and whether a number is one of them, by column."""
    table = read_table(path, chosen_reading()._replace(is_private=is_private), names)
    if not is_private:
        numbers = _finite(table, names, kinds)
        if not table.rows:
            raise ParameterError(f"{path} has no rows")
        return numbers
    columns = [[float(cell or "nan") for cell in table.numbers(name)] for name in names]
    return np.array(columns, dtype=np.float64).T.reshape(-1, len(names))


def _finite(table: DataTable, names: list[str], kinds: Any = None) -> Any:
    """Return columns of finite numbers of `kinds`: shape (rows, names). Raise ParameterError for
    another cell, with its line and its text."""
    columns = [table.numbers(name) for name in names]
    for (line, _), *cells in zip(table.rows, *columns, strict=True):
        for name, cell in zip(names, cells, strict=True):
            kind, is_one = (kinds or {}).get(name, ("a finite number", math.isfinite))
            if not is_number(cell) or not is_one(float(cell)):
                raise ParameterError(
                    f"{table.where(line)}: {name} must be {kind}, not {cell[:SHOWN]!r}"
                )
    return np.array(columns, dtype=np.float64).T
