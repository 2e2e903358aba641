"""Tables of bit flips: counts of the numbers in each bucket.

A bucket has a bit in as many rows as a report has bits: where C of the n_v reports there set it,
(C - n_v q) / (p - q) of them hold it, and n / n_v times as many of all n.
"""

import numpy as np

from ldp.arrays import Ints
from ldp.decoding.binomials import BinomialBounds
from ldp.decoding.direct import pooled_variance
from ldp.errors import DecodeError
from ldp.mechanisms.bit_flip import BitFlip
from ldp.tables.estimates import Estimates, Normal, Rule
from ldp.tables.table import Table


def decode(table: Table, candidates: tuple[str, ...], rule: Rule, more: float = 0.0) -> Estimates:
    """Return estimates of buckets by their labels; p-values and intervals are exact for binomials,
    and normal where each client sent `more` reports beyond one under a permanent response. Raises
    DecodeError for a candidate that is no bucket, and a bucket without reports."""
    from scipy.stats import binom, norm

    mechanism, n = table.mechanism, table.total
    assert isinstance(mechanism, BitFlip)
    number = {label: i for i, label in enumerate(mechanism.labels)}
    if not {*candidates} <= {*number}:
        raise DecodeError("a candidate is no bucket of the mechanism")
    bucket = np.array([number[candidate] for candidate in candidates])
    named_counts, reports_about = counts_of_buckets(table)
    channel, scale = mechanism.channel, n / reports_about
    count = (channel.holders(named_counts, reports_about) * scale)[bucket]
    share = np.clip(count / n, 0, 1)
    sampling = (scale[bucket] - 1) * share * (1 - share)
    variance = n * (scale[bucket] * channel.variance(share) + sampling)
    lies, beyond = float(channel.untouched), pooled_variance(mechanism, more)
    noise = float(np.sqrt(mechanism.variance(n) + beyond(n, 0.0)))
    p_value = (
        norm.sf(count / noise) if more else binom.sf(named_counts - 1, reports_about, lies)[bucket]
    )
    exact = BinomialBounds(
        named_counts[bucket],
        n,
        channel,
        count,
        None if mechanism.bits == mechanism.buckets else reports_about[bucket],
    )
    return Estimates(
        values=candidates,
        count=count,
        std_error=np.sqrt(variance + beyond(n, share)),
        p_value=p_value,
        reports=n,
        noise=noise,
        law=Normal(),
        bounds=None if more else exact,
        rule=rule,
    )


def counts_of_buckets(table: Table) -> tuple[Ints, Ints]:
    """Return for each bucket the number of reports that name it, and of those about it: shape
    (buckets,). Raises DecodeError for a bucket without reports."""
    rows, columns = table.counts.shape
    named_counts, reports_about = np.zeros((2, rows), np.int64)
    for column in range(columns):
        named_counts += np.roll(table.counts[:, column].astype(np.int64), column)
        reports_about += np.roll(table.reports, column)
    if not reports_about.all():
        raise DecodeError("no report is about one of the buckets: too few for estimates")
    return named_counts, reports_about
