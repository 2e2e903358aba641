"""Measure what a second core saves where one process uses both.

`python -m simulations.benchmarks.cores` runs each command on one core and on two, in turns, and
prints the ratio of their wall times, each less the command's start: the same command on a small
input. It exits 1 where two cores take more than 0.6 of one core's time, or where they write other
bytes. The machine has to be quiet.
"""

import argparse
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from simulations import campaign, scale
from simulations.benchmarks.large import LENGTH, SIMULATED, WORDS, ldp, write_words
from simulations.campaign import Bar

MOST, ROUNDS = 0.6, 3
FILTER = 'mechanism = "rappor"\nbits = 128\nhashes = 2\ncohorts = 128\nseed = "00ff"\n'
NOISE = "f = 0.5\np = 0.25\nq = 0.75\n"
SKETCH = scale.SKETCH.replace("1024", "65536", 1)


class Case(NamedTuple):
    """Command that is measured. Its inputs, a small and a large one, are of a metric with `keys`.

    `values`: how many each has; `people`: how many report; `simulated`: option that writes them;
    `output`: file that the command writes.
    """

    name: str
    keys: str
    values: tuple[int, int]
    people: tuple[int, int]
    simulated: str
    command: str
    output: str


CASES = (
    Case(
        "aggregate 5,000,000 reports of CMS",
        SKETCH,
        (1000, 1000),
        (1000, 5_000_000),
        "--reports store",
        "aggregate asked --registry metrics.toml store --out out.table",
        "out.table",
    ),
    Case(
        "decode 250,000 candidates of CMS",
        SKETCH,
        (100, 250_000),
        (1_000_000, 1_000_000),
        "--table asked.table",
        "decode asked.table --candidates values.txt --out out.csv",
        "out.csv",
    ),
    Case(
        "decode RAPPOR of 128 bits: 200,000 candidates",
        FILTER + NOISE,
        (100, 200_000),
        (10_000, 10_000_000),
        "--table asked.table",
        "decode asked.table --candidates values.txt --out out.csv",
        "out.csv",
    ),
    Case(
        "discover words from 1,000,000 reports of n-grams",
        WORDS + LENGTH,
        (1000, 1000),
        (1000, 1_000_000),
        "--reports store",
        "decode asked.table --out out.csv",
        "out.csv",
    ),
)


def prepare(case: Case, folder: Path, size: int) -> None:
    """Write what the command reads; `size`: 0 for the small input, 1 for the large one."""
    folder.mkdir()
    scale.listed(case.keys)(folder, case.values[size])
    if case.keys.startswith(WORDS):
        write_words(folder)
    ldp(folder, f"{SIMULATED} {case.people[size]} {case.simulated}")
    if "store" in case.simulated:
        ldp(folder, "aggregate asked --registry metrics.toml store --out asked.table")


def seconds(case: Case, folder: Path, cores: set[int]) -> tuple[float, bytes]:
    """Return the wall time of the command on these cores, and what it wrote."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        used = ldp(folder, case.command)
    finally:
        os.sched_setaffinity(0, before)
    return used.seconds, (folder / case.output).read_bytes()


def measured(case: Case, folder: Path) -> list[Bar]:
    """Return the bars of a case."""
    first, *others = sorted(os.sched_getaffinity(0))
    times: dict[int, list[float]] = {1: [], 2: []}
    outputs = set[bytes]()
    for size in (0, 1):
        prepare(case, folder / str(size), size)
    for number in range(ROUNDS + 1):
        for count in (1, 2):
            cores = {first, *others[: count - 1]}
            start, _ = seconds(case, folder / "0", cores)
            whole, output = seconds(case, folder / "1", cores)
            outputs.add(output)
            if number:  # the first round compiles and fills caches
                times[count].append(whole - start)
    one, two = (min(times[count]) for count in (1, 2))
    what = f"{case.name}: {two:.2f} s on two cores over {one:.2f} s on one"
    same = Bar(f"{case.name}: different outputs", len(outputs), "1", len(outputs) == 1)
    return [Bar(what, two / one, f"<= {MOST}", two / one <= MOST), same]


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulations.benchmarks.cores", description=__doc__)
    parser.add_argument("--out", type=Path, help="also write the result there, as JSON")
    asked = parser.parse_args()
    made, bars = campaign.provenance(), list[Bar]()
    for case in CASES:
        with TemporaryDirectory() as name:
            bars += measured(case, Path(name))
        campaign.write(asked.out, made, {"bars": bars})
    return campaign.shown(bars)


if __name__ == "__main__":
    sys.exit(main())
