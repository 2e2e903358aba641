"""Report patterns: the different reports of a mechanism, and the number of each.

A table counts each part, and each bit, by itself, so it does not show which values or bits occur
together. A pattern does: a row and a payload (of each part), and the number of reports that are
equal to it. Of small reports there are far fewer patterns than reports. They hold no more than the
reports: the same epsilon covers them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp.arrays import Ints, Places
from ldp.errors import MergeError
from ldp.mechanisms import CatalogueMechanism
from ldp.tables.joint_table import JointTable, empty_builder, split_batch
from ldp.tables.table import Batch, Table, require_same

BLOCK = 1 << 16
"""Least number of reports that are grouped at once."""


@dataclass(frozen=True, eq=False)
class Patterns:
    """Different reports of a mechanism: `rows`, uint32, shape (patterns,), `payloads`, uint8,
    shape (patterns, payload bytes), and `counts`, int64, shape (patterns,), the reports of each."""

    mechanism: CatalogueMechanism
    rows: NDArray[np.uint32]
    payloads: NDArray[np.uint8]
    counts: Ints

    @classmethod
    def of(cls, mechanism: CatalogueMechanism, batches: Iterable[Batch]) -> "Patterns":
        """Count the reports of all batches. Raises ReportError for an invalid report."""
        empty = np.empty(0, np.uint32), np.empty((0, mechanism.layout.payload_bytes), np.uint8)
        grouped, waiting = cls(mechanism, *empty, np.empty(0, np.int64)), list["Patterns"]()
        for rows, payloads in batches:
            split_batch(mechanism.layout, rows, payloads)
            waiting.append(cls(mechanism, rows, payloads, np.ones(len(rows), np.int64)))
            # waiting for as many as are grouped already keeps the time of sorting low
            if sum(len(batch.counts) for batch in waiting) > max(BLOCK, len(grouped.counts)):
                grouped, waiting = _group([grouped, *waiting]), []
        return _group([grouped, *waiting])

    @property
    def total(self) -> int:
        """Number of reports."""
        return int(self.counts.sum())

    def __add__(self, other: "Patterns") -> "Patterns":
        if not isinstance(other, Patterns):
            raise MergeError("patterns cannot be added to anything but patterns")
        require_same(self.mechanism, other.mechanism)
        return _group([self, other])

    def parts(self) -> list[Batch]:
        """Return for every part its rows and its payloads, one for each pattern: shapes
        (patterns,) and (patterns, payload bytes)."""
        return list(split_batch(self.mechanism.layout, self.rows, self.payloads))

    def table(self) -> Table | JointTable:
        """Return the table of the same reports, each part by itself. It is doubled for every binary
        digit, and the patterns are added whose count has the digit, so that none is repeated."""
        total = empty_builder(self.mechanism).build()
        for digit in reversed(range(int(self.counts.max(initial=0)).bit_length())):
            has_digit, builder = self.counts >> digit & 1 == 1, empty_builder(self.mechanism)
            builder.add_batch(self.rows[has_digit], self.payloads[has_digit])
            total = total + total + builder.build()  # type: ignore[operator]
        return total

    def tables(self) -> tuple[Table, ...]:
        """Return the table of each part."""
        table = self.table()
        return table.tables if isinstance(table, JointTable) else (table,)


def group_reports(rows: NDArray[np.uint32], payloads: NDArray[np.uint8]) -> tuple[Places, Places]:
    """Return the index of the first of every different pair of row and payload: shape (groups,);
    and the group of every pair: shape (reports,)."""
    keys = np.column_stack([rows.astype("<u4").view(np.uint8).reshape(-1, 4), payloads])
    whole = np.ascontiguousarray(keys).view(f"V{keys.shape[1]}")[:, 0]
    _, first, group = np.unique(whole, return_index=True, return_inverse=True)
    return first, group.ravel()


def _group(patterns: Sequence[Patterns]) -> Patterns:
    rows = np.concatenate([part.rows for part in patterns])
    payloads = np.concatenate([part.payloads for part in patterns])
    first, group = group_reports(rows, payloads)
    counts = np.zeros(first.size, np.int64)
    np.add.at(counts, group, np.concatenate([part.counts for part in patterns]))
    return Patterns(patterns[0].mechanism, rows[first], payloads[first], counts)
