"""`ldp table`: tables from the counts of other systems."""

from datetime import date
from pathlib import Path

import click

from ldp.cli.options import DAY, FILE, JSON, REGISTRY, say
from ldp.cli.reading import chosen_reading, reading_options
from ldp.errors import ParameterError
from ldp.files import counted


@click.group()
def table_command() -> None:
    """Make a table from counts that a database or another system made.

    \b
    Example: ldp table import city counts.csv --registry metrics.toml --out city.table
    """


@table_command.command("import")
@click.argument("metric")
@click.argument("counts", type=FILE)
@REGISTRY
@click.option("--day", "days", type=DAY, multiple=True, help="Day of collection; may be repeated.")
@click.option("--out", required=True, type=FILE, help="Table file to write.")
@JSON
@reading_options
def import_counts(
    metric: str,
    counts: Path,
    registry: Path,
    days: tuple[date, ...],
    out: Path,
    as_json: bool,
) -> None:
    """Make the table of METRIC from COUNTS, a CSV file row,column,count: a line for each cell. A
    line without a column has the number of reports of its row.

    \b
    Example: ldp table import city counts.csv --registry metrics.toml --out city.table
    """
    from ldp.collection.aggregate import with_metric
    from ldp.collection.sql import read_counts
    from ldp.mechanisms import Mechanism
    from ldp.registry import Registry
    from ldp.registry.explaining import label

    known = Registry.load(registry)
    definition = known.metric(metric)
    if not isinstance(definition.mechanism, Mechanism):
        raise ParameterError(f"{metric}: its reports have several parts, and a table each")
    added = read_counts(counts, definition.mechanism, map(str, days), chosen_reading())
    with_metric(added, definition, label(known, metric)).save(out)
    words = f"{counted(added.total, 'report')} of {metric!r} -> {out}"
    say({"metric": metric, "reports": added.total, "written": str(out)}, words, as_json)
