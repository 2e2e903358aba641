"""`ldp plan`: what each mechanism would see, before anybody is asked for data."""

import math
from pathlib import Path
from typing import Any

import click

from ldp.cli.options import FAKES, FILE, JSON, Rows, aligned, say, wrap
from ldp.cli.reading import chosen_reading, reading_options
from ldp.files import counted, finite
from ldp.planning import Forecast, PercentilePlan, Plan, plan_percentile, report_bytes
from ldp.planning import plan as planned
from ldp.planning.percentiles import TABLES
from ldp.protocol.channel import rounded_up
from ldp.registry.odds import in_words
from ldp.tables.statistics import Statistic, known_ends


@click.group()
def plan_command() -> None:
    """Say what each mechanism would tell of a list of values, a number or a whole product.

    \b
    Example: ldp plan list --domain 2600 --users 1000000 --epsilon 4
    """


@plan_command.command("list")
@click.option("--domain", type=int, required=True, help="Number of values that are possible.")
@click.option("--users", type=int, help="Number of users, who send one report each.")
@click.option("--epsilon", type=float, help="Privacy loss that a report has.")
@click.option("--frequency", type=float, help="Share of the users that hold a value of interest.")
@click.option("--answers", type=int, help="Largest number of values that one user holds.")
@click.option("--max-report-bytes", type=int, help="Bytes that a report may have, header included.")
@FAKES
@JSON
def plan_list(fakes: float | None, as_json: bool, **question: Any) -> None:
    """Compare the mechanisms for values of a list, each tuned to the question, and recommend one.

    Leave out one of --users, --epsilon and --frequency: the plan then finds its least number with
    which a value that this share of the users holds is detected. --fakes states the share of
    made-up reports, 1 % by default.

    \b
    Example: ldp plan list --domain 2600 --users 1000000 --epsilon 4
    Example: ldp plan list --domain 2600 --epsilon 4 --frequency 0.001 --max-report-bytes 20
    Example: ldp plan list --domain 2600 --users 1000000 --epsilon 4 --fakes 0.1%
    """
    if fakes is not None:
        question["fakes"] = fakes
    answer = planned(**question)
    say(answer.to_dict(), _words(answer, fakes is not None), as_json)


@plan_command.command("number")
@click.option(
    "--range",
    "bounds",
    type=(float, float),
    metavar="LOW HIGH",
    help="Range of the numbers; without it nobody knows the range.",
)
@click.option(
    "--quantile", "q", type=float, default=0.95, help="Share below the percentile to plan."
)
@click.option("--by", type=int, default=1, help="Number of categories that have a percentile each.")
@click.option("--population", help="CSV file of numbers like those that people will hold.")
@click.option(
    "--from",
    "result",
    type=FILE,
    help="Result of such numbers that ldp decode or ldp publish wrote.",
)
@click.option("--users", type=int, required=True, help="Number of users, who send one report each.")
@click.option("--epsilon", type=float, required=True, help="Privacy loss that a report has.")
@JSON
@reading_options
def plan_number(
    population: str | None, result: Path | None, as_json: bool, **question: Any
) -> None:
    """Compare the mechanisms for a percentile of numbers in --range or of an unknown range.

    With --by it does so for each category, and says when that is hopeless. Without --population
    or --from it assumes that few people are near the percentile.

    \b
    Example: ldp plan number --users 100000 --epsilon 2 --quantile 0.95
    Example: ldp plan number --users 1000000 --epsilon 4 --by 5
    """
    from ldp.planning.percentiles import people_of_result
    from ldp.simulation import Population

    people = Population.numbers_from_csv(population, chosen_reading()) if population else None
    people = people_of_result(result) if result else people
    like = result.name if result else "the population"
    ways = plan_percentile(**question, people=people, like=like)
    say(ways.to_dict(), _words_of_percentile(ways), as_json)


@plan_command.command("product")
@click.argument("questions", type=FILE)
@click.option("--out", type=FILE, help="Folder to write metrics.toml and its lists into.")
@JSON
@reading_options
def plan_product(questions: Path, out: Path | None, as_json: bool) -> None:
    """Plan all QUESTIONS of a product below one person's caps, and write their registry.

    \b
    Example: ldp plan product questions.toml --out registry
    """
    from ldp.cli.portfolio import plan_questions

    plan_questions(questions, out, as_json)


def _words_of_percentile(answer: PercentilePlan) -> list[str]:
    ask, by, name = answer.question, len(answer.question.by), f"p{100 * answer.question.q:.6g}"
    of_each = f" by {by:,} categories, each with {100 / by:.3g} % of them" if by else ""
    users = counted(ask.users, "user")
    lines = [f"{name} of {users}{of_each}, epsilon {ask.epsilon:g} a report", ""]
    table: Rows = [("way", name, "low", "high", "share +-", "bytes", "mean +-")]
    for row in answer.forecasts:
        mean = "-" if row.mean_std_error is None else f"{row.mean_std_error:.3g}"
        sizes = f"{100 * row.share_std_error:.2g} %", f"{report_bytes(row.mechanism):,}", mean
        way = row.words + " *" * (row is answer.best)
        table.append((way, *_cells(row.percentile), *sizes))
    for way, error in answer.means.items():
        table.append((way, "none", "", "", "", "", f"{error:.3g}"))
    lines += aligned(table)
    true = answer.best.true
    ends = [*filter(math.isfinite, answer.best.mechanism.bins.edges)]
    if true and not ends[0] <= true <= ends[-1]:
        held = f"{name} of {ask.like} is {true:.4g}"
        lines += ["", *wrap(f"{held}, beyond all bins: state another --range.")]
    notes = (
        f"*: recommended, the shortest report whose interval is, as a share of the percentile, "
        f"within 5 % of the shortest. Intervals are medians of {TABLES} drawn tables, at 95 %, "
        f"for {ask.planned_for()}; an open end is -. Share +-: standard error of the share of "
        f"people below the percentile. Mean +-: the largest of the mean; without equal bins "
        f"there is none."
    )
    lines += ["", *wrap(notes), "", *wrap(in_words(ask.epsilon))]
    if answer.parts:
        lines += ["", *_of_parts(answer)]
    lines += ["", "For metrics.toml (docs/registry.md):", "", answer.registry_lines()]
    return lines


def _of_parts(answer: PercentilePlan) -> list[str]:
    """Return what the recommended way tells about categories with a part of the users."""
    table: Rows = [("of a category with", "percentile", "low", "high", "")]
    for row in answer.parts:
        cells = _cells(row.percentile)
        table.append((f"{100 * row.part:.3g} %", *cells, "hopeless" * row.is_hopeless))
    lines = aligned(table)
    if answer.best.is_hopeless:
        needed = answer.users_needed
        more = f"about {needed:,} users are needed" if needed else "no number of users is enough"
        users, by = answer.question.users, len(answer.question.by)
        lines += wrap(f"With {users:,} users {by:,} equal categories are hopeless: {more}.")
    return lines


def _cells(row: Statistic) -> list[str]:
    """Return an estimate and the ends of its interval as texts, an open end as -."""
    numbers = finite([row.estimate, *known_ends(row.low, row.high)])
    return ["-" if number is None else f"{number:.4g}" for number in numbers]


def _words(answer: Plan, has_fakes: bool) -> list[str]:
    ask, best, share = answer.question, answer.best, f"{100 * answer.fakes:.4g} %"
    several = f", up to {ask.answers} a user" if ask.answers else ""
    head = (
        f"{ask.domain:,} values{several}, {counted(ask.users, 'user')}, epsilon "
        f"{ask.epsilon:g} a report; a value held by {100 * ask.frequency:.6g} % "
        f"({counted(ask.users * ask.frequency, 'user')})"
    )
    lines = [head, *([_solved(answer)] if answer.solved else []), ""]
    above = f",std. error,,detectable,times,,table,{share} fakes,50 %,same at"
    heads = "mechanism,rare,there,frequency,bound,bytes,cells,move,becomes,epsilon"
    last = (",error with" * has_fakes, ",fakes" * has_fakes)
    table: Rows = [(above + last[0]).split(","), (heads + last[1]).split(",")]
    for row in answer.forecasts:
        cells = _row(row, row.mechanism == best.mechanism)
        table.append(cells + (f"{row.fakes_error:,.0f}",) * has_fakes)
    lines += [*aligned(table), ""]
    for name, reason in answer.refused.items():
        lines += wrap(f"{name} is refused: {reason}.")
    notes = (
        "*: recommended, the smallest report within 2.5 % of the least standard error there. "
        "Standard errors are in reports; a detectable value is found with probability "
        f"{ask.power:g} when all {ask.domain:,} are tested at {ask.alpha:g} (Bonferroni). Sketches "
        f"assume Zipf frequencies; if {2**28:,} cells are enough, collisions are 2 % of their "
        "variance. docs/planning.md explains each column."
    )
    lines += wrap(notes)
    lines += ["", *wrap(in_words(best.epsilon)), "", "For metrics.toml (docs/registry.md):"]
    return [*lines, "", answer.registry_lines()]


def _solved(answer: Plan) -> str:
    ask = answer.question
    return {
        "users": f"solved: it takes {counted(ask.users, 'user')} to detect it",
        "epsilon": f"solved: it takes an epsilon of {rounded_up(ask.epsilon, 6)} to detect it",
        "frequency": f"solved: no smaller frequency than {100 * ask.frequency:.6g} % is detected",
    }[str(answer.solved)]


def _row(row: Forecast, is_recommended: bool) -> tuple[str, ...]:
    same = "-" if row.same_epsilon is None else f"{row.same_epsilon:.3f}"
    share = f"{100 * row.detectable_frequency:.4g} %" if row.detectable else "never"
    return (
        row.mechanism + " *" * is_recommended,
        *(f"{row.std_error_rare:,.1f}", f"{row.std_error:,.1f}"),
        *(share, f"{row.bound_ratio:.4g}"),
        *(f"{row.report_bytes:,}", _short(row.table_cells)),
        *(f"{100 * row.fakes_move:.3f} %", f"{100 * row.believed:.2f} %"),
        same,
    )


def _short(number: int) -> str:
    """Return a number to three digits, with its unit."""
    for unit, word in ((10**9, " G"), (10**6, " M"), (10**3, " k")):
        if number >= unit:
            return f"{number / unit:.3g}{word}"
    return str(number)
