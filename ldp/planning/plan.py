"""Before anybody is asked for data: what each mechanism would see of it, at what price.

`CANDIDATES` is a table: how each mechanism of the catalogue is tuned to a question. What is said
of a tuned mechanism are its own statements: variance, detectable frequency, layout, channel.
Source of the bound: Ye and Barg 2018, section IV (subset selection attains it for the sum of
squared errors over all values).
"""

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, cached_property, lru_cache
from typing import Any

from ldp.errors import ParameterError
from ldp.mechanisms import (
    CountMeanSketch,
    HadamardCountMeanSketch,
    LocalHashing,
    Mechanism,
    ProjectiveGeometry,
    RandomizedResponse,
    Rappor,
    SubsetSelection,
    UnaryEncoding,
)
from ldp.mechanisms.categorical import Categorical, require_categories
from ldp.mechanisms.permanent_response import Permanent
from ldp.mechanisms.projective_geometry import is_prime
from ldp.mechanisms.sketch import MAX_ROWS, MeanSketch
from ldp.protocol.channel import MAX_EPSILON, require_epsilon
from ldp.protocol.wire import HEADER_BYTES

MOST_CATEGORIES = 1_000_000
MOST_USERS = 10**15
FLOOR_SHARE = 0.02
"""Rows are added to a sketch until its floor is at most this part of the rest of its variance."""
LEAST_ROWS = 64
"""With fewer a mean sketch has no p-values."""
MOST_CELLS = 1 << 28
"""Of a sketch's table: a gigabyte of counts."""
NEAR_VARIANT, NEAR_BEST = 1.01, 1.05
"""Of variants of a mechanism, and of mechanisms, whose variances are that near the least, the one
with the smallest report is taken: at most 0.5 and 2.5 % of a standard error are given for it."""
SEED = "00"
"""Of mechanisms that are only asked for their variance; a metric has a seed of its own."""

STEPS = {"users": 1, "epsilon": 1_000, "frequency": 10**8}
"""What may be missing from a question, and into how many steps its unit is divided to answer."""
MOST = {"users": MOST_USERS, "epsilon": int(MAX_EPSILON) * 1_000, "frequency": 10**8}
"""The largest answer, in steps."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """`users` people hold one of `domain` values each, and send one report of `epsilon`; how well
    is the count of a value known that a share `frequency` of them holds?

    The others hold the other values with Zipf frequencies (1, 1/2, 1/3, ... of what is left), which
    matters to sketches alone. Every value is tested one-sided at `alpha` / `domain` (Bonferroni),
    and a value is *detectable* when it is found with probability `power`.
    """

    domain: int
    users: int
    epsilon: float
    frequency: float
    alpha: float = 0.05
    power: float = 0.5
    max_report_bytes: int | None = None

    def __post_init__(self) -> None:
        if type(self.domain) is not int or not 2 <= self.domain <= MOST_CATEGORIES:
            raise ParameterError(f"domain must be from 2 to {MOST_CATEGORIES} values")
        if type(self.users) is not int or not 1 <= self.users <= MOST_USERS:
            raise ParameterError(f"users must be from 1 to {MOST_USERS}")
        if not 0 <= self.frequency <= 1:
            raise ParameterError("frequency must lie in [0, 1]")
        if not 0 < self.alpha < 1 or not 0 < self.power < 1:
            raise ParameterError("alpha and power must lie strictly between 0 and 1")
        object.__setattr__(self, "epsilon", require_epsilon(self.epsilon))

    @property
    def categories(self) -> tuple[str, ...]:
        return _categories(self.domain)

    @cached_property
    def others_squared(self) -> float:
        """Sum of the squared frequencies of the other values."""
        return (1 - self.frequency) ** 2 * zipf_squares(self.domain - 1)

    def with_(self, **changes: Any) -> "Question":
        return dataclasses.replace(self, **changes)

    def variance(self, mechanism: Mechanism) -> float:
        """Of the estimated count of the value, in reports squared."""
        return float(mechanism.variance(self.users, self.frequency, self.others_squared))

    def fits(self, mechanism: Mechanism) -> bool:
        return report_bytes(mechanism) <= (self.max_report_bytes or math.inf)


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What one mechanism would deliver. Counts are in reports, one report a user.

    `std_error`: of the question's value, `std_error_rare`: of one that nobody holds;
    `bound_ratio`: mean variance over all values, above the least that any unbiased mechanism has;
    `fakes_move`: the frequency by which 1 % of the users can raise a value of their choice in the
    estimate; `believed`: the most that a report can raise a belief of 50 %; `same_epsilon`: what
    the mechanism named needs for this `std_error`, None if that is far more than asked for.
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
    believed: float
    same_epsilon: float | None

    @property
    def detectable(self) -> bool:
        return self.detectable_frequency <= 1


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The answer to a question. `mechanism`: the one named, `forecasts`: of all, by standard error,
    least first; `refused`: why the others are not among them; `solved`: what was missing from the
    question, which now holds it."""

    question: Question
    solved: str | None
    mechanism: Mechanism
    forecasts: tuple[Forecast, ...]
    refused: dict[str, str]

    @property
    def best(self) -> Forecast:
        """Of the mechanism named."""
        return next(one for one in self.forecasts if one.mechanism == self.mechanism.name)

    def registry_lines(self) -> str:
        """The part of a metric in metrics.toml that is the mechanism named."""
        best = self.mechanism
        lines = [f"{name} = {json.dumps(value)}" for name, value in registry_parameters(best)]
        if "categories" in best.parameters():
            lines.append('categories = "values.txt"')
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """For JSON, which knows no infinity: a frequency that is never detected is None."""
        rows = [asdict(one) for one in self.forecasts]
        for row, forecast in zip(rows, self.forecasts, strict=True):
            row["detectable_frequency"] = (
                row["detectable_frequency"] if forecast.detectable else None
            )
        return {
            "question": asdict(self.question),
            "solved": self.solved,
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
) -> Plan:
    """Every mechanism tuned to the question (`Question`), the most accurate first.

    At most one of `users`, `epsilon`, `frequency` may be missing. It is found by bisection: the
    smallest number of `STEPS` at which the mechanism named detects a value of `frequency`, while
    with one step less it does not. Raises ParameterError where not even the largest
    number would do, or no mechanism has reports of at most `max_report_bytes`.
    """
    given: dict[str, Any] = {"users": users, "epsilon": epsilon, "frequency": frequency}
    missing = [name for name, value in given.items() if value is None]
    if len(missing) > 1:
        raise ParameterError(f"{' and '.join(missing)} are missing; leave out one of them at most")
    shared: dict[str, Any] = {
        "domain": domain,
        "alpha": alpha,
        "power": power,
        "max_report_bytes": max_report_bytes,
    }
    if not missing:
        return _answered(Question(**shared, **given), None)
    (name,) = missing

    def question(steps: int) -> Question:
        value = steps if name == "users" else steps / STEPS[name]
        return Question(**shared, **{**given, name: value})

    steps = least(lambda steps: _detects(question(steps)), MOST[name])
    if steps is None:
        raise ParameterError(
            "not even a value that everybody holds is detected"
            if name == "frequency"
            else f"not even {name} = {MOST[name] / STEPS[name]:g} would do"
        )
    return _answered(question(steps), name)


def least(holds: Callable[[int], bool], most: int) -> int | None:
    """The smallest number from 1 to `most` for which `holds`, taken to be monotone; None if it does
    not hold for `most`. What is returned holds, and one less does not."""
    low, high = 0, 1
    while not holds(high):
        if high >= most:
            return None
        low, high = high, min(most, 4 * high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def lower_bound(domain: int, epsilon: float) -> float:
    """The least mean over all `domain` values of the variance of their counts, for each report,
    that any unbiased mechanism has at a fixed population:

        min over w of (d-1)**2 (w x + d - w)**2 / (d**2 (x-1)**2 w (d-w)) - (d-1) / d**2,

    with x = e**epsilon and w a whole number; subset selection of w values has it.

    >>> round(lower_bound(2600, 4.0), 5)     # for many values 4 x / (x - 1)**2 = 0.07602
    0.07558
    """
    d, x = domain, math.exp(epsilon)

    def at(w: int) -> float:
        shown = (w * x + d - w) / (x - 1)
        return (d - 1) ** 2 * shown**2 / (d**2 * w * (d - w)) - (d - 1) / d**2

    near = int(d / (x + 1))
    return min(at(w) for w in (near - 1, near, near + 1, near + 2) if 1 <= w < d)


def report_bytes(mechanism: Mechanism) -> int:
    """Of a whole report, header included."""
    return HEADER_BYTES + mechanism.layout.body_bytes


def registry_parameters(mechanism: Mechanism) -> Iterable[tuple[str, Any]]:
    """What metrics.toml has to say of a mechanism beside its categories and its seed."""
    yield "mechanism", mechanism.name
    for field in dataclasses.fields(mechanism):
        value = getattr(mechanism, field.name)
        if field.name not in ("seed", "categories") and value != field.default:
            yield field.name, value


@cache
def zipf_squares(values: int) -> float:
    """Sum of the squared frequencies of so many values with frequencies 1, 1/2, 1/3, ... of all."""
    total = math.fsum(1 / rank for rank in range(1, values + 1))
    return math.fsum(1 / rank**2 for rank in range(1, values + 1)) / total**2


# --- the candidates, and how each is tuned ---------------------------------------------------


def _randomized_response(ask: Question) -> Iterable[Mechanism]:
    limit = 3 * math.exp(ask.epsilon) + 2
    if ask.domain >= limit:
        raise ParameterError(
            f"{ask.domain:,} values are not fewer than 3 e**epsilon + 2 = {limit:,.4g}; a report "
            "would hardly ever be true, and others have less variance"
        )
    yield _categorical(RandomizedResponse, ask.domain, ask.epsilon)


def _unary(ask: Question) -> Iterable[Mechanism]:
    for variant in ("symmetric", "optimized"):
        yield _categorical(UnaryEncoding, ask.domain, ask.epsilon, variant=variant)


def _rappor(ask: Question) -> Iterable[Mechanism]:
    """Basic one-time RAPPOR: its permanent response alone, epsilon 2 ln((1 - f/2) / (f/2))."""
    if ask.domain > Permanent.most_bits:
        raise ParameterError(f"it has {Permanent.most_bits:,} bits at most")
    f = math.nextafter(2 / (math.exp(ask.epsilon / 2) + 1), 1)
    while True:
        made = Rappor(scheme="identity", categories=ask.categories, f=f, p=0.0, q=1.0)
        if made.cost.epsilon <= ask.epsilon:
            break
        f *= 1 + 1e-15
    yield made


def _count_mean_sketch(ask: Question) -> Iterable[Mechanism]:
    for power in range(4, 15):
        yield _with_rows(ask, CountMeanSketch, width=1 << power)


def _hadamard(ask: Question) -> Iterable[Mechanism]:
    for power in range(4, 17):
        yield _with_rows(ask, HadamardCountMeanSketch, width=1 << power)


def _local_hashing(ask: Question) -> Iterable[Mechanism]:
    yield _with_rows(ask, LocalHashing, buckets=_buckets(ask))


def _subset_selection(ask: Question) -> Iterable[Mechanism]:
    """From the size with the least total error to the one that tells all values alike well."""
    for power in (1.0, 0.75, 0.5):
        size = max(1, round(ask.domain / (math.exp(power * ask.epsilon) + 1)))
        yield _categorical(SubsetSelection, ask.domain, ask.epsilon, size=size)


def _projective_geometry(ask: Question) -> Iterable[Mechanism]:
    """The field with the least variance for rare values, and what hashing would take there."""
    yield _categorical(ProjectiveGeometry, ask.domain, ask.epsilon)
    field = _buckets(ask)
    while not is_prime(field):
        field += 1
    with suppress(ParameterError):  # of a space too large for a server
        yield _categorical(ProjectiveGeometry, ask.domain, ask.epsilon, field=field)


def _buckets(ask: Question) -> int:
    """The number of buckets with the least variance at the question's frequency, floor apart; it
    has one minimum, at most at e**epsilon + 1."""

    @cache
    def noise(buckets: int) -> float:
        made = LocalHashing(epsilon=ask.epsilon, rows=LEAST_ROWS, buckets=buckets, seed=SEED)
        return float(made.variance(ask.users, ask.frequency))

    low, high = 2, min(MOST_CELLS // LEAST_ROWS, math.ceil(math.exp(ask.epsilon)) + 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if noise(middle) <= noise(middle + 1) else (middle + 1, high)
    return low


@lru_cache(maxsize=256)
def _categorical(
    mechanism: type[Categorical], domain: int, epsilon: float, **parameters: Any
) -> Categorical:
    return mechanism(categories=_categories(domain), epsilon=epsilon, **parameters)


def _with_rows(ask: Question, sketch: type[MeanSketch], **columns: int) -> Mechanism:
    """The sketch with as many rows as `FLOOR_SHARE` asks for, a power of two, as far as there is
    room in a table and in a report."""

    def make(rows: int) -> MeanSketch:
        return sketch(epsilon=ask.epsilon, rows=rows, seed=SEED, **columns)

    one = make(1)
    noise = one.variance(ask.users, ask.frequency)
    shared = one.variance(ask.users, ask.frequency, ask.others_squared) - noise
    wanted = math.ceil(shared / (FLOOR_SHARE * noise))
    room = min(MAX_ROWS, MOST_CELLS // one.columns)
    rows = max(LEAST_ROWS, min(1 << (wanted - 1).bit_length(), room))
    while rows > LEAST_ROWS and not ask.fits(make(rows)):
        rows //= 2
    return make(rows)


CANDIDATES: dict[str, Callable[[Question], Iterable[Mechanism]]] = {
    "rr": _randomized_response,
    "unary": _unary,
    "rappor": _rappor,
    "cms": _count_mean_sketch,
    "hcms": _hadamard,
    "local-hashing": _local_hashing,
    "subset": _subset_selection,
    "pgr": _projective_geometry,
}
"""Name -> the variants to choose from; a line is a mechanism's place in the planner. A reason to
refuse the question is a ParameterError."""


def tuned(ask: Question, name: str) -> Mechanism:
    """The variant for the question; raises ParameterError with the reason if there is none."""
    variants = list(CANDIDATES[name](ask))
    fitting = [one for one in variants if ask.fits(one)]
    if not fitting:
        raise ParameterError(f"its reports have {min(map(report_bytes, variants)):,} bytes or more")
    return cheapest(ask, fitting, NEAR_VARIANT)


def cheapest(ask: Question, found: Sequence[Mechanism], near: float) -> Mechanism:
    """Of the mechanisms whose variance is at most `near` times the least, the one with the smallest
    report; of several, with the smallest table."""
    most = near * min(map(ask.variance, found))
    accurate = [one for one in found if ask.variance(one) <= most]
    return min(accurate, key=lambda one: (report_bytes(one), math.prod(one.shape)))


def candidates(ask: Question) -> tuple[list[Mechanism], dict[str, str]]:
    """All mechanisms tuned to the question, the most accurate at its frequency first, and why the
    others are refused; ParameterError if all are."""
    found, refused = list[Mechanism](), dict[str, str]()
    for name in CANDIDATES:
        try:
            found.append(tuned(ask, name))
        except ParameterError as reason:
            refused[name] = str(reason)
    if not found:
        raise ParameterError("no mechanism has reports that small")
    return sorted(found, key=ask.variance), refused


def named(ask: Question) -> Mechanism:
    """The mechanism that a plan names for the question."""
    return cheapest(ask, candidates(ask)[0], NEAR_BEST)


# --- answers ---------------------------------------------------------------------------------


def _detects(ask: Question) -> bool:
    return _detectable(ask, named(ask)) <= ask.frequency


def _detectable(ask: Question, mechanism: Mechanism) -> float:
    return mechanism.detectable_frequency(
        ask.users, ask.alpha, ask.domain, ask.power, ask.others_squared
    )


def _answered(ask: Question, solved: str | None) -> Plan:
    found, refused = candidates(ask)
    best = cheapest(ask, found, NEAR_BEST)
    return Plan(
        question=ask,
        solved=solved,
        mechanism=best,
        forecasts=tuple(_forecast(ask, one, best.name) for one in found),
        refused=refused,
    )


def _forecast(ask: Question, mechanism: Mechanism, best: str) -> Forecast:
    n, d = ask.users, ask.domain
    rare = ask.with_(frequency=0.0)
    squares = ask.frequency**2 + ask.others_squared
    mean = float(mechanism.variance(n, 1 / d, squares * (d - 1) / d))  # it is linear in both
    return Forecast(
        mechanism=mechanism.name,
        parameters=dict(registry_parameters(mechanism)),
        epsilon=mechanism.cost.epsilon,
        std_error_rare=math.sqrt(rare.variance(mechanism)),
        std_error=math.sqrt(ask.variance(mechanism)),
        detectable_frequency=_detectable(ask, mechanism),
        bound_ratio=mean / (n * lower_bound(d, mechanism.cost.epsilon)),
        report_bytes=report_bytes(mechanism),
        table_cells=math.prod(mechanism.shape),
        fakes_move=mechanism.fakes_move(),
        believed=mechanism.channel.posterior(0.5),
        same_epsilon=ask.epsilon
        if mechanism.name == best
        else _same_epsilon(ask, best, ask.variance(mechanism)),
    )


def _same_epsilon(ask: Question, name: str, variance: float) -> float | None:
    """The least epsilon, in steps of 1/1000, at which the mechanism has this variance; None if it
    takes a fifth more than the question's."""

    def holds(steps: int) -> bool:
        question = ask.with_(epsilon=steps / STEPS["epsilon"])
        try:
            return question.variance(tuned(question, name)) <= variance
        except ParameterError:  # too small an epsilon for it, or too large
            return False

    enough = math.ceil(ask.epsilon * STEPS["epsilon"])
    most = min(MOST["epsilon"], math.ceil(1.2 * enough))
    while not holds(enough) and enough < most:
        enough = min(most, math.ceil(1.02 * enough))
    found = least(holds, enough)
    return None if found is None else found / STEPS["epsilon"]


@cache
def _categories(domain: int) -> tuple[str, ...]:
    return require_categories(tuple(map(str, range(domain))))
