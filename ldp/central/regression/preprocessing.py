"""What the published pipelines do to data before they add noise, as objects that remember it.

Means, deviations and the longest row are statistics of the data that no budget is spent on: a
pipeline with them is private only if they are public knowledge, and `assumes` lists them. The
provable methods take public bounds instead. Sources: Wang 2018 (row norms); Kalaja 2020, equations
3.3 (row norms), 3.4 (of the target too), 3.5 (longest row), 3.7 (coefficients in the units of the
data) and 3.8 (clipping above); Honkela and others 2018 (clipping on both sides).
"""

from dataclasses import dataclass

import numpy as np

from ldp.arrays import Floats
from ldp.errors import ParameterError

MAPPINGS = {
    "row": "every row divided by its own length (no statistic)",
    "row-and-target": "every row, and its target, divided by the row's length",
    "max": "every row divided by the longest row's length",
}
CLIPS = ("none", "upper", "both")


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """What to do: standardise columns, clip them to `deviations` of theirs, map rows to the unit
    ball, centre the target and divide it by its largest size; an intercept is a column of ones,
    mapped with the rest.

    `clip`: "none", "upper" (Kalaja) or "both" (Honkela); `mapping`: a key of MAPPINGS. Where it is
    fitted decides whether statistics are taken before or after the data are split.
    """

    mapping: str = "row"
    clip: str = "none"
    deviations: float = 2.0
    intercept: bool = False

    def __post_init__(self) -> None:
        if self.mapping not in MAPPINGS or self.clip not in CLIPS:
            raise ParameterError(
                f"mapping must be one of {', '.join(MAPPINGS)}; clip one of {', '.join(CLIPS)}"
            )
        if not self.deviations > 0:
            raise ParameterError("deviations must be > 0")

    @property
    def assumes(self) -> tuple[str, ...]:
        """The statistics that must be public knowledge, because no budget is spent on them."""
        statistics = ["means and deviations of the columns", "mean of the target"]
        if self.mapping == "max":
            statistics.append("length of the longest row")
        largest = "the target's largest size"
        if self.mapping == "row-and-target":
            largest += " over its row's length"
        return (*statistics, largest)

    def fit(self, X: Floats, y: Floats) -> "Fitted":
        """Takes its statistics from `X`, shape (n, columns), and `y`, shape (n,)."""
        deviation = X.std(axis=0, ddof=1) if len(X) > 1 else np.ones(X.shape[1])
        high = np.where(self.clip == "none", np.inf, X.mean(axis=0) + self.deviations * deviation)
        low = np.where(self.clip == "both", X.mean(axis=0) - self.deviations * deviation, -np.inf)
        inside = np.clip(X, low, high)
        spread = inside.std(axis=0, ddof=1) if len(X) > 1 else deviation
        made = Fitted(
            self,
            low=low,
            high=high,
            means=inside.mean(axis=0),
            deviations=np.where(spread > 0, spread, 1.0),
            longest=1.0,
            target_mean=float(y.mean()),
            largest=1.0,
        )
        longest = float(np.linalg.norm(made.standardised(X), axis=1).max(initial=0.0)) or 1.0
        made = Fitted(**{**made.__dict__, "longest": longest})
        largest = float(np.abs(made.target(X, y)).max(initial=0.0)) or 1.0
        return Fitted(**{**made.__dict__, "largest": largest})


@dataclass(frozen=True, eq=False)
class Fitted:
    """The statistics, and the maps that use them; rows of `features` are in the unit ball and
    targets in [-1, 1], on the data that they were taken from."""

    how: Preprocessing
    low: Floats
    high: Floats
    means: Floats
    deviations: Floats
    longest: float
    target_mean: float
    largest: float

    def standardised(self, X: Floats) -> Floats:
        """Clipped, centred, scaled, with a column of ones in front for an intercept."""
        made = (np.clip(X, self.low, self.high) - self.means) / self.deviations
        return np.column_stack([np.ones(len(X)), made]) if self.how.intercept else made

    def features(self, X: Floats) -> Floats:
        """Mapped to the unit ball."""
        made = self.standardised(X)
        if self.how.mapping == "max":
            return np.asarray(made / self.longest)
        return np.asarray(made / _lengths(made)[:, None])

    def target(self, X: Floats, y: Floats) -> Floats:
        """Centred and divided by what divides it."""
        return np.asarray((y - self.target_mean) / self._divisor(X))

    def predict(self, X: Floats, coefficients: Floats) -> Floats:
        """Of mapped `coefficients`, in the units of the target."""
        return self.features(X) @ coefficients * self._divisor(X) + self.target_mean

    def unstandardised(self, coefficients: Floats) -> tuple[Floats, float]:
        """(slopes, intercept) in the units of the data; raises ParameterError where rows are
        divided by lengths of their own, because there are none. They contain the statistics."""
        if self.how.mapping != "max":
            raise ParameterError('only mapping="max" has coefficients in the units of the data')
        own = float(coefficients[0]) if self.how.intercept else 0.0
        mapped = coefficients[1:] if self.how.intercept else coefficients
        slopes = self.largest * mapped / (self.longest * self.deviations)
        # the column of ones is divided by the longest row like every other
        start = self.target_mean + self.largest * own / self.longest
        return slopes, start - float(slopes @ self.means)

    def _divisor(self, X: Floats) -> Floats:
        if self.how.mapping == "row-and-target":
            return np.asarray(self.largest * _lengths(self.standardised(X)))
        return np.full(len(X), self.largest)


def _lengths(rows: Floats) -> Floats:
    lengths = np.linalg.norm(rows, axis=1)
    return np.asarray(np.where(lengths > 0, lengths, 1.0))
