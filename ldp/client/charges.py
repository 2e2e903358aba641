"""Charges of a device: one row each, and their totals. No charge is ever refunded."""

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from fractions import Fraction
from functools import lru_cache

from ldp.accounting.policy import Allowance, Caps, length
from ldp.client.device_file import Charge, Database, remember, state, totals
from ldp.client.periods import beginning, day_of, ending
from ldp.client.pool import frozen_response
from ldp.protocol.sealed_report import SHUFFLER
from ldp.registry import Metric, Registry

MOST_WINDOWS = 400
"""Most sealed windows of a group that are kept: those that end last. A change of the clock deletes
none."""
_FORGET = (
    """UPDATE totals SET forgotten = max(forgotten, :last, (SELECT ifnull(max(ends), 0)
    FROM charges WHERE budget = :budget AND at <= :last)) WHERE budget = :budget
    AND metric IN (SELECT metric FROM charges WHERE budget = :budget)""",
    "DELETE FROM charges WHERE budget = :budget AND at <= :last",
    "DELETE FROM sealed WHERE budget = :budget AND ends < :last",
    """DELETE FROM frozen WHERE charged AND ends <= (SELECT max(forgotten) FROM totals
    WHERE totals.metric = frozen.metric)""",
)
_NEAR = "SELECT budget, metric, epsilon, times, ends FROM charges WHERE ends > ? AND begins < ?"
_LAST_SEALED = "SELECT ends FROM sealed WHERE budget = ? ORDER BY ends DESC LIMIT 1 OFFSET ?"
_IS_SEALED = (
    f"SELECT EXISTS (SELECT 1 FROM sealed WHERE budget = ? AND ends = ?) OR ({_LAST_SEALED}) > ?"
)
Span = tuple[int, int]
"""Beginning and end of a span of time, in seconds since 1970."""
TERMS = "terms"
"""Name of the state with the caps and the metrics that the owner was shown with the consent."""


def agree(database: Database, registry: Registry, shuffler_groups: Collection[str] = ()) -> None:
    """Write down the caps and metrics of the registry as those that the owner agreed to. Of the
    groups that trust a shuffler, only `shuffler_groups` are included."""
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
    remember(database, TERMS, json.dumps(terms))


def complete_terms(database: Database, registry: Registry) -> None:
    """Write the missing terms of a consent that an older version noted: all terms of this registry
    if the consent has none, or its metrics if the consent names none."""
    terms = json.loads(state(database, TERMS, "{}"))
    if not terms:
        agree(database, registry)
    elif "metrics" not in terms:
        remember(database, TERMS, json.dumps(terms | {"metrics": sorted(registry.metrics)}))


def is_new(database: Database, metric: str) -> bool:
    """Return whether a metric was not among those that the owner was shown with the consent."""
    agreed = _agreed_metrics(state(database, TERMS, "{}"))
    return agreed is not None and metric not in agreed


def is_agreed(database: Database, group: str) -> bool:
    """Return whether the owner was shown a group with the consent."""
    terms = state(database, TERMS)
    return terms is None or group in json.loads(terms)["groups"]


def names_to_ask(database: Database, registry: Registry) -> tuple[str, ...]:
    """Return `groups_to_ask`, the metrics that are new, and "[product]" if the cap of the device is
    looser. The smaller caps hold, and new metrics wait, until the owner is asked again."""
    life, _ = _terms(database, registry)
    metrics = [name for name in registry.metrics if is_new(database, name)]
    product = ["[product]"] * (registry.lifetime_epsilon > life)
    return (*groups_to_ask(database, registry), *metrics, *product)


def groups_to_ask(database: Database, registry: Registry) -> list[str]:
    """Return the groups that are new since the consent, or whose caps are looser."""
    _, agreed_caps = _terms(database, registry)
    return [
        name
        for name, group in registry.groups.items()
        if (caps := agreed_caps.get(_term(registry, name))) is None
        or group.caps.lifetime_epsilon > caps.lifetime_epsilon
        or group.caps.increase_over(caps)
    ]


def life_left(database: Database, registry: Registry, group: str) -> Fraction:
    """Return the epsilon that a group may still be charged for life. It is negative past a cap.

    Charges of the group count, those of its metrics in other groups, and those of metrics that the
    registry no longer has. The smaller of today's caps and those that the owner was shown holds,
    for the group and for the device.
    """
    life, agreed_caps = _terms(database, registry)
    if (term := _term(registry, group)) not in agreed_caps:
        return Fraction(0)
    charged = totals(database)
    caps = registry.groups[group].caps, agreed_caps[term]
    cap = exact(min(limit.lifetime_epsilon for limit in caps))
    remaining = cap - _sum(_counted(registry, group, charged))
    if (device := min(life, registry.lifetime_epsilon)) < math.inf:
        remaining = min(remaining, exact(device) - _sum(charged))
    return remaining


def remaining_budget(database: Database, registry: Registry, group: str, end: int) -> Allowance:
    """Return what a group may still be charged for the period that ends at `end` (seconds since
    1970): for life, and in each window that is capped, less what is set aside for epochs. A charge
    counts by the span of time that it is about: this may be a window of another length, or lie
    after this period where the clock went back. A sealed or forgotten window has nothing left."""
    _, agreed_caps = _terms(database, registry)
    if (term := _term(registry, group)) not in agreed_caps:
        return Allowance(Fraction(0), Fraction(0))
    life = life_left(database, registry, group)
    reserved = set_aside(database, registry, group, end)
    budget, is_over = Allowance(life, life), is_window_sealed(database, group, end)
    window = length(registry.groups[group].caps.window)
    counted = _counted(registry, group, totals(database))
    last_forgotten = max((end for *_, end in counted), default=0)
    for caps in {registry.groups[group].caps, agreed_caps[term]}:
        span = length(caps.window)
        # windows of the length agreed to may reach beyond this period
        first = min(end - span, beginning(end - window, caps.window))
        last = max(end + span - window, ending(end - 1, caps.window))
        near = database.execute(_NEAR, (first, last)).fetchall()
        in_window = _sum(_counted(registry, group, near))
        if is_over or last_forgotten > max(0, first):
            in_window = max(in_window, Fraction(caps.window_epsilon))
        budget = budget.within(caps.allowance(Fraction(0), in_window + reserved))
    return budget


def set_aside(database: Database, registry: Registry, group: str, end: int) -> Fraction:
    """Return the epsilon that the period which ends at `end` sets aside for epochs. Nothing is set
    aside for a hidden metric whose response was charged already, before the clock went back."""
    day = day_of(end - 1)
    reserved = registry.set_aside(group, day)
    for metric in registry.metrics_of(group):
        if metric.epoch and metric.presence == "hidden" and metric.expires >= day:
            next_end = ending(end - 1, metric.epoch) + length(metric.epoch)
            response = frozen_response(database, metric, next_end)
            reserved -= Fraction(metric.price) * bool(response and response.charged)
    return reserved


def is_window_sealed(database: Database, group: str, end: int) -> bool:
    """Return whether something was sent of the period of a group that ends at `end`. Nothing more
    is sent of such a period. Only a clock that went back shows a time in it."""
    (is_sealed,) = database.execute(_IS_SEALED, (group, end, group, MOST_WINDOWS, end)).fetchone()
    return bool(is_sealed)


def charge(database: Database, group: str, metric: Metric, at: int, times: int, span: Span) -> None:
    """Write a charge of `times` prices, and add it to the totals. `at`: the end of its period, in
    seconds since 1970. `span`: the time that the reports are about."""
    cost = group, metric.name, metric.price, times
    database.execute(
        "INSERT INTO charges (budget, metric, epsilon, times, at, begins, ends) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*cost, at, *span),
    )
    database.execute(
        "INSERT INTO totals (budget, metric, epsilon, times) VALUES (?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET times = times + excluded.times",
        cost,
    )
    database.totals = None


def mark_sealed(database: Database, group: str, end: int) -> None:
    """Note that something was sent of a group's period. Keep only the totals of charges and
    windows beyond MOST_WINDOWS, and delete the charged responses of epochs that ended before."""
    database.execute("INSERT INTO sealed VALUES (?, ?)", (group, end))
    (last,) = database.execute(_LAST_SEALED, (group, MOST_WINDOWS)).fetchone() or (0,)
    for statement in _FORGET if last else ():
        database.execute(statement, {"budget": group, "last": last})
    database.totals = None


def _terms(database: Database, registry: Registry) -> tuple[float, Mapping[str, Caps]]:
    """Return the caps that the owner was shown. For a consent older than this record they are
    today's."""
    text = state(database, TERMS)
    if text is None:
        groups = registry.groups.items()
        return registry.lifetime_epsilon, {n: g.caps for n, g in groups if not g.needs_shuffler}
    return _read_terms(text)


def _term(registry: Registry, group: str) -> str:
    """Return the name under which a group stands in the terms. It depends on the group's trust and
    consent text: who agreed to caps on the device's own noise did not agree to a shuffler, and who
    agreed to one text did not agree to another."""
    trusting = registry.groups[group]
    if not trusting.needs_shuffler:
        return group
    digest = hashlib.blake2b(trusting.consent.encode(), digest_size=16).hexdigest()
    return f"{SHUFFLER}{group}/{digest}"


exact = lru_cache(maxsize=256)(Fraction)
"""Return an epsilon as a fraction; exact, as every float is one."""


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


def _counted(registry: Registry, group: str, charges: list[Charge]) -> list[Charge]:
    """Return the charges that count against the cap of a group: those made in it, those of metrics
    that are in it now, and those of metrics that the registry no longer has."""
    metrics = registry.metrics
    return [
        charge
        for charge in charges
        if charge[1] not in metrics or group in (charge[0], metrics[charge[1]].group)
    ]


def _sum(charges: Iterable[Charge]) -> Fraction:
    return sum((times * exact(price) for _, _, price, times, _ in charges), Fraction(0))
