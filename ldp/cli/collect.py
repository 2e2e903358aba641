"""`ldp simulate`, `aggregate` and `merge`: from values to a table."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldp.cli.options import DAY, FILE, JSON, REGISTRY, SEED, generator, progress, say
from ldp.collection import ReportWriter, report_files
from ldp.collection import aggregate as aggregated
from ldp.collection.store import NoReports
from ldp.errors import ParameterError, ReportError
from ldp.files import write_whole
from ldp.mechanisms import Catalogued
from ldp.mechanisms.bit_flip import BitFlip
from ldp.registry import Registry
from ldp.registry.explaining import label
from ldp.tables.joint_table import load_table

if TYPE_CHECKING:
    from ldp.simulation import Population


@click.command()
@click.argument("metric", required=False)
@REGISTRY
@click.option("--population", help='CSV value,count or value,frequency; "-" reads stdin.')
@click.option("--scenario", type=FILE, help="TOML: many days of many metrics, and what they tell.")
@click.option("--users", type=int, help="Sample so many users; without it the counts are fixed.")
@click.option("--reports", type=FILE, help="Store to add the reports to.")
@click.option("--day", type=DAY, help="Day of ingestion of the reports; today without it.")
@click.option("--table", type=FILE, help="Draw the table, no reports.")
@click.option("--truth", type=FILE, help="Also write the true counts there, as CSV.")
@SEED
@JSON
def simulate(
    metric: str | None,
    registry: Path,
    population: str | None,
    scenario: Path | None,
    users: int | None,
    reports: Path | None,
    day: datetime | None,
    table: Path | None,
    truth: Path | None,
    seed: int | None,
    as_json: bool,
) -> None:
    """Simulate METRIC for a population: report by report, or the table at once.

    With --scenario instead: a collection over many days, what it costs people, and what somebody
    learns who links their reports. --reports is then optional, and --truth names a folder.

    \b
    Example: ldp simulate city --registry metrics.toml --population city.csv --reports store
    Example: ldp simulate city --registry metrics.toml --population city.csv --users 1000000000 \\
                 --table city.table
    Example: ldp simulate --scenario days.toml --registry metrics.toml --reports store
    """
    if scenario is not None:
        if any(each is not None for each in (metric, population, users, day, table)):
            raise ParameterError("a scenario says what METRIC and the other options would")
        from ldp.cli.scenario import simulate_days

        simulate_days(scenario, registry, reports, truth, seed, as_json)
        return
    if metric is None or population is None:
        raise ParameterError("give METRIC and --population, or --scenario")
    from ldp.simulation import Population, draw_tables
    from ldp.simulation import simulate as reported

    if (reports is None) == (table is None):
        raise ParameterError("give either --reports or --table")
    if day is not None and reports is None:
        raise ParameterError("--day goes with --reports")
    known = Registry.load(registry)
    asked = known.metric(metric)
    people = Population.from_csv(population).mapped(asked.cleaned)
    randomness = generator(seed)
    if users is not None:
        people = people.sample(users, randomness)
    mechanism, total = asked.mechanism, people.users
    _check_values(population, mechanism, people.values)
    if truth is not None:
        if isinstance(mechanism, BitFlip):
            write_whole(truth, people.mapped(mechanism.label).to_csv())
        else:
            write_whole(truth, people.to_csv())
    if table is not None:
        assert people.counts is not None
        drawn = draw_tables(mechanism, people.values, people.counts, randomness)
        drawn.of_metric(asked.candidates()).labelled(label(known, metric)).save(table)
        place = table
    else:
        assert reports is not None
        shown = progress("reports", total)
        made = reported(mechanism, people, randomness)
        on = day.date() if day else datetime.now(UTC).date()
        with ReportWriter(reports, metric, asked.version, mechanism, on) as writer:
            for rows, payloads in made:
                writer.write(rows, payloads)
                shown(len(rows))
        place = writer.path
    result: dict[str, Any] = {"metric": metric, "reports": total, "written": str(place)}
    words = f"{total:,} reports of {metric!r} -> {place}"
    if clipped := _clipped(mechanism, people):
        result["clipped"] = clipped
        words += f"\n{clipped:,} people hold a number out of bounds; their devices clip it"
    say(result, words, as_json)


def _clipped(mechanism: Catalogued, people: "Population") -> int:
    """How many hold a number that is taken for the nearer bound."""
    if getattr(mechanism, "outside", "refuse") != "clip":
        return 0
    numeric: Any = mechanism
    strict, found = replace(numeric, outside="refuse"), 0
    for value, count in people.truth().items():
        try:
            strict.check(value)
        except ParameterError:
            found += count
    return found


@click.command()
@click.argument("metric")
@click.argument("stores", nargs=-1, required=True, type=FILE)
@REGISTRY
@click.option("--out", required=True, type=FILE, help="Table file to write.")
@click.option("--since", type=DAY, help="First day.")
@click.option("--until", type=DAY, help="Last day.")
@click.option("--workers", type=click.IntRange(1, 256), default=2, show_default=True)
@click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="This machine, or Spark as it is set up; the numbers are the same.",
)
@click.option("--skip-damaged", is_flag=True, help="Leave damaged files out, naming each.")
@JSON
def aggregate(
    metric: str,
    stores: tuple[Path, ...],
    registry: Path,
    out: Path,
    since: datetime | None,
    until: datetime | None,
    workers: int,
    engine: str,
    skip_damaged: bool,
    as_json: bool,
) -> None:
    """Count the stored reports of METRIC into a table.

    What is counted is kept beside it, in OUT.checkpoint, after every 100 files: the same command
    again goes on from there.

    \b
    Example: ldp aggregate city --registry metrics.toml store --out city.table
    Example: ldp aggregate city --registry metrics.toml store --out city.table --engine spark
    """
    known = Registry.load(registry)
    asked = known.metric(metric)
    skipped: list[str] = []

    def skip(error: ReportError) -> None:
        skipped.append(str(error))
        click.echo(f"skipped {error}", err=True)

    first, last = _date(since), _date(until)
    if first and last and last < first:
        raise ParameterError("--until lies before --since")
    with _noting_what_waits(stores, metric, asked.version):
        if engine == "spark":
            from ldp.collection.spark import aggregate_on_spark

            table = aggregate_on_spark(
                stores,
                metric,
                asked.version,
                asked.mechanism,
                since=first,
                until=last,
                dictionary=asked.candidates(),
                memoised=bool(asked.memoise),
                on_damaged=skip if skip_damaged else None,
            )
        else:
            files = len(report_files(stores, metric, asked.version, first, last))
            advance = progress("files", files)
            table = aggregated(
                stores,
                metric,
                asked.version,
                asked.mechanism,
                since=first,
                until=last,
                workers=workers,
                dictionary=asked.candidates(),
                memoised=bool(asked.memoise),
                on_damaged=skip if skip_damaged else None,
                on_file=lambda _: advance(1),
                checkpoint=out.with_name(f"{out.name}.checkpoint"),
            )
    if not table.total:
        raise ReportError(f"no reports of metric {metric!r} could be counted")
    table.labelled(label(known, metric)).save(out)
    result = {"metric": metric, "reports": table.total, "skipped": skipped, "written": str(out)}
    days = f"{len(table.windows)} day{'s' if len(table.windows) > 1 else ''}"
    say(result, f"{table.total:,} reports of {metric!r} from {days} -> {out}", as_json)


@click.command()
@click.argument("tables", nargs=-1, required=True, type=FILE)
@click.option("--out", required=True, type=FILE, help="Table file to write.")
@JSON
def merge(tables: tuple[Path, ...], out: Path, as_json: bool) -> None:
    """Add tables of the same mechanism; exact in any order.

    \b
    Example: ldp merge monday.table tuesday.table --out week.table
    """
    total: Any = load_table(tables[0])
    windows = list(total.windows)
    for path in tables[1:]:  # one at a time: a year of tables may not fit into memory
        table: Any = load_table(path)
        windows += table.windows
        total += table
    if len(set(windows)) < len(windows):
        click.echo("note: some days are in more than one of these tables", err=True)
    total.save(out)
    result = {"tables": len(tables), "reports": total.total, "written": str(out)}
    say(result, f"{len(tables)} tables, {total.total:,} reports -> {out}", as_json)


@contextmanager
def _noting_what_waits(stores: Sequence[Path], metric: str, version: int) -> Iterator[None]:
    """Adds to NoReports how many reports a collector of these stores has not moved yet."""
    try:
        yield
    except NoReports as error:
        from ldp.collection.buffer import waiting_reports

        for store in stores:
            folder = store.with_name(f"{store.name}.buffer")
            if waiting := waiting_reports(folder, metric, version):
                raise NoReports(
                    f"{error}, but {waiting:,} wait in {folder}: ldp collect moves them after its "
                    "--shuffle-longest (1h) if there are --shuffle-smallest (100) of them; to have "
                    "them now, stop it and run it with --drain"
                ) from None
        raise


def _check_values(source: str, mechanism: Catalogued, values: Sequence[str]) -> None:
    """Stops the run, before anything is written, at a value that the mechanism does not know."""
    for number, value in enumerate(values, 1):
        try:
            mechanism.check(value)
        except ParameterError as error:
            raise ParameterError(f"{source}: value {number} of {len(values)}: {error}") from None


def _date(moment: datetime | None) -> date | None:
    return moment.date() if moment else None
