"""Parts that serving commands share: options, a log, a socket, a server that a signal ends."""

import gc
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable
from functools import reduce
from inspect import iscoroutinefunction
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import click

from ldp.cli.options import FILE
from ldp.cli.settings import CONFIG, rare
from ldp.errors import ParameterError
from ldp.registry import Registry

if TYPE_CHECKING:
    from ldp.collection.acknowledged import BatchFile
    from ldp.collection.admission import Admits

LOOPBACK = ("127.0.0.1", "::1")
GRACE_SECONDS, BACKLOG, LOG_SECONDS = 30, 128, 60.0
OBJECTS = 50_000
"""Number of new objects after which Python searches for cycles of references. Batches have none."""
COUNT = click.IntRange(min=1)


def service_options(port: int) -> Callable[..., Any]:
    """Return a decorator that gives a command the options of a service that listens at `port`: its
    registry and address, its limits, who may send, and how to recover from a wrong clock."""
    address = "Address to listen at, in plain HTTP: TLS is a proxy's. Port 0 is any that is free."
    ahead = "Take batches by the clock as it is now, after a wrong one, and end."
    options = (
        CONFIG,
        click.option("--registry", type=FILE, default="metrics.toml", help="Registry to follow."),
        click.option("--listen", default=f"127.0.0.1:{port}", metavar="HOST:PORT", help=address),
        click.option("--reset-watermark", is_flag=True, help=ahead),
        rare("--rate", COUNT, 20_000, "Largest number of requests that are taken in a second."),
        rare("--most-requests", COUNT, 512, "Largest number of requests that are open at once."),
        rare("--most-buffer", COUNT, 8192, "Number of MiB that may wait in the buffer."),
        rare("--admit", str, None, "Function of yours, MODULE:NAME, that decides who may send."),
    )
    return lambda command: reduce(lambda whole, add: add(whole), reversed(options), command)


def service_settings(
    *, rate: int, most_requests: int, most_buffer: int, admit: str | None
) -> dict[str, Any]:
    """Return the options of a service as arguments of `Collector` and `Relay`. Raises
    ParameterError if the function that decides who may send cannot be used."""
    from ldp.collection.service import Limits

    return {
        "limits": Limits(requests=most_requests, rate=float(rate), buffer_bytes=most_buffer << 20),
        "admits": None if admit is None else _admits(admit),
    }


def set_right(buffer: "BatchFile", registry: Registry) -> None:
    """Set day and watermark of a buffer by the clock. Print the first day whose reports count."""
    from ldp.collection.service import longest_lateness, utc_today

    today, lateness = utc_today(), longest_lateness(registry)
    buffer.reset(today, lateness, time.monotonic())
    click.echo(f"batches are taken that were sealed on {buffer.watermark} or later")
    if buffer.watermark > today - lateness:
        click.echo("ids of earlier days are forgotten: their batches could be counted twice")
    buffer.close()


def _admits(name: str) -> "Admits":
    """Return the function of this name, from a module in the current folder or an installed one."""
    sys.path.insert(0, "")
    try:
        admits: Admits = resolve_name(name)
    except (ValueError, ImportError, AttributeError) as error:
        raise ParameterError(f"admit = {name!r}: {error}") from None
    if not iscoroutinefunction(admits):
        raise ParameterError(f"admit = {name!r}: write async def NAME(arrival) -> int | None")
    return admits


class _Seldom(logging.Filter):
    """Filter that passes a message of a logger once in `LOG_SECONDS`, with the number of messages
    that did not pass: senders could cause any number of them."""

    def __init__(self) -> None:
        super().__init__()
        self._said = dict[str, tuple[float, int]]()

    def filter(self, record: logging.LogRecord) -> bool:
        last, missed = self._said.get(record.msg, (-LOG_SECONDS, 0))
        now = time.monotonic()
        if now - last < LOG_SECONDS:
            self._said[record.msg] = (last, missed + 1)
            return False
        self._said[record.msg] = (now, 0)
        if missed:
            record.msg = f"{record.msg} ({missed} more like this)"
        return True


def begin_log() -> None:
    """Log to stderr from now on, without what senders could fill it with."""
    logging.basicConfig(format="ldp: %(message)s", level=logging.INFO)
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(_Seldom())


def listening_on(listen: str) -> socket.socket:
    """Return a socket that listens on HOST:PORT. Raises ParameterError if that is impossible."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise ParameterError("--listen must be HOST:PORT, as 127.0.0.1:8787")
    host = host.removeprefix("[").removesuffix("]")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        # who connects from now on waits, and is not turned away
        listening.listen(BACKLOG)
    except OSError as error:
        raise ParameterError(f"cannot listen on {listen}: {error.strerror}") from None
    return listening


def own_hosts(listening: socket.socket) -> list[str]:
    """Return the values of `Host` for a socket on 127.0.0.1 or ::1, which only this machine can
    reach. Returns none if others can reach the socket, under names that are not known."""
    address, port = listening.getsockname()[:2]
    hosts = ("127.0.0.1", "localhost", "[::1]") if address in LOOPBACK else ()
    return [f"{host}:{port}" for host in hosts]


def serve(app: Any, listening: socket.socket, action: str, note: str = "") -> None:
    """Serve an application until a signal ends it. `action`: what the application does, for the
    line with its address. `note`: a line after that."""
    import uvicorn

    from ldp.collection.connections import BACKLOG, connection_class, most_connections

    host, port = listening.getsockname()[:2]
    place = f"[{host}]" if ":" in host else host

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            click.echo(f"{action} on http://{place}:{port}")
            if note:
                click.echo(note)

    most = most_connections()
    server = Server(
        uvicorn.Config(
            app,
            http=connection_class(most),
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            backlog=min(BACKLOG, most),
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
    )
    ends = [signal.SIGHUP] * (signal.getsignal(signal.SIGHUP) is signal.SIG_DFL)
    # uvicorn takes the first two over, and raises them again
    for name in (signal.SIGINT, signal.SIGTERM, *ends):
        signal.signal(name, server.handle_exit)
    gc.collect()
    # what is there now stays: 4 % of the time would go into looking at it
    gc.freeze()
    gc.set_threshold(OBJECTS)
    server.run(sockets=[listening])
    click.echo("stopped")
