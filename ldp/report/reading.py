"""Files that commands wrote, a CSV and the summary beside it, and what is wrong with them."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any

from ldp.accounting.label import Label
from ldp.errors import DecodeError, ParameterError
from ldp.mechanisms.catalogue import SHUFFLED_ENTRIES
from ldp.tables.estimates import CSV_DIGEST, summary_path

Checks = Mapping[str, Callable[[Any], bool]]


@dataclass(frozen=True, kw_only=True)
class ResultFile:
    """A result that a command wrote, read back, with the `summary` beside it. `path` names the file
    where `name` does not tell two apart."""

    name: str
    summary: Mapping[str, Any]
    path: str = ""

    @property
    def days(self) -> str:
        """Days on which the reports were collected, in words; "" where they are not known."""
        first, *later = self.summary["windows"] or [""]
        return f"{first} to {later[-1]}" if later else first

    @property
    def labels(self) -> list[Label]:
        """Privacy labels that the summary carries."""
        return [Label.of(fields) for fields in self.summary.get("labels", [])]


def is_number(value: object) -> bool:
    """Return whether `value` is a finite number."""
    return isinstance(value, int | float) and type(value) is not bool and abs(value) < 1e300


def is_amount(value: object) -> bool:
    """Return whether `value` is a finite number that is not negative."""
    return isinstance(value, int | float) and is_number(value) and value >= 0


def is_share(value: object) -> bool:
    """Return whether `value` is a number strictly between 0 and 1."""
    return isinstance(value, int | float) and 0 < value < 1


def is_text(value: object) -> bool:
    """Return whether `value` is a text."""
    return isinstance(value, str)


def are_texts(value: object) -> bool:
    """Return whether `value` is a list of texts."""
    return isinstance(value, list) and all(map(is_text, value))


def or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return the check that takes None, too."""
    return lambda value: value is None or check(value)


def _are_labels(value: object) -> bool:
    try:
        return isinstance(value, list) and all(Label.of(fields) for fields in value)
    except (ParameterError, TypeError):
        return False


COMMON: Checks = {
    "reports": is_amount,
    "epsilon": or_none(is_amount),
    **dict.fromkeys(("mechanism", "fingerprint"), is_text),
}
"""Checks of the keys that every summary has."""
COMMON_SINCE: Checks = {
    "labels": _are_labels,
    "memoised": lambda value: isinstance(value, bool),
    "lifetime_epsilon": or_none(is_amount),
    "warning": or_none(is_text),
    "windows": are_texts,
    **dict.fromkeys(("fakes", "fakes_reports", "fakes_raise", "fakes_lower"), is_amount),
}
"""Checks of keys that any summary may have."""


def read_summary(path: Path, needed: Checks, optional: Checks) -> dict[str, Any]:
    """Return the summary beside the CSV file `path`; raise DecodeError unless its keys are as they
    must be."""
    beside = summary_path(path)
    try:
        summary = json.loads(beside.read_text("utf-8"))
    except OSError as error:
        raise DecodeError(f"cannot read {beside}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise DecodeError(f"{beside}: not as `ldp decode` wrote it") from None
    if not isinstance(summary, dict):
        raise DecodeError(f"{beside}: not as `ldp decode` wrote it")
    checks = {**COMMON, **COMMON_SINCE, **needed, **optional}
    for name, fits in checks.items():
        is_needed = name in needed or name in COMMON
        if not fits(summary[name]) if name in summary else is_needed:
            raise DecodeError(f"{beside}: {name} is not as `ldp decode` writes it")
    if summary["epsilon"] is None and summary["mechanism"] not in SHUFFLED_ENTRIES:
        raise DecodeError(f"{beside}: epsilon is not as `ldp decode` writes it")
    if CSV_DIGEST in summary:
        with path.open("rb") as file:
            if summary[CSV_DIGEST] != file_digest(file, "sha256").hexdigest():
                raise DecodeError(
                    f"{path} has changed since {beside} was written: write both again"
                )
    return {"windows": [], **summary}


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise DecodeError, naming the file, for what goes wrong while `path` is read."""
    try:
        yield
    except OSError as error:
        raise DecodeError(f"cannot read {path}: {error.strerror}") from None
    except DecodeError:
        raise
    except (ValueError, csv.Error):
        raise DecodeError(f"{path}: not as `ldp decode` wrote it") from None


@contextmanager
def csv_lines(path: Path) -> Iterator[Iterator[list[str]]]:
    """Open a CSV file: its lines, cell by cell, without empty ones. Reading them raises ValueError
    for bytes that are no UTF-8 text."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        yield filter(None, csv.reader(file))


def numbers_in(cells: Mapping[str, str]) -> dict[str, float | None]:
    """Return `cells` as numbers, None where empty; raise ValueError unless all are finite."""
    numbers = {name: float(cell) if cell else None for name, cell in cells.items()}
    if not all(number is None or is_number(number) for number in numbers.values()):
        raise ValueError
    return numbers
