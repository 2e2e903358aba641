"""Shares of a mixture by maximum likelihood: expectation maximisation, accelerated.

The likelihood of each of the n_g reports of group g is A[g, i] B[g, j] if its values are i and j.
The shares theta[i, j] that maximise it are computed from the factors alone: a step is two matrix
products, without an array of reports x cells. Arrays only, no mechanism.

A report whose values are independent of a second variable has one column of ones there.

Sources: Fanti, Pihur and Erlingsson 2016, section 3 (the step); Varadhan and Roland 2008, "Simple
and globally convergent methods for accelerating the convergence of any EM algorithm", SqS3.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ldp.arrays import AnyInts, Floats, Places

BLOCK = 1 << 20
"""Number of numbers in a block of the products of two likelihoods."""
MOST_CELLS = 1024
"""Largest number of cells for Newton's method, whose matrix has their square."""
ROUGH = 1e-3
"""Change of a cell by a step of EM below which Newton's method starts."""
RIDGE = 1e-9


@dataclass(frozen=True, eq=False)
class Mixture:
    """Mixture of values. `first`, shape (groups, r); `second`, shape (groups, c): likelihoods of
    each group's reports for each value, up to a factor that depends on the group; `counts`, shape
    (groups,): reports of each group."""

    first: Floats
    second: Floats
    counts: Floats

    @classmethod
    def of(cls, factors: Sequence[Floats], counts: AnyInts) -> "Mixture":
        """Return the mixture of one variable or more, from the likelihoods of each, shape (groups,
        values); those after the first become one whose values are all their combinations."""
        groups = len(counts)
        second = np.ones((groups, 1))
        for factor in factors[1:]:
            second = (second[:, :, None] * factor[:, None, :]).reshape(groups, -1)
        return cls(factors[0], second, counts.astype(np.float64))

    @property
    def total(self) -> float:
        """Number of reports."""
        return float(self.counts.sum())

    def step(self, shares: Floats) -> tuple[Floats, float]:
        """Return the result of a step of EM from `shares`, shape (r, c), and the log likelihood of
        `shares`: share times the mean over reports of A[g, i] B[g, j] / (likelihood of g)."""
        likelihoods = np.einsum("gj,gj->g", self.first @ shares, self.second)
        with np.errstate(divide="ignore", invalid="ignore"):
            weights = self.counts / likelihoods
            likelihood = float(self.counts @ np.log(likelihoods))
        return shares * self.slope(weights) / self.total, likelihood

    def slope(self, weights: Floats) -> Floats:
        """Return for every cell the sum over groups of weight A[g, i] B[g, j]: shape (r, c);
        `weights`: shape (groups,)."""
        return np.asarray(self.first.T @ (weights[:, None] * self.second))

    def gradient(self, shares: Floats) -> Floats:
        """Return the gradient of the mean log likelihood at `shares`: shape (r, c)."""
        likelihoods = np.einsum("gj,gj->g", self.first @ shares, self.second)
        return self.slope(self.counts / likelihoods) / self.total

    def information(self, shares: Floats) -> Floats:
        """Return the observed information of all cells at `shares`, flat: the sum over reports of L
        L' / (likelihood of the report)**2, with L its likelihoods; shape (r c, r c).

        L[ij] L[kl] = (A_i A_k) (B_j B_l), so only pairs i <= k times pairs j <= l are summed. Time:
        groups r**2 c**2 / 4."""
        rows, columns = shares.shape
        likelihoods = np.einsum("gj,gj->g", self.first @ shares, self.second)
        weights = self.counts / likelihoods**2
        (i, k), (j, m) = np.triu_indices(rows), np.triu_indices(columns)
        halves, size = np.zeros((i.size, j.size)), max(1, BLOCK // max(i.size, j.size))
        for start in range(0, len(weights), size):
            block = slice(start, start + size)
            left = self.first[block][:, i] * self.first[block][:, k] * weights[block, None]
            halves += left.T @ (self.second[block][:, j] * self.second[block][:, m])
        information = np.empty((rows, rows, columns, columns))
        for row, other_row in ((i, k), (k, i)):
            for column, other_column in ((j, m), (m, j)):
                information[row[:, None], other_row[:, None], column, other_column] = halves
        return information.transpose(0, 2, 1, 3).reshape(shares.size, shares.size)

    def information_of(self, shares: Floats, rows: Places, columns: Places) -> Floats:
        """Return the observed information at `shares` of the cells (rows[k], columns[k]) only;
        shape (cells, cells)."""
        likelihoods = np.einsum("gj,gj->g", self.first @ shares, self.second)
        weights = np.sqrt(self.counts) / likelihoods
        information = np.zeros((rows.size, rows.size))
        size = max(1, BLOCK // max(rows.size, 1))
        for start in range(0, len(weights), size):
            block = slice(start, start + size)
            cells = self.first[block][:, rows] * self.second[block][:, columns]
            cells *= weights[block, None]
            information += cells.T @ cells
        return information


@dataclass(frozen=True, eq=False)
class Fit:
    """Fitted shares, shape (r, c), adding to 1; their log likelihood, up to a constant; the number
    of steps, and the largest change of a cell in the last step."""

    shares: Floats
    likelihood: float
    steps: int
    change: float


def fit_shares(mixture: Mixture, *, tolerance: float = 1e-6) -> Fit:
    """Return the maximum-likelihood shares: steps of accelerated EM while they change cells by
    ROUGH or more, then Newton's, until no step changes a cell by `tolerance`. With more than
    MOST_CELLS cells all steps are EM's. The likelihood never falls."""
    if mixture.first.shape[1] * mixture.second.shape[1] > MOST_CELLS:
        return accelerated_em(mixture, tolerance=tolerance)
    near = accelerated_em(mixture, tolerance=ROUGH)
    return newton(mixture, near, tolerance=tolerance)


def accelerated_em(mixture: Mixture, *, tolerance: float, most: int = 1000) -> Fit:
    """Return the shares by EM from equal shares. From t0 two steps lead to t1 and t2; with
    r = t1 - t0 and v = (t2 - t1) - r the jump goes to t0 + 2 a r + a**2 v, a = |r| / |v|, or to t2
    where that leaves the simplex or falls below the likelihood of t1. Ends when a step changes no
    cell by `tolerance`, or after `most` steps."""
    shape = mixture.first.shape[1], mixture.second.shape[1]
    shares, steps = np.full(shape, 1 / (shape[0] * shape[1])), 0
    while True:
        t1, likelihood = mixture.step(shares)
        steps += 1
        change = float(np.abs(t1 - shares).max())
        if change < tolerance or steps >= most:
            return Fit(t1, likelihood, steps, change)
        t2, before = mixture.step(t1)
        steps += 1
        r, v = t1 - shares, (t2 - t1) - (t1 - shares)
        length = float(np.linalg.norm(r)) / max(float(np.linalg.norm(v)), 1e-300)
        jump = shares + 2 * length * r + length**2 * v
        shares = t2
        if length > 1 and jump.min() >= 0:
            landing, after = mixture.step(jump / jump.sum())
            steps += 1
            if after >= before:
                shares = landing


def newton(mixture: Mixture, near: Fit, *, tolerance: float, most: int = 50) -> Fit:
    """Return the shares by Newton's method from `near`, with cells of 0 or more: each step solves
    the quadratic model of the likelihood (Kim, Carbonetto, Stephens and Anitescu 2020, mix-SQP,
    section 3) by non-negative least squares, and is halved until the likelihood does not fall. The
    ridge shortens a step and does not change the maximum. Ends when a step changes no cell by
    `tolerance`, or after `most` steps."""
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
            if part < 1e-6:  # no double has a larger likelihood
                return Fit(shares, likelihood, steps, change)
        shares, likelihood = proposal, after
        if change < tolerance or steps - near.steps >= most:
            return Fit(shares, likelihood, steps, change)
