"""Scenario files: what `ldp simulate --scenario` is told, as TOML, checked key by key.

A mistake is one line that says where and what would be right. The format is in `docs/files.md`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ldp.errors import LdpError, ParameterError
from ldp.protocol.strict_json import read_toml
from ldp.registry import Metric, Registry
from ldp.registry.definitions import Memoise
from ldp.registry.toml_file import nearest
from ldp.simulation.averaging import affordable
from ldp.simulation.people import Scenario, ScenarioMetric
from ldp.simulation.populations import Population

MOST_DEVICES = 16
_REQUIRED: Any = object()


class Key(NamedTuple):
    """Key of a section: the test of its value, the words of that test, the default value, and the
    limits of a whole number."""

    is_right: Callable[[Any], bool]
    wanted: str
    default: Any = _REQUIRED
    limits: tuple[int, int] | None = None


def _whole(least: int, most: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _share(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1


def _devices(value: Any) -> bool:
    if isinstance(value, list):
        shares = 0 < len(value) <= MOST_DEVICES and all(map(_share, value))
        return shares and abs(sum(value) - 1) < 1e-9
    return _whole(1, MOST_DEVICES)(value)


def _start(value: Any) -> bool:
    return type(value) is date and 1970 <= value.year < 3000


def _file(value: Any) -> bool:
    return isinstance(value, str) and value not in ("", "-")


def _whole_key(least: int, most: int, default: Any = _REQUIRED) -> Key:
    words = f"a whole number from {least:,} to {most:,}"
    return Key(_whole(least, most), words, default, (least, most))


_SHARE_KEY = Key(_share, "a number from 0 to 1", 0.0)
_TOP = {
    "users": _whole_key(1, 10**7),
    "days": _whole_key(1, 3660),
    "start": Key(_start, "a date from 1970 to 2999 such as 2026-01-01, without quotes"),
    "churn": _SHARE_KEY,
    "devices": Key(
        _devices,
        f"a whole number from 1 to {MOST_DEVICES}, or the shares of people with 1, 2, ... devices, "
        "which add to 1",
        1,
    ),
    "account": Key(lambda value: type(value) is bool, "true or false", False),
    "attacked": Key(
        lambda value: value == 0 or _whole(100, 10**5)(value),
        "0, or a whole number from 100 to 100,000",
        2000,
    ),
}
_METRIC = {
    "population": Key(_file, "the name of a CSV file"),
    "change": _SHARE_KEY,
    "active": _SHARE_KEY._replace(default=1.0),
    "records": _whole_key(1, 100, 1),
    "like": Key(lambda value: isinstance(value, str), "the name of a metric", ""),
    "correlation": _SHARE_KEY,
}


def read_scenario(path: str | Path, registry: Registry) -> Scenario:
    """Read and check a scenario of the registry's metrics; files that it names lie beside it.
    Raises ParameterError with the place and the remedy."""
    path = Path(path)
    document = read_toml(path, ParameterError)
    try:
        return _scenario(path, document, registry)
    except LdpError as error:
        words = str(error)
        raise ParameterError(words if words.startswith(str(path)) else f"{path}: {words}") from None


def _scenario(path: Path, document: dict[str, Any], registry: Registry) -> Scenario:
    sections = document.pop("metric", {})
    if not isinstance(sections, dict) or not sections:
        raise ParameterError("needs a section [metric.NAME] for each metric that is simulated")
    keys = _read("", document, _TOP)
    metrics = [
        _scenario_metric(path, registry.metric(name), section, sections)
        for name, section in sections.items()
    ]
    if isinstance(keys["devices"], int):
        keys["devices"] = [0.0] * (keys["devices"] - 1) + [1.0]
    keys["devices"] = tuple(keys["devices"])
    return Scenario(registry=registry, metrics=tuple(metrics), **keys)


def _scenario_metric(
    path: Path, metric: Metric, section: Any, sections: Mapping[str, Any]
) -> ScenarioMetric:
    where = f"[metric.{metric.name}]"
    if not isinstance(section, dict):
        raise ParameterError(f"{where} must be a section")
    keys = _read(f"{where}: ", section, _METRIC)
    if metric.presence == "hidden" and metric.epoch:
        raise ParameterError(f"{where}: hidden presence with an epoch is not simulated over days")
    if keys["correlation"] and not keys["like"]:
        raise ParameterError(f'{where}: correlation needs the other metric: like = "..."')
    leader = sections.get(keys["like"])
    if keys["like"] and (
        keys["like"] == metric.name or not isinstance(leader, dict) or "like" in leader
    ):
        raise ParameterError(
            f"{where}: like must name another metric of the scenario, which is like no other"
        )
    place = path.parent / keys.pop("population")
    population = Population.from_csv(place).mapped(metric.cleaned)
    for number, value in enumerate(population.values, 1):
        try:
            metric.mechanism.check(value)
            _require_few_answers(metric, value)
        except ParameterError as error:
            many = len(population.values)
            raise ParameterError(f"{where}: {place}: value {number} of {many}: {error}") from None
    return ScenarioMetric(metric=metric, population=population, **keys)


def _require_few_answers(metric: Metric, value: Any) -> None:
    """Raise ParameterError for a set of more answers than a report tells of, of which every device
    would draw some for itself."""
    most = getattr(metric.mechanism, "at_most", None)
    if most and len(value) > most:
        raise ParameterError(f"{len(value)} answers, of which a scenario takes {most} at most")


def _read(where: str, section: Mapping[str, Any], known: Mapping[str, Key]) -> dict[str, Any]:
    for name in section:
        if name not in known:
            raise ParameterError(f"{where}unknown key {name!r}{nearest(name, known)}")
    values = {name: section.get(name, key.default) for name, key in known.items()}
    for name, value in values.items():
        if value is _REQUIRED:
            raise ParameterError(f"{where}needs {name}, {known[name].wanted}")
        if name in section and not known[name].is_right(value):
            raise ParameterError(f"{where}{name} must be {known[name].wanted}")
    return values


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
    """Return the scenario with the metrics memoised this way, without those that cannot be."""
    metrics = [
        replace(metric, metric=metric.metric._replace(memoise=memoise, epoch=None))
        for metric in scenario.metrics
        if not memoise or metric.metric.mechanism.is_memoisable
    ]
    names = {metric.name for metric in metrics}
    alone = [metric if metric.like in names else replace(metric, like="") for metric in metrics]
    return replace(scenario, metrics=tuple(alone))
