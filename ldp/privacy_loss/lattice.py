"""Upper bounds on the distribution of a sum of independent variables on a lattice, in floats.

The distribution is tilted exponentially so that its bulk lies in the window, and computed by one
inverse Fourier transform. Every error is added: of the transform, of the products, and of the mass
beyond the window. The module is independent of what is summed. Sources: Koskela, Jalko and
Honkela 2020 (losses on a lattice, by FFT); Gopi, Lee and Wutschitz 2021 (tails); Higham 2002,
theorem 24.2 (the error of a transform).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from ldp.arrays import Floats, Ints

ROUNDING = 2.0**-53
FAINT = 1e-12
"""Least absolute value of a characteristic function: smaller ones are rounded up to it."""
NOTHING = -300.0
"""Logarithm of the share below which a frequency is left out. The number e**NOTHING is added as an
error."""


@dataclass(frozen=True)
class Term:
    """Distribution of each of `count` independent variables: `places` (on a lattice whole steps)
    with probabilities `masses`, arrays of one length."""

    places: Ints | Floats
    masses: Floats
    count: int


class Terms(NamedTuple):
    """Terms, a row each, `places` and `masses` padded with 0: shape (terms, longest)."""

    places: Floats
    masses: Floats
    counts: Floats

    @classmethod
    def of(cls, terms: Iterable[Term]) -> "Terms":
        """Return the padded arrays of terms."""
        places, masses, counts = zip(*((t.places, t.masses, t.count) for t in terms), strict=True)
        padded = (zip(*zip_longest(*rows, fillvalue=0), strict=True) for rows in (places, masses))
        return cls(*(np.array([*rows], dtype=np.float64) for rows in (*padded, counts)))

    def cumulant(self, tilt: float) -> tuple[float, float, float]:
        """Return ln E e**(tilt sum), and mean and variance of the tilted sum."""
        exponents = np.where(self.masses > 0, tilt * self.places, -np.inf)
        most = exponents.max(axis=1, keepdims=True)
        weights = self.masses * np.exp(exponents - most)
        shares = weights.sum(axis=1, keepdims=True)
        weights /= shares
        means = (weights * self.places).sum(axis=1)
        variances = (weights * (self.places - means[:, None]) ** 2).sum(axis=1)
        logarithms = (most + np.log(shares))[:, 0]
        return tuple(float(self.counts @ terms) for terms in (logarithms, means, variances))  # type: ignore[return-value]


@dataclass(frozen=True)
class Bound:
    """Upper bound of a distribution on a window:
    P(sum = low + i) <= e**(scale - tilt (low + i)) masses[i] and P(sum beyond) <= e**beyond.

    `beyond` covers the sums above the window, from `place` on, and place e**beyond bounds their
    mean there, E[sum; sum >= place]. `masses` includes the sums below the window.
    """

    low: int
    masses: Floats
    tilt: float
    scale: float
    beyond: float

    @property
    def places(self) -> Ints:
        """Places of the window, in steps."""
        return self.low + np.arange(len(self.masses))

    def logarithms(self) -> Floats:
        """Return the natural logarithm of the bound at each place of the window."""
        with np.errstate(divide="ignore"):
            untilted: Floats = np.log(self.masses) - self.tilt * self.places
        return self.scale + untilted


def split(places: Floats, masses: Floats, step: float | None = None) -> Term:
    """Return one variable with the mass of each of `places` (in steps, not whole) split between its
    two neighbours.

    The mean of the place is preserved, or with a `step` that of e**(-step place): then a loss keeps
    the probabilities under both values. So the mean of a convex function, or the distinguishability
    of a pair of distributions with these losses, can only grow.
    """
    below = np.floor(places)
    share = places - below
    if step is not None:
        share = np.expm1(-step * share) / math.expm1(-step)
    parts = np.concatenate([masses * (1 - share), masses * share])
    is_positive = parts > 0
    neighbours = np.concatenate([below, below + 1]).astype(np.int64)
    return Term(neighbours[is_positive], parts[is_positive], 1)


def bound(terms: Sequence[Term], tilt: float, low: int, size: int) -> Bound:
    """Return the distribution of the sum of all terms on the window low .. low + size - 1 (`size` a
    power of 2).

    Time: at most size/2 evaluations a term. With many terms most frequencies are left out.
    """
    frequencies = np.arange(size // 2 + 1)
    roots = _roots(size)
    logarithm = np.zeros(len(frequencies))
    phase = np.zeros(len(frequencies))
    doubt = np.zeros(len(frequencies))
    scale = slack = 0.0
    # the widest terms first, because they leave the fewest frequencies
    for term in sorted(terms, key=lambda term: -term.count * int(np.abs(term.places).max()) ** 2):
        share, weights = _tilted(term, tilt)
        steepest = abs(tilt) * float(np.abs(term.places).max())
        scale += term.count * share
        slack += term.count * 8 * ROUNDING * (1 + abs(share) + steepest)
        characteristic = np.zeros(len(frequencies), dtype=np.complex128)
        for place, weight in zip(term.places % size, weights, strict=True):
            characteristic += weight * roots[(frequencies * place) & (size - 1)]
        error = 8 * ROUNDING * (len(weights) + 4 + steepest + abs(share))
        modulus = np.maximum(np.abs(characteristic), FAINT)
        angle = np.angle(characteristic)
        logarithm += term.count * np.log(modulus)
        phase += term.count * angle
        doubt += term.count * (error / modulus + 8 * ROUNDING * (2 + np.abs(angle)))
        doubt += 2 * ROUNDING * (np.abs(logarithm) + np.abs(phase))
        is_large = logarithm + doubt > NOTHING
        if not is_large.all():
            frequencies, logarithm = frequencies[is_large], logarithm[is_large]
            phase, doubt = phase[is_large], doubt[is_large]
    shares = np.zeros(size // 2 + 1, dtype=np.complex128)
    shares[frequencies] = np.exp(logarithm + 1j * phase)
    amount = np.exp(logarithm)
    # two of them differ by less than e
    bound_of_all = np.exp(np.minimum(logarithm + doubt, 1))
    errors = np.where(doubt < 1, amount * np.expm1(np.minimum(doubt, 1)), bound_of_all)
    error = 2 * float(errors.sum()) / size + math.exp(NOTHING)
    norm = math.sqrt(2 * float((amount**2).sum()) / size)
    error += 16 * ROUNDING * math.log2(size) * norm
    masses = np.maximum(np.roll(np.fft.irfft(shares.conj(), size), -low % size), 0) + error
    top = sum(term.count * int(term.places.max()) for term in terms)
    beyond = -math.inf if top < low + size else _beyond(terms, tilt, low + size)
    return Bound(low, masses, tilt, scale + slack, beyond)


@lru_cache(maxsize=1)
def _roots(size: int) -> Any:
    """Return the complex roots of 1, shape (size,)."""
    return np.exp(2j * np.pi * np.arange(size) / size)


def _tilted(term: Term, tilt: float) -> tuple[float, Floats]:
    """Return ln E e**(tilt place), and the tilted probabilities."""
    exponents = tilt * term.places
    most = float(exponents.max())
    if -1 < most < 1:
        share = math.log1p(float(term.masses @ np.expm1(exponents)))
    else:
        share = most + math.log(float(term.masses @ np.exp(exponents - most)))
    return share, term.masses * np.exp(exponents - share)


def _beyond(terms: Sequence[Term], tilt: float, place: int) -> float:
    """Return the logarithm of an upper bound on P(sum >= place): Chernoff's, at the best of a few
    tilts.

    No tilt is below 1 / place, so that place times the bound also bounds E[sum; sum >= place].
    """
    cumulant = Terms.of(terms).cumulant
    spread = max(1.0, math.sqrt(cumulant(tilt)[2]))
    least = max(tilt, 1 / max(place, 1))
    tilts = [least + extra / spread for extra in (0, 5, 10)]
    return min(cumulant(steeper)[0] - steeper * place for steeper in tilts)
