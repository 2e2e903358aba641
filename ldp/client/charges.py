"""Charges of a device: one row each, and their totals. No charge is ever refunded."""

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from fractions import Fraction
from functools import lru_cache
from sqlite3 import Connection

from ldp.accounting.ledger import Allowance, allowance
from ldp.accounting.policy import Caps
from ldp.client.device_file import remember, state
from ldp.client.periods import day_of, length
from ldp.protocol.sealed_report import SHUFFLER
from ldp.registry import Metric, Registry

Charge = tuple[str, str, float, int, int]
"""Group, metric, price, how often it was charged, and the end of the period; of a total the latest
end whose charges were forgotten."""
MOST_WINDOWS = 400
"""Most windows of a group whose charges are kept: those that end last. No clock forgets any."""
TERMS = "terms"
"""Name of the state with the caps and the metrics that the owner was shown with the consent."""


def agree(
    connection: Connection, registry: Registry, shuffler_groups: Collection[str] = ()
) -> None:
    """Write down the caps and metrics of the registry as those that the owner agreed to; of groups
    that trust a shuffler only of `shuffler_groups`."""
    groups = {
        _term(registry, name): [
            *(length(group.caps.window), group.caps.window_epsilon, group.caps.lifetime_epsilon),
            group.caps.report_epsilon,
        ]
        for name, group in registry.groups.items()
        if not group.needs_shuffler or name in shuffler_groups
    }
    life = None if registry.lifetime_epsilon == math.inf else registry.lifetime_epsilon
    terms = {"life": life, "groups": groups, "metrics": sorted(registry.metrics)}
    remember(connection, TERMS, json.dumps(terms))


def complete_terms(connection: Connection, registry: Registry) -> None:
    """Let a consent from before caps were kept stand for those of this registry, and one from
    before metrics were kept for its metrics."""
    terms = json.loads(state(connection, TERMS, "{}"))
    if not terms:
        agree(connection, registry)
    elif "metrics" not in terms:
        remember(connection, TERMS, json.dumps(terms | {"metrics": sorted(registry.metrics)}))


def is_new(connection: Connection, metric: str) -> bool:
    """Return whether a metric was not among those that the owner was shown with the consent."""
    agreed = _agreed_metrics(state(connection, TERMS, "{}"))
    return agreed is not None and metric not in agreed


def is_agreed(connection: Connection, group: str) -> bool:
    """Return whether the owner was shown a group with the consent."""
    terms = state(connection, TERMS)
    return terms is None or group in json.loads(terms)["groups"]


def names_to_ask(connection: Connection, registry: Registry) -> tuple[str, ...]:
    """Return `groups_to_ask`, the metrics that are new, and "[product]" if the cap of the device is
    looser. The smaller caps hold, and new metrics wait, until the owner is asked again."""
    life, _ = _terms(connection, registry)
    metrics = [name for name in registry.metrics if is_new(connection, name)]
    product = ["[product]"] * (registry.lifetime_epsilon > life)
    return (*groups_to_ask(connection, registry), *metrics, *product)


def groups_to_ask(connection: Connection, registry: Registry) -> list[str]:
    """Return the groups that are new since the consent, or whose caps are looser."""
    _, agreed_caps = _terms(connection, registry)
    return [
        name
        for name, group in registry.groups.items()
        if (caps := agreed_caps.get(_term(registry, name))) is None
        or group.caps.lifetime_epsilon > caps.lifetime_epsilon
        or group.caps.increase_over(caps)
    ]


def life_left(connection: Connection, registry: Registry, group: str) -> Fraction:
    """Return the epsilon that a group may still be charged for life; negative past a cap.

    Charges of the group count, those of its metrics in other groups, and those of metrics that the
    registry no longer has. The smaller of today's caps and those that the owner was shown holds,
    for the group and for the device.
    """
    life, agreed_caps = _terms(connection, registry)
    if (term := _term(registry, group)) not in agreed_caps:
        return Fraction(0)
    totals = _charges(connection, "totals", "forgotten")
    caps = registry.groups[group].caps, agreed_caps[term]
    cap = min(Fraction(limit.lifetime_epsilon) for limit in caps)
    remaining = cap - _sum(_counted(registry, group, totals))
    if (device := min(life, registry.lifetime_epsilon)) < math.inf:
        remaining = min(remaining, Fraction(device) - _sum(totals))
    return remaining


def remaining_budget(connection: Connection, registry: Registry, group: str, end: int) -> Allowance:
    """Return what a group may still be charged for the period that ends at `end` (seconds since
    1970): for life, and in each window that is capped, less what is set aside for epochs. A clock
    that leaped may have charged windows after this one, and windows that are forgotten have
    nothing left."""
    _, agreed_caps = _terms(connection, registry)
    if (term := _term(registry, group)) not in agreed_caps:
        return Allowance(Fraction(0), Fraction(0))
    life = life_left(connection, registry, group)
    reserved = registry.set_aside(group, day_of(end - 1))
    budget = Allowance(life, life)
    for caps in {registry.groups[group].caps, agreed_caps[term]}:
        span = length(caps.window)
        in_window = _sum(_charges_between(connection, registry, group, end - span, end + span))
        if _last_forgotten(connection, registry, group) > end - span:
            in_window = max(in_window, Fraction(caps.window_epsilon))
        budget = budget.within(allowance(caps, Fraction(0), in_window + reserved))
    return budget


def is_charged(connection: Connection, registry: Registry, group: str, end: int) -> bool:
    """Return whether the windows of the period that ends at `end` may have charges of it or after
    it: only a clock that went back shows a time in such a period."""
    _, agreed_caps = _terms(connection, registry)
    caps = registry.groups[group].caps, agreed_caps[_term(registry, group)]
    last = end + max(length(limit.window) for limit in caps)
    return _last_forgotten(connection, registry, group) >= end or bool(
        _charges_between(connection, registry, group, end - 1, last)
    )


def charge(connection: Connection, group: str, metric: Metric, at: int, times: int) -> None:
    """Write a charge of `times` prices, add it to the totals, and forget but the sum of what is
    beyond MOST_WINDOWS. `at`: the end of its period, in seconds since 1970."""
    if not times:
        return
    cost = group, metric.name, metric.price, times
    connection.execute(
        "INSERT INTO charges (budget, metric, epsilon, times, at) VALUES (?, ?, ?, ?, ?)",
        (*cost, at),
    )
    connection.execute(
        "INSERT INTO totals (budget, metric, epsilon, times) VALUES (?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET times = times + excluded.times",
        cost,
    )
    beyond = connection.execute(
        "SELECT DISTINCT at FROM charges WHERE budget = ? ORDER BY at DESC LIMIT 1 OFFSET ?",
        (group, MOST_WINDOWS),
    ).fetchone()
    if beyond is not None:
        last = (group, *beyond)
        connection.execute("DELETE FROM charges WHERE budget = ? AND at <= ?", last)
        connection.execute(
            "UPDATE totals SET forgotten = max(forgotten, ?2) WHERE budget = ?1", last
        )


def _terms(connection: Connection, registry: Registry) -> tuple[float, Mapping[str, Caps]]:
    """Return the caps that the owner was shown; today's for a consent older than this record."""
    text = state(connection, TERMS)
    if text is None:
        groups = registry.groups.items()
        return registry.lifetime_epsilon, {n: g.caps for n, g in groups if not g.needs_shuffler}
    return _read_terms(text)


def _term(registry: Registry, group: str) -> str:
    """Return the name under which a group is among the terms: who agreed to caps on the device's
    own noise did not agree to a shuffler, and who agreed to one text not to another."""
    trusting = registry.groups[group]
    if not trusting.needs_shuffler:
        return group
    digest = hashlib.blake2b(trusting.consent.encode(), digest_size=16).hexdigest()
    return f"{SHUFFLER}{group}/{digest}"


@lru_cache(maxsize=8)
def _agreed_metrics(text: str) -> frozenset[str] | None:
    metrics = json.loads(text).get("metrics")
    return None if metrics is None else frozenset(metrics)


@lru_cache(maxsize=8)
def _read_terms(text: str) -> tuple[float, Mapping[str, Caps]]:
    terms = json.loads(text)
    agreed_caps = {
        name: Caps(
            window=timedelta(seconds=seconds),
            window_epsilon=window,
            lifetime_epsilon=lifetime,
            report_epsilon=report,
        )
        for name, (seconds, window, lifetime, report) in terms["groups"].items()
    }
    return math.inf if terms["life"] is None else terms["life"], agreed_caps


def _charges(
    connection: Connection, source: str, end: str = "at", arguments: tuple[int, ...] = ()
) -> list[Charge]:
    query = f"SELECT budget, metric, epsilon, times, {end} FROM {source}"
    return connection.execute(query, arguments).fetchall()


def _charges_between(
    connection: Connection, registry: Registry, group: str, after: int, before: int
) -> list[Charge]:
    near = _charges(connection, "charges WHERE at > ? AND at < ?", arguments=(after, before))
    return _counted(registry, group, near)


def _last_forgotten(connection: Connection, registry: Registry, group: str) -> int:
    totals = _counted(registry, group, _charges(connection, "totals", "forgotten"))
    return max((end for *_, end in totals), default=0)


def _counted(registry: Registry, group: str, charges: list[Charge]) -> list[Charge]:
    """Return the charges that count for a group."""
    metrics = registry.metrics
    return [
        charge
        for charge in charges
        if charge[1] not in metrics or group in (charge[0], metrics[charge[1]].group)
    ]


def _sum(charges: Iterable[Charge]) -> Fraction:
    return sum((times * Fraction(price) for _, _, price, times, _ in charges), Fraction(0))
