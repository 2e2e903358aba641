"""Types of arrays, columns of values, sums into cells, tails of Binomial(number, share), numbers in
increasing order. The last two replace parts of scipy that are slow to import. Servers only.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp.errors import ParameterError

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
"""Rows of a table, one for each report or value."""
Bytes = NDArray[np.uint8]
"""Bytes or bits of reports, such as their payloads."""

WHOLE = {str, bytes, int}
"""Types of values that are never missing."""
UNREADABLE = ArithmeticError, LookupError, TypeError, ValueError
"""Errors of numpy, pandas and Arrow about values that they cannot read."""
Generator = np.random.Generator
"""Source of a simulation's randomness."""
Seed = Generator | int | None
"""A generator, a seed of one, or None for a new one."""


def generator_of(seed: Seed) -> Generator:
    """Return the generator of a simulation; raise ParameterError for an invalid `seed`."""
    with suppress(TypeError, ValueError):
        generator = np.random.default_rng(seed)
        # that of RandomState has not
        if hasattr(generator.bit_generator.seed_seq, "spawn"):
            return generator
    raise ParameterError("seed must be a whole number from 0, a generator or None")


def increasing(values: Floats, weights: Floats | None = None) -> Floats:
    """Return the numbers in increasing order that are nearest to `values` by the squares of their
    distances times `weights`, shape (numbers,): neighbours in the wrong order get their mean (Ayer
    et al. 1955). scipy.optimize has such a function too, but takes 0.2 seconds to import."""
    means, shares, sizes = list[float](), list[float](), list[int]()
    each = np.ones(len(values)) if weights is None else weights
    for mean, share in zip(values.tolist(), each.tolist(), strict=True):
        size = 1
        while means and means[-1] >= mean:
            earlier = shares.pop()
            mean = (means.pop() * earlier + mean * share) / (earlier + share)
            share, size = share + earlier, size + sizes.pop()
        means.append(mean)
        shares.append(share)
        sizes.append(size)
    return np.repeat(means, sizes)


Codes = tuple[tuple[Any, ...], Ints]
"""Different values of a column, and for each row the place of its value among them."""


def column_codes(rows: Any, name: str = "values", has_missing: bool = False) -> Codes:
    """Return the different values of a column, and for each row the place of its value among them:
    int64, shape (rows,), -1 where the value is missing. The values of a single column are in the
    order of their first rows.

    `rows`: a list or another iterable, a numpy array, an Arrow column, a Series of pandas or
    polars. For tuples it may be a frame with a column for each member. Values become texts, rows of
    several columns become tuples of texts, and lists in a row become sets. Raises ParameterError,
    with `name`, for anything but a column, and, unless `has_missing`, for a missing value, with its
    position.
    """
    try:
        values, places = _codes(rows, name)
    except ParameterError:
        raise
    except UNREADABLE as error:
        what = f"{name}: a value cannot be read: {error!s:.200}"
        raise ParameterError(what) from error
    missing = np.flatnonzero(places < 0)
    if missing.size and not has_missing:
        others = f", and {missing.size - 1:,} more are" if missing.size > 1 else ""
        raise ParameterError(
            f"{name}: the value at position {missing[0]} is missing{others}: leave such rows out"
        )
    return values, places


def texts(values: Any, name: str = "values") -> tuple[Any, ...]:
    """Return the values of a column as a tuple. Arguments and errors are those of `column_codes`,
    but values in a list or tuple do not become texts."""
    if isinstance(values, list | tuple):
        kinds = {*map(type, values)}
        if kinds == {tuple}:
            kinds = {*map(type, chain.from_iterable(values))}
        is_nested = not kinds.isdisjoint({dict, list, np.ndarray, set})
        if kinds <= WHOLE or not (is_nested or any(map(_is_missing, values))):
            return tuple(values)
    different, places = column_codes(values, name)
    return tuple(different[place] for place in places.tolist())


def _codes(rows: Any, name: str) -> Codes:
    import pyarrow as pa
    from pyarrow import compute

    # objects of polars, as sets are, become pointers in Arrow
    kind = str(getattr(rows, "dtype", ""))
    is_arrow = hasattr(rows, "__arrow_c_stream__") and kind != "Object"
    is_array = is_arrow or hasattr(rows, "__array__")
    is_column = is_array or isinstance(rows, Iterable)
    if isinstance(rows, str | bytes | bytearray | dict | AbstractSet) or not is_column:
        what = f"must be a list, an array or a column, not {type(rows).__name__}"
        raise ParameterError(f"{name} {what}")
    if not is_arrow and getattr(rows, "ndim", 1) != 1:
        raise ParameterError(f"{name} must be one column")
    if hasattr(rows, "reset_index"):  # drops pandas' index
        index = rows.index if hasattr(rows, "to_frame") else None
        by = None if index is None else index.names[0]
        # that of a column of people is plain
        is_odd = type(index).__name__ not in ("RangeIndex", "NoneType")
        if is_odd and by is None and rows.name is not None:
            by = "index"
        may_count = by is not None and rows.dtype.kind in "iuf"
        if may_count and rows.name in (None, "count", "proportion"):
            what = f"may be counts by {by!r}: give a row a person, or to_numpy()"
            raise ParameterError(f"{name} {what}")
        rows = rows.reset_index(drop=True)
    # rows of fields
    if isinstance(rows, np.ndarray) and rows.dtype.kind == "V":
        return _codes_one_by_one(rows.tolist())
    rows = rows if is_array else [*rows]
    try:
        if is_arrow:
            column = pa.chunked_array(rows)
        elif is_array or not any(isinstance(row, tuple) for row in rows):
            column = pa.chunked_array([pa.array(rows, from_pandas=True)])
        else:
            return _codes_one_by_one(rows)
        if pa.types.is_struct(column.type):
            columns = [_codes(field, name) for field in column.combine_chunks().flatten()]
            return _codes_of_columns(columns) if len(columns) > 1 else columns[0]
        if pa.types.is_nested(column.type):
            return _codes_one_by_one(column.to_pylist())
        if pa.types.is_temporal(column.type) and (kind == "object" or not is_array):
            # Arrow makes days of a day and a time
            return _codes_one_by_one(rows)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        # polars tells NaN from null
        if pa.types.is_floating(column.type):
            column = compute.if_else(compute.is_nan(column), None, column)
        column = column.dictionary_encode().combine_chunks()
    except (pa.ArrowException, OverflowError, TypeError, UnicodeEncodeError) as error:
        if hasattr(rows, "columns"):
            raise ParameterError(f"{name}: a column cannot be read: {error!s:.200}") from None
        return _codes_one_by_one(rows)
    places = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    values = column.dictionary
    if values.type == pa.time64("ns"):
        values = values.cast(pa.time64("us"))  # Python has no others
    # as doubles they have other digits
    if values.type in (pa.float16(), pa.float32()):
        return merged(map(_text, values.to_numpy()), places)
    return merged(map(_text, values.to_pylist()), places)


def merged(values: Iterable[Any], places: Ints) -> Codes:
    """Return the codes of a column of `values`, some of which may be equal."""
    numbers = dict[Any, int]()
    changed = [numbers.setdefault(value, len(numbers)) for value in values]
    return tuple(numbers), np.array([*changed, -1])[places]


def _codes_of_columns(columns: Sequence[Codes]) -> Codes:
    """Return the codes of rows of several columns from the codes of each column."""
    numbers = np.column_stack([places for _, places in columns])
    is_missing = (numbers < 0).any(axis=1)
    different, inverse = np.unique(numbers[~is_missing], axis=0, return_inverse=True)
    places = np.full(len(numbers), -1)
    places[~is_missing] = inverse.ravel()
    cells = [
        [values[place] for place in some.tolist()]
        for (values, _), some in zip(columns, different.T, strict=True)
    ]
    return tuple(zip(*cells, strict=True)), places


def _codes_one_by_one(rows: Iterable[Any]) -> Codes:
    places: dict[Any, int] = {}
    numbers = [
        -1 if _is_missing(row) else places.setdefault(_text(row), len(places)) for row in rows
    ]
    return tuple(places), np.array(numbers, dtype=np.int64)


def _is_missing(value: Any) -> bool:
    """Return whether a value, or one of several, is missing: None, NaN of any type or a mark of
    pandas or numpy."""
    if value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return True
    if isinstance(value, dict | tuple | AbstractSet | list | np.ndarray):
        return any(map(_is_missing, value.values() if isinstance(value, dict) else value))
    return bool(value != value)


def _text(value: Any) -> Any:
    """Return a value of a column as a text, a fraction as decimals and -0.0 as 0.0. Returns bytes
    that are not UTF-8 unchanged."""
    if isinstance(value, dict | tuple):
        return tuple(map(_text, value.values() if isinstance(value, dict) else value))
    if isinstance(value, AbstractSet | list | np.ndarray):
        return frozenset(map(_text, value))
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            return value.decode()
        return value
    if isinstance(value, float | np.floating | Decimal) and not value:
        value = abs(value)
    text = str(float(value) if isinstance(value, Fraction) else value)
    if " at 0x" in text and not isinstance(value, str):
        raise TypeError(f"an object of {type(value).__name__} is neither a text nor a number")
    return text


def require_one_index(columns: Mapping[str, Any]) -> None:
    """Raise ParameterError, with the names, where two columns of pandas have different indices."""
    indices = {name: rows.index for name, rows in columns.items() if hasattr(rows, "reset_index")}
    for name, index in indices.items():
        first = next(iter(indices))
        if not index.equals(indices[first]):
            raise ParameterError(f"{name} has another index than {first}: align both")


def require_no_times(columns: Mapping[str, Any]) -> None:
    """Raise ParameterError, with the name, for dates and times: numpy would take them for numbers
    of a unit that depends on who made them."""
    for name, values in columns.items():
        # what else is wrong the caller says
        kind = array_of(values).dtype
        if kind.kind in "mM":
            what = f"{name} must be numbers, not {kind}"
            raise ParameterError(f"{what}: write times as numbers")


def unmasked(values: Any) -> Any:
    """Return a masked array of numbers with NaN where it is masked, and anything else unchanged:
    numpy and scikit-learn would read the numbers below the mask."""
    if isinstance(values, np.ma.MaskedArray):
        # texts, which the caller refuses
        with suppress(TypeError, ValueError):
            values = values.astype(np.float64)
            return values.filled(np.nan)
    return values


def array_of(values: Any) -> Any:
    """Return `values` as an array of numpy, NaN where they are masked, and an empty one where numpy
    cannot read them."""
    numbers = np.empty(0)
    # Arrow and polars have errors of their own
    with suppress(Exception):
        numbers = np.asarray(unmasked(values))
    if numbers.dtype == object:  # nullable numbers of pandas
        with suppress(ValueError):
            numbers = np.asarray(numbers.tolist())
    return numbers


def real_frequencies(frequencies: Any, size: int) -> Floats:
    """Return frequencies of values, shape (size,), as float64. Raises ParameterError for anything
    but real numbers."""
    numbers = array_of(frequencies)
    kinds = set[type]()
    if numbers.dtype == object:
        kinds = {*map(type, numbers.flat)}
    if kinds and all(issubclass(kind, Real | Decimal) for kind in kinds):
        numbers = numbers.astype(np.float64)
    if numbers.dtype.kind in "iuf" and numbers.shape == (size,):
        return np.asarray(numbers.astype(np.float64))
    raise ParameterError("frequencies must be numbers, one for each value")


def whole_counts(counts: Any, size: int) -> Ints:
    """Return counts of people, shape (size,), as int64. Raises ParameterError for anything else."""
    numbers: NDArray[Any] = array_of(counts)
    if numbers.dtype.kind == "f":  # half floats have no 2**62
        numbers = numbers.astype(np.float64)
    is_right = numbers.dtype.kind in "iuf" and numbers.shape == (size,)
    if is_right and ((numbers >= 0) & (numbers < 1 << 62) & (numbers == np.floor(numbers))).all():
        return numbers.astype(np.int64)
    raise ParameterError("counts must be whole numbers from 0, one for each value")


def add_at(
    cells: AnyInts, rows: AnyInts, columns: AnyInts, amounts: AnyInts | np.integer | int
) -> None:
    """Add `amounts` to `cells[rows, columns]`, several times to a cell that occurs several times.
    `numpy.add.at` does this with two indices. Here it gets one, for which numpy has a fast loop.
    `cells`: shape (rows, columns), contiguous, changed in place. `rows`, `columns`: of one shape.
    Raises ValueError for a cell outside the table."""
    # otherwise a copy would be added to
    assert cells.flags.c_contiguous
    np.add.at(cells.reshape(-1), np.ravel_multi_index((rows, columns), cells.shape), amounts)


def binomial_above(counts: Any, number: Any, share: Any) -> Floats:
    """Return the probabilities that Binomial(`number`, `share`) is more than `counts`, which are
    whole numbers and may be negative. The arguments broadcast."""
    return _tails(counts, number, share, is_upper=True)


def binomial_up_to(counts: Any, number: Any, share: Any) -> Floats:
    """Return the probabilities that Binomial(`number`, `share`) is at most `counts`, which are
    whole numbers and may be negative. The arguments broadcast."""
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
    """Return the probabilities of 0 to `number` under Binomial(`number`, `share`), right to 1e-15:
    shape (number + 1,)."""
    return np.diff(binomial_up_to(np.arange(-1, number + 1), number, share))


def binomial_ends(tail: float, number: int, share: float) -> tuple[int, int]:
    """Return two counts c of X ~ Binomial(`number`, `share`): the least with P(X <= c) >= `tail`,
    and the least with P(X > c) <= `tail`."""

    def is_most(count: int) -> bool:
        return bool(binomial_above(count, number, share) <= tail)

    def is_least(count: int) -> bool:
        return bool(binomial_up_to(count, number, share) >= tail)

    every = range(number + 1)
    return bisect_left(every, True, key=is_least), bisect_left(every, True, key=is_most)
