"""Put a cheat into an encoder and into the clients, and define what it sees there."""

import json
from collections.abc import Callable, Hashable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from ldp.client import Client
from ldp.client.responses import Report, Responses
from ldp.mechanisms import CatalogueMechanism
from ldp.mechanisms.addressing import Answers
from ldp.mechanisms.joint_base import parts_of
from ldp.registry import Metric
from simulations.cheats import Cheat, Event, Memory
from simulations.cheats.law import row_of
from simulations.cheats.population import permanent_response


class Hook:
    """Place of a cheat in a program; with None it counts honest reports.

    It also holds what the cheat keeps between reports.
    """

    def __init__(self, cheat: Cheat | None, seed: bytes = b"") -> None:
        self._cheat, self._memory = cheat, Memory(seed)
        self._streams: dict[Hashable, tuple[int, Any]] = {}
        self._devices: dict[Hashable, int] = {}
        self.reports = 0

    def device(self, identity: Hashable) -> int:
        """Return the number of a device."""
        return self._devices.setdefault(identity, len(self._devices))

    def altered(
        self,
        mechanism: CatalogueMechanism,
        value: Any,
        report: bytes,
        *,
        device: int,
        stream: Hashable,
        epoch: str | None = None,
        metric: str | None = None,
        permanent: int | None = None,
    ) -> bytes:
        """Return what leaves in place of an honest report.

        `stream`: the encoder, or the metric on a device, whose calls are counted.
        """
        self.reports += 1
        if self._cheat is None:
            return report
        value = hashable(value)
        call, before = self._streams.get(stream, (0, None))
        self._streams[stream] = call + 1, value
        event = Event(
            mechanism, value, before, call, None, epoch, metric, device, report, permanent
        )
        return self._cheat.alter(event._replace(row=row_of(event, report)), self._memory)


def hashable(value: Any) -> Any:
    """Return a value with tuples for lists and frozen sets for sets."""
    if isinstance(value, list | tuple):
        return tuple(map(hashable, value))
    return frozenset(value) if isinstance(value, set) else value


class HookedEncoder:
    """Encoder whose reports pass a hook; everything else is that of the honest encoder."""

    def __init__(
        self, mechanism: Any, hook: Hook, inner: Any, device: int, epoch: str | None
    ) -> None:
        self._mechanism, self._hook, self._inner = mechanism, hook, inner
        self._device, self._epoch, self._stream = device, epoch, object()

    def encode(self, value: Any) -> bytes:
        """Draw an honest report, and return what leaves."""
        report = self._inner.encode(value)
        return self._hook.altered(
            self._mechanism,
            value,
            report,
            device=self._device,
            stream=self._stream,
            epoch=self._epoch,
            permanent=permanent_response(self._inner, value),
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def hooked(mechanism: Any, hook: Hook) -> Any:
    """Return the mechanism with encoders whose reports pass a hook.

    Every encoder counts as a device of its own, but encoders with the same secret share one.
    """
    honest = type(mechanism)

    def encoder(self: Any, *arguments: Any, **options: Any) -> HookedEncoder:
        inner = honest.encoder(mechanism, *arguments, **options)
        identity = options.get("secret") or object()
        device = hook.device(identity)
        return HookedEncoder(mechanism, hook, inner, device, options.get("epoch"))

    cheating: Any = object.__new__(type(honest.__name__, (honest,), {"encoder": encoder}))
    for name in honest.__dataclass_fields__:
        object.__setattr__(cheating, name, getattr(mechanism, name))
    return cheating


def with_cheat(mechanism: Any, cheat: Cheat, seed: bytes = b"") -> Any:
    """Return the mechanism with encoders that cheat."""
    return hooked(mechanism, Hook(cheat, seed))


class HookedResponses:
    """Responses of a client whose reports pass a hook."""

    def __init__(
        self, inner: Responses, hook: Hook, device: int, clock: Callable[[], datetime]
    ) -> None:
        self._inner, self._hook, self._device, self._clock = inner, hook, device, clock

    def fresh_report(self, metric: Metric, value: Any) -> Report:
        """Draw a report with fresh noise, and return what leaves."""
        return self._altered(metric, value, self._inner.fresh_report(metric, value))

    def memoised_report(self, metric: Metric, value: Any) -> Report:
        """Draw a report that is memoised per value, and return what leaves."""
        report = self._inner.memoised_report(metric, value)
        encoder = self._inner._memories[metric.name].encoder
        return self._altered(metric, value, report, permanent_response(encoder, value))

    def epoch_report(self, metric: Metric, response: bytes, value: Any) -> Report:
        """Draw a report that is memoised by epoch, and return what leaves."""
        report = self._inner.epoch_report(metric, response, value)
        mechanism: Any = metric.mechanism
        permanent = int.from_bytes(response[mechanism.layout.row_bytes :], "little")
        return self._altered(metric, value, report, permanent)

    def _altered(
        self, metric: Metric, value: Any, report: Report, permanent: int | None = None
    ) -> Report:
        left = self._hook.altered(
            metric.mechanism,
            value,
            report.report,
            device=self._device,
            stream=(self._device, metric.name),
            epoch=self._epoch(metric),
            metric=metric.name,
            permanent=permanent,
        )
        return report._replace(report=left)

    def _epoch(self, metric: Metric) -> str | None:
        if not metric.epoch:
            return None
        return str(int(self._clock().timestamp() // metric.epoch.total_seconds()))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def client_maker(hook: Hook) -> Callable[..., Client]:
    """Return a function that makes clients whose reports pass a hook, with the arguments of
    `Client`.

    Clients with the same path count as one device.
    """

    def make(path: str | Path, *, clock: Callable[[], datetime], **options: Any) -> Client:
        client = Client(path, clock=clock, **options)
        device = hook.device(str(path))
        for mode in client._modes.values():
            responses: Any = HookedResponses(mode.responses, hook, device, clock)
            mode.responses = responses
        return client

    return make


def serve(
    hook: Hook,
    mechanisms: Mapping[str, CatalogueMechanism],
    requests: Iterable[str],
    answers: TextIO,
) -> None:
    """Answer a client in another process, with a line of JSON for each request.

    A request is {"metric", "device", "epoch", "value", "report"}, with the report in hexadecimal;
    its answer is {"report"}. `mechanisms`: by metric. A list in a request is a set of answers or a
    tuple, as the mechanism needs; bytes are {"hex": ".."}.
    """
    for line in requests:
        request = json.loads(line)
        metric, device = request["metric"], hook.device(request["device"])
        mechanism = mechanisms[metric]
        left = hook.altered(
            mechanism,
            _unpacked(request["value"], mechanism),
            bytes.fromhex(request["report"]),
            device=device,
            stream=(device, metric),
            epoch=request.get("epoch"),
            metric=metric,
        )
        print(json.dumps({"report": left.hex()}), file=answers, flush=True)


def _unpacked(value: Any, mechanism: Any) -> Any:
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"])
    if not isinstance(value, list):
        return value
    if isinstance(getattr(mechanism, "addressing", None), Answers):
        return frozenset(_unpacked(entry, None) for entry in value)
    parts = parts_of(mechanism) if mechanism else ()
    of_entries = parts if len(parts) == len(value) else [None] * len(value)
    return tuple(_unpacked(entry, part) for entry, part in zip(value, of_entries, strict=True))
