"""Before anybody is asked for data: what each mechanism would see of it, at what price."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from ldp.errors import ParameterError
from ldp.mechanisms import (
    CountMeanSketch,
    HadamardCountMeanSketch,
    Mechanism,
    RandomizedResponse,
    UnaryEncoding,
)
from ldp.wire import HEADER_BYTES

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
    *,
    domain: int,
    users: int,
    epsilon: float,
    frequency: float = 0.0,
    alpha: float = 0.05,
    max_report_bytes: int | None = None,
) -> list[Forecast]:
    """One forecast a mechanism, the most sensitive first; none whose report has more bytes than
    `max_report_bytes`.

    `domain`: number of possible values; `std_error` is that of a value held by `frequency` of the
    users. Sketches have the sizes that Apple published; their collisions are those of a population
    with Zipf frequencies 1, 1/2, 1/3, ...
    """
    if not 2 <= domain <= MOST_CATEGORIES:
        raise ParameterError(f"domain must be from 2 to {MOST_CATEGORIES} values")
    if not 1 <= users <= MOST_USERS:
        raise ParameterError(f"users must be from 1 to {MOST_USERS}")
    if not 0 <= frequency <= 1:
        raise ParameterError("frequency must lie in [0, 1]")
    total = math.fsum(1 / rank for rank in range(1, domain + 1))
    squares = math.fsum(1 / rank**2 for rank in range(1, domain + 1)) / total**2
    categories = tuple(map(str, range(domain)))
    options: list[tuple[Mechanism, str]] = [
        (RandomizedResponse(categories=categories, epsilon=epsilon), f"{domain} categories"),
        (
            UnaryEncoding(categories=categories, epsilon=epsilon, variant="optimized"),
            f"{domain} categories, optimized",
        ),
        (
            CountMeanSketch(epsilon=epsilon, rows=65_536, width=1_024, seed="00"),
            "rows = 65536, width = 1024",
        ),
        (
            HadamardCountMeanSketch(epsilon=epsilon, rows=1_024, width=32_768, seed="00"),
            "rows = 1024, width = 32768",
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
    fitting = [one for one in made if one.report_bytes <= (max_report_bytes or math.inf)]
    if not fitting:
        raise ParameterError("no mechanism has reports that small")
    return sorted(fitting, key=lambda forecast: forecast.std_error_rare)
