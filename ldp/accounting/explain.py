"""What an epsilon means, in odds and plain words."""

import math
from decimal import ROUND_CEILING, Context, Decimal

PRIORS = (0.01, 0.1, 0.5, 0.9)
REPORTS_MULTIPLY = "Several reports multiply."


def posterior(prior: float, epsilon: float) -> float:
    """The most that a release of cost `epsilon` can raise a belief of `prior`.

    prior / (prior + (1 - prior) e**-epsilon): it cannot overflow, and an infinite epsilon is fine.

    >>> round(posterior(0.5, 2.0), 2)
    0.88
    """
    if prior == 0:
        return 0.0
    return prior / (prior + (1 - prior) * math.exp(-epsilon))


def upwards(number: float, digits: int = 4) -> str:
    """With so many digits, never rounded down."""
    if math.isinf(number):
        return "any number"
    context = Context(prec=digits, rounding=ROUND_CEILING)
    return f"{float(context.create_decimal(Decimal(number))):g}"


def odds(epsilon: float) -> float:
    """What a release of cost `epsilon` can multiply odds by at most: e**epsilon."""
    return math.exp(epsilon) if epsilon < 700 else math.inf


def guessing(epsilon: float, seen: str = "one report") -> str:
    """One sentence: how well somebody can guess who saw so much of a person."""
    right = 100 * posterior(0.5, epsilon)
    often = f"at most {right:.3g} times in 100" if right < 99.95 else "all but always, at worst"
    return (
        f"Somebody who saw {seen}, and held two answers equally likely before, would guess right "
        f"{often} (50 in 100 without): the odds are multiplied by at most {upwards(odds(epsilon))} "
        f"(epsilon {upwards(epsilon)})."
    )


def in_words(epsilon: float) -> str:
    """One paragraph for somebody who is asked to take part."""
    return (
        f"{guessing(epsilon)} {REPORTS_MULTIPLY} It does not cover that a report was sent at all."
    )
