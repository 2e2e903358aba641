"""Provide what the collector's tests share: a registry, batches, a collector here or in a
process."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple, Self

from ldp.collection import aggregate
from ldp.collection.acknowledged import PendingBatch
from ldp.collection.buffer import Buffer
from ldp.collection.collector import Collector
from ldp.collection.intake import collected_metrics, sort_batch
from ldp.collection.workers import Shuffling
from ldp.protocol.batch import MEDIA_TYPE, Batch, Item
from ldp.registry import Registry
from ldp.tables.joint_table import JointTable, empty_builder
from ldp.tables.table import Table

TODAY = date(2026, 11, 21)
WEEK = timedelta(days=7)
REGISTRY = """
[product]
name = "weather"
[group.places]
window = "1m"
window_epsilon = 1000.0
lifetime_epsilon = 1000000.0
lateness = "7d"
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
[metric.old]
version = 1
group = "places"
description = "What nobody asks any more"
owners = ["team@example.org"]
expires = 2026-01-31
mechanism = "coin"
alpha = 0.5
beta = 0.5
"""


def registry(folder: Path) -> Registry:
    """Write the registry of these tests into the folder, and return it."""
    path = folder / "metrics.toml"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(REGISTRY)
    return Registry.load(path)


def items(asked: Registry, metric: str, value: str, number: int) -> list[Item]:
    """Return `number` reports of a value."""
    one = asked.metric(metric)
    encoder = one.mechanism.encoder()
    return [Item(metric, one.version, encoder.encode(value)) for _ in range(number)]


def batch(listed: Sequence[Item], day: date = TODAY, identity: bytes | None = None) -> bytes:
    """Return a sealed batch."""
    return Batch(identity or os.urandom(16), day, tuple(listed)).to_bytes()


def mixed(folder: Path) -> list[Item]:
    """Return reports of two metrics, and one item for each reason to refuse it."""
    asked = registry(folder)
    return [
        *items(asked, "city", "Oslo", 3),
        Item("none", 1, b"x"),
        Item("city", 2, items(asked, "city", "Hell", 1)[0].report),
        *items(asked, "old", "yes", 1),
        Item("city", 3, b"x"),
        *items(asked, "word", "hello", 2),
    ]


def filled(folder: Path, batches: int) -> list[bytes]:
    """Put batches of words into the buffer."""
    asked = registry(folder)
    bodies = [batch(items(asked, "word", "hello", 20)) for _ in range(batches)]
    buffer, known = Buffer(folder / "buffer"), collected_metrics(asked)
    buffer.expect(known)
    for number, body in enumerate(bodies):
        digest = number.to_bytes(16, "little")
        buffer.commit([PendingBatch(sort_batch(body, known, TODAY), digest)], TODAY)
    buffer.close()
    return bodies


def waiting(folder: Path) -> int:
    """Return the number of reports in a buffer."""
    buffer = Buffer(folder)
    try:
        return sum(buffer.report_counts().values())
    finally:
        buffer.close()


def counted(store: Path, asked: Registry, metric: str) -> Table | JointTable:
    """Return the table of all that the store holds, empty where there is nothing."""
    one = asked.metric(metric)
    if not any(store.glob(f"metric={metric}/version={one.version}/day=*/*.parquet")):
        return empty_builder(one.mechanism).build()
    return aggregate([store], metric, one.version, one.mechanism)


def summed(asked: Registry, bodies: Iterable[bytes], metric: str) -> Table | JointTable:
    """Return the table of a metric's reports in these batches, counted without a collector.

    Each batch counts once.
    """
    one = asked.metric(metric)
    builder = empty_builder(one.mechanism)
    for body in bodies:
        builder.add_all(
            item.report for item in Batch.from_bytes(body).items if item.metric == metric
        )
    return builder.build()


def same_counts(one: Table | JointTable, other: Table | JointTable) -> bool:
    """Return whether two tables hold the same integers, whatever days they name."""
    assert isinstance(one, Table)
    assert isinstance(other, Table)
    return replace(one, windows=()) == replace(other, windows=())


def wait_until(condition: Callable[[], object], seconds: float = 120.0) -> None:
    """Wait until the condition holds; fail if it does not hold in time."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it did not come to pass"
        time.sleep(0.05)


class Got(NamedTuple):
    """Answer of the collector."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def answer(
    app: Any, method: str, path: str, body: bytes | None, headers: dict[str, str]
) -> Got:
    """Return the answer of an application to one request.

    Without a body, no body ever arrives.
    """
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path.partition("?")[0],
        "raw_path": path.encode(),
        "query_string": path.partition("?")[2].encode(),
        "root_path": "",
        "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()],
        "client": ("203.0.113.77", 47115),
        "server": ("127.0.0.1", 80),
    }
    parts = []
    if body is not None:
        parts = [body[at : at + 65_536] for at in range(0, len(body), 65_536)] or [b""]
    sent: list[Any] = []

    async def receive() -> Any:
        if not parts:
            await asyncio.sleep(3600)
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = next(one for one in sent if one["type"] == "http.response.start")
    text = b"".join(one.get("body", b"") for one in sent if "body" in one)
    listed = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    return Got(start["status"], listed, text)


class Clock:
    """Clock of days that a test can set, and a clock of seconds that only goes on."""

    def __init__(self, day: date = TODAY) -> None:
        self.day, self.seconds = day, 0.0

    @property
    def settings(self) -> dict[str, Any]:
        """Return the arguments of a service that reads this clock."""
        return {"today": lambda: self.day, "monotonic": lambda: self.seconds}

    def show(self, writer: Any, day: date, hours: int) -> None:
        """Show a day for `hours` hours; in each hour a writer reads the clock."""
        self.day = day
        for _ in range(hours):
            self.seconds += 3600
            writer.follow()

    def go_on(self, writer: Any, days: int) -> None:
        """Show the next days, each for 24 hours."""
        for _ in range(days):
            self.show(writer, self.day + timedelta(days=1), 24)


class Service:
    """Collector in this process: its application without a socket, in a thread with a loop."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.registry, self.store = registry(folder), folder / "reports"
        settings.setdefault("today", lambda: TODAY)
        self.buffer = folder / "buffer"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.collector = self.build(**settings)
        self._living = self.collector.app.router.lifespan_context(self.collector.app)
        self._run(self._living.__aenter__())

    def build(self, **settings: Any) -> Any:
        """Return the service itself."""
        settings.setdefault("shuffling", Shuffling(smallest=1))
        return Collector(self.registry, self.store, self.buffer, **settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._living.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=60)

    def send(self, body: bytes, **headers: str) -> Got:
        """POST /v1/reports."""
        return self.ask("POST", "/v1/reports", body, {"content-type": MEDIA_TYPE, **headers})

    def ask(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Got:
        """Send one request, as a server would pass it on."""
        (got,) = self.ask_together([(method, path, body, headers or {})])
        return got

    def stall(self, headers: dict[str, str]) -> Got:
        """Start a POST of which no byte ever arrives."""
        return self._run(self._one("POST", "/v1/reports", None, headers))  # type: ignore[no-any-return]

    def stall_for_a_while(self) -> "Future[Got]":
        """Return the answer to a POST of which no byte ever arrives."""
        kind = {"content-type": MEDIA_TYPE}
        stalled = self._one("POST", "/v1/reports", None, kind)
        return asyncio.run_coroutine_threadsafe(stalled, self._loop)

    def ask_together(self, requests: Sequence[tuple[str, str, bytes, dict[str, str]]]) -> list[Got]:
        """Send requests at the same time."""

        async def all_of_them() -> list[Got]:
            return await asyncio.gather(*(self._one(*request) for request in requests))

        return self._run(all_of_them())  # type: ignore[no-any-return]

    async def _one(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> Got:
        return await answer(self.collector.app, method, path, body, headers)


class Process:
    """`ldp collect`, or another `command`, as an operator starts it, with a port of its own."""

    def __init__(
        self,
        folder: Path,
        *words: str,
        environment: dict[str, str] | None = None,
        command: Sequence[str] = ("collect", "--store", "reports"),
    ):
        registry(folder)
        name, *place = command
        command = [
            *(sys.executable, "-m", "ldp", name),
            *("--registry", str(folder / "metrics.toml")),
            *(word if word.startswith("-") else str(folder / word) for word in place),
            *words,
        ]
        with (folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **(environment or {})},
            )
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        self.url = first.split()[-1] if " on http" in first else ""

    def end(self, by: int = signal.SIGTERM) -> int:
        """Send a signal to the process, and return its exit status."""
        self.process.send_signal(by)
        return self.ended()

    def ended(self) -> int:
        """Wait until the process ends by itself, and return its exit status."""
        self.process.communicate(timeout=60)
        return self.process.returncode


def drain(folder: Path) -> None:
    """Move everything that waits to the store."""
    assert Process(folder, "--drain", "--write-small").ended() == 0
