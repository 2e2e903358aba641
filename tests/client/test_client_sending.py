"""A client seals and sends batches as docs/device-protocol.md says."""

import socket
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing, suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any

import pytest

from ldp.client import (
    Collector,
    Folder,
    ParameterError,
    destinations,
    sending,
)
from ldp.client.device_file import StorageError
from ldp.client.results import Uploaded
from ldp.client.runtime import system_clock
from ldp.client.sealing import HELD_DAYS, MOST_WAITING
from ldp.client.sending import HELD, Sender
from ldp.errors import Unreachable
from ldp.protocol.batch import Batch
from ldp.protocol.randomness import SeededBits, SystemBits
from tests.devices import DAY, App, Memory
from tests.tiers import tiered


@pytest.mark.exact
def test_a_retry_repeats_the_batch_byte_for_byte(app: App) -> None:
    app.client.record("city", "Oslo")
    app.now += DAY
    app.server.down = True
    for _ in range(5):
        app.client.upload()
        app.now += timedelta(hours=7)
        app.client.close()
        app.client = app.open()
    app.server.down = False
    assert app.client.upload().acknowledged == 1
    assert len(app.server.got) == 6
    assert len(set(app.server.got)) == 1
    assert app.rows("SELECT body, state FROM batches") == [(None, "acknowledged")]
    assert app.client.upload().acknowledged == 0
    assert len(app.server.got) == 6


@pytest.mark.exact
def test_batches_that_are_too_many_are_dropped_and_counted(app: App) -> None:
    app.server.down = True
    app.client.record("city", "Oslo")
    app.now += DAY
    app.client.upload()
    app.now += 9 * DAY
    app.client.record("city", "Oslo")
    app.now += DAY
    app.client.upload()
    assert (app.client.status().held, app.client.status().waiting) == (1, 1)
    with closing(sqlite3.connect(app.path)) as connection, connection:
        for number in range(5):
            connection.execute(
                "INSERT INTO batches "
                "VALUES (?, '2026-01-11', '2026-02-11', 0, '{}', ?, 'waiting', NULL)",
                (bytes([number]), bytes(MOST_WAITING // 4)),
            )
    app.client.record("city", "Oslo")
    app.now += DAY
    app.client.upload()
    size = app.rows("SELECT sum(length(body)) FROM batches")[0][0]
    assert size <= MOST_WAITING
    assert app.client.status().dropped >= 3
    assert app.rows("SELECT sum(times) FROM charges") == [(3,)], "nothing is refunded"


@pytest.mark.exact
@pytest.mark.parametrize("leap", [timedelta(days=40), timedelta(days=-400)])
def test_a_batch_is_held_while_the_clock_shows_another_time(app: App, leap: timedelta) -> None:
    app.client.record("city", "Oslo")
    app.now += DAY
    app.server.down = True
    app.client.upload()
    app.now, app.server.down = app.now + leap, False
    assert app.client.upload().acknowledged == 0
    status = app.client.status()
    assert (status.held, status.waiting, status.dropped) == (1, 0, 0)
    assert (status.leap is None) == (leap > timedelta(0))
    assert status.why == HELD
    assert app.client.pending()["city"], "the owner reads what is held"
    app.now -= leap - timedelta(hours=6)
    assert app.client.upload().acknowledged == 1
    assert app.client.status().held == 0


@pytest.mark.exact
def test_one_batch_that_is_never_taken_does_not_block_the_others(app: App) -> None:
    for _ in range(6):
        app.client.record("city", "Oslo")
        app.now += DAY
        app.client.record("city", "Oslo")
    poisoned, taken = app.rows("SELECT min(id) FROM batches")[0][0], set()

    class Picky:
        def send(self, identity: bytes, body: bytes) -> int:
            if identity == poisoned:
                raise Unreachable("not that one")
            taken.add(identity)
            return 1

    app.client.close()
    app.client = app.open(destination=Picky())
    for _ in range(100):
        app.client.upload()
        app.now += timedelta(minutes=50)
    assert len(taken) == 6
    assert app.client.status().refused == 6


@pytest.mark.exact
def test_an_upload_says_that_reports_were_refused(app: App) -> None:
    """An app whose registry differed from its collector's once saw `acknowledged` and no reason."""

    class Stranger:
        def send(self, identity: bytes, body: bytes) -> int:
            return 1

    app.client.record("city", "Oslo")
    app.now += DAY
    app.client.close()
    app.client = app.open(destination=Stranger())
    why = "reports were refused: is the collector's registry this one?"
    assert app.client.upload() == Uploaded(acknowledged=1, refused=1, why=why)
    assert app.client.upload() == Uploaded()


@pytest.mark.exact
def test_the_items_of_a_batch_are_in_random_order(tmp_path: Path) -> None:
    """With a random seed, 30 batches of two reports would all have one order with probability
    2e-9."""
    made = App(tmp_path, {"city": {}, "home": {}})
    made.client = made.open(bits=SeededBits(b"order"))
    made.client.grant()
    for _ in range(8):
        made.client.record("city", "Oslo")
        made.client.record("home", "Oslo")
        made.now += DAY
        made.client.upload()
    batches = [Batch.from_bytes(body).items for _, body in made.server.got]
    assert {tuple(item.metric for item in items) for items in batches} == {
        ("city", "home"),
        ("home", "city"),
    }
    made.client.close()


@pytest.mark.exact
def test_failures_are_followed_by_longer_random_waits(app: App) -> None:
    app.client.record("city", "Oslo")
    app.now += DAY
    app.server.down = True
    waits = []
    for failures in range(1, 12):
        app.client.upload()
        assert len(app.server.got) == failures
        wait = app.rows("SELECT value FROM state WHERE name = 'next_try'")[0][0]
        waits.append(wait - app.now.timestamp())
        assert 0 <= waits[-1] <= min(60 * 2**failures, 6 * 3600)
        app.client.close()
        app.client = app.open()
        if waits[-1] > 1:
            app.now += timedelta(seconds=waits[-1] - 1)
            assert app.client.upload().why == "waits after a failure"
        app.now += timedelta(seconds=1)
    assert len(set(waits)) > 8
    app.server.down = False
    assert app.client.upload().acknowledged == 1
    left = app.rows("SELECT value FROM state WHERE name = 'next_try'")
    assert left == [(0,)], "a clock that goes back begins no old wait again"
    late = app.open(jitter=timedelta(hours=5), bits=SeededBits(b"late"))
    late.record("city", "Oslo")
    app.now += DAY
    late.record("city", "Oslo")
    day = app.rows("SELECT not_before FROM batches ORDER BY not_before DESC")[0][0]
    assert 0 < day - app.now.timestamp() <= 5 * 3600
    late.close()


@pytest.mark.exact
def test_a_folder_has_each_batch_once_and_whole(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "out")
    for _ in range(2):
        assert folder.send(b"\1" * 16, b"body") == 0
    assert [path.read_bytes() for path in (tmp_path / "out").iterdir()] == [b"body"]
    (tmp_path / "file").write_text("")
    with pytest.raises(Unreachable):
        Folder(tmp_path / "file").send(b"\1" * 16, b"body")


class Answers(BaseHTTPRequestHandler):
    """Collector that gives the listed answers, and keeps what it got."""

    answers: list[tuple[int, dict[str, str], bytes]]
    got: list[tuple[str, bytes]]
    ids: list[str]

    def do_PUT(self) -> None:
        self.path = f"PUT {self.path}"
        self.do_POST()

    def do_POST(self) -> None:
        self.got.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.ids.append(self.headers["Ldp-Batch"])
        status, headers, body = self.answers.pop(0)
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.exact
def test_a_collector_acknowledges_with_202_and_nothing_else() -> None:
    Answers.got, Answers.ids = [], []
    Answers.answers = [
        (202, {}, b'{"refused": []}'),
        (202, {}, b'{"refused": [{"item": 3, "why": "expired"}]}'),
        (202, {}, b"<html>"),
        (202, {}, b'{"refused": "abc"}'),
        (202, {}, b"[" * 200_000),
        (200, {}, b'{"refused": []}'),
        (302, {"Location": "http://elsewhere.example/"}, b""),
        (409, {}, b""),
        (421, {"Retry-After": "60"}, b""),
        (503, {"Retry-After": "120"}, b""),
        (429, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, b""),
        (202, {}, b'{"refused": []}'),
    ]
    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    collector = Collector(f"http://127.0.0.1:{server.server_port}/telemetry/")
    try:
        assert [collector.send(b"", b"body") for _ in range(2)] == [0, 1]
        waits = []
        for message in (*["cannot be read"] * 3, "200", "302", "409", "421", "503", "429"):
            with pytest.raises(Unreachable, match=message) as caught:
                collector.send(b"", b"body")
            waits.append(caught.value.retry_after)
        assert waits == [0] * 6 + [60, 120, 0]
        assert Answers.got == [("/telemetry/v1/reports", b"body")] * 11
        put = Collector(f"http://127.0.0.1:{server.server_port}/telemetry/", put=True)
        assert put.send(bytes(range(16)), b"body") == 0
        path = "PUT /telemetry/v1/reports/000102030405060708090a0b0c0d0e0f"
        assert Answers.got[11:] == [(path, b"body")]
        assert Answers.ids == [""] * 11 + ["000102030405060708090a0b0c0d0e0f"]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    with pytest.raises(Unreachable, match="cannot be reached"):
        collector.send(b"", b"body")


@pytest.mark.exact
def test_a_busy_storage_does_not_end_the_thread() -> None:
    """A strict client raises what a thread once ended with."""
    calls, done = list[int](), Event()

    def upload() -> None:
        calls.append(len(calls))
        if len(calls) < 3:
            raise StorageError("busy")
        done.set()

    sender = Sender(None, system_clock, SystemBits())
    sender.start(upload, timedelta(milliseconds=1))
    assert done.wait(30)
    sender.stop()


@pytest.mark.exact
def test_a_collector_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte every tenth of a second would never exceed a socket's own time limit."""
    monkeypatch.setattr(destinations, "TIMEOUT_SECONDS", 0.5)
    listening = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        peer, _ = listening.accept()
        with peer, suppress(OSError):
            while True:
                peer.sendall(b"H")
                sleep(0.1)

    thread = Thread(target=drip, daemon=True)
    thread.start()
    started = monotonic()
    with pytest.raises(Unreachable, match="cannot be reached"):
        Collector(f"http://127.0.0.1:{listening.getsockname()[1]}").send(b"", b"body")
    assert monotonic() - started < 30
    listening.close()
    thread.join(5)


@pytest.mark.exact
def test_nothing_leaves_after_a_withdrawal_however_long_a_name_takes(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is found after the withdrawal stopped to wait for the batch on its way."""
    for module in (destinations, sending):
        monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.2)
    asked, found, look_up = Event(), Event(), socket.getaddrinfo

    def slowly(*address: Any, **options: Any) -> Any:
        asked.set()
        assert found.wait(30)
        return look_up(*address, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slowly)
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        client = app.open(destination=Collector(address))
        assert client.grant()
        client.record("city", "Oslo")
        app.now += DAY
        thread = Thread(target=client.upload, daemon=True)
        thread.start()
        assert asked.wait(30)
        assert client.withdraw()
        found.set()
        thread.join(30)
        peer, _ = listening.accept()
        with peer:
            assert peer.recv(1 << 16) == b""


@pytest.mark.exact
@pytest.mark.parametrize(
    "url",
    [
        *("http://collector.example", "ftp://127.0.0.1", "collector", "", "https://[::1"),
        *("https://a..b/", f"https://{'a' * 70}.example", "https://a.example/\u00fc"),
        *("https://a.example/?key=1", "https://a.example:x/", "https://"),
        "https://a.example:0/",
    ],
)
def test_an_address_without_tls_is_refused(url: str) -> None:
    with pytest.raises(ParameterError, match="must be https"):
        Collector(url)
    Collector("https://collector.example/telemetry")


@pytest.mark.exact
def test_an_address_is_refused_also_where_assertions_are_left_out() -> None:
    """With `python -O` port 0 was taken."""
    asked = "from ldp.client import Collector; Collector('https://a.example:0/')"
    done = subprocess.run([sys.executable, "-Oc", asked], capture_output=True, check=False)
    assert b"must be https" in done.stderr


@pytest.mark.exact
def test_a_batch_is_dated_to_the_day_of_its_sealing(app: App) -> None:
    app.client.record("city", "Oslo")
    app.now += 3 * DAY
    app.client.upload()
    (body,) = [body for _, body in app.server.got]
    assert Batch.from_bytes(body).day == app.now.date()


@pytest.mark.exact
def test_a_batch_is_dropped_after_thirty_later_days_were_taken(app: App) -> None:
    """The device was away for longer than its group's lateness; one leap of the clock drops
    nothing."""
    app.client.close()
    app.write({"city": {"epsilon": 1.0}})
    app.client = app.open()
    app.client.record("city", "Oslo")
    app.now += DAY
    app.server.down = True
    app.client.upload()
    app.now, app.server.down = app.now + 8 * DAY, False
    dropped = []
    for _ in range(HELD_DAYS + 1):
        app.client.record("city", "Oslo")
        app.now += DAY
        app.client.upload()
        dropped.append(app.client.status().dropped)
    assert dropped == [*[0] * HELD_DAYS, 1]
    assert app.client.status().held == 0


@pytest.mark.exact
def test_of_too_many_batches_the_oldest_are_dropped(app: App) -> None:
    app.server.down = True
    app.now += 6 * DAY
    with closing(sqlite3.connect(app.path)) as connection, connection:
        for day in range(1, 7):
            connection.execute(
                "INSERT INTO batches VALUES (?, ?, '2026-02-11', 0, '{}', ?, 'waiting', NULL)",
                (bytes([day]), f"2026-01-0{day}", bytes(MOST_WAITING // 4)),
            )
    app.client.upload()
    left = app.rows("SELECT day FROM batches WHERE state = 'waiting' ORDER BY day")
    assert left == [(f"2026-01-0{day}",) for day in range(3, 7)]


@pytest.mark.statistical
@pytest.mark.parametrize("is_mixed", tiered([True, False]))
def test_reports_of_two_periods_are_mixed_in_their_batch(
    tmp_path: Path, is_mixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At epsilon 8 a report is true, except 7 in 10,000; two orders must both appear.

    That among 30 devices the first period's report is first fewer than 3 times, or more than 27,
    has probability 1e-6. The twin keeps the order, and passes with probability 2e-6.
    """
    if not is_mixed:
        monkeypatch.setattr("ldp.client.sealing.random_order", lambda items, bits: list(items))
    first = Counter[bool]()
    for number in range(30):
        folder = tmp_path / str(number)
        folder.mkdir()
        made = App(folder, {"city": {"epsilon": 8.0}})
        made.client.grant()
        for value in ("Oslo", "Bergen"):
            with made.client._open_file().transaction() as connection:
                made.client._enter(
                    connection,
                    made.client._registry.metric("city"),
                    value,
                    round(made.now.timestamp()),
                )
            made.now += DAY
        made.client.upload()
        first[made.server.items[0].report[-1] == 0] += 1
        made.client.close()
    assert (min(first[True], first[False]) > 2) is is_mixed, first


@pytest.mark.exact
def test_a_collector_that_says_when_is_not_asked_before(app: App) -> None:
    app.client.record("city", "Oslo")
    app.now += DAY

    class Later(Memory):
        def send(self, identity: bytes, body: bytes) -> int:
            super().send(identity, body)
            raise Unreachable("later", retry_after=3000.0)

    app.client._sender.destination = later = Later()
    app.client.upload()
    app.now += timedelta(seconds=2999)
    assert app.client.upload().why == "waits after a failure"
    app.now += timedelta(seconds=1)
    app.client.upload()
    assert len(later.got) == 2


@pytest.mark.exact
@pytest.mark.parametrize("when", [None, "soon", float("nan")])
def test_an_error_of_the_app_is_no_answer_of_a_collector(app: App, when: object) -> None:
    class Strange(Memory):
        def send(self, identity: bytes, body: bytes) -> int:
            error = OSError("of another library")
            error.retry_after = when  # type: ignore[attr-defined]
            raise error

    app.client.record("city", "Oslo")
    app.now += DAY
    app.client._sender.destination = Strange()
    assert app.client.upload().why == "OSError"
    assert app.rows("SELECT value FROM state WHERE name = 'failures'") == [(1,)]


@pytest.mark.exact
@pytest.mark.parametrize("answer", [[], None, "0", -1, True])
def test_a_destination_that_does_not_say_how_many_it_refused_took_nothing(
    app: App, answer: object
) -> None:
    class Mistaken(Memory):
        def send(self, identity: bytes, body: bytes) -> int:
            return answer  # type: ignore[return-value]

    app.client.record("city", "Oslo")
    app.now += DAY
    app.client._sender.destination = Mistaken()
    why = "a destination must return how many reports it refused"
    assert app.client.upload() == Uploaded(waiting=1, why=why)
