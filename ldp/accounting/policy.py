"""Caps of a budget group: the most epsilon that it may spend."""

import math
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import NamedTuple

from ldp.errors import ParameterError, require_kind
from ldp.protocol.channel import convert, real_number


class Allowance(NamedTuple):
    """Epsilon that may still be charged: for life, in one window, and for one report. It is
    negative where a cap was passed, or where more is set aside than a cap allows."""

    life: Fraction
    window: Fraction
    report: float = math.inf

    @property
    def least(self) -> Fraction:
        """Epsilon that may still be charged now, 0 or more."""
        return max(Fraction(0), min(self.life, self.window))

    def within(self, other: "Allowance") -> "Allowance":
        """Return in every field the smaller number of this allowance and the `other`."""
        return Allowance._make(map(min, self, other))


@dataclass(frozen=True, kw_only=True)
class Caps:
    """Caps in epsilon: on one report, on one window of time, and for life.

    Epsilon that is not spent in a window does not roll over. `ldp.client.Client` counts fixed
    windows, which begin at multiples of `window` since 1970, UTC, so that a span of that length can
    touch two of them (`periods_touched`). `Ledger` counts every window that ends with a charge.
    Raises ParameterError for a window or a cap that is not positive, and for an infinite cap.
    """

    window: timedelta
    window_epsilon: float
    lifetime_epsilon: float
    report_epsilon: float | None = None

    def __post_init__(self) -> None:
        if require_kind(self.window, timedelta, "window") <= timedelta(0):
            raise ParameterError("window must be above 0")
        names = ["window_epsilon", "lifetime_epsilon"]
        if self.report_epsilon is not None:
            names.append("report_epsilon")
        convert(self, **dict.fromkeys(names, real_number))
        if any(not 0 < getattr(self, name) < math.inf for name in names):
            raise ParameterError("every cap must be a number > 0")

    def allowance(self, spent: Fraction, in_window: Fraction) -> Allowance:
        """Return what is left after epsilon `spent` in total and `in_window` in one window."""
        return Allowance(
            Fraction(self.lifetime_epsilon) - spent,
            Fraction(self.window_epsilon) - in_window,
            math.inf if self.report_epsilon is None else self.report_epsilon,
        )

    def increase_over(self, older: "Caps") -> str:
        """Return in words by which cap, other than that for life, these allow more than `older`.
        Returns "" if there is none."""
        report, older_report = (caps.report_epsilon or math.inf for caps in (self, older))
        now, before = self.window_epsilon, older.window_epsilon
        if self.window < older.window:
            return "has shorter windows"
        if now > before:
            return f"allows more epsilon a window ({now}, before {before})"
        if report > older_report:
            return f"allows more epsilon a report ({report}, before {older_report})"
        return ""


def periods_touched(span: timedelta, period: timedelta) -> int:
    """Return the largest number of consecutive periods of this length that a `span` can touch."""
    return -(-span // period) + 1


def length(span: timedelta) -> int:
    """Return a length of time in whole seconds."""
    return round(span.total_seconds())


def length_in_words(span: timedelta) -> str:
    """Return a length of time in words, such as "1 day": in the largest unit that divides it."""
    units = ("day", "hour", "minute", "second")
    sizes = dict(zip(units, map(timedelta, (1, 0, 0, 0), (0, 3600, 60, 1)), strict=True))
    unit = next((unit for unit, size in sizes.items() if not span % size), "second")
    return f"1 {unit}" if span == sizes[unit] else f"{span / sizes[unit]:,.15g} {unit}s"
