"""The pool: what may be sent is drawn before it is encoded, and only winners are encoded.

The rules, each with its test, are in `docs/device-protocol.md`.
"""

import json
from collections.abc import Callable
from sqlite3 import Connection
from typing import NamedTuple

from ldp.client.device_file import remember, state
from ldp.client.periods import length
from ldp.client.responses import Report
from ldp.protocol.randomness import BitSource, uniform_below
from ldp.registry import Metric, Registry

LAYOUT = "layout"
"""The state that keeps every metric's group, and the length of its windows."""
Meaning = tuple[str, int, bytes]
"""A metric, its version, and what else its reports depend on. What was recorded under another
meaning is never sent, nor charged at another price."""


class FrozenResponse(NamedTuple):
    """Response that all reports of an epoch are about, and whether it was charged. An empty one was
    withdrawn: the epoch is silent."""

    response: bytes
    charged: bool


def settle(connection: Connection, registry: Registry) -> None:
    """Forget what was recorded, and frozen but not sent, of metrics that are in another group or
    whose windows have another length since: it belongs to periods that overlap those of today."""
    kept = state(connection, LAYOUT, "{}")
    layout = {
        name: [metric.group, length(registry.groups[metric.group].caps.window)]
        for name, metric in registry.metrics.items()
    }
    before = json.loads(kept)
    after = json.dumps(before | layout)
    if after == kept:
        return
    remember(connection, LAYOUT, after)
    for name, place in layout.items():
        if before.get(name, place) != place:
            for table in ("pool", "seen"):
                connection.execute(f"DELETE FROM {table} WHERE metric = ?", (name,))
            connection.execute("DELETE FROM frozen WHERE metric = ? AND NOT charged", (name,))


def withdraw_epochs(connection: Connection) -> None:
    """Deletes every frozen response. An epoch that was charged stays silent to its end: whatever it
    could say would be said beside what it said before."""
    connection.execute("DELETE FROM frozen WHERE NOT charged")
    connection.execute("UPDATE frozen SET response = x''")


def meaning(metric: Metric) -> Meaning:
    return metric.name, metric.version, metric.mechanism.fingerprint + metric.manner.encode()


def enter(
    connection: Connection, metric: Metric, ends: int, bits: BitSource, encode: Callable[[], Report]
) -> None:
    """A record takes part in its period's draw (reservoir sampling: Vitter 1985, algorithm R, the
    first ones on random slots). `encode` is called for a winner only."""
    key, slots = (ends, *meaning(metric)), metric.reports_per_window
    found = connection.execute(
        "SELECT records FROM seen WHERE (ends, metric, version, meaning) = (?, ?, ?, ?)", key
    ).fetchone()
    before = found[0] if found else 0
    slot = uniform_below(bits, max(slots, before + 1))
    while before < slots and _is_taken(connection, key, slot):
        slot = uniform_below(bits, slots)
    connection.execute("INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?, ?)", (*key, before + 1))
    if slot < slots:
        connection.execute(
            "INSERT OR REPLACE INTO pool VALUES (?, ?, ?, ?, ?, ?, ?)", (*key, slot, *encode())
        )


def pooled_reports(
    connection: Connection, metric: Metric, ends: int, most: int
) -> tuple[list[bytes], list[bytes]]:
    """Return the first `most` reports of the period that ends at `ends`, and their tags."""
    rows = connection.execute(
        "SELECT report, tag FROM pool WHERE (ends, metric, version, meaning) = (?, ?, ?, ?) "
        "ORDER BY slot LIMIT ?",
        (ends, *meaning(metric), most),
    )
    reports = [Report(*row) for row in rows.fetchall()]
    return [each.report for each in reports], [each.tag for each in reports if each.tag]


def is_new_tag(connection: Connection, tag: bytes) -> bool:
    """Return whether nothing was sent under this tag before, and note that it was now."""
    statement = "INSERT OR IGNORE INTO cells VALUES (?)"
    return connection.execute(statement, (tag,)).rowcount == 1


def frozen_response(connection: Connection, metric: Metric, ends: int) -> FrozenResponse | None:
    """Return the response of the metric's epoch that ends at `ends`; None without one."""
    row = connection.execute(
        "SELECT response, charged FROM frozen WHERE (ends, metric, version, meaning) "
        "= (?, ?, ?, ?)",
        (ends, *meaning(metric)),
    ).fetchone()
    return row and FrozenResponse(row[0], bool(row[1]))


def freeze(
    connection: Connection, metric: Metric, ends: int, frozen: FrozenResponse, records: int = 1
) -> None:
    """Write the response of the epoch that ends at `ends`, drawn among `records` records."""
    connection.execute(
        "INSERT OR REPLACE INTO frozen VALUES (?, ?, ?, ?, ?, ?, ?)",
        (ends, *meaning(metric), records, frozen.charged, frozen.response),
    )


def mark_charged(connection: Connection, metric: Metric, ends: int) -> None:
    """Note that the epoch that ends at `ends` was charged."""
    connection.execute(
        "UPDATE frozen SET charged = 1 WHERE (ends, metric, version, meaning) = (?, ?, ?, ?)",
        (ends, *meaning(metric)),
    )


def enter_epoch(
    connection: Connection, metric: Metric, ends: int, bits: BitSource, respond: Callable[[], bytes]
) -> None:
    """A record takes part in the draw for the one value of the epoch that ends then. `respond` is
    called for a winner only."""
    key = (ends, *meaning(metric))
    found = connection.execute(
        "SELECT records FROM frozen WHERE (ends, metric, version, meaning) = (?, ?, ?, ?)", key
    ).fetchone()
    before = found[0] if found else 0
    if uniform_below(bits, before + 1) == 0:
        freeze(connection, metric, ends, FrozenResponse(respond(), False), before + 1)
    else:
        connection.execute(
            "UPDATE frozen SET records = records + 1 "
            "WHERE (ends, metric, version, meaning) = (?, ?, ?, ?)",
            key,
        )


def due(connection: Connection, now: int) -> list[tuple[int, str]]:
    """The periods that have ended, and the metrics with records in them, in order."""
    return connection.execute(
        "SELECT DISTINCT ends, metric FROM seen WHERE ends <= ? ORDER BY ends", (now,)
    ).fetchall()


def _is_taken(connection: Connection, key: tuple[int, str, int, bytes], slot: int) -> bool:
    found = connection.execute(
        "SELECT 1 FROM pool WHERE (ends, metric, version, meaning, slot) = (?, ?, ?, ?, ?)",
        (*key, slot),
    ).fetchone()
    return found is not None
