"""Caps: the most one budget group may ever say about a person."""

import math
from dataclasses import dataclass
from datetime import timedelta

from ldp.errors import ParameterError


@dataclass(frozen=True, kw_only=True)
class Caps:
    """Limits in epsilon: on one report, on one window of time, and for life.

    What is not spent in a window does not roll over. `ldp.client.Client` counts fixed windows,
    which begin at multiples of `window` since 1970, UTC, so that a span of one length that begins
    elsewhere touches two of them (`touched`); `Ledger` counts every window that ends with a charge.
    Raises ParameterError.
    """

    window: timedelta
    window_epsilon: float
    lifetime_epsilon: float
    report_epsilon: float | None = None

    def __post_init__(self) -> None:
        if self.window <= timedelta(0):
            raise ParameterError("window must be longer than nothing")
        limits = (self.window_epsilon, self.lifetime_epsilon, self.report_epsilon)
        if any(limit is not None and not 0 < limit < math.inf for limit in limits):
            raise ParameterError("every cap must be a number > 0")

    def looser_than(self, older: "Caps") -> str:
        """Return in what these caps allow more than `older` did, life aside; "" if in nothing."""
        report, before = (caps.report_epsilon or math.inf for caps in (self, older))
        for is_looser, what in (
            (self.window < older.window, "has shorter windows"),
            (self.window_epsilon > older.window_epsilon, "allows more epsilon a window"),
            (report > before, "allows more epsilon a report"),
        ):
            if is_looser:
                return what
        return ""


def touched(span: timedelta, period: timedelta) -> int:
    """Return the most periods, one after the other, that a span of time can touch."""
    return -(-span // period) + 1
