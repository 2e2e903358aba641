"""Pool and seal: what is sent is drawn before it is encoded, and charged before it leaves.

The rules, each with its test, are in `docs/device-protocol.md`.
"""

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import TypeVar

from ldp.accounting.ledger import room
from ldp.batch import ID_BYTES, Batch, Item, packed
from ldp.client.device_file import remember, state
from ldp.randomness import BitSource, uniform_below
from ldp.registry import Metric, Registry

MOST_WAITING = 4 << 20
"""Bytes of sealed batches that wait; beyond it the oldest are dropped, and counted."""
LAST_SECOND = round(datetime(9000, 1, 1, tzinfo=UTC).timestamp())
"""A clock that is later is taken for this: dates end in the year 9999."""
T = TypeVar("T")
Key = tuple[int, str, int, bytes]
"""Whose slots: a period's end, and a metric with the version and the fingerprint it was recorded
under. What was recorded under another meaning is never sent, nor charged at another price."""


def ledger_time(connection: sqlite3.Connection, clock: datetime) -> int:
    """Seconds since 1970, never before the latest period that was seen to begin."""
    return int(max(_seconds(clock), state(connection, "latest", 0)))


def keep_time(connection: sqlite3.Connection, registry: Registry, now: int) -> None:
    """Remembers the latest beginning of a period, so that time does not run backwards; no finer
    time is ever written."""
    windows = (group.caps.window for group in registry.groups.values())
    begun = max((period_end(now, window) - _length(window) for window in windows), default=0)
    if begun > state(connection, "latest", 0):
        remember(connection, "latest", begun)


def period_end(now: int, window: timedelta) -> int:
    """The end of the period that holds `now`: periods are `window` long and begin at multiples of
    it since 1970, UTC."""
    return (now // _length(window) + 1) * _length(window)


def day_of(seconds: int) -> date:
    return datetime.fromtimestamp(seconds, UTC).date()


def enter(
    connection: sqlite3.Connection,
    metric: Metric,
    ends: int,
    bits: BitSource,
    encode: Callable[[], bytes],
) -> None:
    """A record takes part in its period's draw (reservoir sampling: Vitter 1985, algorithm R, the
    first ones on random slots). `encode` is called for a winner only."""
    key, slots = _key(metric, ends), metric.reports_per_window
    found = connection.execute(
        "SELECT records FROM seen WHERE (ends, metric, version, fingerprint) = (?, ?, ?, ?)", key
    ).fetchone()
    before = found[0] if found else 0
    slot = uniform_below(bits, max(slots, before + 1))
    while before < slots and _is_taken(connection, key, slot):
        slot = uniform_below(bits, slots)
    connection.execute("INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?, ?)", (*key, before + 1))
    if slot < slots:
        connection.execute(
            "INSERT OR REPLACE INTO pool VALUES (?, ?, ?, ?, ?, ?)", (*key, slot, encode())
        )


def due(connection: sqlite3.Connection, now: int) -> bool:
    """Whether a period with records has ended."""
    ended = connection.execute("SELECT 1 FROM seen WHERE ends <= ? LIMIT 1", (now,)).fetchone()
    return ended is not None


def seal(
    connection: sqlite3.Connection,
    registry: Registry,
    now: int,
    bits: BitSource,
    jitter: timedelta,
) -> None:
    """Charges what the periods that ended may send and puts it into sealed batches; all else that
    they pooled is deleted. Call it in a synced transaction: nothing has left before it ends."""
    ended = connection.execute(
        "SELECT DISTINCT ends, metric FROM seen WHERE ends <= ? ORDER BY ends", (now,)
    ).fetchall()
    known = registry.metrics
    held = [(ends, known[name].group) for ends, name in ended if name in known]
    items: list[Item] = []
    for ends, group in dict.fromkeys(held):
        items += _granted(connection, registry, group, ends, bits)
    for table in ("pool", "seen"):
        connection.execute(f"DELETE FROM {table} WHERE ends <= ?", (now,))
    day = day_of(now)
    for chosen in packed(shuffled(items, bits)):
        groups = {known[item.metric].group for item in chosen}
        lateness = min(registry.groups[group].lateness for group in groups)
        batch = Batch(bits.draw(8 * ID_BYTES).to_bytes(ID_BYTES, "little"), day, chosen)
        connection.execute(
            "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, 'waiting')",
            (
                batch.id,
                day.isoformat(),
                (day + lateness).isoformat(),
                now + uniform_below(bits, 1 + round(jitter.total_seconds())),
                json.dumps(Counter(item.metric for item in chosen)),
                batch.to_bytes(),
            ),
        )


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


def spending(
    connection: sqlite3.Connection, registry: Registry, group: str, now: int
) -> tuple[Fraction, Fraction]:
    """The epsilon that counts for a group, in all and in the window that ends now.

    It is charged for what it sent itself, for what its metrics sent in other groups, and for what
    nobody answers for any more: group and metric renamed or removed.
    """

    def total(source: str, *arguments: int) -> Fraction:
        query = f"SELECT budget, metric, epsilon, reports FROM {source}"
        return sum(
            (
                reports * Fraction(epsilon)
                for budget, name, epsilon, reports in connection.execute(query, arguments)
                if group in _answering(registry, budget, name)
            ),
            Fraction(0),
        )

    since = now - _length(registry.groups[group].caps.window)
    return total("totals"), total("charges WHERE at > ?", since)


def shuffled(items: list[T], bits: BitSource) -> list[T]:
    """A uniform order (Durstenfeld 1964)."""
    made = list(items)
    for last in range(len(made) - 1, 0, -1):
        other = uniform_below(bits, last + 1)
        made[last], made[other] = made[other], made[last]
    return made


def _granted(
    connection: sqlite3.Connection, registry: Registry, group: str, ends: int, bits: BitSource
) -> list[Item]:
    """The reports that a group may send of one period, charged. The order of its metrics is drawn
    before any pool is looked at, and a grant that is not used lapses."""
    metrics = [metric for metric in registry.metrics.values() if metric.group == group]
    order, caps, items = shuffled(metrics, bits), registry.groups[group].caps, list[Item]()
    latest = connection.execute("SELECT max(at) FROM charges").fetchone()[0]
    at = max(ends, latest or 0)
    spent, in_window = spending(connection, registry, group, at)
    for metric in order:
        epsilon = Fraction(metric.mechanism.cost.epsilon)
        grant = min(metric.reports_per_window, math.floor(room(caps, spent, in_window) / epsilon))
        spent, in_window = spent + grant * epsilon, in_window + grant * epsilon
        if metric.expires < day_of(ends - 1):
            continue
        reports = connection.execute(
            "SELECT report FROM pool WHERE (ends, metric, version, fingerprint) = (?, ?, ?, ?) "
            "ORDER BY slot LIMIT ?",
            (*_key(metric, ends), grant),
        ).fetchall()
        if reports:
            _charge(connection, group, metric, at, len(reports))
        items += [Item(metric.name, metric.version, report) for (report,) in reports]
    return items


def _charge(
    connection: sqlite3.Connection, group: str, metric: Metric, at: int, reports: int
) -> None:
    """Writes a charge, and adds it to the totals, so that a life of charges is a short sum."""
    cost = group, metric.name, metric.mechanism.cost.epsilon, reports
    connection.execute(
        "INSERT INTO charges (budget, metric, epsilon, reports, at) VALUES (?, ?, ?, ?, ?)",
        (*cost, at),
    )
    connection.execute(
        "INSERT INTO totals VALUES (?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET reports = reports + excluded.reports",
        cost,
    )


def _answering(registry: Registry, budget: str, name: str) -> set[str]:
    """The groups that a charge counts for."""
    groups = {budget} & registry.groups.keys()
    if name in registry.metrics:
        groups.add(registry.metrics[name].group)
    return groups or set(registry.groups)


def _key(metric: Metric, ends: int) -> Key:
    return ends, metric.name, metric.version, metric.mechanism.fingerprint


def _is_taken(connection: sqlite3.Connection, key: Key, slot: int) -> bool:
    found = connection.execute(
        "SELECT 1 FROM pool WHERE (ends, metric, version, fingerprint, slot) = (?, ?, ?, ?, ?)",
        (*key, slot),
    ).fetchone()
    return found is not None


def _length(window: timedelta) -> int:
    return round(window.total_seconds())


def _seconds(clock: datetime) -> int:
    return min(math.floor(clock.timestamp()), LAST_SECOND)
