"""The three models of trust on one population at one epsilon: the price of no trust.

*Local*: every report is private by itself. *Shuffled*: an independent party shuffles the reports,
which may then say more each: as much as the privacy blanket certifies for the batch, with the
mechanism that a plan names for it (another one might do better); beside it randomised response and
`DummyMessages`, which is made for a shuffler. *Central*: a curator is trusted with the values and
adds discrete Laplace noise to the histogram. Neighbours are
replace-one throughout, the only relation of the local model. All is simulated, nothing is a
release. Errors are root mean squares over all values of the population, in reports; with public
bounds, or a quantile, the values are numbers, and errors those of their mean over these people, or
of the quantile, in their units.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from ldp.accounting import Neighbours
from ldp.arrays import Floats, Ints
from ldp.central import DiscreteLaplace, Simulated
from ldp.central.bisection import least_number
from ldp.errors import ParameterError
from ldp.mechanisms import Mechanism, RandomizedResponse
from ldp.planning.candidates import best_mechanism, tune
from ldp.planning.numbers import Curator, Numbers
from ldp.planning.percentiles import Percentile
from ldp.planning.question import MOST_USERS, Question, registry_parameters, report_bytes
from ldp.privacy_loss import DummyMessages, amplify_by_shuffling, shuffled_delta
from ldp.protocol.wire import HEADER_BYTES
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
LEAST_DRAWS, DRAWN = 4, 2_000_000
"""Least number of draws of all values where dummies are measured, and of values drawn."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model at one point. `local_epsilon`: epsilon of a report to whoever sees it by itself
    (None for the curator, who sees values); `predicted` and `measured`: standard errors;
    `sampling_error`: standard error of `measured`, as a part of it; `whole`: what standard errors
    are a share of, the users or the range of the numbers; `messages` of a user on average, and
    their `sent_bytes` before they are sealed (None for the curator)."""

    model: str
    users: int
    epsilon: float
    mechanism: str
    parameters: dict[str, Any]
    local_epsilon: float | None
    predicted: float
    measured: float
    sampling_error: float
    whole: float
    messages: float | None = 1.0
    sent_bytes: float | None = None


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
    bounds: tuple[float, float] | None = None,
    quantile: float | None = None,
) -> Comparison:
    """Return the three models at one point; `mechanism`: name of the local one, by default the
    planner's choice. With public `bounds` the values are numbers, clipped to them; the mechanism is
    then one of `OF_NUMBERS`, by default that of the smaller error. With a `quantile` it is asked
    for in place of the mean, and the range may be unknown: the mechanism is then the planner's.

    Raises ParameterError for `delta` outside (0, 1), `users` outside LEAST_USERS to MOST_USERS, a
    population of fewer than 2 values, and whatever a plan or an amplification refuses.
    """
    if not 0 < delta < 1:
        raise ParameterError("delta must lie strictly between 0 and 1")
    if not LEAST_USERS <= users <= MOST_USERS:
        raise ParameterError(f"users must be from {LEAST_USERS} to {MOST_USERS}")
    people = population.sample(users, generator)
    if quantile is not None:
        percentile = Percentile.of(people, quantile, bounds, epsilon)
        return _of_numbers(percentile, epsilon, delta, generator, mechanism)
    if bounds is not None:
        return _of_numbers(Numbers.of(people, bounds), epsilon, delta, generator, mechanism)
    counts = people.counts
    assert counts is not None
    question = Question(domain=counts.size, users=users, epsilon=epsilon, frequency=1 / counts.size)

    def chosen(epsilon: float) -> Mechanism:
        varied = question.with_(epsilon=epsilon)
        return best_mechanism(varied) if mechanism is None else tune(varied, mechanism)

    local = chosen(epsilon)
    shuffled = chosen(_allowed(chosen, users, epsilon, delta))
    return Comparison(
        rows=(
            _local_row("local", question, local, counts, generator),
            _local_row("shuffled", question, shuffled, counts, generator),
            _central_row(question, generator),
        ),
        mechanisms=(local, shuffled),
        delta=delta,
    )


def shuffled_rivals(
    population: Population,
    *,
    users: int,
    epsilon: float,
    delta: float,
    generator: np.random.Generator,
) -> tuple[Row, Row]:
    """Return two more rows of the shuffled model, of the same counts: randomised response, and the
    dummies with the least error. Arguments and errors as for `compare_models`; the values are no
    numbers."""
    counts = population.sample(users, generator).counts
    assert counts is not None
    question = Question(domain=counts.size, users=users, epsilon=epsilon, frequency=1 / counts.size)

    def response(epsilon: float) -> Mechanism:
        return RandomizedResponse(categories=question.categories, epsilon=epsilon)

    best = response(_allowed(response, users, epsilon, delta))
    return (
        _local_row("shuffled", question, best, counts, generator),
        _dummies_row(question, delta, counts, generator),
    )


def _dummies_row(
    question: Question, delta: float, counts: Ints, generator: np.random.Generator
) -> Row:
    messages = DummyMessages.calibrated(
        question.domain, reports=question.users, epsilon=question.epsilon, delta=delta
    )
    draws = min(DRAWS, max(LEAST_DRAWS, DRAWN // question.domain))
    errors = [
        messages.estimates(messages.draw_messages(counts, generator), question.users) - counts
        for _ in range(draws)
    ]
    measured, error = _root_mean_square(np.concatenate(errors))
    return Row(
        model="shuffled",
        users=question.users,
        epsilon=question.epsilon,
        mechanism=messages.name,
        parameters=asdict(messages),
        local_epsilon=messages.cost.epsilon,
        predicted=messages.std_error(question.users),
        measured=measured,
        sampling_error=error,
        whole=question.users,
        messages=messages.messages,
        sent_bytes=messages.messages * (HEADER_BYTES + messages.message_bytes),
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


def _allowed(
    chosen: Callable[[float], Mechanism], users: int, epsilon: float, delta: float
) -> float:
    """Return the largest epsilon of a report, in steps of 1/100, up to which a batch of the
    mechanism `chosen` for it is certified to have `epsilon`; at least that itself, at most
    `MOST_LOCAL`."""

    def exceeds(steps: int) -> bool:
        larger = round(epsilon + steps / 100, 9)
        if larger > MOST_LOCAL:
            return True
        return shuffled_delta(chosen(larger), reports=users, epsilon=epsilon, size=LATTICE) > delta

    steps = least_number(exceeds, math.ceil(MOST_LOCAL * 100) + 1)
    return round(epsilon + ((steps or 1) - 1) / 100, 9)


def _of_numbers(
    question: Numbers | Percentile,
    epsilon: float,
    delta: float,
    generator: np.random.Generator,
    mechanism: str | None,
) -> Comparison:
    chosen = partial(question.chosen, mechanism)
    local, users = chosen(epsilon), question.users
    shuffled = chosen(_allowed(chosen, users, epsilon, delta))
    shared: dict[str, Any] = {"users": users, "epsilon": epsilon, "whole": question.range}

    def row(model: str, one: Any) -> Row:
        errors = _root_mean_square(question.errors(one, question.draws, generator))
        return _row_of(model, one, question.std_error(one), errors, **shared)

    central = _row_of_curator(question.curator(epsilon, DRAWS * VALUES, generator), **shared)
    return Comparison(
        rows=(row("local", local), row("shuffled", shuffled), central),
        mechanisms=(local, shuffled),
        delta=delta,
    )


def _row_of(
    model: str, mechanism: Any, predicted: float, errors: tuple[float, float], **shared: Any
) -> Row:
    """Return the row of a mechanism on devices; `errors`: the measured one, and its relative
    standard error."""
    measured, sampling_error = errors
    return Row(
        model=model,
        mechanism=mechanism.name,
        parameters=dict(registry_parameters(mechanism)),
        local_epsilon=mechanism.cost.epsilon,
        predicted=predicted,
        measured=measured,
        sampling_error=sampling_error,
        sent_bytes=report_bytes(mechanism),
        **shared,
    )


def _row_of_curator(curator: Curator, **shared: Any) -> Row:
    measured, sampling_error = _root_mean_square(curator.errors)
    return Row(
        model="central",
        mechanism=curator.mechanism,
        parameters=curator.parameters,
        local_epsilon=None,
        predicted=curator.std_error,
        measured=measured,
        sampling_error=sampling_error,
        messages=None,
        **shared,
    )


def _root_mean_square(errors: Floats) -> tuple[float, float]:
    """Return the root mean square of `errors`, shape (draws,), and its relative standard error."""
    squares = errors**2
    mean = float(squares.mean())
    error = float(squares.std()) / math.sqrt(squares.size) / mean / 2 if mean else 0.0
    return math.sqrt(mean), error


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
    errors = _measured(mechanism, counts, generator)
    shared = {"users": n, "epsilon": question.epsilon, "whole": n}
    return _row_of(model, mechanism, math.sqrt(mean), errors, **shared)


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
    curator = Curator(
        mechanism="discrete-laplace",
        parameters={"sensitivity": 2.0},
        std_error=mechanism.std_error,
        errors=noise.astype(np.float64),
    )
    users = question.users
    return _row_of_curator(curator, users=users, epsilon=question.epsilon, whole=users)
