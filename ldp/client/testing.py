"""Device for the tests of an app: its clock is set, its bits are known, its reports are in words.

It draws with bits that its seed decides. So it sends to memory, to a folder, or, with a registry
for development, to `ldp collect --dev` on this machine, and nowhere else. With `pytest_plugins =
["ldp.client.pytest_plugin"]` tests get it as the fixture `ldp_device`.
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

from ldp.client.destinations import Collector, Folder
from ldp.client.periods import ending
from ldp.client.runtime import Client
from ldp.errors import ParameterError
from ldp.protocol.batch import Batch, Destination, Item
from ldp.protocol.randomness import SeededBits
from ldp.protocol.sealed_report import OVERHEAD, QUEUE, SEALED_VERSION, Content
from ldp.registry import Registry
from ldp.registry.answers import Statement, StatementReader


class Clock:
    """Clock that stands still until it is moved. It starts at `now`, by default the system's time
    in UTC."""

    def __init__(self, now: datetime | None = None) -> None:
        self.now = now or datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, span: timedelta) -> None:
        """Move the clock by a length of time."""
        self.now += span


class Memory:
    """Destination that keeps what it gets: `batches`, bytes by id."""

    is_local = True

    def __init__(self) -> None:
        self.batches: dict[bytes, bytes] = {}

    def send(self, identity: bytes, body: bytes) -> int:
        """Keep a batch and return 0."""
        self.batches[identity] = body
        return 0


class _Copying(Memory):
    """Memory that keeps every batch and also sends it to another destination."""

    def __init__(self, onward: Destination) -> None:
        super().__init__()
        self._onward = onward

    def send(self, identity: bytes, body: bytes) -> int:
        super().send(identity, body)
        return self._onward.send(identity, body)


class _StandInKey:
    """Stand-in for a collector's key. A sealed report of it is random bytes, of the length that a
    collector's key gives, so that a client that opens the device's file later learns nothing from
    them. `contents`: what was sealed, by these bytes, in memory only."""

    contents: ClassVar[dict[bytes, Content]] = {}

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint

    def seal(self, queue: str, size: int, content: Content) -> Item:
        """Return an item of random bytes in place of a report's."""
        data = os.urandom(len(content.to_bytes(size)) + OVERHEAD)
        self.contents[data] = content
        return Item(QUEUE + queue, SEALED_VERSION, data)


class _Relaying(_Copying):
    """Copying destination in place of a relay, for a registry with a group that trusts a
    shuffler."""

    has_relay = True

    def __init__(self, onward: Destination, fingerprint: str) -> None:
        super().__init__(onward)
        self.key = _StandInKey(fingerprint)


class _KnownBits(SeededBits):
    """Bits that a seed decides, which may not leave this machine."""


class Device:
    """Device of an app's tests: its `client` raises errors, its `clock` moves by `advance`, its
    bits follow from `seed`.

    `folder`: folder of the device's file. `registry`: path of metrics.toml, or a loaded registry.
    `destination`: a `Memory` (default), a `Folder`, or with a registry for development a
    `Collector` on this machine. A registry with a group that has trust = "shuffler" needs a
    `Memory`, which then stands for the relay too. `has_consent`: whether the owner agreed, also to
    each such group. Raises ParameterError for another destination.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        registry: str | Path | Registry = "metrics.toml",
        destination: Folder | Collector | Memory | None = None,
        clock: Clock | None = None,
        seed: bytes = b"test",
        has_consent: bool = True,
    ) -> None:
        self.registry = registry if isinstance(registry, Registry) else Registry.load(registry)
        destination = Memory() if destination is None else destination
        is_local = isinstance(destination, Collector) and destination.is_local
        may_collect = is_local and self.registry.development
        if not (isinstance(destination, Folder | Memory) or may_collect):
            raise ParameterError(
                "a device of tests sends to memory or a folder, and to Collector("
                '"http://127.0.0.1:8787") only with a registry that has development = true'
            )
        self.clock = clock or Clock()
        trusting = [name for name, group in self.registry.groups.items() if group.needs_shuffler]
        if trusting and not isinstance(destination, Memory):
            raise ParameterError(
                "a device of tests sends messages for a shuffler to memory only: no destination"
            )
        self._memory = (
            _Relaying(destination, self.registry.sealing_keys[0])
            if trusting
            else _Copying(destination)
        )
        self._reader = StatementReader(self.registry)
        self.client = Client(
            Path(folder) / "device.ldp",
            registry=self.registry,
            destination=self._memory,
            clock=self.clock,
            bits=_KnownBits(seed),
            jitter=timedelta(0),
            witness=False,
            strict=True,
        )
        if has_consent:
            self.client.grant(trusting)

    def sealed(self) -> list[Statement]:
        """Move the clock to the latest end of the current periods, and return what the device
        sends: a statement for each report, in the words of the registry. A record for a shuffler
        has a statement for each of its messages. Statements of earlier calls are left out."""
        now = int(self.clock.now.timestamp())
        windows = [group.caps.window for group in self.registry.groups.values()]
        end = max(ending(now, window) for window in windows)
        self.clock.advance(timedelta(seconds=end - now))
        known = {*self._memory.batches}
        while self.client.upload().acknowledged:
            pass
        bodies = [body for key, body in self._memory.batches.items() if key not in known]
        items = [_opened(item) for body in bodies for item in Batch.from_bytes(body).items]
        return [self._reader.read(item) for item in items]

    def __enter__(self) -> "Device":
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()


def _opened(item: Item) -> Item:
    """Return the report that a `_StandInKey` sealed in this process, and any other as it is."""
    content = _StandInKey.contents.get(item.report)
    return content.item if content else item
