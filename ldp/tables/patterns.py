"""Report patterns: which reports of several parts came how often, with what belongs together kept.

A table counts each part by itself, so it cannot say which values go together. Patterns can: a row
and a payload for every part, and how many reports were just that. Of small reports there are far
fewer patterns than reports. They are no more than the reports: the same epsilon covers them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldp.arrays import Ints, Places
from ldp.errors import DecodeError, MergeError
from ldp.mechanisms import JointMechanism
from ldp.tables.joint_table import JointTable, JointTableBuilder, split_batch
from ldp.tables.table import require_same

BLOCK = 1 << 16
"""Reports that wait to be grouped, at least."""
Batch = tuple[NDArray[np.uint32], NDArray[np.uint8]]


@dataclass(frozen=True, eq=False)
class Patterns:
    """The different reports of a joint mechanism: `rows`, uint32, shape (patterns,), `payloads`,
    uint8, shape (patterns, payload bytes), and `counts`, int64, how many reports were each."""

    mechanism: JointMechanism
    rows: NDArray[np.uint32]
    payloads: NDArray[np.uint8]
    counts: Ints

    @classmethod
    def of(cls, mechanism: JointMechanism, batches: Iterable[Batch]) -> "Patterns":
        """Counts the reports of all batches. Raises ReportError for one that is none, DecodeError
        for a mechanism whose reports have one part."""
        if not isinstance(mechanism, JointMechanism):
            raise DecodeError(f"reports of {mechanism.name} have one part: there is no pattern")
        none = np.empty(0, np.uint32), np.empty((0, mechanism.layout.payload_bytes), np.uint8)
        found, waiting = cls(mechanism, *none, np.empty(0, np.int64)), list["Patterns"]()
        for rows, payloads in batches:
            split_batch(mechanism.layout, rows, payloads)
            waiting.append(cls(mechanism, rows, payloads, np.ones(len(rows), np.int64)))
            if sum(len(each.counts) for each in waiting) > max(BLOCK, len(found.counts)):
                found, waiting = _grouped([found, *waiting]), []  # so that sorting never adds up
        return _grouped([found, *waiting])

    @property
    def total(self) -> int:
        """Number of reports."""
        return int(self.counts.sum())

    def __add__(self, other: "Patterns") -> "Patterns":
        if not isinstance(other, Patterns):
            raise MergeError("patterns cannot be added to anything but patterns")
        require_same(self.mechanism, other.mechanism)
        return _grouped([self, other])

    def parts(self) -> list[Batch]:
        """For every part the rows of its table and its payloads, one for each pattern."""
        return list(split_batch(self.mechanism.layout, self.rows, self.payloads))

    def table(self) -> JointTable:
        """The table of the same reports, each part by itself: doubled, and the patterns added whose
        count has the next binary digit, so that no report is spelled out twice for a digit."""
        total = JointTableBuilder(self.mechanism).build()
        for digit in reversed(range(int(self.counts.max(initial=0)).bit_length())):
            some, builder = self.counts >> digit & 1 == 1, JointTableBuilder(self.mechanism)
            builder.add_batch(self.rows[some], self.payloads[some])
            total = total + total + builder.build()
        return total


def group_reports(rows: NDArray[np.uint32], payloads: NDArray[np.uint8]) -> tuple[Places, Places]:
    """Where the first of every different pair of row and payload stands, and for every pair which
    of these it is."""
    keys = np.column_stack([rows.astype("<u4").view(np.uint8).reshape(-1, 4), payloads])
    whole = np.ascontiguousarray(keys).view(f"V{keys.shape[1]}")[:, 0]
    _, first, group = np.unique(whole, return_index=True, return_inverse=True)
    return first, group.ravel()


def _grouped(some: Sequence[Patterns]) -> Patterns:
    rows = np.concatenate([each.rows for each in some])
    payloads = np.concatenate([each.payloads for each in some])
    first, group = group_reports(rows, payloads)
    summed = np.zeros(first.size, np.int64)
    np.add.at(summed, group, np.concatenate([each.counts for each in some]))
    return Patterns(some[0].mechanism, rows[first], payloads[first], summed)
