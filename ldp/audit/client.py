"""The audit of the client: what leaves a device as sealed batches, held against the protocol.

Real clients run in a temporary folder, with a clock, bits and a destination of the audit's own; it
reads the sealed batches and the secret files and nothing else. Every count is exactly binomial, as
in `ldp.audit.cells`: which record of a period is sent, the order in a batch, the ids and the bits
of the secrets are uniform, and what is memoised has the law of `ldp.audit.lives`. What has no
chance in it (how many reports a batch has, its day and its size, that ids differ) may not differ
once.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ldp.audit.counts import never_checks, outcome_checks
from ldp.audit.judging import Audit, Checks, judge
from ldp.audit.lives import USUAL, life_checks
from ldp.client import Client, Recorded
from ldp.errors import ReportError
from ldp.protocol.batch import ID_BYTES, Batch
from ldp.protocol.hashing import Value
from ldp.protocol.wire import split_report
from ldp.registry import Metric, Registry

PERIODS, DEVICES = 300, 80
"""Periods of one device that has fresh noise; devices of each memoisation."""
CATEGORIES = ("a", "b", "c", "d", "e", "f")
START = datetime(2026, 1, 5, 12, tzinfo=UTC)
SECRET_BYTES = 32
RESPONSE = f'mechanism = "rr"\nepsilon = 6.0\ncategories = {list(CATEGORIES)}\n'
RAPPOR = (
    'mechanism = "rappor"\nbits = 32\nhashes = 2\ncohorts = 64\nf = 0.5\np = 0.25\nq = 0.75\n'
    f"reports_per_window = {max(USUAL)}\n"
)
REGISTRY = """
[product]
name = "audit of the client"
[group.public]
window = "1d"
window_epsilon = 1e9
lifetime_epsilon = 1e9
[group.hidden]
window = "1d"
window_epsilon = 1e9
lifetime_epsilon = 1e9
""" + "".join(
    f"""
[metric.{name}]
version = 1
group = "{group}"
description = "audit"
owners = ["audit"]
expires = 2100-01-01
{keys}
"""
    for name, group, keys in (
        ("one", "public", RESPONSE),
        ("all", "public", f"{RESPONSE}reports_per_window = {len(CATEGORIES)}"),
        (
            "hidden",
            "hidden",
            'mechanism = "rr"\nepsilon = 3.0\ncategories = ["none", "some"]\npresence = "hidden"',
        ),
        ("per-value", "public", f'{RAPPOR}memoise = "per-value"'),
        ("epoch", "public", f'{RAPPOR}memoise = "epoch"\nepoch = "1000d"'),
    )
)
MakesClient = Callable[..., Client]
"""Makes a client from the arguments of `ldp.client.Client`."""


def audit_client(
    generator: np.random.Generator,
    *,
    make: MakesClient = Client,
    periods: int = PERIODS,
    devices: int = DEVICES,
    alpha: float = 1e-6,
) -> Audit:
    """Return the audit of whether clients follow the device protocol: one client for so many
    `periods`, and so many `devices` for each memoisation; 0 leaves a part out. Their bits come from
    `generator`, only secrets from the operating system. An honest client fails with probability
    `alpha` at most."""
    with TemporaryDirectory(prefix="ldp-audit-") as folder:
        path = Path(folder) / "metrics.toml"
        path.write_text(REGISTRY)
        registry, numbers = Registry.load(path), count()

        def device() -> _Device:
            home = Path(folder) / str(next(numbers))
            return _Device(home, registry, generator, make)

        checks: list[Checks] = []
        try:
            if periods:
                checks += _sampling(device(), registry, periods)
            if devices:
                checks += _memoised(device, registry, devices)
        except ReportError:
            checks = [never_checks("batches that cannot be read", 1, 1)]
    return judge(checks, alpha)


class _Device:
    """A client in a folder of its own, and the batches that left it; `mistakes` are batches whose
    id is not the one they were sent under, whose day is not today, and records that were declined.
    """

    def __init__(
        self, home: Path, registry: Registry, generator: np.random.Generator, make: MakesClient
    ) -> None:
        home.mkdir()
        self.path = home / "client.db"
        self.batches: list[Batch] = []
        self.mistakes = 0
        self._now = START
        self._client = make(
            self.path,
            registry=registry,
            destination=self,
            clock=lambda: self._now,
            bits=_GeneratedBits(generator),
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
        """Record these, wait until the period is over and upload: metric and report of what left,
        in order."""
        before = len(self.batches)
        for metric, value in records:
            self.mistakes += not isinstance(self._client.record(metric, value), Recorded)
        self._now += timedelta(days=1)
        why = self._client.upload().why
        if why.startswith("ReportError"):
            raise ReportError("a batch cannot be read")
        return [
            (item.metric, item.report) for batch in self.batches[before:] for item in batch.items
        ]

    def close(self) -> None:
        self._client.close()


class _GeneratedBits:
    """Bits from a generator, so that an audit can be repeated."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def draw(self, count: int) -> int:
        word = int.from_bytes(self._generator.bytes((count + 7) >> 3), "little")
        return word & ((1 << count) - 1)


def _sampling(device: _Device, registry: Registry, periods: int) -> Iterator[Checks]:
    """Yield the checks of one device: in every period each category once, in order, and every other
    period a record of the metric that hides its presence."""
    metrics, size = registry.metrics, len(CATEGORIES)
    records = [(name, value) for value in CATEGORIES for name in ("one", "all")]
    sent, wrong = [], 0
    for number in range(periods):
        reports = device.period([*records, *[("hidden", "some")] * (number % 2)])
        if sorted(name for name, _ in reports) != sorted(["one", "hidden", *["all"] * size]):
            wrong += 1
        else:
            sent.append(reports)
    device.close()
    yield never_checks("periods with another number of reports", wrong, periods)
    yield never_checks("foreign ids, wrong days and refused records", device.mistakes, periods)
    yield from _uniform_bits("id", [batch.id for batch in device.batches], ID_BYTES)
    if not sent:
        return
    uniform = np.full(size, 1 / size)
    columns = {
        name: np.array([_columns(metrics[name], reports) for reports in sent])
        for name in ("one", "all", "hidden")
    }
    for name in ("one", "hidden"):
        places = [[name for name, _ in reports].index(name) for reports in sent]
        yield outcome_checks(
            f"places of metric {name} in the batch", places, np.full(size + 2, 1 / (size + 2))
        )
    yield outcome_checks("records sent, of a period", columns["one"][:, 0], uniform)
    for place in range(size):
        yield outcome_checks(f"records at place {place}", columns["all"][:, place], uniform)
    channel = metrics["all"].mechanism.channel  # type: ignore[attr-defined]
    noise = np.full((size, size), float(channel.untouched))
    np.fill_diagonal(noise, float(channel.touched))
    both = noise.T @ ((1 - np.eye(size)) / (size * (size - 1))) @ noise
    for place in range(size - 1):
        keys = columns["all"][:, place] * size + columns["all"][:, place + 1]
        yield outcome_checks(f"records at places {place} and {place + 1}", keys, both.ravel())
    for which, name in enumerate(("none", "some")):
        true = float(metrics["hidden"].mechanism.channel.touched)  # type: ignore[attr-defined]
        law = np.array([true, 1 - true])[:: -1 if which else 1]
        period = np.arange(len(sent)) % 2 == which
        if not wrong:
            yield outcome_checks(f"hidden periods of {name}", columns["hidden"][period, 0], law)


def _columns(metric: Metric, reports: Sequence[tuple[str, bytes]]) -> list[int]:
    mechanism: Any = metric.mechanism
    return [
        int.from_bytes(split_report(report, mechanism.header, mechanism.layout)[1], "little")
        for name, report in reports
        if name == metric.name
    ]


def _memoised(device: Callable[[], _Device], registry: Registry, devices: int) -> Iterator[Checks]:
    """Yield the checks of new devices: one value in a period, another one in the next, and the
    first again."""
    clients: list[_Device] = []
    for name in ("per-value", "epoch"):
        metric = registry.metrics[name]

        def lives(name: str = name) -> Callable[[Value, int], Sequence[bytes]]:
            client = device()
            clients.append(client)

            def reports(value: Value, times: int) -> list[bytes]:
                items = client.period([(name, value)] * times)
                named_reports = [report for metric_name, report in items if metric_name == name]
                if len(named_reports) != times:
                    raise ReportError("a period has another number of reports")
                return named_reports

            return reports

        mechanism: Any = metric.mechanism
        yield from life_checks(mechanism, ("lol", "afk"), lives, devices, memoise=name)
    secrets = [_secret(client) for client in clients[:devices]]
    for client in clients:
        client.close()
    yield never_checks(
        "mistakes of new devices", sum(client.mistakes for client in clients), len(clients)
    )
    whole = [secret for secret in secrets if len(secret) == SECRET_BYTES]
    yield never_checks("secrets of another length", len(secrets) - len(whole), len(secrets))
    yield from _uniform_bits("secret", whole, SECRET_BYTES)
    first = [client.batches[0].id for client in clients if client.batches]
    yield from _uniform_bits("first id of a device", first, ID_BYTES)


def _secret(device: _Device) -> bytes:
    path = device.path.with_name(f"{device.path.name}.secret")
    return path.read_bytes() if path.exists() else b""


def _uniform_bits(what: str, words: Sequence[bytes], size: int) -> Iterator[Checks]:
    """Check that words are random and differ: every bit, and every bit of one word and the next."""
    yield never_checks(f"equal: {what}", len(words) - len(set(words)), len(words))
    if len(words) < 2:
        return
    block = np.frombuffer(b"".join(words), dtype=np.uint8).reshape(len(words), size)
    bits = np.unpackbits(block, axis=1).astype(np.int64)
    changed = bits[1:] ^ bits[:-1]
    for name, of in (("bits", bits), ("changed bits", changed)):
        trials = np.full(8 * size, len(of))
        yield f"{name} of the {what}", of.sum(axis=0), trials, np.full(8 * size, 0.5)
    low = [int.from_bytes(word, "big") for word in words]
    steps = sum(0 < abs(second - first) < 1 << 64 for first, second in pairwise(low))
    yield never_checks(f"{what} next to the one before", steps, len(words))
