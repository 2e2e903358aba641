"""Tables with a cell for every category: randomized response.

A cell's count C of n reports is a sum of two binomials; (C - n q) / (p - q) is unbiased, with the
variance of `Channel.variance` (Wang et al. 2017, "pure" protocols).
"""

import numpy as np

from ldp.decoding.error_law import error_law
from ldp.decoding.named import named_counts
from ldp.errors import DecodeError, ParameterError
from ldp.estimates import Estimates, Rule
from ldp.table import Table


def decode(table: Table, candidates: tuple[str, ...], rule: Rule) -> Estimates:
    """Estimates of a one-row table; p-values are exact binomial tails.

    A value that nobody holds is reported by each of the n devices with probability q, so its count
    is Binomial(n, q). Raises DecodeError for a candidate that is no category.
    """
    from scipy.stats import binom

    mechanism, n = table.mechanism, table.total
    channel = mechanism.channel
    try:
        cells = [mechanism.cells(candidate, 0) for candidate in candidates]
    except ParameterError as error:
        raise DecodeError(f"a candidate is unknown to the mechanism: {error}") from None
    if not all(cells):
        raise DecodeError("a candidate touches no cell; its count is the rest of the reports")
    named = named_counts(table)[0, [cell for (cell,) in cells]].astype(np.int64)
    count = channel.holders(named, n)
    share = np.clip(count / n, 0, 1)
    return Estimates(
        values=candidates,
        count=count,
        std_error=np.sqrt(mechanism.variance(n, share)),
        p_value=binom.sf(named - 1, n, float(channel.untouched)),
        reports=n,
        noise=mechanism.std_error(n),
        law=error_law(channel, n),
        rule=rule,
    )
