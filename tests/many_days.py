"""Registries, scenarios and laws for tests of many days."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldp import MemoisedHashing, MemoisedResponse
from ldp.accounting import Caps
from ldp.arrays import Floats, Ints
from ldp.mechanisms import CatalogueMechanism
from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.protocol.hashing import Value
from ldp.protocol.kinds import Index
from ldp.registry import Group, Metric, Registry
from ldp.simulation import Population
from ldp.simulation.fleet import Fleet
from ldp.simulation.people import Scenario, ScenarioMetric

PLACE = MemoisedResponse(categories=("home", "work", "gym"), epsilon=1.5, lifetime_epsilon=2.5)


HASHED = MemoisedHashing(epsilon=1.0, lifetime_epsilon=2.0, rows=2, buckets=2, seed="0456")


START = date(2026, 1, 7)


def generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@cache
def about(mechanism: MemoisedMechanism, row: int, value: Value) -> Floats:
    """Return P(permanent response | value), by its payload."""
    truth, columns = (
        mechanism.layout.payload_of(mechanism.cells(value, row)),
        mechanism.shape.columns,
    )
    permanent = mechanism.permanent_channel
    told, untold = (
        (float(permanent.touched), float(permanent.untouched)) if permanent else (1.0, 0.0)
    )
    if mechanism.kind is Index:
        return np.array([told if column == truth else untold for column in range(columns)])
    return np.array([bits(number, truth, told, untold, columns) for number in range(1 << columns)])


@cache
def shown(mechanism: MemoisedMechanism) -> Floats:
    """Return P(report | permanent response), shape (responses, payloads)."""
    (high, low), columns = map(float, mechanism.instantaneous), mechanism.shape.columns
    if mechanism.kind is Index:
        return np.where(np.eye(columns, dtype=bool), high, low)
    every = range(1 << columns)
    return np.array([[bits(one, other, high, low, columns) for one in every] for other in every])


def bits(number: int, truth: int, high: float, low: float, columns: int) -> float:
    """Return P(these bits | the true bits).

    A bit is 1 with probability `high` where the truth is 1, else with `low`.
    """
    chance = 1.0
    for bit in range(columns):
        one = high if truth >> bit & 1 else low
        chance *= one if number >> bit & 1 else 1 - one
    return chance


def lasting_law(
    mechanism: MemoisedMechanism, row: int, value: Value, numbers: Sequence[int]
) -> float:
    """Return P(reports | value, row) of reports that share a permanent response."""
    told = shown(mechanism)[:, list(numbers)].prod(axis=1)
    return float(about(mechanism, row, value) @ told)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw a permanent response for every report: this is a mutant."""

    def draw(self: Fleet, devices: Ints, places: Ints) -> Ints:
        return self._draw_responses(places, self._cohorts[devices])

    monkeypatch.setattr(Fleet, "_of_pairs", draw)


def registry(
    metrics: Mapping[str, Metric], caps: Caps | None = None, groups: Sequence[str] = ("places",)
) -> Registry:
    caps = caps or Caps(window=timedelta(days=1), window_epsilon=1e3, lifetime_epsilon=1e6)
    return Registry(
        path=Path("metrics.toml"),
        product="weather",
        groups={name: Group(name, caps, timedelta(days=7)) for name in groups},
        metrics=metrics,
    )


def metric(mechanism: CatalogueMechanism, name: str = "city", **own: Any) -> Metric:
    usual: dict[str, Any] = {
        "name": name,
        "version": 1,
        "group": "places",
        "description": "Where people ask for the weather",
        "owners": ("team@example.org",),
        "expires": date(2099, 12, 31),
        "mechanism": mechanism,
        "dictionary": None,
        "reports_per_window": 1,
    }
    return Metric(**usual | own)


def scenario(asked: Sequence[ScenarioMetric], caps: Caps | None = None, **own: Any) -> Scenario:
    known = registry({each.metric.name: each.metric for each in asked}, caps)
    usual: dict[str, Any] = {"users": 100, "days": 3, "start": START, "registry": known}
    return Scenario(metrics=tuple(asked), **usual | own)


SHARES = np.array([0.5, 0.3, 0.2])


PLACES = Population(PLACE.categories, frequencies=SHARES)


def caps(days: int, window: float, lifetime: float) -> Caps:
    return Caps(window=timedelta(days=days), window_epsilon=window, lifetime_epsilon=lifetime)
