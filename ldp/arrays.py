"""Types of arrays, one definition each; for servers only."""

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
