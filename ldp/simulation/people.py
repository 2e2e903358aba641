"""People over many days: what a scenario asks them, and which values they hold."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from typing import Any

import numpy as np

from ldp.arrays import Bools, Floats, Generator, Ints
from ldp.errors import ParameterError
from ldp.mechanisms.joint_base import parts_of
from ldp.registry import Metric, Registry
from ldp.simulation.populations import Population

MOST_PERSON_DAYS = 20_000_000
"""Largest product of the number of people at a time and the number of days."""


@dataclass(frozen=True, kw_only=True)
class ScenarioMetric:
    """One metric of a scenario. `population`: where values are drawn from. `change`: the daily
    probability that a person's value is drawn again. `active`: the daily probability that a person
    records the value. `records`: their number for each day and device."""

    metric: Metric
    population: Population
    change: float = 0.0
    active: float = 1.0
    records: int = 1

    @property
    def name(self) -> str:
        return self.metric.name

    @property
    def none(self) -> Any:
        """Value that is reported in place of no record, where presence is hidden; else None."""
        return self.metric.mechanism.placeholder if self.metric.presence == "hidden" else None

    @cached_property
    def values(self) -> tuple[Any, ...]:
        """All values that reports are about: those of the population, and `none`."""
        values = self.population.values
        return values if self.none in (None, *values) else (*values, self.none)

    def alike_every_day(self) -> "ScenarioMetric":
        """Return the metric of people who keep their values and record as often as it has slots, so
        that nothing is reported in place of no record."""
        slots = self.metric.reports_per_window if self.metric.presence == "hidden" else 0
        return replace(
            self,
            metric=self.metric._replace(presence="public"),
            change=0.0,
            active=1.0,
            records=max(self.records, slots),
        )

    @property
    def guessable(self) -> bool:
        """Return whether reports name the values one by one. False for numbers, which are rounded
        at random, and for sets of answers."""
        return not any(part.has_roundings for part in parts_of(self.metric.mechanism))


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Scenario of `users` people at a time for `days` days from `start`. Each leaves in any night
    with probability `churn`, and somebody new comes instead. A share devices[k - 1] of them has k
    devices. `attacked`: number of people in the attacks, 0 for no attack."""

    registry: Registry
    metrics: tuple[ScenarioMetric, ...]
    users: int
    days: int
    start: date
    churn: float = 0.0
    devices: tuple[float, ...] = (1.0,)
    attacked: int = 2000

    def __post_init__(self) -> None:
        if self.users * self.days > MOST_PERSON_DAYS:
            raise ParameterError(f"users times days may be {MOST_PERSON_DAYS:,} at most")
        if self.registry.lifetime_epsilon < math.inf:
            raise ParameterError(
                "days cannot be simulated under lifetime_epsilon of [product]: take it out of a "
                "copy of the registry"
            )
        for metric in (metric for metric in self.metrics if metric.metric.needs_shuffler):
            raise ParameterError(
                f"metric {metric.name!r} sends messages for a shuffler: `ldp simulate METRIC` "
                "simulates the batch of a day"
            )

    @cached_property
    def noons(self) -> tuple[int, ...]:
        """Time at which each day's records are made, in seconds since 1970."""
        first = datetime.combine(self.start, time(12), UTC)
        return tuple(
            round((first + timedelta(days=day)).timestamp()) for day in range(self.days + 1)
        )

    def date(self, day: int) -> date:
        return self.start + timedelta(days=day)

    def staying(self, users: int) -> "Scenario":
        """Return the scenario of `users` people who stay, and are alike every day."""
        metrics = tuple(metric.alike_every_day() for metric in self.metrics)
        return replace(self, metrics=metrics, users=users, churn=0.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class People:
    """People who take part from the day `joined` to the day before `left`, int64, shape (people,).
    `owner`: the owner of each device, int64, shape (devices,). `values`: for every metric the place
    of each person's value in the population on every day, int64, shape (people, days). `recorded`:
    whether they record it that day, bool, of the same shape, for metrics that are not always
    recorded."""

    joined: Ints
    left: Ints
    owner: Ints
    values: Mapping[str, Ints]
    recorded: Mapping[str, Bools] = field(default_factory=dict)


def draw_people(scenario: Scenario, generator: Generator) -> People:
    """Return people of the scenario, drawn with `generator`."""
    users, days = scenario.users, scenario.days
    begins = np.ones((users, days), dtype=bool)
    begins[:, 1:] = generator.random((users, days - 1)) < scenario.churn
    seat, joined = np.nonzero(begins)
    left = np.append(joined[1:], days)
    left[np.append(seat[1:] != seat[:-1], True)] = days
    many = generator.choice(len(scenario.devices), size=joined.size, p=scenario.devices) + 1
    return People(
        joined=joined,
        left=left,
        owner=np.repeat(np.arange(joined.size), many),
        values={
            metric.name: _at(metric.population, _quantiles(joined, days, metric.change, generator))
            for metric in scenario.metrics
        },
        recorded={
            metric.name: generator.random((joined.size, days)) < metric.active
            for metric in scenario.metrics
            if metric.active < 1
        },
    )


def _quantiles(joined: Ints, days: int, change: float, generator: Generator) -> Floats:
    """Return uniform numbers that are drawn again with probability `change` a day."""
    fresh = generator.random((joined.size, days))
    is_new = generator.random((joined.size, days)) < change
    is_new[np.arange(joined.size), joined] = True
    latest = np.maximum.accumulate(np.where(is_new, np.arange(days), 0), axis=1)
    return np.take_along_axis(fresh, latest, axis=1)


def _at(population: Population, quantiles: Floats) -> Ints:
    bounds = np.cumsum(population.shares)[:-1]
    return np.searchsorted(bounds, quantiles, side="right")
