"""`ldp discover`: from a table of words, or its reports, to words that nobody listed."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ldp.cli.estimates import check_output, write_estimates
from ldp.cli.options import FILE, JSON, STORE
from ldp.cli.stores import noting_what_waits
from ldp.collection.object_store import StorePath
from ldp.errors import DecodeError, ParameterError
from ldp.mechanisms import CatalogueMechanism, PrefixExtension, RapporNgrams, SequenceFragmentPuzzle
from ldp.tables.estimates import CONTROLS, Rule

if TYPE_CHECKING:
    from ldp.tables.table import Table


@click.command()
@click.argument("source", metavar="TABLE|METRIC")
@click.argument("stores", nargs=-1, type=STORE, metavar="[DIR]...")
@click.option("--registry", type=FILE, help="metrics.toml, when a METRIC is named.")
@click.option("--out", required=True, help="Estimates as CSV; - prints them.")
@click.option("--alpha", type=float, default=0.05, show_default=True, help="Error rate.")
@click.option("--control", type=click.Choice(CONTROLS), default="bonferroni", show_default=True)
@click.option("--level", type=float, default=0.95, show_default=True, help="Of the intervals.")
@click.option("--threshold", type=float, help="Discover by count instead of by error rate.")
@click.option("--top", type=int, help="Join so many fragments of each position of a puzzle (sfp).")
@JSON
def discover(
    source: str,
    stores: tuple[StorePath, ...],
    registry: Path | None,
    out: str,
    alpha: float,
    control: str,
    level: float,
    threshold: float | None,
    top: int | None,
    as_json: bool,
) -> None:
    """Find words that nobody listed: in a TABLE (sfp, prefix), or in the reports of METRIC in DIR
    (rappor-ngrams too, whose tables do not say which fragments go together).

    \b
    Example: ldp discover words.table --out words.csv
    Example: ldp discover words --registry metrics.toml store --out words.csv
    """
    from ldp.collection import aggregate, read_patterns
    from ldp.decoding.outcome import discover_words
    from ldp.registry import Registry
    from ldp.registry.explaining import label
    from ldp.tables.joint_table import JointTable, load_table
    from ldp.tables.patterns import Patterns

    rule = Rule(alpha=alpha, control=control, threshold=threshold)
    if (registry is None) == bool(stores):
        raise ParameterError("name a table file, or a metric with --registry and its stores")
    check_output(out, level)
    if registry is None:
        reports: JointTable | Patterns | Table = load_table(source)
        _require_words(source, reports.mechanism)
        if isinstance(reports.mechanism, RapporNgrams):
            raise DecodeError(
                f"{source}: a table of rappor-ngrams does not say which fragments go together: "
                "name the metric, with --registry and its stores"
            )
    else:
        known = Registry.load(registry)
        definition = known.metric(source)
        mechanism = definition.mechanism
        _require_words(f"metric {source!r}", mechanism)
        with noting_what_waits(stores, source, definition.version):
            if isinstance(mechanism, RapporNgrams):
                reports = read_patterns(stores, source, definition.version, mechanism)
            else:
                reports = aggregate(stores, source, definition.version, mechanism, workers=2)
    if top is not None and not isinstance(reports.mechanism, SequenceFragmentPuzzle):
        raise ParameterError("--top goes with a puzzle (sfp)")
    estimates = discover_words(reports, rule, top)
    if registry is not None:
        labels = [asdict(label(known, source))]
        estimates = replace(estimates, details={**estimates.details, "labels": labels})
    write_estimates(estimates.at(level=level), out, "words tested", as_json)


def _require_words(source: str, mechanism: CatalogueMechanism) -> None:
    if not isinstance(mechanism, SequenceFragmentPuzzle | PrefixExtension | RapporNgrams):
        raise DecodeError(
            f"{source}: not about words (sfp, prefix, rappor-ngrams) but {mechanism.name}"
        )
