"""Prefix extension: words found from their beginnings, one length after the other.

Source: Wang, Li and Jha 2019, algorithm 2 (PEM), which keeps a fixed number of the largest of each
length. Here a beginning is kept when it is significant, and the reports about whole words decide
which words are discovered: their noise is independent of the words' choice.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ldp.arrays import Ints
from ldp.bulk.hash_kernels import coefficients
from ldp.decoding.mean_sketch import (
    MIN_ROWS,
    Measurement,
    SketchBounds,
    bounds_of_few,
    gather_with_error,
    measure,
)
from ldp.decoding.puzzle import fragment_number, fragments_of
from ldp.errors import DecodeError
from ldp.mechanisms.prefix import PrefixExtension
from ldp.protocol.hashing import value_point
from ldp.protocol.spelling import PAD
from ldp.tables.estimates import WORDS_RULE, Estimates, Rule, table_details
from ldp.tables.table import Table, one_table

CHANCE = 30
"""Mean number of beginnings of a length that pass by noise."""
MOST_KEPT = 4096
"""Largest number of beginnings of a length that are extended. They are the most frequent ones."""
MOST_TESTED = 1 << 23


def discover_prefixes(table: Table, *, rule: Rule | None = None) -> Estimates:
    """Return estimates of every word whose beginnings were all kept, from the reports about whole
    words alone. `rule` (Bonferroni at 0.05 by default) discovers among all of these words.

    Counts are scaled to all reports: those about whole words are a random part of them. The error
    rate over the tested words is controlled, whatever passes the shorter lengths. Raises
    DecodeError for a table of another mechanism or without reports, for lengths with fewer than
    MIN_ROWS rows, and for more than MOST_TESTED continuations.
    """
    mechanism = one_table(table).mechanism
    if not isinstance(mechanism, PrefixExtension):
        raise DecodeError("the table is not of mechanism prefix")
    if mechanism.single.rows < MIN_ROWS:
        raise DecodeError(f"fewer than {MIN_ROWS} rows a length: no error rate is claimed")
    spelling = mechanism.spelling
    words, kept_beginnings, endings = [""], list[int](), list[str]()
    for group in range(mechanism.groups):
        if len(words) * fragment_number(spelling) > MOST_TESTED:
            raise DecodeError(f"more than {MOST_TESTED:,} continuations: more groups are needed")
        endings = endings or fragments_of(spelling)
        candidates = [
            word + ending
            for word in words
            for ending in (endings if not word.endswith(PAD) else [PAD * spelling.fragment])
        ]
        group_table, measured, named_counts, sum_error = _measure_group(
            table, mechanism, group, candidates
        )
        if group == mechanism.groups - 1:
            break
        significant = np.flatnonzero(measured.p_value <= min(0.5, CHANCE / len(candidates)))
        order = significant[np.argsort(-measured.count[significant], kind="stable")][:MOST_KEPT]
        words = [candidates[i] for i in order.tolist()]
        kept_beginnings.append(len(words))
        if not words:
            raise DecodeError("no beginning stands out: too few reports to find a word")
    scale = table.total / group_table.total
    details: dict[str, Any] = {
        **table_details(table, "prefixes"),
        "fakes_move": table.total * mechanism.fakes_move(),
        "kept": kept_beginnings,
        "reports_about_words": group_table.total,
    }
    count = measured.count * scale
    share = np.clip(count / table.total, 0, 1)
    rare = group_table.mechanism.std_error(
        group_table.total, 0.0, measured.squares / group_table.total**2
    )
    sampling = table.total * share * (1 - share) * (scale - 1)
    std_error = np.sqrt((measured.std_error * scale) ** 2 + sampling)
    held = min(max(float(count.sum()) / table.total, 0.0), 1.0)
    sampled = table.total * held * (1 - held) * (scale - 1)
    return Estimates(
        values=tuple(word.rstrip(PAD) for word in candidates),
        count=count,
        std_error=std_error,
        p_value=measured.p_value,
        reports=table.total,
        noise=rare * scale,
        law=measured.law,
        bounds=SketchBounds(
            replace(measured, std_error=std_error),
            table.total,
            scale,
            few=bounds_of_few(
                mechanism, group_table.total, named_counts, measured.count, is_sample=True
            ),
        ),
        rule=Rule.of(rule, WORDS_RULE),
        details=details,
        sum_std_error=math.sqrt(sum_error**2 * scale**2 + sampled),
    )


def _measure_group(
    table: Table, mechanism: PrefixExtension, group: int, candidates: list[str]
) -> tuple[Table, Measurement, Ints, float]:
    """Return the group's rows as a table of local hashing, the estimates of its candidates, how
    many reports name each, and the standard error of their sum. Raises DecodeError for a group
    without reports."""
    rows = mechanism.single.rows
    points = np.fromiter(map(value_point, candidates), dtype=np.uint64, count=len(candidates))
    polynomials = coefficients(mechanism.addressing.rows, mechanism.rows)
    block = slice(group * rows, (group + 1) * rows)
    part = Table(mechanism.single, table.counts[block], table.reports[block])
    if not part.total:
        raise DecodeError("one of the lengths has no reports")
    named_counts, error = gather_with_error(part, part.counts, points, polynomials[block])
    assert error is not None  # of MIN_ROWS rows or more
    return part, measure(part, part.counts, named_counts), named_counts, error
