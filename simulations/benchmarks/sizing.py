"""What counting costs, by the number of reports: `python -m simulations.benchmarks.sizing`.

Runs `ldp aggregate` on stores of 1e6, 1e7 and (with --large) 1e8 reports of 1,024 bits, on one
core, for a small and a large table; prints processor time, memory and bytes, and the straight line
through the times. The stores are links to one file of simulated reports, in the page cache: the
disk's time comes on top. With --spark also 1e7 and 3e7 reports with `--engine spark`, whose Java
and workers are all counted; with --billion only, once, 1e9 reports of projective geometry over
2,600 values, whose store takes some 3 GB. Exits 1 when a bar is missed.
"""

import argparse
import contextlib
import ctypes
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from ldp.collection import ReportWriter
from ldp.registry import Registry
from ldp.simulation import Population, simulate
from simulations import campaign
from simulations.campaign import Bar

REGISTRY = """
[product]
name = "sizing"
[group.all]
window = "1d"
window_epsilon = 4.0
lifetime_epsilon = 4.0
[metric.word]
version = 1
group = "all"
description = "What people type"
owners = ["team@example.org"]
expires = 2999-12-31
epsilon = 4.0
{keys}
"""
SKETCH = 'mechanism = "cms"\nrows = {rows}\nwidth = 1024\nseed = "00ff"'
VALUES = 2_600
PROJECTIVE = f'mechanism = "pgr"\ncategories = {[f"v{n}" for n in range(VALUES)]}'
FILE = 250_000
PR_SET_CHILD_SUBREAPER = 36
"""Of Linux: descendants whose parent ended become children of this process."""
LEAST = {1024: 1.3e6, 65_536: 0.37e6}
"""Rows -> the reports that a second of processor time must count, beyond what a start takes."""


@dataclass(frozen=True)
class Counted:
    """One run of `ldp aggregate`."""

    rows: int
    reports: int
    master: str
    processor_seconds: float
    seconds: float
    peak_mib: float
    bytes_a_report: float


def stored(folder: Path, registry: Registry, reports: int) -> float:
    """A store of so many reports in files of 250,000 (7 GB for 1e8 of the sketch), all of which
    hold the same; bytes a report."""
    mechanism = registry.metric("word").mechanism
    values = getattr(mechanism, "categories", tuple("abcde"))
    each, rest = divmod(FILE, len(values))
    people = Population(values, counts=each + (np.arange(len(values)) < rest))
    with ReportWriter(folder, "word", 1, mechanism, date(2026, 1, 1), "0") as writer:
        for named, payloads in simulate(mechanism, people, np.random.default_rng(1)):
            writer.write(named, payloads)
    for number in range(1, reports // FILE):
        shutil.copyfile(writer.path, writer.path.with_name(f"{number}.parquet"))
    return float(writer.path.stat().st_size / FILE)


def used() -> float:
    """Seconds of processor of all processes that this one started and their descendants, once all
    have ended."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def measured(rows: int, reports: int, master: str = "", keys: str = SKETCH) -> Counted:
    """Counts a store on one core, or on Spark's `master`, as "local[2]"."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        registry = folder / "metrics.toml"
        registry.write_text(REGISTRY.format(keys=keys.format(rows=rows)))
        each = stored(folder / "store", Registry.load(registry), reports)
        command = [
            *(sys.executable, "-m", "ldp", "aggregate", "word", str(folder / "store")),
            *("--registry", str(registry), "--out", str(folder / "t")),
            *(("--engine", "spark") if master else ("--workers", "1")),
        ]
        environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": f"--master {master} pyspark-shell"}
        before, started = used(), time.monotonic()
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        _, status, own = os.wait4(process.pid, 0)
        seconds = time.monotonic() - started
        assert os.waitstatus_to_exitcode(status) == 0
        process.returncode = 0
        return Counted(
            rows=rows,
            reports=reports,
            master=master,
            processor_seconds=used() - before,
            seconds=seconds,
            peak_mib=own.ru_maxrss / 1024,
            bytes_a_report=each,
        )


def quietest(rows: int, reports: int, master: str = "") -> Counted:
    """Of three runs the one that took least: what others do to the caches only ever adds."""
    runs = [measured(rows, reports, master) for _ in range(3)]
    return min(runs, key=lambda run: run.processor_seconds)


def line(runs: Sequence[Counted]) -> tuple[float, float, float]:
    """Seconds of a start, microseconds a report, and the largest relative distance of a run, by
    least squares in relative errors."""
    reports = np.array([run.reports for run in runs], dtype=float)
    seconds = np.array([run.processor_seconds for run in runs])
    design = np.column_stack([np.ones(len(runs)), reports]) / seconds[:, None]
    (start, each), *_ = np.linalg.lstsq(design, np.ones(len(runs)), rcond=None)
    off = np.abs((start + each * reports) / seconds - 1).max()
    return float(start), float(each * 1e6), float(off)


def on_spark(rows: int) -> tuple[list[Counted], Bar]:
    """Runs on one core by itself and by Spark, and what a report costs more there, starts
    excluded."""
    sizes, masters = (10**7, 3 * 10**7), ("", "local[1]", "local[2]")
    runs = [[quietest(rows, reports, master) for reports in sizes] for master in masters]
    each = {}
    for master, (small, large) in zip(masters, runs, strict=True):
        each[master] = (large.processor_seconds - small.processor_seconds) / (sizes[1] - sizes[0])
        print(
            f"     {rows:,} rows, {master or 'no Spark'}: {small.seconds:.1f} and "
            f"{large.seconds:.1f} s, {each[master] * 1e6:.3f} us of processor a report"
        )
    ratio = each["local[1]"] / each[""]
    what = f"{rows:,} rows: processor time of a report on Spark's local[1] over one machine's"
    return [run for some in runs for run in some], Bar(what, ratio, "<= 2", ratio <= 2)


def say(run: Counted) -> None:
    """Print one run."""
    print(
        f"     {run.rows:,} rows, {run.reports:,} reports: {run.processor_seconds:.1f} s of "
        f"processor, {run.seconds:.1f} s, {run.peak_mib:.0f} MiB, "
        f"{run.bytes_a_report:.1f} bytes a report on disk"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="1e8 reports too")
    parser.add_argument("--spark", action="store_true", help="only Spark beside one machine")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--billion", action="store_true", help="only 1e9 reports of pgr, once")
    asked, started = parser.parse_args(), campaign.provenance()
    if asked.billion:
        run = measured(1, 10**9, keys=PROJECTIVE)
        say(run)
        campaign.write(asked.out, started, {"values": VALUES, "runs": [run]})
        return
    sizes = [10**6, 10**7, *([10**8] if asked.large else [])]
    made, runs = list[Bar](), list[Counted]()
    for rows in LEAST if asked.spark else ():
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
        some, bar = on_spark(rows)
        runs, made = [*runs, *some], [*made, bar]
    for rows, least in LEAST.items() if not asked.spark else ():
        some = [quietest(rows, reports) for reports in sizes]
        for run in some:
            say(run)
        start, each, off = line(some)
        print(f"     {rows:,} rows: {start:.2f} s + {each:.3f} us a report, off by {off:.1%}")
        rate = 1e6 / each
        made += [
            Bar(
                f"{rows:,} rows: reports a second of processor",
                rate,
                f">= {least:,.0f}",
                rate >= least,
            ),
            Bar(f"{rows:,} rows: distance from the straight line", off, "<= 0.1", off <= 0.1),
            Bar(
                f"{rows:,} rows: bytes a report",
                some[0].bytes_a_report,
                "<= 75",
                some[0].bytes_a_report <= 75,
            ),
        ]
        runs += some
    status = campaign.shown(made)
    campaign.write(asked.out, started, {"bars": made, "runs": runs})
    sys.exit(status)


if __name__ == "__main__":
    main()
