"""`ldp publish`: what is new in a store becomes results, for all metrics."""

from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldp.cli.options import DAY, FILE, JSON, REGISTRY, STORE, say
from ldp.errors import ParameterError, ReportError

if TYPE_CHECKING:
    from ldp.collection.object_store import StorePath


@click.command()
@REGISTRY
@click.option(
    "--store",
    "stores",
    required=True,
    multiple=True,
    type=STORE,
    help="Reports: a folder, file:///PATH or s3://BUCKET/PREFIX; again for more.",
)
@click.option("--out", required=True, type=FILE, help="Folder of tables, results and site.")
@click.option(
    "--period",
    type=click.Choice(["day", "week"]),
    default="day",
    show_default=True,
    help="What one row of the results is about, in UTC; weeks begin on Mondays.",
)
@click.option("--since", type=DAY, help="Leave periods alone that begin before this day.")
@click.option("--until", type=DAY, help="Last day that has ended; yesterday in UTC without it.")
@click.option("--csv", type=FILE, help="Copy the results to this CSV file, too.")
@click.option("--duckdb", type=FILE, help="Copy them to this DuckDB file.")
@click.option(
    "--postgres",
    metavar="CONNINFO",
    help="Copy them to this PostgreSQL database, as service=metrics; no password here.",
)
@click.option("--skip-damaged", is_flag=True, help="Leave damaged files out, naming each.")
@JSON
def publish(
    registry: Path,
    stores: "tuple[StorePath, ...]",
    out: Path,
    period: str,
    since: date | None,
    until: date | None,
    csv: Path | None,
    duckdb: Path | None,
    postgres: str | None,
    skip_damaged: bool,
    as_json: bool,
) -> None:
    """Count and decode what is new in the stores, for every metric of the registry.

    Days that have ended and have reports that are not counted yet become kept tables, estimates and
    rows of one data set; reports that come late re-open their day. Run it again as often as you
    like, from cron: a run that is killed is repeated, and a second one beside it ends with an
    error. docs/publishing.md has the rest.

    \b
    Example: ldp publish --registry metrics.toml --store reports --out published
    """
    from ldp.publishing import Job, opened, outputs
    from ldp.publishing import publish as published
    from ldp.publishing.changes import update_changes
    from ldp.publishing.control import broken_builds
    from ldp.publishing.site import write_site
    from ldp.registry import Registry

    today = datetime.now(UTC).date()
    if until is not None and until >= today:
        raise ParameterError("--until must be a day that has ended, in UTC")
    loaded = Registry.load(registry)
    loaded.check(today)
    job = Job(
        registry=loaded,
        stores=stores,
        out=out,
        today=until + timedelta(days=1) if until else today,
        since=since,
        period=period,
        skip_damaged=skip_damaged,
        on_period=lambda counted: None if as_json else click.echo(str(counted)),
    )
    with opened(out, period):
        result = published(job)
        changes = update_changes(out)
        if not as_json:  # now, as they are never new again, whatever becomes of site and copies
            click.echo("".join(f"{change}\n" for change in changes), nl=False)
        deviations = [*broken_builds(job)]
        if not as_json:
            click.echo("".join(f"{deviation}\n" for deviation in deviations), nl=False)
        write_site(job, result, deviations)
        if csv:
            outputs.write_csv(out, csv)
        if duckdb:
            outputs.update_duckdb(out, duckdb)
        if postgres:
            outputs.update_postgres(out, postgres)
    for problem in result.problems:
        click.echo(f"ldp: {problem}", err=True)
    words = f"{len(result.counted)} {period}{'s'[: len(result.counted) != 1]} counted -> {out}"
    report = {
        "counted": [asdict(counted) for counted in result.counted],
        "changes": [asdict(change) for change in changes],
        "broken": [deviation._asdict() for deviation in deviations],
        "problems": [*map(str, result.problems)],
    }
    say(_with_days_as_text(report), words, as_json)
    if result.problems:
        raise ReportError(f"{len(result.problems)} problems, each on a line above")


def _with_days_as_text(report: Any) -> Any:
    if isinstance(report, dict):
        return {name: _with_days_as_text(item) for name, item in report.items()}
    if isinstance(report, list):
        return [*map(_with_days_as_text, report)]
    return str(report) if isinstance(report, date) else report
