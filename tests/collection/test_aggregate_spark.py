"""Spark counts what one machine counts, to the last integer."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ldp import CountMeanSketch, RandomizedResponse
from ldp.collection import ReportWriter, aggregate, report_files
from ldp.collection.spark import _reason
from ldp.collection.sql import has_estimates
from ldp.errors import ReportError
from ldp.mechanisms import CatalogueMechanism, JointReport
from ldp.simulation import Population, draw_reports
from ldp.tables.table import Table
from tests.collecting import registry
from tests.collection.test_counts_elsewhere import (
    COUNTABLE,
    require_query,
    stored_reports,
    write,
)
from tests.examples import sampling_each_kind

SKETCH = CountMeanSketch(epsilon=4.0, rows=1024, width=1024, seed="00")


def missing(what: str) -> None:
    assert not os.environ.get("CI"), f"{what} is missing where it must not be"
    pytest.skip(f"no {what}")


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """Yield a Spark session on this machine, for all tests."""
    if find_spec("pyspark") is None:
        missing("pyspark")
    if not shutil.which("java"):
        missing("Java")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    yield session
    session.stop()


def stored(store: Path, mechanism: CatalogueMechanism, values: Any, reports: int) -> None:
    """Write eight files over three days."""
    people = Population(values, counts=np.full(len(values), reports // 8 // len(values)))
    for number in range(8):
        day, random = date(2026, 1, 1 + number % 3), np.random.default_rng(number)
        with ReportWriter(store, "m", 1, mechanism, day, str(number)) as writer:
            for rows, payloads in draw_reports(mechanism, people, random):
                writer.write(rows, payloads)


def both(store: Path, mechanism: CatalogueMechanism) -> None:
    from ldp.collection.spark import aggregate_on_spark

    here = aggregate([store], "m", 1, mechanism, workers=2)
    there = aggregate_on_spark([store], "m", 1, mechanism)
    assert there == here
    assert there.to_bytes() == here.to_bytes()


@pytest.mark.campaign
@pytest.mark.exact
def test_a_million_reports_give_the_same_table(tmp_path: Path, spark: Any) -> None:
    stored(tmp_path, SKETCH, ("a", "b", "c", "d"), 1_000_000)
    both(tmp_path, SKETCH)


@pytest.mark.slow
@pytest.mark.exact
@sampling_each_kind
def test_every_mechanism_gives_the_same_table(tmp_path: Path, spark: Any, example: Any) -> None:
    joint = isinstance(example.mechanism, JointReport)
    is_text = not joint and not isinstance(example.values[0], frozenset | tuple)
    values = tuple(map(str, example.values[:2])) if is_text else example.values[:2]
    stored(tmp_path, example.mechanism, values, 800)
    both(tmp_path, example.mechanism)


@pytest.mark.slow
@pytest.mark.exact
def test_spark_sql_counts_and_estimates_what_one_machine_does(tmp_path: Path, spark: Any) -> None:
    """One table holds an example of each mechanism with estimates, signs, and bits of several rows.

    One category has signs that a text of Spark SQL reads in another way.
    """
    odd = "it's ${x} a\\b \"q\" 'é😀\n2"
    named = RandomizedResponse(categories=("a", odd), epsilon=1.0)
    examples = {
        mechanism.name: (mechanism, values)
        for mechanism, values in COUNTABLE
        if has_estimates(mechanism) or mechanism.kind.is_signed or mechanism.name == "rappor"
    }
    examples["odd"] = named, ("a", odd)
    reports = list[tuple[bytearray]]()
    for name, (mechanism, values) in examples.items():
        write(tmp_path / name, mechanism, values)
        reports += [(bytearray(one),) for one in stored_reports(tmp_path / name, mechanism)]
    frame = spark.createDataFrame(reports, "report binary").coalesce(1).cache()
    frame.createOrReplaceTempView("reports")
    for name, (mechanism, _) in examples.items():
        table = aggregate([tmp_path / name], "m", 1, mechanism)
        assert isinstance(table, Table)
        require_query(
            *("spark", mechanism, table, tmp_path),
            lambda query: [tuple(row) for row in spark.sql(query.strip().rstrip(";")).collect()],
        )


@pytest.mark.exact
@pytest.mark.parametrize("piece_bytes", [1000, 1 << 20])
def test_a_table_travels_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    from ldp.collection import spark

    monkeypatch.setattr(spark, "PIECE_BYTES", piece_bytes)
    stored(tmp_path, SKETCH, ("a",), 80)
    files = [(day, str(path)) for day, path in report_files([tmp_path], "m", 1)]
    days, paths = zip(*files, strict=True)
    task = pa.RecordBatch.from_pydict({"day": days, "path": paths})
    batches = list(spark.count_files_on_spark(SKETCH.parameters(), False, iter([task])))
    pieces = [batch.column("piece")[0].as_py() for batch in batches]
    is_last = [batch.column("is_last")[0].as_py() for batch in batches]
    assert max(map(len, pieces)) <= piece_bytes
    assert is_last == [False] * (len(pieces) - 1) + [True]
    assert Table.from_bytes(b"".join(pieces)) == aggregate([tmp_path], "m", 1, SKETCH)


@pytest.mark.slow
@pytest.mark.exact
def test_a_damaged_file_is_named(tmp_path: Path, spark: Any) -> None:
    from ldp.collection.spark import aggregate_on_spark

    stored(tmp_path, SKETCH, ("a",), 800)
    path = min(tmp_path.rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ReportError, match=f"{path.name}: damaged"):
        aggregate_on_spark([tmp_path], "m", 1, SKETCH)


@pytest.mark.slow
@pytest.mark.exact
def test_damaged_files_are_left_out_as_on_one_machine(tmp_path: Path, spark: Any) -> None:
    """At first the only file of a day and one of three of another are damaged, then all files."""
    from ldp.collection.spark import aggregate_on_spark

    stored(tmp_path, SKETCH, ("a",), 800)
    files = sorted(tmp_path.rglob("*.parquet"))
    for path in files[1:3]:  # the others of the first day
        path.unlink()
        files.remove(path)
    files[0].write_bytes(files[0].read_bytes()[:-100])
    files[-1].write_bytes(b"")
    for left_out in (2, len(files)):
        here, there = list[ReportError](), list[ReportError]()
        local = aggregate([tmp_path], "m", 1, SKETCH, on_damaged=here.append)
        assert aggregate_on_spark([tmp_path], "m", 1, SKETCH, on_damaged=there.append) == local
        assert len(there) == left_out
        assert [str(error) for error in there] == [str(error) for error in here]
        for path in files:
            path.write_bytes(b"PAR1")


@pytest.mark.slow
@pytest.mark.exact
def test_the_command_counts_on_spark(tmp_path: Path, spark: Any) -> None:
    (tmp_path / "metrics.toml").write_text(
        '[product]\nname = "p"\n[group.g]\nwindow = "1d"\nwindow_epsilon = 4.0\n'
        'lifetime_epsilon = 64.0\n[metric.m]\nversion = 1\ngroup = "g"\ndescription = "d"\n'
        'owners = ["a@example.org"]\nexpires = 2999-12-31\nmechanism = "cms"\nepsilon = 4.0\n'
        'rows = 1024\nwidth = 1024\nseed = "00"\n'
    )
    stored(tmp_path / "store", SKETCH, ("a",), 800)
    made = []
    for engine in ("local", "spark"):
        out = tmp_path / f"{engine}.table"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "ldp", "aggregate", "m", str(tmp_path / "store")),
                *("--registry", str(tmp_path / "metrics.toml"), "--out", str(out)),
                *("--engine", engine, "--since", "2026-01-02", "--skip-damaged"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        made.append(out.read_bytes())
    assert made[0] == made[1]


@pytest.mark.slow
@pytest.mark.exact
def test_a_task_that_fails_is_one_line(tmp_path: Path, spark: Any) -> None:
    """Without its package on the workers it was an internal error."""
    city = registry(tmp_path).metric("city").mechanism
    with ReportWriter(tmp_path / "s", "city", 3, city, date(2026, 1, 1)) as writer:
        writer.add_all([city.encoder().encode("Oslo")])
    words = ["aggregate", "city", "s", "--engine", "spark", "--out", "t"]
    done = subprocess.run(
        [sys.executable, "-m", "ldp", *words, "--registry", "metrics.toml"],
        env={**os.environ, "PYSPARK_PYTHON": "/no/such/python"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    *_, line = done.stderr.splitlines()
    assert "ldp: a task of Spark failed: org.apache.spark.SparkException: " in line
    assert line.endswith('Cannot run program "/no/such/python": error=2, No such file or directory')


@pytest.mark.exact
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("An error occurred.\n: java.io.IOException: no\n\tat java\n", "java.io.IOException: no"),
        ("From the worker:\nTraceback:\n  File\nldp.Missing: x\n SQLSTATE: 3", "ldp.Missing: x"),
        ("", ""),
    ],
)
def test_the_reason_in_an_error_of_spark(text: str, reason: str) -> None:
    assert _reason(text) == reason
