"""Measure whether prefix extension or Apple's puzzle finds more words that nobody listed.

`python -m simulations.prefixes` draws a table of each for the same people, at the same total
epsilon. It solves both at family-wise 0.001, in eight settings of 20 seeds each, with hash
functions and population redrawn. It prints how many of the 20 words held by most each method finds,
and writes all as JSON. It exits 1 when prefix extension finds fewer in the median of a setting, or
when a word is false. `--sample` runs one seed of each setting.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

from ldp import PrefixExtension, SequenceFragmentPuzzle
from ldp.errors import DecodeError
from ldp.mechanisms.local_hashing import tuned_buckets
from ldp.server import discover, discover_prefixes
from ldp.simulation import Population, draw_table, draw_tables
from ldp.tables.estimates import Estimates, Rule
from ldp.tables.joint_table import JointTable
from simulations import campaign
from simulations.campaign import Bar
from simulations.words import english, zipf

RULE = Rule(alpha=0.001, control="bonferroni")
SEEDS = 20
ROWS = 512
"""Rows of each position of the puzzle; its words have four times as many."""
CELLS = 1 << 19
"""Most cells of each length.

Values collide often in few buckets, so fewer buckets have more rows.
"""
FRAGMENTS = 5 / 8
"""Share of epsilon that the puzzle spends on fragments: the best share of those tried."""


@dataclass(frozen=True)
class Setting:
    population: str
    reports: int
    epsilon: float


SETTINGS = (
    Setting("zipf", 100_000, 4.0),
    Setting("zipf", 100_000, 8.0),
    Setting("zipf", 1_000_000, 2.0),
    Setting("zipf", 1_000_000, 4.0),
    Setting("zipf", 1_000_000, 8.0),
    Setting("english", 1_000_000, 4.0),
    Setting("english", 10_000_000, 2.0),
    Setting("english", 10_000_000, 4.0),
)


@dataclass(frozen=True)
class Run:
    """One setting and seed.

    `prefix`, `puzzle`: how many of the top 20 words each method found; `*_found`: how many words in
    all; `*_false`: how many of them nobody holds.
    """

    population: str
    reports: int
    epsilon: float
    seed: int
    prefix: int
    puzzle: int
    prefix_found: int
    puzzle_found: int
    prefix_false: int
    puzzle_false: int
    prefix_seconds: float
    puzzle_seconds: float


def frequent() -> Population:
    """Return the 20,000 most frequent English words of six to ten letters."""
    words = english()
    most = np.argsort(-words.shares, kind="stable")[:20_000]
    shares = words.shares[most]
    named = tuple(words.values[i] for i in most)
    return Population(named, frequencies=shares / shares.sum())


POPULATIONS: dict[str, Callable[[], Population]] = {"english": frequent, "zipf": zipf}


def run(setting: Setting, seed: int, words: Population) -> Run:
    """Run both mechanisms on one population."""
    generator = np.random.default_rng([seed, setting.reports, int(setting.epsilon)])
    people = words.sample(setting.reports, generator)
    assert people.counts is not None
    values, counts, name = people.values, people.counts, f"{seed:08x}"
    each = min(8192, CELLS // tuned_buckets(setting.epsilon))
    extension = PrefixExtension(epsilon=setting.epsilon, rows=5 * each, seed=name)
    puzzle = SequenceFragmentPuzzle(
        epsilon=setting.epsilon,
        fragment_epsilon=FRAGMENTS * setting.epsilon,
        rows=4 * ROWS,
        width=1024,
        fragment_rows=ROWS,
        fragment_width=1024,
        seed=name,
    )
    beginnings = draw_table(extension, values, counts=counts, generator=generator)
    pieces = draw_tables(puzzle, values, counts, generator)
    assert isinstance(pieces, JointTable)
    truth = people.truth()
    top = {values[i] for i in np.argsort(-counts, kind="stable")[:20]}

    def solved(solve: Callable[[], Estimates]) -> tuple[int, int, int, float]:
        started = time.perf_counter()
        try:
            estimates = solve()
        except DecodeError:  # no beginning stands out
            return 0, 0, 0, time.perf_counter() - started
        found = {estimates.values[i] for i in np.flatnonzero(estimates.detected())}
        false = sum(not truth.get(word, 0) for word in found)
        return len(found & top), len(found), false, time.perf_counter() - started

    ours = solved(lambda: discover_prefixes(beginnings, rule=RULE))
    theirs = solved(lambda: discover(pieces, rule=RULE))
    return Run(
        setting.population,
        setting.reports,
        setting.epsilon,
        seed,
        prefix=ours[0],
        puzzle=theirs[0],
        prefix_found=ours[1],
        puzzle_found=theirs[1],
        prefix_false=ours[2],
        puzzle_false=theirs[2],
        prefix_seconds=round(ours[3], 2),
        puzzle_seconds=round(theirs[3], 2),
    )


def bars(runs: list[Run]) -> list[Bar]:
    """Return every bar with its figure."""
    made = []
    for setting in SETTINGS:
        mine = [
            each
            for each in runs
            if (each.population, each.reports, each.epsilon)
            == (setting.population, setting.reports, setting.epsilon)
        ]
        if mine:
            ours, theirs = (median(getattr(each, who) for each in mine) for who in WHO)
            what = (
                f"{setting.population}, {setting.reports:,} people, epsilon {setting.epsilon:g}: "
                f"of the top 20 by prefixes, median of {len(mine)} seeds"
            )
            made.append(Bar(what, ours, f">= {theirs:g} by the puzzle", ours >= theirs))
    false = sum(each.prefix_false + each.puzzle_false for each in runs)
    return [*made, Bar("false words, all runs", false, "0", false == 0)]


WHO = ("prefix", "puzzle")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", action="store_true", help="one seed of each setting")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    asked, started = parser.parse_args(), campaign.provenance()
    populations = {name: make() for name, make in POPULATIONS.items()}
    runs = list[Run]()
    for setting in SETTINGS:
        for seed in range(1, 2 if asked.sample else 1 + SEEDS):
            runs.append(run(setting, seed, populations[setting.population]))
            print(f"     {asdict(runs[-1])}", flush=True)
    made = bars(runs)
    status = campaign.shown(made)
    campaign.write(asked.out, started, {"settings": SETTINGS, "bars": made, "runs": runs})
    sys.exit(status)


if __name__ == "__main__":
    main()
