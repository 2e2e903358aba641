"""Made-up reports among those of nodes: what they can do, at most, to sums of the nodes' shares.

Of R reports about a node with h honest ones, k are made up, and tell f each on average: the share
among the honest ones is (R share - k f) / h, which is k (share - f) / h off the one that was
estimated, linear in k. So the worst made-up reports have the bits that do most, and are in the rows
that do most, as many as there may be in each.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ldp.arrays import Floats
from ldp.decoding.nodes import Nodes

FAR = 5.5
"""Standard deviations. A binomial number is so far below its mean with probability 2e-8."""


@dataclass(frozen=True, eq=False)
class FakesAmongNodes:
    """Made-up reports, at most `number`, among the `reports` from which `nodes` are estimated."""

    nodes: Nodes
    reports: int
    number: int

    @cached_property
    def of_rows(self) -> Floats:
        """Largest number of made-up reports in each row of the table, shape (rows,). Honest devices
        draw their row. So a row hardly ever has as few of them as `_least` says."""
        reports, rows = self.nodes.row_reports, len(self.nodes.row_reports)
        most = reports - _least(self.reports - self.number, 1 / rows)
        return np.asarray(np.clip(most, 0.0, np.minimum(reports, self.number)))

    @cached_property
    def honest(self) -> Floats:
        """Least number of honest reports about each node: shape (nodes,)."""
        if not self.number:
            return self.nodes.reports
        least = _least(self.reports - self.number, self.nodes.tells.mean(axis=0))
        honest = np.maximum(self.nodes.reports - self.number, least)
        return np.asarray(np.clip(honest, 1.0, self.nodes.reports))

    def shift(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return how far below and above each of the sums of the nodes' shares by `weights`, shape
        (sums, nodes), the honest reports' can lie: shape (sums,) each."""
        if not self.number:
            return np.zeros(len(weights)), np.zeros(len(weights))
        channel, nodes = self.nodes.channel, self.nodes
        said = [channel.holders(bit, 1) for bit in (0, 1)]
        moved = weights[:, None] * np.array([nodes.share - each for each in said]) / self.honest
        ways = (-moved.min(axis=1) @ nodes.tells.T, moved.max(axis=1) @ nodes.tells.T)
        down, up = (self._most(np.maximum(way, 0.0)) for way in ways)
        return down, up

    def _most(self, each: Floats) -> Floats:
        """Return the sums of what the made-up reports do, if one does `each`, shape (sums, rows),
        in a row: shape (sums,)."""
        order = np.argsort(-each, axis=1)
        most = self.of_rows[order]
        number = np.clip(self.number - (most.cumsum(axis=1) - most), 0.0, most)
        return np.asarray((number * np.take_along_axis(each, order, axis=1)).sum(axis=1))

    def largest_variance(
        self,
        weights: Floats,
        share: Floats,
        matrix: Floats,
        *,
        is_part: bool,
        further: float,
    ) -> Floats:
        """Return an upper bound of the variances of the sums of the nodes' shares by `weights`,
        shape (sums, nodes), because a share that is hidden has its variance. `share`: of the bins,
        by `matrix`, shape (bins, nodes), from those of the nodes. `is_part`: the bins have a part
        of the reports. `further`: variance that people's further reports add, over f (1 - f).

        Noise is linear in the bins' shares p, and so is what sampling is at most, sum p (w - c)**2
        for any c, w being what a bin is worth in a row: the sum of both moves as far as made-up
        reports can `shift` it."""
        nodes, channel, square = self.nodes, self.nodes.channel, weights**2 / self.honest
        groups = nodes.groups
        unset, set_ = float(channel.variance(0.0)), float(channel.variance(1.0))
        worth = (set_ - unset) * square @ groups
        for number in np.unique(nodes.row):
            at = nodes.row == number
            if number < 0:
                worth += square[:, at] @ groups[at]
            else:
                of_bins = weights[:, at] @ groups[at]
                mean = 0.0 if is_part else (of_bins @ share)[:, None]
                worth += (of_bins - mean) ** 2 / self.honest[at][0]
        of_bins = weights @ groups
        worth += further * (of_bins - (0.0 if is_part else (of_bins @ share)[:, None])) ** 2
        _, up = self.shift(worth @ matrix)
        # shares of few reports lie far below 0
        return np.asarray(np.maximum(unset * square.sum(axis=1) + worth @ share + up, 0.0))


def most_moved(nodes: Nodes, reports: int, held: Floats, weights: Floats) -> float:
    """Return how far made-up reports move one of the sums of the nodes' shares by `weights`, shape
    (sums, nodes), for each unit of their share of all `reports`. All are in the row, and have the
    bits, with the largest effect. `held`: the share of each node, in [0, 1]."""
    # the share that an unset bit tells
    at_zero, moved = -float(nodes.channel.untouched) / nodes.channel.gain, []
    for number in np.unique(nodes.row):
        at = nodes.row == number
        unset = weights[:, at] * (at_zero - held[at])
        set_ = unset + weights[:, at] / nodes.channel.gain
        up, down = np.maximum(set_, unset).sum(axis=1), np.minimum(set_, unset).sum(axis=1)
        moved.append(max(up.max(), -down.min()) * reports / nodes.reports[at].min())
    return float(max(moved))


def _least(reports: int, part: Any) -> Any:
    """Return the number that a binomial with mean `part` of `reports` is hardly ever below."""
    return np.maximum(reports * part - FAR * np.sqrt(reports * part * (1 - part)), 0.0)
