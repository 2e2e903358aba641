"""Upper bounds on the law of a sum of many independent variables on a lattice, in floating point.

The law is tilted exponentially so that its bulk lies where the question is, computed by one
inverse Fourier transform, and every error is accounted upwards: of the transform, of the products,
of the mass beyond the window. Nothing here knows what the sum is of. Sources: Koskela, Jalko and
Honkela 2020 (losses on a lattice, by FFT); Gopi, Lee and Wutschitz 2021 (tails); Higham 2002,
theorem 24.2 (the error of a transform).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ldp.arrays import Floats, Ints

ROUNDING = 2.0**-53
FAINT = 1e-12
"""A characteristic function below this is taken for this, upwards."""
NOTHING = -300.0
"""A frequency whose share has fallen to e**NOTHING is left out, and e**NOTHING is an error."""


@dataclass(frozen=True)
class Term:
    """`count` independent variables that are at `places` (whole steps) with probabilities
    `masses`, arrays of one length."""

    places: Ints
    masses: Floats
    count: int


@dataclass(frozen=True)
class Bound:
    """P(sum = low + i) <= e**(scale - tilt (low + i)) masses[i], and P(sum beyond) <= e**beyond.

    `beyond` is of the sums above the window, and place e**beyond bounds their mean there, E[sum;
    sum beyond]. Those below the window have been counted in.
    """

    low: int
    masses: Floats
    tilt: float
    scale: float
    beyond: float

    @property
    def places(self) -> Ints:
        return self.low + np.arange(len(self.masses))

    def logarithms(self) -> Floats:
        """The bound of each place in the window, as its natural logarithm."""
        with np.errstate(divide="ignore"):
            fallen: Floats = np.log(self.masses) - self.tilt * self.places
        return self.scale + fallen


def split(places: Floats, masses: Floats, step: float | None = None) -> Term:
    """One variable, each of its places (in steps) divided between its two neighbours.

    The mean of the place is kept, or with a `step` that of e**(-step place): then two values of
    which a loss tells keep both of their probabilities. So a convex function's mean, or what a
    pair of laws with these losses tells, only grows.
    """
    below = np.floor(places)
    above = places - below
    if step is not None:
        above = np.expm1(-step * above) / math.expm1(-step)
    divided = np.concatenate([masses * (1 - above), masses * above])
    present = divided > 0
    return Term(np.concatenate([below, below + 1]).astype(np.int64)[present], divided[present], 1)


def cumulant(terms: Sequence[Term], tilt: float) -> tuple[float, float, float]:
    """ln E e**(tilt sum), and mean and variance of the tilted sum; `tilt` per step."""
    total = mean = variance = 0.0
    for term in terms:
        logarithm, weights = _tilted(term, tilt)
        centre = float(weights @ term.places)
        total += term.count * logarithm
        mean += term.count * centre
        variance += term.count * float(weights @ (term.places - centre) ** 2)
    return total, mean, variance


def bound(terms: Sequence[Term], tilt: float, low: int, size: int) -> Bound:
    """The law of the sum of all terms on the window low .. low + size - 1 (`size` a power of 2).

    Time: at most size/2 evaluations a term, of which most are left out where the terms are many.
    """
    alive = np.arange(size // 2 + 1)
    roots = np.exp(2j * np.pi * np.arange(size) / size)
    logarithm = np.zeros(len(alive))
    phase = np.zeros(len(alive))
    doubt = np.zeros(len(alive))
    scale = slack = 0.0
    # the widest terms first: they leave the fewest frequencies to the others
    for term in sorted(terms, key=lambda one: -one.count * int(np.abs(one.places).max()) ** 2):
        share, weights = _tilted(term, tilt)
        steepest = abs(tilt) * float(np.abs(term.places).max())
        scale += term.count * share
        slack += term.count * 8 * ROUNDING * (1 + abs(share) + steepest)
        here = np.zeros(len(alive), dtype=np.complex128)
        for place, weight in zip(term.places % size, weights, strict=True):
            here += weight * roots[alive * place % size]
        error = 8 * ROUNDING * (len(weights) + 4 + steepest + abs(share))
        size_here = np.maximum(np.abs(here), FAINT)
        angle = np.angle(here)
        logarithm += term.count * np.log(size_here)
        phase += term.count * angle
        doubt += term.count * (error / size_here + 8 * ROUNDING * (2 + np.abs(angle)))
        doubt += 2 * ROUNDING * (np.abs(logarithm) + np.abs(phase))
        present = logarithm + doubt > NOTHING
        if not present.all():
            alive, logarithm = alive[present], logarithm[present]
            phase, doubt = phase[present], doubt[present]
    shares = np.zeros(size // 2 + 1, dtype=np.complex128)
    shares[alive] = np.exp(logarithm + 1j * phase)
    amount = np.exp(logarithm)
    beside = np.exp(np.minimum(logarithm + doubt, 1))  # no two characteristic functions differ by e
    errors = np.where(doubt < 1, amount * np.expm1(np.minimum(doubt, 1)), beside)
    error = 2 * float(errors.sum()) / size + math.exp(NOTHING)
    norm = math.sqrt(2 * float((amount**2).sum()) / size)
    error += 16 * ROUNDING * math.log2(size) * norm
    masses = np.maximum(np.roll(np.fft.irfft(shares.conj(), size), -low % size), 0) + error
    top = sum(term.count * int(term.places.max()) for term in terms)
    beyond = -math.inf if top < low + size else _beyond(terms, tilt, low + size)
    return Bound(low, masses, tilt, scale + slack, beyond)


def _tilted(term: Term, tilt: float) -> tuple[float, Floats]:
    """ln E e**(tilt place), and the tilted probabilities."""
    exponents = tilt * term.places
    most = float(exponents.max())
    if -1 < most < 1:
        share = math.log1p(float(term.masses @ np.expm1(exponents)))
    else:
        share = most + math.log(float(term.masses @ np.exp(exponents - most)))
    return share, term.masses * np.exp(exponents - share)


def _beyond(terms: Sequence[Term], tilt: float, place: int) -> float:
    """ln of an upper bound on P(sum >= place): Chernoff's, at the best of a few tilts.

    No tilt is below 1 / place, so that place times it bounds E[sum; sum >= place] too.
    """
    spread = max(1.0, math.sqrt(cumulant(terms, tilt)[2]))
    least = max(tilt, 1 / max(place, 1))
    tilts = [least + extra / spread for extra in (0, 5, 10)]
    return min(cumulant(terms, each)[0] - each * place for each in tilts)
