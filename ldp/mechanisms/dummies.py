"""Messages for a shuffler: a person's value as it is, and dummies that hide it among all people's.

A record becomes `messages` messages, the same number for every value. Each is a report by itself,
and names a value or is empty. A device seals each by itself. `ldp.privacy_loss.shuffled_dummies`
states what a batch of many people's messages costs, and the sources. Nothing is protected from
whoever sees one person's messages together. So no device sends them without a relay.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from ldp.accounting.cost import Cost
from ldp.errors import ParameterError
from ldp.mechanisms.addressing import Identity, require_categories
from ldp.mechanisms.base import FAKES, Case, Mechanism, ReportEncoder, Shape, threshold
from ldp.protocol.channel import Channel, convert, real_number, require_whole
from ldp.protocol.hashing import Value
from ldp.protocol.kinds import Index
from ldp.protocol.randomness import BitSource, SystemBits, bernoulli, uniform_below
from ldp.protocol.wire import pack_report

MOST_SLOTS = 99
"""Largest number of places for dummies of a record: all its messages leave in one batch."""
LEAST_PROBABILITY = 2**-12
"""Least probability: from it on doubles are multiples of 2**-64, which devices draw exactly."""


def checked_shares(probability: Any, sending: Any, least: float) -> tuple[float, float]:
    """Return `probability` and `sending` as floats. Raise ParameterError unless both are from
    `least` to 1. Raise it also where a value may be left out while every slot holds a dummy: the
    number of messages would tell whether it was."""
    for name, share in (("probability", probability), ("sending", sending)):
        if not least <= real_number(share, name) <= 1:
            raise ParameterError(f"{name} must be from {least:g} to 1")
    if probability == 1 > sending:
        raise ParameterError("probability must be below 1 where sending is")
    return float(probability), float(sending)


@dataclass(frozen=True)
class MessageColumns(Identity):
    """Addressing of messages: one column a category, in their order, and after them a column for
    empty messages, which no value touches."""


@dataclass(frozen=True, kw_only=True)
class Dummies(Mechanism):
    """Messages for a shuffler: the value with probability `sending`, and in each of `slots` places
    a dummy with `probability`.

    A dummy names a uniform one of the k categories, the person's own among them. A place without a
    message holds an empty one, so that a record always becomes 1 + `slots` messages, in a random
    order. A message is a report: one of k + 1 columns, the last for empty ones.

    >>> cities = Dummies(categories=("Oslo", "Bergen", "Hell"), slots=2, probability=0.5)
    >>> cities.messages, cities.cost.epsilon
    (3, inf)
    >>> [len(message) for message in cities.split(cities.encoder().encode("Oslo"))]
    [11, 11, 11]

    `categories`: 2 or more distinct texts. `slots`: 1 to MOST_SLOTS. `probability` and `sending`:
    from LEAST_PROBABILITY to 1, and `probability` below 1 where `sending` is. Raises ParameterError
    otherwise.
    """

    name = "dummies"
    wire_id = 26
    kind = Index
    needs_shuffler = True
    cases = (
        Case(*"abc", categories=tuple("abc"), slots=2, probability=0.5, sending=0.75),
        Case(*"ab", categories=("a", "b"), slots=1, probability=1.0),
    )

    categories: tuple[str, ...]
    slots: int
    probability: float
    sending: float = 1.0

    def __post_init__(self) -> None:
        convert(self, categories=require_categories)
        require_whole(self.slots, "slots", 1, MOST_SLOTS)
        shares = checked_shares(self.probability, self.sending, LEAST_PROBABILITY)
        for name, share in zip(("probability", "sending"), shares, strict=True):
            object.__setattr__(self, name, share)

    @property
    def messages(self) -> int:
        return 1 + self.slots

    @cached_property
    def cost(self) -> Cost:
        """Cost to whoever sees the messages of one person: no bound."""
        return Cost(epsilon=float("inf"))

    @cached_property
    def channel(self) -> Channel:
        """Distribution of one message, drawn at random among the messages of a person. These depend
        on each other, so the channel's epsilon is not the cost."""
        dummies = Fraction(self.probability) * self.slots / len(self.categories)
        return Channel(
            touched=(Fraction(self.sending) + dummies) / self.messages,
            untouched=dummies / self.messages,
        )

    @cached_property
    def addressing(self) -> MessageColumns:
        return MessageColumns(self.categories)

    @cached_property
    def shape(self) -> Shape:
        return Shape(1, len(self.categories) + 1)

    @property
    def placeholder(self) -> Value | None:
        """None: presence cannot be hidden."""
        return None

    def encoder(self, bits: BitSource | None = None) -> "DummiesEncoder":  # type: ignore[override]
        return DummiesEncoder(self, SystemBits() if bits is None else bits)

    def variance(self, reports: int, frequency: Any = 0.0, others_squared: Any = 0.0) -> Any:
        """Return the variance of the estimated count of a value among `reports` people: one part
        from the random sending of values, one from the dummies."""
        share = self.probability / len(self.categories)
        dummies = self.slots * share * (1 - share)
        return reports * (dummies + frequency * self.sending * (1 - self.sending)) / self.sending**2

    def fakes_move(self, share: float = FAKES) -> float:
        """Return by how much a count rises, as a share of the number of messages, if a `share` of
        the messages is made up and names the value."""
        return super().fakes_move(share) / self.messages

    def fakes_lower(self, share: float = FAKES) -> float:
        """Return by how much a count falls, as a share of the number of messages, if a `share` of
        the messages is made up and does not name the value: by the dummies that honest people
        would have sent."""
        return super().fakes_lower(share) / self.messages


class DummiesEncoder(ReportEncoder):
    """Encoder that draws all messages of a record."""

    def __init__(self, mechanism: Dummies, bits: BitSource) -> None:
        self._mechanism, self._bits = mechanism, bits
        self._sending, self._probability = (
            threshold(Fraction(share)) for share in (mechanism.sending, mechanism.probability)
        )

    def encode(self, value: Value) -> bytes:
        """Draw a record of `value`: its messages, one after the other, in a uniformly random order.
        Raises ParameterError, before a bit is drawn, for a value outside the domain."""
        mechanism, empty = self._mechanism, len(self._mechanism.categories)
        columns = [(empty, mechanism.addressing.point(value))[bernoulli(self._bits, self._sending)]]
        for _ in range(mechanism.slots):
            # drawn also where it is not sent
            dummy = uniform_below(self._bits, empty)
            columns.append((empty, dummy)[bernoulli(self._bits, self._probability)])
        for last in range(mechanism.slots, 0, -1):  # Durstenfeld 1964
            place = uniform_below(self._bits, last + 1)
            columns[last], columns[place] = columns[place], columns[last]
        header, layout = mechanism.header, mechanism.layout
        return b"".join(pack_report(header, layout, 0, column) for column in columns)
