"""Values may be a list, an array, an Arrow column, or a Series of pandas or polars."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ldp import HadamardCountMeanSketch, HierarchicalHistogram, JointReport, RandomizedResponse
from ldp.arrays import column_codes, texts
from ldp.decoding import decode
from ldp.errors import ParameterError
from ldp.simulation import Population, draw_reports, draw_table, draw_tables, encode_batch
from ldp.tables.table import Table

CITIES = ["Oslo", "Bergen", "Oslo", "Hell"]


class Foreign:
    """Series of a package that is not installed here: an Arrow stream, and no more."""

    def __init__(self, values: list[Any]) -> None:
        self._column = pa.chunked_array([pa.array(values)])

    def __iter__(self) -> Any:
        raise AssertionError("it is read as Arrow")

    def __arrow_c_stream__(self, schema: object = None) -> Any:
        return self._column.__arrow_c_stream__(schema)


def series(package: str) -> Callable[[list[Any]], Any]:
    def of(values: list[Any]) -> Any:
        pytest.importorskip(package)
        return import_module(package).Series(values)

    return of


KINDS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "iterator": iter,
    "array": np.array,
    "objects": lambda values: np.array(values, dtype=object),
    "arrow": pa.array,
    "chunks": lambda values: pa.chunked_array([values[:1], values[1:]]),
    "dictionary": lambda values: pa.array(values).dictionary_encode(),
    "foreign": Foreign,
    "pandas": series("pandas"),
    "polars": series("polars"),
}


@pytest.mark.exact
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_column_holds_the_same_values(kind: str) -> None:
    values, places = column_codes(KINDS[kind](CITIES))
    assert values == ("Oslo", "Bergen", "Hell")
    assert places.tolist() == [0, 1, 0, 2]
    assert texts(KINDS[kind](CITIES)) == tuple(CITIES)
    numbers, places = column_codes(KINDS[kind]([2.5, 1.0, 2.5]))
    assert numbers == ("2.5", "1.0")
    assert places.tolist() == [0, 1, 0]
    assert column_codes(KINDS[kind]([3, 1, 3]))[0] == ("3", "1")
    assert column_codes(KINDS[kind]([True, False]))[0] == ("True", "False")
    short = KINDS[kind]([np.float32(0.1), np.float32(2.0)])  # as a double it is 0.10000000149011612
    assert column_codes(short)[0] == ("0.1", "2.0")


@pytest.mark.exact
@pytest.mark.parametrize("kind", sorted({*KINDS} - {"array", "iterator"}))
@pytest.mark.parametrize("values", [["a", None, "b", None], [1.5, float("nan"), 2.0, None]])
def test_a_missing_value_is_named_with_its_position(kind: str, values: list[Any]) -> None:
    column = KINDS[kind](values)
    with pytest.raises(ParameterError, match="candidates: the value at position 1 is missing, and"):
        column_codes(column, "candidates")
    assert column_codes(column, has_missing=True)[1].tolist() == [0, -1, 1, -1]
    with pytest.raises(ParameterError, match="position 1"):
        texts(column)


@pytest.mark.exact
@pytest.mark.parametrize(
    "missing",
    [
        np.float32("nan"),
        np.longdouble("nan"),
        np.datetime64("NaT", "s"),
        Decimal("NaN"),
        np.ma.masked,
        ("NO", np.float32("nan")),
        ["a", None],
        frozenset({"a", float("nan")}),
    ],
)
def test_no_missing_value_of_any_type_is_read_as_a_text(missing: object) -> None:
    for column in (["a", missing], [missing, missing]):
        with pytest.raises(ParameterError, match="is missing"):
            Population(column)
    with pytest.raises(ParameterError, match="is missing"):
        texts([missing])


@pytest.mark.exact
def test_a_value_that_python_cannot_read_is_refused() -> None:
    dates = pa.array([-800_000, 5], pa.int32()).cast(pa.date32())
    ends = pa.array([0, 1], pa.int32()).buffers()[1]
    bytes_of_text = pa.Array.from_buffers(pa.string(), 1, [None, ends, pa.py_buffer(b"\xff")])
    points, no_columns = [np.array(1.5), np.array(2.5)], pa.table({})
    for column in (dates, bytes_of_text, points, no_columns):
        with pytest.raises(ParameterError, match="values: a value cannot be read: "):
            Population(column)


@pytest.mark.exact
def test_sets_of_polars_are_sets_and_no_pointers() -> None:
    class Objects(list[Any]):
        dtype = "Object"

        def __arrow_c_stream__(self, schema: object = None) -> Any:
            raise AssertionError("Arrow has the addresses of objects")

    sets = [{"a"}, {"a", "b"}, {"a"}]
    expected = {frozenset("a"): 2, frozenset("ab"): 1}
    assert Population(Objects(sets)).truth() == expected
    assert Population(series("polars")(sets)).truth() == expected


@pytest.mark.exact
def test_the_index_of_a_frame_is_no_column() -> None:
    """Frames of pandas whose rows were selected have one. Nor are the names of columns values where
    a column has several types."""

    class Frame(Foreign):
        def __init__(self, columns: dict[str, list[Any]]) -> None:
            self._column = pa.table(columns)

        def reset_index(self, drop: bool) -> Any:
            assert drop
            return self._column.drop_columns(["__index_level_0__"])

    frame = Frame({"city": CITIES, "__index_level_0__": [1, 4, 7, 8]})
    assert Population(frame).truth() == {"Oslo": 2, "Bergen": 1, "Hell": 1}

    class Mixed(Frame):
        columns = ("city",)

        def reset_index(self, drop: bool) -> Any:
            return self

        def __arrow_c_stream__(self, schema: object = None) -> Any:
            raise pa.ArrowTypeError("Expected bytes, got a 'int' object")

    with pytest.raises(ParameterError, match="values: a column cannot be read: Expected bytes"):
        Population(Mixed({"city": CITIES}))
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ParameterError, match="values: a column cannot be read: "):
        Population(pandas.DataFrame({"city": [1, "Oslo", 2.5]}))
    frame = pandas.DataFrame({"city": CITIES}, index=[1, 4, 7, 8])
    assert Population(frame).truth() == {"Oslo": 2, "Bergen": 1, "Hell": 1}


@pytest.mark.exact
def test_rows_of_several_columns_are_pairs_and_lists_are_sets() -> None:
    frame = pa.table({"country": ["NO", "SE", "NO"], "minutes": [1.5, 2.0, 1.5]})
    values, places = column_codes(frame)
    assert [values[place] for place in places] == [("NO", "1.5"), ("SE", "2.0"), ("NO", "1.5")]
    assert column_codes([("NO", 1.5)])[0] == (("NO", "1.5"),)
    holes = pa.table({"country": ["NO", None], "minutes": [None, 2.0]})
    assert column_codes(holes, has_missing=True)[1].tolist() == [-1, -1]
    assert column_codes(frame.select(["country"]))[0] == ("NO", "SE")
    assert column_codes(pa.array([["a", "b"], ["b", "a"], []]))[0] == (frozenset("ab"), frozenset())
    assert column_codes([{"a", "b"}, {"c"}])[0] == (frozenset("ab"), frozenset("c"))
    assert column_codes([])[0] == ()


@pytest.mark.exact
@pytest.mark.parametrize("wrong", ["Oslo", b"Oslo", 5, {"Oslo": 2}, {"Oslo"}, np.zeros((2, 2))])
def test_what_is_no_column_is_refused(wrong: object) -> None:
    with pytest.raises(ParameterError, match="values must be"):
        column_codes(wrong)


@pytest.mark.exact
@pytest.mark.parametrize("kind", ["array", "arrow", "foreign", "pandas", "polars"])
def test_public_functions_take_a_column(kind: str) -> None:
    """Functions of the simulation, with the seed of a list, give the same bytes and counts."""
    of = KINDS[kind]
    mechanism = RandomizedResponse(categories=("Oslo", "Bergen", "Hell"), epsilon=2.0)
    assert Population(of(CITIES)).truth() == {"Oslo": 2, "Bergen": 1, "Hell": 1}
    counted = Population(of(["Oslo", "Hell"]), counts=np.array([3, 4]))
    assert counted.truth() == {"Oslo": 3, "Hell": 4}
    rows, payloads = encode_batch(mechanism, of(CITIES), 1)
    assert payloads.tolist() == encode_batch(mechanism, CITIES, 1)[1].tolist()
    assert rows.tolist() == [0] * 4
    (batch,) = draw_reports(mechanism, of(CITIES), 1)
    assert batch[1].tolist() == next(draw_reports(mechanism, CITIES, 1))[1].tolist()
    people = Population(CITIES)
    table = draw_table(mechanism, people.values, counts=people.counts, generator=1)
    assert draw_table(mechanism, of(CITIES), generator=1) == table
    assert draw_tables(mechanism, of(CITIES), generator=1) == table
    sketch = HadamardCountMeanSketch(epsilon=2.0, rows=8, width=16)
    table = draw_table(sketch, CITIES)
    assert decode(table, of(["Oslo", "Hell"])).values == ("Oslo", "Hell")


@pytest.mark.exact
def test_categories_of_a_mechanism_may_be_a_column() -> None:
    mechanism = RandomizedResponse(categories=np.array(["a", "b"]), epsilon=1.0)  # type: ignore[arg-type]
    assert mechanism == RandomizedResponse(categories=("a", "b"), epsilon=1.0)
    assert Table.from_bytes(Table.empty(mechanism).to_bytes()).mechanism == mechanism


@pytest.mark.exact
def test_frames_go_to_joint_mechanisms_and_numbers_by_category() -> None:
    parts = (("x", "y"), ("1", "2"))
    both = JointReport(of=tuple(RandomizedResponse(categories=p, epsilon=1.0) for p in parts))
    frame = pa.table({"a": ["x", "y", "x"], "b": [1, 2, 1]})
    assert draw_tables(both, frame).total == 3
    histogram = HierarchicalHistogram(epsilon=2.0, by=("x", "y"), bounds=(0.0, 4.0), buckets=4)
    assert draw_table(histogram, frame).total == 3


@pytest.mark.exact
@pytest.mark.parametrize(
    ("rows", "values"),
    [
        ([None, ("a", "b"), ("a", "c")], (("a", "b"), ("a", "c"))),
        ([2**70, 1], (str(2**70), "1")),
    ],
)
def test_odd_rows_keep_what_they_are(rows: list[Any], values: tuple[Any, ...]) -> None:
    found, places = column_codes(rows, has_missing=True)
    assert found == values
    assert places.tolist() == [*([-1] * rows.count(None)), *range(len(values))]


@pytest.mark.exact
def test_many_columns_of_many_values_are_told_apart() -> None:
    names = [f"c{number}" for number in range(8)]
    columns = [pa.array([f"{name}{row}" for row in range(1000)]) for name in names]
    found, places = column_codes(pa.table(columns, names=names))
    assert len(found) == 1000
    assert all(found[place][3] == f"c3{row}" for row, place in enumerate(places.tolist()))


@pytest.mark.exact
def test_zero_has_no_sign() -> None:
    values = [-0.0, 0.0, 1.5]
    columns = [values, np.array(values), pa.array(values), np.array(values, np.float16)]
    for column in [*columns, [-0.0, 0, 1.5], [*values, "x"], [Decimal("-0.0"), 0.0, "x"]]:
        different, places = column_codes(column)
        assert places[:2].tolist() == [0, 0]
        assert {*different} <= {"0.0", "1.5", "x"}


@pytest.mark.exact
def test_times_of_several_types_stay_apart() -> None:
    """Arrow makes days of days and times, and reads a time without a zone as UTC."""
    days = [date(2026, 1, 1), datetime(2026, 1, 1, 5), datetime(2026, 1, 1, 6)]
    zones = [datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)]
    for times in (days, zones, np.array(days, dtype=object)):
        assert column_codes(times)[0] == tuple(map(str, times))
    assert column_codes([*days, None], has_missing=True)[1].tolist() == [0, 1, 2, -1]


@pytest.mark.exact
def test_nanoseconds_of_a_time_are_not_lost() -> None:
    whole = pa.array([1000, 2000], pa.time64("ns"))
    assert column_codes(whole)[0] == ("00:00:00.000001", "00:00:00.000002")
    with pytest.raises(ParameterError, match="would lose data"):
        column_codes(pa.array([1, 2], pa.time64("ns")))


@pytest.mark.exact
def test_rows_of_a_structured_array_are_tuples() -> None:
    rows = np.array([(1, "a"), (2, "b"), (1, "a")], dtype=[("x", int), ("y", "U1")])
    assert column_codes(rows)[0] == (("1", "a"), ("2", "b"))


@pytest.mark.exact
@pytest.mark.parametrize("wrong", [object(), lambda: None])
def test_objects_without_a_text_are_no_values(wrong: object) -> None:
    with pytest.raises(ParameterError, match="is neither a text nor a number"):
        column_codes([wrong, wrong])
    assert column_codes(["<a at 0x1>"])[0] == ("<a at 0x1>",)


@pytest.mark.exact
def test_counts_by_an_index_are_no_people() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"city": CITIES, "age": [1, 2, 3, 4]})
    for counts in (frame["city"].value_counts(), frame.groupby("city").size()):
        with pytest.raises(ParameterError, match="may be counts by 'city': give a row a person"):
            column_codes(counts)
        assert {*column_codes(counts.to_numpy())[0]} == {"1", "2"}
    places = pandas.Series([*map(str, range(4))]).value_counts()
    for counts in (pandas.Series(CITIES).value_counts(), places, places.rename("proportion")):
        with pytest.raises(ParameterError, match="may be counts by 'index': give a row a person"):
            column_codes(counts)
    for rows in (frame["age"], frame.set_index("city")["age"], frame["age"].rename("count")):
        assert column_codes(rows)[0] == ("1", "2", "3", "4")
