"""Measure what every command costs at its start, and as its input grows.

`make campaign-scale` takes about six minutes. Each command runs on inputs of three sizes, and
on a hundredth of the least size, which stands for its start. It prints processor time and peak
memory, and exits 1 when a bar is missed. Time, beyond the start, may grow with the power 1.15 of
the size at most (least squares in logarithms). Some commands have a bar on their start (LIGHT,
HEAVY), or on their largest size. Memory may reach the stated start and the stated bytes an item.
`--sample` runs each command at its least size; `--page` prints the table of docs/benchmarks.md from
committed results.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simulations import campaign
from simulations.campaign import Bar

MOST = 1.15
"""Largest power of the size with which time may grow."""
START = 320
"""MiB that a command may take for its start, most of it for scipy and pyarrow."""
LIGHT, HEAVY = (0.6, 120.0), (0.9, 150.0)
"""Processor seconds and MiB that the start of a command may take, where it has a bar."""
SHORTEST = 0.05
"""Processor seconds below which a difference comes from the machine."""
HEAD = """
[product]
name = "scale"
[group.all]
window = "1d"
window_epsilon = 1000.0
lifetime_epsilon = 100000.0
"""
METRIC = """
[metric.{name}]
version = 1
group = "all"
description = "What is asked for"
owners = ["team@example.org"]
expires = 2999-12-31
"""
SKETCH = 'mechanism = "cms"\nepsilon = 4.0\nrows = 1024\nwidth = 1024\nseed = "00ff"\n'
LISTED = 'mechanism = "pgr"\nepsilon = 4.0\ncategories = "values.txt"\n'
WORDS = 'mechanism = "prefix"\nepsilon = 4.0\nrows = 40960\nseed = "00ff"\n'
NUMBERS = 'mechanism = "hierarchical-histogram"\nepsilon = 4.0\n'
MOMENTS = 'mechanism = "moments"\nepsilon = 4.0\nfeatures = 2\nbounds = [[0, 1], [0, 1], [0, 1]]\n'
PAIR = (
    ('mechanism = "rr"\nepsilon = 2.0\ncategories = ["a", "b", "c", "d"]\n', "first"),
    ('mechanism = "rr"\nepsilon = 2.0\ncategories = ["yes", "no"]\n', "second"),
    ('mechanism = "joint"\nof = ["first", "second"]\n', "asked"),
)
ASKED = ("--registry", "metrics.toml")
PEOPLE = 1_000_000


def ldp(folder: Path, *words: str) -> tuple[float, float]:
    """Run a command in a folder; return its processor seconds and its peak memory in MiB.

    Raises RuntimeError with the command's message where it fails.
    """
    launcher = Path(__file__).parent / "benchmarks" / "launcher.py"
    command = [sys.executable, str(launcher), sys.executable, "-m", "ldp", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ldp {' '.join(words)}: {done.stderr}")
    used = json.loads(done.stdout)
    return used["processor"], used["peak_mib"]


def registry(folder: Path, *metrics: tuple[str, str]) -> None:
    """Write metrics.toml with (parameters, name) of each metric."""
    text = HEAD + "".join(METRIC.format(name=name) + keys for keys, name in metrics)
    (folder / "metrics.toml").write_text(text)


def population(folder: Path, size: int) -> None:
    """Write `size` values as a list, and as a CSV file with counts by Zipf's law."""
    values = [f"value {place}" for place in range(size)]
    (folder / "values.txt").write_text("\n".join(values))
    lines = (f"{value},{PEOPLE // place + 1}" for place, value in enumerate(values, 1))
    (folder / "values.csv").write_text("value,count\n" + "\n".join(lines))


def simulated(folder: Path, users: int, *words: str, seed: int = 1) -> None:
    people = ("--population", "values.csv", "--users", str(users))
    ldp(folder, "simulate", "asked", *ASKED, *people, "--seed", str(seed), *words)


def listed(keys: str) -> Callable[[Path, int], None]:
    """Return a function that writes `size` values, whose metric has these keys."""

    def prepare(folder: Path, size: int) -> None:
        population(folder, size)
        registry(folder, (keys, "asked"))

    return prepare


def table(keys: str) -> Callable[[Path, int], None]:
    """Return a function that also writes a table of a million reports of the values."""

    def prepare(folder: Path, size: int) -> None:
        listed(keys)(folder, size)
        simulated(folder, PEOPLE, "--table", "asked.table")

    return prepare


def estimated(folder: Path, size: int) -> None:
    table(SKETCH)(folder, size)
    ldp(folder, "decode", "asked.table", "--candidates", "values.txt", "--out", "asked.csv")


def store(keys: str, values: int = 100) -> Callable[[Path, int], None]:
    """Return a function that writes a store of `size` reports."""

    def prepare(folder: Path, size: int) -> None:
        listed(keys)(folder, values)
        simulated(folder, size, "--reports", "store", "--day", "2026-01-01")

    return prepare


def pairs(folder: Path, size: int) -> None:
    registry(folder, *PAIR)
    rows = [f"{one},{other},1" for one in "abcd" for other in ("yes", "no")]
    (folder / "values.csv").write_text("a,b,frequency\n" + "\n".join(rows))
    simulated(folder, size, "--reports", "store")


def column(folder: Path, size: int) -> None:
    """Write `size` rows with a text and three numbers, and the numbers' bounds."""
    generator = np.random.default_rng(1)
    numbers = generator.random((size, 3))
    texts = generator.zipf(1.5, size) % 1000
    lines = (
        f"value {text},{x:.4f},{z:.4f},{y:.4f}"
        for text, (x, z, y) in zip(texts, numbers, strict=True)
    )
    (folder / "rows.csv").write_text("place,x,z,y\n" + "\n".join(lines))
    (folder / "bounds.csv").write_text("column,low,high\nx,0,1\nz,0,1\ny,0,1\n")


def cells(folder: Path, size: int) -> None:
    """Write a sketch of `size` cells, twice as a table and once as counts."""
    rows = max(1, size // 1024)
    registry(folder, (SKETCH.replace("1024", str(rows), 1), "asked"))
    population_file = "value,frequency\na,1\nb,1"
    (folder / "values.csv").write_text(population_file)
    for seed, name in enumerate(("one", "other")):
        simulated(folder, PEOPLE, "--table", f"{name}.table", seed=seed)
    totals = [f"{row},,1000" for row in range(rows)]
    counts = [f"{row},{place},500" for row in range(rows) for place in range(1024)]
    (folder / "counts.csv").write_text("\n".join(["row,column,count", *totals, *counts]))


def metrics(folder: Path, size: int) -> None:
    registry(folder, *((SKETCH, f"metric-{place}") for place in range(size)))


def scenario(folder: Path, size: int) -> None:
    """Write `size` metrics of one group, and a scenario of people who answer all of them."""
    names = [f"metric{place}" for place in range(size)]
    keys = 'mechanism = "rr"\nepsilon = {}\ncategories = ["a", "b", "c"]\n'
    registry(folder, *((keys.format(1 + place % 7 / 4), name) for place, name in enumerate(names)))
    (folder / "values.csv").write_text("value,count\na,3\nb,2\nc,1\n")
    days = "".join(f'[metric.{name}]\npopulation = "values.csv"\nchange = 0.1\n' for name in names)
    (folder / "days.toml").write_text(f"users = 500\ndays = 3\nstart = 2026-01-01\n{days}")


def questions(folder: Path, size: int) -> None:
    """Write `size` questions of a product: shares, means and percentiles in turn."""
    kinds = (
        'values = ["a", "b", "c", "d"]\nwithin = 0.01\n',
        "mean = [0, {0}]\nwithin = {1}\n",
        "percentile = 0.95\nrange = [0, {0}]\nwithin = 0.2\n",
        'values = ["n", "e", "s", "w", "i"]\nwithin = 0.005\n',
        "percentile = 0.5\nwithin = 0.2\n",
        "mean = [0, {0}]\nwithin = {1}\n",
        'values = ["x", "y"]\nwithin = 0.01\n',
    )
    asked = "".join(
        f'[question.q{place}]\nask = "What?"\nevery = "30d"\nuntil = 2027-06-30\n'
        + kinds[place % len(kinds)].format(100 + place, (100 + place) / 50)
        for place in range(size)
    )
    (folder / "questions.toml").write_text(
        '[product]\nname = "scale"\nusers = 2_000_000\nstart = 2026-12-01\n'
        f"day_epsilon = 400\nlifetime_epsilon = 4000\n{asked}"
    )


def nothing(folder: Path, size: int) -> None:
    (folder / "size.txt").write_text(str(size))


@dataclass(frozen=True)
class Growth:
    """Command whose input grows.

    `prepare`: writes the input of a size to a folder, in which the command runs with the size in
    place of SIZE. `start`, `each`: bar on memory, in MiB, and bytes an item. `at_start`: bars on
    seconds and MiB of the start, if there are any; `most`: bar on the seconds of the largest size.
    """

    words: str
    of: str
    sizes: tuple[int, int, int]
    prepare: Callable[[Path, int], None]
    each: float
    least: int = 2
    start: int = START
    at_start: tuple[float, float] | None = None
    most: float | None = None

    @property
    def first(self) -> int:
        """Return the size that stands for the start."""
        return max(self.least, self.sizes[0] // 100)

    def measured(self, size: int) -> tuple[float, float]:
        """Return processor seconds and peak MiB for an input of this size."""
        with tempfile.TemporaryDirectory() as name:
            self.prepare(Path(name), size)
            words = self.words.replace("SIZE", str(size)).split()
            return ldp(Path(name), *words)


REPORTS = (10_000, 100_000, 1_000_000)
VALUES = (2_500, 25_000, 250_000)
OUT = "--out out.csv --json"
DRAWN = "--registry metrics.toml --population values.csv --users"
GROWTHS = (
    Growth("registry check metrics.toml", "metrics", (30, 100, 300), metrics, 1e5),
    Growth("explain --registry metrics.toml", "metrics", (30, 100, 300), metrics, 1e5),
    Growth(
        f"simulate asked {DRAWN} SIZE --seed 1 --reports store",
        *("reports", REPORTS, listed(SKETCH.replace("width = 1024", "width = 128")), 300),
    ),
    Growth(
        f"simulate asked {DRAWN} 1000000 --seed 1 --table t", "values", VALUES, listed(LISTED), 1000
    ),
    Growth(
        "aggregate asked --registry metrics.toml store --out t --workers 1",
        *("reports", REPORTS, store(SKETCH), 200),
    ),
    Growth(
        "merge one.table other.table --out t",
        *("cells", (65_536, 2**19, 2**22), cells, 60),
        at_start=LIGHT,
    ),
    Growth(
        "table import asked counts.csv --registry metrics.toml --out t",
        *("cells", (65_536, 2**18, 2**20), cells, 300),
    ),
    Growth(
        f"decode asked.table --candidates values.txt {OUT}",
        *("candidates of a sketch", VALUES, table(SKETCH), 1500),
        start=400,  # 2**20 equations of a regression
    ),
    Growth(
        f"decode asked.table {OUT}",
        *("values of a list", VALUES, table(LISTED), 3500),
        at_start=LIGHT,
    ),
    Growth(
        "publish --registry metrics.toml --store store --out results",
        *("reports", REPORTS, store(LISTED), 300),
        at_start=HEAVY,
    ),
    Growth(
        "report asked.csv --out asked.html",
        *("rows", VALUES, estimated, 2000),
        at_start=LIGHT,
    ),
    Growth(
        "simulate --scenario days.toml --registry metrics.toml --reports store --seed 1",
        *("metrics of a scenario", (5, 20, 100), scenario, 1e6),
        most=20.0,
    ),
    Growth(
        "attack asked --registry metrics.toml --fakes 1% --seed 1",
        *("values of a list", (25, 250, 2_500), listed(LISTED), 1e5),
    ),
    Growth(
        "plan product questions.toml --out planned",
        *("questions", (7, 21, 63), questions, 1e6),
        most=6.0,
    ),
    Growth(
        "aggregate asked --registry metrics.toml store --out asked.table",
        *("reports of pairs", REPORTS, pairs, 500),
    ),
    Growth(
        "plan list --domain SIZE --users 1000000 --epsilon 4",
        *("values", VALUES, nothing, 100),
        at_start=HEAVY,
    ),
    Growth(
        "compare --population values.csv --epsilon 4 --users 1000000 --seed 1",
        *("values", VALUES, lambda folder, size: population(folder, size), 2000),
    ),
    Growth(
        "try rows.csv --column place --seed 1",
        *("rows", REPORTS, column, 500),
        at_start=HEAVY,
    ),
    Growth("try rows.csv --column x --seed 1", "rows of numbers", REPORTS, column, 500, start=520),
    Growth(
        "central asked --registry metrics.toml --data values.csv --seed 1",
        *("values", VALUES, listed(LISTED), 5000),  # a value takes 32 points of the table
    ),
    Growth(
        f"regress rows.csv --target y --bounds bounds.csv --epsilon 1 --delta 1e-6 {OUT}",
        *("rows", REPORTS, column, 600),
    ),
    Growth(
        "audit --preset apple-safari-energy --trials SIZE",
        *("trials", (10_000, 30_000, 100_000), nothing, 3000, 100),
        start=760,  # 26 million counts
    ),
    Growth(
        "amplify --mechanism apple-safari-energy --users SIZE --delta 1e-6",
        *("reports", REPORTS, nothing, 300),
    ),
)


@dataclass(frozen=True)
class Measured:
    """Processor seconds and peak MiB, of the start and of each size.

    `power`: power of the size with which time grows.
    """

    command: str
    of: str
    sizes: Sequence[int]
    start: float
    start_mib: float
    seconds: Sequence[float]
    mib: Sequence[float]
    power: float


ELSEWHERE = {
    "collect": "make bench-collector",
    "demo": "simulate, aggregate and decode",
    "device": "python -m simulations.benchmarks --only encode",
    "init": "writes two small files",
    "key": "writes one small file",
    "rappor": "make campaign-rappor-cases",
    "relay": "python -m simulations.benchmarks.sealing",
}
"""What measures a command that is not measured here, or why nothing does."""


def slope(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Return the power of the size with which time grows; 0 where all times are too short."""
    if max(seconds) <= SHORTEST:
        return 0.0
    logs = np.log(np.maximum(seconds, SHORTEST))
    return float(np.polyfit(np.log(sizes), logs, 1)[0])


def power_of(growth: Growth, figures: Sequence[tuple[float, float]], start: float) -> float:
    """Return the power of the size with which time grows, both beyond those of the start."""
    seconds = [max(processor - start, 0.0) for processor, _ in figures]
    sizes = [size - growth.first for size in growth.sizes[: len(figures)]]
    return slope(sizes, seconds) if len(figures) > 1 else 0.0


def bars(
    growth: Growth, figures: Sequence[tuple[float, float]], at_start: tuple[float, float]
) -> Iterator[Bar]:
    """Yield the bars of the start, of the time beyond it, and of the peak at every size."""
    what = f"ldp {growth.words.split(' --')[0]}, {growth.of}"
    if growth.at_start:
        limits = zip(at_start, growth.at_start, ("s", "MiB"), strict=True)
        for figure, limit, unit in limits:
            yield Bar(f"{what}: {unit} at the start", figure, f"<= {limit:g}", figure <= limit)
    if growth.most and len(figures) == len(growth.sizes):
        took, wanted = figures[-1][0], f"<= {growth.most:g}"
        yield Bar(f"{what}: s of {growth.sizes[-1]:,}", took, wanted, took <= growth.most)
    power = power_of(growth, figures, at_start[0])
    yield Bar(f"{what}: power of the size", power, f"<= {MOST}", power <= MOST)
    for size, (_, peak) in zip(growth.sizes, figures, strict=False):
        most = growth.start + growth.each * size / 2**20
        yield Bar(f"{what}: MiB of {size:,}", peak, f"<= {most:.0f}", peak <= most)


def page(results: Any) -> str:
    """Return the table of docs/benchmarks.md from the file that this campaign writes."""
    lines = ["|command|start, s|MiB|largest input|s|MiB|power|", "|---|--:|--:|--:|--:|--:|--:|"]
    for row in (Measured(**row) for row in results["rows"]):
        lines.append(
            f"|`{row.command.split(' --')[0]}`|{row.start:.2f}|{row.start_mib:.0f}"
            f"|{row.sizes[-1]:,} {row.of}|{row.seconds[-1]:.1f}|{max(row.mib):.0f}|{row.power:.2f}|"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", action="store_true", help="the least size of each")
    parser.add_argument("--only", default="", help="commands that begin so")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--page", type=Path, help="results whose table is printed")
    options, provenance = parser.parse_args(), campaign.provenance()
    if options.page:
        print(page(json.loads(options.page.read_text("utf-8"))))
        return 0
    rows, every, missed = list[Measured](), list[Bar](), 0
    for growth in GROWTHS:
        if not growth.words.startswith(options.only):
            continue
        start = growth.measured(growth.first)
        sizes = growth.sizes[: 1 if options.sample else None]
        figures = [growth.measured(size) for size in sizes]
        seconds, peaks = zip(*figures, strict=True)
        power = power_of(growth, figures, start[0])
        rows.append(Measured(growth.words, growth.of, sizes, *start, seconds, peaks, power))
        made = list(bars(growth, figures, start))
        times = ", ".join(
            f"{size:,}: {one:.2f} s" for size, one in zip(sizes, seconds, strict=True)
        )
        print(
            f"     ldp {growth.words}: start {start[0]:.2f} s, {start[1]:.0f} MiB, {times}",
            flush=True,
        )
        missed |= campaign.shown(made)
        every += made
    campaign.write(options.out, provenance, {"bars": every, "rows": rows})
    return missed


if __name__ == "__main__":
    sys.exit(main())
