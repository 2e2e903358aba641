"""`ldp central`: the release of a trusted curator about a metric, beside the local estimate."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldp.accounting.cost_composition import exact_sum
from ldp.cli.estimates import check_output
from ldp.cli.options import (
    FILE,
    JSON,
    LEVEL,
    QUANTILES,
    REGISTRY,
    SEED,
    aligned,
    generator,
    require_local,
    say,
    wrap,
)
from ldp.cli.reading import chosen_reading, reading_options
from ldp.errors import require_share
from ldp.files import counted, csv_text, finite, write_whole
from ldp.protocol.channel import rounded_up
from ldp.registry.odds import epsilon_text
from ldp.tables.result import write_with_summary

if TYPE_CHECKING:
    from ldp.planning.twin import Twin

SHOWN = 20
NUMBERS = ("estimate", "std_error", "low", "high")
COLUMNS = ("value", *NUMBERS, *(f"local_{name}" for name in NUMBERS))


@click.command()
@click.argument("metric")
@REGISTRY
@click.option("--data", type=FILE, required=True, help="CSV file value,count that people hold.")
@click.option("--table", type=FILE, help="Table of reports; by default it is drawn from --data.")
@click.option("--epsilon", type=float, help="Epsilon to spend, by default the metric's own.")
@click.option(
    "--delta", type=float, default=1e-8, help="Delta of the release of strings that no list names."
)
@QUANTILES
@LEVEL
@click.option("--out", default="-", help="CSV file, or page FILE.html, to write both answers to.")
@SEED
@JSON
@reading_options
def central_command(
    metric: str,
    registry: Path,
    data: Path,
    table: Path | None,
    epsilon: float | None,
    delta: float,
    quantiles: tuple[float, ...],
    level: float,
    out: str,
    seed: int | None,
    as_json: bool,
) -> None:
    """Release what METRIC would have said under a trusted curator, beside the local estimate.

    It releases the mean of numbers, or percentiles where the metric has them; a histogram of values
    from a list; and of other strings those whose noisy count reaches a threshold. The noise is
    OpenDP's, fresh in every run. Every run costs its epsilon again. With --seed all is a
    simulation. The number of people is public. A line of --data is a person or several: an answer
    that the metric does not take is unreadable, and counts as the middle of the bounds, or not at
    all. 1 to 10 % of epsilon pays for noisy shares of what was read, clipped and unreadable. Where
    half or more is unreadable, nothing is released. Without --table the reports are simulated from
    the data: then publish only the curator's columns.

    \b
    Example: ldp central city --registry metrics.toml --data city.csv
    Example: ldp central city --registry metrics.toml --data city.csv --table city.table
    """
    from ldp.central import Releases, Simulated
    from ldp.central.rows_read import epsilon_of_rows, release_rows_read
    from ldp.planning.twin import central_twin, require_countable
    from ldp.registry import Registry
    from ldp.simulation import Population
    from ldp.tables.joint_table import load_table

    require_share(delta, "--delta")
    check_output("-" if out.endswith(".html") else out, level)
    definition = Registry.load(registry).metric(metric)
    require_local(definition, "ldp central")
    reading = chosen_reading()._replace(is_private=True)
    people = Population.of_metric(definition, data, reading)
    require_countable(definition, people)
    readable, counts = people.rows_read(definition.mechanism)
    epsilon = definition.price if epsilon is None else epsilon
    left = epsilon - epsilon_of_rows(epsilon, people.users)
    randomness = generator(seed)
    noise: Any = Releases() if seed is None else Simulated(randomness)
    twin = central_twin(
        definition,
        readable,
        None if table is None else load_table(table),
        epsilon=left,
        delta=delta,
        level=level,
        quantiles=quantiles,
        noise=noise,
        generator=randomness,
    )
    neighbours = twin.released.cost.neighbours
    read = release_rows_read(counts, epsilon=epsilon, neighbours=neighbours, noise=noise)
    read.require()
    summary = {
        "metric": metric,
        "kind": twin.kind,
        "simulation": twin.released.is_simulation,
        "local_is_simulated": table is None,
        "people": people.users,
        "epsilon": exact_sum([read.epsilon, twin.released.cost.epsilon]),
        "delta": twin.released.cost.delta,
        "neighbours": twin.released.cost.neighbours.value,
        "threshold": getattr(twin.released, "threshold", None),
        "level": level,
        "local_epsilon": definition.price,
        "no_local": twin.no_local,
        "rows_read": read.summary,
    }
    cost = f"{read.words} {_cost(summary)}"
    # else nobody sees them
    rows = finite([*twin.rows()] if as_json or out != "-" else [])
    lines = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    if out.endswith(".html"):
        _write_page(Path(out), summary, lines, cost)
    elif out != "-":
        write_with_summary(Path(out), csv_text([COLUMNS, *rows]), summary)
    say({**summary, "lines": lines}, _words(summary, twin, out, cost), as_json)


def _words(summary: dict[str, Any], twin: "Twin", out: str, cost: str) -> list[str]:
    head = "A simulation: " if summary["simulation"] else ""
    table = [("", "curator", "std. error", "local", "std. error")]
    for name, *curator, local, error, _, _ in twin.rows(SHOWN):
        table.append((name[:24], *_pair(*curator[:2]), *_pair(local, error)))
    people = counted(summary["people"], "person", "people")
    of = f"{head}{summary['metric']}: {twin.kind} of {people}"
    lines = [of, "", *aligned(table)]
    if len(twin.names) > SHOWN:
        lines.append(
            f"... and {len(twin.names) - SHOWN:,} more: --out FILE has all, with intervals"
        )
    written = [] if out == "-" else [f"-> {out}"]
    return [*lines, "", *wrap(cost), *written]


def _cost(summary: dict[str, Any]) -> str:
    """Return sentences that state the cost of a release, and what its local columns are."""
    cost = (
        f"The curator's release costs epsilon {rounded_up(summary['epsilon'], 6)}, delta "
        f"{rounded_up(summary['delta'], 6)}, every time; neighbours: {summary['neighbours']}; the "
        "number of people is public. "
    )
    if summary["no_local"]:
        cost += f"No local estimate: {summary['no_local']}. "
    if summary["threshold"] is not None:
        cost += f"Strings of a noisy count below {summary['threshold']:,} are not released. "
    if summary["local_is_simulated"]:
        cost += "The local columns are simulated from the data: do not publish them."
    else:
        local = epsilon_text(summary["local_epsilon"], 6)
        cost += f"The local columns come from reports of epsilon {local}."
    return cost


def _write_page(
    path: Path, summary: dict[str, Any], lines: list[dict[str, Any]], cost: str
) -> None:
    """Write the page of both answers, with the first `MOST_ROWS` of them."""
    from ldp.report import render
    from ldp.report.page import MOST_ROWS, template

    more = max(0, len(lines) - MOST_ROWS)
    marked = _marked(lines[:MOST_ROWS])
    above = template("ldp.cli", "central.html").module.answers(summary, marked, cost, more)
    kind = "a simulation" if summary["simulation"] else "a release"
    title = f"{summary['metric']}: {kind} of a trusted curator"
    write_whole(path, render([], title=title, above=above))


def _marked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with the marks of the local answers, and of the curator's as the truth, on an
    axis that has all estimates, and intervals up to twice the largest."""
    from ldp.report.drawings import Axis

    names = ("estimate", "local_estimate")
    numbers = [row[name] for row in rows for name in names if row[name] is not None] + [0.0]
    highs = [row["local_high"] for row in rows if row["local_high"] is not None]
    low, high = min(numbers), min(max(highs + numbers), 2 * max(numbers))
    axis = Axis(low, high if high > low else low + 1)
    marked = []
    for row in rows:
        has_local, known = row["local_estimate"] is not None, row["estimate"]
        ends = (row["local_low"], row["local_high"]) if has_local else (known, known)
        marked.append({**row, **axis.mark(row["local_estimate"], *ends, known)})
    return marked


def _pair(estimate: float, std_error: float) -> tuple[str, str]:
    error = "open" if math.isnan(std_error) else f"{std_error:,.4g}"
    return ("", "") if math.isnan(estimate) else (f"{estimate:,.6g}", error)
