"""Results that commands wrote, a CSV and the summary beside it, read back.

Both are as they were written, or are refused: the summary holds the digests of the two.
"""

import csv
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow

from ldp.arrays import Floats
from ldp.errors import DecodeError, ParameterError
from ldp.files import counted
from ldp.protocol.spelling import Spelling
from ldp.protocol.strict_json import read_json
from ldp.registry.label import Label
from ldp.tables.frame import Columns
from ldp.tables.result import (
    COLUMNS,
    COUNT,
    CSV_DIGEST,
    SUMMARY_DIGEST,
    Result,
    is_text,
    summary_digest,
    summary_path,
)

Facts = Mapping[str, Any]
"""Summary of a result, or one of its rows: facts by name, JSON-ready."""
KINDS = ("values", "numbers", "numbers-by-category", "association", "regression")
"""Kinds of results that are read."""
BLOCK, MOST_BYTES = 1 << 17, (1 << 31) - 1
"""Size, in bytes, of the blocks in which a file is searched; largest size of one that is read."""
MEMBER = re.compile(r"value_[1-9]\d*")
"""Name of the column of one member of a combination."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SavedResult(Result):
    """Result that was read from the file `path`: its numbers, at the level that they have there.
    `name`: that of the file."""

    kind = "saved"

    name: str
    path: str
    saved: Columns
    facts: Facts

    def cleaned(self, truth: Mapping[str, int]) -> Mapping[str, int]:
        """Return the counts of a `truth`: of words as devices clean them, of other values as they
        are."""
        spelling: Mapping[str, Any] | None = self.facts.get("spelling")
        if spelling is None:
            return truth
        counts = Counter[str]()
        for value, count in truth.items():
            counts[Spelling(**spelling).clean(value)] += count
        return counts

    @classmethod
    def load(cls, path: str | Path) -> "SavedResult":
        """Read the CSV file `path` and the summary beside it. Raises DecodeError naming the file
        that is wrong."""
        path = Path(path)
        with _reading(path), open(path, "rb") as file:
            digest, lines, whole = sha256(), 1, False
            while block := file.read(BLOCK):
                digest.update(block)
                lines += block.count(b"\n")
                whole = whole or b'"' in block or b"\n" not in block
        with _reading(path), open(path, encoding="utf-8", newline="") as text:
            header = next(csv.reader(text), [])
        unknown = [n for n in header if n not in COLUMNS and not MEMBER.fullmatch(n)]
        if "estimate" not in header or unknown:
            raise DecodeError(
                f"{path}: not an estimates file, or one of an earlier version: decode the table "
                "again"
            )
        summary = read_summary(path)
        if digest.hexdigest() != summary.get(CSV_DIGEST):
            raise DecodeError(
                f"{path} has changed since {summary_path(path)} was written: write both again"
            )
        with _reading(path):
            columns = _read_columns(path, header, lines, whole)
        level = summary["level"]
        return cls(level=level, name=path.stem, path=str(path), saved=columns, facts=summary)

    @property
    def headline(self) -> str:
        """One line: the file, its kind and the number of reports."""
        return f"{self.name}: {self.facts['kind']}, from {counted(self.facts['reports'], 'report')}"

    @property
    def summary(self) -> dict[str, Any]:
        """Summary in the file beside the CSV."""
        return dict(self.facts)

    def _columns(self) -> Columns:
        return self.saved

    def at(self, **settings: Any) -> "SavedResult":
        """Return the result itself at its level; raise DecodeError for another one."""
        if settings != {"level": self.level}:
            raise DecodeError(
                f"{self.path}: a file has intervals at its level, {self.level:g}, alone: decode "
                "the table again for others"
            )
        return self

    def _text(self) -> str:
        """Return the text of the file; raise DecodeError where it is gone."""
        with _reading(Path(self.path)), open(self.path, encoding="utf-8", newline="") as file:
            return file.read()

    @property
    def days(self) -> str:
        """Days on which the reports were collected, in words. It is "" where they are not known."""
        first, *later = self.facts["windows"] or [""]
        return f"{first} to {later[-1]}" if later else first

    @property
    def labels(self) -> list[Label]:
        """Privacy labels that the summary carries."""
        return [Label.of(fields) for fields in self.facts.get("labels", [])]

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.saved["estimate"])

    def numbers(self, column: str) -> Floats:
        """Return a column of numbers, NaN in all rows where the file lacks it."""
        return np.asarray(self.saved.get(column, np.full(self.size, np.nan)))

    def texts(self, column: str, otherwise: str = "") -> list[str]:
        """Return a column of texts, `otherwise` in all rows where the file lacks it."""
        return [*map(str, self.saved.get(column, [otherwise] * self.size))]

    def rows(self, places: Iterable[int] | None = None) -> list[dict[str, Any]]:
        """Return the rows of these `places`, or all: of all COLUMNS, None where a row has nothing.
        `values`: those of the members of a combination."""
        return [*map(self._row, range(self.size) if places is None else places)]

    def _row(self, place: int) -> dict[str, Any]:
        row: dict[str, Any] = dict.fromkeys(COLUMNS)
        row["statistic"] = COUNT
        for name, column in self.saved.items():
            cell = column[place]
            number = math.nan if is_text(name) else float(cell)
            row[name] = str(cell) if is_text(name) else None if math.isnan(number) else number
        row["values"] = tuple(row[name] for name in self.saved if MEMBER.fullmatch(name))
        return row

    def where(self, column: str) -> list[int]:
        """Return the places of the rows in which a column of 0 and 1 is 1."""
        places: list[int] = np.flatnonzero(self.numbers(column) > 0).tolist()
        return places


def _read_columns(path: Path, header: Sequence[str], lines: int, whole: bool) -> Columns:
    """Return the columns of a file of `lines` lines. They have NaN for an empty cell of a column of
    numbers. Where texts are quoted, or a line is long, the file is read `whole`: between two blocks
    that meet between CR and LF of a value the LF would be lost."""
    size = path.stat().st_size + 1 if whole else 2 * BLOCK
    if size > MOST_BYTES:
        raise DecodeError(f"{path}: {size - 1:,} bytes are more than can be read at once")
    # a third of the memory of a list
    text, rows = np.dtypes.StringDType(), 0
    types, columns = dict[str, Any](), dict[str, Any]()
    for name in header:
        has_texts = is_text(name)
        types[name] = pa.string() if has_texts else pa.float64()
        columns[name] = np.empty(lines, text if has_texts else float)
    # of a path it would unpack what a name ends in
    with arrow.open_csv(
        pa.OSFile(str(path)),
        read_options=arrow.ReadOptions(block_size=size, use_threads=False),
        parse_options=arrow.ParseOptions(newlines_in_values=True),
        convert_options=arrow.ConvertOptions(column_types=types, null_values=[""]),
        memory_pool=pa.system_memory_pool(),
    ) as batches:
        for batch in batches:
            for of, column in zip(columns.values(), batch.columns, strict=True):
                of[rows : rows + len(column)] = column
            rows += batch.num_rows
    return {name: of[:rows] for name, of in columns.items()}


def read_summary(path: Path) -> dict[str, Any]:
    """Return the summary beside the CSV file `path`. Raises DecodeError unless it is as it was
    written."""
    form = "as `ldp decode` writes it; decode the table again"
    return {"windows": [], **read_json(summary_path(path), form, _require_summary, DecodeError)}


def _require_summary(summary: Facts) -> None:
    """Raise ParameterError for a summary of another kind, and for one that has changed."""
    if summary.get("kind") not in KINDS:
        raise ParameterError("kind")
    if summary.get(SUMMARY_DIGEST) != summary_digest(summary):
        raise ParameterError("it has changed since, or is of an earlier version")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise DecodeError, naming the file, for what goes wrong while `path` is read."""
    try:
        yield
    except OSError as error:
        raise DecodeError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, csv.Error):
        raise DecodeError(f"{path}: not as `ldp decode` wrote it") from None
