"""Judgement of counts: which of them an honest encoder would hardly show."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ldp.arrays import Floats, Ints, binomial_above, binomial_up_to
from ldp.audit.draws import Draws

LEAST_DEVIATION, LEAST_P = 4.0, 1e-7
"""Standard deviations below which the exact p-value of a count is above this one."""
SUSPECTED, MOST_SUSPECTS = 0.1, 20
"""Suspects among the counts of an honest audit, in the mean; how many are counted again."""


Checks = tuple[str, Ints, Ints, Floats]
"""A name; observed counts; trials; claimed probabilities: arrays of one shape."""


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


def binomial_p(observed: Ints, trials: Ints, probability: Floats) -> Floats:
    """Return the two-sided p-values of binomial counts, arrays of one shape: twice the smaller
    exact tail, at most 1. That is the lower one below the median, which lies within 1 of the
    mean, the upper one above it."""
    smaller, expected = np.ones(observed.shape), trials * probability
    low, high = observed < expected + 1, observed > expected - 1
    smaller[low] = binomial_up_to(observed[low], trials[low], probability[low])
    upper = binomial_above(observed[high] - 1, trials[high], probability[high])
    smaller[high] = np.minimum(smaller[high], upper)
    return np.minimum(1.0, 2 * smaller)


Place = tuple[str, int, int]
"""Place of a count: the name of its check, the number of earlier checks of that name, the count's
number."""
Size = tuple[int, int]
"""Numbers of counts and of checks that share alpha."""


def size_of(checks: Sequence[Checks]) -> Size:
    """Return how many counts and how many checks there are."""
    return sum(observed.size for _, observed, _, _ in checks), len(checks)


Play = Callable[[Draws], Iterable[Sequence[Checks]]]
"""Function that plays an audit: it yields the stages, each when it is needed."""


def judge_twice(play: Play, seed: int, alpha: float) -> Audit:
    """Return the audit of the counts of `play`, at `alpha` for all of them. Half of `alpha` is for
    the counts of a first playing. Suspects are counts that an honest encoder would hardly show
    alone, but may show among many. They are counted again in a second playing, of new reports, and
    share the other half. So a lie of 7.4 standard errors among 100,000 counts is detected in 97 of
    100 audits, where one playing detects it in 72."""
    draws = Draws(seed)
    checks = [check for stage in play(draws) for check in stage]
    audit = judge(checks, alpha / 2)
    if audit.findings:
        return audit
    of_all = suspects([checks], audit.checks)
    return Audit(audit.checks, counted_again(play, draws, of_all, alpha / 2))


def first_finding(play: Play, seed: int, alpha: float, size: Size) -> Finding | None:
    """Return the finding of `judge_twice` in the first stage that has one. `size`: the numbers of
    counts and checks in all stages of an honest audit, which share `alpha`."""
    draws, stages = Draws(seed), list[Sequence[Checks]]()
    for checks in play(draws):
        if findings := judge(checks, alpha / 2, size).findings:
            return findings[0]
        stages.append(checks)
    return next(iter(counted_again(play, draws, suspects(stages, size[0]), alpha / 2)), None)


def suspects(stages: Iterable[Sequence[Checks]], total: int) -> list[Place]:
    """Return the places of counts of which an honest audit of `total` has SUSPECTED in the mean or
    fewer, at most MOST_SUSPECTS of them."""
    far = [
        (p_value, (what, number, at))
        for (what, number), check in _placed(stages)
        for at, p_value in _far(check, min(SUSPECTED / total, LEAST_P))
    ]
    return [place for _, place in sorted(far)[:MOST_SUSPECTS]]


def counted_again(
    play: Play, draws: Draws, places: Sequence[Place], alpha: float
) -> tuple[Finding, ...]:
    """Return which counts at these places lie far again, in a second playing, at `alpha` for all of
    them. Nothing is played without a place."""
    of_check = defaultdict[tuple[str, int], list[int]](list)
    for what, number, at in places:
        of_check[what, number].append(at)
    again = _placed(play(draws.repeat())) if places else ()
    return tuple(
        _finding(f"{what}, counted again", check, at, p_value)
        for (what, number), check in again
        if (what, number) in of_check
        for at, p_value in _far(check, alpha / len(places))
        if at in of_check[what, number]
    )


def judge(checks: Sequence[Checks], alpha: float, size: Size | None = None) -> Audit:
    """Return the findings among `checks`, at `alpha` for all of them together, or for an audit of
    this `size`. All counts share one half of `alpha` equally, all checks the other half, so that a
    sum over everything is not judged as one of a million remainders."""
    total, number = size or size_of(checks)
    findings = [
        _finding(check[0], check, at, p_value)
        for check in checks
        if check[1].size
        for at, p_value in _far(check, alpha / 2 * (1 / total + 1 / (number * check[1].size)))
    ]
    return Audit(total, tuple(findings))


def _far(check: Checks, level: float) -> Iterator[tuple[int, float]]:
    """Yield the number and the p-value of each count with a p-value below a level."""
    _, observed, trials, probability = check
    expected, far = trials * probability, np.arange(observed.size)
    if level <= LEAST_P:  # of counts that lie nearer the p-value is not computed
        variance = expected * (1 - probability)
        far = np.flatnonzero((observed - expected) ** 2 > LEAST_DEVIATION**2 * variance)
    if not far.size:
        return
    p_values = binomial_p(observed[far], trials[far], probability[far])
    below = p_values < level
    yield from zip(far[below].tolist(), p_values[below].tolist(), strict=True)


def _finding(what: str, check: Checks, at: int, p_value: float) -> Finding:
    _, observed, trials, probability = check
    name = what if observed.size == 1 else f"{what} {at}"
    return Finding(name, int(observed[at]), float(trials[at] * probability[at]), p_value)


def _placed(stages: Iterable[Sequence[Checks]]) -> Iterator[tuple[tuple[str, int], Checks]]:
    """Yield each check with its name and the number of earlier checks of that name."""
    times = Counter[str]()
    for check in chain.from_iterable(stages):
        yield (check[0], times[check[0]]), check
        times[check[0]] += 1
