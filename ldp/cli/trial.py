"""`ldp try`: what reports of a column of data would say, before anybody is asked."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from ldp.cli.columns import read_column
from ldp.cli.options import FILE, JSON, SEED, aligned, generator, say, wrap
from ldp.cli.parsing import Typed
from ldp.cli.reading import reading_options
from ldp.data_files import MOST_NAMES
from ldp.errors import ParameterError, errors_in
from ldp.files import write_whole
from ldp.protocol.channel import require_epsilon

if TYPE_CHECKING:
    from ldp.planning.column_trial import Trials

LONGEST = 40
MADE = "A simulation, made from the data: nothing here is private."
INTRO = (
    "No device sent these reports: they were drawn from the data. Each estimate has an error, "
    "which this page states."
)


def _epsilons(text: str) -> tuple[float, ...]:
    try:
        return tuple(require_epsilon(float(number)) for number in text.split(","))
    except ValueError:
        raise ParameterError("must be numbers up to 64 with commas between, as 0.5,1,4") from None


@click.command("try")
@click.argument("data", type=FILE, metavar="DATA.csv|DATA.parquet")
@click.option("--column", help="Column to ask for; a file with one column needs none.")
@click.option("--by", help="Column of categories, in each of which the values are asked for.")
@click.option(
    "--epsilon",
    "epsilons",
    type=Typed("numbers", _epsilons),
    default="1,2,4",
    help="Epsilon that a report has; commas separate several.",
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
def trial_command(
    data: Path,
    column: str | None,
    by: str | None,
    epsilons: tuple[float, ...],
    kind: str,
    out: Path | None,
    seed: int | None,
    as_json: bool,
) -> None:
    """Simulate reports of a column of DATA, one a row, and say what they would tell.

    For each epsilon it prints the mechanism that a plan recommends, what its reports find, and the
    error, beside the data and a trusted curator. It says whether it takes the values for categories
    or for numbers. Nothing here is private: all of it is made from the data.

    \b
    Example: ldp try trips.csv --column destination --out try.html
    Example: ldp try trips.csv --column minutes --by destination --epsilon 1,4
    """
    from ldp.planning.column_trial import look_like_numbers, try_column

    name, sheet = read_column(data, column)
    sheet.require_people(name)
    cells = sheet.cells(name)
    heading = repr(name)[1:-1][:MOST_NAMES]
    if kind == "numbers" or (kind == "auto" and look_like_numbers(cells)):
        kind, cells = "numbers", sheet.numbers(name)
    groups = None if by is None else [cell or None for cell in read_column(data, by)[1].cells(by)]
    epsilons = tuple({f"{epsilon:g}": epsilon for epsilon in epsilons}.values())
    with errors_in(data):
        trials = try_column(
            cells, by=groups, epsilon=epsilons, read_as=kind, name=heading, seed=generator(seed)
        )
    heads = [trials.heads] if trials.facts["read_as"] == "numbers" else VALUE_HEADS
    table = aligned([*heads, *trials.cells])
    lines = [trials.about, MADE, "", *table, "", *wrap(trials.notes)]
    if out is not None:
        _write_page(trials, out)
        lines.append(f"-> {out}")
    facts = {**trials.facts, "about": trials.about}
    result = {"simulation": True, **facts, "trials": trials.figures}
    wanted = ["ldp", *sys.argv[1:], "--out", "try.html"]
    following = "" if out else " ".join(["{}"] * len(wanted))
    say(result, lines, as_json, following, *wanted)


VALUE_HEADS = (
    ("", "", "values", "people in", "a value", "std.", "curator's"),
    ("epsilon", "mechanism", "found", "them", "needs about", "error", "std. error"),
)


def _write_page(trials: "Trials", out: Path) -> None:
    """Write the page of `ldp report`. First come the table and the chart of the error by epsilon,
    from `trial.html`, then the estimates at the last epsilon with the truth beside them."""
    from markupsafe import Markup

    from ldp.report import render
    from ldp.report.drawings import Axis
    from ldp.report.page import template
    from ldp.tables.saved import SavedResult

    rows, last = trials.figures, trials.trials[-1]
    floor = Axis(0.0, max(row.get("noise_floor", 0.0) for row in rows) or 1.0)
    marked = [
        {**row, **Axis(0.0, 2 * abs(row["true"]) or 1.0).mark(*_marks(row))}
        if "true" in row
        else {**row, **floor.mark(*[row["noise_floor"]] * 3)}
        for row in rows
    ]
    table, chart = [trials.heads, *trials.cells], Markup(trials.svg())
    page_of = template("ldp.cli", "trial.html").module.trials
    name = trials.facts["column"]
    section = re.sub(r"[/\\\0]", "_", name)[:LONGEST]  # becomes the name of a file
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{section}, epsilon {last.epsilon:g}.csv"
        last.result.to_csv(path)
        page = render(
            [SavedResult.load(path)],
            trials.people.truth(),
            f"{name}: a simulation, made from the data and not private",
            above=page_of(trials.about, table, marked, trials.notes, chart),
            intro=f"{INTRO} Below the chart stands what reports say at epsilon {last.epsilon:g}.",
        )
    write_whole(out, page)


def _marks(row: Mapping[str, Any]) -> list[float | None]:
    """Return the figures of a row that are drawn. Returns None where reports do not tell the
    estimate."""
    estimate = None if "reports_needed" in row else row["estimate"]
    return [estimate, row["low"], row["high"], row["true"]]
