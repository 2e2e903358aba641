"""Rows of the results data set: the same columns whatever a metric is about."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ldp.errors import DecodeError
from ldp.report import CrossTable, Numbers, NumbersByCategory, Results
from ldp.report.coefficients import Coefficients
from ldp.report.reading import ResultFile

SCHEMA = pa.schema(
    [
        ("metric", pa.string()),
        ("version", pa.int32()),
        ("period", pa.date32()),
        ("days", pa.int32()),
        ("statistic", pa.string()),
        ("value", pa.string()),
        ("bin_low", pa.float64()),
        ("bin_high", pa.float64()),
        ("estimate", pa.float64()),
        ("std_error", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("p_value", pa.float64()),
        ("discovered", pa.bool_()),
        ("noise_floor", pa.float64()),
        ("epsilon", pa.float64()),
        ("reports", pa.int64()),
        ("fakes_move", pa.float64()),
        ("revision", pa.int32()),
        ("fakes", pa.float64()),
    ]
)
"""Columns of the data set; files of earlier versions lack the last."""
CHANGES_SCHEMA = pa.schema(
    [
        ("metric", pa.string()),
        ("version", pa.int32()),
        ("period", pa.date32()),
        ("since", pa.date32()),
        ("statistic", pa.string()),
        ("value", pa.string()),
        ("difference", pa.float64()),
        ("std_error", pa.float64()),
    ]
)
"""Columns of the changes: `period` in which one was said, `since` when it most likely began."""
KEY = ("metric", "version", "period", "statistic", "value")
"""Columns that identify a row."""
DAMAGED = "damaged; delete it: the next run writes it again from the kept table"
"""What to do about a file that every run can write."""


def result_table(file: ResultFile, place: Mapping[str, Any]) -> pa.Table:
    """Return the rows of a result `file` as an Arrow table of SCHEMA, in the order of the file.
    `place`: the columns metric, version, period, days and revision."""
    summary = file.summary
    shared = {
        **place,
        "epsilon": summary["epsilon"],
        "reports": int(summary["reports"]),
        "noise_floor": summary.get("noise_floor"),
        "fakes": summary.get("fakes"),
    }
    return pa.Table.from_pylist([{**shared, **row} for row in _rows(file)], schema=SCHEMA)


def read_rows(path: Path) -> pa.Table:
    """Return the rows of one file of the data set; raise DecodeError for a damaged one."""
    try:
        with pq.ParquetFile(path) as file:  # read_table loads pandas
            rows = file.read()
            last = SCHEMA.field(len(SCHEMA) - 1)
            is_older = rows.column_names == SCHEMA.names[:-1]
            return rows.append_column(last, pa.nulls(len(rows), last.type)) if is_older else rows
    except (OSError, pa.ArrowException):
        raise DecodeError(f"{path}: {DAMAGED}") from None


def _rows(file: ResultFile) -> Iterator[Mapping[str, Any]]:
    moves = file.summary.get("fakes_move")
    if isinstance(file, Results):
        yield from (_count(row, row["value"], moves) for row in file.rows)
    elif isinstance(file, CrossTable):
        for row in file.rows:
            yield _count(row, json.dumps(row["values"], ensure_ascii=False), moves)
    elif isinstance(file, Numbers):
        yield from (_statistic(row, moves) for row in file.statistics)
        for row in file.bins:
            yield {**row, "value": f"[{_edge(row['bin_low'])},{_edge(row['bin_high'])})"}
    elif isinstance(file, NumbersByCategory):
        for category, rows in file.statistics.items():
            yield from ({**row, "value": category, "fakes_move": None} for row in rows)
    elif isinstance(file, Coefficients):
        for row in file.rows:
            numbers = {name: row[name] for name in ("std_error", "low", "high", "fakes_move")}
            estimate = {"estimate": row["coefficient"], "value": row["term"]}
            yield {"statistic": "coefficient", **estimate, **numbers}


def _count(row: Mapping[str, Any], value: str, moves: float | None) -> Mapping[str, Any]:
    return {
        "statistic": "count",
        "value": value,
        "estimate": row["count"],
        "discovered": bool(row["detected"]),
        "fakes_move": moves,
        **{name: row[name] for name in ("std_error", "low", "high", "p_value")},
    }


def _statistic(row: Mapping[str, Any], moves: Any) -> Mapping[str, Any]:
    """Return a statistic of a file of numbers, a mean with its damage bound `moves`."""
    is_mean = row["statistic"] == "mean" and isinstance(moves, int | float)
    return {**row, "value": "", "fakes_move": moves if is_mean else None}


def _edge(number: float | None) -> str:
    return "" if number is None else f"{number:g}"
