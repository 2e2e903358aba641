"""Results that commands wrote, a CSV and the summary beside it, read back; what is wrong with them.

The reader is one for all kinds of results: a table says which keys of a summary a kind must have,
and which cells of its columns may not be empty.
"""

import csv
import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import file_digest
from itertools import groupby, islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ldp.arrays import Bools, Floats
from ldp.errors import DecodeError, ParameterError
from ldp.mechanisms.catalogue import SHUFFLED_ENTRIES
from ldp.protocol.spelling import Spelling
from ldp.protocol.strict_json import are_texts, read_json
from ldp.registry.label import Label
from ldp.tables.estimates import CONTROLS
from ldp.tables.frame import Columns
from ldp.tables.result import COLUMNS, COUNT, CSV_DIGEST, Result, is_text, summary_path

LINES = 10_000
"""Lines that are read at once."""
LETTERS = frozenset("0123456789+-.eE" + "inf")
"""Characters of numbers as commands write them."""
LARGEST = 1e300
"""Magnitude from which a number is taken for none."""
MEMBER = re.compile(r"value_[1-9]\d*")
"""Name of the column of one member of a combination."""
Check = Callable[[Any], bool]


def is_json_number(value: object) -> bool:
    """Return whether `value` is a finite number."""
    return isinstance(value, int | float) and type(value) is not bool and abs(value) < LARGEST


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and is_json_number(value) and value >= 0


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value < 1


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _holds(make: Callable[[Any], object]) -> Check:
    """Return the check that a value makes something, and no error."""

    def check(value: Any) -> bool:
        try:
            return bool(make(value))
        except (ParameterError, TypeError):
            return False

    return check


def _are_differences(value: object) -> bool:
    names = ("statistic", "higher", "lower")
    return isinstance(value, list) and all(
        isinstance(row, dict) and are_texts([row.get(name) for name in names]) for row in value
    )


def _is_independence(value: object) -> bool:
    return (
        isinstance(value, dict)
        and all(_is_amount(value.get(name)) for name in ("statistic", "freedom"))
        and _or_none(is_json_number)(value.get("p_value"))
    )


def _is_damage(value: object) -> bool:
    """Return whether a value says how far made-up reports move numbers: one, or some by name or in
    the order of the rows."""
    if isinstance(value, dict):
        return all(map(is_json_number, value.values()))
    return all(map(_or_none(is_json_number), value if isinstance(value, list) else [value]))


CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(("candidates", "detected"), _is_amount),
    "reports": lambda value: _is_amount(value) and value < MOST_REPORTS,
    **dict.fromkeys(("fakes", "fakes_reports", "fakes_raise", "fakes_lower"), _is_amount),
    **dict.fromkeys(("epsilon", "lifetime_epsilon", "unexplained_std_error"), _or_none(_is_amount)),
    **dict.fromkeys(("kind", "mechanism", "fingerprint", "method"), _is_text),
    **dict.fromkeys(("windows", "categories", "members", "warnings"), are_texts),
    **dict.fromkeys(("warning", "consistency_bias"), _or_none(_is_text)),
    **dict.fromkeys(("level", "alpha"), _is_share),
    **dict.fromkeys(("noise_std_error", "noise_floor", "unexplained_share"), is_json_number),
    **dict.fromkeys(("unexplained", "tail", "differences_alpha"), is_json_number),
    **dict.fromkeys(("answers_each", "answers_each_std_error"), is_json_number),
    "control": lambda value: value in CONTROLS,
    "threshold": _or_none(is_json_number),
    "bounds": lambda value: isinstance(value, list) and len([*filter(is_json_number, value)]) == 2,
    "reports_per_person": lambda value: is_json_number(value) and value >= 1,
    "at_most": lambda value: type(value) is int and value >= 1,
    "fakes_move": _is_damage,
    **dict.fromkeys(("reach", "signal"), is_json_number),
    "shared_variance": lambda value: is_json_number(value) and -1 <= value <= 1,
    "independence": _is_independence,
    "differences": _are_differences,
    **dict.fromkeys(("memoised", "fakes_name_one"), lambda value: isinstance(value, bool)),
    "labels": _holds(lambda value: isinstance(value, list) and all(map(Label.of, value)) + 1),
    "spelling": _holds(lambda value: isinstance(value, dict) and Spelling(**value)),
}
"""Checks of the keys that a summary may have."""
NEEDED: Mapping[str, tuple[str, ...]] = {
    "values": (
        *("noise_std_error", "noise_floor", "unexplained_share", "candidates", "detected"),
        *("alpha", "method", "control", "threshold", "windows"),
    ),
    "numbers": ("windows",),
    "numbers-by-category": ("windows", "categories", "differences", "differences_alpha"),
    "association": ("alpha", "control", "independence"),
    "regression": ("windows",),
}
"""Keys that the summary of each kind of result must have, besides OF_ALL."""
OF_ALL = ("kind", "reports", "epsilon", "mechanism", "fingerprint", "level")
NEVER_EMPTY: Mapping[str, tuple[str, ...]] = {
    "values": ("estimate", "std_error", "low", "high", "discovered"),
    "association": ("estimate", "std_error", "low", "high", "discovered"),
    "regression": ("estimate",),
}
"""Columns of each kind that have a number in every row; others' counts have an estimate."""
RANGES: Mapping[str, tuple[float, float]] = {
    "std_error": (0.0, math.inf),
    "p_value": (0.0, 1.0),
    "discovered": (0.0, 1.0),
}
"""Least and largest number of some columns."""
MOST_REPORTS = 1 << 63
MOVES = {"regression": list, "numbers": dict, "numbers-by-category": dict}
"""Forms of `fakes_move` besides a number: a number for each row, or for each name."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SavedResult(Result):
    """Result that was read from the file `path`: its numbers, at the level that they have there.
    `name`: that of the file."""

    kind: ClassVar[str] = "saved"

    name: str
    path: str
    saved: Columns
    facts: Mapping[str, Any]

    def cleaned(self, truth: Mapping[str, int]) -> Mapping[str, int]:
        """Return the counts of a `truth` of words as devices clean them; of others as they are."""
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
        with _reading(path), path.open(encoding="utf-8-sig", newline="") as file:
            lines = filter(None, csv.reader(file))
            header = next(lines, [])
            unknown = [n for n in header if n not in COLUMNS and not MEMBER.fullmatch(n)]
            if "estimate" not in header or unknown:
                raise DecodeError(
                    f"{path}: not an estimates file, or one of an earlier version: decode the "
                    "table again"
                )
            columns = _read_columns(header, lines)
        summary = read_summary(path)
        with _reading(path):
            _check_cells(columns, summary)
            _check_digest(path, summary)
        level = summary["level"]
        return cls(level=level, name=path.stem, path=str(path), saved=columns, facts=summary)

    @property
    def headline(self) -> str:
        """One line: the file, its kind and the number of reports."""
        return f"{self.name}: {self.facts['kind']}, from {self.facts['reports']:,} reports"

    @property
    def summary(self) -> dict[str, Any]:
        """Summary in the file beside the CSV."""
        return dict(self.facts)

    def _columns(self) -> Columns:
        return self.saved

    @property
    def columns(self) -> Columns:
        """Columns of the file."""
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
        with _reading(Path(self.path)), open(self.path, encoding="utf-8-sig", newline="") as file:
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
        return _numbers(self.saved, column)

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


def _read_columns(header: Sequence[str], lines: Iterator[Sequence[str]]) -> Columns:
    """Return the columns of a file; raise ValueError unless they are some of COLUMNS, in order, and
    all cells of numbers are empty or finite, but for standard errors."""
    members = [name for name in header if MEMBER.fullmatch(name)]
    names = [name for name in header if name not in members]
    is_one_of_these = members == [f"value_{i}" for i in range(1, len(members) + 1)]
    if not is_one_of_these or (members and "value" in names):
        raise ValueError
    if names != [name for name in COLUMNS if name in names]:
        raise ValueError
    texts = {name: [np.array([], np.dtypes.StringDType())] for name in header if is_text(name)}
    numbers = {name: array("d") for name in header if not is_text(name)}
    while some := list(islice(lines, LINES)):
        for name, cells in zip(header, zip(*some, strict=True), strict=True):
            if name in texts:  # a third of the memory of a list
                texts[name].append(np.array(cells, np.dtypes.StringDType()))
            else:
                if not {*"".join(cells)} <= LETTERS:
                    raise ValueError
                column = np.array([float(cell or "nan") for cell in cells])
                is_empty = np.array([not cell for cell in cells])
                is_wrong = ~is_empty & ~(np.abs(column) < LARGEST)
                if name == "std_error":
                    is_wrong &= column != np.inf
                if is_wrong.any():
                    raise ValueError
                numbers[name].frombytes(column.tobytes())
    whole = {name: np.frombuffer(column) for name, column in numbers.items()}
    return {name: whole[name] if name in whole else np.concatenate(texts[name]) for name in header}


def _check_cells(columns: Columns, summary: Mapping[str, Any]) -> None:
    """Raise ValueError or KeyError unless the cells of a result are there that its kind must have,
    and in their ranges, and bins follow each other in each category."""
    kind, size = summary["kind"], len(columns["estimate"])
    for name in NEVER_EMPTY.get(kind, ()):
        _require(not np.isnan(np.asarray(columns[name])).any())
    for name, (least, most) in RANGES.items():
        numbers = _numbers(columns, name)
        _require(not ((numbers < least) | (numbers > most)).any())
    _require(not (_numbers(columns, "low") > _numbers(columns, "high")).any())
    discovered = _numbers(columns, "discovered") > 0
    members = sum(MEMBER.fullmatch(name) is not None for name in columns)
    has_value = "value" in columns
    if kind == "values":
        selected = [_numbers(columns, name) for name in ("selected_low", "selected_high")]
        _require(has_value and not any(np.isnan(c[discovered]).any() for c in selected))
        _require((summary["candidates"], summary["detected"]) == (size, discovered.sum()))
    elif kind == "association":
        _require(members > 1 and size and len(summary.get("members", range(members))) == members)
        cells = zip(*(map(str, columns[f"value_{i + 1}"]) for i in range(members)), strict=True)
        _require(len({*cells}) == size)
    elif kind == "regression":
        _require(has_value and size)
    else:
        _require(has_value == (kind != "numbers") and size)
        _check_numbers(columns, summary.get("categories", [""]))
    _require(kind == "association" or not members)
    _require(("statistic" in columns) == (kind not in ("values", "association")))
    moves = summary.get("fakes_move")
    _require(not isinstance(moves, list) or len(moves) == size)


def _require(fits: object) -> None:
    if not fits:
        raise ValueError


def _check_numbers(columns: Columns, categories: Sequence[str]) -> None:
    """Raise ValueError unless numbers are of these categories, in order, each once, counts have
    estimates, and bins follow each other."""
    estimates, low, high = (_numbers(columns, n) for n in ("estimate", "bin_low", "bin_high"))
    statistics = [*map(str, columns["statistic"])]
    values = [*map(str, columns.get("value", [""] * len(statistics)))]
    is_count = np.array([statistic in (COUNT, "reports") for statistic in statistics])
    is_bin = np.array([statistic == COUNT for statistic in statistics])
    _require("" not in statistics and not np.isnan(estimates[is_count]).any())
    runs = [len([*run]) for _, run in groupby(values)]
    ends = np.cumsum(runs).tolist()
    _require([values[end - 1] for end in ends] == [*categories])
    _require(len({*categories}) == len(ends))
    for first, end in zip([0, *ends], ends, strict=False):
        here = np.flatnonzero(is_bin[first:end]) + first
        _check_order(low[here], high[here])


def _numbers(columns: Columns, name: str) -> Floats:
    """Return a column of numbers, NaN in all rows where the file lacks it."""
    return np.asarray(columns.get(name, np.full(len(columns["estimate"]), np.nan)))


def _check_order(low: Floats, high: Floats) -> None:
    """Raise ValueError unless bins follow each other, and only the outermost edges are open."""
    edges = np.stack([low, high], axis=1).ravel()
    is_open: Bools = np.isnan(edges)
    if is_open[1:-1].any() or (np.diff(edges[~is_open]) < 0).any():
        raise ValueError


def read_summary(path: Path) -> dict[str, Any]:
    """Return the summary beside the CSV file `path`; raise DecodeError unless its keys are as they
    must be."""
    form = "as `ldp decode` writes it; decode the table again"
    return {"windows": [], **read_json(summary_path(path), form, _require_summary, DecodeError)}


def _require_summary(summary: Any) -> None:
    """Raise ParameterError, with the key, unless all keys of a summary are as they must be."""
    kind, moves = str(summary.get("kind")), summary.get("fakes_move")
    needed = {*OF_ALL, *NEEDED.get(kind, ())}
    wrong = [] if kind in NEEDED else ["kind"]
    wrong += [
        name
        for name, fits in CHECKS.items()
        if (not fits(summary[name]) if name in summary else name in needed)
    ]
    if "fakes" in summary and not summary.keys() >= {"fakes_raise", "fakes_lower"}:
        wrong.append("fakes")
    if isinstance(moves, list | dict) and not isinstance(moves, MOVES.get(kind, float)):
        wrong.append("fakes_move")
    if not wrong and summary["epsilon"] is None and summary["mechanism"] not in SHUFFLED_ENTRIES:
        wrong.append("epsilon")
    if wrong:
        raise ParameterError(wrong[0])


def _check_digest(path: Path, summary: Mapping[str, Any]) -> None:
    """Raise DecodeError if a file is not the one beside which its summary was written."""
    if CSV_DIGEST not in summary:
        return
    with path.open("rb") as file:
        if summary[CSV_DIGEST] != file_digest(file, "sha256").hexdigest():
            raise DecodeError(
                f"{path} has changed since {summary_path(path)} was written: write both again"
            )


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise DecodeError, naming the file, for what goes wrong while `path` is read."""
    try:
        yield
    except OSError as error:
        raise DecodeError(f"cannot read {path}: {error.strerror}") from None
    except DecodeError:
        raise
    except (ValueError, KeyError, csv.Error):
        raise DecodeError(f"{path}: not as `ldp decode` wrote it") from None
