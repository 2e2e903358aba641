"""`ldp aggregate`: stored reports become a table."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import click

from ldp.cli.options import DAY, FILE, JSON, REGISTRY, STORE, check_days, say
from ldp.cli.settings import rare
from ldp.collection import aggregate as aggregated
from ldp.collection.aggregate import with_metric
from ldp.collection.object_store import StorePath
from ldp.collection.sql import DIALECTS, counting_query
from ldp.collection.store import NoReports
from ldp.decoding.report_patterns import require_decodable
from ldp.errors import ParameterError, ReportError
from ldp.files import counted
from ldp.registry import Metric, Registry
from ldp.registry.explaining import label


@contextmanager
def _noting_what_waits(stores: Sequence[StorePath], metric: str, version: int) -> Iterator[None]:
    """Add to NoReports how many reports a collector of these stores has not moved yet."""
    try:
        yield
    except NoReports as error:
        from ldp.collection.buffer import waiting_reports

        for store in (store for store in stores if isinstance(store, Path)):
            folder = Path(f"{store}.buffer")
            if waiting := waiting_reports(folder, metric, version):
                raise NoReports(
                    f"{error}, but {waiting:,} wait in {folder}: ldp collect moves them later, or "
                    "now with --drain (docs/operating.md)"
                ) from None
        raise


@click.command()
@click.argument("metric")
@click.argument("stores", nargs=-1, required=True, type=STORE)
@REGISTRY
@click.option("--out", type=FILE, help="Table file to write, unless --sql prints a query.")
@click.option("--since", type=DAY, help="Oldest day to include, as 2026-01-31.")
@click.option("--until", type=DAY, help="Newest day to include.")
@click.option("--workers", type=click.IntRange(1, 256), default=2, help="Threads that count.")
@click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    help="Engine that counts: this machine, or Spark as it is set up; the numbers are the same.",
)
@click.option(
    "--whole",
    is_flag=True,
    help="Keep the whole reports in the table, as for RAPPOR of up to 8 bits, whose decoder finds "
    "more with them; joint metrics and rappor-ngrams need them and have them always.",
)
@click.option("--skip-damaged", is_flag=True, help="Leave damaged files out, naming each.")
@click.option(
    "--sql",
    type=click.Choice([*DIALECTS]),
    help="Count nothing, and print a query for counts, as ldp table import reads them, or with "
    "--estimates for estimates.",
)
@rare(
    "--estimates",
    bool,
    False,
    "End the query of --sql in value, estimate, std_error, low and high, as ldp decode has them.",
    is_flag=True,
)
@JSON
def aggregate_command(
    metric: str,
    stores: tuple[StorePath, ...],
    registry: Path,
    out: Path | None,
    since: date | None,
    until: date | None,
    workers: int,
    engine: str,
    whole: bool,
    skip_damaged: bool,
    sql: str | None,
    estimates: bool,
    as_json: bool,
) -> None:
    """Count the stored reports of METRIC into a table.

    \b
    Example: ldp aggregate city --registry metrics.toml store --out city.table
    Example: ldp aggregate city --registry metrics.toml store --out city.table --engine spark
    Example: ldp aggregate city --registry metrics.toml store --sql duckdb
    """
    known = Registry.load(registry)
    definition = known.metric(metric)
    skipped: list[str] = []

    def skip(error: ReportError) -> None:
        skipped.append(str(error))
        click.echo(f"skipped {error}", err=True)

    check_days(since, until)
    if sql:
        if sql != "duckdb" and (since or until):
            raise ParameterError(f"the table that --sql {sql} counts has no days: leave them out")
        with _noting_what_waits(stores, metric, definition.version):
            question = sql, metric, definition.version, definition.mechanism
            query = counting_query(*question, stores, since, until, estimates)
        say({"query": query}, query.rstrip("\n"), as_json)
        return
    assert out is not None  # one of both
    mechanism = definition.mechanism
    reports = stores, metric, definition.version, mechanism
    most = _most_a_day(known, definition)
    if whole and not mechanism.needs_whole:
        require_decodable(mechanism)
        if most > 1:
            raise ParameterError(
                f"--whole: {metric} is memoised, and a device may send several reports a day"
            )
    whole = whole or mechanism.needs_whole
    if whole and engine == "spark":
        raise ParameterError("tables that hold whole reports are counted on one machine")
    shared: dict[str, Any] = {
        "since": since,
        "until": until,
        "memoised": bool(definition.memoise),
        "on_damaged": skip if skip_damaged else None,
    }
    with _noting_what_waits(stores, metric, definition.version):
        if engine == "spark":
            from ldp.collection.spark import aggregate_on_spark

            table = aggregate_on_spark(*reports, **shared)
        else:
            table = aggregated(*reports, **shared, workers=workers, whole=whole)
    if not table.total:
        raise ReportError(f"no reports of metric {metric!r} could be counted")
    table = with_metric(table, definition, label(known, metric))
    table.save(out)
    result = {"metric": metric, "reports": table.total, "skipped": skipped, "written": str(out)}
    days = counted(len(table.windows), "day")
    words = f"{counted(table.total, 'report')} of {metric!r} from {days} -> {out}"
    if table.whole is not None:
        words += f"\nwith {len(table.whole.counts):,} different whole reports"
    elif whole:
        words += "\nwithout whole reports: those of a memoised metric are kept of one day only"
    if most > 1 and len(table.windows) == 1:
        words += (
            f"\na device may send {most} reports a day, which share noise: decode with "
            f"--weighted-reports-per-client {min(most, table.total)}"
        )
    say(result, words, as_json, "ldp decode {} --out estimates.csv", out)


def _most_a_day(registry: Registry, metric: Metric) -> int:
    """Return the most reports about one memoised response that a device sends on a day. It is 1 for
    a metric that is not memoised."""
    window = registry.groups[metric.group].caps.window
    return metric.reports_of_one(timedelta(days=1), window) if metric.memoise else 1
