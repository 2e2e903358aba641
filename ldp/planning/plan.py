"""The answer to a question: a forecast of each mechanism's error and price.

A forecast uses what the tuned mechanism states itself: variance, detectable frequency, layout,
channel.
"""

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

from ldp.central.bisection import least_number
from ldp.decoding.fakes import fake_reports
from ldp.errors import ParameterError
from ldp.mechanisms import Mechanism
from ldp.mechanisms.base import FAKES
from ldp.planning.candidates import NEAR_BEST, best_mechanism, candidates, smallest_report, tune
from ldp.planning.question import (
    MOST_USERS,
    Question,
    bound_ratio,
    registry_parameters,
    report_bytes,
)
from ldp.protocol.channel import MAX_EPSILON

STEPS = {"users": 1, "epsilon": 1_000, "frequency": 10**8}
"""Steps into which the unit of a missing number is divided to find it."""
MOST = {"users": MOST_USERS, "epsilon": int(MAX_EPSILON) * 1_000, "frequency": 10**8}
"""Largest answer, in steps."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Accuracy and price of one mechanism. Counts are in reports, one report a user.

    `std_error`: of the question's value, `std_error_rare`: of one that nobody holds;
    `bound_ratio`: mean variance over all values, above the least that any unbiased mechanism has;
    `fakes_move`: the frequency by which the share `fakes` of the plan of made-up reports can raise
    a value of their choice in the estimate; `fakes_error`: root mean squared error of the
    question's value then; `believed`: the most that a report can raise a belief of 50 %;
    `same_epsilon`: what the recommended mechanism needs for this `std_error`, None if it is more
    than a fifth above the question's.
    """

    mechanism: str
    parameters: dict[str, Any]
    epsilon: float
    std_error_rare: float
    std_error: float
    detectable_frequency: float
    bound_ratio: float
    report_bytes: int
    table_cells: int
    fakes_move: float
    fakes_error: float
    believed: float
    same_epsilon: float | None

    @property
    def detectable(self) -> bool:
        """Return whether there is a frequency that is detected with the question's power."""
        return self.detectable_frequency <= 1


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Answer to a question. `mechanism`: the recommended one; `forecasts`: of all mechanisms, least
    standard error first; `refused`: name -> reason for the others; `solved`: name of the number
    that was missing from the question, which now holds it; `fakes`: share of made-up reports."""

    question: Question
    solved: str | None
    mechanism: Mechanism
    forecasts: tuple[Forecast, ...]
    refused: dict[str, str]
    fakes: float = FAKES

    @property
    def best(self) -> Forecast:
        """The forecast of the recommended mechanism."""
        return next(row for row in self.forecasts if row.mechanism == self.mechanism.name)

    def registry_lines(self) -> str:
        """Return the lines of metrics.toml that state the recommended mechanism."""
        best = self.mechanism
        lines = [f"{name} = {json.dumps(value)}" for name, value in registry_parameters(best)]
        if "categories" in best.parameters():
            lines.append('categories = "values.txt"')
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-ready data; a frequency that is never detected is None."""
        rows = [
            asdict(row) | ({} if row.detectable else {"detectable_frequency": None})
            for row in self.forecasts
        ]
        return {
            "question": asdict(self.question),
            "solved": self.solved,
            "fakes": self.fakes,
            "best": self.best.mechanism,
            "forecasts": rows,
            "refused": self.refused,
            "registry": self.registry_lines(),
        }


def plan(
    *,
    domain: int,
    users: int | None = None,
    epsilon: float | None = None,
    frequency: float | None = None,
    alpha: float = 0.05,
    power: float = 0.5,
    max_report_bytes: int | None = None,
    answers: int | None = None,
    fakes: float = FAKES,
) -> Plan:
    """Return a plan: every mechanism tuned to the question (`Question`), the most accurate first.

    At most one of `users`, `epsilon`, `frequency` may be missing. It is found by bisection: the
    smallest number of `STEPS` at which the recommended mechanism detects a value of `frequency`,
    while with one step less it does not. `fakes`: share of made-up reports whose damage is stated.
    Raises ParameterError where not even the largest number would do, or no mechanism has reports of
    at most `max_report_bytes`, and for a share out of range.
    """
    fake_reports(1, fakes)  # raises for a share out of range
    numbers: dict[str, Any] = {"users": users, "epsilon": epsilon, "frequency": frequency}
    missing = [name for name, value in numbers.items() if value is None]
    if len(missing) > 1:
        raise ParameterError(f"{' and '.join(missing)} are missing; leave out one of them at most")
    settings: dict[str, Any] = {
        "domain": domain,
        "alpha": alpha,
        "power": power,
        "max_report_bytes": max_report_bytes,
        "answers": answers,
    }
    if not missing:
        return _answered(Question(**settings, **numbers), None, fakes)
    (name,) = missing

    def question(steps: int) -> Question:
        value = steps if name == "users" else steps / STEPS[name]
        return Question(**settings, **{**numbers, name: value})

    steps = least_number(lambda steps: _detects(question(steps)), MOST[name])
    if steps is None:
        raise ParameterError(
            "not even a value that everybody holds is detected"
            if name == "frequency"
            else f"not even {name} = {MOST[name] / STEPS[name]:g} would do"
        )
    return _answered(question(steps), name, fakes)


def _detects(question: Question) -> bool:
    return _detectable(question, best_mechanism(question)) <= question.frequency


def _detectable(question: Question, mechanism: Mechanism) -> float:
    return mechanism.detectable_frequency(
        question.users, question.alpha, question.domain, question.power, question.others_squared
    )


def _answered(question: Question, solved: str | None, fakes: float) -> Plan:
    mechanisms, refused = candidates(question)
    best = smallest_report(question, mechanisms, NEAR_BEST)
    return Plan(
        question=question,
        solved=solved,
        mechanism=best,
        forecasts=tuple(
            _forecast(question, mechanism, best.name, fakes) for mechanism in mechanisms
        ),
        refused=refused,
        fakes=fakes,
    )


def _forecast(question: Question, mechanism: Mechanism, best: str, fakes: float) -> Forecast:
    n, d = question.users, question.domain
    rare = question.with_(frequency=0.0)
    squares = question.frequency**2 + question.others_squared
    return Forecast(
        mechanism=mechanism.name,
        parameters=dict(registry_parameters(mechanism)),
        epsilon=mechanism.cost.epsilon,
        std_error_rare=math.sqrt(rare.variance(mechanism)),
        std_error=math.sqrt(question.variance(mechanism)),
        detectable_frequency=_detectable(question, mechanism),
        bound_ratio=bound_ratio(mechanism, d, n, squares),
        report_bytes=report_bytes(mechanism),
        table_cells=math.prod(mechanism.shape),
        fakes_move=mechanism.fakes_move(fakes),
        fakes_error=math.hypot(
            math.sqrt(question.variance(mechanism)), n * mechanism.fakes_move(fakes)
        ),
        believed=mechanism.channel.posterior(0.5),
        same_epsilon=question.epsilon
        if mechanism.name == best
        else _same_epsilon(question, best, question.variance(mechanism)),
    )


def _same_epsilon(question: Question, name: str, variance: float) -> float | None:
    """Return the least epsilon, in steps of 1/1000, at which mechanism `name` has this variance;
    None if it is more than a fifth above the question's."""

    def holds(number: int) -> bool:
        changed = question.with_(epsilon=number / STEPS["epsilon"])
        try:
            return changed.variance(tune(changed, name)) <= variance
        except ParameterError:  # too small an epsilon for it, or too large
            return False

    upper = math.ceil(question.epsilon * STEPS["epsilon"])
    most = min(MOST["epsilon"], math.ceil(1.2 * upper))
    while not holds(upper) and upper < most:
        upper = min(most, math.ceil(1.02 * upper))
    steps = least_number(holds, upper)
    return None if steps is None else steps / STEPS["epsilon"]
