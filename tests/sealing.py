"""Provide what tests of sealed reports share: keys, sealed items, a collector that opens them."""

from collections.abc import Iterable, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from ldp.collection.sealed_relay import Relay
from ldp.errors import Unreachable
from ldp.protocol.batch import Item
from ldp.protocol.sealed_report import Content
from ldp.protocol.sealing_keys import PrivateKey, PublicKey, RelayKey, open_with
from ldp.registry import Registry
from tests.collecting import TODAY, Service

RELAY, OTHER_RELAY = (
    RelayKey(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)) for number in (4, 5)
)
KEY, RETIRED, FOREIGN = (
    PrivateKey(X25519PrivateKey.from_private_bytes(bytes([number]) * 32)) for number in (1, 2, 3)
)


def sealed(
    registry: Registry, items: Sequence[Item], day: date = TODAY, key: PrivateKey = KEY
) -> list[Item]:
    """Return the same reports, sealed to a key."""
    queues = registry.queues()
    return [
        PublicKey(key.public).seal(queue, queues[queue].size, Content(day, item))
        for item in items
        for queue in (registry.metric(item.metric).queue,)
    ]


class Way:
    """Way from a relay to a collector in this process, on which requests and answers may be lost.

    `fates`: 0 for a lost request, 1 for a lost answer, anything else for neither.
    """

    def __init__(self, service: Service | None, fates: Iterable[int] = ()) -> None:
        self.service, self._fates = service, iter(fates)
        self.bodies: list[bytes] = []
        self.status = 0

    def send(self, identity: bytes, body: bytes) -> int:
        fate = next(self._fates, 2)
        if self.service is None or self.status or fate == 0:
            raise Unreachable("the request was lost", status=self.status)
        got = self.service.send(body)
        self.bodies.append(body)
        if fate == 1:
            raise Unreachable("the answer was lost")
        if got.status != 202:
            raise Unreachable("refused", status=got.status)
        return len(got.json["refused"])


class Relaying(Service):
    """Relay in this process; its thread does nothing by itself, `work` does."""

    def build(self, **settings: Any) -> Any:
        relay = Relay(self.registry, self.buffer, **settings)
        relay._worker.run = lambda: None  # type: ignore[method-assign]
        return relay

    def work(self) -> None:
        """Do what the relay's thread does every half second."""
        self.collector._worker._next_try.clear()
        self.collector._worker.work()

    def has_any(self) -> bool:
        """Return whether reports wait, or are on their way."""
        tallies = self.collector._worker._reader.tallies().values()
        return any(numbers["waiting"] + numbers.get("outgoing", 0) for numbers in tallies)

    def tallies(self, queue: str = "places") -> dict[str, int]:
        """Return what everybody may know about a queue."""
        numbers: dict[str, int] = self.ask("GET", "/v1/queues").json["queues"][queue]
        return numbers


def opening(folder: Path, *keys: PrivateKey, **settings: Any) -> Service:
    """Return a collector that opens reports sealed to these keys."""
    return Service(folder, open_report=partial(open_with, keys or (KEY,)), **settings)
