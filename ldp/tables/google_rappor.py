"""Files of google/rappor, read and written: params, counts, map, and clients' reports.

Source: google/rappor @a13fa96, analysis/R/read_input.R and decode_dist.R, analysis/tools/
sum_bits.py. A map lists for every candidate the positions of its bits, counted from 1 over all
cohorts: cohort * bits + bit + 1. A client's report is its cohort and its bits, the highest first.
"""

import csv
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.arrays import Ints
from ldp.errors import DecodeError, LdpError
from ldp.files import csv_text
from ldp.mechanisms.rappor import Rappor
from ldp.tables.table import MOST_REPORTS, Table, smallest_type

PARAMS = ("k", "h", "m", "p", "q", "f")
SCHEME = "rappor-md5-1byte"
NOISED = ("irr", "rappor", "bloom")
"""Names of the column of reported bits: the first of these that a file has."""
AT_ONCE = 1 << 16


def read_table(params: str | Path, counts: str | Path, scheme: str = SCHEME) -> Table:
    """Return the table of a params and a counts file; `scheme`: name of the clients' hash.

    `f` is read as it is written: how a client rounded it is not in the file. Raises DecodeError,
    which names the file and the fault.
    """
    mechanism = read_params(params, scheme)
    rows, columns = mechanism.shape
    numbers = _integers(counts)
    if numbers.shape != (rows, columns + 1):
        raise DecodeError(
            f"{counts}: has {numbers.shape[0]} rows of {numbers.shape[1]} numbers, {params} says "
            f"{rows} cohorts of 1 + {columns}"
        )
    reports, bits = numbers[:, 0], numbers[:, 1:]
    if sum(reports.tolist()) > MOST_REPORTS:
        raise DecodeError(f"{counts}: a table holds at most {MOST_REPORTS} reports")
    is_wrong = (bits < 0).any(axis=1) | (bits > reports[:, None]).any(axis=1)
    if is_wrong.any():
        line = 1 + int(is_wrong.argmax())
        raise DecodeError(f"{counts}: line {line} counts a bit below 0 or above its reports")
    return Table(mechanism, bits.astype(smallest_type(int(reports.max()))), reports)


def read_reports(params: str | Path, reports: str | Path, scheme: str = SCHEME) -> Table:
    """Return the table of a params file and a CSV file of clients' reports, such as
    `client,cohort,bloom`: their sum. Raises DecodeError, which names the file and the line."""
    mechanism = read_params(params, scheme)
    rows, columns = mechanism.shape
    counts, totals = np.zeros((rows, columns), np.int64), np.zeros(rows, np.int64)
    lines = enumerate(_rows(reports), 1)
    header = next(lines, (1, list[str]()))[1]
    bits_name = next((name for name in NOISED if name in header), "")
    if "cohort" not in header or not bits_name:
        raise DecodeError(f"{reports}: the first line must be client,cohort,bloom")
    cohort_at, bits_at = header.index("cohort"), header.index(bits_name)
    cohorts = {str(row): row for row in range(rows)}
    while some := list(islice(lines, AT_ONCE)):
        some = [(line, row) for line, row in some if row]
        if not some:
            continue
        for line, row in some:
            if len(row) != len(header) or row[cohort_at] not in cohorts:
                raise DecodeError(f"{reports}: line {line} names no cohort from 0 to {rows - 1}")
            if len(row[bits_at]) != columns or not {*row[bits_at]} <= {*"01"}:
                raise DecodeError(f"{reports}: line {line} must have {columns} digits 0 or 1")
        at = np.array([cohorts[row[cohort_at]] for _, row in some])
        digits = "".join(row[bits_at] for _, row in some).encode()
        bits = np.frombuffer(digits, np.uint8).reshape(len(some), columns)[:, ::-1] - ord("0")
        np.add.at(counts, at, bits)
        np.add.at(totals, at, 1)
    return Table(mechanism, counts.astype(smallest_type(int(totals.max()))), totals)


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


def read_params(path: str | Path, scheme: str = SCHEME) -> Rappor:
    """Return the mechanism of a params file: a header k,h,m,p,q,f in any order, and one row. Raises
    DecodeError."""
    rows = [row for row in _rows(path) if row]
    if len(rows) != 2 or sorted(rows[0]) != sorted(PARAMS) or len(rows[1]) != len(PARAMS):
        raise DecodeError(f"{path}: must be a header {','.join(PARAMS)} and one row")
    texts = dict(zip(*rows, strict=True))
    try:
        k, h, m = (int(texts[name]) for name in "khm")
        p, q, f = (float(texts[name]) for name in "pqf")
    except ValueError:
        raise DecodeError(f"{path}: k, h, m must be whole numbers and p, q, f numbers") from None
    try:
        return Rappor(bits=k, hashes=h, cohorts=m, p=p, q=q, f=f, scheme=scheme, permanent="keyed")
    except LdpError as error:
        raise DecodeError(f"{path}: {error}") from None


def read_map(path: str | Path, table: Table) -> tuple[tuple[str, ...], NDArray[np.uint16]]:
    """Return the candidates of a map file for a RAPPOR table, and the bits they set: uint16, shape
    (candidates, cohorts, hashes). Raises DecodeError, also for a table of another mechanism."""
    mechanism = table.mechanism
    if not isinstance(mechanism, Rappor):
        raise DecodeError(f"a map is for a table of rappor, and this one is of {mechanism.name}")
    bits, hashes, cohorts = mechanism.bits, mechanism.hashes, mechanism.cohorts
    names: list[str] = []
    positions: list[list[int]] = []
    for number, row in enumerate(_rows(path), 1):
        try:
            numbers = [int(cell) for cell in row[1:]]
        except ValueError:
            raise DecodeError(f"{path}: line {number} holds a position that is no number") from None
        if len(numbers) != cohorts * hashes:
            raise DecodeError(
                f"{path}: line {number} has {len(numbers)} positions, {cohorts} cohorts of "
                f"{hashes} hashes have {cohorts * hashes}"
            )
        names.append(row[0])
        positions.append(numbers)
    if not names or not all(names) or len(set(names)) < len(names):
        raise DecodeError(f"{path}: must name candidates, none twice and none empty")
    places = np.array(positions).reshape(len(names), cohorts, hashes) - 1
    first = bits * np.arange(cohorts)[:, None]
    if ((places < first) | (places >= first + bits)).any():
        raise DecodeError(f"{path}: a position lies outside its cohort's {bits} bits")
    return tuple(names), (places - first).astype(np.uint16)


def _rows(path: str | Path) -> list[list[str]]:
    """Return the rows of a CSV file; raises DecodeError."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as text:
            return list(csv.reader(text))
    except OSError as error:
        raise DecodeError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DecodeError(f"{path}: not UTF-8 (byte {error.start})") from None
    except csv.Error as error:
        raise DecodeError(f"{path}: {error}") from None


def _integers(path: str | Path) -> Ints:
    rows = [row for row in _rows(path) if row]
    if len({len(row) for row in rows}) != 1:
        raise DecodeError(f"{path}: rows must be of one length")
    try:
        return np.array([[int(cell) for cell in row] for row in rows], dtype=np.int64)
    except (ValueError, OverflowError):
        raise DecodeError(f"{path}: counts must be whole numbers") from None
