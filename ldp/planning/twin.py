"""Central twin of a metric: what a trusted curator would have said, beside the local estimate.

Neighbours differ in the value of one person, as in the local model, so the number of people is
public. The curator's release is one of the data, and costs what it states.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ldp.accounting import Cost, Neighbours
from ldp.central import (
    Histogram,
    Mean,
    Noise,
    noisy_histogram,
    noisy_mean,
    noisy_strings,
    percentile,
)
from ldp.decoding import decode
from ldp.decoding.by_category import decode_by_category
from ldp.decoding.distribution import (
    QUANTILES,
    Distribution,
    decode_distribution,
    std_error_of_ends,
)
from ldp.decoding.numeric import decode_mean
from ldp.errors import LdpError, ParameterError
from ldp.mechanisms.addressing import CellSets, Identity
from ldp.mechanisms.bit_flip import BitFlip
from ldp.mechanisms.hierarchical_histogram import HierarchicalHistogram
from ldp.mechanisms.joint_report import JointReport
from ldp.mechanisms.moments import RegressionMoments
from ldp.mechanisms.numeric import Numeric
from ldp.registry import Metric
from ldp.simulation import Population, draw_tables
from ldp.simulation.reports import limited
from ldp.tables.joint_table import JointTable
from ldp.tables.table import Table

REPLACE = Neighbours.REPLACE_VALUE
WORDS = "words"
"""Part of a report on words that tells of whole words."""


class Answer(NamedTuple):
    """One model's answer: `estimate`, its standard error, and the ends of its interval."""

    estimate: float
    std_error: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Line:
    """One value, or the mean, as the curator and as the reports tell it; `local` is None where the
    reports cannot be asked for it."""

    value: str
    central: Answer
    local: Answer | None


@dataclass(frozen=True, kw_only=True)
class Twin:
    """Both answers to one metric. `kind`: "mean", "percentiles", "histogram" or "strings";
    `threshold`: of strings, the least noisy count that is released; `no_local`: why there is no
    local answer."""

    kind: str
    lines: tuple[Line, ...]
    people: int
    cost: Cost
    level: float
    threshold: int | None
    is_simulation: bool
    no_local: str

    @classmethod
    def of(
        cls,
        kind: str,
        lines: Iterable[Line],
        people: int,
        release: Histogram | Mean,
        level: float,
        no_local: str = "",
    ) -> "Twin":
        """Return the twin with these `lines`, whose curator's answers are of one `release`."""
        return cls(
            kind=kind,
            lines=tuple(lines),
            people=people,
            cost=release.cost,
            level=level,
            threshold=release.threshold if isinstance(release, Histogram) else None,
            is_simulation=release.is_simulation,
            no_local=no_local,
        )


def central_twin(
    metric: Metric,
    people: Population,
    table: Table | JointTable | None,
    *,
    epsilon: float,
    delta: float,
    level: float,
    noise: Noise,
    generator: np.random.Generator,
    quantiles: tuple[float, ...] = (),
) -> Twin:
    """Return what a curator says of `people` and what `table`, of their reports, says; without one
    their reports are drawn with `generator`.

    Numbers have a mean, or `quantiles` where the metric has them (QUANTILES unless told), values
    from a list a histogram, and others are strings above a threshold, at (epsilon, delta). Of sets
    of answers the curator too counts at most `at_most` of a person.
    Raises ParameterError for a metric of tuples, for quantiles of one that has none, for values
    that the metric does not take, and for a population without counts.
    """
    mechanism: Any = metric.mechanism
    if isinstance(mechanism, RegressionMoments | JointReport):
        raise ParameterError(
            f"metric {metric.name!r} is about tuples: name one of its members; a regression is "
            "released by ldp regress"
        )
    if quantiles and not isinstance(mechanism, HierarchicalHistogram):
        raise ParameterError(f"metric {metric.name!r} has no percentiles")
    if people.counts is None:
        raise ParameterError("the data are frequencies: a curator counts people, value,count")
    for value in people.values:
        mechanism.check(value)
    if table is None:
        table = draw_tables(mechanism, people.values, people.counts, generator)
    if table.mechanism.fingerprint != mechanism.fingerprint:
        raise ParameterError(f"the table is not of the metric {metric.name!r} as it is now")
    if isinstance(mechanism, Numeric):
        return _mean(mechanism, people, table, epsilon, level, noise)
    if isinstance(mechanism, HierarchicalHistogram):
        quantiles = quantiles or QUANTILES
        return _percentiles(mechanism, people, table, quantiles, epsilon, level, noise)
    at_most = getattr(mechanism, "at_most", None) or 1
    persons, people = people.users, limited(mechanism, people, generator)
    if isinstance(mechanism, BitFlip):
        people = people.mapped(mechanism.label)
    names = _listed(metric)
    if names:
        release = noisy_histogram(
            people.answer_counts(),
            categories=names,
            epsilon=epsilon,
            neighbours=REPLACE,
            at_most=at_most,
            noise=noise,
        )
    else:
        release = noisy_strings(
            people.answer_counts(), epsilon=epsilon, delta=delta, at_most=at_most, noise=noise
        )
    try:
        local, reason = _local_counts(table, release.categories, level), ""
    except LdpError as error:
        local, reason = {}, str(error)
    kind = "histogram" if names else "strings"
    return Twin.of(kind, _lines(release, local, level), persons, release, level, reason)


def _listed(metric: Metric) -> tuple[str, ...]:
    """Return the values that are public: the dictionary's, categories, or buckets; empty where
    there are none."""
    mechanism: Any = metric.mechanism
    if isinstance(mechanism, BitFlip):
        return mechanism.labels
    if isinstance(getattr(mechanism, "candidate_addressing", None), Identity | CellSets):
        return tuple(mechanism.candidate_addressing.categories)
    return metric.candidates() or ()


def _mean(
    mechanism: Numeric,
    people: Population,
    table: Table | JointTable,
    epsilon: float,
    level: float,
    noise: Noise,
) -> Twin:
    assert isinstance(table, Table)
    numbers = np.array([float(value) for value in people.values])
    release = noisy_mean(
        numbers, people.counts, bounds=mechanism.bounds, epsilon=epsilon, noise=noise
    )
    local = decode_mean(table)
    line = Line(
        value="mean",
        central=Answer(release.mean, release.std_error, *release.interval(level)),
        local=Answer(local.mean, local.std_error, *local.interval(level)),
    )
    return Twin.of("mean", [line], release.people, release, level)


def _percentiles(
    mechanism: HierarchicalHistogram,
    people: Population,
    table: Table | JointTable,
    quantiles: tuple[float, ...],
    epsilon: float,
    level: float,
    noise: Noise,
) -> Twin:
    """Return percentiles, of each category where there are some: the curator's from one noisy
    histogram of the metric's bins."""
    assert isinstance(table, Table)
    bins, by = mechanism.bins, mechanism.by or ("",)
    release = noisy_histogram(
        people.mapped(lambda value: str(mechanism.addressing.point(value))).answer_counts(),
        categories=tuple(map(str, range(len(by) * len(bins)))),
        epsilon=epsilon,
        neighbours=REPLACE,
        noise=noise,
    )
    local: Mapping[str, Distribution]
    local, reason = {}, ""
    try:
        local = decode_by_category(table).of if mechanism.by else {"": decode_distribution(table)}
    except LdpError as refusal:
        reason = str(refusal)
    lines = []
    for place, name in enumerate(by):
        first = place * len(bins)
        own = replace(release, counts=release.counts[first : first + len(bins)])
        for q in quantiles:
            error = std_error_of_ends(*percentile(own, bins.edges, q)[1:])
            estimate, *ends = percentile(own, bins.edges, q, level)
            line = Line(
                value=f"{name} p{100 * q:.10g}".lstrip(),
                central=Answer(estimate, error, *ends),
                local=Answer(*local[name].quantile(q, level)[1:5]) if local else None,
            )
            lines.append(line)
    return Twin.of("percentiles", lines, people.users, release, level, reason)


def _lines(release: Histogram, local: dict[str, Answer], level: float) -> Iterator[Line]:
    lows, highs = release.interval(level)
    rows = zip(release.categories, release.counts, lows.tolist(), highs.tolist(), strict=True)
    for value, count, low, high in rows:
        central = Answer(count, release.std_error, low, high)
        yield Line(value=value, central=central, local=local.get(value))


def _local_counts(
    table: Table | JointTable, names: Sequence[str], level: float
) -> dict[str, Answer]:
    """Return what the reports say of each of `names`; raise an LdpError where they cannot be
    asked."""
    if not names:
        return {}
    estimates = decode(table if isinstance(table, Table) else table[WORDS], names)
    columns = (estimates.count, estimates.std_error, *estimates.interval(level))
    rows = np.column_stack(columns).tolist()
    return {name: Answer(*row) for name, row in zip(estimates.values, rows, strict=True)}
