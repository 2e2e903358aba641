"""Tables of bit flips: counts of the numbers in each bucket.

A bucket has a bit in as many rows as a report has bits: where C of the n_v reports there set it,
(C - n_v q) / (p - q) of them hold it, and n / n_v times as many of all n.
"""

import math

import numpy as np

from ldp.arrays import Floats, Ints
from ldp.decoding.binomials import BinomialBounds, CountLaw
from ldp.decoding.direct import pooled_law, pooled_std_error
from ldp.errors import DecodeError
from ldp.mechanisms.bit_flip import BitFlip
from ldp.protocol.channel import Channel
from ldp.tables.estimates import Estimates, Rule
from ldp.tables.table import Table


def decode(table: Table, candidates: tuple[str, ...], rule: Rule, more: float = 0.0) -> Estimates:
    """Return estimates of buckets by their labels. P-values and intervals are exact for binomials,
    or for what each client sent under a permanent response, `more` reports beyond one. Raises
    DecodeError for a candidate that is no bucket, and a bucket without reports."""
    mechanism, n = table.mechanism, table.total
    assert isinstance(mechanism, BitFlip)
    number = {label: i for i, label in enumerate(mechanism.labels)}
    if not {*candidates} <= {*number}:
        raise DecodeError("a candidate is not a bucket")
    bucket = np.array([number[candidate] for candidate in candidates])
    named_counts, reports_about = counts_of_buckets(table)
    channel, scale = mechanism.channel, n / reports_about
    count = (channel.holders(named_counts, reports_about) * scale)[bucket]
    share = np.clip(count / n, 0, 1)
    sampling = (scale[bucket] - 1) * share * (1 - share)
    variance = n * (scale[bucket] * channel.variance(share) + sampling)
    further = more * mechanism.pooled_variance(n, share)
    about = None if mechanism.bits == mechanism.buckets else reports_about[bucket]
    pooled = pooled_law(mechanism, more)
    bounds = BinomialBounds(named_counts[bucket], n, channel, count, about, pooled=pooled)
    return Estimates(
        values=candidates,
        count=count,
        std_error=np.sqrt(variance + further),
        p_value=bounds.p_value,
        reports=n,
        noise=float(pooled_std_error(mechanism, more, n)),
        law=CountLaw(round(n / scale.mean()), float(channel.untouched), pooled),
        bounds=bounds,
        rule=rule,
        sum_std_error=_sum_std_error(table, bucket, share, scale[bucket], more),
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


def _sum_std_error(table: Table, bucket: Ints, share: Floats, scale: Floats, more: float) -> float:
    """Return the standard error of the sum of the estimates of each `bucket`, held by `share` of
    the reports and about by one in `scale`, shape (candidates,) each."""
    mechanism = table.mechanism
    variance = _sum_variance(table, mechanism.channel, bucket, share, scale)
    if more and (first := mechanism.permanent_channel):
        variance += more * _sum_variance(table, first, bucket, share, scale)
    return math.sqrt(variance)


def _sum_variance(
    table: Table, channel: Channel, bucket: Ints, share: Floats, scale: Floats
) -> float:
    """Return the variance of the sum of the estimates from bits through `channel`. Bits are
    independent, so their noise adds. Which holders are asked does not: a report of row v adds w on
    average if v is about its bucket of scale w, else 0, where 1 is right. The deviation from 1 has
    the mean square w - 1 over rows, and what it has in common in a row is fixed by the numbers of
    reports, which are known."""
    rows, bits = table.mechanism.shape
    added, in_row = np.zeros(rows), np.zeros(rows)
    added[bucket] = share * scale
    for column in range(bits):
        in_row += np.roll(added, -column)
    weights = table.reports / table.total
    common = float(weights @ (in_row - weights @ in_row) ** 2)
    noise = float(scale @ channel.variance(share))
    return table.total * (noise + max(0.0, float(share @ (scale - 1)) - common))
