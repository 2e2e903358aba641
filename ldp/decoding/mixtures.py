"""Shares of a mixture by maximum likelihood: expectation maximisation, accelerated.

The likelihood of each of the n_g reports of group g is A[g, i] B[g, j] if its values are i and j.
The shares theta[i, j] that maximise it are computed from the factors alone: a step is two matrix
products, without an array of reports x cells. Memory holds one likelihood for
all equal reports of a variable. Arrays only, no mechanism.

A report whose values are independent of a second variable has one column of ones there.

Sources: Fanti, Pihur and Erlingsson 2016, section 3 (the step); Varadhan and Roland 2008, "Simple
and globally convergent methods for accelerating the convergence of any EM algorithm", SqS3.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count

import numpy as np

from ldp.arrays import AnyInts, Floats, Places
from ldp.bulk.compiled import blas_of_one_thread

BLOCK = 1 << 20
"""Largest number of numbers in an array of a block of groups."""
MOST_CELLS = 1024
"""Largest number of cells for Newton's method, whose matrix has their square."""
ROUGH = 1e-3
"""Change of a cell by a step of EM below which Newton's method starts."""
EXACT = 1e-6
"""Change of a cell by a step below which a fit ends."""
LEAST = 0.1
"""Least part of a cell after two steps of EM that a jump leaves it. Cells at 0 would stay there."""
RIDGE = 1e-9
MOST_NEWTON = 50
"""Steps of Newton's method."""

Part = Callable[[Floats, Floats, Floats], Floats]
"""Function of the likelihoods A and B of some groups, and of their counts."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """Mixture of values of one variable or more. `factors`: the likelihoods of each variable, shape
    (different reports, values), up to a factor that depends on the report. `places`: which of them
    the reports of each group have, shape (groups,). `counts`, shape (groups,): reports of each
    group. All variables but the first count as one, whose c values are their combinations."""

    factors: Sequence[Floats]
    places: Sequence[Places]
    counts: Floats

    @classmethod
    def of(
        cls,
        factors: Sequence[Floats],
        counts: AnyInts | Floats,
        places: Sequence[Places] | None = None,
    ) -> "Mixture":
        """Return the mixture. Without `places` each group has a row of each factor of its own."""
        own = [np.arange(len(counts))] * len(factors)
        return cls(factors, places or own, counts.astype(np.float64))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers r and c of values of the first variable, and of the others together."""
        first, *others = (factor.shape[1] for factor in self.factors)
        return first, math.prod(others)

    @property
    def total(self) -> float:
        """Number of reports."""
        return float(self.counts.sum())

    def _sum(self, part: Part, width: int = 1) -> Floats:
        """Return the sum of `part` of A, B and the counts of some groups after others, on all
        cores, so that arrays of a row a group and `width` numbers, or of the values, have BLOCK
        numbers at most. The order of the sum does not depend on the number of cores."""
        size = max(1, BLOCK // max(width, *self.shape))

        def of_block(start: int) -> Floats:
            block = slice(start, start + size)
            first, *others = (
                factor[places[block]]
                for factor, places in zip(self.factors, self.places, strict=True)
            )
            second = np.ones((len(first), 1))
            for factor in others:
                second = (second[:, :, None] * factor[:, None, :]).reshape(len(first), -1)
            return part(first, second, self.counts[block])

        if len(self.counts) <= size:
            return of_block(0)
        with blas_of_one_thread(), ThreadPoolExecutor(cpu_count()) as pool:
            return np.asarray(sum(pool.map(of_block, range(0, len(self.counts), size))))

    def sums(self) -> Floats:
        """Return for every cell the sum over reports of A[g, i] B[g, j]: shape (r, c)."""
        return self._sum(lambda first, second, counts: first.T @ (counts[:, None] * second))

    def _slope(self, shares: Floats) -> tuple[Floats, float]:
        """Return the sum over reports of A[g, i] B[g, j] / (likelihood of g), shape (r, c), and the
        log likelihood of `shares`."""

        def part(first: Floats, second: Floats, counts: Floats) -> Floats:
            likelihoods = _likelihoods(first, second, shares)
            with np.errstate(divide="ignore", invalid="ignore"):
                weights = counts / likelihoods
                likelihood = counts @ np.log(likelihoods)
            return np.append(first.T @ (weights[:, None] * second), likelihood)

        both = self._sum(part)
        return both[:-1].reshape(self.shape), float(both[-1])

    def step(self, shares: Floats) -> tuple[Floats, float]:
        """Return the result of a step of EM from `shares`, shape (r, c), and the log likelihood of
        `shares`: share times the mean over reports of A[g, i] B[g, j] / (likelihood of g)."""
        slope, likelihood = self._slope(shares)
        return shares * slope / self.total, likelihood

    def gradient(self, shares: Floats) -> Floats:
        """Return the gradient of the mean log likelihood at `shares`: shape (r, c)."""
        return self._slope(shares)[0] / self.total

    def information(self, shares: Floats) -> Floats:
        """Return the observed information of all cells at `shares`, flat: the sum over reports of L
        L' / (likelihood of the report)**2, with L its likelihoods. Its shape is (r c, r c).

        L[ij] L[kl] = (A_i A_k) (B_j B_l). So only pairs i <= k times pairs j <= l are summed. Time:
        groups r**2 c**2 / 4."""
        rows, columns = shares.shape
        (i, k), (j, m) = np.triu_indices(rows), np.triu_indices(columns)

        def part(first: Floats, second: Floats, counts: Floats) -> Floats:
            weights = counts / _likelihoods(first, second, shares) ** 2
            left = first[:, i] * first[:, k] * weights[:, None]
            return left.T @ (second[:, j] * second[:, m])

        halves = self._sum(part, max(i.size, j.size))
        information = np.empty((rows, rows, columns, columns))
        for row, other_row in ((i, k), (k, i)):
            for column, other_column in ((j, m), (m, j)):
                information[row[:, None], other_row[:, None], column, other_column] = halves
        return information.transpose(0, 2, 1, 3).reshape(shares.size, shares.size)

    def information_of(self, shares: Floats, rows: Places, columns: Places) -> Floats:
        """Return the observed information at `shares` of the cells (rows[k], columns[k]) only. Its
        shape is (cells, cells)."""

        def part(first: Floats, second: Floats, counts: Floats) -> Floats:
            weights = np.sqrt(counts) / _likelihoods(first, second, shares)
            # whole rows: faster
            cells = np.ascontiguousarray((first * weights[:, None]).T)[rows]
            cells *= np.ascontiguousarray(second.T)[columns]
            return cells @ cells.T

        return self._sum(part, rows.size)


def _likelihoods(first: Floats, second: Floats, shares: Floats) -> Floats:
    return np.asarray(np.einsum("gj,gj->g", first @ shares, second))


@dataclass(frozen=True, eq=False)
class MixtureFit:
    """Fitted shares, shape (r, c), adding to 1; their log likelihood, up to a constant; the number
    of steps, and the largest change of a cell in the last step."""

    shares: Floats
    likelihood: float
    steps: int
    change: float


def fit_shares(mixture: Mixture) -> MixtureFit:
    """Return the maximum-likelihood shares: steps of accelerated EM while they change cells by
    ROUGH or more, then Newton's, until no step changes a cell by EXACT. With more than
    MOST_CELLS cells all steps are EM's. The likelihood never falls."""
    if math.prod(mixture.shape) > MOST_CELLS:
        return accelerated_em(mixture, tolerance=EXACT)
    near = accelerated_em(mixture, tolerance=ROUGH)
    return newton(mixture, near)


def accelerated_em(mixture: Mixture, *, tolerance: float, most: int = 1000) -> MixtureFit:
    """Return the shares by EM from equal shares. From t0 two steps lead to t1 and t2. With r = t1 -
    t0 and v = (t2 - t1) - r the jump goes to t0 + 2 a r + a**2 v, a = |r| / |v|, in each cell to
    LEAST t2 at least, or to t2 where that falls below the likelihood of t1. Ends when a step
    changes no cell by `tolerance`, or after `most` steps."""
    shares, steps = np.full(mixture.shape, 1 / math.prod(mixture.shape)), 0
    while True:
        t1, likelihood = mixture.step(shares)
        steps += 1
        change = float(np.abs(t1 - shares).max())
        if change < tolerance or steps >= most:
            return MixtureFit(t1, likelihood, steps, change)
        t2, before = mixture.step(t1)
        steps += 1
        r, v = t1 - shares, (t2 - t1) - (t1 - shares)
        length = float(np.linalg.norm(r)) / max(float(np.linalg.norm(v)), 1e-300)
        jump = np.maximum(shares + 2 * length * r + length**2 * v, LEAST * t2)
        shares = t2
        if length > 1:
            landing, after = mixture.step(jump / jump.sum())
            steps += 1
            if after >= before:
                shares = landing


def newton(mixture: Mixture, near: MixtureFit) -> MixtureFit:
    """Return the shares by Newton's method from `near`, with cells of 0 or more: each step solves
    the quadratic model of the likelihood (Kim, Carbonetto, Stephens and Anitescu 2020, mix-SQP,
    section 3) by non-negative least squares, and is halved until the likelihood does not fall. The
    ridge shortens a step and does not change the maximum. Ends when a step changes no cell by
    EXACT, or after MOST_NEWTON steps."""
    from scipy.linalg import cholesky, solve_triangular
    from scipy.optimize import nnls

    shares, steps = near.shares, near.steps
    _, likelihood = mixture.step(shares)
    while True:
        curvature = mixture.information(shares) / mixture.total
        ridge = RIDGE * float(np.diag(curvature).mean())
        factor = cholesky(curvature + ridge * np.eye(len(curvature)))
        right = 2 * mixture.gradient(shares).ravel() - 1 + ridge * shares.ravel()
        solution, _ = nnls(factor, solve_triangular(factor, right, trans="T"))
        goal = solution.reshape(shares.shape) / max(float(solution.sum()), 1e-300)
        change, steps, part = float(np.abs(goal - shares).max()), steps + 1, 1.0
        while True:
            proposal = shares + part * (goal - shares)
            _, after = mixture.step(proposal)
            if after >= likelihood:
                break
            part /= 2
            # no double has a larger likelihood
            if part < 1e-6:
                return MixtureFit(shares, likelihood, steps, change)
        shares, likelihood = proposal, after
        if change < EXACT or steps - near.steps >= MOST_NEWTON:
            return MixtureFit(shares, likelihood, steps, change)


def covariance(information: Floats) -> Floats:
    """Return the inverse of the `information` I, shape (cells, cells), about shares that add to 1:
    Z (Z' I Z)**-1 Z', Z a basis of the changes that keep the sum."""
    from scipy.linalg import helmert

    # orthonormal columns that each add to 0
    basis = helmert(len(information)).T
    inverse = np.linalg.pinv(basis.T @ information @ basis, hermitian=True, rcond=1e-12)
    return np.asarray(basis @ inverse @ basis.T)
