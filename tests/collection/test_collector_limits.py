"""A collector withstands too much, too slow, and what is not HTTP."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from http.client import HTTPConnection
from itertools import cycle
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ldp.collection import service as services
from ldp.collection.service import Limits
from ldp.protocol.batch import MEDIA_TYPE, Batch
from ldp.registry import Registry
from simulations.collector import REGISTRY, VALUES, Served, crowded, stopped_at_once
from tests.collecting import Service, batch, items, registry, waiting


@pytest.mark.exact
def test_malformed_requests_do_not_fill_the_log(tmp_path: Path) -> None:
    """300 requests leave one line, which names no address."""
    served = Served(tmp_path)
    served.start()
    where = urlsplit(served.url)
    for _ in range(300):
        with socket.create_connection((where.hostname, where.port), timeout=60) as one:
            one.sendall(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
            assert b"400" in one.recv(4096)
    assert served.end() == 0
    log = (tmp_path / "log").read_text()
    assert log.count("\n") == 1
    assert "Invalid HTTP request" in log
    assert "127.0.0.1" not in log


@pytest.mark.exact
def test_a_terminal_that_closes_ends_a_collector_of_a_developer_as_sigterm_does(
    tmp_path: Path,
) -> None:
    own = REGISTRY.replace("[product]", "[product]\ndevelopment = true")
    (tmp_path / "metrics.toml").write_text(own)
    served = Served(tmp_path, "--dev")
    # nohup, under which the tests may run, has it ignored
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        served.start()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert served.end(signal.SIGHUP) == 0


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
def test_slow_bodies_give_way_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many bodies as may be awaited never arrive.

    A sender of a whole body is answered at once, and the body that was awaited longest is given up.
    """
    asked = registry(tmp_path)
    monkeypatch.setattr(services, "SLOW_SECONDS", 60.0)
    with Service(tmp_path, limits=Limits(requests=3, body_seconds=60.0)) as service:
        stalled = [service.stall_for_a_while() for _ in range(3)]
        assert service.send(batch(items(asked, "city", "Oslo", 1))).status == 503, "not slow yet"
        monkeypatch.setattr(services, "SLOW_SECONDS", 0.0)
        for _ in range(2):
            assert service.send(batch(items(asked, "city", "Oslo", 1))).status == 202
        given_up = [one.result(timeout=50) for one in stalled[:1]]
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
    """There are more of them than the collector has descriptors; the campaign has 1,100 and 600."""
    found, put_off, slowest = crowded(tmp_path, silent, slow, most_open=256, batches=20)
    assert found.is_none
    assert (put_off, found.sent) == (0, 120)
    assert slowest < 30.0


@pytest.mark.slow
@pytest.mark.exact
def test_a_collector_that_is_stopped_at_once_stops(tmp_path: Path) -> None:
    """SIGTERM comes at the moment at which it says that it is ready; the campaign does so 200
    times."""
    assert stopped_at_once(tmp_path, 3) == 0


IMPATIENT = (
    "from ldp.collection import connections;"
    "connections.REQUEST_SECONDS = 1.0;"
    "from ldp.__main__ import main; main()"
)
"""Program of a collector that waits a second for a request."""


@pytest.mark.slow
@pytest.mark.exact
def test_connections_have_clocks(tmp_path: Path) -> None:
    """All four are closed: one that is silent, one that stops in its head, an endless head, one
    answered."""
    served = Served(tmp_path)
    served.start(code=("-c", IMPATIENT))
    where = urlsplit(served.url)
    endless = b"GET /v1/health HTTP/1.1\r\nHost: x\r\nX: " + b"x" * (1 << 17)
    for said in (b"", b"POST /v1/rep", endless, b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n"):
        with socket.create_connection((where.hostname, where.port), timeout=60) as one:
            one.sendall(said)
            with suppress(ConnectionResetError):
                while one.recv(4096):
                    pass
    assert served.end() == 0


HEAD = b"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Type: application/vnd.ldp.batch\r\n"
LONG = b"Content-Length: 99999999\r\n\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
PARTS = {
    "line": (b"GET /", b"x" * 1024),
    "headers": (HEAD, b"a: b\r\n"),
    "extension of a chunk": (CHUNKED + b"1;", b"a=b;"),
    "one long trailer": (CHUNKED + b"1\r\nx\r\n0\r\na: ", b"x" * 1024),
    "trailers": (CHUNKED + b"1\r\nx\r\n0\r\n", b"a: b\r\n"),
    "chunks of one byte": (CHUNKED, b"1;aaaaaaaaaaaaaaaa\r\nx\r\n"),
    "body after 405": (
        b"GET /v1/reports HTTP/1.1\r\n" + LONG,
        b"x" * 1024,
    ),
    "body after 413": (HEAD + LONG, b"x" * 1024),
    "body after 415": (
        b"POST /v1/reports HTTP/1.1\r\n" + LONG,
        b"x" * 1024,
    ),
    "chunks beyond a batch": (CHUNKED, b"400\r\n" + b"x" * 1024 + b"\r\n"),
    "pipelined requests": (b"", b"GET /v1/registry HTTP/1.1\r\n\r\n"),
    "what follows an upgrade": (
        b"GET /v1/health HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"x" * 1024,
    ),
}
"""Parts of a request without an end: their beginning, and what is repeated."""


@pytest.mark.exact
def test_no_part_of_a_request_is_without_end(tmp_path: Path) -> None:
    """Each part ends the connection before 16 MiB of it are taken.

    All run at the same time, since the collector ends each after a second.
    """
    served = Served(tmp_path)
    served.start()
    where = urlsplit(served.url)

    def taken(part: tuple[bytes, bytes]) -> int:
        beginning, repeated = part
        block, sent = repeated * (1 + (1 << 16) // len(repeated)), 0
        with (
            socket.create_connection((where.hostname, where.port), timeout=60) as one,
            suppress(ConnectionError, TimeoutError),
        ):
            one.sendall(beginning)
            while sent < 1 << 24:
                sent += one.send(block)
        return sent

    with ThreadPoolExecutor(len(PARTS)) as pool:
        of = dict(zip(PARTS, pool.map(taken, PARTS.values()), strict=True))
    assert served.end() == 0
    assert {part for part, sent in of.items() if sent >= 1 << 24} == set()


@pytest.mark.slow
@pytest.mark.exact
def test_no_part_of_a_request_is_waited_for_without_end(tmp_path: Path) -> None:
    """One byte of each comes every tenth of a second; the collector ends every connection by its
    clock."""
    served = Served(tmp_path)
    served.start(code=("-c", IMPATIENT))
    where, living = urlsplit(served.url), dict[str, tuple[socket.socket, Iterator[int]]]()
    for part, (beginning, repeated) in PARTS.items():
        one = socket.create_connection((where.hostname, where.port), timeout=60)
        one.sendall(beginning)
        living[part] = one, cycle(repeated)
    until = time.monotonic() + 60.0
    while living and time.monotonic() < until:
        time.sleep(0.1)
        for part, (one, repeating) in [*living.items()]:
            try:
                one.sendall(bytes([next(repeating)]))
            except OSError:
                one.close()
                del living[part]
    still = {*living}
    for one, _ in living.values():
        one.close()
    assert served.end() == 0
    assert still == set()


@pytest.mark.exact
def test_a_large_batch_that_is_refused_does_not_end_the_connection(tmp_path: Path) -> None:
    """The batch is as large as may be, and refused before it arrived; the next one is taken."""
    served = Served(tmp_path)
    served.start()
    where, asked = urlsplit(served.url), Registry.load(served.registry_path)
    reports = [item for name, value in VALUES.items() for item in items(asked, name, value, 1)]

    def good() -> bytes:
        return Batch(os.urandom(16), datetime.now(UTC).date(), tuple(reports)).to_bytes()

    one = HTTPConnection(str(where.hostname), where.port, timeout=60)
    for body, kind, status in (
        (bytes(1 << 20), "text/plain", 415),
        (good(), MEDIA_TYPE, 202),
        (bytes((1 << 20) + 1), MEDIA_TYPE, 413),
        (good(), MEDIA_TYPE, 202),
    ):
        one.request("POST", "/v1/reports", body, {"Content-Type": kind})
        answer = one.getresponse()
        answer.read()
        assert answer.status == status
    one.close()
    assert served.end() == 0
