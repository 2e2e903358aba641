"""The kinds of questions that a file of questions asks, and how each is answered at an epsilon."""

import math
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ldp.errors import ParameterError
from ldp.files import quoted
from ldp.mechanisms import Mechanism, MemoisedHashing, MemoisedResponse
from ldp.planning.candidates import SEED, candidates
from ldp.planning.numbers import OF_NUMBERS
from ldp.planning.percentiles import Percentile, percentile_ways, typical_people
from ldp.planning.question import MOST_CATEGORIES, Question, category_names
from ldp.planning.words import prefix_mechanisms, smallest_share
from ldp.protocol.spelling import MOST_LETTERS
from ldp.registry.definitions import is_plain, read_values
from ldp.simulation import Population

BELOW = 0.99
"""Epsilon of one memoised report, over that of all: the instantaneous noise is hardly any."""
MEMOISED_ROWS = 4096
"""Hash functions of memoised hashing, of which a person has one."""
BETWEEN = "/"
"""Separator of the values of a cell."""
MARGIN = 1.08
"""Root mean squared error of a percentile, at most, over the one of 500 draws: two and a half of
its standard errors."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One question: an answer for every `days` days until the day `until`, with a standard error of
    `within`. `keep_days`: for how long a person's first answer may stand for later ones; 0: each
    report is about its own window."""

    name: str
    about: str
    owners: tuple[str, ...]
    days: int
    until: date
    within: float
    keep_days: int = 0
    error_name: ClassVar[str] = "standard error"
    """Name of the error that `within` bounds."""

    @property
    def useless_error(self) -> float:
        """Error from which an answer says nothing: of a share, or relative to a percentile, 1."""
        return 1.0

    @abstractmethod
    def mechanisms(self, users: int, epsilon: float) -> Iterator[tuple[Mechanism, float]]:
        """Yield mechanisms whose report is fresh, each with its standard error."""

    def memoised(self, users: int, lifetime: float) -> Iterator[tuple[Mechanism, float]]:
        """Yield mechanisms that memoise by epoch, each with its standard error."""
        return iter(())

    def files(self) -> Mapping[str, str]:
        """Return the files that metrics.toml names for this question: name -> text."""
        return {}

    def lines(self, mechanism: Mechanism) -> str:
        """Return the lines of metrics.toml that name these files."""
        return ""


@dataclass(frozen=True, kw_only=True)
class ShareAsk(Ask):
    """Question for the share of people who hold each of `values`; with `answers` a person holds up
    to so many of them."""

    values: tuple[str, ...]
    answers: int | None = None

    def mechanisms(self, users: int, epsilon: float) -> Iterator[tuple[Mechanism, float]]:
        question = self._question(users, epsilon)
        for mechanism in candidates(question)[0]:
            yield mechanism, _worst_share_error(mechanism, question)

    def memoised(self, users: int, lifetime: float) -> Iterator[tuple[Mechanism, float]]:
        if self.answers:
            return
        question = self._question(users, lifetime)
        epsilon = BELOW * lifetime
        hashed = MemoisedHashing(
            epsilon=epsilon, lifetime_epsilon=lifetime, rows=MEMOISED_ROWS, seed=SEED
        )
        listed = MemoisedResponse(
            categories=category_names(len(self.values)), epsilon=epsilon, lifetime_epsilon=lifetime
        )
        for mechanism in (listed, hashed):
            yield mechanism, _worst_share_error(mechanism, question)

    def _question(self, users: int, epsilon: float) -> Question:
        return Question(
            domain=len(self.values),
            users=users,
            epsilon=epsilon,
            frequency=0.5,
            answers=self.answers,
        )

    def files(self) -> Mapping[str, str]:
        return {f"{self.name}.txt": "".join(f"{value}\n" for value in self.values)}

    def lines(self, mechanism: Mechanism) -> str:
        if not any(entry.name == "categories" for entry in fields(mechanism)):
            return f'dictionary = "{self.name}.txt"\n'
        return f'categories = "{self.name}.txt"\n{_other_line(self.values)}'


@dataclass(frozen=True, kw_only=True)
class MeanAsk(Ask):
    """Question for the mean of a number in `bounds`."""

    bounds: tuple[float, float]

    @property
    def useless_error(self) -> float:
        return self.bounds[1] - self.bounds[0]

    def mechanisms(self, users: int, epsilon: float) -> Iterator[tuple[Mechanism, float]]:
        for kind in OF_NUMBERS.values():
            mechanism = kind(bounds=self.bounds, epsilon=epsilon)
            variance = max(mechanism.mean_variance(place) for place in (0.0, 0.5, 1.0))
            yield mechanism, (self.bounds[1] - self.bounds[0]) * math.sqrt(variance / users)


@dataclass(frozen=True, kw_only=True)
class PercentileAsk(Ask):
    """Question for the `q`-quantile of a number, in `bounds` or of an unknown range, of each of the
    categories `by`, where there are any; `within` is a share of the quantile, in a category with an
    equal part of the people. `people` hold numbers like those to come."""

    q: float
    bounds: tuple[float, float] | None
    people: Population | None
    by: tuple[str, ...] = ()

    def mechanisms(self, users: int, epsilon: float) -> Iterator[tuple[Mechanism, float]]:
        people = self.people or typical_people(self.bounds)
        counts = np.maximum(np.rint(people.shares * users).astype(np.int64), 1)
        people = Population(people.values, counts=counts)
        for way in percentile_ways(epsilon, self.bounds, self.by):
            percentile = Percentile(people, self.q, way)
            yield way, MARGIN * percentile.std_error(way) / percentile.range

    def lines(self, mechanism: Mechanism) -> str:
        return _other_line(self.by) if self.by else ""


@dataclass(frozen=True, kw_only=True)
class WordsAsk(Ask):
    """Question for the words, of at most `letters` letters, that nobody can list; `within` is the
    least share of people whose word is found with probability 0.9."""

    letters: int
    error_name: ClassVar[str] = "smallest share that is found"

    def mechanisms(self, users: int, epsilon: float) -> Iterator[tuple[Mechanism, float]]:
        for mechanism in prefix_mechanisms(self.letters, epsilon):
            yield mechanism, smallest_share(mechanism, users)


def _other_line(values: Sequence[str]) -> str:
    """Return the line of metrics.toml by which the value "other", in any case, stands for what is
    not listed; "" where `values` have none: another value would be counted too often."""
    return "".join(f"other = {quoted(v)}\n" for v in values if v.casefold() == "other")


def _worst_share_error(mechanism: Mechanism, question: Question) -> float:
    """Return the larger standard error of a share of 0 and of 1: the variance is linear between."""
    ends = (question.with_(frequency=share) for share in (0.0, 1.0))
    return math.sqrt(max(end.variance(mechanism) for end in ends)) / question.users


@dataclass
class Keys:
    """Keys of a section of the file, taken one by one; raises ParameterError naming the section."""

    path: Path
    where: str
    keys: Any
    left: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.keys, dict):
            raise ParameterError(f"{self.path}: {self.where} is not a section")
        self.left = dict(self.keys)

    def error(self, what: str) -> ParameterError:
        return ParameterError(f"{self.path}: {self.where}: {what}")

    def take(self, name: str, otherwise: Any = None) -> Any:
        value = self.left.pop(name, otherwise)
        if value is None:
            close = get_close_matches(name, self.left, 1)
            meant = f"; did you mean it by {close[0]!r}?" if close else ""
            raise self.error(f"{name} is missing{meant}")
        return value

    def text(self, name: str) -> str:
        value = self.take(name)
        if not isinstance(value, str) or not is_plain(value):
            raise self.error(
                f"{name} must be a text of one line, with a letter and no hidden characters"
            )
        return value

    def amount(self, name: str) -> float:
        value = self.take(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
            raise self.error(f"{name} must be a number above 0 and below 1e9")
        return float(value)

    def whole(self, name: str, most: int) -> int:
        value = self.take(name)
        if type(value) is not int or not 1 <= value <= most:
            raise self.error(f"{name} must be a whole number from 1 to {most}")
        return value

    def day(self, name: str, otherwise: date | None = None) -> date:
        value = self.take(name, otherwise)
        if not isinstance(value, date) or isinstance(value, datetime):
            raise self.error(f"{name} must be a date, as 2027-06-30")
        return value

    def length(self, name: str) -> int:
        text = str(self.take(name))
        if not re.fullmatch("0*[1-9][0-9]{0,4}d", text):
            raise self.error(f'{name} must be whole days, as "7d"')
        return int(text[:-1])

    def texts(self, name: str, otherwise: Sequence[str] | None = None) -> tuple[str, ...]:
        value = self.take(name, otherwise)
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise self.error(f"{name} must be a list of texts")
        return tuple(value)

    def bounds(self, name: str) -> tuple[float, float]:
        value = self.take(name)
        is_pair = isinstance(value, list) and len(value) == 2
        if not is_pair or not all(type(end) in (int, float) for end in value):
            raise self.error(f"{name} must be two numbers, as [0, 10]")
        low, high = float(value[0]), float(value[1])
        if not -1e15 < low < high < 1e15:
            raise self.error(f"{name} must be two numbers, the smaller first")
        return low, high

    def require_end(self) -> None:
        if self.left:
            raise self.error(f"unknown key {min(self.left)}")


def read_ask(name: str, keys: Keys) -> Ask:
    """Return the question of a section; raises ParameterError naming the key that is wrong."""
    if not re.fullmatch("[A-Za-z0-9_-]{1,64}", name):
        raise keys.error("a question's name is up to 64 letters, digits, _ and -")
    days = keys.length("every")
    common: dict[str, Any] = {
        "name": name,
        "about": keys.text("ask"),
        "owners": keys.texts("owners", ["team@example.org"]),
        "days": days,
        "until": keys.day("until"),
        "within": keys.amount("within"),
        "keep_days": 0,
    }
    if "keep" in keys.left:
        common["keep_days"] = keys.length("keep") // days * days
    kinds = [kind for kind in KINDS if kind in keys.left]
    if len(kinds) != 1:
        raise keys.error(f"give one of {', '.join(KINDS)}")
    ask = KINDS[kinds[0]](keys, common)
    keys.require_end()
    return ask


def _share(keys: Keys, common: dict[str, Any]) -> Ask:
    values = _values(keys)
    answers = keys.whole("answers", len(values)) if "answers" in keys.left else None
    return ShareAsk(**common, values=values, answers=answers)


def _cross(keys: Keys, common: dict[str, Any]) -> Ask:
    """Return the question for each cell of a table: one list of all cells. At the same epsilon a
    joint report of the lists has at least twice the error (docs/planning.md)."""
    cross = Keys(keys.path, f"{keys.where}: cross", keys.take("cross"))
    if len(cross.keys) < 2:
        raise keys.error("cross must have two lists or more; for one list give values")
    lists = {name: _values(cross, name) for name in cross.keys}
    for name, values in lists.items():
        if any(BETWEEN in value for value in values):
            raise cross.error(f"{name}: a value has a {BETWEEN}, which separates those of a cell")
    cells = math.prod(map(len, lists.values()))
    if cells > MOST_CATEGORIES:
        raise cross.error(f"{cells:,} cells are more than {MOST_CATEGORIES:,}: give shorter lists")
    return ShareAsk(**common, values=tuple(map(BETWEEN.join, product(*lists.values()))))


def _percentile(keys: Keys, common: dict[str, Any]) -> Ask:
    bounds = keys.bounds("range") if "range" in keys.left else None
    by = _values(keys, "by") if "by" in keys.left else ()
    return PercentileAsk(**common, q=_quantile(keys), bounds=bounds, people=_people(keys), by=by)


KINDS: Mapping[str, Callable[[Keys, dict[str, Any]], Ask]] = {
    "values": _share,
    "cross": _cross,
    "mean": lambda keys, common: MeanAsk(**common, bounds=keys.bounds("mean")),
    "percentile": _percentile,
    "words": lambda keys, common: WordsAsk(**common, letters=keys.whole("words", MOST_LETTERS)),
}
"""The key that tells what is asked -> how the question is read."""


def _quantile(keys: Keys) -> float:
    q = keys.amount("percentile")
    if q >= 1:
        raise keys.error("percentile must lie between 0 and 1, as 0.95")
    return q


def _values(keys: Keys, name: str = "values") -> tuple[str, ...]:
    if isinstance(keys.left[name], str):
        values = tuple(read_values(keys.path.parent / keys.text(name)))
    else:
        values = keys.texts(name)
    if len(values) < 2 or len({*values}) < len(values) or not all(map(str.isprintable, values)):
        raise keys.error(f"{name} must be two different texts or more, of printable characters")
    return values


def _people(keys: Keys) -> Population | None:
    if "population" not in keys.left:
        return None
    return Population.numbers_from_csv(keys.path.parent / keys.text("population"))
