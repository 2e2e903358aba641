"""Provide a registry with messages for a shuffler, people who send them, and what a relay gets."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from ldp.client import Client
from ldp.mechanisms.dummies import Dummies
from ldp.protocol.batch import Batch, Item
from ldp.protocol.sealing_keys import PublicKey
from ldp.registry import Registry
from tests.devices import DAY, NOON
from tests.sealing import KEY, Relaying

MESSAGES = f"""
[product]
name = "weather"
sealing_keys = ["{KEY.fingerprint}"]
[group.places]
window = "1d"
window_epsilon = 8.0
lifetime_epsilon = 64.0
[group.trusting]
window = "1d"
window_epsilon = 1.0
lifetime_epsilon = 30.0
trust = "shuffler"
consent = "Your city leaves this device as it is, and a relay mixes it with others'."
[metric.mood]
version = 1
group = "places"
description = "How people are"
owners = ["team@example.org"]
expires = 2999-12-31
mechanism = "rr"
epsilon = 1.0
categories = ["good", "bad"]
[metric.city]
version = 3
group = "trusting"
description = "Where people ask for the weather"
owners = ["team@example.org"]
expires = 2999-12-31
mechanism = "dummies"
categories = ["Oslo", "Bergen", "Hell"]
slots = 2
probability = 0.5
shuffled_epsilon = 1.0
"""
QUEUE = "shuffler:trusting/city/3"
OSLO = Dummies(categories=("Oslo", "Bergen", "Hell"), slots=2, probability=0.5)


def registry(folder: Path, *changes: tuple[str, str]) -> Registry:
    """Return the registry with some texts replaced."""
    folder.mkdir(exist_ok=True)
    text = MESSAGES
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "metrics.toml").write_text(text)
    return Registry.load(folder / "metrics.toml")


class ThroughRelay:
    """Destination that keeps what a relay gets, and hands it on if there is a relay in this
    process."""

    has_relay = True

    def __init__(self, relay: Relaying | None = None) -> None:
        self.key, self.relay, self.got = PublicKey(KEY.public), relay, list[bytes]()

    def send(self, identity: bytes, body: bytes) -> int:
        self.got.append(body)
        if self.relay is None:
            return 0
        answer = self.relay.send(body)
        assert answer.status == 202
        return len(answer.json["refused"])


class Person:
    """Device with a clock of its own."""

    def __init__(self, path: Path, loaded: Registry, way: Any) -> None:
        self.now = NOON
        self.client = Client(
            path,
            registry=loaded,
            destination=way,
            clock=lambda: self.now,
            jitter=timedelta(0),
            strict=True,
        )
        self.client.grant(["trusting"])

    def answer(self, value: str, days: int = 1) -> None:
        self.client.record("city", value)
        self.now += days * DAY
        self.client.upload()


def items(way: ThroughRelay) -> list[Item]:
    """Return the items of the batches that the destination got."""
    return [item for body in way.got for item in Batch.from_bytes(body).items]
