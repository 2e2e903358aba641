"""`ldp try`: what reports of a column of data would say, before anybody is asked."""

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ldp.cli.columns import read_column
from ldp.cli.options import FILE, JSON, SEED, generator, say
from ldp.errors import ParameterError
from ldp.files import write_whole

if TYPE_CHECKING:
    from ldp.planning.trial import OfNumbers, OfValues

WIDTH, LONGEST = 96, 40
QUANTILES = (0.5, 0.95)


class _Numbers(click.ParamType):  # type: ignore[type-arg]
    """Numbers with commas between."""

    name = "numbers"

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[float, ...]:
        try:
            return value if isinstance(value, tuple) else tuple(map(float, str(value).split(",")))
        except ValueError:
            self.fail("must be numbers with commas between, as 1,2,4", parameter, context)


@click.command("try")
@click.argument("data", type=FILE, metavar="DATA.csv|DATA.parquet")
@click.option("--column", help="The column to ask for; the only one without.")
@click.option(
    "--epsilon",
    "epsilons",
    type=_Numbers(),
    default="1,2,4",
    show_default=True,
    help="Of a report; several with commas between.",
)
@click.option(
    "--as",
    "kind",
    type=click.Choice(["auto", "categories", "numbers"]),
    default="auto",
    show_default=True,
    help="How the values are read: auto takes more than 20 different numbers for numbers.",
)
@click.option("--out", type=FILE, help="Page to write, with the truth beside the estimates.")
@SEED
@JSON
def trial(
    data: Path,
    column: str | None,
    epsilons: tuple[float, ...],
    kind: str,
    out: Path | None,
    seed: int | None,
    as_json: bool,
) -> None:
    """Simulate reports of a column of DATA, one a row, and say what they would tell.

    At each epsilon: the mechanism that a plan recommends, what its reports find, and the error,
    beside the data and a trusted curator. Categories or numbers are told apart, and it is said
    which. Nothing here is private: all of it is made from the data.

    \b
    Example: ldp try trips.csv --column destination --out try.html
    Example: ldp try trips.csv --column minutes --epsilon 1,4
    """
    from ldp.mechanisms.numeric import number_of
    from ldp.planning.trial import are_numbers, other_than_numbers, try_numbers, try_values
    from ldp.simulation import Population

    name, cells = read_column(data, column)
    held = Counter(filter(None, cells))
    if not held:
        raise ParameterError(f"{data}: the column {name} has no values")
    people = Population(tuple(held), counts=np.array([*held.values()], dtype=np.int64))
    epsilons = tuple({f"{epsilon:g}": epsilon for epsilon in epsilons}.values())
    of_numbers = kind == "numbers" or (kind == "auto" and are_numbers(people))
    randomness = generator(seed)
    read_as = "numbers" if of_numbers else "categories"
    head = f"{name}: {people.users:,} people, {len(held):,} different values, read as {read_as}"
    if not of_numbers and (others := other_than_numbers(people)):
        head += f", because {others:,} of them are no numbers"
    if empty := len(cells) - people.users:
        head += f"; {empty:,} empty cells left out"
    trials: Sequence[OfNumbers | OfValues]
    if of_numbers:
        trials = try_numbers(people, epsilons, QUANTILES, randomness)
        rows = [row for one_trial in trials for row in _of_numbers(one_trial)]
        lines = _number_lines(rows)
    else:
        trials = try_values(people, epsilons, randomness)
        rows = [_of_values(one_trial) for one_trial in trials]
        lines = _value_lines(rows, people.users)
    if of_numbers and any(number_of(value) < 0 for value in people.values):
        lines.append("Numbers below 0 are taken for 0 here: `signed = true` gives them bins.")
    lines = [head, "A simulation, made from the data: nothing here is private.", "", *lines]
    if out is not None:
        _write_page(trials, people.truth(), name, out)
        lines.append(f"-> {out}")
    result = {
        "simulation": True,
        "column": name,
        "read_as": read_as,
        "people": people.users,
        "values": len(held),
        "empty": empty,
        "trials": rows,
    }
    say(result, "\n".join(lines), as_json, "" if out else f"{_typed(data, column)} --out try.html")


def _typed(data: Path, column: str | None) -> str:
    return f"ldp try {data}" + (f" --column {shlex.quote(column)}" if column else "")


def _of_values(one_trial: "OfValues") -> dict[str, Any]:
    from ldp.planning import report_bytes

    return {
        "epsilon": one_trial.epsilon,
        "mechanism": one_trial.mechanism.name,
        "report_bytes": report_bytes(one_trial.mechanism),
        "detected": one_trial.detected,
        "people_in_detected": one_trial.held,
        "std_error": one_trial.estimates.noise,
        "noise_floor": one_trial.estimates.noise_floor(),
        "curator_std_error": one_trial.curator_std_error,
    }


def _value_lines(rows: Sequence[dict[str, Any]], users: int) -> list[str]:
    lines = [
        "                         values    people in   a value needs    std.   curator's",
        "epsilon  mechanism        found         them       about       error  std. error",
    ]
    for row in rows:
        lines.append(
            f"{row['epsilon']:7g}  {row['mechanism']:<13} {row['detected']:8,} "
            f"{100 * row['people_in_detected']:10.1f} % {row['noise_floor']:11,.0f} "
            f"{row['std_error']:11,.0f} {row['curator_std_error']:11.3g}"
        )
    notes = (
        "Found: told from noise; on average at most 5 % of them are held by nobody. A value needs "
        f"about so many of the {users:,} people to be found half of the time. Std. error: of the "
        "count of a value that few hold. Curator's: of a histogram by somebody who is trusted "
        "with the values, at the same epsilon. The list of values is that of the data: for values "
        "that nobody can list see ldp discover."
    )
    return [*lines, "", *wrap(notes, WIDTH)]


def _of_numbers(one_trial: "OfNumbers") -> list[dict[str, Any]]:
    return [
        {
            "epsilon": one_trial.epsilon,
            "mechanism": one_trial.mechanism.name,
            "statistic": statistic.name,
            "true": true,
            "estimate": statistic.estimate,
            "low": statistic.low,
            "high": statistic.high,
            "curator": curator,
        }
        for statistic, true, curator in zip(
            one_trial.statistics, one_trial.true, one_trial.curator, strict=True
        )
    ]


def _number_lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        f"{'epsilon':>7}  {'mechanism':<23} {'':<5} {'in the data':>12} {'estimate':>10} "
        f"{'95 % interval':>24} {'curator':>10}",
    ]
    for row in rows:
        interval = f"{row['low']:.5g} to {row['high']:.5g}"
        lines.append(
            f"{row['epsilon']:7g}  {row['mechanism']:<23} {row['statistic']:<5} "
            f"{row['true']:12,.6g} {row['estimate']:10,.5g} {interval:>24} {row['curator']:10,.5g}"
        )
    notes = (
        "No device knows the range of the numbers. An infinite end: the reports set none. Curator: "
        "what somebody who is trusted with the numbers would release, at the same epsilon a "
        "percentile. With a known range see ldp plan --numbers --range."
    )
    return [*lines, "", *wrap(notes, WIDTH)]


def _write_page(
    trials: "Sequence[OfNumbers | OfValues]", truth: Mapping[str, int], name: str, out: Path
) -> None:
    """Write the page of `ldp report` with a section an epsilon, and the truth beside it."""
    from ldp.report import load, render

    section = re.sub(r"[/\\\0]", "_", name)[:LONGEST]  # becomes the name of a file
    with TemporaryDirectory() as folder:
        paths = [
            Path(folder) / f"{section}, epsilon {one_trial.epsilon:g}.csv" for one_trial in trials
        ]
        for one_trial, path in zip(trials, paths, strict=True):
            one_trial.save(path)
        page = render(
            [load(path) for path in paths],
            truth,
            f"{name}: a simulation, made from the data and not private",
        )
    write_whole(out, page)
