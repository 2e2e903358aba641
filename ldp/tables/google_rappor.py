"""Files of google/rappor, read and written: params, counts, map, and clients' reports.

Source: google/rappor @a13fa96, analysis/R/read_input.R and decode_dist.R, analysis/tools/
sum_bits.py. A map lists for every candidate the positions of its bits, counted from 1 over all
cohorts: cohort * bits + bit + 1. A client's report is its cohort and its bits, the highest first.
What these programs read is read here too, and reported: each reader takes `say`, a function that
is called with one line of text.
"""

import io
import re
from array import array
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp.arrays import Ints
from ldp.data_files import (
    AS_WRITTEN,
    DELIMITERS,
    SHOWN,
    Reading,
    numbered_rows,
    place_of,
    read_text,
)
from ldp.errors import DecodeError, errors_in
from ldp.files import counted, csv_text
from ldp.mechanisms.randomized_response import CoinResponse
from ldp.mechanisms.rappor import Rappor
from ldp.tables.table import MOST_REPORTS, Table

PARAMS = ("k", "h", "m", "p", "q", "f")
SCHEME, MOST_BITS, WIDE_SCHEME = "rappor-md5-1byte", 256, "rappor-md5-le"
"""Hash scheme of clients, the most bits that it can name, and client/cpp's scheme for more."""
NOISED = ("irr", "rappor", "bloom")
"""Names of the column of reported bits: the first of these that a file has."""
AT_ONCE = 1 << 16
WHOLE = re.compile(r"[+-]?[0-9]+(\.0*)?(e[+-]?[0-9]{1,2})?", re.I)
"""A whole number as R writes it: 100000, 1e+05 or 12.0."""
EMPTY = ("", "NA")
"""Cells of a map that hold no position, in R as here."""
EXPECTED = 20
"""Mean number of reports a cohort above which none is empty by chance: one of about 1e9 is."""
Say = Callable[[str], None]
Lines = list[tuple[int, list[str]]]


class FileParameters(NamedTuple):
    """Parameters of a file: the `mechanism`, and what turns counts of files into those of a table.

    `cohorts` and `bits`: of the files. `is_inverted`: whether a reported bit is the opposite of the
    mechanism's, as p is above q.
    """

    mechanism: Rappor | CoinResponse
    cohorts: int
    bits: int
    is_inverted: bool

    def table(self, counts: Ints, reports: Ints) -> Table:
        """Return the table of counts, shape (cohorts, bits), and reports, shape (cohorts,)."""
        if self.is_inverted:
            counts = reports[:, None] - counts
        if self.bits == 1:
            counts, reports = counts.sum(axis=0, keepdims=True), reports.sum(keepdims=True)
        return Table.from_counts(self.mechanism, counts, reports)


def _unsaid(_: str) -> None:
    """Do nothing: the default of `say`."""


def read_google_table(
    params: str | Path, counts: str | Path, scheme: str = SCHEME, say: Say = _unsaid
) -> Table:
    """Return the table of a params and a counts file. `scheme`: name of the clients' hash. Rows
    beyond the cohorts are those of the first cohorts again, and are added.

    `f` is read literally: how a client rounded it is not in the file. With k = 1, boolean RAPPOR,
    the table is one of `coin`, over all cohorts. Raises DecodeError, which names the file, the line
    and the value.
    """
    parameters = read_params(params, scheme, say)
    cohorts, columns = parameters.cohorts, parameters.bits
    rows, numbers = _rows(counts), list[list[int]]()
    for line, row in rows:
        if len(row) != columns + 1:
            raise DecodeError(
                f"{counts}: line {line} has {counted(len(row), 'number')}; {params} says "
                f"1 + {columns}, the reports of a cohort and the counts of its bits"
            )
        values = [_whole(cell, counts, line, "counts", "counts file") for cell in row]
        for value in values:
            if not 0 <= value <= values[0]:
                why = f"a bit has from 0 to its {values[0]} reports"
                raise _wrong(counts, line, f"{value}", why)
        numbers.append(values)
    said = counted(cohorts, "cohort")
    if not rows or len(rows) % cohorts:
        raise DecodeError(f"{counts}: has {counted(len(rows), 'row')}, {params} says {said}")
    if sum(row[0] for row in numbers) > MOST_REPORTS:
        raise DecodeError(f"{counts}: a table holds at most {MOST_REPORTS} reports")
    if len(rows) > cohorts:
        say(f"{counts}: {len(rows)} rows of {said}, every {cohorts} of them added")
    summed = np.array(numbers, np.int64).reshape(-1, cohorts, columns + 1).sum(axis=0)
    return parameters.table(summed[:, 1:], summed[:, 0])


def read_google_reports(
    params: str | Path, reports: str | Path, scheme: str = SCHEME, say: Say = _unsaid
) -> Table:
    """Return the table of a params file and a CSV file of clients' reports, such as
    `client,cohort,bloom`: their sum. Three columns of other names are taken for these. Raises
    DecodeError, which names the file, the line and the value."""
    parameters = read_params(params, scheme, say)
    rows, columns = parameters.cohorts, parameters.bits
    counts, totals = np.zeros((rows, columns), np.int64), np.zeros(rows, np.int64)
    listed = _rows(reports)
    header = [cell.strip() for cell in listed[0][1]] if listed else []
    bits_name = next((name for name in NOISED if name in header), "")
    if "cohort" in header and bits_name:
        cohort_at, bits_at = header.index("cohort"), header.index(bits_name)
    elif len(header) == 3 and not _is_report(header, columns):
        cohort_at, bits_at = 1, 2
        say(f"{reports}: the columns {','.join(header)} are read as client,cohort,bloom")
    else:
        raise DecodeError(f"{reports}: the first line must be client,cohort,bloom")
    cohorts = {str(row): row for row in range(rows)}
    lines = iter(listed[1:])
    while some := list(islice(lines, AT_ONCE)):
        for line, row in some:
            if len(row) != len(header):
                raise DecodeError(
                    f"{reports}: line {line} has {counted(len(row), 'cell')}, "
                    f"the first {len(header)}"
                )
            if row[cohort_at].strip() not in cohorts:
                raise DecodeError(
                    f"{reports}: line {line} names {row[cohort_at][:SHOWN]!r}, no cohort from 0 to "
                    f"{rows - 1}; cohorts are counted from 0: if yours are from 1, take 1 away"
                )
            if len(row[bits_at]) != columns or not {*row[bits_at]} <= {*"01"}:
                raise _wrong(reports, line, row[bits_at], f"must have {columns} digits 0 or 1")
        at = np.array([cohorts[row[cohort_at].strip()] for _, row in some])
        digits = "".join(row[bits_at] for _, row in some).encode()
        bits = np.frombuffer(digits, np.uint8).reshape(len(some), columns)[:, ::-1] - ord("0")
        np.add.at(counts, at, bits)
        np.add.at(totals, at, 1)
    if rows > 1 and not totals[0] and totals.sum() > EXPECTED * rows:
        say(
            f"{reports}: no report is of cohort 0; cohorts are counted from 0: if yours are from "
            "1, take 1 away"
        )
    return parameters.table(counts, totals)


def _is_report(row: list[str], columns: int) -> bool:
    """Return whether the cells of a first line are a report, not headings."""
    return row[1].isdigit() and len(row[2]) == columns and {*row[2]} <= {*"01"}


def file_texts(table: Table, candidates: Sequence[str]) -> dict[str, str]:
    """Return the text of params.csv, counts.csv and map.csv, by these names, for a table of RAPPOR
    and `candidates`. Raises DecodeError for another table, or for basic RAPPOR of sets."""
    mechanism = table.mechanism
    if not isinstance(mechanism, Rappor) or mechanism.at_most:
        raise DecodeError(f"google/rappor has no {mechanism.name} tables like this one")
    names = {"k": mechanism.bits, "h": mechanism.hashes, "m": mechanism.cohorts}
    noise = {"p": mechanism.p, "q": mechanism.q, "f": mechanism.f}
    first = 1 + mechanism.bits * np.arange(mechanism.cohorts)[:, None]
    if mechanism.scheme == "identity":
        points = [mechanism.addressing.point(name) for name in candidates]
        places = np.array(points, np.int64).reshape(-1, 1, 1)
    else:
        from ldp import bulk  # late: it compiles

        rows = mechanism.cohorts
        addressing: Any = mechanism.addressing
        places = bulk.bloom_map(addressing, rows, candidates).astype(np.int64)
    positions = (places + first).reshape(len(candidates), -1).tolist()
    return {
        "params.csv": csv_text([[*names, *noise], [*names.values(), *noise.values()]]),
        "counts.csv": csv_text(np.column_stack([table.reports, table.counts]).tolist()),
        "map.csv": csv_text([name, *row] for name, row in zip(candidates, positions, strict=True)),
    }


def read_params(path: str | Path, scheme: str = SCHEME, say: Say = _unsaid) -> FileParameters:
    """Return the parameters of a file: a header k,h,m,p,q,f in any order, and one row. Where p is
    above q they are those of the opposite bits: inverting all bits of a report turns p into 1 - p
    and q into 1 - q, and leaves epsilon. Raises DecodeError for any other file."""
    rows = [[cell.strip() for cell in row] for _, row in _rows(path)]
    if len(rows) != 2 or sorted(rows[0]) != sorted(PARAMS) or len(rows[1]) != len(PARAMS):
        raise DecodeError(f"{path}: must be a header {','.join(PARAMS)} and one row")
    texts = dict(zip(*rows, strict=True))
    numbers = {name: _whole(texts[name], path, 2, name, "") for name in "khm"}
    for name, number in numbers.items():
        if number < 1:
            raise _wrong(path, 2, texts[name], f"{name} must be 1 or more")
    chances = dict[str, Decimal]()
    for name in "pqf":
        try:
            chances[name] = Decimal(texts[name])
        except ArithmeticError:
            raise _wrong(path, 2, texts[name], f"{name} must be a number") from None
        if not chances[name].is_finite() or not 0 <= chances[name] <= 1:
            raise _wrong(path, 2, texts[name], f"{name} must be from 0 to 1")
    p, q, f = chances.values()
    if p == q or f == 1:
        said = f"p = q = {p}" if p == q else "f = 1"
        raise DecodeError(f"{path}: with {said} reports tell nothing of any value")
    if is_inverted := p > q:
        say(f"{path}: p {p} is above q {q}: all bits are inverted, which leaves epsilon as it is")
        p, q = 1 - p, 1 - q
    k, h, m = numbers.values()
    if k > MOST_BITS and scheme == SCHEME:
        scheme = WIDE_SCHEME
        say(f"{path}: k {k} is above {MOST_BITS}: the hash is {scheme}, as of client/cpp")
    mechanism: Rappor | CoinResponse
    with errors_in(path, DecodeError):
        noise: dict[str, Any] = {"p": float(p), "q": float(q), "f": float(f)}
        rappor = Rappor(
            **(noise | ({"bits": 2} if k == 1 else {"bits": k, "hashes": h, "cohorts": m})),
            scheme="identity" if k == 1 else scheme,
            permanent="keyed",
        )
        mechanism = rappor
        if k == 1:
            gain, yes_if_no = float(rappor.channel.gain), float(rappor.channel.untouched)
            mechanism = CoinResponse(alpha=gain, beta=yes_if_no / (1 - gain))
            say(f"{path}: k = 1 is one question, answered yes where the bit is 1")
    return FileParameters(mechanism, m, k, is_inverted)


def read_map(
    path: str | Path, table: Table, say: Say = _unsaid, reading: Reading = AS_WRITTEN
) -> tuple[tuple[str, ...], NDArray[np.uint16]]:
    """Return the candidates of a map file for a RAPPOR table, and the bits they set: uint16, shape
    (candidates, cohorts, hashes).

    A row is a set of positions, in any column: a position twice is one bit, cells without one are
    left out, and cohort (position - 1) // bits has it. The first row of a string counts. A string
    without letters is called "Empty", as in R. Raises DecodeError, with line and value, also for a
    table of another mechanism.
    """
    mechanism = table.mechanism
    if not isinstance(mechanism, Rappor):
        raise DecodeError(f"a map is for a table of rappor, and this one is of {mechanism.name}")
    bits, hashes, cohorts = mechanism.bits, mechanism.hashes, mechanism.cohorts
    lines, repeated = dict[str, int](), 0
    flat, lengths = array("q"), list[int]()
    for line, row in _rows(path, reading):
        name = row[0] or "Empty"
        if name in lines:
            repeated += 1
            continue
        lines[name] = line
        cells = [cell for cell in map(str.strip, row[1:]) if cell not in EMPTY]
        for cell in cells:
            position = _whole(cell, path, line, "positions", "map")
            if not 1 <= position <= bits * cohorts:
                raise DecodeError(
                    f"{path}: line {line} holds position {position}; {cohorts} cohorts of {bits} "
                    f"bits have 1 to {bits * cohorts}"
                )
            flat.append(position - 1)
        lengths.append(len(cells))
    if not lines:
        raise DecodeError(f"{path}: must name candidates")
    if repeated:
        say(f"{path}: {counted(repeated, 'repeated string')}: the first row of each counts")
    held = np.repeat(np.arange(len(lines)), lengths) * (bits * cohorts) + np.array(flat, np.int64)
    held = np.unique(held)
    numbers = np.bincount(held // bits, minlength=len(lines) * cohorts)
    if (is_wrong := (numbers < 1) | (numbers > hashes)).any():
        row_at, cohort = divmod(int(is_wrong.argmax()), cohorts)
        raise DecodeError(
            f"{path}: line {[*lines.values()][row_at]} has {numbers[is_wrong][0]} positions of "
            f"cohort {cohort}, which are {1 + cohort * bits} to {(cohort + 1) * bits}; "
            f"{hashes} hashes set 1 to {hashes} bits"
        )
    first = np.cumsum(numbers) - numbers
    at = first[:, None] + np.minimum(np.arange(hashes), numbers[:, None] - 1)
    places = (held % bits)[at].reshape(len(lines), cohorts, hashes)
    return tuple(lines), places.astype(np.uint16)


def _rows(path: str | Path, reading: Reading = AS_WRITTEN) -> Lines:
    """Return (line, cells) of the rows of a CSV file, without blank ones. Raises DecodeError for
    any other file. The separator is the first of DELIMITERS in the first line."""
    with errors_in("", DecodeError):
        text = read_text(path, reading)
        first = next((sign for sign in DELIMITERS if sign in text.partition("\n")[0]), ",")
        lines, where = io.StringIO(text, newline=""), partial(place_of, Path(path))
        rows = numbered_rows(lines, where, 0, reading.delimiter or first, strict=False)
        return [(line, row) for line, row in rows if row]


def _whole(cell: str, path: str | Path, line: int, of: str, without_header: str) -> int:
    """Return the whole number of a cell. Raises DecodeError, which says `of` what it counts."""
    if WHOLE.fullmatch(text := cell.strip()):
        number = Decimal(text)
        if number == number.to_integral_value():
            return int(number)
    note = f" (a {without_header} has no header)" if line == 1 and without_header else ""
    verb = "whole numbers" if of[1:] else "a whole number"
    raise _wrong(path, line, cell, f"{of} must be {verb}{note}")


def _wrong(path: str | Path, line: int, cell: str, why: str) -> DecodeError:
    return DecodeError(f"{path}: line {line} holds {cell[:SHOWN]!r}: {why}")
