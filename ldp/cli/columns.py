"""Columns of data, and public bounds of numbers, read from files."""

import csv
import io
import math
from pathlib import Path
from typing import Any

import numpy as np

from ldp.errors import ParameterError
from ldp.files import read_lines


def read_column(path: Path, column: str | None) -> tuple[str, list[str]]:
    """Return name and cells of a column of a CSV or Parquet file: the one named `column`, or the
    only one. Raise ParameterError for a file that is neither, or lacks the column."""
    if path.suffix == ".parquet":
        return _read_parquet(path, column)
    header, rows = _read_csv(path)
    name = _chosen(path, header, column)
    place = header.index(name)
    return name, [row[place] for _, row in rows]


def _read_parquet(path: Path, column: str | None) -> tuple[str, list[str]]:
    import pyarrow
    from pyarrow import parquet

    try:
        name = _chosen(path, parquet.read_schema(path).names, column)
        cells = parquet.read_table(path, columns=[name])[name].to_pylist()
    except (pyarrow.ArrowInvalid, KeyError):
        raise ParameterError(f"{path} is not a Parquet file of one table") from None
    return name, ["" if cell is None or cell != cell else str(cell) for cell in cells]


def _chosen(path: Path, header: list[str], column: str | None) -> str:
    if column is None and len(header) == 1:
        return header[0]
    if column is None or column not in header:
        missing = f"there is no column {column!r}; " if column is not None else ""
        raise ParameterError(f"{path}: {missing}give --column, one of {', '.join(header)}")
    return column


def read_bounds(path: Path) -> dict[str, tuple[float, float]]:
    """Return low and high by column, in the file's order, from a CSV file `column,low,high`. Raise
    ParameterError, with the line, for another file."""
    bounds: dict[str, tuple[float, float]] = {}
    header, rows = _read_csv(path)
    if header != ["column", "low", "high"]:
        raise ParameterError(f"{path} must start with the line column,low,high")
    for line, row in rows:
        low, high = (_number(text, path, line) for text in row[1:])
        if row[0] in bounds:
            raise ParameterError(f"{path}, line {line}: the column is listed twice")
        if not low < high:
            raise ParameterError(f"{path}, line {line}: low must be below high")
        bounds[row[0]] = low, high
    return bounds


def read_columns(path: Path, names: list[str], *, strict: bool) -> Any:
    """Return the named columns of a CSV file as numbers: shape (rows, names). A cell that is none
    is NaN, or, `strict`, an error that names its line. Raise ParameterError for a file that is not
    CSV, or lacks a column or rows."""
    header, rows = _read_csv(path)
    missing = [name for name in names if name not in header]
    if missing:
        raise ParameterError(f"{path} has no column {missing[0]!r}; the bounds file names it")
    places = [header.index(name) for name in names]
    read = _number if strict else _number_or_nan
    table = [[read(row[place], path, line) for place in places] for line, row in rows]
    if not table:
        raise ParameterError(f"{path} has no rows")
    return np.array(table)


def _read_csv(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the header, and (line, cells) of every other line, as many as the header has."""
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ParameterError(f"{path} is not UTF-8 text") from None
    lines = read_lines(text)
    if not lines:
        raise ParameterError(f"{path} is empty")
    try:
        cells = list(csv.reader(io.StringIO("\n".join(lines)), strict=True))
    except csv.Error:
        raise ParameterError(f"{path} is not a CSV file") from None
    header = [cell.strip() for cell in cells[0]]
    for line, row in enumerate(cells[1:], 2):
        if len(row) != len(header):
            raise ParameterError(f"{path}, line {line}: {len(header)} cells were expected")
    return header, list(enumerate(cells[1:], 2))


def _number(text: str, path: Path, line: int) -> float:
    number = _number_or_nan(text, path, line)
    if not math.isfinite(number):
        raise ParameterError(f"{path}, line {line}: a finite number was expected")
    return number


def _number_or_nan(text: str, path: Path, line: int) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
