"""The three models of trust on one population at one epsilon: the price of no trust.

*Local*: every report is private by itself. *Shuffled*: an independent party shuffles the reports.
So each may say more: as much as the privacy blanket certifies for the batch, with the mechanism
that a plan recommends for it (another one might do better). Two more are compared: randomised
response and `DummyMessages`. *Central*: a curator is trusted with the values and adds discrete
Laplace noise to the histogram. Neighbours are replace-one throughout, the only relation of the
local model. All is simulated, nothing is a release. Errors are root mean squares over all values of
the population, in reports. With public bounds, or a quantile, the values are numbers, and the
errors are those of their mean over these people, or of the quantile, in the numbers' units.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ldp.arrays import Generator
from ldp.errors import ParameterError, require_share
from ldp.mechanisms import Mechanism, RandomizedResponse
from ldp.planning.mechanism_choice import registry_parameters, report_bytes
from ldp.planning.numbers import Mean, Percentile
from ldp.planning.question import DRAWS, MOST_USERS, Question, root_mean_square
from ldp.planning.values import Shares
from ldp.privacy_loss import DummyMessages, largest_shuffled
from ldp.protocol.wire import HEADER_BYTES
from ldp.simulation import Population

LEAST_USERS = 100
LEAST_DRAWS, DRAWN = 4, 2_000_000
"""Least number of draws of all values where dummies are measured, and of values drawn."""


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    """One model at one point. `local_epsilon`: epsilon of a report to whoever sees it by itself
    (None for the curator, who sees values). `predicted` and `measured`: standard errors.
    `sampling_error`: standard error of `measured`, as a part of it. `whole`: what standard errors
    are a share of, the users or the range of the numbers. `messages` of a user on average, and
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
    """The three models at one point. `rows`: local, shuffled and central; `shuffled`: the mechanism
    whose reports are shuffled."""

    rows: tuple[ModelRow, ModelRow, ModelRow]
    shuffled: Mechanism

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
    generator: Generator,
    mechanism: str | None = None,
    bounds: tuple[float, float] | None = None,
    quantile: float | None = None,
) -> Comparison:
    """Return the three models at one point. `mechanism`: name of the local one, by default the
    planner's choice. With public `bounds` the values are numbers, clipped to them. The mechanism is
    then one of `OF_NUMBERS`, by default that of the smaller error. With a `quantile` it is asked
    for in place of the mean, and the range may be unknown: the mechanism is then the planner's.

    Raises ParameterError for `delta` outside (0, 1), `users` outside LEAST_USERS to MOST_USERS, a
    population of fewer than 2 values, and whatever a plan or an amplification refuses.
    """
    require_share(delta, "delta")
    if not LEAST_USERS <= users <= MOST_USERS:
        raise ParameterError(f"users must be from {LEAST_USERS} to {MOST_USERS}")
    people = population.sample(users, generator)
    question: Question
    if quantile is not None:
        question = Percentile.of(people, epsilon, q=quantile, bounds=bounds)
        question = question.with_(way=question.best())
    elif bounds is not None:
        question = Mean.of(people, epsilon, bounds=bounds)
    else:
        question = Shares.of(people, epsilon)
    return compare_question(question, delta=delta, generator=generator, mechanism=mechanism)


def compare_question(
    question: Question,
    *,
    delta: float,
    generator: Generator,
    mechanism: str | None = None,
) -> Comparison:
    """Return the three models of a question of any kind. `mechanism`: name of the local one."""

    def best(epsilon: float) -> Mechanism:
        way: Mechanism = question.with_(epsilon=epsilon).best(mechanism)
        return way

    local = best(question.epsilon)
    shuffled = best(largest_shuffled(best, question.users, question.epsilon, delta))
    mechanisms = {"local": local, "shuffled": shuffled, "central": None}
    rows = {model: _row(model, question, mechanisms[model], generator) for model in question.models}
    return Comparison(rows=(rows["local"], rows["shuffled"], rows["central"]), shuffled=shuffled)


def shuffled_rivals(
    population: Population,
    *,
    users: int,
    epsilon: float,
    delta: float,
    generator: Generator,
) -> tuple[ModelRow, ModelRow]:
    """Return two more rows of the shuffled model for the same counts: randomised response, and the
    dummies with the least error. Arguments and errors as for `compare_models`, without numbers as
    values."""
    question = Shares.of(population.sample(users, generator), epsilon)

    def response(epsilon: float) -> Mechanism:
        return RandomizedResponse(categories=question.categories, epsilon=epsilon)

    best = response(largest_shuffled(response, users, epsilon, delta))
    dummies = DummyMessages.calibrated(question.domain, reports=users, epsilon=epsilon, delta=delta)
    row = _row("shuffled", question, best, generator)
    return row, _row("shuffled", question, dummies, generator)


def _dummies_error(
    question: Any, messages: DummyMessages, generator: Generator
) -> tuple[float, float]:
    """Return the root mean square error of the counts of all values, and its relative standard
    error, from draws of the messages."""
    counts = question.people.numbers
    draws = min(DRAWS, max(LEAST_DRAWS, DRAWN // messages.values))
    errors = [
        messages.estimates(messages.draw_messages(counts, generator), question.users) - counts
        for _ in range(draws)
    ]
    return root_mean_square(np.concatenate(errors))


def _row(model: str, question: Question, mechanism: Any, generator: Generator) -> ModelRow:
    """Return the row of a mechanism on devices, of dummies, or of a curator where there is none."""
    messages, sent_bytes = None, None
    if mechanism is None:
        curator = question.curator(generator)
        name, parameters, predicted = curator.mechanism, curator.parameters, curator.std_error
        measured, sampling_error = root_mean_square(curator.errors)
    elif isinstance(mechanism, DummyMessages):
        name, parameters, messages = mechanism.name, asdict(mechanism), mechanism.messages
        predicted = mechanism.std_error(question.users)
        measured, sampling_error = _dummies_error(question, mechanism, generator)
        sent_bytes = messages * (HEADER_BYTES + mechanism.message_bytes)
    else:
        name, parameters, messages = mechanism.name, dict(registry_parameters(mechanism)), 1.0
        predicted = question.std_error(mechanism)
        measured, sampling_error = question.simulate(mechanism, generator)
        sent_bytes = report_bytes(mechanism)
    return ModelRow(
        model=model,
        users=question.users,
        epsilon=question.epsilon,
        mechanism=name,
        parameters=parameters,
        local_epsilon=mechanism and mechanism.cost.epsilon,
        predicted=predicted,
        measured=measured,
        sampling_error=sampling_error,
        whole=question.whole,
        messages=messages,
        sent_bytes=sent_bytes,
    )
