"""Tables of numbers by category: percentiles, means and shares of ranges of each, with errors.

The tree of a category (`ldp/mechanisms/hierarchical_histogram.py`) is decoded by itself, as
`ldp/decoding/distribution.py` does, but its bins add to an estimated share T of the reports and not
to 1. With a share L of the reports below an edge, the quantile q of the category is where L - q T
crosses 0. That is linear in the nodes. So its standard error is known however small T is, and the
same tests of bins give an interval (Fieller 1954: a ratio by the difference that would be 0).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, permutations
from math import inf, nan
from typing import Any, NamedTuple, Self

import numpy as np

from ldp.arrays import Floats
from ldp.decoding.distribution import (
    LEAST_ERROR,
    QUANTILES,
    Distribution,
    expected_distribution,
    normal_reach,
)
from ldp.decoding.nodes import nodes_of_levels
from ldp.errors import DecodeError, ParameterError, require_share, require_shares
from ldp.files import counted
from ldp.mechanisms.bins import EqualBins
from ldp.mechanisms.hierarchical_histogram import HierarchicalHistogram
from ldp.protocol.channel import convert
from ldp.tables.estimates import table_details
from ldp.tables.frame import Columns
from ldp.tables.result import Line, Result
from ldp.tables.statistics import (
    NOT_ENOUGH,
    Statistic,
    columns_of,
    quantile_of,
    reports_needed,
    tells,
)
from ldp.tables.table import Table, one_table

MOVES = "the share of a category below any number"
"""Key of `fakes_move` in a summary."""
MOVED_MOST = ("fakes_raise", "fakes_lower")
"""Keys of a summary whose value is that of the category that made-up reports move most."""
DIFFERENCES = 0.05
"""Largest probability that any of the differences reported between categories is false."""
STEPS = 30
"""Number of halvings by which the end of an interval is computed."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CategoryDistribution(Distribution):
    """Distribution of a number among those of the `reports` that are of one `category`. The error
    of a share below an edge is that of a test: is the quantile `q` at this edge?

    `histogram` counts reports. Shares of `between` and quantiles refer to the reports of the
    category. They are not known where the category does not stand out from the noise.
    """

    is_part = True

    category: str
    q: float = 0.5

    @property
    def whole(self) -> float | None:
        """Length of the stated range of the numbers. It is None where none is stated, or bins are
        parts of doublings."""
        edges = self.bins.edges
        is_range = isinstance(self.bins, EqualBins) and math.isfinite(edges[-1] - edges[0])
        return edges[-1] - edges[0] if is_range else None

    def needed(self, q: float) -> float:
        """Return about how many reports, of all categories, estimating the `q`-quantile takes."""
        held = self.held()
        return reports_needed(q, self.reports, held.estimate, held.std_error)

    @cached_property
    def total(self) -> float:
        """Estimated share of the reports that are of the category, above 0."""
        return max(float(self.share.sum()), LEAST_ERROR)

    def _edge_variances(self, variance: Floats) -> Floats:
        return self.fit.edge_variances(variance, self.q) / self.total**2

    def _at_edges(self, of_bins: Floats) -> Floats:
        below = np.cumsum(of_bins, axis=0)
        return np.asarray((below[:-1] - self.q * below[-1]) / self.total)

    @property
    def _sampling(self) -> Floats:
        share, q = self.below[0], self.q
        square = (share * (1 - 2 * q) + q**2) / self.total
        return (square - (share - q) ** 2) / self.reports

    def held(self, level: float = 0.95) -> Statistic:
        """Return the number of reports that are of the category."""
        return self._reports("reports", *self.linear(np.ones(len(self.share))), level)

    def quantile(self, q: float, level: float = 0.95) -> Statistic:
        """Return the `q`-quantile of the category's numbers, as `Distribution.quantile` does."""
        q = require_share(q, "q")
        if self.total <= LEAST_ERROR:
            return Statistic(f"p{100 * q:.10g}", nan, nan, -inf, inf)
        here = self if q == self.q else replace(self, q=q)
        return super(CategoryDistribution, here).quantile(q, level)

    def _mean(
        self, name: str, weight: Floats, level: float, ends: tuple[float, float]
    ) -> Statistic:
        """Return the mean over the category's people of `weight`, which states what each bin is
        worth. The interval has each m for which the sum of (weight - m) over them may be 0."""
        far = normal_reach(level)
        share, error, (down, _) = self.linear(np.ones(len(weight)))
        if share - down <= far * error:
            return Statistic(name, nan, nan, *ends)

        def is_rejected(middle: float) -> bool:
            total, error, (down, up) = self.linear(weight - middle)
            return total - down > far * error or total + up < -far * error

        estimate, edges = float(weight @ self.share) / share, list[float]()
        for outside in ends:
            inside = min(max(estimate, ends[0]), ends[1]) if is_rejected(outside) else outside
            for _ in range(STEPS):
                middle = (inside + outside) / 2
                inside, outside = (inside, middle) if is_rejected(middle) else (middle, outside)
            edges.append(inside)
        return Statistic(name, estimate, self.linear(weight - estimate)[1] / share, *edges)

    @property
    def headline(self) -> str:
        """One line: category, its share of the reports, and how many these are."""
        return f"{self.category}: {100 * self.total:.3g} % of {counted(self.reports, 'report')}"

    def statistics(self) -> list[Statistic]:
        """Return the number of reports, the mean, where it is known, the `quantiles`, and the
        histogram."""
        return [self.held(self.level), *super().statistics()]


class Difference(NamedTuple):
    """Two categories of which one has the `higher` number as its `statistic`."""

    statistic: str
    higher: str
    lower: str


@dataclass(frozen=True, eq=False, repr=False)
class Distributions(Result):
    """Distributions of a number, one for each category in `of`."""

    kind = "numbers-by-category"

    of: Mapping[str, CategoryDistribution]
    quantiles: tuple[float, ...] = field(default=QUANTILES, kw_only=True)

    def __post_init__(self) -> None:
        convert(self, quantiles=require_shares)

    def __getitem__(self, category: str) -> CategoryDistribution:
        """Return the distribution of a category, at the level and the quantiles of all. Raises
        ParameterError for one that is not listed."""
        if category not in self.of:
            raise ParameterError(f"there is no category {category!r}; known: {', '.join(self.of)}")
        distribution = self.of[category]
        names = ("level", "quantiles", "reports_per_person")
        settings = {name: getattr(self, name) for name in names}
        if all(getattr(distribution, name) == setting for name, setting in settings.items()):
            return distribution
        return distribution.at(**settings)

    @property
    def reports(self) -> int:
        """Number of reports of all categories."""
        return next(iter(self.of.values())).reports

    def _under_fakes(self, share: float) -> Self:
        return replace(self, of={name: one.under_fakes(share) for name, one in self.of.items()})

    def monotone(self) -> "Distributions":
        """Return the distributions with consistent counts (`Distribution.monotone`)."""
        of = {name: replace(one, is_monotone=True) for name, one in self.of.items()}
        return replace(self, of=of)

    def differences(self, alpha: float = DIFFERENCES) -> list[Difference]:
        """Return the pairs of categories that differ in one of the `quantiles`: with a probability
        of at least 1 - `alpha` all of them are right.

        Intervals at the level 1 - alpha / (categories * quantiles) all hold at a time with that
        probability (Bonferroni), so where two of them have no number in common, the quantiles
        differ. Raises ParameterError for a quantile or a level outside (0, 1).
        """
        level = 1 - alpha / max(1, len(self.of) * len(self.quantiles))
        # of one category after the other: its draws are kept
        rows = {name: [self[name].quantile(q, level) for q in self.quantiles] for name in self.of}
        return [
            Difference(rows[higher][place].name, higher, lower)
            for place in range(len(self.quantiles))
            for higher, lower in permutations(rows, 2)
            if rows[lower][place].high <= rows[higher][place].low
        ]

    @property
    def headline(self) -> str:
        """One line: numbers of categories and of reports."""
        return f"Distributions of {len(self.of)} categories, from {counted(self.reports, 'report')}"

    def lines(self) -> Iterator[Line]:
        """Yield what a notebook shows: NaN and words for a percentile that the reports do not
        tell."""
        whole = next(iter(self.of.values())).whole
        for line in super().lines():
            q = quantile_of(line.name.rpartition(", ")[2])
            if q is None or tells(line.low, line.high, whole, line.estimate):
                yield line
            else:
                yield line._replace(estimate=nan, instead=NOT_ENOUGH)

    def _columns(self) -> Columns:
        statistics = {name: self[name].statistics() for name in self.of}
        columns = columns_of(chain.from_iterable(statistics.values()))
        values = [name for name, rows in statistics.items() for _ in rows]
        return {"statistic": columns["statistic"], "value": values, **columns}

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Summary for the file beside the CSV: kind, table, level, categories."""
        own = [self[name].summary for name in self.of]
        moves = {MOVES: max(one.fakes_move() for one in self.of.values())}
        fakes = {name: max(one[name] for one in own) for name in MOVED_MOST if name in own[0]}
        differences = [row._asdict() for row in self.differences()]
        return {
            **own[0],
            "kind": self.kind,
            "categories": [*self.of],
            "differences": differences,
            "differences_alpha": DIFFERENCES,
            "fakes_move": moves,
            **fakes,
        }


def expected_category(
    mechanism: HierarchicalHistogram, share: Floats, users: int, *, part: float, q: float
) -> CategoryDistribution:
    """Return the distribution of a category that reports of `users` people give on average: a
    `part` of the people are of the category, and the bins hold `share` of these, shape (bins,)."""
    whole = expected_distribution(mechanism, share, users)
    nodes = replace(whole.nodes, share=part * whole.nodes.share)
    return CategoryDistribution(mechanism.bins, nodes, users, {}, category="", q=q)


def decode_by_category(table: Table) -> Distributions:
    """Return the distributions of a `table` of `hierarchical-histogram` with categories. Raises
    DecodeError for another table, and for one in which a level has no reports."""
    mechanism = one_table(table).mechanism
    if not isinstance(mechanism, HierarchicalHistogram) or not mechanism.by:
        raise DecodeError("the table has no categories with numbers")
    nodes = [nodes_of_levels(table, mechanism, place) for place in range(len(mechanism.by))]
    details = table_details(table, "distribution")
    return Distributions(
        {
            name: CategoryDistribution(
                mechanism.bins, of_category, table.total, details, category=name
            )
            for name, of_category in zip(mechanism.by, nodes, strict=True)
        }
    )
