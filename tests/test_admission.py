"""A deployment's own decision who may send: before a batch is read, and without its bytes."""

from pathlib import Path

import pytest

from ldp.collection.admission import Arrival
from ldp.protocol.batch import MEDIA_TYPE
from tests.collecting import Service, batch, items, registry
from tests.command_line import run
from tests.sealing import Relaying, Way, sealed

pytestmark = pytest.mark.exact
TOKEN = "PrivateToken of a device"


class _Door:
    """Admits requests with the token; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked = list[Arrival]()

    async def __call__(self, arrival: Arrival) -> int | None:
        self.asked.append(arrival)
        if arrival.headers.get("x-broken"):
            raise KeyError("no such token")
        return None if arrival.headers.get("authorization") == TOKEN else 401


def test_a_function_sees_headers_sender_and_size_and_never_the_body(tmp_path: Path) -> None:
    """A refused sender is answered though no byte of its body ever comes, and stores nothing."""
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


def test_without_a_function_everybody_may_send(tmp_path: Path) -> None:
    """The twin of the test above."""
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
    both = f"--registry {tmp_path}/metrics.toml --admit {name}"
    for service in (
        f"collect --store {tmp_path}/store --drain",
        f"relay --collector http://127.0.0.1:1 --buffer {tmp_path}/waiting",
    ):
        assert run(f"{service} {both}", monkeypatch) == 2
        assert words in capsys.readouterr().err
