"""What was charged: one row a charge, and their totals. Nothing is ever taken back."""

import json
import math
from collections.abc import Iterable, Mapping
from datetime import timedelta
from fractions import Fraction
from functools import lru_cache
from sqlite3 import Connection

from ldp.accounting.ledger import Room, room
from ldp.accounting.policy import Caps
from ldp.client.device_file import remember, state
from ldp.client.periods import day_of, length
from ldp.registry import Metric, Registry

Charge = tuple[str, str, float, int]
"""Group, metric, price, and how often it was charged."""
NOTHING = Room(Fraction(0), Fraction(0))
TERMS = "terms"
"""The state that keeps the caps which the owner was shown with the consent."""


def agree(connection: Connection, registry: Registry) -> None:
    """Keep the caps of the registry: the owner agreed to these."""
    groups = {
        name: [
            *(length(group.caps.window), group.caps.window_epsilon, group.caps.lifetime_epsilon),
            group.caps.report_epsilon,
        ]
        for name, group in registry.groups.items()
    }
    life = None if registry.lifetime_epsilon == math.inf else registry.lifetime_epsilon
    remember(connection, TERMS, json.dumps({"life": life, "groups": groups}))


def is_agreed(connection: Connection, group: str) -> bool:
    """Return whether the owner was shown a group with the consent."""
    kept = state(connection, TERMS)
    return kept is None or group in json.loads(kept)["groups"]


def unasked(connection: Connection, registry: Registry) -> tuple[str, ...]:
    """Return the groups that are new since the consent, or allow more than it was given for, and
    "[product]" if the cap of the device does. What they allow more is not used."""
    life, shown = _terms(connection, registry)
    more = tuple(
        name
        for name, group in registry.groups.items()
        if (caps := shown.get(name)) is None
        or group.caps.lifetime_epsilon > caps.lifetime_epsilon
        or group.caps.looser_than(caps)
    )
    return more + ("[product]",) * (registry.lifetime_epsilon > life)


def life_left(connection: Connection, registry: Registry, group: str) -> Fraction:
    """Return what a group may still be charged for life.

    It is charged for what it sent itself, for what its metrics sent in other groups, and for what
    metrics that are gone sent in any group. Of the caps of today and those that the owner was shown
    the smaller holds, also of the device's.
    """
    life, shown = _terms(connection, registry)
    if group not in shown:
        return Fraction(0)
    totals = _charges(connection, "totals")
    caps = min(each.lifetime_epsilon for each in (registry.groups[group].caps, shown[group]))
    remaining = Fraction(caps) - _counted(registry, group, totals)
    if (device := min(life, registry.lifetime_epsilon)) < math.inf:
        spent = sum((times * Fraction(price) for _, _, price, times in totals), Fraction(0))
        remaining = min(remaining, Fraction(device) - spent)
    return remaining


def left(connection: Connection, registry: Registry, group: str, ends: int) -> Room:
    """Return what a group may still be charged for the period that ends then: for life, and in each
    window that is capped, less what is set aside for epochs."""
    _, shown = _terms(connection, registry)
    if group not in shown:
        return NOTHING
    life, aside = (
        life_left(connection, registry, group),
        registry.set_aside(group, day_of(ends - 1)),
    )
    remaining = Room(life, life)
    for caps in {registry.groups[group].caps, shown[group]}:
        recent = _charges(connection, "charges WHERE at > ?", ends - length(caps.window))
        remaining = remaining.within(
            room(caps, Fraction(0), _counted(registry, group, recent) + aside)
        )
    return remaining


def charge(connection: Connection, group: str, metric: Metric, at: int, times: int) -> None:
    """Write a charge of so many prices, and add it to the totals, so that a life of charges is a
    short sum."""
    if not times:
        return
    cost = group, metric.name, metric.price, times
    connection.execute(
        "INSERT INTO charges (budget, metric, epsilon, times, at) VALUES (?, ?, ?, ?, ?)",
        (*cost, at),
    )
    connection.execute(
        "INSERT INTO totals VALUES (?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET times = times + excluded.times",
        cost,
    )


def _terms(connection: Connection, registry: Registry) -> tuple[float, Mapping[str, Caps]]:
    """The caps that the owner was shown; today's where the consent is older than their keeping."""
    kept = state(connection, TERMS)
    if kept is None:
        return registry.lifetime_epsilon, {n: group.caps for n, group in registry.groups.items()}
    return _read_terms(kept)


@lru_cache(maxsize=8)
def _read_terms(kept: str) -> tuple[float, Mapping[str, Caps]]:
    terms = json.loads(kept)
    shown = {
        name: Caps(
            window=timedelta(seconds=seconds),
            window_epsilon=window,
            lifetime_epsilon=lifetime,
            report_epsilon=report,
        )
        for name, (seconds, window, lifetime, report) in terms["groups"].items()
    }
    return math.inf if terms["life"] is None else terms["life"], shown


def _charges(connection: Connection, source: str, *arguments: int) -> list[Charge]:
    query = f"SELECT budget, metric, epsilon, times FROM {source}"
    return connection.execute(query, arguments).fetchall()


def _counted(registry: Registry, group: str, charges: Iterable[Charge]) -> Fraction:
    """The sum of the charges that count for a group."""
    return sum(
        (
            times * Fraction(price)
            for budget, name, price, times in charges
            if name not in registry.metrics or group in (budget, registry.metrics[name].group)
        ),
        Fraction(0),
    )
