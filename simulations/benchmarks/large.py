"""Measure whole commands at the largest sizes that must work, each in its own process.

`simulations.scale` measures how the cost of every command grows.
"""

import math
import sys
import time
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np

from simulations import scale
from simulations.benchmarks.measuring import Benchmark, Run, fastest, run

MERGED = 20
"""Number of tables that are merged, of 4,096 x 1,024 cells each."""
WORDS = 'mechanism = "rappor-ngrams"\nepsilon = 4.0\nfragment_epsilon = 2.5\n'
LENGTH = 'seed = "00ff"\nlength = 6\n'
FILTERS = 'mechanism = "rappor"\nbits = 16\nhashes = 2\ncohorts = 8\nseed = "00ff"\n'
NOISE = "f = 0.0\np = 0.25\nq = 0.75\n"
TWO_FILTERS = (
    (FILTERS + NOISE, "first"),
    (FILTERS + NOISE, "second"),
    ('mechanism = "joint"\nof = ["first", "second"]\n', "asked"),
)
SIMULATED = "simulate asked --registry metrics.toml --population values.csv --seed 1 --users"
SCENARIO = """
users = 50000
days = {days}
start = 2026-01-01
attacked = 0
[metric.asked]
population = "values.csv"
change = 0.01
"""


def ldp(folder: Path, words: str) -> Run:
    """Run an `ldp` command in a folder; `words`: its words, separated by spaces."""
    return run([sys.executable, "-m", "ldp", *words.split()], folder=folder)


def within(folder: Path, name: str) -> Path:
    """Return a new folder in the folder of a run."""
    inside = folder / name
    inside.mkdir()
    return inside


def plan(folder: Path) -> float:
    """Return processor time of a plan for a million values, minus the time for a thousand."""
    few, many = (
        ldp(folder, f"plan list --domain {values} --users 1000000 --epsilon 4").processor
        for values in (1_000, 1_000_000)
    )
    return max(0.0, many - few)


def merge(folder: Path) -> float:
    """Return the peak memory of merging `MERGED` tables, minus the peak of merging three."""
    inside = within(folder, "merge")
    scale.registry(inside, (scale.SKETCH.replace("1024", "4096", 1), "asked"))
    (inside / "values.csv").write_text("value,frequency\na,1\nb,1")
    for place in range(MERGED):
        words = SIMULATED.replace("--seed 1", f"--seed {place}")
        ldp(inside, f"{words} 1000000 --table {place}.table")
    names = (" ".join(f"{i}.table" for i in range(number)) for number in (3, MERGED))
    three, all_of_them = (ldp(inside, f"merge {some} --out all.table").peak_mib for some in names)
    return max(0.0, all_of_them - three)


@cache
def estimates(folder: Path) -> tuple[float, Path]:
    """Return the seconds that writing a million estimates as CSV takes, and the file's path."""
    from ldp import RandomizedResponse
    from ldp.server import Table, decode

    categories = tuple(f"value {place}" for place in range(1_000_000))
    counts = np.random.default_rng(1).poisson(100, (1, len(categories)))
    mechanism = RandomizedResponse(categories=categories, epsilon=4.0)
    found, path = decode(Table(mechanism, counts, counts.sum(axis=1))), folder / "million.csv"
    return fastest(lambda: found.to_csv(path), 3, time.process_time), path


def report(folder: Path) -> float:
    return ldp(folder, f"report {estimates(folder)[1].name} --out million.html").peak_mib


@cache
def associate(folder: Path) -> Run:
    """Measure the association of ten million reports of two RAPPOR filters."""
    inside = within(folder, "associate")
    scale.registry(inside, *TWO_FILTERS)
    pairs = [f"a{i},b{j},{1 / (1 + i + j)}" for i in range(10) for j in range(10)]
    (inside / "values.csv").write_text("\n".join(["a,b,frequency", *pairs]))
    ldp(inside, f"{SIMULATED} 10000000 --reports store")
    for letter in "ab":
        (inside / f"{letter}.txt").write_text("\n".join(f"{letter}{i}" for i in range(10)))
    lists = "--candidates a.txt --candidates b.txt"
    counted = ldp(inside, "aggregate asked --registry metrics.toml store --out asked.table")
    decoded = ldp(inside, f"decode asked.table {lists} --out out.csv")
    return Run(
        seconds=counted.seconds + decoded.seconds,
        peak_mib=max(counted.peak_mib, decoded.peak_mib),
        processor=counted.processor + decoded.processor,
    )


def write_words(folder: Path) -> None:
    """Write a population of 1,000 random words of six letters, by Zipf's law."""
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = letters[np.random.default_rng(1).integers(0, 26, (1000, 6))]
    lines = [f"{''.join(word)},{1 / rank}" for rank, word in enumerate(words, 1)]
    (folder / "values.csv").write_text("\n".join(["value,frequency", *lines]))


def ngrams(folder: Path) -> float:
    """Measure counting and decoding a million reports of words of six letters."""
    inside = within(folder, "ngrams")
    scale.registry(inside, (WORDS + LENGTH, "asked"))
    write_words(inside)
    ldp(inside, f"{SIMULATED} 1000000 --reports store")
    counted = ldp(inside, "aggregate asked --registry metrics.toml store --out asked.table")
    return counted.processor + ldp(inside, "decode asked.table --out out.csv").processor


def simulate(folder: Path) -> float:
    """Measure drawing a table of Apple's sketch for a million people and 250,000 values."""
    inside = within(folder, "simulate")
    sketch = scale.SKETCH.replace("1024", "65536", 1)
    scale.listed(sketch)(inside, 250_000)
    return ldp(inside, f"{SIMULATED} 1000000 --table drawn.table").processor


def scenario(folder: Path) -> float:
    """Return the processor time of a simulated day late in a scenario, over that of an early one.

    Late days are the last 240 of 360, early ones the first 120. Each time is the quickest of five
    runs, which take turns, so that other work slows all of them alike. With fewer days, the times
    would be smaller than the variation of a start.
    """
    inside = within(folder, "scenario")
    scale.listed(scale.SKETCH.replace("width = 1024", "width = 128"))(inside, 100)
    seconds = dict.fromkeys((1, 120, 360), math.inf)
    for _, days in product(range(5), seconds):
        (inside / "days.toml").write_text(SCENARIO.format(days=days))
        words = "simulate --scenario days.toml --registry metrics.toml --seed 1"
        seconds[days] = min(seconds[days], ldp(inside, words).processor)
    first, last = (seconds[120] - seconds[1]) / 119, (seconds[360] - seconds[120]) / 240
    return last / max(1e-9, first)


BENCHMARKS = (
    Benchmark(
        key="plan_million",
        name="plan a list of 1,000,000 values, over one of 1,000",
        unit="s",
        measure=plan,
        bar=1,
    ),
    Benchmark(
        key="merge_memory",
        name=f"merge {MERGED} tables of 4,194,304 cells: memory beyond that of 3",
        unit="MiB",
        measure=merge,
        bar=16,
    ),
    Benchmark(
        key="csv_million",
        name="write 1,000,000 estimates as CSV",
        unit="s",
        measure=lambda folder: estimates(folder)[0],
        bar=3,
    ),
    Benchmark(
        key="report_memory",
        name="the page of these: peak memory",
        unit="MiB",
        measure=report,
        bar=200,
    ),
    Benchmark(
        key="associate",
        name="count and decode 10,000,000 reports of two RAPPOR filters",
        unit="s",
        measure=lambda folder: associate(folder).seconds,
        bar=300,
    ),
    Benchmark(
        key="associate_memory",
        name="its peak memory",
        unit="MiB",
        measure=lambda folder: associate(folder).peak_mib,
        bar=2048,
    ),
    Benchmark(
        key="ngrams_million",
        name="find words in 1,000,000 reports of n-grams",
        unit="s",
        measure=ngrams,
        bar=60,
    ),
    Benchmark(
        key="simulate_table",
        name="draw a table of CMS with 250,000 values",
        unit="s",
        measure=simulate,
        bar=25,
    ),
    Benchmark(
        key="scenario",
        name="a person's day of the last 240 of 360, over one of the first 120",
        unit="x",
        measure=scenario,
        bar=1.15,
    ),
)
