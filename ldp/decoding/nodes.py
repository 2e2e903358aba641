"""Nodes of tables of numbers in bins: groups of neighbouring bins, and what reports say of each."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ldp.arrays import Floats, Ints
from ldp.decoding.histogram import counts_of_buckets
from ldp.decoding.tree import Tree
from ldp.errors import DecodeError
from ldp.mechanisms.bit_flip import BitFlip
from ldp.mechanisms.hierarchical_histogram import HierarchicalHistogram
from ldp.protocol.channel import Channel
from ldp.tables.table import Table


@dataclass(frozen=True, eq=False)
class Nodes:
    """Groups of neighbouring bins that reports are about, the nodes of a `tree`: the share that was
    estimated for each. `row`: nodes with the same number have the same reports. It is -1 where they
    differ. `tells`, shape (rows of the table, nodes): 1 where a report of the row is about the
    node. `row_reports`: the reports of each row."""

    tree: Tree
    share: Floats
    row: Ints
    channel: Channel
    tells: Floats
    row_reports: Floats

    @cached_property
    def reports(self) -> Floats:
        """Number of reports about each node: shape (nodes,)."""
        return self.row_reports @ self.tells

    @property
    def groups(self) -> Floats:
        """Matrix of the bins of each node, 1 for a bin of it: shape (nodes, bins)."""
        return self.tree.sums(np.eye(self.tree.bins))


@lru_cache(maxsize=8)
def _structure(mechanism: HierarchicalHistogram | BitFlip) -> tuple[Tree, Ints, Floats]:
    """Return `Nodes.tree`, `row` and `tells`: of the levels of one category, or of the buckets, of
    which a report of row v covers the `bits` from v on."""
    rows = np.arange(mechanism.shape.rows)
    if isinstance(mechanism, HierarchicalHistogram):
        widths = map(mechanism.addressing.width, rows.tolist())
        tree = Tree(len(mechanism.bins), tuple(widths))
        return tree, tree.level, np.equal.outer(rows, tree.level).astype(np.float64)
    tells = -np.subtract.outer(rows, rows) % mechanism.buckets < mechanism.bits
    row = np.full(mechanism.buckets, 0 if mechanism.bits == mechanism.buckets else -1)
    return Tree(mechanism.buckets, (1,)), row, tells.astype(np.float64)


def nodes_of_levels(table: Table, mechanism: HierarchicalHistogram, category: int = 0) -> Nodes:
    """Return the nodes of one category, by its place, or of all where there are none. Raises
    DecodeError for a table with a level without reports."""
    if not table.reports.all():
        raise DecodeError("a level of the tree has no report: too few for estimates")
    tree, row, tells = _structure(mechanism)
    reports = table.reports.astype(np.float64)
    sizes = [mechanism.addressing.groups(level) for level in range(reports.size)]
    column = np.concatenate([category * size + np.arange(size) for size in sizes])
    share = mechanism.channel.holders(table.counts[row, column] / reports[row], 1)
    return Nodes(tree, share, row, mechanism.channel, tells, reports)


def expected_nodes(mechanism: HierarchicalHistogram | BitFlip, share: Floats, users: int) -> Nodes:
    """Return the nodes that reports of `users` people give on average, where the bins hold `share`
    of them, shape (bins,)."""
    (tree, row, tells), rows = _structure(mechanism), mechanism.shape.rows
    reports = np.full(rows, users / rows)
    return Nodes(tree, tree.sums(share), row, mechanism.channel, tells, reports)


def nodes_of_buckets(table: Table, mechanism: BitFlip) -> Nodes:
    """Return the nodes of bit flips, a bucket each. Raises DecodeError for a table with a bucket
    without reports."""
    named_counts, reports = counts_of_buckets(table)
    share = mechanism.channel.holders(named_counts / reports, 1)
    tree, row, tells = _structure(mechanism)
    of_rows = table.reports.astype(np.float64)
    return Nodes(tree, share, row, mechanism.channel, tells, of_rows)
