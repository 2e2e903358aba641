"""Sealing: what is sent is charged before it leaves, and never leaves otherwise.

The rules, each with its test, are in `docs/device-protocol.md`.
"""

import json
from collections import Counter
from collections.abc import Mapping
from datetime import date, timedelta
from sqlite3 import Connection
from typing import TypeVar

from ldp.client.charges import charge, is_agreed, left
from ldp.client.device_file import remember, state
from ldp.client.memoisation_modes import Mode
from ldp.client.periods import beginning, day_of, length
from ldp.client.pool import due, meaning
from ldp.protocol.batch import ID_BYTES, Batch, Item, packed
from ldp.protocol.randomness import BitSource, uniform_below
from ldp.registry import Registry

MOST_WAITING = 4 << 20
"""Bytes of sealed batches that wait; beyond it the oldest are dropped, and counted."""
MOST_PERIODS = 30
"""Of a hidden group that are sealed at once: the latest."""
T = TypeVar("T")


class Sealer:
    """Seals what periods pooled. A *due* period is (its end, a group)."""

    def __init__(
        self, registry: Registry, modes: Mapping[str, Mode], bits: BitSource, jitter: timedelta
    ) -> None:
        self._registry = registry
        self._modes = modes
        self._bits = bits
        self._jitter = jitter

    def public_due(self, connection: Connection, now: int) -> list[tuple[int, str]]:
        """Of the groups that do not hide whether they have records: those that have some. Group ""
        stands for metrics that are gone."""
        ended = ((ends, self._group(name)) for ends, name in due(connection, now))
        hidden = self._registry.is_hidden
        return [(ends, group) for ends, group in dict.fromkeys(ended) if not hidden(group)]

    def hidden_due(self, connection: Connection, now: int) -> list[tuple[int, str]]:
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

    def seal(self, connection: Connection, ended: list[tuple[int, str]], now: int) -> None:
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

    def _granted(self, connection: Connection, group: str, ends: int) -> list[Item]:
        """The reports that a group may send of one period, charged. The order of its metrics is
        drawn before any pool is looked at, and a grant that is not used lapses."""
        modes = [
            mode
            for mode in self._modes.values()
            if mode.metric.group == group and mode.metric.expires >= day_of(ends - 1)
        ]
        items, now_left = list[Item](), left(connection, self._registry, group, ends)
        for mode in shuffled(modes, self._bits):
            grant = mode.grant(connection, ends, now_left)
            now_left = grant.taken_from(now_left)
            reports, times = mode.take(connection, ends, grant)
            metric = mode.metric
            charge(connection, group, metric, ends, times)
            items += [Item(metric.name, metric.version, report) for report in reports]
        return items

    def _forget(self, connection: Connection, group: str, ends: int) -> None:
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

    def _forget_what_is_over(self, connection: Connection, day: date) -> None:
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


def stop_calendars(connection: Connection) -> None:
    """After a withdrawal: hidden groups begin anew when there is consent again."""
    connection.execute("DELETE FROM state WHERE name GLOB ?", (_calendar("*"),))


def drop(connection: Connection, now: int) -> None:
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


def _calendar(group: str) -> str:
    return f"sealed {group}"
