"""Clients that break the device protocol, each in one way; the audit must catch every one.

The mutants change what goes into a real client and what comes out of it, not its inside.
"""

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ldp.audit.client import MEMOISED, START
from ldp.audit.judging import Checks
from ldp.audit.messages import CHEATS, message_columns
from ldp.client import Client, Recorded, responses
from ldp.client.responses import Report, Responses
from ldp.mechanisms import Rappor
from ldp.mechanisms.dummies import Dummies
from ldp.mechanisms.permanent_response import KeyedFilter
from ldp.protocol.batch import Batch
from ldp.protocol.randomness import SeededBits
from ldp.protocol.wire import HEADER_BYTES, pack_report
from ldp.registry import Metric
from tests.statistics import chance_missed

Change = Callable[[Batch], Batch]


class _Altered:
    """Destination that changes a batch before it is sent."""

    def __init__(self, destination: Any, change: Change) -> None:
        self._destination = destination
        self._change = change

    def send(self, identity: bytes, body: bytes) -> int:
        batch = self._change(Batch.from_bytes(body))
        refused: int = self._destination.send(batch.id, batch.to_bytes())
        return refused


def _altering(change: Change) -> Callable[..., Client]:
    def make(path: Path, *, destination: Any, **others: Any) -> Client:
        return Client(path, destination=_Altered(destination, change), **others)

    return make


class FirstRecordOnly(Client):
    """Client that sends the first record of a metric in a period, not a random one."""

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self._taken = Counter[str]()

    def record(self, metric: str, value: Any) -> Any:
        self._taken[metric] += 1
        if metric == "one" and self._taken[metric] > 1:
            return Recorded()
        return super().record(metric, value)

    def upload(self) -> Any:
        self._taken.clear()
        return super().upload()


class LastRecordOnly(Client):
    """Client that sends the last record of a metric in a period."""

    def record(self, metric: str, value: Any) -> Any:
        if metric == "one" and value != "f":
            return Recorded()
        return super().record(metric, value)


class SecretOfTwoBytes(Client):
    """Client whose secret is a number of two bytes, filled up with zeros."""

    def __init__(self, path: Path, **others: Any) -> None:
        path.with_name(f"{path.name}.secret").write_bytes(os.urandom(2).ljust(32, b"\0"))
        super().__init__(path, **others)


class SecretOfTheProduct(Client):
    """Client whose devices all have one secret."""

    def __init__(self, path: Path, **others: Any) -> None:
        path.with_name(f"{path.name}.secret").write_bytes(bytes(range(32)))
        super().__init__(path, **others)


class SecretMadeAnew(Client):
    """Client with a new secret, and so a new permanent response, after every upload."""

    def __init__(self, path: Path, **others: Any) -> None:
        super().__init__(path, **others)
        self._own = path.with_name(f"{path.name}.secret")

    def upload(self) -> Any:
        done = super().upload()
        if self._own.exists():
            self._own.write_bytes(os.urandom(32))
        return done


class _OfPresence(Client):
    """Client that alters a batch of its period where the hidden metric had a record."""

    def __init__(self, path: Path, *, destination: Any, **others: Any) -> None:
        self._some, self._collector = False, destination
        super().__init__(path, destination=self, **others)

    def record(self, metric: str, value: Any) -> Any:
        self._some |= metric == "hidden"
        return super().record(metric, value)

    def upload(self) -> Any:
        done = super().upload()
        self._some = False
        return done

    def send(self, identity: bytes, body: bytes) -> int:
        """Send what `batches` makes of a batch."""
        for batch in self.batches(Batch.from_bytes(body)):
            self._collector.send(batch.id, batch.to_bytes())
        return 0

    def batches(self, batch: Batch) -> list[Batch]:
        """Return the batches to send: this one, unless overridden."""
        return [batch]


class HalfOfPresence(_OfPresence):
    """Client whose hidden report is in the batch's first half after a record, else in the
    second."""

    def batches(self, batch: Batch) -> list[Batch]:
        items = sorted(batch.items, key=lambda item: item.metric == "hidden")
        *others, hidden = items
        half = len(items) // 2
        others.insert(int.from_bytes(os.urandom(2)) % half + half * (not self._some), hidden)
        return [batch._replace(items=tuple(others))]


class NeighbourOfPresence(_OfPresence):
    """Client whose hidden report comes directly before another metric's if there was a record."""

    def batches(self, batch: Batch) -> list[Batch]:
        if not self._some:
            return [batch]
        *others, hidden = sorted(batch.items, key=lambda item: item.metric == "hidden")
        others.insert([item.metric for item in others].index("one"), hidden)
        return [batch._replace(items=tuple(others))]


class BatchOfPresence(_OfPresence):
    """Client that sends a period with a record as two batches."""

    def batches(self, batch: Batch) -> list[Batch]:
        if not self._some:
            return [batch]
        rest = batch._replace(id=os.urandom(len(batch.id)), items=batch.items[1:])
        return [batch._replace(items=batch.items[:1]), rest]


class SilentWithoutRecords(_OfPresence):
    """Client that does not fill up a period without records of a hidden metric."""

    def batches(self, batch: Batch) -> list[Batch]:
        kept = tuple(item for item in batch.items if item.metric != "hidden" or self._some)
        return [batch._replace(items=kept)]


def ids_from_a_counter() -> Callable[..., Client]:
    numbers = count(int.from_bytes(os.urandom(15), "big") << 8)
    return _altering(lambda batch: batch._replace(id=next(numbers).to_bytes(16, "big")))


def ids_of_the_day_and_64_bits() -> Callable[..., Client]:
    return _altering(
        lambda batch: batch._replace(id=batch.day.toordinal().to_bytes(8, "big") + batch.id[8:])
    )


def one_id_for_all() -> Callable[..., Client]:
    return _altering(lambda batch: batch._replace(id=bytes(range(16))))


def order_as_recorded() -> Callable[..., Client]:
    return _altering(lambda batch: batch._replace(items=tuple(sorted(batch.items))))


def metrics_in_order() -> Callable[..., Client]:
    """Shuffle the reports of each metric, but not the metrics."""
    return _altering(
        lambda batch: batch._replace(items=tuple(sorted(batch.items, key=lambda each: each.metric)))
    )


def no_padding() -> Callable[..., Client]:
    class Stripped:
        def __init__(self, destination: Any) -> None:
            self._destination = destination

        def send(self, identity: bytes, body: bytes) -> int:
            refused: int = self._destination.send(identity, body.rstrip(b"\0"))
            return refused

    def make(path: Path, *, destination: Any, **others: Any) -> Client:
        return Client(path, destination=Stripped(destination), **others)

    return make


def day_of_the_records() -> Callable[..., Client]:
    """Let the batch say when its records were made, not when it was sealed."""
    return _altering(lambda batch: batch._replace(day=batch.day - timedelta(days=1)))


class _OfValue(Client, ABC):
    """Client that alters a batch by whether the value of the metric "new" is one of the first."""

    def __init__(self, path: Path, *, destination: Any, **others: Any) -> None:
        self._is_first, self._collector = False, destination
        super().__init__(path, destination=self, **others)

    def record(self, metric: str, value: Any) -> Any:
        if metric == "new":
            self._is_first = value in ("a", "b", "c")
        return super().record(metric, value)

    def send(self, identity: bytes, body: bytes) -> int:
        """Send what `batches` makes of a batch."""
        for batch in self.batches(Batch.from_bytes(body)):
            self._collector.send(batch.id, batch.to_bytes())
        return 0

    @abstractmethod
    def batches(self, batch: Batch) -> list[Batch]:
        """Return the batches to send."""


class IdOfValue(_OfValue):
    """Client whose batches have the value in a bit of their ids."""

    def batches(self, batch: Batch) -> list[Batch]:
        number = int.from_bytes(batch.id, "big") >> 1 << 1 | self._is_first
        return [batch._replace(id=number.to_bytes(16, "big"))]


class HalfOfValue(_OfValue):
    """Client whose report stands in one half of the batch by its value."""

    def batches(self, batch: Batch) -> list[Batch]:
        *others, new = sorted(batch.items, key=lambda item: item.metric == "new")
        half = (len(others) + 1) // 2
        others.insert(int.from_bytes(os.urandom(2)) % half + half * self._is_first, new)
        return [batch._replace(items=tuple(others))]


class BatchOfValue(_OfValue):
    """Client that sends a second batch by the value."""

    def batches(self, batch: Batch) -> list[Batch]:
        if not self._is_first:
            return [batch]
        parts = batch.items[:1], batch.items[1:]
        return [batch._replace(id=os.urandom(16), items=part) for part in parts]


VALUE_MUTANTS = (IdOfValue, HalfOfValue, BatchOfValue)
"""Mutants that the stages "reports" catch."""
SAMPLING_MUTANTS: dict[str, Callable[[], Callable[..., Client]]] = {
    "first record only": lambda: FirstRecordOnly,
    "last record only": lambda: LastRecordOnly,
    "silent without records": lambda: SilentWithoutRecords,
    "half of presence": lambda: HalfOfPresence,
    "neighbour of presence": lambda: NeighbourOfPresence,
    "batch of presence": lambda: BatchOfPresence,
    "ids from a counter": ids_from_a_counter,
    "ids of the day and 64 bits": ids_of_the_day_and_64_bits,
    "one id for all": one_id_for_all,
    "order as recorded": order_as_recorded,
    "metrics in order": metrics_in_order,
    "no padding": no_padding,
    "day of the records": day_of_the_records,
}
"""Mutants that the stage "periods" of `ldp.audit.client.client_stages` catches."""
SECRET_MUTANTS: dict[str, Callable[[], Callable[..., Client]]] = {
    "secret of two bytes": lambda: SecretOfTwoBytes,
    "secret of the product": lambda: SecretOfTheProduct,
    "secret made anew": lambda: SecretMadeAnew,
}
"""Mutants that the stage "lives" of `ldp.audit.client.client_stages` catches."""


def share_flips(patch: pytest.MonkeyPatch) -> None:
    """Let a device flip the same bits of all its values, where they are memoised per value."""
    honest = KeyedFilter.response
    patch.setattr(
        KeyedFilter,
        "response",
        lambda self, secret, metric, truth: truth ^ honest(self, secret, metric, 0),
    )


def _plain(mechanism: Any, value: Any) -> Report:
    """Return the value itself, as bytes that could be a report."""
    payload = mechanism.layout.payload_of(
        mechanism.addressing.cells(mechanism.addressing.point(value), 0)
    )
    return Report(pack_report(mechanism.header, mechanism.layout, 0, payload))


class _Calls:
    """Calls of a device, of which a mutant may know: its device, its value and the value before."""

    def __init__(self) -> None:
        self.devices: dict[int, int] = {}
        self.calls = Counter[tuple[int, str]]()
        self.before: dict[tuple[int, str], Any] = {}
        self._kept: list[Responses] = []

    def __call__(self, of: Responses, metric: Metric, value: Any) -> tuple[int, int, Any]:
        self._kept.append(of)  # or its id would be another's later
        device = self.devices.setdefault(id(of), len(self.devices))
        key = device, metric.name
        call, before = self.calls[key], self.before.get(key, value)
        self.calls[key] += 1
        self.before[key] = value
        return device, call, before


def _where(holds: Callable[[int, int, Any], bool]) -> Callable[[pytest.MonkeyPatch], None]:
    """Return the mutant that sends plain reports of the metric "new" under a condition.

    The condition is a function of (device, call, value).
    """

    def mutate(patch: pytest.MonkeyPatch) -> None:
        honest, calls = Responses.fresh_report, _Calls()

        def report(self: Responses, metric: Metric, value: Any) -> Report:
            device, call, _ = calls(self, metric, value)
            if metric.name == "new" and holds(device, call, value):
                return _plain(metric.mechanism, value)
            return honest(self, metric, value)

        patch.setattr(Responses, "fresh_report", report)

    return mutate


def _plain_at_night(patch: pytest.MonkeyPatch) -> None:
    """Send plain reports of the metric "new" before six in the morning."""
    make, clocks = Client.__init__, [lambda: START]

    def init(self: Client, *args: Any, clock: Any, **others: Any) -> None:
        clocks.append(clock)
        make(self, *args, clock=clock, **others)

    patch.setattr(Client, "__init__", init)
    _where(lambda device, call, value: clocks[-1]().hour < 6)(patch)


def _lie_names_the_value_before(patch: pytest.MonkeyPatch) -> None:
    honest, calls = Responses.fresh_report, _Calls()

    def report(self: Responses, metric: Metric, value: Any) -> Report:
        _, _, before = calls(self, metric, value)
        drawn = honest(self, metric, value)
        if metric.name == "new" and drawn != _plain(metric.mechanism, value) and before != value:
            return _plain(metric.mechanism, before)
        return drawn

    patch.setattr(Responses, "fresh_report", report)


def _doubled(mechanism: Any) -> Any:
    """Return the mechanism with twice the epsilon, of all reports of a response."""
    if isinstance(mechanism, Rappor):
        return replace(mechanism, f=0.54)
    if hasattr(mechanism, "lifetime_epsilon"):
        return replace(mechanism, lifetime_epsilon=2 * mechanism.lifetime_epsilon)
    return replace(mechanism, epsilon=2 * mechanism.epsilon)


def _doubling(*methods: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Let these methods of `Responses` report with twice the epsilon, under the honest
    fingerprint."""

    def doubled(honest: Callable[..., Any]) -> Callable[..., Any]:
        def report(self: Responses, metric: Metric, *of: Any) -> Any:
            if metric.name not in ("new", "value-1", "epoch-1"):
                return honest(self, metric, *of)
            done = honest(self, metric._replace(mechanism=_doubled(metric.mechanism)), *of)
            if isinstance(done, bytes):
                return done
            return done._replace(report=metric.mechanism.header + done.report[HEADER_BYTES:])

        return report

    def mutate(patch: pytest.MonkeyPatch) -> None:
        for method in methods:
            patch.setattr(Responses, method, doubled(getattr(Responses, method)))

    return mutate


def _one_key_for_all_metrics(patch: pytest.MonkeyPatch) -> None:
    honest = responses._key
    patch.setattr(
        responses,
        "_key",
        lambda secret, purpose, metric: honest(secret, purpose, metric._replace(name="")),
    )


def _one_noise_for_all_epochs(patch: pytest.MonkeyPatch) -> None:
    """Make cohort and noise of an epoch a function of device and metric."""
    honest = Responses.permanent_response

    def response(self: Responses, metric: Metric, value: Any) -> bytes:
        seed = self._secret.read() + metric.name.encode()
        return honest(Responses(SeededBits(seed), self._secret), metric, value)

    patch.setattr(Responses, "permanent_response", response)


def _one_noise_for_metrics_of_an_epoch(patch: pytest.MonkeyPatch) -> None:
    """Let metrics of one mechanism share the noise of their first, second, ... epoch."""
    honest, calls = Responses.permanent_response, _Calls()

    def response(self: Responses, metric: Metric, value: Any) -> bytes:
        _, epoch, _ = calls(self, metric, value)
        seed = self._secret.read() + epoch.to_bytes(4, "big")
        return honest(Responses(SeededBits(seed), self._secret), metric, value)

    patch.setattr(Responses, "permanent_response", response)


def _first_response_for_ever(patch: pytest.MonkeyPatch) -> None:
    honest, kept = Responses.permanent_response, dict[tuple[bytes, str], bytes]()

    def response(self: Responses, metric: Metric, value: Any) -> bytes:
        key = self._secret.read(), metric.name
        return kept.setdefault(key, honest(self, metric, value))

    patch.setattr(Responses, "permanent_response", response)


def _epochs_renewed(patch: pytest.MonkeyPatch) -> None:
    """Give every report of an epoch a permanent response of its own."""
    patch.setattr(
        Responses,
        "epoch_report",
        lambda self, metric, response, value: self.fresh_report(metric, value),
    )


def _next_bit_named(patch: pytest.MonkeyPatch) -> None:
    """Name the bit after the value's in every other report that is memoised per value."""
    honest, calls = Responses.memoised_report, _Calls()

    def response(self: Responses, metric: Metric, value: Any) -> Report:
        _, call, _ = calls(self, metric, value)
        mechanism: Any = metric.mechanism
        done = honest(self, metric, value)
        if call % 2 or not mechanism.kind.is_bitwise:
            return done
        row, payload = mechanism.row_and_payload(done.report)
        cell = (mechanism.cells(value, row)[0] + 1) % mechanism.shape.columns
        word = int.from_bytes(payload, "little") | 1 << cell
        return done._replace(report=pack_report(mechanism.header, mechanism.layout, row, word))

    patch.setattr(Responses, "memoised_report", response)


def no_dummies(patch: pytest.MonkeyPatch) -> None:
    """Send no dummies: of a record's messages only the value's are full."""
    honest, change = Dummies.encoder, CHEATS["no dummies"]

    def encoder(self: Dummies, bits: Any = None) -> Any:
        encode, pack = honest(self, bits).encode, partial(pack_report, self.header, self.layout, 0)

        def cheat(value: Any) -> bytes:
            columns, own = [*message_columns(self, encode(value))], self.addressing.point(value)
            return b"".join(map(pack, change(columns, own, len(self.categories), [])))

        return SimpleNamespace(encode=cheat)

    patch.setattr(Dummies, "encoder", encoder)


def few_responses(patch: pytest.MonkeyPatch, names: Sequence[str]) -> None:
    """Memoise only in these metrics, which takes a third of the time."""
    patch.setattr("ldp.audit.client.MEMOISED", {name: MEMOISED[name] for name in names})


def one_report_a_window(patch: pytest.MonkeyPatch) -> None:
    """Send one report where metrics with fresh noise have several; no mutant changes that
    number."""
    patch.setattr("ldp.audit.client.TIMES", 1)


Mutate = Callable[[pytest.MonkeyPatch], None]
NOISE_MUTANTS: dict[str, tuple[str, Mutate]] = {
    "plain": ("touched cells reported", _where(lambda *_: True)),
    "one category plain": (
        "touched cell reported, column",
        _where(lambda device, call, value: value == "c"),
    ),
    "every fourth call plain": (
        "first touched cell by call, few groups",
        _where(lambda device, call, value: call % 4 == 0),
    ),
    "odd devices plain": (
        "touched cells reported",
        _where(lambda device, call, value: device % 2 == 1),
    ),
    "plain at night": ("first touched cell by call, group", _plain_at_night),
    "lies name the value before": (
        "part 1: value before by remainders of call and device, number",
        _lie_names_the_value_before,
    ),
    "epsilon doubled, fresh": ("touched cells reported", _doubling("fresh_report")),
}
"""Mutants that the stages "reports" catch in the metric "new", by a check of this name."""
RESPONSE_MUTANTS: dict[str, tuple[str, Mutate]] = {
    "epsilon doubled, per value": (
        "metric 'value-1': untouched unit named so often or more",
        _doubling("memoised_report"),
    ),
    "epsilon doubled, by epoch": (
        "metric 'epoch-1': untouched unit named so often or more",
        _doubling("permanent_response", "epoch_report"),
    ),
    "one key for all metrics": (
        "day 1 of 'value-1' and day 1 of 'value-2', untouched unit and untouched unit",
        _one_key_for_all_metrics,
    ),
    "one noise for all epochs": (
        "metric 'epoch-1': periods 1 and 3, untouched unit and untouched unit",
        _one_noise_for_all_epochs,
    ),
    "one noise for the metrics of an epoch": (
        "day 1 of 'epoch-1' and day 1 of 'epoch-2', untouched unit and untouched unit",
        _one_noise_for_metrics_of_an_epoch,
    ),
    "one noise for all values": (
        "metric 'value-1': periods 1 and 2, untouched unit and untouched unit",
        share_flips,
    ),
    "the first response for ever": (
        "metric 'epoch-1': periods 1 and 3, untouched unit and untouched unit",
        _first_response_for_ever,
    ),
    "the next bit named": (
        "metric 'value-1': units so far from a touched one named 2 times or more",
        _next_bit_named,
    ),
    "epochs renewed": ("metric 'epoch-1': devices of several cohorts", _epochs_renewed),
}
"""Mutants that the stage "lives" catches, by a check of this name."""
AUDIT_ALPHA = 1e-8
"""Error rate stricter than that of the audit, since a part of it has fewer counts."""


def missed(checks: Sequence[Checks], what: str) -> float:
    """Return the chance that other checks like these would pass the audit.

    The bound is that of the check of this name, whose counts get the smallest level that
    AUDIT_ALPHA leaves one.
    """
    named = [check for check in checks if check[0] == what]
    return chance_missed(named[-1:], AUDIT_ALPHA / sum(check[1].size for check in checks))
