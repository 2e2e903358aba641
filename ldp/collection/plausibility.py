"""The first line against poisoning: reports that honest devices practically never send.

Per report, the number of ones among its bits, and among the cells of the metric's candidates; per
shuffled block, how many reports name each row. All limits are exact binomial tails, so the share of
honest reports that is set aside is bounded whatever the values are; nothing is dropped, what is set
aside is kept and counted apart. A fake report that looks like an honest one passes: that damage is
bounded, and printed, by `ldp decode`.
"""

from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc

from ldp.arrays import Bools
from ldp.mechanisms import Catalogued, Mechanism
from ldp.mechanisms.joint_base import parts_of
from ldp.protocol.hashing import PolynomialBloom, PolynomialRows
from ldp.protocol.wire import JointLayout, Kind
from ldp.tables.joint_table import split_batch

CHANCE = 1e-9
"""Bounds the probability that an honest report has too few or too many ones, in all or among the
candidates' cells, and that an honest block has a row with too many reports; each of the four limits
of ones takes a quarter, each row its share of it."""
ROWS = 1024
"""Rows of which the candidates' cells are in memory at one time."""


@lru_cache(maxsize=4096)
def ones_limits(mechanism: Mechanism, cells: int) -> tuple[int, int]:
    """The fewest and the most ones of a plausible BITS report among so many cells of its row.

    Those of the value, at most `hashes`, are 1 with `touched`, the others with `untouched` <
    `touched`. So the number of ones lies, in law, between Bin(cells, untouched) and
    hashes + Bin(cells - hashes, untouched), whichever cells they are.
    """
    chance = float(mechanism.channel.untouched)
    hashes = min(cells, getattr(mechanism.addressing, "hashes", 1))
    fewest = _first(cells, lambda ones: bdtr(ones, cells, chance) >= CHANCE / 4)
    others = cells - hashes
    most = _first(others, lambda ones: bdtrc(ones, others, chance) <= CHANCE / 4)
    return fewest, hashes + most


@lru_cache(maxsize=1024)
def row_limit(reports: int, rows: int) -> int:
    """The most reports of a plausible row among so many: each names a uniform row."""
    return _first(reports, lambda count: bdtrc(count, reports, 1 / rows) <= CHANCE / rows)


def _first(most: int, holds: Callable[[int], bool]) -> int:
    """The first number up to `most` from which on something holds; at `most` it does."""
    return bisect_left(range(most), True, key=lambda number: bool(holds(number)))


def plausible(
    mechanism: Catalogued,
    rows: NDArray[np.uint32],
    payloads: NDArray[np.uint8],
    candidates: tuple[str, ...] = (),
) -> Bools:
    """Which reports of a block, `rows` of shape (n,) and `payloads` of shape (n, payload bytes),
    pass. A device with a permanent response keeps its row, so there the rows prove nothing.
    `candidates`: the metric's dictionary; of use where it touches at most half of a row's cells."""
    good = np.ones(len(rows), dtype=np.bool_)
    layout = mechanism.layout
    drawn = [(rows, payloads)]
    if isinstance(layout, JointLayout):
        drawn = split_batch(layout, rows, payloads)
    for part, (part_rows, part_payloads) in zip(parts_of(mechanism), drawn, strict=True):
        if part.kind is Kind.BITS:
            fewest, most = ones_limits(part, part.shape.columns)
            ones = np.bitwise_count(part_payloads).sum(axis=1, dtype=np.int64)
            good &= (fewest <= ones) & (ones <= most)
        if not mechanism.memoisable:
            counts = np.bincount(part_rows, minlength=part.shape.rows)
            good &= (counts <= row_limit(len(rows), part.shape.rows))[part_rows]
    if isinstance(mechanism, Mechanism) and _are_few(mechanism, candidates):
        good &= _plausible_among(mechanism, rows, payloads, candidates)
    return good


def _are_few(mechanism: Mechanism, candidates: tuple[str, ...]) -> bool:
    addressing = mechanism.addressing
    if mechanism.kind is not Kind.BITS or not isinstance(
        addressing, PolynomialRows | PolynomialBloom
    ):
        return False
    hashes = getattr(addressing, "hashes", 1)
    return 0 < hashes * len(candidates) <= mechanism.shape.columns // 2


def _plausible_among(
    mechanism: Mechanism,
    rows: NDArray[np.uint32],
    payloads: NDArray[np.uint8],
    candidates: tuple[str, ...],
) -> Bools:
    """Which reports have a plausible number of ones among the cells that candidates touch."""
    good = np.ones(len(rows), dtype=np.bool_)
    named, places = np.unique(rows, return_inverse=True)
    order = np.argsort(places, kind="stable")
    for first in range(0, len(named), ROWS):
        start, stop = np.searchsorted(places[order], [first, first + ROWS])
        chosen = order[start:stop]
        cells = candidate_cells(mechanism, candidates, named[first : first + ROWS])
        size = np.bitwise_count(cells).sum(axis=1, dtype=np.int64)
        limits = np.array([ones_limits(mechanism, one) for one in size.tolist()])
        at = places[chosen] - first
        ones = np.bitwise_count(payloads[chosen] & cells[at]).sum(axis=1, dtype=np.int64)
        good[chosen] = (limits[at, 0] <= ones) & (ones <= limits[at, 1])
    return good


def candidate_cells(
    mechanism: Mechanism, candidates: tuple[str, ...], rows: NDArray[np.uint32]
) -> NDArray[np.uint8]:
    """The cells that candidates touch in each of some rows, as a payload: shape (rows, payload
    bytes)."""
    from ldp import bulk

    addressing, payload_bytes = mechanism.addressing, mechanism.layout.payload_bytes
    points = bulk.points(addressing, mechanism.shape.rows, candidates)
    columns = bulk.columns(
        addressing,
        mechanism.shape.rows,
        np.tile(points, len(rows)),
        np.repeat(rows, len(candidates)),
    ).reshape(len(rows), -1)
    bits = np.zeros((len(rows), 8 * payload_bytes + 1), dtype=np.uint8)
    columns[columns == bulk.NO_COLUMN] = 8 * payload_bytes  # a cell that is cut off
    np.put_along_axis(bits, columns, 1, axis=1)
    return np.packbits(bits[:, :-1], axis=1, bitorder="little")
