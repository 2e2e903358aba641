"""`ldp discover`: from a table of words, or its reports, to words that nobody listed."""

from pathlib import Path

import click

from ldp.cli.estimate import check_output, write_estimates
from ldp.cli.options import FILE, JSON
from ldp.errors import DecodeError, ParameterError
from ldp.estimates import CONTROLS, Rule
from ldp.mechanisms import Catalogued, PrefixExtension, SequenceFragmentPuzzle


@click.command()
@click.argument("source", metavar="TABLE|METRIC")
@click.argument("stores", nargs=-1, type=FILE, metavar="[DIR]...")
@click.option("--registry", type=FILE, help="metrics.toml, when a METRIC is named.")
@click.option("--out", required=True, help="Estimates as CSV; - prints them.")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Error rate.")
@click.option("--control", type=click.Choice(CONTROLS), default="bonferroni", show_default=True)
@click.option("--level", type=float, default=0.95, show_default=True, help="Of the intervals.")
@click.option("--threshold", type=float, help="Discover by count instead of by error rate.")
@click.option(
    "--screen",
    type=click.Choice(["chance", "fdr", "bonferroni"]),
    default="chance",
    show_default=True,
    help="Which fragments are joined; the error rate of words is the same with each.",
)
@click.option("--top", type=int, help="Join so many fragments of each position instead.")
@JSON
def discover(
    source: str,
    stores: tuple[Path, ...],
    registry: Path | None,
    out: str,
    alpha: float,
    control: str,
    level: float,
    threshold: float | None,
    screen: str,
    top: int | None,
    as_json: bool,
) -> None:
    """Find words that nobody listed (sfp, prefix): in a TABLE, or in the reports of METRIC in DIR.

    \b
    Example: ldp discover words.table --out words.csv
    Example: ldp discover words --registry metrics.toml store --out words.csv
    """
    from ldp.collection import aggregate
    from ldp.joint_table import JointTable, load_table
    from ldp.registry import Registry
    from ldp.server import discover as discovered
    from ldp.server import discover_prefixes

    rule = Rule(alpha=alpha, control=control, threshold=threshold)
    if (registry is None) == bool(stores):
        raise ParameterError("name a table file, or a metric with --registry and its stores")
    check_output(out, level, *([registry] if registry else [Path(source)]))
    if registry is None:
        table = load_table(source)
        _require_words(source, table.mechanism)
    else:
        asked = Registry.load(registry).metric(source)
        _require_words(f"metric {source!r}", asked.mechanism)
        table = aggregate(stores, source, asked.version, asked.mechanism, workers=2)
    if not isinstance(table, JointTable):
        if top is not None or screen != "chance":
            raise ParameterError("--top and --screen go with a puzzle (sfp)")
        estimates = discover_prefixes(table, rule=rule)
        write_estimates(estimates, out, level, "words", as_json)
        return
    kept = None if screen == "chance" else Rule(alpha=alpha, control=screen)
    estimates = discovered(table, rule=rule, screen=kept, top=top)
    write_estimates(estimates, out, level, "words put together", as_json)


def _require_words(source: str, mechanism: Catalogued) -> None:
    if not isinstance(mechanism, SequenceFragmentPuzzle | PrefixExtension):
        raise DecodeError(f"{source}: no table of words (sfp, prefix) but {mechanism.name}")
