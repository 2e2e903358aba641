"""The three models of trust on one population at one epsilon: the price of no trust.

*Local*: every report is private by itself. *Shuffled*: an independent party shuffles the reports,
which may then say more each: as much as the privacy blanket certifies for the batch, with the
mechanism that a plan names for it (another one might do better). *Central*: a
curator is trusted with the values and adds discrete Laplace noise to the histogram. Neighbours are
replace-one throughout, the only relation of the local model. All is simulated, nothing is a
release. Errors are root mean squares over all values of the population, in reports.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ldp.accounting import Neighbours
from ldp.arrays import Ints
from ldp.central import DiscreteLaplace, Simulated
from ldp.errors import ParameterError
from ldp.mechanisms import Mechanism
from ldp.planning.candidates import best_mechanism, tuned
from ldp.planning.plan import least_number
from ldp.planning.question import MOST_USERS, Question, registry_parameters
from ldp.privacy_loss import amplify_by_shuffling, shuffled_delta
from ldp.simulation import Population, draw_estimates

FACTORS = {"users": (0.01, 0.1, 1.0, 10.0, 100.0), "epsilon": (0.25, 0.5, 1.0, 2.0, 4.0)}
"""Points of a curve, as multiples of the users and the epsilon of the question."""
MOST_LOCAL = 16.0
"""Largest epsilon of a report in a shuffled batch."""
LEAST_USERS = 100
LATTICE = 1 << 17
"""Number of points for certifying a batch; fewer certify less, never more."""
VALUES, DRAWS = 50, 400
"""Number of values measured, of the most common and of the rest; and number of draws of each."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model at one point. `local_epsilon`: epsilon of a report to whoever sees it by itself
    (None for the curator, who sees values); `predicted` and `measured`: standard errors, in
    reports; `sampling_error`: standard error of `measured`, as a part of it."""

    model: str
    users: int
    epsilon: float
    mechanism: str
    parameters: dict[str, Any]
    local_epsilon: float | None
    predicted: float
    measured: float
    sampling_error: float


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The three models at one point. `rows`: local, shuffled and central; `mechanisms`: those of
    the first two; `delta`: of shuffling."""

    rows: tuple[Row, Row, Row]
    mechanisms: tuple[Mechanism, Mechanism]
    delta: float

    @cached_property
    def certified(self) -> float:
        """The epsilon, at `delta`, that shuffling the local row's reports would give."""
        local = self.mechanisms[0]
        return amplify_by_shuffling(local, reports=self.rows[0].users, delta=self.delta).epsilon

    @property
    def price(self) -> float:
        """The price of no trust: the local standard error over the central one, both predicted."""
        return self.rows[0].predicted / self.rows[2].predicted

    @property
    def more_users(self) -> float:
        """Factor by which the local model needs more users for the central error of a frequency:
        `price` squared, because its error falls with the root of the number of users."""
        return self.price**2


def compare_models(
    population: Population,
    *,
    users: int,
    epsilon: float,
    delta: float,
    generator: np.random.Generator,
    mechanism: str | None = None,
) -> Comparison:
    """Return the three models at one point; `mechanism`: name of the local one, by default the
    planner's choice.

    Raises ParameterError for `delta` outside (0, 1), `users` outside LEAST_USERS to MOST_USERS, a
    population of fewer than 2 values, and whatever a plan or an amplification refuses.
    """
    if not 0 < delta < 1:
        raise ParameterError("delta must lie strictly between 0 and 1")
    if not LEAST_USERS <= users <= MOST_USERS:
        raise ParameterError(f"users must be from {LEAST_USERS} to {MOST_USERS}")
    counts = population.sample(users, generator).counts
    assert counts is not None
    question = Question(domain=counts.size, users=users, epsilon=epsilon, frequency=1 / counts.size)
    local = _chosen(question, mechanism)
    shuffled = _chosen(question.with_(epsilon=_allowed(question, delta, mechanism)), mechanism)
    return Comparison(
        rows=(
            _local_row("local", question, local, counts, generator),
            _local_row("shuffled", question, shuffled, counts, generator),
            _central_row(question, generator),
        ),
        mechanisms=(local, shuffled),
        delta=delta,
    )


def curves(
    population: Population, *, users: int, epsilon: float, **others: Any
) -> Iterator[tuple[str, Comparison]]:
    """Yield ("users" or "epsilon", comparison at a point) along both axes; the other number stays.
    Arguments as for `compare_models`; points outside of its ranges are left out."""
    for factor in FACTORS["users"]:
        if LEAST_USERS <= (number := round(users * factor)) <= MOST_USERS:
            yield "users", compare_models(population, users=number, epsilon=epsilon, **others)
    for factor in FACTORS["epsilon"]:
        if (scaled := epsilon * factor) <= MOST_LOCAL:
            yield "epsilon", compare_models(population, users=users, epsilon=scaled, **others)


def most_comparisons() -> int:
    """Return the largest number of comparisons that `curves` makes."""
    return sum(map(len, FACTORS.values()))


def _chosen(question: Question, mechanism: str | None) -> Mechanism:
    return best_mechanism(question) if mechanism is None else tuned(question, mechanism)


def _allowed(question: Question, delta: float, mechanism: str | None) -> float:
    """Return the largest epsilon of a report, in steps of 1/100, up to which a batch is certified
    to have the question's; at least the question's itself, at most `MOST_LOCAL`."""

    def exceeds(steps: int) -> bool:
        changed = question.with_(epsilon=round(question.epsilon + steps / 100, 9))
        if changed.epsilon > MOST_LOCAL:
            return True
        candidate = _chosen(changed, mechanism)
        batch_delta = shuffled_delta(
            candidate, reports=question.users, epsilon=question.epsilon, size=LATTICE
        )
        return batch_delta > delta

    steps = least_number(exceeds, math.ceil(MOST_LOCAL * 100) + 1)
    return round(question.epsilon + ((steps or 1) - 1) / 100, 9)


def _local_row(
    model: str,
    question: Question,
    mechanism: Mechanism,
    counts: Ints,
    generator: np.random.Generator,
) -> Row:
    n, d = question.users, question.domain
    squares = float(((counts / n) ** 2).sum())
    mean = float(mechanism.variance(n, 1 / d, squares * (d - 1) / d))  # it is linear in both
    measured, error = _measured(mechanism, counts, generator)
    return Row(
        model=model,
        users=n,
        epsilon=question.epsilon,
        mechanism=mechanism.name,
        parameters=dict(registry_parameters(mechanism)),
        local_epsilon=mechanism.cost.epsilon,
        predicted=math.sqrt(mean),
        measured=measured,
        sampling_error=error,
    )


def _measured(
    mechanism: Mechanism, counts: Ints, generator: np.random.Generator
) -> tuple[float, float]:
    """Return the root mean square over all values of the error, and its relative standard error.
    All of the most common values are measured, and some of the rest, from common to rare, which
    stand for all of them. `counts`: shape (values,)."""
    order = np.argsort(counts)[::-1]
    top, rest = order[:VALUES], order[VALUES:]
    places = (np.arange(VALUES) + generator.random()) * rest.size / VALUES
    sample = rest if rest.size <= VALUES else rest[places.astype(np.int64)]
    groups = [(top, 1.0), (sample, rest.size / max(1, sample.size))]
    total = spread = 0.0
    for values, weight in groups:
        for value in values.tolist():
            count = int(counts[value])
            estimates = draw_estimates(
                mechanism,
                held=count,
                others=np.delete(counts, value),
                draws=DRAWS,
                generator=generator,
            )
            squares = (estimates - count) ** 2
            total += weight * float(squares.mean())
            spread += weight**2 * float(squares.var()) / DRAWS
    return math.sqrt(total / counts.size), math.sqrt(spread) / total / 2


def _central_row(question: Question, generator: np.random.Generator) -> Row:
    """Return the row of a histogram under replace-one: two counts differ by 1 each, so the
    sensitivity is 2."""
    mechanism = DiscreteLaplace(
        epsilon=question.epsilon, sensitivity=2.0, neighbours=Neighbours.REPLACE_VALUE
    )
    draws = DRAWS * VALUES
    noise = mechanism.release(np.zeros(draws, dtype=np.int64), Simulated(generator))
    squares = noise.astype(np.float64) ** 2
    mean = float(squares.mean())
    return Row(
        model="central",
        users=question.users,
        epsilon=question.epsilon,
        mechanism="discrete-laplace",
        parameters={"sensitivity": 2.0},
        local_epsilon=None,
        predicted=mechanism.std_error,
        measured=math.sqrt(mean),
        sampling_error=float(squares.std()) / math.sqrt(draws) / mean / 2 if mean else 0.0,
    )
