"""A deployment decides who may send, before a batch is read and without its bytes."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ldp.collection.admission import Arrival
from ldp.collection.service import Limits
from ldp.protocol.batch import MEDIA_TYPE
from tests.collecting import Service, batch, items, registry
from tests.command_line import run, settings
from tests.sealing import Relaying, Way, sealed

pytestmark = pytest.mark.exact
TOKEN = "PrivateToken of a device"


class _Door:
    """Function that admits requests with the token, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked = list[Arrival]()

    async def __call__(self, arrival: Arrival) -> int | None:
        self.asked.append(arrival)
        if arrival.headers.get("x-broken"):
            raise KeyError("no such token")
        return None if arrival.headers.get("authorization") == TOKEN else 401


def test_a_function_sees_headers_sender_and_size_and_never_the_body(tmp_path: Path) -> None:
    """A refused sender gets an answer before any byte of its body arrives, and stores nothing."""
    door = _Door()
    with Service(tmp_path, admits=door) as service:
        refused = service.stall({"content-type": MEDIA_TYPE, "content-length": "77"})
        assert refused.status == 401
        assert door.asked == [
            Arrival({"content-type": MEDIA_TYPE, "content-length": "77"}, "203.0.113.77", 77)
        ]
        body = batch(items(service.registry, "city", "Oslo", 3))
        assert service.send(body).status == 401
        assert service.send(body, authorization=TOKEN).status == 202
        assert door.asked[-1].size is None
        assert body not in repr(door.asked).encode()
        assert service.send(body, authorization=TOKEN, x_broken="1").status == 503
        assert service.ask("GET", "/v1/health").status == 200
        assert service.ask("GET", "/v1/reports").status == 405
        assert len(door.asked) == 4


def test_a_relay_asks_the_same_function(tmp_path: Path) -> None:
    with Relaying(tmp_path, destination=Way(None), admits=_Door()) as relay:
        body = batch(sealed(relay.registry, items(relay.registry, "word", "hello", 3)))
        assert relay.send(body).status == 401
        assert not relay.has_any()
        assert relay.send(body, authorization=TOKEN).status == 202
        assert relay.has_any()


REPORTS_PATH = "/v1/reports"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "post", "put", "BREW")
READ = {
    "/v1/health": 200,
    "/v1/metrics": 200,
    "/v1/registry": 200,
    "/v1/registry.json": 200,
    "/v1/openapi.json": 200,
    "/v1/queues": 200,
}
"""Status of GET and HEAD without a token, by route; every other method gives 405."""
ASKED = {("POST", REPORTS_PATH), ("PUT", f"{REPORTS_PATH}/{'0' * 32}"), ("PUT", f"{REPORTS_PATH}/")}
"""Methods and paths that can store, for which a token is needed.

All other methods of these paths give 405.
"""


@pytest.mark.parametrize("kind", ["collector", "relay"])
def test_no_way_in_stores_without_a_token(kind: str, tmp_path: Path) -> None:
    """Every method of every route that the application lists is answered as the table says."""
    door = _Door()
    make: Any = partial(Relaying, destination=Way(None)) if kind == "relay" else Service
    with make(tmp_path, admits=door) as service:
        reads = READ | ({"/v1/health": 503} if kind == "relay" else {})  # its thread does not run
        routes = {route.path for route in service.collector.app.routes}
        expected = {
            (method, path): reads[path] if method in ("GET", "HEAD") else 405
            for path in routes
            for method in METHODS
        } | {
            (method, path): 401 if (method, path) in ASKED else 405
            for path in (REPORTS_PATH, *(path for _, path in ASKED))
            for method in METHODS
        }
        headers = {"content-type": MEDIA_TYPE}
        body = batch(items(service.registry, "city", "Oslo", 1))
        got = {
            (method, path): service.ask(method, path, body, headers).status
            for method, path in expected
        }
        assert got == expected
        assert len(door.asked) == len(ASKED)


@pytest.mark.parametrize(
    "answer",
    [
        True,
        False,
        0,
        -1,
        700,
        200,
        404,
        "401",
        401.5,
        401.0,
        [],
        KeyError(),
        asyncio.CancelledError(),
    ],
)
def test_an_odd_answer_of_the_function_is_503(answer: Any, tmp_path: Path) -> None:
    async def admits(_: Arrival) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    with Service(tmp_path, admits=admits) as service:
        assert service.send(batch(items(service.registry, "city", "Oslo", 1))).status == 503


def test_requests_that_the_function_holds_count_against_the_limit(tmp_path: Path) -> None:
    async def admits(_: Arrival) -> None:
        await asyncio.sleep(0.5)

    limits = Limits(requests=2)
    with Service(tmp_path, admits=admits, limits=limits) as service:
        body = batch(items(service.registry, "city", "Oslo", 1))
        request = ("POST", REPORTS_PATH, body, {"content-type": MEDIA_TYPE})
        got = [one.status for one in service.ask_together([request] * 5)]
    assert got.count(503) == 3


def test_a_function_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    async def admits(_: Arrival) -> None:
        await asyncio.Event().wait()

    with Service(tmp_path, admits=admits, limits=Limits(body_seconds=0.05)) as service:
        assert service.send(batch(items(service.registry, "city", "Oslo", 1))).status == 503


def test_without_a_function_everybody_may_send(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        assert service.send(batch(items(service.registry, "city", "Oslo", 1))).status == 202


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nosuchmodule:redeem", "No module named"),
        ("ldp.errors:nothing", "nothing"),
        ("ldp.files:finite", "write async def"),
    ],
)
def test_a_function_that_is_none_is_refused_at_the_start(
    name: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    registry(tmp_path)
    both = f"--registry {tmp_path}/metrics.toml {' '.join(settings(tmp_path, admit=name))}"
    for service in (
        f"collect --store {tmp_path}/store --drain",
        f"relay --collector http://127.0.0.1:1 --buffer {tmp_path}/waiting",
    ):
        assert run(f"{service} {both}", monkeypatch) == 2
        assert words in capsys.readouterr().err
