"""What an epsilon means, in odds and plain words."""

import math

PRIORS = (0.01, 0.1, 0.5, 0.9)


def posterior(prior: float, epsilon: float) -> float:
    """The most that a release of cost `epsilon` can raise a belief of `prior`.

    prior / (prior + (1 - prior) e**-epsilon): it cannot overflow, and an infinite epsilon is fine.

    >>> round(posterior(0.5, 2.0), 2)
    0.88
    """
    if prior == 0:
        return 0.0
    return prior / (prior + (1 - prior) * math.exp(-epsilon))


def in_words(epsilon: float) -> str:
    """One paragraph for somebody who is asked to take part."""
    right = 100 * posterior(0.5, epsilon)
    odds = math.exp(epsilon) if epsilon < 700 else math.inf
    return (
        f"Somebody who saw one report, and held two answers equally likely before, would guess "
        f"right at most {right:.3g} times in 100 (50 without the report): one report multiplies "
        f"the odds of anything about its value by at most {odds:.3g} (epsilon {epsilon:.4g}). "
        "Several reports multiply. It does not cover that a report was sent at all."
    )
