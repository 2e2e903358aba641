"""Measure whether everything that a relay acknowledged is counted exactly once, despite kills.

Devices in processes of their own seal their reports to the keys of two collectors. They send them
to two relays, one for each collector. Meanwhile relays, collectors and devices are killed at random
moments and started again. In the end the tables of both stores must be the sum of the reports that
the devices recorded as acknowledged, to the last integer. No relay's disk may ever hold a readable
report. `python -m simulations.relay` runs 200 devices and 100 kills of relays and collectors, and
exits 1 when a bar is missed. `--sample` runs four devices with shorter lives, and six kills.
"""

import argparse
import csv
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from ldp.client import Client, Collector
from ldp.collection import aggregate
from ldp.collection.ingest import RELAYED, SET_ASIDE
from ldp.collection.relay_buffer import RelayBuffer
from ldp.protocol.batch import Batch
from ldp.protocol.sealing_keys import PrivateKey, RelayKey
from ldp.registry import Registry
from ldp.tables.joint_table import empty_builder
from ldp.tables.table import Table
from simulations import campaign
from simulations.campaign import Bar
from simulations.collector import REGISTRY, VALUES, Served
from tests.command_line import settings

SHARDS = 2
AT_ONE_TIME = 6
"""Devices that run at the same time."""
PACE = 0.05
"""Seconds that a device waits after each of its windows."""
STEP = timedelta(minutes=1)
SMALLEST = 30


class Relayed(Served):
    """`ldp relay` in a process that can be started again at the same address."""

    ready = "relaying on "

    def __init__(self, folder: Path, collector: Served) -> None:
        super().__init__(folder)
        self.registry_path, self._collector = collector.registry_path, collector
        self.buffer, self.smallest = folder / "waiting", SMALLEST

    def _command(self) -> list[str]:
        return [
            *("relay", "--registry", str(self.registry_path), "--buffer", str(self.buffer)),
            *("--collector", self._collector.url, "--shortest", "0m"),
            *("--smallest", str(self.smallest), "--key", str(self.folder / "relay.key")),
        ]

    def tallies(self) -> dict[str, int]:
        """Return how the reports of the one queue ended, by number."""
        with closing(RelayBuffer(self.buffer)) as buffer:
            return buffer.tallies().get("places", {})


def live(folder: Path, windows: int, url: str, relay: str, key: str) -> None:
    """Live the life of a device from where it was killed, until nothing waits."""
    clock = folder / "clock"
    number = int(clock.read_text()) if clock.exists() else 0
    start = datetime.fromisoformat((folder / "start").read_text())
    now = start + number * STEP
    client = Client(
        folder / "device.ldp",
        registry=folder.parent / "metrics.toml",
        destination=Collector(url, relay=relay, key=key),
        clock=lambda: now,
        jitter=timedelta(0),
        keep_sent=timedelta(days=9),
    )
    client.grant()
    for window in range(number, windows):
        for metric, value in VALUES.items():
            client.record(metric, value)
        now = start + (window + 1) * STEP
        client.upload()
        (folder / "clock.part").write_text(str(window + 1))
        (folder / "clock.part").replace(clock)
        time.sleep(PACE)
    now += STEP
    client.upload()
    while client.status().waiting:
        now += timedelta(minutes=20)  # later than the wait after a failure
        client.upload()
        time.sleep(PACE)
    client.close()


class Device:
    """Device whose process is killed once at a random moment, unless it ends before."""

    def __init__(self, folder: Path, words: Sequence[str], seed: int) -> None:
        folder.mkdir()
        start = datetime.now(UTC) - timedelta(hours=3)
        (folder / "start").write_text(start.isoformat())
        self.folder, self.kills = folder, 0
        self._command = [sys.executable, "-m", "simulations.relay", "--device", str(folder), *words]
        self._moment = float(np.random.default_rng(seed).uniform(0.5, 8.0))

    def run(self) -> None:
        """Run the device until it ends by itself."""
        process = subprocess.Popen(self._command)
        try:
            process.wait(self._moment)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            self.kills = 1
            process = subprocess.Popen(self._command)
        assert process.wait(600) == 0

    def acknowledged(self) -> Iterator[bytes]:
        """Yield the readable reports of the batches that it recorded as acknowledged."""
        with closing(sqlite3.connect(self.folder / "device.ldp")) as connection:
            rows = connection.execute("SELECT state, body FROM batches").fetchall()
        assert {state for state, _ in rows} == {"acknowledged"}, "something was dropped"
        for _, body in rows:
            yield body


@dataclass(frozen=True)
class Result:
    """Result of a run.

    `sent`: reports acknowledged to devices. `counted`: reports in the stores. `cells`: number of
    cells of the tables that differ. `kills`: of relays and collectors; `device_kills`: of devices.
    `batches`: of the relays; `unequal`: batches of another size than their relay attested.
    `readable`: how often a relay's disk held a report, or its log a line about one.
    """

    devices: int
    sent: int
    counted: int
    cells: int
    kills: int
    device_kills: int
    batches: int
    unequal: int
    refused: int
    readable: int
    seconds: float


def killed(folder: Path, devices: int, windows: int, kills: int, seed: int) -> Result:
    """Run `devices` devices for `windows` windows each, under kills."""
    began, moments = time.monotonic(), np.random.default_rng(seed)
    shards = [_shard(folder / f"shard-{number}") for number in range(SHARDS)]
    registry = Registry.load(shards[0][0].registry_path)
    headers = [metric.mechanism.header for metric in registry.metrics.values()]
    crowd = list[Device]()
    for number in range(devices):
        collector, relay, key = shards[number % SHARDS]
        place = collector.folder / f"device-{number}"
        crowd.append(
            Device(place, [str(windows), collector.url, relay.url, key.public], seed + number)
        )
    readable = done = 0
    with ThreadPoolExecutor(AT_ONE_TIME) as pool:
        lives: list[Future[None]] = [pool.submit(device.run) for device in crowd]
        while done < kills or not all(life.done() for life in lives):
            time.sleep(moments.uniform(0.05, 0.6))
            if done >= kills:
                continue
            service = shards[int(moments.integers(SHARDS))][int(moments.integers(2))]
            assert isinstance(service, Served)
            service.end(signal.SIGKILL)
            if isinstance(service, Relayed):
                readable += _holds(service, headers)
            service.start()
            done += 1
        for life in lives:
            life.result()
    batches = refused = 0
    for collector, relay, _ in shards:
        assert relay.end() == 0
        relay.smallest = 1
        relay.start()
        while relay.tallies().get("waiting", 0) + relay.tallies().get("outgoing", 0):
            time.sleep(0.2)
        assert (relay.end(), collector.end()) == (0, 0)
        readable += _holds(relay, headers)
        collector.drain()
        batches += relay.tallies()["batches"]
        refused += relay.tallies()["refused"]
    bodies = [body for device in crowd for body in device.acknowledged()]
    stores = [collector.store for collector, _, _ in shards]
    return Result(
        devices,
        *_difference(stores, registry, bodies),
        done,
        sum(device.kills for device in crowd),
        batches,
        sum(_unequal(store) for store in stores),
        refused,
        readable,
        time.monotonic() - began,
    )


def _shard(folder: Path) -> tuple[Served, Relayed, PrivateKey]:
    """Return a collector with a key of its own, the relay before it, and the key."""
    (folder / "relay").mkdir(parents=True)
    key = PrivateKey.make(folder / "collector.key")
    signing = RelayKey.make(folder / "relay" / "relay.key")
    text = REGISTRY.replace("[product]", f'[product]\nsealing_keys = ["{key.fingerprint}"]')
    text = text.replace('window = "1d"', 'window = "1m"')
    (folder / "metrics.toml").write_text(text)
    keys = {"sealed": [str(folder / "collector.key")], "relay_key": [signing.public]}
    collector = Served(folder, *settings(folder, **keys, shuffle_least=500))
    collector.start()
    relay = Relayed(folder / "relay", collector)
    relay.start()
    return collector, relay, key


def _holds(relay: Relayed, headers: Sequence[bytes]) -> int:
    """Count headers of readable reports in a relay's files, and lines about reports in its log."""
    paths = [path for path in relay.folder.rglob("*") if path.is_file()]
    disk = b"".join(path.read_bytes() for path in paths if path.name != "log")
    log = (relay.folder / "log").read_text()
    lines = [line for line in log.splitlines() if "127.0.0.1" in line or "city" in line]
    return sum(disk.count(header) for header in headers) + len(lines)


def _unequal(store: Path) -> int:
    """Return how many of a relay's batches have another size than it attested."""
    attested, opened = dict[str, int](), Counter[str]()
    for path in (store / RELAYED).glob("*.csv"):
        with path.open() as file:
            for row in csv.DictReader(file):
                attested[row["batch"]] = int(row["attested"])
                opened[row["batch"]] += int(row["opened"])
    assert attested
    return sum(opened[batch] != size for batch, size in attested.items())


def _difference(
    stores: Sequence[Path], registry: Registry, bodies: Sequence[bytes]
) -> tuple[int, int, int]:
    """Return the reports sent, the reports counted, and the number of cells that differ."""
    items = [item for body in bodies for item in Batch.from_bytes(body).items]
    sent = counted = cells = 0
    for name, metric in registry.metrics.items():
        builder = empty_builder(metric.mechanism)
        builder.add_all(item.report for item in items if item.metric == name)
        places = [place for store in stores for place in (store, store / SET_ASIDE)]
        full = [place for place in places if any(place.glob(f"metric={name}/*/*/*.parquet"))]
        found = aggregate(full, name, metric.version, metric.mechanism)
        wanted = builder.build()
        assert isinstance(wanted, Table)
        assert isinstance(found, Table)
        sent, counted = sent + wanted.total, counted + found.total
        cells += int((wanted.counts.astype(np.int64) != found.counts).sum())
    return sent, counted, cells


def bars(result: Result) -> list[Bar]:
    """Return every bar with its figure."""
    lost = result.sent - result.counted
    return [
        Bar("reports acknowledged", result.sent, "> 0", result.sent > 0),
        Bar("acknowledged less counted", lost, "0", lost == 0),
        Bar("cells of the tables that differ", result.cells, "0", result.cells == 0),
        Bar("batches of another size than attested", result.unequal, "0", result.unequal == 0),
        Bar("readable reports on a relay's disk", result.readable, "0", result.readable == 0),
        Bar("kills of relays and collectors", result.kills, "> 0", result.kills > 0),
    ]


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", nargs=5, metavar=("FOLDER", "WINDOWS", "URL", "RELAY", "KEY"))
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(words)
    if options.device:
        folder, windows, *places = options.device
        live(Path(folder), int(windows), *places)
        return 0
    made = campaign.provenance()
    devices, windows, kills = (4, 8, 6) if options.sample else (200, 40, 100)
    with tempfile.TemporaryDirectory() as folder:
        result = killed(Path(folder), devices, windows, kills, options.seed)
    print(result)
    campaign.write(options.out, made, {"result": result})
    return campaign.shown(bars(result))


if __name__ == "__main__":
    sys.exit(main())
