"""Measure whether a planned percentile's error holds for numbers that the planner does not know.

`python -m simulations.portfolio_numbers` writes 30 products of one percentile by a seed. It draws
the share, the users, the error asked for, a range or none, and the caps of a person. Each product
is planned without a population.

Where the plan is not refused, people of eight shapes hold numbers of the range; none of the shapes
is the planner's. Some numbers lie beyond the range and count as its end. Of each shape 200 tables
are drawn. The percentile's root mean squared error, relative to the true percentile, is compared
with the error that the plan states: of all, and of those of whom as many are near the percentile as
the plan assumes. The planned epsilon is compared with that of a plan from these very numbers.

It prints the bars, writes them as JSON and exits 1 when one is missed; `--sample` takes three
products.
"""

import argparse
import math
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import date
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ldp.planning.portfolio import PlannedMetric, Product
from ldp.server import decode_distribution
from ldp.simulation import draw_table
from simulations import campaign
from simulations.campaign import Bar
from simulations.portfolio import ASK, HEAD

PRODUCTS, TABLES, SEED, PEOPLE = 30, 200, 46, 4001
MOST_MEAN, MOST, LEAST_PLANNED, MOST_PRICE = 1.1, 1.3, 0.5, 2.0
FAR, SLACK = 4, 0.9
"""Multiple of the error asked for up to which people near a percentile are counted, and the part of
the assumed share that is enough: 4001 people are a sample."""
START, END = date(2026, 12, 1), date(2027, 5, 31)
Draw = Callable[[np.random.Generator], Any]
SHAPES: Mapping[str, Draw] = {
    "gamma of shape 0.7": lambda draw: draw.gamma(0.7, size=PEOPLE),
    "Weibull of shape 1.5": lambda draw: draw.weibull(1.5, size=PEOPLE),
    "Weibull of shape 0.6": lambda draw: draw.weibull(0.6, size=PEOPLE),
    "loglogistic of shape 2.5": lambda draw: (1 / draw.random(PEOPLE) - 1) ** (-1 / 2.5),
    "beta of 2 and 5": lambda draw: draw.beta(2, 5, size=PEOPLE),
    "half zeros": lambda draw: draw.lognormal(0, 0.7, PEOPLE) * (draw.random(PEOPLE) < 0.5),
    "three modes": lambda draw: np.abs(
        draw.choice([1.0, 4.0, 9.0], PEOPLE, p=[0.5, 0.3, 0.2]) + 0.3 * draw.normal(size=PEOPLE)
    ),
    "three decades": lambda draw: 10 ** (3 * draw.random(PEOPLE)),
}
"""Numbers that people hold, by the name of their distribution."""


@dataclass(frozen=True)
class Row:
    """Row of one product and one shape.

    `epsilon`: planned; `error`: measured over stated; `true_epsilon`: planned from the numbers
    themselves. None means that the plan was refused. `is_assumed`: whether the numbers are such as
    the plan assumes.
    """

    product: int
    shape: str
    share: float
    within: float
    epsilon: float | None
    error: float | None = None
    true_epsilon: float | None = None
    is_assumed: bool = True


def question_of(seed: int, number: int, keys: str = "") -> tuple[dict[str, Any], str]:
    """Return the drawn numbers of a product, and its file of questions with more `keys`."""
    draw = np.random.default_rng([seed, number])
    end = float(f"{10 ** draw.uniform(0, 4):.3g}")
    has_range = draw.random() < 0.6
    numbers: dict[str, Any] = {
        "number": number,
        "start": START,
        "until": END,
        "name": "size",
        "days": 30,
        "users": int(10 ** draw.uniform(4.7, 6.3)),
        "share": float(draw.choice([0.5, 0.75, 0.9, 0.95, 0.99])),
        "within": float(f"{10 ** draw.uniform(-1.1, -0.5):.2g}"),
        "day": float(draw.choice([4.0, 8.0, 16.0])),
        "life": float(draw.choice([30.0, 60.0])),
    }
    keys += f"\npercentile = {numbers['share']}" + f"\nrange = [0, {end}]" * has_range
    return {**numbers, "end": end, "has_range": has_range}, (HEAD + ASK).format(
        **numbers, keys=keys
    )


def answer_of(folder: Path, text: str) -> PlannedMetric | None:
    """Return the plan of the one question; None where it is refused."""
    path = folder / "questions.toml"
    path.write_text(text, "utf-8")
    accepted = Product.load(path, START).answer().accepted
    return accepted[0] if accepted else None


def is_assumed(sizes: Any, share: float, true: float, error: float) -> bool:
    """Return whether, up to FAR times the stated error away, as many people are near the percentile
    as docs/planning.md says that a plan assumes."""
    sides = np.array([share, 1 - share])
    density = min(0.18, *1.5 * sides)
    for ratio in 1 + error * np.linspace(0, FAR, 41)[1:]:
        ends = np.searchsorted(sizes, [true / ratio, true * ratio], side="right") / PEOPLE
        if (np.abs(ends - share) < SLACK * sides * (1 - ratio ** (-density / sides))).any():
            return False
    return True


def rows_of(seed: int, number: int, tables: int) -> list[Row]:
    """Return the rows of a product."""
    about, text = question_of(seed, number)
    share, within, users = about["share"], about["within"], about["users"]
    rows = list[Row]()
    with TemporaryDirectory() as name:
        folder = Path(name)
        answer = answer_of(folder, text)
        for place, (shape, drawn) in enumerate(SHAPES.items()):
            draw = np.random.default_rng([seed, number, place])
            sizes = np.sort(drawn(draw))
            sizes *= about["end"] / np.quantile(sizes, draw.uniform(0.97, 1.0))
            if about["has_range"]:
                sizes = np.minimum(sizes, about["end"])
            true = float(sizes[math.ceil(share * PEOPLE) - 1])
            if not true:
                continue
            (folder / "people.csv").write_text("\n".join(["value", *map(repr, sizes.tolist()), ""]))
            best = answer_of(folder, question_of(seed, number, 'population = "people.csv"')[1])
            epsilon, error = (answer.epsilon, 0.0) if answer else (None, None)
            if answer is not None:
                held, counts = np.unique(sizes, return_counts=True)
                people = np.floor(counts * users / PEOPLE + draw.random(len(counts)))
                way: Any = answer.mechanism
                squares = 0.0
                for _ in range(tables):
                    values, numbers = [*map(repr, held.tolist())], people.astype(np.int64)
                    table = draw_table(way, values, counts=numbers, generator=draw)
                    estimate = decode_distribution(table).quantile(share).estimate
                    squares += (estimate / true - 1) ** 2
                error = math.sqrt(squares / tables) / answer.error
            true_epsilon = best.epsilon if best else None
            near = is_assumed(sizes, share, true, within)
            rows.append(Row(number, shape, share, within, epsilon, error, true_epsilon, near))
    return rows


def bars(rows: list[Row]) -> list[Bar]:
    planned = {row.product for row in rows if row.epsilon is not None}
    part = len(planned) / len({row.product for row in rows})
    means = {
        number: float(np.mean([row.error for row in rows if row.product == number]))
        for number in planned
    }
    most_mean = max(means.values(), default=0.0)
    most = max((row.error for row in rows if row.error is not None), default=0.0)
    assumed = max((row.error for row in rows if row.error and row.is_assumed), default=0.0)
    prices = [row.epsilon / row.true_epsilon for row in rows if row.epsilon and row.true_epsilon]
    price = float(np.median(prices)) if prices else math.inf
    return [
        Bar(
            "largest mean of a product's errors over the stated one",
            most_mean,
            f"<= {MOST_MEAN}",
            most_mean <= MOST_MEAN,
        ),
        Bar("largest error over the stated one", most, f"<= {MOST}", most <= MOST),
        Bar("the same where the assumption holds", assumed, f"<= {MOST}", assumed <= MOST),
        Bar("products not refused", part, f">= {LEAST_PLANNED}", part >= LEAST_PLANNED),
        Bar(
            "median epsilon over that of a plan from the numbers",
            price,
            f"<= {MOST_PRICE}",
            price <= MOST_PRICE,
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    made, numbers = campaign.provenance(), range(3 if options.sample else PRODUCTS)
    tables, rows = 20 if options.sample else TABLES, list[Row]()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for of_product in pool.map(rows_of, repeat(options.seed), numbers, repeat(tables)):
            rows += of_product
            for row in of_product:
                print(row, flush=True)
    measured = bars(rows)
    campaign.write(options.out, made, {"seed": options.seed, "rows": rows, "bars": measured})
    return campaign.shown(measured)


if __name__ == "__main__":
    sys.exit(main())
