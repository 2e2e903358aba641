"""Measure whether intervals hold and discoveries keep their error rate, at full size.

`python -m simulations.coverage` runs ten demos (a million device reports each) and three tables of
a billion users with redrawn hash functions. It prints each bar beside its figure, writes all as
JSON and exits 1 when a bar is missed. With `--sample` it draws tables instead of running demos, in
half a minute.
"""

import argparse
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from ldp import CountMeanSketch
from ldp.report.value_face import compared
from ldp.server import decode
from ldp.simulation import Population, draw_table
from ldp.simulation.datasets import emoji
from ldp.tables.estimates import Rule
from ldp.tables.saved import SavedResult
from simulations import campaign
from simulations.campaign import Bar

Z = -float(ndtri(0.025))
ALPHA = 0.05
ABSENT = tuple(f"absent-{i:04d}" for i in range(1, 1632))


@dataclass(frozen=True)
class Run:
    """Shares of one run; `false` and `false_uncontrolled` are false-discovery proportions."""

    nominal: float
    printed: float
    selected: float
    false: float
    false_uncontrolled: float


def measure(controlled: SavedResult, uncontrolled: SavedResult, truth: Mapping[str, int]) -> Run:
    """Compare the files that `ldp decode` wrote with the truth."""
    rows, comparison = controlled.rows(), compared(controlled, truth)

    def false(results: SavedResult) -> float:
        found = results.rows(results.where("discovered"))
        return sum(not truth.get(row["value"], 0) for row in found) / max(1, len(found))

    return Run(
        nominal=float(
            np.mean(
                [abs(row["estimate"] - truth[row["value"]]) <= Z * row["std_error"] for row in rows]
            )
        ),
        printed=comparison["intervals_hold"],
        selected=comparison["selected_hold"],
        false=false(controlled),
        false_uncontrolled=false(uncontrolled),
    )


def demos(seeds: int) -> Iterator[Run]:
    """Run the demo as a user does, and decode its table a second time without control."""
    ldp = [sys.executable, "-m", "ldp"]
    for seed in range(1, seeds + 1):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            subprocess.run(
                [*ldp, "demo", "--first-act", "--seed", str(seed), "--out", name],
                check=True,
                capture_output=True,
            )
            wild = folder / "uncontrolled.csv"
            words = ["decode", str(folder / "emoji.table"), "--rule", "none", "--out", str(wild)]
            subprocess.run([*ldp, *words], check=True, capture_output=True)
            truth = Population.from_csv(folder / "truth.csv").truth()
            yield measure(SavedResult.load(folder / "estimates.csv"), SavedResult.load(wild), truth)


def people(users: int, generator: np.random.Generator) -> Population:
    """Return the demo's population: real symbols, and candidates that nobody holds."""
    drawn = emoji().sample(users, generator)
    assert drawn.counts is not None
    return Population(
        drawn.values + ABSENT, counts=np.append(drawn.counts, np.zeros(len(ABSENT), dtype=np.int64))
    )


def sketch(seed: int) -> CountMeanSketch:
    return CountMeanSketch(epsilon=4.0, rows=65_536, width=1_024, seed=f"{seed:08x}")


def draws(seeds: int) -> Iterator[Run]:
    """Do the demo's job with a table that is drawn instead of reported."""
    for seed in range(1, seeds + 1):
        generator = np.random.default_rng(seed)
        held = people(1_000_000, generator)
        table = draw_table(sketch(seed), held.values, counts=held.counts, generator=generator)
        with tempfile.TemporaryDirectory() as name:
            results = []
            for control in ("fdr", "none"):
                path = Path(name) / f"{control}.csv"
                decode(table, held.values, rule=Rule(control=control)).to_csv(path)
                results.append(SavedResult.load(path))
            yield measure(results[0], results[1], held.truth())


def billions(tables: int) -> Iterator[tuple[float, float]]:
    """Yield two shares of nominal intervals that hold at 1e9 users.

    The second is without the collision term in the standard error.
    """
    for seed in range(1, tables + 1):
        generator = np.random.default_rng([seed, 10**9])
        held = people(10**9, generator)
        mechanism = sketch(1000 + seed)
        table = draw_table(mechanism, held.values, counts=held.counts, generator=generator)
        estimates = decode(table, held.values)
        assert held.counts is not None
        error = np.abs(estimates.count - held.counts)
        share = np.clip(estimates.count / table.total, 0, 1)
        bare = (
            mechanism.width
            / (mechanism.width - 1)
            * np.sqrt(table.total * mechanism.channel.variance(share))
        )
        yield (
            float(np.mean(error <= Z * estimates.std_error)),
            float(np.mean(error <= Z * bare)),
        )


def bars(runs: list[Run], large: list[tuple[float, float]]) -> list[Bar]:
    """Return every bar with its figure."""
    nominal = float(np.mean([run.nominal for run in runs]))
    selected = float(np.mean([run.selected for run in runs]))
    made = [
        Bar("nominal intervals that hold", nominal, "0.94 to 0.96", 0.94 <= nominal <= 0.96),
        Bar("intervals of discoveries that hold", selected, ">= 0.94", selected >= 0.94),
    ]
    for name, kept in (("false", True), ("false_uncontrolled", False)):
        proportions = np.array([getattr(run, name) for run in runs])
        error = float(proportions.std(ddof=1)) / math.sqrt(len(runs))
        mean = float(proportions.mean())
        most = ALPHA + 4 * error
        wanted = f"{'<=' if kept else '>'} {ALPHA} + 4 x {error:.4f}"
        what = "false-discovery proportion" + ("" if kept else " with --rule none")
        made.append(Bar(what, mean, wanted, (mean <= most) is kept))
    for number, (held, bare) in enumerate(large, 1):
        at = f"1e9 users, table {number}: intervals that hold"
        made.append(Bar(at, held, "0.94 to 0.96", 0.94 <= held <= 0.96))
        made.append(Bar(f"{at} without collision term", bare, "< 0.80", bare < 0.80))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", action="store_true", help="tables instead of demos")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    asked, started = parser.parse_args(), campaign.provenance()
    runs = list(draws(4) if asked.sample else demos(10))
    large = list(billions(1 if asked.sample else 3))
    made = bars(runs, large)
    status = campaign.shown(made)
    printed = float(np.mean([run.printed for run in runs]))
    print(f"     {printed:.4f}  intervals as printed, clipped to [0, reports], hold")
    seeds = list(range(1, len(runs) + 1))
    campaign.write(asked.out, started, {"seeds": seeds, "bars": made, "runs": runs})
    sys.exit(status)


if __name__ == "__main__":
    main()
