"""The collector's buffer: its transactions, its formats, its damage, and who may read it."""

import hashlib
import shutil
import sqlite3
import time
from contextlib import closing
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from ldp.collection.acknowledged import BatchFile, BufferUnusable, PendingBatch
from ldp.collection.buffer import Buffer
from ldp.collection.collector import Collector
from ldp.collection.intake import collected_metrics, sort_batch
from ldp.collection.relay_buffer import RelayBuffer
from ldp.protocol.batch import Batch, Item
from ldp.protocol.wire import HEADER_BYTES
from tests.collecting import (
    TODAY,
    WEEK,
    Service,
    batch,
    counted,
    filled,
    items,
    mixed,
    registry,
    same_counts,
    summed,
    wait_until,
    waiting,
)


@pytest.mark.exact
def test_moving_a_metric_does_not_read_the_reports_of_others(tmp_path: Path) -> None:
    """Every statement finds its rows by an index, whose pages hold no reports."""
    filled(tmp_path, 2)
    buffer, statements = Buffer(tmp_path / "buffer"), list[str]()
    buffer._sqlite.set_trace_callback(statements.append)
    ((number, _),) = buffer.report_counts().items()
    plan = buffer.decide(number, TODAY, 1 << 20)
    assert plan is not None
    assert buffer.bodies(number, plan)[0]
    assert not buffer.forget(number, plan)
    buffer._sqlite.set_trace_callback(None)
    on_lots = [text for text in statements if "lots" in text]
    assert len(on_lots) == 5
    for text in on_lots:
        for *_, how in buffer._rows(f"EXPLAIN QUERY PLAN {text}"):
            assert "INDEX lots_by_metric" in how
    buffer.close()


@pytest.mark.exact
def test_a_program_that_reads_the_buffer_for_long_keeps_no_sender_waiting(tmp_path: Path) -> None:
    """A backup, or a shell of SQLite, reads it; the log is emptied when that ends."""
    log = tmp_path / "buffer" / "buffer.db-wal"
    with Service(tmp_path) as service:
        body = batch(items(service.registry, "word", "hello", 20))
        assert service.send(body).status == 202
        with closing(sqlite3.connect(tmp_path / "buffer" / "buffer.db")) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM state").fetchone()
            began = time.monotonic()
            service.collector.move_everything()
            body = batch(items(service.registry, "word", "hello", 20))
            assert service.send(body).status == 202
            assert time.monotonic() - began < 30
            assert log.stat().st_size > 0
            assert service.collector._buffer.must_erase
        wait_until(lambda: not service.collector._buffer.must_erase)


@pytest.mark.exact
def test_a_buffer_that_was_shared_is_refused_and_keeps_its_reports(tmp_path: Path) -> None:
    """Other collectors may own its reports, so moving them at once could count them twice."""
    filled(tmp_path, 1)
    with closing(sqlite3.connect(tmp_path / "buffer" / "buffer.db")) as connection, connection:
        connection.execute("INSERT INTO state VALUES ('owner', '5f0c')")
        connection.execute("UPDATE lots SET batch = x'01'")
    before = (tmp_path / "buffer" / "buffer.db").read_bytes()
    with pytest.raises(BufferUnusable, match=r"written with --shared: docs/operating\.md says"):
        Collector(registry(tmp_path), tmp_path / "reports", tmp_path / "buffer")
    assert (tmp_path / "buffer" / "buffer.db").read_bytes() == before
    assert waiting(tmp_path / "buffer") == 20


@pytest.mark.exact
@pytest.mark.parametrize("kind", [Buffer, RelayBuffer])
def test_a_buffer_that_another_process_makes_meanwhile_is_opened(
    kind: type[BatchFile], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_empty = BatchFile._is_empty

    def is_empty_until_now(file: BatchFile) -> bool:
        answer = is_empty(file)
        monkeypatch.setattr(BatchFile, "_is_empty", is_empty)
        kind(tmp_path).close()
        return answer

    monkeypatch.setattr(BatchFile, "_is_empty", is_empty_until_now)
    kind(tmp_path).close()


@pytest.mark.exact
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("CREATE TABLE notes (text TEXT)", "is not the buffer of a collector"),
        ("PRAGMA user_version = 7", "is not the buffer of a collector"),
        ("PRAGMA application_id = 7", "is not the buffer of a collector"),
        (
            f"PRAGMA application_id = {Buffer.form.application}; PRAGMA user_version = 7",
            "a newer version",
        ),
        (
            f"PRAGMA application_id = {Buffer.form.application}; PRAGMA user_version = 4",
            "an earlier version of ldp: drain it there",
        ),
        (None, "not a database"),
    ],
)
def test_a_file_that_is_no_buffer_is_left_alone(
    tmp_path: Path, script: str | None, message: str
) -> None:
    path = tmp_path / "buffer.db"
    if script is None:
        path.write_bytes(b"Dear diary, " * 500)
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(script)
    before = path.read_bytes()
    with pytest.raises(BufferUnusable, match=message):
        Buffer(tmp_path)
    assert path.read_bytes() == before


@pytest.mark.exact
def test_damaged_reports_in_the_buffer_are_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If one bit differs, its row is left out and counted as damaged; the others are stored."""
    asked = registry(tmp_path)
    bodies = filled(tmp_path, 3)  # a row of each
    path = tmp_path / "buffer" / "buffer.db"
    whole, random = path.read_bytes(), np.random.default_rng(1)
    report = Batch.from_bytes(bodies[1]).items[7].report[HEADER_BYTES:]
    at = whole.index(report)
    expected = summed(asked, [bodies[0], bodies[2]], "word")
    for bit in random.choice(8 * len(report), 12, replace=False):
        damaged = bytearray(whole)
        damaged[at + bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(damaged)
        path.with_name("buffer.db-commits").unlink()  # the copy is older than the last commits
        shutil.rmtree(tmp_path / "reports", ignore_errors=True)
        with Service(tmp_path) as service:
            service.collector.move_everything()
            assert same_counts(counted(service.store, asked, "word"), expected)
            text = service.ask("GET", "/v1/metrics").body.decode()
        assert 'ldp_reports_damaged_total{metric="word"} 20' in text
    assert "20 reports of word are damaged in the buffer" in caplog.text


@pytest.mark.exact
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE metrics SET mechanism = cast(x'fffe' AS TEXT)",
        "UPDATE metrics SET mechanism = '[[['",
        "UPDATE metrics SET mechanism = replace(mechanism, '{', '{\"mechanism\": \"rr\", ')",
        'UPDATE metrics SET mechanism = \'{"mechanism": "cms", "rows": -1}\'',
        "UPDATE metrics SET metric = cast(x'ff' AS TEXT) WHERE number = 1",
        "UPDATE metrics SET version = 'x'",
        "UPDATE lots SET metric = 77",
        "INSERT INTO state VALUES ('watermark', 'x')",
        "INSERT INTO state VALUES ('day', x'00')",
        "INSERT INTO state VALUES ('risen', '2026-01-01')",
        "INSERT INTO plans VALUES (1, 1, 1, 'x', 0, 'ab')",
    ],
)
def test_a_buffer_with_a_damaged_cell_is_one_line(tmp_path: Path, statement: str) -> None:
    filled(tmp_path, 1)
    with closing(sqlite3.connect(tmp_path / "buffer" / "buffer.db")) as connection:
        connection.execute(statement)
        connection.commit()
    with pytest.raises(BufferUnusable) as error, Service(tmp_path) as service:
        service.collector.move_everything()
    assert str(tmp_path / "buffer" / "buffer.db") in str(error.value)
    assert str(error.value).isprintable()


@pytest.mark.exact
def test_others_cannot_read_the_buffer(tmp_path: Path) -> None:
    """Here the folder existed with mode 755, or an earlier version made the files."""
    place = tmp_path / "buffer"
    place.mkdir(mode=0o755)
    for _ in range(2):
        with Service(tmp_path) as service:
            service.send(batch(items(registry(tmp_path), "city", "Oslo", 1)))
            files = [path for path in place.iterdir() if path.name.startswith("buffer.db")]
            assert len(files) == 4
            assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
        for path in place.iterdir():
            path.chmod(0o644)


@pytest.mark.exact
def test_a_failed_commit_stores_nothing_and_says_so(tmp_path: Path) -> None:
    asked = registry(tmp_path)
    known = collected_metrics(asked)
    buffer = Buffer(tmp_path)
    buffer.expect(known)
    arrived = [
        PendingBatch(sort_batch(batch(items(asked, name, value, 1)), known, TODAY), name.encode())
        for name, value in (("city", "Oslo"), ("word", "hello"))
    ]
    with closing(sqlite3.connect(tmp_path / "buffer.db", isolation_level=None)) as other:
        other.execute(
            "CREATE TRIGGER full BEFORE INSERT ON lots WHEN (SELECT count(*) FROM lots) > 0 "
            "BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
        with pytest.raises(BufferUnusable, match="full"):
            buffer.commit(arrived, TODAY)
        other.execute("DROP TRIGGER full")
    assert buffer.report_counts() == {}
    assert all(answer.is_new for answer in buffer.commit(arrived, TODAY))
    buffer.close()


@pytest.mark.exact
@pytest.mark.parametrize("row_bytes", [1, 40, 1 << 18])
def test_batches_of_one_commit_share_rows_and_keep_their_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row_bytes: int
) -> None:
    """A row of the buffer may have few bytes, and a retry and a conflict are among the batches."""
    monkeypatch.setattr("ldp.collection.buffer.ROW_BYTES", row_bytes)
    asked = registry(tmp_path)
    known, buffer = collected_metrics(asked), Buffer(tmp_path)
    buffer.expect(known)
    bodies = [batch(mixed(tmp_path)) for _ in range(6)]
    arrived = [
        PendingBatch(sort_batch(body, known, TODAY), bytes([n])) for n, body in enumerate(bodies)
    ]
    conflict = PendingBatch(arrived[0].batch, b"other")
    answers = buffer.commit([*arrived, arrived[2], conflict], TODAY)
    assert [answer.is_new for answer in answers] == [True] * 6 + [False] * 2
    assert [answer.status for answer in answers] == [202] * 7 + [409]
    assert sum(buffer.report_counts().values()) == 30
    (word,) = [one for one in buffer.metrics() if one.metric == "word"]
    plan = buffer.decide(word.number, TODAY, 1 << 20)
    assert plan is not None
    rows = buffer.bodies(word.number, plan)[0]
    mine = [lot.bodies for one in arrived for lot in one.batch.lots if lot.metric == "word"]
    assert b"".join(rows) == b"".join(mine)
    assert len(rows) == (1 if row_bytes == 1 << 18 else 6)
    buffer.close()


def _commit_as_before(folder: Path, body: bytes) -> None:
    """Commit a batch as a version did that stored ids as they are."""
    asked = registry(folder)
    buffer, known = Buffer(folder / "buffer"), collected_metrics(asked)
    buffer.expect(known)
    digest = hashlib.blake2b(body, digest_size=16).digest()
    buffer.begin(TODAY, WEEK, 0)
    buffer.commit([PendingBatch(sort_batch(body, known, TODAY), digest)], TODAY)
    with buffer._transaction():
        buffer._sqlite.execute("PRAGMA user_version = 5")
    buffer.close()


def _guessed(folder: Path, reports: set[bytes]) -> list[tuple[bytes, ...]]:
    """Return the contents of batches that whoever reads the disk finds by trying all pairs."""
    with closing(sqlite3.connect(folder / "buffer" / "buffer.db")) as disk:
        rows = disk.execute(f"SELECT id, digest FROM ids_{TODAY:%Y%m%d}").fetchall()
    return [
        pair
        for identity, digest in rows
        for pair in product(reports, repeat=2)
        for body in [batch([Item("city", 3, one) for one in pair], identity=identity)]
        if hashlib.blake2b(body, digest_size=16).digest() == digest
    ]


@pytest.mark.exact
def test_nobody_who_reads_the_disk_can_try_what_a_batch_had(tmp_path: Path) -> None:
    """Two answers to one of three have nine contents. In the twin the id is on the disk."""
    asked = registry(tmp_path)
    mine = items(asked, "city", "Oslo", 2)
    reports = {one.report for one in [*mine, *items(asked, "city", "Hell", 2)]}
    with Service(tmp_path) as service:
        service.send(batch(mine))
        service.collector.move_everything()
    assert _guessed(tmp_path, reports) == []
    registry(tmp_path / "twin")
    _commit_as_before(tmp_path / "twin", batch(mine))
    assert _guessed(tmp_path / "twin", reports) == [tuple(one.report for one in mine)]


@pytest.mark.exact
def test_ids_of_an_earlier_version_are_hidden_and_still_known(tmp_path: Path) -> None:
    asked = registry(tmp_path)
    mine = items(asked, "city", "Oslo", 2)
    body = batch(mine)
    _commit_as_before(tmp_path, body)
    for _ in range(2):
        with Service(tmp_path) as service:
            assert service.send(body).status == 202
            assert service.send(batch(mine, identity=Batch.from_bytes(body).id[::-1])).status == 202
            conflict = batch(mine[:1], identity=Batch.from_bytes(body).id)
            assert service.send(conflict).status == 409
            service.collector.move_everything()
    assert counted(tmp_path / "reports", asked, "city").total == 4
    assert _guessed(tmp_path, {one.report for one in mine}) == []
