"""Least squares on a tree of neighbouring bins, in time linear in its nodes.

On the way up a node's estimate is the mean of its own share and of the sum of its children, by
inverse variance. On the way down the children of a node take what their sum is short of its
estimate, by their variances. This is generalised least squares of independent nodes (Hay et al.
2010, section 4, for any weights and any sizes of families).
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from ldp.arrays import Floats, Ints


@dataclass(frozen=True)
class Tree:
    """Levels of nodes over `bins` bins: `widths` states the number of neighbouring bins in each
    node of a level, from the widest level to 1, each a multiple of the next. The last node of a
    level may have fewer bins."""

    bins: int
    widths: tuple[int, ...]

    @cached_property
    def level(self) -> Ints:
        """Level of each node, from 0: shape (nodes,)."""
        sizes = [-(-self.bins // width) for width in self.widths]
        return np.repeat(np.arange(len(sizes)), sizes)

    def sums(self, of_bins: Floats) -> Floats:
        """Return the sums over the bins of each node, of an array of shape (bins, ...)."""
        firsts = [np.arange(0, self.bins, width) for width in self.widths]
        return np.concatenate([np.add.reduceat(of_bins, first, axis=0) for first in firsts])

    @cached_property
    def edges(self) -> tuple[Ints, Ints]:
        """Inner edges whose shares tell most of what lies before a bin, and of what lies after it.
        At these edges a node begins that shares a parent with a node around the bin. At others the
        errors are larger, and hardly differ from those here. Shape (bins - 1, edges), a row for
        each bin but the first, filled up with the edge next to the bin. Those after it count from
        right to left, as if the last bin were the first."""
        bin_, columns = np.arange(1, self.bins), []
        mirrored = self.bins - 1 - bin_
        for high, low in pairwise([self.bins, *self.widths]):
            for step in range(-(-high // low)):
                begin = (bin_ // low - step) * low
                is_near = begin >= np.maximum(bin_ // high * high, 1)
                end = (mirrored // low + 1 + step) * low
                is_next = end <= np.minimum((mirrored // high + 1) * high, self.bins - 1)
                before = np.where(is_near, begin, bin_) - 1
                after = self.bins - 1 - np.where(is_next, end, mirrored + 1)
                columns.append((before, after))
        before, after = (np.stack(column, axis=1) for column in zip(*columns, strict=True))
        return before, after

    def split(self, of_nodes: Floats) -> list[Floats]:
        """Return the parts of an array of shape (nodes, ...) of each level."""
        return np.split(of_nodes, np.flatnonzero(np.diff(self.level)) + 1)


@dataclass(frozen=True, eq=False)
class TreeFit:
    """Least-squares fit of shares of nodes that have these weights (inverse variances up to a
    factor, shape (nodes,), above 0). The bins add to a number that is given, or to an estimate if
    `is_open`.

    The root, which has all bins, is no node. Below it is the level before the first.
    """

    tree: Tree
    weight: Floats
    is_open: bool = False

    @cached_property
    def _parents(self) -> list[Ints]:
        """Index of the parent of each node, at each level."""
        widths = [self.tree.bins, *self.tree.widths]
        return [
            np.arange(-(-self.tree.bins // low)) * low // high for high, low in pairwise(widths)
        ]

    @cached_property
    def _firsts(self) -> list[Ints]:
        """Index of the first child of each parent, at each level above the last, from the root."""
        return [np.flatnonzero(np.diff(parents, prepend=-1)) for parents in self._parents]

    @cached_property
    def _parts(self) -> tuple[list[Floats], list[Floats]]:
        """Part that a node's own share has in its estimate on the way up, and part that it takes of
        what its family is short of on the way down, at each level."""
        weights = self.tree.split(self.weight)
        own, taken = [np.ones(self.tree.bins)], list[Floats]()
        variance = 1 / weights[-1]
        for level in reversed(range(len(weights))):
            of_family = np.add.reduceat(variance, self._firsts[level])
            taken.insert(0, variance / of_family[self._parents[level]])
            if level:
                own.insert(0, 1 - 1 / (1 + weights[level - 1] * of_family))
                variance = of_family * (1 - own[0])
        return own, taken

    def of_bins(self, shares: Floats, total: float = 0.0) -> Floats:
        """Return the fitted shares of the bins that add to `total` (its estimate if `is_open`),
        shape (bins, ...), of shares of the nodes, shape (nodes, ...). Linear in both."""
        axes = (slice(None),) + (None,) * (shares.ndim - 1)
        own, taken = ([part[axes] for part in parts] for parts in self._parts)
        estimates, short = self.tree.split(shares), list[Floats]()
        for level in reversed(range(len(estimates))):
            family = np.add.reduceat(estimates[level], self._firsts[level], axis=0)
            short.insert(0, family)
            if level:
                estimates[level - 1] = family + own[level - 1] * (estimates[level - 1] - family)
        fitted = short[0] if self.is_open else np.full_like(short[0], total)
        for level, estimate in enumerate(estimates):
            fitted = estimate + taken[level] * (fitted - short[level])[self._parents[level]]
        return fitted

    def edge_variances(self, variance: Floats, q: float = 0.0) -> Floats:
        """Return the variance of the share below each inner edge, shape (bins - 1,), where shares
        of the nodes are independent with `variance`, shape (nodes,). If `is_open`, it is that of
        this share less `q` of the total.

        For an edge, only children of nodes around it have weights of their own: one weight for the
        children before it, one for the children after it, one for the child around it.
        """
        own, taken = self._parts
        variances, levels = self.tree.split(variance), len(own)
        # variance of each node's estimate on the way up
        whole = [*variances]
        for level in reversed(range(levels - 1)):
            family = np.add.reduceat(whole[level + 1], self._firsts[level + 1])
            whole[level] = own[level] ** 2 * variances[level] + (1 - own[level]) ** 2 * family
        edges = np.arange(1, self.tree.bins)
        # or where they begin
        inside = [edges // width for width in self.tree.widths]
        # part of what a node is short of that falls before the edge, from the root down
        passed = [np.zeros(edges.size)]
        for level in reversed(range(levels)):
            before = self._before(taken[level], level)
            passed.insert(0, before[inside[level]] + taken[level][inside[level]] * passed[0])
        weight = passed[0] - q if self.is_open else np.zeros(edges.size)
        total = np.zeros(edges.size)
        for level, node in enumerate(inside):
            after = weight - passed[level]
            before = self._before(whole[level], level)
            family = np.add.reduceat(whole[level], self._firsts[level])[self._parents[level]]
            total += (after + 1) ** 2 * before[node]
            total += after**2 * (family - before - whole[level])[node]
            weight = after + passed[level + 1]
            total += (weight * own[level][node]) ** 2 * variances[level][node]
            weight = weight * (1 - own[level][node])
        return total

    def _before(self, of_nodes: Floats, level: int) -> Floats:
        """Return the sum over the earlier children of its family, for each node of a level."""
        before = np.cumsum(of_nodes) - of_nodes
        return np.asarray(before - before[self._firsts[level]][self._parents[level]])
