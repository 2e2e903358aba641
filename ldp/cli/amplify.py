"""`ldp amplify`: what a report costs once an independent party has shuffled it, and when."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ldp.accounting import Cost, group
from ldp.accounting.explain import upwards
from ldp.cli.conditions import shuffling_conditions
from ldp.cli.options import FILE, JSON, say
from ldp.errors import ParameterError
from ldp.mechanisms import (
    Catalogued,
    CountMeanSketch,
    HadamardCountMeanSketch,
    RandomizedResponse,
    UnaryEncoding,
)
from ldp.mechanisms.presets import PRESETS, preset_mechanism
from ldp.privacy_loss import amplify_by_shuffling, clones_2021, clones_2023
from ldp.registry import Registry

MOST_CATEGORIES = 1_000_000
_MECHANISMS = (RandomizedResponse, UnaryEncoding, CountMeanSketch, HadamardCountMeanSketch)


@click.command()
@click.argument("metric", required=False)
@click.option("--registry", type=FILE, help="metrics.toml, for METRIC.")
@click.option("--preset", type=click.Choice(sorted(PRESETS)), help="A published setting.")
@click.option("--mechanism", type=click.Choice([m.name for m in _MECHANISMS]), help="By its name.")
@click.option("--epsilon", type=float, help="Privacy loss of one report, for --mechanism.")
@click.option(
    "--domain",
    type=click.IntRange(2, MOST_CATEGORIES),
    help="Number of categories, for --mechanism rr.",
)
@click.option(
    "-n",
    "--users",
    "--reports",
    "reports",
    type=int,
    required=True,
    help="Honest reports in a batch, one a person, this one included.",
)
@click.option("--delta", type=float, required=True, help="Probability by which it may miss.")
@click.option(
    "--per-person",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Reports of one person in the batch.",
)
@JSON
def amplify(
    metric: str | None,
    registry: Path | None,
    preset: str | None,
    mechanism: str | None,
    epsilon: float | None,
    domain: int | None,
    reports: int,
    delta: float,
    per_person: int,
    as_json: bool,
) -> None:
    """Print what shuffling makes of a report's epsilon, with the conditions it takes.

    Certified for the mechanism's own law (privacy blanket), never rounded down; the closed forms
    of 2021 and 2023, which know its epsilon only, for comparison.

    \b
    Example: ldp amplify --preset apple-safari-energy --users 100000 --delta 1e-6
    """
    if [metric is not None, preset is not None, mechanism is not None].count(True) != 1:
        raise ParameterError("give one of METRIC with --registry, --preset or --mechanism")
    if (metric is None) != (registry is None):
        raise ParameterError("METRIC and --registry go together")
    if (mechanism is None) != (epsilon is None):
        raise ParameterError("--mechanism and --epsilon go together")
    if (mechanism == RandomizedResponse.name) != (domain is not None):
        raise ParameterError("--mechanism rr and --domain go together")
    if metric is not None and registry is not None:
        name, subject = metric, Registry.load(registry).metric(metric).mechanism
    elif preset is not None:
        name, subject = preset, preset_mechanism(preset)
    else:
        assert mechanism is not None
        assert epsilon is not None
        name, subject = mechanism, _mechanism(mechanism, epsilon, domain or 2)
    single = amplify_by_shuffling(subject, reports=reports, delta=delta)
    shuffled = group(single, per_person)
    local = group(Cost(epsilon=subject.cost.epsilon), per_person)
    closed = {
        year: _closed(form, subject.cost.epsilon, reports, delta)
        for year, form in (("2021", clones_2021), ("2023", clones_2023))
    }
    conditions = shuffling_conditions(subject, reports, per_person)
    result: dict[str, Any] = {
        "name": name,
        "mechanism": subject.name,
        "reports": reports,
        "per_person": per_person,
        "local": {"epsilon": local.epsilon, "delta": local.delta},
        "shuffled": {"epsilon": shuffled.epsilon, "delta": shuffled.delta},
        "closed_forms": closed,
        "neighbours": shuffled.neighbours.value,
        "conditions": conditions,
    }
    forms = [
        f"{'out of range' if bound is None else upwards(bound)} ({year})"
        for year, bound in closed.items()
    ]
    whose = "one report" if per_person == 1 else f"{per_person} reports of one person"
    lines = [
        f"{name} ({subject.name}), {whose}; neighbours: {shuffled.neighbours.value}",
        f"  seen by itself            epsilon {upwards(local.epsilon)}, delta {local.delta:g}",
        f"  in a shuffled batch       epsilon {upwards(shuffled.epsilon)}, "
        f"delta {upwards(shuffled.delta)}",
        f"  closed forms, one report  epsilon {', '.join(forms)}",
        "",
        "The second line is certified for this mechanism. It holds only if",
        *(f"- {condition}" for condition in conditions),
        "To whoever sees reports before they are shuffled, the first line holds.",
    ]
    say(result, "\n".join(lines), as_json)


def _mechanism(mechanism: str, epsilon: float, domain: int) -> Catalogued:
    """Return the mechanism of a name, sketches in the sizes that Apple published: size and encoding
    do not matter here."""
    if mechanism == CountMeanSketch.name:
        return CountMeanSketch(epsilon=epsilon, rows=65_536, width=1_024, seed="00")
    if mechanism == HadamardCountMeanSketch.name:
        return HadamardCountMeanSketch(epsilon=epsilon, rows=1_024, width=32_768, seed="00")
    categorical = {kind.name: kind for kind in (RandomizedResponse, UnaryEncoding)}[mechanism]
    return categorical(categories=tuple(map(str, range(domain))), epsilon=epsilon)


def _closed(form: Callable[..., float], local: float, reports: int, delta: float) -> float | None:
    """Return the closed form's epsilon, or None outside its range."""
    try:
        return form(local, reports=reports, delta=delta)
    except ParameterError:
        return None
