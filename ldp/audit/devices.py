"""Devices of the audit of a client: real clients with the audit's clock, bits and destination."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ldp.arrays import Generator
from ldp.client import Recorded
from ldp.errors import ReportError
from ldp.protocol.batch import Batch
from ldp.protocol.hashing import Value
from ldp.registry import Registry

WINDOW = timedelta(days=1)
HOURS = 5
"""Hours by which a period begins later in the day: its hour is a remainder of its number."""
MESSAGES = "messages"
"""Metric of messages for a shuffler."""
MakesClient = Callable[..., Any]
"""Function that makes a client from the arguments of `ldp.client.Client`."""


class AuditedDevice:
    """A client in a folder of its own, whose name is its `number`, and the batches that left it.
    `mistakes`: number of batches with another id than they were sent under or a day that is not
    today, and of declined records."""

    def __init__(
        self,
        home: Path,
        registry: Registry,
        bits: "GeneratedBits",
        make: MakesClient,
        start: datetime,
    ) -> None:
        home.mkdir()
        self.path, self.number = home / "client.db", int(home.name)
        self.batches: list[Batch] = []
        self.mistakes = 0
        self._now = start
        self._client = make(
            self.path,
            registry=registry,
            destination=self,
            clock=lambda: self._now,
            bits=bits,
            jitter=timedelta(0),
            witness=home / "witness",
        )
        self._client.grant()

    def send(self, identity: bytes, body: bytes) -> int:
        batch = Batch.from_bytes(body)
        self.mistakes += identity != batch.id or batch.day != self._now.date()
        self.batches.append(batch)
        return 0

    def period(self, records: Sequence[tuple[str, Value]]) -> list[tuple[str, bytes]]:
        """Record `records`, wait until the period is over and upload. Return metric and report of
        everything that left, in order."""
        before = len(self.batches)
        for metric, value in records:
            self.mistakes += not isinstance(self._client.record(metric, value), Recorded)
        hour = (self._now.hour + HOURS) % 24
        self._now = (self._now + WINDOW).replace(hour=hour)
        why = self._client.upload().why
        if why.startswith("ReportError"):
            raise ReportError("a batch cannot be read")
        return [
            (item.metric, item.report) for batch in self.batches[before:] for item in batch.items
        ]

    def reports(
        self, records: Sequence[tuple[str, Value]], sizes: Mapping[str, int]
    ) -> dict[str, list[bytes]]:
        """Return the reports of a period by metric. Raises ReportError unless one batch has them,
        and their numbers are those in `sizes`."""
        sent, before = defaultdict[str, list[bytes]](list), len(self.batches)
        for name, report in self.period(records):
            sent[name].append(report)
        numbers = {name: len(some) for name, some in sent.items()}
        if len(self.batches) != before + 1 or numbers != sizes:
            raise ReportError("a period is not one batch of its reports")
        return sent

    def secret(self) -> bytes:
        path = self.path.with_name(f"{self.path.name}.secret")
        return path.read_bytes() if path.exists() else b""

    def close(self) -> None:
        self._client.close()


class SealingDevice(AuditedDevice):
    """A client that seals messages for a shuffler to a key of the audit."""

    has_relay = True

    def __init__(self, *plays: Any, private_key: Any) -> None:
        from ldp.protocol.sealing_keys import PublicKey  # late: an extra

        self._private_key, self.key = private_key, PublicKey(private_key.public)
        super().__init__(*plays)
        self._client.grant([MESSAGES])

    def encode(self, value: Value) -> bytes:
        """Return the messages of a period with one record. Raise ReportError unless they are sealed
        one by one, on the day of their batch, in one batch."""
        before = len(self.batches)
        self.period([(MESSAGES, value)])
        if len(self.batches) != before + 1:
            raise ReportError("a record's messages are not one batch")
        batch = self.batches[-1]
        contents = [self._private_key.open(item) for item in batch.items]
        if any((content.day, content.item.metric) != (batch.day, MESSAGES) for content in contents):
            raise ReportError("a message is of another day or metric")
        return b"".join(content.item.report for content in contents)


class GeneratedBits:
    """Bits from a generator, so that an audit can be repeated."""

    def __init__(self, generator: Generator) -> None:
        self._generator, self._block, self._at = generator, b"", 0

    def draw(self, count: int) -> int:
        size = (count + 7) >> 3
        if self._at + size > len(self._block):
            self._block, self._at = self._generator.bytes(max(size, 1 << 14)), 0
        self._at += size
        word = int.from_bytes(self._block[self._at - size : self._at], "little")
        return word & ((1 << count) - 1)
