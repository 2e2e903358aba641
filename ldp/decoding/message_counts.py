"""Messages for a shuffler: counts of people, from the messages that name each value.

Every person sent 1 + slots messages, empty ones among them. So the number of messages of whole
batches says exactly how many people n there are. Of c people who hold a value, the messages that
name it are the sum of Binomial(c, sending) and Binomial(slots n, probability / values), the dummies
of all. If k of the T messages are made up, honest people sent T - k, and name the value S - F times
for some F <= k: both ends of an interval are those of (T - k) / (1 + slots) people, with S - k
messages below and S above, because a message that is left out takes less than one dummy of a value
with it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldp.arrays import Floats, Ints, binomial_above, binomial_ends
from ldp.decoding.binomials import CountLaw, count_interval
from ldp.decoding.direct import known_points
from ldp.errors import DecodeError
from ldp.mechanisms.dummies import Dummies
from ldp.tables.estimates import Estimates, Normal, Rule
from ldp.tables.fakes import Fakes
from ldp.tables.table import Table

PART_OF_A_BATCH = (
    "the messages are not those of whole people: some of a batch are missing or others were added, "
    "so neither the number of people nor the intervals are claimed"
)


def decode(table: Table, candidates: tuple[str, ...], rule: Rule) -> Estimates:
    """Return estimates of how many people hold each candidate. p-values are exact binomial tails.
    Raises DecodeError for a candidate that is no category, and for fewer messages than one person
    sends."""
    mechanism = table.mechanism
    assert isinstance(mechanism, Dummies)
    points = known_points(mechanism, candidates)
    people, dummies, share = _people_and_dummies(mechanism, table.total)
    named_counts = table.named_counts()[0, points].astype(np.int64)
    count: Floats = (named_counts.astype(np.float64) - dummies * share) / mechanism.sending
    bounds = MessageBounds(named_counts, count, mechanism, table.total)
    estimates = Estimates(
        values=candidates,
        count=count,
        std_error=np.sqrt(mechanism.variance(people, np.clip(count / people, 0, 1))),
        p_value=bounds.p_value,
        reports=people,
        noise=math.sqrt(mechanism.variance(people)),
        law=CountLaw(dummies, share),
        bounds=bounds,
        rule=rule,
        details={
            "messages": table.total,
            "messages_of_a_person": mechanism.messages,
            "warning": PART_OF_A_BATCH if table.total % mechanism.messages else None,
        },
    )
    return replace(estimates, sum_std_error=_sum_std_error(mechanism, estimates))


def _people_and_dummies(mechanism: Dummies, messages: int) -> tuple[int, int, float]:
    """Return how many people sent `messages`, how many dummies they drew, and the probability that
    a dummy names a value. Raises DecodeError for fewer messages than one person sends."""
    people = messages // mechanism.messages
    if not people:
        raise DecodeError("the table has fewer messages than one person sends")
    return people, mechanism.slots * people, mechanism.probability / len(mechanism.categories)


@dataclass(frozen=True, eq=False)
class MessageBounds:
    """Intervals of counts among the honest people who sent `messages` and at most `fakes` made-up
    ones. `named_counts`: integers, shape (candidates,), the messages that name a value. `count`:
    the estimates, which an interval always holds.

    An interval is every c for which neither tail of the messages is below half of what it may miss
    (Clopper and Pearson 1934). Where the value is always sent the tails are exact, else those of
    the saddlepoint (`ldp.decoding.binomials`).
    """

    named_counts: Ints
    count: Floats
    mechanism: Dummies
    messages: int
    fakes: int = 0

    @property
    def _honest(self) -> tuple[int, int, float]:
        return _people_and_dummies(self.mechanism, self.messages - self.fakes)

    @property
    def p_value(self) -> Floats:
        """Probabilities that dummies alone name a value as often: shape (candidates,)."""
        _, dummies, share = self._honest
        return binomial_above(self.named_counts - self.fakes - 1, dummies, share)

    def under(self, fakes: Fakes) -> Mapping[str, Any]:
        """Return what differs under `fakes`; see `CountBounds.under`. Messages that do not add up
        to whole people are no reason for a warning then. Raises DecodeError for fewer honest
        messages than one person sends."""
        bounds = replace(self, fakes=fakes.number)
        return {"bounds": bounds, "p_value": bounds.p_value, "details": {"warning": None}}

    def __call__(self, miss: float, population: bool) -> tuple[Floats, Floats]:
        tail, (people, dummies, share) = miss / 2, self._honest
        honest_counts = np.maximum(self.named_counts - self.fakes, 0)
        low = self._ends(honest_counts, tail)[0]
        high = self._ends(self.named_counts, tail)[1]
        low, high = (np.clip(end, 0, people) for end in (low, high))
        low, high = np.minimum(low, self.count), np.maximum(high, self.count)
        if not population:
            return low, high
        all_people = self.messages // self.mechanism.messages
        ends = list[Floats]()
        for way, end, seen in ((-1, low, honest_counts), (1, high, self.named_counts)):
            middle = (seen - dummies * share) / self.mechanism.sending
            held = np.clip(middle / people, 0, 1)
            reach = np.sqrt(held * (1 - held) * people)
            reach = np.hypot(end - middle, Normal().upper(tail) * reach)
            ends.append((middle + way * reach) * all_people / people)
        return ends[0], ends[1]

    def _ends(self, counts: Ints, tail: float) -> tuple[Floats, Floats]:
        """Return the ends. Where a value is always sent, they come from the exact tails of the
        dummies: the messages less c."""
        (people, dummies, share), sending = self._honest, self.mechanism.sending
        if sending < 1:
            return count_interval(counts, people, (sending, share), tail, dummies)
        least, most = binomial_ends(tail, dummies, share)
        seen = counts.astype(np.float64)
        return seen - most, seen - least


def _sum_std_error(mechanism: Dummies, estimates: Estimates) -> float:
    """Return the standard error of the sum of the estimates: of who sent, and of all dummies that
    name one of the candidates, which are one binomial."""
    people, sending = estimates.reports, mechanism.sending
    share = mechanism.probability * len(estimates.values) / len(mechanism.categories)
    held = float(np.clip(estimates.count.sum(), 0, people))
    dummies = mechanism.slots * people * share * (1 - share)
    return math.sqrt(dummies + held * sending * (1 - sending)) / sending
