"""Measure whether the default decoder of small sketches is the better one, with true discoveries.

`python -m simulations.small_sketches` draws settings by a seed. A sketch (count mean sketch, its
Hadamard form, local hashing) has 64 to 1,024 rows, 16 to 1,024 columns and epsilon 1 to 8. There
are 30,000 to 3 million reports and 100 to 2,000 candidates. A part of the candidates is held, by
Zipf or equal shares. None, one or five of the heaviest values are missing from the list.

Each setting's tables are decoded by default and by both methods. The root mean squared error of the
held values is compared with that of the better method, and the share of false discoveries with the
stated rate. It also counts how many intervals hold, and times the largest table, 2**20 cells and
10,000 candidates. It prints the bars, writes them as JSON and exits 1 when one is missed;
`--sample` takes five settings.
"""

import math
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldp.mechanisms import CountMeanSketch, HadamardCountMeanSketch, LocalHashing
from ldp.server import decode
from ldp.simulation import draw_table
from simulations import campaign
from simulations.campaign import Bar

SEED, WHOLE, SAMPLE = 7, (24, 200), (5, 8)
"""Seed; numbers of settings and of tables in a whole run and in a sample."""
RATE, MOST_ERROR, LEAST_HELD, MOST_SECONDS = 0.05, 1.05, 0.93, 10.0
METHODS = ("auto", "mean-sketch", "regression")


@dataclass(frozen=True)
class Row:
    """Result of a setting, which is given in words.

    By method: `error`: root mean squared error of held values over that of the better method.
    `false`, `false_error`: mean share of false discoveries, with its standard error. `found`:
    number of true discoveries. `coverage`: share of held values whose 95 % interval holds.
    """

    setting: str
    default: str
    error: dict[str, float]
    false: dict[str, float]
    false_error: dict[str, float]
    found: dict[str, float]
    coverage: dict[str, float]


def setting_of(seed: int, number: int, table: int = 0) -> tuple[str, Any, np.ndarray, int]:
    """Return a setting in words, its sketch, how many people hold each value, and the unlisted
    ones.

    The heaviest value comes first; the last figure is how many of the first are not listed. Each
    `table` has other hash functions.
    """
    draw = np.random.default_rng([seed, number])
    rows, columns = 2 ** int(draw.integers(6, 11)), 2 ** int(draw.integers(4, 11))
    epsilon, kind = float(draw.choice([1.0, 2.0, 4.0, 8.0])), int(draw.integers(3))
    users, candidates = int(10 ** draw.uniform(4.5, 6.5)), int(10 ** draw.uniform(2, 3.3))
    held, power = int(candidates * draw.uniform(0.05, 0.9)), float(draw.choice([0.0, 1.0, 1.6]))
    missing = int(draw.choice([0, 1, 5]))
    shared: Any = {"epsilon": epsilon, "rows": rows, "seed": f"{number:04x}{table:04x}"}
    sketch = (
        lambda: CountMeanSketch(width=columns, **shared),
        lambda: HadamardCountMeanSketch(width=columns, **shared),
        lambda: LocalHashing(buckets=min(columns, 64), **shared),
    )[kind]()
    shares = np.arange(1, held + 1) ** -power
    counts = np.zeros(candidates + missing, dtype=np.int64)
    counts[:held] = draw.multinomial(users, shares / shares.sum())
    words = (
        f"{sketch.name} {rows} x {sketch.columns}, epsilon {epsilon:g}, {users:,} reports, "
        f"{held} of {candidates} held, power {power:g}, missing {missing}"
    )
    return words, sketch, counts, missing


def row_of(seed: int, number: int, tables: int) -> Row:
    """Return the row of a setting."""
    words, _, counts, missing = setting_of(seed, number)
    values = [f"value {place}" for place in range(len(counts))]
    listed, true = values[missing:], counts[missing:]
    squares = dict.fromkeys(METHODS, 0.0)
    false = {method: list[float]() for method in METHODS}
    found, coverage = dict.fromkeys(METHODS, 0.0), dict.fromkeys(METHODS, 0.0)
    default = ""
    generator = np.random.default_rng([seed, number, 1])
    for place in range(tables):
        _, sketch, *_ = setting_of(seed, number, place)
        table = draw_table(sketch, values, counts=counts, generator=generator)
        for method in METHODS:
            estimates = decode(table, listed, method=method)
            discovered = estimates.detected()
            squares[method] += float(((estimates.count - true)[true > 0] ** 2).mean()) / tables
            false[method].append(float((true[discovered] == 0).sum() / max(1, discovered.sum())))
            found[method] += float((true[discovered] > 0).sum()) / tables
            low, high = estimates.interval()
            coverage[method] += float(((low <= true) & (true <= high))[true > 0].mean()) / tables
            default = estimates.details["method"] if method == "auto" else default
    best = min(squares.values())
    return Row(
        setting=words,
        default=default,
        error={name: math.sqrt(square / best) for name, square in squares.items()},
        false={name: float(np.mean(shares)) for name, shares in false.items()},
        false_error={name: float(np.std(s) / math.sqrt(tables)) for name, s in false.items()},
        found=found,
        coverage=coverage,
    )


def seconds_of_the_largest() -> float:
    """Return the processor seconds that the default takes for 2**20 cells and 10,000 candidates."""
    sketch = CountMeanSketch(epsilon=4.0, rows=1024, width=1024, seed="00ff")
    values, shares = [f"value {place}" for place in range(10_000)], 1 / np.arange(1, 1001)
    counts = np.zeros(10_000, dtype=np.int64)
    counts[:1000] = 1_000_000 * shares / shares.sum()
    table = draw_table(sketch, values, counts=counts, generator=np.random.default_rng(SEED))
    started = time.process_time()
    decode(table, values)
    return time.process_time() - started


def bars(rows: list[Row], tables: int) -> list[Bar]:
    """Return the bars of the default; the time of the largest table is measured here."""
    seconds = seconds_of_the_largest()
    held = min(row.coverage["auto"] for row in rows)
    error = max(row.error["auto"] for row in rows)
    excess = max(row.false["auto"] - 3 * row.false_error["auto"] for row in rows)
    return [
        Bar(
            "largest error over the better method's", error, f"<= {MOST_ERROR}", error <= MOST_ERROR
        ),
        Bar(
            "largest share of false discoveries, less three standard errors",
            excess,
            f"<= {RATE}",
            excess <= RATE,
        ),
        Bar("least share of intervals that hold", held, f">= {LEAST_HELD}", held >= LEAST_HELD),
        Bar(
            "seconds for 2**20 cells and 10,000 candidates",
            seconds,
            f"<= {MOST_SECONDS}",
            seconds <= MOST_SECONDS,
        ),
    ]


def main() -> int:
    return campaign.run_settings(__doc__, row_of, bars, SEED, WHOLE, SAMPLE)


if __name__ == "__main__":
    sys.exit(main())
