"""Populations: which values people hold, and how many hold each."""

import csv
import io
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import comb
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.arrays import Floats, Ints
from ldp.errors import ParameterError
from ldp.files import csv_text
from ldp.mechanisms.numeric import is_number

MOST_USERS = 10**15
KINDS = ("count", "frequency")
SHOWN = 40
"""Number of letters of a value that an error shows."""
PAIR = ["category", "value"]
"""Columns of a number by category."""


@dataclass(frozen=True, eq=False)
class Population:
    """`values` and the number of people who hold each: `counts`, int64, shape (values,). The values
    of a joint metric are tuples of texts, those of a metric of several answers frozensets of texts.

    A population read from frequencies holds them in `frequencies` (float64, they add to 1) and has
    no counts until `sample` draws some.
    """

    values: tuple[str, ...]
    counts: Ints | None = None
    frequencies: Floats | None = None

    def __post_init__(self) -> None:
        if (self.counts is None) == (self.frequencies is None):
            raise ParameterError("a population has either counts or frequencies")
        weights = self._weights()
        if len(weights) != len(self.values) or not self.values:
            raise ParameterError("a population needs values, and a count or frequency for each")
        if len(set(self.values)) < len(self.values):
            raise ParameterError("a population names a value twice")
        total = sum(weights.tolist())
        if not np.isfinite(weights).all() or weights.min() < 0 or not total > 0:
            raise ParameterError("a population's counts must be >= 0, and not all 0")
        if self.counts is not None and total > MOST_USERS:
            raise ParameterError(f"a population has at most {MOST_USERS} people")

    @property
    def numbers(self) -> Ints:
        """The `counts`; raises ParameterError where there are only frequencies."""
        if self.counts is None:
            raise ParameterError("the population has frequencies only; say how many users")
        return self.counts

    @property
    def users(self) -> int:
        """Return how many people there are."""
        return int(self.numbers.sum())

    @property
    def shares(self) -> Floats:
        """The frequency of each value, adding to 1."""
        weights: Floats = self._weights().astype(np.float64)
        return weights / float(weights.sum())

    def mapped(self, change: Callable[[Any], Any]) -> "Population":
        """Return the population in which everybody holds `change` of the value held here."""
        values = tuple(map(change, self.values))
        if values == self.values:
            return self
        places = {value: place for place, value in enumerate(dict.fromkeys(values))}
        weights = self._weights()
        sums: NDArray[Any] = np.zeros(len(places), weights.dtype)
        np.add.at(sums, [places[value] for value in values], weights)
        weight = "frequencies" if self.counts is None else "counts"
        return Population(tuple(places), **{weight: sums})

    def sample(self, users: int, generator: np.random.Generator) -> "Population":
        """Return `users` people drawn independently with these frequencies."""
        if not 1 <= users <= MOST_USERS:
            raise ParameterError(f"users must be from 1 to {MOST_USERS}")
        return Population(self.values, counts=generator.multinomial(users, self.shares))

    def truth(self) -> dict[Any, int]:
        """Return the count of each value."""
        return dict(zip(self.values, self.numbers.tolist(), strict=True))

    def answer_counts(self) -> dict[Any, int]:
        """Return how many people have each answer of their sets; the count of each value, where
        values are not sets."""
        counts = self.truth()
        if not isinstance(self.values[0], frozenset):
            return counts
        answers = Counter[str]()
        for value, count in counts.items():
            answers.update(dict.fromkeys(sorted(value), count))
        return answers

    def limited(self, at_most: int, generator: np.random.Generator) -> "Population":
        """Return the population with `at_most` answers of each person who has more, drawn as a
        device draws them."""
        counts: Counter[Any] = Counter()
        for value, count in self.truth().items():
            answers = sorted(value)
            if len(answers) <= at_most:
                counts[value] += count
                continue
            choices = comb(len(answers), at_most)
            if choices <= count:
                numbers = generator.multinomial(count, np.full(choices, 1 / choices))
                for some, number in zip(combinations(answers, at_most), numbers, strict=True):
                    counts[frozenset(some)] += int(number)
                continue
            for _ in range(count):
                places = generator.choice(len(answers), at_most, replace=False)
                counts[frozenset(answers[place] for place in places)] += 1
        return Population(tuple(counts), counts=np.array([*counts.values()], dtype=np.int64))

    def to_csv(self) -> str:
        """Return `value,count`, or `a,b,count` where values are pairs, largest first; sets of
        answers by answer."""
        first, counts = self.values[0], Counter(self.answer_counts()).most_common()
        if isinstance(first, frozenset):
            return csv_text([("value", "count"), *sorted(counts, key=_largest_first)])
        if isinstance(first, tuple):
            names = ascii_lowercase[: len(first)]
            return csv_text([(*names, "count"), *((*value, count) for value, count in counts)])
        return csv_text([("value", "count"), *counts])

    @classmethod
    def from_csv(cls, path: str | Path) -> "Population":
        """Read `value,count` or `value,frequency` (UTF-8; "-" is standard input), or `value` with a
        line a person; of numbers by category `category,value`, alike; of a joint metric `a,b,count`
        and so on, of sets `answers,count` with "|" between answers. Raises ParameterError with the
        line of the first mistake."""
        try:
            data = sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
            text = data.decode("utf-8-sig")
        except OSError as error:
            raise ParameterError(f"cannot read {path}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise ParameterError(f"{path}: not UTF-8 (byte {error.start})") from None
        try:
            return cls._from_rows(csv.reader(io.StringIO(text, newline="")), path)
        except csv.Error as error:
            raise ParameterError(f"{path}: not a CSV file: {error}") from None

    @classmethod
    def numbers_from_csv(cls, path: str | Path) -> "Population":
        """Read the same of numbers, and of numbers by category the numbers alone. Raises
        ParameterError with the first value that is no number."""
        people = cls.from_csv(path).mapped(lambda v: v[-1] if isinstance(v, tuple) else v)
        for value in people.values:
            if not is_number(value):
                raise ParameterError(f"{path}: {str(value)[:SHOWN]!r} is not a number")
        return people

    @classmethod
    def _from_rows(cls, rows: Any, path: str | Path) -> "Population":
        header = next(rows, list[str]())
        if header in (["value"], PAIR):
            return cls._from_people(rows, path, len(header))
        names, kind = header[:-1], header[-1] if header else ""
        parts = list(ascii_lowercase[: len(names)])
        are_sets = names == ["answers"]
        is_joint = names == PAIR or (names == parts and len(names) > 1)
        if not (names == ["value"] or are_sets or is_joint) or kind not in KINDS:
            raise ParameterError(
                f"{path}: line 1 must be value, value,count or value,frequency "
                "(or category,value or a,b,count of pairs, or answers,count of sets)"
            )
        weights: dict[Any, float] = {}
        for row in rows:
            if not row:
                continue
            where = f"{path}: line {rows.line_num}"
            if len(row) != len(header) or not (are_sets or all(row[:-1])):
                raise ParameterError(f"{where} must hold a value and a {kind}")
            value: Any = row[0] if names == ["value"] else tuple(row[:-1])
            if are_sets:
                value = frozenset(filter(None, row[0].split("|")))
            if value in weights:
                raise ParameterError(f"{where} repeats a value")
            weights[value] = _weight(row[-1], kind, where)
        if not weights or not any(weights.values()):
            raise ParameterError(f"{path}: nobody holds any value")
        numbers = list(weights.values())
        if kind == "count":
            return cls(tuple(weights), counts=np.array(numbers, dtype=np.int64))
        return cls(tuple(weights), frequencies=np.array(numbers) / sum(numbers))

    @classmethod
    def _from_people(cls, rows: Any, path: str | Path, columns: int) -> "Population":
        counts = Counter[Any]()
        for row in filter(None, rows):
            if len(row) != columns or not all(row):
                raise ParameterError(f"{path}: line {rows.line_num} must hold a value")
            counts[row[0] if columns == 1 else tuple(row)] += 1
        if not counts:
            raise ParameterError(f"{path}: nobody holds any value")
        return cls(tuple(counts), counts=np.array([*counts.values()], dtype=np.int64))

    def _weights(self) -> Any:
        return self.frequencies if self.counts is None else self.counts


def _largest_first(row: tuple[str, int]) -> tuple[int, str]:
    return -row[1], row[0]


def _weight(text: str, kind: str, where: str) -> float:
    wanted = f"a whole number from 0 to {MOST_USERS}" if kind == "count" else "a number >= 0"
    try:
        number = int(text) if kind == "count" else float(text)
    except ValueError:
        number = -1
    if not 0 <= number <= MOST_USERS:
        raise ParameterError(f"{where}: {kind} must be {wanted}")
    return number
