"""The mechanisms that a plan chooses from, and how each is tuned to a question of shares.

`CANDIDATES` is a table: a line a mechanism. Variance and report size are those that the tuned
mechanism states itself.
"""

import dataclasses
import json
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from ldp.errors import ParameterError
from ldp.mechanisms import (
    CountMeanSketch,
    HadamardCountMeanSketch,
    LocalHashing,
    Mechanism,
    OneBitMean,
    Piecewise,
    PrivSet,
    ProjectiveGeometry,
    RandomizedResponse,
    Rappor,
    SubsetSelection,
    UnaryEncoding,
)
from ldp.mechanisms.addressing import Categories
from ldp.mechanisms.base import require_mechanism
from ldp.mechanisms.permanent_response import PermanentFilter
from ldp.mechanisms.projective_geometry import is_prime
from ldp.mechanisms.sketch import MAX_ROWS, MeanSketch
from ldp.protocol.channel import most_differing
from ldp.protocol.wire import HEADER_BYTES

if TYPE_CHECKING:
    from ldp.planning.values import Shares

Tuner = Callable[["Shares"], Iterable[Mechanism]]
MOST_CATEGORIES = 10**6
"""Most values that a list names for a mechanism that needs one."""

FLOOR_SHARE = 0.02
"""Largest floor of a sketch, as a part of the rest of its variance. Rows are added until then."""
LEAST_ROWS = 64
"""Smallest number of rows with which a mean sketch has p-values."""
MOST_CELLS = 1 << 28
"""Largest number of cells of a sketch's table: a gigabyte of counts."""
NEAR_VARIANT, NEAR_BEST = 1.01, 1.05
"""Largest variances, divided by the least among variants of a mechanism and among mechanisms, at
which the smallest report is taken: it costs at most 0.5 and 2.5 % of a standard error."""
SEED = "00"
"""Seed of candidates, of which the variance alone is used. A metric has another seed."""


def _randomized_response(question: "Shares") -> Iterable[Mechanism]:
    limit = 3 * math.exp(question.epsilon) + 2
    if question.domain >= limit:
        raise ParameterError(
            f"{question.domain:,} values are not fewer than 3 e**epsilon + 2 = {limit:,.4g}; "
            "others have less variance"
        )
    yield _of_list(question, RandomizedResponse)


def _unary(question: "Shares") -> Iterable[Mechanism]:
    for variant in ("symmetric", "optimized"):
        yield _of_list(question, UnaryEncoding, variant=variant, at_most=question.answers)


def _rappor(question: "Shares") -> Iterable[Mechanism]:
    """Yield one-time RAPPOR: the permanent response alone, with epsilon 2 ln((1 - f/2) / (f/2)),
    or, for sets of answers, the epsilon of all bits in which two sets can differ."""
    if question.domain > PermanentFilter.most_bits:
        raise ParameterError(f"it has {PermanentFilter.most_bits:,} bits at most")
    differing = sum(most_differing(question.answers or 1, question.domain))
    f = math.nextafter(2 / (math.exp(question.epsilon / differing) + 1), 1)
    shared: Any = {"categories": question.categories, "at_most": question.answers}
    while (way := Rappor(scheme="identity", f=f, p=0.0, q=1.0, **shared)).cost.epsilon > (
        question.epsilon
    ):
        f *= 1 + 1e-15
    yield way


def _subset_selection(question: "Shares") -> Iterable[Mechanism]:
    """Yield sizes from the one with the least total error to one that is as good for each value."""
    for power in (1.0, 0.75, 0.5):
        size = max(1, round(question.domain / (math.exp(power * question.epsilon) + 1)))
        yield _of_list(question, SubsetSelection, size=size)


def _projective_geometry(question: "Shares") -> Iterable[Mechanism]:
    """Yield the field with the least variance for rare values, and the one that hashing has."""
    yield _of_list(question, ProjectiveGeometry)
    field = _buckets(question)
    while not is_prime(field):
        field += 1
    # of a space too large for a server
    with suppress(ParameterError):
        yield _of_list(question, ProjectiveGeometry, field=field)


def _buckets(question: "Shares") -> int:
    """Return the number of buckets with the least variance at the question's frequency, floor
    apart. The variance has one minimum, at most at e**epsilon + 1."""

    def noise(buckets: int) -> float:
        sketch = LocalHashing(epsilon=question.epsilon, rows=LEAST_ROWS, buckets=buckets, seed=SEED)
        return float(sketch.variance(question.users, question.frequency))

    most = min(MOST_CELLS // LEAST_ROWS, math.ceil(math.exp(question.epsilon)) + 2)
    numbers = range(2, most)
    return 2 + bisect_left(numbers, True, key=lambda number: noise(number) <= noise(number + 1))


def _of_list(question: "Shares", mechanism: Any, **parameters: Any) -> Mechanism:
    return _once(mechanism, question.domain, question.epsilon, **parameters)


@lru_cache(maxsize=256)
def _once(mechanism: Any, domain: int, epsilon: float, **parameters: Any) -> Mechanism:
    way: Mechanism = mechanism(categories=category_names(domain), epsilon=epsilon, **parameters)
    return way


def _with_rows(question: "Shares", sketch: type[MeanSketch], **columns: int) -> Mechanism:
    """Return the sketch with as many rows as `FLOOR_SHARE` needs, a power of two, at most as many
    as a table and a report can have."""

    def make(rows: int) -> MeanSketch:
        return sketch(epsilon=question.epsilon, rows=rows, seed=SEED, **columns)

    single = make(1)
    noise = single.variance(question.users, question.frequency)
    shared = single.variance(question.users, question.frequency, question.others_squared) - noise
    needed = math.ceil(shared / (FLOOR_SHARE * noise))
    limit = min(MAX_ROWS, MOST_CELLS // single.columns)
    rows = max(LEAST_ROWS, min(1 << (needed - 1).bit_length(), limit))
    while rows > LEAST_ROWS and not question.fits(make(rows)):
        rows //= 2
    return make(rows)


OF_NUMBERS = {kind.name: kind for kind in (OneBitMean, Piecewise)}
"""Mechanisms of a mean, by name."""
CANDIDATES: dict[str, Tuner] = {
    "rr": _randomized_response,
    "unary": _unary,
    "rappor": _rappor,
    "cms": lambda ask: [_with_rows(ask, CountMeanSketch, width=1 << i) for i in range(4, 15)],
    "hcms": lambda ask: [
        _with_rows(ask, HadamardCountMeanSketch, width=1 << i) for i in range(4, 17)
    ],
    "local-hashing": lambda ask: [_with_rows(ask, LocalHashing, buckets=_buckets(ask))],
    "subset": _subset_selection,
    "pgr": _projective_geometry,
}
"""Name -> function that yields the variants to choose from, or raises ParameterError with the
reason why there are none. A mechanism is one line."""
OF_SETS: dict[str, Tuner] = {
    "privset": lambda ask: [_of_list(ask, PrivSet, at_most=ask.answers)],
    "unary": _unary,
    "rappor": _rappor,
}
"""Candidates where a value is a set of answers, as CANDIDATES has them."""


def candidate_table(question: "Shares") -> dict[str, Tuner]:
    """Return CANDIDATES, or OF_SETS for a question of several answers."""
    return OF_SETS if question.answers else CANDIDATES


@lru_cache(maxsize=1024)
def tune(question: "Shares", name: str) -> Mechanism:
    """Return the variant of mechanism `name` for the question. Raises ParameterError with the
    reason if there is none."""
    variants = list(candidate_table(question)[name](question))
    fitting = [variant for variant in variants if question.fits(variant)]
    if not fitting:
        raise ParameterError(f"its reports have {min(map(report_bytes, variants)):,} bytes or more")
    return smallest_report(question, fitting, NEAR_VARIANT)


def smallest_report(question: "Shares", mechanisms: Sequence[Mechanism], near: float) -> Mechanism:
    """Return the mechanism with the smallest report among those whose variance is at most `near`
    times the least. Returns the one with the smallest table if there are several."""
    most = near * min(map(question.variance, mechanisms))
    accurate = [mechanism for mechanism in mechanisms if question.variance(mechanism) <= most]
    return min(accurate, key=lambda way: (report_bytes(way), math.prod(way.shape)))


def candidates(question: "Shares") -> tuple[list[Mechanism], dict[str, str]]:
    """Return the mechanisms tuned to the question, the most accurate at its frequency first, and
    the reasons why the others are refused, by name. Raises ParameterError if all are."""
    tuned_mechanisms, refused = list[Mechanism](), dict[str, str]()
    for name in candidate_table(question):
        try:
            tuned_mechanisms.append(tune(question, name))
        except ParameterError as reason:
            refused[name] = str(reason)
    if not tuned_mechanisms:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
        raise ParameterError(f"no mechanism is left ({reasons})")
    return sorted(tuned_mechanisms, key=question.variance), refused


def report_bytes(mechanism: Mechanism) -> int:
    """Return the bytes of a whole report, header included."""
    return HEADER_BYTES + int(require_mechanism(mechanism).layout.body_bytes)


def registry_parameters(mechanism: Mechanism) -> Iterable[tuple[str, Any]]:
    """Yield name and value of the parameters in metrics.toml, except categories and seed."""
    defaults = {field.name: field.default for field in dataclasses.fields(mechanism)}
    for name, value in mechanism.parameters().items():
        if name not in ("seed", "categories") and value != defaults.get(name):
            yield name, value


def registry_lines(mechanism: Mechanism) -> str:
    """Return the lines of metrics.toml that state the mechanism, except its categories."""
    parameters = registry_parameters(mechanism)
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in parameters)


@cache
def zipf_squares(values: int) -> float:
    """Return the sum of the squared frequencies of `values` values, in proportion to 1, 1/2, ...,
    to eight digits: beyond the first thousand, integrals by the midpoint rule replace sums."""
    listed = range(1, min(values, 1000) + 1)
    first, last = listed[-1] + 0.5, values + 0.5
    total = math.fsum(1 / rank for rank in listed) + math.log(last / first)
    return (math.fsum(1 / rank**2 for rank in listed) + 1 / first - 1 / last) / total**2


@cache
def category_names(domain: int) -> Categories:
    """Return `domain` names, which are shared. Raises ParameterError for more than
    MOST_CATEGORIES."""
    if domain > MOST_CATEGORIES:
        raise ParameterError(f"it needs a list, and {domain:,} values are too many for one")
    return Categories(map(str, range(domain)))
