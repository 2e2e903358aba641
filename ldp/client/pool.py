"""The pool: what may be sent is drawn before it is encoded, and only winners are encoded.

The rules, each with its test, are in `docs/device-protocol.md`.
"""

import sqlite3
from collections.abc import Callable
from typing import NamedTuple

from ldp.client.periods import beginning, length
from ldp.client.responses import Report, Responses
from ldp.mechanisms.base import Value
from ldp.randomness import BitSource, uniform_below
from ldp.registry import Metric, Registry

Meaning = tuple[str, int, bytes]
"""A metric, its version, and what else its reports depend on. What was recorded under another
meaning is never sent, nor charged at another price."""


class Frozen(NamedTuple):
    """The response that an epoch's reports are about, and whether it was charged."""

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
        window = self._registry.groups[metric.group].caps.window
        ends = beginning(now, window) + length(window)
        if metric.epoch is None:
            report = self._responses.report
            enter(connection, metric, ends, self._bits, lambda: report(metric, value))
        elif metric.presence == "public":
            begins = beginning(now, metric.epoch)
            response = self._of_epoch(connection, metric, begins, value)
            about = self._responses.about
            enter(
                connection, metric, ends, self._bits, lambda: about(metric, begins, response, value)
            )
        else:
            coming = beginning(now, metric.epoch) + length(metric.epoch)
            respond = self._responses.frozen
            enter_epoch(
                connection, metric, coming, self._bits, lambda: respond(metric, coming, value)
            )

    def _of_epoch(
        self, connection: sqlite3.Connection, metric: Metric, begins: int, value: Value
    ) -> bytes:
        """The response that is frozen for the epoch, to this value if it is the first."""
        if (kept := frozen(connection, metric, begins)) is None:
            kept = Frozen(self._responses.frozen(metric, begins, value), False)
            freeze(connection, metric, begins, kept)
        return kept.response


def is_paid(connection: sqlite3.Connection, metric: Metric, now: int) -> bool:
    """Whether what a record made now would be sent as was charged before."""
    if metric.epoch is None or metric.presence == "hidden":
        return False
    kept = frozen(connection, metric, beginning(now, metric.epoch))
    return kept is not None and kept.charged


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


def enter_epoch(
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
