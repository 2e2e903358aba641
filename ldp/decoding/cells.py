"""Unbiased counts of the cells of a joint distribution, each with its variance.

Written for reports of several parts that are independent given their values. With L_a(v) the
likelihood of a part for its value v, m the shares of the part's values and f = sum of m_v L_a(v),

    T_a = G**-1 L_a / f,    G[v, w] = sum over reports L_a(v) L_a(w) / f**2 / n,

has mean 1 under its own value and 0 under any other if f is the law of the reports, and is the
efficient estimate of m. So m is the maximum of the likelihood with shares that may fall below 0: if
those of values that nobody holds were 0 or more, f would be off to one side. The product of the
parts' estimates has mean 1 under its own cell alone, so its sum over the reports is an unbiased
count, also where the parts depend on each other. Given the table its variance is n (mean of T**2 -
share of the cell). Unlike a maximum of the likelihood it knows no boundary: it is normal where the
cell is held by nobody, and may be negative.

Arrays only, no mechanism. Source of the efficient estimate of one part: Le Cam's one step from the
maximum, with the observed information (van der Vaart 1998, section 5.7).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from ldp.arrays import AnyInts, Floats, Places
from ldp.decoding.mixtures import Mixture

MOST_STEPS, ENOUGH = 20, 1e-6
"""Steps of Newton's method, at most, and the step after which it ends, in shares."""
MOST_FALL = 0.9
"""Part of the probability of a report that one step may take from it."""


@dataclass(frozen=True, eq=False)
class PartWeights:
    """Estimates of a part's value, from its different reports. `weights`: shape (reports, values),
    T_a above; `density`: shape (reports,), f; `unlisted_error`: shape (values,), standard deviation
    of the mean of `weights` over all reports about one unlisted value, due to the columns that it
    hashes to."""

    weights: Floats
    density: Floats
    unlisted_error: Floats

    @classmethod
    def of(cls, factor: Floats, counts: AnyInts, margin: Floats) -> Self:
        """Return the weights from the likelihoods `factor`, shape (reports, values), the number of
        equal reports `counts` and the most likely shares of 0 or more, `margin`, shape (values,),
        from which Newton's method goes to the maximum without that bound."""
        part = np.asarray(counts / counts.sum())
        for _ in range(MOST_STEPS):
            density = factor @ margin
            relative = factor / density[:, None]
            information = relative.T @ (relative * part[:, None])
            inverse = np.linalg.pinv(information, hermitian=True, rcond=1e-12)
            step = inverse @ (relative.T @ part - 1)
            fall = float((-(factor @ step) / density).max())
            margin = margin + min(1.0, MOST_FALL / max(fall, MOST_FALL)) * step
            if np.abs(step).max() < ENOUGH:
                break
        return cls(relative @ inverse, density, np.zeros(factor.shape[1]))


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Unbiased `count` and `std_error` of every cell, an axis a part. `telling`: number of reports
    that tell of the cell, k equal weights w (Kish), of which `false` are expected where nobody
    holds it: the count is w (k - false)."""

    count: Floats
    std_error: Floats
    telling: Floats
    false: Floats

    @property
    def few_tail(self) -> Floats:
        """Probability of so many reports that tell of a cell or more, where nobody holds it: that
        of the Poisson law, also between whole numbers."""
        from scipy.special import gammainc

        return np.asarray(gammainc(np.maximum(self.telling, 1.0), np.maximum(self.false, 0.0)))


def cell_counts(
    parts: Sequence[PartWeights], counts: AnyInts, places: Sequence[Places] | None = None
) -> CellCounts:
    """Return the counts of all cells from the weights of each part and the number of equal reports
    `counts`, shape (reports,); `places`: which of a part's different reports each has, shape
    (reports,), None where all are different.

    People whose value of a part is unlisted may all hold the same one. Its columns are fixed, so
    what it adds to a cell does not average out over reports: the number of them in the cell's line
    times `unlisted_error`, in quadrature.
    """
    count, second, fourth = (
        _sum_of_products([part.weights**power for part in parts], counts, places)
        for power in (1, 2, 4)
    )
    variance = np.maximum(second - np.clip(count, 0, counts.sum()), 0)
    for axis, part in enumerate(parts):
        unlisted = np.maximum(np.take(count, [-1], axis=axis), 0)
        shape = [-1 if axis == other else 1 for other in range(count.ndim)]
        variance += (unlisted * part.unlisted_error.reshape(shape)) ** 2
    fourth = np.maximum(fourth, 1e-300)
    telling = second**2 / fourth
    return CellCounts(
        count=count,
        std_error=np.sqrt(variance),
        telling=telling,
        false=telling - count / np.sqrt(fourth / np.maximum(second, 1e-300)),
    )


def _sum_of_products(
    factors: Sequence[Floats], counts: AnyInts, places: Sequence[Places] | None
) -> Floats:
    """Return the sum over reports of the products of `factors`, shape (reports, values) each."""
    sums = Mixture.of(factors, counts, places).sums()
    return sums.reshape([factor.shape[1] for factor in factors])
