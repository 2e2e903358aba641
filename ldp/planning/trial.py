"""A trial: what reports of one column of data would say, beside the data and a curator.

A simulation of one report a person. Nothing in it is private: it is made from the data, and so is
the list of values.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldp.decoding import decode
from ldp.decoding.distribution import decode_distribution
from ldp.errors import ParameterError
from ldp.mechanisms.numeric import is_number, number_of
from ldp.planning.candidates import report_bytes
from ldp.planning.numbers import Percentile
from ldp.planning.values import Shares
from ldp.simulation import Population, draw_table
from ldp.tables.result import Result

FEW_NUMBERS = 20
"""Largest number of different numbers that are taken for categories."""
MOST_OTHERS = 0.01
"""Largest share of people without a number in a column that is read as numbers."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Answers of reports at one epsilon: their `result`, and `rows` of figures beside those of the
    data and of a trusted curator."""

    epsilon: float
    result: Result
    rows: tuple[dict[str, Any], ...]


def are_numbers(people: Population) -> bool:
    """Return whether the values are to be taken for numbers: more than FEW_NUMBERS different ones
    are, and those of all people but MOST_OTHERS of them."""
    places = [place for place, value in enumerate(people.values) if is_number(value)]
    held = people.shares[places].sum()
    return len(places) > FEW_NUMBERS and bool(held >= 1 - MOST_OTHERS)


def try_values(
    people: Population, epsilons: Sequence[float], generator: np.random.Generator
) -> list[Trial]:
    """Return a trial at each epsilon, with the mechanism that a plan recommends. Raises
    ParameterError for fewer than two different values and an epsilon out of range."""
    counts = np.array([*people.truth().values()])
    if len(counts) < 2:
        raise ParameterError("the column holds one value only: there is nothing to ask")
    trials = []
    for epsilon in epsilons:
        question = Shares.of(people, epsilon)
        mechanism, names = question.best(), question.categories
        table = draw_table(mechanism, names, counts=counts, generator=generator)
        estimates = replace(decode(table, names), values=people.values)
        detected = estimates.detected()
        row = {
            "epsilon": epsilon,
            "mechanism": mechanism.name,
            "report_bytes": report_bytes(mechanism),
            "detected": int(detected.sum()),
            "people_in_detected": float(counts[detected].sum() / people.users),
            "std_error": estimates.noise,
            "noise_floor": estimates.noise_floor(),
            "curator_std_error": question.curator(generator, len(counts)).std_error,
        }
        trials.append(Trial(epsilon=epsilon, result=estimates, rows=(row,)))
    return trials


def try_numbers(
    people: Population,
    epsilons: Sequence[float],
    quantiles: tuple[float, ...],
    generator: np.random.Generator,
) -> list[Trial]:
    """Return a trial at each epsilon of numbers whose range no device knows. Raises ParameterError
    for a value that is no number, and quantiles or epsilons out of range."""
    numbers = people.mapped(lambda value: repr(float(number_of(value))))
    trials = []
    for epsilon in epsilons:
        shared: Any = {"users": numbers.users, "epsilon": epsilon, "people": numbers}
        mechanism = Percentile(**shared, q=max(quantiles)).best()
        table = draw_table(mechanism, numbers.values, counts=numbers.counts, generator=generator)
        distribution, rows = decode_distribution(table), []
        for q in quantiles:
            question = Percentile(**shared, q=q, way=mechanism)
            statistic = distribution.quantile(q)
            rows.append(
                {
                    "epsilon": epsilon,
                    "mechanism": mechanism.name,
                    "statistic": statistic.name,
                    "true": question.truth,
                    "estimate": statistic.estimate,
                    "low": statistic.low,
                    "high": statistic.high,
                    "curator": question.truth + float(question.curator(generator, 1).errors[0]),
                }
            )
        trials.append(
            Trial(epsilon=epsilon, result=distribution.at(quantiles=quantiles), rows=tuple(rows))
        )
    return trials
