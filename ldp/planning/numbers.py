"""The mean of a population's numbers, as the mechanisms of the local model tell it."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ldp.accounting import Neighbours
from ldp.arrays import Floats
from ldp.central import DiscreteLaplace, Simulated
from ldp.decoding.numeric import decode_mean
from ldp.errors import ParameterError
from ldp.mechanisms import OneBitMean, Piecewise
from ldp.mechanisms.numeric import Numeric, position
from ldp.simulation import Population, draw_table

OF_NUMBERS = {kind.name: kind for kind in (OneBitMean, Piecewise)}
"""Mechanisms of a mean, by name."""


STEPS = 2**20
"""Number of steps of the range of numbers that a curator adds."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Curator:
    """Curator's way: the name and parameters of the mechanism, its standard error, and simulated
    `errors`, shape (draws,)."""

    mechanism: str
    parameters: dict[str, Any]
    std_error: float
    errors: Floats


@dataclass(frozen=True, eq=False)
class Numbers:
    """Numbers of `people`, with counts, clipped to public `bounds`; `places`, shape (values,):
    where each stands between them, 0 to 1."""

    people: Population
    bounds: tuple[float, float]
    places: Floats
    draws: ClassVar[int] = 400
    """Number of tables from which an error is measured."""

    @classmethod
    def of(cls, people: Population, bounds: tuple[float, float]) -> "Numbers":
        """Return the numbers of `people`; raises ParameterError for a value that is not a number,
        and for bounds that are not a range."""
        _ = OneBitMean(bounds=bounds, epsilon=1.0)  # raises for a wrong range
        places = [float(position(value, bounds, "clip")) for value in people.values]
        return cls(people, bounds, np.array(places))

    @property
    def users(self) -> int:
        """Number of people."""
        return self.people.users

    @property
    def range(self) -> float:
        """Length of the range."""
        return self.bounds[1] - self.bounds[0]

    def chosen(self, name: str | None, epsilon: float) -> Numeric:
        """Return the mechanism of that name, or the one with the smaller error. Raises
        ParameterError for a name that is not in `OF_NUMBERS`."""
        if name is not None and name not in OF_NUMBERS:
            raise ParameterError(f"a mean is told by one of {', '.join(OF_NUMBERS)}")
        kinds = OF_NUMBERS.values() if name is None else (OF_NUMBERS[name],)
        mechanisms = [kind(bounds=self.bounds, epsilon=epsilon) for kind in kinds]
        return min(mechanisms, key=self.std_error)

    def std_error(self, mechanism: Numeric) -> float:
        """Return the standard error of the mean of these people, each of whom sends one report."""
        variances = np.array([mechanism.mean_variance(place) for place in self.places.tolist()])
        return float(self.range * (self.people.shares @ variances / self.users) ** 0.5)

    def errors(self, mechanism: Numeric, draws: int, generator: np.random.Generator) -> Floats:
        """Draw the error of the mean of these people: shape (draws,)."""
        truth = self.bounds[0] + self.range * float(self.people.shares @ self.places)
        means = [
            decode_mean(
                draw_table(
                    mechanism, self.people.values, counts=self.people.counts, generator=generator
                )
            ).mean
            for _ in range(draws)
        ]
        return np.array(means) - truth

    def curator(self, epsilon: float, draws: int, generator: np.random.Generator) -> Curator:
        """Return what a curator says of the mean, with discrete Laplace noise."""
        mechanism = DiscreteLaplace(
            epsilon=epsilon, sensitivity=float(STEPS), neighbours=Neighbours.REPLACE_VALUE
        )
        noise = mechanism.release(np.zeros(draws, dtype=np.int64), Simulated(generator))
        unit = self.range / (STEPS * self.users)
        return Curator(
            mechanism="discrete-laplace",
            parameters={"sensitivity": self.range / self.users},
            std_error=unit * mechanism.std_error,
            errors=unit * noise.astype(np.float64),
        )
