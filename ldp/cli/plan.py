"""`ldp plan`: what each mechanism would see, before anybody is asked for data."""

from textwrap import wrap

import click

from ldp.accounting.explain import in_words
from ldp.cli.options import JSON, say
from ldp.planning import Forecast, Plan
from ldp.planning import plan as planned

WIDTH = 96


@click.command()
@click.option("--domain", type=int, required=True, help="Number of possible values.")
@click.option("--users", type=int, help="Number of users, one report each.")
@click.option("--epsilon", type=float, help="Privacy loss of one report.")
@click.option("--frequency", type=float, help="Share that holds a value of interest.")
@click.option("--answers", type=int, help="Largest number of values that one user holds.")
@click.option("--max-report-bytes", type=int, help="Of a whole report, header included.")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Error rate.")
@click.option(
    "--power", type=float, default=0.5, show_default=True, help="Chance that detectable means."
)
@JSON
def plan(
    domain: int,
    users: int | None,
    epsilon: float | None,
    frequency: float | None,
    answers: int | None,
    max_report_bytes: int | None,
    alpha: float,
    power: float,
    as_json: bool,
) -> None:
    """Compare the mechanisms, each tuned to the question, and recommend one.

    Leave out one of --users, --epsilon and --frequency, and it is solved for: the least with which
    the recommended mechanism detects a value that this share of the users holds.

    \b
    Example: ldp plan --domain 2600 --users 1000000 --epsilon 4
    Example: ldp plan --domain 2600 --epsilon 4 --frequency 0.001 --max-report-bytes 20
    """
    answer = planned(
        domain=domain,
        users=users,
        epsilon=epsilon,
        frequency=frequency,
        alpha=alpha,
        power=power,
        max_report_bytes=max_report_bytes,
        answers=answers,
    )
    say(answer.to_dict(), _words(answer), as_json)


def _words(answer: Plan) -> str:
    ask, best = answer.question, answer.best
    several = f", up to {ask.answers} a user" if ask.answers else ""
    head = (
        f"{ask.domain:,} values{several}, {ask.users:,} users, epsilon {ask.epsilon:g} a report; "
        f"a value held by {100 * ask.frequency:.6g} % ({ask.users * ask.frequency:,.0f} users)"
    )
    lines = [head, *([_solved(answer)] if answer.solved else []), ""]
    lines += [
        "                   std. error          detectable   times           table   1 % fakes"
        "    50 %    same at",
        "mechanism          rare       there     frequency   bound  bytes    cells        move"
        "  becomes  epsilon",
    ]
    lines += [_line(row, row.mechanism == best.mechanism) for row in answer.forecasts]
    lines.append("")
    for name, reason in answer.refused.items():
        lines += wrap(f"{name} is refused: {reason}.", WIDTH)
    notes = (
        f"*: recommended, as the smallest report of those within 2.5 % of the least standard "
        f"error there. Standard errors are in reports; a detectable value is found with "
        f"probability {ask.power:g} when all {ask.domain:,} are tested at {ask.alpha:g} "
        f"(Bonferroni). Bound: the least mean variance over all values of any unbiased mechanism. "
        f"1 % fakes move: what they add to a frequency of their choice, in percent of all. 50 % "
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
