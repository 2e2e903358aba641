"""Measure whether everything that a collector acknowledged is counted exactly once.

Senders repeat each batch until it is acknowledged, as devices do. Meanwhile the collector is killed
at random moments, its disk is full, or the power is cut and only synced bytes survive. Each time
the table of the store must be the sum of the acknowledged batches, to the last integer. `python -m
simulations.collector` runs all faults, with a million bodies that are no batch and the load of
`benchmarks.collector`. It exits 1 when a bar is missed. `--only fuzz` runs a part and puts its
result beside those of the others; `--sample` runs a little of each.
"""

import argparse
import asyncio
import gzip
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import uvloop

from ldp.client import Collector as Destination
from ldp.collection import aggregate
from ldp.collection.buffer import Buffer
from ldp.collection.ingest import SET_ASIDE, writer_of
from ldp.errors import ReportError, Unreachable
from ldp.protocol.batch import MEDIA_TYPE, MOST_BYTES, Batch, Item
from ldp.registry import Registry
from ldp.tables.joint_table import empty_builder
from ldp.tables.table import Table
from simulations import campaign, power_loss
from simulations.benchmarks import collector as load
from simulations.campaign import Bar
from tests.command_line import settings

REGISTRY = """
[product]
name = "weather"
[group.places]
window = "1d"
window_epsilon = 1000.0
lifetime_epsilon = 1000000.0
[metric.city]
version = 3
group = "places"
description = "Where people ask for the weather"
owners = ["team@example.org"]
expires = 2999-12-31
mechanism = "rr"
epsilon = 4.0
categories = ["Oslo", "Bergen", "Hell"]
[metric.word]
version = 1
group = "places"
description = "What people type"
owners = ["team@example.org"]
expires = 2999-12-31
mechanism = "cms"
epsilon = 4.0
rows = 256
width = 1024
"""
VALUES = {"city": "Oslo", "word": "hello"}
CONNECTIONS = 16
FULL = (80_000, 300_000, 100_000, 1_000_000)
"""Sizes in bytes of the largest file on a full disk.

An empty buffer takes 62,000 bytes. What is stored leaves the buffer, so a buffer of 3 MB is seldom
full.
"""
NEVER_SYNCED = """
import functools
from ldp.collection import collector
collector.Collector = functools.partial(collector.Collector, synchronous="OFF")
from ldp.__main__ import main
main()
"""

BY_THE_FILE = """
import functools, os
from datetime import date
from pathlib import Path
from ldp.collection import collector
def today():
    return date.fromisoformat(Path(os.environ["CLOCK_OF_A_FAULT"]).read_text())
collector.Collector = functools.partial(collector.Collector, today=today)
from ldp.__main__ import main
main()
"""


class Served:
    """`ldp collect` in a process that can be started again at the same address."""

    ready = "collecting on "

    def __init__(self, folder: Path, *words: str) -> None:
        self._words, self.folder, self.url = words, folder, ""
        self.registry_path = folder / "metrics.toml"
        if not self.registry_path.exists():
            self.registry_path.write_text(REGISTRY)
        self.store = folder / "reports"
        self._address = "127.0.0.1:0"

    def start(
        self,
        environment: dict[str, str] | None = None,
        most_bytes: int | None = None,
        code: Sequence[str] = ("-m", "ldp"),
        most_open: int | None = None,
    ) -> None:
        """Start the process and wait until it listens.

        `most_bytes`: largest size of a file (RLIMIT_FSIZE). `most_open`: most files and connections
        at a time (RLIMIT_NOFILE).
        """

        def limited() -> None:
            for what, most in (
                (resource.RLIMIT_FSIZE, most_bytes),
                (resource.RLIMIT_NOFILE, most_open),
            ):
                if most is not None:
                    resource.setrlimit(what, (most, most))

        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, *code, *self._command(), *self._words, "--listen", self._address],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **(environment or {})},
                preexec_fn=limited,
            )
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        if not first.startswith(self.ready):
            raise RuntimeError(f"it did not start: {(self.folder / 'log').read_text()}")
        self.url = first.removeprefix(self.ready).strip()
        self._address = self.url.removeprefix("http://")

    def end(self, by: int = signal.SIGTERM) -> int:
        """Send the process a signal, wait for its end and return its exit status."""
        self.process.send_signal(by)
        self.process.communicate(timeout=60)
        return self.process.returncode

    def drain(self) -> None:
        """Move all that waits to the store."""
        command = [sys.executable, "-m", "ldp", *self._command(), "--drain", "--write-small"]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def _command(self) -> list[str]:
        return ["collect", "--registry", str(self.registry_path), "--store", str(self.store)]


class Senders:
    """Threads that send batches, each until it is acknowledged; `acknowledged` holds these
    batches."""

    def __init__(self, served: Served, threads: int, seed: int, gives_up: bool = False) -> None:
        self._served, self._registry = served, Registry.load(served.registry_path)
        self._gives_up = gives_up
        self.acknowledged: list[bytes] = []
        self.put_off = 0
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(np.random.default_rng([seed, number]),))
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop when all batches on their way are acknowledged, or at once if senders give up or
        the collector has ended."""
        self._gives_up |= self._served.process.poll() is not None
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _run(self, random: np.random.Generator) -> None:
        encoders = {name: self._registry.metric(name).mechanism.encoder() for name in VALUES}
        while not self._stopped.is_set():
            many = int(random.choice([1, 4, 4, 4, 30, 100]))
            names = ["word"] * many if many > 4 else list(random.choice(list(VALUES), many))
            items = [
                Item(name, self._registry.metric(name).version, encoders[name].encode(VALUES[name]))
                for name in names
            ]
            self._send(Batch(os.urandom(16), datetime.now(UTC).date(), tuple(items)).to_bytes())

    def _send(self, body: bytes) -> None:
        while not (self._gives_up and self._stopped.is_set()):
            try:
                refused = Destination(self._served.url).send(Batch.from_bytes(body).id, body)
            except Unreachable:
                self.put_off += 1
                time.sleep(0.02)
            else:
                assert refused == 0
                self.acknowledged.append(body)
                return


@dataclass(frozen=True)
class Difference:
    """Difference between a store and what was acknowledged.

    `sent`: reports acknowledged; `counted`: reports in the store; `cells`: number of cells of
    the tables that differ.
    """

    sent: int
    counted: int
    cells: int

    @property
    def is_none(self) -> bool:
        return self.sent == self.counted and not self.cells


def difference(store: Path, registry: Registry, acknowledged: Iterable[bytes]) -> Difference:
    """Compare the store with what was acknowledged."""
    items = [item for body in acknowledged for item in Batch.from_bytes(body).items]
    sent = counted = cells = 0
    for name, metric in registry.metrics.items():
        builder = empty_builder(metric.mechanism)
        builder.add_all(item.report for item in items if item.metric == name)
        wanted, found = builder.build(), empty_builder(metric.mechanism).build()
        for place in (store, store / SET_ASIDE):
            if any(place.glob(f"metric={name}/*/*/*.parquet")):
                found += aggregate([place], name, metric.version, metric.mechanism)  # type: ignore[operator]
        assert isinstance(wanted, Table)
        assert isinstance(found, Table)
        sent, counted = sent + wanted.total, counted + found.total
        cells += int((wanted.counts.astype(np.int64) != found.counts).sum())
    return Difference(sent, counted, cells)


def killed(
    folder: Path, kills: int, seed: int, after: Callable[[Served], object] = lambda _: None
) -> Difference:
    """Kill the collector by SIGKILL at random moments under load; return the difference.

    Small blocks move to the store all the time. `after` is called after each kill, before the next
    start.
    """
    served = Served(folder, *settings(folder, shuffle_least=500))
    served.start()
    senders, moments = Senders(served, 4, seed), np.random.default_rng(seed)
    for _ in range(kills):
        time.sleep(moments.uniform(0.05, 1.5))
        served.end(signal.SIGKILL)
        after(served)
        served.start()
    time.sleep(0.5)
    senders.stop()
    assert served.end() == 0
    served.drain()
    return difference(served.store, Registry.load(served.registry_path), senders.acknowledged)


def half_written(folder: Path, kills: int, seed: int) -> tuple[Difference, int]:
    """Kill the collector, and leave half of a file in the store after each kill.

    The half lies there as a part. If the file was decided on but not finished, a half also lies
    under its own name. Returns the difference and the number of such unfinished files.
    """
    begun = 0

    def leave_halves(served: Served) -> None:
        nonlocal begun
        buffer, whole = (
            Buffer(f"{served.store}.buffer"),
            next(served.store.rglob("*.parquet"), None),
        )
        half = whole.read_bytes()[: whole.stat().st_size // 2] if whole else b"PAR1"
        for one in buffer.metrics():
            plan = buffer.plan(one.number)
            if plan is None:
                continue
            path = writer_of(served.store, one, plan).path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_name(f".{path.name}.1.part").write_bytes(half)
            if not plan.is_written:
                path.write_bytes(half)
                begun += 1
        buffer.close()

    found = killed(folder, kills, seed, leave_halves)
    left = [*folder.rglob("*.part")]
    assert not left, f"half-written files are left: {left[:3]}"
    return found, begun


def full_disk(folder: Path, most_bytes: int, seed: int) -> tuple[Difference, int]:
    """Let no file grow beyond `most_bytes` bytes; then give the disk room again.

    Returns the difference, and how often a sender was put off meanwhile.
    """
    served = Served(folder, *settings(folder, shuffle_least=500))
    served.start(most_bytes=most_bytes)
    senders = Senders(served, 4, seed, gives_up=True)
    time.sleep(3)
    senders.stop()
    assert served.process.poll() is None, "a full disk ended it"
    put_off, acknowledged = senders.put_off, senders.acknowledged
    assert served.end() == 0
    served.start()
    more = Senders(served, 2, seed + 1)
    time.sleep(0.5)
    more.stop()
    assert served.end() == 0
    served.drain()
    registry = Registry.load(served.registry_path)
    return difference(served.store, registry, acknowledged + more.acknowledged), put_off


def power_cut(folder: Path, cuts: int, seed: int, is_synced: bool = True) -> Difference:
    """Cut the power `cuts` times under load, so that only synced bytes survive.

    Without `is_synced` the buffer trusts the system (synchronous = OFF): the twin that loses
    reports.
    """
    library, moments = power_loss.compiled(folder), np.random.default_rng(seed)
    live, senders = folder / "live", None
    live.mkdir()
    served = Served(live, *settings(live, shuffle_least=500))
    code = ("-m", "ldp") if is_synced else ("-c", NEVER_SYNCED)
    try:
        for cut in range(cuts):
            disk, after = folder / f"disk-{cut}", folder / f"after-{cut}"
            disk.mkdir()
            power_loss.keep_as_synced(live, disk)
            served.start({"LD_PRELOAD": str(library), "POWER_LOSS_DISK": str(disk)}, code=code)
            senders = senders or Senders(served, 4, seed, gives_up=not is_synced)
            time.sleep(moments.uniform(0.3, 2.0))
            served.end(signal.SIGKILL)
            power_loss.survived(live, disk, after)
            shutil.rmtree(live)
            shutil.rmtree(disk)
            after.rename(live)
        served.start()
    except RuntimeError:  # the rest of the twin's buffer may not even open
        if is_synced:
            raise
    finally:
        if senders is not None:
            senders.stop()
    assert senders is not None
    status = served.end()
    assert status == 0 or not is_synced
    if status == 0:
        served.drain()
    registry = Registry.load(served.registry_path)
    return difference(served.store, registry, senders.acknowledged)


def jumping_clock(folder: Path, jumps: int, seed: int) -> tuple[Difference, int]:
    """Let the collector's clock jump `jumps` times under load, with a restart each time.

    It jumps by up to six days either way, or by years. Returns the difference, and how often a
    restart put a sender off.
    """
    served = Served(folder, *settings(folder, shuffle_least=500))
    moments = np.random.default_rng(seed)
    clock, today = folder / "clock", datetime.now(UTC).date()
    clock.write_text(today.isoformat())
    environment = {"CLOCK_OF_A_FAULT": str(clock)}
    served.start(environment, code=("-c", BY_THE_FILE))
    senders = Senders(served, 4, seed)
    for jump in range(jumps):
        days = int(moments.integers(-6, 7)) if jump % 3 else int(moments.choice([-4000, 4000]))
        (folder / "clock.part").write_text((today + timedelta(days=days)).isoformat())
        (folder / "clock.part").replace(clock)
        time.sleep(moments.uniform(0.1, 0.6))
        clock.write_text(today.isoformat())
        served.end(signal.SIGKILL if jump % 2 else signal.SIGTERM)
        served.start(environment, code=("-c", BY_THE_FILE))
    senders.stop()
    served.end()
    served.drain()
    registry = Registry.load(served.registry_path)
    return difference(served.store, registry, senders.acknowledged), senders.put_off


def crowded(
    folder: Path, silent: int, slow: int, most_open: int, batches: int
) -> tuple[Difference, int, float]:
    """Send honest batches, each over its own connection, beside connections that are held open.

    `silent` connections send nothing or half of a head; `slow` ones send a head without its body.
    Whenever one is closed, its holder opens a new one. `most_open`: descriptors that the collector
    may have. Returns the difference, how many batches were put off, and the seconds of the slowest.
    """
    served = Served(folder)
    served.start(most_open=most_open)
    registry = Registry.load(served.registry_path)
    head = f"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\n"
    said = [b"", b"POST /v1/rep", f"{head}Content-Length: 100000\r\n\r\nLDP".encode()]
    stopped, ready = threading.Event(), threading.Event()

    def hold() -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
        where, held = urlsplit(served.url), list[tuple[socket.socket, bytes]]()
        words = [said[number % 2] for number in range(silent)] + [said[2]] * slow
        while not stopped.is_set():
            for text in words:
                with suppress(OSError):
                    one = socket.create_connection((where.hostname, where.port), timeout=5)
                    held.append((one, text))
                    one.sendall(text)
            ready.set()
            stopped.wait(0.2)
            closed = {one.fileno() for one, _ in held if _is_closed(one)}
            words = [text for one, text in held if one.fileno() in closed]
            for one, _ in held:
                if one.fileno() in closed:
                    one.close()
            held = [(one, text) for one, text in held if one.fileno() >= 0]
        for one, _ in held:
            one.close()

    holding = threading.Thread(target=hold)
    holding.start()
    ready.wait()
    acknowledged, put_off, slowest = list[bytes](), 0, 0.0
    for _ in range(batches):
        body, began = _good_batch(registry), time.monotonic()
        try:
            Destination(served.url).send(Batch.from_bytes(body).id, body)
            acknowledged.append(body)
        except Unreachable:
            put_off += 1
        slowest = max(slowest, time.monotonic() - began)
    stopped.set()
    holding.join()
    assert served.end() == 0
    served.drain()
    return difference(served.store, registry, acknowledged), put_off, slowest


def leaping_clock(folder: Path, leaps: int, seed: int) -> tuple[Difference, int]:
    """Let the clock of a collector that retains 90 days leap ahead `leaps` times.

    Each leap lasts two seconds and spans 91 to 4,000 days. In every second process deletion need
    not wait for an hour, so only the distrust of the days protects the files. Returns the
    difference and the number of files.
    """
    moments, acknowledged = np.random.default_rng(seed), list[bytes]()
    clock, today = folder / "clock", datetime.now(UTC).date()
    clock.write_text(today.isoformat())
    served = Served(folder, "--retain", "90d", *settings(folder, shuffle_least=1), "--write-small")
    registry = Registry.load(served.registry_path)
    at_once = "from ldp.collection import workers\nworkers.SETTLED_SECONDS = 0.0\n"
    for leap in range(leaps):
        code = (at_once if leap % 2 else "") + BY_THE_FILE
        served.start({"CLOCK_OF_A_FAULT": str(clock)}, code=("-c", code))
        body = _good_batch(registry)
        Destination(served.url).send(Batch.from_bytes(body).id, body)
        acknowledged.append(body)
        time.sleep(1.0)
        (folder / "clock.part").write_text(
            (today + timedelta(days=int(moments.integers(91, 4000)))).isoformat()
        )
        (folder / "clock.part").replace(clock)
        time.sleep(2.0)
        clock.write_text(today.isoformat())
        served.end()
    served.drain()
    files = len([*served.store.rglob("*.parquet")])
    return difference(served.store, registry, acknowledged), files


def all_refused(folder: Path, batches: int) -> tuple[Difference, int]:
    """Send `batches` batches of 500 refused items each, then a good batch.

    Returns the difference, and by how many bytes the refused batches made the buffer grow.
    """
    served = Served(folder)
    served.start()
    registry, database = Registry.load(served.registry_path), Path(f"{served.store}.buffer")
    bodies = []
    for _ in range(batches):
        items = (Item("none", 1, b"x"),) * 500
        bodies.append(Batch(os.urandom(16), datetime.now(UTC).date(), items).to_bytes())
    before = _bytes_used(database)
    requests = ((body, {"Content-Type": MEDIA_TYPE}) for body in bodies)
    answers = uvloop.run(_answers(served.url, requests))
    assert answers == {202: batches}, answers
    grown = _bytes_used(database) - before
    good = _good_batch(registry)
    assert Destination(served.url).send(Batch.from_bytes(good).id, good) == 0
    assert served.end() == 0
    served.drain()
    return difference(served.store, registry, [good]), grown


def _bytes_used(folder: Path) -> int:
    buffer = Buffer(folder)
    try:
        return buffer.bytes_used()
    finally:
        buffer.close()


def unwritable(folder: Path, batches: int) -> tuple[Difference, int]:
    """Put a file where a metric's folder would be, send batches of all metrics, and remove it.

    Returns the difference, and how many reports of another metric were not moved meanwhile.
    """
    served = Served(folder, *settings(folder, shuffle_least=1), "--write-small")
    served.start()
    registry, acknowledged = Registry.load(served.registry_path), list[bytes]()
    place = served.store / "metric=city"
    place.touch()
    for _ in range(batches):
        body = _good_batch(registry)
        Destination(served.url).send(Batch.from_bytes(body).id, body)
        acknowledged.append(body)
    time.sleep(3.0)
    word = registry.metric("word")
    moved = aggregate([served.store], "word", word.version, word.mechanism)
    held_up = sum(
        item.metric == "word" for body in acknowledged for item in Batch.from_bytes(body).items
    )
    place.unlink()
    assert served.end() == 0
    served.drain()
    return difference(served.store, registry, acknowledged), held_up - moved.total


def _is_closed(connection: socket.socket) -> bool:
    """Read what the other end sent, and return whether it closed the connection."""
    connection.setblocking(False)
    try:
        return not connection.recv(4096)
    except BlockingIOError:
        return False
    except OSError:
        return True


def stopped_at_once(folder: Path, starts: int) -> int:
    """Send SIGTERM at the moment at which the collector says it is ready, `starts` times.

    Returns how many processes did not end with status 0 within 10 seconds.
    """
    served, lost = Served(folder), 0
    for _ in range(starts):
        served.start()
        served.process.send_signal(signal.SIGTERM)
        try:
            served.process.communicate(timeout=10)
            lost += served.process.returncode != 0
        except subprocess.TimeoutExpired:
            lost += 1
            served.process.kill()
            served.process.communicate()
    return lost


@dataclass(frozen=True)
class Fuzzed:
    """Answers to bodies that are no batch.

    `answers`: number by status; `stored`: reports stored; `is_alive`: the same process lives and
    takes a good batch.
    """

    answers: dict[int, int]
    stored: int
    is_alive: bool

    @property
    def is_harmless(self) -> bool:
        return set(self.answers) <= {400, 413, 415} and not self.stored and self.is_alive


def fuzzed(folder: Path, bodies: int, seed: int) -> Fuzzed:
    """Send bodies that are no batch, or hold nothing that can be counted."""
    served = Served(folder)
    served.start()
    good = _good_batch(Registry.load(served.registry_path))
    answers = uvloop.run(_answers(served.url, _bad_bodies(good, bodies, seed)))
    is_alive = served.process.poll() is None
    sound = Batch.from_bytes(good)
    is_alive &= Destination(served.url).send(sound.id, good) == 0
    served.end()
    served.drain()
    found = difference(served.store, Registry.load(served.registry_path), [good])
    return Fuzzed(dict(answers), found.counted - found.sent, is_alive)


async def _answers(url: str, requests: Iterator[tuple[bytes, dict[str, str]]]) -> Counter[int]:
    """Send the requests over some shared connections, and count the answers by status."""
    address, answers = urlsplit(url), Counter[int]()

    async def connection() -> None:
        writer, is_open = None, False
        for body, headers in requests:
            if writer is None or not is_open:
                reader, writer = await asyncio.open_connection(address.hostname, address.port)
            try:
                status, is_open = await _asked(reader, writer, body, headers)
            except (OSError, asyncio.IncompleteReadError):
                status, is_open = 0, False
            if not status and len(body) > MOST_BYTES:
                status = 413  # it need not read a body that is too large
            answers[status] += 1
            if not is_open:
                writer.close()
        if writer is not None:
            writer.close()

    async with asyncio.timeout(3600):
        await asyncio.gather(*(connection() for _ in range(CONNECTIONS)))
    return answers


async def _asked(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    body: bytes,
    headers: dict[str, str],
) -> tuple[int, bool]:
    """Send a body; return the status of the answer, and whether the connection stays open."""
    lines = [f"{name}: {value}" for name, value in headers.items()]
    head = ["POST /v1/reports HTTP/1.1", "Host: fuzz", f"Content-Length: {len(body)}", *lines]
    writer.write("\r\n".join([*head, "\r\n"]).encode() + body)
    answer = (await reader.readuntil(b"\r\n\r\n")).lower()
    await reader.readexactly(int(answer.partition(b"content-length: ")[2].split()[0]))
    return int(answer.split()[1]), b"connection: close" not in answer


def _good_batch(registry: Registry) -> bytes:
    items = []
    for name, value in VALUES.items():
        metric = registry.metric(name)
        report = metric.mechanism.encoder().encode(value)
        items += [Item(name, metric.version, report)] * 3
    return Batch(os.urandom(16), datetime.now(UTC).date(), tuple(items)).to_bytes()


def _bad_bodies(good: bytes, number: int, seed: int) -> Iterator[tuple[bytes, dict[str, str]]]:
    """Yield bytes that are no batch, made in many ways, with headers that may not fit either."""
    random, made = np.random.default_rng(seed), 0
    bombs = [gzip.compress(bytes(int(random.integers(1, 1 << 22))), 1) for _ in range(64)]
    while made < number:
        body, headers = _changed(bytearray(good), bombs, random)
        if headers["Content-Type"] == MEDIA_TYPE:
            with suppress(ReportError):
                Batch.from_bytes(body)
                continue
        made += 1
        yield body, headers


def _changed(
    body: bytearray, bombs: Sequence[bytes], random: np.random.Generator
) -> tuple[bytes, dict[str, str]]:
    """Return a good batch changed in one of many ways, mostly into something else."""
    headers, way = {"Content-Type": MEDIA_TYPE}, int(random.integers(9))
    if way == 0:
        body = body[: int(random.integers(len(body)))]
    elif way == 1:
        body += random.bytes(int(random.integers(1, 3000)))
    elif way == 2:
        body[9] = int(random.integers(2, 256))
    elif way == 3:
        body[30:32] = random.bytes(2)
    elif way == 4:
        body[int(random.integers(32, 41))] = 255
    elif way == 5:
        body[41:45] = b"\xff\xfe\xc0\x80"
    elif way == 6:
        body = bytearray(random.bytes(int(random.choice([0, 1, 64, 1024, 4096]))))
    elif way == 7 and random.random() < 0.02:
        body = bytearray(MOST_BYTES + int(random.integers(1, 1 << 20)))
    elif way == 8:
        body = bytearray(bombs[int(random.integers(len(bombs)))])
        if random.random() < 0.5:
            headers["Content-Encoding"] = "gzip"
    else:
        headers["Content-Type"] = str(random.choice(["", "text/plain", "application/json"]))
    for _ in range(int(random.integers(0, 4)) if body else 0):
        body[int(random.integers(len(body)))] ^= int(random.integers(256))
    return bytes(body), headers


def _exactly_once(what: str, found: Difference) -> Bar:
    print(f"     {what}: {found.sent:,} reports acknowledged, {found.counted:,} counted")
    off = abs(found.counted - found.sent) + found.cells
    return Bar(f"{what}: reports and cells that differ", off, "0", found.is_none)


def kills(is_sample: bool, seed: int) -> list[Bar]:
    """Return the bars of SIGKILL at random moments."""
    number = 5 if is_sample else 200
    with tempfile.TemporaryDirectory() as name:
        return [_exactly_once(f"{number} kills", killed(Path(name), number, seed))]


def parquet(is_sample: bool, seed: int) -> list[Bar]:
    """Return the bars of half-written files in the store."""
    number = 5 if is_sample else 40
    with tempfile.TemporaryDirectory() as name:
        found, begun = half_written(Path(name), number, seed)
    what = f"{number} kills that leave half-written files"
    return [_exactly_once(what, found), Bar("of them begun files", begun, "> 0", begun > 0)]


def disk(is_sample: bool, seed: int) -> list[Bar]:
    """Return the bars of a full disk."""
    made = list[Bar]()
    for most in FULL[:2] if is_sample else FULL:
        with tempfile.TemporaryDirectory() as name:
            found, put_off = full_disk(Path(name), most, seed)
        made.append(_exactly_once(f"files of {most:,} bytes at most", found))
        made.append(Bar("senders put off meanwhile", put_off, "> 0", put_off > 0))
    return made


def clock(is_sample: bool, seed: int) -> list[Bar]:
    """Return the bars of jumps of the collector's clock."""
    jumps = 4 if is_sample else 100
    with tempfile.TemporaryDirectory() as name:
        found, put_off = jumping_clock(Path(name), jumps, seed)
    return [
        _exactly_once(f"{jumps} jumps of the clock", found),
        Bar("senders put off meanwhile", put_off, "> 0", put_off > 0),
    ]


def power(is_sample: bool, seed: int) -> list[Bar]:
    """Return the bars of power cuts, and of the twin without syncing, which has to lose reports."""
    cuts = 2 if is_sample else 40
    with tempfile.TemporaryDirectory() as name:
        made = [_exactly_once(f"{cuts} power cuts", power_cut(Path(name), cuts, seed))]
    with tempfile.TemporaryDirectory() as name:
        twin = power_cut(Path(name), 2, seed, is_synced=False)
    lost = twin.sent - twin.counted
    return [*made, Bar("reports lost without syncing", lost, "> 0", lost > 0)]


def crowds(is_sample: bool, seed: int) -> list[Bar]:
    """Return the bars of silent and slow connections, held open to a collector of few
    descriptors."""
    made = list[Bar]()
    for silent, slow in ((1100, 0), (0, 600), (1100, 600)):
        with tempfile.TemporaryDirectory() as name:
            found, put_off, slowest = crowded(
                Path(name), silent, slow, most_open=1024, batches=50 if is_sample else 500
            )
        what = f"{silent} silent and {slow} slow connections"
        made += [
            _exactly_once(what, found),
            Bar(f"{what}: honest batches put off", put_off, "0", put_off == 0),
            Bar(f"{what}: slowest answer, s", slowest, "<= 2", slowest <= 2.0),
        ]
    return made


def stops(is_sample: bool, seed: int) -> list[Bar]:
    """Return the bars of SIGTERM at readiness."""
    starts = 10 if is_sample else 200
    with tempfile.TemporaryDirectory() as name:
        lost = stopped_at_once(Path(name), starts)
    return [Bar(f"{starts} SIGTERM at readiness: lost", lost, "0", lost == 0)]


def leaps(is_sample: bool, seed: int) -> list[Bar]:
    """Return the bars of a clock that leaps for two seconds while files are retained for 90
    days."""
    number = 4 if is_sample else 40
    with tempfile.TemporaryDirectory() as name:
        found, files = leaping_clock(Path(name), number, seed)
    what = f"{number} leaps of the clock for two seconds"
    return [_exactly_once(what, found), Bar("files then", files, f">= {number}", files >= number)]


def refusals(is_sample: bool, seed: int) -> list[Bar]:
    """Return the bars of batches of which every item is refused."""
    number = 100 if is_sample else 1000
    with tempfile.TemporaryDirectory() as name:
        found, grown = all_refused(Path(name), number)
    what = f"{number} batches of refused items"
    return [_exactly_once(what, found), Bar(f"{what}: bytes kept", grown, "0", grown == 0)]


def writes(is_sample: bool, seed: int) -> list[Bar]:
    """Return the bars of a metric that cannot be stored."""
    with tempfile.TemporaryDirectory() as name:
        found, held_up = unwritable(Path(name), 20 if is_sample else 200)
    what = "a metric that cannot be written"
    return [_exactly_once(what, found), Bar("others held up", held_up, "0", held_up == 0)]


def fuzz(is_sample: bool, seed: int) -> list[Bar]:
    """Return the bars of bodies that are no batch: nothing is stored, every answer is a refusal."""
    bodies = 2_000 if is_sample else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        found = fuzzed(Path(name), bodies, seed)
    print(f"     {bodies:,} bodies that are no batch: {found.answers}")
    refused = sum(found.answers.get(status, 0) for status in (400, 413, 415))
    wrong = bodies - refused + found.stored + (not found.is_alive)
    return [Bar(f"{bodies:,} bodies: not refused, or stored", wrong, "0", found.is_harmless)]


def loads(is_sample: bool, seed: int) -> list[Bar]:
    """Return the bars of ten minutes of each kind of load, in which memory must not grow."""
    made = list[Bar]()
    for one in load.LOADS:
        with tempfile.TemporaryDirectory() as name:
            found = load.run(one, 10.0 if is_sample else 600.0, Path(name), seed + one.reports)
        print(f"     {one.what}: {load.said(found)}")
        made += load.bars(one, found)
        early, late = max(found.memory_mib[1:5]), max(found.memory_mib[5:])
        what = f"{one.what}: memory, second half over first"
        made.append(Bar(what, late / early, "<= 1.15", late / early <= 1.15))
    return made


PARTS = {
    part.__name__: part
    for part in (
        kills,
        parquet,
        disk,
        clock,
        power,
        crowds,
        stops,
        leaps,
        refusals,
        writes,
        fuzz,
        loads,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", action="store_true", help="few of each")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=[*PARTS], help="parts to run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="JSON file; of parts that do not run it is kept")
    asked, started, status = parser.parse_args(), campaign.provenance(), 0
    for name in asked.only:
        made = PARTS[name](asked.sample, asked.seed)
        status |= campaign.shown(made)
        if asked.out:
            kept = json.loads(asked.out.read_text()) if asked.out.exists() else {}
            part = {**started, "seed": asked.seed, "bars": made}
            campaign.write(asked.out, {}, {**kept, name: part})
    sys.exit(status)


if __name__ == "__main__":
    main()
