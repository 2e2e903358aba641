"""Every report a client makes, and the secret that memoised responses hang on.

Without memoisation a report has fresh noise. Memoised, its permanent response is a function of the
device's secret (or the account's, which several devices share), of the metric, its version and
mechanism: *per value*, or *by epoch*, where one response is frozen and all reports are about it.
"""

import hmac
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ldp.client.device_file import StorageError
from ldp.errors import ParameterError
from ldp.mechanisms.base import DrawsReports, Value
from ldp.mechanisms.permanent import Secret, message
from ldp.randomness import BitSource
from ldp.registry import Metric

SECRET_BYTES = 32
TAG_BYTES = 16


class Report(NamedTuple):
    """A report as bytes; under per-value memoisation also the keyed tag of what it is about."""

    report: bytes
    tag: bytes | None = None


class SecretFile:
    """The device's own secret: a file with mode 0600, made when it is first needed. If it is lost,
    a new one is made, and everything is charged anew."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Secret:
        """Raises StorageError when it is damaged; OSError."""
        with suppress(FileNotFoundError):
            return self._read()
        aside = self._path.with_name(f"{self._path.name}.{os.getpid()}.{id(self)}")
        with suppress(FileNotFoundError):
            aside.unlink()
        handle = os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            with open(handle, "wb") as file:
                file.write(os.urandom(SECRET_BYTES))
                file.flush()
                os.fsync(handle)
            with suppress(FileExistsError):  # another process was first: its secret it is
                os.link(aside, self._path)
        finally:
            aside.unlink()
        return self._read()

    def delete(self) -> None:
        with suppress(FileNotFoundError):
            self._path.unlink()

    def _read(self) -> Secret:
        secret = Secret(self._path.read_bytes())
        if len(secret) != SECRET_BYTES:
            raise StorageError("the file of the device's secret is damaged")
        return secret


class AccountSecret:
    """Given by the app, and kept by it: devices that share it share their permanent responses.
    Raises ParameterError for less than 16 bytes."""

    def __init__(self, secret: bytes) -> None:
        if not isinstance(secret, bytes) or len(secret) < TAG_BYTES:
            raise ParameterError(f"secret must be bytes, {TAG_BYTES} or more")
        self._secret = Secret(secret)

    def read(self) -> Secret:
        return self._secret

    def delete(self) -> None:
        """It is not ours."""


class Responses:
    """Makes the reports of a client."""

    def __init__(
        self, metrics: Mapping[str, Metric], bits: BitSource, secret: SecretFile | AccountSecret
    ) -> None:
        self._bits = bits
        self._secret = secret
        self._fresh: dict[str, DrawsReports] = {
            name: metric.mechanism.encoder(bits)
            for name, metric in metrics.items()
            if not metric.memoise
        }
        self._memories: dict[str, _Memory] = {}

    def report(self, metric: Metric, value: Value) -> Report:
        """A report about a value, under any memoisation but that by epoch."""
        if not metric.memoise:
            return Report(self._fresh[metric.name].encode(value))
        secret = self._secret.read()
        memory = self._memories.get(metric.name)
        if memory is None or memory.secret != secret:
            memory = _Memory(secret, self._encoder(metric, secret), _key(secret, "tag", metric))
            self._memories[metric.name] = memory
        return memory.report(value)

    def frozen(self, metric: Metric, begins: int, value: Value) -> bytes:
        """The permanent response to a value, for the epoch that begins then."""
        encoder = self._encoder(metric, self._secret.read(), epoch=str(begins))
        encoder.encode(value)
        response: bytes = encoder.frozen
        return response

    def about(self, metric: Metric, begins: int, response: bytes, value: Value) -> Report:
        """A report about a frozen response; `value` is any that the mechanism knows."""
        secret = self._secret.read()
        encoder = self._encoder(metric, secret, epoch=str(begins), frozen=response)
        return Report(encoder.encode(value))

    def _encoder(self, metric: Metric, secret: bytes, **epoch: Any) -> Any:
        mechanism: Any = metric.mechanism
        return mechanism.encoder(self._bits, secret=_key(secret, "response", metric), **epoch)


class _Memory(NamedTuple):
    """What a metric that is memoised per value is encoded with, under one secret."""

    secret: bytes
    encoder: Any
    tag_key: bytes

    def report(self, value: Value) -> Report:
        tag = hmac.digest(self.tag_key, self.encoder.cell(value), "sha256")[:TAG_BYTES]
        return Report(self.encoder.encode(value), tag)


def _key(secret: bytes, purpose: str, metric: Metric) -> Secret:
    fingerprint = metric.mechanism.fingerprint.hex()
    about = message(purpose, metric.name, str(metric.version), fingerprint)
    return Secret(hmac.digest(secret, about, "sha256"))
