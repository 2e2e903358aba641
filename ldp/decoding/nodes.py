"""Nodes of tables of numbers in bins: groups of neighbouring bins, and what reports say of each."""

from dataclasses import dataclass
from functools import lru_cache

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
    """Groups of neighbouring bins that reports tell of, the nodes of a `tree`: the share that was
    estimated for each, and the `reports` that it is from.
    `row`: nodes with the same number have the same reports; -1 where they differ. `tells`, shape
    (rows of the table, nodes): 1 where a report of the row tells of the node; `row_reports`: the
    reports of each row."""

    tree: Tree
    share: Floats
    reports: Floats
    row: Ints
    channel: Channel
    tells: Floats
    row_reports: Floats

    @property
    def groups(self) -> Floats:
        """Matrix of the bins of each node, 1 for a bin of it: shape (nodes, bins)."""
        return self.tree.sums(np.eye(self.tree.bins))


@lru_cache(maxsize=8)
def _levels(mechanism: HierarchicalHistogram) -> Tree:
    """Return the tree of the levels of one category."""
    widths = map(mechanism.addressing.width, range(mechanism.shape.rows))
    return Tree(len(mechanism.bins), tuple(widths))


def nodes_of_levels(table: Table, mechanism: HierarchicalHistogram, category: int = 0) -> Nodes:
    """Return the nodes of one category, by its place, or of all where there are none. Raises
    DecodeError for a table with a level without reports."""
    if not table.reports.all():
        raise DecodeError("a level of the tree has no report: too few for estimates")
    tree = _levels(mechanism)
    row = tree.level
    reports = table.reports[row].astype(np.float64)
    sizes = [mechanism.addressing.groups(level) for level in range(row[-1] + 1)]
    column = np.concatenate([category * size + np.arange(size) for size in sizes])
    share = mechanism.channel.holders(table.counts[row, column] / reports, 1)
    tells, row_reports = _told_by_level(row), table.reports.astype(np.float64)
    return Nodes(tree, share, reports, row, mechanism.channel, tells, row_reports)


def expected_nodes(mechanism: HierarchicalHistogram | BitFlip, share: Floats, users: int) -> Nodes:
    """Return the nodes that reports of `users` people give on average, where the bins hold `share`
    of them, shape (bins,)."""
    if isinstance(mechanism, HierarchicalHistogram):
        tree = _levels(mechanism)
        row, tells = tree.level, _told_by_level(tree.level)
        reports = users / mechanism.shape.rows
    else:
        tree, row = Tree(mechanism.buckets, (1,)), _row_of_buckets(mechanism)
        tells = _told_by_row(mechanism)
        reports = users * mechanism.bits / mechanism.buckets
    each = np.full(row.size, reports)
    rows = mechanism.shape.rows
    row_reports = np.full(rows, users / rows)
    return Nodes(tree, tree.sums(share), each, row, mechanism.channel, tells, row_reports)


def _told_by_level(row: Ints) -> Floats:
    """Return `Nodes.tells` of levels, from the level of each node."""
    return np.equal.outer(np.arange(row[-1] + 1), row).astype(np.float64)


def _told_by_row(mechanism: BitFlip) -> Floats:
    """Return `Nodes.tells` of bit flips: a report of row v is about the `bits` buckets from v."""
    after = np.subtract.outer(np.arange(mechanism.buckets), np.arange(mechanism.buckets)).T
    return (after % mechanism.buckets < mechanism.bits).astype(np.float64)


def nodes_of_buckets(table: Table, mechanism: BitFlip) -> Nodes:
    """Return the nodes of bit flips, a bucket each. Raises DecodeError for a table with a bucket
    without reports."""
    named_counts, reports = counts_of_buckets(table)
    share = mechanism.channel.holders(named_counts / reports, 1)
    row, each = _row_of_buckets(mechanism), reports.astype(np.float64)
    tells, row_reports = _told_by_row(mechanism), table.reports.astype(np.float64)
    tree = Tree(mechanism.buckets, (1,))
    return Nodes(tree, share, each, row, mechanism.channel, tells, row_reports)


def _row_of_buckets(mechanism: BitFlip) -> Ints:
    """Return 0 for each bucket if every report is about all of them, else -1."""
    return np.full(mechanism.buckets, 0 if mechanism.bits == mechanism.buckets else -1)
