"""`ldp decode` and `ldp report`: from a table to estimates and a page."""

from pathlib import Path

import click

from ldp.cli.options import FILE, JSON, keep, say
from ldp.errors import DecodeError, ParameterError
from ldp.estimates import CONTROLS, Rule, summary_path


@click.command()
@click.argument("table", type=FILE)
@click.option("--candidates", help="One value a line, or CSV with a value column; - reads stdin.")
@click.option("--out", required=True, help="Estimates as CSV; - prints them.")
@click.option("--method", type=click.Choice(["auto", "direct", "mean-sketch"]), default="auto")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Error rate.")
@click.option("--control", type=click.Choice(CONTROLS), default="fdr", show_default=True)
@click.option("--level", type=float, default=0.95, show_default=True, help="Of the intervals.")
@click.option("--threshold", type=float, help="Discover by count instead of by error rate.")
@JSON
def decode(
    table: Path,
    candidates: str | None,
    out: str,
    method: str,
    alpha: float,
    control: str,
    level: float,
    threshold: float | None,
    as_json: bool,
) -> None:
    """Estimate how many reports of TABLE held each candidate.

    Decoding again, with other candidates too, costs no privacy: it reads the table only.

    \b
    Example: ldp decode city.table --out estimates.csv
    """
    from ldp.joint_table import load_table
    from ldp.registry import read_values
    from ldp.server import decode as decoded
    from ldp.table import Table

    rule = Rule(alpha=alpha, control=control, threshold=threshold)
    if not 0 < level < 1:
        raise ParameterError("level must lie strictly between 0 and 1")
    if out != "-":
        keep(Path(out), table)
        keep(summary_path(Path(out)), table)
    names = None
    if candidates:
        names = read_values(Path("/dev/stdin" if candidates == "-" else candidates))
    loaded = load_table(table)
    if not isinstance(loaded, Table):
        raise DecodeError(f"{table}: a puzzle of words is not decoded from a list of candidates")
    estimates = decoded(loaded, names, method=method, rule=rule)
    summary = estimates.summary(level)
    if "warning" in summary:
        click.echo(f"ldp: {summary['warning']}", err=True)
    if out == "-":
        listed = {**summary, "estimates": estimates.rows(level)}
        say(listed, estimates.to_csv(level=level).rstrip("\n"), as_json)
        return
    estimates.to_csv(out, level)
    found = summary["detected"]
    words = (
        f"{found} of {len(estimates.values):,} candidates discovered among "
        f"{estimates.reports:,} reports (noise floor {summary['noise_floor']:,.0f}) -> {out}"
    )
    say({**summary, "written": out}, words, as_json)


@click.command()
@click.argument("estimates", nargs=-1, required=True, type=FILE)
@click.option("--title", help="Heading; the files' names without it.")
@click.option("--truth", help="CSV value,count: drawn beside the estimates of a simulation.")
@click.option("--out", required=True, type=FILE, help="HTML file to write.")
def report(estimates: tuple[Path, ...], title: str | None, truth: str | None, out: Path) -> None:
    """Make one self-contained HTML page of ESTIMATES: no network, opens from disk.

    \b
    Example: ldp report estimates.csv --out report.html
    """
    from ldp.files import write_whole
    from ldp.report import Results, render
    from ldp.simulation import Population

    keep(out, *estimates)
    known = Population.from_csv(truth).truth() if truth else None
    write_whole(out, render([Results.load(path) for path in estimates], known, title))
    click.echo(f"{out}")
