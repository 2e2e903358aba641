"""What every decoder starts from: how many reports name each cell."""

import numpy as np
from numpy.typing import NDArray

from ldp.table import Table
from ldp.wire import Kind


def named_counts(table: Table) -> NDArray[np.integer]:
    """The number of reports of its row that name each cell: integers, shape (rows, columns).

    INDEX and BITS tables count just that. A SIGN report names every cell whose Hadamard sign in
    the report's column is the report's: with T the inverse Walsh-Hadamard sum of a row's signs,
    T[cell] = agreeing - disagreeing reports, so (T + reports) / 2 agree. Exact integers.
    """
    if table.mechanism.kind is not Kind.SIGN:
        return table.counts
    from ldp.kernels import walsh_hadamard  # late: numba takes half a second to import

    sums = walsh_hadamard(table.counts)
    sums += table.reports[:, None]
    sums >>= 1
    return sums
