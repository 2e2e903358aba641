"""Tables of columns that belong to sets, a set for each category: projective geometry, Hadamard
response."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ldp.bulk.point_kernels import count_sets
from ldp.decoding.direct import estimate_counts, known_points
from ldp.mechanisms.addressing import CellSets
from ldp.tables.estimates import Estimates, Rule
from ldp.tables.table import Table

AT_ONCE = 1 << 16
"""Number of columns whose squares are summed at one time, which bounds memory."""


def decode(table: Table, candidates: tuple[str, ...], rule: Rule) -> Estimates:
    """Return estimates from the reports that name a column of each candidate's set. Time: K log K
    for K columns; memory: a few numbers a column. Raises DecodeError for a candidate that is no
    category."""
    known = known_points(table.mechanism, candidates)
    addressing = table.mechanism.addressing
    assert isinstance(addressing, CellSets)
    counts = count_sets(addressing, table.counts[0], known)
    estimates = estimate_counts(table, candidates, counts, rule)
    return replace(estimates, sum_std_error=_sum_std_error(table, addressing, known, estimates))


def _sum_std_error(
    table: Table, addressing: CellSets, known: Sequence[int], estimates: Estimates
) -> float:
    """Return the standard error of the sum of the candidates' estimates. A report adds D = (number
    of their sets that hold its column - s u) / gain to it, with s candidates and u the probability
    that another's set does: on average 1 if its value is a candidate, else 0. The squares of these
    means are no error."""
    columns, channel = np.flatnonzero(table.counts[0]).astype(np.int32), table.mechanism.support
    is_candidate = np.zeros(table.mechanism.shape.columns, np.int8)
    is_candidate[np.array(known) + addressing.first_row] = 1
    sets_there = count_sets(addressing, is_candidate, columns - addressing.first_row)
    usual, squares = len(known) * float(channel.untouched), 0.0
    for start in range(0, columns.size, AT_ONCE):
        some = slice(start, start + AT_ONCE)
        added = (sets_there[some] - usual) / channel.gain
        squares += float(table.counts[0, columns[some]] @ added**2)
    held = float(np.clip(estimates.count.sum(), 0, table.total))
    return math.sqrt(max(0.0, squares - held))
