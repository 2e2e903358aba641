"""`ldp explain`: what a registry asks people, and what their answers can reveal."""

from pathlib import Path

import click

from ldp.cli.options import JSON, REGISTRY, say, text_width
from ldp.registry import Registry
from ldp.registry.explaining import explanation, in_text

_SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)


@click.command()
@click.argument("metric", required=False)
@REGISTRY
@click.option(
    "--belief",
    type=_SHARE,
    default=0.5,
    help="Probability of an answer, as somebody believes beforehand.",
)
@click.option("--certainty", type=_SHARE, default=0.99, help="Share of guesses that are right.")
@JSON
def explain_command(
    metric: str | None, registry: Path, belief: float, certainty: float, as_json: bool
) -> None:
    """Say what reports of METRIC (without it, of all metrics) reveal, in odds and plain words.

    Says what somebody could conclude who held --belief of one answer rather than another, and how
    many linked reports it takes to guess right with --certainty.

    \b
    Example: ldp explain city --registry metrics.toml
    """
    data = explanation(Registry.load(registry), metric, belief=belief, certainty=certainty)
    say(data, in_text(data, text_width()), as_json)
