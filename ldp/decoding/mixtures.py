"""Shares of a mixture by maximum likelihood: expectation maximisation, accelerated.

Report g of a group of n_g is likely to degree A[g, i] B[g, j] if its values are i and j. The shares
theta[i, j] that make all reports likeliest are found from factors alone: a step is two matrix
products, and no array of reports x cells is made. Arrays only; knows no mechanism.

A report whose values are independent of a second variable has one column of ones there.

Sources: Fanti, Pihur and Erlingsson 2016, section 3 (the step); Varadhan and Roland 2008, "Simple
and globally convergent methods for accelerating the convergence of any EM algorithm", SqS3.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ldp.arrays import AnyInts, Floats, Places

BLOCK = 1 << 20
"""Numbers in a block of the products of two likelihoods."""
MOST_CELLS = 1024
"""Cells up to which Newton's method is used: its matrix has their square."""
ROUGH = 1e-3
"""What a step of EM changes where Newton's method takes over."""
RIDGE = 1e-9


@dataclass(frozen=True, eq=False)
class Mixture:
    """`first`, shape (groups, r); `second`, shape (groups, c): how likely each group's reports are
    for each value, up to a factor of the group's own; `counts`: reports of each group."""

    first: Floats
    second: Floats
    counts: Floats

    @classmethod
    def of(cls, factors: Sequence[Floats], counts: AnyInts) -> "Mixture":
        """Of one variable or more, given the likelihoods of each: those after the first make one,
        whose values are all their combinations."""
        groups = len(counts)
        second = np.ones((groups, 1))
        for factor in factors[1:]:
            second = (second[:, :, None] * factor[:, None, :]).reshape(groups, -1)
        return cls(factors[0], second, counts.astype(np.float64))

    @property
    def total(self) -> float:
        return float(self.counts.sum())

    def step(self, shares: Floats) -> tuple[Floats, float]:
        """One step of EM from these `shares`, shape (r, c), and their log likelihood: share times
        the mean over reports of A[g, i] B[g, j] / (likelihood of g)."""
        seen = np.einsum("gj,gj->g", self.first @ shares, self.second)
        with np.errstate(divide="ignore", invalid="ignore"):
            weights = self.counts / seen
            likelihood = float(self.counts @ np.log(seen))
        return shares * self.slope(weights) / self.total, likelihood

    def slope(self, weights: Floats) -> Floats:
        """For every cell the sum over groups of weight A[g, i] B[g, j]."""
        return np.asarray(self.first.T @ (weights[:, None] * self.second))

    def gradient(self, shares: Floats) -> Floats:
        """Of the mean log likelihood by each cell."""
        seen = np.einsum("gj,gj->g", self.first @ shares, self.second)
        return self.slope(self.counts / seen) / self.total

    def information(self, shares: Floats) -> Floats:
        """The observed information of all cells, flat: the sum over reports of L L' / (likelihood
        of the report)**2, with L its likelihoods; shape (r c, r c).

        L[ij] L[kl] = (A_i A_k) (B_j B_l), so only pairs i <= k times pairs j <= l are summed. Time:
        groups r**2 c**2 / 4."""
        rows, columns = shares.shape
        seen = np.einsum("gj,gj->g", self.first @ shares, self.second)
        weights, (i, k), (j, m) = self.counts / seen**2, _pairs(rows), _pairs(columns)
        halves, size = np.zeros((i.size, j.size)), max(1, BLOCK // max(i.size, j.size))
        for start in range(0, len(weights), size):
            some = slice(start, start + size)
            left = self.first[some][:, i] * self.first[some][:, k] * weights[some, None]
            halves += left.T @ (self.second[some][:, j] * self.second[some][:, m])
        whole = np.empty((rows, rows, columns, columns))
        for one, other in ((i, k), (k, i)):
            for third, fourth in ((j, m), (m, j)):
                whole[one[:, None], other[:, None], third, fourth] = halves
        return whole.transpose(0, 2, 1, 3).reshape(shares.size, shares.size)

    def information_of(self, shares: Floats, first: Places, second: Places) -> Floats:
        """The same of the cells (first[k], second[k]) only; shape (cells, cells)."""
        seen = np.einsum("gj,gj->g", self.first @ shares, self.second)
        weights, found = np.sqrt(self.counts) / seen, np.zeros((first.size, first.size))
        size = max(1, BLOCK // max(first.size, 1))
        for start in range(0, len(weights), size):
            some = slice(start, start + size)
            cells = self.first[some][:, first] * self.second[some][:, second]
            cells *= weights[some, None]
            found += cells.T @ cells
        return found


def _pairs(size: int) -> tuple[Places, Places]:
    return np.triu_indices(size)


@dataclass(frozen=True, eq=False)
class Fit:
    """Shares, shape (r, c), adding to 1; their log likelihood, up to what no share changes; how
    many steps it took, and the largest change of a cell in the last."""

    shares: Floats
    likelihood: float
    steps: int
    change: float


def fit_shares(mixture: Mixture, *, tolerance: float = 1e-6) -> Fit:
    """The likeliest shares: steps of accelerated EM while they change cells by ROUGH or more, then
    Newton's, each of which says how far the maximum is; ends when none changes a cell by
    `tolerance`. With more than MOST_CELLS cells all steps are EM's. The likelihood never falls."""
    if mixture.first.shape[1] * mixture.second.shape[1] > MOST_CELLS:
        return accelerated_em(mixture, tolerance=tolerance)
    near = accelerated_em(mixture, tolerance=ROUGH)
    return newton(mixture, near, tolerance=tolerance)


def accelerated_em(mixture: Mixture, *, tolerance: float, most: int = 1000) -> Fit:
    """EM from equal shares. From t0 two steps lead to t1 and t2; with r = t1 - t0 and
    v = (t2 - t1) - r the jump goes to t0 + 2 a r + a**2 v, a = |r| / |v|, and is taken back to t2
    where it leaves the simplex or falls below the likelihood of t1. Ends when a step changes no
    cell by `tolerance`, or after `most` steps."""
    shape = mixture.first.shape[1], mixture.second.shape[1]
    shares, steps = np.full(shape, 1 / (shape[0] * shape[1])), 0
    while True:
        once, likelihood = mixture.step(shares)
        steps += 1
        change = float(np.abs(once - shares).max())
        if change < tolerance or steps >= most:
            return Fit(once, likelihood, steps, change)
        twice, before = mixture.step(once)
        steps += 1
        moved, turned = once - shares, (twice - once) - (once - shares)
        length = float(np.linalg.norm(moved)) / max(float(np.linalg.norm(turned)), 1e-300)
        jump = shares + 2 * length * moved + length**2 * turned
        shares = twice
        if length > 1 and jump.min() >= 0:
            landed, after = mixture.step(jump / jump.sum())
            steps += 1
            if after >= before:
                shares = landed


def newton(mixture: Mixture, near: Fit, *, tolerance: float, most: int = 50) -> Fit:
    """Newton's method from `near`, with cells kept at 0 or more: each step solves the quadratic
    model of the likelihood (Kim, Carbonetto, Stephens and Anitescu 2020, mix-SQP, section 3) by
    non-negative least squares, and is halved until the likelihood does not fall. The ridge holds a
    step, and not the shares, back: it moves no maximum."""
    from scipy.linalg import cholesky, solve_triangular
    from scipy.optimize import nnls

    shares, steps = near.shares, near.steps
    _, likelihood = mixture.step(shares)
    while True:
        curved = mixture.information(shares) / mixture.total
        ridge = RIDGE * float(np.diag(curved).mean())
        factor = cholesky(curved + ridge * np.eye(len(curved)))
        pulled = 2 * mixture.gradient(shares).ravel() - 1 + ridge * shares.ravel()
        wanted, _ = nnls(factor, solve_triangular(factor, pulled, trans="T"))
        goal = wanted.reshape(shares.shape) / max(float(wanted.sum()), 1e-300)
        change, steps, part = float(np.abs(goal - shares).max()), steps + 1, 1.0
        while True:
            there = shares + part * (goal - shares)
            _, after = mixture.step(there)
            if after >= likelihood:
                break
            part /= 2
            if part < 1e-6:  # no double is likelier
                return Fit(shares, likelihood, steps, change)
        shares, likelihood = there, after
        if change < tolerance or steps - near.steps >= most:
            return Fit(shares, likelihood, steps, change)
