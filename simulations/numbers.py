"""Measure whether intervals of percentiles hold, and what it costs not to know the range.

`python -m simulations.numbers` draws tables of 10,000 to 10 million people at epsilon 1 and 4.
Their numbers have a heavy tail, two modes, or ties. Each way of asking for percentiles gets the
same people. `hierarchical-histogram` is used with the range unknown, with the true range, and flat.
`bit-flip` has the true range and 16, 64 or 256 buckets. Haar coefficients are sent in one bit each.
The square wave (`piecewise` with the true range) uses smoothed expectation maximisation, which has
no interval.

It prints each bar beside its figure, writes all as JSON and exits 1 when a bar is missed. Tables
are drawn in rounds of all settings and written after each round, so a stop loses one round. Ways
without a bar are drawn `--others` times.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom, expon, norm

from ldp import BitFlip, HierarchicalHistogram, Piecewise
from ldp.arrays import Floats
from ldp.mechanisms import Mechanism
from ldp.server import Table, decode_distribution
from ldp.simulation import draw_table
from ldp.tables.statistics import Statistic
from simulations import campaign
from simulations.campaign import Bar

TABLES, OTHERS, ROUND, PROCESSES = 10_000, 100, 100, 2
QUANTILES = (0.5, 0.95, 0.99)
EPSILONS, USERS = (1.0, 4.0), (10**4, 10**5, 10**6, 10**7)
OURS, FLIPS = "unknown-range", ("bit-flip-16", "bit-flip-64", "bit-flip-256")
WAYS = (OURS, "true-range", "flat", *FLIPS, "haar", "square-wave")
LOW, HIGH, WIDER, FEWEST_BINS, ERROR = 0.94, 0.96, 1.5, 4, 1e-6
ROUNDS = 200
"""Rounds of expectation maximisation."""
_PLACES = (np.arange(2000) + 0.5) / 2000


def _bimodal() -> Floats:
    fast, slow = 50 + 5 * norm.ppf(_PLACES[::3]), 300 + 40 * norm.ppf(_PLACES[::3])
    return np.sort(np.concatenate([fast, fast, slow]))


NUMBERS: dict[str, Floats] = {
    "lognormal": 200 * np.exp(norm.ppf(_PLACES)),
    "pareto": 100 * (1 - _PLACES) ** (-1 / 1.5),
    "bimodal": _bimodal(),
    "ties": 1 + np.floor(4 * expon.ppf(_PLACES)),
    "flights": np.load(Path(__file__).parent / "data" / "flights.npz")["minutes"].astype(float),
}
"""Numbers that people hold, all equally often: 2,000 quantiles of each distribution.

The last are real: minutes in the air of flights from New York.
"""


@dataclass(frozen=True)
class Row:
    """One percentile in a number of tables.

    `held`: intervals that hold; `open`: intervals without two ends; `wide`: those with two ends and
    four bins or more; `wide_held`: those of them that hold. `width`, `bins`, `error`: medians of
    the width, of the number of bins, and of the error over the truth.
    """

    numbers: str
    epsilon: float
    users: int
    way: str
    quantile: float
    tables: int
    held: int
    open: int
    wide: int
    wide_held: int
    width: float | None
    bins: float
    error: float


def mechanism_of(way: str, numbers: Floats, epsilon: float) -> Mechanism:
    """Return the mechanism of a way; `haar` simulates its channel on the bins of this mechanism."""
    bounds = (float(numbers.min()), float(numbers.max()))
    if way in FLIPS:
        buckets = int(way.rpartition("-")[2])
        return BitFlip(bounds=bounds, buckets=buckets, bits=buckets, epsilon=epsilon)
    if way == "true-range":
        return HierarchicalHistogram(epsilon=epsilon, bounds=bounds)
    if way == "square-wave":
        return Piecewise(bounds=bounds, epsilon=epsilon)
    tree = HierarchicalHistogram(epsilon=epsilon)
    if way == "flat":
        return HierarchicalHistogram(epsilon=epsilon, branching=len(tree.bins))
    return tree


def tried(
    name: str, epsilon: float, users: int, way: str, tables: int, seed: np.random.SeedSequence
) -> Floats:
    """Try one way on tables of people who are drawn anew.

    Returns low, high and estimate of each percentile, shape (tables, percentiles, 3).
    """
    numbers, generator = NUMBERS[name], np.random.default_rng(seed)
    mechanism = mechanism_of(way, numbers, epsilon)
    values, counts = np.unique(numbers, return_counts=True)
    if way != "square-wave":  # numbers of one bin give the same reports, so one stands for all
        points = [mechanism.addressing.point(value) for value in values.tolist()]
        _, first, group = np.unique(points, return_index=True, return_inverse=True)
        values, counts = values[first], np.bincount(group, counts)
    texts, shares = [repr(float(value)) for value in values], counts / counts.sum()
    by_table: list[Sequence[Statistic]] = []
    for _ in range(tables):
        if way == "haar":
            by_table.append(_haar(mechanism, numbers, users, generator))
            continue
        table = draw_table(mechanism, texts, frequencies=shares, users=users, generator=generator)
        if way == "square-wave":
            by_table.append(_smoothed(table))
        else:
            distribution = decode_distribution(table)
            by_table.append([distribution.quantile(q) for q in QUANTILES])
    return np.array([[(one.low, one.high, one.estimate) for one in each] for each in by_table])


def rows(name: str, epsilon: float, users: int, way: str, tables: Floats) -> list[Row]:
    """Return the rows of a setting; `tables`: its percentiles, as `tried` returns them."""
    mechanism = mechanism_of(way, NUMBERS[name], epsilon)
    edges = np.array(getattr(getattr(mechanism, "bins", None), "edges", ()))
    truths = np.quantile(NUMBERS[name], QUANTILES, method="inverted_cdf")
    return [
        _row((name, epsilon, users, way, q), truth, tables[:, i], edges)
        for i, (q, truth) in enumerate(zip(QUANTILES, truths.tolist(), strict=True))
    ]


def _row(
    setting: tuple[str, float, int, str, float], truth: float, tables: Floats, edges: Floats
) -> Row:
    low, high, estimate = tables.T
    holds, is_closed = (low <= truth) & (truth <= high), np.isfinite(high - low)
    bins = np.searchsorted(edges, high) - np.searchsorted(edges, low)
    is_wide = is_closed & (bins >= FEWEST_BINS)
    width = float(np.median(high - low))
    return Row(
        *setting,
        tables=len(tables),
        held=int(holds.sum()),
        open=int((~is_closed).sum()),
        wide=int(is_wide.sum()),
        wide_held=int((is_wide & holds).sum()),
        width=width if np.isfinite(width) else None,
        bins=float(np.median(bins)),
        error=float(np.median(np.abs(estimate - truth)) / truth),
    )


def _at_quantiles(edges: Floats, shares: Floats) -> list[Statistic]:
    """Return the quantiles of bins with these shares, without intervals."""
    below = np.maximum.accumulate(np.concatenate([[0.0], np.cumsum(shares)]))
    numbers = np.interp(np.array(QUANTILES) * below[-1], below, edges)
    return [Statistic(str(q), x, 0.0, x, x) for q, x in zip(QUANTILES, numbers, strict=True)]


def _haar(
    mechanism: Mechanism, numbers: Floats, users: int, generator: np.random.Generator
) -> list[Statistic]:
    """Return the percentiles from Haar coefficients of 1,024 bins.

    Each person sends one coefficient in one Hadamard bit (Cormode et al. 2019). The noise is
    normal, with the variance that the channel has.
    """
    assert isinstance(mechanism, HierarchicalHistogram)
    edges = np.array(mechanism.bins.edges)
    held = np.histogram(numbers, np.clip(edges, -1e300, 1e300))[0] / numbers.size
    share = np.pad(held, (0, 1024 - held.size))
    power = np.exp(mechanism.epsilon)
    noise = (power + 1) / (power - 1) * (10 / users) ** 0.5
    nodes = np.array([1.0])
    for level in range(10):
        halves = share.reshape(2 ** (level + 1), -1).sum(axis=1)
        differences = halves[::2] - halves[1::2]
        differences = differences + noise * generator.standard_normal(differences.size)
        nodes = np.column_stack([nodes + differences, nodes - differences]).ravel() / 2
    return _at_quantiles(np.clip(edges, 0, mechanism.magnitudes[1]), nodes[: held.size])


def _smoothed(table: Table) -> list[Statistic]:
    """Return the percentiles of the square wave by smoothed expectation maximisation.

    The method is that of Li et al. 2020.
    """
    mechanism = table.mechanism
    assert isinstance(mechanism, Piecewise)
    steps = mechanism.addressing.steps + 1
    channel = np.full((mechanism.bins, steps), float(mechanism.channel.untouched))
    for step in range(steps):
        channel[step : step + mechanism.width, step] = float(mechanism.channel.touched)
    counts, share = table.counts[0] / table.total, np.full(steps, 1 / steps)
    for _ in range(ROUNDS):
        share = share * (channel.T @ (counts / (channel @ share)))
        padded = np.pad(share, 1, mode="edge")
        share = (padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4
        share /= share.sum()
    low, high = mechanism.bounds
    return _at_quantiles(np.linspace(low, high, steps + 1), share)


def bars(rows: Sequence[Row]) -> Iterator[Bar]:
    """Yield the bars of our way.

    These are its coverage, the excess of coverage where bins do not explain it, and its width over
    that of bit flips.
    """
    flips: dict[tuple[Any, ...], float] = {}
    for row in rows:
        if row.way in FLIPS and row.width is not None:
            flips[_of(row)] = min(flips.get(_of(row), np.inf), row.width)
    for row in rows:
        if row.way != OURS:
            continue
        what = f"p{100 * row.quantile:g} of {row.numbers}, epsilon {row.epsilon:g}, {row.users:,}"
        least = binom.ppf(ERROR, row.tables, LOW)
        yield Bar(f"{what} holds", row.held / row.tables, f">= {LOW}", bool(row.held >= least))
        if row.wide > row.tables / 2:
            most = binom.isf(ERROR, row.wide, HIGH)
            share = row.wide_held / row.wide
            yield Bar(f"{what} holds, if wide", share, f"<= {HIGH}", bool(row.wide_held <= most))
        if row.quantile < 0.99 and row.width is not None:
            ratio = row.width / flips.get(_of(row), np.inf)
            yield Bar(f"{what}: width over bit flips'", ratio, f"<= {WIDER}", bool(ratio <= WIDER))


def _of(row: Row) -> tuple[Any, ...]:
    return row.numbers, row.epsilon, row.users, row.quantile


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=TABLES)
    parser.add_argument("--others", type=int, default=OTHERS)
    parser.add_argument("--numbers", choices=NUMBERS, nargs="+", default=[*NUMBERS])
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--users", type=int, nargs="+", default=USERS)
    parser.add_argument("--ways", choices=WAYS, nargs="+", default=WAYS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    made = campaign.provenance()
    settings = [*product(options.numbers, options.epsilons, options.users, options.ways)]
    number = {way: options.tables if way == OURS else options.others for way in WAYS}
    rounds = -(-max(number.values()) // ROUND)
    seeds = [
        each.spawn(rounds) for each in np.random.SeedSequence(options.seed).spawn(len(settings))
    ]
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of each of two processes
    drawn: list[list[Floats]] = [[] for _ in settings]
    result: dict[str, Any] = {"seed": options.seed}
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        for place in range(rounds):
            left = [min(ROUND, number[way] - place * ROUND) for *_, way in settings]
            futures = [
                pool.submit(tried, *setting, tables, each[place]) if tables > 0 else None
                for setting, tables, each in zip(settings, left, seeds, strict=True)
            ]
            for tables, future in zip(drawn, futures, strict=True):
                tables += [future.result()] if future else []
            result["rows"] = [
                row
                for setting, tables in zip(settings, drawn, strict=True)
                for row in rows(*setting, np.concatenate(tables))
            ]
            campaign.write(options.out, made, result)
    return campaign.shown(bars(result["rows"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
