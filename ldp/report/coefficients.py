"""A regression on the page: coefficients with intervals."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldp.report.formats import percent, quantity, span, ticks
from ldp.report.reading import (
    Checks,
    ResultFile,
    are_texts,
    is_number,
    is_share,
    or_none,
    read_summary,
)

HEADERS = (
    ("term", "coefficient", "std_error", "low", "high"),
    ("term", "coefficient"),
)
"""Columns of a file of coefficients, and those of earlier versions."""


def _are_numbers(value: object) -> bool:
    return isinstance(value, list) and all(map(or_none(is_number), value))


_ERRORS = ("std_error", "low", "high", "fakes_move")
_SUMMARY: Checks = {
    "coef": lambda value: _are_numbers(value) and bool(value) and None not in value,
    "intercept": is_number,
    "windows": are_texts,
}
_SINCE: Checks = {**dict.fromkeys(_ERRORS, _are_numbers), "level": is_share}


@dataclass(frozen=True, kw_only=True)
class Coefficients(ResultFile):
    """A file of a regression from devices, read back."""

    @classmethod
    def load(cls, path: Path) -> "Coefficients":
        """Read the summary beside the CSV file `path`, which says the same; raise DecodeError
        naming what is wrong."""
        summary = read_summary(path, _SUMMARY, _SINCE)
        return cls(name=path.stem, path=str(path), summary=summary)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Terms, the intercept last, each with `coefficient`, `std_error`, `low`, `high` and
        `fakes_move` (None where infinite, or where the file is of a version without)."""
        numbers = [*self.summary["coef"], self.summary["intercept"]]
        terms = [*(f"x{number}" for number in range(1, len(numbers))), "intercept"]
        columns: dict[str, list[Any]] = {"term": terms, "coefficient": numbers}
        for name in _ERRORS:
            errors = self.summary.get(name, [])
            columns[name] = errors if len(errors) == len(terms) else [None] * len(terms)
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def facts(file: Coefficients) -> list[tuple[str, str]]:
    """Return what must be trusted of a `file`: pairs of a question and its answer."""
    answers = []
    if "level" in file.summary:
        answers.append(
            (
                "Intervals",
                f"Each holds the least-squares coefficient of the population that the reports come "
                f"from with probability {percent(file.summary['level'])}, by itself.",
            )
        )
    if "fakes_move" in file.summary:
        words = "1 % of them could move each coefficient as far as its last column says."
        answers.append(("Made-up reports", words))
    return answers


def face(file: Coefficients) -> dict[str, Any]:
    """Return the data of the page of a `file`: terms, with their places on an axis that all
    coefficients but the intercept share."""
    rows, slopes = file.rows, file.rows[:-1]
    ends = [0.0, *(row[name] or 0.0 for row in slopes for name in ("coefficient", "low", "high"))]
    low, high = min(ends), max(ends)
    reach = (high - low) or 1.0

    def along(number: float) -> float:
        return round((number - low) / reach, 5)

    def places(row: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "at": along(row["coefficient"]),
            "start": 0.0 if row["low"] is None else along(row["low"]),
            "end": 1.0 if row["high"] is None else along(row["high"]),
        }

    return {
        "rows": [
            {
                **row,
                "text": quantity(row["coefficient"]),
                "span": span(row["low"], row["high"]),
                **(places(row) if row["term"] != "intercept" else {"at": None}),
            }
            for row in rows
        ],
        "zero": along(0.0),
        "ticks": ticks(low, high),
    }
