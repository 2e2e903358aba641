"""What somebody asks of people: a class for each kind of question, with all that differs between
kinds.

A kind states its mechanisms and the error of each, what a trusted curator's error is at the same
epsilon, how both are simulated, and which lines and files of metrics.toml ask it. Plans, lists of
questions, comparisons, trials and central twins are the same for every kind.
"""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, permutations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ldp import central
from ldp.accounting import Neighbours
from ldp.arrays import Floats, Ints
from ldp.decoding import decode
from ldp.decoding.distribution import QUANTILES, bins_of, decode_distribution, std_error_of_ends
from ldp.decoding.numeric import decode_mean
from ldp.decoding.outcome import numbers_outcome
from ldp.decoding.prefixes import discover_prefixes
from ldp.errors import ParameterError
from ldp.files import quoted
from ldp.mechanisms import Mechanism, MemoisedHashing, MemoisedResponse, PrefixExtension
from ldp.mechanisms.addressing import require_at_most
from ldp.mechanisms.hierarchical_histogram import HierarchicalHistogram
from ldp.mechanisms.numeric import Numeric, Range, number_of, position, require_range
from ldp.planning import percentiles
from ldp.planning.candidates import (
    MOST_CATEGORIES,
    NEAR_BEST,
    OF_NUMBERS,
    SEED,
    candidates,
    category_names,
    report_bytes,
    smallest_report,
    tune,
    zipf_squares,
)
from ldp.planning.percentiles import PercentileForecast, Way
from ldp.planning.words import POWER, prefix_mechanisms, smallest_share
from ldp.protocol.channel import require_epsilon, require_whole
from ldp.protocol.keys import FILE, TEXT, Form, Key, errors_in, read_keys, section, several, whole
from ldp.protocol.spelling import MOST_LETTERS
from ldp.registry.definitions import read_values
from ldp.simulation import Population, draw_estimates, draw_table
from ldp.tables.joint_table import JointTable
from ldp.tables.statistics import Statistic
from ldp.tables.table import Table

if TYPE_CHECKING:
    from ldp.registry import Metric

MOST_VALUES = 10**9
"""Most values of a question."""
MOST_USERS = 10**15
VALUES, DRAWS = 50, 400
"""Number of values measured, of the most common and of the rest; and number of draws of each."""
TABLES, WINDOWS = 40, 100
"""Number of tables from which the error of a percentile is measured, and in which a word is looked
for."""
BELOW = 0.99
"""Epsilon of one memoised report, over that of all: the instantaneous noise is hardly any."""
MEMOISED_ROWS = 4096
"""Hash functions of memoised hashing, of which a person has one."""
BETWEEN = "/"
"""Separator of the values of a cell."""
MARGIN = 1.08
"""Root mean squared error of a percentile, at most, over the one of 500 draws: two and a half of
its standard errors."""
STEPS = 2**20
"""Number of steps of the range of numbers that a curator adds."""
WORDS = "words"
"""Part of a report on words that tells of whole words."""
DELTA = 1e-8
"""Delta of a curator's words, which no list names."""
NUMBERS = ("estimate", "std_error", "low", "high")
"""Columns of a result that a curator has too."""
REPLACE = Neighbours.REPLACE_VALUE


@dataclass(frozen=True, kw_only=True, eq=False)
class Curator:
    """Curator's way: the name and parameters of the mechanism, its standard error, and simulated
    `errors`, shape (draws,)."""

    mechanism: str
    parameters: dict[str, Any]
    std_error: float
    errors: Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Curated:
    """Request to a curator of `people` about a metric: at which epsilon, and delta of strings that
    no list names, at which `level` of intervals and which `quantiles`."""

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


LIST = several(TEXT, "two different texts or more, of printable characters")._replace(
    least=2,
    is_right=lambda texts: len({*texts}) == len(texts) and all(map(str.isprintable, texts)),
)
TEXTS = Form(f"{LIST.words}, or the name of a file of them", either=(LIST, FILE))
BOUNDS = Form(
    "two numbers, the smaller first, as [0, 10]",
    (list,),
    least=2,
    most=2,
    items=Form("a number", (int, float), -1e15, 1e15),
    is_right=lambda pair: pair[0] < pair[1],
    read=lambda pair: (float(pair[0]), float(pair[1])),
)
KINDS: dict[str, type["Question"]] = {}
"""Kinds of questions, by the key of a file of questions that tells what is asked; a class enters
itself."""


@dataclass(frozen=True, kw_only=True)
class Question(ABC):
    """Something asked of `users` people, each of whom sends one report of `epsilon`. Raises
    ParameterError for a number out of range.

    A class of it is a kind: it is asked by the `key` in a file of questions, with others of its
    `keys` there. `error_name` names the error that is bounded there. `models`: the order in which a
    comparison draws its models; `released_as`: what a curator releases.
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
        object.__setattr__(self, "epsilon", require_epsilon(self.epsilon))

    def with_(self, **changes: Any) -> Self:
        """Return the question with `changes`, fields by name."""
        return dataclasses.replace(self, **changes)

    @classmethod
    @abstractmethod
    def read(cls, keys: Mapping[str, Any], folder: Path, **shared: Any) -> "Question":
        """Return the question of a section with these values of `keys`; files that it names are in
        `folder`; `shared`: its users and epsilon. Raises ParameterError naming the key that is
        wrong."""

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
        """Return whether that error is at most `within`."""
        return self.error(mechanism) <= within

    def planned_for(self, mechanism: Mechanism) -> str:
        """Return for which people the error is stated; "" where it is that of all."""
        return ""

    @abstractmethod
    def std_error(self, mechanism: Any) -> float:
        """Return the standard error of the answer that reports of `mechanism` give."""

    @abstractmethod
    def simulate(self, mechanism: Any, generator: np.random.Generator) -> tuple[float, float]:
        """Return `std_error` as it is measured on draws, and its relative standard error; of words
        how often they are found."""

    @abstractmethod
    def curator(self, generator: np.random.Generator, draws: int = DRAWS * VALUES) -> Curator:
        """Return what a trusted curator says at the same epsilon, with the errors of `draws`."""

    def _laplace(
        self, sensitivity: float, unit: float, draws: int, generator: np.random.Generator
    ) -> Curator:
        """Return discrete Laplace noise of whole numbers, of which one person changes so many; an
        answer has `unit` for each."""
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
        self, mechanism: Mechanism, people: Population, draws: int, generator: np.random.Generator
    ) -> Iterator[Table]:
        """Yield tables of reports of users who are like these people."""
        counts = _counts(people, self.users)
        for _ in range(draws):
            yield draw_table(mechanism, people.values, counts=counts, generator=generator)

    def entry(self, name: str, mechanism: Mechanism) -> tuple[str, Mapping[str, str]]:
        """Return the lines of metrics.toml, beside the mechanism's, of the metric `name` that asks
        the question, and the files that they name: name -> text."""
        return "", {}

    @classmethod
    def is_about(cls, metric: "Metric") -> bool:
        """Return whether the reports of `metric` answer a question of this kind."""
        return False

    @classmethod
    def release(cls, curated: Curated) -> tuple[central.Histogram | central.Mean, list[Statistic]]:
        """Return what a trusted curator releases of a metric of this kind, and its statistics.
        Raises ParameterError for a kind that is about no metric."""
        raise ParameterError(f"no curator releases what {cls.key!r} asks of a metric")

    @classmethod
    def local(
        cls, curated: Curated, table: Table | JointTable, names: Sequence[str]
    ) -> Iterable[Statistic]:
        """Return what a table of the metric's reports says of the statistics of these `names`, and
        maybe of others; raises an LdpError where they cannot be asked."""
        assert isinstance(table, Table)
        columns = numbers_outcome(table, curated.level, curated.quantiles).columns
        texts = [columns[name] for name in ("value", "statistic") if name in columns]
        numbers = np.column_stack([columns[name] for name in NUMBERS]).tolist()
        for words, row in zip(zip(*texts, strict=True), numbers, strict=True):
            yield Statistic(" ".join(map(str, words)), *row)


@dataclass(frozen=True, kw_only=True)
class Shares(Question):
    """The count of each of `domain` values, `values` where they are known; a share `frequency` of
    the people holds the value whose error is asked for.

    With `answers` everybody may hold several values, up to so many, and a report is of the whole
    set; None is one value each. The others hold the other values with Zipf frequencies (1, 1/2,
    1/3, ... of what is left), which matters to sketches alone; `people` hold what they hold. Every
    value is tested one-sided at `alpha` / `domain` (Bonferroni), and a value is *detectable* when
    it is found with probability `power`.
    """

    domain: int
    frequency: float = 0.5
    alpha: float = 0.05
    power: float = 0.5
    max_report_bytes: int | None = None
    answers: int | None = None
    values: tuple[str, ...] = ()
    people: Population | None = None
    key = "values"
    keys: ClassVar = {
        "values": Key(TEXTS, "Values that are counted"),
        "answers": Key(whole(1, MOST_VALUES), "Largest number of values of a person", None),
    }
    models = ("local", "shuffled", "central")
    released_as = "histogram"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(self.domain, "domain", 2, MOST_VALUES)
        if not 0 <= self.frequency <= 1:
            raise ParameterError("frequency must lie in [0, 1]")
        if not 0 < self.alpha < 1 or not 0 < self.power < 1:
            raise ParameterError("alpha and power must lie strictly between 0 and 1")
        require_at_most(self.answers, self.domain, "answers")

    @classmethod
    def of(cls, people: Population, epsilon: float) -> "Shares":
        """Return the question for the counts of all values that `people` hold."""
        domain = len(people.values)
        return cls(
            domain=domain, users=people.users, epsilon=epsilon, frequency=1 / domain, people=people
        )

    @classmethod
    def read(cls, keys: Mapping[str, Any], folder: Path, **shared: Any) -> "Shares":
        values = _values(keys, "values", folder)
        return cls(**shared, domain=len(values), values=values, answers=keys["answers"])

    @property
    def categories(self) -> tuple[str, ...]:
        """Names of the values: "0", "1", ..."""
        return category_names(self.domain)

    @cached_property
    def others_squared(self) -> float:
        """Sum of the squared frequencies of the other values."""
        return (1 - self.frequency) ** 2 * zipf_squares(self.domain - 1)

    @property
    def whole(self) -> float:
        return self.users

    def fits(self, mechanism: Mechanism) -> bool:
        """Return whether a report has at most `max_report_bytes`."""
        return report_bytes(mechanism) <= (self.max_report_bytes or math.inf)

    def mechanisms(self) -> Iterable[Mechanism]:
        return candidates(self)[0]

    def memoised(self) -> Iterable[Mechanism]:
        if self.answers:
            return ()
        epsilons: Any = {"epsilon": BELOW * self.epsilon, "lifetime_epsilon": self.epsilon}
        hashed = MemoisedHashing(**epsilons, rows=MEMOISED_ROWS, seed=SEED)
        return MemoisedResponse(categories=self.categories, **epsilons), hashed

    def best(self, name: str | None = None) -> Mechanism:
        if name is not None:
            return tune(self, name)
        return smallest_report(self, candidates(self)[0], NEAR_BEST)

    def variance(self, mechanism: Mechanism) -> float:
        """Return the variance of the estimated count of the value, in reports squared."""
        return float(mechanism.variance(self.users, self.frequency, self.others_squared))

    def detectable(self, mechanism: Mechanism) -> float:
        """Return the least frequency of a value that is detected."""
        numbers = (self.users, self.alpha, self.domain, self.power)
        return mechanism.detectable_frequency(*numbers, self.others_squared)

    def error(self, mechanism: Mechanism) -> float:
        """Return the larger standard error of a share of 0 and of 1: the variance is linear
        between."""
        ends = (self.with_(frequency=share) for share in (0.0, 1.0))
        return math.sqrt(max(end.variance(mechanism) for end in ends)) / self.users

    def std_error(self, mechanism: Mechanism) -> float:
        """Return the root mean square over all values that the people hold, in reports."""
        squares = float((self._held.shares**2).sum())
        others = squares * (self.domain - 1) / self.domain
        return math.sqrt(float(mechanism.variance(self.users, 1 / self.domain, others)))

    def simulate(self, mechanism: Mechanism, generator: np.random.Generator) -> tuple[float, float]:
        """Return the root mean square over all values of the error, and its relative standard
        error. All of the most common values are measured, and some of the rest, from common to
        rare, which stand for all of them."""
        counts = _counts(self._held, self.users)
        order = np.argsort(counts)[::-1]
        top, rest = order[:VALUES], order[VALUES:]
        places = (np.arange(VALUES) + generator.random()) * rest.size / VALUES
        sample = rest if rest.size <= VALUES else rest[places.astype(np.int64)]
        total = spread = 0.0
        for group, weight in ((top, 1.0), (sample, rest.size / max(1, sample.size))):
            for value in group.tolist():
                count, others = int(counts[value]), np.delete(counts, value)
                estimates = draw_estimates(
                    mechanism, held=count, others=others, draws=DRAWS, generator=generator
                )
                squares = (estimates - count) ** 2
                total += weight * float(squares.mean())
                spread += weight**2 * float(squares.var()) / DRAWS
        return math.sqrt(total / counts.size), math.sqrt(spread) / total / 2

    @property
    def _held(self) -> Population:
        if self.people is not None:
            return self.people
        weights = 1 / np.arange(1, self.domain + 1)
        return Population(self.categories, frequencies=weights / weights.sum())

    def curator(self, generator: np.random.Generator, draws: int = DRAWS * VALUES) -> Curator:
        """Return a histogram under replace-one: two counts for each answer differ by 1, so the
        sensitivity is 2 for each."""
        return self._laplace(2.0 * (self.answers or 1), 1.0, draws, generator)

    def entry(self, name: str, mechanism: Mechanism) -> tuple[str, Mapping[str, str]]:
        files = {f"{name}.txt": "".join(f"{value}\n" for value in self.values)}
        if not any(entry.name == "categories" for entry in dataclasses.fields(mechanism)):
            return f'dictionary = "{name}.txt"\n', files
        return f'categories = "{name}.txt"\n{_other_line(self.values)}', files

    @classmethod
    def is_about(cls, metric: "Metric") -> bool:
        return bool(_listed(metric))

    @classmethod
    def release(cls, curated: Curated) -> tuple[central.Histogram, list[Statistic]]:
        people = curated.people.mapped(curated.metric.mechanism.label)
        histogram = curated.histogram(people, _listed(curated.metric))
        return histogram, _statistics(histogram, curated.level)

    @classmethod
    def local(
        cls, curated: Curated, table: Table | JointTable, names: Sequence[str]
    ) -> Iterable[Statistic]:
        if not names:
            return ()
        estimates = decode(table if isinstance(table, Table) else table[WORDS], names)
        columns = (estimates.count, estimates.std_error, *estimates.interval(curated.level))
        rows = np.column_stack(columns).tolist()
        return [Statistic(name, *row) for name, row in zip(estimates.values, rows, strict=True)]


@dataclass(frozen=True, kw_only=True)
class CrossTable(Shares):
    """The count of each cell of a table of two lists or more: one list of all cells. At the same
    epsilon a joint report of the lists has at least twice the error (docs/planning.md)."""

    key = "cross"
    keys: ClassVar = {
        "cross": Key(
            section(" of two lists or more; for one list give values", 2),
            "Lists of values, of which every combination is counted",
        )
    }

    @classmethod
    def read(cls, keys: Mapping[str, Any], folder: Path, **shared: Any) -> "CrossTable":
        with errors_in("cross"):
            cross = read_keys(keys["cross"], dict.fromkeys(keys["cross"], Key(TEXTS)))
            lists = {name: _values(cross, name, folder) for name in cross}
            for name, values in lists.items():
                if any(BETWEEN in value for value in values):
                    raise ParameterError(
                        f"{name}: a value has a {BETWEEN}, which separates those of a cell"
                    )
            cells = math.prod(map(len, lists.values()))
            if cells > MOST_CATEGORIES:
                raise ParameterError(
                    f"{cells:,} cells are more than {MOST_CATEGORIES:,}: give shorter lists"
                )
        names = tuple(map(BETWEEN.join, product(*lists.values())))
        return cls(**shared, domain=cells, values=names)


@dataclass(frozen=True, kw_only=True, eq=False)
class Mean(Question):
    """The mean of the numbers of `people`, clipped to public `bounds`; without people the one with
    the largest error. `places`: where each number stands between the bounds, 0 to 1. Raises
    ParameterError for a value that is not a number."""

    bounds: Range
    people: Population | None = None
    places: tuple[float, ...] = ()
    key = released_as = "mean"
    keys: ClassVar = {"mean": Key(BOUNDS, "Least and largest number")}

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "bounds", require_range(self.bounds))
        places = self.places or (position(v, self.bounds, "clip") for v in self._held.values)
        object.__setattr__(self, "places", tuple(map(float, places)))

    @classmethod
    def read(cls, keys: Mapping[str, Any], folder: Path, **shared: Any) -> "Mean":
        return cls(**shared, bounds=keys["mean"])

    @property
    def whole(self) -> float:
        return self.bounds[1] - self.bounds[0]

    @property
    def useless_error(self) -> float:
        return self.whole

    def planned_for(self, mechanism: Mechanism) -> str:
        return f"any numbers from {self.bounds[0]:g} to {self.bounds[1]:g}"

    @property
    def _held(self) -> Population:
        low, high = self.bounds
        numbers = tuple(map(repr, (low, (low + high) / 2, high)))
        return self.people or Population(numbers, frequencies=np.full(3, 1 / 3))

    def mechanisms(self) -> Iterable[Numeric]:
        return [kind(bounds=self.bounds, epsilon=self.epsilon) for kind in OF_NUMBERS.values()]

    def std_error(self, mechanism: Numeric) -> float:
        variances = np.array([*map(mechanism.mean_variance, self.places)])
        variance = float(self.people.shares @ variances if self.people else variances.max())
        return self.whole * math.sqrt(variance / self.users)

    def simulate(self, mechanism: Numeric, generator: np.random.Generator) -> tuple[float, float]:
        truth = self.bounds[0] + self.whole * float(self._held.shares @ np.array(self.places))
        tables = self._tables(mechanism, self._held, DRAWS, generator)
        return root_mean_square(np.array([decode_mean(table).mean for table in tables]) - truth)

    def curator(self, generator: np.random.Generator, draws: int = DRAWS * VALUES) -> Curator:
        unit = self.whole / (STEPS * self.users)
        return self._laplace(float(STEPS), unit, draws, generator)

    @classmethod
    def is_about(cls, metric: "Metric") -> bool:
        return isinstance(metric.mechanism, Numeric)

    @classmethod
    def release(cls, curated: Curated) -> tuple[central.Mean, list[Statistic]]:
        mechanism: Any = curated.metric.mechanism
        mean = central.noisy_mean(
            np.array([float(value) for value in curated.people.values]),
            curated.people.counts,
            bounds=mechanism.bounds,
            epsilon=curated.epsilon,
            noise=curated.noise,
        )
        return mean, [Statistic("mean", mean.mean, mean.std_error, *mean.interval(curated.level))]


@dataclass(frozen=True, kw_only=True, eq=False)
class Percentile(Question):
    """The `q`-quantile of a number, in `bounds` or of an unknown range, of each of the categories
    `by`, where there are any, with an equal part of the people. `people` hold numbers like those to
    come, as `like` says; without them errors are those of the shape of numbers (`SHAPES`) that a
    mechanism tells worst, and a curator's of the first. `way` is the mechanism that a plan of
    another epsilon recommends."""

    q: float
    bounds: Range | None = None
    people: Population | None = None
    by: tuple[str, ...] = ()
    way: Way | None = None
    like: str = "the population"
    key = "percentile"
    keys: ClassVar = {
        "percentile": Key(
            Form("a number between 0 and 1, as 0.95", (float,), is_right=lambda q: 0 < q < 1),
            "Share of the people who are below the percentile",
        ),
        "range": Key(BOUNDS, "Least and largest number, where they are known", None),
        "by": Key(TEXTS, "Categories, each of which has the percentile", None),
        "population": Key(FILE, "Population of numbers like those to come", None),
        "from": Key(FILE, "Result about numbers like those to come", None),
    }
    released_as = "percentiles"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.q < 1:
            raise ParameterError("a quantile must lie strictly between 0 and 1")
        if self.bounds is not None:
            object.__setattr__(self, "bounds", require_range(self.bounds, "range"))

    @classmethod
    def read(cls, keys: Mapping[str, Any], folder: Path, **shared: Any) -> "Percentile":
        for name, read in (
            ("population", Population.numbers_from_csv),
            ("from", percentiles.people_of_result),
        ):
            if keys[name]:
                path = folder / keys[name]
                shared |= {"people": read(path), "like": path.name}
        by = _values(keys, "by", folder) if keys["by"] else ()
        return cls(**shared, q=keys["percentile"], bounds=keys["range"], by=by)

    @cached_property
    def cases(self) -> Mapping[str, "Percentile"]:
        """The question of people who hold each kind of numbers that it is planned for, by what is
        said of them; a quantile of 0 has no relative error."""
        if self.people is not None:
            return {self.like: self}
        questions = {
            shape: self.with_(people=percentiles.shaped_people(shape, self.bounds))
            for shape in percentiles.SHAPES
        }
        return {shape: question for shape, question in questions.items() if question.truth}

    def planned_for(self, mechanism: Mechanism) -> str:
        if self.people is not None:
            return f"numbers like those of {self.like}"
        shapes = ", ".join(self.cases)
        worst = self._worst(mechanism)
        shape = next(name for name, question in self.cases.items() if question is worst)
        return f"{shape}, the shape of numbers that is told worst of: {shapes}"

    def _worst(self, mechanism: Any) -> "Percentile":
        """Return the one of `cases` with the largest relative error."""
        return max(self.cases.values(), key=lambda question: question.error(mechanism))

    @property
    def _held(self) -> Population:
        return self.people or next(iter(self.cases.values()))._held

    @cached_property
    def _sorted(self) -> tuple[Floats, Floats]:
        """The numbers, increasing, and the share of people up to each."""
        numbers = np.array([number_of(value) for value in self._held.values], dtype=np.float64)
        order = np.argsort(numbers)
        return numbers[order], np.cumsum(self._held.shares[order])

    @cached_property
    def truth(self) -> float:
        """The quantile of these people."""
        numbers, share = self._sorted
        place = int(np.searchsorted(share, self.q - 1e-12))
        return float(numbers[min(place, len(numbers) - 1)])

    @property
    def whole(self) -> float:
        return abs(self.truth) or 1.0

    @property
    def _part(self) -> float:
        """Share of the people in a category."""
        return 1 / max(1, len(self.by))

    def mechanisms(self) -> Iterable[Way]:
        return percentiles.ways(self.epsilon, self.bounds, self.by)

    def forecast(
        self, mechanism: Way, part: float | None = None, tables: int = 0
    ) -> PercentileForecast:
        """Return what is expected of a mechanism, of a category with a `part` of the people, from
        so many drawn `tables` if any: of the numbers with the longest interval, relatively."""

        def of(name: str, tables: int) -> PercentileForecast:
            case, share = self.cases[name], part or self._part
            row = percentiles.forecast(
                mechanism, case._held, self.users, self.q, share, case.truth, tables
            )
            return dataclasses.replace(row, like=name)

        widths = {name: of(name, 0).relative_width for name in self.cases}
        return of(max(widths, key=widths.__getitem__), tables)

    def best(self, name: str | None = None) -> Way:
        """Return the way that a plan recommends; raises ParameterError for the name of another."""
        if name is not None:
            raise ParameterError("the mechanism of a percentile is the plan's")
        if self.way is None:
            return percentiles.ranked(map(self.forecast, self.mechanisms()))[0].mechanism
        tree: Any = {"branching": 0} if isinstance(self.way, HierarchicalHistogram) else {}
        return dataclasses.replace(self.way, epsilon=self.epsilon, **tree)

    def error(self, mechanism: Way) -> float:
        """Return the error as a share of the quantile, at most."""
        if self.people is None:
            return max(case.error(mechanism) for case in self.cases.values())
        return MARGIN * self.std_error(mechanism) / self.whole

    def is_exact(self, mechanism: Way, within: float) -> bool:
        return all(case.error(mechanism) <= within for case in self.cases.values())

    def std_error(self, mechanism: Way) -> float:
        """Return the root mean squared error of the quantile, over draws of the errors of all
        shares: bins make it larger than the error of the share at the quantile would. Without
        people that of the numbers that are told worst."""
        if self.people is None:
            return self._worst(mechanism).std_error(mechanism)
        law = percentiles.expected(mechanism, self._held, self.users, self.q, self._part)
        estimates = law.quantile_draws(self.q)
        return math.hypot(*(estimates - self.truth)) / math.sqrt(len(estimates))

    def errors(self, mechanism: Way, draws: int, generator: np.random.Generator) -> Floats:
        """Draw the error of the quantile of these people, shape (draws,); without any, of those
        that are told worst."""
        if self.people is None:
            return self._worst(mechanism).errors(mechanism, draws, generator)
        bins, one_of = bins_of(mechanism), dict[int, str]()
        people = self._held.mapped(lambda value: one_of.setdefault(bins.place(value), value))
        tables = self._tables(mechanism, people, draws, generator)
        estimates = [decode_distribution(table).quantile(self.q).estimate for table in tables]
        return np.array(estimates) - self.truth

    def simulate(self, mechanism: Way, generator: np.random.Generator) -> tuple[float, float]:
        return root_mean_square(self.errors(mechanism, TABLES, generator))

    def curator(self, generator: np.random.Generator, draws: int = DRAWS * VALUES) -> Curator:
        """Return what a curator says of the quantile: the errors of `curator_law`."""
        answers, chances = self.curator_law()
        errors = answers - self.truth
        return Curator(
            mechanism="exponential",
            parameters={"sensitivity": 1.0},
            std_error=math.hypot(*(chances**0.5 * errors)),  # squares of the largest overflow
            errors=generator.choice(errors, size=draws, p=chances),
        )

    def curator_law(self) -> tuple[Floats, Floats]:
        """Return the curator's answers, the middles of fine bins, and their probabilities, by the
        exponential mechanism: shapes (bins,). The score of a bin is how many people more, below it
        or in it, would put the quantile there (after Smith 2011, whose candidates are numbers:
        where many people hold one number, no other number is near the quantile)."""
        edges = np.array(percentiles.finer(bins_of(self.way or self.best())).edges)
        numbers, share = self._sorted
        below = np.concatenate([[0.0], share])[np.searchsorted(numbers, edges)]
        below[-1] = 1.0  # the last bin has its upper edge
        missing = np.maximum(np.maximum(below[:-1] - self.q, self.q - below[1:]), 0.0)
        exponential = central.Exponential(epsilon=self.epsilon, sensitivity=1.0, neighbours=REPLACE)
        low, high = edges[:-1], edges[1:]
        middles = np.where(np.isinf(low), high, np.where(np.isinf(high), low, (low + high) / 2))
        return middles, exponential.probabilities(-missing * self.users)

    def entry(self, name: str, mechanism: Mechanism) -> tuple[str, Mapping[str, str]]:
        return _other_line(self.by), {}

    @classmethod
    def is_about(cls, metric: "Metric") -> bool:
        return isinstance(metric.mechanism, HierarchicalHistogram)

    @classmethod
    def release(cls, curated: Curated) -> tuple[central.Histogram, list[Statistic]]:
        """Return percentiles from one noisy histogram of the metric's bins."""
        mechanism: Any = curated.metric.mechanism
        bins, by = mechanism.bins, mechanism.by or ("",)
        places = curated.people.mapped(lambda value: str(mechanism.addressing.point(value)))
        histogram = curated.histogram(places, tuple(map(str, range(len(by) * len(bins)))))
        statistics = []
        for place, name in enumerate(by):
            counts = histogram.counts[place * len(bins) : (place + 1) * len(bins)]
            part = dataclasses.replace(histogram, counts=counts)
            for q in curated.quantiles or QUANTILES:
                error = std_error_of_ends(*central.percentile(part, bins.edges, q)[1:])
                estimate, *ends = central.percentile(part, bins.edges, q, curated.level)
                label = f"{name} p{100 * q:.10g}".lstrip()
                statistics.append(Statistic(label, estimate, error, *ends))
        return histogram, statistics


@dataclass(frozen=True, kw_only=True)
class Words(Question):
    """The words, of at most `letters` letters, that nobody can list. Its error is the least share
    of people whose word is found with probability POWER."""

    letters: int
    key = "words"
    keys: ClassVar = {"words": Key(whole(1, MOST_LETTERS), "Most letters of a word")}
    released_as = "strings"
    error_name = "smallest share that is found"

    @classmethod
    def read(cls, keys: Mapping[str, Any], folder: Path, **shared: Any) -> "Words":
        return cls(**shared, letters=keys["words"])

    def mechanisms(self) -> Iterable[PrefixExtension]:
        return prefix_mechanisms(self.letters, self.epsilon)

    def std_error(self, mechanism: PrefixExtension) -> float:
        return smallest_share(mechanism, self.users)

    def simulate(
        self, mechanism: PrefixExtension, generator: np.random.Generator
    ) -> tuple[float, float]:
        """Return the share of draws in which a word of the smallest share is found, beside 300
        others of Zipf frequencies, and its standard error."""
        others = islice(permutations("abcdefgh", min(4, self.letters)), 300)
        words, share = ["yeti"[: self.letters], *map("".join, others)], self.std_error(mechanism)
        rest = 1 / np.arange(1.0, len(words))
        shares = np.array([share, *(1 - share) * rest / rest.sum()])
        hits = np.zeros(WINDOWS)
        for draw in range(WINDOWS):
            counts = generator.multinomial(self.users, shares)
            table = draw_table(mechanism, words, counts=counts, generator=generator)
            estimates = discover_prefixes(table)
            hits[draw] = words[0] in np.array(estimates.values)[estimates.detected()]
        return float(hits.mean()), float(hits.std()) / math.sqrt(WINDOWS)

    def curator(self, generator: np.random.Generator, draws: int = DRAWS * VALUES) -> Curator:
        """Return the least share of people whose word reaches the threshold of a curator's strings
        with probability POWER."""
        noise = self._laplace(2.0, 1 / self.users, draws, generator)
        strings = central.noisy_strings(
            {}, epsilon=self.epsilon, delta=DELTA, noise=central.Simulated(generator)
        )
        least = (strings.threshold or 0) + strings.mechanism.upper_tail(1 - POWER) - 1
        return dataclasses.replace(noise, std_error=least / self.users)

    @classmethod
    def is_about(cls, metric: "Metric") -> bool:
        return not any(kind.is_about(metric) for kind in (Shares, Mean, Percentile))

    @classmethod
    def release(cls, curated: Curated) -> tuple[central.Histogram, list[Statistic]]:
        strings = central.noisy_strings(
            curated.people.answer_counts(),
            epsilon=curated.epsilon,
            delta=curated.delta,
            at_most=curated.metric.mechanism.at_most_answers,
            noise=curated.noise,
        )
        return strings, _statistics(strings, curated.level)

    local = Shares.local


def root_mean_square(errors: Floats) -> tuple[float, float]:
    """Return the root mean square of `errors`, shape (draws,), and its relative standard error."""
    squares = errors**2
    mean = float(squares.mean())
    error = float(squares.std()) / math.sqrt(squares.size) / mean / 2 if mean else 0.0
    return math.sqrt(mean), error


def _counts(people: Population, users: int) -> Ints:
    """Return how many of `users` hold each value: shape (values,)."""
    return np.rint(people.shares * users).astype(np.int64)


def _values(keys: Mapping[str, Any], name: str, folder: Path) -> tuple[str, ...]:
    """Return the texts of a list, or of the lines of the file that the key names."""
    value = keys[name]
    texts = [*read_values(folder / value)] if isinstance(value, str) else value
    return tuple(LIST.take(name, texts))


def _listed(metric: "Metric") -> tuple[str, ...]:
    """Return the values that are public: the dictionary's, categories, or buckets; empty where
    there are none."""
    return metric.mechanism.labels or metric.candidates() or ()


def _statistics(histogram: central.Histogram, level: float) -> list[Statistic]:
    """Return each count of a curator with its interval."""
    ends = (column.tolist() for column in histogram.interval(level))
    rows = zip(histogram.categories, histogram.counts, *ends, strict=True)
    return [Statistic(name, count, histogram.std_error, *ends) for name, count, *ends in rows]


def _other_line(values: Sequence[str]) -> str:
    """Return the line of metrics.toml by which the value "other", in any case, stands for what is
    not listed; "" where `values` have none: another value would be counted too often."""
    return "".join(f"other = {quoted(v)}\n" for v in values if v.casefold() == "other")
