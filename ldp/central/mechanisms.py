"""The basic mechanisms of a trusted curator: each a frozen value with its cost.

`sensitivity` is the most by which the answer can differ between neighbouring data sets, in the
mechanism's norm. Stating it, for the neighbours that are named, is the caller's part. Source: Dwork
and Roth 2014, section 3 and appendix A; Balle and Wang 2018 (analytic Gaussian); Ghosh, Roughgarden
and Sundararajan 2012 (discrete Laplace); McSherry and Talwar 2007 (exponential).
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ldp.accounting import Cost, Neighbours
from ldp.arrays import Floats, unmasked
from ldp.arrays import Ints as Integers
from ldp.central.gaussian import gaussian_mu, require_budget
from ldp.central.noise import Noise, Releases
from ldp.errors import ParameterError, require_kind, require_one_of, require_positive, require_share
from ldp.protocol.channel import convert, real_number, real_number_up, round_up

MOST_COUNT = 2**62
"""Count to which larger ones are clipped: an int64 with space for noise."""
ROUNDING = 1e-12
"""Share of a probability that is left for the rounding of doubles."""
CLASSICAL_LIMIT = 1.0
"""Epsilon below which alone the classical calibration is proved. It is wrong far above."""


@dataclass(frozen=True, kw_only=True)
class _Mechanism:
    sensitivity: float = 1.0
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    def __post_init__(self) -> None:
        require_kind(self.neighbours, Neighbours, "neighbours")
        convert(self, sensitivity=real_number_up)
        require_positive(self.sensitivity, "sensitivity")


@dataclass(frozen=True, kw_only=True)
class _Pure(_Mechanism):
    """Pure epsilon. `scale` is rounded up, so that epsilon is never above the one asked for."""

    epsilon: float

    def __post_init__(self) -> None:
        super().__post_init__()
        convert(self, epsilon=real_number)
        require_positive(self.epsilon, "epsilon")

    @property
    def scale(self) -> float:
        """Scale of the noise, in the units of the answers."""
        return round_up(Fraction(self.sensitivity) / Fraction(self.epsilon))

    @property
    def cost(self) -> Cost:
        """Cost of one release."""
        return Cost(epsilon=self.epsilon, neighbours=self.neighbours)


@dataclass(frozen=True, kw_only=True)
class Laplace(_Pure):
    """Laplace mechanism: noise of density e**(-|x| / scale) / (2 scale), scale = sensitivity /
    epsilon.

    `sensitivity`: of the answers together, in the L1 norm.

    >>> Laplace(epsilon=0.5).std_error
    2.8284271247461903
    """

    @property
    def std_error(self) -> float:
        """Standard deviation of the noise."""
        return math.sqrt(2) * self.scale

    def release(self, values: Floats, noise: Noise | None = None) -> Floats:
        """Return `values` with noise; `noise` defaults to `Releases`. Raises ParameterError for
        values that are not finite."""
        return (noise or Releases()).laplace(_finite(values), self.scale)


@dataclass(frozen=True, kw_only=True)
class DiscreteLaplace(_Pure):
    """Discrete Laplace mechanism: integers plus k with probability tanh(1 / (2 scale)) e**(-|k| /
    scale).

    `sensitivity`: of the counts together, in the L1 norm. Counts are clipped to MOST_COUNT on
    either side, which brings neighbours no further apart.
    """

    @property
    def std_error(self) -> float:
        """Standard deviation of the noise."""
        half = min(1 / (2 * self.scale), 300)  # powers of more overflow
        return 1 / (math.sqrt(2) * math.sinh(half))

    @property
    def excess_kurtosis(self) -> float:
        """Fourth moment of the noise over the square of its variance, less 3."""
        return 3 + self.std_error**-2

    def upper_tail(self, share: float) -> int:
        """Return the least k >= 1 for which noise of k or more has probability `share` or less:
        e**(-k / scale) / (1 + e**(-1 / scale))."""
        most = share * (1 + math.exp(-1 / self.scale)) * (1 - ROUNDING)
        return max(1, math.ceil(-math.log(most) * self.scale))

    def reach(self, level: float) -> int:
        """Return the least number within which the noise lies, on either side, with probability
        `level` or more. Raises ParameterError for a level outside (0, 1)."""
        require_share(level, "level")
        return self.upper_tail((1 - level) / 2) - 1

    def release(self, counts: Integers, noise: Noise | None = None) -> Integers:
        """Return `counts` with noise; `noise` defaults to `Releases`. Raises ParameterError for
        counts that are not integers."""
        integers = np.asarray(unmasked(counts))
        if integers.dtype.kind not in "iu":
            raise ParameterError("counts must be integers")
        wide = integers.astype(np.uint64 if integers.dtype.kind == "u" else np.int64)
        inside = np.maximum(np.minimum(wide, MOST_COUNT).astype(np.int64), -MOST_COUNT)
        return (noise or Releases()).discrete_laplace(inside, self.scale)


@dataclass(frozen=True, kw_only=True)
class Gaussian(_Mechanism):
    """Gaussian mechanism, (epsilon, delta)-private. `sensitivity`: in the L2 norm.

    `calibration`: "analytic", exact for every epsilon; or "classical", the standard deviation
    sensitivity sqrt(2 ln(1.25 / delta)) / epsilon, which is proved below epsilon 1 only and raises
    ParameterError from there.

    >>> [round(Gaussian(epsilon=0.9, delta=1e-6, calibration=c).std_error, 2)
    ...  for c in ("analytic", "classical")]
    [4.66, 5.89]
    """

    epsilon: float
    delta: float
    calibration: str = "analytic"

    def __post_init__(self) -> None:
        super().__post_init__()
        convert(self, epsilon=real_number, delta=real_number)
        require_budget(self.epsilon, self.delta)
        require_one_of(self.calibration, ("analytic", "classical"), "calibration")
        if self.calibration == "classical" and self.epsilon >= CLASSICAL_LIMIT:
            raise ParameterError(
                "the classical Gaussian mechanism is proved for epsilon < 1 only; "
                'calibration="analytic" serves every epsilon'
            )

    @property
    def std_error(self) -> float:
        """Standard deviation of the noise."""
        if self.calibration == "analytic":
            return self.sensitivity / gaussian_mu(self.epsilon, self.delta)
        return self.sensitivity * math.sqrt(2 * math.log(1.25 / self.delta)) / self.epsilon

    @property
    def cost(self) -> Cost:
        """Cost of one release."""
        return Cost(epsilon=self.epsilon, delta=self.delta, neighbours=self.neighbours)

    def release(self, values: Floats, noise: Noise | None = None) -> Floats:
        """Return `values` with noise; `noise` defaults to `Releases`. Raises ParameterError for
        values that are not finite."""
        return (noise or Releases()).gaussian(_finite(values), self.std_error)


@dataclass(frozen=True, kw_only=True)
class Exponential(_Pure):
    """Exponential mechanism: an answer with probability proportional to e**(epsilon score / (2
    sensitivity)).

    `sensitivity`: the most by which one score can differ. The scores below are what four bidders
    (1, 1, 1 and 4.01) pay at three prices:

    >>> auction = Exponential(epsilon=1.0, sensitivity=4.02)
    >>> [round(p, 3) for p in auction.probabilities([4.0, 4.01, 0.0]).tolist()]
    [0.383, 0.384, 0.233]
    """

    @property
    def scale(self) -> float:
        """Difference of two scores that makes one answer e times as probable."""
        return round_up(2 * Fraction(self.sensitivity) / Fraction(self.epsilon))

    def probabilities(self, scores: Floats) -> Floats:
        """Return the probability of every answer: float64, shape of `scores`."""
        powers = np.exp((_finite(scores) - np.max(scores)) / self.scale)
        return np.asarray(powers / powers.sum())

    def choose(self, scores: Floats, noise: Noise | None = None) -> int:
        """Return the index of an answer drawn by its score. `noise` defaults to `Releases`."""
        return (noise or Releases()).choose(_finite(scores), self.scale)


def _finite(values: Floats) -> Floats:
    numbers = np.asarray(unmasked(values), dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise ParameterError("values must be finite numbers")
    return numbers
