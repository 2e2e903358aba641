"""Do nominal intervals hold in 95 % of small tables, for every mechanism?

`python -m simulations.intervals` draws 10,000 small tables of every setting of every mechanism (two
settings or more each), with hash functions of their own, decodes each with `ldp.server.decode`,
asks of one value named beforehand whether its nominal interval holds the truth, prints each bar
beside the figure, writes them as JSON and exits 1 when one is missed. The standard error of a share
of 10,000 tables is 0.22 %.
"""

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice, product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from scipy.stats import binom

from ldp import OneBitMean, Piecewise, Rappor, RegressionMoments
from ldp.mechanisms.numeric import Numeric
from ldp.server import Table, decode, decode_mean, decode_regression
from ldp.simulation import draw_table
from simulations import campaign
from simulations.campaign import Bar
from simulations.variance import CATEGORIES, OTHERS, REDRAWN, VALUE, Setting, Subject, settings

TABLES = 10_000
BATCH = 500
PROCESSES = 2
LOW, HIGH, LEVEL, ERROR = 0.935, 0.965, 0.95, 1e-6

_BLOOM = {"mechanism": "rappor", "bits": 8, "hashes": 2, "cohorts": 16, "seed": REDRAWN}
_WORDS = {"mechanism": "cms", "rows": 128, "width": 32, "seed": REDRAWN}
MORE = (
    Subject(
        {"mechanism": "rr", "categories": CATEGORIES},
        ({"epsilon": 1.0}, {"epsilon": 4.0}),
        reports=2_000,
    ),
    Subject(
        {"mechanism": "coin"},
        ({"alpha": 0.5, "beta": 0.5}, {"alpha": 0.8, "beta": 0.3}),
        reports=1_000,
        values=("yes", "no"),
    ),
    Subject(
        _BLOOM,
        ({"f": 0.5, "p": 0.25, "q": 0.75}, {"f": 0.25, "p": 0.0, "q": 1.0}),
        reports=20_000,
        values=(VALUE, *OTHERS),
    ),
    Subject(_WORDS, ({"epsilon": 3.0},), reports=5_000, values=(VALUE, *OTHERS)),
)
"""What the variance campaign has no line for; the last is the words' own table of a puzzle."""

ADVERSE = (
    Subject({"mechanism": "rr", "categories": CATEGORIES}, ({"epsilon": 8.0},), reports=2_000),
    Subject(
        {"mechanism": "local-hashing", "rows": 64, "seed": REDRAWN},
        ({"epsilon": 8.0},),
        reports=100_000,
        values=(VALUE, *OTHERS),
    ),
)
"""Little noise: few lies, and few collisions that outweigh it."""

MEANS = tuple(
    kind(bounds=(0.0, 10.0), epsilon=epsilon)
    for kind in (OneBitMean, Piecewise)
    for epsilon in (1.0, 4.0)
)
NUMBERS, SHARES, PEOPLE = ("1", "2.5", "9"), np.array([0.5, 0.3, 0.2]), 1_000
"""Numbers, how they are distributed, and how many are drawn: the interval is of their mean."""

REGRESSIONS = tuple(
    (
        RegressionMoments(features=2, bounds=((0, 10), (0, 1), (0, 100)), epsilon=epsilon),
        reports,
    )
    for epsilon, reports in ((1.0, 20_000), (1.0, 100_000), (4.0, 4_000), (4.0, 20_000))
)
"""Regressions, and of how many reports: of each epsilon one whose X'X is six times its noise, the
least at which nearly all intervals have ends, and one far above it."""
TUPLES = ("2,0.1,24", "4,0.9,48", "9,0.4,79", "6,0,58", "0,0.8,10")
"""Tuples, of which people hold one each, all equally often."""

POOLED = Rappor(scheme="identity", bits=4, f=0.5, p=0.25, q=0.75)
CLIENTS, REPORTS_EACH = np.array([200, 100, 60, 40]), 10


@dataclass(frozen=True)
class Row:
    """Of so many tables of a setting, how many intervals hold."""

    mechanism: str
    epsilon: float
    reports: int
    frequency: float
    tables: int
    held: int

    @property
    def share(self) -> float:
        return self.held / self.tables


def every() -> list[Setting]:
    return settings() + settings(MORE)


def held(setting: Setting, tables: int, seed: np.random.SeedSequence) -> int:
    """In how many independent tables the interval of the first value holds its count."""
    generator, held = np.random.default_rng(seed), 0
    for mechanism in islice(setting.mechanisms(generator), tables):
        table = draw_table(mechanism, setting.values, counts=setting.counts, generator=generator)
        bloom = isinstance(mechanism, Rappor) and not mechanism.categories
        low, high = decode(table, setting.values if bloom else setting.candidates[:1]).interval()
        held += int(low[0] <= setting.counts[0] <= high[0])
    return held


def held_mean(mechanism: Numeric, tables: int, seed: np.random.SeedSequence) -> int:
    """In how many tables of people drawn anew the interval holds the mean they are drawn from."""
    generator, held = np.random.default_rng(seed), 0
    truth = float(SHARES @ np.array([float(number) for number in NUMBERS]))
    for _ in range(tables):
        table = draw_table(
            mechanism, NUMBERS, frequencies=SHARES, users=PEOPLE, generator=generator
        )
        low, high = decode_mean(table).interval()
        held += int(low <= truth <= high)
    return held


def held_regression(
    mechanism: RegressionMoments, reports: int, tables: int, seed: np.random.SeedSequence
) -> int:
    """In how many tables of people drawn anew the interval of the second slope, of which the
    reports tell least, holds the slope of least squares of all tuples."""
    generator, held = np.random.default_rng(seed), 0
    rows = np.array([[*map(float, people.split(",")), 1.0] for people in TUPLES])
    truth = np.linalg.lstsq(rows[:, [0, 1, 3]], rows[:, 2], rcond=None)[0][1]
    shares = np.full(len(TUPLES), 1 / len(TUPLES))
    for _ in range(tables):
        table = draw_table(
            mechanism, TUPLES, frequencies=shares, users=reports, generator=generator
        )
        low, high = decode_regression(table).interval()
        held += int(low[1] <= truth <= high[1])
    return held


def pooled(tables: int, seed: np.random.SeedSequence) -> tuple[int, int]:
    """The same of basic RAPPOR's second category, where each client sent 10 reports under one
    permanent response: with that said, and without."""
    generator, found = np.random.default_rng(seed), [0, 0]
    for _ in range(tables):
        table = pooled_table(POOLED, CLIENTS, REPORTS_EACH, generator)
        for i, said in enumerate((REPORTS_EACH, 1)):
            low, high = decode(table, weighted_reports_per_client=said).interval()
            found[i] += int(low[1] <= REPORTS_EACH * CLIENTS[1] <= high[1])
    return found[0], found[1]


def pooled_table(
    mechanism: Rappor, counts: np.ndarray, reports: int, generator: np.random.Generator
) -> Table:
    """Of clients of basic RAPPOR, counts[c] of category c, who each send so many reports under one
    permanent response."""
    truth = np.repeat(np.eye(mechanism.bits, dtype=bool), counts, axis=0)
    lies = generator.random(truth.shape) < mechanism.f
    permanent = np.where(lies, generator.random(truth.shape) < 0.5, truth)
    shown = generator.binomial(reports, np.where(permanent, mechanism.q, mechanism.p))
    total = reports * len(truth)
    return Table(mechanism, shown.sum(axis=0)[None].astype(np.uint32), np.array([total]))


def rows(tables: int, seed: int) -> Iterator[Row]:
    """Every setting's row, then pooled reports with and without what is known of them. Tasks have
    generators of their own, so the result does not depend on which process does which."""
    sizes = [min(BATCH, tables - start) for start in range(0, tables, BATCH)]
    drawn_from = every() + settings(ADVERSE)
    tasks = list(product(drawn_from, sizes))
    of_means = list(product(MEANS, sizes))
    fits = [(*setting, size) for setting, size in product(REGRESSIONS, sizes)]
    seeds = np.random.SeedSequence(seed).spawn(len(tasks) + len(sizes) + len(of_means) + len(fits))
    of_means_at = len(tasks) + len(sizes)
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        drawn = pool.map(held, *zip(*tasks, strict=True), seeds[: len(tasks)])
        together = pool.map(pooled, sizes, seeds[len(tasks) : of_means_at])
        means = pool.map(held_mean, *zip(*of_means, strict=True), seeds[of_means_at:])
        fitted = pool.map(held_regression, *zip(*fits, strict=True), seeds[-len(fits) :])
        for setting in drawn_from:
            count = sum(next(drawn) for _ in sizes)
            mechanism = setting.mechanism
            name = mechanism.describe()
            yield Row(
                name, mechanism.cost.epsilon, setting.reports, setting.frequency, tables, count
            )
        for mean in MEANS:
            count = sum(next(means) for _ in sizes)
            yield Row(f"mean, {mean.describe()}", mean.cost.epsilon, PEOPLE, 1.0, tables, count)
        for moments, reports in REGRESSIONS:
            count = sum(next(fitted) for _ in sizes)
            name = f"regression, {moments.describe()}"
            yield Row(name, moments.cost.epsilon, reports, 1.0, tables, count)
        for name, counts in zip(("K said", "K not said"), zip(*together, strict=True), strict=True):
            n, share = REPORTS_EACH * int(CLIENTS.sum()), float(CLIENTS[1] / CLIENTS.sum())
            yield Row(
                f"pooled, {name}", POOLED.cost.epsilon, n, share, tables, sum(map(int, counts))
            )


def bar(row: Row) -> Bar:
    """What a row must be: the interval's probability in [LOW, HIGH], tested exactly at ERROR, and
    LEVEL or more where every category has a cell of its own; of pooled reports 93 to 97 %, and
    below 85 % for the twin that is not told of it."""
    name, shape, *_ = row.mechanism.split()
    limits = (LEVEL, 1.0) if shape.startswith("1x") or name.endswith("bit-flip") else (LOW, HIGH)
    low, high = {"pooled, K said": (0.93, 0.97), "pooled, K not said": (0.0, 0.85)}.get(
        row.mechanism, limits
    )
    below = float(binom.cdf(row.held, row.tables, low)) if low else 1.0
    above = float(binom.sf(row.held - 1, row.tables, high))
    what = f"{row.mechanism}, value held by {row.frequency:.3g} of {row.reports:,}"
    wanted = f"{low:.3f} to {high:.3f}" if low else f"< {high}"
    return Bar(what, row.share, wanted, min(below, above) > ERROR / 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=TABLES, help="for each line")
    parser.add_argument("--seed", type=int, default=1, help="of the whole run")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    asked, started = parser.parse_args(), campaign.provenance()
    made, status = [], 0
    for row in rows(asked.tables, asked.seed):
        made.append(row)
        status |= campaign.shown([bar(row)])
    bars = [bar(row) for row in made]
    campaign.write(asked.out, started, {"seed": asked.seed, "bars": bars, "rows": made})
    sys.exit(status)


if __name__ == "__main__":
    main()
