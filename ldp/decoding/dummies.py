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
from dataclasses import dataclass, replace

import numpy as np

from ldp.arrays import Floats, Ints
from ldp.decoding.binomials import two_binomials
from ldp.decoding.direct import known_points
from ldp.decoding.error_law import Collisions
from ldp.errors import DecodeError
from ldp.mechanisms.dummies import Dummies
from ldp.protocol.channel import Channel
from ldp.tables.estimates import Estimates, Fakes, Rule
from ldp.tables.table import Table

PART_OF_A_BATCH = (
    "the messages are not those of whole people: some of a batch are missing or others were added, "
    "so neither the number of people nor the intervals are claimed"
)


def decode(
    table: Table,
    candidates: tuple[str, ...],
    rule: Rule,
    fakes: Fakes | None = None,
) -> Estimates:
    """Return estimates of how many people hold each candidate. p-values are exact binomial tails.
    `fakes`: made-up messages. Raises DecodeError for a candidate that is no category, and for fewer
    messages than one honest person's."""
    from scipy.stats import binom

    mechanism = table.mechanism
    assert isinstance(mechanism, Dummies)
    made_up = fakes.number if fakes else 0
    points = known_points(mechanism, candidates)
    people = table.total // mechanism.messages
    honest = (table.total - made_up) // mechanism.messages
    if not honest:
        raise DecodeError("the table has fewer messages than one person sends")
    named_counts = table.named_counts()[0, points].astype(np.int64)
    dummies, fewest = (
        DummyLaw(mechanism.slots * n, mechanism.probability / len(mechanism.categories))
        for n in (people, honest)
    )
    mean = dummies.number * dummies.share
    count: Floats = (named_counts.astype(np.float64) - mean) / mechanism.sending
    estimates = Estimates(
        values=candidates,
        count=count,
        std_error=np.sqrt(mechanism.variance(people, np.clip(count / people, 0, 1))),
        p_value=binom.sf(named_counts - made_up - 1, fewest.number, fewest.share),
        reports=people,
        noise=math.sqrt(mechanism.variance(people)),
        law=Collisions(channel=dummies.channel, reports=dummies.number).law(),
        bounds=MessageBounds(named_counts, honest, mechanism.sending, fewest, count, made_up),
        rule=rule,
        fakes=fakes,
        details={
            "messages": table.total,
            "messages_of_a_person": mechanism.messages,
            "warning": PART_OF_A_BATCH if table.total % mechanism.messages and not fakes else None,
        },
    )
    return replace(estimates, sum_std_error=_sum_std_error(mechanism, estimates))


@dataclass(frozen=True)
class DummyLaw:
    """Law of the dummies of one value: Binomial(`number`, `share`)."""

    number: int
    share: float

    @property
    def channel(self) -> Channel:
        """Channel of which only what a dummy does matters: for laws in standard errors."""
        from fractions import Fraction

        share = Fraction(self.share)
        return Channel(touched=(1 + share) / 2, untouched=share)


@dataclass(frozen=True, eq=False)
class MessageBounds:
    """Intervals of counts among honest `people`. `named_counts`: integers, shape (candidates,), the
    messages that name a value, `fakes` of them made up at most; `count`: the estimates, which an
    interval always holds.

    An interval is every c for which neither tail of the messages is below half of what it may miss
    (Clopper and Pearson 1934). Where the value is always sent the tails are exact, else those of
    the saddlepoint (`ldp.decoding.binomials`).
    """

    named_counts: Ints
    people: int
    sending: float
    dummies: DummyLaw
    count: Floats
    fakes: int = 0

    def __call__(self, miss: float, population: bool) -> tuple[Floats, Floats]:
        tail = miss / 2
        ends = self._exact if self.sending == 1 else self._saddlepoint
        honest_counts = np.maximum(self.named_counts - self.fakes, 0)
        low, high = ends(honest_counts, tail)[0], ends(self.named_counts, tail)[1]
        low, high = (np.clip(end, 0, self.people) for end in (low, high))
        low, high = np.minimum(low, self.count), np.maximum(high, self.count)
        if not population:
            return low, high
        share = np.clip(self.count / self.people, 0, 1)
        sampling = _normal_quantile(tail) ** 2 * share * (1 - share) * self.people
        return (
            self.count - np.sqrt((self.count - low) ** 2 + sampling),
            self.count + np.sqrt((high - self.count) ** 2 + sampling),
        )

    def _exact(self, counts: Ints, tail: float) -> tuple[Floats, Floats]:
        """Return the ends by the exact tails of the dummies: the messages less c."""
        from scipy.stats import binom

        law = self.dummies
        least = binom.ppf(tail, law.number, law.share)
        most = binom.isf(tail, law.number, law.share)
        seen = counts.astype(np.float64)
        return seen - float(most), seen - float(least)

    def _saddlepoint(self, counts: Ints, tail: float) -> tuple[Floats, Floats]:
        law = self.dummies
        dummies, z = (law.number, law.share), _normal_quantile(tail)
        return two_binomials(counts, self.people, self.sending, dummies, z)


def _normal_quantile(tail: float) -> float:
    from scipy.special import ndtri

    return float(-ndtri(tail))


def _sum_std_error(mechanism: Dummies, estimates: Estimates) -> float:
    """Return the standard error of the sum of the estimates: of who sent, and of all dummies that
    name one of the candidates, which are one binomial."""
    people, sending = estimates.reports, mechanism.sending
    share = mechanism.probability * len(estimates.values) / len(mechanism.categories)
    held = float(np.clip(estimates.count.sum(), 0, people))
    dummies = mechanism.slots * people * share * (1 - share)
    return math.sqrt(dummies + held * sending * (1 - sending)) / sending
