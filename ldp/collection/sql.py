"""Queries that count reports in a database, and the counts that such a query returns.

A query returns `row,column,count`: the count of each cell that is not 0, and, on lines without a
column, the number of reports of a row. Or it returns `value,estimate,std_error,low,high`, as `ldp
decode` does for tables with a cell or a set of cells for each category. DuckDB reads the files of a
store. The other databases read a table with one whole report a row, as devices make them.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np

from ldp.collection.object_store import StorePath
from ldp.collection.sql_intervals import ends_of_intervals, number
from ldp.collection.store import report_files
from ldp.data_files import AS_WRITTEN, Reading, read_table
from ldp.errors import DecodeError, ParameterError, errors_in
from ldp.mechanisms import CatalogueMechanism, Mechanism
from ldp.mechanisms.bit_flip import Buckets
from ldp.mechanisms.projective_geometry import digits_of, number_of_points
from ldp.mechanisms.sketch import MeanSketch
from ldp.protocol.kinds import Layout
from ldp.tables.table import Table

DIALECTS: Mapping[str, Mapping[str, str]] = {
    "duckdb": {
        "quote": '"',
        "byte": "('0x' || substr(hex({of}), {hex}, 2))::BIGINT",
        "bits": "payload::BIT AS bits",
        "bit": "get_bit(bits, {high})",
        "list": "[{}]",
        "ones": "bit_count({})",
        "divided": "{} // {}",
        "float": "FLOAT8",
    },
    "postgres": {
        "quote": '"',
        "byte": "get_byte({of}, {byte})",
        "bits": "payload AS bits",
        "bit": "get_bit(bits, {low})",
        "list": "ARRAY[{}]",
        "ones": "bit_count(({})::BIT(32))",
        "divided": "{} / {}",
        "float": "FLOAT8",
        "bytes": "decode('{}', 'hex')",
        "apart": " OFFSET 0",
    },
    "spark": {
        "quote": "`",
        "byte": "CAST(conv(hex(substring({of}, {place}, 1)), 16, 10) AS BIGINT)",
        "bit": "shiftright(byte_{byte}, {bit}) & 1",
        "list": "array({})",
        "ones": "bit_count({})",
        "divided": "{} DIV {}",
        "float": "DOUBLE",
        "bytes": "X'{}'",
        "exploded": "SELECT `row`, `column`, `count` FROM ({summed}) AS t\n"
        "  LATERAL VIEW posexplode(sums) AS `column`, `count`",
        "categories": "SELECT * FROM VALUES {} AS listed(place, value)",
    },
    "bigquery": {
        "quote": "`",
        "byte": "to_code_points({of})[OFFSET({byte})]",
        "bit": "(byte_{byte} >> {bit}) & 1",
        "list": "[{}]",
        "ones": "bit_count({})",
        "divided": "DIV({}, {})",
        "float": "FLOAT64",
        "bytes": "from_hex('{}')",
        "exploded": "SELECT `row`, cell AS `column`, sums[ORDINAL(cell + 1)] AS `count`\n"
        "  FROM ({summed}) AS t CROSS JOIN UNNEST({places}) AS cell",
        "categories": "SELECT * FROM UNNEST([STRUCT<place INT64, value STRING>{}])",
    },
}
"""Expressions of each database: the quote of a name, a byte of a value, its bits, one of the bits,
a list, the number of ones of an integer, a whole division, a double, bytes in hexadecimal digits;
the way to turn one list into rows, where two lists cannot become rows together; the form of a list
of constant rows, where it is not VALUES; and what keeps a planner from copying a subquery's
expressions to each place that uses them."""
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
    """Return the query in a `dialect`, one of DIALECTS, that counts the reports of a metric. In
    DuckDB it reads the files that `stores` have now, from `since` to `until`. In others it reads
    the table `reports`, whose column `report` (bytes) has whole reports. Reports of another
    mechanism are left out. `estimates`: whether the query ends in estimates. Raises ParameterError
    for a mechanism whose table is too large for SQL or has several parts, and with `estimates` for
    one without `has_estimates`. Raises ReportError where the stores have no such files."""
    if not isinstance(mechanism, Mechanism):
        raise ParameterError(
            f"{metric}: its reports have several parts, and SQL counts one: use --out"
        )
    if isinstance(mechanism, MeanSketch):
        raise ParameterError(f"{metric}: a sketch is too large for SQL: use --out")
    if dialect == "duckdb":
        source = _stored(report_files(stores, metric, version, since, until), mechanism)
    else:
        source = _whole_reports(dialect, mechanism)
    if estimates and not has_estimates(mechanism):
        raise ParameterError(
            f"{metric}: SQL ends in counts of {mechanism.name}: leave --estimates out"
        )
    row, column, count = _quoted(dialect)
    ending = (
        f"\nSELECT {row}, {column}, {count} FROM counts WHERE {count} <> 0\n"
        f"UNION ALL SELECT {row}, NULL, count(*) FROM own GROUP BY {row}\n"
        "ORDER BY 1, 2;\n"
    )
    return (
        f"-- Counts of {metric}, version {version}: {mechanism.describe()}\n"
        f"WITH {'RECURSIVE ' * estimates}own AS (\n{source}\n"
        f"), counts AS (\n{_cells(dialect, mechanism.layout)}\n)"
        f"{_estimates(dialect, mechanism) if estimates else ending}"
    )


def _quoted(dialect: str) -> tuple[str, ...]:
    """Return the names of COLUMNS as the dialect quotes them."""
    quote = DIALECTS[dialect]["quote"]
    return tuple(f"{quote}{name}{quote}" for name in COLUMNS)


def _text(dialect: str, text: str) -> str:
    """Return a text as a constant of a query, which no setting of the database reads in another
    way: whether a backslash escapes is one in PostgreSQL and in Spark."""
    if DIALECTS[dialect]["quote"] == '"':
        if "\0" in text and dialect == "postgres":
            raise ParameterError("a category has a NUL, and no text of PostgreSQL may")
        plain = f"'{text.replace(chr(39), chr(39) * 2)}'"
        escapes = dialect == "postgres" and "\\" in text
        return "E" * escapes + plain.replace("\\", "\\" * (1 + escapes))
    is_plain = all(sign.isalnum() or sign == " " for sign in text)
    if dialect == "spark" and not is_plain:
        return f"CAST(X'{text.encode().hex()}' AS STRING)"
    signs = (sign if sign.isalnum() or sign == " " else f"\\U{ord(sign):08x}" for sign in text)
    return f"'{''.join(signs)}'"


def has_estimates(mechanism: Mechanism) -> bool:
    """Return whether a query can end in estimates: each category must have a cell or a set of cells
    in the only row, or be a bucket of bit flips."""
    is_fresh = not (mechanism.is_memoisable or mechanism.needs_shuffler)
    addressing, is_signed = mechanism.candidate_addressing, mechanism.kind.is_signed
    if not (is_fresh and mechanism.labels) or is_signed:
        return False
    has_cells = isinstance(addressing, Buckets) or mechanism.name in _SETS
    return has_cells or mechanism.shape.rows == len(addressing.cells(0, 0)) == 1


def _estimates(dialect: str, mechanism: Mechanism) -> str:
    """Return the rest of a query: for each category its estimate n (C - m q) / m (p - q), where m
    of the n reports are about the category and C name a cell of it, with the standard error at that
    share of reports and the interval."""
    words, channel = DIALECTS[dialect], mechanism.support
    real, apart = words["float"], words.get("apart", "")
    addressing, (_, column, count) = mechanism.candidate_addressing, _quoted(dialect)
    counts, about, first, is_part = "counts", "n", "", False
    if isinstance(addressing, Buckets):
        counts, about = "buckets", "coalesce(max(buckets.asked), 0)"
        first, is_part = _buckets(dialect, addressing), addressing.bits < addressing.number
    column_of = {**words, "column": f"{counts}.{column}"}
    places, is_named = _SETS.get(mechanism.name, _cell)(mechanism, column_of)
    join, times = f"LEFT JOIN {counts} ON {is_named}", f"{counts}.{count}"
    # outer joins of BigQuery need an equality
    if mechanism.name in _SETS:
        some = f"(SELECT {column}, {count} FROM counts UNION ALL SELECT -1, 0)"
        times = f"CASE WHEN {is_named} THEN {times} END"
        join = f"CROSS JOIN {some} AS counts"
    rows = ", ".join(
        f"({place}, {_text(dialect, name)})"
        for place, name in zip(places, mechanism.labels, strict=True)
    )
    chances = channel.gain, channel.untouched, channel.variance(0.0), channel.variance(1.0)
    gain, q, least, most = (number(real, of) for of in chances)
    listed = words.get("categories", "SELECT * FROM (VALUES {}) AS listed(place, value)")
    return (
        f"{first}, categories AS (\n"
        f"  {listed.format(rows)}\n"
        "), named AS (\n"
        f"  SELECT place, value, n, nullif(CAST({about} AS {real}), 0) AS about,\n"
        f"    CAST(coalesce(sum({times}), 0) AS {real}) AS named\n"
        "  FROM categories\n"
        f"  CROSS JOIN (SELECT CAST(count(*) AS {real}) AS n FROM own) AS total\n"
        f"  {join}\n"
        "  GROUP BY place, value, n\n"
        "), scaled AS (\n"
        f"  SELECT *, (named - about * {q}) / {gain} AS holders, n / about AS scale\n"
        "  FROM named\n"
        "), estimates AS (\n"
        "  SELECT *, holders * scale AS estimate,\n"
        "    least(greatest(holders / about, 0), 1) AS share\n"
        "  FROM scaled\n"
        f"){ends_of_intervals(real, channel, is_part, apart)}"
        "SELECT value, estimate,\n"
        f"  sqrt(n * (scale * (share * {most} + (1 - share) * {least})\n"
        "    + (scale - 1) * share * (1 - share)))\n"
        "    AS std_error,\n"
        "  greatest(least(coalesce(least_held, 0) * scale, estimate), 0) AS low,\n"
        "  least(greatest(coalesce(most_held, about) * scale, estimate), n) AS high\n"
        "FROM estimates LEFT JOIN held USING (place)\n"
        "ORDER BY estimate DESC, place;\n"
    )


def _buckets(dialect: str, addressing: Buckets) -> str:
    """Return the SQL of the number of reports that name each bucket of bit flips, and of those
    about it: bit c of row r is about bucket (r + c) mod `number`."""
    row, column, count = _quoted(dialect)
    return (
        f", rows_asked AS (\n"
        f"  SELECT {row} AS asked_row, count(*) AS reports FROM own GROUP BY {row}\n"
        "), buckets AS (\n"
        f"  SELECT mod({row} + {column}, {addressing.number}) AS {column}, "
        f"sum({count}) AS {count},\n    sum(reports) AS asked\n"
        f"  FROM counts JOIN rows_asked ON {row} = asked_row GROUP BY 1\n)"
    )


def _cell(mechanism: Mechanism, words: Mapping[str, str]) -> tuple[list[int], str]:
    """Return a number for each category, and the condition that a report names a cell of the
    category."""
    return [*range(len(mechanism.labels))], f"{words['column']} = place"


def _even_columns(mechanism: Any, words: Mapping[str, str]) -> tuple[list[int], str]:
    """Return the same as `_cell` for Hadamard response, where the cells are the columns that share
    an even number of ones with the category's row."""
    first, categories = mechanism.addressing.first_row, mechanism.labels
    places = [first + place for place, _ in enumerate(categories)]
    shared = f"{words['column']} & place"
    return places, f"mod({words['ones'].format(shared)}, 2) = 0"


def _orthogonal_points(mechanism: Any, words: Mapping[str, str]) -> tuple[list[int], str]:
    """Return the same as `_cell` for projective geometry, where the cells are the points whose
    digits have a product of 0 with the digits of the category's point."""
    field, powers = mechanism.addressing.field, range(mechanism.addressing.dimension)
    places = [digits_of(place, field) for place, _ in enumerate(mechanism.labels)]
    column, divided = words["column"], words["divided"]
    cases = [
        f"WHEN {column} >= {number_of_points(field, power)} "
        f"THEN {column} + {field**power - number_of_points(field, power)}"
        for power in reversed(powers)
    ]
    number = f"(CASE {' '.join(cases)} END)"
    products = [
        " * ".join(f"mod({divided.format(of, field**power)}, {field})" for of in (number, "place"))
        for power in powers
    ]
    return places, f"mod({' + '.join(products)}, {field}) = 0"


_SETS: Mapping[str, Callable[[Mechanism, Mapping[str, str]], tuple[list[int], str]]] = {
    "hadamard": _even_columns,
    "pgr": _orthogonal_points,
}
"""Functions like `_cell` for addressings where a category has a set of cells."""


def _stored(dated_files: Sequence[tuple[str, StorePath]], mechanism: Mechanism) -> str:
    """Return the SQL of the reports in files. The query fails if a file is of another mechanism."""
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


def _whole_reports(dialect: str, mechanism: Mechanism) -> str:
    """Return the SQL of the reports in a table that have the header of the mechanism."""
    header, layout, words = mechanism.header, mechanism.layout, DIALECTS[dialect]
    start, (name, _, _) = len(header), _quoted(dialect)
    row = _number(dialect, "report", start, layout.row_bytes)
    return (
        f"  SELECT {row} AS {name}, substring(report, {start + layout.row_bytes + 1}) AS payload\n"
        "  FROM reports\n"
        f"  WHERE substring(report, 1, {start}) = {words['bytes'].format(header.hex())} "
        f"AND octet_length(report) = {start + layout.body_bytes}"
    )


def _cells(dialect: str, layout: Layout) -> str:
    """Return the SQL of the counts of the cells, which depends on the kind of the reports."""
    words, (row, column, count) = DIALECTS[dialect], _quoted(dialect)
    if layout.is_bitmap:
        bytes_of = [_number(dialect, "payload", i, 1) for i in range(layout.payload_bytes)]
        all_bytes = ", ".join(f"{of} AS byte_{i}" for i, of in enumerate(bytes_of))
        payloads = f"(SELECT {row}, {words.get('bits', all_bytes)} FROM own) AS payloads"
        # the lowest bit of a byte comes first
        bits = [
            words["bit"].format(byte=place >> 3, bit=place & 7, low=place, high=place ^ 7)
            for place in range(layout.columns)
        ]
        sums = words["list"].format(", ".join(f"sum({bit})" for bit in bits))
        places = words["list"].format(", ".join(map(str, range(layout.columns))))
        usual = f"SELECT {row}, unnest({places}) AS {column},\n  unnest(sums) AS {count}\n"
        summed = f"SELECT {row}, {sums} AS sums\n  FROM {payloads} GROUP BY {row}"
        exploded = words.get("exploded", f"{usual}  FROM ({{summed}}) AS t")
        return f"  {exploded.format(summed=summed, places=places)}"
    number = _number(dialect, "payload", 0, layout.payload_bytes)
    cell, times = "number", "count(*)"
    if layout.is_signed:
        cell, times = words["divided"].format("number", 2), "sum(1 - 2 * mod(number, 2))"
    return (
        f"  SELECT {row}, {cell} AS {column}, {times} AS {count}\n"
        f"  FROM (SELECT {row}, {number} AS number FROM own) AS numbers GROUP BY 1, 2"
    )


def _number(dialect: str, of: str, start: int, size: int) -> str:
    """Return the SQL of the integer in `size` bytes of a value, little-endian, from byte `start`
    on."""
    terms = [
        DIALECTS[dialect]["byte"].format(of=of, byte=i, place=i + 1, hex=2 * i + 1)
        + (f" * {1 << 8 * (i - start)}" if i > start else "")
        for i in range(start, start + size)
    ]
    return f"({' + '.join(terms) or '0'})"


def read_counts(
    path: Path, mechanism: Mechanism, windows: Iterable[str] = (), reading: Reading = AS_WRITTEN
) -> Table:
    """Return the table of a CSV file `row,column,count`, the result of a query of `counting_query`.
    Raises DecodeError, with the file and the line, for another file or impossible counts."""
    rows, columns = mechanism.shape
    # the last column: reports
    numbers = np.zeros((rows, columns + 1), np.int64)
    with errors_in("", DecodeError):
        read = read_table(path, reading)
        if tuple(read.header) != COLUMNS:
            raise ParameterError(f"{path}: must start with the line {','.join(COLUMNS)}")
        cells = zip(*map(read.numbers, COLUMNS), strict=True)
    seen = np.zeros(numbers.shape, bool)
    for (line, _), texts in zip(read.rows, cells, strict=True):
        if not re.fullmatch(r"-?[0-9]{1,9},(-?[0-9]{1,9})?,-?[0-9]{1,18}", ",".join(texts)):
            raise DecodeError(
                f"{read.where(line)}: three whole numbers of at most 18 digits, or no column: not "
                f"{texts!r:.60}"
            )
        row, column, count = (int(text or columns) for text in texts)
        is_in = 0 <= row < rows and 0 <= column < columns + (not texts[1])
        if not is_in or seen[row, column]:
            raise DecodeError(
                f"{read.where(line)}: a cell that is not in a table of {rows} x {columns}, or a "
                "second time"
            )
        seen[row, column] = True
        numbers[row, column] = count
    with errors_in(path, DecodeError):
        return Table.from_counts(mechanism, numbers[:, :-1], numbers[:, -1], windows)
