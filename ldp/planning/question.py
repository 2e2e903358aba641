"""The question that a plan answers, and the bound on the error of any mechanism.

Source of the bound: Ye and Barg 2018, section IV (subset selection attains it for the sum of
squared errors over all values).
"""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from ldp.errors import ParameterError
from ldp.mechanisms import Mechanism
from ldp.mechanisms.addressing import require_at_most, require_categories
from ldp.protocol.channel import require_epsilon
from ldp.protocol.wire import HEADER_BYTES

MOST_VALUES, MOST_CATEGORIES = 10**9, 10**6
"""Most values of a question, and most that a list names for a mechanism that needs one."""
MOST_USERS = 10**15


@dataclass(frozen=True, kw_only=True)
class Question:
    """The error of a count of one value, when `users` people hold one of `domain` values each and
    send one report of `epsilon`; a share `frequency` of them holds the value.

    With `answers` everybody may hold several values, up to so many, and a report is of the whole
    set; None is one value each. The others hold the other values with Zipf frequencies (1, 1/2,
    1/3, ... of what is left), which matters to sketches alone. Every value is tested one-sided at
    `alpha` / `domain` (Bonferroni), and a value is *detectable* when it is found with probability
    `power`. Raises ParameterError for a number out of range.
    """

    domain: int
    users: int
    epsilon: float
    frequency: float
    alpha: float = 0.05
    power: float = 0.5
    max_report_bytes: int | None = None
    answers: int | None = None

    def __post_init__(self) -> None:
        if type(self.domain) is not int or not 2 <= self.domain <= MOST_VALUES:
            raise ParameterError(f"domain must be from 2 to {MOST_VALUES:,} values")
        if type(self.users) is not int or not 1 <= self.users <= MOST_USERS:
            raise ParameterError(f"users must be from 1 to {MOST_USERS}")
        if not 0 <= self.frequency <= 1:
            raise ParameterError("frequency must lie in [0, 1]")
        if not 0 < self.alpha < 1 or not 0 < self.power < 1:
            raise ParameterError("alpha and power must lie strictly between 0 and 1")
        require_at_most(self.answers, self.domain, "answers")
        object.__setattr__(self, "epsilon", require_epsilon(self.epsilon))

    @property
    def categories(self) -> tuple[str, ...]:
        """Names of the values: "0", "1", ..."""
        return category_names(self.domain)

    @cached_property
    def others_squared(self) -> float:
        """Sum of the squared frequencies of the other values."""
        return (1 - self.frequency) ** 2 * zipf_squares(self.domain - 1)

    def with_(self, **changes: Any) -> "Question":
        """Return the question with `changes`, fields by name."""
        return dataclasses.replace(self, **changes)

    def variance(self, mechanism: Mechanism) -> float:
        """Return the variance of the estimated count of the value, in reports squared."""
        return float(mechanism.variance(self.users, self.frequency, self.others_squared))

    def fits(self, mechanism: Mechanism) -> bool:
        """Return whether a report has at most `max_report_bytes`."""
        return report_bytes(mechanism) <= (self.max_report_bytes or math.inf)


def lower_bound(domain: int, epsilon: float) -> float:
    """Return the least mean over all `domain` values of the variance of their counts, for each
    report, that any unbiased mechanism has at a fixed population:

        min over w of (d-1)**2 (w x + d - w)**2 / (d**2 (x-1)**2 w (d-w)) - (d-1) / d**2,

    with x = e**epsilon and w a whole number; subset selection of w values has it.

    >>> round(lower_bound(2600, 4.0), 5)     # for many values 4 x / (x - 1)**2 = 0.07602
    0.07558
    """
    d, rest = domain, domain / math.expm1(epsilon)

    def at(w: int) -> float:  # the difference above without cancellation
        return (d - 1) * ((d - 1) * rest * (2 * w + rest) + w * d * (w - 1)) / (d**2 * w * (d - w))

    near = int(d / (math.exp(epsilon) + 1))
    return min(at(w) for w in (near - 1, near, near + 1, near + 2) if 1 <= w < d)


def bound_ratio(mechanism: Mechanism, domain: int, reports: int = 1, squares: float = 0.0) -> float:
    """Return the mean over all `domain` values of the variance of their counts, over the least that
    any unbiased mechanism has at the epsilon of one report. `squares`: sum of the squared
    frequencies of all values, which matters to sketches alone."""
    others = squares * (domain - 1) / domain
    mean = float(mechanism.variance(reports, 1 / domain, others))  # it is linear in both
    return mean / (reports * lower_bound(domain, mechanism.cost.epsilon))


def report_bytes(mechanism: Mechanism) -> int:
    """Return the bytes of a whole report, header included."""
    return HEADER_BYTES + mechanism.layout.body_bytes


def registry_parameters(mechanism: Mechanism) -> Iterable[tuple[str, Any]]:
    """Yield name and value of the parameters that metrics.toml states, but categories and seed."""
    yield "mechanism", mechanism.name
    for field in dataclasses.fields(mechanism):
        value = getattr(mechanism, field.name)
        if field.name not in ("seed", "categories") and value != field.default:
            yield field.name, value


@cache
def zipf_squares(values: int) -> float:
    """Return the sum of the squared frequencies of `values` values, 1, 1/2, 1/3, ... of all: beyond
    the first thousand by the midpoints of the sums' integrals, to eight digits."""
    listed = range(1, min(values, 1000) + 1)
    first, last = listed[-1] + 0.5, values + 0.5
    total = math.fsum(1 / rank for rank in listed) + math.log(last / first)
    return (math.fsum(1 / rank**2 for rank in listed) + 1 / first - 1 / last) / total**2


@cache
def category_names(domain: int) -> tuple[str, ...]:
    """Return `domain` names; the tuple is checked once and shared. Raises ParameterError for more
    than MOST_CATEGORIES."""
    if domain > MOST_CATEGORIES:
        raise ParameterError(f"it needs a list, and {domain:,} values are too many for one")
    return require_categories(tuple(map(str, range(domain))))
