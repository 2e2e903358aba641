"""Tables with a cell for every category: randomised response, unary encoding, subsets.

A cell's count C of n reports is a sum of two binomials. (C - n q) / (p - q) is unbiased, with the
variance of `Channel.variance` (Wang et al. 2017, "pure" protocols).
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ldp.arrays import Ints
from ldp.decoding.binomials import BinomialBounds, CountLaw, Pooled
from ldp.errors import DecodeError, LdpError
from ldp.mechanisms import Mechanism
from ldp.protocol.channel import Channel
from ldp.protocol.kinds import Subset
from ldp.tables.estimates import Estimates, Rule
from ldp.tables.table import Table

HARDLY = 1e-9
"""Probability in place of 0 that a report contradicts its permanent response."""


def decode(table: Table, candidates: tuple[str, ...], rule: Rule, more: float = 0.0) -> Estimates:
    """Return estimates of a one-row table in which every candidate has a cell. Arguments are those
    of `estimate_counts`. Raises DecodeError for a candidate that is no category."""
    points = known_points(table.mechanism, candidates)
    cells = [table.mechanism.candidate_addressing.cells(point, 0) for point in points]
    if not all(cells):
        raise DecodeError("a candidate touches no cell; its count is the rest of the reports")
    return of_cells(table, candidates, [cell for (cell,) in cells], rule, more)


def of_cells(
    table: Table, candidates: tuple[str, ...], cells: ArrayLike, rule: Rule, more: float = 0.0
) -> Estimates:
    """Return the estimates of candidates that have these `cells`, shape (candidates,)."""
    named_counts = table.named_counts()[0, np.asarray(cells)].astype(np.int64)
    estimates = estimate_counts(table, candidates, named_counts, rule, more)
    return replace(estimates, sum_std_error=_sum_std_error(table.mechanism, estimates, more))


def known_points(mechanism: Mechanism, candidates: tuple[str, ...]) -> list[int]:
    """Return the points of the candidates. Raises DecodeError for one unknown to the mechanism."""
    points, point = list[int](), mechanism.candidate_addressing.point
    for candidate in candidates:
        try:
            points.append(point(candidate))
        except LdpError as error:
            raise DecodeError(f"candidate {candidate!r}: {error}") from None
    return points


def estimate_counts(
    table: Table,
    candidates: tuple[str, ...],
    named_counts: Ints,
    rule: Rule,
    more: float = 0.0,
) -> Estimates:
    """Return estimates from the number of reports that name each candidate, `named_counts`, shape
    (candidates,). p-values are exact binomial tails, and intervals those of
    `ldp/decoding/binomials.py`.

    A value that nobody holds is reported by each of the n devices with probability q. So its count
    is Binomial(n, q). Where each client sent `more` reports beyond one under a permanent response
    (`MemoisedMechanism.pooled_variance`), the law is that of `Pooled`.
    """
    mechanism, n = table.mechanism, table.total
    channel = mechanism.support
    count = channel.holders(named_counts, n)
    share = np.clip(count / n, 0, 1)
    pooled = pooled_law(mechanism, more)
    bounds = BinomialBounds(named_counts, n, channel, count, pooled=pooled)
    return Estimates(
        values=candidates,
        count=count,
        std_error=pooled_std_error(mechanism, more, n, share),
        p_value=bounds.p_value,
        reports=n,
        noise=float(pooled_std_error(mechanism, more, n)),
        law=CountLaw(n, float(channel.untouched), pooled),
        bounds=bounds,
        rule=rule,
    )


def pooled_law(mechanism: Mechanism, more: float) -> Pooled | None:
    """Return the law of counts where each client sent `more` reports beyond one under a permanent
    response. Returns None where none did."""
    permanent, channel = mechanism.permanent_channel, mechanism.channel
    if not more or not permanent:
        return None
    gain = float(channel.gain / permanent.gain)
    least = float(channel.untouched) - float(permanent.untouched) * gain
    low, high = np.clip([least, least + gain], HARDLY, 1 - HARDLY).tolist()
    return Pooled(1 + more, permanent.chances, (high, low))


def pooled_std_error(
    mechanism: Mechanism, more: float, n: int, share: Any = 0.0, others: Any = 0.0
) -> Any:
    """Return the standard error of a count where each client sent `more` reports beyond one under a
    permanent response. Other arguments are those of `Mechanism.variance`."""
    variance = mechanism.variance(n, share, others)
    return np.sqrt(variance + more * mechanism.pooled_variance(n, share))


def _sum_std_error(mechanism: Mechanism, estimates: Estimates, more: float) -> float:
    """Return the standard error of the sum of s estimates. Bits are independent, so their variances
    add. If a report is one symbol, the s cells are one cell, named with probability p + (s - 1) q
    or s q. All categories together are all reports. If a report is a set, its cells depend on each
    other. If people have several answers, all are taken to have their mean number, rounded down or
    up: that gives the largest error for this sum."""
    n, s, columns = estimates.reports, len(estimates.values), mechanism.shape.columns
    held = float(np.clip(estimates.count.sum() / n, 0, mechanism.at_most_answers))
    if mechanism.kind.is_bitwise:
        beyond = more * mechanism.pooled_variance(n, held / s)
        return math.sqrt(s * (mechanism.variance(n, held / s) + beyond))
    if s == columns:
        return 0.0
    if isinstance(mechanism.layout, Subset):
        fewer, part = divmod(held, 1)
        both = (_subset_variance(mechanism, mechanism.layout, s, fewer + i) for i in (0, 1))
        return math.sqrt(n * np.interp(part, (0, 1), [*both]))
    variance = n * _united(mechanism.support, s).variance(held)
    if more and mechanism.permanent_channel:
        variance += more * n * _united(mechanism.permanent_channel, s).variance(held)
    return math.sqrt(variance)


def _subset_variance(mechanism: Mechanism, layout: Subset, cells: int, held: float) -> float:
    """Return the variance of the sum over `cells` cells of a report's estimates, for a value that
    touches `held` of them."""
    channel, rest = mechanism.channel, cells - held
    pairs = layout.pair_probabilities(channel.touched, mechanism.touches)
    one_touched, untouched = map(float, pairs)
    mean = held * float(channel.touched) + rest * float(channel.untouched)
    two = (held * (held - 1) + 2 * held * rest) * one_touched + rest * (rest - 1) * untouched
    return max(0.0, mean + two - mean**2) / channel.gain**2


def _united(channel: Channel, cells: int) -> Channel:
    """Return the channel of `cells` cells of one symbol taken as one cell."""
    others = (cells - 1) * channel.untouched
    return Channel(touched=channel.touched + others, untouched=channel.untouched + others)
