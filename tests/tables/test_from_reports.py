"""Tables are made from existing reports: bytes, an Arrow column, a matrix of bytes."""

from collections import Counter
from collections.abc import Callable
from importlib import import_module
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ldp.errors import ReportError
from ldp.mechanisms import CatalogueMechanism, RandomizedResponse, from_parameters
from ldp.mechanisms.catalogue import CATALOGUE
from ldp.protocol.randomness import SeededBits
from ldp.tables.joint_table import JointTable, empty_builder
from ldp.tables.table import Table, TableBuilder
from simulations.benchmarks.measuring import calibration

MECHANISM = RandomizedResponse(categories=("a", "b", "c"), epsilon=1.0)


def matrix(reports: list[bytes]) -> Any:
    return np.frombuffer(b"".join(reports), np.uint8).reshape(len(reports), -1)


def series(package: str) -> Callable[[list[bytes]], Any]:
    def of(reports: list[bytes]) -> Any:
        pytest.importorskip(package)
        return import_module(package).Series(reports)

    return of


KINDS: dict[str, Callable[[list[bytes]], Any]] = {
    "list": list,
    "iterator": iter,
    "matrix": matrix,
    "binary": pa.array,
    "fixed": lambda reports: pa.array(reports, pa.binary(len(reports[0]))),
    "chunks": lambda reports: pa.chunked_array([reports[:3], [], reports[3:]], pa.large_binary()),
    "slice": lambda reports: pa.array([b"", *reports, b"more"])[1:-1],
    "pandas": series("pandas"),
    "polars": series("polars"),
}


def reports_of(mechanism: CatalogueMechanism, number: int) -> list[bytes]:
    values, encoder = mechanism.cases[0].values, mechanism.encoder(SeededBits(b"reports"))
    return [encoder.encode(values[i % len(values)]) for i in range(number)]


def one_by_one(mechanism: CatalogueMechanism, reports: list[bytes]) -> Any:
    """Return the table by the scalar reading of a report, with which arrays are compared."""
    builder = empty_builder(mechanism, whole=mechanism.needs_whole)
    for report in reports:
        body = report[len(mechanism.header) :]
        row = int.from_bytes(body[: mechanism.layout.row_bytes], "little")
        payload = np.frombuffer(body[mechanism.layout.row_bytes :], np.uint8)
        builder.add_batch(np.array([row], np.uint32), payload[None, :])
    return builder.build()


@pytest.mark.exact
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["rr", "cms", "rappor", "hcms", "joint", "sfp", "hadamard"])
def test_every_kind_of_reports_makes_the_same_table(kind: str, name: str) -> None:
    case = CATALOGUE[name].cases[0]
    mechanism = from_parameters({"mechanism": name, **case.parameters})
    reports = reports_of(mechanism, 20)
    table = Table.from_reports(mechanism, KINDS[kind](reports))
    assert table == one_by_one(mechanism, reports)
    assert isinstance(table, JointTable) == (name in ("joint", "sfp"))
    parts = [
        Table.from_reports(mechanism, KINDS[kind](some)) for some in (reports[:9], reports[9:])
    ]
    assert parts[0] + parts[1] == table  # type: ignore[operator]


@pytest.mark.exact
@pytest.mark.parametrize("kind", KINDS)
def test_an_invalid_report_is_named_with_its_position(kind: str) -> None:
    good = reports_of(MECHANISM, 40_000)
    other = RandomizedResponse(categories=("a", "b", "d"), epsilon=1.0)
    for bad, message in (
        (reports_of(other, 1)[0], "report is of mechanism"),
        (good[0][:-1] + b"\x03", "column outside 0..2"),
        (b"\x02" + good[0][1:], "format version 2"),
    ):
        reports = [*good[:-2], bad, good[-1]]
        with pytest.raises(ReportError, match=rf"{message}.*\(at position 39998\)"):
            Table.from_reports(MECHANISM, KINDS[kind](reports))


class Unreadable:
    def __arrow_c_stream__(self, schema: object = None) -> Any:
        raise pa.ArrowTypeError("Expected bytes, got a 'int' object")


@pytest.mark.exact
@pytest.mark.parametrize(
    ("reports", "message"),
    [
        ([b"short"], "report has 5 bytes"),
        (pa.array([b"short"]), "report has 5 bytes"),
        (
            pa.array([reports_of(MECHANISM, 1)[0], None]),
            r"must be bytes, not NoneType \(at position 1\)",
        ),
        (["x" * 11], "must be bytes"),
        (Unreadable(), "must be bytes: Expected bytes, got a 'int' object"),
        ([5], "must be bytes"),
        (np.zeros((2, 11), np.int64), "uint8"),
        (np.zeros((2, 9), np.uint8), "report has 9 bytes"),
        (None, "must be an iterable of bytes"),
        (np.array(5), "must be an iterable of bytes"),
        (np.array(reports_of(MECHANISM, 2)), "numpy drops zeros at the end of bytes"),
        (
            pa.Array.from_buffers(pa.string(), 1, [None, *pa.array([b"\xff"]).buffers()[1:]]),
            "must be bytes: 'utf-8' codec",
        ),
        (Counter(reports_of(MECHANISM, 50)), "no set or Counter"),
        ({*reports_of(MECHANISM, 50)}, "no set or Counter"),
        (np.ma.array(np.zeros((2, 11), np.uint8), mask=True), "uint8"),
        (pa.table({"report": reports_of(MECHANISM, 1)}), "must be bytes"),
    ],
)
def test_what_is_no_report_is_refused(reports: Any, message: str) -> None:
    with pytest.raises(ReportError, match=message):
        Table.from_reports(MECHANISM, reports)


@pytest.mark.exact
def test_no_reports_are_an_empty_table() -> None:
    nothing: list[Any] = [[], pa.array([], pa.binary()), np.zeros((0, 11), np.uint8)]
    for reports in nothing:
        assert Table.from_reports(MECHANISM, reports) == Table.empty(MECHANISM)


QUIET_LOOP_MS = 60.0
"""Milliseconds of the loop of `calibration`, on the machine of docs/benchmarks.md."""


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize(
    ("kind", "rate"), [("matrix", 20e6), ("fixed", 20e6), ("binary", 20e6), ("list", 5e6)]
)
def test_so_many_reports_are_counted_in_a_second(kind: str, rate: float) -> None:
    """The rate is in processor time of the machine of docs/benchmarks.md, at best of nine.

    A loop in Python shows how much slower this machine is. Measured there were 48, 47, 37 and 17
    million; a loop over the reports reaches 1.2.
    """
    number = 1_000_000
    reports = KINDS[kind](reports_of(MECHANISM, 1000) * (number // 1000))
    seconds = list[float]()
    for _ in range(9):
        start = process_time()
        assert Table.from_reports(MECHANISM, reports).total == number
        seconds.append(process_time() - start)
    slower = calibration()["python_loop_ms"] / QUIET_LOOP_MS
    assert number / min(seconds) * slower > rate


@pytest.mark.exact
def test_a_builder_has_counted_what_came_before_an_invalid_report() -> None:
    builder = empty_builder(MECHANISM)
    with pytest.raises(ReportError, match="position 3"):
        builder.add_all([*reports_of(MECHANISM, 3), b"", *reports_of(MECHANISM, 2)])
    assert builder.build().total == 3


@pytest.mark.exact
def test_a_builder_goes_on_with_a_table() -> None:
    """The result is the sum of two tables, of which the first stays as it is."""
    parts = [MECHANISM.encoder().encode(value) for value in ["a"] * 200 + ["b"] * 100]
    first = Table.from_reports(MECHANISM, parts[:200])
    start = Table(MECHANISM, first.counts, first.reports, ("2026-01-01",))
    counted = start.counts.copy()
    builder = TableBuilder(MECHANISM, start=start)
    builder.add_all(parts[200:])
    assert builder.build() == start + Table.from_reports(MECHANISM, parts[200:])
    assert (start.counts == counted).all()
