"""The pool: what may be sent is drawn before it is encoded, and only winners are encoded.

The rules, each with its test, are in `docs/device-protocol.md`.
"""

import json
import sqlite3
from collections.abc import Callable
from typing import NamedTuple

from ldp.client.device_file import remember, state
from ldp.client.periods import ending, length
from ldp.client.responses import Report, Responses
from ldp.protocol.hashing import Value
from ldp.protocol.randomness import BitSource, uniform_below
from ldp.registry import Metric, Registry

LAYOUT = "layout"
"""The state that keeps every metric's group, and the length of its windows."""
Meaning = tuple[str, int, bytes]
"""A metric, its version, and what else its reports depend on. What was recorded under another
meaning is never sent, nor charged at another price."""


class Frozen(NamedTuple):
    """The response that an epoch's reports are about, and whether it was charged. An empty one was
    withdrawn: the epoch is silent."""

    response: bytes
    charged: bool


class Pool:
    """Takes records into the draws of their periods and epochs."""

    def __init__(self, registry: Registry, responses: Responses, bits: BitSource) -> None:
        self._registry = registry
        self._responses = responses
        self._bits = bits

    def take(self, connection: sqlite3.Connection, metric: Metric, value: Value, now: int) -> None:
        """A record of a value that the metric's mechanism knows, made now."""
        ends = ending(now, self._registry.groups[metric.group].caps.window)
        if metric.epoch is None:
            enter(
                connection,
                metric,
                ends,
                self._bits,
                lambda: self._responses.report(metric, value),
            )
        elif metric.presence == "public":
            response = self._of_epoch(connection, metric, ending(now, metric.epoch), value)
            enter(
                connection,
                metric,
                ends,
                self._bits,
                lambda: self._responses.about(metric, response, value),
            )
        else:
            coming = ending(now, metric.epoch) + length(metric.epoch)
            enter_epoch(
                connection,
                metric,
                coming,
                self._bits,
                lambda: self._responses.frozen(metric, value),
            )

    def _of_epoch(
        self, connection: sqlite3.Connection, metric: Metric, ends: int, value: Value
    ) -> bytes:
        """The response that is frozen for the epoch, to this value if it is the first."""
        if (kept := frozen(connection, metric, ends)) is None:
            kept = Frozen(self._responses.frozen(metric, value), False)
            freeze(connection, metric, ends, kept)
        return kept.response


def of_this_epoch(connection: sqlite3.Connection, metric: Metric, now: int) -> Frozen | None:
    """What reports of a record made now would be about; None where that is not decided yet."""
    if metric.epoch is None or metric.presence == "hidden":
        return None
    return frozen(connection, metric, ending(now, metric.epoch))


def settle(connection: sqlite3.Connection, registry: Registry) -> None:
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


def withdraw_epochs(connection: sqlite3.Connection) -> None:
    """Deletes every frozen response. An epoch that was charged stays silent to its end: whatever it
    could say would be said beside what it said before."""
    connection.execute("DELETE FROM frozen WHERE NOT charged")
    connection.execute("UPDATE frozen SET response = x''")


def meaning(metric: Metric) -> Meaning:
    return metric.name, metric.version, metric.mechanism.fingerprint + metric.manner.encode()


def enter(
    connection: sqlite3.Connection,
    metric: Metric,
    ends: int,
    bits: BitSource,
    encode: Callable[[], Report],
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


def frozen(connection: sqlite3.Connection, metric: Metric, ends: int) -> Frozen | None:
    """What is frozen for the metric's epoch that ends then."""
    found = connection.execute(
        "SELECT response, charged FROM frozen WHERE (ends, metric, version, meaning) "
        "= (?, ?, ?, ?)",
        (ends, *meaning(metric)),
    ).fetchone()
    return found and Frozen(found[0], bool(found[1]))


def freeze(
    connection: sqlite3.Connection, metric: Metric, ends: int, what: Frozen, records: int = 1
) -> None:
    """From now on this is the response of the epoch that ends then."""
    connection.execute(
        "INSERT OR REPLACE INTO frozen VALUES (?, ?, ?, ?, ?, ?, ?)",
        (ends, *meaning(metric), records, what.charged, what.response),
    )


def enter_epoch(
    connection: sqlite3.Connection,
    metric: Metric,
    ends: int,
    bits: BitSource,
    respond: Callable[[], bytes],
) -> None:
    """A record takes part in the draw for the one value of the epoch that ends then. `respond` is
    called for a winner only."""
    key = (ends, *meaning(metric))
    found = connection.execute(
        "SELECT records FROM frozen WHERE (ends, metric, version, meaning) = (?, ?, ?, ?)", key
    ).fetchone()
    before = found[0] if found else 0
    if uniform_below(bits, before + 1) == 0:
        freeze(connection, metric, ends, Frozen(respond(), False), before + 1)
    else:
        connection.execute(
            "UPDATE frozen SET records = records + 1 "
            "WHERE (ends, metric, version, meaning) = (?, ?, ?, ?)",
            key,
        )


def due(connection: sqlite3.Connection, now: int) -> list[tuple[int, str]]:
    """The periods that have ended, and the metrics with records in them, in order."""
    return connection.execute(
        "SELECT DISTINCT ends, metric FROM seen WHERE ends <= ? ORDER BY ends", (now,)
    ).fetchall()


def _is_taken(connection: sqlite3.Connection, key: tuple[int, str, int, bytes], slot: int) -> bool:
    found = connection.execute(
        "SELECT 1 FROM pool WHERE (ends, metric, version, meaning, slot) = (?, ?, ?, ?, ?)",
        (*key, slot),
    ).fetchone()
    return found is not None
