"""Ledger in memory: a charge is checked and recorded before its report is released.

A charge is checked against every cap first. A charge that would pass one changes nothing; a
recorded one is never refunded. Time is an argument; an earlier time than the latest charge's counts
as that.
"""

from collections.abc import Mapping
from datetime import datetime
from fractions import Fraction
from threading import Lock

from ldp.accounting.cost import Cost
from ldp.accounting.cost_composition import exact_sum
from ldp.accounting.policy import Caps, length_in_words
from ldp.errors import BudgetExceeded, ParameterError
from ldp.protocol.channel import round_down


class Ledger:
    """Ledger of the epsilon that each budget group of one person has spent.

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
1 day; 4.0 is spent
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
        in_window = self.spent_in_window(group, now=now)
        for cap, spent, scope in (
            (caps.report_epsilon, 0.0, "one report"),
            (caps.window_epsilon, in_window, f"any window of {length_in_words(caps.window)}"),
            (caps.lifetime_epsilon, self.spent(group), "life"),
        ):
            if cap is not None and exact_sum([spent, cost.epsilon]) > cap:
                raise BudgetExceeded(
                    f"group {group!r}: {cost.epsilon} would pass the cap of {cap} for {scope}; "
                    f"{spent} is spent"
                )
        self._latest = now
        self._charges[group].append((now, cost.epsilon))

    def spent(self, group: str) -> float:
        """Return the epsilon charged to `group` so far, rounded up."""
        self._caps_of(group)
        return exact_sum(epsilon for _, epsilon in self._charges[group])

    def spent_in_window(self, group: str, *, now: datetime) -> float:
        """Return the epsilon charged to `group` in the last window: (now - window, now]."""
        start = self._forward(now) - self._caps_of(group).window
        return exact_sum(epsilon for time, epsilon in self._charges[group] if time > start)

    def remaining(self, group: str, *, now: datetime) -> float:
        """Return the largest epsilon that `group` may be charged now, rounded down."""
        caps = self._caps_of(group)
        spent, in_window = self.spent(group), self.spent_in_window(group, now=now)
        most = round_down(caps.allowance(Fraction(spent), Fraction(in_window)).least)
        return most if caps.report_epsilon is None else min(most, caps.report_epsilon)

    def _caps_of(self, group: str) -> Caps:
        if group not in self._caps:
            raise ParameterError(f"unknown budget group {group!r}")
        return self._caps[group]

    def _forward(self, now: datetime) -> datetime:
        if now.tzinfo is None:
            raise ParameterError("now must be a time with a zone")
        return now if self._latest is None else max(now, self._latest)
