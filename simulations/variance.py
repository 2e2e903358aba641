"""Measure whether the variance of an estimate is the one that its formula states.

`python -m simulations.variance` draws tables of a fixed population, each with its own hash
functions. In each it estimates one value that was chosen beforehand. It compares the variance of
those estimates with `Mechanism.variance`. It prints a line for each setting, writes all as JSON and
exits 1 when a bar is missed. `--draws 400 --every 3` is a sample of every third row; `--sets` runs
only the rows of sets of answers. The relative standard error of a variance of N independent draws
is sqrt((kurtosis - 1) / N), with the draws' own kurtosis (Cramér 1946, section 27.4).
"""

import argparse
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import islice, product, repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import hadamard

from ldp import bulk
from ldp.arrays import Floats, Ints
from ldp.mechanisms import CATALOGUE, BitFlip, CatalogueMechanism, Mechanism, base, from_parameters
from ldp.mechanisms.sketch import MeanSketch
from ldp.server import decode
from ldp.simulation import draw_table
from ldp.tables.table import Table
from simulations import campaign

DRAWS = 90_000
"""Draws of the full run; up to a kurtosis of 3.25 the sampling error is 0.5 % or less."""
BATCH = 1_000
"""Tables of one task; `ldp.server.decode` also decodes the first of each task."""
PROCESSES = 2
MOST_OFF, MOST_SAMPLING, MOST_BIAS = 0.03, 0.005, 4.5

REDRAWN = "redrawn"
"""Seed that stands for another seed in every table."""
VALUE = "lol"
OTHERS = tuple(f"other-{i:02d}" for i in range(1, 13))
CATEGORIES = (VALUE, *OTHERS[:7])
PAIRS = tuple(frozenset(pair) for pair in zip(CATEGORIES, (*OTHERS[:7], OTHERS[0]), strict=True))
"""Sets of two answers, of which only the first set has VALUE."""
BUCKETS = tuple(str(i + 0.5) for i in range(8))
FREQUENCIES = (0.05, 0.4)


@dataclass(frozen=True)
class Subject:
    """Mechanism: `parameters` at every epsilon, and the parameters that set each epsilon."""

    parameters: Mapping[str, Any]
    epsilons: tuple[Mapping[str, Any], ...]
    reports: int
    values: tuple[Any, ...] = CATEGORIES


SETS = (
    *(
        Subject(
            {"mechanism": "unary", "variant": variant, "categories": CATEGORIES, "at_most": 3},
            ({"epsilon": 1.0}, {"epsilon": 4.0}),
            reports=2_000,
            values=PAIRS,
        )
        for variant in ("symmetric", "optimized")
    ),
    Subject(
        {"mechanism": "rappor", "scheme": "identity", "categories": CATEGORIES, "at_most": 3},
        ({"f": 0.5, "p": 0.25, "q": 0.75}, {"f": 0.25, "p": 0.0, "q": 1.0}),
        reports=2_000,
        values=PAIRS,
    ),
)
"""Sets of answers through mechanisms whose settings in the catalogue are of single answers.

They come after all others, whose draws follow from their places.
"""

FIRST = ("unary", "cms", "hcms", "rappor")
"""Mechanisms that come first; the others follow by their numbers on the wire.

A row's draws follow from its place.
"""


def _place(kind: type[CatalogueMechanism]) -> tuple[int, int]:
    return (*FIRST, kind.name).index(kind.name), kind.wire_id


def catalogued() -> tuple[Subject, ...]:
    """Return the settings that the mechanisms of the catalogue state.

    A new mechanism has the largest number, so it leaves the order as it is.
    """
    kinds = sorted(CATALOGUE.values(), key=_place)
    return tuple(_subject(kind, one) for kind in kinds if kind.is_whole for one in kind.settings)


def _subject(kind: type[CatalogueMechanism], setting: base.Setting) -> Subject:
    fields = kind.__dataclass_fields__
    values: tuple[Any, ...] = setting.values or (VALUE, *OTHERS)
    parameters = {"mechanism": kind.name, **setting.parameters}
    if "categories" in fields:
        parameters["categories"] = values = CATEGORIES
    if "at_most" in parameters:
        values = PAIRS
    if "bounds" in fields:
        values = BUCKETS
    if kind.has_seed(parameters):
        parameters["seed"] = REDRAWN
    epsilons = ({"epsilon": 1.0}, {"epsilon": 4.0}) if "epsilon" in fields else ({},)
    return Subject(parameters, epsilons, setting.reports, values)


@dataclass(frozen=True)
class Setting:
    """One mechanism at one epsilon, and its population.

    `counts[0]` people hold `values[0]`, or the answer VALUE.
    """

    parameters: Mapping[str, Any]
    values: tuple[Any, ...]
    counts: Ints

    def mechanisms(self, generator: np.random.Generator) -> Iterator[Mechanism]:
        """Yield the mechanism for each table, each time with a new seed if it has one."""
        if "seed" not in self.parameters:
            yield from repeat(self._made({}))
        while True:
            yield self._made({"seed": generator.bytes(16).hex()})

    def _made(self, seed: Mapping[str, str]) -> Mechanism:
        mechanism = from_parameters({**self.parameters, **seed})
        assert isinstance(mechanism, Mechanism)
        return mechanism

    @property
    def mechanism(self) -> Mechanism:
        """Mechanism with any seed; channel, shape and variance do not depend on the seed."""
        return next(self.mechanisms(np.random.default_rng(0)))

    @property
    def candidates(self) -> tuple[str, ...]:
        """Candidates by which the values are decoded: themselves, their buckets or the single
        answers."""
        mechanism = self.mechanism
        if isinstance(mechanism, BitFlip):
            points = map(mechanism.addressing.point, self.values)
            return tuple(mechanism.labels[point] for point in points)
        return CATEGORIES if self.is_of_sets else self.values

    @property
    def is_of_sets(self) -> bool:
        return "at_most" in self.parameters

    @property
    def reports(self) -> int:
        return int(self.counts.sum())

    @property
    def frequency(self) -> float:
        return float(self.counts[0]) / self.reports

    @property
    def others_squared(self) -> float:
        return float(((self.counts[1:] / self.reports) ** 2).sum())


@dataclass(frozen=True)
class Row:
    """One line of the result.

    `collisions`: share of collisions in the formula. `bias`: bias of the mean, in standard errors
    of a mean. `ratio`: measured / formula; `sampling_error`: of `ratio`.
    """

    mechanism: str
    parameters: Mapping[str, Any]
    shape: tuple[int, int]
    epsilon: float
    reports: int
    frequency: float
    draws: int
    formula: float
    collisions: float
    measured: float
    ratio: float
    sampling_error: float
    kurtosis: float
    bias: float
    passed: bool


def settings(subjects: Iterable[Subject] | None = None) -> list[Setting]:
    """Return every subject, by default the catalogue's, at its epsilons and at both frequencies.

    The other people hold the other values by 1 / rank.
    """
    made = []
    for subject in catalogued() if subjects is None else subjects:
        weights = 1 / np.arange(1, len(subject.values))
        for epsilon, frequency in product(subject.epsilons, FREQUENCIES):
            held = round(frequency * subject.reports)
            rest = np.floor((subject.reports - held) * weights / weights.sum()).astype(np.int64)
            rest[0] += subject.reports - held - rest.sum()
            counts = np.append(np.int64(held), rest)
            made.append(Setting({**subject.parameters, **epsilon}, subject.values, counts))
    return made


@cache
def _signs(width: int) -> Ints:
    return np.asarray(hadamard(width), dtype=np.int64)


def estimate(table: Table, point: np.uint64) -> float:
    """Return the count of one value as docs/mechanisms states it.

    What else a decoder computes is left out.
    """
    mechanism, n = table.mechanism, table.total
    rows, width = mechanism.shape
    at = np.arange(rows, dtype=np.uint32)
    cells = bulk.columns(mechanism.candidate_addressing, rows, np.full(rows, point), at)
    asked = n
    if mechanism.kind.is_signed:
        named = (int((table.counts * _signs(width)[cells[:, 0]]).sum()) + n) // 2
    else:
        where = np.nonzero(cells != bulk.NO_COLUMN)
        named = int(table.counts[where[0], cells[where]].sum())
        asked = int(table.reports[np.unique(where[0])].sum())
    held = float(mechanism.support.holders(named, asked)) * n / asked
    return width / (width - 1) * (held - n / width) if isinstance(mechanism, MeanSketch) else held


def draw(setting: Setting, draws: int, seed: np.random.SeedSequence) -> Floats:
    """Return the estimates of the value in independent tables: shape (draws,).

    The first table's estimate must equal the decoder's own.
    """
    generator = np.random.default_rng(seed)
    found = np.empty(draws)
    for i, mechanism in enumerate(islice(setting.mechanisms(generator), draws)):
        table = draw_table(mechanism, setting.values, counts=setting.counts, generator=generator)
        value = VALUE if setting.is_of_sets else setting.values[0]
        found[i] = estimate(table, np.uint64(mechanism.candidate_addressing.point(value)))
        if i == 0:
            method = "mean-sketch" if isinstance(mechanism, MeanSketch) else "auto"
            decoded = float(decode(table, setting.candidates[:1], method=method).count[0])
            assert math.isclose(found[i], decoded, rel_tol=1e-9, abs_tol=1e-9), (found[i], decoded)
    return found


def formulas(setting: Setting) -> tuple[float, float]:
    """Return the variance that the mechanism states, and the part of it from collisions."""
    mechanism = setting.mechanism
    n, f, others = setting.reports, setting.frequency, setting.others_squared
    stated = float(mechanism.variance(n, f, others))
    if not isinstance(mechanism, MeanSketch):
        return stated, 0.0
    k, m = mechanism.shape
    return stated, ((1 - f) * (1 - 1 / k) * n + others * n**2 / k) / (m - 1)


def compare(setting: Setting, estimates: Floats, formula: float, *, sample: bool = False) -> Row:
    """Return the row with its bars: variance within 3 % of `formula`, mean within 4.5 standard
    errors.

    The sampling error of the variance is at most 0.5 %. The variance of a sample may be 4.5
    sampling errors further off instead. For an exact formula, a row misses a bar with a probability
    below 1e-5. That is two normal tails at 4.5, almost all of it from the mean.
    """
    mechanism = setting.mechanism
    deviations = estimates - estimates.mean()
    measured = float(estimates.var(ddof=1))
    kurtosis = float((deviations**4).mean() / (deviations**2).mean() ** 2)
    error = math.sqrt((kurtosis - 1) / estimates.size)
    bias = (estimates.mean() - setting.counts[0]) / math.sqrt(measured / estimates.size)
    most_off = MOST_OFF + (MOST_BIAS * error if sample else 0)
    ratio = measured / formula
    near = abs(ratio - 1) <= most_off and (sample or error <= MOST_SAMPLING)
    return Row(
        mechanism=mechanism.name,
        parameters=setting.parameters,
        shape=(mechanism.shape.rows, mechanism.shape.columns),
        epsilon=mechanism.cost.epsilon,
        reports=setting.reports,
        frequency=setting.frequency,
        draws=estimates.size,
        formula=formula,
        collisions=formulas(setting)[1] / formula,
        measured=measured,
        ratio=ratio,
        sampling_error=error,
        kurtosis=kurtosis,
        bias=float(bias),
        passed=bool(near and abs(bias) <= MOST_BIAS),
    )


def rows(draws: int, seed: int, *, are_sets: bool = False, every: int = 1) -> Iterator[Row]:
    """Yield the row of one setting in `every`, with `are_sets` only of sets of answers.

    Tasks have generators of their own. So the result depends neither on which process does which
    task, nor on the other rows.
    """
    sizes = [min(BATCH, draws - start) for start in range(0, draws, BATCH)]
    all_settings = settings() + settings(SETS)
    seeds = np.random.SeedSequence(seed).spawn(len(all_settings) * len(sizes))
    chosen = [
        place
        for place, setting in enumerate(all_settings)
        if place % every == 0 and (setting.is_of_sets or not are_sets)
    ]
    tasks = [
        (all_settings[place], size, seeds[place * len(sizes) + number])
        for place in chosen
        for number, size in enumerate(sizes)
    ]
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        drawn = pool.map(draw, *zip(*tasks, strict=True))
        for setting, _, _ in tasks[:: len(sizes)]:
            estimates = np.concatenate([next(drawn) for _ in sizes])
            yield compare(setting, estimates, formulas(setting)[0], sample=draws < DRAWS)


def line(row: Row) -> str:
    """Return a row as it is printed; its parameters are the variant, or else the shape."""
    kind = row.parameters.get("variant", "x".join(map(str, row.shape)))
    return (
        f"{'ok  ' if row.passed else 'MISS'} {row.mechanism:5} {kind:9} {row.epsilon:5.2f} "
        f"{row.frequency:6.3f} {row.formula:10.1f} {row.measured:10.1f} {row.ratio:7.4f} "
        f"{row.sampling_error:8.4f} {row.kurtosis:8.3f} {row.collisions:10.3f} {row.bias:6.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=DRAWS, help="tables for each line")
    parser.add_argument("--every", type=int, default=1, help="of so many rows one")
    parser.add_argument("--sets", action="store_true", help="the rows of sets of answers alone")
    parser.add_argument("--seed", type=int, default=1, help="of the whole run")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    asked, started = parser.parse_args(), campaign.provenance()
    print("     mechanism       eps. freq.     formula   measured   ratio  s. error ", end="")
    print("kurtosis collisions   bias")
    made = []
    for row in rows(asked.draws, asked.seed, are_sets=asked.sets, every=asked.every):
        print(line(row), flush=True)
        made.append(row)
    campaign.write(asked.out, started, {"seed": asked.seed, "rows": made})
    sys.exit(0 if all(row.passed for row in made) else 1)


if __name__ == "__main__":
    main()
