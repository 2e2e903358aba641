"""Questions of values from a list: their counts, and those of the cells of several lists."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ldp import central
from ldp.arrays import Generator
from ldp.decoding import decode
from ldp.errors import ParameterError, errors_in, require_probability
from ldp.files import quoted
from ldp.mechanisms import Mechanism, MemoisedHashing, MemoisedResponse
from ldp.mechanisms.addressing import require_at_most
from ldp.planning.mechanism_choice import (
    MOST_CATEGORIES,
    NEAR_BEST,
    SEED,
    candidates,
    category_names,
    report_bytes,
    smallest_report,
    tune,
    zipf_squares,
)
from ldp.planning.question import (
    DRAWS,
    TEXTS,
    VALUES,
    Answers,
    Curated,
    Curator,
    Files,
    Question,
    counts_held,
    texts_of,
)
from ldp.protocol.channel import convert, require_whole
from ldp.protocol.keys import Key, read_keys, section, whole
from ldp.simulation import Population, draw_estimates
from ldp.tables.joint_table import AnyTable
from ldp.tables.table import Table

if TYPE_CHECKING:
    from ldp.registry import Metric

MOST_VALUES = 10**9
"""Most values of a question."""
BELOW = 0.99
"""Epsilon of one memoised report as a share of that of all: with hardly any instantaneous noise."""
MEMOISED_ROWS = 4096
"""Number of hash functions of memoised hashing; each person has one."""
BETWEEN = "/"
"""Separator of the values of a cell."""
WORDS = "words"
"""Name of the part of a report on words that is about whole words."""


@dataclass(frozen=True, kw_only=True)
class Shares(Question):
    """The count of each of `domain` values, `values` where they are known. A share `frequency` of
    the people holds the value whose error is asked for.

    With `answers` everybody may hold up to `answers` values, and a report is of the whole set. With
    None everybody holds one value. The others hold the other values with Zipf frequencies (1, 1/2,
    1/3, ... of what is left), which matters to sketches alone. `people`: the people, where it is
    known what they hold. Every value is tested one-sided at `alpha` / `domain` (Bonferroni), and a
    value is *detectable* when it is found with probability `power`.
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
        convert(self, frequency=require_probability)
        if not 0 < self.alpha < 1 or not 0 < self.power < 1:
            raise ParameterError("alpha and power must lie strictly between 0 and 1")
        require_at_most(self.answers, self.domain, "answers")

    @classmethod
    def of(cls, people: Population, epsilon: float, **others: Any) -> Self:
        """Return the question for the counts of all values that `people` hold. Raises
        ParameterError for people who all hold one value."""
        domain = len(people.values)
        if domain < 2:
            raise ParameterError("the column holds one value only: there is nothing to ask")
        return super().of(people, epsilon, domain=domain, frequency=1 / domain, **others)

    @classmethod
    def read(cls, keys: Mapping[str, Any], files: Files, **shared: Any) -> "Shares":
        values = texts_of(keys, "values", files)
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
        """Return the root mean square of the standard errors of all `domain` values, in reports."""
        squares = float((self._held.shares**2).sum())
        others = squares * (self.domain - 1) / self.domain
        return math.sqrt(float(mechanism.variance(self.users, 1 / self.domain, others)))

    def simulate(self, mechanism: Mechanism, generator: Generator) -> tuple[float, float]:
        """Return the root mean square over all values of the error, and its relative standard
        error. All of the most common values are measured, and some of the rest, from common to
        rare, which stand for all of them."""
        counts = counts_held(self._held.shares, self.users)
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
        return math.sqrt(total / counts.size), math.sqrt(spread) / (total or 1.0) / 2

    @property
    def _held(self) -> Population:
        if self.people is not None:
            return self.people
        weights = 1 / np.arange(1, self.domain + 1)
        return Population(self.categories, frequencies=weights / weights.sum())

    def curator(self, generator: Generator, draws: int = DRAWS * VALUES) -> Curator:
        """Return a histogram under replace-one: two counts for each answer differ by 1. So the
        sensitivity is 2 for each."""
        return self._laplace(2.0 * (self.answers or 1), 1.0, draws, generator)

    def entry(self, name: str, mechanism: Mechanism) -> tuple[str, Mapping[str, str]]:
        files = {f"{name}.txt": "".join(f"{value}\n" for value in self.values)}
        if not any(entry.name == "categories" for entry in dataclasses.fields(mechanism)):
            return f'dictionary = "{name}.txt"\n', files
        return f'categories = "{name}.txt"\n{other_line(self.values)}', files

    @classmethod
    def is_about(cls, metric: "Metric") -> bool:
        return bool(metric.mechanism.labels or metric.candidates())

    @classmethod
    def release(cls, curated: Curated) -> tuple[central.Histogram, Answers]:
        metric, people = curated.metric, curated.people.mapped(curated.metric.mechanism.label)
        histogram = curated.histogram(people, metric.mechanism.labels or metric.candidates() or ())
        return histogram, curated.answers(histogram)

    @classmethod
    def local(cls, curated: Curated, table: AnyTable, names: Sequence[str]) -> Iterable[Any]:
        estimates = decode(table if isinstance(table, Table) else table[WORDS], names)
        return estimates.count, estimates.std_error, *estimates.interval(curated.level)


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
    def read(cls, keys: Mapping[str, Any], files: Files, **shared: Any) -> "CrossTable":
        with errors_in("cross"):
            cross = read_keys(keys["cross"], dict.fromkeys(keys["cross"], Key(TEXTS)))
            lists = {name: texts_of(cross, name, files) for name in cross}
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


def other_line(values: Sequence[str]) -> str:
    """Return the line of metrics.toml by which the value "other", in upper or lower case, stands
    for all that is not listed. Return "" where `values` lack "other": a value used in its place
    would be counted too often."""
    return "".join(f"other = {quoted(v)}\n" for v in values if v.casefold() == "other")
