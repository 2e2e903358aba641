"""Populations: which values people hold, and how many hold each."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import combinations
from math import comb, isclose
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.arrays import (
    Floats,
    Generator,
    Ints,
    Seed,
    column_codes,
    generator_of,
    real_frequencies,
    require_one_index,
    texts,
    whole_counts,
)
from ldp.data_files import ARROW, AS_WRITTEN, KINDS, SHOWN, Reading, place_of, read_table
from ldp.errors import ParameterError, errors_in
from ldp.files import csv_text
from ldp.mechanisms.numeric import is_number, number_of
from ldp.registry import Metric
from ldp.registry.definitions import listed_in
from ldp.registry.lookalikes import look

MOST_USERS = 10**15
PAIR = ["category", "value"]
"""Columns of a number by category."""


@dataclass(frozen=True, eq=False)
class Population:
    """Population: `values`, and `counts`, the number of people who hold each value: int64, shape
    (values,). The values of a joint metric are tuples of texts. Those of a metric of several
    answers are frozensets of texts. Without counts `values` has one row a person, as a column of
    data (`ldp.arrays.column_codes`).

    A population from a file has its `path`, and in `lines` the first line of each value. A
    population from frequencies has them in `frequencies` (float64, they add to 1) and has no counts
    until `sample` draws some.
    """

    values: Any
    counts: Ints | None = None
    frequencies: Floats | None = None
    path: str = ""
    lines: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.counts is not None and self.frequencies is not None:
            raise ParameterError("a population has either counts or frequencies")
        if self.counts is None and self.frequencies is None:
            values, places = column_codes(self.values)
            object.__setattr__(self, "counts", np.bincount(places))
        else:
            of_each = {"counts": self.counts, "frequencies": self.frequencies}
            require_one_index({"values": self.values, **of_each})
            values = texts(self.values)
            if self.counts is not None:
                object.__setattr__(self, "counts", whole_counts(self.counts, len(values)))
            else:
                shares = real_frequencies(self.frequencies, len(values))
                object.__setattr__(self, "frequencies", shares)
        object.__setattr__(self, "values", values)
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

    @classmethod
    def of(cls, values: Any) -> "Population":
        """Return the population of a column of values, one row a person. Returns a population as it
        is."""
        return values if isinstance(values, cls) else cls(values)

    @classmethod
    def of_counts(cls, counts: Mapping[Any, int]) -> "Population":
        """Return the population in which as many people hold each value as `counts` says."""
        return cls((*counts,), counts=whole_counts([*counts.values()], len(counts)))

    @property
    def numbers(self) -> Ints:
        """The `counts`; raises ParameterError where there are only frequencies."""
        if self.counts is None:
            what = f"{self.path or 'the population'} has frequencies only: how many users?"
            raise ParameterError(f"{what} Give counts, or draw some (ldp simulate --users)")
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
        """Return the population in which each person holds `change` of the value held here."""
        values = tuple(map(change, self.values))
        if values == self.values:
            return self
        places = {value: place for place, value in enumerate(dict.fromkeys(values))}
        weights = self._weights()
        sums: NDArray[Any] = np.zeros(len(places), weights.dtype)
        np.add.at(sums, [places[value] for value in values], weights)
        weight = "frequencies" if self.counts is None else "counts"
        first = dict(zip(reversed(values), reversed(self.lines), strict=False))
        lines = tuple(first[value] for value in places if first)
        changed: dict[str, Any] = {"values": tuple(places), "lines": lines, weight: sums}
        return replace(self, **changed)

    def sample(self, users: int, generator: Seed = None) -> "Population":
        """Return `users` people drawn independently with these frequencies."""
        if not 1 <= users <= MOST_USERS:
            raise ParameterError(f"users must be from 1 to {MOST_USERS}")
        counts = generator_of(generator).multinomial(users, self.shares)
        return replace(self, counts=counts, frequencies=None)

    def truth(self) -> dict[Any, int]:
        """Return the count of each value."""
        return dict(zip(self.values, self.numbers.tolist(), strict=True))

    def answer_counts(self) -> dict[Any, int]:
        """Return how many people have each answer in their set. Where values are not sets, return
        the count of each value."""
        counts = self.truth()
        if not isinstance(self.values[0], frozenset):
            return counts
        answers = Counter[str]()
        for value, count in counts.items():
            answers.update(dict.fromkeys(sorted(value, key=str), count))
        return answers

    def limited(self, at_most: int, generator: Generator) -> "Population":
        """Return the population in which a person with more than `at_most` answers keeps `at_most`
        of them, drawn as a device draws them."""
        counts: Counter[Any] = Counter()
        for value, count in self.truth().items():
            answers = sorted(value, key=str)
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
        return Population.of_counts(counts)

    def to_csv(self) -> str:
        """Return CSV text `value,count`, or `a,b,count` and so on for tuples, largest first. For
        sets of answers, it has one line for each answer."""
        first, counts = self.values[0], Counter(self.answer_counts()).most_common()
        if isinstance(first, frozenset):
            counts.sort(key=lambda row: (-row[1], row[0]))
        elif isinstance(first, tuple):
            names = ascii_lowercase[: len(first)]
            return csv_text([(*names, "count"), *((*value, count) for value, count in counts)])
        return csv_text([("value", "count"), *counts])

    @classmethod
    def from_csv(
        cls,
        path: str | Path,
        reading: Reading = AS_WRITTEN,
        *,
        are_numbers: bool = False,
        are_sets: bool = False,
        column: str | None = None,
    ) -> "Population":
        """Read a table `value,count` or `value,frequency` ("-" is standard input), or `value` with
        one line a person. Numbers by category have `category,value` in place of `value`. A joint
        metric has `a,b,count` and so on. Sets have `answers` in place of `value`, with "|" between.
        `are_numbers`: whether values are numbers, which are then written as programs write them.
        `are_sets`: whether they are sets, which may be lists of texts in Parquet. `column`: name of
        the column with the values in any table with one line a person. Raises ParameterError with
        the line of the first mistake. In a private file an empty value is no value."""
        reading = reading._replace(takes_lists=are_sets)
        table = read_table(path, reading, [] if column is None else [column])
        if column is not None:
            table.require_people(column)
        if are_sets and column and table.header == [column] and table.path.suffix not in ARROW:
            problem = "a blank line may be a person without answers: add a column"
            raise ParameterError(f"{path}: {problem}")
        header = table.header if column is None else ["answers" if are_sets else "value"]
        is_person = column is not None or header in (["value"], PAIR)
        names, kind = (header, "") if is_person else (header[:-1], header[-1])
        parts = list(ascii_lowercase[: len(names)])
        are_sets = names == ["answers"]
        is_joint = names == PAIR or (names == parts and len(names) > 1)
        if not (names == ["value"] or are_sets or is_joint) or kind not in ("", *KINDS):
            what = "" if reading.is_private else f", not {','.join(header)!r:.60}"
            raise ParameterError(
                f"{path}: line 1 must be value, value,count or value,frequency (or category,value "
                f"or a,b,count of pairs, or answers,count of sets){what}; "
                "of another table keep one column as value, or simulate with --column"
            )
        columns = [
            (table.numbers if are_numbers and name == "value" else table.cells)(
                name if column is None else column
            )
            for name in names
        ]
        weights, lines = Counter[Any](), dict[Any, int]()
        rows = zip(*columns, strict=True)
        numbers = table.numbers(kind) if kind else ["1"] * len(table.rows)
        for (line, _), cells, number in zip(table.rows, rows, numbers, strict=True):
            where = table.where(line)
            if not (are_sets or all(cells) or reading.is_private):
                raise ParameterError(f"{where} must hold a value")
            value: Any = cells[0] if len(names) == 1 else cells
            if are_sets:
                value = frozenset(filter(None, cells[0].split("|")))
            if value in lines and kind and not reading.is_private:
                raise ParameterError(
                    f"{where} repeats a value, {_cut(value)} of line {lines[value]}"
                )
            try:
                weight = _weight(number, kind or "count", where)
            except ParameterError:
                if not reading.is_private:
                    raise
                # one line is one person
                value, weight = ("", "") if is_joint else "", 1
            weights[value] += weight
            lines.setdefault(value, line)
        total, rounding = sum(weights.values()), 0.005 if kind == "frequency" else 0.0
        if not total:
            raise ParameterError(f"{path}: nobody holds any value")
        is_total = len(weights) > 3 and isclose(2 * weights[value], total, rel_tol=rounding)
        if is_total and kind and not (is_number(value) or reading.is_private):
            what = "may be the total of all others: leave it out, or write it first"
            raise ParameterError(f"{where}: {_cut(value)} {what}")
        origin: dict[str, Any] = {"path": str(path), "lines": (*lines.values(),)}
        held = np.array([*weights.values()])
        with errors_in(path):
            if kind == "frequency":
                return cls((*weights,), frequencies=held / total, **origin)
            return cls((*weights,), counts=held.astype(np.int64), **origin)

    @classmethod
    def numbers_from_csv(cls, path: str | Path, reading: Reading = AS_WRITTEN) -> "Population":
        """Read a table as `from_csv` does whose values are numbers. From numbers by category, reads
        the numbers alone. Raises ParameterError with the line of the first value that is no
        number."""
        people = cls.from_csv(path, reading, are_numbers=True)
        people = people.mapped(lambda v: v[-1] if isinstance(v, tuple) else v)
        people.require(number_of)
        return people

    @classmethod
    def of_metric(
        cls,
        metric: Metric,
        path: str | Path,
        reading: Reading = AS_WRITTEN,
        column: str | None = None,
    ) -> "Population":
        """Read a table as `from_csv` does of answers to `metric`, as its devices encode them. Raise
        ParameterError with the line of the first answer that the metric does not take, unless the
        file is private."""
        people = cls.from_csv(
            path,
            reading,
            are_numbers=metric.mechanism.is_numeric,
            are_sets=metric.mechanism.answers == "sets",
            column=column,
        ).mapped(metric.cleaned)
        if not reading.is_private:
            people.require(metric.mechanism.check, listed_in(metric.mechanism))
        return people

    def rows_read(self, mechanism: Any) -> tuple["Population", tuple[int, int, int]]:
        """Return the people as a curator counts them, and three numbers of people: those who hold
        an answer of `mechanism`, those whose answer is moved to the nearer bound, and those without
        an answer (it is empty or refused). The last count as the middle of the bounds, or, where
        there are no bounds, not at all."""
        is_clipping = mechanism.outside == "clip"
        strict = replace(mechanism, outside="refuse") if is_clipping else mechanism
        places = {value: _place(value, mechanism, strict) for value in self.values}
        counts = np.bincount([*places.values()], self.numbers, 3).astype(np.int64)
        within, clipped, unreadable = counts.tolist()
        people = self
        if unreadable and mechanism.is_numeric and mechanism.bounds:
            middle: Any = repr(sum(mechanism.bounds) / 2)
            middle = (mechanism.by[0], middle) if mechanism.by else middle
            people = self.mapped(lambda value: value if places[value] < 2 else middle)
        elif unreadable:
            held = {value: count for value, count in self.truth().items() if places[value] < 2}
            # an error would tell that there is none
            held = held or {_an_answer(mechanism): 1}
            people = Population.of_counts(held)
        return people, (within, clipped, unreadable)

    def require(self, check: Callable[[Any], object], listed: Sequence[str] = ()) -> None:
        """Raise ParameterError for the first value that `check` rejects, with its file, line and
        text, and with the value in `listed` that looks like it."""
        for place, value in enumerate(self.values):
            try:
                check(value)
            except ParameterError as error:
                where = f"{place_of(Path(self.path), self.lines[place])}: " if self.lines else ""
                listed = [text for text in listed if isinstance(value, str) and text != value]
                alike = [text for text in listed if look(text) == look(value)]
                near = get_close_matches(str(value), listed, 1)
                note = f"; did you mean {near[0]!r}?" if near else ""
                if alike:
                    note = f"; {alike[0]!r} is, of other bytes: {value!a}, {alike[0]!a}"
                raise ParameterError(f"{where}{_cut(value)}: {error}{note}") from None

    def _weights(self) -> Any:
        return self.frequencies if self.counts is None else self.counts


def _an_answer(mechanism: Any) -> Any:
    """Return an answer that devices of `mechanism` take."""
    if mechanism.by:
        return mechanism.by[0], "0"
    if mechanism.answers == "sets":
        return frozenset[str]()
    letters = mechanism.spelling.alphabet[:1] if mechanism.spelling else "0"
    return next(iter(mechanism.labels), letters)


def _place(value: Any, mechanism: Any, strict: Any) -> int:
    """Return 0 for a valid answer, 1 for an answer out of bounds, and 2 for no answer."""
    is_empty = value == "" or (isinstance(value, tuple) and "" in value)
    for place, check in enumerate(() if is_empty else (strict.check, mechanism.check)):
        with suppress(ParameterError):
            check(value)
            return place
    return 2


def _cut(value: Any) -> str:
    """Return a value for an error, cut to SHOWN letters."""
    if isinstance(value, str | bytes):
        return repr(value[:SHOWN])
    parts = sorted(map(str, value)) if isinstance(value, frozenset) else map(str, value)
    return repr(",".join(parts)[:SHOWN])


def _weight(text: str, kind: str, where: str) -> Any:
    wanted = f"a whole number from 0 to {MOST_USERS}" if kind == "count" else "a number >= 0"
    number = float(text) if is_number(text) else -1.0
    if not 0 <= number <= MOST_USERS or (kind == "count" and number != int(number)):
        raise ParameterError(f"{where}: {kind} must be {wanted}, not {text[:SHOWN]!r}")
    return int(number) if kind == "count" else number
