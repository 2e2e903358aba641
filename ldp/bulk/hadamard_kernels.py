"""Columns of many Hadamard rows at once: the bulk twin of `ldp.mechanisms.hadamard_response`."""

from collections.abc import Sequence

import numpy as np

from ldp.arrays import AnyInts, Bools, Ints, Points, RowNumbers
from ldp.bulk.counting import negative_signs, walsh_hadamard
from ldp.bulk.point_kernels import count_sets, pick
from ldp.mechanisms.hadamard_response import HadamardRows


@pick.register
def _pick_column(
    addressing: HadamardRows,
    rows: int,
    points: Points,
    at: RowNumbers,
    is_inside: Bools,
    number: Ints,
) -> Ints:
    row = points.astype(np.int64) + 1
    pivot = row & -row
    column = (number & -pivot) << 1 | number & (pivot - 1)
    is_odd = negative_signs(column, row).astype(np.bool_)
    return np.asarray(column | np.where(is_odd == is_inside, pivot, 0))


@count_sets.register
def _count_rows(addressing: HadamardRows, counts: AnyInts, known: Sequence[int] | AnyInts) -> Ints:
    signs = walsh_hadamard(counts[None])[0]
    return np.asarray((int(counts.sum()) + signs[np.asarray(known) + 1]) // 2)
