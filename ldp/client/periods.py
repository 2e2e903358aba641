"""Periods and epochs: fixed spans of time, in the file's own time, which never runs backwards."""

import math
from datetime import UTC, date, datetime, timedelta
from sqlite3 import Connection

from ldp.client.device_file import remember, state
from ldp.registry import Registry

LAST_SECOND = round(datetime(9000, 1, 1, tzinfo=UTC).timestamp())
"""Latest time that a clock is believed to show: dates end in the year 9999."""


def ledger_time(connection: Connection, clock: datetime) -> int:
    """Return seconds since 1970, never before the latest beginning that `keep_time` wrote."""
    return int(max(_seconds(clock), state(connection, "latest", 0)))


def keep_time(connection: Connection, registry: Registry, now: int) -> None:
    """Write the latest beginning of a period, so that time does not run backwards; no finer time is
    ever written."""
    windows = (group.caps.window for group in registry.groups.values())
    latest = max((beginning(now, window) for window in windows), default=0)
    if latest > state(connection, "latest", 0):
        remember(connection, "latest", latest)


def beginning(now: int, span: timedelta) -> int:
    """Return the beginning of the period or epoch that holds `now`, in seconds since 1970: each is
    `span` long and begins at a multiple of it, UTC."""
    return now - now % length(span)


def ending(now: int, span: timedelta) -> int:
    """Return the end of the period or epoch that holds `now`, in seconds since 1970."""
    return beginning(now, span) + length(span)


def length(span: timedelta) -> int:
    """Return a length of time in whole seconds."""
    return round(span.total_seconds())


def day_of(seconds: int) -> date:
    """Return the day, UTC, of a time in seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC).date()


def _seconds(clock: datetime) -> int:
    return min(math.floor(clock.timestamp()), LAST_SECOND)
