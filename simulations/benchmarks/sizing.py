"""What counting costs, by the number of reports: `python -m simulations.benchmarks.sizing`.

Runs `ldp aggregate` on stores of 1e6, 1e7 and (with --large) 1e8 reports of 1,024 bits, on one
core, for a small and a large table; prints processor time, memory and bytes, and the straight line
through the times. The stores are links to one file of simulated reports, in the page cache: the
disk's time comes on top. Exits 1 when a bar is missed.
"""

import argparse
import os
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

from ldp import CountMeanSketch
from ldp.collection import ReportWriter
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
mechanism = "cms"
epsilon = 4.0
rows = {rows}
width = 1024
seed = "00ff"
"""
FILE = 250_000
LEAST = {1024: 1.3e6, 65_536: 0.37e6}
"""Rows -> the reports that a second of processor time must count, beyond what a start takes."""


@dataclass(frozen=True)
class Counted:
    """One run of `ldp aggregate`."""

    rows: int
    reports: int
    processor_seconds: float
    seconds: float
    peak_mib: float
    bytes_a_report: float


def stored(folder: Path, rows: int, reports: int) -> float:
    """A store of so many reports in files of 250,000 (7 GB for 1e8); bytes a report."""
    mechanism = CountMeanSketch(epsilon=4.0, rows=rows, width=1024, seed="00ff")
    people = Population(("a", "b", "c", "d", "e"), counts=np.full(5, FILE // 5))
    with ReportWriter(folder, "word", 1, mechanism, date(2026, 1, 1), "0") as writer:
        for named, payloads in simulate(mechanism, people, np.random.default_rng(rows)):
            writer.write(named, payloads)
    for number in range(1, reports // FILE):
        shutil.copyfile(writer.path, writer.path.with_name(f"{number}.parquet"))
    return float(writer.path.stat().st_size / FILE)


def measured(rows: int, reports: int) -> Counted:
    """Counts a store on one core."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "metrics.toml").write_text(REGISTRY.format(rows=rows))
        each = stored(folder / "store", rows, reports)
        command = [
            *(sys.executable, "-m", "ldp", "aggregate", "word", str(folder / "store")),
            *("--registry", str(folder / "metrics.toml"), "--out", str(folder / "t")),
            *("--workers", "1"),
        ]
        started = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        process.returncode = 0
        return Counted(
            rows=rows,
            reports=reports,
            processor_seconds=used.ru_utime + used.ru_stime,
            seconds=time.monotonic() - started,
            peak_mib=used.ru_maxrss / 1024,
            bytes_a_report=each,
        )


def quietest(rows: int, reports: int) -> Counted:
    """Of three runs the one that took least: what others do to the caches only ever adds."""
    runs = [measured(rows, reports) for _ in range(3)]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="1e8 reports too")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    asked, started = parser.parse_args(), campaign.provenance()
    sizes = [10**6, 10**7, *([10**8] if asked.large else [])]
    made, runs = list[Bar](), list[Counted]()
    for rows, least in LEAST.items():
        some = [quietest(rows, reports) for reports in sizes]
        for run in some:
            print(
                f"     {rows:,} rows, {run.reports:,} reports: {run.processor_seconds:.1f} s of "
                f"processor, {run.seconds:.1f} s, {run.peak_mib:.0f} MiB, "
                f"{run.bytes_a_report:.1f} bytes a report on disk"
            )
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
