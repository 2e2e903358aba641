"""`ldp collect`: the service that devices and relays send sealed batches to."""

import gc
import logging
import signal
import socket
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from ldp.cli.options import FILE, JSON, SPAN, say
from ldp.errors import MissingPackage, ParameterError
from ldp.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from ldp.protocol.batch import Item
    from ldp.protocol.sealed_report import Content

GRACE_SECONDS, BACKLOG, LOG_SECONDS = 30, 128, 60.0
LOOPBACK = ("127.0.0.1", "::1")
OF_DEVELOPMENT = {"registry", "store", "dev", "listen"}
"""Options that --dev reads."""


class _Seldom(logging.Filter):
    """Lets a message of a logger pass once in `LOG_SECONDS`, with the number of those that did
    not: senders may cause as many as they like."""

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


@click.command()
@click.option(
    "--registry",
    type=FILE,
    default="metrics.toml",
    show_default=True,
    help="The registry of metrics.",
)
@click.option(
    "--store", type=FILE, help="Store to add the reports to; with --dev none, for this run only."
)
@click.option(
    "--dev", is_flag=True, help="For a registry with development = true: say what comes, at once."
)
@click.option(
    "--listen",
    default="127.0.0.1:8787",
    show_default=True,
    metavar="HOST:PORT",
    help="Where, in plain HTTP; TLS is a proxy's. Port 0: any that is free.",
)
@click.option("--buffer", type=FILE, help="Folder of what is not in the store yet; STORE.buffer.")
@click.option(
    "--shuffle-least",
    type=click.IntRange(min=1),
    default=65_536,
    show_default=True,
    help="Reports of a metric that make a file.",
)
@click.option(
    "--shuffle-longest",
    type=SPAN,
    default="1h",
    show_default=True,
    help="Or so long after the first of them.",
)
@click.option(
    "--shuffle-smallest",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Reports that a file has at least: fewer wait, however long.",
)
@click.option("--write-small", is_flag=True, help="Write files of fewer reports all the same.")
@click.option("--retain", type=SPAN, help="Delete reports after so long, as 90d; never.")
@click.option("--rate", type=click.IntRange(min=1), default=20_000, help="Requests a second.")
@click.option("--most-requests", type=click.IntRange(min=1), default=512, help="At one time.")
@click.option(
    "--most-buffer",
    type=click.IntRange(min=1),
    default=8192,
    show_default=True,
    help="MiB of waiting reports and ids of batches; beyond it senders are told to come later.",
)
@click.option(
    "--allow-origin",
    multiple=True,
    metavar="ORIGIN",
    help="Origin of pages whose browsers may send, as https://app.example; may be repeated.",
)
@click.option(
    "--sealed",
    type=FILE,
    multiple=True,
    help="Key that opens sealed reports (ldp key); may be repeated, the newest first.",
)
@click.option("--trust-clock", is_flag=True, help="It went ahead by a month, and is right.")
@click.option("--drain", is_flag=True, help="Serve nobody: move all that waits, and end.")
@JSON
def collect(
    registry: Path,
    store: Path | None,
    dev: bool,
    listen: str,
    buffer: Path | None,
    shuffle_least: int,
    shuffle_longest: timedelta,
    shuffle_smallest: int,
    write_small: bool,
    retain: timedelta | None,
    rate: int,
    most_requests: int,
    most_buffer: int,
    allow_origin: tuple[str, ...],
    sealed: tuple[Path, ...],
    trust_clock: bool,
    drain: bool,
    as_json: bool,
) -> None:
    """Take sealed batches over HTTP into a store of reports, until interrupted.

    A batch is answered when it is on the disk for good. docs/operating.md has the rest. With --dev,
    on this machine only: every report is printed in words, and a page shows what they estimate.

    \b
    Example: ldp collect --registry metrics.toml --store reports
    Example: ldp collect --dev
    """
    try:
        from ldp.collection.collector import Collector
        from ldp.collection.service import Limits
    except ModuleNotFoundError as error:
        raise MissingPackage.of("ldp collect", error.name, "collector") from None
    from ldp.collection.lock import hold_lock
    from ldp.collection.workers import Shuffling

    loaded = Registry.load(registry)
    loaded.check(datetime.now(UTC).date())
    if dev:
        _require_no_other_options()
        _develop(loaded, store, listen)
        return
    if store is None:
        raise ParameterError("--store names the folder of the reports")
    if loaded.development:
        raise ParameterError(
            f"{registry} has development = true: run it with --dev, or take that line out for a "
            "registry of people's reports"
        )
    waiting = buffer or store.with_name(f"{store.name}.buffer")
    logging.basicConfig(format="ldp: %(message)s", level=logging.INFO)
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(_Seldom())
    with ExitStack() as held:
        for folder in (store, waiting):
            held.enter_context(hold_lock(folder))
        collector = Collector(
            loaded,
            store,
            waiting,
            limits=Limits(requests=most_requests, rate=float(rate), buffer_bytes=most_buffer << 20),
            shuffling=Shuffling(
                least=shuffle_least,
                longest=shuffle_longest,
                smallest=1 if write_small else shuffle_smallest,
            ),
            retain=retain,
            trust_clock=trust_clock,
            origins=allow_origin,
            open_report=_opener(loaded, sealed),
        )
        if drain:
            moved, left = collector.drain()
            words = f"{sum(moved.values()):,} reports moved to {store}"
            for metric, reports in left.items():
                words += (
                    f"\n{reports:,} reports of {metric} wait: a file has {shuffle_smallest:,} at "
                    "least; --write-small writes them"
                )
            say({"moved": dict(moved), "waiting": dict(left)}, words, as_json)
        else:
            _serve(collector.app, held.enter_context(_listening(listen)))


def _opener(registry: Registry, files: tuple[Path, ...]) -> "Callable[[Item], Content] | None":
    """Return what opens sealed reports with the keys in these files, None without files. Raise
    ParameterError when a key is missing to which devices may seal."""
    if not files:
        return None
    from ldp.protocol.sealing_keys import PrivateKey, open_with

    keys = [PrivateKey.load(file) for file in files]
    for fingerprint in set(registry.sealing_keys) - {key.fingerprint for key in keys}:
        raise ParameterError(
            f"devices may seal to the key {fingerprint} of {registry.path}: name its file with "
            "--sealed too"
        )
    return partial(open_with, keys)


def _require_no_other_options() -> None:
    """Raise ParameterError for options of the command line that --dev does not read."""
    context = click.get_current_context()
    others = [
        f"--{name.replace('_', '-')}"
        for name in context.params.keys() - OF_DEVELOPMENT
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]
    if others:
        raise ParameterError(f"--dev does not take {', '.join(sorted(others))}")


def _develop(registry: Registry, store: Path | None, listen: str) -> None:
    """Serve a developer's own machine: nothing waits, every batch is printed, a page shows all."""
    from ldp.collection.collector import Collector
    from ldp.collection.development import Development, require_development
    from ldp.collection.lock import hold_lock
    from ldp.collection.workers import Shuffling

    require_development(registry)
    with ExitStack() as held:
        folder = Path(held.enter_context(TemporaryDirectory())) / "store"
        place = store or folder
        buffer = place.with_name(f"{place.name}.buffer")
        for locked in (place, buffer):
            held.enter_context(hold_lock(locked))
        listening = held.enter_context(_listening(listen))
        address, port = listening.getsockname()[:2]
        if address not in LOOPBACK:
            raise ParameterError("--dev listens on this machine only, as 127.0.0.1:8787")
        application = Development(
            registry,
            Collector(
                registry,
                place,
                buffer,
                shuffling=Shuffling(least=1, longest=timedelta(0), smallest=1),
            ).app,
            store=place,
            hosts=[f"{host}:{port}" for host in ("127.0.0.1", "localhost", "[::1]")],
            say=click.echo,
            clock=lambda: datetime.now().astimezone(),
        )
        _serve(application, listening, "look at it in a browser; Ctrl-C ends it")


def _listening(listen: str) -> socket.socket:
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
        listening.listen(BACKLOG)  # who connects from now on waits, and is not turned away
    except OSError as error:
        raise ParameterError(f"cannot listen on {listen}: {error.strerror}") from None
    return listening


def _serve(app: Any, listening: socket.socket, note: str = "") -> None:
    import uvicorn

    from ldp.collection.connections import BACKLOG, connection_class, most_connections

    host, port = listening.getsockname()[:2]
    place = f"[{host}]" if ":" in host else host

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            click.echo(f"collecting on http://{place}:{port}")
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
    for name in (signal.SIGINT, signal.SIGTERM):  # uvicorn takes them over, and raises them again
        signal.signal(name, server.handle_exit)
    gc.collect()
    gc.freeze()  # what is there now stays: 4 % of the time would go into looking at it
    server.run(sockets=[listening])
    click.echo("stopped")
