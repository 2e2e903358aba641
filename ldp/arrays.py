"""Names of array types, one definition each; for servers only."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Real numbers: counts, probabilities, errors."""
Ints = NDArray[np.int64]
"""Whole numbers: exact counts, columns, places."""
Bools = NDArray[np.bool_]
"""Which of several."""
Places = NDArray[np.intp]
"""Places in an array, as numpy gives them."""
Points = NDArray[np.unsignedinteger]
"""What stands for values in bulk, and the columns of Bloom filters."""
AnyInts = NDArray[np.integer]
"""Cells of a table, of any width."""
RowNumbers = NDArray[np.uint32]
"""Rows of a table, one a report or a value."""
