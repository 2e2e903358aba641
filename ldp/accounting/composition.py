"""How costs combine: sequential (they add), parallel over disjoint people (the largest), groups.

Sums are exact and rounded up, so adding many small costs never shows less than was spent.
Sources: Dwork and Roth 2014, theorems 3.14 (basic composition) and 2.2 (groups); McSherry 2009,
theorem 4 (parallel composition).
"""

import math
from collections.abc import Iterable
from fractions import Fraction

from ldp.accounting.cost import Cost, Neighbours
from ldp.channel import round_up
from ldp.errors import ParameterError


def exact_sum(numbers: Iterable[float]) -> float:
    """The sum of doubles, rounded up once; infinite when one of them is."""
    listed = list(numbers)
    if math.inf in listed:
        return math.inf
    return round_up(sum(map(Fraction, listed), Fraction(0)))


def sequential(costs: Iterable[Cost]) -> Cost:
    """Several releases about the same person, each with fresh randomness: epsilons and deltas add.

    >>> sequential([Cost(epsilon=1.0), Cost(epsilon=0.5)]).epsilon
    1.5
    """
    listed = list(costs)
    neighbours = _common_neighbours(listed)
    return Cost(
        epsilon=exact_sum(cost.epsilon for cost in listed),
        delta=min(1.0, exact_sum(cost.delta for cost in listed)),
        neighbours=neighbours,
    )


def parallel(costs: Iterable[Cost]) -> Cost:
    """Releases about *different people*: the largest cost. Two metrics of one person never
    compose this way, they add."""
    listed = list(costs)
    neighbours = _common_neighbours(listed)
    return Cost(
        epsilon=max((cost.epsilon for cost in listed), default=0.0),
        delta=max((cost.delta for cost in listed), default=0.0),
        neighbours=neighbours,
    )


def group(cost: Cost, size: int) -> Cost:
    """What a release costs `size` people (or one person's devices) together, for pure epsilon."""
    if size < 1:
        raise ParameterError("a group has at least one member")
    if cost.delta:
        raise ParameterError("group privacy is given for delta = 0 only")
    return Cost(epsilon=exact_sum([cost.epsilon] * size), neighbours=cost.neighbours)


def _common_neighbours(costs: list[Cost]) -> Neighbours:
    relations = {cost.neighbours for cost in costs}
    if len(relations) > 1:
        raise ParameterError("costs of different neighbour relations cannot be combined")
    return relations.pop() if relations else Neighbours.REPLACE_VALUE
