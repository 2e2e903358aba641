"""The collector keeps its promises to senders, and to the people whose reports it holds."""

import json
import sqlite3
import threading
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from ldp.collection.acknowledged import BufferUnusable
from ldp.collection.buffer import Buffer, ids_text
from ldp.collection.workers import Shuffling
from ldp.errors import RegistryError
from ldp.protocol.batch import MEDIA_TYPE, Batch, Item
from ldp.registry.resolved import resolved_bytes
from tests.collecting import (
    TODAY,
    WEEK,
    Clock,
    Service,
    batch,
    counted,
    items,
    mixed,
    registry,
    wait_until,
    waiting,
)

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
    """1,000 batches of 500 items of no metric do not make the buffer grow.

    A batch that is refused in part keeps its id and its answer, in a few bytes. The answer stands
    when the registry has changed meanwhile.
    """
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


def sent(service: Service, ago: int) -> int:
    """Return the status of a new batch that was sealed `ago` days ago, by the calendar."""
    return service.send(
        batch(items(service.registry, "city", "Oslo", 1), TODAY - timedelta(days=ago))
    ).status


@pytest.mark.exact
def test_the_watermark_follows_the_clock_and_takes_its_ids_along(tmp_path: Path) -> None:
    """As days pass, a batch that was counted is never counted again."""
    asked, clock = registry(tmp_path), Clock()
    body = batch(items(asked, "city", "Oslo", 1))
    with Service(tmp_path, **clock.settings) as service:
        writer = service.collector._writer
        assert service.send(body).status == 202
        clock.go_on(writer, 7)
        assert service.send(body).status == 202
        assert waiting(tmp_path / "buffer") == 1
        clock.show(writer, clock.day + timedelta(days=1), 0)
        assert service.send(body).status == 202, "a new day has not been shown for an hour"
        clock.show(writer, clock.day, 2)
        assert (service.send(body).status, sent(service, -8)) == (410, 202)
        clock.day = TODAY
        assert (service.send(body).status, sent(service, -8), sent(service, -1)) == (410, 202, 202)
    tables = rows(tmp_path / "buffer", "SELECT name FROM sqlite_master WHERE name GLOB 'ids*'")
    assert {*tables} == {("ids_20261122",), ("ids_20261129",)}


@pytest.mark.exact
def test_a_clock_that_leaps_between_two_readings_lowers_nothing(tmp_path: Path) -> None:
    readings = [TODAY - timedelta(days=1), TODAY - timedelta(days=4000)]
    with Service(tmp_path, monotonic=lambda: 0.0) as service:
        writer, before = service.collector._writer, service.collector._writer._buffer.watermark
        writer._clock = lambda: readings[0] if len(readings) == 1 else readings.pop(0)
        writer.follow()
        assert writer._buffer.watermark == before - timedelta(days=1)


@pytest.mark.exact
@pytest.mark.parametrize("years", [-50, -1, 1, 10])
@pytest.mark.parametrize("hours", [0, 1, 24, 72])
def test_a_wrong_clock_turns_nobody_away_for_longer_than_it_is_wrong(
    tmp_path: Path, years: int, hours: int
) -> None:
    """A clock is wrong by years for some days; batches of the week before are still taken.

    For each half day that it was ahead, one day of that week is lost. Nothing expires, and no id is
    lost.
    """
    asked, clock = registry(tmp_path), Clock()
    body = batch(items(asked, "city", "Oslo", 1))
    wrong = TODAY.replace(year=TODAY.year + years)
    lost = (hours + 11) // 12 if years > 0 else 0
    with Service(tmp_path, **clock.settings) as service:
        writer = service.collector._writer
        assert service.send(body).status == 202
        clock.go_on(writer, 1)
        right = clock.day
        clock.show(writer, wrong, hours)
        for day in (wrong, right):
            clock.day = day
            assert writer.day == right + timedelta(days=lost)
            for ago in range(6 - lost, -2, -1):
                got = service.send(
                    batch(items(asked, "city", "Oslo", 1), TODAY - timedelta(days=ago))
                )
                assert (got.status, got.json) == (202, {"refused": []})
            assert service.send(body).status == 202
            assert service.ask("GET", "/v1/health").status == (503 if day < right else 200)
    assert waiting(tmp_path / "buffer") == 1 + 2 * (8 - lost)


@pytest.mark.exact
def test_the_day_rises_once_in_twelve_hours_across_restarts_and_reboots(tmp_path: Path) -> None:
    buffer, day = Buffer(tmp_path), timedelta(days=1)
    buffer.begin(TODAY, WEEK, 1000.0)
    for now, risen in (
        *((1000.0 + 43_199, 0), (1000.0 + 43_200, 1), (50_000.0, 1)),
        *((0.0, 1), (43_199.0, 1), (43_201.0, 2)),  # the machine started again
        *((86_400.0, 2), (86_401.0, 3), (43_199.0, 3)),
    ):
        buffer.close()
        buffer = Buffer(tmp_path)
        buffer.begin(TODAY + 400 * day, WEEK, now)  # it is not new: the clock is not believed
        buffer.rise(WEEK, now)
        assert (buffer.day, buffer.watermark) == (TODAY + risen * day, TODAY + risen * day - WEEK)
    buffer.rise(4 * WEEK, 1e6)  # a new lateness neither lowers the watermark nor leaps
    assert (buffer.day, buffer.watermark) == (TODAY + 4 * day, TODAY + 3 * day - WEEK)
    buffer.close()


@pytest.mark.exact
def test_a_buffer_of_before_goes_on_from_its_watermark(tmp_path: Path) -> None:
    buffer = Buffer(tmp_path)
    buffer.close()
    change(tmp_path, f"INSERT INTO state VALUES ('watermark', '{TODAY - WEEK}')")
    buffer = Buffer(tmp_path)
    buffer.begin(date(2036, 1, 1), WEEK, 0.0)
    assert (buffer.day, buffer.watermark) == (TODAY, TODAY - WEEK)
    buffer.reset(TODAY - timedelta(days=5), WEEK, 0.0)  # ids that it forgot are not known
    assert (buffer.day, buffer.watermark) == (TODAY - timedelta(days=5), TODAY - WEEK)
    buffer.close()


@pytest.mark.exact
def test_a_wrong_watermark_is_set_right_where_no_id_was_lost(tmp_path: Path) -> None:
    """A new buffer believed 2036, or 1970. Both ways lead back, and no batch counts twice."""
    for wrong in (date(2036, 1, 1), date(1970, 1, 1)):
        folder, clock = tmp_path / str(wrong), Clock(wrong)
        asked = registry(folder)
        early = batch(items(asked, "city", "Oslo", 1), wrong)
        with Service(folder, **clock.settings) as service:
            assert service.send(early).status == 202
            clock.day = TODAY
            assert sent(service, 0) == (410 if wrong > TODAY else 202)
            health = service.ask("GET", "/v1/health")
            assert (health.status == 503) is (wrong > TODAY)
        buffer = Buffer(folder / "buffer")
        buffer.reset(TODAY, WEEK, 0.0)
        assert (buffer.day, buffer.watermark) == (TODAY, TODAY - WEEK)
        buffer.close()
        with Service(folder, **clock.settings) as service:
            assert (sent(service, 7), sent(service, 8)) == (202, 410)
            assert service.send(early).status == (422 if wrong > TODAY else 410)
            assert service.ask("GET", "/v1/health").status == 200
            clock.day = wrong
            got = service.send(early).status
            assert got == (202 if wrong > TODAY else 410)
        assert waiting(folder / "buffer") == (2 if wrong > TODAY else 3)


@pytest.mark.exact
@pytest.mark.parametrize("ahead", range(7))
def test_a_new_buffer_takes_older_batches_once_its_clock_is_right(
    tmp_path: Path, ahead: int
) -> None:
    """Its first reading was days ahead. Twin: once ids of a day are forgotten, it stays too old."""
    asked, clock = registry(tmp_path), Clock(TODAY + timedelta(days=ahead))
    oldest = batch(items(asked, "city", "Oslo", 1), TODAY - WEEK)
    with Service(tmp_path, **clock.settings) as service:
        clock.show(service.collector._writer, TODAY, 1)
        assert service.send(oldest).status == 202
        assert (sent(service, 7), sent(service, 8)) == (202, 410)
        clock.go_on(service.collector._writer, ahead + 1)
        clock.show(service.collector._writer, TODAY, 1)
        assert service.send(oldest).status == 410
        assert (sent(service, 6), sent(service, 7)) == (202, 410)
    assert waiting(tmp_path / "buffer") == 3


@pytest.mark.exact
@pytest.mark.parametrize("ahead", [3, 3000])
def test_a_first_reading_that_is_ahead_lets_nothing_expire(tmp_path: Path, ahead: int) -> None:
    """Twin: the next day the metric's last reports come too late."""
    asked, clock = registry(tmp_path), Clock(TODAY + timedelta(days=ahead))
    text = asked.path.read_text()
    asked.path.write_text(text.replace("expires = 2999-12-31", f"expires = {TODAY - WEEK}"))
    with Service(tmp_path, **clock.settings) as service:
        for day, refused in ((TODAY, 0), (TODAY + timedelta(days=1), 1)):
            clock.day = day
            got = service.send(
                batch(items(asked, "city", "Oslo", 1), TODAY + timedelta(days=ahead))
            )
            assert len(got.json["refused"]) == refused


@pytest.mark.exact
def test_a_watermark_is_not_set_below_ids_that_are_forgotten(tmp_path: Path) -> None:
    """Eight days ahead, the id of a batch of today is forgotten, so the batch is never taken
    again."""
    asked, clock = registry(tmp_path), Clock()
    body = batch(items(asked, "city", "Oslo", 1))
    with Service(tmp_path, **clock.settings) as service:
        assert service.send(body).status == 202
        clock.go_on(service.collector._writer, 8)
    buffer, day = Buffer(tmp_path / "buffer"), timedelta(days=1)
    buffer.reset(TODAY, WEEK, clock.seconds)
    assert (buffer.day, buffer.watermark) == (TODAY, TODAY + day)
    buffer.close()
    clock.day = TODAY
    with Service(tmp_path, **clock.settings) as service:
        assert (service.send(body).status, sent(service, -1)) == (410, 202)


@pytest.mark.exact
def test_a_later_version_puts_the_whole_batch_off(tmp_path: Path) -> None:
    """The collector takes it once it has the app's registry; nothing is refused for good."""
    asked = registry(tmp_path)
    text = asked.path.read_text()
    few = items(asked, "city", "Oslo", 1)
    later_one = [one._replace(version=4) for one in few]
    bodies = [batch([*few, *later_one]), batch(later_one * 20)]
    with Service(tmp_path) as service:
        for body in bodies:
            got = service.send(body)
            assert (got.status, got.headers["retry-after"]) == (503, "60")
            assert got.json == {"error": "city has a later version than version 3 here"}
    assert waiting(tmp_path / "buffer") == 0
    asked.path.write_text(text.replace("version = 3", "version = 4"))
    with Service(tmp_path) as service:
        assert [len(service.send(body).json["refused"]) for body in bodies] == [1, 0]


@pytest.mark.exact
def test_a_batch_that_waits_for_long_is_shown(tmp_path: Path) -> None:
    """The disk hangs. The age of the oldest batch is a gauge, and health shows it after ten
    seconds."""
    clock, began, hung = Clock(), threading.Event(), threading.Event()
    body = batch(items(registry(tmp_path), "city", "Oslo", 1))
    with Service(tmp_path, **clock.settings) as service:
        writer = service.collector._writer
        writer._queue.put(began.set)
        writer._queue.put(hung.wait)
        assert began.wait(20)  # or the batch may be committed before the disk hangs
        wait_until(writer._queue.empty)
        sending = threading.Thread(target=service.send, args=(body,))
        sending.start()
        try:
            wait_until(lambda: writer._since)
            for seconds, status in ((10.0, 200), (0.5, 503)):
                clock.seconds += seconds
                assert service.ask("GET", "/v1/health").status == status
            assert b"\nldp_oldest_batch_seconds 10.5\n" in service.ask("GET", "/v1/metrics").body
        finally:
            hung.set()
            sending.join()
        assert b"\nldp_oldest_batch_seconds 0.0\n" in service.ask("GET", "/v1/metrics").body
        assert service.ask("GET", "/v1/health").status == 200


@pytest.mark.exact
def test_a_metric_may_expire_on_the_last_day_there_is(tmp_path: Path) -> None:
    asked = registry(tmp_path)
    text = asked.path.read_text()
    asked.path.write_text(text.replace("expires = 2999-12-31", "expires = 9999-12-31"))
    with Service(tmp_path) as service:
        assert service.send(batch(items(asked, "city", "Oslo", 1))).status == 202
    with Service(tmp_path, today=lambda: date.max) as service:
        body = batch(items(asked, "city", "Oslo", 1), date.max)
        assert service.send(body).json == {"refused": []}


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
    """It may be put or posted any number of times, but under no other id and with no other
    method."""
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
def test_a_header_that_states_the_id_states_that_of_the_batch(tmp_path: Path) -> None:
    body = batch(items(registry(tmp_path), "city", "Oslo", 2), identity=bytes(range(16)))
    identity = "000102030405060708090a0b0c0d0e0f"
    path, kind = f"/v1/reports/{identity}", {"content-type": MEDIA_TYPE}
    with Service(tmp_path) as service:
        for wrong in ("", "0" * 32, identity[:-1], identity.upper(), f" {identity}", "\u00e9"):
            headers = {**kind, "ldp-batch": wrong}
            assert service.ask("POST", "/v1/reports", body, headers).status == 400
            assert service.ask("PUT", path, body, headers).status == 400
        assert waiting(tmp_path / "buffer") == 0
        assert service.send(body, ldp_batch=identity).status == 202
        assert service.ask("PUT", path, body, {**kind, "ldp-batch": identity}).status == 202
    assert waiting(tmp_path / "buffer") == 2


@pytest.mark.exact
def test_a_collector_of_a_range_of_ids_takes_no_other(tmp_path: Path) -> None:
    """For every first digit, by POST and PUT, one collector of three takes a batch.

    The others answer that it should come later, elsewhere.
    """
    asked = registry(tmp_path)
    kind = {"content-type": MEDIA_TYPE}
    ids = [bytes([digit << 4 | 15, *range(15)]) for digit in range(16)]
    bodies = [batch(items(asked, "city", "Oslo", 1), identity=identity) for identity in ids]
    taken = []
    for first, last in ((0, 3), (4, 4), (5, 15)):
        folder = tmp_path / str(first)
        with Service(folder, ids=range(first, last + 1)) as service:
            for digit, body in enumerate(bodies):
                for answer in (
                    service.send(body),
                    service.ask("PUT", f"/v1/reports/{ids[digit].hex()}", body, kind),
                ):
                    assert answer.status == (202 if first <= digit <= last else 421)
                    if answer.status == 421:
                        assert answer.headers["retry-after"] == "60"
        taken.append(waiting(folder / "buffer"))
    assert taken == [4, 1, 11]


@pytest.mark.exact
def test_a_buffer_is_marked_with_its_range_of_ids(tmp_path: Path) -> None:
    """A buffer refuses another range, also one without a mark, which stands for all ids.

    Nobody else would know its ids.
    """
    with Service(tmp_path / "new", ids=range(4)):
        pass
    with Service(tmp_path / "old"):
        pass
    change(tmp_path / "old" / "buffer", "DELETE FROM state WHERE name = 'ids'")
    for folder, mark in (("new", "0-3"), ("old", "0-f")):
        for other in (range(5), range(1, 4), range(15)):
            with pytest.raises(BufferUnusable, match=f"is of ids {mark}, not {ids_text(other)}$"):
                Service(tmp_path / folder, ids=other)
    with Service(tmp_path / "new", ids=range(4)), Service(tmp_path / "old"):
        pass


def change(folder: Path, statement: str) -> None:
    """Run a statement that changes a buffer."""
    with closing(sqlite3.connect(folder / "buffer.db")) as connection, connection:
        connection.execute(statement)


@pytest.mark.exact
def test_the_media_type_may_be_in_upper_case(tmp_path: Path) -> None:
    asked = registry(tmp_path)
    with Service(tmp_path) as service:
        for kind in (MEDIA_TYPE.upper(), "Application/VND.ldp.batch ; x=y"):
            body = batch(items(asked, "city", "Oslo", 1))
            headers = {"content-type": kind, "content-encoding": "Identity"}
            assert service.ask("POST", "/v1/reports", body, headers).status == 202


@pytest.mark.exact
def test_the_registry_has_a_tag_and_the_other_pages_say_what_they_are(tmp_path: Path) -> None:
    asked = registry(tmp_path)
    with Service(tmp_path) as service:
        service.send(batch(mixed(tmp_path)))
        got = service.ask("GET", "/v1/registry")
        assert got.body == resolved_bytes(asked) == service.ask("GET", "/v1/registry.json").body
        assert not [word for word in (b"# ", b"owner", b"@") if word in got.body]
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
    """Reports that wait would be counted as something else."""
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


@pytest.mark.exact
def test_the_disk_holds_no_address_no_header_and_no_order(tmp_path: Path) -> None:
    """Each report is another word; the bytes of every file are searched, before and after the
    move."""
    asked = registry(tmp_path)
    sent = [batch(items(asked, "word", f"word {n}", 1)) for n in range(200)]
    secrets = [b"203.0.113.77", b"47115", b"Spy/1.0", b"session-of-alice"]
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
    """Return the bodies of the metric of words, in the order of the store."""
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
