"""Make two joint mechanisms, and tables of their reports, for tests of associations."""

from itertools import product
from typing import Any

import numpy as np

from ldp import JointReport, UnaryEncoding
from ldp.simulation import Population, draw_reports
from ldp.tables.joint_table import whole_table

KINDS = UnaryEncoding(categories=("a", "b", "c"), epsilon=1.5)
ANSWERS = UnaryEncoding(categories=("x", "y"), epsilon=1.0)
BOTH = JointReport(of=(KINDS, ANSWERS))
PAIRS = tuple(product("abc", "xy"))
LOUD = JointReport(
    of=(
        UnaryEncoding(categories=("a", "b", "c"), epsilon=64.0),
        UnaryEncoding(categories=("x", "y"), epsilon=64.0),
    )
)
"""Joint mechanism that hardly ever flips a bit."""


def table_of(
    mechanism: JointReport, pairs: Any, counts: Any, generator: np.random.Generator
) -> Any:
    """Return the table, with whole reports, of `counts` people with each pair."""
    people = Population(pairs, counts=np.array(counts))
    return whole_table(mechanism, draw_reports(mechanism, people, generator))
