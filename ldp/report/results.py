"""Files that `ldp decode` wrote, read back."""

import csv
import json
import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from ldp.accounting.label import Label
from ldp.errors import DecodeError, ParameterError
from ldp.protocol.spelling import Spelling
from ldp.tables.estimates import COLUMNS, CONTROLS, summary_path

_NUMBERS = [name for name in COLUMNS if name != "value"]


_NEVER_EMPTY = {"count", "std_error", "low", "high", "detected"}


_SELECTED = {"selected_low", "selected_high"}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and abs(value) < 1e300


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_spelling(value: object) -> bool:
    try:
        return isinstance(value, dict) and bool(Spelling(**value))
    except (ParameterError, TypeError):
        return False


def _are_labels(value: object) -> bool:
    try:
        return isinstance(value, list) and all(Label.of(fields) for fields in value)
    except (ParameterError, TypeError):
        return False


_SUMMARY: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("noise_std_error", "noise_floor", "unexplained_share"), _is_number),
    **dict.fromkeys(
        ("epsilon", "reports", "candidates", "detected"),
        lambda value: _is_number(value) and value >= 0,
    ),
    **dict.fromkeys(("level", "alpha"), lambda value: _is_number(value) and 0 < value < 1),
    **dict.fromkeys(("method", "mechanism", "fingerprint"), _is_text),
    "control": lambda value: value in CONTROLS,
    "threshold": lambda value: value is None or _is_number(value),
    "windows": lambda value: isinstance(value, list) and all(map(_is_text, value)),
}


_SINCE: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("unexplained", "tail"), _is_number),
    **dict.fromkeys(
        ("unexplained_std_error", "lifetime_epsilon"),
        lambda value: value is None or (_is_number(value) and value >= 0),
    ),
    **dict.fromkeys(("answers_each", "answers_each_std_error"), _is_number),
    "at_most": lambda value: type(value) is int and value >= 1,
    "memoised": lambda value: isinstance(value, bool),
    "labels": _are_labels,
    "spelling": _is_spelling,
    **dict.fromkeys(
        ("warning", "consistency_bias"), lambda value: value is None or _is_text(value)
    ),
}
"""Keys that some files lack: those of earlier versions, or where there is nothing to say."""


class Rows(Sequence[Mapping[str, Any]]):
    """Lines of an estimates file, kept by column, 8 bytes a number; a row is made when it is asked
    for. Raises ValueError for a line that `ldp decode` does not write."""

    def __init__(self, lines: Iterable[Sequence[str]]) -> None:
        self._values: list[str] = []
        self._numbers = tuple(array("d") for _ in _NUMBERS)
        for cells in lines:
            row = _row(dict(zip(COLUMNS, cells, strict=True)))
            self._values.append(row["value"])
            for column, name in zip(self._numbers, _NUMBERS, strict=True):
                column.append(math.nan if row[name] is None else row[name])

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, place: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self[index] for index in range(*place.indices(len(self)))]
        numbers = (column[place] for column in self._numbers)
        row = {name: None if x != x else x for name, x in zip(_NUMBERS, numbers, strict=True)}
        return {"value": self._values[place], **row}


@dataclass(frozen=True, kw_only=True)
class Results:
    """An estimates file read back: `rows` of its columns as numbers (None where empty), and the
    `summary` beside it. `path` names the file where `name` does not tell two apart."""

    name: str
    rows: Sequence[Mapping[str, Any]]
    summary: Mapping[str, Any]
    path: str = ""

    @classmethod
    def load(cls, path: str | Path) -> "Results":
        """Read E.csv and the summary beside it; raises DecodeError naming the file that is
        wrong."""
        path = Path(path)
        beside = summary_path(path)
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                reader = csv.reader(file)
                rows = Rows(filter(None, reader)) if tuple(next(reader, ())) == COLUMNS else None
        except OSError as error:
            raise DecodeError(f"cannot read {path}: {error.strerror}") from None
        except (ValueError, csv.Error):
            raise DecodeError(f"{path}: not as `ldp decode` wrote it") from None
        if rows is None:
            raise DecodeError(f"{path}: not an estimates file")
        summary = _summary(beside, _SUMMARY, _SINCE)
        return cls(name=path.stem, rows=rows, summary=summary, path=str(path))

    @property
    def days(self) -> str:
        """Days on which the reports were collected, in words; "" where they are not known."""
        return _days(self.summary)

    @property
    def discovered(self) -> list[Mapping[str, Any]]:
        return [row for row in self.rows if row["detected"]]

    def compared(self, truth: Mapping[str, int]) -> dict[str, Any]:
        """Return how the estimates stand to the truth: counts of discoveries, false ones and
        intervals that hold, for simulations. A candidate that the truth does not name is held by
        nobody."""
        discoveries, level = self.discovered, self.summary["level"]
        holds = [row["low"] <= truth.get(row["value"], 0) <= row["high"] for row in self.rows]
        selected = [
            row["selected_low"] <= truth.get(row["value"], 0) <= row["selected_high"]
            for row in discoveries
        ]
        values = [row["value"] for row in self.rows]
        typed = [row for row in self.rows if truth.get(row["value"], 0) > 0]
        floor = self.summary["noise_floor"]
        unlisted = {*truth}.difference(values)
        whole = sum(truth.values()) == self.summary["reports"]
        return {
            "level": level,
            "held_by_somebody": len(typed),
            "unnamed": sum(value not in truth for value in values),
            "unlisted": sum(truth[value] > 0 for value in unlisted) if whole else None,
            "unexplained": sum(truth[value] for value in unlisted) if whole else None,
            "below_floor": sum(truth[row["value"]] < floor for row in typed),
            "false": sum(truth.get(row["value"], 0) == 0 for row in discoveries),
            "missed": sum(not row["detected"] for row in typed),
            "intervals_hold": sum(holds) / len(holds) if holds else None,
            "selected_hold": sum(selected) / len(selected) if selected else None,
        }


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """The summary that `ldp decode` writes of a mean or of a regression, read back."""

    name: str
    summary: Mapping[str, Any]

    @property
    def days(self) -> str:
        return _days(self.summary)

    @property
    def coefficients(self) -> list[dict[str, Any]]:
        """The terms of a regression, each with `coefficient`, `std_error`, `low`, `high` and
        `fakes_move` (None where infinite, or where the file is of a version without), the intercept
        last; none of a mean."""
        if "coef" not in self.summary:
            return []
        numbers = [*self.summary["coef"], self.summary["intercept"]]
        terms = [*(f"x{number}" for number in range(1, len(numbers))), "intercept"]
        columns = {"term": terms, "coefficient": numbers}
        for name in _ERRORS:
            errors = self.summary.get(name, [])
            columns[name] = errors if len(errors) == len(terms) else [None] * len(terms)
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


_NUMBERS_SUMMARY: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("epsilon", "reports"), lambda value: _is_number(value) and value >= 0),
    **dict.fromkeys(("mechanism", "fingerprint"), _is_text),
    "windows": _SUMMARY["windows"],
}


_MEAN: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("mean", "std_error", "low", "high", "fakes_move"), _is_number),
    "level": _SUMMARY["level"],
}


_REGRESSION: Mapping[str, Callable[[Any], bool]] = {
    "coef": lambda value: isinstance(value, list) and bool(value) and all(map(_is_number, value)),
    "intercept": _is_number,
}


_ERRORS = ("std_error", "low", "high", "fakes_move")


_REGRESSION_SINCE: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(
        _ERRORS,
        lambda value: isinstance(value, list) and all(x is None or _is_number(x) for x in value),
    ),
    "level": _SUMMARY["level"],
}


_HEADERS: Mapping[str, tuple[Mapping[str, Callable[[Any], bool]], ...]] = {
    "mean,std_error,low,high,reports": (_MEAN, {}),
    "statistic,bin_low,bin_high,estimate,std_error,low,high": (_MEAN, {}),
    **dict.fromkeys(
        ("term,coefficient", "term,coefficient,std_error,low,high"),
        (_REGRESSION, _REGRESSION_SINCE),
    ),
}
"""Headers of files of numbers, with the keys that their summaries have, and may have."""


def load(path: str | Path) -> Results | Numbers:
    """Read a file that `ldp decode` wrote, and the summary beside it: estimates of values, or of
    numbers. Raises DecodeError naming the file that is wrong."""
    path = Path(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError):
        header = ""
    keys = _HEADERS.get(header)
    if keys is None:
        return Results.load(path)
    summary = _summary(summary_path(path), {**_NUMBERS_SUMMARY, **keys[0]}, keys[1])
    return Numbers(name=path.stem, summary=summary)


def _summary(
    path: Path,
    needed: Mapping[str, Callable[[Any], bool]],
    optional: Mapping[str, Callable[[Any], bool]],
) -> dict[str, Any]:
    """Return a summary whose keys are as they must be."""
    try:
        summary = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise DecodeError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise DecodeError(f"{path}: not as `ldp decode` wrote it") from None
    if not isinstance(summary, dict):
        raise DecodeError(f"{path}: not as `ldp decode` wrote it")
    for name, fits in {**needed, **optional}.items():
        if not fits(summary[name]) if name in summary else name in needed:
            raise DecodeError(f"{path}: {name} is not as `ldp decode` writes it")
    return summary


def _days(summary: Mapping[str, Any]) -> str:
    first, *later = summary["windows"] or [""]
    return f"{first} to {later[-1]}" if later else first


def _row(cells: Mapping[str, str]) -> dict[str, Any]:
    """Return one line of the file as numbers; raises ValueError unless all are there that must
    be."""
    numbers = {name: float(cells[name]) if cells[name] else None for name in _NUMBERS}
    needed = _NEVER_EMPTY | (_SELECTED if numbers["detected"] else set())
    told_apart = {**numbers, "std_error": 0.0} if numbers["std_error"] == math.inf else numbers
    if not all(
        name not in needed if number is None else _is_number(number)
        for name, number in told_apart.items()
    ):
        raise ValueError
    return {"value": cells["value"], **numbers}
