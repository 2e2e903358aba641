"""Sources of a curator's noise: OpenDP for releases, numpy for simulations.

A release uses samplers that are exact on floating-point numbers (Mironov 2012 shows why it matters)
and cannot be repeated. Samplers of numpy are fast, seeded and only good for studies. Publishing a
result of `Simulated` publishes the data; its results are labelled.
"""

from functools import cache
from typing import Any, ClassVar, Protocol

import numpy as np

from ldp.arrays import Floats, Generator, Ints
from ldp.errors import MissingPackage


class Noise(Protocol):
    """Source of noise for arrays of any shape. `scale` > 0 is in the units of the values."""

    is_simulation: ClassVar[bool]

    def gaussian(self, values: Floats, scale: float) -> Floats:
        """Return `values` + normal noise of standard deviation `scale`."""

    def laplace(self, values: Floats, scale: float) -> Floats:
        """Return `values` + noise of density e**(-|x| / scale) / (2 scale)."""

    def discrete_laplace(self, counts: Ints, scale: float) -> Ints:
        """Return `counts` + integers k with probability proportional to e**(-|k| / scale)."""

    def choose(self, scores: Floats, scale: float) -> int:
        """Draw an index with probability proportional to e**(score / scale)."""


class Releases:
    """Noise of a real release, from OpenDP and the operating system. It takes no seed."""

    is_simulation: ClassVar[bool] = False

    def gaussian(self, values: Floats, scale: float) -> Floats:
        dp = _opendp()
        return _applied(dp.m.make_gaussian(_reals(), dp.l2_distance(T=float), scale), values)

    def laplace(self, values: Floats, scale: float) -> Floats:
        dp = _opendp()
        return _applied(dp.m.make_laplace(_reals(), dp.l1_distance(T=float), scale), values)

    def discrete_laplace(self, counts: Ints, scale: float) -> Ints:
        dp = _opendp()
        domain = dp.vector_domain(dp.atom_domain(T="i64"))
        measurement = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale)
        return np.array(measurement(counts.ravel().tolist()), dtype=np.int64).reshape(counts.shape)

    def choose(self, scores: Floats, scale: float) -> int:
        dp = _opendp()
        # OpenDP has two: zero-concentrated is Gumbel noise, whose largest score is the exponential
        # mechanism's choice; the other is permute-and-flip
        divergence = dp.zero_concentrated_divergence()
        measurement = dp.m.make_noisy_max(_reals(), dp.linf_distance(T=float), divergence, scale)
        return int(measurement(scores.tolist()))


class Simulated:
    """Noise of a simulation, from a numpy generator: repeatable, and no release."""

    is_simulation: ClassVar[bool] = True

    def __init__(self, generator: Generator) -> None:
        self._generator = generator

    def gaussian(self, values: Floats, scale: float) -> Floats:
        return values + self._generator.normal(0.0, scale, values.shape)

    def laplace(self, values: Floats, scale: float) -> Floats:
        return values + self._generator.laplace(0.0, scale, values.shape)

    def discrete_laplace(self, counts: Ints, scale: float) -> Ints:
        # the difference of two geometric numbers
        stop = -np.expm1(-1 / scale)
        up, down = self._generator.geometric(stop, (2, *counts.shape))
        return np.asarray(counts + up - down, dtype=np.int64)

    def choose(self, scores: Floats, scale: float) -> int:
        return int(np.argmax(scores / scale + self._generator.gumbel(size=scores.shape)))


@cache
def _opendp() -> Any:
    try:
        import opendp.prelude as dp
    except ImportError:
        raise MissingPackage.of("the noise of a central release", "opendp", "central") from None
    dp.enable_features("contrib")
    return dp


def _reals() -> Any:
    dp = _opendp()
    return dp.vector_domain(dp.atom_domain(T=float, nan=False))


def _applied(measurement: Any, values: Floats) -> Floats:
    return np.array(measurement(values.ravel().tolist()), dtype=np.float64).reshape(values.shape)
