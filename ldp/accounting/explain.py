"""Explanations of epsilon in odds and in words."""

import math
from decimal import ROUND_CEILING, Context, Decimal

PRIORS = (0.01, 0.1, 0.5, 0.9)
REPORTS_MULTIPLY = "Several reports multiply."


def posterior(prior: float, epsilon: float) -> float:
    """Return the largest posterior probability, after a release of cost `epsilon`, of a value with
    probability `prior`: prior / (prior + (1 - prior) e**-epsilon). Epsilon may be infinite.

    >>> round(posterior(0.5, 2.0), 2)
    0.88
    """
    if prior == 0:
        return 0.0
    return prior / (prior + (1 - prior) * math.exp(-epsilon))


def upwards(number: float, digits: int = 4) -> str:
    """Return `number` as text with this many `digits`, rounded up."""
    if math.isinf(number):
        return "any number"
    context = Context(prec=digits, rounding=ROUND_CEILING)
    return f"{float(context.create_decimal(Decimal(number))):g}"


def odds(epsilon: float) -> float:
    """Return the largest factor of odds by a release of cost `epsilon`: e**epsilon."""
    return math.exp(epsilon) if epsilon < 700 else math.inf


def guess_sentence(epsilon: float, evidence: str = "one report") -> str:
    """Return one sentence: how often somebody who saw `evidence` can guess right."""
    right = 100 * posterior(0.5, epsilon)
    who = f"Somebody who saw {evidence}, and held two answers equally likely before,"
    if right >= 99.9:
        return (
            f"{who} could guess right nearly always (50 in 100 without): epsilon "
            f"{upwards(epsilon)} is no protection on its own."
        )
    return (
        f"{who} would guess right at most {upwards(right, 3)} times in 100 (50 in 100 without): "
        f"the odds are multiplied by at most {upwards(odds(epsilon))} (epsilon {upwards(epsilon)})."
    )


def caps_sentence(length: str, window_epsilon: float, lifetime_epsilon: float) -> str:
    """Return the caps in words; `length` is that of a window, such as "1 day"."""
    window, span = f"window of {length} (fixed, UTC)", length
    if length == "1 day":
        window, span = "UTC day", "24 hours"
    return (
        f"at most epsilon {upwards(window_epsilon)} in every {window}, so at most "
        f"{upwards(min(2 * window_epsilon, lifetime_epsilon))} in any {span}, and "
        f"{upwards(lifetime_epsilon)} for life"
    )


def in_words(epsilon: float) -> str:
    """Return the meaning of `epsilon` as one paragraph for a person who is asked to take part."""
    guess = guess_sentence(epsilon)
    return f"{guess} {REPORTS_MULTIPLY} It does not cover that a report was sent at all."
