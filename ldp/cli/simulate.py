"""`ldp simulate`: values become reports, or a table."""

from datetime import date
from pathlib import Path
from typing import Any

import click

from ldp.cli.options import DAY, FILE, JSON, REGISTRY, SEED, current_day, generator, say
from ldp.cli.reading import chosen_reading, reading_options
from ldp.collection import ReportWriter
from ldp.collection.aggregate import with_metric
from ldp.errors import ParameterError
from ldp.files import counted, write_whole
from ldp.protocol.batch import ID_BYTES
from ldp.registry import Metric, Registry
from ldp.registry.explaining import label


@click.command()
@click.argument("metric", required=False)
@REGISTRY
@click.option("--population", help="CSV file value,count or value,frequency; - reads stdin.")
@click.option("--column", help="Column to read of --population, a table with a line a person.")
@click.option(
    "--scenario",
    type=FILE,
    help="TOML file of many days of many metrics, to simulate what they tell.",
)
@click.option(
    "--users", type=int, help="Number of users to sample; by default the counts are as they are."
)
@click.option("--reports", type=FILE, help="Store to add the reports to.")
@click.option("--day", type=DAY, help="Day on which the reports came, by default today.")
@click.option("--table", type=FILE, help="Table to draw at once, without reports.")
@click.option("--truth", type=FILE, help="CSV file to write the true counts to.")
@SEED
@JSON
@reading_options
def simulate_command(
    metric: str | None,
    registry: Path,
    population: str | None,
    column: str | None,
    scenario: Path | None,
    users: int | None,
    reports: Path | None,
    day: date | None,
    table: Path | None,
    truth: Path | None,
    seed: int | None,
    as_json: bool,
) -> None:
    """Simulate METRIC for a population: report by report, or the table at once.

    With --scenario simulate a collection over many days: what it costs people, and what somebody
    learns who links their reports. --reports is then optional, and --truth names a folder.

    \b
    Example: ldp simulate city --registry metrics.toml --population city.csv --reports store
    Example: ldp simulate city --registry metrics.toml --population trips.parquet --column city \\
                 --reports store
    Example: ldp simulate city --registry metrics.toml --population city.csv --users 1000000000 \\
                 --table city.table
    Example: ldp simulate --scenario days.toml --registry metrics.toml --reports store
    """
    if scenario is not None:
        from ldp.cli.scenario import simulate_days

        simulate_days(scenario, registry, reports, truth, seed, as_json)
        return
    assert metric is not None  # without a scenario
    assert population is not None
    from ldp.simulation import Population, draw_reports
    from ldp.simulation.tables import draw_people_table

    known = Registry.load(registry)
    definition = known.metric(metric)
    people = Population.of_metric(definition, population, chosen_reading(), column)
    randomness = generator(seed)
    if users is not None:
        people = people.sample(users, randomness)
    mechanism, total = definition.mechanism, people.users
    of_relay = definition.needs_shuffler and reports is not None
    if of_relay:
        _require_batch(definition, total)
    if truth is not None:
        write_whole(truth, people.mapped(mechanism.label).to_csv())
    if table is not None:
        drawn_table = draw_people_table(mechanism, people, randomness)
        with_metric(drawn_table, definition, label(known, metric)).save(table)
        place = table
    else:
        assert reports is not None
        day = day or current_day()
        with ReportWriter(reports, metric, definition.version, mechanism, day) as writer:
            for rows, payloads in draw_reports(mechanism, people, randomness):
                writer.write(rows, payloads)
        place = writer.path
        if of_relay:
            from ldp.collection.buffer import RelayedReports
            from ldp.collection.ingest import add_size

            sent, name = total * mechanism.messages, randomness.bytes(ID_BYTES)
            add_size(reports, RelayedReports(metric, definition.version, name, sent, sent))
    result: dict[str, Any] = {"metric": metric, "reports": total, "written": str(place)}
    words = f"{counted(total, 'report')} of {metric!r} -> {place}"
    if definition.needs_shuffler:
        result["messages"] = total * mechanism.messages
        words = f"{total:,} people's {result['messages']:,} messages of {metric!r} -> {place}"
    if mechanism.outside == "clip" and (clipped := people.rows_read(mechanism)[1][1]):
        result["clipped"] = clipped
        who = counted(clipped, "person holds", "people hold")
        words += f"\n{who} a number out of bounds; their devices clip it"
    following = f"ldp aggregate {metric} --registry {{1}} {{0}} --out {metric}.table"
    if table is not None:
        following = "ldp decode {} --out estimates.csv"
    say(result, words, as_json, following, table or reports, registry)


def _require_batch(metric: Metric, people: int) -> None:
    """Raise ParameterError for fewer people than the least that make a batch of a relay with its
    default options."""
    from ldp.collection.holding import Holding
    from ldp.privacy_loss import least_reports

    certified = least_reports(metric.mechanism, epsilon=metric.price, delta=Holding.delta)
    if people < (least := max(Holding.smallest, certified)):
        raise ParameterError(
            f"a relay passes on the messages of {least:,} people or more: give --users {least}, or "
            "--table"
        )
