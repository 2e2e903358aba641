"""Before anybody is asked for data: what each mechanism would see of it, at what price."""

from dataclasses import asdict, dataclass
from math import fsum
from typing import Any

from ldp.errors import ParameterError
from ldp.mechanisms import CountMeanSketch, Mechanism, RandomizedResponse
from ldp.wire import HEADER_BYTES

ROWS, WIDTH = 65_536, 1_024
MOST_CATEGORIES = 1_000_000
MOST_USERS = 10**15


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What one mechanism would deliver. Counts are in reports, one report a user.

    `detectable_frequency` is found with probability 1/2 when every value of the domain is tested
    (Bonferroni at `alpha`); `believed` is the most that a report can raise a belief of 50 %.
    """

    mechanism: str
    parameters: str
    epsilon: float
    std_error_rare: float
    std_error: float
    detectable_frequency: float
    report_bytes: int
    believed: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def forecasts(
    *, domain: int, users: int, epsilon: float, frequency: float = 0.0, alpha: float = 0.05
) -> list[Forecast]:
    """One forecast a mechanism, the most sensitive first.

    `domain`: number of possible values; `std_error` is that of a value held by `frequency` of the
    users. Sketch collisions are those of a population with Zipf frequencies 1, 1/2, 1/3, ...
    """
    if not 2 <= domain <= MOST_CATEGORIES:
        raise ParameterError(f"domain must be from 2 to {MOST_CATEGORIES} values")
    if not 1 <= users <= MOST_USERS:
        raise ParameterError(f"users must be from 1 to {MOST_USERS}")
    if not 0 <= frequency <= 1:
        raise ParameterError("frequency must lie in [0, 1]")
    total = fsum(1 / rank for rank in range(1, domain + 1))
    squares = fsum(1 / rank**2 for rank in range(1, domain + 1)) / total**2
    categories = tuple(map(str, range(domain)))
    options: list[tuple[Mechanism, str]] = [
        (RandomizedResponse(categories=categories, epsilon=epsilon), f"{domain} categories"),
        (
            CountMeanSketch(epsilon=epsilon, rows=ROWS, width=WIDTH, seed="00"),
            f"rows = {ROWS}, width = {WIDTH}",
        ),
    ]
    made = [
        Forecast(
            mechanism=mechanism.name,
            parameters=parameters,
            epsilon=mechanism.cost.epsilon,
            std_error_rare=mechanism.std_error(users, 0.0, squares),
            std_error=mechanism.std_error(users, frequency, squares),
            detectable_frequency=mechanism.detectable_frequency(
                users, alpha, domain, others_squared=squares
            ),
            report_bytes=HEADER_BYTES + mechanism.layout.body_bytes,
            believed=mechanism.channel.posterior(0.5),
        )
        for mechanism, parameters in options
    ]
    return sorted(made, key=lambda forecast: forecast.std_error_rare)
