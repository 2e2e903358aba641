"""Estimates of values that `ldp decode` wrote, read back."""

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from ldp.errors import DecodeError, ParameterError
from ldp.protocol.spelling import Spelling
from ldp.report.reading import (
    Checks,
    ResultFile,
    are_texts,
    csv_lines,
    is_amount,
    is_number,
    is_share,
    is_text,
    or_none,
    read_summary,
    reading,
)
from ldp.tables.estimates import COLUMNS, CONTROLS

_NUMBERS = [name for name in COLUMNS if name != "value"]


_NEVER_EMPTY = {"count", "std_error", "low", "high", "detected"}


_SELECTED = {"selected_low", "selected_high"}


def _is_spelling(value: object) -> bool:
    try:
        return isinstance(value, dict) and bool(Spelling(**value))
    except (ParameterError, TypeError):
        return False


_SUMMARY: Checks = {
    **dict.fromkeys(("noise_std_error", "noise_floor", "unexplained_share"), is_number),
    **dict.fromkeys(("candidates", "detected"), is_amount),
    **dict.fromkeys(("level", "alpha"), is_share),
    "method": is_text,
    "control": lambda value: value in CONTROLS,
    "threshold": or_none(is_number),
    "windows": are_texts,
}


_SINCE: Checks = {
    **dict.fromkeys(("unexplained", "tail"), is_number),
    "unexplained_std_error": or_none(is_amount),
    "fakes_move": or_none(is_number),
    **dict.fromkeys(("answers_each", "answers_each_std_error"), is_number),
    "at_most": lambda value: type(value) is int and value >= 1,
    "spelling": _is_spelling,
    "consistency_bias": or_none(is_text),
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
class Results(ResultFile):
    """An estimates file read back: `rows` of its columns as numbers (None where empty)."""

    rows: Sequence[Mapping[str, Any]]

    @classmethod
    def load(cls, path: str | Path) -> "Results":
        """Read E.csv and the summary beside it; raises DecodeError naming the file that is
        wrong."""
        path = Path(path)
        with reading(path):
            content = path.read_bytes()
            lines = csv_lines(content)
            if tuple(next(lines, ())) != COLUMNS:
                raise DecodeError(f"{path}: not an estimates file")
            rows = Rows(lines)
        summary = read_summary(path, _SUMMARY, _SINCE)
        return cls(name=path.stem, rows=rows, summary=summary, path=str(path), content=content)

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


def _row(cells: Mapping[str, str]) -> dict[str, Any]:
    """Return one line of the file as numbers; raises ValueError unless all are there that must
    be."""
    numbers = {name: float(cells[name]) if cells[name] else None for name in _NUMBERS}
    needed = _NEVER_EMPTY | (_SELECTED if numbers["detected"] else set())
    told_apart = {**numbers, "std_error": 0.0} if numbers["std_error"] == math.inf else numbers
    if not all(
        name not in needed if number is None else is_number(number)
        for name, number in told_apart.items()
    ):
        raise ValueError
    return {"value": cells["value"], **numbers}
