"""Types of arrays, one definition each, sums into cells, and tails of Binomial(number, share), of
which scipy.stats takes a third of a second to import; for servers only."""

from bisect import bisect_left
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Array of real numbers: counts, probabilities, errors."""
Ints = NDArray[np.int64]
"""Array of whole numbers: exact counts, columns, indices."""
Bools = NDArray[np.bool_]
"""Mask of an array."""
Places = NDArray[np.intp]
"""Array of indices, as numpy returns them."""
Points = NDArray[np.unsignedinteger]
"""Array of points, which stand for values, or of columns of Bloom filters."""
AnyInts = NDArray[np.integer]
"""Cells of a table, of any width."""
RowNumbers = NDArray[np.uint32]
"""Rows of a table, one a report or a value."""


def add_at(
    cells: AnyInts, rows: AnyInts, columns: AnyInts, amounts: AnyInts | np.integer | int
) -> None:
    """Add `amounts` to `cells[rows, columns]`, to a cell that is named again as often: what
    `numpy.add.at` does with two indices, by one, for which numpy has a fast loop. `cells`: shape
    (rows, columns), contiguous, changed; `rows`, `columns`: of one shape. Raises ValueError for a
    cell outside."""
    assert cells.flags.c_contiguous  # otherwise a copy would be added to
    np.add.at(cells.reshape(-1), np.ravel_multi_index((rows, columns), cells.shape), amounts)


def binomial_above(counts: Any, number: Any, share: Any) -> Floats:
    """Return the probabilities of more than `counts`, whole numbers, negative ones too.
    The arguments broadcast."""
    return _tails(counts, number, share, is_upper=True)


def binomial_up_to(counts: Any, number: Any, share: Any) -> Floats:
    """Return the probabilities of at most `counts`, whole numbers, negative ones too.
    The arguments broadcast."""
    return _tails(counts, number, share, is_upper=False)


def _tails(counts: Any, number: Any, share: Any, *, is_upper: bool) -> Floats:
    from scipy.special import betainc, betaincc

    tail = betainc if is_upper else betaincc
    counts, number = np.asarray(counts, float), np.asarray(number, float)
    inside = np.clip(counts, 0, np.maximum(number - 1, 0))
    tails = tail(inside + 1, np.maximum(number - inside, 1), share)
    tails = np.where(counts < 0, float(is_upper), tails)
    return np.where(counts < number, tails, float(not is_upper))[()]


def binomial_law(number: int, share: float) -> Floats:
    """Return the probabilities of 0 to `number`, right to 1e-15."""
    return np.diff(binomial_up_to(np.arange(-1, number + 1), number, share))


def binomial_ends(tail: float, number: int, share: float) -> tuple[int, int]:
    """Return the least count that is not exceeded with probability `tail` at least, and the least
    that is exceeded with probability `tail` at most."""

    def is_most(count: int) -> bool:
        return bool(binomial_above(count, number, share) <= tail)

    def is_least(count: int) -> bool:
        return bool(binomial_up_to(count, number, share) >= tail)

    every = range(number + 1)
    return bisect_left(every, True, key=is_least), bisect_left(every, True, key=is_most)
