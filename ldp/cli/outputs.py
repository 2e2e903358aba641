"""The guard of every command: what it writes never replaces what it reads, nor itself."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import wraps
from itertools import permutations
from pathlib import Path
from typing import Any

import click

from ldp.cli.options import working
from ldp.errors import LdpError, ParameterError
from ldp.files import real_path

OUTPUTS = {
    "audit": ("report",),
    "publish": ("csv", "duckdb"),
    "simulate": ("table", "truth", "reports"),
}
"""Options beside --out that name a file which a command writes. The files of all others are read.
"""
FOREIGN = {
    *(".gz", ".zst", ".zip", ".bz2", ".xz"),
    *(".parquet", ".arrow", ".feather"),
    *(".xlsx", ".xls", ".ods", ".pdf"),
    *(".toml", ".lock", ".key", ".db", ".py"),
}
"""Endings of formats in which no output of a command is written, and which replacing would lose."""
TALKING = ("collect", "demo", "init", "publish", "registry add", "relay")
"""Commands that ask, serve, or print while they work. All others show how long they take."""
READ_AS_TEXT = (
    *("candidates", "population", "source", "truth"),
    "weighted_reports_per_client",
)
"""Options whose files are given as text, because "-" is standard input."""


def guarded(name: str, command: click.Command) -> click.Command:
    """Return the command with a check: before it reads or writes anything, it raises ParameterError
    if one of its outputs is one of its inputs or another output, or has the ending of a format that
    it does not write."""
    for word, one in command.commands.items() if isinstance(command, click.Group) else ():
        guarded(f"{name} {word}", one)
    options = {option.name for option in command.params}
    callback: Any = command.callback
    written = [*options.intersection(["out"]), *OUTPUTS.get(name, ())]

    @wraps(callback)
    def checked(**values: Any) -> Any:
        places = [Path(values[option]) for option in written if values.get(option)]
        outputs = [path for place in places if place != Path("-") for path in _with_summary(place)]
        inputs = [path for path in _read(values, written) if path.exists()] if outputs else []
        for output in outputs:
            for path in inputs:
                is_stored = output.is_file() and real_path(path) in real_path(output).parents
                if _is_same(output, path) or (path.is_dir() and is_stored):
                    raise ParameterError(
                        f"{output} is also an input; name another file for the output"
                    )
        for first, second in permutations(outputs, 2):
            is_in = real_path(first) in real_path(second).parents
            if second in places and (is_in or _is_same(first, second)):
                raise ParameterError(
                    f"{second} is named for two outputs or lies in one; name another file for it"
                )
        for place in places:
            if place.suffix.lower() in FOREIGN:
                raise ParameterError(
                    f"{place}: no output is a {place.suffix} file; give another ending"
                )
            if place.is_file() and _is_registry(place):
                raise ParameterError(f"{place} is a registry; name another file for the output")
        with nullcontext() if name in TALKING else working(f"ldp {name}"):
            return callback(**values)

    command.callback = checked
    return command


def _is_registry(place: Path) -> bool:
    with place.open("rb") as file:
        return bool(re.search(rb"(?m)^\[(product|metric\.)", file.read(1 << 20)))


def _read(values: Mapping[str, Any], written: Sequence[str]) -> Iterator[Path]:
    """Yield every file that the options name as an input, with the files that are read beside it,
    and the file of `--config`, which is the object of the context."""
    for option, value in {**values, "": click.get_current_context().obj}.items():
        if option in written:
            continue
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Path) or (isinstance(item, str) and option in READ_AS_TEXT):
                yield from _with_summary(Path(item))
    if registry := values.get("registry") or values.get("file"):
        # late: most commands need no registry
        from ldp.registry import Registry

        with suppress(LdpError):
            yield from Registry.load(registry).files


def _with_summary(path: Path) -> Iterator[Path]:
    """Yield a file, and if it is a file of estimates the summary beside it."""
    yield path
    yield path.with_suffix(".json") if path.suffix == ".csv" else Path(f"{path}.json")


def _is_same(first: Path, second: Path) -> bool:
    with suppress(OSError):
        return os.path.samefile(first, second)
    return real_path(first) == real_path(second)
