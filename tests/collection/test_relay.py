"""Relays between devices and a collector count every report once, whatever is lost on the way."""

from pathlib import Path

import numpy as np
import pytest

from ldp.errors import Unreachable
from ldp.protocol.batch import Batch
from tests.collecting import Service, batch, counted, items, registry, same_counts, summed


class Flaky:
    """Way to a collector that loses one request of three, and one answer of three."""

    def __init__(self, service: Service, seed: int) -> None:
        self._service, self._random = service, np.random.default_rng(seed)
        self.bodies: list[bytes] = []

    def send(self, identity: bytes, body: bytes) -> int:
        fate = int(self._random.integers(3))
        if fate == 0:
            raise Unreachable("the request was lost")
        got = self._service.send(body)
        self.bodies.append(body)
        if fate == 1:
            raise Unreachable("the answer was lost")
        assert got.status == 202, got
        return len(got.json["refused"])


def sent(body: bytes, *ways: Flaky) -> None:
    """Repeat a batch, by one way after the other, until it is acknowledged."""
    for attempt in range(200):
        try:
            ways[attempt % len(ways)].send(Batch.from_bytes(body).id, body)
        except Unreachable:
            continue
        return
    raise AssertionError("it was never acknowledged")


@pytest.mark.exact
def test_what_two_relays_forward_unchanged_is_counted_once(tmp_path: Path) -> None:
    asked = registry(tmp_path)
    bodies = [batch(items(asked, "word", "hello", 5)) for _ in range(12)]
    with Service(tmp_path) as service:
        ways = [Flaky(service, seed) for seed in (1, 2)]
        for body in bodies:
            sent(body, *ways)
        service.collector.move_everything()
        table = counted(service.store, asked, "word")
    assert same_counts(table, summed(asked, bodies, "word"))
    assert {len(set(way.bodies)) < len(way.bodies) for way in ways} == {True}, "none was repeated"
