"""Plausibility of reports, against poisoning: honest devices practically never fail these tests.

In each report the number of ones is tested, among all its bits and among the cells of the metric's
candidates. In each shuffled block the number of reports is tested that name each row, and, for
reports with signs, each column. All limits are exact binomial tails. So the share of honest reports
that is set aside is bounded whatever the values are. Nothing is dropped: what is set aside is kept
and counted apart. A fake report that looks like an honest one passes. `ldp decode` bounds and
prints that damage.
"""

from functools import lru_cache

import numpy as np

from ldp.arrays import AnyInts, Bools, Bytes, RowNumbers, binomial_ends
from ldp.mechanisms import CatalogueMechanism, Mechanism
from ldp.mechanisms.joint_base import parts_of
from ldp.protocol.bloom import PolynomialBloom
from ldp.protocol.hashing import PolynomialRows
from ldp.tables.batches import candidate_cells, payload_numbers, split_batch

CHANCE = 1e-9
"""Bound of the probability that an honest report has too few or too many ones, in all or among the
candidates' cells, and that an honest block has a row, or a column of signs, with too many reports.
Each of the four limits of ones takes a quarter of it, each row or column an equal share."""
ROWS = 1024
"""Number of rows whose candidates' cells are in memory at one time."""


@lru_cache(maxsize=4096)
def ones_limits(mechanism: Mechanism, cells: int) -> tuple[int, int]:
    """Return the fewest and the most ones of a plausible BITS report among `cells` of its row.

    The value's cells, at most `most_cells`, are 1 with probability `touched`, the others with
    `untouched` < `touched`. So the number of ones lies, in distribution, between
    Bin(cells, untouched) and most_cells + Bin(cells - most_cells, untouched) for every value.
    """
    chance = float(mechanism.channel.untouched)
    hashes = min(cells, mechanism.most_cells)
    fewest, _ = binomial_ends(CHANCE / 4, cells, chance)
    _, most = binomial_ends(CHANCE / 4, cells - hashes, chance)
    return fewest, hashes + most


@lru_cache(maxsize=1024)
def row_limit(reports: int, rows: int) -> int:
    """Return the largest plausible number of reports in one row of a block: honest rows are
    uniform. For the columns of reports with signs, `rows` is the number of columns."""
    return binomial_ends(CHANCE / rows, reports, 1 / rows)[1]


def is_plausible(
    mechanism: CatalogueMechanism,
    rows: RowNumbers,
    payloads: Bytes,
    candidates: tuple[str, ...] = (),
) -> Bools:
    """Return which reports of a block are plausible, shape (n,), from `rows`, shape (n,), and
    `payloads`, shape (n, payload bytes). Rows are not tested where a device keeps its row with a
    permanent response. `candidates`: the metric's dictionary, used where it touches at most half of
    a row's cells."""
    good = np.ones(len(rows), dtype=np.bool_)
    part_reports = split_batch(mechanism.layout, rows, payloads)
    for part, (part_rows, part_payloads) in zip(parts_of(mechanism), part_reports, strict=True):
        if part.kind.is_bitwise:
            fewest, most = ones_limits(part, part.shape.columns)
            ones = np.bitwise_count(part_payloads).sum(axis=1, dtype=np.int64)
            good &= (fewest <= ones) & (ones <= most)
        if not mechanism.is_memoisable:
            good &= _is_uncrowded(part_rows, part.shape.rows)
            if part.kind.is_signed:
                numbers = payload_numbers(part.layout, part_rows, part_payloads)
                good &= _is_uncrowded(numbers >> 1, part.shape.columns)
    if isinstance(mechanism, Mechanism) and _are_few(mechanism, candidates):
        good &= _plausible_among(mechanism, rows, payloads, candidates)
    return good


def _is_uncrowded(places: AnyInts, number: int) -> Bools:
    """Return for each report, shape (n,), whether its place does not have far too many reports.
    `places`: shape (n,), uniform among `number` places for honest reports."""
    counts = np.bincount(places, minlength=number)
    return (counts <= row_limit(len(places), number))[places]


def _are_few(mechanism: Mechanism, candidates: tuple[str, ...]) -> bool:
    is_hashed = isinstance(mechanism.addressing, PolynomialRows | PolynomialBloom)
    cells = mechanism.most_cells * len(candidates)
    is_few = 0 < cells <= mechanism.shape.columns // 2
    return mechanism.kind.is_bitwise and is_hashed and is_few


def _plausible_among(
    mechanism: Mechanism,
    rows: RowNumbers,
    payloads: Bytes,
    candidates: tuple[str, ...],
) -> Bools:
    """Return which reports have a plausible number of ones in the cells that candidates touch."""
    good = np.ones(len(rows), dtype=np.bool_)
    distinct_rows, places = np.unique(rows, return_inverse=True)
    order = np.argsort(places, kind="stable")
    for start_row in range(0, len(distinct_rows), ROWS):
        start, stop = np.searchsorted(places[order], [start_row, start_row + ROWS])
        selection = order[start:stop]
        cells = candidate_cells(mechanism, candidates, distinct_rows[start_row : start_row + ROWS])
        size = np.bitwise_count(cells).sum(axis=1, dtype=np.int64)
        limits = np.array([ones_limits(mechanism, number) for number in size.tolist()])
        row_index = places[selection] - start_row
        ones = np.bitwise_count(payloads[selection] & cells[row_index]).sum(axis=1, dtype=np.int64)
        good[selection] = (limits[row_index, 0] <= ones) & (ones <= limits[row_index, 1])
    return good
