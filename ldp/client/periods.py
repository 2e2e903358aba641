"""Periods and epochs: fixed spans of time, in the file's own time, which never runs backwards."""

import math
from datetime import UTC, date, datetime, timedelta
from sqlite3 import Connection

from ldp.client.device_file import remember, state
from ldp.registry import Registry

LAST_SECOND = round(datetime(9000, 1, 1, tzinfo=UTC).timestamp())
"""A clock that is later is taken for this: dates end in the year 9999."""


def ledger_time(connection: Connection, clock: datetime) -> int:
    """Seconds since 1970, never before the latest period that was seen to begin."""
    return int(max(_seconds(clock), state(connection, "latest", 0)))


def keep_time(connection: Connection, registry: Registry, now: int) -> None:
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


def ending(now: int, span: timedelta) -> int:
    """Of the period or epoch that holds `now`."""
    return beginning(now, span) + length(span)


def length(span: timedelta) -> int:
    """In seconds."""
    return round(span.total_seconds())


def day_of(seconds: int) -> date:
    return datetime.fromtimestamp(seconds, UTC).date()


def _seconds(clock: datetime) -> int:
    return min(math.floor(clock.timestamp()), LAST_SECOND)
