"""Questions of numbers: a mean, and a percentile."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ldp import central
from ldp.arrays import Floats, Generator
from ldp.decoding.distribution import QUANTILES, decode_distribution, std_error_of_ends
from ldp.decoding.means import decode_mean
from ldp.errors import ParameterError, require_share
from ldp.mechanisms import Mechanism
from ldp.mechanisms.hierarchical_histogram import HierarchicalHistogram
from ldp.mechanisms.numeric import Numeric, Range, position, require_range
from ldp.planning import percentiles
from ldp.planning.mechanism_choice import OF_NUMBERS
from ldp.planning.percentiles import KnownQuantile, PercentileForecast, Way
from ldp.planning.question import (
    DRAWS,
    REPLACE,
    TEXTS,
    VALUES,
    Answers,
    Curated,
    Curator,
    Files,
    Question,
    root_mean_square,
    texts_of,
)
from ldp.planning.values import other_line
from ldp.protocol.channel import convert
from ldp.protocol.keys import FILE, Form, Key
from ldp.simulation import Population

if TYPE_CHECKING:
    from ldp.registry import Metric

BOUNDS = Form(
    "two numbers, the smaller first, as [0, 10]",
    (list,),
    least=2,
    most=2,
    items=Form("a number", (int, float), -1e15, 1e15),
    is_right=lambda pair: pair[0] < pair[1],
    read=lambda pair: (float(pair[0]), float(pair[1])),
)
TABLES = 40
"""Number of tables from which the error of a percentile is measured."""
MARGIN = 1.08
"""Root mean squared error of a percentile, at most, over the one of 500 draws: two and a half of
its standard errors."""
NOISIER = 1.2
"""Factor of the noise at which a percentile's error is computed again; for a unit of noise, the
larger of both errors counts. Where the next number is far off, few tables reach it, with most of
the squared error, and of 399 draws perhaps none."""
STEPS = 2**20
"""Number of steps of the range of numbers that a curator adds."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Mean(Question):
    """The mean of the numbers of `people`, clipped to public `bounds`. Without people it is the
    mean with the largest error. `places`: where each number stands between the bounds, 0 to 1.
    Raises ParameterError for a value that is not a number."""

    bounds: Range
    people: Population | None = None
    places: tuple[float, ...] = field(init=False)
    key = released_as = "mean"
    keys: ClassVar = {"mean": Key(BOUNDS, "Least and largest number")}

    def __post_init__(self) -> None:
        super().__post_init__()
        convert(self, bounds=require_range)
        places = (float(position(v, self.bounds, "clip")) for v in self._held.values)
        object.__setattr__(self, "places", tuple(places))

    @classmethod
    def read(cls, keys: Mapping[str, Any], files: Files, **shared: Any) -> "Mean":
        return cls(**shared, bounds=keys["mean"])

    @property
    def whole(self) -> float:
        return self.bounds[1] - self.bounds[0]

    @property
    def useless_error(self) -> float:
        return self.whole

    def planned_for(self) -> str:
        return f"any numbers from {self.bounds[0]:g} to {self.bounds[1]:g}"

    @property
    def _held(self) -> Population:
        low, high = self.bounds
        numbers = tuple(map(repr, (low, (low + high) / 2, high)))
        return self.people or Population(numbers, frequencies=np.full(3, 1 / 3))

    def mechanisms(self) -> Iterable[Numeric]:
        return [kind(bounds=self.bounds, epsilon=self.epsilon) for kind in OF_NUMBERS.values()]

    def std_error(self, mechanism: Numeric) -> float:
        # rounding adds most within a step, and noise in the outermost one
        eighths = (np.arange(9) / 8 / mechanism.addressing.steps).tolist()
        places = self.places if self.people else eighths
        variances = np.array([*map(mechanism.mean_variance, places)])
        variance = float(self.people.shares @ variances if self.people else variances.max())
        return self.whole * math.sqrt(variance / self.users)

    def simulate(self, mechanism: Numeric, generator: Generator) -> tuple[float, float]:
        truth = self.bounds[0] + self.whole * float(self._held.shares @ np.array(self.places))
        tables = self._tables(mechanism, self._held, DRAWS, generator)
        return root_mean_square(np.array([decode_mean(table).mean for table in tables]) - truth)

    def curator(self, generator: Generator, draws: int = DRAWS * VALUES) -> Curator:
        unit = self.whole / (STEPS * self.users)
        return self._laplace(float(STEPS), unit, draws, generator)

    @classmethod
    def is_about(cls, metric: "Metric") -> bool:
        return isinstance(metric.mechanism, Numeric)

    @classmethod
    def release(cls, curated: Curated) -> tuple[central.ReleasedMean, Answers]:
        mechanism: Any = curated.metric.mechanism
        mean = central.noisy_mean(
            np.array([float(value) for value in curated.people.values]),
            curated.people.counts,
            bounds=mechanism.bounds,
            epsilon=curated.epsilon,
            noise=curated.noise,
        )
        numbers = mean.mean, mean.std_error, *mean.interval(curated.level)
        return mean, (["mean"], np.array(numbers)[:, None])


@dataclass(frozen=True, kw_only=True, eq=False)
class Percentile(Question):
    """The `q`-quantile of a number, in `bounds` or of an unknown range. With categories `by`, it is
    the quantile of each, which has an equal part of the people. `people` hold numbers like those to
    come, as `like` says. Without them a mechanism's errors are the largest of the `cases`, relative
    to the percentile, and a curator's errors those of the first. `way` is the mechanism that a plan
    of another epsilon recommends."""

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
        convert(self, q=require_share)
        if self.bounds is not None:
            object.__setattr__(self, "bounds", require_range(self.bounds, "range"))

    @classmethod
    def read(cls, keys: Mapping[str, Any], files: Files, **shared: Any) -> "Percentile":
        for name, read in (
            ("population", partial(Population.numbers_from_csv, reading=files.reading)),
            ("from", percentiles.people_of_result),
        ):
            if keys[name]:
                path = files.folder / keys[name]
                shared |= {"people": read(path), "like": path.name}
        by = texts_of(keys, "by", files) if keys["by"] else ()
        return cls(**shared, q=keys["percentile"], bounds=keys["range"], by=by)

    @cached_property
    def cases(self) -> tuple["Percentile", ...]:
        """The question for each of the populations that it is planned for."""
        if self.people is not None:
            return (self,)
        bounds = self.bounds or (-math.inf, math.inf)
        return tuple(
            self.with_(people=percentiles.spread_people(self.q, place, bounds))
            for place in percentiles.places_of(self.bounds).tolist()
        )

    def planned_for(self) -> str:
        if self.people is not None:
            return f"numbers like those of {self.like}"
        near = 100 * min(percentiles.shares_near(self.q, 1.1))
        least = abs(percentiles.places_of(self.bounds)[0])
        size = f"; the percentile is at least {least:.3g} in size" * (self.bounds is not None)
        return (
            f"numbers of which {near:.2g} % or more are spread over the 10 % below the percentile, "
            f"and as many over the 10 % above it{size}"
        )

    def _worst(self, mechanism: Any) -> "Percentile":
        """Return the one of `cases` with the largest relative error."""
        return max(self.cases, key=lambda question: question.error(mechanism))

    @property
    def _held(self) -> Population:
        return self.people or self.cases[0]._held

    @cached_property
    def _sorted(self) -> tuple[Floats, Floats]:
        """The numbers, increasing, and the share of people up to each."""
        numbers = percentiles.held_numbers(self._held)
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

    def known(self, part: float | None = None) -> KnownQuantile:
        """Return the quantile of a `part` of the people, by default the part of each category where
        all have equal parts."""
        equal = 1 / max(1, len(self.by))
        return KnownQuantile(
            self._held, self.users, self.q, equal if part is None else part, self.truth
        )

    def mechanisms(self) -> Iterable[Way]:
        return percentiles.ways(self.epsilon, self.bounds, self.by)

    def forecast(
        self, mechanism: Way, part: float | None = None, tables: int = 0
    ) -> PercentileForecast:
        """Return the forecast of a mechanism for a category with a `part` of the people, from so
        many drawn `tables`, if any. It is that of the case in `cases` whose interval is longest, as
        a share of the percentile."""

        cases = [case.known(part) for case in self.cases]
        widths = [percentiles.forecast(mechanism, case).relative_width for case in cases]
        return percentiles.forecast(mechanism, cases[int(np.argmax(widths))], tables)

    def best(self, name: str | None = None) -> Way:
        """Return the way that a plan recommends. Raises ParameterError for the name of another, or
        for too many categories."""
        if name is not None:
            raise ParameterError("the plan chooses the mechanism of a percentile")
        if self.way is None:
            if not (ranked := percentiles.ranked(map(self.forecast, self.mechanisms()))):
                raise ParameterError(
                    f"{len(self.by):,} categories are too many for percentiles of each: take fewer"
                )
            return ranked[0].mechanism
        tree: Any = {"branching": 0} if isinstance(self.way, HierarchicalHistogram) else {}
        return dataclasses.replace(self.way, epsilon=self.epsilon, **tree)

    def error(self, mechanism: Way) -> float:
        """Return the largest error to expect, as a share of the quantile: without people at least
        the width of its bin, because all who are in the bin may hold one number."""
        if self.people is None:
            errors = (case.error(mechanism) for case in self.cases)
            return max(*errors, self._width(mechanism))
        far = percentiles.root_mean_squared_error(mechanism, self.known(), NOISIER)
        return max(MARGIN * self.std_error(mechanism), far) / self.whole

    def _width(self, mechanism: Way) -> float:
        """Return the largest width of a bin, as a share of the quantiles in it that are assumed."""
        edges, least = np.array(mechanism.bins.edges), percentiles.places_of(self.bounds)[0]
        inner = edges[np.isfinite(edges)]
        sizes = np.minimum(abs(inner[1:]), abs(inner[:-1]))
        return float((np.diff(inner) / np.maximum(sizes, abs(least))).max())

    def is_exact(self, mechanism: Way, within: float) -> bool:
        if self.people is None and self._width(mechanism) > within:
            return False
        return all(case.error(mechanism) <= within for case in self.cases)

    def std_error(self, mechanism: Way) -> float:
        """Return the root mean squared error of the quantile, over draws of the errors of all
        shares: bins make it larger than the error of the share at the quantile would. Without
        people it is that of the case with the largest relative error."""
        if self.people is None:
            return self._worst(mechanism).std_error(mechanism)
        return percentiles.root_mean_squared_error(mechanism, self.known())

    def errors(self, mechanism: Way, draws: int, generator: Generator) -> Floats:
        """Draw the error of the quantile of these people, shape (draws,). Without people, it is for
        the case with the largest relative error."""
        if self.people is None:
            return self._worst(mechanism).errors(mechanism, draws, generator)
        people = percentiles.people_by_bin(mechanism, self._held)
        tables = self._tables(mechanism, people, draws, generator)
        estimates = [decode_distribution(table).quantile(self.q).estimate for table in tables]
        return np.array(estimates) - self.truth

    def simulate(self, mechanism: Way, generator: Generator) -> tuple[float, float]:
        return root_mean_square(self.errors(mechanism, TABLES, generator))

    def curator(self, generator: Generator, draws: int = DRAWS * VALUES) -> Curator:
        """Return what a curator says of the quantile: the errors of `curator_law`."""
        answers, chances = self.curator_law()
        errors = answers - self.truth
        return Curator(
            mechanism="exponential",
            parameters={"sensitivity": 1.0},
            # squares of the largest overflow
            std_error=math.hypot(*(chances**0.5 * errors)),
            errors=generator.choice(errors, size=draws, p=chances),
        )

    def curator_law(self) -> tuple[Floats, Floats]:
        """Return the curator's answers, the middles of fine bins, and their probabilities, by the
        exponential mechanism: shapes (bins,). The score of a bin is minus the number of people by
        which the quantile misses it (after Smith 2011, whose candidates are numbers: where many
        people hold one number, no other is near the quantile)."""
        edges = np.array(percentiles.finer((self.way or self.best()).bins).edges)
        numbers, share = self._sorted
        below = np.concatenate([[0.0], share])[np.searchsorted(numbers, edges)]
        # the last bin has its upper edge
        below[-1] = 1.0
        missing = np.maximum(np.maximum(below[:-1] - self.q, self.q - below[1:]), 0.0)
        exponential = central.Exponential(epsilon=self.epsilon, sensitivity=1.0, neighbours=REPLACE)
        low, high = edges[:-1], edges[1:]
        middles = np.where(np.isinf(low), high, np.where(np.isinf(high), low, (low + high) / 2))
        return middles, exponential.probabilities(-missing * self.users)

    def entry(self, name: str, mechanism: Mechanism) -> tuple[str, Mapping[str, str]]:
        return other_line(self.by), {}

    @classmethod
    def is_about(cls, metric: "Metric") -> bool:
        return isinstance(metric.mechanism, HierarchicalHistogram)

    @classmethod
    def release(cls, curated: Curated) -> tuple[central.Histogram, Answers]:
        """Return percentiles from one noisy histogram of the metric's bins."""
        mechanism: Any = curated.metric.mechanism
        bins, by = mechanism.bins, mechanism.by or ("",)
        places = curated.people.mapped(lambda value: str(mechanism.addressing.point(value)))
        histogram = curated.histogram(places, tuple(map(str, range(len(by) * len(bins)))))
        rows = {}
        for place, name in enumerate(by):
            counts = histogram.counts[place * len(bins) : (place + 1) * len(bins)]
            part = dataclasses.replace(histogram, counts=counts)
            for q in curated.quantiles or QUANTILES:
                error = std_error_of_ends(*central.percentile(part, bins.edges, q)[1:])
                estimate, *ends = central.percentile(part, bins.edges, q, curated.level)
                rows[f"{name} p{100 * q:.10g}".lstrip()] = estimate, error, *ends
        return histogram, ([*rows], np.array([*rows.values()]).T)
