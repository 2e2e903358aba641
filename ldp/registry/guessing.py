"""Guessing from linked reports: how often somebody is right who sees several of one person.

Reports are given as the probabilities of their classes under the worst two answers
(`ldp.mechanisms.outcomes`). The best guess is the likelier answer, so that it is right with
probability sum max(belief P, (1 - belief) Q) over all sequences of classes: no attacker is right
more often, whatever they compute. Standard library only.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from ldp.errors import ParameterError

Masses = Sequence[tuple[float, float]]
"""Probabilities of each class of reports under the first and the second answer."""
MOST_STEPS = 100_000
"""Number of products after which `linked_reports` takes the sum of losses as normal."""
_DIGITS = 9


class Linked(NamedTuple):
    """Least number of linked `reports`, and whether it is exact or about right (to 2 digits)."""

    reports: int
    is_exact: bool = True


def require_share(share: float, name: str) -> float:
    """Return `share`; raise ParameterError, with `name`, unless it lies between 0 and 1."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise ParameterError(f"{name} must lie strictly between 0 and 1")
    return share


def right_guesses(masses: Masses, belief: float = 0.5) -> Iterator[float]:
    """Yield the share of right guesses from 1, 2, .. fresh reports about one answer, until
    MOST_STEPS. `belief`: prior probability of the first answer; the second has the rest. Of the two
    orders of the answers, the one that makes more guesses right counts.

    >>> shares = right_guesses([(0.75, 0.25), (0.25, 0.75)])
    >>> [round(next(shares), 4) for _ in range(3)]
    [0.75, 0.75, 0.8438]
    """
    steps, sums = 0, {0.0: (1.0, 1.0)}
    while (steps := steps + len(sums) * len(masses)) <= MOST_STEPS:
        added: dict[float, tuple[float, float]] = {}
        for loss, (first, second) in sums.items():
            for p, q in masses:
                key = round(loss + math.log(p / q), _DIGITS)
                before = added.get(key, (0.0, 0.0))
                added[key] = before[0] + first * p, before[1] + second * q
        sums = added
        yield max(
            sum(max(share * p, (1 - share) * q) for p, q in sums.values())
            for share in (belief, 1 - belief)
        )


def linked_reports(masses: Masses, belief: float = 0.5, certainty: float = 0.99) -> Linked:
    """Return the least number of linked reports from which a guess is right with probability
    `certainty`: with fewer no guess is. Raises ParameterError for shares outside of (0, 1).

    >>> linked_reports([(0.75, 0.25), (0.25, 0.75)])
    Linked(reports=19, is_exact=True)
    """
    require_share(belief, "belief")
    require_share(certainty, "certainty")
    if certainty <= max(belief, 1 - belief):
        return Linked(0)
    reports = 0
    for reports, share in enumerate(right_guesses(masses, belief), 1):
        if share >= certainty:
            return Linked(reports)
    share_after = partial(_normal_share, masses, belief)
    high = max(1, reports)
    while share_after(high) < certainty:
        high *= 2
    least = bisect_left(range(high), certainty, max(1, reports), key=share_after)
    step = 10 ** (len(str(least)) - 2)
    return Linked(-(-least // step) * step, is_exact=False)


def _normal_share(masses: Masses, belief: float, reports: int) -> float:
    """Return the share of right guesses if sums of losses were normal."""

    def beyond(weights: Sequence[float], sign: int, prior: float) -> float:
        losses = [sign * math.log(p / q) for p, q in masses]
        mean = sum(w * loss for w, loss in zip(weights, losses, strict=True))
        square = sum(w * loss**2 for w, loss in zip(weights, losses, strict=True))
        shift = reports * mean + math.log(prior / (1 - prior))
        return math.erfc(-shift / math.sqrt(2 * reports * (square - mean**2))) / 2

    first, second = zip(*masses, strict=True)
    return max(
        share * beyond(first, 1, share) + (1 - share) * beyond(second, -1, 1 - share)
        for share in (belief, 1 - belief)
    )
