"""Central twin of a metric: what a trusted curator would have said, beside the local estimate.

Neighbours differ in the value of one person, as in the local model. So the number of people is
public. The curator's release is one of the data, and costs what it states.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldp.arrays import Generator
from ldp.central import Histogram, ReleasedMean
from ldp.errors import LdpError, ParameterError
from ldp.mechanisms.hierarchical_histogram import HierarchicalHistogram
from ldp.planning.question import KINDS, NUMBERS, Curated
from ldp.registry import Metric
from ldp.simulation import Population, draw_tables
from ldp.simulation.bulk_reports import limited
from ldp.tables.joint_table import AnyTable


@dataclass(frozen=True, kw_only=True)
class Twin:
    """Both answers to one metric. `kind`: what is `released`, in a word; `names` of statistics;
    `numbers`, a column for each of the NUMBERS: first those of the curator, then those from the
    reports, nan where reports cannot tell them. `no_local`: why there is no local answer."""

    kind: str
    released: Histogram | ReleasedMean
    names: Sequence[str]
    numbers: Sequence[Any]
    people: int
    no_local: str

    def rows(self, most: int | None = None) -> Iterator[tuple[Any, ...]]:
        """Return each name with its numbers, of the first `most` names or of all."""
        return zip(self.names, *(column[:most].tolist() for column in self.numbers), strict=False)


def central_twin(
    metric: Metric,
    people: Population,
    table: AnyTable | None,
    *,
    generator: Generator,
    quantiles: tuple[float, ...] = (),
    **request: Any,
) -> Twin:
    """Return a curator's answers about `people` beside those of `table`, which counts their
    reports. If it is None, reports are drawn with `generator`. `request`: fields of `Curated`.

    Numbers have a mean, or `quantiles` where the metric has them (QUANTILES by default). Values
    from a list have a histogram, and other values are strings above a threshold, at (epsilon,
    delta). The curator, too, counts at most `at_most` answers of a set. Raises ParameterError for a
    metric of tuples, for quantiles of a metric that has none, for values that the metric does not
    take, and for a population without counts.
    """
    mechanism: Any = metric.mechanism
    require_countable(metric, people)
    assert people.counts is not None  # require_countable
    if quantiles and not isinstance(mechanism, HierarchicalHistogram):
        raise ParameterError(f"metric {metric.name!r} has no percentiles")
    for value in people.values:
        mechanism.check(value)
    if table is None:
        table = draw_tables(mechanism, people.values, people.counts, generator)
    if table.mechanism.fingerprint != mechanism.fingerprint:
        raise ParameterError(f"the table is not of the metric {metric.name!r} as it is now")
    kind = next(kind for kind in reversed(KINDS.values()) if kind.is_about(metric))
    curated = Curated(
        metric=metric,
        people=limited(mechanism, people, generator),
        quantiles=quantiles,
        **request,
    )
    released, (names, central) = kind.release(curated)
    local, reason = [np.full(len(names), np.nan)] * len(NUMBERS), ""
    try:
        local = [*kind.local(curated, table, names)] if names else local
    except LdpError as error:
        reason = str(error)
    return Twin(
        kind=kind.released_as,
        released=released,
        names=names,
        numbers=[*central, *local],
        people=people.users,
        no_local=reason,
    )


def require_countable(metric: Metric, people: Population) -> None:
    """Raise ParameterError for a metric of tuples, and for people without counts."""
    if metric.mechanism.answers in ("moments", "pairs"):
        raise ParameterError(
            f"metric {metric.name!r} is about tuples: name one of its members; a regression is "
            "released by ldp regress"
        )
    if people.counts is None:
        raise ParameterError("the data are frequencies: a curator counts people, value,count")
