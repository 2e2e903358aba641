"""`ldp attack`: what made-up reports do to a metric, before anybody is asked."""

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldp.cli.options import FAKES, FILE, JSON, REGISTRY, SEED, generator, require_local, say, wrap
from ldp.cli.reading import chosen_reading, reading_options
from ldp.errors import ParameterError
from ldp.files import counted

if TYPE_CHECKING:
    from ldp.mechanisms import CatalogueMechanism
    from ldp.registry.definitions import Metric
    from ldp.simulation import Population
    from ldp.simulation.poisoning_gains import Gain

MOST_REPORTS = 10**15


@click.command()
@click.argument("metric")
@REGISTRY
@FAKES
@click.option("--population", type=FILE, help="CSV file value,count or value,frequency to read.")
@click.option(
    "--reports",
    type=click.IntRange(2, MOST_REPORTS),
    default=100_000,
    help="Number of reports to simulate, fakes included.",
)
@SEED
@JSON
@reading_options
def attack_command(
    metric: str,
    registry: Path,
    fakes: float | None,
    population: Path | None,
    reports: int,
    seed: int | None,
    as_json: bool,
) -> None:
    """Simulate attacks on METRIC: what each gains, what each defence leaves of that, and how often
    intervals hold.

    Without --population, values have Zipf frequencies, nobody holds the last tenth of the
    dictionary, and numbers are spread over the range.

    \b
    Example: ldp attack city --registry metrics.toml --fakes 1%
    Example: ldp attack city --registry metrics.toml --fakes 0.1% --population city.csv --seed 1
    """
    from ldp.registry import Registry
    from ldp.simulation.poisoning_gains import Laboratory, require_attacks

    definition = Registry.load(registry).metric(metric)
    require_local(definition, "ldp attack")
    require_attacks(definition.mechanism)
    share = 0.01 if fakes is None else fakes
    laboratory = Laboratory(
        mechanism=definition.mechanism,  # type: ignore[arg-type]  # checked there
        population=_people(definition, population),
        share=share,
        reports=reports,
    )
    costs: dict[str, float] = {}
    if definition.mechanism.is_numeric:
        gains = laboratory.number_gains(generator(seed))
    else:
        gains, costs = laboratory.gains(generator(seed))
    head = (
        f"{metric}: {laboratory.reports:,} reports, of which {100 * share:.4g} % are made up; "
        f"means of {counted(laboratory.runs, 'run')}"
    )
    lines = [
        head,
        "",
        *(_of_values(gains, costs) if costs else _of_numbers(gains, definition.mechanism)),
    ]
    rows = [vars(row) for row in gains]
    say({"metric": metric, "fakes": share, "attacks": rows, "costs": costs}, lines, as_json)


def _people(definition: "Metric", population: Path | None) -> "Population":
    """Return the population of the file, or a typical population without a file."""
    import numpy as np

    from ldp.planning.percentiles import typical_people
    from ldp.simulation import Population

    if population is not None:
        return Population.of_metric(definition, population, chosen_reading())
    mechanism: Any = definition.mechanism
    if mechanism.is_numeric:
        return typical_people(mechanism.bounds)
    values = definition.candidates() or mechanism.listed
    if not values:
        raise ParameterError("the metric has no dictionary: give --population FILE")
    weights = 1 / np.arange(1, len(values) + 1)
    weights[len(values) - len(values) // 10 :] = 0
    return Population(tuple(values), frequencies=weights / weights.sum())


def _of_values(gains: "list[Gain]", costs: dict[str, float]) -> list[str]:
    names = [*costs]
    lines = [
        f"{'attack':<14}{'gain':>10}"
        + "".join(f"{name:>13}" for name in names[1:])
        + f"{'found':>9}{'intervals hold':>17}",
        f"{'undefended':>24}{'':>{13 * (len(names) - 1)}}{'plain  --fakes':>26}",
    ]
    for row in gains:
        cells = "".join(
            f"{100 * row.gain[name]:{10 if name == names[0] else 13}.2f}" for name in names
        )
        discovered = f"{row.discovered:,.4g}/{row.aims:,}"
        lines.append(f"{row.attack:<14}{cells} {discovered:>8}{_held(row)}")
    errors = "".join(f"{costs[name]:{10 if name == names[0] else 13}.3f}" for name in names)
    lines += [f"{'cost':<14}" + errors, ""]
    notes = (
        "Gain: by how much the estimated shares of the attacked values grow (hide: fall), added "
        "up, in percent of the reports. Intervals hold: the share of all values' 95 % intervals "
        "that hold the honest count, as they are and with --fakes. Cost: root mean squared error "
        "without fakes, over that of no defence."
    )
    return [*lines, *wrap(notes), *(f"{row.attack}: {row.words}" for row in gains)]


def _of_numbers(gains: "list[Gain]", mechanism: "CatalogueMechanism") -> list[str]:
    from ldp.mechanisms.numeric import Numeric

    what = "the mean" if isinstance(mechanism, Numeric) else "the share above the median"
    lines = [f"{'attack':<14}{'gain':>12}{'intervals hold':>20}", f"{'':<26}{'plain  --fakes':>20}"]
    lines += [f"{row.attack:<14}{row.gain['none']:>12.4g}{_held(row):>20}" for row in gains]
    notes = (
        f"Gain: how far {what} rises. Intervals hold: the share of the runs in which the 95 % "
        "interval holds the honest number, as it is and with --fakes; of percentiles the mean of "
        "p25, p50 and p90."
    )
    return [*lines, "", *wrap(notes), *(f"{row.attack}: {row.words}" for row in gains)]


def _held(row: "Gain") -> str:
    held = "      -" if isnan(row.held) else f"{100 * row.held:5.1f} %"
    return f"{100 * row.plain_held:7.1f} %  {held}"
