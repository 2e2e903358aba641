"""The collector's promises to senders and to the people whose reports it holds."""

import json
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp import CountMeanSketch, SubsetSelection
from ldp.client import Client
from ldp.client import Collector as Destination
from ldp.collection.acknowledged import BufferUnusable, PendingBatch
from ldp.collection.buffer import Buffer
from ldp.collection.intake import SortedBatch, collected_metrics, sort_batch
from ldp.collection.service import SLOW_SECONDS, Limits
from ldp.collection.workers import Shuffling
from ldp.errors import RegistryError, ReportError
from ldp.mechanisms import CATALOGUE, CatalogueMechanism
from ldp.protocol.batch import HEAD_BYTES, MEDIA_TYPE, Batch, Item, read_uniform
from ldp.protocol.wire import HEADER_BYTES
from simulations.collector import Served, crowded, stopped_at_once
from tests.collecting import (
    TODAY,
    Process,
    Service,
    batch,
    counted,
    drain,
    items,
    registry,
    wait_until,
)

WEEK = timedelta(days=7)


def mixed(folder: Path) -> list[Item]:
    asked = registry(folder)
    return [
        *items(asked, "city", "Oslo", 3),
        Item("none", 1, b"x"),
        Item("city", 2, items(asked, "city", "Hell", 1)[0].report),
        *items(asked, "old", "yes", 1),
        Item("city", 3, b"x"),
        *items(asked, "word", "hello", 2),
    ]


CODES = ["unknown_metric", "wrong_version", "expired", "malformed"]


@pytest.mark.exact
def test_what_was_acknowledged_is_counted_and_only_refusals_are_listed(tmp_path: Path) -> None:
    body = batch(mixed(tmp_path))
    with Service(tmp_path) as service:
        got = service.send(body)
    assert got.status == 202
    assert got.json["refused"] == [{"item": 3 + at, "code": code} for at, code in enumerate(CODES)]
    with Service(tmp_path, shuffling=Shuffling(longest=timedelta(0), smallest=1)) as service:
        wait_until(lambda: counted(service.store, service.registry, "word").total == 2)
        table = counted(service.store, service.registry, "city")
    assert table.total == 3
    assert table.windows == (TODAY.isoformat(),)


@pytest.mark.exact
def test_a_retry_gets_the_first_answer_and_other_bytes_a_conflict(tmp_path: Path) -> None:
    body = batch(mixed(tmp_path))
    other = batch(mixed(tmp_path), identity=Batch.from_bytes(body).id)
    with Service(tmp_path) as service:
        first = service.send(body)
        again = [service.send(body) for _ in range(3)]
        conflict = service.send(other)
    with Service(tmp_path) as service:  # after a restart too
        again.append(service.send(body))
        later = service.send(other)
    assert {got.body for got in again} == {first.body}
    assert {got.status for got in again} == {202}
    assert (conflict.status, later.status) == (409, 409)
    assert waiting(tmp_path / "buffer") == 5


def waiting(folder: Path) -> int:
    buffer = Buffer(folder)
    try:
        return sum(buffer.report_counts().values())
    finally:
        buffer.close()


@pytest.mark.exact
def test_one_batch_sent_many_times_at_once_is_stored_once(tmp_path: Path) -> None:
    body = batch(mixed(tmp_path))
    request = ("POST", "/v1/reports", body, {"content-type": "application/vnd.ldp.batch"})
    with Service(tmp_path) as service:
        got = service.ask_together([request] * 20)
    assert {(one.status, one.body) for one in got} == {(202, got[0].body)}
    assert waiting(tmp_path / "buffer") == 5


@pytest.mark.slow
@pytest.mark.exact
def test_a_batch_of_which_everything_is_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    """1,000 batches of 500 items of no metric: the buffer grows by nothing. A batch that is refused
    in part keeps its id and its answer, in a few bytes, and the answer stands when the registry has
    changed meanwhile."""
    asked = registry(tmp_path)
    listed = [Item("none", 1, b"x")] * 499
    part = batch([*listed, *items(asked, "city", "Oslo", 1)])
    with Service(tmp_path) as service:
        request = ("POST", "/v1/reports", {"content-type": "application/vnd.ldp.batch"})
        for _ in range(10):
            bodies = [batch([*listed, listed[0]]) for _ in range(100)]
            got = service.ask_together([(*request[:2], body, request[2]) for body in bodies])
            assert {one.status for one in got} == {202}
            assert {len(one.json["refused"]) for one in got} == {500}
        assert not rows(
            tmp_path / "buffer", "SELECT name FROM sqlite_master WHERE name GLOB 'ids*'"
        )
        first = service.send(part)
        other = batch(listed, identity=Batch.from_bytes(part).id)
        assert service.send(other).status == 409
        (table,) = rows(
            tmp_path / "buffer", "SELECT name FROM sqlite_master WHERE name GLOB 'ids*'"
        )
        (kept,) = rows(tmp_path / "buffer", f"SELECT length(refused) FROM {table[0]}")
        assert kept == (3 * 499,)
    text = asked.path.read_text()
    asked.path.write_text(text.replace("version = 3", "version = 4"))
    with Service(tmp_path) as service:  # now everything of it would be refused
        assert service.send(part).body == first.body
    assert waiting(tmp_path / "buffer") == 1


def rows(folder: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "buffer.db")) as connection:
        return connection.execute(statement).fetchall()


@pytest.mark.exact
@pytest.mark.parametrize(
    ("ago", "status"), [(-2, 422), (-1, 202), (0, 202), (7, 202), (8, 410), (4000, 410)]
)
def test_a_batch_is_taken_from_the_watermark_to_tomorrow(
    tmp_path: Path, ago: int, status: int
) -> None:
    asked = registry(tmp_path)
    with Service(tmp_path) as service:
        body = batch(items(asked, "city", "Oslo", 1), TODAY - timedelta(days=ago))
        assert service.send(body).status == status
    assert waiting(tmp_path / "buffer") == (status == 202)


@pytest.mark.exact
def test_the_watermark_never_falls_and_takes_its_ids_along(tmp_path: Path) -> None:
    """A clock that goes forward and back: a batch that was counted is never counted again."""
    asked, days = registry(tmp_path), [TODAY]
    body = batch(items(asked, "city", "Oslo", 1))
    with Service(tmp_path, today=lambda: days[0]) as service:
        assert service.send(body).status == 202
        days[0] = TODAY + timedelta(days=8)
        assert service.send(body).status == 410
        days[0] = TODAY
        assert service.send(body).status == 410
        assert service.send(batch(items(asked, "city", "Oslo", 1))).status == 410
        tomorrow = batch(items(asked, "city", "Oslo", 1), TODAY + timedelta(days=1))
        assert service.send(tomorrow).status == 202
    buffer = Buffer(tmp_path / "buffer")
    assert buffer.watermark == TODAY + timedelta(days=1)
    buffer.close()
    assert waiting(tmp_path / "buffer") == 2


@pytest.mark.exact
def test_a_clock_that_leaps_is_not_believed_unless_the_operator_says_so(tmp_path: Path) -> None:
    asked, days = registry(tmp_path), [TODAY]
    with Service(tmp_path, today=lambda: days[0]) as service:
        days[0] = leapt = date(2036, 1, 1)
        got = service.send(batch(items(asked, "city", "Oslo", 1), leapt))
        assert (got.status, got.headers["retry-after"]) == (503, "30")
        assert service.ask("GET", "/v1/health").status == 503
        days[0] = TODAY
        assert service.send(batch(items(asked, "city", "Oslo", 1))).status == 202
        assert service.ask("GET", "/v1/health").status == 200
    buffer = Buffer(tmp_path / "buffer")
    with pytest.raises(BufferUnusable, match="days ahead"):
        buffer.trust(leapt, WEEK, is_sure=False)
    buffer.trust(leapt, WEEK, is_sure=True)
    assert buffer.watermark == leapt - WEEK
    buffer.close()


@pytest.mark.exact
def test_a_metric_may_expire_on_the_last_day_there_is(tmp_path: Path) -> None:
    asked = registry(tmp_path)
    text = asked.path.read_text()
    asked.path.write_text(text.replace("expires = 2999-12-31", "expires = 9999-12-31"))
    with Service(tmp_path) as service:
        assert service.send(batch(items(asked, "city", "Oslo", 1))).status == 202
    with Service(tmp_path, today=lambda: date.max, trust_clock=True) as service:
        body = batch(items(asked, "city", "Oslo", 1), date.max)
        assert service.send(body).json == {"refused": []}


@pytest.mark.exact
def test_a_registry_without_a_group_collects_nothing(tmp_path: Path) -> None:
    asked = registry(tmp_path)
    body = batch(items(asked, "city", "Oslo", 1))
    asked.path.write_text('[product]\nname = "weather"\n[group]\n[metric]\n')
    serving = Process(tmp_path, "--listen", "127.0.0.1:0")
    assert serving.url, (tmp_path / "log").read_text()
    assert Destination(serving.url).send(bytes(16), body) == 1
    assert serving.end() == 0


@pytest.mark.exact
def test_what_is_no_batch_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    asked = registry(tmp_path)
    body = batch(items(asked, "city", "Oslo", 2))
    kind = "application/vnd.ldp.batch"
    with Service(tmp_path) as service:
        for expected, data, headers in (
            (400, b"", {"content-type": kind}),
            (400, body[:-1], {"content-type": kind}),
            (400, bytes(1024), {"content-type": kind}),
            (413, bytes((1 << 20) + 1), {"content-type": kind}),
            (413, body, {"content-type": kind, "content-length": str(1 << 30)}),
            (415, body, {}),
            (415, body, {"content-type": "application/json"}),
            (415, body, {"content-type": kind, "content-encoding": "gzip"}),
        ):
            got = service.ask("POST", "/v1/reports", data, headers)
            assert got.status == expected, (expected, got)
            assert set(got.json) == {"error"}
        assert service.ask("GET", "/v1/reports").status == 405
        assert service.ask("GET", "/v1/none").status == 404
    assert waiting(tmp_path / "buffer") == 0


@pytest.mark.exact
def test_a_batch_is_put_under_its_own_id_once(tmp_path: Path) -> None:
    """As often as it is put or posted; under no other id, and with no other method."""
    body = batch(items(registry(tmp_path), "city", "Oslo", 2), identity=bytes(range(16)))
    kind, path = {"content-type": MEDIA_TYPE}, "/v1/reports/"
    identity = "000102030405060708090a0b0c0d0e0f"
    with Service(tmp_path) as service:
        for wrong in ("", identity[:-1], identity.upper(), identity + "/", "0" * 32):
            assert service.ask("PUT", path + wrong, body, kind).status == 400
        for method, where in (("PUT", "/v1/reports"), ("POST", path), ("POST", path + identity)):
            assert service.ask(method, where, body, kind).status == 405
        assert service.ask("PUT", "/v1/reportsx", body, kind).status == 404
        assert waiting(tmp_path / "buffer") == 0
        answers = [service.ask("PUT", path + identity, body, kind) for _ in range(2)]
        answers.append(service.send(body))
        assert [answer.status for answer in answers] == [202] * 3
    assert waiting(tmp_path / "buffer") == 2


@pytest.mark.exact
def test_the_media_type_may_be_in_upper_case(tmp_path: Path) -> None:
    asked = registry(tmp_path)
    with Service(tmp_path) as service:
        for kind in (MEDIA_TYPE.upper(), "Application/VND.ldp.batch ; x=y"):
            body = batch(items(asked, "city", "Oslo", 1))
            headers = {"content-type": kind, "content-encoding": "Identity"}
            assert service.ask("POST", "/v1/reports", body, headers).status == 202


@pytest.mark.exact
def test_malformed_requests_do_not_fill_the_log(tmp_path: Path) -> None:
    """300 of them leave one line, which names no address."""
    served = Served(tmp_path)
    served.start()
    where = urlsplit(served.url)
    for _ in range(300):
        with socket.create_connection((where.hostname, where.port), timeout=10) as one:
            one.sendall(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
            assert b"400" in one.recv(4096)
    assert served.end() == 0
    log = (tmp_path / "log").read_text()
    assert log.count("\n") == 1
    assert "Invalid HTTP request" in log
    assert "127.0.0.1" not in log


@pytest.mark.exact
def test_too_much_is_put_off_and_not_lost(tmp_path: Path) -> None:
    """Each limit answers with Retry-After, and what was put off is taken later."""
    asked = registry(tmp_path)
    request = ("POST", "/v1/reports", {"content-type": "application/vnd.ldp.batch"})
    bodies = [batch(items(asked, "city", "Oslo", 1)) for _ in range(6)]
    together = [(request[0], request[1], body, request[2]) for body in bodies]
    for limits, status in (
        (Limits(requests=2), 503),
        (Limits(rate=3.0), 429),
        (Limits(queue_bytes=-1), 503),
        (Limits(buffer_bytes=1), 503),
    ):
        with Service(tmp_path, limits=limits) as service:
            late = [got for got in service.ask_together(together) if got.status != 202]
        assert late, limits
        assert {got.status for got in late} == {status}
        assert all(int(got.headers["retry-after"]) >= 1 for got in late)
    with Service(tmp_path) as service:
        assert {got.status for got in service.ask_together(together)} == {202}
    assert waiting(tmp_path / "buffer") == 6


@pytest.mark.exact
def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    with Service(tmp_path, limits=Limits(body_seconds=0.05)) as service:
        headers = {"content-type": "application/vnd.ldp.batch"}
        assert service.stall(headers).status == 408


@pytest.mark.exact
def test_slow_bodies_give_way_to_others(tmp_path: Path) -> None:
    """As many bodies as may be awaited never come: whoever sends a whole one is answered at once,
    and the body that was awaited longest is given up."""
    asked = registry(tmp_path)
    with Service(tmp_path, limits=Limits(requests=3, body_seconds=15.0)) as service:
        stalled = [service.stall_for_a_while() for _ in range(3)]
        assert service.send(batch(items(asked, "city", "Oslo", 1))).status == 503, "not slow yet"
        time.sleep(SLOW_SECONDS + 0.1)
        for _ in range(2):
            assert service.send(batch(items(asked, "city", "Oslo", 1))).status == 202
        given_up = [one.result(timeout=14) for one in stalled[:1]]
        assert [got.status for got in given_up] == [408]
        assert given_up[0].headers["connection"] == "close"
        assert not stalled[2].done()
        stalled[2].cancel()
    assert waiting(tmp_path / "buffer") == 2


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize(("silent", "slow"), [(300, 0), (0, 300)])
def test_connections_that_are_held_open_keep_nobody_out(
    tmp_path: Path, silent: int, slow: int
) -> None:
    """More of them than the collector has descriptors; the campaign has 1,100 and 600."""
    found, put_off, slowest = crowded(tmp_path, silent, slow, most_open=256, batches=20)
    assert found.is_none
    assert (put_off, found.sent) == (0, 120)
    assert slowest < 30.0


@pytest.mark.slow
@pytest.mark.exact
def test_a_collector_that_is_stopped_at_once_stops(tmp_path: Path) -> None:
    """SIGTERM at the moment it says that it is ready; the campaign does so 200 times."""
    assert stopped_at_once(tmp_path, 3) == 0


@pytest.mark.slow
@pytest.mark.exact
def test_connections_have_clocks(tmp_path: Path) -> None:
    """One that says nothing, one that stops in its head, one whose head does not end and one that
    was answered: all are closed."""
    code = (
        "from ldp.collection import connections;"
        "connections.REQUEST_SECONDS = 1.0;"
        "from ldp.__main__ import main; main()"
    )
    served = Served(tmp_path)
    served.start(code=("-c", code))
    where = urlsplit(served.url)
    endless = b"GET /v1/health HTTP/1.1\r\nHost: x\r\nX: " + b"x" * (1 << 17)
    for said in (b"", b"POST /v1/rep", endless, b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n"):
        with socket.create_connection((where.hostname, where.port), timeout=10) as one:
            one.sendall(said)
            with suppress(ConnectionResetError):
                while one.recv(4096):
                    pass
    assert served.end() == 0


@pytest.mark.exact
def test_the_registry_has_a_tag_and_the_other_pages_say_what_they_are(tmp_path: Path) -> None:
    asked = registry(tmp_path)
    with Service(tmp_path) as service:
        service.send(batch(mixed(tmp_path)))
        got = service.ask("GET", "/v1/registry")
        assert got.body == asked.path.read_bytes()
        tag = got.headers["etag"]
        for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            again = service.ask("GET", "/v1/registry", headers={"if-none-match": known})
            assert (again.status, again.body) == (304, b"")
        other = service.ask("GET", "/v1/registry", headers={"if-none-match": '"other"'})
        assert other.status == 200
        assert service.ask("GET", "/v1/health").json == {"status": "ok"}
        text = service.ask("GET", "/v1/metrics").body.decode()
        assert json.loads(service.ask("GET", "/v1/openapi.json").body)["openapi"] == "3.1.0"
    assert 'ldp_reports_accepted_total{metric="city"} 3\n' in text
    assert 'ldp_reports_refused_total{code="expired"} 1\n' in text
    assert 'ldp_requests_total{status="202"} 1\n' in text


@pytest.mark.exact
def test_the_same_version_may_not_come_to_mean_something_else(tmp_path: Path) -> None:
    """Reports that wait would be counted as something that they are not."""
    asked = registry(tmp_path)
    with Service(tmp_path) as service:
        service.send(batch(items(asked, "city", "Oslo", 1)))
    text = asked.path.read_text()
    asked.path.write_text(text.replace('"Bergen"', '"Bodø"'))
    with pytest.raises(RegistryError, match="give it version 4"):
        Service(tmp_path).__enter__()
    asked.path.write_text(text.replace('"Bergen"', '"Bodø"').replace("version = 3", "version = 4"))
    with Service(tmp_path, shuffling=Shuffling(longest=timedelta(0), smallest=1)) as service:
        path = service.store / "metric=city" / "version=3"
        wait_until(lambda: any(path.glob("*/*.parquet")))


def each_by_each(data: bytes, asked: object) -> object:
    """What one item at a time makes of a batch: the twin of the bulk way."""
    from ldp.collection import intake

    try:
        return intake._sort_each(Batch.from_bytes(data), asked, TODAY)  # type: ignore[arg-type]
    except ReportError:
        return None


@pytest.mark.exact
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_the_bulk_way_takes_a_batch_apart_as_one_by_one_does(data: st.DataObject) -> None:
    """Uniform and mixed batches, some damaged in one to three bytes, of every metric and of
    none."""
    asked = registry(SCRATCH)
    value = {"city": "Oslo", "word": "hello", "old": "yes"}
    names = data.draw(st.lists(st.sampled_from(["city", "word", "old", "city"]), max_size=4))
    listed = [
        item
        for name in names
        for item in items(asked, name, value[name], data.draw(st.integers(1, 40)))
    ]
    if data.draw(st.booleans()):
        listed = [one._replace(version=data.draw(st.integers(1, 3))) for one in listed]
    body = bytearray(batch(listed))
    for _ in range(data.draw(st.integers(0, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    known = collected_metrics(asked)
    expected = each_by_each(bytes(body), known)
    uniform = read_uniform(bytes(body))
    try:
        found: SortedBatch | None = sort_batch(bytes(body), known, TODAY)
    except ReportError:
        found = None
    assert found == expected
    if uniform is not None:
        assert expected is not None
        read = Batch.from_bytes(bytes(body))
        assert (uniform.id, uniform.day, uniform.items) == (read.id, read.day, len(read.items))


@pytest.mark.exact
def test_a_mixed_batch_is_known_by_what_its_items_begin_with() -> None:
    """One byte of a beginning, of a column out of range, or of the padding, and it is not."""
    from ldp.collection import intake

    asked = registry(SCRATCH)
    listed = [*items(asked, "city", "Oslo", 2), *items(asked, "word", "hello", 1)]
    body, known = batch(listed), collected_metrics(asked)
    found = intake._sort_known(body, known, TODAY)
    assert found == each_by_each(body, known)
    assert found is not None
    assert [lot.reports for lot in found.lots] == [2, 1]
    name, column, padding = HEAD_BYTES + 9, HEAD_BYTES + listed[0].size - 1, len(body) - 1
    for place in (0, name, column, padding):
        damaged = body[:place] + bytes([body[place] ^ 0x80]) + body[place + 1 :]
        assert intake._sort_known(damaged, known, TODAY) is None
    assert intake._sort_known(body, known, date.max) is None


EVERY = [
    *((one.mechanism, one.values[0]) for kind in CATALOGUE.values() for one in kind.examples()),
    (CountMeanSketch(epsilon=4.0, rows=256, width=64, seed="00"), "a"),
    (SubsetSelection(epsilon=1.0, categories=tuple("abcdefgh")), "a"),
]
"""With a value of each. The bodies of the last two fill their bytes, but of the last not all that
do are one."""


@pytest.mark.exact
@pytest.mark.parametrize(
    ("mechanism", "value"), EVERY, ids=[f"{one.name}-{i}" for i, (one, _) in enumerate(EVERY)]
)
def test_reports_of_any_bytes_are_judged_in_bulk_as_one_by_one(
    mechanism: CatalogueMechanism, value: Any
) -> None:
    """50 good ones; then the same with random bytes for bodies, of one and of all."""
    from ldp.collection import intake

    encoder, random = mechanism.encoder(), np.random.default_rng(1)
    known = intake.CollectedMetric(1, TODAY, mechanism, "")
    good = np.array([list(encoder.encode(value)) for _ in range(50)], dtype=np.uint8)
    for damaged in (0, 1, 50):
        reports = good.copy()
        shape = reports[:damaged, HEADER_BYTES:].shape
        reports[:damaged, HEADER_BYTES:] = random.integers(0, 256, shape, dtype=np.uint8)
        each = [
            n for n, report in enumerate(reports) if intake._is_malformed(report.tobytes(), known)
        ]
        assert intake._malformed_positions(reports, known) == each
        assert damaged or not each


@pytest.fixture(autouse=True, scope="module")
def _scratch(tmp_path_factory: pytest.TempPathFactory) -> None:
    global SCRATCH
    SCRATCH = tmp_path_factory.mktemp("registry")


SCRATCH = Path()


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
            buffer.commit(arrived, TODAY, WEEK)
        other.execute("DROP TRIGGER full")
    assert buffer.report_counts() == {}
    assert all(answer.is_new for answer in buffer.commit(arrived, TODAY, WEEK))
    buffer.close()


@pytest.mark.exact
@pytest.mark.parametrize("row_bytes", [1, 40, 1 << 18])
def test_batches_of_one_commit_share_rows_and_keep_their_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row_bytes: int
) -> None:
    """However few bytes a row of the buffer may have; with a retry and a conflict among them."""
    monkeypatch.setattr("ldp.collection.buffer.ROW_BYTES", row_bytes)
    asked = registry(tmp_path)
    known, buffer = collected_metrics(asked), Buffer(tmp_path)
    buffer.expect(known)
    bodies = [batch(mixed(tmp_path)) for _ in range(6)]
    arrived = [
        PendingBatch(sort_batch(body, known, TODAY), bytes([n])) for n, body in enumerate(bodies)
    ]
    conflict = PendingBatch(arrived[0].batch, b"other")
    answers = buffer.commit([*arrived, arrived[2], conflict], TODAY, WEEK)
    assert [answer.is_new for answer in answers] == [True] * 6 + [False] * 2
    assert [answer.status for answer in answers] == [202] * 7 + [409]
    assert sum(buffer.report_counts().values()) == 30
    (word,) = [one for one in buffer.metrics() if one.metric == "word"]
    plan = buffer.decide(word.number, TODAY, 1 << 20)
    assert plan is not None
    rows = buffer.bodies(word.number, plan).lots
    mine = [lot.bodies for one in arrived for lot in one.batch.lots if lot.metric == "word"]
    assert b"".join(rows) == b"".join(mine)
    assert len(rows) == (1 if row_bytes == 1 << 18 else 6)
    buffer.close()


@pytest.mark.exact
def test_the_disk_holds_no_address_no_header_and_no_order(tmp_path: Path) -> None:
    """Each report is another word; the bytes of every file, while they wait and afterwards."""
    asked = registry(tmp_path)
    sent = [batch(items(asked, "word", f"word {n}", 1)) for n in range(200)]
    secrets = [b"203.0.113.77", b"4711", b"Spy/1.0", b"session-of-alice"]
    headers = {
        "user-agent": "Spy/1.0",
        "cookie": "session-of-alice",
        "x-forwarded-for": "203.0.113.77",
    }
    with Service(tmp_path) as service:
        for body in sent:
            assert service.send(body, **headers).status == 202
        text = everything(tmp_path)
        assert not [secret for secret in secrets if secret in text]
        reports = [Batch.from_bytes(body).items[0].report[10:] for body in sent]
        assert all(report in text for report in reports)
        service.collector.move_everything()
        left = everything(tmp_path / "buffer")
        assert not [report for report in reports if report in left], "the buffer still has some"
        assert not [secret for secret in secrets if secret in everything(tmp_path)]
    stored = stored_bodies(service.store, asked)
    assert sorted(stored) == sorted(reports)
    assert stored != reports
    times = {path.stat().st_mtime for path in service.store.rglob("*.parquet")}
    assert all(stamp % 86_400 == 0 for stamp in times)


def everything(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def stored_bodies(store: Path, asked: object) -> list[bytes]:
    """Of the metric of words, in the order of the store."""
    from ldp.collection.store import read_reports
    from ldp.registry import Registry

    assert isinstance(asked, Registry)
    found = []
    for path in sorted((store / "metric=word").rglob("*.parquet")):
        for rows, payloads in read_reports(path, asked.metric("word").mechanism):
            found += [
                int(row).to_bytes(1, "little") + bytes(payload)
                for row, payload in zip(rows, payloads, strict=True)
            ]
    return found


@pytest.mark.exact
def test_the_command_serves_the_real_client_and_a_second_one_ends(tmp_path: Path) -> None:
    """From `ldp collect` over the public client to a table: everything acknowledged is counted."""
    from datetime import UTC, datetime

    serving = Process(tmp_path, "--listen", "127.0.0.1:0")
    now = datetime.now(UTC) - timedelta(hours=1)
    with Client(
        tmp_path / "device.ldp",
        registry=tmp_path / "metrics.toml",
        destination=Destination(serving.url),
        clock=lambda: now,
        jitter=timedelta(0),
        strict=True,
    ) as client:
        client.grant()
        for _ in range(5):
            client.record("city", "Oslo")
            now += timedelta(minutes=1)
            assert client.upload().acknowledged == 1
    assert Process(tmp_path, "--listen", "127.0.0.1:0").ended() == 2
    log = (tmp_path / "log").read_text()
    assert log.count("\n") == 1
    assert "another collector uses it" in log
    assert serving.end() == 0
    drain(tmp_path)
    assert counted(tmp_path / "reports", registry(tmp_path), "city").total == 5
    assert "127.0.0.1" not in (tmp_path / "log").read_text()


@pytest.mark.exact
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--listen", "here"), "--listen must be HOST:PORT"),
        (("--listen", "127.0.0.1:70000"), "--listen must be HOST:PORT"),
        (("--shuffle-longest", "soon"), "a length of time must be text"),
        (("--registry", "nowhere.toml"), "cannot read nowhere.toml"),
    ],
)
def test_wrong_words_end_with_one_line(
    tmp_path: Path, words: tuple[str, str], message: str
) -> None:
    assert Process(tmp_path, *words).ended() == 2
    log = (tmp_path / "log").read_text()
    assert log.count("\n") == 1
    assert message in log


@pytest.mark.exact
def test_aggregate_says_what_waits_in_the_buffer(tmp_path: Path) -> None:
    """Where there is no file yet; of another metric nothing waits, and the plain message stays."""
    asked = registry(tmp_path)
    with Service(tmp_path) as service:
        service.send(batch(items(asked, "city", "Oslo", 7)))
        service.send(batch(items(asked, "city", "Oslo", 4)))
        (tmp_path / "buffer").rename(tmp_path / "reports.buffer")
        command = [sys.executable, "-m", "ldp", "aggregate", "--registry", str(asked.path)]
        store, said = str(tmp_path / "reports"), dict[str, str]()
        (tmp_path / "reports").mkdir(exist_ok=True)
        for metric in ("city", "word"):
            words = [*command, metric, store, "--out", str(tmp_path / "t")]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            assert done.returncode == 2
            said[metric] = done.stderr
        (tmp_path / "reports.buffer").rename(tmp_path / "buffer")
    assert f"but 11 wait in {store}.buffer" in said["city"]
    assert "--drain" in said["city"]
    assert said["word"].endswith(f"no reports of metric 'word' version 1 in {store}\n")
    assert {text.count("\n") for text in said.values()} == {1}


@pytest.mark.exact
@pytest.mark.parametrize(
    "words",
    [
        "collect --registry metrics.toml --store gs://bucket/reports",
        "collect --registry metrics.toml --store reports --buffer gs://bucket",
        "aggregate city --registry metrics.toml https://example.org/x --out t",
        "simulate city --registry metrics.toml --population p.csv --reports s3://bucket/x",
    ],
)
def test_a_url_is_not_made_a_folder(tmp_path: Path, words: str) -> None:
    registry(tmp_path)
    command = [sys.executable, "-m", "ldp", *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "is a URL" in done.stderr or "a store is a folder, file:///PATH" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.toml"]
