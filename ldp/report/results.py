"""Estimates of values that `ldp decode` wrote, read back."""

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, overload

import numpy as np

from ldp.arrays import Floats
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


_STD_ERROR, _DETECTED = _NUMBERS.index("std_error"), _NUMBERS.index("detected")
_NEVER_EMPTY = [_NUMBERS.index(name) for name in ("count", "std_error", "low", "high", "detected")]
_SELECTED = [_NUMBERS.index(name) for name in ("selected_low", "selected_high")]
_LINES = 10_000
"""Lines that are read at once."""


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
    """Lines of an estimates file, kept by column: `values`, texts, and `columns` of float64 by
    name, NaN where empty, shape (rows,) each; a row is made when it is asked for. Raises ValueError
    for a line that `ldp decode` does not write."""

    def __init__(self, lines: Iterator[Sequence[str]]) -> None:
        texts = [np.array([], np.dtypes.StringDType())]  # a third of the memory of a list
        columns = {name: array("d") for name in _NUMBERS}
        while some := list(islice(lines, _LINES)):
            values, *cells = zip(*some, strict=True)
            texts.append(np.array(values, np.dtypes.StringDType()))
            for column, numbers in zip(columns.values(), _numbers(cells), strict=True):
                column.frombytes(numbers.tobytes())
        self.values = np.concatenate(texts)
        self.columns = {name: np.frombuffer(column) for name, column in columns.items()}

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, place: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self[index] for index in range(*place.indices(len(self)))]
        numbers = {name: column[place].item() for name, column in self.columns.items()}
        row = {name: None if math.isnan(x) else x for name, x in numbers.items()}
        return {"value": str(self.values[place]), **row}


@dataclass(frozen=True, kw_only=True)
class Results(ResultFile):
    """An estimates file read back: `rows` of its columns as numbers (None where empty)."""

    rows: Rows

    @classmethod
    def load(cls, path: str | Path) -> "Results":
        """Read E.csv and the summary beside it; raises DecodeError naming the file that is
        wrong."""
        path = Path(path)
        with reading(path), csv_lines(path) as lines:
            if tuple(next(lines, ())) != COLUMNS:
                raise DecodeError(f"{path}: not an estimates file")
            rows = Rows(lines)
        summary = read_summary(path, _SUMMARY, _SINCE)
        return cls(name=path.stem, rows=rows, summary=summary, path=str(path))

    @property
    def discovered(self) -> list[Mapping[str, Any]]:
        return [self.rows[i] for i in np.flatnonzero(self.rows.columns["detected"]).tolist()]

    def compared(self, truth: Mapping[str, int]) -> dict[str, Any]:
        """Return how the estimates stand to the truth: counts of discoveries, false ones and
        intervals that hold, for simulations. A candidate that the truth does not name is held by
        nobody."""
        values, columns = self.rows.values, self.rows.columns
        held = np.array([truth.get(value, 0) for value in values])
        is_typed, detected = held > 0, columns["detected"] > 0
        holds = (columns["low"] <= held) & (held <= columns["high"])
        selected = (columns["selected_low"] <= held) & (held <= columns["selected_high"])
        unlisted = {*truth}.difference(values)
        whole = sum(truth.values()) == self.summary["reports"]
        return {
            "level": self.summary["level"],
            "held_by_somebody": int(is_typed.sum()),
            "unnamed": sum(value not in truth for value in values),
            "unlisted": sum(truth[value] > 0 for value in unlisted) if whole else None,
            "unexplained": sum(truth[value] for value in unlisted) if whole else None,
            "below_floor": int((held[is_typed] < self.summary["noise_floor"]).sum()),
            "false": int((detected & ~is_typed).sum()),
            "intervals_hold": float(holds.mean()) if holds.size else None,
            "selected_hold": float(selected[detected].mean()) if detected.any() else None,
        }


def _numbers(cells: Sequence[Sequence[str]]) -> Floats:
    """Return the `cells` of each column but the values' as numbers, NaN where empty; raise
    ValueError unless all are there that must be."""
    numbers = np.array([[float(cell or "nan") for cell in column] for column in cells])
    is_empty = np.array([[not cell for cell in column] for column in cells])
    is_wrong = ~is_empty & ~(np.abs(numbers) < 1e300)
    is_wrong[_STD_ERROR] &= numbers[_STD_ERROR] != np.inf
    is_wrong[_NEVER_EMPTY] |= is_empty[_NEVER_EMPTY]
    is_wrong[_SELECTED] |= is_empty[_SELECTED] & (numbers[_DETECTED] != 0)
    if len(numbers) != len(_NUMBERS) or is_wrong.any():
        raise ValueError
    return numbers
