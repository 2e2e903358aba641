"""The de-biased mean sketch: count mean sketch tables, over any dictionary.

The estimate is Apple's ("Sketch CMS" and "Server CMS", 2017): average the unbiased cells that a
candidate touches over all rows, then take off what collisions add on average. With few rows and
many reports the collisions do not average out: the hash functions are fixed, so their error is a
floor that no number of reports lowers. Its size depends on F2, the sum of squared counts of all
values, which is estimated from the table itself.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldp.arrays import AnyInts, Floats, Ints, Places
from ldp.decoding.direct import pooled_variance
from ldp.decoding.error_law import Collisions, ErrorLaw
from ldp.mechanisms.memoisation import Memoising
from ldp.mechanisms.sketch import MeanSketch
from ldp.tables.estimates import Estimates, Rule, spread
from ldp.tables.table import Table

MIN_ROWS = 64
"""Below this collisions hardly average out: no p-value, no error rate."""
GROUPS = 128
"""Groups of rows, at most, between which the sum of all estimates is seen to vary."""
CLEARLY_HELD = 0.01
"""The probability that any candidate that nobody holds is taken for one that many hold."""
ROUNDS = 20
"""Of looking for candidates that are clearly held, given those that were found before."""
SURE = 3.0
"""Standard errors of the sum of what is clearly held, by which more than the rest may be missing
from the list."""
LUMP = 0.02
"""Standard errors that one collision moves a count by, from which collisions with a value are
counted one by one; smaller ones are taken together, for normal."""
MOST_LUMPS = 512
OWN_NOISE = 0.01
"""Of the noise: by how much a candidate's own reports must change it to be reckoned with."""
HOLDERS = 9
"""Counts for which a law is computed, where they are; between them reaches are interpolated."""
FEW_ROWS = (
    f"fewer than {MIN_ROWS} rows: collisions do not average out, so no error rate is claimed and "
    "nothing is discovered but by threshold; use method regression"
)


def decode(table: Table, candidates: tuple[str, ...], rule: Rule, more: float = 0.0) -> Estimates:
    """Estimates with the collision error in every standard error and p-value.

    With S the sum over rows of the unbiased cells a candidate touches, n reports, k rows and m
    columns: count = m/(m-1) (S - n/m). Time: candidates x rows hashes, 1 to 2 ns each, shared by
    all cores; memory: the table and the candidates. `more`: as for `direct.estimated`.
    """
    from ldp.bulk import gather_groups, points  # late: numba takes half a second to import

    mechanism, n = table.mechanism, table.total
    assert isinstance(mechanism, MeanSketch)
    cells, rows = table.named_counts(), mechanism.rows
    places = points(mechanism.addressing, rows, candidates)
    bounds = np.linspace(0, rows, min(rows, GROUPS) + 1).astype(int)
    named, sums = gather_groups(mechanism.addressing, cells, places, bounds.tolist())
    found = measure(table, cells, named, more)
    details: dict[str, Any] = {"sum_of_squared_counts": found.squares}
    if rows < MIN_ROWS:
        details["warning"] = FEW_ROWS
    return Estimates(
        values=candidates,
        count=found.count,
        std_error=found.std_error,
        p_value=found.p_value,
        reports=n,
        noise=found.noise,
        law=found.law,
        bounds=Bounds(found, n),
        rule=rule,
        details=details,
        sum_std_error=_sum_std_error(table, len(candidates), sums, bounds, more),
    )


def _sum_std_error(
    table: Table, candidates: int, named: Ints, bounds: Ints, more: float
) -> float | None:
    """Standard error of the sum of so many estimates, from how it varies between groups of rows;
    `named`: the sum of their cells in every group. None below MIN_ROWS.

    A report draws its row, and rows have hash functions of their own, so noise and collisions of
    groups are independent: with T_g the group's part of the sum and w_g its share of the rows,
    sum (T_g - w_g T)**2 / (1 - sum w_g**2) has for its mean the variance of T, and besides that the
    holders' draw of a row, which the sum of all groups does not feel: T times each one's reports.
    """
    mechanism, n = table.mechanism, table.total
    rows, width = mechanism.shape
    if rows < MIN_ROWS:
        return None
    reports = np.add.reduceat(table.reports, bounds[:-1]) * candidates
    parts = width / (width - 1) * (mechanism.channel.holders(named, reports) - reports / width)
    shares, total = np.diff(bounds) / rows, float(parts.sum())
    varied = float(((parts - shares * total) ** 2).sum()) / (1 - float((shares**2).sum()))
    return math.sqrt(max(0.0, varied - (1 + more) * min(max(total, 0.0), n)))


@dataclass(frozen=True, eq=False)
class Measurement:
    """Estimates of some points of a sketch; `p_value` is NaN below MIN_ROWS, `squares` is F2,
    `noise` the standard error of a value that nobody holds; of the points at `heavy`,
    shape (collisions.heavy,), every collision is counted."""

    count: Floats
    std_error: Floats
    p_value: Floats
    law: ErrorLaw
    collisions: Collisions
    heavy: Places
    squares: float
    noise: float


def measure(table: Table, cells: AnyInts, named: Ints, more: float = 0.0) -> Measurement:
    """What `named` reports, shape (points,), in the cells of each point tell of those who hold it.

    `cells`: how many reports name each cell, shape (rows, columns). Hashes nothing, so it does not
    matter which of its metric's rows the table holds.
    """
    mechanism, n = table.mechanism, table.total
    rows, width = mechanism.shape
    count = width / (width - 1) * (mechanism.channel.holders(named, n) - n / width)
    share = np.clip(count / n, 0, 1)
    squares, beyond = sum_of_squares(table, cells, more), pooled_variance(mechanism, more)
    others = np.maximum(squares / n**2 - share**2, 0.0)
    std_error = np.sqrt(mechanism.variance(n, share, others) + beyond(n, share))
    noise = float(np.sqrt(mechanism.variance(n, 0.0, squares / n**2) + beyond(n, 0.0)))
    collisions, heavy = _collisions(table, count, std_error, squares, beyond(n, 0.0))
    law = collisions.law()
    return Measurement(
        count=count,
        std_error=std_error,
        p_value=law.p_value(named) if rows >= MIN_ROWS else np.full(count.size, np.nan),
        law=law,
        collisions=collisions,
        heavy=heavy,
        squares=squares,
        noise=noise,
    )


@dataclass(frozen=True, eq=False)
class Bounds:
    """Intervals under the law of each candidate's own error: a value that many hold does not
    collide with itself, and the noise of its own reports may be another. `scale`, `std_error`: as
    the estimates are, where they are not `measured` but made of it."""

    measured: Measurement
    reports: int
    scale: float = 1.0
    std_error: Floats | None = None

    def __call__(self, miss: float, population: bool) -> tuple[Floats, Floats]:
        count = self.measured.count * self.scale
        std_error = self.measured.std_error if self.std_error is None else self.std_error
        wide = spread(count, std_error, self.reports if population else 0)
        return (
            count - self._reach(lambda law: law.upper(miss / 2)) * wide,
            count + self._reach(lambda law: law.lower(miss / 2)) * wide,
        )

    def _reach(self, reach: Callable[[ErrorLaw], float]) -> Floats:
        """How far, in standard errors, every candidate's interval reaches to one side."""
        collisions, heavy = self.measured.collisions, self.measured.heavy
        channel = collisions.channel
        p, q = float(channel.touched), float(channel.untouched)
        most = float(np.delete(self.measured.count, heavy).max(initial=0.0))
        most = min(most, collisions.reports)
        found = np.full(self.measured.count.shape, reach(self.measured.law))
        if most * abs(p * (1 - p) - q * (1 - q)) > OWN_NOISE * collisions.reports * q * (1 - q):
            holders = most * np.linspace(0, 1, HOLDERS) ** 2
            found = np.interp(
                self.measured.count, holders, [reach(collisions.law(held)) for held in holders]
            )
        for place, held in zip(heavy.tolist(), collisions.heavy, strict=True):
            found[place] = reach(collisions.law(held, is_heavy=True))
        return found


def _collisions(
    table: Table, count: Floats, std_error: Floats, squares: float, beyond: float
) -> tuple[Collisions, Places]:
    """Who collides with whom, as far as the candidates' estimates tell, and the positions of the
    candidates that are its `heavy`.

    A candidate is clearly held when its count is larger than that of any candidate that nobody
    holds would be, but with probability CLEARLY_HELD, under the law that the ones found before
    leave: what these do not explain is one heavy value in that law's upper tail. Squares of
    estimates are taken without the noise that is in them. `beyond`, a variance of the count, is of
    many clients and therefore normal, as small collisions are.
    """
    rows, width = table.mechanism.shape
    scale = width / (width - 1) / table.mechanism.channel.gain
    net, held = count**2 - std_error**2, np.zeros(count.size, dtype=np.bool_)
    for _ in range(ROUNDS):
        heavy = np.flatnonzero(held)
        heavy = heavy[np.argsort(-net[heavy], kind="stable")]
        lumps = heavy[:MOST_LUMPS]
        lumps = lumps[count[lumps] / rows > LUMP * std_error[lumps]]
        small = max(0.0, float(net[~held].sum()))
        unknown = max(0.0, squares - float(net[heavy].sum()) - small)
        small += float(net[heavy].sum() - net[lumps].sum())
        rest = table.total - float(count[heavy].sum())
        collisions = Collisions(
            channel=table.mechanism.channel,
            reports=table.total,
            rows=rows,
            width=width,
            heavy=np.sqrt(net[lumps]).tolist(),
            small_squares=small + beyond * (1 - 1 / width) ** 2 * rows * width,
            unknown=unknown,
            unknown_most=max(0.0, rest) + SURE * float(np.sqrt((std_error[heavy] ** 2).sum())),
        )
        law = collisions.law()
        clear = law.upper(CLEARLY_HELD / count.size) * law.std * scale
        found = held | ((count > clear) & (net > 0))
        if np.array_equal(found, held):
            break
        held = found
    return collisions, lumps


def sum_of_squares(table: Table, named: AnyInts, more: float = 0.0) -> float:
    """F2, the sum of squared counts of all values, estimated from the cells; floored at 0.

    `named`: how many reports name each cell, shape (rows, columns).

    The expected sum of squared unbiased cells is m n B + n (1 - 1/k) + n**2/(k m)
    + F2 (1 - 1/m)/k, with B the channel's variance for a cell; solve for F2. Cells are de-biased
    before they are squared, so nothing is lost to cancellation however large n is. So many `more`
    reports of a client add, each, the first two terms with the permanent response's channel.
    """
    from ldp.bulk import sum_of_squares as summed

    rows, width = table.mechanism.shape
    channel, n = table.mechanism.channel, table.total
    scale, offsets = 1 / channel.gain, channel.holders(0, table.reports)
    cells = summed(named, scale, offsets)
    noise = n * (channel.variance(1.0) + (width - 1) * channel.variance(0.0) + 1 - 1 / rows)
    if more:
        assert isinstance(table.mechanism, Memoising)
        assert table.mechanism.permanent_channel
        first = table.mechanism.permanent_channel
        shared = first.variance(1.0) + (width - 1) * first.variance(0.0) + 1 - 1 / rows
        noise += more * n * shared
    excess: float = cells - noise - n**2 / (rows * width)
    return max(0.0, excess * rows / (1 - 1 / width))
