"""Types of arrays, one definition each, and sums into cells; for servers only."""

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
