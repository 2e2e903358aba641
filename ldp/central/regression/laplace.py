"""Pure epsilon: moments of rows in a box with Laplace noise.

Robust private linear regression (Honkela and others 2018; Nieminen 2017, algorithm 2) clips to a
box and releases X'X, X'y and y'y. The sensitivity is in the L1 norm, X'X's of its upper triangle.
With entries of size at most B_j and targets T:

    X'X   sum over i <= j of B_i B_j                 for either neighbour relation
    X'y   T sum of B_j,  twice that when a value is replaced
    y'y   T**2                                        for either

The first is exact: with p = (v + u) / 2 and q = (v - u) / 2, |p_i| + |q_i| <= B_i and v_i v_j - u_i
u_j = 2 (p_i q_j + q_i p_j), whose sizes add up to at most 2 A (B - A) + 2 sum a_i (B_i - a_i), a_i
= |p_i|, A and B the sums. It is largest at a_i = B_i / 2, where it is what u = 0, v = B gives. The
published d (d + 1) B**2 is twice it. Rows of length N at most have sums of sizes below sqrt(d) N.
The least of both bounds is used.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ldp.accounting import Cost, Neighbours
from ldp.arrays import Floats
from ldp.central import Laplace, Noise
from ldp.central.regression.calibration import Budget
from ldp.central.regression.rows import Rows, product
from ldp.errors import ParameterError
from ldp.regression.intervals import LAPLACE_EXCESS, Equations
from ldp.regression.noisy_moments import Moments, Scales

SPLIT = (0.35, 0.60, 0.05)
"""Shares of epsilon of X'X, X'y and y'y (Nieminen 2017, section 4.1)."""
GRID = 2**15
"""Number of steps of 1: sums of MOST_ROWS products of multiples of 1 / GRID are exact."""
SLACK = 1e-15
"""Share of epsilon that is not spent, so that rounded shares do not add up to more."""


@dataclass(frozen=True, kw_only=True)
class Sensitivities:
    """Sensitivities in the L1 norm of X'X (its upper triangle), X'y and y'y."""

    xx: float
    xy: float
    yy: float

    @classmethod
    def of(
        cls, box: Floats, neighbours: Neighbours, *, norm: float = math.inf, target: float = 1.0
    ) -> "Sensitivities":
        """Return the sensitivities for entries of size at most `box`, shape (columns,), rows of
        length at most `norm`, and targets of size at most `target`."""
        twice = 2.0 if neighbours is Neighbours.REPLACE_VALUE else 1.0
        total = min(float(box.sum()), norm * math.sqrt(len(box)))
        squares = (float(box.sum()) ** 2 + float((box**2).sum())) / 2
        by_length = twice * norm**2 * (len(box) + 1) / 2
        return cls(xx=min(squares, by_length), xy=twice * target * total, yy=target**2)


@dataclass(frozen=True, eq=False)
class LaplaceMoments:
    """X'X (its upper triangle noisy, mirrored), X'y and y'y, and the scale of each one's Laplace
    noise; of `rows` rows, features and target clipped to `clips` on both sides.

    Moments of different people's rows, mapped from the same bounds, add.
    """

    xx: Floats
    xy: Floats
    yy: float
    scales: tuple[float, float, float]
    rows: int
    clips: tuple[float, float] = (1.0, 1.0)

    @classmethod
    def released(
        cls,
        rows: Rows,
        epsilon: float,
        neighbours: Neighbours,
        noise: Noise,
        *,
        split: tuple[float, float, float] = SPLIT,
        box: float = 1.0,
        target: float = 1.0,
    ) -> "LaplaceMoments":
        """Return noisy moments of features clipped to [-box, box], the intercept left at 1, and
        targets clipped to `target`: the projection of robust regression. `split`: shares of
        epsilon, positive and adding to 1. Raises ParameterError for these three out of range."""
        if len(split) != 3 or min(split) <= 0 or not math.isclose(sum(split), 1.0):
            raise ParameterError("split must be three positive shares that add up to 1")
        if not 1 / GRID <= box <= 1 or not 1 / GRID <= target <= 1:
            raise ParameterError(f"box and target must lie in [1 / {GRID}, 1]")
        features, inside = clip_rows(rows, box, target)
        box, target = float(box), float(target)
        shares = [float(share) for share in split]
        part = epsilon * (1 - SLACK)
        part /= max(1.0, math.fsum(shares))
        limits = np.where(rows.constant, 1.0, box)
        most = Sensitivities.of(limits, neighbours, norm=rows.norm, target=target)
        xx, xy, yy = (
            Laplace(epsilon=share * part, sensitivity=sensitivity, neighbours=neighbours)
            for share, sensitivity in zip(shares, (most.xx, most.xy, most.yy), strict=True)
        )
        upper = (features.T @ features)[np.triu_indices(rows.columns)]
        return cls(
            symmetric(xx.release(upper, noise), rows.columns),
            xy.release(features.T @ inside, noise),
            float(yy.release(np.array([inside @ inside]), noise)[0]),
            (xx.scale, xy.scale, yy.scale),
            len(inside),
            (box, target),
        )

    @classmethod
    def exact(cls, rows: Rows) -> "LaplaceMoments":
        """Return the moments of public `rows`, without noise and clipping. They cost nothing, and
        can be added to other moments."""
        yy = float(product(rows.target, rows.target))
        return cls(rows.xx, rows.xy, yy, (0.0, 0.0, 0.0), len(rows.target))

    def __add__(self, other: "LaplaceMoments") -> "LaplaceMoments":
        """Return the moments of two curators' rows together, mapped from the same bounds. A scale
        is that of Laplace noise with the variance of the sum. Raises ParameterError for different
        numbers of columns."""
        if self.xx.shape != other.xx.shape:
            raise ParameterError("moments of different numbers of columns do not add")
        xx, xy, yy = map(math.hypot, self.scales, other.scales)
        return LaplaceMoments(
            self.xx + other.xx,
            self.xy + other.xy,
            self.yy + other.yy,
            (xx, xy, yy),
            self.rows + other.rows,
            self.clips,
        )

    @property
    def equations(self) -> Equations:
        """The normal equations with the variances of their noise, for intervals."""
        of_xx, of_xy = (2 * scale**2 for scale in self.scales[:2])
        return Equations(
            self.xx,
            self.xy,
            np.full_like(self.xx, of_xx),
            np.full_like(self.xy, of_xy),
            LAPLACE_EXCESS,
        )

    @property
    def as_normal(self) -> Moments:
        """The moments with scales of normal noise of the same variances (off the diagonal)."""
        scales = Scales(xx=2 * self.scales[0], xy=math.sqrt(2) * self.scales[1])
        return Moments(self.xx, self.xy, None, scales)


def clip_rows(rows: Rows, box: float, target: float) -> tuple[Floats, Floats]:
    """Return the features and targets of `rows`, clipped on both sides (the intercept is not), as
    multiples of 1 / GRID towards 0, so that sums are exact and no row becomes longer."""
    box, target = (math.floor(limit * GRID) for limit in (box, target))
    features, targets = np.trunc(rows.features * GRID), np.trunc(rows.target * GRID)
    features = np.where(rows.constant, features, np.clip(features, -box, box))
    return features / GRID, np.clip(targets, -target, target) / GRID


def symmetric(upper: Floats, columns: int) -> Floats:
    """Return the symmetric matrix of an `upper` triangle, flat by rows: shape (columns,
    columns)."""
    matrix = np.zeros((columns, columns))
    matrix[np.triu_indices(columns)] = upper
    return np.asarray(matrix + np.triu(matrix, 1).T)


@dataclass(frozen=True, eq=False)
class PrivateFit:
    """Result of a fit: `coefficients`, shape (columns,), of mapped features and target; their cost;
    and the noisy moments, where a method releases those."""

    coefficients: Floats
    cost: Cost
    moments: Moments | LaplaceMoments | None = None


@dataclass(frozen=True, kw_only=True)
class FromLaplace:
    """Method with Laplace noise on moments of clipped rows, then `solve`. Its epsilon is pure."""

    words: str
    solve: Callable[[LaplaceMoments], Floats]

    def fit(
        self, rows: Rows, budget: Budget, noise: Noise, public: Rows | None = None, **clips: Any
    ) -> PrivateFit:
        """Release moments of `rows` with `noise`, add those of `public` rows without noise, and
        solve them. `clips`: `split`, `box` and `target` of `LaplaceMoments.released`."""
        moments = LaplaceMoments.released(rows, budget.epsilon, budget.neighbours, noise, **clips)
        if public is not None:
            moments += LaplaceMoments.exact(public)
        return PrivateFit(self.solve(moments), budget.pure_cost, moments)
