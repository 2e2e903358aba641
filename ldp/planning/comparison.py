"""The three models of trust on one population at one epsilon: what does nobody's trust cost?

*Local*: every report is private by itself. *Shuffled*: an independent party shuffles the reports,
which may then say more each: as much as the privacy blanket certifies for the batch, with the
mechanism that a plan names for it (another one might do better). *Central*: a
curator is trusted with the values and adds discrete Laplace noise to the histogram. Neighbours are
replace-one throughout, the only relation the local model knows. All is simulated, nothing is a
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
from ldp.planning.plan import MOST_USERS, Question, least, named, registry_parameters, tuned
from ldp.privacy_loss import amplify_by_shuffling, shuffled_delta
from ldp.simulation import Population, draw_estimates

FACTORS = {"users": (0.01, 0.1, 1.0, 10.0, 100.0), "epsilon": (0.25, 0.5, 1.0, 2.0, 4.0)}
"""The points of a curve, as multiples of what was asked for."""
MOST_LOCAL = 16.0
"""A report in a shuffled batch says at most that much."""
LEAST_USERS = 100
LATTICE = 1 << 17
"""Points for certifying a batch; fewer certify less, never more."""
VALUES, DRAWS = 50, 400
"""Values measured: so many of the most common and as many of the rest; and draws of each."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model at one point. `local_epsilon`: of a report, to whoever sees it by itself (None for
    the curator, who sees values); `predicted` and `measured`: standard errors; `sampling_error`: of
    `measured`, as a part of it."""

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
    """`rows`: local, shuffled and central at the point asked for; `mechanisms`: those of the first
    two; `delta`: of shuffling."""

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
        """How many times more users the local model needs for the central error of a frequency:
        `price` squared, because its own falls with the root of their number."""
        return self.price**2


def compare(
    population: Population,
    *,
    users: int,
    epsilon: float,
    delta: float,
    generator: np.random.Generator,
    mechanism: str | None = None,
) -> Comparison:
    """The three models at one point; `mechanism`: the local one, or the planner's choice.

    Raises ParameterError for a population of fewer than 2 values, and for what a plan or an
    amplification refuses.
    """
    if not 0 < delta < 1:
        raise ParameterError("delta must lie strictly between 0 and 1")
    if not LEAST_USERS <= users <= MOST_USERS:
        raise ParameterError(f"users must be from {LEAST_USERS} to {MOST_USERS}")
    counts = population.sample(users, generator).counts
    assert counts is not None
    ask = Question(domain=counts.size, users=users, epsilon=epsilon, frequency=1 / counts.size)
    local = _chosen(ask, mechanism)
    shuffled = _chosen(ask.with_(epsilon=_allowed(ask, delta, mechanism)), mechanism)
    return Comparison(
        rows=(
            _local_row("local", ask, local, counts, generator),
            _local_row("shuffled", ask, shuffled, counts, generator),
            _central_row(ask, generator),
        ),
        mechanisms=(local, shuffled),
        delta=delta,
    )


def curves(
    population: Population, *, users: int, epsilon: float, **others: Any
) -> Iterator[tuple[str, Comparison]]:
    """("users" or "epsilon", the comparison at a point) along both axes, the other one as asked.
    Arguments as of `compare`; points outside of what it takes are left out."""
    for factor in FACTORS["users"]:
        if LEAST_USERS <= (number := round(users * factor)) <= MOST_USERS:
            yield "users", compare(population, users=number, epsilon=epsilon, **others)
    for factor in FACTORS["epsilon"]:
        if (scaled := epsilon * factor) <= MOST_LOCAL:
            yield "epsilon", compare(population, users=users, epsilon=scaled, **others)


def points() -> int:
    """How many comparisons `curves` makes at most."""
    return sum(map(len, FACTORS.values()))


def _chosen(ask: Question, mechanism: str | None) -> Mechanism:
    return named(ask) if mechanism is None else tuned(ask, mechanism)


def _allowed(ask: Question, delta: float, mechanism: str | None) -> float:
    """The largest epsilon of a report, in steps of 1/100, up to which a batch is certified to have
    the question's; at least that one itself, at most `MOST_LOCAL`."""

    def too_much(steps: int) -> bool:
        at = ask.with_(epsilon=round(ask.epsilon + steps / 100, 9))
        if at.epsilon > MOST_LOCAL:
            return True
        one = _chosen(at, mechanism)
        found = shuffled_delta(one, reports=ask.users, epsilon=ask.epsilon, size=LATTICE)
        return found > delta

    steps = least(too_much, math.ceil(MOST_LOCAL * 100) + 1)
    return round(ask.epsilon + ((steps or 1) - 1) / 100, 9)


def _local_row(
    model: str,
    ask: Question,
    mechanism: Mechanism,
    counts: Ints,
    generator: np.random.Generator,
) -> Row:
    n, d = ask.users, ask.domain
    squares = float(((counts / n) ** 2).sum())
    mean = float(mechanism.variance(n, 1 / d, squares * (d - 1) / d))  # it is linear in both
    measured, error = _measured(mechanism, counts, generator)
    return Row(
        model=model,
        users=n,
        epsilon=ask.epsilon,
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
    """The root mean square over all values of the error, and its own relative standard error: of
    the most common values each, of the others some, from common to rare, which stand for all."""
    order = np.argsort(counts)[::-1]
    top, rest = order[:VALUES], order[VALUES:]
    spread_out = (np.arange(VALUES) + generator.random()) * rest.size / VALUES
    some = rest if rest.size <= VALUES else rest[spread_out.astype(np.int64)]
    groups = [(top, 1.0), (some, rest.size / max(1, some.size))]
    total = spread = 0.0
    for places, weight in groups:
        for place in places.tolist():
            held = int(counts[place])
            drawn = draw_estimates(
                mechanism,
                held=held,
                others=np.delete(counts, place),
                draws=DRAWS,
                generator=generator,
            )
            squares = (drawn - held) ** 2
            total += weight * float(squares.mean())
            spread += weight**2 * float(squares.var()) / DRAWS
    return math.sqrt(total / counts.size), math.sqrt(spread) / total / 2


def _central_row(ask: Question, generator: np.random.Generator) -> Row:
    """A histogram under replace-one: two counts differ by 1, so the sensitivity is 2."""
    mechanism = DiscreteLaplace(
        epsilon=ask.epsilon, sensitivity=2.0, neighbours=Neighbours.REPLACE_VALUE
    )
    draws = DRAWS * VALUES
    noise = mechanism.release(np.zeros(draws, dtype=np.int64), Simulated(generator))
    squares = noise.astype(np.float64) ** 2
    mean = float(squares.mean())
    return Row(
        model="central",
        users=ask.users,
        epsilon=ask.epsilon,
        mechanism="discrete-laplace",
        parameters={"sensitivity": 2.0},
        local_epsilon=None,
        predicted=mechanism.std_error,
        measured=math.sqrt(mean),
        sampling_error=float(squares.std()) / math.sqrt(draws) / mean / 2 if mean else 0.0,
    )
