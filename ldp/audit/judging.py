"""Counts that are checked, and which of them an honest encoder would hardly show."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ldp.arrays import Floats, Ints, binomial_above, binomial_up_to

LEAST_DEVIATION = 4.0
"""Standard deviations below which the exact p-value of a count is above 1e-7."""


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
    exact tail, at most 1."""
    lower = binomial_up_to(observed, trials, probability)
    upper = binomial_above(observed - 1, trials, probability)
    smaller: Floats = np.minimum(1.0, 2 * np.minimum(lower, upper))
    return smaller


Size = tuple[int, int]
"""Numbers of counts and of checks that share alpha."""


def size_of(checks: Sequence[Checks]) -> Size:
    """Return how many counts and how many checks there are."""
    return sum(observed.size for _, observed, _, _ in checks), len(checks)


def first_finding(stages: Iterable[Sequence[Checks]], alpha: float, size: Size) -> Finding | None:
    """Return a finding of the first stage that has one at `alpha`, which is shared by as many
    counts and checks as an honest audit has in all its stages, its `size`."""
    audits = (judge(checks, alpha, size) for checks in stages)
    return next((finding for audit in audits for finding in audit.findings), None)


def judge(checks: Sequence[Checks], alpha: float, size: Size | None = None) -> Audit:
    """Return the findings among `checks`, at `alpha` for all of them together, or for an audit of
    this `size`: half of it is shared by all counts alike, half by all checks alike, so that a sum
    over everything is not judged as one of a million remainders."""
    total, number = size or size_of(checks)
    findings = []
    for what, observed, trials, probability in checks:
        if not observed.size:
            continue
        level = alpha / 2 * (1 / total + 1 / (number * observed.size))
        expected, far = trials * probability, np.arange(observed.size)
        if level <= 1e-7:  # of counts that lie nearer the p-value is not computed
            variance = expected * (1 - probability)
            far = np.flatnonzero((observed - expected) ** 2 > LEAST_DEVIATION**2 * variance)
        p_values = binomial_p(observed[far], trials[far], probability[far])
        for i, p_value in zip(far, p_values, strict=True):
            if p_value < level:
                name = what if observed.size == 1 else f"{what} {i}"
                seen = int(observed[i]), float(expected[i]), float(p_value)
                findings.append(Finding(name, *seen))
    return Audit(total, tuple(findings))
