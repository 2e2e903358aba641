"""The pool of a period: records are drawn for its slots. Only drawn records are encoded.

The rules, each with its test, are in `docs/device-protocol.md`.
"""

import json
from collections.abc import Callable
from typing import NamedTuple

from ldp.accounting.policy import length
from ldp.client.device_file import Database, remember, state
from ldp.client.responses import Report
from ldp.protocol.randomness import BitSource, uniform_below
from ldp.registry import Metric, Registry

LAYOUT = "layout"
"""Name of the state that holds every metric's group and the length of the group's windows."""
Meaning = tuple[str, int, bytes]
"""Name of a metric, its version, and what else its reports depend on. What was recorded under one
meaning is never sent, nor charged, under another."""

PeriodKey = tuple[int, str, int, bytes]
"""End of a period or epoch, in seconds since 1970, and a meaning."""
TRIES = 32
"""Number of slots that are drawn before the free ones are listed."""
_WHERE = "WHERE (ends, metric, version, meaning) = (?, ?, ?, ?)"


class FrozenResponse(NamedTuple):
    """Permanent response of an epoch, whether it was charged, and the end of the period in which
    its value was recorded. An empty response was withdrawn: the epoch sends nothing more."""

    response: bytes
    charged: bool
    source: int


def settle(database: Database, registry: Registry) -> str:
    """Delete the records, and the responses that were not charged, of metrics whose group or window
    length changed: their periods overlap those of today. Return the layout, written as LAYOUT."""
    text: str = state(database, LAYOUT, "{}")
    layout = {
        name: [metric.group, length(registry.groups[metric.group].caps.window)]
        for name, metric in registry.metrics.items()
    }
    old_layout = json.loads(text)
    new_text = json.dumps(old_layout | layout)
    if new_text == text:
        return text
    remember(database, LAYOUT, new_text)
    for name, position in layout.items():
        if old_layout.get(name, position) != position:
            forget_records(database, "WHERE metric = ?", name)
            database.execute("DELETE FROM frozen WHERE metric = ? AND NOT charged", (name,))
    return new_text


def forget_records(database: Database, condition: str = "", *values: object) -> None:
    """Delete all records, or those that fit a `condition` of SQL with these values."""
    for table in ("pool", "seen"):
        database.execute(f"DELETE FROM {table} {condition}", values)


def withdraw_epochs(database: Database) -> None:
    """Delete every frozen response. An epoch that was charged sends nothing more: a new response
    would add to what the old one revealed."""
    database.execute("DELETE FROM frozen WHERE NOT charged")
    database.execute("UPDATE frozen SET response = x''")


def meaning(metric: Metric) -> Meaning:
    """Return the name, the version and what else the reports of a metric depend on, by which the
    tables keep its reports apart."""
    return metric.name, metric.version, metric.mechanism.fingerprint + metric.manner.encode()


def enter(
    database: Database,
    metric: Metric,
    end: int,
    bits: BitSource,
    encode: Callable[[], Report],
) -> None:
    """Enter a record into the draw of the period that ends at `end` (reservoir sampling: Vitter
    1985, algorithm R, with the first records on random slots). `encode` is called if the record is
    drawn."""
    key, slots = (end, *meaning(metric)), metric.reports_per_window
    records = _records(database, "seen", key)
    slot = uniform_below(bits, max(slots, records + 1))
    if records < slots:
        slot = _free_slot(database, key, slots, slot, bits)
    database.execute("INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?, ?)", (*key, records + 1))
    if slot < slots:
        database.execute(
            "INSERT OR REPLACE INTO pool VALUES (?, ?, ?, ?, ?, ?, ?)", (*key, slot, *encode())
        )


def pooled_reports(
    database: Database, metric: Metric, end: int, limit: int
) -> tuple[list[bytes], list[bytes]]:
    """Return at most `limit` reports of the period that ends at `end`, and their tags."""
    rows = database.execute(
        f"SELECT report, tag FROM pool {_WHERE} ORDER BY slot LIMIT ?",
        (end, *meaning(metric), limit),
    )
    pairs = rows.fetchall()
    return [report for report, _ in pairs], [tag for _, tag in pairs if tag]


def is_new_tag(database: Database, tag: bytes) -> bool:
    """Return whether nothing was sent under this tag before, and note that it was now."""
    statement = "INSERT OR IGNORE INTO cells VALUES (?)"
    return database.execute(statement, (tag,)).rowcount == 1


def frozen_response(database: Database, metric: Metric, end: int) -> FrozenResponse | None:
    """Return the response of the metric's epoch that ends at `end`. Returns None without one."""
    row = database.execute(
        f"SELECT response, charged, source FROM frozen {_WHERE}", (end, *meaning(metric))
    ).fetchone()
    return row and FrozenResponse(*row)


def freeze(
    database: Database, metric: Metric, end: int, frozen: FrozenResponse, records: int = 1
) -> None:
    """Write the response of the epoch that ends at `end`. Its value was drawn among `records`
    records."""
    database.execute(
        "INSERT OR REPLACE INTO frozen VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (end, *meaning(metric), records, frozen.charged, frozen.response, frozen.source),
    )


def mark_charged(database: Database, metric: Metric, end: int) -> None:
    """Note that the epoch that ends at `end` was charged."""
    database.execute(f"UPDATE frozen SET charged = 1 {_WHERE}", (end, *meaning(metric)))


def enter_epoch(
    database: Database,
    metric: Metric,
    end: int,
    bits: BitSource,
    respond: Callable[[], bytes],
) -> None:
    """Enter a record into the draw for the one value of the epoch that ends at `end`. `respond` is
    called if the record is drawn. A response that was charged before the clock went back stays."""
    if (frozen := frozen_response(database, metric, end)) and frozen.charged:
        return
    key = (end, *meaning(metric))
    records = _records(database, "frozen", key)
    if uniform_below(bits, records + 1) == 0:
        freeze(database, metric, end, FrozenResponse(respond(), False, 0), records + 1)
    else:
        database.execute(f"UPDATE frozen SET records = records + 1 {_WHERE}", key)


def due_periods(database: Database, now: int) -> list[tuple[int, str]]:
    """Return the periods that are over and hold records, ordered by end: each as (end, metric)."""
    return database.execute(
        "SELECT DISTINCT ends, metric FROM seen WHERE ends <= ? ORDER BY ends", (now,)
    ).fetchall()


def _free_slot(database: Database, key: PeriodKey, slots: int, slot: int, bits: BitSource) -> int:
    """Return `slot` if it is free, else another that is. Only in a damaged file there may be none:
    then a slot is returned that is taken."""
    for _ in range(TRIES):
        statement = f"SELECT 1 FROM pool {_WHERE} AND slot = ?"
        if database.execute(statement, (*key, slot)).fetchone() is None:
            return slot
        slot = uniform_below(bits, slots)
    rows = database.execute(f"SELECT slot FROM pool {_WHERE}", key).fetchall()
    taken = {number for (number,) in rows}
    free = [number for number in range(slots) if number not in taken] or [slot]
    return free[uniform_below(bits, len(free))]


def _records(database: Database, table: str, key: PeriodKey) -> int:
    """Return the number of records that took part in a draw."""
    row = database.execute(f"SELECT records FROM {table} {_WHERE}", key).fetchone()
    return row[0] if row else 0
