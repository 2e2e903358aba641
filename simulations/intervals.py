"""Measure whether nominal intervals hold in 95 % of small tables, for every mechanism.

`python -m simulations.intervals` draws 10,000 small tables of every setting of every mechanism,
which has two settings or more. Each table has its own hash functions, and `ldp.server.decode`
decodes it. The campaign then checks the nominal interval of one value that was chosen beforehand.
Joint reports are checked for some pairs of values, a regression for each coefficient.

It prints each bar beside its figure, writes all as JSON and exits 1 when a bar is missed. `--only
sets` (repeatable) runs one group of rows, with the draws that it has in the whole run. `--tables 25
--every 3` is a sample of every third setting and of each group. The standard error of a share of
10,000 tables is 0.22 %.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from scipy.stats import binom

from ldp import (
    JointReport,
    LocalHashing,
    OneBitMean,
    Piecewise,
    RandomizedResponse,
    Rappor,
    RegressionMoments,
    SubsetSelection,
    UnaryEncoding,
)
from ldp.arrays import Floats
from ldp.decoding.association import associate
from ldp.mechanisms import Mechanism
from ldp.mechanisms.numeric import Numeric
from ldp.server import Table, decode, decode_mean, decode_regression
from ldp.simulation import Population, draw_reports, draw_table
from ldp.tables.joint_table import whole_table
from ldp.tables.result import OTHER
from simulations import campaign
from simulations.campaign import Bar
from simulations.variance import (
    CATEGORIES,
    OTHERS,
    REDRAWN,
    SETS,
    VALUE,
    Setting,
    Subject,
    settings,
)
from simulations.whole_reports import draw_patterns, table_of

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
"""Settings that the variance campaign lacks; the last is a puzzle's own table of words."""

ADVERSE = (
    Subject({"mechanism": "rr", "categories": CATEGORIES}, ({"epsilon": 8.0},), reports=2_000),
    Subject(
        {"mechanism": "local-hashing", "rows": 64, "seed": REDRAWN},
        ({"epsilon": 8.0},),
        reports=100_000,
        values=(VALUE, *OTHERS),
    ),
)
"""Settings with little noise: few lies, and few collisions, which outweigh the noise."""

MEANS = tuple(
    kind(bounds=(0.0, 10.0), epsilon=epsilon)
    for kind in (OneBitMean, Piecewise)
    for epsilon in (1.0, 4.0)
)
NUMBERS, SHARES, PEOPLE = ("1", "2.5", "9"), np.array([0.5, 0.3, 0.2]), 1_000
"""Numbers, their distribution, and how many people are drawn; the interval is of their mean."""

REGRESSIONS = tuple(
    (
        RegressionMoments(features=2, bounds=((0, 10), (0, 1), (0, 100)), epsilon=epsilon),
        reports,
    )
    for epsilon, reports in ((1.0, 20_000), (1.0, 100_000), (4.0, 4_000), (4.0, 20_000))
)
"""Regressions with their numbers of reports, two for each epsilon.

In one, X'X is six times its noise, the least at which nearly all intervals have ends; the other is
far above that.
"""
TUPLES = ("2,0.1,24", "4,0.9,48", "9,0.4,79", "6,0,58", "0,0.8,10")
"""Tuples that people hold, all equally often."""
COEFFICIENTS = ("first slope", "second slope", "intercept")


@dataclass(frozen=True, eq=False)
class Pairs:
    """Reports of a joint metric of `parts`, with redrawn hash functions.

    `shares`: of the pairs of values. The first `listed` values of a hashed part are candidates.
    `cells`: the cells whose intervals are checked, chosen beforehand.
    """

    name: str
    parts: tuple[Mechanism, ...]
    shares: Floats
    reports: int
    cells: tuple[tuple[int, int], ...]
    listed: int = 0


def listed_part(values: int, epsilon: float) -> UnaryEncoding:
    return UnaryEncoding(categories=tuple(map(str, range(values))), epsilon=epsilon)


FILTERS = Rappor(bits=8, hashes=2, cohorts=8, f=0.0, p=0.25, q=0.75, seed="00")
HASHED = LocalHashing(epsilon=2.0, rows=64, seed="00")  # with fewer rows no value is discovered
STRINGS = np.outer([0.4, 0.3, 0.3], [0.4, 0.3, 0.3])
DIAGONAL = np.diag([0.4, 0.25, 0.15, 0.1, 0.07, 0.03])
ASSOCIATIONS = (
    Pairs(
        "3 x 2 categories",
        (listed_part(3, 1.5), listed_part(2, 1.0)),
        np.array([[0.3, 0.2], [0.298, 0.2], [0.002, 0.0]]),
        2_000,
        ((0, 0), (2, 0), (2, 1)),
    ),
    Pairs(
        "6 x 6 categories, all on the diagonal",
        (listed_part(6, 2.0), listed_part(6, 2.0)),
        DIAGONAL,
        5_000,
        ((0, 0), (5, 5), (0, 1), (5, 4)),
    ),
    Pairs(
        "little noise",
        (listed_part(3, 4.0), listed_part(3, 4.0)),
        np.array([[0.5, 0.1, 0.0], [0.1, 0.2, 0.005], [0.0, 0.0, 0.095]]),
        10_000,
        ((0, 0), (1, 2), (0, 2)),
    ),
    Pairs(
        "strings and categories",
        (FILTERS, listed_part(2, 1.0)),
        np.array([[0.4, 0.1], [0.295, 0.005], [0.2, 0.0]]),
        2_000,
        ((0, 0), (1, 1), (2, 1)),
        listed=3,
    ),
    Pairs(
        "a column and a set",
        (
            RandomizedResponse(categories=tuple("012"), epsilon=1.5),
            SubsetSelection(categories=tuple("0123"), epsilon=1.0, size=2),
        ),
        np.array([[0.3, 0.1, 0.1, 0.0], [0.1, 0.2, 0.0, 0.098], [0.1, 0.0, 0.0, 0.002]]),
        5_000,
        ((0, 0), (2, 3), (2, 2)),
    ),
    Pairs("hashed columns", (HASHED, HASHED), STRINGS, 2_000, ((0, 0), (2, 2)), listed=3),
    Pairs("strings", (FILTERS, FILTERS), STRINGS, 2_000, ((0, 0), (2, 2)), listed=3),
    Pairs(
        "strings, 30 % on no list",
        (FILTERS, FILTERS),
        STRINGS,
        10_000,
        ((0, 0), (1, 1)),
        listed=2,
    ),
)
"""Cells that many, few or nobody hold.

The last setting has one string on no list, whose columns matter more than noise.
"""

WHOLE = tuple(
    (Rappor(bits=8, hashes=2, cohorts=cohorts, f=f, p=p, q=1 - p, seed="00"), reports)
    for cohorts, f, p, reports in (
        (16, 0.5, 0.25, 20_000),
        (16, 0.0, 0.225, 20_000),
        (64, 0.0, 0.225, 5_000),
    )
)
"""RAPPOR that is decoded from whole reports.

In the last setting a cohort has 78 reports for 256 patterns.
"""
HELD, ABSENT = np.array([0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05]), 12
"""Shares of strings that are held, and number of other strings that are listed."""
ASKED = (0, 4, 7, 8)
"""Places of the strings whose intervals are checked; nobody holds the last one."""

POOLED = Rappor(scheme="identity", bits=4, f=0.5, p=0.25, q=0.75)
CLIENTS, REPORTS_EACH = np.array([200, 100, 60, 40]), 10


@dataclass(frozen=True)
class Row:
    """Number of tables of a setting, and in how many of them the interval holds.

    The share must lie between `low` and `high`.
    """

    mechanism: str
    epsilon: float
    reports: int
    frequency: float
    tables: int = 0
    held: int = 0
    low: float = LOW
    high: float = HIGH

    @property
    def share(self) -> float:
        return self.held / self.tables


@dataclass(frozen=True, eq=False)
class Case:
    """Setting of a group.

    `rows`: its rows, without tables. `count`: draws a number of tables from a seed and returns for
    each row in how many the interval holds.
    """

    group: str
    rows: tuple[Row, ...]
    count: Callable[[int, np.random.SeedSequence], Sequence[int]]


def every() -> list[Setting]:
    return settings() + settings(MORE)


def held(setting: Setting, tables: int, seed: np.random.SeedSequence) -> list[int]:
    """Return in how many independent tables the interval of the first candidate holds its count."""
    generator, counts, any_of_it = np.random.default_rng(seed), list[int](), setting.mechanism
    is_bloom = isinstance(any_of_it, Rappor) and not any_of_it.categories
    candidates = setting.values if is_bloom else setting.candidates[:1]
    holds: dict[int, bool] = {}
    for number, mechanism in enumerate(islice(setting.mechanisms(generator), tables)):
        table = draw_table(mechanism, setting.values, counts=setting.counts, generator=generator)
        # for sets, the interval follows from the count of the answer's cell
        key = int(table.counts[0, 0]) if setting.is_of_sets else number
        if key not in holds:
            low, high = decode(table, candidates).interval()
            holds[key] = bool(low[0] <= setting.counts[0] <= high[0])
        counts.append(key)
    return [sum(holds[key] for key in counts)]


def held_mean(mechanism: Numeric, tables: int, seed: np.random.SeedSequence) -> list[int]:
    """Return in how many tables the interval holds the mean of the people's distribution.

    The people of each table are drawn anew.
    """
    generator, held = np.random.default_rng(seed), 0
    truth = float(SHARES @ np.array([float(number) for number in NUMBERS]))
    for _ in range(tables):
        table = draw_table(
            mechanism, NUMBERS, frequencies=SHARES, users=PEOPLE, generator=generator
        )
        low, high = decode_mean(table).interval()
        held += int(low <= truth <= high)
    return [held]


def held_regression(
    mechanism: RegressionMoments, reports: int, tables: int, seed: np.random.SeedSequence
) -> list[int]:
    """Return in how many tables the interval of each of COEFFICIENTS holds the true one.

    The true one is that of least squares over all tuples; the people of each table are drawn anew.
    """
    generator, held = np.random.default_rng(seed), np.zeros(len(COEFFICIENTS), int)
    rows = np.array([[*map(float, people.split(",")), 1.0] for people in TUPLES])
    truth = np.linalg.lstsq(rows[:, [0, 1, 3]], rows[:, 2], rcond=None)[0]
    shares = np.full(len(TUPLES), 1 / len(TUPLES))
    for _ in range(tables):
        table = draw_table(
            mechanism, TUPLES, frequencies=shares, users=reports, generator=generator
        )
        low, high = decode_regression(table).interval()
        held += (low <= truth) & (truth <= high)
    return held.tolist()


def is_hashed(part: Mechanism) -> TypeGuard[Rappor | LocalHashing]:
    return isinstance(part, Rappor | LocalHashing)


def held_association(pairs: Pairs, tables: int, seed: np.random.SeedSequence) -> list[int]:
    """Return in how many tables the interval of each cell holds the number of its reports.

    A value that is not detected is counted in a cell of OTHER.
    """
    generator, held = np.random.default_rng(seed), np.zeros(len(pairs.cells), int)
    names = [tuple(map(str, range(values))) for values in pairs.shares.shape]
    everybody: Any = tuple(product(*names))
    for _ in range(tables):
        drawn = [
            replace(part, seed=generator.bytes(16).hex()) if is_hashed(part) else part
            for part in pairs.parts
        ]
        mechanism = JointReport(of=tuple(drawn))
        counts = generator.multinomial(pairs.reports, pairs.shares.ravel())
        people = Population(everybody, counts=counts)
        listed = [
            axis[: pairs.listed] if is_hashed(part) else None
            for part, axis in zip(drawn, names, strict=True)
        ]
        found = associate(
            whole_table(mechanism, draw_reports(mechanism, people, generator)), listed
        )
        places = [
            [axis.index(name if name in axis else OTHER) for name in all_names]
            for axis, all_names in zip(found.values, names, strict=True)
        ]
        truth = np.zeros(found.shares.shape)
        np.add.at(truth, np.ix_(*places), counts.reshape(pairs.shares.shape))
        low, high = found.interval()
        for number, cell in enumerate(pairs.cells):
            place = tuple(at[i] for at, i in zip(places, cell, strict=True))
            held[number] += low[place] <= truth[place] <= high[place]
    return held.tolist()


def held_whole(
    mechanism: Rappor, reports: int, tables: int, seed: np.random.SeedSequence
) -> list[int]:
    """Return in how many tables the interval of each string of ASKED holds its count.

    The tables are decoded from whole reports.
    """
    generator, found = np.random.default_rng(seed), np.zeros(len(ASKED), int)
    listed = tuple(map(str, range(HELD.size + ABSENT)))
    for _ in range(tables):
        drawn = replace(mechanism, seed=generator.bytes(16).hex())
        counts = generator.multinomial(reports, HELD)
        patterns = draw_patterns(drawn, listed[: HELD.size], counts, generator)
        low, high = decode(table_of(patterns), listed).interval()
        truth = np.append(counts, np.zeros(ABSENT))
        found += ((low <= truth) & (truth <= high))[[*ASKED]]
    return found.tolist()


def pooled(tables: int, seed: np.random.SeedSequence) -> list[int]:
    """Return in how many tables the interval of basic RAPPOR's second category holds its count.

    Each client sent 10 reports under one permanent response. The decoder is told so for the first
    figure, and not for the second.
    """
    generator, found = np.random.default_rng(seed), [0, 0]
    for _ in range(tables):
        table = pooled_table(POOLED, CLIENTS, REPORTS_EACH, generator)
        for i, said in enumerate((REPORTS_EACH, 1)):
            low, high = decode(table, weighted_reports_per_client=said).interval()
            found[i] += int(low[1] <= REPORTS_EACH * CLIENTS[1] <= high[1])
    return found


def pooled_table(
    mechanism: Rappor, counts: np.ndarray, reports: int, generator: np.random.Generator
) -> Table:
    """Return a table of clients of basic RAPPOR, `counts[c]` of them with category c.

    Each client sends `reports` reports under one permanent response.
    """
    truth = np.repeat(np.eye(mechanism.bits, dtype=bool), counts, axis=0)
    lies = generator.random(truth.shape) < mechanism.f
    permanent = np.where(lies, generator.random(truth.shape) < 0.5, truth)
    shown = generator.binomial(reports, np.where(permanent, mechanism.q, mechanism.p))
    total = reports * len(truth)
    return Table(mechanism, shown.sum(axis=0)[None].astype(np.uint32), np.array([total]))


def row(
    mechanism: Mechanism,
    reports: int,
    frequency: float,
    name: str = "{}",
    limits: tuple[float, float] = (LOW, HIGH),
) -> Row:
    described, (low, high) = name.format(mechanism.describe()), limits
    return Row(described, mechanism.cost.epsilon, reports, frequency, low=low, high=high)


def counted(setting: Setting) -> Case:
    """Return the case of a setting with its limits.

    The interval holds with probability LEVEL or more where every category of single answers has its
    own cell.
    """
    mechanism, is_set = setting.mechanism, setting.is_of_sets
    is_alone = mechanism.shape.rows == 1 or mechanism.name.endswith("bit-flip")
    limits = (LEVEL, 1.0) if is_alone and not is_set else (LOW, HIGH)
    rows = (row(mechanism, setting.reports, setting.frequency, limits=limits),)
    return Case("sets" if is_set else "counts", rows, partial(held, setting))


def associated(pairs: Pairs) -> Case:
    epsilon = sum(part.cost.epsilon for part in pairs.parts)
    rows = tuple(
        Row(
            f"association, {pairs.name}, cell {cell[0]} {cell[1]}",
            epsilon,
            pairs.reports,
            float(pairs.shares[cell]),
        )
        for cell in pairs.cells
    )
    return Case("associations", rows, partial(held_association, pairs))


def cases() -> list[Case]:
    """Return every case.

    The draws follow from a case's place, so a new case must leave the order as it is.
    """
    clients = int(CLIENTS.sum())
    said = tuple(
        row(POOLED, REPORTS_EACH * clients, float(CLIENTS[1]) / clients, name, limits)
        for name, limits in (("pooled, K said", (0.93, 0.97)), ("pooled, K not said", (0.0, 0.85)))
    )
    means = [
        Case("means", (row(mean, PEOPLE, 1.0, "mean, {}"),), partial(held_mean, mean))
        for mean in MEANS
    ]
    regressions = [
        Case(
            "regressions",
            tuple(
                row(moments, reports, 1.0, f"regression, {{}}, {coefficient}")
                for coefficient in COEFFICIENTS
            ),
            partial(held_regression, moments, reports),
        )
        for moments, reports in REGRESSIONS
    ]
    shares = np.append(HELD, np.zeros(ABSENT))[[*ASKED]].tolist()
    whole = [
        Case(
            "whole-reports",
            tuple(row(mechanism, reports, share, "whole reports, {}") for share in shares),
            partial(held_whole, mechanism, reports),
        )
        for mechanism, reports in WHOLE
    ]
    return [
        *map(counted, every() + settings(ADVERSE)),
        Case("pooled", said, pooled),
        *means,
        *regressions,
        *map(associated, ASSOCIATIONS),
        *map(counted, settings(SETS)),
        *whole,
    ]


GROUPS = tuple(dict.fromkeys(case.group for case in cases()))


def run(case: Case, tables: int, seed: np.random.SeedSequence) -> Sequence[int]:
    return case.count(tables, seed)


def rows(tables: int, seed: int, groups: Sequence[str] = GROUPS, every: int = 1) -> Iterator[Row]:
    """Yield the rows of the `groups`: of each `every`th case, and of the first case of a group.

    Tasks have generators of their own. So the result depends neither on which process does which
    task, nor on the other groups.
    """
    sizes = [min(BATCH, tables - start) for start in range(0, tables, BATCH)]
    first = {case.group: place for place, case in reversed([*enumerate(cases())])}
    chosen = [
        (place, case)
        for place, case in enumerate(cases())
        if case.group in groups and (place % every == 0 or place == first[case.group])
    ]
    tasks = [
        (case, size, np.random.SeedSequence(seed, spawn_key=(place * len(sizes) + number,)))
        for place, case in chosen
        for number, size in enumerate(sizes)
    ]
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        drawn = pool.map(run, *zip(*tasks, strict=True))
        for _, case in chosen:
            counts = np.sum([next(drawn) for _ in sizes], axis=0).tolist()
            for each, count in zip(case.rows, counts, strict=True):
                yield replace(each, tables=tables, held=count)


def bar(row: Row) -> Bar:
    """Return the bar of a row: its share of TABLES lies within its limits.

    With fewer tables, or where the limit is the expected value (LEVEL), the probability is tested
    exactly at ERROR instead.
    """
    met = row.low <= row.share <= row.high
    if row.tables < TABLES or row.low == LEVEL:
        below = binom.cdf(row.held, row.tables, row.low)
        above = binom.sf(row.held - 1, row.tables, row.high)
        met = min(below, above) > ERROR / 2
    what = f"{row.mechanism}, value held by {row.frequency:.3g} of {row.reports:,}"
    return Bar(what, row.share, f"{row.low:.3f} to {row.high:.3f}", bool(met))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=TABLES, help="for each line")
    parser.add_argument("--every", type=int, default=1, help="of so many settings one")
    parser.add_argument("--only", action="append", choices=GROUPS, help="a group of rows")
    parser.add_argument("--seed", type=int, default=1, help="of the whole run")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    asked, started = parser.parse_args(), campaign.provenance()
    made, status = [], 0
    for row in rows(asked.tables, asked.seed, asked.only or GROUPS, asked.every):
        made.append(row)
        status |= campaign.shown([bar(row)])
    bars = [bar(row) for row in made]
    campaign.write(asked.out, started, {"seed": asked.seed, "bars": bars, "rows": made})
    sys.exit(status)


if __name__ == "__main__":
    main()
