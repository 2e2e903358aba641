"""`ldp compare`: local, shuffled and central on the same population at the same epsilon."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from ldp.cli.options import JSON, SEED, Rows, aligned, generator, say, wrap
from ldp.cli.reading import chosen_reading, reading_options
from ldp.cli.shuffling_words import shuffling_conditions
from ldp.errors import ParameterError
from ldp.files import counted
from ldp.planning.comparison import Comparison, ModelRow, compare_models, shuffled_rivals
from ldp.planning.mechanism_choice import CANDIDATES, OF_NUMBERS
from ldp.protocol.channel import rounded_up
from ldp.registry.odds import epsilon_text
from ldp.simulation import Population


@click.command()
@click.option(
    "--population", required=True, help="CSV file value,count or value,frequency; - reads stdin."
)
@click.option("--epsilon", type=float, required=True, help="Epsilon that each model promises.")
@click.option(
    "--users", type=int, required=True, help="Number of users, who are drawn from the population."
)
@click.option("--delta", type=float, default=1e-8, help="Delta that the shuffled model has.")
@click.option(
    "--bounds",
    type=(float, float),
    metavar="LOW HIGH",
    help="Bounds LOW HIGH of numbers, whose mean is compared.",
)
@click.option("--quantile", type=float, help="Share of the percentile of numbers that is compared.")
@click.option(
    "--mechanism",
    type=click.Choice([*CANDIDATES, *OF_NUMBERS]),
    help="Mechanism that the local model uses, by default the planner's.",
)
@SEED
@JSON
@reading_options
def compare_command(population: str, seed: int | None, as_json: bool, **question: Any) -> None:
    """Compare local reports with what a shuffler or a trusted curator could do.

    It simulates: nothing that it prints is a release.

    \b
    Example: ldp compare --population cities.csv --epsilon 2 --users 100000
    Example: ldp compare --population minutes.csv --bounds 0 1440 --epsilon 2 --users 100000
    Example: ldp compare --population minutes.csv --quantile 0.95 --epsilon 2 --users 100000
    """
    bounds, quantile, mechanism = (question[name] for name in ("bounds", "quantile", "mechanism"))
    if bounds is None and mechanism in OF_NUMBERS:
        raise ParameterError(f"--mechanism {mechanism} is of numbers: give --bounds LOW HIGH")
    are_numbers = bounds is not None or quantile is not None
    read = Population.numbers_from_csv if are_numbers else Population.from_csv
    people = read(population, chosen_reading())
    shared = {**question, "generator": generator(seed)}
    comparison = compare_models(people, **shared)
    rivals: list[ModelRow] = []
    if not are_numbers:
        numbers = {name: shared[name] for name in ("users", "epsilon", "delta", "generator")}
        rows = shuffled_rivals(people, **numbers)
        rivals = [row for row in rows if row.mechanism != comparison.rows[1].mechanism]
    conditions = shuffling_conditions(comparison.shuffled, question["users"], 1)
    result = {
        "simulation": True,
        "users": question["users"],
        "epsilon": question["epsilon"],
        "delta": question["delta"],
        "values": len(people.values),
        "bounds": bounds,
        "quantile": quantile,
        "models": [asdict(row) for row in comparison.rows],
        "rivals_of_shuffled": [asdict(row) for row in rivals],
        "price_of_no_trust": comparison.price,
        "times_more_users": comparison.more_users,
        "conditions_of_shuffling": conditions,
    }
    say(
        result,
        _words(comparison, rivals, len(people.values), conditions, question),
        as_json,
    )


def _words(
    comparison: Comparison,
    rivals: Sequence[ModelRow],
    values: int,
    conditions: Sequence[str],
    question: Mapping[str, Any],
) -> list[str]:
    local, shuffled, central = comparison.rows
    of_mean, quantile = question["bounds"] is not None, question["quantile"]
    unit = (
        "in the units of the numbers"
        if of_mean or quantile
        else "in reports, root mean squares over all values"
    )
    share, wanted = ("range", "mean") if of_mean else ("frequency", "frequency")
    if quantile is not None:
        share, wanted = (f"p{100 * quantile:g}", "percentile")
    table: Rows = [
        ("", "", "epsilon of", "std. error", "", "of a", "times", "of a user", ""),
        f"model,mechanism,a report,predicted,measured,{share},central,messages,bytes".split(","),
        *(_cells(row, central.predicted) for row in (local, shuffled, *rivals, central)),
    ]
    lines = [
        f"A simulation: {values:,} values, {counted(local.users, 'user')}, epsilon "
        f"{local.epsilon:g}; neighbours: replace one value.",
        "",
        *aligned(table),
        "",
    ]
    off = float(f"{100 * max(row.sampling_error for row in comparison.rows):.1g}")
    price = (
        f"The price of no trust: {comparison.price:,.3g} times the curator's error, or "
        f"{comparison.more_users:,.3g} times the users for the same error of a {wanted}. Standard "
        f"errors are {unit}; measured on draws, to {off:g} %."
    )
    shuffling = (
        f"Shuffled: a report of epsilon {_alone(shuffled)} by itself is certified to cost "
        f"{rounded_up(shuffled.epsilon, 6)} (delta {question['delta']:g}) in its batch. It holds "
        "only if"
    )
    lines += [*wrap(price), "", *wrap(shuffling)]
    for condition in conditions:
        lines += wrap(f"- {condition}", "  ")
    link = "A linear regression's: ldp regress DATA.csv --target COLUMN --compare ..."
    return [*lines, *_words_of_dummies(rivals), "", link]


def _words_of_dummies(rivals: Sequence[ModelRow]) -> list[str]:
    if not rivals:
        return []
    slots, sending = (rivals[-1].parameters[name] for name in ("slots", "sending"))
    return wrap(
        f"Dummies: a user sends the value with probability {sending:g} and messages with a value "
        f"drawn at random, {1 + slots} at most. They are certified on the same conditions, each "
        "shuffled by itself, and unlimited to whoever sees them before (docs/messages.md)."
    )


def _alone(row: ModelRow) -> str:
    return "-" if row.local_epsilon is None else epsilon_text(row.local_epsilon, 3)


def _cells(row: ModelRow, central: float) -> tuple[str, ...]:
    is_sent = row.messages is not None
    return (
        *(row.model, row.mechanism, _alone(row)),
        *(f"{row.predicted:,.4g}", f"{row.measured:,.4g}"),
        f"{row.predicted / row.whole:.3g}",
        f"{row.predicted / central:,.3g}",
        *((f"{row.messages:.3g}", f"{row.sent_bytes:,.3g}") if is_sent else ("", "")),
    )
