"""`ldp report`: estimates become a page."""

from pathlib import Path

import click

from ldp.cli.options import FILE
from ldp.cli.reading import chosen_reading, reading_options


@click.command()
@click.argument("estimates", nargs=-1, required=True, type=FILE)
@click.option(
    "--truth",
    multiple=True,
    help="CSV file value,count to draw beside the estimates of a simulation; one for "
    "all, or one for each.",
)
@click.option(
    "--registry", type=FILE, help="Registry that says what metrics are about, and who owns them."
)
@click.option("--out", required=True, type=FILE, help="HTML file to write.")
@reading_options
def report_command(
    estimates: tuple[Path, ...],
    truth: tuple[str, ...],
    registry: Path | None,
    out: Path,
) -> None:
    """Make one self-contained HTML page of ESTIMATES: no network, opens from disk.

    It takes files of ldp decode. For files of one metric on different days it says which
    differences are more than noise.

    \b
    Example: ldp report estimates.csv --out report.html
    Example: ldp report monday.csv tuesday.csv --out report.html
    """
    from ldp.files import write_whole
    from ldp.registry import Registry
    from ldp.report import render
    from ldp.tables.saved import SavedResult

    known = [_counts(path) for path in truth]
    results = [SavedResult.load(path) for path in estimates]
    about = Registry.load(registry) if registry else None
    truths = known[0] if len(known) == 1 else known or None
    write_whole(out, render(results, truths, registry=about))
    click.echo(out)


def _counts(truth: str) -> dict[str, int]:
    # late: it loads what compiles
    from ldp.simulation import Population

    return Population.from_csv(truth, chosen_reading()).truth()
