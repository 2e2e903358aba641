"""`ldp collect`: the service that devices and relays send sealed batches to."""

import re
import signal
import sys
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from ldp.cli.options import FILE, JSON, SPAN, STORE, current_day, say
from ldp.cli.parsing import Typed
from ldp.cli.serving import (
    COUNT,
    begin_log,
    listening_on,
    own_hosts,
    serve,
    service_options,
    service_settings,
    set_right,
)
from ldp.cli.settings import rare
from ldp.errors import ParameterError, from_extra
from ldp.files import counted, real_path
from ldp.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from ldp.collection.object_store import StorePath
    from ldp.protocol.batch import Item
    from ldp.protocol.sealed_report import Content


def _id_range(text: str) -> range:
    """Return a range of first hexadecimal digits of ids, as `0-3` or `f`. Raises ParameterError."""
    match = re.fullmatch("([0-9a-f])(?:-([0-9a-f]))?", text)
    digits = [int(digit or match[1], 16) for digit in match.groups()] if match else [1, 0]
    if digits[0] > digits[1]:
        raise ParameterError("it must be a range of hexadecimal digits, as 0-3 or f")
    return range(digits[0], digits[1] + 1)


_IDS = Typed("RANGE", _id_range)


@click.command()
@service_options(8787)
@click.option(
    "--store",
    type=STORE,
    help="Store to add the reports to, a folder or its URL; not needed with --dev.",
)
@click.option(
    "--buffer", type=FILE, help="Folder of what is not in the store yet, by default STORE.buffer."
)
@click.option(
    "--dev", is_flag=True, help="Say what comes, at once; the registry has development = true."
)
@click.option("--drain", is_flag=True, help="Serve nobody: move what waits, and end.")
@click.option("--write-small", is_flag=True, help="Write files of fewer reports all the same.")
@click.option(
    "--retain", type=SPAN, help="Time after which reports are deleted, as 90d; by default never."
)
@rare("--shuffle-least", COUNT, 65_536, "Number of reports of a metric that make a file.")
@rare("--shuffle-longest", SPAN, "1h", "Longest time for which a metric's first report waits.")
@rare("--shuffle-smallest", COUNT, 100, "Least number of reports that make a file; fewer wait on.")
@rare("--allow-origin", str, (), "Origins of pages that may send, as https://app.example.")
@rare("--sealed", FILE, (), "Keys that open sealed reports (ldp key), the newest first.")
@rare("--relay-key", str, (), "Public keys of the relay, which signs sizes of batches.")
@rare("--ids", _IDS, "0-f", "First digits of ids of batches; other collectors have the rest.")
@JSON
def collect_command(
    registry: Path,
    store: "StorePath | None",
    dev: bool,
    listen: str,
    buffer: Path | None,
    shuffle_least: int,
    shuffle_longest: timedelta,
    shuffle_smallest: int,
    write_small: bool,
    retain: timedelta | None,
    allow_origin: tuple[str, ...],
    sealed: tuple[Path, ...],
    relay_key: tuple[str, ...],
    ids: range,
    drain: bool,
    as_json: bool,
    reset_watermark: bool,
    **settings: Any,
) -> None:
    """Take sealed batches over HTTP into a store of reports, until interrupted.

    A batch is answered once it is safely on the disk. SIGHUP moves waiting reports to the store.
    docs/operating.md has the rest. With --dev it serves this machine only: every report is printed
    in words, and a page shows what they estimate.

    \b
    Example: ldp collect --registry metrics.toml --store reports
    Example: ldp collect --dev
    """
    with from_extra("ldp collect", "collector"):
        from ldp.collection.buffer import Buffer
        from ldp.collection.collector import Collector, MoveError
    from ldp.collection.lock import hold_lock
    from ldp.collection.workers import Shuffling

    loaded = Registry.load(registry)
    loaded.check(current_day())
    folder = store if isinstance(store, Path) else None
    if store and not folder and (dev or buffer is None):
        raise ParameterError("a store at s3:// goes with --buffer FOLDER, and not with --dev")
    if dev:
        _develop(loaded, folder, listen, allow_origin)
        return
    if loaded.development:
        raise ParameterError(
            f"{registry} has development = true: run it with --dev, or take that line out for a "
            "registry of people's reports"
        )
    if store is None:
        raise ParameterError("--store names the folder of the reports")
    if retain is not None and retain < timedelta(days=1):
        raise ParameterError("--retain must be 1d or more: the reports of a day are kept together")
    if len(ids) < 16 and (sealed or loaded.sealing_keys):
        raise ParameterError("ids does not go with sealed reports: one collector knows them all")
    if not drain:
        _require_relay(loaded, sealed, relay_key)
    waiting = buffer or Path(f"{store}.buffer")
    if folder and real_path(folder) == real_path(waiting):
        raise ParameterError("--buffer names the folder of --store: name another one")
    begin_log()
    # at the start everything is moved anyway
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with ExitStack() as held:
        for locked in filter(None, (folder, waiting)):
            held.enter_context(hold_lock(locked))
        if reset_watermark:
            own = Buffer(waiting)
            own.claim(ids)
            set_right(own, loaded)
            return
        verify = None
        if relay_key:
            from ldp.protocol.sealing_keys import RelayPublicKey, verify_with

            verify = partial(verify_with, [*map(RelayPublicKey, relay_key)])
        collector = Collector(
            loaded,
            store,
            waiting,
            shuffling=Shuffling(
                least=shuffle_least,
                longest=shuffle_longest,
                smallest=1 if write_small else shuffle_smallest,
            ),
            retain=retain,
            origins=allow_origin,
            open_report=None if drain else _opener(loaded, sealed),
            verify=verify,
            ids=ids,
            **service_settings(**settings),
        )
        if drain:
            try:
                moved, left = collector.drain()
            except MoveError:  # the log says why
                sys.exit(2)
            words = f"{counted(sum(moved.values()), 'report')} moved to {store}"
            for metric, reports in left.items():
                words += (
                    f"\nwaiting: {counted(reports, 'report')} of {metric}; a file has "
                    f"{shuffle_smallest:,} at least; --write-small writes them"
                )
            say({"moved": dict(moved), "waiting": dict(left)}, words, as_json)
        else:
            signal.signal(signal.SIGHUP, lambda *_: collector.ask_flush())
            serve(collector.app, held.enter_context(listening_on(listen)), "collecting")


def _opener(registry: Registry, files: tuple[Path, ...]) -> "Callable[[Item], Content] | None":
    """Return the function that opens sealed reports with the keys in these files, None without.
    Raise ParameterError when a key is missing to which devices may seal."""
    if not files and not registry.sealing_keys:
        return None
    from ldp.protocol.sealing_keys import PrivateKey, open_with

    keys = [PrivateKey.load(file) for file in files]
    known = {key.fingerprint for key in keys}
    for fingerprint in (one for one in registry.sealing_keys if one not in known):
        raise ParameterError(
            f"devices may seal to the key {fingerprint} of {registry.path}: name its file with "
            "--sealed"
        )
    return partial(open_with, keys)


def _require_relay(
    registry: Registry, sealed: tuple[Path, ...], relay_key: tuple[str, ...]
) -> None:
    """Raise ParameterError where all messages for a shuffler would be refused, and so be lost."""
    name = next((name for name, one in registry.metrics.items() if one.needs_shuffler), None)
    if name is not None and not (sealed and relay_key):
        raise ParameterError(
            f"metric {name!r} comes from a relay only: give --sealed KEYFILE and --relay-key PUBLIC"
        )


def _develop(registry: Registry, store: Path | None, listen: str, origins: tuple[str, ...]) -> None:
    """Serve a developer's own machine: nothing waits, every batch is printed, a page shows all."""
    from ldp.collection.collector import Collector
    from ldp.collection.lock import hold_lock
    from ldp.collection.workers import Shuffling
    from ldp.publishing.development import Development, require_development

    require_development(registry)
    with ExitStack() as held:
        folder = Path(held.enter_context(TemporaryDirectory())) / "store"
        place = store or folder
        buffer = Path(f"{place}.buffer")
        for locked in (place, buffer):
            held.enter_context(hold_lock(locked))
        listening = held.enter_context(listening_on(listen))
        hosts = own_hosts(listening)
        if not hosts:
            raise ParameterError("--dev listens on this machine only, as 127.0.0.1:8787")
        application = Development(
            registry,
            Collector(
                registry,
                place,
                buffer,
                shuffling=Shuffling(least=1, longest=timedelta(0), smallest=1),
                origins=origins,
            ).app,
            store=place,
            hosts=hosts,
            origins=origins,
            say=click.echo,
            clock=lambda: datetime.now().astimezone(),
        )
        serve(application, listening, "collecting", "look at it in a browser; Ctrl-C ends it")
