"""Clients that break the device protocol, each in one way; the audit of the client must catch every
one. They stand before and behind a real client, whose inside they leave alone."""

import os
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ldp.client import Client, Recorded
from ldp.mechanisms.permanent_response import KeyedFilter
from ldp.protocol.batch import Batch

Change = Callable[[Batch], Batch]


class _Altered:
    """A destination that changes a batch before it is sent."""

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
    """Of a period the first record of a metric is sent, not a random one."""

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
    """Of a period the last record of a metric is sent."""

    def record(self, metric: str, value: Any) -> Any:
        if metric == "one" and value != "f":
            return Recorded()
        return super().record(metric, value)


class SecretOfTwoBytes(Client):
    """The device's secret is a number of two bytes, filled up with zeros."""

    def __init__(self, path: Path, **others: Any) -> None:
        path.with_name(f"{path.name}.secret").write_bytes(os.urandom(2).ljust(32, b"\0"))
        super().__init__(path, **others)


class SecretOfTheProduct(Client):
    """All devices have one secret."""

    def __init__(self, path: Path, **others: Any) -> None:
        path.with_name(f"{path.name}.secret").write_bytes(bytes(range(32)))
        super().__init__(path, **others)


class SecretMadeAnew(Client):
    """A new secret, and so a new permanent response, after every upload."""

    def __init__(self, path: Path, **others: Any) -> None:
        super().__init__(path, **others)
        self._own = path.with_name(f"{path.name}.secret")

    def upload(self) -> Any:
        done = super().upload()
        if self._own.exists():
            self._own.write_bytes(os.urandom(32))
        return done


class SilentWithoutRecords(Client):
    """A period without records of a hidden metric is not filled up."""

    def __init__(self, path: Path, *, destination: Any, **others: Any) -> None:
        def change(batch: Batch) -> Batch:
            kept = tuple(item for item in batch.items if item.metric != "hidden" or self._some)
            return batch._replace(items=kept)

        self._some = False
        super().__init__(path, destination=_Altered(destination, change), **others)

    def record(self, metric: str, value: Any) -> Any:
        self._some |= metric == "hidden"
        return super().record(metric, value)

    def upload(self) -> Any:
        done = super().upload()
        self._some = False
        return done


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
    """Reports of one metric are shuffled, the metrics are not."""
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
    """The batch says when its records were made, not when it was sealed."""
    return _altering(lambda batch: batch._replace(day=batch.day - timedelta(days=1)))


SAMPLING_MUTANTS: dict[str, Callable[[], Callable[..., Client]]] = {
    "first record only": lambda: FirstRecordOnly,
    "last record only": lambda: LastRecordOnly,
    "silent without records": lambda: SilentWithoutRecords,
    "ids from a counter": ids_from_a_counter,
    "ids of the day and 64 bits": ids_of_the_day_and_64_bits,
    "one id for all": one_id_for_all,
    "order as recorded": order_as_recorded,
    "metrics in order": metrics_in_order,
    "no padding": no_padding,
    "day of the records": day_of_the_records,
}
"""Caught by what `ldp.audit.client.audit_client` looks for in the periods of one device."""
SECRET_MUTANTS: dict[str, Callable[[], Callable[..., Client]]] = {
    "secret of two bytes": lambda: SecretOfTwoBytes,
    "secret of the product": lambda: SecretOfTheProduct,
    "secret made anew": lambda: SecretMadeAnew,
}
"""Caught by what it looks for in new devices."""


def share_flips(patch: pytest.MonkeyPatch) -> None:
    """Per value, a device flips the same bits of all its values."""
    honest = KeyedFilter.response
    patch.setattr(
        KeyedFilter,
        "response",
        lambda self, secret, metric, truth: truth ^ honest(self, secret, metric, 0),
    )
