"""Questions to people: the base of the kinds of questions, with all that differs between them.

A kind states its mechanisms and the error of each, what a trusted curator's error is at the same
epsilon, how both are simulated, and which lines and files of metrics.toml ask it. Plans, lists of
questions, comparisons, trials and central twins are the same for every kind: `ldp.planning.values`,
`numbers` and `word_questions`.
"""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from ldp import central
from ldp.accounting import Neighbours
from ldp.arrays import Floats, Generator, Ints
from ldp.data_files import AS_WRITTEN, Reading
from ldp.decoding.outcome import numbers_outcome
from ldp.errors import ParameterError
from ldp.mechanisms import Mechanism
from ldp.protocol.channel import convert, require_epsilon, require_whole
from ldp.protocol.keys import FILE, TEXT, Form, Key, several
from ldp.registry.value_files import read_values
from ldp.simulation import Population, draw_table
from ldp.tables.joint_table import AnyTable
from ldp.tables.table import Table

if TYPE_CHECKING:
    from ldp.registry import Metric

MOST_USERS = 10**15
VALUES, DRAWS = 50, 400
"""Number of values measured, of the most common and of the rest; and number of draws of each."""
NUMBERS = ("estimate", "std_error", "low", "high")
"""Columns of a result that a curator has too."""
Answers = tuple[Sequence[str], Iterable[Any]]
"""Names of statistics, and their NUMBERS: columns, shape (statistics,)."""
REPLACE = Neighbours.REPLACE_VALUE


class Files(NamedTuple):
    """Files that questions name: the `folder` of their names, and how they are written."""

    folder: Path
    reading: Reading = AS_WRITTEN


@dataclass(frozen=True, kw_only=True, eq=False)
class Curator:
    """Curator's mechanism: name, parameters, standard error, and simulated `errors`, shape
    (draws,)."""

    mechanism: str
    parameters: dict[str, Any]
    std_error: float
    errors: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Curated:
    """Request to a curator of `people` about a metric: the epsilon, the delta for strings that no
    list names, the `level` of intervals, and `quantiles`."""

    metric: "Metric"
    people: Population
    epsilon: float
    delta: float
    level: float
    quantiles: tuple[float, ...]
    noise: central.Noise

    def histogram(self, people: Population, categories: tuple[str, ...]) -> central.Histogram:
        """Return the noisy counts of these public categories."""
        return central.noisy_histogram(
            people.answer_counts(),
            categories=categories,
            epsilon=self.epsilon,
            neighbours=REPLACE,
            at_most=self.metric.mechanism.at_most_answers,
            noise=self.noise,
        )

    def answers(self, histogram: central.Histogram) -> Answers:
        """Return the names of the counts, and their NUMBERS."""
        counts = np.array(histogram.counts, np.int64)
        errors = np.broadcast_to(histogram.std_error, len(counts))
        return histogram.categories, (counts, errors, *histogram.interval(self.level))


LIST = several(TEXT, "two different texts or more, of printable characters")._replace(
    least=2,
    is_right=lambda texts: len({*texts}) == len(texts) and all(map(str.isprintable, texts)),
)
TEXTS = Form(f"{LIST.words}, or the name of a file of them", either=(LIST, FILE))
KINDS: dict[str, type["Question"]] = {}
"""Kinds of questions, by the key that names the kind in a file of questions. Each class enters
itself."""


@dataclass(frozen=True, kw_only=True)
class Question(ABC):
    """Something asked of `users` people, each of whom sends one report of `epsilon`. Raises
    ParameterError for a number out of range.

    Each subclass is a kind: in a file of questions its `key` asks it, with others of its `keys`.
    `error_name` names the error that is bounded there. `models`: the order in which a comparison
    draws its models. `released_as`: what a curator releases.
    """

    users: int
    epsilon: float
    key: ClassVar[str] = ""
    keys: ClassVar[dict[str, Key]] = {}
    error_name: ClassVar[str] = "standard error"
    models: ClassVar[tuple[str, ...]] = ("central", "local", "shuffled")
    released_as: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        if "key" in vars(cls):
            KINDS[cls.key] = cls

    def __post_init__(self) -> None:
        require_whole(self.users, "users", 1, MOST_USERS)
        convert(self, epsilon=require_epsilon)

    def with_(self, **changes: Any) -> Self:
        """Return the question with `changes`, fields by name."""
        return dataclasses.replace(self, **changes)

    @classmethod
    def of(cls, people: Population, epsilon: float, **others: Any) -> Self:
        """Return the question to `people`, one report of each. `others`: other fields by name."""
        return cls(users=people.users, epsilon=epsilon, **others | {"people": people})

    @classmethod
    @abstractmethod
    def read(cls, keys: Mapping[str, Any], files: Files, **shared: Any) -> "Question":
        """Return the question of a section with these values of `keys`, which may name `files`.
        `shared`: its users and epsilon. Raises ParameterError naming the key that is wrong."""

    @abstractmethod
    def mechanisms(self) -> Iterable[Mechanism]:
        """Return the mechanisms, tuned to the question, whose report is fresh."""

    def memoised(self) -> Iterable[Mechanism]:
        """Return the mechanisms that memoise by epoch, at a lifetime epsilon of `epsilon`."""
        return ()

    def best(self, name: str | None = None) -> Any:
        """Return the mechanism of that name, or the one with the least error. Raises ParameterError
        for a name that is none of them."""
        by_name = {mechanism.name: mechanism for mechanism in self.mechanisms()}
        if name is not None and name not in by_name:
            raise ParameterError(f"a {self.key} is told by one of {', '.join(by_name)}")
        return by_name[name] if name else min(by_name.values(), key=self.std_error)

    @property
    def whole(self) -> float:
        """Size of which errors are a share."""
        return 1.0

    @property
    def useless_error(self) -> float:
        """Error from which an answer says nothing: of a share, or relative to a percentile, 1."""
        return 1.0

    def error(self, mechanism: Any) -> float:
        """Return the error that a file of questions bounds."""
        return self.std_error(mechanism)

    def is_exact(self, mechanism: Any, within: float) -> bool:
        """Return whether `error` is at most `within`."""
        return self.error(mechanism) <= within

    def planned_for(self) -> str:
        """Return for which people the error is stated. Returns "" where it is that of all."""
        return ""

    @abstractmethod
    def std_error(self, mechanism: Any) -> float:
        """Return the standard error of the answer that reports of `mechanism` give."""

    @abstractmethod
    def simulate(self, mechanism: Any, generator: Generator) -> tuple[float, float]:
        """Return `std_error` measured on draws, and its relative standard error. For words, returns
        how often they are found."""

    @abstractmethod
    def curator(self, generator: Generator, draws: int = DRAWS * VALUES) -> Curator:
        """Return a trusted curator of the same epsilon, with the errors of `draws` simulated
        releases."""

    def _laplace(
        self, sensitivity: float, unit: float, draws: int, generator: Generator
    ) -> Curator:
        """Return a curator who adds discrete Laplace noise to whole numbers. `sensitivity`: by how
        much one person changes a number. `unit`: what 1 is in the answer."""
        law = central.DiscreteLaplace(
            epsilon=self.epsilon, sensitivity=sensitivity, neighbours=REPLACE
        )
        noise = law.release(np.zeros(draws, dtype=np.int64), central.Simulated(generator))
        return Curator(
            mechanism="discrete-laplace",
            parameters={"sensitivity": unit * sensitivity},
            std_error=unit * law.std_error,
            errors=unit * noise.astype(np.float64),
        )

    def _tables(
        self, mechanism: Mechanism, people: Population, draws: int, generator: Generator
    ) -> Iterator[Table]:
        """Yield tables of reports of users who are like these people."""
        counts = counts_held(people.shares, self.users)
        for _ in range(draws):
            yield draw_table(mechanism, people.values, counts=counts, generator=generator)

    def entry(self, name: str, mechanism: Mechanism) -> tuple[str, Mapping[str, str]]:
        """Return the lines in metrics.toml of the metric `name` that asks the question, without
        those of the mechanism, and the files that they name: name -> text."""
        return "", {}

    @classmethod
    def is_about(cls, metric: "Metric") -> bool:
        """Return whether the reports of `metric` answer a question of this kind."""
        return False

    @classmethod
    def release(cls, curated: Curated) -> tuple[central.Histogram | central.ReleasedMean, Answers]:
        """Return what a trusted curator releases of a metric of this kind, and what that says.
        Raises ParameterError for a kind that is about no metric."""
        raise ParameterError(f"no curator releases what {cls.key!r} asks of a metric")

    @classmethod
    def local(cls, curated: Curated, table: AnyTable, names: Sequence[str]) -> Iterable[Any]:
        """Return what a table of the metric's reports says of the statistics of these `names`: the
        NUMBERS, nan where it says nothing. Raises an LdpError where they cannot be asked."""
        assert isinstance(table, Table)
        columns = numbers_outcome(table, curated.level, curated.quantiles).columns
        texts = [columns[name] for name in ("value", "statistic") if name in columns]
        numbers = np.column_stack([columns[name] for name in NUMBERS]).tolist()
        rows = dict(zip(map(" ".join, zip(*texts, strict=True)), numbers, strict=True))
        return np.array([rows.get(name, [math.nan] * len(NUMBERS)) for name in names]).T


def root_mean_square(errors: Floats) -> tuple[float, float]:
    """Return the root mean square of `errors`, shape (draws,), and its relative standard error."""
    squares = errors**2
    mean = float(squares.mean())
    error = float(squares.std()) / math.sqrt(squares.size) / mean / 2 if mean else 0.0
    return math.sqrt(mean), error


def counts_held(shares: Floats, users: int) -> Ints:
    """Return how many of `users` hold each value, `users` in all: shape (values,)."""
    return np.diff(np.rint(np.cumsum(shares) * users), prepend=0).astype(np.int64)


def texts_of(keys: Mapping[str, Any], name: str, files: Files) -> tuple[str, ...]:
    """Return the texts of a list, or of the lines of the file that the key names."""
    value = keys[name]
    texts = [*read_values(files.folder / value, files.reading)] if isinstance(value, str) else value
    return tuple(LIST.take(name, texts))
