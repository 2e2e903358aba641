"""Measure whether the answers of a product's plan are as exact as asked, and cost least.

`python -m simulations.portfolio` plans the 30 products of simulations/data/portfolios, which a
seeded generator wrote (`--make`). Ten have at most three questions, and ten have a cap that not all
of their questions can meet. It also plans a small product of cross tables.

Of every accepted question it draws 200 years of windows, at least 10,000 windows where a draw is
cheap. The root mean squared error may be at most 1.03 times the error asked for. Words must be
found as often as stated.

For every question it searches the least epsilon for life. The search covers all mechanisms and
their variants, joint reports of a cross table, memoisation, and all epsilons in steps of 2 %. In
small products the plan's sum may be at most 1.05 times that of the search. The search must confirm
every refusal of a product. It leaves out sampling shares and pauses. Fewer people are never as
exact (tests/planning/test_portfolio.py), and a window without reports is a question without an
answer.

It prints the bars, writes them as JSON and exits 1 when one is missed; `--sample` takes four
products.
"""

import argparse
import math
import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from ldp.errors import ParameterError
from ldp.mechanisms import JointReport, Mechanism
from ldp.planning.mechanism_choice import candidate_table, candidates
from ldp.planning.numbers import Mean, Percentile
from ldp.planning.portfolio import EPSILONS, Ask, PlannedMetric, Product
from ldp.planning.question import Question
from ldp.planning.values import Shares
from ldp.planning.word_questions import POWER, WINDOWS, Words
from ldp.protocol.kinds import Sign
from ldp.server import decode_mean
from ldp.simulation import draw_estimates, draw_table
from ldp.tables.table import Table
from simulations import campaign
from simulations.campaign import Bar

FILES = Path(__file__).parent / "data" / "portfolios"
PRODUCTS, SMALL, INFEASIBLE, SEED = 30, 10, 10, 22
CROSS = PRODUCTS
"""Number of the product of cross tables."""
SAMPLE = (1, 2, 3, CROSS)
YEARS, DRAWS = 200, 10_000
"""Years of windows, and the least number of windows.

Words have only WINDOWS windows, since each takes a second.
"""
START, END = date(2026, 12, 1), date(2027, 11, 30)
MOST_ERROR, MOST_PRICE = 1.03, 1.05
HEAD = """\
[product]
name = "product {number}"
users = {users}
start = {start}
day_epsilon = {day}
lifetime_epsilon = {life}
"""
ASK = """
[question.{name}]
ask = "Question {name}"
{keys}
within = {within}
every = "{days}d"
until = {until}
"""


def is_small(number: int) -> bool:
    """Return whether a product has at most three questions."""
    return number < SMALL or number == CROSS


def product_text(number: int, day: float = 1e6, life: float = 1e6) -> str:
    """Return the questions of a product below these caps; a small product has at most three."""
    draw = np.random.default_rng([SEED, number])
    users = int(round(10 ** draw.uniform(4.5, 6), -3))
    text = HEAD.format(number=number, users=users, start=START, day=day, life=life)
    scale = 1 / math.sqrt(users)
    for place in range(int(draw.integers(1, 4) if is_small(number) else draw.integers(4, 8))):
        kinds = ["values", "sets", "mean", "percentile", "words"]
        kind = str(draw.choice(kinds, p=[0.5, *4 * [0.125]]))
        days = int(draw.choice([7, 30, 90]) if kind == "values" else draw.choice([30, 90]))
        within = float(f"{draw.uniform(1.5, 8) * scale:.3g}")
        values = [f"v{value}" for value in range(draw.integers(2, 40))]
        keys = f"values = {values}".replace("'", '"')
        if number == CROSS:
            kind, lists = "cross", (values[: draw.integers(2, 8)] for _ in range(2))
            keys = "cross = {{ a = {}, b = {} }}".format(*lists).replace("'", '"')
        elif kind == "sets":
            keys += f"\nanswers = {draw.integers(2, 4)}" if len(values) > 3 else ""
        elif kind == "values" and draw.random() < 0.3:
            keys += '\nkeep = "180d"'
        elif kind == "mean":
            keys = "mean = [0, 100]"
            within *= 100
        elif kind == "percentile":
            keys = f"percentile = {draw.choice([0.5, 0.9, 0.95])}\nrange = [0, 10]"
            within *= 3
        elif kind == "words":
            keys = "words = 4"
            within *= 10
        text += ASK.format(
            name=f"{kind}-{place}", keys=keys, within=f"{within:.4g}", days=days, until=END
        )
    return text


def make(folder: Path) -> None:
    """Write the products.

    The caps leave a fifth more than the questions take; in INFEASIBLE products a third is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(PRODUCTS + 1):
        path = folder / f"{number:02}.toml"
        path.write_text(product_text(number), "utf-8")
        plan = Product.load(path, START).answer()
        part = 0.67 if number % (PRODUCTS // INFEASIBLE) == 0 and number < PRODUCTS else 1.2
        caps = (float(f"{part * cost:.3g}") for cost in (plan.day, plan.life))
        path.write_text(product_text(number, *caps), "utf-8")


@dataclass(frozen=True)
class Row:
    """Question of a product.

    `life`: the plan's epsilon for life, None if it is refused. `least`: that of the search, None if
    no epsilon is enough. `error`: root mean squared error over the error asked for. `found`: for
    words, the share of windows in which a word of the stated share is found.
    """

    product: int
    question: str
    mechanism: str
    life: float | None
    least: float | None
    error: float | None
    found: float | None = None


def error_of(
    answer: PlannedMetric, users: int, years: int, generator: np.random.Generator
) -> float:
    """Return the root mean squared error of `years` years of windows, over the error asked for."""
    ask, question, mechanism = answer.ask, answer.ask.question, answer.mechanism
    windows = years * (365 // ask.days)
    if isinstance(question, Shares):
        held = int(users * generator.uniform(0, 1))
        rest = np.full(question.domain - 1, 1 / (question.domain - 1))
        errors = draw_estimates(
            mechanism,
            held=held,
            others=generator.multinomial(users - held, rest),
            draws=max(DRAWS * years // YEARS, windows),
            generator=generator,
        )
        errors = (errors - held) / users
    elif isinstance(question, Mean):
        place = f"{generator.uniform(*question.bounds):.6g}"
        means = (
            decode_mean(draw(mechanism, (place,), [users], generator)).mean for _ in range(windows)
        )
        errors = np.fromiter(means, dtype=float) - float(place)
    else:
        assert isinstance(question, Percentile)
        way: Any = mechanism
        worst = max(question.cases, key=lambda case: case.error(way))
        errors = worst.errors(way, windows, generator) / worst.whole
    return math.sqrt(float((errors**2).mean())) / ask.within


def draw(
    mechanism: Any, values: Sequence[str], counts: Any, generator: np.random.Generator
) -> Table:
    """Return a table in which `counts` people hold each value."""
    return draw_table(mechanism, values, counts=np.array(counts), generator=generator)


def all_ways(question: Question) -> Iterator[tuple[Mechanism, float]]:
    """Yield every variant of every mechanism for a question with fresh reports, with its error."""
    if isinstance(question, Shares):
        for variants in candidate_table(question).values():
            with suppress(ParameterError):
                for mechanism in variants(question):
                    yield mechanism, question.error(mechanism)
        if "/" in question.values[0]:
            yield joint_report(question)
    else:
        for mechanism in question.mechanisms():
            yield mechanism, question.error(mechanism)


def joint_report(cells: Any) -> tuple[Any, float]:
    """Return the best joint report of the two lists of a cross table, and the largest error of a
    cell.

    Each list gets half of epsilon. A cell is estimated by the product of its parts' estimates,
    which are independent given the values. The mean square of an estimate is its variance, plus 1
    for a holder.
    """
    columns = zip(*(value.split("/") for value in cells.values), strict=True)
    parts, squares = list[Mechanism](), list[tuple[float, float]]()
    for domain in map(len, map(set, columns)):
        rare, held = (
            Shares(domain=domain, users=1, epsilon=cells.epsilon / 2, frequency=share)
            for share in (0.0, 1.0)
        )
        ways = (way for way in candidates(rare)[0] if way.kind is not Sign)
        parts.append(min(ways, key=lambda way: max(rare.variance(way), held.variance(way))))
        squares.append((rare.variance(parts[-1]), 1 + held.variance(parts[-1])))
    (none, one), (no_other, other) = squares
    worst = max(one * other - 1, one * no_other, none * other, none * no_other)
    return JointReport(of=tuple(parts)), math.sqrt(worst / cells.users)


def search(product: Product, ask: Ask) -> PlannedMetric | None:
    """Return the answer that costs a life least, of all mechanisms and epsilons.

    Reports are fresh, or memoised in epochs of every length. Percentiles, whose forecast takes a
    second, are bisected, as a larger epsilon is never less exact.
    """

    def enough(epsilon: float, keep_days: int = 0) -> list[PlannedMetric]:
        with suppress(ParameterError):  # for a mechanism that does not exist at this epsilon
            question = ask.question.with_(epsilon=epsilon)
            memoised = ((way, question.error(way)) for way in question.memoised())
            return [
                PlannedMetric(ask, question, mechanism, keep_days, product.start)
                for mechanism, error in (memoised if keep_days else all_ways(question))
                if error <= ask.within
            ]
        return []

    start = 0
    if isinstance(ask.question, Percentile):
        start = bisect_left(EPSILONS, True, key=lambda epsilon: bool(enough(epsilon)))
    answers = list[PlannedMetric]()
    for keep_days in (0, *range(ask.days, ask.keep_days + 1, ask.days)):
        tried = (enough(epsilon, keep_days) for epsilon in EPSILONS[start:])
        answers += next(filter(None, tried), [])
    return min(answers, key=lambda answer: answer.life, default=None)


def rows_of(number: int, years: int) -> tuple[list[Row], bool]:
    """Return the rows of a product, and whether the search confirms every refusal."""
    product = Product.load(FILES / f"{number:02}.toml", START)
    plan, confirmed = product.answer(), True
    least = {ask.name: search(product, ask) for ask in product.questions}
    accepted = {answer.ask.name: answer for answer in plan.accepted}
    rows = list[Row]()
    day = life = 0.0
    for place, ask in enumerate(product.questions):
        answer, cheapest = accepted.get(ask.name), least[ask.name]
        error = found = None
        generator = np.random.default_rng([SEED, number, place])
        if answer is not None and isinstance(ask.question, Words):
            way: Any = answer.mechanism
            found, _ = ask.question.simulate(way, generator)
        elif answer is not None:
            error = error_of(answer, product.users, years, generator)
        elif cheapest is not None:
            confirmed &= (
                day + cheapest.day > product.day_epsilon
                or life + cheapest.life > product.lifetime_epsilon
            )
        if answer is not None and cheapest is not None:
            day, life = day + cheapest.day, life + cheapest.life
        rows.append(
            Row(
                product=number,
                question=ask.name,
                mechanism=answer.mechanism.name if answer else "",
                life=answer.life if answer else None,
                least=cheapest.life if cheapest else None,
                error=error,
                found=found,
            )
        )
    return rows, confirmed


def bars(rows: Sequence[Row], confirmed: Sequence[bool], is_whole: bool) -> list[Bar]:
    """Return the bars.

    A sample's errors may be larger by four of their standard errors, and its words may be found
    less often by four.
    """
    most = MOST_ERROR if is_whole else 1.3
    errors = [row.error for row in rows if row.error is not None]
    small = [row for row in rows if is_small(row.product) and row.life and row.least]
    spent = {
        number: sum(row.life or 0 for row in small if row.product == number)
        / sum(row.least or 0 for row in small if row.product == number)
        for number in {row.product for row in small}
    }
    words = [row.found for row in rows if row.found is not None] or [1.0]
    often = float(np.mean(words))
    least = POWER - 4 * math.sqrt(POWER * (1 - POWER) / (WINDOWS * len(words)))
    refused = len({row.product for row in rows if row.life is None and row.least})
    wanted = INFEASIBLE if is_whole else 1
    return [
        Bar("largest error over what was asked", max(errors), f"<= {most}", max(errors) <= most),
        Bar(
            "largest sum for life over the search's, of small products",
            max(spent.values()),
            f"<= {MOST_PRICE}",
            max(spent.values()) <= MOST_PRICE,
        ),
        Bar("share of windows in which words are found", often, f">= {least:.3g}", often >= least),
        Bar("products with a refusal for their caps", refused, f"{wanted}", refused == wanted),
        Bar(
            "products whose refusals the search confirms",
            sum(confirmed),
            f"{len(confirmed)}",
            all(confirmed),
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--make", action="store_true", help="write the products")
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.make:
        make(FILES)
        return 0
    made, numbers = campaign.provenance(), SAMPLE if options.sample else range(PRODUCTS + 1)
    years = 20 if options.sample else YEARS
    rows, confirmed = list[Row](), list[bool]()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for found, is_confirmed in pool.map(rows_of, numbers, repeat(years)):
            rows += found
            confirmed.append(is_confirmed)
            for row in found:
                print(row, flush=True)
    measured = bars(rows, confirmed, not options.sample)
    campaign.write(
        options.out, made, {"seed": SEED, "years": years, "rows": rows, "bars": measured}
    )
    return campaign.shown(measured)


if __name__ == "__main__":
    sys.exit(main())
