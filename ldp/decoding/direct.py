"""Tables with a cell for every category: randomized response.

A cell's count C of n reports is a sum of two binomials; (C - n q) / (p - q) is unbiased, with the
variance of `Channel.variance` (Wang et al. 2017, "pure" protocols).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.decoding.error_law import error_law
from ldp.decoding.named import named_counts
from ldp.errors import DecodeError, ParameterError
from ldp.estimates import Estimates, Normal, Rule
from ldp.mechanisms import Mechanism
from ldp.mechanisms.memoising import Memoising
from ldp.table import Table


def decode(table: Table, candidates: tuple[str, ...], rule: Rule, more: float = 0.0) -> Estimates:
    """Estimates of a one-row table in which every candidate has a cell; see `estimated`.

    Raises DecodeError for a candidate that is no category.
    """
    points = known_points(table.mechanism, candidates)
    cells = [table.mechanism.addressing.cells(point, 0) for point in points]
    if not all(cells):
        raise DecodeError("a candidate touches no cell; its count is the rest of the reports")
    named = named_counts(table)[0, [cell for (cell,) in cells]].astype(np.int64)
    return estimated(table, candidates, named, rule, more)


def known_points(mechanism: Mechanism, candidates: tuple[str, ...]) -> list[int]:
    """The points of the candidates; raises DecodeError where the mechanism does not know one."""
    try:
        return [mechanism.addressing.point(candidate) for candidate in candidates]
    except ParameterError as error:
        raise DecodeError(f"a candidate is unknown to the mechanism: {error}") from None


def estimated(
    table: Table,
    candidates: tuple[str, ...],
    named: NDArray[np.int64],
    rule: Rule,
    more: float = 0.0,
) -> Estimates:
    """Estimates from how many reports name each candidate; p-values are exact binomial tails.

    A value that nobody holds is reported by each of the n devices with probability q, so its count
    is Binomial(n, q). Where each client sent so many `more` reports than one under a permanent
    response (`Memoising.pooled_variance`), p-values are normal.
    """
    from scipy.stats import binom, norm

    mechanism, n = table.mechanism, table.total
    channel = mechanism.support
    count = channel.holders(named, n)
    share = np.clip(count / n, 0, 1)
    lies = float(channel.untouched)
    beyond = pooled(mechanism, more)
    noise = float(np.sqrt(mechanism.variance(n) + beyond(n, 0.0)))
    return Estimates(
        values=candidates,
        count=count,
        std_error=np.sqrt(mechanism.variance(n, share) + beyond(n, share)),
        p_value=norm.sf(count / noise) if more else binom.sf(named - 1, n, lies),
        reports=n,
        noise=noise,
        law=Normal() if more else error_law(channel, n),
        rule=rule,
    )


def pooled(mechanism: Mechanism, more: float) -> Callable[[int, Any], Any]:
    """What so many `more` reports of every client under one permanent response add to the variance
    of a count, by how many reports there are and by the share that holds the value."""
    if not more:
        return lambda reports, frequency: 0.0
    assert isinstance(mechanism, Memoising)
    return lambda reports, frequency: more * mechanism.pooled_variance(reports, frequency)
