"""Measure whether kills and late reports change a published data set.

`python -m simulations.publish` simulates 90 days of six metrics, one of which gets a second version
on the way. Late reports come every second day. It publishes them in two folders. In the first, one
process publishes undisturbed, every tenth night. In the second, two processes publish on a random
half of the nights, and the main one is killed 50 times at random moments. It compares the two data
sets row by row. It also compares the second with its copies in DuckDB and, if that is installed, in
PostgreSQL. It exits 1 when they differ. `--sample` takes three days and two kills.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass
from datetime import date, timedelta
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow.dataset as ds

from ldp.cli import commands
from ldp.collection import ReportWriter
from ldp.collection.lock import InUse
from ldp.publishing import processes
from ldp.publishing.data_set_rows import KEY, SCHEMA
from ldp.publishing.period import PeriodResult, PeriodTask
from ldp.registry import Registry
from ldp.report.page import template
from ldp.simulation import Population, draw_reports
from simulations import campaign, database
from tests.command_line import settings

START = date(2026, 1, 1)
PEOPLE, SEED = 2_000, 20260101
LOADED = (
    *("ldp.cli.publish", "ldp.publishing.site", "ldp.publishing.changes", "ldp.bulk"),
    *("ldp.server", "scipy.stats", "sklearn.linear_model", "duckdb"),
)
"""Modules that are loaded once for all processes, so that a kill meets a process at its work."""
LOADING_SECONDS = 1.5
"""Seconds that the main process waits before its first period, so that the other one takes part."""
OLDEST = 20
"""Most days by which a report is late; late reports come every second day."""
METRIC = """
[metric.{name}]
version = {version}
group = "app"
description = "{about}"
owners = ["map-team@example.org"]
expires = 2999-12-31
{keys}
"""
HEAD = """\
[product]
name = "maps"
[group.app]
window = "1d"
window_epsilon = 100.0
lifetime_epsilon = 100000.0
"""
WORDS = ("map", "bus", "train", "café", "home", "work", "park", "shop", "bank", "pier")
UNARY = 'mechanism = "unary"\nepsilon = 3.0\ncategories = '
METRICS: Mapping[str, tuple[str, str]] = {
    "theme": (
        "Colours that people draw the map in",
        'mechanism = "rr"\nepsilon = 2.0\ncategories = ["light", "dark", "system", "sepia"]',
    ),
    "search": (
        "Words that people look for",
        'mechanism = "cms"\nepsilon = 4.0\nrows = 64\nwidth = 128\ndictionary = "words.txt"',
    ),
    "latency": (
        "Milliseconds until the map is drawn",
        'mechanism = "hierarchical-histogram"\nepsilon = 4.0\nbounds = [0.0, 1024.0]',
    ),
    "battery": (
        "Charge of the battery in percent",
        'mechanism = "one-bit-mean"\nepsilon = 2.0\nbounds = [0.0, 100.0]',
    ),
    "shortcut": (
        "Shortcuts that people use",
        'mechanism = "rappor"\ncohorts = 4\nbits = 32\nhashes = 2\nf = 0.5\np = 0.5\nq = 0.75\n'
        'memoise = "per-value"\ndictionary = "words.txt"',
    ),
    "release": ("Version of the app", UNARY + '["9.4", "9.3", "8.0"]'),
    "connection": ("How the device is connected", UNARY + '["wifi", "mobile", "none"]'),
    "network": (
        "Connections by version of the app",
        'mechanism = "joint"\nof = ["release", "connection"]',
    ),
}
"""Description of each metric, and its keys of the registry."""
REPORTED = ("theme", "search", "latency", "battery", "shortcut", "network")


def registry_text(version: int = 1) -> str:
    """Return the registry; from `version` 2 on the theme has a fifth colour."""
    texts = []
    for name, (about, keys) in METRICS.items():
        number = version if name == "theme" else 1
        if name == "theme" and version > 1:
            keys = keys.replace('"sepia"', '"sepia", "night"')
        texts.append(METRIC.format(name=name, version=number, about=about, keys=keys))
    return HEAD + "".join(texts)


def write_registry(folder: Path, version: int = 1) -> Registry:
    """Write metrics.toml and its dictionary into the folder, and load the registry."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "words.txt").write_text("\n".join(WORDS) + "\n", "utf-8")
    (folder / "metrics.toml").write_text(registry_text(version), "utf-8")
    return Registry.load(folder / "metrics.toml")


def values_of(metric: str, people: int, random: np.random.Generator, first: str = "") -> Population:
    """Return what `people` hold of a metric: the first of a list most often, or `first`."""

    def drawn(values: tuple[Any, ...]) -> Population:
        values = tuple(sorted(values, key=lambda value: value != first)) if first else values
        weights = 1 / np.arange(1.0, len(values) + 1)
        return Population(values, counts=random.multinomial(people, weights / weights.sum()))

    if metric == "theme":
        return drawn(("light", "dark", "system", "sepia"))
    if metric == "latency":
        return drawn((12.0, 80.0, 200.0, 31.0, 700.0))
    if metric == "battery":
        return drawn((80.0, 55.0, 20.0))
    if metric == "network":
        return drawn((("9.4", "wifi"), ("9.3", "mobile"), ("9.4", "mobile"), ("8.0", "none")))
    return drawn(WORDS)


def write_reports(
    store: Path,
    registry: Registry,
    metric: str,
    day: date,
    random: np.random.Generator,
    part: str,
    people: int = PEOPLE,
    first: str = "",
) -> None:
    """Write a file of the reports of `people` on one day, as a collector does."""
    definition = registry.metric(metric)
    with ReportWriter(store, metric, definition.version, definition.mechanism, day, part) as file:
        for rows, payloads in draw_reports(
            definition.mechanism, values_of(metric, people, random, first), random
        ):
            file.write(rows, payloads)


@dataclass(frozen=True)
class Fleet:
    """Reports that come to one store in `days` days, and what is published of them in a folder."""

    folder: Path
    days: int

    def registry(self, day: int) -> Registry:
        """Return the registry of a day: half-way the theme gets its second version."""
        version = 1 if day < self.days // 2 else 2
        folder = self.folder / f"version-{version}"
        path = folder / "metrics.toml"
        return Registry.load(path) if path.exists() else write_registry(folder, version)

    def collect(self, day: int) -> None:
        """Store the reports of one day, and every second day late reports of an earlier one.

        Late reports have the version of their own day.
        """
        random, store = np.random.default_rng([SEED, day]), self.folder / "store"
        at = START + timedelta(day)
        for metric in REPORTED:
            write_reports(store, self.registry(day), metric, at, random, f"{day}")
        if day % 2:
            earlier = day - int(random.integers(1, min(day, OLDEST) + 1))
            metric = str(random.choice(REPORTED))
            when, known = START + timedelta(earlier), self.registry(earlier)
            write_reports(store, known, metric, when, random, f"late-{day}", 200)

    def publish(self, out: str, day: int, *words: str) -> None:
        """Run the command of the night after a day; wait for the processes of a killed run."""
        files = ("--registry", self.registry(day).path, "--store", self.folder / "store")
        where = ("--out", self.folder / out, "--until", START + timedelta(day))
        with open(self.folder / f"{out}.log", "a") as log, redirect_stdout(log):
            while True:
                try:
                    arguments = ["publish", *map(str, (*files, *where, *words))]
                    commands.main(arguments, standalone_mode=False)
                    return
                except InUse:
                    self.note("waits")
                    time.sleep(0.01)

    def publish_together(self, out: str, day: int, more: dict[str, str], *words: str) -> None:
        """Run the command by two processes at once, however little there is to do."""
        run, begun = PeriodTask.run, list[float]()

        def run_later(task: PeriodTask) -> PeriodResult:
            if not begun:
                begun.append(time.monotonic())
                time.sleep(LOADING_SECONDS)
            result = run(task)
            self.note("main")
            return result

        setattr(PeriodTask, "run", run_later)  # noqa: B010
        processes.PATIENCE_SECONDS = 0.0
        self.publish(out, day, *settings(self.folder, jobs=2, **more), *words)

    def note(self, event: str) -> None:
        """Add a line to the log of an event."""
        with open(self.folder / f"{event}.log", "a") as log:
            log.write(f"{event}\n")

    def lines(self, name: str, text: str) -> int:
        """Return how many lines of a log contain a text."""
        path = self.folder / f"{name}.log"
        return sum(text in line for line in path.open()) if path.exists() else 0


def rows(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a data set in the order of their key, without their revisions.

    A revision counts how often a row was re-opened, which depends on when a run ended.
    """
    listed = [{name: cell for name, cell in row.items() if name != "revision"} for row in cells]
    return sorted(listed, key=lambda row: [str(row[name]) for name in KEY])


def data_set(out: Path) -> list[dict[str, Any]]:
    """Return the rows of a published data set."""
    return rows(ds.dataset(out / "results", schema=SCHEMA).to_table().to_pylist())


def in_duckdb(path: Path) -> list[dict[str, Any]]:
    """Return the rows of the copy in DuckDB."""
    import duckdb

    with duckdb.connect(str(path)) as connection:
        copied = connection.execute("SELECT * FROM results").fetchall()
    return rows([dict(zip(SCHEMA.names, row, strict=True)) for row in copied])


def in_postgres(conninfo: str) -> list[dict[str, Any]]:
    """Return the rows of the copy in PostgreSQL."""
    import psycopg

    with psycopg.connect(conninfo) as connection:
        copied = connection.execute("SELECT * FROM ldp_results").fetchall()
    return rows([dict(zip(SCHEMA.names, row, strict=True)) for row in copied])


def run(work: Callable[..., None], *arguments: Any, after: float | None = None) -> bool:
    """Do work in a process of its own; return whether it was killed after `after` seconds.

    Raises RuntimeError where the work failed.
    """
    process = get_context("fork").Process(target=work, args=arguments)
    process.start()
    process.join(after)
    is_killed = process.is_alive()
    if is_killed:
        process.kill()
        process.join()
    elif process.exitcode:
        raise RuntimeError(f"{work} {arguments}: {process.exitcode}")
    return is_killed


def measure(folder: Path, days: int, kills: int, conninfo: str) -> tuple[list[campaign.Bar], Any]:
    """Return the bars, and counts of what happened on the way."""
    for name in LOADED:
        import_module(name)
    template("ldp.report", "page.html")  # also compiled only once
    fleet, moments = Fleet(folder, days), np.random.default_rng(SEED)
    duckdb = folder / "copy.duckdb"
    more = {"postgres": conninfo} if conninfo else {}
    done, usual = 0, 4.0
    for day in range(days):
        run(fleet.collect, day)
        if day % 10 == 0 or day in (days // 2 - 1, days - 1):
            run(fleet.publish, "calm", day, *settings(folder, jobs=1))
        while done < kills * (day + 1) // days:  # all kills happen by the last night
            after = float(moments.random()) * usual
            if run(fleet.publish_together, "wild", day, more, "--duckdb", str(duckdb), after=after):
                done += 1
            else:
                usual = after  # it ended before
        if day in (0, days - 1) or moments.random() < 0.5:  # else the next night repeats it
            started = time.monotonic()
            run(fleet.publish_together, "wild", day, more, "--duckdb", str(duckdb))
            usual = time.monotonic() - started
    expected, found = data_set(folder / "calm"), data_set(folder / "wild")
    differing = sum(a != b for a, b in zip(expected, found, strict=False))
    differing += abs(len(expected) - len(found))
    copied = {"DuckDB": in_duckdb(duckdb) == found}
    if conninfo:
        copied["PostgreSQL"] = in_postgres(conninfo) == found
    late = sum(state["revision"] > 0 for state in states(folder / "calm"))
    beside = fleet.lines("wild", " reports") - fleet.lines("main", "main")
    bars = [
        campaign.Bar("rows that differ from an undisturbed run", differing, "0", differing == 0),
        *(
            campaign.Bar(f"{name} holds the data set", is_so, "1", is_so)
            for name, is_so in copied.items()
        ),
        campaign.Bar("runs that were killed", done, f"{kills}", done >= kills),
        campaign.Bar("periods with late reports", late, "at least 1", late > 0),
        campaign.Bar("periods that the second process counted", beside, "at least 1", beside > 0),
    ]
    waits = fleet.lines("waits", "waits")
    counts = {"days": days, "metrics": len(REPORTED), "rows": len(found)}
    return bars, {**counts, "waits_for_processes_of_killed_runs": waits}


def states(out: Path) -> list[Any]:
    """Return the states of all periods."""
    return [json.loads(path.read_text("utf-8")) for path in out.glob("tables/*/*/*.json")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--postgres", default="", metavar="CONNINFO")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    made = campaign.provenance()
    days, kills = (3, 2) if options.sample else (options.days, options.kills)
    with ExitStack() as stack:
        conninfo = options.postgres
        if not conninfo and database.is_installed():
            server = stack.enter_context(database.running_server())
            conninfo = f"{server.conninfo} dbname=postgres"
        folder = Path(stack.enter_context(TemporaryDirectory()))
        bars, result = measure(folder, days, kills, conninfo)
    campaign.write(options.out, made, {**result, "bars": bars})
    return campaign.shown(bars)


if __name__ == "__main__":
    sys.exit(main())
