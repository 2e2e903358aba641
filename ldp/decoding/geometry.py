"""Tables of columns that belong to sets, a set for each category: projective geometry, Hadamard
response."""

from ldp.decoding.direct import estimate_counts, known_points
from ldp.mechanisms.addressing import CellSets
from ldp.tables.estimates import Estimates, Rule
from ldp.tables.table import Table


def decode(table: Table, candidates: tuple[str, ...], rule: Rule) -> Estimates:
    """Return estimates from the reports that name a column of each candidate's set. Time: K log K
    for K columns; memory: a few numbers a column. Raises DecodeError for a candidate that is no
    category."""
    from ldp.bulk import count_sets  # late: numba takes half a second to import

    known = known_points(table.mechanism, candidates)
    addressing = table.mechanism.addressing
    assert isinstance(addressing, CellSets)
    return estimate_counts(table, candidates, count_sets(addressing, table.counts[0], known), rule)
