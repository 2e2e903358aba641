"""Tables with a cell for every category: randomized response.

A cell's count C of n reports is a sum of two binomials; (C - n q) / (p - q) is unbiased, with the
variance of `Channel.variance` (Wang et al. 2017, "pure" protocols).
"""

import numpy as np
from numpy.typing import NDArray

from ldp.decoding.error_law import error_law
from ldp.decoding.named import named_counts
from ldp.errors import DecodeError, ParameterError
from ldp.estimates import Estimates, Normal, Rule
from ldp.mechanisms import Mechanism
from ldp.table import Table


def decode(table: Table, candidates: tuple[str, ...], rule: Rule, pooled: float = 0.0) -> Estimates:
    """Estimates of a one-row table in which every candidate has a cell; see `estimated`.

    Raises DecodeError for a candidate that is no category.
    """
    points = known_points(table.mechanism, candidates)
    cells = [table.mechanism.addressing.cells(point, 0) for point in points]
    if not all(cells):
        raise DecodeError("a candidate touches no cell; its count is the rest of the reports")
    named = named_counts(table)[0, [cell for (cell,) in cells]].astype(np.int64)
    return estimated(table, candidates, named, rule, pooled)


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
    pooled: float = 0.0,
) -> Estimates:
    """Estimates from how many reports name each candidate; p-values are exact binomial tails.

    A value that nobody holds is reported by each of the n devices with probability q, so its count
    is Binomial(n, q). With `pooled`, a variance that each report's bit has beyond that because it
    shares a permanent response with others, p-values are normal.
    """
    from scipy.stats import binom, norm

    mechanism, n = table.mechanism, table.total
    channel = mechanism.support
    count = channel.holders(named, n)
    share = np.clip(count / n, 0, 1)
    lies = float(channel.untouched)
    beyond = n * pooled / channel.gain**2
    noise = float(np.sqrt(mechanism.variance(n) + beyond))
    return Estimates(
        values=candidates,
        count=count,
        std_error=np.sqrt(mechanism.variance(n, share) + beyond),
        p_value=norm.sf(count / noise) if pooled else binom.sf(named - 1, n, lies),
        reports=n,
        noise=noise,
        law=Normal() if pooled else error_law(channel, n),
        rule=rule,
    )
