"""Measure whether the puzzle finds the words that most people write, and no word nobody wrote.

`python -m simulations.words` draws reports of two populations. One has ten million English words of
six to ten letters (the package wordfreq: frequencies of 180,000 of them). The other has 100,000
reports of 1,000 words by a Zipf law. It solves each puzzle at family-wise 0.001, with each screen.
Hash functions and population are redrawn for each seed. It prints each bar beside its figure,
writes all as JSON and exits 1 when a bar is missed. `--sample` runs one seed of each.
"""

import argparse
import math
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ldp import SequenceFragmentPuzzle
from ldp.server import discover
from ldp.simulation import Population, draw_tables
from ldp.tables.estimates import Rule
from ldp.tables.joint_table import JointTable
from simulations import campaign
from simulations.campaign import Bar

RULE = Rule(alpha=0.001, control="bonferroni")
SCREENS = {"chance": None, "fdr": Rule(alpha=0.05, control="fdr"), "bonferroni": RULE}
"""Screens of the puzzle, the default first."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Task:
    """Population and its puzzle.

    `fragment_epsilon`: part of epsilon 8 for fragments. `fewest`: how many of the 20 words held by
    most the default screen must find; None: only compared.
    """

    population: str
    reports: int
    fragment_rows: int
    fragment_epsilon: float
    seeds: int
    fewest: int | None


TASKS = (
    Task("english", 10_000_000, 2048, 5.0, seeds=20, fewest=15),
    Task("zipf", 100_000, 512, 5.0, seeds=20, fewest=12),
    Task("english", 10_000_000, 2048, 3.0, seeds=5, fewest=None),
)


@dataclass(frozen=True)
class Run:
    """One puzzle solved: `top_20` of the 20 words held by most, `false` words held by nobody."""

    population: str
    fragment_epsilon: float
    seed: int
    screen: str
    top_20: int
    found: int
    false: int
    put_together: int
    seconds: float


def english() -> Population:
    """Return English words of six to ten letters, with their shares of all such words."""
    import wordfreq

    listed = wordfreq.get_frequency_dict("en")
    words = {word: f for word, f in listed.items() if re.fullmatch("[a-z]{6,10}", word)}
    total = math.fsum(words.values())
    return Population(tuple(words), frequencies=np.array([*words.values()]) / total)


def zipf() -> Population:
    """Return 1,000 words of four to eight random letters, each with a share of 1 / rank ** 1.1."""
    generator, words = np.random.default_rng(0), dict[str, None]()
    while len(words) < 1000:
        word = generator.choice(list(LETTERS), size=generator.integers(4, 9))
        words["".join(word.tolist())] = None
    weights = np.arange(1.0, 1001) ** -1.1
    return Population(tuple(words), frequencies=weights / weights.sum())


POPULATIONS = {"english": english, "zipf": zipf}


def solve(task: Task, seed: int, words: Population) -> Iterator[Run]:
    """Draw one table, and solve it with each screen."""
    generator = np.random.default_rng([seed, int(task.fragment_epsilon), task.reports])
    people = words.sample(task.reports, generator)
    assert people.counts is not None
    mechanism = SequenceFragmentPuzzle(
        epsilon=8.0,
        fragment_epsilon=task.fragment_epsilon,
        rows=2048,
        width=1024,
        fragment_rows=task.fragment_rows,
        fragment_width=1024,
        seed=f"{seed:08x}",
    )
    table = draw_tables(mechanism, people.values, people.counts, generator)
    assert isinstance(table, JointTable)
    truth = people.truth()
    top = {people.values[i] for i in np.argsort(-people.counts, kind="stable")[:20]}
    for name, screen in SCREENS.items():
        started = time.perf_counter()
        estimates = discover(table, rule=RULE, screen=screen)
        seconds = time.perf_counter() - started
        found = {estimates.values[i] for i in np.flatnonzero(estimates.detected())}
        yield Run(
            population=task.population,
            fragment_epsilon=task.fragment_epsilon,
            seed=seed,
            screen=name,
            top_20=len(found & top),
            found=len(found),
            false=sum(not truth.get(word, 0) for word in found),
            put_together=len(estimates.values),
            seconds=round(seconds, 1),
        )


def bars(runs: list[Run]) -> list[Bar]:
    """Return every bar, for each task with the default screen."""
    default, made = next(iter(SCREENS)), []
    for task in TASKS:
        held = [
            run.top_20
            for run in runs
            if (run.population, run.fragment_epsilon) == (task.population, task.fragment_epsilon)
            and run.screen == default
        ]
        if held and task.fewest is not None:
            what = f"{task.population}: of the top 20 found, fewest of {len(held)} seeds"
            made.append(Bar(what, min(held), f">= {task.fewest}", min(held) >= task.fewest))
    false, slowest = sum(run.false for run in runs), max(run.seconds for run in runs)
    return [
        *made,
        Bar("false words, all runs and screens", false, "0", false == 0),
        Bar("seconds to solve, slowest", slowest, "< 60", slowest < 60),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", action="store_true", help="one seed of each task with a bar")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    asked, started = parser.parse_args(), campaign.provenance()
    populations = {name: make() for name, make in POPULATIONS.items()}
    runs = list[Run]()
    for task in TASKS:
        if asked.sample and task.fewest is None:
            continue
        for seed in range(1, 1 + (1 if asked.sample else task.seeds)):
            for run in solve(task, seed, populations[task.population]):
                runs.append(run)
                print(f"     {asdict(run)}", flush=True)
    made = bars(runs)
    status = campaign.shown(made)
    campaign.write(asked.out, started, {"tasks": TASKS, "bars": made, "runs": runs})
    sys.exit(status)


if __name__ == "__main__":
    main()
