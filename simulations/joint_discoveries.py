"""Measure whether discoveries of associations are true, in settings that a seed draws.

`python -m simulations.joint_discoveries` draws settings of two or three parts, from randomised
response, unary encoding, subset selection, local hashing and RAPPOR. Each part has 2 to 8 values
and epsilon 0.5 to 5. There are 200 to 100,000 reports, and half of the cells of the joint
distribution are empty. In a third of the distributions, each value brings its own other value; in a
third the values are independent.

Of each setting it associates many tables. It counts the discovered cells that nobody held, by
Benjamini-Hochberg at 5 % and, where no part is hashed, by Bonferroni. It also counts the intervals
that hold a cell that somebody held, apart where the result warns of them. It prints the bars,
writes them as JSON and exits 1 when one is missed. `--sample` takes six settings.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ldp.mechanisms import (
    JointReport,
    LocalHashing,
    RandomizedResponse,
    Rappor,
    SubsetSelection,
    UnaryEncoding,
)
from ldp.server import Rule, associate, whole_table
from ldp.simulation import Population, draw_reports
from ldp.tables.result import OTHER
from simulations import campaign
from simulations.campaign import Bar

SEED, WHOLE, SAMPLE = 11, (40, 200), (6, 30)
"""Seed; numbers of settings and of tables in a whole run and in a sample."""
RATE, LEVEL, LEAST_HELD = 0.05, 0.95, 0.93
NOISES = ((0.25, 0.75), (0.25, 0.75), (0.1, 0.9))
"""Settings p and q of RAPPOR's reports; the usual one is listed twice."""


@dataclass(frozen=True)
class Setting:
    """Joint metric and its population.

    `values`: values of the parts; `listed`: those that a list names, None for a part that is not
    hashed; `shares`: probability of each combination; `reports`: number of people.
    """

    words: str
    mechanism: JointReport
    values: tuple[tuple[str, ...], ...]
    listed: tuple[tuple[str, ...] | None, ...]
    shares: np.ndarray
    reports: int


@dataclass(frozen=True)
class Row:
    """Result of a setting.

    `false`, `false_error`: mean share of false discoveries, with its standard error.
    `with_discoveries`: tables with a discovered cell. `false_by_bonferroni`: tables in which
    Bonferroni's rule discovers a cell that nobody held; None with hashed parts. `held`,
    `held_with_warning`: intervals that held, and their number, without and with a warning.
    """

    setting: str
    false: float
    false_error: float
    with_discoveries: int
    false_by_bonferroni: int | None
    held: tuple[int, int]
    held_with_warning: tuple[int, int]


def part_of(draw: np.random.Generator, size: int, seed: str) -> tuple[Any, bool]:
    """Return the mechanism of a part with `size` values, and whether they are hashed."""
    values, epsilon = tuple(f"v{i}" for i in range(size)), float(draw.uniform(0.5, 5.0))
    listed: dict[str, Any] = {"categories": values, "epsilon": epsilon}
    p, q = NOISES[int(draw.integers(3))]
    kind = int(draw.integers(5 if size > 2 else 4))
    if kind == 4:
        return SubsetSelection(**listed), False
    if kind < 2:
        return (RandomizedResponse, UnaryEncoding)[kind](**listed), False
    if kind == 2:
        return LocalHashing(epsilon=epsilon, buckets=8, rows=64, seed=seed), True
    return Rappor(bits=16, hashes=2, cohorts=8, f=0.25, p=p, q=q, seed=seed), True


def shares_of(draw: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    """Return the probability of each combination.

    One of three ways is drawn: only combinations of equal places have mass; or the parts are
    independent, with about half of their values; or half of the combinations are empty.
    """
    kind = int(draw.integers(3))
    places = np.array([*np.ndindex(*shape)])
    weights = draw.gamma(float(draw.choice([0.5, 1.0, 4.0])), size=len(places))
    if kind == 0:
        weights *= (places % min(shape) == places[:, :1] % min(shape)).all(axis=1)
    elif kind == 1:
        margins = [
            draw.gamma(1.0, size=size) * (draw.permutation(size) < size / 2 + 1) for size in shape
        ]
        weights = np.prod([of[at] for of, at in zip(margins, places.T, strict=True)], axis=0)
    else:
        weights[draw.permutation(len(places))[: len(places) // 2]] = 0.0
    shares: np.ndarray = (weights / weights.sum()).reshape(shape)
    return shares


def setting_of(seed: int, number: int) -> Setting:
    """Return setting `number` of a seed."""
    draw = np.random.default_rng([seed, number])
    count = 2 + int(draw.random() < 0.2)
    shape = [int(draw.integers(2, 9 if count == 2 else 5)) for _ in range(count)]
    parts = [part_of(draw, size, f"{number:04x}{at:02x}") for at, size in enumerate(shape)]
    reports, missing = int(10 ** draw.uniform(2.3, 5.0)), int(draw.integers(2))
    values = tuple(tuple(f"v{i}" for i in range(size)) for size in shape)
    listed = tuple(
        some[: len(some) - missing] if is_hashed else None
        for some, (_, is_hashed) in zip(values, parts, strict=True)
    )
    mechanism = JointReport(of=tuple(part for part, _ in parts))
    names = " x ".join(
        f"{part.name} {size} at {part.cost.epsilon:.2g}"
        for (part, _), size in zip(parts, shape, strict=True)
    )
    unlisted = ", one unlisted" if missing and any(listed) else ""
    shares = shares_of(draw, shape)
    words = f"{names}{unlisted}, {(shares > 0).sum()} of {shares.size} cells, {reports:,} reports"
    return Setting(words, mechanism, values, listed, shares, reports)


def true_counts(setting: Setting, counts: np.ndarray, found: Any) -> np.ndarray:
    """Return the number of people in each cell that was found.

    A person who is in no other cell is in a cell of OTHER.
    """
    true = np.zeros(found.count.shape)
    for cell, count in np.ndenumerate(counts):
        names = [values[at] for values, at in zip(setting.values, cell, strict=True)]
        at = (
            axis.index(name) if name in axis else axis.index(OTHER)
            for axis, name in zip(found.values, names, strict=True)
        )
        true[tuple(at)] += count
    return true


def row_of(seed: int, number: int, tables: int) -> Row:
    """Return the row of a setting."""
    setting, generator = setting_of(seed, number), np.random.default_rng([seed, number, 1])
    combinations: Any = tuple(product(*setting.values))
    false, discoveries, by_bonferroni = list[float](), 0, 0
    held = {False: [0, 0], True: [0, 0]}
    for _ in range(tables):
        counts = generator.multinomial(setting.reports, setting.shares.ravel())
        people = Population(combinations, counts=counts)
        table = whole_table(setting.mechanism, draw_reports(setting.mechanism, people, generator))
        found = associate(table, setting.listed)
        true = true_counts(setting, counts.reshape(setting.shares.shape), found)
        discovered = found.detected()
        discoveries += bool(discovered.any())
        false.append(float((true[discovered] == 0).sum() / max(1, discovered.sum())))
        strict = found.detected(Rule(control="bonferroni", alpha=RATE))
        by_bonferroni += bool((true[strict] == 0).any())
        low, high = (end.ravel() for end in found.interval(LEVEL))
        cell = generator.choice(np.flatnonzero(true.ravel()))
        counted = held["not promised" in found.details["warning"]]
        counted[0] += bool(low[cell] <= true.ravel()[cell] <= high[cell])
        counted[1] += 1
    return Row(
        setting=setting.words,
        false=float(np.mean(false)),
        false_error=float(np.std(false) / math.sqrt(tables)),
        with_discoveries=discoveries,
        false_by_bonferroni=None if any(setting.listed) else by_bonferroni,
        held=(held[False][0], held[False][1]),
        held_with_warning=(held[True][0], held[True][1]),
    )


def bars(rows: Sequence[Row], tables: int) -> list[Bar]:
    """Return the bars: of each setting by its own noise, of all settings together, and of
    intervals."""
    most = RATE + 3 * math.sqrt(RATE * (1 - RATE) / tables)
    excess = max(row.false - 3 * row.false_error for row in rows)
    mean = float(np.mean([row.false for row in rows]))
    error = math.sqrt(sum(row.false_error**2 for row in rows)) / len(rows)
    strict = [row.false_by_bonferroni for row in rows if row.false_by_bonferroni is not None]
    worst = max(strict, default=0) / tables
    held, counted = (sum(row.held[at] for row in rows) for at in (0, 1))
    return [
        Bar(
            "largest share of false discoveries, less three standard errors",
            excess,
            f"<= {RATE}",
            excess <= RATE,
        ),
        Bar(
            "share of false discoveries in all settings, less three standard errors",
            mean - 3 * error,
            f"<= {RATE}",
            mean - 3 * error <= RATE,
        ),
        Bar(
            "largest share of tables with a false discovery by Bonferroni",
            worst,
            f"<= {most:.3f}",
            worst <= most,
        ),
        Bar(
            "share of intervals that hold, where none is warned of",
            held / max(counted, 1),
            f">= {LEAST_HELD}",
            held >= LEAST_HELD * counted,
        ),
    ]


def main() -> int:
    return campaign.run_settings(__doc__, row_of, bars, SEED, WHOLE, SAMPLE)


if __name__ == "__main__":
    sys.exit(main())
