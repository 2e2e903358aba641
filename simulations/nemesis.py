"""Measure whether a single fault loses or doubles acknowledged reports, or stops others for long.

Two collectors divide the ids of batches, behind a real nginx with the configuration of
docs/operating.md. Senders and real devices repeat each batch until it is acknowledged. Meanwhile a
seed draws faults, one after the other: kills, pauses, partitions, lost answers, clocks of other
years, disks that are full, slow or cannot sync, a hostile sender, a range that moves to another
collector. Other faults come while nobody sends to their collector: damaged files, restored copies
and a wrong registry. The collector must refuse these or count what they damage.

`python -m simulations.nemesis` does so for an hour. Then it compares each report of the stores with
each that was acknowledged. It exits 1 when one differs. It also exits 1 when a healthy collector
answered fewer than 99 % of its senders, or was silent for 30 seconds. The twin has nginx's defaults
before collectors that do not divide ids; it must count some reports twice.
"""

import argparse
import asyncio
import getpass
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from ldp.client import Client
from ldp.client import Collector as Destination
from ldp.protocol.batch import ID_HEADER, MEDIA_TYPE, Batch, Item
from ldp.registry import Registry
from simulations import campaign
from simulations.campaign import Bar
from simulations.collector import BY_THE_FILE, VALUES, Served
from tests.command_line import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parent.parent / "docs" / "operating.md"
PARTS = {"low": "0-7", "high": "8-f"}
"""Ids of each collector, as the page divides them."""
PORTS = {"low": "127.0.0.1:8787", "high": "127.0.0.1:8797"}
"""Addresses of the collectors on the page."""
RECOVERY_SECONDS, LEAST_SHARE = 30.0, 0.99
SHORT, LONG = (2.0, 20.0), (5.0, 60.0)
"""Bounds of the seconds that a fault lasts."""
REST_SECONDS = 3.0
HOSTILE_BYTES = 10 << 20
"""Bytes a second of a hostile sender."""
YEARS = timedelta(days=3650)
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
Report = tuple[str, bytes]
"""Name of a metric, and a report without its header."""
HEADER_BYTES = 10


class Link:
    """Network between nginx and a collector.

    `mode`: "open"; "cut": bytes wait until the link is open again; "mute": bytes of the collector
    are dropped, and their connection is closed.
    """

    def __init__(self, address: str) -> None:
        self.host, _, port = address.partition(":")
        self.port, self.mode = int(port), "open"
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        serving = asyncio.start_server(self._serve, "127.0.0.1", 0)
        server = asyncio.run_coroutine_threadsafe(serving, self._loop).result(10)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(self.host, self.port)
        except OSError:
            writer.close()
            return
        there = asyncio.create_task(self._pump(reader, far_writer, False))
        back = asyncio.create_task(self._pump(far_reader, writer, True))
        await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
        for task, sink in ((there, writer), (back, far_writer)):
            task.cancel()
            sink.close()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, is_answer: bool
    ) -> None:
        with suppress(OSError):
            while data := await source.read(1 << 16):
                while self.mode == "cut":
                    await asyncio.sleep(0.05)
                if self.mode == "mute" and is_answer:
                    return
                sink.write(data)
                await sink.drain()


class Part:
    """Collector with its ids, its folder, its disk and clock, and the link to it."""

    def __init__(self, name: str, folder: Path, library: Path) -> None:
        self.name, self.folder = name, folder
        folder.mkdir()
        self.clock, self.disk = folder / "clock", folder / "disk"
        self.show(timedelta(0))
        self.disk.write_text("o")
        self.environment = {
            "CLOCK_OF_A_FAULT": str(self.clock),
            "LD_PRELOAD": str(library),
            "FAULTY_DISK": str(self.disk),
        }
        self.serve()

    def serve(self) -> None:
        """Let the collector of this folder listen at a new address, with a new link."""
        self.served = Served(
            self.folder, *settings(self.folder, ids=PARTS[self.name], shuffle_least=500)
        )
        self.start()
        self.link = Link(self.served.url.removeprefix("http://"))

    def start(self) -> None:
        """Start the collector with its clock and disk."""
        self.served.start(self.environment, code=("-c", BY_THE_FILE))

    def fail(self, mode: str) -> None:
        """Let the disk fail in this way; the file is changed in place, as collectors have it
        mapped."""
        with self.disk.open("r+b") as file:
            file.write(mode.encode())

    def show(self, ahead: timedelta) -> None:
        """Set the clock ahead of the right one by `ahead`."""
        part = self.clock.with_suffix(".part")
        part.write_text((datetime.now(UTC) + ahead).date().isoformat())
        part.replace(self.clock)


class Answered(NamedTuple):
    """Answer to an attempt to send a batch.

    `status`: 0 if there was no answer.
    """

    part: str
    began: float
    ended: float
    status: int


@dataclass
class World:
    """State that senders and faults share.

    `reports`: acknowledged reports; `refused`: refused reports by code, which are never counted.
    """

    front: str = ""
    registry: Registry = field(init=False)
    answers: list[Answered] = field(default_factory=list)
    reports: Counter[Report] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    odd: Counter[int] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_over: threading.Event = field(default_factory=threading.Event)

    def acknowledge(self, items: Iterable[Item], refused: Iterable[dict[str, Any]] = ()) -> None:
        """Note the reports of a batch, except those that were refused."""
        codes = {entry["item"]: entry["code"] for entry in refused}
        with self.lock:
            self.refused.update(codes.values())
            for number, item in enumerate(items):
                if number not in codes:
                    self.reports[item.metric, item.report[HEADER_BYTES:]] += 1


def send(world: World, part: str, random: np.random.Generator) -> None:
    """Send batches whose ids belong to a part, each until it is acknowledged, until the run
    ends."""
    encoders = {name: world.registry.metric(name).mechanism.encoder() for name in VALUES}
    first = int(PARTS[part][0], 16)
    while not world.is_over.is_set():
        identity = bytes([(first + int(random.integers(8))) << 4]) + os.urandom(15)
        items = tuple(
            Item(name, world.registry.metric(name).version, encoders[name].encode(VALUES[name]))
            for name in random.choice(list(VALUES), int(random.integers(1, 9)))
        )
        body = Batch(identity, datetime.now(UTC).date(), items).to_bytes()
        while True:
            began = time.monotonic()
            status, answer = post(world.front, identity, body)
            world.answers.append(Answered(part, began, time.monotonic(), status))
            if status == 202:
                world.acknowledge(items, json.loads(answer)["refused"])
                break
            if status not in (0, 429, 502, 503, 504):
                world.odd[status] += 1
            time.sleep(0.2)
        time.sleep(0.1)


def post(
    address: str, identity: bytes, body: bytes, method: str = "POST", seconds: float = 40.0
) -> tuple[int, bytes]:
    """Return the status and the body of the answer to a batch; the status is 0 without an
    answer."""
    headers = {"Content-Type": MEDIA_TYPE, ID_HEADER: identity.hex()}
    path = "/v1/reports" + (f"/{identity.hex()}" if method == "PUT" else "")
    connection = HTTPConnection(address, timeout=seconds)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, HTTPException):
        return 0, b""
    finally:
        connection.close()


class Noted:
    """Destination of a device that notes what was acknowledged."""

    is_local = True

    def __init__(self, world: World) -> None:
        self._world = world

    def send(self, identity: bytes, body: bytes) -> int:
        refused = Destination(f"http://{self._world.front}").send(identity, body)
        self._world.acknowledge(Batch.from_bytes(body).items)
        return refused


def use_devices(world: World, folder: Path, settings: Path) -> None:
    """Let new devices, one after the other, each record a value and send it, until the run ends."""
    number = 0
    while not world.is_over.is_set():
        number += 1
        days = [datetime.now(UTC) - timedelta(days=1)]
        with Client(
            folder / f"{number}.ldp",
            registry=settings,
            destination=Noted(world),
            clock=partial(days.__getitem__, -1),
            jitter=timedelta(0),
            strict=True,
        ) as client:
            client.grant()
            client.record("city", "Oslo")
            days.append(datetime.now(UTC))
            while not client.upload().acknowledged:
                time.sleep(0.2)
                days.append(days[-1] + timedelta(minutes=2))
        time.sleep(0.5)


def stores(folders: Iterable[Path]) -> Counter[Report]:
    """Return every report in the files of stores, set aside or not; the package reads none of
    them."""
    reports = Counter[Report]()
    for folder in folders:
        for path in folder.rglob("*.parquet"):
            (metric,) = (
                part.removeprefix("metric=") for part in path.parts if part.startswith("metric=")
            )
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                table = file.read()
            rows, payloads = (table.column(name).to_pylist() for name in ("row", "payload"))
            for row, payload in zip(rows, payloads, strict=True):
                reports[metric, row.to_bytes(1, "little") * (metric == "word") + payload] += 1
    return reports


def nginx_program() -> str | None:
    """Return the path of nginx (Debian's package nginx-light), or None if it is not installed."""
    return shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")


@contextmanager
def nginx(folder: Path, block: str) -> "Iterator[tuple[str, Callable[[str], None]]]":
    """Run nginx on a free port; yield its address and a function that loads another
    configuration."""
    program = nginx_program() or "nginx"
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [program, "-p", str(folder), "-c", "nginx.conf"]

    def write(text: str) -> None:
        lines = re.sub(r"(error_log) \S+", r"\1 log", text.replace("443 ssl", address))
        paths = "".join(f"{name}_temp_path {name};\n" for name in TEMPORARY)
        (folder / "nginx.conf").write_text(
            f"error_log log crit;\npid nginx.pid;\ndaemon off;\nuser {getpass.getuser()};\n"
            f"events {{}}\nhttp {{\n{paths}{lines}}}\n"
        )

    def reload(text: str) -> None:
        write(text)
        subprocess.run([*command, "-s", "reload"], check=True, capture_output=True)

    write(block)
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        while post(address, bytes(16), b"")[0] == 0:
            time.sleep(0.05)
        try:
            yield address, reload
        finally:
            process.terminate()


class Nemesis:
    """Faults of a world.

    Each fault is a method that begins it, waits and ends it. The method returns what was not as it
    should be, "" if nothing was.
    """

    def __init__(self, world: World, parts: dict[str, Part], seed: int, folder: Path) -> None:
        self.world, self.parts, self.folder = world, parts, folder
        self.random = np.random.default_rng(seed)
        self.outcomes = Counter[str]()
        self.reload: Callable[[str], None] = lambda _: None

    def last(self, bounds: tuple[float, float]) -> None:
        """Let a fault last for a random time within bounds."""
        time.sleep(self.random.uniform(*bounds))

    def kill(self, part: Part) -> str:
        part.served.end(signal.SIGKILL)
        self.last((0.0, 10.0))
        part.start()
        return ""

    def pause(self, part: Part) -> str:
        part.served.process.send_signal(signal.SIGSTOP)
        self.last(LONG)
        part.served.process.send_signal(signal.SIGCONT)
        return ""

    def partition(self, part: Part) -> str:
        part.link.mode = "cut"
        self.last(LONG)
        part.link.mode = "open"
        return ""

    def lost_answers(self, part: Part) -> str:
        part.link.mode = "mute"
        self.last(SHORT)
        part.link.mode = "open"
        return ""

    def skew(self, part: Part) -> str:
        part.show(self.random.uniform(-1, 1) * YEARS)
        self.last(LONG)
        if self.random.random() < 0.5:
            self.kill(part)
            self.last(SHORT)
        part.show(timedelta(0))
        return ""

    def _fail_disk(self, part: Part, mode: str) -> str:
        part.fail(mode)
        self.last(SHORT)
        part.fail("o")
        is_alive = part.served.process.poll() is None
        if not is_alive:
            part.start()
        return "" if is_alive else "a faulty disk ended the collector"

    def full_disk(self, part: Part) -> str:
        return self._fail_disk(part, "f")

    def failing_sync(self, part: Part) -> str:
        return self._fail_disk(part, "s")

    def slow_disk(self, part: Part) -> str:
        return self._fail_disk(part, "w")

    def hostile_sender(self, part: Part) -> str:
        """Send bodies of noise at HOSTILE_BYTES a second: whole, cut or without end.

        A connection that is closed is opened again.
        """
        ends = time.monotonic() + self.random.uniform(*SHORT)
        noise, first = os.urandom(1 << 19), PARTS[part.name][0]
        host, _, port = self.world.front.partition(":")
        while (began := time.monotonic()) < ends:
            size = int(self.random.choice([1 << 19, 1 << 21, 1 << 30]))
            head = (
                f"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Type: {MEDIA_TYPE}\r\n"
                f"{ID_HEADER}: {first}{os.urandom(16).hex()[1:]}\r\nContent-Length: {size}\r\n\r\n"
            )
            with suppress(OSError), socket.create_connection((host, int(port)), 5) as connection:
                connection.sendall(head.encode() + noise)
            time.sleep(max(0.0, began + len(noise) / HOSTILE_BYTES - time.monotonic()))
        return ""

    def moved(self, part: Part) -> str:
        """Move the folder of a range to another collector, and nginx to its address."""
        part.served.end()
        place = self.folder / f"{part.name}-{self.random.integers(1 << 30)}"
        part.folder.rename(place)
        part.folder = place
        part.clock, part.disk = place / "clock", place / "disk"
        part.environment |= {"CLOCK_OF_A_FAULT": str(part.clock), "FAULTY_DISK": str(part.disk)}
        part.serve()
        self.reload(configuration(self.parts))
        return ""

    def damaged_file(self, part: Part) -> str:
        """Damage a copy of a killed collector's folder.

        The collector must refuse the copy, or count as damaged exactly the reports that are
        missing.
        """
        part.served.end(signal.SIGKILL)
        whole, damaged = self.folder / "whole", self.folder / "damaged"
        for copy in (whole, damaged):
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(part.folder, copy)
        part.start()
        files = [path for path in sorted(damaged.rglob("buffer.db*")) if path.stat().st_size]
        path = files[int(self.random.integers(len(files)))]
        data = bytearray(path.read_bytes())
        if self.random.random() < 0.3:
            del data[int(self.random.integers(len(data))) :]
        else:
            at = int(self.random.integers(len(data)))
            data[at : at + 256] = os.urandom(len(data[at : at + 256]))
        path.write_bytes(data)
        self.drain(part, whole)
        status, words = self.drain(part, damaged)
        truth, found = stores([whole / "reports"]), stores([damaged / "reports"])
        lost, extra = (truth - found).total(), (found - truth).total()
        said = sum(int(number) for number in re.findall(r"(\d+) reports of \w+ are damaged", words))
        if "Traceback" in words or status not in (0, 2):
            return f"{path.name}: status {status}: {words.strip().splitlines()[-1:]}"
        self.outcomes[
            f"damaged file: {'refused' if status else 'counted' if said else 'whole'}"
        ] += 1
        is_right = bool(status) or (lost, extra) == (said, 0)
        return "" if is_right else f"{path.name}: {lost} lost, {extra} too many, {said} counted"

    def drain(self, part: Part, folder: Path) -> tuple[int, str]:
        """Move all that waits in a folder to its store; return the exit status and the output."""
        command = [sys.executable, "-m", "ldp", "collect", "--registry", "metrics.toml"]
        command += ["--store", "reports", *settings(folder, ids=PARTS[part.name])]
        command += ["--drain", "--write-small"]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
        )
        return done.returncode, done.stdout + done.stderr

    def _must_refuse(self, part: Part, what: str) -> str:
        """Start the collector of a part; return what is wrong unless it refuses to start."""
        try:
            part.start()
        except RuntimeError:
            part.served.process.communicate()
            self.outcomes[f"{what}: refused"] += 1
            return ""
        part.served.end(signal.SIGKILL)
        return f"{what} was not refused"

    def _restored(self, part: Part, name: str) -> str:
        """Put an old copy in place of newer files; then put the newest files back."""
        part.served.end(signal.SIGKILL)
        place, copy, newest = (part.folder / f"{name}{end}" for end in ("", ".copy", ".newest"))
        shutil.copytree(place, copy)
        part.start()
        self.last((5.0, 15.0))
        part.served.end(signal.SIGKILL)
        place.rename(newest)
        copy.rename(place)
        wrong = self._must_refuse(part, f"restored {name}")
        shutil.rmtree(place)
        newest.rename(place)
        part.start()
        return wrong

    def restored_buffer(self, part: Part) -> str:
        return self._restored(part, "reports.buffer")

    def restored_store(self, part: Part) -> str:
        return self._restored(part, "reports")

    def wrong_registry(self, part: Part) -> str:
        """Give a collector a wrong registry.

        It must refuse another mechanism under the same version. Without a metric, it must refuse
        that metric's reports one by one, and tell the senders.
        """
        part.served.end(signal.SIGKILL)
        path = part.served.registry_path
        right = path.read_text()
        path.write_text(right.replace("epsilon = 4.0", "epsilon = 2.0", 1))
        wrong = self._must_refuse(part, "wrong registry")
        path.write_text(right.partition("[metric.word]")[0])
        part.start()
        self.last(SHORT)
        part.served.end(signal.SIGKILL)
        path.write_text(right)
        part.start()
        return wrong


Fault = Callable[[Nemesis, Part], str]
FAULTS: tuple[Fault, ...] = tuple(
    getattr(Nemesis, name)
    for name in (
        *("kill", "pause", "partition", "lost_answers", "skew", "full_disk", "failing_sync"),
        *("slow_disk", "hostile_sender", "moved", "damaged_file", "restored_buffer"),
        *("restored_store", "wrong_registry"),
    )
)
AT_ALL = {Nemesis.hostile_sender}
"""Faults in which both collectors are healthy."""


def configuration(parts: dict[str, Part]) -> str:
    """Return the page's configuration of nginx for the addresses of these parts."""
    blocks = re.findall(r"^```nginx\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    (text,) = (block for block in blocks if "map" in block)
    for name, part in parts.items():
        text = text.replace(PORTS[name], part.link.address)
    return str(text)


def compiled(folder: Path) -> Path:
    """Return the library of the faulty disk; raise OSError without a C compiler."""
    library, source = folder / "faulty_disk.so", Path(__file__).with_name("faulty_disk.c")
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


class Progress(NamedTuple):
    """Answers of healthy collectors during one fault.

    `recovery`: seconds from the end of the fault until its collector answered 202.
    """

    fault: str
    seconds: float
    answered: int
    share: float
    silence: float
    recovery: float


def progress(world: World, fault: str, part: str | None, began: float, ended: float) -> Progress:
    """Return how healthy collectors answered from the beginning of a fault until now.

    `part`: the collector with the fault.
    """
    now = time.monotonic()
    during = [answer for answer in world.answers[:] if answer.ended >= began]
    healthy = [answer for answer in during if answer.part != part and answer.began >= began]
    share = sum(answer.status == 202 for answer in healthy) / max(1, len(healthy))
    silences = [0.0]
    for name in {*PARTS} - {part}:
        times = [answer.ended for answer in during if answer.part == name and answer.status == 202]
        silences += np.diff([began, *sorted(times), now]).tolist()
    recovered = [answer.ended for answer in during if answer.part == part and answer.status == 202]
    recovery = min((time for time in recovered if time > ended), default=now) - ended
    return Progress(
        fault, ended - began, len(healthy), share, max(silences), recovery if part else 0.0
    )


def run(
    minutes: float, seed: int, folder: Path, faults: Sequence[Fault] = FAULTS
) -> tuple[list[Bar], dict[str, Any]]:
    """Draw some of `faults` for `minutes` minutes, then compare stored with acknowledged
    reports."""
    library, world = compiled(folder), World()
    parts = {name: Part(name, folder / name, library) for name in PARTS}
    settings = folder / "metrics.toml"
    shutil.copy(parts["low"].served.registry_path, settings)
    world.registry = Registry.load(settings)
    (folder / "devices").mkdir()
    nemesis = Nemesis(world, parts, seed, folder)
    said, wrong = list[Progress](), list[str]()
    with ExitStack() as stack:
        (folder / "nginx").mkdir()
        world.front, nemesis.reload = stack.enter_context(
            nginx(folder / "nginx", configuration(parts))
        )
        threads = [
            threading.Thread(target=send, args=(world, part, np.random.default_rng([seed, number])))
            for number, part in enumerate([*PARTS] * 3)
        ]
        threads.append(
            threading.Thread(target=use_devices, args=(world, folder / "devices", settings))
        )
        for thread in threads:
            thread.start()
        time.sleep(REST_SECONDS)
        ends = time.monotonic() + 60 * minutes
        while time.monotonic() < ends:
            fault = faults[int(nemesis.random.integers(len(faults)))]
            part = parts[str(nemesis.random.choice([*PARTS]))]
            began = time.monotonic()
            outcome = fault(nemesis, part)
            if outcome:
                wrong.append(f"{fault.__name__}: {outcome}")
            ended, target = time.monotonic(), None if fault in AT_ALL else part.name
            while True:
                time.sleep(REST_SECONDS)
                seen = progress(world, fault.__name__, target, began, ended)
                recovered = seen.recovery < time.monotonic() - ended - REST_SECONDS / 2
                if recovered or time.monotonic() > ended + 2 * RECOVERY_SECONDS:
                    break
            print(f"     {part.name} {seen} {outcome}", flush=True)
            said.append(seen)
        world.is_over.set()
        for thread in threads:
            thread.join(120)
        alive = sum(thread.is_alive() for thread in threads)
        for part in parts.values():
            part.served.end()
            status, words = nemesis.drain(part, part.folder)
            if status:
                wrong.append(words)
    found = stores([part.folder / "reports" for part in parts.values()])
    lost, extra = (world.reports - found).total(), (found - world.reports).total()
    share = min(seen.share for seen in said if seen.answered >= 20)
    silence = max(seen.silence for seen in said)
    recovery = max(seen.recovery for seen in said)
    what = f"{len(said)} faults, {world.reports.total():,} reports"
    bars = [
        Bar(f"{what}: lost", lost, "0", lost == 0),
        Bar(f"{what}: counted twice", extra, "0", extra == 0),
        Bar("senders that never ended", alive, "0", alive == 0),
        Bar("outcomes that should not be", len(wrong), "0", not wrong),
        Bar("answers 400 to 499 but 429", world.odd.total(), "0", not world.odd),
        Bar("least share answered 202", share, f">= {LEAST_SHARE}", share >= LEAST_SHARE),
        Bar("longest silence of a healthy collector, s", silence, "<= 30", silence <= 30),
        Bar("longest recovery after a fault, s", recovery, "<= 30", recovery <= 30),
    ]
    return bars, {
        "faults": Counter(seen.fault for seen in said),
        "outcomes": nemesis.outcomes,
        "wrong": wrong,
        "refused": world.refused,
        "odd": {str(status): number for status, number in world.odd.items()},
        "progress": [seen._asdict() for seen in said],
    }


def twice(folder: Path, batches: int, *ids: str) -> int:
    """Return how many reports are counted twice behind nginx with its defaults.

    nginx then passes a batch on to the other collector when one is paused while it syncs. `ids`:
    range of ids of each collector, by default all ids.
    """
    folder.mkdir()
    disk, library = folder / "disk", compiled(folder)
    disk.write_text("w")
    collectors, sent = list[Served](), Counter[Report]()
    for name, some in zip(PARTS, ids or ("0-f", "0-f"), strict=True):
        (folder / name).mkdir()
        collectors.append(Served(folder / name, *settings(folder / name, ids=some)))
        collectors[-1].start({"LD_PRELOAD": str(library), "FAULTY_DISK": str(disk)})
    registry = Registry.load(collectors[0].registry_path)
    servers = "".join(f"server {one.url.removeprefix('http://')};" for one in collectors)
    block = (
        f"upstream all {{ {servers} }}\nserver {{ listen 443 ssl;\n"
        "proxy_read_timeout 2s; location / { proxy_pass http://all; } }\n"
    )
    encoder = registry.metric("word").mechanism.encoder()
    bodies = list[tuple[bytes, bytes]]()
    for _ in range(batches):
        item, identity = Item("word", 1, encoder.encode("hello")), os.urandom(16)
        sent[item.metric, item.report[HEADER_BYTES:]] += 1
        body = Batch(identity, datetime.now(UTC).date(), (item,)).to_bytes()
        bodies.append((identity, body))
    paused = collectors[0].process
    with nginx(folder, block) as (front, _), ThreadPoolExecutor(batches) as pool:
        threading.Timer(0.2, paused.send_signal, (signal.SIGSTOP,)).start()
        [*pool.map(lambda sealed: post(front, sealed[0], sealed[1], "PUT"), bodies)]
        paused.send_signal(signal.SIGCONT)
    time.sleep(1)
    for one, some in zip(collectors, ids or ("0-f", "0-f"), strict=True):
        one.end()
        command = [sys.executable, "-m", "ldp", *one._command(), *settings(folder, ids=some)]
        subprocess.run([*command, "--drain", "--write-small"], check=True, capture_output=True)
    return (stores([one.store for one in collectors]) - sent).total()


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulations.nemesis", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="of faults")
    parser.add_argument("--seed", type=int, default=1, help="of faults and batches")
    parser.add_argument("--batches", type=int, default=12, help="of the twin")
    parser.add_argument("--out", type=Path, help="write the result there, as JSON")
    options, provenance = parser.parse_args(), campaign.provenance()
    with tempfile.TemporaryDirectory() as name:
        bars, result = run(options.minutes, options.seed, Path(name))
        doubled = twice(Path(name) / "defaults", options.batches)
        divided = twice(Path(name) / "divided", options.batches, *PARTS.values())
    what = "nginx's defaults and PUT: counted twice"
    bars.append(Bar(f"{what}, without ids", doubled, "> 0", doubled > 0))
    bars.append(Bar(f"{what}, with ids", divided, "0", divided == 0))
    campaign.write(options.out, provenance, {"seed": options.seed, "bars": bars, **result})
    return campaign.shown(bars)


if __name__ == "__main__":
    sys.exit(main())
