"""Sealing: what is sent is charged before it leaves, and never leaves otherwise.

The rules, each with its test, are in `docs/device-protocol.md`.
"""

import json
import math
import sqlite3
from collections import Counter
from datetime import date, timedelta
from fractions import Fraction
from typing import NamedTuple, TypeVar

from ldp.accounting.ledger import Room
from ldp.client.charges import charge, is_agreed, left
from ldp.client.device_file import remember, state
from ldp.client.periods import beginning, day_of, ending, length
from ldp.client.pool import Frozen, due, freeze, frozen, meaning
from ldp.client.responses import Responses
from ldp.protocol.batch import ID_BYTES, Batch, Item, packed
from ldp.protocol.hashing import Value
from ldp.protocol.randomness import BitSource, uniform_below
from ldp.registry import Metric, Registry

MOST_WAITING = 4 << 20
"""Bytes of sealed batches that wait; beyond it the oldest are dropped, and counted."""
MOST_PERIODS = 30
"""Of a hidden group that are sealed at once: the latest."""
T = TypeVar("T")


class Grant(NamedTuple):
    """How many reports a metric may send of a period, and the epsilon that is kept for them."""

    reports: int
    epsilon: Fraction

    def taken_from(self, metric: Metric, left: Room) -> Room:
        """Return what is left for other metrics. What an epoch takes of a window was set aside."""
        of_window = Fraction(0) if metric.epoch else self.epsilon
        return left._replace(life=left.life - self.epsilon, window=left.window - of_window)


class Sealer:
    """Seals what periods pooled. A *due* period is (its end, a group)."""

    def __init__(
        self, registry: Registry, responses: Responses, bits: BitSource, jitter: timedelta
    ) -> None:
        self._registry = registry
        self._responses = responses
        self._bits = bits
        self._jitter = jitter

    def public_due(self, connection: sqlite3.Connection, now: int) -> list[tuple[int, str]]:
        """Of the groups that do not hide whether they have records: those that have some. Group ""
        stands for metrics that are gone."""
        ended = ((ends, self._group(name)) for ends, name in due(connection, now))
        hidden = self._registry.is_hidden
        return [(ends, group) for ends, group in dict.fromkeys(ended) if not hidden(group)]

    def hidden_due(self, connection: sqlite3.Connection, now: int) -> list[tuple[int, str]]:
        """Of the groups that hide whether they have records: the calendar's alone. The calendar of
        a group that is new here begins now."""
        ended: list[tuple[int, str]] = []
        for name, group in self._registry.groups.items():
            if not self._registry.is_hidden(name) or not is_agreed(connection, name):
                continue
            span, last = length(group.caps.window), state(connection, _calendar(name))
            begun = beginning(now, group.caps.window)
            if last is None:
                remember(connection, _calendar(name), begun)
                continue
            first = max(last - last % span + span, begun - (MOST_PERIODS - 1) * span)
            ended += [(ends, name) for ends in range(first, begun + 1, span)]
        return sorted(ended)

    def seal(self, connection: sqlite3.Connection, ended: list[tuple[int, str]], now: int) -> None:
        """Charges what these periods may send and puts it into sealed batches; all else that they
        pooled is deleted. Call it in a synced transaction: nothing has left before it ends."""
        items: list[Item] = []
        for ends, group in ended:
            if group in self._registry.groups:
                items += self._granted(connection, group, ends)
            self._forget(connection, group, ends)
        day = day_of(now)
        self._forget_what_is_over(connection, day_of(max(ends for ends, _ in ended) - 1))
        for chosen in packed(shuffled(items, self._bits)):
            groups = {self._group(item.metric) for item in chosen}
            lateness = min(self._registry.groups[group].lateness for group in groups)
            identity = self._bits.draw(8 * ID_BYTES).to_bytes(ID_BYTES, "little")
            connection.execute(
                "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, 'waiting')",
                (
                    identity,
                    day.isoformat(),
                    (day + lateness).isoformat(),
                    now + uniform_below(self._bits, 1 + round(self._jitter.total_seconds())),
                    json.dumps(Counter(item.metric for item in chosen)),
                    Batch(identity, day, chosen).to_bytes(),
                ),
            )

    def _granted(self, connection: sqlite3.Connection, group: str, ends: int) -> list[Item]:
        """The reports that a group may send of one period, charged. The order of its metrics is
        drawn before any pool is looked at, and a grant that is not used lapses."""
        metrics = [
            metric
            for metric in self._registry.metrics.values()
            if metric.group == group and metric.expires >= day_of(ends - 1)
        ]
        items, now_left = list[Item](), left(connection, self._registry, group, ends)
        for metric in shuffled(metrics, self._bits):
            grant = _grant(connection, metric, ends, now_left)
            now_left = grant.taken_from(metric, now_left)
            take = _TAKE[metric.presence, metric.memoise == "epoch"]
            reports, times = take(connection, metric, ends, grant, self._responses)
            charge(connection, group, metric, ends, times)
            items += [Item(metric.name, metric.version, report) for report in reports]
        return items

    def _forget(self, connection: sqlite3.Connection, group: str, ends: int) -> None:
        """Deletes what the period pooled, and the epochs that ended before it."""
        for ended, name in due(connection, ends):
            if self._group(name) == group:
                for table in ("pool", "seen"):
                    connection.execute(
                        f"DELETE FROM {table} WHERE ends = ? AND metric = ?", (ended, name)
                    )
        over = connection.execute("SELECT DISTINCT metric FROM frozen WHERE ends < ?", (ends,))
        for (name,) in over.fetchall():
            if self._group(name) in (group, ""):
                connection.execute("DELETE FROM frozen WHERE ends < ? AND metric = ?", (ends, name))
        if self._registry.is_hidden(group):
            remember(connection, _calendar(group), ends)

    def _forget_what_is_over(self, connection: sqlite3.Connection, day: date) -> None:
        """Delete what other versions of the registry, and metrics that expired before a day, froze
        and never sent: nothing is set aside for them in the windows of those records."""
        metrics = self._registry.metrics.values()
        current = {meaning(metric) for metric in metrics if metric.expires >= day}
        for key in connection.execute(
            "SELECT metric, version, meaning FROM frozen WHERE NOT charged"
        ).fetchall():
            for table in ("frozen", "pool", "seen") if key not in current else ():
                connection.execute(
                    f"DELETE FROM {table} WHERE (metric, version, meaning) = (?, ?, ?)", key
                )

    def _group(self, metric: str) -> str:
        known = self._registry.metrics
        return known[metric].group if metric in known else ""


def stop_calendars(connection: sqlite3.Connection) -> None:
    """After a withdrawal: hidden groups begin anew when there is consent again."""
    connection.execute("DELETE FROM state WHERE name GLOB ?", (_calendar("*"),))


def drop(connection: sqlite3.Connection, now: int) -> None:
    """Drops batches that no collector would take any more, and the oldest beyond MOST_WAITING."""
    gone = "UPDATE batches SET state = 'dropped', body = NULL, not_before = 0 WHERE "
    today = day_of(now).isoformat()
    connection.execute(f"{gone} state = 'waiting' AND last_day < ?", (today,))
    total = 0
    for identity, size in connection.execute(
        "SELECT id, length(body) FROM batches WHERE state = 'waiting' ORDER BY day DESC, id"
    ).fetchall():
        total += size
        if total > MOST_WAITING:
            connection.execute(f"{gone} id = ?", (identity,))


def shuffled(items: list[T], bits: BitSource) -> list[T]:
    """A uniform order (Durstenfeld 1964)."""
    made = list(items)
    for last in range(len(made) - 1, 0, -1):
        other = uniform_below(bits, last + 1)
        made[last], made[other] = made[other], made[last]
    return made


def afforded(metric: Metric, left: Room) -> Grant:
    """Return what a metric may send of a period when so much epsilon is left. Where responses are
    memoised by epoch all of them cost one price, once, which every window sets aside; per value
    every one is taken for the first about its value, whatever it is."""
    price, slots = Fraction(metric.price), metric.reports_per_window
    if metric.mechanism.cost.epsilon > left.report:
        return Grant(0, Fraction(0))
    if metric.epoch:
        fits = price <= left.life and left.window >= 0
        return Grant(slots, price) if fits else Grant(0, Fraction(0))
    reports = min(slots, math.floor(left.least / price))
    return Grant(reports, reports * price)


def _grant(connection: sqlite3.Connection, metric: Metric, ends: int, left: Room) -> Grant:
    """What is afforded; an epoch that was charged costs nothing more."""
    if metric.epoch:
        found = frozen(connection, metric, ending(ends - 1, metric.epoch))
        if found and found.charged:
            return Grant(metric.reports_per_window if found.response else 0, Fraction(0))
    return afforded(metric, left)


def _pooled(
    connection: sqlite3.Connection, metric: Metric, ends: int, grant: Grant, _: Responses
) -> tuple[list[bytes], int]:
    """Reports of the records that were drawn, and how often the price is charged for them."""
    found = connection.execute(
        "SELECT report, tag FROM pool WHERE (ends, metric, version, meaning) = (?, ?, ?, ?) "
        "ORDER BY slot LIMIT ?",
        (ends, *meaning(metric), grant.reports),
    ).fetchall()
    times = sum(tag is None or _is_new(connection, tag) for _, tag in found)
    return [report for report, _ in found], times


def _of_epoch(
    connection: sqlite3.Connection, metric: Metric, ends: int, grant: Grant, responses: Responses
) -> tuple[list[bytes], int]:
    """Reports of an epoch, which is charged with the first of them."""
    reports, _ = _pooled(connection, metric, ends, grant, responses)
    if not reports or not grant.epsilon:
        return reports, 0
    _mark_charged(connection, metric, ends)
    return reports, 1


def _filled(
    connection: sqlite3.Connection, metric: Metric, ends: int, grant: Grant, responses: Responses
) -> tuple[list[bytes], int]:
    """As many reports as the metric has slots, whatever was recorded or is left: of records that
    were drawn, as far as the grant goes, and of none. The whole grant is charged."""
    reports, _ = _pooled(connection, metric, ends, grant, responses)
    empty = metric.reports_per_window - len(reports)
    reports += [responses.report(metric, _none(metric)).report for _ in range(empty)]
    return reports, grant.reports


def _filled_of_epoch(
    connection: sqlite3.Connection, metric: Metric, ends: int, grant: Grant, responses: Responses
) -> tuple[list[bytes], int]:
    """As many reports as the metric has slots, about the value drawn in the epoch before; about
    none where there is no such value or no room. Every epoch that there is room for is charged."""
    assert metric.epoch
    over, none, slots = ending(ends - 1, metric.epoch), _none(metric), metric.reports_per_window
    if not grant.reports:
        return [responses.once(metric, none).report for _ in range(slots)], 0
    kept = frozen(connection, metric, over) or Frozen(responses.frozen(metric, none), False)
    if grant.epsilon:
        freeze(connection, metric, over, Frozen(kept.response, True))
    reports = [responses.about(metric, kept.response, none).report for _ in range(slots)]
    return reports, int(bool(grant.epsilon))


_TAKE = {
    ("public", False): _pooled,
    ("public", True): _of_epoch,
    ("hidden", False): _filled,
    ("hidden", True): _filled_of_epoch,
}


def _none(metric: Metric) -> Value:
    none = metric.mechanism.none
    assert none is not None  # the registry refuses hidden presence without
    return none


def _is_new(connection: sqlite3.Connection, tag: bytes) -> bool:
    """Whether nothing was sent under this tag before; from now on it was."""
    return connection.execute("INSERT OR IGNORE INTO cells VALUES (?)", (tag,)).rowcount == 1


def _mark_charged(connection: sqlite3.Connection, metric: Metric, ends: int) -> None:
    assert metric.epoch
    connection.execute(
        "UPDATE frozen SET charged = 1 WHERE (ends, metric, version, meaning) = (?, ?, ?, ?)",
        (ending(ends - 1, metric.epoch), *meaning(metric)),
    )


def _calendar(group: str) -> str:
    return f"sealed {group}"
