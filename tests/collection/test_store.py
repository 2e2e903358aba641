"""The report store writes whole files, aggregation counts exactly, and damage is named."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldp import CountMeanSketch, HadamardCountMeanSketch, JointReport, RandomizedResponse
from ldp.collection import ReportWriter, aggregate, report_files
from ldp.errors import DecodeError, MergeError, ParameterError, ReportError
from ldp.files import write_whole
from ldp.protocol import wire
from ldp.server import Table, TableBuilder
from ldp.simulation import Population, draw_reports, encode_points, points_of
from ldp.tables.batches import batches

MECHANISM = CountMeanSketch(epsilon=4.0, rows=300, width=40, seed="abcd")
DAY = date(2026, 1, 5)
PEOPLE = Population(("a", "b", "c"), counts=np.array([3000, 2000, 150]))


def stored(store: Path, seed: int, day: date = DAY) -> Path:
    """Write one file of 5,150 simulated reports."""
    generator = np.random.default_rng(seed)
    with ReportWriter(store, "letters", 1, MECHANISM, day) as writer:
        for batch in draw_reports(MECHANISM, PEOPLE, generator):
            writer.write(*batch)
    return Path(writer.path)


def counted(*stores: Path, **options: object) -> Table:
    table = aggregate(stores, "letters", 1, MECHANISM, **options)  # type: ignore[arg-type]
    assert isinstance(table, Table)
    return table


@pytest.mark.exact
def test_the_layout_is_the_documented_one_and_holds_nothing_else(tmp_path: Path) -> None:
    path = stored(tmp_path, 1)
    assert path.parent == tmp_path / "metric=letters" / "version=1" / "day=2026-01-05"
    # no finer time than the day
    assert datetime.fromtimestamp(path.stat().st_mtime, UTC) == datetime(2026, 1, 5, tzinfo=UTC)
    file = pq.read_table(path, partitioning=None)
    assert file.column_names == ["row", "payload"]
    assert file.num_rows == 5150
    assert (file.schema.metadata or {})[b"ldp.fingerprint"].decode() == MECHANISM.fingerprint.hex()


@pytest.mark.exact
def test_files_and_days_add_and_workers_change_nothing(tmp_path: Path) -> None:
    first = stored(tmp_path, 1)
    alone = counted(tmp_path)
    stored(tmp_path, 2, date(2026, 1, 6))
    both = counted(tmp_path)
    assert both.total == 10_300
    assert both.windows == ("2026-01-05", "2026-01-06")
    assert counted(tmp_path, since=date(2026, 1, 6)) + alone == both
    assert counted(tmp_path, workers=3) == both
    assert counted(tmp_path, tmp_path) == both, "a store named twice counts once"
    first.unlink()
    assert counted(tmp_path).total == 5150


@pytest.mark.exact
def test_replacing_a_thousand_reports_changes_the_table_by_exactly_those(tmp_path: Path) -> None:
    path = stored(tmp_path, 1)
    before = counted(tmp_path)
    rows, payloads = (
        pq.read_table(path, partitioning=None).column(name).to_pylist()
        for name in ("row", "payload")
    )
    rows = np.array(rows, dtype=np.uint32)
    bodies = np.frombuffer(b"".join(payloads), dtype=np.uint8).reshape(len(rows), -1)
    fresh = encode_points(
        MECHANISM,
        [np.repeat(part, 1000) for part in points_of(MECHANISM, ["c"])],
        np.random.default_rng(3),
    )
    replaced = np.arange(1000) * 5
    change = []
    for batch in ((rows[replaced], bodies[replaced]), fresh):
        builder = TableBuilder(MECHANISM)
        builder.add_batch(*batch)
        change.append(builder.build().counts.astype(int))
    rows, bodies = rows.copy(), bodies.copy()
    rows[replaced], bodies[replaced] = fresh
    path.unlink()
    with ReportWriter(tmp_path, "letters", 1, MECHANISM, DAY) as writer:
        writer.write(rows, bodies)
    difference = counted(tmp_path).counts.astype(int) - before.counts
    assert (difference == change[1] - change[0]).all()
    assert difference.any()


@pytest.mark.exact
def test_reports_that_somebody_has_are_stored_shuffled(tmp_path: Path) -> None:
    """These are reports of one column and of a joint mechanism; an invalid one leaves no file."""
    cities = RandomizedResponse(categories=("a", "b", "c"), epsilon=2.0)
    cases: list[tuple[Any, Any]] = [
        (MECHANISM, "a"),
        (cities, "b"),
        (JointReport(of=(cities, cities)), ("a", "b")),
    ]
    for mechanism, value in cases:
        encoder = mechanism.encoder()
        reports = [encoder.encode(value) for _ in range(500)]
        name = mechanism.name
        with ReportWriter(tmp_path, name, 1, mechanism, DAY) as writer:
            writer.add_all(pa.array(reports))
        tables = aggregate([tmp_path], name, 1, mechanism), Table.from_reports(mechanism, reports)
        counts = [
            [part.counts.tolist() for part in getattr(table, "tables", [table])] for table in tables
        ]
        assert counts[0] == counts[1]
    with (
        pytest.raises(ReportError, match="at position 2"),
        ReportWriter(tmp_path / "new", "m", 1, MECHANISM, DAY) as writer,
    ):
        writer.add_all([*[MECHANISM.encoder().encode("a")] * 2, b"other"])
    assert not writer.path.exists()


@pytest.mark.exact
def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    writer = ReportWriter(tmp_path, "letters", 1, MECHANISM, DAY)

    def interrupted() -> None:
        with writer:
            writer.write(np.zeros(1, np.uint32), np.zeros((1, 5), np.uint8))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.exact
@pytest.mark.parametrize("damage", ["truncated", "foreign", "empty", "column"])
def test_a_damaged_file_is_named_and_can_be_skipped_whole(tmp_path: Path, damage: str) -> None:
    stored(tmp_path, 1)
    good = counted(tmp_path)
    bad = stored(tmp_path, 2)
    data = bad.read_bytes()
    spoiled = {"truncated": data[:-500], "foreign": b"hello", "empty": b""}
    spoiled["column"] = data.replace(b"payload", b"\xff" * 7)  # no name in UTF-8
    bad.write_bytes(spoiled[damage])
    with pytest.raises(ReportError, match=bad.name):
        counted(tmp_path)
    skipped: list[str] = []
    table = counted(tmp_path, on_damaged=lambda error: skipped.append(str(error)))
    assert table == good
    assert len(skipped) == 1
    assert bad.name in skipped[0]


@pytest.mark.exact
def test_reports_damaged_inside_a_whole_file_are_caught(tmp_path: Path) -> None:
    with ReportWriter(tmp_path, "letters", 1, MECHANISM, DAY) as writer:
        writer.write(np.array([300], np.uint32), np.zeros((1, 5), np.uint8))
    with pytest.raises(ReportError, match=r"row outside 0\.\.299"):
        counted(tmp_path)


@pytest.mark.exact
def test_reports_of_another_mechanism_are_refused_by_name(tmp_path: Path) -> None:
    stored(tmp_path, 1)
    other = RandomizedResponse(categories=("a", "b"), epsilon=1.0)
    with pytest.raises(ReportError, match="another mechanism"):
        aggregate([tmp_path], "letters", 1, other)


@pytest.mark.exact
def test_files_of_others_are_named_and_never_no_reports(tmp_path: Path) -> None:
    """Such as a queue's own files, whose folder counted as a store without any reports."""
    other = pa.table({"report": [b"report"], "metric": ["city"], "day": [date(2026, 3, 1)]})
    pq.write_table(other, tmp_path / "queue.parquet")
    with pytest.raises(ReportError, match=r"is not a store of reports; ldp.collection.ReportW"):
        aggregate([tmp_path], "city", 1, MECHANISM)
    folder = tmp_path / "store" / "metric=city" / "version=1" / "day=2026-03-01"
    folder.mkdir(parents=True)
    pq.write_table(other, folder / "queue.parquet")
    with pytest.raises(ReportError, match=r"queue.parquet is not a file of a store; ldp.coll"):
        aggregate([tmp_path / "store"], "city", 1, MECHANISM)


@pytest.mark.exact
def test_an_empty_store_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="no reports"):
        report_files([tmp_path], "letters", 1)
    with pytest.raises(ReportError, match="not a folder"):
        report_files([tmp_path / "nowhere"], "letters", 1)
    with pytest.raises(ReportError, match="stores must be a list of folders"):
        report_files(str(tmp_path), "letters", 1)
    for day in (cast("date", "2026-01-05"), datetime(2026, 1, 5, 9, 30), date(1969, 12, 31)):
        with pytest.raises(ParameterError, match="day must be a date since 1970, not "):
            ReportWriter(tmp_path, "letters", 1, MECHANISM, day)
    for part in ("topic/3", "../part", ".part", "/part", "C:\\part"):
        with pytest.raises(ParameterError, match="part must be a name, no path"):
            ReportWriter(tmp_path, "letters", 1, MECHANISM, DAY, part)
    assert not [*tmp_path.iterdir()]
    other = cast("RandomizedResponse", "rr")  # such as a metric of a registry
    stored(tmp_path, 1)
    for call in (
        lambda: ReportWriter(tmp_path, "letters", 1, other, DAY),
        lambda: aggregate([tmp_path], "letters", 1, other),
    ):
        with pytest.raises(ParameterError, match="'rr' is not a mechanism, such as"):
            call()


def early_share(store: Path, add: Callable[[ReportWriter, list[bytes]], None]) -> float:
    """Return how many of the first half of a file are of the second half that came."""
    mechanism = RandomizedResponse(categories=("a", "b"), epsilon=8.0)
    with ReportWriter(store, "city", 1, mechanism, DAY) as writer:
        for number in (0, 1):
            add(writer, [mechanism.header + bytes([number])] * 40_000)
    payloads = pq.read_table(writer.path, partitioning=None)["payload"].to_pylist()
    return float(payloads[:40_000].count(b"\1") / 40_000)


@pytest.mark.statistical
def test_all_reports_of_a_writer_are_shuffled_together(tmp_path: Path) -> None:
    """A false failure needs a deviation of 7 standard errors: 1e-11. The twin shuffles parts."""

    def add_parts(writer: ReportWriter, reports: list[bytes]) -> None:
        for rows, payloads in batches(writer._mechanism, reports):
            writer.write(rows, payloads)

    assert abs(early_share(tmp_path / "a", ReportWriter.add_all) - 0.5) < 0.0125
    assert early_share(tmp_path / "b", add_parts) < 0.4875


@pytest.mark.exact
def test_a_matrix_may_be_used_again(tmp_path: Path) -> None:
    report = MECHANISM.encoder().encode("a")
    with ReportWriter(tmp_path, "letters", 1, MECHANISM, DAY) as writer:
        writer.add_all(matrix := np.array([[*report]], np.uint8))
        matrix[:] = 0
    counts = Table.from_reports(MECHANISM, [report]).counts
    assert (counted(tmp_path).counts == counts).all()


@pytest.mark.exact
def test_a_writer_whose_end_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    def write() -> None:
        with ReportWriter(tmp_path, "letters", 1, MECHANISM, DAY) as writer:
            writer.add_all([MECHANISM.encoder().encode("a")])

    for name, owner in (("write", ReportWriter), ("close", pq.ParquetWriter)):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fail)
            with pytest.raises(OSError, match="is full"):
                write()
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == [], name


@pytest.mark.exact
def test_a_copy_of_a_file_in_another_store_is_not_counted(tmp_path: Path) -> None:
    path = stored(tmp_path / "store", 1)
    other = stored(tmp_path / "other", 2)
    assert counted(tmp_path / "store", tmp_path / "other").total == 10_300
    copy = Path(shutil.copy(path, other.parent))
    with pytest.raises(ReportError, match=r"is a copy of .*: count one of them"):
        counted(tmp_path / "store", tmp_path / "other")
    # other reports under the name are counted, and so is a link, once
    copy.write_bytes(stored(tmp_path / "third", 3).read_bytes())
    assert counted(tmp_path / "store", tmp_path / "other").total == 15_450
    copy.unlink()
    copy.symlink_to(path)
    assert counted(tmp_path / "store", tmp_path / "other").total == 10_300


@pytest.mark.exact
def test_a_copy_on_another_day_is_not_counted(tmp_path: Path) -> None:
    """Its reports were counted twice, so that intervals were too short."""
    path = stored(tmp_path, 1)
    copy = path.parent.with_name("day=1970-01-01") / path.name
    copy.parent.mkdir()
    shutil.copy(path, copy)
    with pytest.raises(ReportError, match=r"is a copy of .*: count one of them"):
        counted(tmp_path)
    # of other reports under the name, and of names that a person chose, none is a copy
    copy.write_bytes(stored(tmp_path / "other", 2).read_bytes())
    assert counted(tmp_path).total == 10_300
    for file in (path, shutil.copy(path, copy)):
        Path(file).rename(Path(file).with_name("monday.parquet"))
    assert counted(tmp_path).total == 10_300


@pytest.mark.exact
@pytest.mark.parametrize("name", ["{} (copy)", "{}.bak", "Copy of {}", "{}~", "{} - 2"])
def test_a_copy_under_another_name_is_not_counted(name: str, tmp_path: Path) -> None:
    path = stored(tmp_path, 1)
    copy = Path(shutil.copy(path, path.with_name(f"{name.format(path.stem)}.parquet")))
    with pytest.raises(ReportError, match=r"is a copy of .*: count one of them"):
        counted(tmp_path)
    # other reports under the name are counted
    copy.write_bytes(stored(tmp_path / "other", 2).read_bytes())
    assert counted(tmp_path).total == 10_300


@pytest.mark.exact
def test_a_table_grows_its_counts_when_a_row_needs_it(tmp_path: Path) -> None:
    mechanism = RandomizedResponse(categories=("a", "b"), epsilon=8.0)
    people = Population(("a", "b"), counts=np.array([70_000, 0]))
    builder = TableBuilder(mechanism)
    for batch in draw_reports(mechanism, people, np.random.default_rng(1)):
        builder.add_batch(*batch)
    table = builder.build()
    assert table.counts.dtype == np.uint32
    assert table.counts.sum() == 70_000
    table.save(tmp_path / "t.table")
    assert Table.load(tmp_path / "t.table") == table


@pytest.mark.exact
def test_foreign_and_damaged_tables_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "t.table"
    stored(tmp_path, 1)
    counted(tmp_path).save(path)
    data = path.read_bytes()
    for changed in (b"", b"hello", data[:-1], data[:40], data[:99] + b"\0" + data[100:]):
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=r"t\.table"):
            Table.load(path)


@pytest.mark.exact
@pytest.mark.parametrize("description", [{"x": 1}, {"tables": [{}]}, {"tables": []}])
def test_a_table_file_with_a_wrong_description_is_refused(
    tmp_path: Path, description: dict[str, Any]
) -> None:
    for buffers in ([], [b"", b""]):
        (tmp_path / "t.table").write_bytes(wire.pack_table(description, buffers))
        with pytest.raises(DecodeError, match=r"t\.table"):
            Table.load(tmp_path / "t.table")


SIGNS = HadamardCountMeanSketch(epsilon=1.0, rows=1, width=4, seed="00")


@pytest.mark.exact
def test_the_smallest_and_largest_counts_of_signs_are_possible() -> None:
    table = Table(SIGNS, np.array([[-128, 127, 0, 0]], np.int8), np.array([255]))
    assert (Table.from_bytes(table.to_bytes()).counts == table.counts).all()


@pytest.mark.exact
def test_impossible_counts_are_refused() -> None:
    index = RandomizedResponse(categories=("a", "b"), epsilon=1.0)
    reports = np.full(300, 8, np.int64)
    for table in (
        Table(MECHANISM, np.full((300, 40), 9, np.uint8), reports),
        Table(MECHANISM, np.full((300, 40), -1, np.int8), reports),
        Table(index, np.array([[7, 7]], np.uint8), np.array([7])),
        Table(SIGNS, np.array([[-128, 127, 0, 0]], np.int8), np.array([256])),
        Table(SIGNS, np.array([[-128, 127, 0, 0]], np.int8), np.array([254])),
    ):
        with pytest.raises(DecodeError, match="no reports can make"):
            Table.from_bytes(table.to_bytes())
    floats = Table(MECHANISM, np.full((300, 40), np.nan), reports)
    with pytest.raises(DecodeError, match="not integers"):
        Table.from_bytes(floats.to_bytes())
    wrong: Any = (3,)
    numbered = replace(Table.empty(index), windows=wrong).to_bytes()
    with pytest.raises(DecodeError, match="not lists of texts"):
        Table.from_bytes(numbered)


@pytest.mark.exact
def test_tables_that_would_overflow_do_not_add() -> None:
    index = RandomizedResponse(categories=("a", "b"), epsilon=1.0)
    large = Table(index, np.array([[10**18, 0]]), np.array([10**18]))
    with pytest.raises(MergeError, match="at most"):
        large + large


@pytest.mark.exact
def test_a_built_table_takes_no_more_reports_and_no_row_is_negative() -> None:
    builder = TableBuilder(MECHANISM)
    with pytest.raises(ReportError, match="row outside"):
        builder.add_batch(np.array([-1]), np.zeros((1, 5), np.uint8))
    for wrong in (None, "text", 5):
        with pytest.raises(ReportError, match="must be bytes"):
            builder.add(wrong)  # type: ignore[arg-type]
    table = builder.build()
    report = MECHANISM.encoder().encode("a")
    with pytest.raises(ReportError, match="the table is built"):
        builder.add(report)
    assert table.total == 0


@pytest.mark.exact
def test_a_flipped_bit_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    """Of 60 single-bit flips all over a file, none is counted as another report."""
    path = stored(tmp_path, 1)
    good, data = counted(tmp_path), path.read_bytes()
    refused = 0
    for place in np.random.default_rng(1).integers(0, 8 * len(data), size=60).tolist():
        changed = bytearray(data)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            assert counted(tmp_path) == good
        except ReportError:
            refused += 1
    assert refused > 50


@pytest.mark.exact
def test_a_report_without_a_payload_is_refused(tmp_path: Path) -> None:
    path = stored(tmp_path, 1)
    metadata = pq.read_schema(path).metadata
    fields = [("row", pa.uint32()), ("payload", pa.binary(5))]
    rows = pa.table(
        {"row": [1, 2], "payload": [b"12345", None]}, schema=pa.schema(fields, metadata=metadata)
    )
    pq.write_table(rows, path)
    with pytest.raises(ReportError, match="missing its row or payload"):
        counted(tmp_path)


@pytest.mark.exact
def test_a_link_is_followed_and_a_device_or_folder_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    (tmp_path / "real").chmod(0o600)
    write_whole(tmp_path / "link", "newer")
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o600, "nobody else may read it now"
    os.mkfifo(tmp_path / "pipe")
    for place in ("pipe", "."):
        with pytest.raises(ParameterError, match="can be replaced"):
            write_whole(tmp_path / place, "new")
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.exact
def test_simulated_reports_are_each_person_once_in_mixed_order() -> None:
    mechanism = RandomizedResponse(categories=("a", "b", "c"), epsilon=60.0)
    batches = list(draw_reports(mechanism, PEOPLE, np.random.default_rng(1)))
    told = np.concatenate([payloads[:, 0] for _, payloads in batches])
    assert np.bincount(told).tolist() == [3000, 2000, 150]  # at epsilon 60 nobody lies
    assert (told[:1000] == 2).any(), "rare values are not kept for the end"


@pytest.mark.exact
def test_a_pipe_among_the_files_is_not_waited_for(tmp_path: Path) -> None:
    mechanism = RandomizedResponse(categories=("a", "b"), epsilon=1.0)
    with ReportWriter(tmp_path, "letters", 1, mechanism, DAY) as writer:
        writer.write(np.zeros(5, np.uint32), np.zeros((5, 1), np.uint8))
    pipe = writer.path.with_name("pipe.parquet")
    os.mkfifo(pipe)
    with pytest.raises(ReportError, match=r"pipe.parquet is not a file"):
        aggregate([tmp_path], "letters", 1, mechanism)
    skipped = list[ReportError]()
    found = aggregate([tmp_path], "letters", 1, mechanism, on_damaged=skipped.append)
    assert (found.total, len(skipped)) == (5, 1)


@pytest.mark.exact
def test_a_file_with_several_names_is_counted_once(tmp_path: Path) -> None:
    """Names are hard links and symbolic links, in a store and in a copy that is made of links."""
    mechanism = RandomizedResponse(categories=("a", "b"), epsilon=1.0)
    with ReportWriter(tmp_path / "store", "letters", 1, mechanism, DAY) as writer:
        writer.write(np.zeros(5, np.uint32), np.zeros((5, 1), np.uint8))
    writer.path.with_name("hard.parquet").hardlink_to(writer.path)
    writer.path.with_name("soft.parquet").symlink_to(writer.path)
    copy = tmp_path / "copy" / writer.path.relative_to(tmp_path / "store")
    copy.parent.mkdir(parents=True)
    copy.hardlink_to(writer.path)
    stores = [tmp_path / "store", tmp_path / "copy"]
    assert aggregate(stores, "letters", 1, mechanism).total == 5
