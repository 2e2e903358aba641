"""Measure whether hostile senders slow a collector for others, or fill its memory.

Honest senders post batches over eight connections as fast as they are answered. They do so alone,
beside an attack from a process of its own, and alone again. Most attacks send one part of a request
without end, over one connection and over ten, and connect again at once when they are cut off. In
another attack, 16 senders post sealed batches of noise.

`python -m simulations.hostile` runs every attack against a collector of its own. It exits 1 when
the collector's memory grows by 50 MiB, or when honest senders lose half of their rate. `--only`
runs some attacks; `--seconds` is the length of each phase.
"""

import argparse
import asyncio
import multiprocessing
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import uvloop

from ldp.collection.admission import Arrival
from ldp.protocol.batch import MEDIA_TYPE, Batch, Item
from ldp.protocol.sealed_report import Content
from ldp.protocol.sealing_keys import PrivateKey, PublicKey
from ldp.registry import Registry
from simulations import campaign
from simulations.benchmarks import collector as load
from simulations.campaign import Bar
from simulations.collector import Served
from tests.command_line import settings

HONEST = load.Load(4, 8, 0.0, 0.0, False)
NOISE, NOISE_REPORTS, NOISE_SENDERS = "sealed noise", 500, 16
NOISE_BYTES = 1.8 * 2**20
"""Bytes of noise a second, of all its senders together."""
POST = "POST /v1/reports HTTP/1.1\r\nHost: x\r\n"
HEAD = f"{POST}Content-Type: {MEDIA_TYPE}\r\n"
CHUNKED = f"{HEAD}Transfer-Encoding: chunked\r\n\r\n"
ATTACKS = {
    "trailers": (f"{CHUNKED}1\r\nx\r\n0\r\n", "a: b\r\n"),
    "extensions of a chunk": (f"{CHUNKED}1", ";a=b"),
    "one trailer line": (f"{CHUNKED}1\r\nx\r\n0\r\na: ", "x"),
    "one header line": (f"{HEAD}a: ", "x"),
    "chunks of one byte": (CHUNKED, "1\r\nx\r\n"),
    "a body after 415": (f"{POST}Content-Length: 99999999999\r\n\r\n", "x"),
    "a body after 413": (f"{HEAD}Content-Length: 99999999999\r\n\r\n", "x"),
    "a body after 401": (f"{HEAD}X-Hostile: 1\r\nContent-Length: 9000000\r\n\r\n", "x"),
    "chunks after 401": (f"{HEAD}X-Hostile: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"),
    "requests in a row": ("", "GET /v1/registry HTTP/1.1\r\nHost: x\r\n\r\n"),
    "no HTTP": ("", "\x16\x03\x01"),
}
"""Beginning of a request of each attack, and what is repeated without end."""


async def admits(arrival: Arrival) -> int | None:
    """Refuse a sender who says that it is hostile."""
    return 401 if "x-hostile" in arrival.headers else None


def attack(name: str, where: tuple[str, int], item: Item, sent: Any) -> None:
    """Send one part of a request without end, over one connection after the other."""
    beginning, repeated = (text.encode("latin-1") for text in ATTACKS[name])
    block = repeated * (1 + (1 << 16) // len(repeated))
    while True:
        with suppress(OSError), socket.create_connection(where, timeout=1) as connection:
            connection.sendall(beginning)
            while True:
                sent.value += connection.send(block)


def attack_with_noise(name: str, where: tuple[str, int], item: Item, sent: Any) -> None:
    """Post sealed batches of reports that nobody can open, at one sender's part of the rate."""
    day = datetime.now(UTC).date()
    while True:
        began = time.monotonic()
        items = (item._replace(report=os.urandom(len(item.report))) for _ in range(NOISE_REPORTS))
        body = Batch(os.urandom(16), day, tuple(items)).to_bytes()
        with suppress(OSError), socket.create_connection(where, timeout=5) as connection:
            connection.sendall(f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            connection.recv(4096)
        sent.value += len(body)
        seconds = len(body) * NOISE_SENDERS / NOISE_BYTES
        time.sleep(max(0.0, began + seconds - time.monotonic()))


def attack_together(connections: int, *words: Any) -> None:
    """Attack over `connections` connections at one time, without end."""
    target = attack_with_noise if words[0] == NOISE else attack
    for _ in range(connections):
        threading.Thread(target=target, args=words).start()


class Honest:
    """Endless batches that the collector takes whole: in the clear, or sealed to a key."""

    def __init__(self, registry: Registry, key: PublicKey, is_sealed: bool) -> None:
        self._key, self._is_sealed = key, is_sealed
        self._day, self._bodies = datetime.now(UTC).date(), iter(load.Sealed(HONEST, seed=1))
        ((self._queue, queue),) = registry.queues().items()
        self._size = queue.size

    def sealed(self, item: Item) -> Item:
        """Return the same report, sealed."""
        return self._key.seal(self._queue, self._size, Content(self._day, item))

    def __iter__(self) -> Iterator[bytes]:
        for body in self._bodies:
            batch = Batch.from_bytes(body)
            items = tuple(self.sealed(item) for item in batch.items)
            yield Batch(batch.id, batch.day, items).to_bytes() if self._is_sealed else body


async def honest_rate(bodies: Iterator[bytes], where: tuple[str, int], seconds: float) -> float:
    """Return how many batches a second were acknowledged whole."""
    loop, until, took = asyncio.get_running_loop(), time.monotonic() + seconds, list[float]()
    senders = [load.Sender(bodies, until, took) for _ in range(HONEST.connections)]
    for sender in senders:
        await loop.create_connection(lambda sender=sender: sender, *where)  # type: ignore[misc]
    await asyncio.wait([sender.closed for sender in senders], timeout=seconds + 30)
    return (len(took) - sum(sender.errors for sender in senders)) / seconds


class Found(NamedTuple):
    """Result of one attack.

    It has the rates of honest batches a second before, beside and after the attack, and the
    attack's bytes a second. `grown`: growth of the collector's memory meanwhile, in MiB.
    """

    before: float
    beside: float
    after: float
    sent: float
    grown: float


def measured(name: str, connections: int, seconds: float, folder: Path) -> Found:
    """Let honest senders send alone, beside an attack, and alone again."""
    (folder / "metrics.toml").write_text(load.REGISTRY + load.METRIC.format(name="word000"))
    key = PrivateKey.make(folder / "key")
    sealed = {"sealed": [str(folder / "key")]} if name == NOISE else {}
    served = Served(folder, *settings(folder, admit="simulations.hostile:admits", **sealed))
    served.start()
    usage, parts = load.Usage(served.process.pid), urlsplit(served.url)
    where = str(parts.hostname), int(parts.port or 80)
    honest = Honest(Registry.load(served.registry_path), PublicKey(key.public), name == NOISE)
    bodies, memory, stopped = iter(honest), [0.0], threading.Event()
    item = honest.sealed(Batch.from_bytes(next(iter(load.Sealed(HONEST, seed=1)))).items[0])

    def watch() -> None:
        while not stopped.wait(0.05):
            memory.append(usage.memory_mib())

    def rate() -> float:
        return uvloop.run(honest_rate(bodies, where, seconds))

    # what the first file of the store takes, once, is no attack's
    before = rate()
    while not any(served.store.rglob("*.parquet")):
        before = rate()
    grown = -usage.memory_mib()
    context = multiprocessing.get_context("spawn")
    sent = context.Value("d", lock=False)
    words = (connections, name, where, item, sent)
    attacking = context.Process(target=attack_together, args=words)
    watching = threading.Thread(target=watch)
    watching.start()
    attacking.start()
    while not sent.value:
        time.sleep(0.05)
    bytes_before = sent.value
    beside = rate()
    bytes_sent = sent.value - bytes_before
    attacking.kill()
    attacking.join()
    stopped.set()
    watching.join()
    after = rate()
    assert served.end() == 0
    return Found(before, beside, after, bytes_sent / seconds, grown + max(memory))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=[*ATTACKS, NOISE], nargs="+", default=[*ATTACKS, NOISE])
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each phase")
    parser.add_argument("--out", type=Path, help="JSON file")
    asked, started, bars = parser.parse_args(), campaign.provenance(), list[Bar]()
    for name in asked.only:
        for connections in (NOISE_SENDERS,) if name == NOISE else (1, 10):
            with tempfile.TemporaryDirectory() as folder:
                found = measured(name, connections, asked.seconds, Path(folder))
            what, alone = f"{name}, {connections}", (found.before + found.after) / 2
            print(
                f"     {what}: {found.before:.0f}, {found.beside:.0f}, {found.after:.0f} batches a "
                f"second before, beside, after; {found.sent / 2**20:.2f} MiB a second sent",
                flush=True,
            )
            share, grown = found.beside / alone, found.grown
            bars += [
                Bar(
                    f"{what}: share of the honest rate that is left", share, ">= 0.5", share >= 0.5
                ),
                Bar(f"{what}: memory of the collector grew, MiB", grown, "< 50", grown < 50),
            ]
    status = campaign.shown(bars)
    campaign.write(asked.out, started, {"seconds": asked.seconds, "bars": bars})
    sys.exit(status)


if __name__ == "__main__":
    main()
