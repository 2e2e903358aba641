"""Queries that count reports in a database, and the counts that such a query returns.

A query returns `row,column,count`: the count of each cell that is not 0, and on lines without a
column the number of reports of a row; or `value,estimate,std_error`, as `ldp decode` has them of
tables with a cell or a set of cells for each category. Intervals of `ldp decode` are exact tails,
which SQL does not have. DuckDB reads the files of a store; PostgreSQL a table with one whole report
a row, as devices make them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np

from ldp.collection.object_store import StorePath
from ldp.collection.store import report_files
from ldp.data_files import AS_WRITTEN, Reading, read_table
from ldp.errors import DecodeError, ParameterError
from ldp.mechanisms import CatalogueMechanism, Mechanism
from ldp.mechanisms.projective_geometry import digits_of, number_of_points
from ldp.mechanisms.sketch import MeanSketch
from ldp.protocol.kinds import Layout
from ldp.tables.table import Table

DIALECTS: Mapping[str, Mapping[str, str]] = {
    "duckdb": {
        "byte": "('0x' || substr(hex(payload), {hex}, 2))::BIGINT",
        "bits": "payload::BIT",
        "list": "[{}]",
        "ones": "bit_count({})",
        "divided": "//",
    },
    "postgres": {
        "byte": "get_byte(payload, {byte})",
        "bits": "payload",
        "list": "ARRAY[{}]",
        "ones": "bit_count(({})::BIT(32))",
        "divided": "/",
    },
}
"""Expressions of each database: a byte of a payload, what its get_bit takes, a list, the number of
ones of an integer, and the sign of whole division."""
COLUMNS = ("row", "column", "count")
"""Columns of what a query returns."""


def counting_query(
    dialect: str,
    metric: str,
    version: int,
    mechanism: CatalogueMechanism,
    stores: Sequence[StorePath] = (),
    since: date | None = None,
    until: date | None = None,
    estimates: bool = False,
) -> str:
    """Return the query of a `dialect` ("duckdb" or "postgres") that counts the reports of a metric:
    in DuckDB those of the files that `stores` have now, from `since` to `until`; in PostgreSQL
    those of the table `reports`, whose column `report` (bytea) has whole reports; those of other
    metrics are left out there. `estimates`: whether it ends in estimates. Raises ParameterError for
    a mechanism whose table is too large for SQL, or has several parts, or is not one of
    `has_estimates`; ReportError where the stores have no such files."""
    if not isinstance(mechanism, Mechanism):
        raise ParameterError(
            f"{metric}: its reports have several parts, and SQL counts one: use ldp aggregate"
        )
    if isinstance(mechanism, MeanSketch):
        cells = mechanism.shape.rows * mechanism.shape.columns
        raise ParameterError(
            f"{metric}: mean sketches do not belong into SQL (a table of {cells:,} cells): "
            "use ldp aggregate"
        )
    if dialect == "duckdb":
        source = _stored(report_files(stores, metric, version, since, until), mechanism)
    else:
        source = _whole_reports(mechanism)
    if estimates and not has_estimates(mechanism):
        raise ParameterError(
            f"{metric}: SQL ends in counts of {mechanism.name}: import and decode them"
        )
    counts = (
        f"-- Counts of {metric}, version {version}: {mechanism.describe()}\n"
        f"WITH reports AS (\n{source}\n), counts AS (\n{_cells(dialect, mechanism.layout)}\n)"
    )
    if estimates:
        return f"{counts}{_estimates(dialect, mechanism)}"
    return (
        f"{counts}\n"
        'SELECT "row", "column", "count" FROM counts WHERE "count" <> 0\n'
        'UNION ALL SELECT "row", NULL, count(*) FROM reports GROUP BY "row"\n'
        "ORDER BY 1, 2;\n"
    )


def has_estimates(mechanism: Mechanism) -> bool:
    """Return whether a query can end in estimates: of one row, with cells for each category."""
    is_fresh = not (mechanism.is_memoisable or mechanism.needs_shuffler)
    is_counted = mechanism.answers in ("values", "sets") and bool(mechanism.listed)
    is_plain = mechanism.shape.rows == 1 and not mechanism.kind.is_signed
    if not (is_fresh and is_counted and is_plain):
        return False
    return mechanism.name in _SETS or len(mechanism.candidate_addressing.cells(0, 0)) == 1


def _estimates(dialect: str, mechanism: Mechanism) -> str:
    """Return the rest of a query: for each category the number C of reports that name a cell of
    its, (C - n q) / (p - q), and the root of the variance at that share of the n reports."""
    channel, (rare, common) = mechanism.support, (mechanism.variance(1, f) for f in (0.0, 1.0))
    names, addressing = mechanism.listed, mechanism.candidate_addressing
    places, is_named = _SETS.get(mechanism.name, _cell)(addressing, DIALECTS[dialect])
    quoted = [name.replace("'", "''") for name in names]
    rows = ", ".join(f"({place}, '{name}')" for place, name in zip(places, quoted, strict=True))
    gain, q = f"'{channel.gain!r}'::FLOAT8", f"'{float(channel.untouched)!r}'::FLOAT8"
    return (
        f", categories(place, value) AS (\n  VALUES {rows}\n), named AS (\n"
        "  SELECT place, value, (SELECT count(*) FROM reports)::FLOAT8 AS n,\n"
        '    coalesce(sum(counts."count"), 0)::FLOAT8 AS named\n'
        f"  FROM categories LEFT JOIN counts ON {is_named} GROUP BY place, value\n"
        f"), estimates AS (\n  SELECT place, value, n, (named - n * {q}) / {gain} AS estimate\n"
        "  FROM named\n)\n"
        "SELECT value, estimate, sqrt(n * (\n"
        f"    '{rare!r}'::FLOAT8 + least(greatest(estimate / nullif(n, 0), 0), 1) * "
        f"'{common - rare!r}'::FLOAT8)) AS std_error\n"
        "FROM estimates ORDER BY estimate DESC, place;\n"
    )


def _cell(addressing: Any, words: Mapping[str, str]) -> tuple[list[int], str]:
    """Return a number for each category, and the condition that its reports name a cell of its."""
    return [*range(len(addressing.categories))], f"{_COLUMN} = place"


def _even_columns(addressing: Any, words: Mapping[str, str]) -> tuple[list[int], str]:
    """Return what `_cell` does, of Hadamard response: columns that share an even number of ones
    with the category's row."""
    places = [place + addressing.first_row for place, _ in enumerate(addressing.categories)]
    return places, f"{words['ones'].format(f'{_COLUMN} & place')} % 2 = 0"


def _orthogonal_points(addressing: Any, words: Mapping[str, str]) -> tuple[list[int], str]:
    """Return what `_cell` does, of projective geometry: points whose digits have a product of 0
    with the category's."""
    field, powers = addressing.field, range(addressing.dimension)
    places = [digits_of(place, field) for place, _ in enumerate(addressing.categories)]
    cases = [
        f"WHEN {_COLUMN} >= {number_of_points(field, power)} "
        f"THEN {_COLUMN} + {field**power - number_of_points(field, power)}"
        for power in reversed(powers)
    ]
    number, digit = f"(CASE {' '.join(cases)} END)", f"({{}} {words['divided']} {{}} % {field})"
    products = [
        f"{digit.format(number, field**power)} * {digit.format('place', field**power)}"
        for power in powers
    ]
    return places, f"({' + '.join(products)}) % {field} = 0"


_COLUMN = 'counts."column"'
_SETS: Mapping[str, Callable[[Any, Mapping[str, str]], tuple[list[int], str]]] = {
    "hadamard": _even_columns,
    "pgr": _orthogonal_points,
}
"""Functions that tell which cells are a category's, where it has a set of them."""


def _stored(dated_files: Sequence[tuple[str, StorePath]], mechanism: Mechanism) -> str:
    """Return the reports of files; the query fails where one is of another mechanism."""
    names = [escape(str(path)).replace("'", "''") for _, path in dated_files]
    files = "[" + ", ".join(f"'{name}'" for name in names) + "]"
    return (
        f'  SELECT "row"::INTEGER AS "row", payload\n'
        f"  FROM read_parquet({files}, hive_partitioning = false)\n"
        f"  WHERE (SELECT CASE WHEN bool_and(decode(value) = '{mechanism.fingerprint.hex()}')\n"
        f"         THEN true ELSE error('reports of another mechanism') END\n"
        f"         FROM parquet_kv_metadata({files})\n"
        f"         WHERE decode(key) = 'ldp.fingerprint')"
    )


def _whole_reports(mechanism: Mechanism) -> str:
    """Return the reports of a table of PostgreSQL whose header is that of the mechanism."""
    header, layout = mechanism.header, mechanism.layout
    start = len(header)
    row = _number("get_byte(report, {byte})", start, layout.row_bytes)
    length = start + layout.body_bytes
    payload = f"substring(report from {start + layout.row_bytes + 1})"
    return (
        f'  SELECT {row} AS "row", {payload} AS payload\n'
        f"  FROM reports\n"
        f"  WHERE substring(report from 1 for {start}) = '\\x{header.hex()}' "
        f"AND octet_length(report) = {length}"
    )


def _cells(dialect: str, layout: Layout) -> str:
    """Return the counts of the cells, by the kind of the reports."""
    words = DIALECTS[dialect]
    if layout.is_bitmap:  # of DuckDB the first bit of a byte is its highest
        places = range(layout.columns)
        bits = [place ^ 7 if dialect == "duckdb" else place for place in places]
        sums = words["list"].format(", ".join(f"sum(get_bit(bits, {bit}))" for bit in bits))
        return (
            f'  SELECT "row", unnest({words["list"].format(", ".join(map(str, places)))}) '
            f'AS "column",\n  unnest({sums}) AS "count"\n'
            f'  FROM (SELECT "row", {words["bits"]} AS bits FROM reports) AS payloads\n'
            '  GROUP BY "row"'
        )
    number = _number(words["byte"], 0, layout.payload_bytes)
    column, count = "number", "count(*)"
    if layout.is_signed:
        column, count = "number / 2", "sum(1 - 2 * (number % 2))"
    division = column.replace("/", "//") if dialect == "duckdb" else column
    return (
        f'  SELECT "row", {division} AS "column", {count} AS "count"\n'
        f'  FROM (SELECT "row", {number} AS number FROM reports) AS numbers GROUP BY 1, 2'
    )


def _number(byte: str, start: int, size: int) -> str:
    """Return the integer of `size` bytes, little-endian, from byte `start` on."""
    terms = [
        byte.format(byte=i, hex=2 * i + 1) + (f" * {1 << 8 * (i - start)}" if i > start else "")
        for i in range(start, start + size)
    ]
    return f"({' + '.join(terms) or '0'})"


def read_counts(
    path: Path, mechanism: Mechanism, windows: Iterable[str] = (), reading: Reading = AS_WRITTEN
) -> Table:
    """Return the table of a CSV file `row,column,count` as a query of `counting_query` returns it.
    Raises DecodeError, naming the file and the line, for another file or impossible counts."""
    rows, columns = mechanism.shape
    counts, reports = np.zeros((rows, columns), np.int64), np.zeros(rows, np.int64)
    try:
        read = read_table(path, reading)
        if tuple(read.header) != COLUMNS:
            raise ParameterError(f"{path}: must start with the line {','.join(COLUMNS)}")
        cells = zip(*map(read.numbers, COLUMNS), strict=True)
    except ParameterError as error:
        raise DecodeError(f"{error}") from None
    seen = set[tuple[int, int | None]]()
    for (line, _), texts in zip(read.rows, cells, strict=True):
        try:
            row, count = int(texts[0]), int(texts[2])
            column = int(texts[1]) if texts[1] else None
            if (row, column) in seen:
                raise IndexError
            seen.add((row, column))
            target: Any = reports if column is None else counts[row]
            if min(row, column or 0) < 0:
                raise IndexError
            target[row if column is None else column] = count
        except (ValueError, OverflowError):
            raise DecodeError(
                f"{read.where(line)}: three whole numbers were expected, not {texts!r:.60}"
            ) from None
        except IndexError:
            raise DecodeError(
                f"{read.where(line)}: a cell that is not in a table of {rows} x {columns}, or a "
                "second time"
            ) from None
    try:
        return Table.from_counts(mechanism, counts, reports, windows)
    except ParameterError as error:
        raise DecodeError(f"{path}: {error}") from None
