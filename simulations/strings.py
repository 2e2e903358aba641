"""Measure whether RAPPOR n-grams find strings that nobody listed, within a minute.

`python -m simulations.strings` makes the reports of many populations of six-letter strings. In one,
five strings are held alike, as in google/rappor's own try. In the other two, people hold the 100
most frequent English words. The parameters are google/rappor's (128 bits, 2 hashes, 16 cohorts,
every bit truthful with 3/4), or have a smaller epsilon. It finds the strings and times that.
Apple's puzzle and prefix extension search them too, at the same total epsilon.

It prints each bar beside its figure, writes all as JSON and exits 1 when one is missed. `--sample`
runs the first seed of every setting.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import log
from pathlib import Path
from statistics import median
from string import ascii_lowercase

import numpy as np

from ldp import PrefixExtension, RapporNgrams, SequenceFragmentPuzzle
from ldp.errors import DecodeError
from ldp.mechanisms.local_hashing import tuned_buckets
from ldp.server import discover, discover_ngrams, discover_prefixes
from ldp.simulation import Population, draw_reports, draw_table, draw_tables
from ldp.tables.estimates import Estimates, Rule
from ldp.tables.joint_table import JointTable, whole_table
from simulations import campaign
from simulations.campaign import Bar
from simulations.words import english

RULE = Rule(alpha=0.001, control="bonferroni")
SEEDS = 10
LENGTH = 6
SECONDS = 60
PUBLISHED = 12 * log(3)
"""Epsilon of a report at google/rappor's parameters.

Two n-grams take 8 ln 3, the string takes 4 ln 3.
"""


@dataclass(frozen=True)
class Setting:
    """Population, its reports and their epsilon.

    `least`: fewest of the 20 strings held by most (or of the five) that must be found, in the
    median of all seeds.
    """

    population: str
    reports: int
    epsilon: float
    fragment_epsilon: float
    least: int


SETTINGS = (
    Setting("five", 10_000, PUBLISHED, PUBLISHED * 2 / 3, 5),
    Setting("english", 100_000, PUBLISHED, PUBLISHED * 2 / 3, 18),
    Setting("english", 100_000, 8.0, 5.0, 5),
)


@dataclass(frozen=True)
class Run:
    """One setting and seed.

    `top`: strings found of the top 20; `found`: strings found in all; `false`: those that nobody
    holds; `tested`: strings tested. `puzzle`, `prefix`: strings of the top 20 that these methods
    find.
    """

    population: str
    reports: int
    epsilon: float
    seed: int
    top: int
    found: int
    false: int
    tested: int
    seconds: float
    puzzle: int
    prefix: int
    others_false: int


def five(generator: np.random.Generator) -> Population:
    """Return a population of five strings of random letters, all equally frequent."""
    letters = np.array(list(ascii_lowercase))
    drawn = {"".join(generator.choice(letters, size=LENGTH)) for _ in range(5)}
    return Population(tuple(sorted(drawn)), frequencies=np.full(len(drawn), 1 / len(drawn)))


def frequent() -> Population:
    """Return the 100 most frequent English words of six letters, with shares by 1 / rank."""
    words = english()
    order = np.argsort(-words.shares, kind="stable").tolist()
    named = [words.values[i] for i in order if len(words.values[i]) == LENGTH][:100]
    shares = 1 / np.arange(1.0, 101)
    return Population(tuple(named), frequencies=shares / shares.sum())


def run(setting: Setting, seed: int, words: Population | None) -> Run:
    """Run all three methods on one population."""
    generator = np.random.default_rng([seed, setting.reports, int(setting.epsilon)])
    people = (words or five(generator)).sample(setting.reports, generator)
    assert people.counts is not None
    values, counts, epsilon, name = people.values, people.counts, setting.epsilon, f"{seed:08x}"
    truth = people.truth()
    top = {values[i] for i in np.argsort(-counts, kind="stable")[:20]}

    def solved(solve: Callable[[], Estimates]) -> tuple[set[str], int, float]:
        started = time.perf_counter()
        try:
            estimates = solve()
        except DecodeError:  # no beginning stands out
            return set(), 0, time.perf_counter() - started
        found = {estimates.values[i] for i in np.flatnonzero(estimates.detected())}
        return found, len(estimates.values), time.perf_counter() - started

    strings = RapporNgrams(
        epsilon=epsilon, fragment_epsilon=setting.fragment_epsilon, seed=name, length=LENGTH
    )
    whole = whole_table(strings, draw_reports(strings, people, generator))
    found, tested, seconds = solved(lambda: discover_ngrams(whole, rule=RULE))
    puzzle = SequenceFragmentPuzzle(
        epsilon=epsilon,
        fragment_epsilon=epsilon * 5 / 8,
        rows=2048,
        width=1024,
        fragment_rows=512,
        fragment_width=1024,
        seed=name,
        length=LENGTH,
    )
    pieces = draw_tables(puzzle, values, counts, generator)
    assert isinstance(pieces, JointTable)
    by_puzzle, _, _ = solved(lambda: discover(pieces, rule=RULE))
    each = max(64, min(8192, (1 << 19) // tuned_buckets(epsilon)))
    extension = PrefixExtension(epsilon=epsilon, rows=3 * each, seed=name, length=LENGTH, groups=3)
    beginnings = draw_table(extension, values, counts=counts, generator=generator)
    by_prefixes, _, _ = solved(lambda: discover_prefixes(beginnings, rule=RULE))

    def false(some: set[str]) -> int:
        return sum(not truth.get(string, 0) for string in some)

    return Run(
        setting.population,
        setting.reports,
        epsilon,
        seed,
        top=len(found & top),
        found=len(found),
        false=false(found),
        tested=tested,
        seconds=round(seconds, 2),
        puzzle=len(by_puzzle & top),
        prefix=len(by_prefixes & top),
        others_false=false(by_puzzle) + false(by_prefixes),
    )


def bars(runs: list[Run]) -> list[Bar]:
    """Return every bar with its figure."""
    made = []
    for setting in SETTINGS:
        asked = (setting.population, setting.reports, setting.epsilon)
        mine = [each for each in runs if (each.population, each.reports, each.epsilon) == asked]
        if not mine:
            continue
        top, puzzle, prefix = (
            median(getattr(each, who) for each in mine) for who in ("top", "puzzle", "prefix")
        )
        what = (
            f"{setting.population}, {setting.reports:,} people, epsilon {setting.epsilon:.3g}: of "
            f"the top by n-grams, median of {len(mine)} (puzzle {puzzle:g}, prefixes {prefix:g})"
        )
        made.append(Bar(what, top, f">= {setting.least}", top >= setting.least))
        slowest = max(each.seconds for each in mine)
        made.append(Bar("   seconds of the slowest", slowest, f"< {SECONDS}", slowest < SECONDS))
    false = sum(each.false for each in runs)
    return [*made, Bar("false strings, all runs", false, "0", false == 0)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", action="store_true", help="the first seed of the first setting")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    asked, started = parser.parse_args(), campaign.provenance()
    listed, runs = frequent(), list[Run]()
    for setting in SETTINGS[:1] if asked.sample else SETTINGS:
        for seed in range(1 if asked.sample else SEEDS):
            runs.append(run(setting, seed, listed if setting.population == "english" else None))
            print(f"     {asdict(runs[-1])}", flush=True)
    made = bars(runs)
    status = campaign.shown(made)
    campaign.write(asked.out, started, {"settings": SETTINGS, "bars": made, "runs": runs})
    sys.exit(status)


if __name__ == "__main__":
    main()
