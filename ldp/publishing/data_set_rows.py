"""Rows of the results data set: the same columns whatever a metric is about."""

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ldp.errors import DecodeError
from ldp.tables.result import COUNT
from ldp.tables.saved import SavedResult

SCHEMA = pa.schema(
    [
        ("metric", pa.string()),
        ("version", pa.int64()),
        ("period", pa.date32()),
        ("days", pa.int32()),
        ("statistic", pa.string()),
        ("value", pa.string()),
        ("bin_low", pa.float64()),
        ("bin_high", pa.float64()),
        ("estimate", pa.float64()),
        ("unbiased", pa.float64()),
        ("std_error", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("p_value", pa.float64()),
        ("discovered", pa.bool_()),
        ("selected_low", pa.float64()),
        ("selected_high", pa.float64()),
        ("axes", pa.string()),
        ("above", pa.string()),
        ("noise_floor", pa.float64()),
        ("epsilon", pa.float64()),
        ("reports", pa.int64()),
        ("fakes_move", pa.float64()),
        ("revision", pa.int32()),
        ("fakes", pa.float64()),
    ]
)
"""Columns of the data set. For combinations `value` is a JSON list, and `axes` a JSON list of the
names of the members. `above`: JSON list of the categories whose statistic is certainly lower."""
CHANGES_SCHEMA = pa.schema(
    [
        *map(SCHEMA.field, ("metric", "version", "period")),
        ("since", pa.date32()),
        *map(SCHEMA.field, ("statistic", "value")),
        ("difference", pa.float64()),
        SCHEMA.field("std_error"),
    ]
)
"""Columns of the changes: `period` in which a change was reported, `since` when it most likely
began."""
DIGEST, SUMMARY = b"ldp.digest", b"ldp.summary"
"""Keys of a file's metadata: the digest of the data it was made from, and a summary as JSON."""
KEY = ("metric", "version", "period", "statistic", "value")
"""Columns that identify a row."""
DAMAGED = "damaged; delete it: the next run writes it again from the kept table"
"""Advice about a file that every run can write."""
EARLIER = "of an earlier version; delete it: the next run writes it again from the kept table"


def result_table(file: SavedResult, place: Mapping[str, Any]) -> pa.Table:
    """Return the rows of a result as an Arrow table of SCHEMA, in the order of the file. Bins of
    numbers by category are left out. `place`: the columns metric, version, period, days and
    revision."""
    facts = file.facts
    names = ("epsilon", "reports", "noise_floor", "fakes")
    shared = {**place, **{name: facts.get(name) for name in names}}
    shared["reports"] = int(facts["reports"])
    rows = file.texts("statistic", COUNT)
    columns = {"statistic": rows, **_texts(file, rows), "fakes_move": _moves(file, rows)}
    if "discovered" in file.saved:
        columns["discovered"] = file.numbers("discovered") > 0
    arrays = []
    for column in SCHEMA:
        if column.name in columns:
            arrays.append(pa.array(columns[column.name], column.type))
        elif column.name in file.saved:
            arrays.append(pa.array(file.saved[column.name], column.type, from_pandas=True))
        else:
            arrays.append(pa.repeat(pa.scalar(shared.get(column.name), column.type), file.size))
    table = pa.Table.from_arrays(arrays, schema=SCHEMA)
    if facts["kind"] != "numbers-by-category":
        return table
    return table.filter(pa.array([statistic != COUNT for statistic in rows]))


def _texts(file: SavedResult, statistics: Sequence[str]) -> dict[str, Any]:
    """Return the columns value, axes and above."""
    kind, values = file.facts["kind"], file.texts("value")
    if kind == "association":
        members = file.facts.get("members")
        axes = members and json.dumps(members, ensure_ascii=False)
        combinations = (json.dumps(row["values"], ensure_ascii=False) for row in file.rows())
        return {"value": [*combinations], "axes": [axes] * file.size}
    if kind == "numbers":
        bins = zip(file.numbers("bin_low"), file.numbers("bin_high"), statistics, strict=True)
        ranges = (f"[{_edge(low)},{_edge(high)})" * (name == COUNT) for low, high, name in bins)
        return {"value": [*ranges]}
    lower = defaultdict[tuple[str, str], list[str]](list)
    for row in file.facts.get("differences", ()):
        lower[row["statistic"], row["higher"]].append(row["lower"])
    above = (lower.get(key) for key in zip(statistics, values, strict=True))
    texts = (names and json.dumps(names, ensure_ascii=False) for names in above)
    return {"value": values, "above": [*texts]}


def _moves(file: SavedResult, statistics: Sequence[str]) -> Sequence[float | None]:
    """Return how far made-up reports move each row, None where no bound is known. For numbers only
    the mean has a bound."""
    moves = file.facts.get("fakes_move")
    if isinstance(moves, list):
        return moves
    if not isinstance(moves, int | float):
        return [None] * file.size
    of_all = file.facts["kind"] != "numbers"
    return [moves if of_all or statistic == "mean" else None for statistic in statistics]


def read_rows(path: Path, schema: pa.Schema = SCHEMA) -> pa.Table:
    """Return the rows of one file of the data set, or of another `schema`. Raises DecodeError for a
    damaged one, and for one of an earlier version."""
    try:
        with pq.ParquetFile(path) as file:  # read_table loads pandas
            rows = file.read()
        rows.validate(full=True)
    except (OSError, pa.ArrowException):
        raise DecodeError(f"{path}: {DAMAGED}") from None
    if rows.schema != schema:
        raise DecodeError(f"{path}: {EARLIER}")
    return rows


def _edge(number: float) -> str:
    return "" if math.isnan(number) else f"{number:g}"
