"""Prefix extension: words found from their beginnings, one length after the other.

Source: Wang, Li and Jha 2019, algorithm 2 (PEM), which keeps a fixed number of the largest of each
length. Here a beginning is kept when it is significant, and the reports about whole words decide
which words are discovered: their noise is independent of the words' choice.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.decoding.mean_sketch import MIN_ROWS, Bounds, Measurement, measure
from ldp.decoding.puzzle import fragments_of
from ldp.errors import DecodeError
from ldp.mechanisms.local_hashing import LocalHashing
from ldp.mechanisms.prefix import PrefixExtension
from ldp.protocol.hashing import value_point
from ldp.protocol.spelling import PAD
from ldp.tables.estimates import Estimates, Rule, table_details
from ldp.tables.table import Table

CHANCE = 30
"""Mean number of beginnings of a length that pass by noise."""
MOST_KEPT = 4096
"""Largest number of beginnings of a length that are extended; the most frequent ones."""
MOST_TESTED = 1 << 23


def discover_prefixes(table: Table, *, rule: Rule | None = None) -> Estimates:
    """Return estimates of every word whose beginnings were all kept, decided by `rule` (Bonferroni
    at 0.05 by default) among all of them, from the reports about whole words alone.

    Counts are scaled to all reports: those about whole words are a random part of them. The error
    rate over the tested words is controlled, whatever passes the shorter lengths. Raises
    DecodeError for a table of another mechanism or without reports, for lengths with fewer than
    MIN_ROWS rows, and for more than MOST_TESTED continuations.
    """
    mechanism = table.mechanism
    if not isinstance(mechanism, PrefixExtension):
        raise DecodeError("the table is none of a prefix extension (mechanism prefix)")
    if mechanism.rows // mechanism.groups < MIN_ROWS:
        raise DecodeError(f"fewer than {MIN_ROWS} rows a length: no error rate is claimed")
    spelling = mechanism.spelling
    if sum(len(spelling.alphabet) ** size for size in range(spelling.fragment + 1)) > MOST_TESTED:
        raise DecodeError(f"more than {MOST_TESTED:,} continuations: more groups are needed")
    endings = fragments_of(spelling)
    words, kept = [""], list[int]()
    for group in range(mechanism.groups):
        if len(words) * len(endings) > MOST_TESTED:
            raise DecodeError(f"more than {MOST_TESTED:,} continuations: more groups are needed")
        candidates = [
            word + ending
            for word in words
            for ending in (endings if not word.endswith(PAD) else [PAD * spelling.fragment])
        ]
        group_table, measured = _measure_group(table, mechanism, group, candidates)
        if group == mechanism.groups - 1:
            break
        significant = np.flatnonzero(measured.p_value <= min(0.5, CHANCE / len(candidates)))
        order = significant[np.argsort(-measured.count[significant], kind="stable")][:MOST_KEPT]
        words = [candidates[i] for i in order.tolist()]
        kept.append(len(words))
        if not words:
            raise DecodeError("no beginning stands out: too few reports to find a word")
    scale = table.total / group_table.total
    details: dict[str, Any] = {
        **table_details(table, "prefixes"),
        "kept": kept,
        "reports_about_words": group_table.total,
    }
    count = measured.count * scale
    share = np.clip(count / table.total, 0, 1)
    rare = group_table.mechanism.std_error(
        group_table.total, 0.0, measured.squares / group_table.total**2
    )
    sampling = table.total * share * (1 - share) * (scale - 1)
    std_error = np.sqrt((measured.std_error * scale) ** 2 + sampling)
    return Estimates(
        values=tuple(word.rstrip(PAD) for word in candidates),
        count=count,
        std_error=std_error,
        p_value=measured.p_value,
        reports=table.total,
        noise=rare * scale,
        law=measured.law,
        bounds=Bounds(measured, table.total, scale, std_error),
        rule=rule or Rule(control="bonferroni"),
        details=details,
    )


def _measure_group(
    table: Table, mechanism: PrefixExtension, group: int, candidates: list[str]
) -> tuple[Table, Measurement]:
    """Return the group's rows as a table of local hashing, and the estimates of its candidates.
    Raises DecodeError for a group without reports."""
    from ldp.bulk import coefficients, gather  # late: numba takes half a second to import

    rows = mechanism.rows // mechanism.groups
    block = slice(group * rows, (group + 1) * rows)
    sketch = LocalHashing(
        epsilon=mechanism.epsilon, rows=rows, seed=mechanism.seed, buckets=mechanism.buckets
    )
    group_table = Table(sketch, table.counts[block], table.reports[block])
    if not group_table.total:
        raise DecodeError("one of the lengths has no reports")
    points: NDArray[np.uint64] = np.fromiter(
        map(value_point, candidates), dtype=np.uint64, count=len(candidates)
    )
    polynomials = coefficients(mechanism.addressing.rows, mechanism.rows)[block]
    named = gather(sketch.addressing, group_table.counts, points, polynomials)
    return group_table, measure(group_table, group_table.counts, named)
