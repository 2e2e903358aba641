"""What the tests of an app need: a clock that moves, known bits, and what would leave, in words.

A device here draws with bits that its seed decides, so it sends to memory, to a folder, or, with a
registry for development, to `ldp collect --dev` on this machine, and nowhere else. With
`pytest_plugins = ["ldp.client.pytest_plugin"]` tests have one as the fixture `ldp_device`.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from ldp.client.destinations import Collector, Destination, Folder
from ldp.client.periods import ending
from ldp.client.runtime import Client
from ldp.errors import ParameterError
from ldp.protocol.batch import Batch
from ldp.protocol.randomness import SeededBits
from ldp.registry import Registry
from ldp.registry.answers import Statement, StatementReader


class Clock:
    """Clock that stands still until it is moved; it starts `now`, UTC, or at the system's time."""

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
    """Memory of all that is sent on to another destination."""

    def __init__(self, onward: Destination) -> None:
        super().__init__()
        self._onward = onward

    def send(self, identity: bytes, body: bytes) -> int:
        super().send(identity, body)
        return self._onward.send(identity, body)


class _KnownBits(SeededBits):
    """Bits that a seed decides, which may not leave this machine."""


class Device:
    """Device of an app's tests: its `client` raises instead of keeping silent, its `clock` moves by
    `advance`, its bits follow from `seed`.

    `folder`: of the device's file. `registry`: metrics.toml, or one that is loaded. `destination`:
    a `Folder`, or with a registry for development a `Collector` on this machine; memory without.
    `has_consent`: whether the owner agreed. Raises ParameterError for another destination.
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
        self._memory = _Copying(destination)
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
            self.client.grant()

    def sealed(self) -> list[Statement]:
        """Move the clock to the end of the longest period that runs, and return what leaves the
        device then, in the words of the registry; nothing of what was returned before."""
        now = int(self.clock.now.timestamp())
        windows = [group.caps.window for group in self.registry.groups.values()]
        end = max(ending(now, window) for window in windows)
        self.clock.advance(timedelta(seconds=end - now))
        known = {*self._memory.batches}
        while self.client.upload().acknowledged:
            pass
        bodies = [body for key, body in self._memory.batches.items() if key not in known]
        return [self._reader.read(item) for body in bodies for item in Batch.from_bytes(body).items]

    def __enter__(self) -> "Device":
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
