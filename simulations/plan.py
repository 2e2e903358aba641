"""Measure whether the mechanism that `ldp plan` names is the best, and its predictions are true.

`python -m simulations.plan` asks for a plan in 30 scenarios from a seeded generator. Through every
mechanism of each plan it draws the estimate of the scenario's value. It prints a line a scenario,
writes all as JSON and exits 1 when a bar is missed. In at least 28 scenarios, the mechanism named
must be within 3 % of the smallest standard deviation drawn. In at least 29, every prediction must
be within 3 % of what was drawn.

The standard deviation of N normal draws has a relative standard error of 1 / sqrt(2 N): 1 % for
5,000 draws. The best of several equal mechanisms would then look 1 to 2 % better than it is. So the
full run makes 40 times 5,000 draws (0.16 %) and adds nothing to the 3 %. A sample (`--scenarios`,
`--draws`) may be 4.5 sampling errors further off.
"""

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from ldp.arrays import Ints
from ldp.planning import Plan, Shares, candidates, plan
from ldp.simulation import draw_estimates
from simulations import campaign
from simulations.campaign import Bar

SCENARIOS, DRAWS, SEED = 30, 200_000, 9
MOST_OFF, BEST_IN, RIGHT_IN, ERRORS = 0.03, 28, 29, 4.5
PROCESSES = 2
DOMAIN, USERS, EPSILON, FREQUENCY, BYTES = (
    (2, 250_000),
    (1e4, 1e8),
    (0.5, 8),
    (1e-4, 0.5),
    (16, 2000),
)


@dataclass(frozen=True)
class Found:
    """One mechanism of a plan: the standard error predicted, and the one drawn."""

    mechanism: str
    predicted: float
    drawn: float

    @property
    def off(self) -> float:
        return self.predicted / self.drawn - 1


@dataclass(frozen=True)
class Row:
    """Scenario, the mechanism named, and what was drawn of all mechanisms.

    `above`: standard deviation of the mechanism named over the smallest, minus 1.
    """

    scenario: Shares
    named: str
    found: tuple[Found, ...]
    above: float
    off: float


def scenarios(number: int = SCENARIOS, seed: int = SEED) -> list[Shares]:
    """Draw scenarios.

    Domain, users and frequency are log-uniform, epsilon is uniform, and every second scenario has a
    byte limit.
    """
    generator = np.random.default_rng(seed)

    def between(low: float, high: float) -> float:
        return math.exp(generator.uniform(math.log(low), math.log(high)))

    made = []
    for i in range(number):
        limit = round(between(*BYTES))
        made.append(
            Shares(
                domain=round(between(*DOMAIN)),
                users=round(between(*USERS)),
                epsilon=round(float(generator.uniform(*EPSILON)), 3),
                frequency=round(between(*FREQUENCY), 6),
                max_report_bytes=limit if i % 2 else None,
            )
        )
    return made


def population(ask: Shares) -> tuple[int, Ints]:
    """Return how many people hold the value, and how many hold each other value.

    Numbers are those of the question, in whole people. Sums over the most common values are
    rounded, so that the other values keep their share.
    """
    held = round(ask.users * ask.frequency)
    weights = 1 / np.arange(1, ask.domain)
    sums = np.rint((ask.users - held) * np.cumsum(weights) / weights.sum()).astype(np.int64)
    return held, np.diff(sums, prepend=0)


def row(ask: Shares, draws: int, seed: np.random.SeedSequence) -> Row:
    """Return the errors of every mechanism that the plan forecasts, in `draws` drawn
    collections."""
    made = plan(
        domain=ask.domain,
        users=ask.users,
        epsilon=ask.epsilon,
        frequency=ask.frequency,
        max_report_bytes=ask.max_report_bytes,
    )
    held, others = population(ask)
    found = []
    for mechanism, forecast, stream in zip(
        candidates(ask)[0], made.forecasts, seed.spawn(len(made.forecasts)), strict=True
    ):
        assert mechanism.name == forecast.mechanism
        estimates = draw_estimates(
            mechanism,
            held=held,
            others=others,
            draws=draws,
            generator=np.random.default_rng(stream),
        )
        error = math.sqrt(float(((estimates - held) ** 2).mean()))  # around the truth: bias counts
        found.append(Found(forecast.mechanism, forecast.std_error, error))
    return judged(made, found)


def judged(made: Plan, found: Sequence[Found]) -> Row:
    name = made.best.mechanism
    drawn = next(one.drawn for one in found if one.mechanism == name)
    return Row(
        scenario=made.question,
        named=name,
        found=tuple(found),
        above=drawn / min(one.drawn for one in found) - 1,
        off=max((one.off for one in found), key=abs),
    )


def rows(number: int, draws: int) -> Iterator[Row]:
    """Yield every scenario's row; each has a generator of its own."""
    asked = scenarios()[:number]
    seeds = np.random.SeedSequence(SEED).spawn(number)
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        yield from pool.map(row, asked, [draws] * number, seeds)


def bars(made: Sequence[Row], draws: int) -> list[Bar]:
    """Return the two bars, in proportion for a sample."""
    error = 1 / math.sqrt(2 * draws)
    full = draws >= DRAWS and len(made) == SCENARIOS
    best_off = MOST_OFF + (0 if full else ERRORS * math.sqrt(2) * error)
    most_off = MOST_OFF + (0 if full else ERRORS * error)
    best = sum(one.above <= best_off for one in made)
    right = sum(abs(one.off) <= most_off for one in made)
    least = [wanted if full else len(made) for wanted in (BEST_IN, RIGHT_IN)]
    named, predicted = (
        f"scenarios of {len(made)}: {what} within {100 * off:.3g} % of {of}"
        for what, off, of in (
            ("the mechanism named is", best_off, "the best drawn"),
            ("every prediction is", most_off, "what was drawn"),
        )
    )
    return [
        Bar(named, best, f">= {least[0]}", best >= least[0]),
        Bar(predicted, right, f">= {least[1]}", right >= least[1]),
    ]


def line(one: Row) -> str:
    ask = one.scenario
    limit = f"{ask.max_report_bytes:,} B" if ask.max_report_bytes else "-"
    return (
        f"{ask.domain:8,} {ask.users:12,} {ask.epsilon:6.3f} {ask.frequency:9.6f} {limit:>8} "
        f"{one.named:14} {100 * one.above:6.2f} % {100 * one.off:6.2f} %  "
        + ", ".join(f"{found.mechanism} {found.drawn:,.1f}" for found in one.found)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenarios", type=int, default=SCENARIOS, help="the first so many")
    parser.add_argument("--draws", type=int, default=DRAWS, help="for each mechanism")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    asked, started, made = parser.parse_args(), campaign.provenance(), []
    print(
        "  domain        users   eps.     freq.    limit named           above  prediction  drawn"
    )
    for one in rows(asked.scenarios, asked.draws):
        print(line(one), flush=True)
        made.append(one)
    found = bars(made, asked.draws)
    campaign.write(
        asked.out, started, {"seed": SEED, "draws": asked.draws, "bars": found, "rows": made}
    )
    sys.exit(campaign.shown(found))


if __name__ == "__main__":
    main()
