"""Devices, relay and collectors that are lost, ended and started again agree on every report."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldp.client import Client, Collector
from ldp.collection.holding import Holding
from ldp.errors import Unreachable
from ldp.protocol.batch import Batch
from ldp.protocol.sealing_keys import PublicKey, RelayKey
from simulations import relay as campaign
from tests.collecting import REGISTRY, Process, batch, counted, items, registry, same_counts, summed
from tests.sealing import KEY, Relaying, Way, opening, sealed
from tests.tiers import tiered

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
PARTS = 6
"""Number of times that the services start."""
HOLDING = Holding(smallest=5, shortest=timedelta(0))


class ToRelay:
    """Way from devices to a relay in this process, which loses some requests and some answers."""

    def __init__(self, fates: Any) -> None:
        self.key, self.fates = PublicKey(KEY.public), fates
        self.relay: Relaying | None = None

    def send(self, identity: bytes, body: bytes) -> int:
        fate = next(self.fates)
        if fate == 0 or self.relay is None:
            raise Unreachable("the request was lost")
        answer = self.relay.send(body)
        if fate == 1:
            raise Unreachable("the answer was lost")
        assert answer.status == 202
        return len(answer.json["refused"])


@pytest.mark.exact
@pytest.mark.parametrize("is_sound", tiered([True, False]))
def test_devices_a_relay_and_a_collector_agree_on_every_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_sound: bool
) -> None:
    """Three devices live thirty windows; one request of four is lost, and one answer of four.

    The services start anew every few windows. In the twin, a collector opens a report twice and a
    relay gives a repeated batch another id, and both count too many.
    """
    draws = np.random.default_rng(7)
    fates = iter(lambda: int(draws.integers(4)), None)
    for name in ("near", "far"):
        (tmp_path / name).mkdir()
        text = REGISTRY.replace("[product]", f'[product]\nsealing_keys = ["{KEY.fingerprint}"]')
        (tmp_path / name / "metrics.toml").write_text(text)
    if not is_sound:
        _break(monkeypatch)
    now, way = NOON, ToRelay(fates)
    devices = [
        Client(
            tmp_path / f"device-{number}",
            registry=tmp_path / "near" / "metrics.toml",
            destination=way,
            clock=lambda: now,
            jitter=timedelta(0),
            keep_sent=timedelta(days=9),
            strict=True,
        )
        for number in range(3)
    ]
    for device in devices:
        device.grant()
    for part in range(PARTS):
        with (
            opening(tmp_path / "far", today=lambda: NOON.date()) as collector,
            Relaying(
                tmp_path / "near",
                destination=Way(collector, fates),
                holding=HOLDING if part < PARTS - 1 else Holding(smallest=1, shortest=timedelta(0)),
                today=lambda: NOON.date(),
            ) as relay,
        ):
            way.relay = relay
            for _ in range(5):
                for device in devices:
                    device.record("word", "hello")
                    device.record("city", "Oslo")
                now += timedelta(minutes=1)
                for device in devices:
                    device.upload()
                relay.work()
            while part == PARTS - 1 and any(device.status().waiting for device in devices):
                now += timedelta(minutes=20)
                for device in devices:
                    device.upload()
            while part == PARTS - 1 and any(
                relay.collector._worker._reader.tallies()["places"][name]
                for name in ("waiting", "outgoing")
            ):
                relay.work()
    with opening(tmp_path / "far", today=lambda: NOON.date()) as collector:
        collector.collector.move_everything()
        asked, store = collector.registry, collector.store
    bodies = [body for device in devices for body in _kept(device)]
    matches = [
        same_counts(counted(store, asked, metric), summed(asked, bodies, metric))
        for metric in ("word", "city")
    ]
    assert matches == [is_sound] * 2


def _kept(device: Client) -> list[bytes]:
    """Return the readable batches of a device, all of which are acknowledged."""
    assert device.status().waiting == 0
    with device._open_file().transaction(reads=True) as connection:
        return [body for (body,) in connection.execute("SELECT body FROM batches")]


def _break(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each report and each batch a new one whenever it comes."""
    import secrets

    from ldp.collection import intake
    from ldp.collection.relay_buffer import RelayBuffer

    body = RelayBuffer.body

    def renamed(buffer: RelayBuffer, identity: bytes) -> bytes:
        batch = Batch.from_bytes(body(buffer, identity))
        return batch._replace(id=secrets.token_bytes(16)).to_bytes()

    monkeypatch.setattr(RelayBuffer, "body", renamed)
    monkeypatch.setattr(intake, "digest_of", lambda _: secrets.token_bytes(16))


@pytest.mark.slow
@pytest.mark.exact
def test_processes_that_are_killed_agree_on_every_report(tmp_path: Path) -> None:
    """Devices, two relays and two collectors are each killed at random moments."""
    result = campaign.killed(tmp_path, devices=2, windows=5, kills=3, seed=2)
    assert [bar for bar in campaign.bars(result) if not bar.met] == []


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="reads memory as Linux shows it")
def test_the_memory_disk_and_log_of_a_relay_hold_no_report(tmp_path: Path) -> None:
    """The same search finds what was sealed, so it would find a report.

    The body of a report of a word has 129 bytes; 40 of them are searched for.
    """
    asked = registry(tmp_path)
    plain = items(asked, "word", "hello", 5)
    hidden = sealed(asked, plain)
    RelayKey.make(tmp_path / "relay.key")
    relay = Process(
        tmp_path,
        *("--collector", "http://127.0.0.1:9", "--listen", "127.0.0.1:0"),
        *("--key", str(tmp_path / "relay.key")),
        command=("relay", "--buffer", "waiting"),
    )
    for item in hidden:
        body = batch([item], datetime.now(UTC).date())
        assert Collector(relay.url).send(Batch.from_bytes(body).id, body) == 0
    memory = _memory(relay.process.pid)
    assert relay.end() == 0
    disk = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert any(item.report[60:100] in memory for item in hidden)
    assert all(item.report in disk for item in hidden)
    assert not any(item.report[-60:-20] in place for item in plain for place in (memory, disk))
    assert (tmp_path / "log").read_text() == ""


def _memory(process: int) -> bytes:
    """Return what a process can write in its memory."""
    parts = list[bytes]()
    with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "rb", 0) as memory:
        for line in maps:
            place, rights, *_ = line.split()
            start, end = (int(text, 16) for text in place.split("-"))
            if rights.startswith("rw"):
                memory.seek(start)
                with suppress(OSError):
                    parts.append(memory.read(end - start))
    return b"".join(parts)
