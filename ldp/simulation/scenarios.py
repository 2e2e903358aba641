"""Scenario files: the input of `ldp simulate --scenario`, as TOML, checked key by key.

A mistake is one line that states its place and the remedy. The format is in `docs/files.md`.
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from ldp.data_files import AS_WRITTEN, Reading
from ldp.errors import ParameterError, errors_in
from ldp.protocol.keys import (
    DAY,
    FILE,
    SHARE,
    Form,
    Key,
    read_keys,
    section,
    several,
    whole,
)
from ldp.protocol.strict_json import read_toml
from ldp.registry import Metric, Registry
from ldp.registry.definitions import Memoise
from ldp.simulation.averaging import affordable
from ldp.simulation.people import Scenario, ScenarioMetric
from ldp.simulation.populations import Population

MOST_DEVICES = 16
_SHARES = several(SHARE, "shares that add to 1")._replace(
    most=MOST_DEVICES, is_right=lambda shares: abs(sum(shares) - 1) < 1e-9
)
SCENARIO = {
    "users": Key(whole(1, 10**7)),
    "days": Key(whole(1, 3660)),
    "start": Key(
        DAY._replace(
            words="a date from 1970 to 2999 such as 2026-01-01, without quotes",
            is_right=lambda day: 1970 <= day.year < 3000,
        )
    ),
    "churn": Key(SHARE, default=0.0),
    "devices": Key(
        Form(
            f"a whole number from 1 to {MOST_DEVICES}, or the shares of people with 1, 2, ... "
            "devices, which add to 1",
            either=(whole(1, MOST_DEVICES), _SHARES),
        ),
        default=1,
    ),
    "attacked": Key(
        Form("0, or a whole number from 100 to 100,000", either=(whole(0, 0), whole(100, 10**5))),
        default=2000,
    ),
    "metric": Key(section(" [metric.NAME] for each metric that is simulated", 1)),
}
METRIC = {
    "population": Key(FILE._replace(words="the name of a CSV file")),
    "change": Key(SHARE, default=0.0),
    "active": Key(SHARE, default=1.0),
    "records": Key(whole(1, 100), default=1),
}


def read_scenario(path: str | Path, registry: Registry, reading: Reading = AS_WRITTEN) -> Scenario:
    """Read and check a scenario of the registry's metrics. Files that it names lie beside it.
    Raises ParameterError with the place and the remedy."""
    path = Path(path)
    document = read_toml(path, ParameterError)
    with errors_in(str(path)):
        keys = read_keys(document, SCENARIO)
        sections, devices = keys.pop("metric"), keys.pop("devices")
        _require_hidden(registry, sections, keys["start"])
        metrics = [
            _scenario_metric(path, registry.metric(name), about, reading)
            for name, about in sections.items()
        ]
        if isinstance(devices, int):
            devices = [0.0] * (devices - 1) + [1.0]
        return Scenario(registry=registry, metrics=(*metrics,), devices=(*devices,), **keys)


def _require_hidden(registry: Registry, simulated: Collection[str], start: date) -> None:
    """Raise ParameterError unless `simulated` names all with hidden presence that share a budget
    with one of them: devices report on them and are charged, whatever is recorded. Raise it also
    where one of them has an epoch, which is not simulated."""
    groups = {one.group for name, one in registry.metrics.items() if name in simulated}
    for name, metric in registry.metrics.items():
        is_charged = metric.presence == "hidden" and metric.expires >= start
        if not is_charged or metric.group not in groups:
            continue
        if metric.epoch:
            raise ParameterError(f"{name}'s hidden presence with an epoch is not simulated")
        if name not in simulated:
            where = f"in group {metric.group!r}"
            raise ParameterError(f"needs [metric.{name}]: its hidden presence is charged {where}")


def _scenario_metric(path: Path, metric: Metric, about: Any, reading: Reading) -> ScenarioMetric:
    with errors_in(f"[metric.{metric.name}]"):
        keys = read_keys(about, METRIC)
        place = path.parent / keys.pop("population")
        population = Population.of_metric(metric, place, reading)
        population.require(lambda value: _require_few_answers(metric, value))
        return ScenarioMetric(metric=metric, population=population, **keys)


def _require_few_answers(metric: Metric, value: Any) -> None:
    """Raise ParameterError for a set of more answers than a report covers, because each device
    would draw other answers from it."""
    most = metric.mechanism.at_most_answers
    if metric.mechanism.answers == "sets" and len(value) > most:
        raise ParameterError(f"{len(value)} answers, of which a scenario takes {most} at most")


def most_frequent(population: Population, values: int) -> Population:
    """Return the population of those who hold one of the most frequent `values`."""
    if len(population.values) <= values:
        return population
    shares = population.shares
    indices = np.sort(np.argsort(-shares, kind="stable")[:values])
    return Population(
        tuple(population.values[i] for i in indices.tolist()),
        frequencies=shares[indices] / shares[indices].sum(),
    )


def attacked(scenario: Scenario, values: int) -> Scenario:
    """Return the scenario of people who hold one of the most frequent `values` of each metric whose
    values can be guessed, as many as the attacks can afford."""
    metrics = [
        replace(metric, population=most_frequent(metric.population, values))
        if metric.guessable
        else metric
        for metric in scenario.metrics
    ]
    reduced = replace(scenario, metrics=tuple(metrics))
    return replace(reduced, attacked=affordable(reduced))


def memoised(scenario: Scenario, memoise: Memoise) -> Scenario:
    """Return the scenario with its metrics memoised in the mode `memoise`, without those that
    cannot be."""
    metrics = tuple(
        replace(metric, metric=metric.metric._replace(memoise=memoise, epoch=None))
        for metric in scenario.metrics
        if not memoise or metric.metric.mechanism.is_memoisable
    )
    return replace(scenario, metrics=metrics)
