"""The first line against poisoning: reports that honest devices practically never send.

Per report, the number of ones among its bits; per shuffled block, how many reports name each row.
Both limits are exact binomial tails, so the share of honest reports that is set aside is bounded
whatever the values are; nothing is dropped, what is set aside is kept and counted apart. A fake
report that looks like an honest one passes: that damage is bounded, and printed, by `ldp decode`.
"""

from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc

from ldp.joint_table import split_batch
from ldp.mechanisms import Catalogued, Mechanism
from ldp.mechanisms.joint import parts_of
from ldp.wire import JointLayout, Kind

CHANCE = 1e-9
"""Bounds the probability that an honest report has too few or too many ones, and that an honest
block has a row with too many reports; each limit takes a half or a row's share of it."""


@lru_cache(maxsize=256)
def ones_limits(mechanism: Mechanism) -> tuple[int, int]:
    """The fewest and the most ones of a plausible BITS report.

    Of `columns` bits those of the value, at most `hashes`, are 1 with `touched`, the others with
    `untouched` < `touched`. So the number of ones lies, in law, between Bin(columns, untouched) and
    hashes + Bin(columns - hashes, untouched).
    """
    columns, chance = mechanism.shape.columns, float(mechanism.channel.untouched)
    hashes = min(columns, getattr(mechanism.addressing, "hashes", 1))
    fewest = _first(columns, lambda ones: bdtr(ones, columns, chance) >= CHANCE / 2)
    others = columns - hashes
    most = _first(others, lambda ones: bdtrc(ones, others, chance) <= CHANCE / 2)
    return fewest, hashes + most


@lru_cache(maxsize=1024)
def row_limit(reports: int, rows: int) -> int:
    """The most reports of a plausible row among so many: each names a uniform row."""
    return _first(reports, lambda count: bdtrc(count, reports, 1 / rows) <= CHANCE / rows)


def _first(most: int, holds: Callable[[int], bool]) -> int:
    """The first number up to `most` from which on something holds; at `most` it does."""
    return bisect_left(range(most), True, key=lambda number: bool(holds(number)))


def plausible(
    mechanism: Catalogued, rows: NDArray[np.uint32], payloads: NDArray[np.uint8]
) -> NDArray[np.bool_]:
    """Which reports of a block, `rows` of shape (n,) and `payloads` of shape (n, payload bytes),
    pass. A device with a permanent response keeps its row, so there the rows prove nothing."""
    good = np.ones(len(rows), dtype=np.bool_)
    layout = mechanism.layout
    drawn = [(rows, payloads)]
    if isinstance(layout, JointLayout):
        drawn = split_batch(layout, rows, payloads)
    for part, (part_rows, part_payloads) in zip(parts_of(mechanism), drawn, strict=True):
        if part.kind is Kind.BITS:
            fewest, most = ones_limits(part)
            ones = np.bitwise_count(part_payloads).sum(axis=1, dtype=np.int64)
            good &= (fewest <= ones) & (ones <= most)
        if not mechanism.memoisable:
            counts = np.bincount(part_rows, minlength=part.shape.rows)
            good &= (counts <= row_limit(len(rows), part.shape.rows))[part_rows]
    return good
