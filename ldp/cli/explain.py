"""`ldp explain`: what a registry asks of people, before anybody is asked."""

from pathlib import Path

import click

from ldp.accounting.explain import odds, posterior
from ldp.cli.options import JSON, REGISTRY, say
from ldp.registry import Registry
from ldp.registry.explaining import NOT_COVERED, explained


@click.command()
@click.argument("metric", required=False)
@REGISTRY
@JSON
def explain(metric: str | None, registry: Path, as_json: bool) -> None:
    """Say what the epsilons of METRIC (of all of them without) mean, in odds and plain words.

    \b
    Example: ldp explain city --registry metrics.toml
    """
    loaded = Registry.load(registry)
    words = explained(loaded, metric)
    chosen = [loaded.metric(metric)] if metric else list(loaded.metrics.values())
    groups = {definition.group for definition in chosen}
    result = {
        "metrics": {
            definition.name: {
                "group": definition.group,
                "report": _meaning(definition.mechanism.cost.epsilon),
                "charged": _meaning(definition.price),
            }
            for definition in chosen
        },
        "groups": {
            name: {span: _meaning(most) for span, most in loaded.worst_case(name).items()}
            for name in loaded.groups
            if name in groups
        },
        "not_covered": NOT_COVERED,
    }
    say(result, words, as_json)


def _meaning(epsilon: float) -> dict[str, float]:
    """Return an epsilon, what it multiplies odds by, and what it makes of an even chance."""
    return {"epsilon": epsilon, "odds": odds(epsilon), "belief": posterior(0.5, epsilon)}
