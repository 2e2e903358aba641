"""Periods and their draws: what may be sent is drawn before it is encoded.

The rules, each with its test, are in `docs/device-protocol.md`.
"""

import math
import sqlite3
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from ldp.client.device_file import remember, state
from ldp.client.responses import Report
from ldp.randomness import BitSource, uniform_below
from ldp.registry import Metric, Registry

LAST_SECOND = round(datetime(9000, 1, 1, tzinfo=UTC).timestamp())
"""A clock that is later is taken for this: dates end in the year 9999."""
Meaning = tuple[str, int, bytes]
"""A metric, its version, and what else its reports depend on. What was recorded under another
meaning is never sent, nor charged at another price."""


class Frozen(NamedTuple):
    """The response that an epoch's reports are about, and whether it was charged."""

    response: bytes
    charged: bool


def ledger_time(connection: sqlite3.Connection, clock: datetime) -> int:
    """Seconds since 1970, never before the latest period that was seen to begin."""
    return int(max(_seconds(clock), state(connection, "latest", 0)))


def keep_time(connection: sqlite3.Connection, registry: Registry, now: int) -> None:
    """Remembers the latest beginning of a period, so that time does not run backwards; no finer
    time is ever written."""
    windows = (group.caps.window for group in registry.groups.values())
    begun = max((beginning(now, window) for window in windows), default=0)
    if begun > state(connection, "latest", 0):
        remember(connection, "latest", begun)


def beginning(now: int, span: timedelta) -> int:
    """Of the period or epoch that holds `now`: each is `span` long, and they begin at multiples of
    it since 1970, UTC."""
    return now - now % length(span)


def length(span: timedelta) -> int:
    """In seconds."""
    return round(span.total_seconds())


def day_of(seconds: int) -> date:
    return datetime.fromtimestamp(seconds, UTC).date()


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


def frozen(connection: sqlite3.Connection, metric: Metric, begins: int) -> Frozen | None:
    """What is frozen for the metric's epoch that begins then."""
    found = connection.execute(
        "SELECT response, charged FROM frozen WHERE (begins, metric, version, meaning) "
        "= (?, ?, ?, ?)",
        (begins, *meaning(metric)),
    ).fetchone()
    return found and Frozen(found[0], bool(found[1]))


def freeze(
    connection: sqlite3.Connection, metric: Metric, begins: int, what: Frozen, records: int = 1
) -> None:
    """From now on this is the response of the epoch that begins then."""
    connection.execute(
        "INSERT OR REPLACE INTO frozen VALUES (?, ?, ?, ?, ?, ?, ?)",
        (begins, *meaning(metric), records, what.charged, what.response),
    )


def enter_next_epoch(
    connection: sqlite3.Connection,
    metric: Metric,
    begins: int,
    bits: BitSource,
    respond: Callable[[], bytes],
) -> None:
    """A record takes part in the draw for the one value of the epoch that begins then. `respond` is
    called for a winner only."""
    key = (begins, *meaning(metric))
    found = connection.execute(
        "SELECT records FROM frozen WHERE (begins, metric, version, meaning) = (?, ?, ?, ?)", key
    ).fetchone()
    before = found[0] if found else 0
    if uniform_below(bits, before + 1) == 0:
        freeze(connection, metric, begins, Frozen(respond(), False), before + 1)
    else:
        connection.execute(
            "UPDATE frozen SET records = records + 1 "
            "WHERE (begins, metric, version, meaning) = (?, ?, ?, ?)",
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


def _seconds(clock: datetime) -> int:
    return min(math.floor(clock.timestamp()), LAST_SECOND)
