"""Explanations of epsilon in odds and in words."""

import math
from decimal import Decimal

from ldp.protocol.channel import rounded_up as rounded_up  # of epsilons, for pages

PRIORS = (0.01, 0.1, 0.5, 0.9)
REPORTS_MULTIPLY = "Each further report about the same answer can multiply the odds as much again."
UNLESS = ", as long as nobody learns when a value changes"
"""Condition of every cap on metrics memoised per value."""
MOST_ODDS = 1000.0
"""Largest factor of odds that is stated: from it on a report is no protection on its own."""


def posterior(prior: float, epsilon: float) -> float:
    """Return the largest posterior probability, after a release of cost `epsilon`, of a value with
    probability `prior`: prior / (prior + (1 - prior) e**-epsilon). Epsilon may be infinite.

    >>> round(posterior(0.5, 2.0), 2)
    0.88
    """
    if prior == 0:
        return 0.0
    return prior / (prior + (1 - prior) * math.exp(-epsilon))


def epsilon_text(epsilon: float, digits: int = 4) -> str:
    """Return an epsilon as text, rounded up to `digits` significant digits. It is "unlimited"
    without a bound."""
    return "unlimited" if math.isinf(epsilon) else rounded_up(epsilon, digits)


def odds_text(epsilon: float) -> str:
    """Return what a release of cost `epsilon` does to odds, in words where it is no protection."""
    if odds(epsilon) >= MOST_ODDS:
        return f"let somebody guess right nearly always (epsilon {rounded_up(epsilon)})"
    return f"multiply odds by {rounded_up(odds(epsilon))} (epsilon {rounded_up(epsilon)})"


def odds(epsilon: float) -> float:
    """Return the largest factor by which a release of cost `epsilon` changes odds: e**epsilon."""
    return math.exp(epsilon) if epsilon < 700 else math.inf


def in_hundred(share: float) -> str:
    """Return a share that somebody stated as a number in 100, exactly.

    >>> in_hundred(0.5), in_hundred(0.9999999)
    ('50', '99.99999')
    """
    return f"{(100 * Decimal(repr(share))).normalize():f}"


def guess_sentence(
    epsilon: float,
    evidence: str = "one report",
    answers: tuple[str, str] | None = None,
    belief: float = 0.5,
) -> str:
    """Return one sentence: how often somebody who saw `evidence` can guess right between two
    `answers` (any two if left out), when they believed the first with probability `belief`."""
    right = 100 * posterior(belief, epsilon)
    if belief == 0.5:
        held = "{} and {}".format(*answers) if answers else "two answers"
        who = f"Somebody who saw {evidence}, and thought {held} equally likely before,"
        would, without = "guess right", " (50 in 100 without)"
    else:
        first, second = answers or ("one answer", "another")
        before = in_hundred(belief)
        who = f"Somebody who gave {first} rather than {second} {before} in 100, and saw {evidence},"
        would, without = "give it", ""
    if odds(epsilon) >= MOST_ODDS:
        return (
            f"{who} could {would} nearly always{without}: epsilon {rounded_up(epsilon)} is no "
            "protection on its own; what protects then is only that nobody knows which reports are "
            "yours."
        )
    return (
        f"{who} would {would} at most {rounded_up(right, 3 + (right > 99))} times in 100{without}: "
        f"the odds are multiplied by at most {rounded_up(odds(epsilon))} "
        f"(epsilon {rounded_up(epsilon)})."
    )


def caps_sentence(
    length: str, window_epsilon: float, lifetime_epsilon: float, memoise: str | bool = ""
) -> str:
    """Return the caps in words. `length` is that of a window, such as "1 day". Caps on a metric
    memoised per value are stated with their condition."""
    window, span = f"window of {length} (fixed, UTC)", length
    if length == "1 day":
        window, span = "UTC day", "24 hours"
    return (
        f"at most epsilon {rounded_up(window_epsilon)} in every {window}, so at most "
        f"{rounded_up(min(2 * window_epsilon, lifetime_epsilon))} in any {span}, and "
        f"{rounded_up(lifetime_epsilon)} for life{UNLESS if memoise == 'per-value' else ''}"
    )


def in_words(epsilon: float) -> str:
    """Return the meaning of `epsilon` as one paragraph for a person who is asked to take part."""
    guess = guess_sentence(epsilon)
    return f"{guess} {REPORTS_MULTIPLY} It does not cover that a report was sent at all."
