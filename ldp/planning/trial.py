"""A trial: what reports of one column of data would say, beside the data and a curator.

A simulation of one report a person. Nothing in it is private: it is made from the data, and so is
the list of values.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ldp.accounting import Neighbours
from ldp.central import Simulated, noisy_histogram
from ldp.decoding import decode
from ldp.decoding.distribution import Distribution, decode_distribution
from ldp.decoding.statistics import Statistic
from ldp.errors import ParameterError
from ldp.mechanisms import Mechanism
from ldp.mechanisms.numeric import is_number, number_of
from ldp.planning.candidates import best_mechanism
from ldp.planning.percentiles import Percentile, plan_percentile
from ldp.planning.question import Question
from ldp.simulation import Population, draw_table
from ldp.tables.estimates import Estimates

FEW_NUMBERS = 20
"""Largest number of different numbers that are taken for categories."""
MOST_OTHERS = 0.01
"""Largest share of people without a number in a column that is read as numbers."""
REPLACE = Neighbours.REPLACE_VALUE


@dataclass(frozen=True, kw_only=True)
class OfValues:
    """Trial of values at one epsilon. `detected`: number of values told from noise, `false` of them
    held by nobody; `held`: share of people whose value is among them; `curator_std_error`: of a
    trusted curator's histogram of the same epsilon."""

    epsilon: float
    mechanism: Mechanism
    estimates: Estimates
    detected: int
    held: float
    curator_std_error: float

    def save(self, path: Path) -> None:
        """Write the estimates to `path`, and their summary beside it."""
        self.estimates.to_csv(path)


@dataclass(frozen=True, kw_only=True)
class OfNumbers:
    """Trial of numbers at one epsilon: for each quantile the statistic that reports give, that of
    the data, and what a trusted curator would say at the same epsilon."""

    epsilon: float
    mechanism: Mechanism
    distribution: Distribution
    quantiles: tuple[float, ...]
    statistics: tuple[Statistic, ...]
    true: tuple[float, ...]
    curator: tuple[float, ...]

    def save(self, path: Path) -> None:
        """Write the distribution to `path`, and its summary beside it."""
        self.distribution.at(quantiles=self.quantiles).to_csv(path)


def are_numbers(people: Population) -> bool:
    """Return whether the values are to be taken for numbers: more than FEW_NUMBERS different ones
    are, and those of all people but MOST_OTHERS of them."""
    places = [place for place, value in enumerate(people.values) if is_number(value)]
    held = people.shares[places].sum()
    return len(places) > FEW_NUMBERS and bool(held >= 1 - MOST_OTHERS)


def try_values(
    people: Population, epsilons: Sequence[float], generator: np.random.Generator
) -> list[OfValues]:
    """Return a trial at each epsilon, with the mechanism that a plan recommends. Raises
    ParameterError for fewer than two different values and an epsilon out of range."""
    counts, users = np.array([*people.truth().values()]), people.users
    if len(counts) < 2:
        raise ParameterError("the column holds one value only: there is nothing to ask")
    trials = []
    for epsilon in epsilons:
        question = Question(
            domain=len(counts), users=users, epsilon=epsilon, frequency=1 / len(counts)
        )
        mechanism = best_mechanism(question)
        table = draw_table(mechanism, question.categories, counts=counts, generator=generator)
        estimates = decode(table, question.categories)
        estimates = replace(estimates, values=people.values)
        detected = estimates.detected()
        curator = noisy_histogram(
            people.truth(),
            categories=people.values,
            epsilon=epsilon,
            neighbours=REPLACE,
            noise=Simulated(generator),
        )
        trials.append(
            OfValues(
                epsilon=epsilon,
                mechanism=mechanism,
                estimates=estimates,
                detected=int(detected.sum()),
                held=float(counts[detected].sum() / users),
                curator_std_error=curator.std_error,
            )
        )
    return trials


def try_numbers(
    people: Population,
    epsilons: Sequence[float],
    quantiles: tuple[float, ...],
    generator: np.random.Generator,
) -> list[OfNumbers]:
    """Return a trial at each epsilon of numbers whose range no device knows. Raises ParameterError
    for a value that is no number, and quantiles or epsilons out of range."""
    numbers = people.mapped(lambda value: repr(float(number_of(value))))
    trials = []
    for epsilon in epsilons:
        plan = plan_percentile(
            users=numbers.users, epsilon=epsilon, q=max(quantiles), people=numbers
        )
        mechanism = plan.best.mechanism
        table = draw_table(mechanism, numbers.values, counts=numbers.counts, generator=generator)
        distribution = decode_distribution(table)
        questions = [Percentile(numbers, q, mechanism) for q in quantiles]
        true = tuple(question.truth for question in questions)
        errors = [question.curator(epsilon, 1, generator).errors for question in questions]
        trials.append(
            OfNumbers(
                epsilon=epsilon,
                mechanism=mechanism,
                distribution=distribution,
                quantiles=quantiles,
                statistics=tuple(map(distribution.quantile, quantiles)),
                true=true,
                curator=tuple(q + float(error[0]) for q, error in zip(true, errors, strict=True)),
            )
        )
    return trials
