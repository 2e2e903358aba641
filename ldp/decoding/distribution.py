"""Tables of numbers in bins: percentiles, shares of ranges, mean and histogram, with errors.

Every node of a level (`ldp/mechanisms/hierarchical_histogram.py`) has an unbiased share.
Generalised least squares (`ldp/decoding/tree.py`), with as much weight as reports, makes the levels
agree and the bins add to 1 (Cormode, Kulkarni and Srivastava 2019, section 4.5). All estimates are
linear in the nodes, whose covariance is known. So the distribution function has exact standard
errors.

The interval of a percentile has all bins in which it may lie. A bin is left out where its own test
rejects it: the largest standardised excess of the estimated distribution function at some edges
before the bin (`Tree.edges`), against the distribution of that maximum for a percentile there. The
interval holds for heavy tails and ties, a little less often for a percentile just beside a tie
where nothing else is near (docs/mechanisms/percentiles.md). It is open at an end that the reports
do not close.
"""

import math
import zlib
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from statistics import NormalDist
from typing import Any, ClassVar, Self

import numpy as np

from ldp.arrays import Floats, Ints, increasing
from ldp.decoding.fakes_among_nodes import FakesAmongNodes, most_moved
from ldp.decoding.nodes import Nodes, expected_nodes, nodes_of_buckets, nodes_of_levels
from ldp.decoding.tree import TreeFit
from ldp.errors import DecodeError, ParameterError, require_share, require_shares
from ldp.files import counted
from ldp.mechanisms.base import FAKES
from ldp.mechanisms.bins import Bins
from ldp.mechanisms.bit_flip import BitFlip
from ldp.mechanisms.hierarchical_histogram import HierarchicalHistogram
from ldp.protocol.channel import convert
from ldp.tables.estimates import table_details
from ldp.tables.fakes import Fakes, fake_reports
from ldp.tables.frame import Columns, new_axes
from ldp.tables.result import MOST_LINES, Result
from ldp.tables.statistics import Statistic, columns_of, known_ends
from ldp.tables.table import Table, one_table

QUANTILES = (0.5, 0.9, 0.95, 0.99)
"""Quantiles that are written by default."""
BIAS = (
    "counts are those of the nearest increasing distribution function: what noise puts into empty "
    "bins is shared with their neighbours, and single bins that many hold are made flatter"
)
"""Sentence on what `Distribution.monotone` does to counts."""
DRAWS = 399
"""Number of draws of the error from which the tests of bins have their distribution: of DRAWS + 1
numbers with one distribution, the 10 largest are a share of TAIL."""
TAIL = 0.025
"""Probability, of one end, at which the tests' distribution is drawn. Other levels are scaled."""
NORMAL, LEVEL, LEAST_MISS = NormalDist(), 0.95, 1e-200
"""Normal distribution; level of the interval from which a percentile has its standard error; the
least probability that it is asked for."""
Shift = tuple[float, float]
"""Largest distances below and above an estimate of that of the honest reports."""
BEYOND, MANY_DOUBLINGS = 0.02, 50.0
"""Share of reports beyond either end of a plot; ratio of its ends from which it is logarithmic."""
BLOCKS = 8
"""Number of parts in which the draws are taken, so that a part stays in the processor's cache."""
FEW_LIES = 10.0
"""Number of reports that name a bin by chance below which those of its holders matter more."""
CLEAR = 4.5
"""Standardised excess from which a bin is left out without a draw."""
TOGETHER = 512
"""Number of edges of bins that are tested at a time."""
LEAST_ERROR = 1e-9
"""Standard error of an edge that no noise reaches."""


@dataclass(frozen=True, eq=False, repr=False)
class Distribution(Result):
    """Distribution of a number over the `bins`, of the population from which the `reports` come.

    `nodes`: what was counted; `details`: of the table, for the summary. Each interval by itself
    holds with the probability `level`. `quantiles`: the quantiles that have rows.
    """

    kind = "numbers"

    bins: Bins
    nodes: Nodes
    reports: int
    details: dict[str, Any]
    is_part: ClassVar[bool] = False
    """True for one category, whose bins have an estimated part of the reports."""
    is_monotone: bool = False
    """True if the counts of the histogram are 0 or more, and biased. See `monotone`."""
    fake_share: float | None = None
    """Largest share of the reports that may be made up: intervals are then of the population from
    which the others come. None where all reports are taken as honest."""
    quantiles: tuple[float, ...] = field(default=QUANTILES, kw_only=True)

    def __post_init__(self) -> None:
        convert(self, quantiles=require_shares)

    @cached_property
    def _edges(self) -> Floats:
        return np.array(self.bins.edges)

    @cached_property
    def fit(self) -> TreeFit:
        """Least-squares fit of the nodes' shares, from which all estimates follow."""
        weight = self.nodes.reports
        # made-up reports choose their rows, so no weight is theirs
        if self.fake_share is not None:
            weight = self.nodes.tells.mean(axis=0)
        return TreeFit(self.nodes.tree, weight, is_open=self.is_part)

    @cached_property
    def matrix(self) -> Floats:
        """Matrix of `fit`, from the nodes' shares to those of the bins, shape (bins, nodes)."""
        return self.fit.of_bins(np.eye(self.nodes.share.size))

    @cached_property
    def share(self) -> Floats:
        """Estimated share of each bin, unbiased, so that some lie below 0: shape (bins,)."""
        return self.fit.of_bins(self.nodes.share, 1.0)

    @property
    def total(self) -> float:
        """Share of the reports that are in the bins. Quantiles are shares of these reports."""
        return 1.0

    @cached_property
    def _fakes(self) -> FakesAmongNodes:
        number = fake_reports(self.reports, self.fake_share or 0.0)
        return FakesAmongNodes(self.nodes, self.reports, number)

    @cached_property
    def _variances(self) -> tuple[Floats, Floats]:
        """Variances of the nodes' shares from noise, and those from sampling of each alone."""
        nodes = self.nodes
        share = np.clip(nodes.tree.sums(self.share), 0.0, 1.0)
        for number in np.unique(nodes.row[nodes.row >= 0]):
            at = nodes.row == number
            # of few reports: noise, clipped at 0
            share[at] /= max(1.0, float(share[at].sum()))
        return nodes.channel.variance(share) / self._fakes.honest, share / self._fakes.honest

    def _variance(self, weights: Floats) -> Floats:
        """Return the variance of each of the sums of the nodes' shares by `weights`, shape (sums,
        nodes): noise, and the sampling of reporters from their population. With made-up reports it
        is the most that it can be of the honest ones, because a share that is hidden has its
        variance."""
        variance = self._apparent_variance(weights)
        if self._fakes.number:
            variance = np.maximum(variance, self._largest_variance(weights))
        return variance

    @cached_property
    def _alone(self) -> Floats:
        """Variances of the nodes' shares, from noise and from sampling: shape (nodes,)."""
        return np.asarray(sum(self._variances))

    @cached_property
    def _shared(self) -> Floats:
        """Covariance by sampling of the nodes of a row, as a factor, shape (nodes, rows): the
        covariance of their shares is `_alone` less the product of this matrix and its transpose."""
        rows = np.unique(self.nodes.row[self.nodes.row >= 0])
        each = self._variances[1] * self._fakes.honest**0.5
        return np.asarray(each[:, None] * np.equal.outer(self.nodes.row, rows))

    def _apparent_variance(self, weights: Floats) -> Floats:
        """Return the variances of the sums if the true shares are the estimated ones."""
        variance = weights**2 @ self._alone - ((weights @ self._shared) ** 2).sum(axis=1)
        variance = np.maximum(variance, 0.0)
        if self.more:
            variance += self._further_variance(weights @ self.nodes.groups)
        return np.asarray(variance)

    @cached_property
    def _further(self) -> tuple[Floats, float]:
        """Shares of the bins, at least 0 and with a sum of at most 1; and the variance that further
        reports of a person add to a share f of people, divided by f (1 - f). This variance is added
        once and not for every row, since each report draws its row."""
        share = np.clip(self.share, 0.0, 1.0)
        honest = self.reports - self._fakes.number
        return share / max(1.0, float(share.sum())), self.more / honest

    def _further_variance(self, worth: Floats) -> Floats:
        """Return what people's further reports add to the variances of sums in which each bin is
        `worth` so much, shape (sums, bins)."""
        share, each = self._further
        return np.asarray(each * np.maximum(worth**2 @ share - (worth @ share) ** 2, 0.0))

    @cached_property
    def _apparent_errors(self) -> Floats:
        """Standard errors of `below` if the true shares are the estimated ones."""
        alone = self._edge_variances(self._alone)
        shared = (self._at_edges(self.fit.of_bins(self._shared)) ** 2).sum(axis=1)
        variance = np.maximum(alone - shared, 0.0)
        if self.more:
            variance += self._further_variance(self._at_edges(np.eye(len(self.share))))
        return np.asarray(np.maximum(variance**0.5, LEAST_ERROR))

    def _edge_variances(self, variance: Floats) -> Floats:
        """Return the variances of `below` if the nodes' shares are independent with `variance`."""
        return self.fit.edge_variances(variance)

    def _at_edges(self, of_bins: Floats) -> Floats:
        """Return how `below` moves with what is added to the bins' shares, shape (bins, ...)."""
        return np.cumsum(of_bins, axis=0)[:-1]

    def _largest_variance(self, weights: Floats) -> Floats:
        """Return the largest variances that the sums of the nodes' shares by `weights` can have for
        the honest reports."""
        return self._fakes.largest_variance(
            weights, self.share, self.matrix, is_part=self.is_part, further=self._further[1]
        )

    def linear(self, weight: Floats) -> tuple[float, float, Shift]:
        """Return the sum of the bins' shares by `weight`, shape (bins,), its standard error, and
        how far below and above it the sum of the honest reports can lie."""
        weights = (weight @ self.matrix)[None, :]
        down, up = self._fakes.shift(weights)
        reach = float(np.ptp(np.append(weight, 0.0) if self.is_part else weight))
        error = float((self._variance(weights)[0] + reach**2 * self._rare.max()) ** 0.5)
        return float(weight @ self.share), error, (float(down[0]), float(up[0]))

    @cached_property
    def _rare(self) -> Floats:
        """Variance that a rare bin without a report hides where hardly any lies do: of 0 reports
        the upper end is then that of Wilson 1927, at 95 %. Its shape is (bins,)."""
        about = self.nodes.reports[-len(self.share) :]
        # how far all reports of one person move it
        person = 1 / about + self._further[1]
        lies = float(self.nodes.channel.untouched)
        by_chance = lies / (about * person**2)
        return np.where(by_chance < FEW_LIES, 4 * person**2, 0.0)

    @cached_property
    def below(self) -> tuple[Floats, Floats]:
        """Estimated shares below every inner edge, of the `total`, and their standard errors: shape
        (bins - 1,)."""
        error = self._apparent_errors
        if self._fakes.number:
            error = np.maximum(error, self._largest_variance(self._cumulative) ** 0.5)
        return np.cumsum(self.share)[:-1] / self.total, error

    @cached_property
    def _cumulative(self) -> Floats:
        return self._at_edges(self.matrix)

    @cached_property
    def _monotone(self) -> Floats:
        """The increasing function, from 0 to 1, nearest to `below`."""
        return self._increasing(self.below[0])

    def _increasing(self, share: Floats) -> Floats:
        """Return the increasing function, from 0 to 1, nearest to `share`, shape (bins - 1,)."""
        return np.clip(increasing(share, 1 / self.below[1] ** 2), 0.0, 1.0)

    @cached_property
    def error_draws(self) -> Floats:
        """Draws of the error of `below`, in standard errors: shape (bins - 1, DRAWS). The seed
        follows from the table: a table always has the same interval, and tests keep their level
        over different tables."""
        error = (self._alone**0.5)[:, None]
        # of independent draws z, z - r (r'z) has the covariance 1 - s s' of a row, s along r
        ratio = self._shared / error
        square = np.minimum((ratio**2).sum(axis=0), 1.0)
        taken = (1 - (1 - square) ** 0.5) / np.maximum(square, LEAST_MISS)
        blocks, seed = [], zlib.crc32(self.nodes.share.tobytes())
        for draws in np.array_split(standard_draws(seed, len(error)), BLOCKS, axis=1):
            alike = ratio @ (taken[:, None] * (ratio.T @ draws))
            blocks.append(self._at_edges(self.fit.of_bins(error * (draws - alike))))
        noise = np.concatenate(blocks, axis=1)
        if self.more:
            share, each = self._further
            draws = share[:, None] ** 0.5 * standard_draws(seed + 1, len(share))
            total = float(share.sum())
            alike = share[:, None] * draws.sum(axis=0) * (1 - max(0.0, 1 - total) ** 0.5) / total
            noise += each**0.5 * self._at_edges(draws - alike)
        return noise / self._apparent_errors[:, None]

    def quantile(self, q: float, level: float = 0.95) -> Statistic:
        """Return the `q`-quantile: the least number with a share of at least `q` at or below it,
        interpolated linearly between edges. Raises ParameterError for q or level outside (0, 1)."""
        q, level = require_share(q, "q"), require_share(level, "level")
        (place,), (estimate,) = (of.tolist() for of in self._crossings(self.below[0][:, None], q))
        low, high = self._ends(q, place, level)
        name = f"p{100 * q:.10g}"
        error = std_error_of_ends(*(self._ends(q, place, LEVEL) if level != LEVEL else (low, high)))
        return Statistic(name, estimate, error, low, high)

    def quantile_draws(self, q: float, noisier: float = 1.0) -> Floats:
        """Return what `quantile` would estimate from other reports of the same people, one each, if
        this were the truth, shape (DRAWS,). `q` lies in (0, 1). `noisier`: factor of the noise."""
        share, error = self.below
        noise = noisier * np.maximum(error**2 - self._sampling, 0.0) ** 0.5
        return self._crossings(share[:, None] + noise[:, None] * self.error_draws, q)[1]

    @property
    def _sampling(self) -> Floats:
        """Variance of `below` from who the people are, one report each."""
        share = self.below[0]
        return share * (1 - share) / self.reports

    def _crossings(self, shares: Floats, q: float) -> tuple[Ints, Floats]:
        """Return the bin in which the increasing function nearest to each column of `shares`, shape
        (bins - 1, tables), reaches q, and where it does, interpolated: shape (tables,) each.

        It is below q up to the bin k at which the sum of weight (share - q) is least. Bins on both
        sides are fitted alone. So its heights there are the largest mean of bins that end before k,
        and the least of those that begin there.
        """
        weights, tables = 1 / self.below[1] ** 2, np.arange(shares.shape[1])
        width = np.concatenate([[0.0], np.cumsum(weights)])[:, None]
        sums = np.zeros((len(shares) + 1, len(tables)))
        np.cumsum(weights[:, None] * shares, axis=0, out=sums[1:])
        at = np.argmin(sums - q * width, axis=0)
        with np.errstate(invalid="ignore"):
            means = (sums[at, tables] - sums) / (width[at, 0] - width)
        ends = np.arange(len(sums))[:, None]
        below = np.clip(np.where(ends < at, means, 0.0).max(axis=0), 0.0, 1.0)
        above = np.clip(np.where(ends > at, means, 1.0).min(axis=0), 0.0, 1.0)
        low, high = self._edges[at], self._edges[at + 1]
        low, high = np.where(np.isfinite(low), low, high), np.where(np.isfinite(high), high, low)
        return at, np.asarray(low + (high - low) * ((q - below) / (above - below)))

    def _ends(self, q: float, place: int, level: float) -> tuple[float, float]:
        """Return the ends of the interval of the q-quantile, which was estimated in bin `place`."""
        (share, error), noise = self.below, self.error_draws
        error = np.maximum(error, self._sampling_error(q))
        least, most = share, share
        increasing = decreasing = self._monotone
        if self._fakes.number:
            down, up = self._fakes.shift(self._cumulative)
            least, most = share - down, share + up
            increasing, decreasing = self._increasing(least), self._increasing(most)
        before, after = self.nodes.tree.edges
        last = _last_bin(least, increasing, error, noise, before, q, level)
        first = len(share) - _last_bin(
            1 - most[::-1], 1 - decreasing[::-1], error[::-1], noise[::-1], after, 1 - q, level
        )
        edges = self.bins.edges
        return edges[min(first, place)], edges[max(last, place) + 1]

    def _sampling_error(self, q: float) -> float:
        """Return the standard error of the share of people below the `q`-quantile, without noise.
        Shares of few reports do not show it, because all of them lie below the largest number."""
        honest = self.reports - self._fakes.number
        people = max(1.0, honest * self.total / (1 + self.more))
        return float((q * (1 - q) / people) ** 0.5)

    def between(self, low: float, high: float, level: float = 0.95) -> Statistic:
        """Return the share of numbers from `low` to below `high`. Both are moved to the nearest
        edge of a bin, which the result states. Where numbers below 0 have no bins, 0 means the
        beginning of the first bin. Bins below 0 hold their upper edge, not their lower one. Raises
        ParameterError for `low` >= `high`, and where both are nearest to one edge."""
        first, last = map(self._nearest_edge, (low, high))
        if not low < high or first >= last:
            raise ParameterError("the range must have a lower and an upper end, in different bins")
        weight = np.zeros(len(self.share))
        weight[first:last] = 1.0
        row = self._mean("share", weight, level, (0.0, 1.0))
        return row._replace(bin_low=self.bins.edges[first], bin_high=self.bins.edges[last])

    def _mean(
        self, name: str, weight: Floats, level: float, ends: tuple[float, float]
    ) -> Statistic:
        """Return the mean over all people of `weight`, shape (bins,), which states what each bin is
        worth. The mean lies between the `ends`."""
        estimate, error, moved = self.linear(weight)
        return _normal(name, estimate, error, level, *ends, moved)

    def _under_fakes(self, share: float) -> Self:
        return replace(self, fake_share=share)

    def monotone(self) -> "Distribution":
        """Return the distribution with consistent counts: 0 or more, and adding to the reports,
        from the nearest increasing distribution function. The error of the whole histogram falls.
        Each count is biased: what noise put into empty bins is shared with neighbours. Intervals
        and percentiles stay as they are."""
        return replace(self, is_monotone=True)

    def _nearest_edge(self, place: float) -> int:
        """Return the number of the edge nearest to a number, of two the upper one."""
        first, second = self.bins.edges[:2]
        if math.isinf(place) or (math.isinf(first) and place <= 0 < second):
            return len(self.share) * (place > 0)
        return len(self.share) - int(np.abs(self._edges - place)[::-1].argmin())

    def histogram(self, level: float = 0.95) -> list[Statistic]:
        """Return the number of reports whose number is in each bin, in order."""
        edges, shares = self.bins.edges, self.share
        if self.is_monotone:
            shares = np.diff(self._monotone, prepend=0.0, append=1.0) * self.total
        errors = (self._variance(self.matrix) + self._rare) ** 0.5
        moved = self._fakes.shift(self.matrix)
        columns = (self.share, errors, *moved)
        rows = []
        for i, cells in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            share, error, *shift = cells
            row = self._reports("count", share, error, (shift[0], shift[1]), level)
            estimate = self.reports * float(shares[i])
            rows.append(row._replace(estimate=estimate, bin_low=edges[i], bin_high=edges[i + 1]))
        return rows

    def _reports(
        self, name: str, share: float, error: float, moved: Shift, level: float
    ) -> Statistic:
        """Return the number of reports to which an estimated `share` of all corresponds."""
        n, honest = self.reports, self.reports - self._fakes.number
        all_honest = _normal(name, n * share, n * error, level, 0.0, n)
        ends = _normal(name, share, error, level, 0.0, 1.0, moved)
        low, high = min(all_honest.low, honest * ends.low), max(all_honest.high, honest * ends.high)
        return all_honest._replace(low=low, high=high)

    def moments(self, level: float = 0.95) -> list[Statistic]:
        """Return mean and variance of the numbers, of one category the mean. Nothing where an end
        bin is open, because then they depend on numbers that no bin shows.

        A number is taken for the middle of its bin. Intervals are wider by the error this can make.
        """
        if not np.isfinite(self._edges).all():
            return []
        low, high = self.bins.edges[0], self.bins.edges[-1]
        middle = (self._edges[1:] + self._edges[:-1]) / 2
        half = float(np.diff(self._edges).max() / 2)
        row = self._mean("mean", middle, level, (low, high))
        of_mean = row._replace(low=max(row.low - half, low), high=min(row.high + half, high))
        if self.is_part:
            return [of_mean]
        mean, _, moved = self.linear(middle)
        variance, error, (down, up) = self.linear((middle - mean) ** 2)
        # about another mean, as the true one may be, squares have another error
        errors = [self.linear((middle - end) ** 2)[1] for end in (row.low, row.high)]
        more = normal_reach(level) * (max(error, *errors) - error)
        # the honest mean is another, and squares are least there
        around = down + max(moved) ** 2 + more, up + more
        most = (high - low) ** 2 / 4
        of_variance = _normal("variance", variance, error, level, 0.0, most, around)
        ends = (max(0.0, of_variance.low**0.5 - half), of_variance.high**0.5 + half)
        return [of_mean, of_variance._replace(low=ends[0] ** 2, high=ends[1] ** 2)]

    def statistics(self) -> list[Statistic]:
        """Return mean and variance where these are known, the `quantiles`, and the histogram."""
        percentiles = [self.quantile(q, self.level) for q in self.quantiles]
        return [*self.moments(self.level), *percentiles, *self.histogram(self.level)]

    def _columns(self) -> Columns:
        return columns_of(self.statistics())

    @property
    def headline(self) -> str:
        """One line: numbers of bins and of reports."""
        return f"Distribution over {len(self.bins):,} bins, from {counted(self.reports, 'report')}"

    def plot(self, axes: Any = None) -> Any:
        """Draw the shares of at most MOST_LINES groups of neighbouring bins, with intervals, and
        the percentiles. A few reports in a hundred lie beyond either end of the drawing. Otherwise
        as `Result.plot`."""
        axes, level = new_axes(axes, self.headline, pad=16), self.level
        ends = (self.quantile(BEYOND, level).estimate, self.quantile(1 - BEYOND, level).estimate)
        edges = self._edges[np.isfinite(self._edges)]
        first = max(0, int(np.searchsorted(edges, ends[0], "right")) - 1)
        last = max(first + 1, min(len(edges) - 1, int(np.searchsorted(edges, ends[1]))))
        edges = edges[first : last + 1]
        step = -(-len(edges) // MOST_LINES)
        groups = [*edges[:-1:step].tolist(), float(edges[-1])]
        pairs = list(pairwise(groups))
        bars = [self.between(*pair, level) for pair in pairs]
        axes.stairs([bar.estimate for bar in bars], groups, fill=True, color="#7fa8dc")
        middles = [(low + high) / 2 for low, high in pairs]
        axes.vlines(middles, [bar.low for bar in bars], [bar.high for bar in bars], color="#17345f")
        for line in self.lines():
            if line.name.startswith("p") and groups[0] <= line.estimate <= groups[-1]:
                axes.axvline(line.estimate, color="#7d3f99", linestyle="--")
                axes.annotate(line.name, (line.estimate, 1), xycoords=("data", "axes fraction"))
        if groups[0] > 0 and groups[-1] > MANY_DOUBLINGS * groups[0]:
            axes.set_xscale("log")
        if math.isinf(self._edges[0]) and self.share[0] > BEYOND:
            below = f"{self.share[0]:.1%} of the reports, below {self._edges[1]:.4g}"
            axes.set_xlabel(f"not drawn: {below}")
        axes.set_ylabel("share of the reports")
        return axes

    def fakes_move(self, share: float = FAKES) -> float:
        """Return how far a `share` of fake reports can move the estimated share below any edge: all
        of them in the level, and with the bits, that move it most."""
        held = np.clip(self.nodes.tree.sums(self.share), 0, 1)
        return min(1.0, share * most_moved(self.nodes, self.reports, held, self._cumulative))

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Summary for the file beside the CSV: kind, table, level, damage by fake reports."""
        bias = {"consistency": "sum-to-n", "consistency_bias": BIAS} if self.is_monotone else {}
        return {
            "kind": self.kind,
            **self.details,
            **bias,
            "reports": self.reports,
            **self.controls,
            "quantiles": [*self.quantiles],
            "fakes_move": {"the share below any number": self.fakes_move()},
            **self._allowed(),
        }

    def _allowed(self) -> dict[str, float]:
        """Return how far the made-up reports that intervals allow for move the share below any
        edge, as keys of the summary."""
        if self.fake_share is None:
            return {}
        down, up = (float(shift.max(initial=0.0)) for shift in self._fakes.shift(self._cumulative))
        return Fakes(
            share=self.fake_share,
            number=self._fakes.number,
            raised=min(1.0, down),
            lowered=min(1.0, up),
        ).details


def decode_distribution(table: Table) -> Distribution:
    """Return the distribution of a `table` of `hierarchical-histogram` or `bit-flip`. Raises
    DecodeError for another table, and for one in which a level or a bucket has no reports."""
    mechanism = one_table(table).mechanism
    if isinstance(mechanism, HierarchicalHistogram):
        if mechanism.by:
            raise DecodeError("the table has a distribution for each category: decode_by_category")
        nodes = nodes_of_levels(table, mechanism)
    elif isinstance(mechanism, BitFlip) and not table.memoised:
        nodes = nodes_of_buckets(table, mechanism)
    else:
        raise DecodeError(f"a table of {mechanism.name} has no percentiles")
    details = table_details(table, "distribution")
    return Distribution(mechanism.bins, nodes, table.total, details)


def expected_distribution(
    mechanism: HierarchicalHistogram | BitFlip, share: Floats, users: int
) -> Distribution:
    """Return the distribution that reports of `users` people give on average, where the bins hold
    `share` of them, shape (bins,): its errors and intervals are those to expect."""
    # sums of such shares are exact: draws, whose seed they give, are the same on all processors
    share = np.rint(share * 2**40) / 2**40
    return Distribution(mechanism.bins, expected_nodes(mechanism, share, users), users, {})


@lru_cache(maxsize=1)
def standard_draws(seed: int, nodes: int) -> Floats:
    """Return DRAWS draws of independent standard normal numbers: shape (nodes, DRAWS)."""
    return np.random.default_rng(seed).standard_normal((nodes, DRAWS))


def _last_bin(
    share: Floats,
    monotone: Floats,
    error: Floats,
    noise: Floats,
    edges: Ints,
    q: float,
    level: float,
) -> int:
    """Return the last bin in which the q-quantile may lie. `share`, `error`: of all that lies below
    each inner edge. `monotone`: the same, increasing. `noise`: draws of the errors. `edges`: those
    that the test of each bin but the first is about, shape (bins - 1, edges).

    If the quantile is in bin t, then less than q lies below each edge before t. The test's
    statistic is the largest excess over q at its edges, in standard errors. Its distribution is
    that of the draws about `monotone`, which is moved so that q lies below the edge at which t
    begins.
    """
    normal = normal_reach(level)
    excess = ((share - q) / error)[edges].max(axis=1)
    near = np.flatnonzero(excess <= normal)[-1:] + 1
    first = max(int(np.searchsorted(monotone, q)), int(near.max(initial=0)))
    tested = np.flatnonzero(excess <= max(CLEAR, normal + 2))
    tested = tested[tested >= first]
    size = max(1, TOGETHER // edges.shape[1])
    for end in range(len(tested), 0, -size):
        places = tested[max(0, end - size) : end]
        at, height = edges[places], np.maximum(monotone[places], q)
        drift = (monotone[at] - height[:, None]) / error[at]
        largest = (drift[..., None] + noise[at]).max(axis=1)
        is_left = excess[places] <= _critical(largest, level)
        if is_left.any():
            return int(places[is_left][-1]) + 1
    return first


def _critical(largest: Floats, level: float) -> Floats:
    """Return the critical value of one end at a level.

    `largest`: draws of the statistic along the last axis. At TAIL they agree with the largest of
    some number of independent normal numbers. The value is that number's at the level."""
    from scipy.special import ndtr, ndtri

    place = math.ceil((DRAWS + 1) * (1 - TAIL)) - 1
    miss = ndtr(-np.partition(largest, place, axis=-1)[..., place])
    tests = np.maximum(1.0, TAIL / np.maximum(miss, LEAST_MISS))
    return np.asarray(-ndtri(np.maximum((1 - level) / tests, LEAST_MISS) / 2))


def _normal(
    name: str,
    estimate: float,
    error: float,
    level: float,
    least: float,
    most: float,
    moved: Shift = (0.0, 0.0),
) -> Statistic:
    reach, (down, up) = normal_reach(level) * error, moved
    ends = (estimate - reach - down, estimate + reach + up)
    low, high = (min(max(end, least), most) for end in ends)
    return Statistic(name, float(estimate), float(error), low, high)


def normal_reach(level: float) -> float:
    """Return half the length of a normal interval, in standard errors. Raises ParameterError for a
    level outside (0, 1)."""
    return -NORMAL.inv_cdf(max(1 - require_share(level, "level"), LEAST_MISS) / 2)


def std_error_of_ends(low: float, high: float) -> float:
    """Return the standard error whose normal interval at LEVEL has this length. Returns nan for one
    with an end that says nothing (`known_ends`)."""
    if None in known_ends(low, high):
        return math.nan
    return (high - low) / 2 / normal_reach(LEVEL)
