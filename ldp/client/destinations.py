"""Destinations of sealed batches: a folder, or a collector over HTTP."""

import json
import os
from collections.abc import Mapping
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from threading import Timer
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from ldp.errors import ParameterError, Unreachable
from ldp.files import sync_folder
from ldp.protocol.batch import HEAD_BYTES, ID_HEADER, MEDIA_TYPE, MOST_BYTES, Destination, Item
from ldp.protocol.sealed_report import QUEUE, is_sealed
from ldp.protocol.wire import HEADER_BYTES
from ldp.registry import Registry

if TYPE_CHECKING:
    from http.client import HTTPConnection
    from ssl import SSLContext

    from ldp.protocol.sealing_keys import PublicKey

TIMEOUT_SECONDS = 20.0
"""Longest duration of one request, from its first byte to the last of the answer."""


class Folder:
    """Folder with a file for each batch, named by its id once it is on the disk whole."""

    is_local = True
    """True: a registry for development may send here."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path).absolute()

    def send(self, identity: bytes, body: bytes) -> int:
        """Write a batch and return 0; raise Unreachable if that fails."""
        final = self._path / f"{identity.hex()}.batch"
        part = self._path / f".{identity.hex()}.{os.urandom(4).hex()}.part"
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            if not final.exists():
                with part.open("wb") as file:
                    file.write(body)
                    file.flush()
                    os.fsync(file.fileno())
                part.replace(final)
            sync_folder(self._path)
        except OSError as error:
            with suppress(OSError):
                part.unlink()
            raise Unreachable(f"cannot write to the folder: {error.strerror}") from None
        return 0


class _Address(NamedTuple):
    """Address to which batches are posted: host with port, path, https or not."""

    host: str
    path: str
    is_secure: bool
    is_local: bool

    @classmethod
    def of(cls, url: str) -> "_Address":
        """Return the address of a collector or relay. Raises ParameterError for an invalid URL."""
        from urllib.parse import urlsplit

        try:
            parts = urlsplit(url)
            parts.netloc.encode("idna")
            (parts.path + parts.query + parts.fragment).encode("ascii")
            scheme, host, whole = parts.scheme, parts.hostname, not parts.query + parts.fragment
            whole &= parts.port != 0
        except (AttributeError, ValueError):
            scheme, host, whole = "", None, False
        local = host in ("localhost", "127.0.0.1", "::1")
        if not host or not whole or not (scheme == "https" or (scheme == "http" and local)):
            raise ParameterError("a collector's address must be https (http on this machine only)")
        if "@" in parts.netloc:
            raise ParameterError("a collector's address must hold no password: use headers")
        path = parts.path.rstrip("/") + "/v1/reports"
        return cls(parts.netloc, path, scheme == "https", local)


class Collector:
    """Collector that batches are sent to with `POST url/v1/reports`. With `put` the request is `PUT
    url/v1/reports/ID`, which a balancer may repeat. ID is the batch's id as 32 hexadecimal digits.
    Every request states the id in the header `Ldp-Batch`, by which a proxy chooses among
    collectors. 202 acknowledges. After any other status the same bytes are sent again later.

    `url`: https, or http on this machine. `relay`: address of a relay that sealed batches go to
    instead. Batches that were sealed before there was a key still go to `url`. `key`: the
    collector's public key as text (`ldp key`), to which the client then seals every report. The
    client's registry must list the key, and the extra `sealed` must be installed. `headers`: sent
    with every batch, for a proxy before the collector. `context`: TLS settings, for an authority or
    a client certificate of your own. Without it certificates are checked as the system does. The
    proxy is the environment's (`https_proxy`, `no_proxy`); redirects are not followed. `is_local`:
    whether every address is http on this machine. `has_relay`: whether there is a relay. Raises
    ParameterError and MissingPackage.
    """

    def __init__(
        self,
        url: str,
        *,
        relay: str | None = None,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        context: "SSLContext | None" = None,
        put: bool = False,
    ) -> None:
        if relay is not None and key is None:
            raise ParameterError("a relay must not read reports: give the collector's key too")
        self.key = None if key is None else _public_key(key)
        self._direct, self.has_relay = _Address.of(url), relay is not None
        self._relay = self._direct if relay is None else _Address.of(relay)
        if self.has_relay and self._relay == self._direct:
            raise ParameterError("the relay must be another address than the collector's")
        self.is_local = self._direct.is_local and self._relay.is_local
        self._headers = {**(headers or {}), "Content-Type": MEDIA_TYPE, "User-Agent": "ldp"}
        for text in chain.from_iterable((headers or {}).items()):
            if not isinstance(text, str) or not text.isascii() or not text.isprintable():
                raise ParameterError("headers must be texts of one line each, in ASCII")
        self._context = context
        self._put = put

    def send(self, identity: bytes, body: bytes) -> int:
        """Send a batch and return the number of refused reports. Raises Unreachable without a valid
        answer of status 202."""
        from http.client import HTTPException  # late: slow to load

        passes_relay = self.has_relay and is_sealed(body)
        address = self._relay if passes_relay else self._direct
        receiver = "relay" if passes_relay else "collector"
        method, path = "POST", address.path
        if self._put:
            method, path = "PUT", f"{path}/{identity.hex()}"
        with closing(self._connection(address)) as connection:
            latest = monotonic() + TIMEOUT_SECONDS
            deadline = Timer(TIMEOUT_SECONDS, _abort, (connection,))
            deadline.daemon = True
            deadline.start()
            try:
                headers = {**self._headers, ID_HEADER: identity.hex()}
                connection.connect()
                # a name or several addresses took too long
                if monotonic() >= latest:
                    raise TimeoutError
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                text, retry_after = answer.read(1 << 20), answer.getheader("Retry-After", "")
            except (OSError, HTTPException, ValueError, AttributeError) as error:
                message = f"the {receiver} cannot be reached: {type(error).__name__}"
                raise Unreachable(message) from None
            finally:
                deadline.cancel()
        if answer.status != 202:
            seconds = float(retry_after) if retry_after.isdecimal() else 0.0
            message = f"the {receiver} answered {answer.status}"
            raise Unreachable(message, seconds, answer.status)
        return _count_refused(text)

    def _connection(self, address: _Address) -> "HTTPConnection":
        """Return a connection to an address, through the environment's proxy if there is one."""
        from http.client import HTTPConnection, HTTPSConnection

        if not address.is_secure:
            return HTTPConnection(address.host, timeout=TIMEOUT_SECONDS)
        proxy, headers = _proxy(address.host)
        host = proxy or address.host
        connection = HTTPSConnection(host, timeout=TIMEOUT_SECONDS, context=self._context)
        if proxy:
            connection.set_tunnel(address.host, headers=headers)
        return connection


def _public_key(text: str) -> "PublicKey":
    # late: most devices seal to no key
    from ldp.protocol.sealing_keys import PublicKey

    return PublicKey(text)


def _proxy(host: str) -> tuple[str, dict[str, str]]:
    """Return the address of the environment's proxy for https to a host, "" without one, and the
    headers for it."""
    from base64 import b64encode
    from urllib.parse import unquote, urlsplit
    from urllib.request import getproxies, proxy_bypass

    address = getproxies().get("https", "")
    if not address or proxy_bypass(host):
        return "", {}
    parts = urlsplit(address if "://" in address else f"http://{address}")
    if parts.username is None:
        return parts.netloc, {}
    secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    basic = b64encode(secret.encode()).decode()
    return parts.netloc.rpartition("@")[2], {"Proxy-Authorization": f"Basic {basic}"}


def _abort(connection: object) -> None:
    """End a request that takes too long: reading from its socket raises an error."""
    socket = getattr(connection, "sock", None)
    with suppress(OSError, AttributeError):
        socket.shutdown(2)  # type: ignore[union-attr]


def _count_refused(answer: bytes) -> int:
    """Return how many items an answer lists as refused for good. Raises Unreachable if it has no
    such list."""
    try:
        refusals = json.loads(answer)["refused"]
    except (ValueError, KeyError, TypeError, RecursionError):
        refusals = None
    if not isinstance(refusals, list):
        raise Unreachable("the collector's answer cannot be read")
    return len(refusals)


def path_of(destination: Destination | None, registry: Registry) -> "tuple[PublicKey | None, bool]":
    """Return the key to which reports for a destination are sealed, None without one, and whether
    they pass a relay. Raise ParameterError where the destination does not fit the registry: it lies
    beyond this machine and the registry is for development, its key is not listed in the registry,
    it has no key and the registry lists some, it has no relay and a metric needs one, or a report
    is too large for a batch."""
    stays = destination is None or getattr(destination, "is_local", False)
    if registry.development and not stays:
        raise ParameterError(
            "a registry with development = true sends to a folder, to memory, or to "
            'Collector("http://127.0.0.1:8787") of `ldp collect --dev` only'
        )
    if metrics := registry.metrics.values():
        metric = max(metrics, key=lambda of: len(of.name) + of.mechanism.layout.body_bytes)
        report = bytes(HEADER_BYTES + metric.mechanism.layout.body_bytes)
        item = Item(metric.name, metric.version, report)
        _require_fitting(f"report of metric {metric.name!r}", item)
    key: PublicKey | None = getattr(destination, "key", None)
    if key is not None and not hasattr(key, "fingerprint"):
        raise ParameterError("the attribute key of a destination is a collector's key or None")
    if key is not None and key.fingerprint not in registry.sealing_keys:
        raise ParameterError(
            f"{registry.path} does not list the key {key.fingerprint} in sealing_keys: devices "
            "seal to no other"
        )
    if key is None and registry.sealing_keys and (hasattr(destination, "key") or not stays):
        raise ParameterError(
            f"{registry.path} has sealing_keys, so reports are sealed: give the destination the "
            "collector's key, Collector(..., key=...)"
        )
    for name, queue in registry.queues().items() if key is not None else ():
        item = Item(QUEUE + name, 1, bytes(queue.size))
        _require_fitting(f"sealed report of queue {name!r}", item)
    has_relay = key is not None and bool(getattr(destination, "has_relay", False))
    if destination is not None and not has_relay:
        for name, metric in registry.metrics.items():
            if metric.needs_shuffler:
                raise ParameterError(
                    f"metric {name!r} protects nothing without a relay: give one, and the "
                    "collector's key, Collector(..., relay=..., key=...)"
                )
    return key, has_relay


def _require_fitting(what: str, item: Item) -> None:
    """Raise ParameterError for an item that is larger than a batch. `what` says what it is."""
    if HEAD_BYTES + item.size > MOST_BYTES:
        raise ParameterError(f"a {what} is larger than any batch")
