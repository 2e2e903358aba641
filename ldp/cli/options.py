"""Parts that several commands share: options, the seeded generator, time taken, results as JSON."""

import json
import re
import shlex
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from shutil import get_terminal_size
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import click

from ldp.cli.parsing import SHARE, Typed
from ldp.errors import ParameterError
from ldp.files import finite, is_endless
from ldp.protocol.keys import duration
from ldp.registry.definitions import Metric

if TYPE_CHECKING:
    import numpy as np


class _File(click.Path):
    """The name of a file or folder. It raises a usage error for "-" where no stream can stand for
    it, for "", which pathlib takes for the current folder, for a URL, which would become a folder
    of that name, and for a pipe or a device, which may never end."""

    def convert(self, value: Any, *place: Any) -> Any:
        if str(value) == "-":
            self.fail('"-" is not supported here; name a file', *place)
        if not str(value).strip() or "\0" in str(value):
            self.fail("it names no file", *place)
        if is_endless(Path(value)):
            self.fail("is a named pipe or a device, which may never end; name a file", *place)
        if re.match("[A-Za-z][A-Za-z0-9+.-]*://", str(value)):
            self.fail("is a URL; name a file or folder of this machine", *place)
        return super().convert(value, *place)


class _Store(_File):
    """The folder of a store, or its URL."""

    def convert(self, value: Any, *place: Any) -> Any:
        if "://" not in str(value):
            return super().convert(value, *place)
        # late: it loads pyarrow
        from ldp.collection.object_store import store_path

        return Typed("STORE", store_path).convert(str(value), *place)


FILE, STORE = _File(path_type=Path), _Store(path_type=Path)
REGISTRY = click.option(
    "--registry",
    type=FILE,
    required=True,
    help="Registry that states the metrics.",
)
LEVEL = click.option("--level", type=float, default=0.95, help="Share of intervals that hold.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
SEED = click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="Number that makes the run repeatable; without it each run is fresh.",
)


QUANTILES = click.option(
    "--quantile",
    "quantiles",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    multiple=True,
    help="Share below a percentile to estimate; may be repeated. By default .5, .9, .95, .99.",
)


class _Day(click.DateTime):
    def convert(self, value: Any, *place: Any) -> Any:
        return super().convert(value, *place).date()


DAY = _Day(["%Y-%m-%d"])


FAKES = click.option(
    "--fakes",
    type=SHARE,
    callback=lambda _, __, share: share if share is None else float(share),
    help="Share of the reports that may be made up, as 1%.",
)
WIDTH = 96
"""Most letters of a line of a paragraph."""
Words = str | Iterable[str]
Rows = list[Sequence[str]]
SPAN = Typed("TIME", duration)
"""A length of time, such as 90d."""


def current_day() -> date:
    """Return today's date, in UTC."""
    return datetime.now(UTC).date()


def check_days(since: date | None, until: date | None) -> None:
    """Raise ParameterError for days that end before they begin."""
    if since and until and until < since:
        raise ParameterError("--until lies before --since")


def generator(seed: int | None) -> "np.random.Generator":
    """Return a generator for simulations: from `seed`, or from fresh entropy without one."""
    # late: the command line starts without it
    import numpy as np

    return np.random.default_rng(seed)


def require_local(metric: Metric, command: str) -> None:
    """Raise ParameterError for a metric whose reports have no noise of their own, because `command`
    relies on that noise."""
    if metric.needs_shuffler:
        raise ParameterError(
            f"metric {metric.name!r} sends messages for a shuffler: {command} is for metrics that "
            "randomise each report"
        )


def say(
    result: dict[str, Any], words: Words, as_json: bool, following: str = "", *places: object
) -> None:
    """Print the result of a command. A program gets JSON, in which an infinite number is null. A
    person gets `words`, lines or one text, and on a terminal also the command `following` to run
    next, whose `places` are quoted for a shell."""
    text = words if isinstance(words, str) else "\n".join(words)
    fitted = "\n".join(map(_fitted, text.split("\n")))
    click.echo(json.dumps(finite(result), allow_nan=False) if as_json else fitted)
    if following and not as_json and sys.stdout.isatty():
        click.echo(f"next: {following.format(*(shlex.quote(str(place)) for place in places))}")


def _fitted(line: str) -> str:
    """Return a line in as many as a terminal needs. No word is broken, so paths stay whole."""
    if len(line) <= (width := text_width()):
        return line
    return textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)


def aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table: columns with numbers are aligned right, others left. A table
    wider than the terminal is in parts, each with the first column."""
    first, *others = map(_padded, zip(*rows, strict=True))
    parts = [[first]]
    for cells in others:
        width = sum(2 + len(column[0]) for column in parts[-1]) + len(cells[0])
        if width > text_width() and len(parts[-1]) > 1:
            parts.append([first])
        parts[-1].append(cells)
    lines = (line for part in parts for line in ("", *map("  ".join, zip(*part, strict=True))))
    return [*map(str.rstrip, lines)][1:]


def _padded(cells: tuple[str, ...]) -> list[str]:
    pad = str.rjust if any(re.match("[-0-9]", cell) for cell in cells) else str.ljust
    return [pad(cell, max(map(len, cells))) for cell in cells]


def text_width() -> int:
    """Return the width of the terminal, or without one the largest number."""
    return get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize


def wrap(text: str, indent: str = "") -> list[str]:
    """Return the lines of a paragraph, no wider than a terminal. `indent`: of all but the first."""
    return textwrap.wrap(text, min(text_width(), WIDTH), subsequent_indent=indent)


def warn(line: str) -> None:
    """Print a line that a person should read beside the result."""
    click.echo(f"ldp: {line}", err=True)


@contextmanager
def working(label: str) -> Iterator[None]:
    """Show on a terminal, after two seconds, that the block is running and for how long."""
    if not sys.stderr.isatty():
        yield
        return
    started, is_done = time.monotonic(), Event()

    def tell() -> None:
        is_done.wait(2)
        while not is_done.wait(0.5):
            print(f"\r{label}: {time.monotonic() - started:.0f} s", end="", file=sys.stderr)

    thread = Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()
        if time.monotonic() - started > 2:
            print("\r\x1b[K", end="", file=sys.stderr)
