"""`ldp registry`: check, lock and export metrics.toml."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import click

from ldp.accounting.explain import upwards
from ldp.cli.options import FILE, JSON, say
from ldp.files import write_whole
from ldp.registry import Registry

_FILE = click.argument("file", type=FILE)


@click.group()
def registry() -> None:
    """Check, lock and export metrics.toml.

    \b
    Example: ldp registry lock metrics.toml && ldp registry check metrics.toml
    """


@registry.command()
@_FILE
@click.option("--against", type=FILE, help="An older registry to compare to.")
@click.option(
    "--accept-growth",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="EPSILON",
    help="With --against: accept that a life may lose so much more.",
)
@JSON
def check(file: Path, against: Path | None, accept_growth: float, as_json: bool) -> None:
    """Validate FILE, compare it with its lock, print each group's worst-case epsilon.

    Fails when a metric changed without a new version; with --against also when a metric moved to
    another group, a group is gone or allows more in a window than it did, or more can be lost in a
    life than --accept-growth allows.

    \b
    Example: ldp registry check metrics.toml --against main/metrics.toml
    """
    loaded = Registry.load(file)
    today = datetime.now(UTC).date()
    unlocked = loaded.check(today)
    if against is not None:
        loaded.check_against(Registry.load(against), accept_growth)
    expired = loaded.expired(today)
    worst = {name: loaded.worst_case(name) for name in loaded.groups}
    of_all = loaded.worst_case_of_all()
    lines = [f"{file} is well formed: metrics {', '.join(loaded.metrics)}"]
    lines += [
        f"{whose}: epsilon at most {upwards(spans['day'])} in any 24 hours, "
        f"{upwards(spans['year'])} in any year, {upwards(spans['life'])} for life"
        for whose, spans in [
            *((f"group {name}", spans) for name, spans in worst.items()),
            ("all of one device", of_all),
        ]
    ]
    lines += [f"metric {name} has expired" for name in expired]
    silent = {name: metric.silent for name, metric in loaded.metrics.items() if metric.silent}
    lines += [
        f"note: metric {name} sends nothing for {what}, and that is seen: name other or words"
        for name, what in silent.items()
    ]
    lines += [f"metric {name} is not locked yet: run `ldp registry lock`" for name in unlocked]
    result = {
        "expired": expired,
        "not_locked": unlocked,
        "silent_about": silent,
        "worst_case_epsilon": worst,
        "worst_case_epsilon_of_all": of_all,
    }
    say(result, "\n".join(lines), as_json)


@registry.command()
@_FILE
@JSON
def lock(file: Path, as_json: bool) -> None:
    """Write metrics.lock beside FILE: what each metric means today.

    \b
    Example: ldp registry lock metrics.toml
    """
    loaded = Registry.load(file)
    loaded.lock(datetime.now(UTC).date())
    result = {"locked": list(loaded.metrics), "written": str(loaded.lock_path)}
    say(result, f"metrics pinned: {', '.join(loaded.metrics)} -> {loaded.lock_path}", as_json)


@registry.command()
@_FILE
@JSON
def export(file: Path, as_json: bool) -> None:
    """Write the registry beside FILE as JSON, which clients in other languages read.

    An app bundles the file, or fetches it from a collector and pins its SHA-256.

    \b
    Example: ldp registry export metrics.toml
    """
    from ldp.registry.resolved import resolved_bytes

    body, out = resolved_bytes(Registry.load(file)), file.with_suffix(".json")
    write_whole(out, body)
    digest = hashlib.sha256(body).hexdigest()
    say({"written": str(out), "sha256": digest}, f"{out}\nsha256 {digest}", as_json)
