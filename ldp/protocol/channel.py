"""The randomised channel of a mechanism: two exact probabilities, and all that follows from them.

A value touches some cells of a table; a touched cell is reported with probability `touched`, any
other with probability `untouched`. Epsilon, the unbiased estimator, its variance and the posterior
odds are formulas in these two numbers (Wang et al. 2017, "pure" protocols: p and q). Probabilities
are fractions, logarithms are taken in `decimal` at 60 digits and printed rounded up, so that the
epsilon shown is never below the one that runs.
"""

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

from ldp.errors import ParameterError
from ldp.protocol.randomness import PROBABILITY_ONE

EXACT = Context(prec=60)
MAX_EPSILON = 64.0


def round_up(exact: Fraction | Decimal) -> float:
    """The smallest double that is not below `exact`."""
    nearest = float(exact)
    too_low = Fraction(nearest) < exact if isinstance(exact, Fraction) else Decimal(nearest) < exact
    return math.nextafter(nearest, math.inf) if too_low else nearest


def round_down(exact: Fraction | Decimal) -> float:
    """The largest double that is not above `exact`, which is 0 or more."""
    return abs(round_up(-exact))


def require_epsilon(epsilon: float, name: str = "epsilon") -> float:
    """`epsilon` as a float in (0, 64], or a ParameterError that calls it by its `name`."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float):
        raise ParameterError(f"{name} must be a number")
    if not 0 < epsilon <= MAX_EPSILON:
        raise ParameterError(f"{name} must be > 0 and at most 64")
    return float(epsilon)


def keep_probability(epsilon: float | Fraction, others: int | Fraction) -> Fraction:
    """The largest k / 2**64 that is at most e**epsilon / (e**epsilon + others).

    This is the probability of telling the truth among 1 + `others` answers (a fraction, where there
    are several true ones: others / true); rounding it down rounds towards more privacy. The
    quotient is known to 60 digits and 10**-30 is taken off before the floor, so an error in the
    last digit can never round it up.
    """
    power = EXACT.exp(_decimal(Fraction(epsilon)))
    share = EXACT.divide(power, EXACT.add(power, _decimal(Fraction(others))))
    scaled = EXACT.subtract(EXACT.multiply(share, Decimal(PROBABILITY_ONE)), Decimal("1e-30"))
    return Fraction(math.floor(scaled), PROBABILITY_ONE)


def exact_log(ratio: Fraction) -> Decimal:
    """ln(ratio) to 60 digits."""
    return EXACT.ln(_decimal(ratio))


def _decimal(exact: Fraction) -> Decimal:
    return EXACT.divide(Decimal(exact.numerator), Decimal(exact.denominator))


@dataclass(frozen=True, kw_only=True)
class Channel:
    """P(cell reported | touched) and P(cell reported | untouched), as exact fractions.

    `differing` says on how many independently randomised cells the worst two values disagree:
    (touched only by the first, touched only by the second). A report that is one symbol (Index,
    Sign) has (1, 0).
    """

    touched: Fraction
    untouched: Fraction
    differing: tuple[int, int] = (1, 0)

    def __post_init__(self) -> None:
        if not 0 < self.untouched < 1 or not 0 < self.touched < 1:
            raise ParameterError("a report would give a value away: a probability is 0 or 1")
        if not self.untouched < self.touched:
            raise ParameterError(
                "the report would carry no information: epsilon is too small for probabilities "
                "in steps of 2**-64, or they do not differ"
            )

    def then(self, touched: Fraction, untouched: Fraction) -> "Channel":
        """The channel of reporting a cell of this one's report with probability `touched` where it
        is 1 and `untouched` where it is 0."""
        return Channel(
            touched=self.touched * touched + (1 - self.touched) * untouched,
            untouched=self.untouched * touched + (1 - self.untouched) * untouched,
            differing=self.differing,
        )

    @cached_property
    def leverage(self) -> float:
        """How many honest holders of a value one fake report that names it can stand for:
        (1 - untouched) / (touched - untouched) (Cao, Jia and Gong 2021)."""
        return float((1 - self.untouched) / (self.touched - self.untouched))

    @cached_property
    def worst_ratio(self) -> Fraction:
        """max over reports and pairs of values of P(report | a) / P(report | b), exactly."""
        return self.ratio(*self.differing)

    def ratio(self, first: int, second: int) -> Fraction:
        """The same for a pair whose values touch so many cells that the other one does not.

        Each cell that only a touches contributes touched/untouched when it is reported, each cell
        that only b touches (1 - untouched)/(1 - touched) when it is not; the larger of the two
        orders of the pair counts.
        """
        shown = self.touched / self.untouched
        hidden = (1 - self.untouched) / (1 - self.touched)
        return max(shown**first * hidden**second, shown**second * hidden**first)

    @cached_property
    def exact_epsilon(self) -> Decimal:
        """ln(worst_ratio) to 60 digits."""
        return exact_log(self.worst_ratio)

    @cached_property
    def epsilon(self) -> float:
        """The privacy loss of one report, rounded up to a double."""
        return round_up(self.exact_epsilon)

    @cached_property
    def gain(self) -> float:
        """touched - untouched: what one holder adds to a cell on average."""
        return float(self.touched - self.untouched)

    def holders(self, reported: Any, reports: Any) -> Any:
        """Unbiased number of reports whose value touched the cell: (reported - reports q)/(p - q).

        Numbers or arrays, answered in kind.
        """
        return (reported - reports * float(self.untouched)) / self.gain

    def variance(self, frequency: Any) -> Any:
        """Variance of `holders` per report, at a fixed population in which `frequency` hold it.

        [f p (1 - p) + (1 - f) q (1 - q)] / (p - q)**2. A number or an array, answered in kind.
        """
        held = float(self.touched * (1 - self.touched)) / self.gain**2
        other = float(self.untouched * (1 - self.untouched)) / self.gain**2
        return frequency * held + (1 - frequency) * other

    def posterior(self, prior: float) -> float:
        """The most that a report can raise a belief of `prior`: prior r / (1 - prior + prior r)."""
        raised = prior * float(self.worst_ratio)
        return raised / (1 - prior + raised)
