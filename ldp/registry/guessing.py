"""Guessing from linked reports: how often somebody is right who sees several of one person.

Reports are given as the probabilities of their classes under the worst two answers
(`ldp.mechanisms.outcomes`). The best guess is the likelier answer, so that it is right with
probability sum max(belief P, (1 - belief) Q) over all sequences of classes: no attacker is right
more often, whatever they compute. Standard library only.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from ldp.accounting.bisection import least_number
from ldp.errors import require_share

Masses = Sequence[tuple[float, float]]
"""Probabilities of each class of reports under the first and the second answer."""
MOST_STEPS = 100_000
"""Number of products after which `linked_reports` takes the sum of losses as normal."""
MOST_REPORTS = 10**40
"""Number of reports above which none is looked for."""
TINY = 5e-324
_DIGITS = 9


class Linked(NamedTuple):
    """Least number of linked `reports`, and whether it is exact or about right (to 2 digits)."""

    reports: int
    is_exact: bool = True


def right_guesses(masses: Masses, belief: float = 0.5) -> Iterator[float]:
    """Yield the share of right guesses from 1, 2, .. fresh reports about one answer, until
    MOST_STEPS. `belief`: prior probability of the first answer; the second has the rest. The order
    of the answers that makes more guesses right counts.

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
    """Return the least number of linked reports for a guess right with probability `certainty`, or
    about that number (`is_exact`). Raises ParameterError for shares outside of (0, 1).

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
    least = least_number(lambda number: share_after(number) >= certainty, MOST_REPORTS)
    least = max(reports, least or MOST_REPORTS)
    step = 10 ** max(0, len(str(least)) - 2)
    return Linked(least // step * step, is_exact=False)


def _normal_share(masses: Masses, belief: float, reports: int) -> float:
    """Return the share of right guesses if sums of losses were normal."""

    def beyond(pairs: Masses, prior: float) -> float:
        mean = square = 0.0
        for p, q in pairs:
            more = (p - q) / q
            loss = math.log1p(more)
            # p loss, less p - q, which adds to 0: a tiny epsilon has a mean of its square
            mean += q * ((1 + more) * loss - more)
            square += p * loss**2
        shift = reports * mean + math.log(prior / (1 - prior))
        spread = math.sqrt(2 * reports * (square - mean**2))
        return math.erfc(-shift / (spread or TINY)) / 2

    swapped = [(q, p) for p, q in masses]
    return max(
        share * beyond(masses, share) + (1 - share) * beyond(swapped, 1 - share)
        for share in (belief, 1 - belief)
    )
