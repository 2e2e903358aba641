"""The de-biased mean sketch: count mean sketch tables, over any dictionary.

The estimate is Apple's ("Sketch CMS" and "Server CMS", 2017): average the unbiased cells that a
candidate touches over all rows, then subtract the mean of the collisions. With few rows and many
reports the collisions do not average out: the hash functions are fixed. So their error is a floor
that no number of reports lowers. Its size depends on F2, the sum of squared counts of all values,
which is estimated from the table itself.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ldp.arrays import AnyInts, Floats, Ints, Places, Points
from ldp.bulk.counting import gather_groups, sum_of_squares
from ldp.bulk.point_kernels import points
from ldp.decoding.binomials import FEW_LIES, BinomialBounds
from ldp.decoding.direct import pooled_law, pooled_std_error
from ldp.decoding.error_law import Collisions, ErrorLaw
from ldp.mechanisms.sketch import MeanSketch
from ldp.protocol.channel import Channel
from ldp.protocol.kinds import Index
from ldp.tables.estimates import Estimates, Rule, spread
from ldp.tables.fakes import NO_FAKES, Fakes
from ldp.tables.table import Table

MIN_ROWS = 64
"""Least number of rows for p-values and error rates: with fewer, collisions hardly average out."""
GROUPS = 128
"""Largest number of groups of rows for the variance of the sum of all estimates."""
CLEARLY_HELD = 0.01
"""Probability that any candidate that nobody holds is taken for one that many hold."""
ROUNDS = 20
"""Largest number of rounds of finding candidates that are clearly held."""
SURE = 3.0
"""Standard errors of the sum of clearly held counts that are added to the largest count that a
value missing from the list can have."""
LUMP = 0.02
"""Least change of a count by one collision, in standard errors, at which collisions with a value
are counted one by one. Smaller ones together are taken as normal."""
MOST_LUMPS = 512
OWN_NOISE = 0.01
"""Least change of the noise by a candidate's own reports, as a share, that is computed."""
HOLDERS = 9
"""Number of counts for which a distribution is computed. In between, reaches are interpolated."""
FEW_ROWS = (
    f"fewer than {MIN_ROWS} rows: collisions do not average out, so no error rate is claimed and "
    "nothing is discovered but by threshold; use method regression if there are many reports"
)


def decode(table: Table, candidates: tuple[str, ...], rule: Rule, more: float = 0.0) -> Estimates:
    """Return estimates with the collision error in every standard error and p-value.

    With S the sum over rows of the unbiased cells a candidate touches, n reports, k rows and m
    columns: count = m/(m-1) (S - n/m). Time: candidates x rows hashes, 0.6 to 1 ns each, shared
    by all cores; memory: the table and the candidates. `more`: as for `direct.estimate_counts`.
    """
    mechanism, n = table.mechanism, table.total
    assert isinstance(mechanism, MeanSketch)
    cells, (rows, columns) = table.named_counts(), mechanism.shape
    places = points(mechanism.addressing, rows, candidates)
    named_counts, error = gather_with_error(table, cells, places, more=more)
    measured = measure(table, cells, named_counts, more)
    few_rows = {"warning": FEW_ROWS} if rows < MIN_ROWS else {}
    return Estimates(
        values=candidates,
        count=measured.count,
        std_error=measured.std_error,
        p_value=measured.p_value,
        reports=n,
        noise=measured.noise,
        law=measured.law,
        bounds=SketchBounds(
            measured,
            n,
            honest=partial(under_fakes, table, cells, measured, named_counts, more),
            few=bounds_of_few(mechanism, n, named_counts, measured.count, more=more),
        ),
        rule=rule,
        details={
            "sum_of_squared_counts": measured.squares,
            "shared_variance": measured.squares / (columns - 1) / rows / measured.noise**2,
            **few_rows,
        },
        sum_std_error=error,
    )


def gather_with_error(
    table: Table,
    cells: AnyInts,
    points: Points,
    polynomials: Points | None = None,
    more: float = 0.0,
) -> tuple[Ints, float | None]:
    """Return the number of reports that name the cells of each point, shape (points,), and the
    standard error of the sum of the points' estimates. Arguments as for `measure` and
    `ldp.bulk.counting.gather`."""
    mechanism = table.mechanism
    assert isinstance(mechanism, MeanSketch)
    bounds = np.linspace(0, len(cells), min(len(cells), GROUPS) + 1).astype(int)
    named_counts, sums = gather_groups(
        mechanism.addressing, cells, points, bounds.tolist(), polynomials
    )
    return named_counts, _sum_std_error(table, points.size, sums, bounds, more)


def _sum_std_error(
    table: Table, candidates: int, named_counts: Ints, bounds: Ints, more: float
) -> float | None:
    """Return the standard error of the sum of `candidates` estimates, from its variance between the
    groups of rows that start at `bounds`, shape (groups + 1,). `named_counts`: the sum of their
    cells in every group, shape (groups,). None below MIN_ROWS.

    A report draws its row, and rows have different hash functions. So noise and collisions of
    groups are independent: with T_g the group's part of the sum and w_g its share of the rows, the
    mean of sum (T_g - w_g T)**2 / (1 - sum w_g**2) is the variance of T and that of the holders'
    draw of a row, which does not change the sum of all groups: T times the reports of each holder.
    """
    mechanism, n = table.mechanism, table.total
    rows, width = mechanism.shape
    if rows < MIN_ROWS:
        return None
    reports = np.add.reduceat(table.reports, bounds[:-1]) * candidates
    parts = (
        width / (width - 1) * (mechanism.channel.holders(named_counts, reports) - reports / width)
    )
    shares, total = np.diff(bounds) / rows, float(parts.sum())
    variance = float(((parts - shares * total) ** 2).sum()) / (1 - float((shares**2).sum()))
    return math.sqrt(max(0.0, variance - (1 + more) * min(max(total, 0.0), n)))


@dataclass(frozen=True, eq=False)
class Measurement:
    """Estimates of some points of a sketch, shape (points,). `p_value` is NaN below MIN_ROWS,
    `squares` is F2, `noise` the standard error of a value that nobody holds. `heavy`: indices of
    the points whose collisions are counted one by one, in the order of `collisions.heavy`."""

    count: Floats
    std_error: Floats
    p_value: Floats
    law: ErrorLaw
    collisions: Collisions
    heavy: Places
    squares: float
    noise: float


def measure(table: Table, cells: AnyInts, named_counts: Ints, more: float = 0.0) -> Measurement:
    """Return the estimates of points whose cells are named by `named_counts` reports, shape
    (points,).

    `cells`: number of reports that name each cell, shape (rows, columns). Nothing is hashed, so the
    table may hold any rows of its metric. `more`: as for `direct.estimate_counts`.
    """
    mechanism, n = table.mechanism, table.total
    rows, width = mechanism.shape
    count = width / (width - 1) * (mechanism.channel.holders(named_counts, n) - n / width)
    share = np.clip(count / n, 0, 1)
    squares = estimated_squares(table, cells, more)
    others = np.maximum(squares / n**2 - share**2, 0.0)
    std_error = pooled_std_error(mechanism, more, n, share, others)
    beyond = more * mechanism.pooled_variance(n)
    collisions, heavy = _collisions(table, count, std_error, squares, beyond)
    law, p_value = collisions.law(), np.full(count.size, np.nan)
    if rows >= MIN_ROWS:
        p_value = _p_value(table, law, named_counts, more)
    return Measurement(
        count=count,
        std_error=std_error,
        p_value=p_value,
        law=law,
        collisions=collisions,
        heavy=heavy,
        squares=squares,
        noise=float(pooled_std_error(mechanism, more, n, 0.0, squares / n**2)),
    )


def under_fakes(
    table: Table,
    cells: AnyInts,
    measured: Measurement,
    named_counts: Ints,
    more: float,
    fakes: Fakes,
) -> Measurement:
    """Return `measured` with the most collisions that honest reports can have, when `fakes` may
    hide values from the sum of squares: each clearly held value has as many holders as its interval
    allows, and one unknown value has all reports that these need not have, or as many as the sum of
    squares could hide."""
    mechanism, n = table.mechanism, table.total
    rows, width = mechanism.shape
    count, std_error, heavy = measured.count, measured.std_error, measured.heavy
    beyond, reach = more * mechanism.pooled_variance(n), SURE * std_error[heavy]
    high = np.minimum(count[heavy] + reach + fakes.lowered, n)
    low = np.maximum(count[heavy] - reach - fakes.raised, 0.0)
    rest = max(0.0, n - float(low.sum()))
    hidden = estimated_squares(table, cells, more, fakes.number) - float((low**2).sum())
    unknown = min(rest**2, max(0.0, hidden))
    collisions = replace(
        measured.collisions,
        heavy=high.tolist(),
        small_squares=beyond * (1 - 1 / width) * rows * width,
        unknown=unknown,
        unknown_most=rest,
    )
    squares = min(float(n) ** 2, float((high**2).sum()) + unknown)
    others = np.full(count.size, squares / n**2)
    others[heavy] = np.maximum(others[heavy] - (high / n) ** 2, 0.0)

    def errors(held: Any, others: Any) -> Floats:
        share = np.clip(held / n, 0, 1)
        return np.asarray(pooled_std_error(mechanism, more, n, share, others))

    ends = (count - fakes.raised, count + fakes.lowered)
    law, p_value = collisions.law(), measured.p_value
    if rows >= MIN_ROWS:
        p_value = _p_value(table, law, named_counts - fakes.number, more)
    return replace(
        measured,
        std_error=np.maximum(*(errors(end, others) for end in ends)),
        p_value=p_value,
        law=law,
        collisions=collisions,
        squares=squares,
        noise=float(errors(0.0, squares / n**2)),
    )


@dataclass(frozen=True, eq=False)
class SketchBounds:
    """Intervals under the distribution of each candidate's error: a value that many hold does not
    collide with itself, and the noise of its own reports may differ. `scale`: factor on the counts
    of `measured`, but not on its standard errors. `honest`: function from made-up reports to what
    is measured of the others. `fakes`: those that the intervals allow for."""

    measured: Measurement
    reports: int
    scale: float = 1.0
    honest: Callable[[Fakes], Measurement] | None = None
    fakes: Fakes = NO_FAKES
    few: BinomialBounds | None = None

    def under(self, fakes: Fakes) -> Mapping[str, Any]:
        """Return what differs under `fakes`; see `CountBounds.under`."""
        assert self.honest is not None
        measured = self.honest(fakes)
        return {
            "bounds": replace(
                self,
                measured=measured,
                fakes=fakes,
                few=self.few and replace(self.few, fakes=fakes.number),
            ),
            **{name: getattr(measured, name) for name in ("std_error", "p_value", "law", "noise")},
            "details": {"sum_of_squared_counts": measured.squares},
        }

    def __call__(self, miss: float, population: bool) -> tuple[Floats, Floats]:
        count = self.measured.count * self.scale
        wide = spread(count, self.measured.std_error, self.reports if population else 0)
        scale = 1.0
        if population:
            scale = self.reports / (self.reports - self.fakes.number)
        up = self._reach(lambda law: law.upper(miss / 2))
        down = self._reach(lambda law: law.lower(miss / 2))
        low = scale * (count - up * wide - self.fakes.raised)
        high = scale * (count + down * wide + self.fakes.lowered)
        if self.few is None:
            return low, high
        fewest, most = self.few(miss, population)
        low = np.minimum(low, self.scale * fewest)
        return low, np.maximum(high, self.scale * most)

    def _reach(self, reach: Callable[[ErrorLaw], float]) -> Floats:
        """Return the reach of every candidate's interval to one side, in standard errors: shape
        (points,). `reach`: that of a distribution."""
        collisions, heavy = self.measured.collisions, self.measured.heavy
        channel = collisions.channel
        p, q = channel.chances
        most = float(np.delete(self.measured.count, heavy).max(initial=0.0))
        most = min(most, collisions.reports)
        reaches = np.full(self.measured.count.shape, reach(self.measured.law))
        if most * abs(p * (1 - p) - q * (1 - q)) > OWN_NOISE * collisions.reports * q * (1 - q):
            holders = most * np.linspace(0, 1, HOLDERS) ** 2
            reaches = np.interp(
                self.measured.count, holders, [reach(collisions.law(held)) for held in holders]
            )
        for place, held in zip(heavy.tolist(), collisions.heavy, strict=True):
            reaches[place] = reach(collisions.law(held, is_heavy=True))
        return reaches


def _p_value(table: Table, law: ErrorLaw, named_counts: Ints, more: float) -> Floats:
    """Return the p-values by `law`, in which permanent responses are many and normal. Where clients
    are few, returns no smaller ones than by `bounds_of_few`."""
    mechanism, p_value = table.mechanism, law.p_value(named_counts)
    assert isinstance(mechanism, MeanSketch)
    if not (more and mechanism.permanent_channel):
        return p_value
    no_count = np.zeros(1)
    few = bounds_of_few(mechanism, table.total, named_counts, no_count, more=more)
    return np.maximum(p_value, few.p_value) if few else p_value


def bounds_of_few(
    mechanism: MeanSketch,
    reports: int,
    named_counts: Ints,
    count: Floats,
    is_sample: bool = False,
    more: float = 0.0,
) -> BinomialBounds | None:
    """Return exact intervals for few reports, each of a row of its own, or for few clients that
    sent `more` beyond one. Returns None where there are so many (FEW_LIES) that errors are normal.

    A report of another value names a value by a lie or by a collision. Normal intervals are too
    narrow for few reports: they take the estimates for the true counts. `is_sample`: whether the
    counts belong to a larger number of reports, of which these are a sample."""
    collided = _collided(mechanism.channel, mechanism.columns)
    lies, clients = float(collided.untouched), float(reports)
    if pooled := pooled_law(mechanism, more):
        assert mechanism.permanent_channel
        permanent = _collided(mechanism.permanent_channel, mechanism.columns).chances
        pooled = pooled._replace(permanent=permanent)
        lies, clients = permanent[1], reports / pooled.per_client
    if clients * lies * (1 - lies) >= FEW_LIES:
        return None
    about = np.full(named_counts.size, reports) if is_sample else None
    return BinomialBounds(named_counts, reports, collided, count, about, pooled=pooled)


def _collided(channel: Channel, columns: int) -> Channel:
    """Return the channel whose untouched cells are touched by one value in `columns`."""
    untouched = channel.untouched + (channel.touched - channel.untouched) / columns
    return Channel(touched=channel.touched, untouched=untouched)


def _collisions(
    table: Table, count: Floats, std_error: Floats, squares: float, beyond: float
) -> tuple[Collisions, Places]:
    """Return the collisions as estimated from the candidates, and the indices of the candidates
    that are its `heavy`. `count`, `std_error`: shape (candidates,); `squares`: F2.

    A candidate is clearly held when its count is larger than that of any candidate that nobody
    holds would be, except with probability CLEARLY_HELD, under the distribution that the candidates
    found before leave: what these do not explain is one heavy value in its upper tail.
    Squares of estimates are taken without their noise. `beyond`, a variance of the count, is of
    many clients and therefore normal, as small collisions are.
    """
    rows, width = table.mechanism.shape
    scale = width / (width - 1) / table.mechanism.channel.gain
    net, is_held = count**2 - std_error**2, np.zeros(count.size, dtype=np.bool_)
    for _ in range(ROUNDS):
        heavy = np.flatnonzero(is_held)
        heavy = heavy[np.argsort(-net[heavy], kind="stable")]
        lumps = heavy[:MOST_LUMPS]
        lumps = lumps[count[lumps] / rows > LUMP * std_error[lumps]]
        small = max(0.0, float(net[~is_held].sum()))
        unknown = max(0.0, squares - float(net[heavy].sum()) - small)
        small += float(net[heavy].sum() - net[lumps].sum())
        rest = table.total - float(count[heavy].sum())
        collisions = Collisions(
            channel=table.mechanism.channel,
            reports=table.total,
            rows=rows,
            width=width,
            heavy=np.sqrt(net[lumps]).tolist(),
            small_squares=small + beyond * (1 - 1 / width) * rows * width,
            unknown=unknown,
            unknown_most=max(0.0, rest) + SURE * float(np.sqrt((std_error[heavy] ** 2).sum())),
        )
        law = collisions.law()
        clear = law.upper(CLEARLY_HELD / count.size) * law.std * scale
        is_held_now = is_held | ((count > clear) & (net > 0))
        if np.array_equal(is_held_now, is_held):
            break
        is_held = is_held_now
    return collisions, lumps


def estimated_squares(
    table: Table, named_counts: AnyInts, more: float = 0.0, fakes: int = 0
) -> float:
    """Return F2, the sum of squared counts of all values, estimated from the cells. It is at least
    0.

    `named_counts`: number of reports that name each cell, shape (rows, columns).

    The expected sum of squared unbiased cells is m n B + n (1 - 1/k) + n**2/(k m) + F2 (1 - 1/m)/k,
    with B the channel's variance for a cell. Solve for F2. Cells are de-biased before they are
    squared. So no digits cancel however large n is. Each of `more` further reports of a client adds
    the first two terms with the permanent response's channel.

    With `fakes` the result is the most that F2 of the honest reports can be. Cells of length |O|,
    around their mean, are those of honest reports, of length |H|, and of fakes, so
    |H| <= |O| + |f|. Fakes spread evenly over rows hide most, because honest reports are so spread.
    A report adds at most 1 / (2 gain) to every cell, around its mean; a report of one column adds
    1 / gain to one cell.
    """
    rows, width = table.mechanism.shape
    channel, n = table.mechanism.channel, table.total
    scale, offsets = 1 / channel.gain, channel.holders(0, table.reports)
    cells = sum_of_squares(named_counts, scale, offsets)
    noise = n * (channel.variance(1.0) + (width - 1) * channel.variance(0.0) + 1 - 1 / rows)
    if more and (first := table.mechanism.permanent_channel):
        shared = first.variance(1.0) + (width - 1) * first.variance(0.0) + 1 - 1 / rows
        noise += more * n * shared
    around = max(0.0, cells - n**2 / (rows * width))
    of_fake = 1.0 if table.mechanism.kind is Index else math.sqrt(width) / 2
    length = fakes * scale * of_fake / math.sqrt(rows)
    excess: float = (math.sqrt(around) + length) ** 2 - noise
    return max(0.0, excess * rows / (1 - 1 / width))
