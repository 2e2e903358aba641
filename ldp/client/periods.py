"""Pool and seal: what is sent is drawn before it is encoded, and charged before it leaves.

The rules, each with its test, are in `docs/device-protocol.md`.
"""

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TypeVar

from ldp.accounting.ledger import room
from ldp.accounting.policy import Caps
from ldp.batch import ID_BYTES, Batch, Item, packed
from ldp.client.device_file import remember, state
from ldp.randomness import BitSource, uniform_below
from ldp.registry import Metric, Registry

MOST_WAITING = 4 << 20
"""Bytes of sealed batches that wait; beyond it the oldest are dropped, and counted."""
T = TypeVar("T")


def ledger_time(connection: sqlite3.Connection, clock: datetime) -> int:
    """Seconds since 1970: the running maximum of the clock, so that time never runs backwards."""
    seconds = math.floor(clock.timestamp())
    latest = state(connection, "latest", 0)
    if seconds > latest:
        remember(connection, "latest", seconds)
    return int(max(seconds, latest))


def period_end(now: int, window: timedelta) -> int:
    """The end of the period that holds `now`: periods are `window` long and begin at multiples of
    it since 1970, UTC."""
    length = round(window.total_seconds())
    return (now // length + 1) * length


def enter(
    connection: sqlite3.Connection,
    metric: Metric,
    ends: int,
    bits: BitSource,
    encode: Callable[[], bytes],
) -> None:
    """A record takes part in its period's draw (reservoir sampling: Vitter 1985, algorithm R, the
    first ones on random slots). `encode` is called for a winner only."""
    key = (ends, metric.name, metric.version)
    found = connection.execute(
        "SELECT records FROM seen WHERE (ends, metric, version) = (?, ?, ?)", key
    ).fetchone()
    before, slots = found[0] if found else 0, metric.reports_per_window
    slot = uniform_below(bits, max(slots, before + 1))
    while before < slots and _is_taken(connection, key, slot):
        slot = uniform_below(bits, slots)
    connection.execute(
        "INSERT OR REPLACE INTO seen (ends, metric, version, records) VALUES (?, ?, ?, ?)",
        (*key, before + 1),
    )
    if slot < slots:
        connection.execute(
            "INSERT OR REPLACE INTO pool (ends, metric, version, slot, report) "
            "VALUES (?, ?, ?, ?, ?)",
            (*key, slot, encode()),
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
    day = datetime.fromtimestamp(now, UTC).date()
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
    _drop(connection, day.isoformat())


def _granted(
    connection: sqlite3.Connection, registry: Registry, group: str, ends: int, bits: BitSource
) -> Iterator[Item]:
    """The reports that a group may send of one period, charged. The order of its metrics is drawn
    before any pool is looked at, and a grant that is not used lapses."""
    metrics = [metric for metric in registry.metrics.values() if metric.group == group]
    order = shuffled(metrics, bits)
    spent = charged(connection, registry, group)
    at = max([ends, *(time for time, _ in spent)])
    last_day = datetime.fromtimestamp(ends - 1, UTC).date()
    for metric in order:
        epsilon = Fraction(metric.mechanism.cost.epsilon)
        left = allowance(registry.groups[group].caps, spent, at)
        grant = min(metric.reports_per_window, math.floor(left / epsilon))
        spent.append((at, grant * epsilon))
        if metric.expires < last_day:
            continue
        reports = connection.execute(
            "SELECT report FROM pool WHERE (ends, metric, version) = (?, ?, ?) "
            "ORDER BY slot LIMIT ?",
            (ends, metric.name, metric.version, grant),
        ).fetchall()
        if reports:
            connection.execute(
                "INSERT INTO charges (budget, metric, at, reports, epsilon) VALUES (?, ?, ?, ?, ?)",
                (group, metric.name, at, len(reports), float(epsilon)),
            )
        for (report,) in reports:
            yield Item(metric.name, metric.version, report)


def allowance(caps: Caps, spent: Iterable[tuple[int, Fraction]], now: int) -> Fraction:
    """What may still be charged now: `room` after these charges, each a time and an epsilon."""
    listed, start = list(spent), now - round(caps.window.total_seconds())
    return room(
        caps,
        sum((epsilon for _, epsilon in listed), Fraction(0)),
        sum((epsilon for time, epsilon in listed if time > start), Fraction(0)),
    )


def charged(
    connection: sqlite3.Connection, registry: Registry, group: str
) -> list[tuple[int, Fraction]]:
    """Time and epsilon of every charge that counts for a group: its own, and those of the metrics
    that are in it now, whatever group they were charged in."""
    found = connection.execute("SELECT budget, metric, at, reports, epsilon FROM charges")
    return [
        (at, reports * Fraction(epsilon))
        for budget, name, at, reports, epsilon in found
        if budget == group or (name in registry.metrics and registry.metrics[name].group == group)
    ]


def shuffled(items: list[T], bits: BitSource) -> list[T]:
    """A uniform order (Durstenfeld 1964)."""
    made = list(items)
    for last in range(len(made) - 1, 0, -1):
        other = uniform_below(bits, last + 1)
        made[last], made[other] = made[other], made[last]
    return made


def _is_taken(connection: sqlite3.Connection, key: tuple[int, str, int], slot: int) -> bool:
    found = connection.execute(
        "SELECT 1 FROM pool WHERE (ends, metric, version, slot) = (?, ?, ?, ?)", (*key, slot)
    ).fetchone()
    return found is not None


def _drop(connection: sqlite3.Connection, today: str) -> None:
    """Drops batches that no collector would take any more, and the oldest beyond MOST_WAITING."""
    connection.execute(
        "UPDATE batches SET state = 'dropped', body = NULL "
        "WHERE state = 'waiting' AND last_day < ?",
        (today,),
    )
    total = 0
    for identity, size in connection.execute(
        "SELECT id, length(body) FROM batches WHERE state = 'waiting' ORDER BY day DESC, id"
    ).fetchall():
        total += size
        if total > MOST_WAITING:
            connection.execute(
                "UPDATE batches SET state = 'dropped', body = NULL WHERE id = ?", (identity,)
            )
