"""The ledger: check, then commit, then release. This one lives in memory.

A charge is checked against every cap first; a refused charge changes nothing, and an accepted one
is never refunded. Time is an argument, and never runs backwards: a clock that was set back counts
as the latest time already seen.
"""

import math
from collections.abc import Mapping
from datetime import datetime
from fractions import Fraction
from threading import Lock
from typing import NamedTuple

from ldp.accounting.composition import exact_sum
from ldp.accounting.cost import Cost
from ldp.accounting.policy import Caps
from ldp.errors import BudgetExceeded, ParameterError
from ldp.protocol.channel import round_down


class Room(NamedTuple):
    """The epsilon that may still be charged: for life, in one window, and for one report. Below 0
    where a cap was passed, or more is set aside than it allows."""

    life: Fraction
    window: Fraction
    report: float = math.inf

    @property
    def least(self) -> Fraction:
        """What may still be charged now, 0 or more."""
        return max(Fraction(0), min(self.life, self.window))

    def within(self, other: "Room") -> "Room":
        """Return the room that two sets of caps leave together."""
        return Room(
            min(self.life, other.life),
            min(self.window, other.window),
            min(self.report, other.report),
        )


def room(caps: Caps, spent: Fraction, in_window: Fraction) -> Room:
    """Return what `caps` leave when so much is spent in all, and in one window."""
    return Room(
        Fraction(caps.lifetime_epsilon) - spent,
        Fraction(caps.window_epsilon) - in_window,
        math.inf if caps.report_epsilon is None else caps.report_epsilon,
    )


class Ledger:
    """What each budget group of one person has spent.

    >>> from datetime import datetime, timedelta, timezone
    >>> caps = Caps(window=timedelta(days=1), window_epsilon=4.0, lifetime_epsilon=64.0)
    >>> ledger = Ledger({"typing": caps})
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
    >>> ledger.charge("typing", Cost(epsilon=4.0), now=noon)
    >>> ledger.remaining("typing", now=noon)
    0.0
    >>> ledger.charge("typing", Cost(epsilon=4.0), now=noon)
    Traceback (most recent call last):
    ldp.errors.BudgetExceeded: group 'typing': 4.0 would pass the cap of 4.0 for any window of \
1 day, 0:00:00; 4.0 is spent
    """

    def __init__(self, caps: Mapping[str, Caps]) -> None:
        self._caps = dict(caps)
        self._charges: dict[str, list[tuple[datetime, float]]] = {name: [] for name in caps}
        self._latest: datetime | None = None
        self._lock = Lock()

    def charge(self, group: str, cost: Cost, *, now: datetime) -> None:
        """Record `cost`; raise BudgetExceeded, and record nothing, when a cap would be passed.

        Threads may share a ledger. Raises ParameterError for an unknown group, a time without a
        zone, or a cost with a delta.
        """
        caps = self._caps_of(group)
        if cost.delta:
            raise ParameterError("the ledger charges pure epsilon only")
        with self._lock:
            self._charge(group, caps, cost, self._forward(now))

    def _charge(self, group: str, caps: Caps, cost: Cost, now: datetime) -> None:
        spent_now, spent = self.spent_in_window(group, now=now), self.spent(group)
        report_cap = caps.report_epsilon
        for cap, before, words in (
            (report_cap, 0.0, "one report"),
            (caps.window_epsilon, spent_now, f"any window of {caps.window}"),
            (caps.lifetime_epsilon, spent, "life"),
        ):
            if cap is not None and exact_sum([before, cost.epsilon]) > cap:
                raise BudgetExceeded(
                    f"group {group!r}: {cost.epsilon} would pass the cap of {cap} for {words}; "
                    f"{before} is spent"
                )
        self._latest = now
        self._charges[group].append((now, cost.epsilon))

    def spent(self, group: str) -> float:
        """Epsilon charged to the group so far."""
        self._caps_of(group)
        return exact_sum(epsilon for _, epsilon in self._charges[group])

    def spent_in_window(self, group: str, *, now: datetime) -> float:
        """Epsilon charged in the window that ends now: (now - window, now]."""
        start = self._forward(now) - self._caps_of(group).window
        return exact_sum(epsilon for time, epsilon in self._charges[group] if time > start)

    def remaining(self, group: str, *, now: datetime) -> float:
        """The most that the group could be charged now, rounded down."""
        caps = self._caps_of(group)
        spent, in_window = self.spent(group), self.spent_in_window(group, now=now)
        left = round_down(room(caps, Fraction(spent), Fraction(in_window)).least)
        return left if caps.report_epsilon is None else min(left, caps.report_epsilon)

    def _caps_of(self, group: str) -> Caps:
        if group not in self._caps:
            raise ParameterError(f"unknown budget group {group!r}")
        return self._caps[group]

    def _forward(self, now: datetime) -> datetime:
        if now.tzinfo is None:
            raise ParameterError("now must be a time with a zone")
        return now if self._latest is None else max(now, self._latest)
