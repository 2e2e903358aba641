"""Periods and epochs: fixed spans of time by the device's clock, which may leap ahead or back."""

import math
from datetime import UTC, date, datetime, timedelta

from ldp.accounting.policy import length

LAST_SECOND = round(datetime(9000, 1, 1, tzinfo=UTC).timestamp())
"""Latest time that a clock is believed to show: dates end in the year 9999."""


def seconds_of(clock: datetime) -> int:
    """Return seconds since 1970, from 0 to LAST_SECOND."""
    return max(0, min(math.floor(clock.timestamp()), LAST_SECOND))


def beginning(now: int, span: timedelta) -> int:
    """Return the beginning of the period or epoch that holds `now`, in seconds since 1970. Each is
    `span` long and begins at a multiple of `span` since 1970, UTC."""
    return now - now % length(span)


def ending(now: int, span: timedelta) -> int:
    """Return the end of the period or epoch that holds `now`, in seconds since 1970."""
    return beginning(now, span) + length(span)


def day_of(seconds: int) -> date:
    """Return the day, UTC, of a time in seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC).date()
