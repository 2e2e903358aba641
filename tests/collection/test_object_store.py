"""Stores at a URL count, publish and collect as a folder does.

Objects appear whole or not at all, and no key is in a URL or a message.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldp.collection import ReportWriter, aggregate, report_files, spark
from ldp.collection.aggregate import count_files
from ldp.collection.collector import Collector
from ldp.collection.ingest import MARK, retire
from ldp.collection.object_store import S3Path, StoreUnusable, store_path
from ldp.collection.store import NoReports
from ldp.collection.workers import Shuffling
from ldp.errors import ParameterError, ReportError
from ldp.mechanisms import RandomizedResponse
from ldp.tables.table import Table
from simulations.publish import START
from tests.buckets import BUCKET, SECRET, listed, serving_bucket, stalling
from tests.collecting import Process, Service, batch, items, registry, same_counts, summed
from tests.publications import World, rows, run

MECHANISM = RandomizedResponse(epsilon=2.0, categories=("a", "b", "c"))
DAYS = [date(2026, 1, day) for day in (5, 6, 8)]


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch, serving_bucket(patch) as address:
        yield address


def stored(store: str | Path, day: date, reports: int = 50, part: str = "a") -> ReportWriter:
    """Write a file of `reports` reports of the first column."""
    with ReportWriter(store, "letters", 1, MECHANISM, day, part) as writer:
        writer.write(np.zeros(reports, np.uint32), np.zeros((reports, 1), np.uint8))
    return writer


@pytest.mark.exact
def test_a_bucket_is_counted_as_a_folder_is(bucket: str, tmp_path: Path) -> None:
    places = (f"s3://{BUCKET}/counted", str(tmp_path), f"file://{tmp_path}")
    for place in places[:2]:
        for day in DAYS:
            stored(place, day)
    assert listed(bucket, "counted") == [
        f"counted/metric=letters/version=1/day={day}/a.parquet" for day in DAYS
    ]
    tables = [aggregate([place], "letters", 1, MECHANISM, since=DAYS[1]) for place in places]
    assert tables[0] == tables[1] == tables[2]
    assert tables[0].total == 100
    twice = aggregate([places[0], f"{places[0]}/"], "letters", 1, MECHANISM)
    assert twice.total == 150  # one store, named twice
    names = [str(path) for _, path in report_files(places[:1], "letters", 1, until=DAYS[0])]
    assert names == [f"{places[0]}/metric=letters/version=1/day=2026-01-05/a.parquet"]
    known = "of version 1 there are 3 days, 2026-01-05 to 2026-01-08"
    with pytest.raises(NoReports, match=f"in s3://{BUCKET}/counted in these days; {known}"):
        report_files(places[:1], "letters", 1, since=date(2026, 2, 1))
    for nowhere in (f"s3://{BUCKET}/nowhere", "s3://no-such-bucket/counted"):
        with pytest.raises(ReportError, match=f"{nowhere} is not a folder of reports"):
            report_files([nowhere], "letters", 1)


@pytest.mark.exact
def test_one_failed_request_of_a_bucket_does_not_end_a_count(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, system, failures = f"s3://{BUCKET}/cut", S3Path._system, [OSError("404")]
    stored(place, DAYS[0])

    class Failing:
        def __init__(self, path: S3Path) -> None:
            self.bucket = system.fget(path)  # type: ignore[attr-defined]

        def __getattr__(self, name: str) -> Any:
            return getattr(self.bucket, name)

        def open_input_file(self, key: str) -> Any:
            if failures:
                raise failures.pop()
            return self.bucket.open_input_file(key)

    monkeypatch.setattr(S3Path, "_system", property(Failing))
    assert aggregate([place], "letters", 1, MECHANISM).total == 50
    assert not failures


@pytest.mark.exact
def test_a_worker_of_spark_reads_objects_by_their_urls(bucket: str) -> None:
    path = str(stored(f"s3://{BUCKET}/spark", DAYS[0]).path)
    batch = pa.RecordBatch.from_pylist([{"day": str(DAYS[0]), "path": path}])
    (counted,) = spark.count_files_on_spark(MECHANISM.parameters(), False, iter([batch]))
    table = Table.from_bytes(counted.to_pylist()[0]["piece"])
    assert table == aggregate([f"s3://{BUCKET}/spark"], "letters", 1, MECHANISM)


@pytest.mark.exact
def test_a_damaged_object_is_named_and_an_unreachable_bucket_is_not_skipped(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"s3://{BUCKET}/damaged"
    path = stored(place, DAYS[0]).path
    stored(place, DAYS[1])
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ReportError, match=r"day=2026-01-05/a\.parquet: damaged"):
        aggregate([place], "letters", 1, MECHANISM)
    skipped: list[str] = []
    options: Any = {"on_damaged": lambda error: skipped.append(str(error))}
    assert aggregate([place], "letters", 1, MECHANISM, **options).total == 50
    assert len(skipped) == 1
    files = report_files([place], "letters", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StoreUnusable, match=f"s3://{BUCKET}/damaged") as caught:
        count_files(files, MECHANISM, **options)
    assert SECRET not in str(caught.value)
    assert len(skipped) == 1


@pytest.mark.exact
def test_publish_and_aggregate_read_a_bucket(bucket: str, world: World) -> None:
    place = f"s3://{BUCKET}/published"
    for day in range(2):
        world.write("theme", day)
    registry_path, until = world.top / "metrics.toml", START + timedelta(days=3)
    options = ("--registry", registry_path, "--until", until)

    def publish(store: object, out: str) -> str:
        done = run("publish", "--store", store, "--out", world.top / out, *options)
        assert done.exit_code == 0, done.output
        return str(done.output).replace(out, "")

    def upload() -> None:
        for path in world.store.rglob("*.parquet"):
            name = path.relative_to(world.store).as_posix()
            S3Path(f"{BUCKET}/published/{name}").write_bytes(path.read_bytes())

    upload()
    assert publish(place, "remote") == publish(world.store, "local")
    world.write("theme", 1, "late")
    upload()
    assert "counted again, 800 reports" in publish(place, "remote")
    publish(world.store, "local")
    assert publish(place, "remote").startswith("0 days counted")
    assert rows(world.top / "remote") == rows(world.top / "local")
    table = world.top / "theme.table"
    done = run("aggregate", "theme", place, "--registry", registry_path, "--out", table)
    assert done.output.startswith("1,200 reports of 'theme'"), done.output
    done = run("aggregate", "battery", place, "--registry", registry_path, "--out", table)
    assert isinstance(done.exception, NoReports)
    place = "s3://no-such-bucket/x"
    done = run("publish", "--store", place, "--out", world.top / "remote", *options)
    assert "is not a folder of reports" in str(done.exception)  # it counted 0 days


class BucketService(Service):
    """Collector whose store is a prefix of the bucket, named as the test's folder."""

    def build(self, **settings: Any) -> Collector:
        place = f"s3://{BUCKET}/{self.store.parent.name}"
        return Collector(
            self.registry, place, self.buffer, shuffling=Shuffling(smallest=1), **settings
        )


@pytest.mark.exact
def test_a_collector_writes_whole_objects_and_keeps_what_it_cannot_move(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, place = registry(tmp_path), f"s3://{BUCKET}/{tmp_path.name}"
    bodies = [batch(items(asked, "city", "Oslo", 30)) for _ in range(3)]
    with BucketService(tmp_path) as service:
        for body in bodies:
            assert service.send(body).status == 202
        with monkeypatch.context() as patch:
            patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
            with pytest.raises(OSError, match="cannot be moved to the store"):
                service.collector.move_everything()
            health = service.ask("GET", "/v1/health")
            assert (health.status, SECRET in health.body.decode()) == (503, False)
            monkeypatch.setattr("ldp.collection.workers.RETRY_SECONDS", 0.0)
        service.collector._ingestor._next_try.clear()
        service.collector.move_everything()
        assert service.ask("GET", "/v1/health").status == 200
    mark, name = listed(bucket, tmp_path.name)
    assert mark.endswith(f"/{MARK}")
    assert name.startswith(f"{tmp_path.name}/metric=city/version=3/day=2026-11-21/")
    table: Any = aggregate([place], "city", 3, asked.metric("city").mechanism)
    assert same_counts(table, summed(asked, bodies, "city"))
    assert not (tmp_path / "reports").exists()


@pytest.mark.exact
def test_old_objects_are_deleted_with_the_marks_of_their_days(bucket: str) -> None:
    place = f"s3://{BUCKET}/retired"
    for day in DAYS:
        stored(place, day)
        stored(f"{place}/set-aside", day)
    store = store_path(place)
    assert retire(store, DAYS[2]) == 4
    assert listed(bucket, "retired") == [
        f"retired/{folder}metric=letters/version=1/day=2026-01-08/a.parquet"
        for folder in ("", "set-aside/")
    ]
    assert [path.name for path in store.glob("metric=*/version=*/day=*")] == ["day=2026-01-08"]


WRITE = """
import sys
from datetime import date
import numpy as np
from ldp.collection import ReportWriter
from ldp.mechanisms import RandomizedResponse
from ldp.tables.table import Table
mechanism = RandomizedResponse(epsilon=2.0, categories=("a", "b", "c"))
with ReportWriter(sys.argv[1], "letters", 1, mechanism, date(2026, 1, 5), "a") as writer:
    noise = np.random.default_rng(1).integers(0, 2**32, 6_000_000, dtype=np.uint32)
    writer.write(noise, np.zeros((len(noise), 1), np.uint8))
"""


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize("after", [200_000, 14_000_000], ids=["first part", "second part"])
def test_a_kill_in_the_middle_of_a_write_leaves_no_object(
    bucket: str, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes of an object of two parts stop, and the process is killed; a new run makes it
    whole."""
    place = f"s3://{BUCKET}/killed-{after}"
    command = [sys.executable, "-c", WRITE, place]
    with stalling(bucket, after) as (address, is_stalled), monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", address)
        with subprocess.Popen(command) as process:
            assert is_stalled.wait(30)
            process.kill()
    assert listed(bucket, f"killed-{after}") == []
    if after < 1e6:
        subprocess.run(command, check=True)
        ((_, path),) = report_files([place], "letters", 1)
        file = pq.ParquetFile(pa.BufferReader(path.read_bytes()))
        assert file.metadata.num_rows == 6_000_000


@pytest.mark.exact
def test_a_block_that_fails_leaves_no_object(bucket: str) -> None:
    writer = ReportWriter(f"s3://{BUCKET}/failed", "letters", 1, MECHANISM, DAYS[0], "a")
    with suppress(RuntimeError), writer:
        writer.write(np.zeros(9, np.uint32), np.zeros((9, 1), np.uint8))
        raise RuntimeError
    assert listed(bucket, "failed") == []


@pytest.mark.exact
@pytest.mark.parametrize(
    "url",
    [
        "gs://bucket/prefix",
        "http://example.org/store",
        "S3://bucket/prefix",
        "s3://",
        f"s3://key:{SECRET}@bucket/prefix",
        f"s3://bucket/prefix?secret_key={SECRET}",
        "s3://bucket/../other",
        "file://server/share",
    ],
)
def test_other_urls_are_refused_and_not_repeated(url: str, here: Path) -> None:
    with pytest.raises(ParameterError, match="a store is a folder, file:///PATH or s3://") as got:
        store_path(url)
    assert SECRET not in str(got.value)
    commands = (
        ("publish", "--registry", "metrics.toml", "--store", url, "--out", "out"),
        ("aggregate", "city", url, "--registry", "metrics.toml", "--out", "city.table"),
        ("collect", "--registry", "metrics.toml", "--store", url),
    )
    before = sorted(here.iterdir())
    for command in commands:
        done = run(*command)
        assert done.exit_code != 0
        assert "s3://BUCKET/PREFIX" in done.output, command
        assert SECRET not in done.output
    assert sorted(here.iterdir()) == before


@pytest.mark.exact
def test_a_store_in_a_bucket_needs_a_buffer_of_this_machine(tmp_path: Path) -> None:
    process = Process(tmp_path, "--store", f"s3://{BUCKET}/x", command=("collect",))
    assert process.ended() == 2
    assert "goes with --buffer FOLDER" in (tmp_path / "log").read_text()


@pytest.mark.exact
def test_collect_into_a_bucket(bucket: str, tmp_path: Path) -> None:
    asked = registry(tmp_path)
    with Service(tmp_path) as service:
        service.send(batch(items(asked, "city", "Oslo", 30)))
    words = ("--buffer", str(tmp_path / "buffer"), "--drain", "--write-small", "--store")
    gone = Process(tmp_path, *words, "s3://no-such-bucket/x", command=("collect",))
    assert gone.ended() == 2
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == len({*lines})  # each was printed twice
    assert "NO_SUCH_BUCKET" in lines[0]
    place = f"s3://{BUCKET}/drained"
    assert Process(tmp_path, *words, place, command=("collect",)).ended() == 0
    assert aggregate([place], "city", 3, asked.metric("city").mechanism).total == 30
