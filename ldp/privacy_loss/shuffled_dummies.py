"""Histograms under a trusted shuffler: people send their value, or nothing, and a few dummies.

A dummy is a message that names a value drawn uniformly. A person sends the value with probability
`sending`, and a dummy in each of `slots` places with `probability`. Nobody sends more than 1 +
`slots` messages. Shuffled, only the number of messages of each value is left, and the dummies of
all hide each person's message. To whoever sees messages before that, there is no bound: the local
epsilon is infinite. Sources: Luo, Wang and Yi 2022 (CCS), of which this is the binomial form; Cheu
and Zhilyaev 2022 (fake users); with `sending` below 1 also what randomised response does, whose
false answers are dummies.

The cost, replace-one, to whoever knows the values and messages of all others but their dummies:
with x = e**epsilon, N slots, S ~ Binomial(N, 2 probability / values) dummies of the two values that
are compared, B ~ Binomial(S, 1/2) of the first, and n the messages of the first value,

    P(messages) - x Q(messages) = f(n - 1) (sending (n - x (S + 1 - n)) / n
                                            - (1 - sending) (x - 1) h / n),

where f is the distribution of the dummies if the person sends the value, and f(n - 1) h / n its
value if not: h = probability (N - T + 1) / (values (1 - probability)) with T messages in all.
Summed over n, with the least h for T at most some t, and what is beyond added,

    delta <= E[  sending (P(B >= c - 1) - x P(B >= c))
               - 2 (1 - sending) (x - 1) h P(B' >= c) / (S + 1)]
             + P(more than t - 1 dummies),                       B' ~ Binomial(S + 1, 1/2),

with c where the terms become positive. With `sending` 1 it is exact and h is not needed.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ldp.accounting.bisection import least_number
from ldp.accounting.cost import Cost
from ldp.arrays import Floats, Generator, Ints, binomial_above
from ldp.errors import ParameterError
from ldp.mechanisms.dummies import Dummies, checked_shares
from ldp.protocol.channel import require_whole

TAIL = 60
"""Negative logarithm of tails that are added to delta: those of the numbers of dummies."""
ROUNDED = 1e-11
"""Relative error of a binomial probability, at most."""
MOST_VALUES, MOST_SLOTS, LEAST_SHARE = 1 << 24, 1 << 16, 2.0**-64
LEAST_DELTA = 1e-15
"""Least delta for which dummies are calibrated."""
SENDING = tuple(tenths / 20 for tenths in range(20, 0, -1))
"""Probabilities of sending the value that are compared."""
STEPS = 1_000
"""Number of steps between two mean numbers of dummies that differ by 1."""


@dataclass(frozen=True, kw_only=True)
class DummyMessages:
    """Messages of a person: the value, one of `values`, with probability `sending`, and in each of
    `slots` places a dummy with `probability`, from LEAST_SHARE to 1.

    Raises ParameterError for numbers out of range, and where `checked_shares` does.

    >>> histogram = DummyMessages.calibrated(2_600, reports=100_000, epsilon=1.0, delta=1e-6)
    >>> histogram.slots, round(histogram.messages, 2), round(histogram.std_error(100_000), 2)
    (2, 2.11, 6.53)
    """

    values: int
    slots: int
    probability: float
    sending: float = 1.0
    name: ClassVar[str] = "dummies"
    is_memoisable: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_whole(self.values, "values", 2, MOST_VALUES)
        require_whole(self.slots, "slots", 1, MOST_SLOTS)
        checked_shares(self.probability, self.sending, LEAST_SHARE)

    @classmethod
    def of(cls, mechanism: Dummies) -> "DummyMessages":
        """Return the messages of a metric's `mechanism`. Devices draw with exactly its doubles."""
        return cls(
            values=len(mechanism.categories),
            slots=mechanism.slots,
            probability=mechanism.probability,
            sending=mechanism.sending,
        )

    @classmethod
    def calibrated(
        cls, values: int, *, reports: int, epsilon: float, delta: float
    ) -> "DummyMessages":
        """Return the messages with the least mean squared error of all counts for which a batch of
        `reports` honest people is certified to have (`epsilon`, `delta`).

        `sending` is one of SENDING, the mean number of dummies the least in steps of 1/1000, in the
        fewest slots that hold them (twice as many where `sending` is below 1). Raises
        ParameterError where MOST_SLOTS are too few, for an epsilon that is not above 0 and for a
        delta below LEAST_DELTA. Time: half a second.
        """
        if not LEAST_DELTA <= delta < 1 or not epsilon > 0:
            raise ParameterError(f"epsilon must be > 0, and delta from {LEAST_DELTA:g} to 1")

        def of_mean(steps: int, sending: float) -> "DummyMessages":
            mean = steps / STEPS
            slots = math.ceil(mean if sending == 1 else 2 * mean)
            return cls(values=values, slots=slots, probability=mean / slots, sending=sending)

        def least(sending: float) -> "DummyMessages | None":
            def suffices(steps: int) -> bool:
                return of_mean(steps, sending).delta(epsilon, reports=reports) <= delta

            steps = least_number(suffices, MOST_SLOTS * STEPS // 2)
            return None if steps is None else of_mean(steps, sending)

        options = [messages for messages in map(least, SENDING) if messages is not None]
        if not options:
            raise ParameterError(f"{reports:,} people would need more than {MOST_SLOTS:,} slots")
        return min(options, key=lambda messages: messages.std_error(reports))

    @property
    def cost(self) -> Cost:
        """Cost to whoever sees messages before they are shuffled: no bound."""
        return Cost(epsilon=math.inf)

    @property
    def messages(self) -> float:
        """Mean number of messages of a person; 1 + `slots` at most."""
        return self.sending + self.slots * self.probability

    @property
    def message_bytes(self) -> int:
        """Bytes of a value's number, before sealing."""
        return -(-(self.values - 1).bit_length() // 8)

    def delta(self, epsilon: float, *, reports: int) -> float:
        """Return an upper bound on delta at `epsilon` from 0 to 700 in a batch of `reports` honest
        people. Time: a few milliseconds."""
        from scipy.stats import binom  # its masses are right to 1e-11

        total, rate = self.slots * reports, 2 * self.probability / self.values
        beyond, hiding = self._hiding(total)
        low, high = _window(total, rate)
        sums, omitted = np.arange(low, high + 1), (1 - self.sending) * math.expm1(epsilon) * hiding
        shift = omitted / self.sending / (math.exp(epsilon) + 1)
        least = np.ceil((sums + 1) / (1 + math.exp(-epsilon)) + shift)
        first, second = (binomial_above(least - n, sums, 0.5) for n in (2, 1))
        neither = binomial_above(least - 1, sums + 1, 0.5) * 2 / (sums + 1)
        gaps = self.sending * first * (1 + ROUNDED)
        gaps -= (self.sending * math.exp(epsilon) * second + omitted * neither) * (1 - ROUNDED)
        inside = float(binom.pmf(sums, total, rate) @ np.maximum(gaps, 0)) * (1 + ROUNDED)
        return min(1.0, inside + beyond + math.exp(-TAIL))

    def _hiding(self, total: int) -> tuple[float, float]:
        """Return the probability of more messages than t, and the least h for at most t of them:
        dummies of one value that hide whether the value was sent."""
        if self.sending == 1:
            return 0.0, 0.0
        _, most = _window(total, self.probability)
        odds = self.probability / (1 - self.probability) * (1 - ROUNDED)
        return float(binomial_above(most - 1, total, self.probability)), odds * (
            total - most + 1
        ) / self.values

    def shuffled_cost(self, *, reports: int, delta: float) -> Cost:
        """Return the smallest cost that is certified at `delta` in (0, 1) for one person in a batch
        of `reports` honest people. It is infinite where none is."""

        def excess(epsilon: float) -> float:
            return math.log(max(1e-300, self.delta(epsilon, reports=reports))) - math.log(delta)

        high = 1.0
        while excess(high) > 0:
            high *= 2
            if high > 700:
                return self.cost
        if excess(0.0) <= 0:
            return Cost(epsilon=0.0, delta=delta)
        from scipy.optimize import brentq

        epsilon = brentq(excess, 0.0, high, rtol=1e-9)
        while excess(epsilon) > 0:
            epsilon *= 1 + 1e-9
        return Cost(epsilon=epsilon, delta=delta)

    def std_error(self, reports: int, count: float | None = None) -> float:
        """Return the standard error of a `count` of `reports` people, or without `count` the root
        of its mean square over all values. It comes from random sending and from the dummies."""
        share, held = self.probability / self.values, reports / self.values
        dummies = self.slots * reports * share * (1 - share)
        unsent = (held if count is None else count) * self.sending * (1 - self.sending)
        return math.sqrt(dummies + unsent) / self.sending

    def draw_messages(self, counts: Ints, generator: Generator) -> Ints:
        """Return the number of messages of each value, shape (values,), from people who hold each
        value `counts` times: a simulation of what a collector opens."""
        sent = generator.binomial(counts, self.sending)
        dummies = generator.binomial(self.slots * int(counts.sum()), self.probability)
        uniform = np.full(self.values, 1 / self.values)
        return np.asarray(sent + generator.multinomial(dummies, uniform), dtype=np.int64)

    def estimates(self, messages: Ints, reports: int) -> Floats:
        """Return unbiased estimates of how many of `reports` people hold each value, from the
        number of `messages` of each, shape (values,)."""
        dummies = self.slots * reports * self.probability / self.values
        return np.asarray((messages - dummies) / self.sending, dtype=np.float64)


def _window(total: int, rate: float) -> tuple[int, int]:
    """Return the ends outside of which Binomial(`total`, `rate`) has a probability of at most
    e**-TAIL (Bernstein)."""
    mean = total * rate
    reach = math.sqrt(2 * mean * (1 - rate) * (TAIL + 1)) + TAIL + 1
    return max(0, math.floor(mean - reach)), min(total, math.ceil(mean + reach))
