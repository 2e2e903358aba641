"""`ldp try`: what reports of a column of data would say, before anybody is asked."""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ldp.cli.columns import read_column
from ldp.cli.options import FILE, JSON, SEED, generator, say
from ldp.cli.parsing import Typed
from ldp.cli.reading import reading_options
from ldp.data_files import number_forms
from ldp.errors import ParameterError
from ldp.files import write_whole

if TYPE_CHECKING:
    from ldp.planning.trial import Trial
    from ldp.simulation import Population

WIDTH, LONGEST = 96, 40
MOST_DIFFERENT = 100_000
"""Most different categories; so many different numbers are rounded, and take seconds then."""
QUANTILES = (0.5, 0.95)
MADE = "A simulation, made from the data: nothing here is private."
INTRO = (
    "No device sent these reports: they were drawn from the data. The estimates are worked out "
    "from all of them together, and each has an error, which this page states."
)


def _epsilons(text: str) -> tuple[float, ...]:
    try:
        return tuple(map(float, text.split(",")))
    except ValueError:
        raise ParameterError("must be numbers with commas between, as 1,2,4") from None


@click.command("try")
@click.argument("data", type=FILE, metavar="DATA.csv|DATA.parquet")
@click.option("--column", help="Column to ask for; a file with one column needs none.")
@click.option(
    "--epsilon",
    "epsilons",
    type=Typed("numbers", _epsilons),
    default="1,2,4",
    help="Epsilon of a report; several with commas between.",
)
@click.option(
    "--as",
    "kind",
    type=click.Choice(["auto", "categories", "numbers"]),
    default="auto",
    help="Way in which values are read: auto takes more than 20 different numbers for numbers.",
)
@click.option("--out", type=FILE, help="Page to write, with the truth beside the estimates.")
@SEED
@JSON
@reading_options
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
    from ldp.mechanisms.numeric import is_number, number_of
    from ldp.planning.trial import FEW_NUMBERS, are_numbers, try_numbers, try_values
    from ldp.report.formats import counted

    name, sheet = read_column(data, column)
    cells = sheet.cells(name)
    if not any(cells):
        raise ParameterError(f"{data}: the column {name} has no values")
    epsilons = tuple({f"{epsilon:g}": epsilon for epsilon in epsilons}.values())
    likely = (next(iter(number_forms(cell).values()), cell) for cell in cells)
    of_numbers = are_numbers(_people(likely)) if kind == "auto" else kind == "numbers"
    if of_numbers:
        cells = sheet.numbers(name)
    people = _people(cells)
    held = people.truth()
    others = [value for value in held if not is_number(value)]
    if of_numbers and len(others) == len(held):
        raise ParameterError(f"{data}: no cell of {name} is a number; leave out --as numbers")
    different = len(held)
    if not of_numbers and different > MOST_DIFFERENT:
        raise ParameterError(
            f"{data}: {name} has {different:,} different values, and ldp try takes "
            f"{MOST_DIFFERENT:,} at most: take a part of the rows, or see sfp, prefix and "
            "rappor-ngrams for values that nobody lists"
        )
    randomness = generator(seed)
    read_as = "numbers" if of_numbers else "categories"
    empty, left_out = len(cells) - people.users, 0
    if of_numbers:
        left_out = sum(held.pop(value) for value in others)
        people = _people(filter(is_number, cells))
    head = f"{name}: {people.users:,} people, {len(held):,} different values, read as {read_as}"
    if of_numbers and different > MOST_DIFFERENT:
        people = people.mapped(lambda value: f"{number_of(value):.4g}")
        head += " of 4 digits"
    if not of_numbers and others and len(held) - len(others) > FEW_NUMBERS:
        head += f", because {len(others):,} of them are no numbers, as {_first(cells, others)}"
    if empty:
        head += f"; {counted(empty, 'empty cell')} left out"
    if left_out:
        without = counted(left_out, "cell")
        head += f"; {without} without a number left out, as {_first(cells, others)}"
    if of_numbers:
        trials = try_numbers(people, epsilons, QUANTILES, randomness)
    else:
        trials = try_values(people, epsilons, randomness)
    rows = [row for one_trial in trials for row in one_trial.rows]
    columns = NUMBER_CELLS if of_numbers else VALUE_CELLS
    texts = (
        [form.format(**row, interval=_interval(row)) for form in columns.values()] for row in rows
    )
    table = [[*columns], *([cell.replace("%", " %") for cell in line] for line in texts)]
    if of_numbers:
        lines, notes = [NUMBER_LINE.format(*line) for line in table], NUMBER_NOTES
    else:
        lines = [*VALUE_HEAD_LINES, *(VALUE_LINE.format(*line) for line in table[1:])]
        notes = VALUE_NOTES.format(people.users)
    if of_numbers and any(number_of(value) < 0 for value in people.values):
        notes += " Numbers below 0 are taken for 0 here: `signed = true` gives them bins."
    lines = [head, MADE, "", *lines, "", *wrap(notes, WIDTH)]
    if out is not None:
        _write_page(trials, people.truth(), name, (head, table, rows, notes), out)
        lines.append(f"-> {out}")
    result = {
        "simulation": True,
        "column": name,
        "read_as": read_as,
        "people": people.users,
        "values": len(held),
        "empty": empty,
        "left_out": left_out,
        "trials": rows,
    }
    say(result, "\n".join(lines), as_json, "" if out else f"{_typed(data, column)} --out try.html")


def _people(cells: Iterable[str]) -> "Population":
    """Return the people of `cells`, of whom one has none where it is empty."""
    from ldp.simulation import Population

    held = Counter(filter(None, cells))
    return Population((*held,), counts=np.array([*held.values()], dtype=np.int64))


def _interval(row: Mapping[str, Any]) -> str:
    """Return the interval of a percentile as text; "" for a row of counts, which has none."""
    from ldp.tables.statistics import known_ends

    if "low" not in row:
        return ""
    low, high = known_ends(row["low"], row["high"])
    if low is not None and high is not None:
        return f"{low:.5g} to {high:.5g}"
    beyond = [(word, end) for word, end in (("above", low), ("below", high)) if end is not None]
    return " ".join(["not known", *(f"{word} {end:.5g}" for word, end in beyond)])


def _typed(data: Path, column: str | None) -> str:
    return f"ldp try {data}" + (f" --column {shlex.quote(column)}" if column else "")


VALUE_HEAD_LINES = (
    "                         values    people in   a value needs    std.   curator's",
    "epsilon  mechanism        found         them       about       error  std. error",
)
VALUE_LINE = "{:>7}  {:<13} {:>8} {:>12} {:>11} {:>11} {:>11}"
VALUE_CELLS = {
    "epsilon": "{epsilon:g}",
    "mechanism": "{mechanism}",
    "values found": "{detected:,}",
    "people in them": "{people_in_detected:.1%}",
    "a value needs about": "{noise_floor:,.0f}",
    "std. error": "{std_error:,.0f}",
    "curator's std. error": "{curator_std_error:.3g}",
}
"""Heading of a column -> its cells, of the figures of a row."""
VALUE_NOTES = (
    "Found: told from noise; on average at most 5 % of them are held by nobody. A value needs "
    "about so many of the {:,} people to be found half of the time. Std. error: of the "
    "count of a value that few hold. Curator's: of a histogram by somebody who is trusted "
    "with the values, at the same epsilon. The list of values is that of the data: for values "
    "that nobody can list see sfp, prefix and rappor-ngrams."
)
NUMBER_CELLS = {
    "epsilon": "{epsilon:g}",
    "mechanism": "{mechanism}",
    "": "{statistic}",
    "in the data": "{true:,.6g}",
    "estimate": "{estimate:,.5g}",
    "95 % interval": "{interval}",
    "curator": "{curator:,.5g}",
}
NUMBER_LINE = "{:>7}  {:<23} {:<5} {:>12} {:>10} {:>24} {:>10}"
NUMBER_NOTES = (
    "No device knows the range of the numbers. Not known above: the reports set no end. Curator: "
    "what somebody who is trusted with the numbers would release, at the same epsilon a "
    "percentile. With a known range see ldp plan number --range."
)


MARKED = ("estimate", "low", "high", "true")
"""Figures of a row that are drawn."""


def _first(cells: Sequence[str], others: Sequence[str]) -> str:
    """Return the first cell that is one of `others`, with its row, as text."""
    return f"{others[0][:LONGEST]!r} in row {cells.index(others[0]) + 1:,}"


def _write_page(
    trials: "Sequence[Trial]",
    truth: Mapping[str, int],
    name: str,
    compared: tuple[Any, ...],
    out: Path,
) -> None:
    """Write the page of `ldp report`: what `trial.html` makes of the table, then a section an
    epsilon, and the truth beside it."""
    from markupsafe import Markup

    from ldp.report import render
    from ldp.report.drawings import Axis
    from ldp.report.page import environment
    from ldp.tables.saved import SavedResult

    head, table, rows, notes = compared
    floor = Axis(0.0, max(row.get("noise_floor", 0.0) for row in rows) or 1.0)
    marked = [
        {**row, **Axis(0.0, 2 * abs(row["true"]) or 1.0).mark(*map(row.get, MARKED))}
        if "true" in row
        else {**row, **floor.mark(*[row["noise_floor"]] * 3)}
        for row in rows
    ]
    macros: Any = environment("ldp.cli").get_template("trial.html").module
    section = re.sub(r"[/\\\0]", "_", name)[:LONGEST]  # becomes the name of a file
    with TemporaryDirectory() as folder:
        paths = [
            Path(folder) / f"{section}, epsilon {one_trial.epsilon:g}.csv" for one_trial in trials
        ]
        for one_trial, path in zip(trials, paths, strict=True):
            one_trial.result.to_csv(path)
        page = render(
            [SavedResult.load(path) for path in paths],
            truth,
            f"{name}: a simulation, made from the data and not private",
            above=Markup(macros.trials(head, table, marked, notes)),
            intro=INTRO,
        )
    write_whole(out, page)
