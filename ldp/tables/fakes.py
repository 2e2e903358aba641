"""Made-up reports: how many there may be, and how far they move an estimate.

The claim that intervals keep: whatever at most a share x of the reports say, chosen with knowledge
of all others, an interval holds the count among the other reports, those of honest devices, with
the probability stated. With n reports, k = floor(x n), and S of them naming a value, the honest
ones are n - k' that name it S - F times, for some F <= k' <= k. The interval is the union over all
of these: its lower end is that of (S - k, n - k), its upper end that of (S, n - k).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ldp.errors import DecodeError, ParameterError
from ldp.protocol.channel import real_number

if TYPE_CHECKING:
    from ldp.mechanisms import Mechanism

MOST_SHARE = 0.5
"""Largest share of made-up reports: with more, no report is known to be honest."""
NO_BOUND = "No bound is known on what made-up reports could do to these counts"
"""Words of results whose `fakes_move` is null."""


class NoBound(DecodeError):
    """Error: no interval is known that holds under made-up reports."""


@dataclass(frozen=True, kw_only=True)
class Fakes:
    """Made-up reports that intervals allow for: `number`, at most a `share` of all. They raise an
    estimate above what the honest reports say by `raised` at most, and lower it by `lowered` at
    most: counts in reports, numbers in their units, percentiles as a share of the reports."""

    share: float | None = None
    number: int = 0
    raised: float = 0.0
    lowered: float = 0.0

    @property
    def details(self) -> dict[str, float]:
        """Keys of a summary about the made-up reports that the intervals allow for."""
        if self.share is None:
            return {}
        return {
            "fakes": self.share,
            "fakes_reports": self.number,
            "fakes_raise": self.raised,
            "fakes_lower": self.lowered,
        }


NO_FAKES = Fakes()
"""Allowance of intervals where nobody asked for one."""


def fake_share(share: Any) -> float:
    """Return a share of made-up reports, of any type of real numbers, as a float. Raises
    ParameterError unless 0 <= share <= MOST_SHARE."""
    if not 0 <= real_number(share, "the share of made-up reports") <= MOST_SHARE:
        raise ParameterError(f"the share of made-up reports must be 0 to {100 * MOST_SHARE:.0f} %")
    return float(Fraction(str(share)))


def fake_reports(reports: int, share: float) -> int:
    """Return the largest number of made-up reports among `reports` if they are a `share` at most.
    Raises ParameterError unless 0 <= share <= MOST_SHARE.

    >>> fake_reports(1000, 0.029)
    29
    """
    return math.floor(Fraction(str(fake_share(share))) * reports)


def fakes_among(mechanism: "Mechanism", reports: int, share: float) -> Fakes:
    """Return the made-up reports, a `share` of `reports` at most, and how far they move the count
    of one value. Raises ParameterError for a share out of range."""
    number = fake_reports(reports, share)
    part = number / reports
    return Fakes(
        share=share,
        number=number,
        raised=reports * mechanism.fakes_move(part),
        lowered=reports * mechanism.fakes_lower(part),
    )


def damage_words(summary: Mapping[str, Any], moved: str) -> str:
    """Return what all made-up reports together can do to counts. `moved`: the most by which they
    move one count. `fakes_name_one` in the summary: whether each report names one value only."""
    if summary.get("fakes_name_one"):
        return f"could move one count by {moved}, or several by less together"
    return f"could move every count that they name by {moved}, and one of them may name many"
