"""`ldp publish`: new reports in a store become results, for all metrics."""

import json
import os
import re
from dataclasses import asdict
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldp.cli.options import DAY, FILE, JSON, REGISTRY, STORE, check_days, current_day, say
from ldp.cli.parsing import SHARE, Typed
from ldp.cli.settings import CONFIG, rare
from ldp.errors import ParameterError, ReportError, from_extra

if TYPE_CHECKING:
    from ldp.collection.object_store import StorePath
    from ldp.registry import Registry

MOST_JOBS = 4
"""Most processes if `jobs` is not set: each takes the memory of a run."""


def _period(text: str) -> str:
    """Return the period that a text states: day, week or a number of days such as 28d."""
    if text in ("day", "week") or re.fullmatch("[1-9][0-9]{0,3}d", text):
        return "day" if text == "1d" else text
    raise ParameterError("must be day, week, or a number of days such as 28d")


@click.command()
@CONFIG
@REGISTRY
@click.option(
    "--store",
    "stores",
    required=True,
    multiple=True,
    type=STORE,
    help="Store of reports: a folder, file:///PATH or s3://BUCKET/PREFIX; may be repeated.",
)
@click.option(
    "--out", required=True, type=FILE, help="Folder to write tables, results and the site into."
)
@click.option("--until", type=DAY, help="Newest day to publish, by default yesterday in UTC.")
@click.option("--csv", type=FILE, help="CSV file to copy the results to.")
@click.option("--duckdb", type=FILE, help="DuckDB file to copy the results to.")
@click.option("--skip-damaged", is_flag=True, help="Leave damaged files out, naming each.")
@rare(
    "--period",
    Typed("PERIOD", _period),
    "day",
    "Period, in UTC, that a row is about: day, week, or a number of days such as 28d.",
)
@rare("--metric", str, (), "Metrics to publish, by default all: those of one length of window.")
@rare("--since", DAY, None, "First day on which a period may begin that is published.")
@rare("--fakes", SHARE, None, "Share of the reports that may be made up.")
@rare("--postgres", str, None, "PostgreSQL database to copy to, as service=metrics.")
@rare("--arms", str, (), "Pairs METRIC:METRIC, arms of experiments, that are compared.")
@rare("--jobs", click.IntRange(1, 64), None, "Number of processes that count, by default up to 4.")
@JSON
def publish_command(
    registry: Path,
    stores: "tuple[StorePath, ...]",
    out: Path,
    period: str,
    metric: tuple[str, ...],
    since: date | None,
    until: date | None,
    csv: Path | None,
    duckdb: Path | None,
    postgres: str | None,
    arms: tuple[str, ...],
    jobs: int | None,
    fakes: Fraction | None,
    skip_damaged: bool,
    as_json: bool,
) -> None:
    """Count and decode what is new in the stores, for every metric of the registry.

    Every day that has ended and has uncounted reports becomes a kept table, estimates and rows of
    one data set. Reports that come late re-open their day. Run it as often as you like, from cron:
    a run that is killed is repeated, and a second one beside it ends with an error. With the
    setting fakes, intervals hold for the honest reports, whatever the made-up ones say. A row is
    about a day, a week, or several days (period = "28d"). docs/publishing.md has the rest.

    \b
    Example: ldp publish --registry metrics.toml --store reports --out published
    Example: ldp publish --registry metrics.toml --store reports --out published --csv all.csv
    """
    from ldp.files import counted
    from ldp.publishing import Job, opened, outputs
    from ldp.publishing import publish as published
    from ldp.publishing.changes import update_changes
    from ldp.publishing.control import broken_builds
    from ldp.publishing.experiments import write_differences
    from ldp.publishing.period import passing_by
    from ldp.publishing.publish import counted_periods
    from ldp.publishing.series import update_series
    from ldp.publishing.site import write_site
    from ldp.registry import Registry
    from ldp.tables.fakes import fake_reports

    if postgres is not None:
        _require_no_password(postgres)
    check_days(since, until)
    today = current_day()
    if until is not None and until >= today:
        raise ParameterError("--until must be a day that has ended, in UTC")
    share = None if fakes is None else float(fakes)
    # raises for a share out of range
    fake_reports(0, share or 0.0)

    whole = Registry.load(registry)
    chosen = whole._replace(metrics={m: whole.metric(m) for m in metric or whole.metrics})
    chosen.check(today)
    job = Job(
        registry=chosen,
        stores=stores,
        out=out,
        today=until + timedelta(days=1) if until else today,
        since=since,
        period=period,
        skip_damaged=skip_damaged,
        fakes=share,
        processes=jobs or min(MOST_JOBS, os.cpu_count() or 1),
        on_period=lambda done: None if as_json else click.echo(done),
    )
    pairs = [_pair(pair, job.registry) for pair in arms]
    with opened(out, period) as lock:
        result = published(job, lock)
        update_series(out, result.problems)
        changes = update_changes(out, result.problems)
        for change in () if as_json else changes:  # now: they are never new again
            click.echo(change)
        deviations = [*broken_builds(job, result.problems)]
        for deviation in () if as_json else deviations:
            click.echo(deviation)
        experiments = []
        for pair in pairs:
            # such as no common day yet
            with passing_by(result.problems, ":".join(pair)):
                experiments.append(write_differences(out, *pair))
        with passing_by(result.problems, "site"):
            write_site(job, result, deviations, experiments)
        copies: Any = (
            ("csv", csv, outputs.write_csv),
            ("duckdb", duckdb, outputs.update_duckdb),
            ("postgres", postgres, outputs.update_postgres),
        )
        for kind, place, write in copies:
            with passing_by(result.problems, kind):
                if place is not None:
                    write(out, place, result.problems)
    for e in () if as_json else experiments:
        for difference in filter(lambda d: d.is_real, e.differences):
            click.echo(f"{e.name}: {difference}")
    for problem in result.problems:
        click.echo(f"ldp: {problem}", err=True)
    words = f"{counted_periods(len(result.counted), period)} counted -> {out}"
    report = {
        "counted": [asdict(done) for done in result.counted],
        "changes": [asdict(change) for change in changes],
        "broken": [deviation._asdict() for deviation in deviations],
        "arms": {e.name: [d._asdict() for d in e.differences] for e in experiments},
        "problems": [*map(str, result.problems)],
    }
    say(json.loads(json.dumps(report, default=str)), words, as_json)
    if result.problems:
        raise ReportError(f"{counted(len(result.problems), 'problem')}, each on a line above")


def _require_no_password(conninfo: str) -> None:
    """Raise ParameterError for what libpq does not read, and for a password."""
    with from_extra("postgres", "publish"):
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    try:
        keys = conninfo_to_dict(conninfo)
    except ProgrammingError:  # it may repeat a password
        raise ParameterError("postgres must be as libpq reads it, as service=metrics") from None
    if any(key.endswith("password") for key in keys):
        raise ParameterError(
            "postgres has a password, which whoever reads the settings can read: write it "
            "to ~/.pgpass, or name a file with it as passfile=FILE or a service as service=NAME"
        )


def _pair(pair: str, registry: "Registry") -> list[str]:
    """Return the two metrics of arms. Raises RegistryError unless they are in the registry."""
    metrics = pair.split(":")
    if len(metrics) != 2:
        raise ParameterError("arms must be METRIC:METRIC")
    if metrics[0] == metrics[1]:
        raise ParameterError(f"arms compares two metrics, and {pair} names one")
    return [registry.metric(metric).name for metric in metrics]
