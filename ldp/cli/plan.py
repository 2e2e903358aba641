"""`ldp plan`: what each mechanism would see, before anybody is asked for data."""

from pathlib import Path
from typing import Any

import click

from ldp.cli.options import FAKES, FILE, JSON, say, wrap
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
@click.option("--domain", type=int, required=True, help="Number of possible values.")
@click.option("--users", type=int, help="Number of users, with one report each.")
@click.option("--epsilon", type=float, help="Privacy loss of one report.")
@click.option("--frequency", type=float, help="Share of the users that hold a value of interest.")
@click.option("--answers", type=int, help="Largest number of values that one user holds.")
@click.option(
    "--max-report-bytes", type=int, help="Largest size of a whole report, header included."
)
@click.option("--alpha", type=float, default=0.05, help="Error rate of discoveries.")
@click.option(
    "--power", type=float, default=0.5, help="Probability with which a detectable value is found."
)
@FAKES
@JSON
def plan_list(fakes: float | None, as_json: bool, **question: Any) -> None:
    """Compare the mechanisms for values of a list, each tuned to the question, and recommend one.

    Leave out one of --users, --epsilon and --frequency, and it is solved for: the least with which
    the recommended mechanism detects a value that this share of the users holds. With --fakes, what
    this share of made-up reports does to the error, instead of 1 %.

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
@click.option("--quantile", type=float, default=0.95, help="Share of the percentile.")
@click.option("--by", type=int, default=1, help="Number of categories that have a percentile each.")
@click.option("--population", help="CSV file of numbers like those that people will hold.")
@click.option(
    "--from",
    "result",
    type=FILE,
    help="Result of such numbers that ldp decode or ldp publish wrote.",
)
@click.option("--users", type=int, required=True, help="Number of users, with one report each.")
@click.option("--epsilon", type=float, required=True, help="Privacy loss of one report.")
@JSON
@reading_options
def plan_number(
    bounds: tuple[float, float] | None,
    quantile: float,
    by: int,
    population: str | None,
    result: Path | None,
    users: int,
    epsilon: float,
    as_json: bool,
) -> None:
    """Say what each way would tell of a percentile, in --range or of an unknown range.

    With --by, of that of each category, and when that is hopeless. Without --population or --from
    it is that of the numbers, of six shapes, whose interval is the longest.

    \b
    Example: ldp plan number --users 100000 --epsilon 2 --quantile 0.95
    Example: ldp plan number --users 1000000 --epsilon 4 --by 5
    """
    from ldp.planning.percentiles import people_of_result
    from ldp.simulation import Population

    people = Population.numbers_from_csv(population, chosen_reading()) if population else None
    people = people_of_result(result) if result else people
    ways = plan_percentile(
        users=users,
        epsilon=epsilon,
        q=quantile,
        bounds=bounds,
        people=people,
        by=by,
        like=result.name if result else "the population",
    )
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
    lines.append(
        f"{'way':<44} {name:>9} {'low':>9} {'high':>9}  share +-  bytes   mean +-"
        + ("" if ask.people else "  of numbers")
    )
    for row in answer.forecasts:
        mark = " *" if row is answer.best else ""
        mean = "-" if row.mean_std_error is None else f"{row.mean_std_error:.3g}"
        cells = _cells(row.percentile)
        lines.append(
            f"{row.words + mark:<44} {cells[0]:>9} {cells[1]:>9} {cells[2]:>9} "
            f"{100 * row.share_std_error:7.2g} % {report_bytes(row.mechanism):6,} {mean:>9}"
            + ("" if ask.people else f"  {row.like}")
        )
    for way, error in answer.means.items():
        lines.append(f"{way:<44} {'no percentile':>49} {error:>15.3g}")
    like = f"of numbers like those of {ask.like}"
    if ask.people is None:
        like = f"of the shape of numbers that is told worst, of these: {', '.join(ask.cases)}"
    notes = (
        f"*: recommended, as the shortest report of those whose interval is, as a share of the "
        f"percentile, within 5 % of the shortest. Intervals are medians of {TABLES} drawn tables, "
        f"at 95 %, {like}; an open end is -. Share +-: standard error of the share of people below "
        f"the percentile. Mean +-: of the mean; without equal bins of a range there is none."
    )
    lines += ["", *wrap(notes), "", *wrap(in_words(ask.epsilon))]
    if answer.parts:
        lines += ["", *_of_parts(answer)]
    lines += ["", "For metrics.toml (docs/registry.md):", "", answer.registry_lines()]
    return lines


def _of_parts(answer: PercentilePlan) -> list[str]:
    """Return what the recommended way tells about categories with a part of the users."""
    of_shape = "" if answer.question.people else "  of numbers"
    lines = ["of a category with   percentile       low      high" + of_shape]
    for row in answer.parts:
        cells = _cells(row.percentile)
        lines.append(
            f"{100 * row.part:>16.3g} % {cells[0]:>13} {cells[1]:>9} {cells[2]:>9}"
            + (of_shape and f"  {row.like}")
            + "  hopeless" * row.is_hopeless
        )
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
    lines += [
        "                   std. error          detectable   times           table "
        f"{share + ' fakes':>11}    50 %    same at" + has_fakes * "  error with",
        "mechanism          rare       there     frequency   bound  bytes    cells        move"
        "  becomes  epsilon" + has_fakes * "       fakes",
    ]
    lines += [
        _line(row, row.mechanism == best.mechanism) + has_fakes * f"  {row.fakes_error:10,.0f}"
        for row in answer.forecasts
    ]
    lines.append("")
    for name, reason in answer.refused.items():
        lines += wrap(f"{name} is refused: {reason}.")
    notes = (
        f"*: recommended, as the smallest report of those within 2.5 % of the least standard "
        f"error there. Standard errors are in reports; a detectable value is found with "
        f"probability {ask.power:g} when all {ask.domain:,} are tested at {ask.alpha:g} "
        f"(Bonferroni). Bound: the least mean variance over all values of any unbiased mechanism. "
        f"{share} fakes move: what they add to a frequency of their choice, in percent of all"
        f"{'; error with fakes: root mean squared, there, if all of them do' * has_fakes}. 50 % "
        f"becomes: the most that a report can make of such a belief. Same at: the epsilon that "
        f"{best.mechanism} needs for this standard error. Sketches count on Zipf frequencies, and "
        f"2 % of their variance for collisions that more reports do not average out, if "
        f"{2**28:,} cells are enough."
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


def _line(row: Forecast, is_recommended: bool) -> str:
    same = "     -" if row.same_epsilon is None else f"{row.same_epsilon:6.3f}"
    share = f"{100 * row.detectable_frequency:9.4g} %" if row.detectable else "      never"
    return (
        f"{row.mechanism + (' *' if is_recommended else ''):<15} {row.std_error_rare:10,.1f} "
        f"{row.std_error:11,.1f}  {share}  {row.bound_ratio:6.4g} {row.report_bytes:6,} "
        f"{_short(row.table_cells):>8}  {100 * row.fakes_move:7.3f} %  "
        f"{100 * row.believed:6.2f} %  {same}"
    )


def _short(number: int) -> str:
    """Return a number to three digits, with its unit."""
    for unit, word in ((10**9, " G"), (10**6, " M"), (10**3, " k")):
        if number >= unit:
            return f"{number / unit:.3g}{word}"
    return str(number)
