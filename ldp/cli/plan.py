"""`ldp plan`: what each mechanism would see, before anybody is asked for data."""

import math
from pathlib import Path
from textwrap import wrap

import click

from ldp.accounting.explain import in_words
from ldp.cli.options import FAKES, FILE, JSON, say
from ldp.errors import ParameterError
from ldp.planning import Forecast, PercentilePlan, Plan, plan_percentile, report_bytes
from ldp.planning import plan as planned
from ldp.planning.percentiles import TABLES

WIDTH = 96


@click.command()
@click.argument("questions", required=False, type=FILE)
@click.option("--domain", type=int, help="Number of possible values.")
@click.option("--numbers", is_flag=True, help="The values are numbers: plan for a percentile.")
@click.option(
    "--range", "bounds", type=(float, float), metavar="LOW HIGH", help="Of the numbers, if known."
)
@click.option(
    "--unknown-range",
    is_flag=True,
    help="Nobody knows the range of the numbers, which is taken without --range.",
)
@click.option("--quantile", type=float, help="The percentile's share; 0.95 without it.")
@click.option("--by", type=int, help="Number of categories that each have a percentile.")
@click.option("--population", help="CSV of numbers like those that people will hold.")
@click.option(
    "--from",
    "result",
    type=FILE,
    help="Result of such numbers that ldp decode or ldp publish wrote.",
)
@click.option("--users", type=int, help="Number of users, one report each.")
@click.option("--epsilon", type=float, help="Privacy loss of one report.")
@click.option("--frequency", type=float, help="Share that holds a value of interest.")
@click.option("--answers", type=int, help="Largest number of values that one user holds.")
@click.option("--max-report-bytes", type=int, help="Of a whole report, header included.")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Error rate.")
@click.option(
    "--power", type=float, default=0.5, show_default=True, help="Chance that detectable means."
)
@FAKES
@click.option("--out", type=FILE, help="Of QUESTIONS: folder for metrics.toml and its lists.")
@JSON
def plan(
    questions: Path | None,
    domain: int | None,
    numbers: bool,
    bounds: tuple[float, float] | None,
    unknown_range: bool,
    quantile: float | None,
    by: int | None,
    population: str | None,
    result: Path | None,
    users: int | None,
    epsilon: float | None,
    frequency: float | None,
    answers: int | None,
    max_report_bytes: int | None,
    alpha: float,
    power: float,
    fakes: float | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Compare the mechanisms, each tuned to the question, and recommend one; or plan all QUESTIONS
    of a product below one person's caps, and write their registry.

    Leave out one of --users, --epsilon and --frequency, and it is solved for: the least with which
    the recommended mechanism detects a value that this share of the users holds.

    With --fakes, what this share of made-up reports does to the error, instead of 1 %.

    With --numbers: what each way would say of a percentile, in --range or of an unknown range; with
    --by, of that of each category, and when that is hopeless. Without --population or --from it is
    that of the numbers, of six shapes, whose interval is the longest.

    \b
    Example: ldp plan --domain 2600 --users 1000000 --epsilon 4
    Example: ldp plan --domain 2600 --epsilon 4 --frequency 0.001 --max-report-bytes 20
    Example: ldp plan --numbers --unknown-range --users 100000 --epsilon 2 --quantile 0.95
    Example: ldp plan --numbers --unknown-range --users 1000000 --epsilon 4 --by 5
    Example: ldp plan --domain 2600 --users 1000000 --epsilon 4 --fakes 0.1%
    Example: ldp plan questions.toml --out registry
    """
    if fakes is not None and (questions is not None or numbers):
        raise ParameterError("--fakes goes with --domain")
    if questions is not None:
        if domain or numbers or users or epsilon or frequency:
            raise ParameterError("a file of questions states what options say; give no options")
        from ldp.cli.portfolio import plan_questions

        plan_questions(questions, out, as_json)
        return
    if out is not None:
        raise ParameterError("--out goes with a file of questions")
    if numbers:
        if bounds is not None and unknown_range:
            raise ParameterError("give one of --range LOW HIGH and --unknown-range")
        if users is None or epsilon is None or domain or frequency or answers:
            raise ParameterError("--numbers takes --users and --epsilon, and nothing of categories")
        if population and result:
            raise ParameterError("give one of --population and --from")
        from ldp.planning.percentiles import people_of_result
        from ldp.simulation import Population

        people = Population.numbers_from_csv(population) if population else None
        people = people_of_result(result) if result else people
        ways = plan_percentile(
            users=users,
            epsilon=epsilon,
            q=quantile or 0.95,
            bounds=bounds,
            people=people,
            by=by or 1,
            like=result.name if result else "the population",
        )
        say(ways.to_dict(), _words_of_percentile(ways), as_json)
        return
    if domain is None or bounds or unknown_range or quantile or by or population or result:
        raise ParameterError(
            "give --domain; ranges, quantiles, --by and populations go with --numbers"
        )
    answer = planned(
        domain=domain,
        users=users,
        epsilon=epsilon,
        frequency=frequency,
        alpha=alpha,
        power=power,
        max_report_bytes=max_report_bytes,
        answers=answers,
        **({} if fakes is None else {"fakes": fakes}),
    )
    say(answer.to_dict(), _words(answer, fakes is not None), as_json)


def _words_of_percentile(answer: PercentilePlan) -> str:
    ask, by, name = answer.question, len(answer.question.by), f"p{100 * answer.question.q:.6g}"
    of_each = f" by {by:,} categories, each with {100 / by:.3g} % of them" if by else ""
    lines = [f"{name} of {ask.users:,} users{of_each}, epsilon {ask.epsilon:g} a report", ""]
    lines.append(
        f"{'way':<44} {name:>9} {'low':>9} {'high':>9}  share +-  bytes   mean +-"
        + ("" if ask.people else "  of numbers")
    )
    for row in answer.forecasts:
        mark = " *" if row is answer.best else ""
        mean = "-" if row.mean_std_error is None else f"{row.mean_std_error:.3g}"
        ends = (_end(row.percentile.low), _end(row.percentile.high))
        lines.append(
            f"{row.words + mark:<44} {row.percentile.estimate:9.4g} {ends[0]:>9} {ends[1]:>9} "
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
    lines += ["", *wrap(notes, WIDTH), "", *wrap(in_words(ask.epsilon), WIDTH)]
    if answer.parts:
        lines += ["", *_of_parts(answer)]
    lines += ["", "For metrics.toml (docs/registry.md):", "", answer.registry_lines()]
    return "\n".join(lines)


def _of_parts(answer: PercentilePlan) -> list[str]:
    """Return what the recommended way says of categories with a part of the users."""
    of_shape = "" if answer.question.people else "  of numbers"
    lines = ["of a category with   percentile       low      high" + of_shape]
    for row in answer.parts:
        ends = (_end(row.percentile.low), _end(row.percentile.high))
        lines.append(
            f"{100 * row.part:>16.3g} % {row.percentile.estimate:>13.4g} {ends[0]:>9} {ends[1]:>9}"
            + (of_shape and f"  {row.like}")
            + "  hopeless" * row.is_hopeless
        )
    if answer.best.is_hopeless:
        needed = answer.users_needed
        more = f"about {needed:,} users are needed" if needed else "no number of users is enough"
        users, by = answer.question.users, len(answer.question.by)
        lines += wrap(f"With {users:,} users {by:,} equal categories are hopeless: {more}.", WIDTH)
    return lines


def _end(number: float) -> str:
    return f"{number:.4g}" if math.isfinite(number) else "-"


def _words(answer: Plan, has_fakes: bool) -> str:
    ask, best, share = answer.question, answer.best, f"{100 * answer.fakes:.4g} %"
    several = f", up to {ask.answers} a user" if ask.answers else ""
    head = (
        f"{ask.domain:,} values{several}, {ask.users:,} users, epsilon {ask.epsilon:g} a report; "
        f"a value held by {100 * ask.frequency:.6g} % ({ask.users * ask.frequency:,.0f} users)"
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
        lines += wrap(f"{name} is refused: {reason}.", WIDTH)
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
    lines += wrap(notes, WIDTH)
    lines += ["", *wrap(in_words(best.epsilon), WIDTH), "", "For metrics.toml (docs/registry.md):"]
    return "\n".join([*lines, "", answer.registry_lines()])


def _solved(answer: Plan) -> str:
    ask = answer.question
    return {
        "users": f"solved: it takes {ask.users:,} users to detect it",
        "epsilon": f"solved: it takes an epsilon of {ask.epsilon:g} to detect it",
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
