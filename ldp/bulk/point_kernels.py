"""The cells of many values at once: the bulk twins of the addressings.

`points`, `columns`, `pick` and `scatter` are generic functions: the code of an addressing is
registered by its type, here or in another file of this package. Tests hold every output to the
scalar code.
"""

from collections.abc import Sequence
from functools import singledispatch

import numpy as np

from ldp.arrays import AnyInts, Bools, Ints, Points, RowNumbers
from ldp.errors import ParameterError
from ldp.mechanisms.addressing import Addressing, Answers, CellSets, Identity, Rounding, unpacked
from ldp.mechanisms.bit_flip import Buckets
from ldp.mechanisms.hierarchical_histogram import Levels
from ldp.mechanisms.moments import Products
from ldp.mechanisms.numeric import Numbers
from ldp.protocol.hashing import Value

NO_COLUMN = -1
"""Column number that stands for "touches no cell"."""
NO_ANSWER = np.uint64((1 << 64) - 1)
"""Point that stands for no further answer."""


@singledispatch
def points(addressing: Addressing, rows: int, values: Sequence[Value]) -> Points:
    """Return what stands for each value in bulk: its point, uint64, shape (values,).

    Words have a point at every position: shape (values, positions). Sets of answers have a point
    for each, then NO_ANSWER: shape (values, at_most). Values of which a hash needs all bytes have
    their `bloom_map`. Numbers have a rounding for every row, or one for all rows: shape (values,
    rows or 1, 2).
    """
    return np.array([addressing.point(value) for value in values], dtype=np.uint64)


@singledispatch
def columns(addressing: Addressing, rows: int, points: Points, at: RowNumbers) -> Ints:
    """Return the columns that points[i] touches in row at[i], filled up with NO_COLUMN: int64,
    shape (points, k), where k is the largest number of columns that a value touches in a row.

    For numbers, `points` are the steps to which they were rounded. Raises TypeError for an
    addressing without bulk code.
    """
    raise TypeError(f"no bulk code for {type(addressing).__name__}")


@singledispatch
def pick(
    addressing: Addressing,
    rows: int,
    points: Points,
    at: RowNumbers,
    is_inside: Bools,
    number: Ints,
) -> Ints:
    """Return for point i the number[i]-th column that it touches in row at[i], or where not
    is_inside[i] the number[i]-th that it does not touch: int64, shape of `number`."""
    touched = np.sort(columns(addressing, rows, points, at), axis=1)
    inside = touched[np.arange(len(touched)), np.where(is_inside, number, 0)]
    outside = number.copy()
    for cells in touched.T:
        outside += outside >= cells
    return np.where(is_inside, inside, outside)


@singledispatch
def scatter(
    addressing: Addressing, rows: int, counts: Ints, by_value: Ints, points: Points, start: int
) -> None:
    """Add by_value[i, r] to counts[r, c] for every column c that points[i] touches in row start +
    r, for the rows r of `counts`."""
    for r in range(len(counts)):
        at = np.full(len(points), start + r, dtype=np.uint32)
        for cells in columns(addressing, rows, points, at).T:
            np.add.at(counts[r], cells[cells != NO_COLUMN], by_value[cells != NO_COLUMN, r])


@singledispatch
def count_sets(addressing: CellSets, counts: AnyInts, known: Sequence[int] | AnyInts) -> Ints:
    """Return for each point in `known` the sum of `counts`, shape (columns,), over the columns of
    its set: int64, shape (known,)."""
    raise TypeError(f"no bulk code for {type(addressing).__name__}")


@columns.register
def _category_columns(addressing: Identity, rows: int, points: Points, at: RowNumbers) -> Ints:
    categories = points.astype(np.int64)
    categories[categories >= len(addressing.categories)] = NO_COLUMN
    return categories[:, None]


@columns.register
def _set_columns(addressing: CellSets, rows: int, points: Points, at: RowNumbers) -> Ints:
    return np.array([list(addressing.cells(point, 0)) for point in points.tolist()])


@points.register
def _answers(addressing: Answers, rows: int, values: Sequence[Value]) -> Points:
    """Return the points of sets of answers. Raises ParameterError for a set of more than `at_most`,
    of which some must be drawn beforehand."""
    places = np.full((len(values), addressing.at_most), NO_ANSWER)
    for place, value in zip(places, values, strict=True):
        answers = unpacked(addressing.point(value))
        if len(answers) > addressing.at_most:
            raise ParameterError(f"a value has {len(answers)} answers, more than at_most")
        place[: len(answers)] = answers
    return places


@columns.register
def _answer_columns(addressing: Answers, rows: int, points: Points, at: RowNumbers) -> Ints:
    is_answer = points != NO_ANSWER
    others = np.full(points.shape, NO_COLUMN)
    if addressing.pads is not None:
        others = addressing.pads + np.cumsum(~is_answer, axis=1) - 1
    cells = [
        np.where(is_held[:, None], columns(addressing.of, rows, answers, at), other[:, None])
        for answers, is_held, other in zip(
            np.where(is_answer, points, 0).T, is_answer.T, others.T, strict=True
        )
    ]
    return np.concatenate(cells, axis=1)


@points.register
def _roundings(addressing: Rounding, rows: int, values: Sequence[Value]) -> Points:
    at = range(rows if addressing.has_row_rounding else 1)
    numbers = map(addressing.point, values)
    roundings = [[addressing.rounding(number, row) for row in at] for number in numbers]
    return np.array(roundings, dtype=np.uint64).reshape(len(values), len(at), 2)


@columns.register
def _bin_columns(addressing: Numbers, rows: int, points: Points, at: RowNumbers) -> Ints:
    return points.astype(np.int64)[:, None] + np.arange(addressing.width)


@columns.register
def _product_columns(addressing: Products, rows: int, points: Points, at: RowNumbers) -> Ints:
    return points.astype(np.int64)[:, None]


@columns.register
def _bucket_columns(addressing: Buckets, rows: int, points: Points, at: RowNumbers) -> Ints:
    buckets = (points.astype(np.int64) - at) % addressing.number
    buckets[buckets >= addressing.bits] = NO_COLUMN
    return buckets[:, None]


@columns.register
def _group_columns(addressing: Levels, rows: int, points: Points, at: RowNumbers) -> Ints:
    sizes = [(addressing.width(row), addressing.groups(row)) for row in range(rows)]
    widths, groups = np.array(sizes, dtype=np.int64)[at].T
    category, place = np.divmod(points.astype(np.int64), len(addressing.bins))
    columns: Ints = category * groups + place // widths
    return columns[:, None]
