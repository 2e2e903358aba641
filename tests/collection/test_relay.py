"""Relays between devices and a collector: whatever is lost on the way, every report counts once."""

from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from ldp.collection.buffer import Buffer
from ldp.collection.intake import join_bodies, split_bodies
from ldp.collection.relay import ForwardResult, batches_of_file, forward
from ldp.collection.service import Limits
from ldp.errors import Unreachable
from ldp.mechanisms import CATALOGUE
from ldp.protocol.batch import Batch
from tests.collecting import TODAY, Service, batch, counted, items, registry, same_counts, summed


class Flaky:
    """The way to a collector, on which one request of three is lost and one answer of three."""

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
    """Repeats a batch, by one way after the other, until it is acknowledged."""
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


@pytest.mark.exact
def test_what_a_relay_seals_anew_is_counted_once(tmp_path: Path) -> None:
    """Devices repeat batches to the relay, it repeats files to the collector, and more comes
    meanwhile; the collector gets other ids than devices made, and not their bytes."""
    asked, near, far = registry(tmp_path / "relay"), tmp_path / "relay", tmp_path / "collector"
    registry(far)
    bodies = [batch([*items(asked, "word", "hello", 30), *items(asked, "city", "Oslo", 3)])]
    bodies += [batch(items(asked, "word", "hello", 300)) for _ in range(3)]
    with Service(near) as relay, Service(far) as collector:
        to_relay, way = Flaky(relay, 1), Flaky(collector, 2)
        reports = ends = 0
        for some in (bodies[:2], bodies[2:]):
            for body in some:
                sent(body, to_relay)
            relay.collector.move_everything()
            while any(relay.store.rglob("*.parquet")):
                try:
                    reports += forward(relay.store, relay.buffer, way).reports
                except Unreachable:
                    ends += 1
        collector.collector.move_everything()
        for metric in ("word", "city"):
            found = counted(collector.store, asked, metric)
            assert same_counts(found, summed(asked, bodies, metric))
    assert ends > 0
    assert len(set(way.bodies)) < len(way.bodies), "none was repeated"
    assert len({Batch.from_bytes(body).id for body in way.bodies}) == len(set(way.bodies))
    assert not set(way.bodies) & set(bodies)


class Direct:
    """The way to a collector, on which nothing is lost; its answers are those of HTTP."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def send(self, identity: bytes, body: bytes) -> int:
        got = self._service.send(body)
        if got.status != 202:
            raise Unreachable(f"the collector answered {got.status}", 0.0, got.status)
        return len(got.json["refused"])


@pytest.mark.exact
def test_a_relay_goes_on_after_a_damaged_file_and_one_that_is_too_old(tmp_path: Path) -> None:
    """Three files, of which the first is damaged and the second is of a day that the collector has
    passed: the third arrives, the others stay and are named. A 503 still ends the run."""
    asked, near, far = registry(tmp_path / "relay"), tmp_path / "relay", tmp_path / "collector"
    registry(far)
    days = [TODAY - timedelta(days=9)]
    with Service(near, today=lambda: days[0]) as relay, Service(far) as collector:
        relay.send(batch(items(asked, "city", "Oslo", 20), days[0]))
        relay.collector.move_everything()
        days[0] = TODAY
        for metric, value in (("city", "Oslo"), ("word", "hello")):
            relay.send(batch(items(asked, metric, value, 20)))
        relay.collector.move_everything()
        (old,) = relay.store.rglob(f"day={TODAY - timedelta(days=9)}/*.parquet")
        (damaged,) = relay.store.rglob(f"metric=city/*/day={TODAY}/*.parquet")
        damaged.write_bytes(damaged.read_bytes()[:-9])
        done = forward(relay.store, relay.buffer, Direct(collector))
        assert (done.files, done.reports, done.refused) == (1, 20, 0)
        assert dict(done.left)[old] == "the collector answered 410"
        assert "damaged" in dict(done.left)[damaged]
        assert {*relay.store.rglob("*.parquet")} == {old, damaged}
        collector.collector.move_everything()
        assert counted(collector.store, asked, "word").total == 20

        relay.send(batch(items(asked, "word", "hello", 20)))
        relay.collector.move_everything()
        collector.collector._limits = Limits(buffer_bytes=1)
        with pytest.raises(Unreachable, match="503"):
            forward(relay.store, relay.buffer, Direct(collector))


@pytest.mark.exact
def test_a_file_that_may_be_written_again_is_not_forwarded(tmp_path: Path) -> None:
    """Its ingestor was killed after the file was there and before it was noted: the next run
    shuffles anew. The twin: once it is noted, the file goes."""
    asked = registry(tmp_path / "relay")
    registry(tmp_path / "collector")
    with Service(tmp_path / "relay") as relay, Service(tmp_path / "collector") as collector:
        relay.send(batch(items(asked, "word", "hello", 20)))
        relay.collector.move_everything()
        (path,) = relay.store.rglob("*.parquet")
        buffer, way = Buffer(relay.buffer), Flaky(collector, 3)
        (word,) = [one for one in buffer.metrics() if one.metric == "word"]
        buffer._connection.execute(
            "INSERT INTO plans VALUES (?, 1, 1, ?, 0, ?)", (word.number, str(TODAY), path.stem)
        )
        assert forward(relay.store, relay.buffer, way) == ForwardResult(0, 0, 0)
        buffer.mark_written(word.number)
        buffer.close()
        (made,), (again,) = (
            batches_of_file(relay.store, path, word),
            batches_of_file(relay.store, path, word),
        )
        while path.exists():
            with suppress(Unreachable):
                forward(relay.store, relay.buffer, way)
    assert {*way.bodies} == {made.to_bytes()} == {again.to_bytes()}
    assert made.day == TODAY


@pytest.mark.exact
def test_bodies_are_put_together_as_they_were_taken_apart() -> None:
    for one in CATALOGUE.values():
        for example in one.examples():
            mechanism = example.mechanism
            body = np.frombuffer(
                mechanism.encoder().encode(example.values[0])[10:], np.uint8
            ).reshape(1, -1)
            assert join_bodies(*split_bodies(body, mechanism), mechanism) == [body.tobytes()]
