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
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

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

KINDS = ("values", "numbers", "numbers-by-category", "association", "regression")
"""Kinds of results that are read."""
MOST_BYTES = (1 << 31) - 1
"""Largest size of a block that is read at once."""
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
    facts: Mapping[str, Any]

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
        """Read the CSV file `path` and the summary beside it; raise DecodeError naming the file
        that is wrong."""
        path = Path(path)
        with _reading(path):
            content = path.read_bytes()
            first = TextIOWrapper(BytesIO(content), "utf-8", newline="")
            header = next(csv.reader(first), [])
        unknown = [n for n in header if n not in COLUMNS and not MEMBER.fullmatch(n)]
        if "estimate" not in header or unknown:
            raise DecodeError(
                f"{path}: not an estimates file, or one of an earlier version: decode the table "
                "again"
            )
        summary = read_summary(path)
        if sha256(content).hexdigest() != summary.get(CSV_DIGEST):
            raise DecodeError(
                f"{path} has changed since {summary_path(path)} was written: write both again"
            )
        if len(content) >= MOST_BYTES:
            raise DecodeError(f"{path}: {len(content):,} bytes are more than can be read at once")
        with _reading(path):
            columns = _read_columns(content, header)
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
        """Days on which the reports were collected, in words; "" where they are not known."""
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
        """Return the rows of these `places`, or all: of all COLUMNS, None where a row has nothing;
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


def _read_columns(content: bytes, header: Sequence[str]) -> Columns:
    """Return the columns of a file; NaN for an empty cell of a column of numbers. The file is read
    in one block, because the LF is lost where two blocks meet between CR and LF of a value."""
    # a third of the memory of a list
    text = np.dtypes.StringDType()
    types = {name: pa.string() if is_text(name) else pa.float64() for name in header}
    table = arrow_csv.read_csv(
        pa.BufferReader(content),
        read_options=arrow_csv.ReadOptions(block_size=len(content) + 1),
        parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(column_types=types, null_values=[""]),
    )
    return {
        name: column.to_numpy().astype(text if is_text(name) else np.float64)
        for name, column in zip(header, table.columns, strict=True)
    }


def read_summary(path: Path) -> dict[str, Any]:
    """Return the summary beside the CSV file `path`; raise DecodeError unless it is as it was
    written."""
    form = "as `ldp decode` writes it; decode the table again"
    return {"windows": [], **read_json(summary_path(path), form, _require_summary, DecodeError)}


def _require_summary(summary: Mapping[str, Any]) -> None:
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
