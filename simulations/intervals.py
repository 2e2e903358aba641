"""Do nominal intervals hold in 95 % of small tables, for every mechanism?

`python -m simulations.intervals` draws 10,000 small tables of every setting of every mechanism (two
settings or more each), with hash functions of their own, decodes each with `ldp.server.decode`,
asks of one value named beforehand whether its nominal interval holds the truth (of joint reports,
of some pairs of values named beforehand; of a regression, of each coefficient), prints each bar
beside the figure, writes them as JSON and exits 1 when one is missed. `--only sets` (repeatable)
runs one group of rows, with the draws that it has in the whole run; `--tables 25 --every 3` is a
sample of every third setting and of each group. The standard error of a share of 10,000 tables is
0.22 %.
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
from ldp.decoding.association import OTHER, associate
from ldp.mechanisms import Mechanism
from ldp.mechanisms.numeric import Numeric
from ldp.server import Table, decode, decode_mean, decode_regression
from ldp.simulation import Population, draw_reports, draw_table
from ldp.tables.joint_table import whole_table
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
COEFFICIENTS = ("first slope", "second slope", "intercept")


@dataclass(frozen=True, eq=False)
class Pairs:
    """Reports of a joint metric of `parts`, hash functions redrawn: `shares` of the pairs, of which
    the first `listed` values of a hashed part are candidates; the `cells` whose intervals are
    asked for are named beforehand."""

    name: str
    parts: tuple[Mechanism, ...]
    shares: Floats
    reports: int
    cells: tuple[tuple[int, int], ...]
    listed: int = 0


def listed_part(values: int, epsilon: float) -> UnaryEncoding:
    return UnaryEncoding(categories=tuple(map(str, range(values))), epsilon=epsilon)


FILTERS = Rappor(bits=8, hashes=2, cohorts=8, f=0.0, p=0.25, q=0.75, seed="00")
HASHED = LocalHashing(epsilon=2.0, rows=64, seed="00")  # with fewer no value is discovered
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
"""Cells that many hold, that few hold and that nobody holds. The last is of one string that is on
no list, whose columns matter more than noise."""

WHOLE = tuple(
    (Rappor(bits=8, hashes=2, cohorts=cohorts, f=f, p=p, q=1 - p, seed="00"), reports)
    for cohorts, f, p, reports in (
        (16, 0.5, 0.25, 20_000),
        (16, 0.0, 0.225, 20_000),
        (64, 0.0, 0.225, 5_000),
    )
)
"""RAPPOR that is decoded from whole reports; of the last a cohort has 78 for 256 patterns."""
HELD, ABSENT = np.array([0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05]), 12
"""Shares of strings that are held, and how many more are listed."""
ASKED = (0, 4, 7, 8)
"""Strings whose intervals are asked for: the last is absent."""

POOLED = Rappor(scheme="identity", bits=4, f=0.5, p=0.25, q=0.75)
CLIENTS, REPORTS_EACH = np.array([200, 100, 60, 40]), 10


@dataclass(frozen=True)
class Row:
    """Of so many tables of a setting, how many intervals hold; their share must be in `low` to
    `high`."""

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
    """A setting of a group: its `rows`, of no table yet, and `count`, which draws so many tables
    from a seed and says for each row in how many the interval holds."""

    group: str
    rows: tuple[Row, ...]
    count: Callable[[int, np.random.SeedSequence], Sequence[int]]


def every() -> list[Setting]:
    return settings() + settings(MORE)


def held(setting: Setting, tables: int, seed: np.random.SeedSequence) -> list[int]:
    """In how many independent tables the interval of the first candidate holds its count."""
    generator, counts, any_of_it = np.random.default_rng(seed), list[int](), setting.mechanism
    is_bloom = isinstance(any_of_it, Rappor) and not any_of_it.categories
    candidates = setting.values if is_bloom else setting.candidates[:1]
    holds: dict[int, bool] = {}
    for number, mechanism in enumerate(islice(setting.mechanisms(generator), tables)):
        table = draw_table(mechanism, setting.values, counts=setting.counts, generator=generator)
        # of sets the interval follows from the count of the answer's cell
        key = int(table.counts[0, 0]) if setting.is_of_sets else number
        if key not in holds:
            low, high = decode(table, candidates).interval()
            holds[key] = bool(low[0] <= setting.counts[0] <= high[0])
        counts.append(key)
    return [sum(holds[key] for key in counts)]


def held_mean(mechanism: Numeric, tables: int, seed: np.random.SeedSequence) -> list[int]:
    """In how many tables of people drawn anew the interval holds the mean they are drawn from."""
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
    """In how many tables of people drawn anew the interval of each of COEFFICIENTS holds that of
    least squares of all tuples."""
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
    """In how many tables the interval of each of the cells holds the number of reports in it, or in
    the cell of OTHER that takes it where a value is not detected."""
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
    """In how many tables the interval of each string of ASKED, decoded from whole reports, holds
    its count."""
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
    """The same of basic RAPPOR's second category, where each client sent 10 reports under one
    permanent response: with that said, and without."""
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
    """Of clients of basic RAPPOR, counts[c] of category c, who each send so many reports under one
    permanent response."""
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
    """Where every category of single answers has a cell of its own the probability is LEVEL or
    more."""
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
    """Every case, in an order that a new one leaves as it is: the draws follow from the place."""
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
    """The rows of the `groups`, of each `every`th case and of the first of a group. Tasks have
    generators of their own, so the result depends neither on which process does which nor on the
    other groups."""
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
    """What a row must be: its share of TABLES within its limits; of fewer tables, and where the
    limit is what is to be expected (LEVEL), the probability, tested exactly at ERROR."""
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
