"""Responses: the reports that a client draws, and the secret that memoised ones depend on.

Without memoisation a report has fresh noise. *Per value* its permanent response is a function of a
secret (of the device, or of an account whose devices share it), of the metric, its version and
mechanism, and of the value. *By epoch* one permanent response is drawn without a secret and stored
in the device's file. All reports of the epoch are about it.
"""

import hmac
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ldp.client.device_file import StorageError
from ldp.errors import ParameterError
from ldp.files import sync_folder
from ldp.mechanisms.base import ReportEncoder
from ldp.mechanisms.secrets import LEAST_SECRET, Secret, message
from ldp.protocol.hashing import Value
from ldp.protocol.randomness import BitSource
from ldp.registry import Metric

SECRET_BYTES = 32
TAG_BYTES = 16


class Report(NamedTuple):
    """Report as bytes. Under per-value memoisation there is also the keyed tag of its permanent
    response."""

    report: bytes
    tag: bytes | None = None


class SecretFile:
    """File of the device's secret, with mode 0600, made when it is first needed. After a loss a new
    secret is made, and everything is charged again. Use it in a transaction of the device's file
    that may write: the lock of the transaction keeps two processes from making two secrets."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unfinished = Path(f"{path}.new")

    def read(self) -> Secret:
        """Return the secret. Raises StorageError for a damaged file, OSError if reading fails."""
        with suppress(FileNotFoundError):
            return self._read_file()
        self._unfinished.unlink(missing_ok=True)
        handle = os.open(self._unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(handle, "wb") as file:
            file.write(os.urandom(SECRET_BYTES))
            file.flush()
            os.fsync(handle)
        self._unfinished.replace(self._path)
        sync_folder(self._path.parent)
        return self._read_file()

    def delete(self) -> None:
        """Delete the secret, and the unfinished file of a process that ended while it made one."""
        for path in (self._path, self._unfinished):
            path.unlink(missing_ok=True)
        sync_folder(self._path.parent)

    def _read_file(self) -> Secret:
        secret = Secret(self._path.read_bytes())
        if len(secret) != SECRET_BYTES:
            raise StorageError("the file of the device's secret is damaged")
        return secret


class AccountSecret:
    """Secret of an account, which the app gives: devices of one product with the same secret share
    what is memoised per value. Raises ParameterError for less than LEAST_SECRET bytes."""

    def __init__(self, secret: bytes, product: str) -> None:
        if not isinstance(secret, bytes) or len(secret) < LEAST_SECRET:
            raise ParameterError(f"secret must be bytes, {LEAST_SECRET} or more")
        self._secret = Secret(hmac.digest(secret, message("product", product), "sha256"))

    def read(self) -> Secret:
        """Return the secret of this product."""
        return self._secret

    def delete(self) -> None:
        """Do nothing: the app owns the account's secret."""


class Responses:
    """Source of all reports of a client. An encoder is made for the first report of a metric."""

    def __init__(self, bits: BitSource, secret: SecretFile | AccountSecret) -> None:
        self._bits = bits
        self._secret = secret
        self._encoders: dict[str, ReportEncoder] = {}
        self._memories: dict[str, _Memory] = {}

    def fresh_report(self, metric: Metric, value: Value) -> Report:
        """Draw a report that shares no noise with any other, whatever the metric's memoisation."""
        encoder = self._encoders.get(metric.name)
        if encoder is None:
            encoder = self._encoders[metric.name] = metric.mechanism.encoder(self._bits)
        return Report(encoder.encode(value))

    def memoised_report(self, metric: Metric, value: Value) -> Report:
        """Draw a report about the permanent response that the secret gives for a value."""
        secret = self._secret.read()
        memory = self._memories.get(metric.name)
        if memory is None or memory.secret != secret:
            mechanism: Any = metric.mechanism
            encoder = mechanism.encoder(self._bits, secret=_key(secret, "response", metric))
            memory = _Memory(secret, encoder, _key(secret, "tag", metric))
            self._memories[metric.name] = memory
        return memory.report(value)

    def permanent_response(self, metric: Metric, value: Value) -> bytes:
        """Draw a cohort and a permanent response to a value for an epoch, with fresh noise."""
        encoder = self._for_epoch(metric)
        encoder.encode(value)
        return bytes(encoder.frozen)

    def epoch_report(self, metric: Metric, response: bytes, value: Value) -> Report:
        """Draw a report about an epoch's response. `value`: any value that the mechanism knows."""
        return Report(self._for_epoch(metric, frozen=response).encode(value))

    def _for_epoch(self, metric: Metric, **frozen: Any) -> Any:
        mechanism: Any = metric.mechanism
        return mechanism.encoder(self._bits, epoch="", **frozen)


class _Memory(NamedTuple):
    """Encoder and tag key of a metric that is memoised per value, under one secret."""

    secret: bytes
    encoder: Any
    tag_key: bytes

    def report(self, value: Value) -> Report:
        tag = hmac.digest(self.tag_key, self.encoder.cell(value), "sha256")[:TAG_BYTES]
        return Report(self.encoder.encode(value), tag)


def _key(secret: bytes, purpose: str, metric: Metric) -> Secret:
    fingerprint = metric.mechanism.fingerprint.hex()
    name = message(purpose, metric.name, str(metric.version), fingerprint)
    return Secret(hmac.digest(secret, name, "sha256"))
