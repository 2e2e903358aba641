"""Prefix extension: words found from their beginnings, one length after the other.

Source: Wang, Li and Jha 2019, algorithm 2 (PEM), which keeps the so many largest of each length.
Here a beginning is kept when it would be so large by chance only once in a while, and the words
are decided by the reports about whole words, whose noise had no part in choosing them.
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
"""Beginnings of one length that noise may let through, on average."""
MOST_KEPT = 4096
"""Beginnings of one length that are extended; the largest, where there are more."""
MOST_TESTED = 1 << 23


def discover_prefixes(table: Table, *, rule: Rule | None = None) -> Estimates:
    """Finds words: estimates of every word whose beginnings were all kept, decided by `rule`
    (Bonferroni at 0.05 unless given) among all of them, from the reports about whole words alone.

    Counts are scaled to all reports: those about whole words are a random part of them. What is
    controlled is the error rate over the words that are tested, whatever the shorter lengths let
    through. Raises DecodeError for a table of anything else or of none, for lengths with fewer than
    64 rows, and for more than MOST_TESTED continuations.
    """
    mechanism = table.mechanism
    if not isinstance(mechanism, PrefixExtension):
        raise DecodeError("the table is none of a prefix extension (mechanism prefix)")
    each = mechanism.rows // mechanism.groups
    if each < MIN_ROWS:
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
        there, measured = _measured(table, mechanism, group, candidates)
        if group == mechanism.groups - 1:
            break
        passed = np.flatnonzero(measured.p_value <= min(0.5, CHANCE / len(candidates)))
        order = passed[np.argsort(-measured.count[passed], kind="stable")][:MOST_KEPT]
        words = [candidates[i] for i in order.tolist()]
        kept.append(len(words))
        if not words:
            raise DecodeError("no beginning stands out: too few reports to find a word")
    scale = table.total / there.total
    details: dict[str, Any] = {
        **table_details(table, "prefixes"),
        "kept": kept,
        "reports_about_words": there.total,
    }
    count = measured.count * scale
    share = np.clip(count / table.total, 0, 1)
    rare = there.mechanism.std_error(there.total, 0.0, measured.squares / there.total**2)
    sampled = table.total * share * (1 - share) * (scale - 1)
    std_error = np.sqrt((measured.std_error * scale) ** 2 + sampled)
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


def _measured(
    table: Table, mechanism: PrefixExtension, group: int, candidates: list[str]
) -> tuple[Table, Measurement]:
    """The group's own rows as a table of local hashing, and what they tell of its candidates."""
    from ldp.bulk import coefficients, gather  # late: numba takes half a second to import

    each = mechanism.rows // mechanism.groups
    some = slice(group * each, (group + 1) * each)
    sketch = LocalHashing(
        epsilon=mechanism.epsilon, rows=each, seed=mechanism.seed, buckets=mechanism.buckets
    )
    there = Table(sketch, table.counts[some], table.reports[some])
    if not there.total:
        raise DecodeError("one of the lengths has no reports")
    points: NDArray[np.uint64] = np.fromiter(
        map(value_point, candidates), dtype=np.uint64, count=len(candidates)
    )
    polynomials = coefficients(mechanism.addressing.rows, mechanism.rows)[some]
    named = gather(sketch.addressing, there.counts, points, polynomials)
    return there, measure(there, there.counts, named)
