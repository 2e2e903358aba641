"""Composition of costs: sequential (the sum), advanced (below the sum, for a delta), parallel over
disjoint people (the largest), groups.

Closed forms only; `ldp.privacy_loss` composes the distributions of mechanisms. Every result is
rounded up. So the sum of many small costs is never below their exact sum. Sources: Dwork and Roth
2014, theorem 3.14 (basic composition); Dwork, Rothblum and Vadhan 2010, theorem III.3, with the
mean of Kairouz, Oh and Viswanath 2015, theorem 3.5 (advanced); McSherry 2009, theorem 4 (parallel);
Vadhan 2017, lemma 2.2 (groups).
"""

import math
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

from ldp.accounting.cost import Cost, Neighbours
from ldp.errors import ParameterError, require_kind, require_share
from ldp.protocol.channel import EXACT, real_number, round_up

LARGE = Decimal(10_000)
"""Largest exponent: e**LARGE replaces all larger powers, since any delta times it is above 1."""
MARGIN = Decimal("1.00000000000000000001")
"""Factor above the relative error of a few operations with the 60 digits of EXACT."""


def exact_sum(numbers: Iterable[float]) -> float:
    """Return the exact sum of `numbers`, rounded up once. It is infinite if one of them is."""
    terms = list(numbers)
    if math.inf in terms:
        return math.inf
    return round_up(sum(map(Fraction, terms), Fraction(0)))


def sequential(costs: Iterable[Cost]) -> Cost:
    """Return the cost of releases about the same person, each with fresh randomness: the sums of
    epsilons and deltas of `costs`. Raises ParameterError for different neighbour relations.

    >>> sequential([Cost(epsilon=1.0), Cost(epsilon=0.5)]).epsilon
    1.5
    """
    releases = [require_kind(cost, Cost, "cost") for cost in costs]
    return Cost(
        epsilon=exact_sum(cost.epsilon for cost in releases),
        delta=min(1.0, exact_sum(cost.delta for cost in releases)),
        neighbours=_common_neighbours(releases),
    )


def parallel(costs: Iterable[Cost]) -> Cost:
    """Return the cost of releases about *different people*: the largest epsilon and delta. Two
    metrics of one person do not compose this way, their costs add. Raises as `sequential`."""
    releases = [require_kind(cost, Cost, "cost") for cost in costs]
    return Cost(
        epsilon=max((cost.epsilon for cost in releases), default=0.0),
        delta=max((cost.delta for cost in releases), default=0.0),
        neighbours=_common_neighbours(releases),
    )


def advanced(costs: Iterable[Cost], delta: float) -> Cost:
    """Return the cost of the releases of `sequential`, at a smaller epsilon that fails with
    probability `delta`:

        epsilon = sum e tanh(e / 2) + sqrt(2 ln(1 / delta) sum e**2)
        delta   = sum of the releases' deltas + delta

    e tanh(e / 2) is the largest mean, and [-e, e] the range, of the privacy loss of a release at e.
    The bound is Hoeffding's inequality. Returns the result of `sequential` where its epsilon is
    smaller. Raises ParameterError for a `delta` outside (0, 1). The choice of releases must not
    depend on the results of earlier ones. Their inputs may.

    >>> year = advanced([Cost(epsilon=0.1)] * 365, delta=1e-9)
    >>> round(year.epsilon, 2), year.delta
    (14.12, 1e-09)
    """
    delta = require_share(delta, "delta")
    releases = list(costs)
    basic = sequential(releases)
    if basic.epsilon == math.inf:
        return basic
    mean, squares = Decimal(0), Fraction(0)
    for epsilon, count in Counter(cost.epsilon for cost in releases).items():
        power = EXACT.exp(min(Decimal(epsilon), LARGE))
        # tanh(epsilon / 2)
        slope = EXACT.divide(EXACT.subtract(power, 1), EXACT.add(power, 1))
        mean = EXACT.fma(EXACT.multiply(Decimal(epsilon), slope), Decimal(count), mean)
        squares += count * Fraction(epsilon) ** 2
    spread = EXACT.divide(Decimal(squares.numerator), Decimal(squares.denominator))
    tail = EXACT.multiply(EXACT.multiply(spread, Decimal(-2)), EXACT.ln(Decimal(delta)))
    epsilon = round_up(EXACT.multiply(EXACT.add(mean, EXACT.sqrt(tail)), MARGIN))
    if basic.epsilon <= epsilon:
        return basic
    return Cost(
        epsilon=epsilon,
        delta=min(1.0, exact_sum([basic.delta, delta])),
        neighbours=basic.neighbours,
    )


def group(cost: Cost, size: int) -> Cost:
    """Return the cost of a release for a group of `size` people (or one person's devices):

        epsilon = size e,   delta = size e**((size - 1) e) d

    which is above d (1 + e**e + ... + e**((size - 1) e)), a summand for each replaced member.
    Raises ParameterError for a size below 1.
    """
    if real_number(size, "size") < 1:
        raise ParameterError("a group has at least one member")
    if size == 1:
        return cost
    delta = 0.0
    if cost.delta:
        exponent = min(EXACT.multiply(Decimal(cost.epsilon), Decimal(size - 1)), LARGE)
        total = EXACT.multiply(Decimal(cost.delta), Decimal(size))
        bound = EXACT.multiply(EXACT.multiply(EXACT.exp(exponent), total), MARGIN)
        delta = round_up(min(Decimal(1), bound))
    return Cost(epsilon=exact_sum([cost.epsilon] * size), delta=delta, neighbours=cost.neighbours)


def _common_neighbours(costs: list[Cost]) -> Neighbours:
    relations = {cost.neighbours for cost in costs}
    if len(relations) > 1:
        raise ParameterError("costs of different neighbour relations cannot be combined")
    return relations.pop() if relations else Neighbours.REPLACE_VALUE
