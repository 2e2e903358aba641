"""Measure what counting costs, by the number of reports.

`python -m simulations.benchmarks.sizing` runs `ldp aggregate` on stores of 1e6, 1e7 and (with
--large) 1e8 reports of 1,024 bits. It runs on one core, for a small and a large table. It prints
processor time, memory and bytes, and fits a straight line to the times. The stores lie in the page
cache, so the disk's time comes on top.

With --spark it measures only what a report costs on Spark. One session counts stores of several
sizes, in turns with one machine. A slope of the processor time, with Java and workers, holds no
start. With --billion it counts, once, 1e9 reports of projective geometry over 2,600 values, whose
store takes some 3 GB. It exits 1 when a bar is missed.
"""

import argparse
import contextlib
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import product
from pathlib import Path

import numpy as np

from ldp.collection import ReportWriter, aggregate
from ldp.registry import Registry
from ldp.simulation import Population, draw_reports
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
SPARK_SIZES = (2_500_000, 10_000_000, 20_000_000)
SPARK_ROUNDS = 4
"""Counts of every size, after one count that compiles and warms Java."""
LEAST = {1024: 1.3e6, 65_536: 0.37e6}
"""Bars by number of rows: reports counted a second of processor time, without the start."""


@dataclass(frozen=True)
class Counted:
    """One run of `ldp aggregate`."""

    rows: int
    reports: int
    processor_seconds: float
    seconds: float
    peak_mib: float
    bytes_a_report: float


def stored(folder: Path, registry: Registry, reports: int) -> float:
    """Write a store of `reports` reports; return the bytes a report.

    Files hold 250,000 reports each, all the same ones; 1e8 reports of the sketch take 7 GB.
    """
    mechanism = registry.metric("word").mechanism
    values = getattr(mechanism, "categories", tuple("abcde"))
    each, rest = divmod(FILE, len(values))
    people = Population(values, counts=each + (np.arange(len(values)) < rest))
    with ReportWriter(folder, "word", 1, mechanism, date(2026, 1, 1), "0") as writer:
        for named, payloads in draw_reports(mechanism, people, np.random.default_rng(1)):
            writer.write(named, payloads)
    for number in range(1, reports // FILE):
        shutil.copyfile(writer.path, writer.path.with_name(f"{number}.parquet"))
    return float(writer.path.stat().st_size / FILE)


def measured(rows: int, reports: int, keys: str = SKETCH) -> Counted:
    """Count a store on one core."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        registry = folder / "metrics.toml"
        registry.write_text(REGISTRY.format(keys=keys.format(rows=rows)))
        each = stored(folder / "store", Registry.load(registry), reports)
        command = [
            *(sys.executable, "-m", "ldp", "aggregate", "word", str(folder / "store")),
            *("--registry", str(registry), "--out", str(folder / "t"), "--workers", "1"),
        ]
        started = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, own = os.wait4(process.pid, 0)
        seconds = time.monotonic() - started
        assert os.waitstatus_to_exitcode(status) == 0
        process.returncode = 0
        return Counted(
            rows=rows,
            reports=reports,
            processor_seconds=own.ru_utime + own.ru_stime,
            seconds=seconds,
            peak_mib=own.ru_maxrss / 1024,
            bytes_a_report=each,
        )


def quietest(rows: int, reports: int) -> Counted:
    """Return the run with the least processor time of three, because other work only adds time."""
    runs = [measured(rows, reports) for _ in range(3)]
    return min(runs, key=lambda run: run.processor_seconds)


def line(runs: Sequence[Counted]) -> tuple[float, float, float]:
    """Fit a straight line to the runs by least squares in relative errors.

    Returns the seconds of a start, microseconds a report, and the largest relative distance of a
    run.
    """
    reports = np.array([run.reports for run in runs], dtype=float)
    seconds = np.array([run.processor_seconds for run in runs])
    design = np.column_stack([np.ones(len(runs)), reports]) / seconds[:, None]
    (start, each), *_ = np.linalg.lstsq(design, np.ones(len(runs)), rcond=None)
    off = np.abs((start + each * reports) / seconds - 1).max()
    return float(start), float(each * 1e6), float(off)


@dataclass(frozen=True)
class Slope:
    """Microseconds of processor time a report, with its standard error.

    Both come from weighted least squares; `seconds`: time of every count, by size.
    """

    rows: int
    master: str
    each: float
    error: float
    seconds: dict[int, list[float]]

    @classmethod
    def fit(cls, rows: int, master: str, seconds: dict[int, list[float]]) -> "Slope":
        """Fit a straight line to counts whose errors are in proportion to their length."""
        pairs = [(size, count) for size, counts in seconds.items() for count in counts]
        reports, times = np.array(pairs).T
        (each, _), covariance = np.polyfit(reports, times, 1, w=1 / times, cov=True)
        return cls(rows, master, each * 1e6, float(covariance[0, 0]) ** 0.5 * 1e6, seconds)


def used() -> float:
    """Return the processor seconds of this process and its descendants, with those that ended."""
    parents, seconds = dict[int, int](), dict[int, float]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(words[1])
            seconds[int(path.parent.name)] = sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")
    family = {os.getpid()}
    while more := {one for one, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(seconds[one] for one in family)


def on_spark(rows: int, folder: Path) -> tuple[list[Slope], list[Bar]]:
    """Measure what a report costs on one machine, and on one and two cores of Spark, in turns."""
    from pyspark.sql import SparkSession

    from ldp.collection.spark import aggregate_on_spark

    os.environ["PYSPARK_PYTHON"] = sys.executable
    (folder / "metrics.toml").write_text(REGISTRY.format(keys=SKETCH.format(rows=rows)))
    registry = Registry.load(folder / "metrics.toml")
    mechanism, largest = registry.metric("word").mechanism, folder / str(SPARK_SIZES[-1])
    stored(largest, registry, SPARK_SIZES[-1])
    for size in SPARK_SIZES[:-1]:
        for path in sorted(largest.rglob("*.parquet"))[: size // FILE]:
            linked = folder / str(size) / path.relative_to(largest)
            linked.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, linked)
    slopes, bars = list[Slope](), list[Bar]()
    for master in ("local[1]", "local[2]"):
        builder = SparkSession.builder.master(master).config("spark.driver.memory", "3g")
        session = builder.appName("sizing").getOrCreate()
        ways: dict[str, Callable[..., object]] = {"": aggregate, master: aggregate_on_spark}
        seconds = {way: {size: list[float]() for size in SPARK_SIZES} for way in ways}
        for number, size in product(range(SPARK_ROUNDS + 1), SPARK_SIZES):
            for way, count in ways.items():
                before = used()
                count([folder / str(size)], "word", 1, mechanism)
                if number:
                    seconds[way][size].append(used() - before)
        session.stop()
        alone, spark = (Slope.fit(rows, way, seconds[way]) for way in ways)
        ratio = float(spark.each / alone.each)
        error = ratio * math.hypot(spark.error / spark.each, alone.error / alone.each)
        print(
            f"     {rows:,} rows, {master}: {spark.each:.3f} +- {spark.error:.3f} us a report, one "
            f"machine {alone.each:.3f} +- {alone.error:.3f}, ratio {ratio:.2f} +- {error:.2f}"
        )
        what = f"{rows:,} rows: processor time of a report on Spark's {master} over one machine's"
        slopes, bars = [*slopes, alone, spark], [*bars, Bar(what, ratio, "<= 2", ratio <= 2)]
    return slopes, bars


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
    slopes = list[Slope]()
    for rows in LEAST if asked.spark else ():
        with tempfile.TemporaryDirectory() as name:
            some_slopes, bars = on_spark(rows, Path(name))
        slopes, made = [*slopes, *some_slopes], [*made, *bars]
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
    campaign.write(asked.out, started, {"bars": made, "runs": runs, "slopes": slopes})
    sys.exit(status)


if __name__ == "__main__":
    main()
