"""The answer to a question: a forecast of each mechanism's error and price.

A forecast uses what the tuned mechanism states itself: variance, detectable frequency, layout,
channel.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

from ldp.accounting.bisection import least_number
from ldp.errors import ParameterError, require_positive
from ldp.mechanisms import Mechanism
from ldp.mechanisms.base import FAKES
from ldp.mechanisms.hierarchical_histogram import MOST_COLUMNS
from ldp.planning.mechanism_choice import (
    NEAR_BEST,
    candidates,
    registry_lines,
    registry_parameters,
    report_bytes,
    smallest_report,
    tune,
)
from ldp.planning.numbers import Mean, Percentile
from ldp.planning.percentiles import TABLES, PercentileForecast, ranked
from ldp.planning.question import MOST_USERS
from ldp.planning.values import Shares
from ldp.protocol.channel import MAX_EPSILON, require_whole
from ldp.tables.fakes import fake_reports

NUMBERS = (
    *("domain", "users", "epsilon", "frequency", "alpha", "power", "max_report_bytes", "answers"),
)
"""Numbers of a question of shares."""
PARTS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Shares of the users: sizes of a category for which a plan states its results."""
MORE = 2
"""Factor by which more users are tried."""
STEPS = {"users": 1, "epsilon": 1_000, "frequency": 10**8}
"""Steps into which the unit of a missing number is divided to find it."""
MOST = {"users": MOST_USERS, "epsilon": int(MAX_EPSILON) * 1_000, "frequency": 10**8}
"""Largest answer, in steps."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Accuracy and price of one mechanism. Counts are in reports, one report a user.

    `std_error`: of the question's value, `std_error_rare`: of one that nobody holds. `bound_ratio`:
    mean variance over all values, divided by the least that any unbiased mechanism has.
    `fakes_move`: the frequency by which made-up reports, the plan's share `fakes` of all, can raise
    the estimate of a value of their choice. `fakes_error`: root mean squared error of the
    question's value then. `believed`: the most that a report can raise a belief of 50 %.
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
    """Answer to a question. `mechanism`: the recommended one. `forecasts`: of all mechanisms, least
    standard error first. `refused`: name -> reason for the others. `solved`: name of the number
    that was missing from the question, which now holds it. `fakes`: share of made-up reports."""

    question: Shares
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
        has_list = "categories" in self.mechanism.parameters()
        return registry_lines(self.mechanism) + 'categories = "values.txt"\n' * has_list

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-ready data. A frequency that is never detected is None."""
        return {
            "question": {name: getattr(self.question, name) for name in NUMBERS},
            "solved": self.solved,
            "fakes": self.fakes,
            "best": self.best.mechanism,
            "forecasts": [
                asdict(row) | ({} if row.detectable else {"detectable_frequency": None})
                for row in self.forecasts
            ],
            "refused": self.refused,
            "registry": self.registry_lines(),
        }


def plan(
    *,
    users: int | None = None,
    epsilon: float | None = None,
    frequency: float | None = None,
    fakes: float = FAKES,
    **settings: Any,
) -> Plan:
    """Return a plan: every mechanism tuned to the question, the most accurate first. `settings`:
    other fields of the question (`Shares`).

    At most one of `users`, `epsilon`, `frequency` may be missing. It is found by bisection: the
    smallest number of `STEPS` at which the recommended mechanism detects a value of `frequency`,
    while with one step less it does not. `fakes`: share of made-up reports whose damage is stated.
    Raises ParameterError where not even the largest number would do, or no mechanism has reports of
    at most `max_report_bytes`, and for a share out of range.
    """
    # raises for a share out of range
    fake_reports(1, fakes)
    numbers: dict[str, Any] = {"users": users, "epsilon": epsilon, "frequency": frequency}
    missing = [name for name, value in numbers.items() if value is None]
    if len(missing) > 1:
        raise ParameterError(f"{' and '.join(missing)} are missing; leave out one at most")

    def detects(steps: int) -> bool:
        question = Shares(**settings, **numbers, **_number(name, steps))
        return question.detectable(question.best()) <= question.frequency

    for name in missing:
        del numbers[name]
        if (steps := least_number(detects, MOST[name])) is None:
            raise ParameterError(
                "not even a value that everybody holds is detected"
                if name == "frequency"
                else f"not even {name} = {MOST[name] / STEPS[name]:g} would do"
            )
        numbers |= _number(name, steps)
    question = Shares(**settings, **numbers)
    mechanisms, refused = candidates(question)
    best = smallest_report(question, mechanisms, NEAR_BEST)
    return Plan(
        question=question,
        solved="".join(missing) or None,
        mechanism=best,
        forecasts=tuple(_forecast(question, way, best.name, fakes) for way in mechanisms),
        refused=refused,
        fakes=fakes,
    )


def _number(name: str, steps: int) -> dict[str, Any]:
    return {name: steps if name == "users" else steps / STEPS[name]}


def _forecast(question: Shares, mechanism: Mechanism, best: str, fakes: float) -> Forecast:
    users, variance = question.users, question.variance(mechanism)
    squares, move = question.frequency**2 + question.others_squared, mechanism.fakes_move(fakes)
    is_best = mechanism.name == best
    return Forecast(
        mechanism=mechanism.name,
        parameters=dict(registry_parameters(mechanism)),
        epsilon=mechanism.cost.epsilon,
        std_error_rare=math.sqrt(question.with_(frequency=0.0).variance(mechanism)),
        std_error=math.sqrt(variance),
        detectable_frequency=question.detectable(mechanism),
        bound_ratio=bound_ratio(mechanism, question.domain, users, squares),
        report_bytes=report_bytes(mechanism),
        table_cells=math.prod(mechanism.shape),
        fakes_move=move,
        fakes_error=math.hypot(math.sqrt(variance), users * move),
        believed=mechanism.channel.posterior(0.5),
        same_epsilon=question.epsilon if is_best else _same_epsilon(question, best, variance),
    )


def _same_epsilon(question: Shares, name: str, variance: float) -> float | None:
    """Return the least epsilon, in steps of 1/1000, at which mechanism `name` has this variance.
    Returns None if it is more than a fifth above the question's."""

    def holds(number: int) -> bool:
        changed = question.with_(epsilon=number / STEPS["epsilon"])
        try:
            return changed.variance(tune(changed, name)) <= variance
        except ParameterError:
            # too small an epsilon for it, or too large
            return False

    upper = math.ceil(question.epsilon * STEPS["epsilon"])
    most = min(MOST["epsilon"], math.ceil(1.2 * upper))
    while not holds(upper) and upper < most:
        upper = min(most, math.ceil(1.02 * upper))
    steps = least_number(holds, upper)
    return None if steps is None else steps / STEPS["epsilon"]


@dataclass(frozen=True, kw_only=True)
class PercentilePlan:
    """Plan for a percentile: forecasts of all ways, the recommended one first, and `means`:
    mechanisms of the mean alone, with its standard error, largest where no people are known.
    By category, `forecasts` are for a category with an equal part of the users, `parts` are those
    of the recommended way for other parts, and `users_needed` is the number of users from which an
    equal part is not hopeless, None where it is more than MOST_USERS."""

    question: Percentile
    forecasts: tuple[PercentileForecast, ...]
    means: dict[str, float]
    parts: tuple[PercentileForecast, ...] = ()
    users_needed: int | None = None

    @property
    def best(self) -> PercentileForecast:
        """The recommended way: the one with the shortest report among the shortest intervals."""
        return self.forecasts[0]

    def registry_lines(self) -> str:
        """Return the lines of metrics.toml that state the recommended mechanism."""
        return registry_lines(self.best.mechanism)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-ready data."""
        forecasts = [row.to_dict() for row in self.forecasts]
        answer = {"forecasts": forecasts, "means": self.means, "registry": self.registry_lines()}
        answer["planned_for"] = self.question.planned_for()
        if not self.parts:
            return answer
        parts = [row.to_dict() for row in self.parts]
        return {**answer, "parts": parts, "users_needed": self.users_needed}


def plan_percentile(*, q: float = 0.95, by: int = 1, **settings: Any) -> PercentilePlan:
    """Return what each way would say of the `q`-quantile of numbers, one report each; with `by`
    above 1, of the numbers of each of `by` categories. `settings`: other fields of the question
    (`Percentile`), such as `users`, `epsilon` and `bounds`.

    The numbers are those of `people`, about whom `like` says where they are from. Without people
    each way has those of the `cases` that give the longest interval. Raises ParameterError for a
    number out of range.
    """
    require_whole(by, "by", 1, MOST_COLUMNS)
    names = tuple(f"category {number}" for number in range(1, by + 1)) if by > 1 else ()
    question = Percentile(q=q, by=names, **settings)
    rows = ranked(question.forecast(way, tables=TABLES) for way in question.mechanisms())
    if not rows:
        raise ParameterError(f"{by:,} categories are too many for a report: take fewer")
    if by == 1:
        return PercentilePlan(question=question, forecasts=rows, means=_means(question))
    way, needed, best = rows[0].mechanism, question.users, rows[0]
    while best.is_hopeless and needed * MORE <= MOST_USERS:
        more = question.with_(users=(needed := needed * MORE))
        best = more.forecast(more.best(), tables=TABLES)
    return PercentilePlan(
        question=question,
        forecasts=rows,
        means={},
        parts=tuple(question.forecast(way, part, TABLES) for part in PARTS),
        users_needed=None if best.is_hopeless else needed,
    )


def _means(question: Percentile) -> dict[str, float]:
    """Return the standard errors of the mean of the question's people, without people the largest
    of any numbers."""
    if question.bounds is None:
        return {}
    names = ("users", "epsilon", "bounds", "people")
    mean = Mean(**{name: getattr(question, name) for name in names})
    return {mechanism.name: mean.std_error(mechanism) for mechanism in mean.mechanisms()}


def lower_bound(domain: int, epsilon: float) -> float:
    """Return the least mean over all `domain` values of the variance of their counts, for each
    report, that any unbiased mechanism has at a fixed population:

        min over w of (d-1)**2 (w x + d - w)**2 / (d**2 (x-1)**2 w (d-w)) - (d-1) / d**2,

    with x = e**epsilon and w a whole number. Subset selection of w values has it. Raises
    ParameterError for fewer than two values, and an epsilon that is not above 0.

    >>> round(lower_bound(2600, 4.0), 5)     # for many values 4 x / (x - 1)**2 = 0.07602
    0.07558
    """
    require_positive(epsilon, "epsilon")
    if not domain >= 2:
        raise ParameterError("domain must be two values or more")
    epsilon = min(float(epsilon), 700.0)  # e**710 is no double
    d, rest = domain, domain / math.expm1(epsilon)

    # the difference above without cancellation
    def at(w: int) -> float:
        return (d - 1) * ((d - 1) * rest * (2 * w + rest) + w * d * (w - 1)) / (d**2 * w * (d - w))

    near = int(d / (math.exp(epsilon) + 1))
    return min(at(w) for w in (near - 1, near, near + 1, near + 2) if 1 <= w < d)


def bound_ratio(mechanism: Mechanism, domain: int, reports: int = 1, squares: float = 0.0) -> float:
    """Return the mean variance of the counts of all `domain` values, divided by the least that any
    unbiased mechanism has at the epsilon of one report. `squares`: sum of the squared frequencies
    of all values, which matters to sketches alone. Raises ParameterError as `lower_bound`."""
    require_positive(reports, "reports")
    least = reports * lower_bound(domain, mechanism.cost.epsilon)
    others = squares * (domain - 1) / domain
    # it is linear in both
    mean = float(mechanism.variance(reports, 1 / domain, others))
    return mean / least
