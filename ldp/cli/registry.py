"""`ldp registry`: check and lock metrics.toml."""

from datetime import UTC, datetime
from pathlib import Path

import click

from ldp.cli.options import JSON, say
from ldp.registry import Registry

_FILE = click.argument("file", type=click.Path(path_type=Path))


@click.group()
def registry() -> None:
    """Check and lock metrics.toml.

    \b
    Example: ldp registry lock metrics.toml && ldp registry check metrics.toml
    """


@registry.command()
@_FILE
@click.option("--against", type=click.Path(path_type=Path), help="An older registry to compare to.")
@JSON
def check(file: Path, against: Path | None, as_json: bool) -> None:
    """Validate FILE, compare it with its lock, print each group's worst-case epsilon.

    Fails when a metric changed without a new version.

    \b
    Example: ldp registry check metrics.toml --against main/metrics.toml
    """
    loaded = Registry.load(file)
    loaded.check()
    if against is not None:
        loaded.check_against(Registry.load(against))
    expired = loaded.expired(datetime.now(UTC).date())
    worst = {name: loaded.worst_case(name) for name in loaded.groups}
    lines = [
        f"{file}: {len(loaded.metrics)} metrics, {len(loaded.groups)} groups, as they should be"
    ]
    lines += [
        f"group {name}: epsilon at most {spans['day']:g} a day, {spans['year']:g} a year, "
        f"{spans['life']:g} for life"
        for name, spans in worst.items()
    ]
    lines += [f"metric {name} has expired" for name in expired]
    say({"expired": expired, "worst_case_epsilon": worst}, "\n".join(lines), as_json)


@registry.command()
@_FILE
def lock(file: Path) -> None:
    """Write metrics.lock beside FILE: what each metric means today.

    \b
    Example: ldp registry lock metrics.toml
    """
    loaded = Registry.load(file)
    loaded.check()
    loaded.lock()
    click.echo(f"{loaded.lock_path}: {len(loaded.metrics)} metrics pinned")
