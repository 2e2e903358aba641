"""Judgement of counts: which of them an honest encoder would hardly show."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from ldp.arrays import AnyInts, Floats, binomial_above, binomial_up_to
from ldp.audit.draws import Draws

LEAST_DEVIATION, LEAST_P = 3.7, 1e-6
"""Standard deviations below which the exact p-value of a count is above this one."""
SUSPECTED, MOST_SUSPECTS, MOST_AGAIN = 0.3, 20, 3
"""Suspects among the counts of an honest audit, in the mean; how many are counted again, and how
many times."""
EXPONENT = 0.1
"""Exponent of the evidence of a p-value p against honesty: EXPONENT p**(EXPONENT - 1), whose mean
under an honest encoder is at most 1 (Vovk and Wang 2021)."""


Checks = tuple[str, AnyInts, AnyInts, Floats]
"""A name; observed counts; trials; claimed probabilities: arrays of one shape."""


def prefixed(prefix: str, checks: Iterable[Checks]) -> Iterator[Checks]:
    """Yield the checks with a `prefix` before their names."""
    for check in checks:
        yield (prefix + check[0], *check[1:])


@dataclass(frozen=True)
class Finding:
    """A count that an honest encoder would show with a probability below its share of alpha."""

    what: str
    observed: int
    expected: float
    p_value: float

    def __str__(self) -> str:
        return f"{self.what}: {self.observed}, expected {self.expected:.1f} (p {self.p_value:.1e})"


@dataclass(frozen=True)
class Audit:
    """Number of counts that were checked, and those that refute the claim."""

    checks: int
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        return not self.findings


def binomial_p(observed: AnyInts, trials: AnyInts, chance: Floats) -> Floats:
    """Return the two-sided p-values of binomial counts, arrays of one shape: twice the smaller
    exact tail, at most 1. That is the lower one below the median, which lies within 1 of the
    mean, the upper one above it."""
    smaller, expected = np.ones(observed.shape), trials * chance
    low, high = observed < expected + 1, observed > expected - 1
    smaller[low] = binomial_up_to(observed[low], trials[low], chance[low])
    upper = binomial_above(observed[high] - 1, trials[high], chance[high])
    smaller[high] = np.minimum(smaller[high], upper)
    return np.minimum(1.0, 2 * smaller)


Place = tuple[str, int, int, int]
"""Place of a count: the name and size of its check, the number of earlier such checks, the count's
number."""
Size = tuple[int, int]
"""Numbers of counts and of checks that share alpha."""


def size_of(checks: Sequence[Checks]) -> Size:
    """Return how many counts and how many checks there are."""
    return sum(observed.size for _, observed, _, _ in checks), len(checks)


Play = Callable[[Draws], Iterable[Sequence[Checks]]]
"""Function that plays an audit: it yields the stages, each when it is needed."""


def judge_again(play: Play, seed: int, alpha: float) -> Audit:
    """Return the audit of the counts of `play`, at `alpha` for all of them. Half of `alpha` is for
    the counts of a first playing. Suspects are counts that an honest encoder would hardly show
    alone, but may show among many. They share the other half, and are counted again in further
    playings, of new reports. So a lie of 6 standard errors among 100,000 counts is detected in 87
    of 100 audits, where one playing detects it in 20."""
    draws = Draws(seed)
    checks = [check for stage in play(draws) for check in stage]
    audit = judge(checks, alpha / 2)
    if audit.findings:
        return audit
    of_all = suspects([checks], size_of(checks))
    return Audit(audit.checks, tuple(counted_again(play, draws, of_all, alpha / 2)))


def suspects(stages: Iterable[Sequence[Checks]], size: Size) -> list[Place]:
    """Return the places of counts of which an honest audit of this `size` has SUSPECTED in the mean
    or fewer, shared as in `findings_of`: at most MOST_SUSPECTS, those farthest below their level.
    """
    far = [
        (p_value / level, (*place, at))
        for place, check in _placed(stages)
        for level in [min(_level(SUSPECTED, size, check), LEAST_P)]
        for at, p_value in _far(check, level)
    ]
    return [place for _, place in sorted(far)[:MOST_SUSPECTS]]


def counted_again(
    play: Play, draws: Draws, places: Sequence[Place], alpha: float
) -> Iterator[Finding]:
    """Yield a finding for each count at these places that lies far again, at `alpha` for all of
    them: its sum over the further playings, with the bound on its p-value. The evidence of the
    playings multiplies. By Ville's inequality an honest product ever exceeds 1 / level with a
    probability of `level` at most, so that playings can end when it does, and when no product is
    above 1."""
    evidence, seen = dict.fromkeys(places, 1.0), dict[Place, Checks]()
    for number in range(MOST_AGAIN):
        evidence = {at: product for at, product in evidence.items() if product >= 1}
        again, left = _placed(play(draws.repeat(number))), {*evidence}
        while left and (placed := next(again, None)):
            for place in [at for at in left if at[:-1] == placed[0]]:
                left.remove(place)
                check = _one_of(placed[1], place[-1])
                (p_value,) = binomial_p(*check[1:])
                evidence[place] *= EXPONENT * max(p_value, 1e-300) ** (EXPONENT - 1)
                seen[place] = summed(seen[place], check) if place in seen else check
                if evidence[place] > len(places) / alpha:
                    yield _finding(seen[place], 1 / evidence.pop(place), ", counted again")


def summed(check: Checks, other: Checks) -> Checks:
    """Return the sum of two checks with one name and probabilities: binomial counts of independent
    reports add to a binomial count."""
    what, *counts, chance = check
    observed, trials = map(partial(np.add, dtype=np.int64), counts, other[1:3])
    return what, observed, trials, chance


def _one_of(check: Checks, at: int) -> Checks:
    """Return the check of the count of this number in a check."""
    what, observed, trials, chance = check
    name, only = what if observed.size == 1 else f"{what} {at}", slice(at, at + 1)
    return name, observed[only], trials[only], chance[only]


def judge(checks: Sequence[Checks], alpha: float) -> Audit:
    """Return the audit of `checks`, at `alpha` for all of them together."""
    size = size_of(checks)
    return Audit(size[0], tuple(findings_of(checks, alpha, size)))


def findings_of(checks: Sequence[Checks], alpha: float, size: Size) -> Iterator[Finding]:
    """Yield the findings among `checks`, at `alpha` for an audit of this `size`. All counts share
    one half of `alpha` equally, all checks the other half, so that a sum over everything is not
    judged as one of a million remainders."""
    for check in checks:
        for at, p_value in _far(check, _level(alpha, size, check)):
            yield _finding(_one_of(check, at), p_value)


def _level(alpha: float, size: Size, check: Checks) -> float:
    """Return the share of `alpha` of each count of a check."""
    total, number = size
    return alpha / 2 * (1 / total + 1 / (number * max(1, check[1].size)))


def _far(check: Checks, level: float) -> Iterator[tuple[int, float]]:
    """Yield the number and the p-value of each count with a p-value below a level."""
    _, observed, trials, chance = check
    expected, far = trials * chance, np.arange(observed.size)
    # of counts that lie nearer the p-value is not computed
    if level <= LEAST_P:
        variance = expected * (1 - chance)
        far = np.flatnonzero((observed - expected) ** 2 > LEAST_DEVIATION**2 * variance)
    if not far.size:
        return
    p_values = binomial_p(observed[far], trials[far], chance[far])
    below = p_values < level
    yield from zip(far[below].tolist(), p_values[below].tolist(), strict=True)


def _finding(check: Checks, p_value: float, how: str = "") -> Finding:
    """Return the finding of the only count of a check. `how`: the end of its name."""
    what, (observed,), (trials,), (chance,) = check
    return Finding(what + how, int(observed), float(trials * chance), p_value)


def _placed(stages: Iterable[Sequence[Checks]]) -> Iterator[tuple[tuple[str, int, int], Checks]]:
    """Yield each check with its name, its size and the number of earlier such checks."""
    times = Counter[tuple[str, int]]()
    for check in chain.from_iterable(stages):
        kind = check[0], check[1].size
        yield (*kind, times[kind]), check
        times[kind] += 1
