"""`ldp amplify`: what a report costs once an independent party has shuffled it, and when."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import click

from ldp.accounting import Cost, group
from ldp.cli.options import FILE, JSON, say, wrap
from ldp.cli.parsing import SHARE, name_and_parameters
from ldp.cli.reading import chosen_reading, reading_options, whole_rows
from ldp.cli.shuffling_words import shuffling_conditions
from ldp.data_files import read_table
from ldp.errors import ParameterError
from ldp.files import counted
from ldp.mechanisms import CATALOGUE
from ldp.mechanisms.catalogue import CLASSES, PUBLIC
from ldp.mechanisms.presets import PRESETS, preset_mechanism
from ldp.privacy_loss import (
    AnyMechanism,
    DummyMessages,
    amplify_by_shuffling,
    compose_shuffled,
    honest_reports,
    least_reports,
)
from ldp.privacy_loss.shuffling import Shuffled
from ldp.protocol.channel import rounded_up
from ldp.protocol.keys import nearest
from ldp.registry import Metric, Registry
from ldp.registry.odds import epsilon_text

MOST_CATEGORIES = 1_000_000
DEFAULTS: dict[str, Mapping[str, Any]] = {
    "cms": {"rows": 65_536, "width": 1_024},
    "hcms": {"rows": 1_024, "width": 32_768},
    "local-hashing": {"rows": 65_536},
    "memoised-hashing": {"rows": 65_536},
    "prefix": {"rows": 65_535},
    "unary": {"categories": ("0", "1")},
    "one-bit-mean": {"bounds": (0, 1)},
    "piecewise": {"bounds": (0, 1)},
}
"""Parameters that change no cost, as defaults for --mechanism: sizes that Apple published, and a
range of numbers."""
NAMES = [*(CLASSES[name] for name in PUBLIC), DummyMessages.name]
RELAY = (
    "the relay is honest: one that drops all reports but one person's, adds its own or repeats "
    "some can state any size",
    "the reports of a batch are sealed on one day: the collector tells days apart",
)
"""Conditions where a relay states the sizes of batches."""


class _Subject(NamedTuple):
    """What reports are drawn by. `is_fresh`: False if several reports share what is memoised.
    `definition`: of a metric. `per_person`: most fresh reports that a device seals in a day, of
    which the caps pay for all."""

    name: str
    mechanism: Shuffled
    is_fresh: bool = False
    definition: Metric | None = None
    per_person: int = 1


@click.command()
@click.argument("metric", required=False)
@click.option("--registry", type=FILE, help="Registry that states METRIC.")
@click.option(
    "--mechanism",
    metavar="NAME[, KEY = VALUE]",
    help="Mechanism to certify, with parameters, as 'cms, epsilon = 4' or 'rr, epsilon = 1, "
    "categories = 20', or a published setting.",
)
@click.option("--epsilon", type=float, help="Epsilon that a report of any mechanism has.")
@click.option(
    "-n",
    "--users",
    "--reports",
    "reports",
    type=click.IntRange(1),
    help="Number of honest reports that a batch has, one a person.",
)
@click.option(
    "--sizes",
    type=FILE,
    help="Store to read, or CSV file attested,opened with a line a batch, in place of -n.",
)
@click.option(
    "--target", type=float, help="Epsilon that a report in a batch shall have, in place of -n."
)
@click.option(
    "--batches",
    type=click.IntRange(1, 100_000),
    help="Number of batches that hold fresh reports of one person; 1 of -n, all of a file.",
)
@click.option("--fakes", type=SHARE, default="0 %", help="Share of a batch that may be made up.")
@click.option(
    "--delta", type=float, required=True, help="Probability with which the epsilon may not hold."
)
@JSON
@reading_options
def amplify_command(
    reports: int | None,
    sizes: Path | None,
    target: float | None,
    batches: int | None,
    fakes: Fraction,
    delta: float,
    as_json: bool,
    **names: Any,
) -> None:
    """Print what shuffling makes of a report's epsilon, with the conditions it takes.

    The epsilon is certified for the mechanism's distribution (privacy blanket), and never rounded
    down. Several batches compose by their privacy losses. --sizes has, for each batch, how many
    reports the relay attests and how many the collector opened, as ldp collect notes with
    relay_key: the smaller number counts. With --batches N the N smallest batches count.

    \b
    Example: ldp amplify --mechanism apple-safari-energy --users 100000 --delta 1e-6
    Example: ldp amplify --mechanism 'cms, epsilon = 4' -n 100k --batches 365 --delta 1e-6
    """
    subject = _subject(**names)
    ways = [way is not None for way in (reports, sizes, target)]
    if not any(ways) and subject.definition and subject.definition.shuffled_epsilon:
        target = subject.definition.shuffled_epsilon
    elif ways.count(True) != 1:
        raise ParameterError("give one of --users, --sizes or --target")
    if target is not None and fakes:
        raise ParameterError("--fakes goes neither with --target nor with shuffled_epsilon")
    if sizes is not None and sizes.is_dir():
        sizes = _sizes_in(sizes, subject.definition)
    unattested = 0
    if sizes is not None:
        messages = subject.definition.mechanism.messages if subject.definition else 1
        lines = [(stated // messages, opened // messages) for stated, opened in _read_sizes(sizes)]
        unattested = sum(opened for attested, opened in lines if not attested)
        honest = sorted(honest_reports(*line, fakes=fakes) for line in lines if line[0])
        counts = Counter(honest[:batches])
    elif reports is not None:
        counts = Counter({honest_reports(reports, fakes=fakes): batches or 1})
    else:
        assert target is not None
        least = least_reports(subject.mechanism, epsilon=target, delta=delta)
        counts = Counter({least: batches or 1})
    if counts and sum(counts.values()) < (batches or 1):
        raise ParameterError(f"{sizes} has {counts.total()} of {batches} batches: omit --batches")
    if not counts:
        raise ParameterError(f"{sizes}: no batch has a size that a relay attests")
    result = _costs(subject, counts, delta)
    result["unattested"] = unattested
    result["conditions"] = shuffling_conditions(subject.mechanism, min(counts), subject.per_person)
    if sizes is not None:
        result["conditions"] += RELAY
    say(result, _words(result), as_json)


def _sizes_in(store: Path, metric: Metric | None) -> Path:
    """Return the file of sizes that a collector of the metric wrote in its store."""
    if metric is None:
        raise ParameterError("--sizes STORE goes with METRIC and --registry")
    # late: other batches need no store
    from ldp.collection.ingest import RELAYED

    path = store / RELAYED / f"{metric.name}-{metric.version}.csv"
    if not path.is_file():
        raise ParameterError(f"there is no {path}: ldp collect --relay-key writes it")
    return path


def _subject(
    metric: str | None, registry: Path | None, mechanism: str | None, epsilon: float | None
) -> _Subject:
    """Return the mechanism that the options name, or that of the metric."""
    if metric is not None and registry is not None:
        loaded = Registry.load(registry)
        definition = loaded.metric(metric)
        known = metric, definition.mechanism, not definition.memoise, definition
        if definition.memoise:
            return _Subject(*known)
        slots, budget = loaded.most_reports(definition), loaded.groups[definition.group]
        paid = definition._replace(reports_per_window=slots)
        sealed = paid.reports_of_one(timedelta(days=1), budget.caps.window)
        if definition.presence == "hidden":
            # late: public metrics need no client
            from ldp.client.sealing import MOST_PERIODS

            sealed += slots * (MOST_PERIODS - 1)
        of_life = Fraction(loaded.life_of(budget.name)) // Fraction(definition.price)
        return _Subject(*known, min(sealed, of_life))
    if mechanism is not None:
        name, parameters = name_and_parameters(mechanism, "rr, epsilon = 2, categories = 20")
        if name in PRESETS and not parameters:
            return _Subject(name, preset_mechanism(name))
        return _Subject(name, _mechanism(name, parameters))
    assert epsilon is not None
    return _Subject("any mechanism", AnyMechanism(epsilon))


def _mechanism(name: str, stated: Mapping[str, Any]) -> Shuffled:
    """Return the mechanism of a name with parameters. A number of categories stands for so many."""
    if name not in NAMES:
        raise ParameterError(f"there is no mechanism {name!r}{nearest(name, [*NAMES, *PRESETS])}")
    kind: Any = DummyMessages if name == DummyMessages.name else CATALOGUE[name]
    is_required = {field.name: field.default is MISSING for field in fields(kind)}
    parameters = {**DEFAULTS.get(name, {}), **stated}
    if type(number := parameters.get("categories")) is int:
        if not 2 <= number <= MOST_CATEGORIES:
            raise ParameterError(f"categories must be a number from 2 to {MOST_CATEGORIES:,}")
        parameters["categories"] = tuple(map(str, range(number)))
    if "seed" in is_required and kind.has_seed(parameters):
        parameters.setdefault("seed", "00")
    if missing := [key for key in is_required if is_required[key] and key not in parameters]:
        wanted = ", ".join(f"{key} = ..." for key in missing)
        raise ParameterError(f'--mechanism {name} needs more: "{name}, {wanted}"')
    if unknown := [key for key in parameters if key not in is_required]:
        raise ParameterError(f"--mechanism {name} has no {', '.join(unknown)}")
    mechanism: Shuffled = kind(**parameters)
    return mechanism


def _read_sizes(path: Path) -> list[tuple[int, ...]]:
    """Return the attested size and the opened reports of each batch."""
    names = ["attested", "opened"]
    table = read_table(path, chosen_reading())
    if not {*names} <= {*table.header}:
        raise ParameterError(f"{path}: a line a batch, with columns attested,opened")
    return whole_rows(table, names)


def _costs(subject: _Subject, counts: Mapping[int, int], delta: float) -> dict[str, Any]:
    """Return the costs of the smallest batch and of all, with their `counts` by honest reports."""
    mechanism, per_person, least = subject.mechanism, subject.per_person, min(counts)
    composed = compose_shuffled(
        ((mechanism, size, times) for size, times in counts.items()),
        per_person=per_person,
        is_fresh=subject.is_fresh,
    )
    single = group(amplify_by_shuffling(mechanism, reports=least, delta=delta), per_person)
    local = group(Cost(epsilon=mechanism.cost.epsilon), per_person)
    single = local if single.delta >= 1 else single
    result: dict[str, Any] = {
        "name": subject.name,
        "mechanism": mechanism.name,
        "reports": least,
        "per_person": per_person,
        "local": _parts(local),
        "shuffled": _parts(single),
        "neighbours": single.neighbours.value,
    }
    if (number := sum(counts.values())) > 1:
        result["batches"] = {
            "number": number,
            "local": composed.pure.epsilon,
            "composed": _parts(composed.at(delta)),
            "added": _parts(composed.added(delta)),
        }
    return result


def _words(result: Mapping[str, Any]) -> list[str]:
    """Return the result as text."""
    per_person = result["per_person"]
    whose = "one report" if per_person == 1 else f"{per_person} reports of one person"
    batch = f"in a batch of {result['reports']:,}"
    lines = [
        f"{result['name']} ({result['mechanism']}), {whose}; neighbours: {result['neighbours']}",
        f"  seen by itself            {_cost(result['local'])}",
        f"  {batch:<25} {_cost(result['shuffled'])}",
    ]
    if batches := result.get("batches"):
        every = f"in {counted(batches['number'], 'batch', 'batches')}"
        lines += [
            f"  {every:<25} {_cost(batches['composed'])}, composed",
            f"  {'':<25} {_cost(batches['added'])}, added",
            f"  {'':<25} epsilon {epsilon_text(batches['local'])}, delta 0, seen by themselves",
        ]
    if unattested := result["unattested"]:
        left_out = counted(unattested, "report")
        lines.append(
            f"  not in these numbers: {left_out} without a relay's statement, at full cost each"
        )
    return [
        *lines,
        "",
        "What is said of batches is certified for this mechanism. It holds only if",
        *(line for condition in result["conditions"] for line in wrap(f"- {condition}", "  ")),
        "To whoever sees reports before they are shuffled, the first line holds.",
    ]


def _parts(cost: Cost) -> dict[str, float]:
    return {"epsilon": cost.epsilon, "delta": cost.delta}


def _cost(parts: Mapping[str, float]) -> str:
    return f"epsilon {epsilon_text(parts['epsilon'])}, delta {rounded_up(parts['delta'])}"
