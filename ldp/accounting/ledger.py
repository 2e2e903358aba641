"""Ledger in memory: a charge is checked and recorded before its report is released.

A charge is checked against every cap first. A charge that would pass one changes nothing. A
recorded one is never refunded. Time is an argument. A time before the latest charge counts as the
time of that charge.
"""

from collections import deque
from collections.abc import Mapping
from datetime import datetime
from fractions import Fraction
from itertools import takewhile
from threading import RLock

from ldp.accounting.cost import Cost
from ldp.accounting.cost_composition import sequential
from ldp.accounting.policy import Caps, length_in_words
from ldp.errors import BudgetExceeded, ParameterError
from ldp.protocol.channel import round_down, round_up


class _Account:
    """Charges of one group: the sum of all, and the charges in the last one's window, with their
    sum."""

    def __init__(self) -> None:
        self.total = self.recent = Fraction(0)
        self.charges = deque[tuple[datetime, Fraction]]()

    def before(self, start: datetime) -> list[Fraction]:
        """Return the remembered charges that are not after `start`."""
        return [epsilon for _, epsilon in takewhile(lambda row: row[0] <= start, self.charges)]

    def add(self, now: datetime, epsilon: Fraction, start: datetime) -> None:
        """Add a charge. Remembers only the sum of the charges that are not after `start`. Whatever
        ends this early (a signal) leaves sums that are too large, never too small."""
        self.total += epsilon
        self.recent += epsilon
        self.charges.append((now, epsilon))
        for _ in self.before(start):
            self.recent -= self.charges.popleft()[1]


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
        self._accounts = {name: _Account() for name in caps}
        self._latest: datetime | None = None
        self._lock, self._is_charging = RLock(), False
        self._last: tuple[Cost, ...] = ()  # the last cost that was charged

    def charge(self, group: str, cost: Cost, *, now: datetime) -> None:
        """Record `cost`. Raises BudgetExceeded, and records nothing, when a cap would be passed.

        Threads may share a ledger. A signal handler that charges within a charge is refused. Raises
        ParameterError for an unknown group, a time without a zone, a cost with a delta, or one of
        other neighbours than the charges before.
        """
        caps = self._caps_of(group)
        if cost.delta:
            raise ParameterError("the ledger charges pure epsilon only")
        with self._lock:
            if self._is_charging:
                raise BudgetExceeded(f"group {group!r}: a charge within a charge is refused")
            self._is_charging = True
            try:
                sequential([*self._last, cost])  # refuses other neighbours
                self._charge(group, caps, cost.epsilon, self._forward(now))
                self._last = (cost,)
            finally:
                self._is_charging = False

    def _charge(self, group: str, caps: Caps, epsilon: float, now: datetime) -> None:
        account = self._accounts[group]
        window = f"any window of {length_in_words(caps.window)}"
        for cap, spent, scope in (
            (caps.report_epsilon, Fraction(0), "one report"),
            (caps.window_epsilon, self._in_window(group, now), window),
            (caps.lifetime_epsilon, account.total, "life"),
        ):
            if cap is not None and epsilon > Fraction(cap) - spent:
                raise BudgetExceeded(
                    f"group {group!r}: {epsilon} would pass the cap of {cap} for {scope}; "
                    f"{round_up(spent)} is spent"
                )
        self._latest = now
        account.add(now, Fraction(epsilon), now - caps.window)

    def spent(self, group: str) -> float:
        """Return the epsilon charged to `group` so far, rounded up."""
        self._caps_of(group)
        return round_up(self._accounts[group].total)

    def remaining(self, group: str, *, now: datetime) -> float:
        """Return the largest epsilon that `group` may be charged now, rounded down."""
        caps = self._caps_of(group)
        in_window = self._in_window(group, now)
        most = round_down(caps.allowance(self._accounts[group].total, in_window).least)
        return most if caps.report_epsilon is None else min(most, caps.report_epsilon)

    def _in_window(self, group: str, now: datetime) -> Fraction:
        window = self._caps_of(group).window
        with self._lock:
            account = self._accounts[group]
            return account.recent - sum(account.before(self._forward(now) - window))

    def _caps_of(self, group: str) -> Caps:
        if group not in self._caps:
            raise ParameterError(f"unknown budget group {group!r}")
        return self._caps[group]

    def _forward(self, now: datetime) -> datetime:
        if now.tzinfo is None:
            raise ParameterError("now must be a time with a zone")
        return now if self._latest is None else max(now, self._latest)
