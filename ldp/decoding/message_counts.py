"""Messages for a shuffler: counts of people, from the messages that name each value.

Every person sent 1 + slots messages, empty ones among them, so the number of messages of whole
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
from ldp.decoding.binomials import count_interval
from ldp.decoding.direct import known_points
from ldp.decoding.error_law import Collisions
from ldp.errors import DecodeError
from ldp.mechanisms.dummies import Dummies
from ldp.protocol.channel import Channel
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
    people, dummies = _people_and_dummies(mechanism, table.total)
    named_counts = table.named_counts()[0, points].astype(np.int64)
    mean = dummies.number * dummies.share
    count: Floats = (named_counts.astype(np.float64) - mean) / mechanism.sending
    bounds = MessageBounds(named_counts, people, mechanism.sending, dummies, count, table)
    estimates = Estimates(
        values=candidates,
        count=count,
        std_error=np.sqrt(mechanism.variance(people, np.clip(count / people, 0, 1))),
        p_value=bounds.p_value,
        reports=people,
        noise=math.sqrt(mechanism.variance(people)),
        law=Collisions(channel=dummies.channel, reports=dummies.number).law(),
        bounds=bounds,
        rule=rule,
        details={
            "messages": table.total,
            "messages_of_a_person": mechanism.messages,
            "warning": PART_OF_A_BATCH if table.total % mechanism.messages else None,
        },
    )
    return replace(estimates, sum_std_error=_sum_std_error(mechanism, estimates))


def _people_and_dummies(mechanism: Dummies, messages: int) -> tuple[int, "DummyLaw"]:
    """Return how many people sent `messages`, and the distribution of their dummies; raise
    DecodeError for fewer messages than one person sends."""
    people = messages // mechanism.messages
    if not people:
        raise DecodeError("the table has fewer messages than one person sends")
    share = mechanism.probability / len(mechanism.categories)
    return people, DummyLaw(mechanism.slots * people, share)


@dataclass(frozen=True)
class DummyLaw:
    """Distribution of the number of dummies of one value: Binomial(`number`, `share`)."""

    number: int
    share: float

    @property
    def channel(self) -> Channel:
        """Channel for distributions in standard errors, which need its `untouched` only."""
        from fractions import Fraction

        share = Fraction(self.share)
        return Channel(touched=(1 + share) / 2, untouched=share)


@dataclass(frozen=True, eq=False)
class MessageBounds:
    """Intervals of counts among honest `people`. `named_counts`: integers, shape (candidates,), the
    messages that name a value, `fakes` of them made up at most; `count`: the estimates, which an
    interval always holds; `table`: all messages.

    An interval is every c for which neither tail of the messages is below half of what it may miss
    (Clopper and Pearson 1934). Where the value is always sent the tails are exact, else those of
    the saddlepoint (`ldp.decoding.binomials`).
    """

    named_counts: Ints
    people: int
    sending: float
    dummies: DummyLaw
    count: Floats
    table: Table | None = None
    fakes: int = 0

    @property
    def p_value(self) -> Floats:
        """Probabilities that dummies alone name a value as often: shape (candidates,)."""
        seen, law = self.named_counts - self.fakes, self.dummies
        return binomial_above(seen - 1, law.number, law.share)

    def under(self, fakes: Fakes) -> Mapping[str, Any]:
        """Return what differs under `fakes`; see `CountBounds.under`. Messages that do not add up
        to whole people are no reason for a warning then. Raises DecodeError for fewer honest
        messages than one person sends."""
        assert self.table is not None
        mechanism, messages = self.table.mechanism, self.table.total - fakes.number
        assert isinstance(mechanism, Dummies)
        people, dummies = _people_and_dummies(mechanism, messages)
        bounds = replace(self, people=people, dummies=dummies, fakes=fakes.number)
        return {"bounds": bounds, "p_value": bounds.p_value, "details": {"warning": None}}

    def __call__(self, miss: float, population: bool) -> tuple[Floats, Floats]:
        tail = miss / 2
        honest_counts = np.maximum(self.named_counts - self.fakes, 0)
        low = self._ends(honest_counts, tail)[0]
        high = self._ends(self.named_counts, tail)[1]
        low, high = (np.clip(end, 0, self.people) for end in (low, high))
        low, high = np.minimum(low, self.count), np.maximum(high, self.count)
        if not population:
            return low, high
        share = np.clip(self.count / self.people, 0, 1)
        sampling = Normal().upper(tail) ** 2 * share * (1 - share) * self.people
        return (
            self.count - np.sqrt((self.count - low) ** 2 + sampling),
            self.count + np.sqrt((high - self.count) ** 2 + sampling),
        )

    def _ends(self, counts: Ints, tail: float) -> tuple[Floats, Floats]:
        """Return the ends; where a value is always sent, by the exact tails of the dummies: the
        messages less c."""
        law = self.dummies
        if self.sending < 1:
            chances = self.sending, law.share
            return count_interval(counts, self.people, chances, tail, law.number)
        least, most = binomial_ends(tail, law.number, law.share)
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
