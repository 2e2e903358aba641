"""Measure how many reports a collector stores durably on one core.

`python -m simulations.benchmarks.collector` starts `ldp collect` with its ingestor on the first
core, in plain HTTP. From the second core it sends sealed batches of real reports, each with its own
id and rows. One load sends batches of 100 reports, as relays do; one sends batches of 4, as devices
do. A third sends batches with one report of each of 100 metrics.

It prints the rate, the latency, errors, processor time, memory and disk use. Then it counts the
reports in the store. It exits 1 when a bar is missed, or when a report is missing or extra.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import numpy as np

from ldp import CountMeanSketch
from ldp.collection import report_files
from ldp.collection.store import read_reports
from ldp.protocol.batch import HEAD_BYTES, MEDIA_TYPE, Batch, Item
from ldp.protocol.wire import HEADER_BYTES
from simulations import campaign
from simulations.campaign import Bar

REGISTRY = """
[product]
name = "load"
[group.all]
window = "1d"
window_epsilon = 4.0
lifetime_epsilon = 4.0
"""
METRIC = """
[metric.{name}]
version = 1
group = "all"
description = "What people type"
owners = ["team@example.org"]
expires = 2999-12-31
mechanism = "cms"
epsilon = 4.0
rows = 65536
width = 1024
seed = "00ff"
"""
SKETCH = CountMeanSketch(epsilon=4.0, rows=65_536, width=1024, seed="00ff")
ID = slice(10, 26)
TEMPLATES = 64


@dataclass(frozen=True)
class Load:
    """One run: batches of `reports` reports of `metrics` metrics over `connections` connections.

    The bars count reports a second where `counts_reports`, else requests a second. `least`: bar on
    a second of wall time; `least_of_core`: bar on a second of processor time.
    """

    reports: int
    connections: int
    least: float
    least_of_core: float
    counts_reports: bool
    metrics: int = 1

    @property
    def what(self) -> str:
        return f"batches of {self.reports}" + (f" of {self.metrics} metrics" * (self.metrics > 1))

    @property
    def names(self) -> list[str]:
        """Names of the metrics, all of one length, so that all items have one size."""
        return [f"word{number:03}" for number in range(self.metrics)]

    @property
    def registry(self) -> str:
        return REGISTRY + "".join(METRIC.format(name=name) for name in self.names)


UNIFORM = Load(100, 64, 150_000.0, 480_000.0, True)
SMALL = Load(4, 128, 2_500.0, 2_500.0, False)
MIXED = Load(100, 64, 100_000.0, 250_000.0, True, metrics=100)
LOADS = (UNIFORM, SMALL, MIXED)


@dataclass(frozen=True)
class Measured:
    """Figures of one run; times in seconds, latencies in milliseconds."""

    reports_per_batch: int
    metrics: int
    seconds: float
    requests: int
    errors: int
    median: float
    p99: float
    slowest: float
    processor_seconds: float
    memory_mib: list[float]
    written_mib: float
    stored: int

    @property
    def requests_a_second(self) -> float:
        return self.requests / self.seconds

    @property
    def reports_a_second(self) -> float:
        return self.requests_a_second * self.reports_per_batch

    @property
    def processor_us(self) -> float:
        """Microseconds of processor time a report."""
        return self.processor_seconds / (self.requests * self.reports_per_batch) * 1e6


class Sealed:
    """Endless stream of batches; the reports are real, and each batch gets new ids and rows."""

    def __init__(self, load: Load, seed: int) -> None:
        encoder, self._random = SKETCH.encoder(), np.random.default_rng(seed)
        self._bodies = []
        today, names = datetime.now(UTC).date(), load.names * (load.reports // load.metrics)
        for _ in range(TEMPLATES):
            items = tuple(Item(name, 1, encoder.encode("hello")) for name in names)
            body = np.frombuffer(Batch(bytes(16), today, items).to_bytes(), np.uint8).copy()
            step = items[0].size
            whole = body[HEAD_BYTES : HEAD_BYTES + len(items) * step].reshape(len(items), step)
            at = step - len(items[0].report) + HEADER_BYTES
            self._bodies.append((body, whole[:, at : at + 2]))

    def __iter__(self) -> Iterator[bytes]:
        number = 0
        while True:
            body, rows = self._bodies[number % TEMPLATES]
            number += 1
            body[ID] = np.frombuffer(os.urandom(16), np.uint8)
            rows[:] = np.frombuffer(self._random.bytes(rows.size), np.uint8).reshape(rows.shape)
            yield body.tobytes()


class Sender(asyncio.Protocol):
    """Connection that sends the next batch when the last one was answered."""

    def __init__(self, bodies: Iterator[bytes], until: float, took: list[float]) -> None:
        self._bodies, self._until, self._took = bodies, until, took
        self.errors = 0
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._next()

    def _next(self) -> None:
        if time.monotonic() > self._until:
            self._transport.close()
            return
        self._answer = b""
        body = next(self._bodies)
        head = (
            f"POST /v1/reports HTTP/1.1\r\nHost: load\r\nContent-Type: {MEDIA_TYPE}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._sent = time.monotonic()
        self._transport.write(head.encode() + body)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        if not self._answer.endswith(b"}"):
            return
        self._took.append(time.monotonic() - self._sent)
        self.errors += not self._answer.endswith(b'{"refused":[]}')
        self._next()

    def connection_lost(self, _: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


async def send(url: str, load: Load, seconds: float, seed: int) -> tuple[list[float], int]:
    """Send batches; return the latency of each request in seconds, and the number of errors.

    An error is a batch that was not acknowledged whole.
    """
    parts, took = urlsplit(url), list[float]()
    host, port = str(parts.hostname), int(parts.port or 80)
    bodies, until = iter(Sealed(load, seed)), time.monotonic() + seconds
    loop, senders = asyncio.get_running_loop(), list[Sender]()
    for _ in range(load.connections):
        sender = Sender(bodies, until, took)
        await loop.create_connection(lambda sender=sender: sender, host, port)  # type: ignore[misc]
        senders.append(sender)
    async with asyncio.timeout(seconds + 60):
        await asyncio.gather(*(sender.closed for sender in senders))
    return took, sum(sender.errors for sender in senders)


class Usage:
    """Resources that a process used, read from the system's files."""

    def __init__(self, process: int) -> None:
        self._folder = Path(f"/proc/{process}")

    def processor_seconds(self) -> float:
        words = (self._folder / "stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self) -> float:
        return self._words("status", "VmRSS:") / 1024

    def written_mib(self) -> float:
        return self._words("io", "write_bytes:") / 2**20

    def _words(self, file: str, name: str) -> float:
        lines = (self._folder / file).read_text().splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith(name)))


def stored(store: Path, names: Sequence[str]) -> int:
    """Count the reports in the store, and those that it set aside."""
    total = 0
    for place, name in product((store, store / "set-aside"), names):
        if (place / f"metric={name}").is_dir():
            for _, path in report_files([place], name, 1):
                total += sum(len(rows) for rows, _ in read_reports(path, SKETCH))
    return total


def run(load: Load, seconds: float, folder: Path, seed: int) -> Measured:
    """Load a collector in `folder` for `seconds` seconds and return what was measured."""
    (folder / "metrics.toml").write_text(load.registry)
    words = ["--registry", str(folder / "metrics.toml"), "--store", str(folder / "reports")]
    command = [sys.executable, "-m", "ldp", "collect", *words]
    figures = served([*command, "--listen", "127.0.0.1:0"], load, seconds, seed)
    subprocess.run([*command, "--drain", "--write-small"], check=True, capture_output=True)
    return Measured(**figures, stored=stored(folder / "reports", load.names))


def limit_us(load: Load, seconds: float, folder: Path) -> float:
    """Return microseconds of processor time a report of a server that only writes the bodies."""
    command = [sys.executable, "-m", "simulations.benchmarks.bare", str(folder / "bodies")]
    figures = served(command, load, seconds, seed=1)
    return float(1e6 * figures["processor_seconds"] / (figures["requests"] * load.reports))


def served(command: Sequence[str], load: Load, seconds: float, seed: int) -> dict[str, Any]:
    """Load the server of a command and return what was measured, as the fields of `Measured`."""
    cores = sorted(os.sched_getaffinity(0))
    serving = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cores[:1]),
    )
    assert serving.stdout is not None
    url, usage = serving.stdout.readline().split()[-1], Usage(serving.pid)
    os.sched_setaffinity(0, cores[-1:])
    memory, before = [usage.memory_mib()], usage.processor_seconds()

    async def loaded() -> tuple[list[float], int]:
        async def watch() -> None:
            while True:
                await asyncio.sleep(seconds / 10)
                memory.append(usage.memory_mib())

        watching = asyncio.create_task(watch())
        found = await send(url, load, seconds, seed)
        watching.cancel()
        return found

    try:
        import uvloop

        started = time.monotonic()
        took, errors = uvloop.run(loaded())
        ended = time.monotonic() - started
        processor, written = usage.processor_seconds() - before, usage.written_mib()
    finally:
        os.sched_setaffinity(0, cores)
        serving.terminate()
        serving.communicate(timeout=60)
    milliseconds = np.array(took) * 1e3
    return {
        "reports_per_batch": load.reports,
        "metrics": load.metrics,
        "seconds": ended,
        "requests": len(took),
        "errors": errors,
        "median": float(np.median(milliseconds)),
        "p99": float(np.quantile(milliseconds, 0.99)),
        "slowest": float(milliseconds.max()),
        "processor_seconds": processor,
        "memory_mib": memory,
        "written_mib": written,
    }


def sync_milliseconds(folder: Path) -> float:
    """Return the median time of writing and syncing 64 KiB: the disk's part of a commit."""
    block, took = os.urandom(1 << 16), []
    with (folder / "sync").open("wb") as file:
        for _ in range(100):
            started = time.monotonic()
            file.write(block)
            file.flush()
            os.fsync(file.fileno())
            took.append(time.monotonic() - started)
    return float(np.median(took)) * 1e3


def bars(load: Load, found: Measured) -> list[Bar]:
    """Return the bars of a run."""
    what = load.what
    rate = found.reports_a_second if load.counts_reports else found.requests_a_second
    unit = "durable reports a second" if load.counts_reports else "requests a second"
    sent = found.requests * load.reports
    own = rate * found.seconds / found.processor_seconds  # if it had the core for itself
    return [
        Bar(f"{what}: {unit}", rate, f">= {load.least:,.0f}", rate >= load.least),
        Bar(
            f"{what}: {unit} of its processor",
            own,
            f">= {load.least_of_core:,.0f}",
            own >= load.least_of_core,
        ),
        Bar(f"{what}: errors", found.errors, "0", found.errors == 0),
        Bar(f"{what}: stored and not acknowledged", found.stored - sent, "0", found.stored == sent),
    ]


def said(found: Measured) -> str:
    """Describe the run in words."""
    micro = found.processor_us
    return (
        f"{found.requests_a_second:,.0f} requests/s, {found.reports_a_second:,.0f} reports/s for "
        f"{found.seconds:.0f} s; median {found.median:.1f} ms, p99 {found.p99:.1f} ms, slowest "
        f"{found.slowest:.0f} ms; {micro:.2f} us of processor a report, "
        f"{found.processor_seconds / found.seconds:.0%} of a core; memory "
        f"{found.memory_mib[0]:.0f} -> {max(found.memory_mib):.0f} MiB; "
        f"{found.written_mib / found.seconds:.0f} MiB/s written"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each load")
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    asked, started = parser.parse_args(), campaign.provenance()
    made, runs = list[Bar](), list[Measured]()
    for load in LOADS:
        with tempfile.TemporaryDirectory(dir=asked.folder) as name:
            folder = Path(name)
            sync = sync_milliseconds(folder)
            found = run(load, asked.seconds, folder, seed=load.reports)
        made += bars(load, found)
        runs.append(found)
        print(f"     {load.what}: {said(found)}; a sync takes {sync:.2f} ms")
    status = campaign.shown(made)
    campaign.write(asked.out, started, {"bars": made, "runs": [asdict(one) for one in runs]})
    sys.exit(status)


if __name__ == "__main__":
    main()
