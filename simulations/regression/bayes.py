"""Bayesian linear regression from noisy moments, by Gibbs sampling.

The model is Honkela's and Nieminen's: y | x, b ~ N(x b, 1 / precision), b ~ N(0, I / prior),
precision and prior ~ Gamma(2, 2). `naive` takes the noisy moments for the truth, projected so that
no residual is negative; this is the model as published. `noise_aware` (after Bernstein and Sheldon
2019) treats X'X as unknown. Given X'X, X'y integrates out:

    noisy X'y | X'X, b, precision ~ N(X'X b, X'X / precision + noise)

Then b integrates out in the same way. A sweep moves X'X by elliptical slices; its prior is the
noisy X'X with the noise's law. It moves the precision by a random walk, and both moves integrate b
out. Then it draws b, and the variances of the Laplace noise, each from an inverse Gaussian (Park
and Casella 2008). y'y is not used. Both samplers see noisy moments only, so they cost no budget.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from ldp.arrays import Floats
from ldp.central.regression.laplace import LaplaceMoments, symmetric
from ldp.regression import ridge

SHAPE = RATE = 2.0
"""Parameters of the Gamma priors."""
SWEEPS = 600
BURN_IN = 150
UNIT = 4.0
"""Factor on mapped targets, so that priors of mean 1 suit targets with a deviation of 1/4."""
STEP = 0.5
"""Standard deviation of the random walk of the logarithm of the precision."""


def naive(
    moments: LaplaceMoments, generator: np.random.Generator, *, sweeps: int = SWEEPS
) -> Floats:
    """Return draws of the coefficients, shape (draws, columns), as if the moments were exact.

    The noisy moments are projected first.
    """
    xx, xy, yy = project(moments)
    size, precision, prior = len(xy), 1.0, 1.0
    draws = []
    for _ in range(sweeps):
        b = _normal(generator, prior * np.eye(size) + precision * xx, precision * xy)
        residual = max(0.0, float(yy - 2 * b @ xy + b @ xx @ b))
        precision = _gamma(generator, moments.rows, residual)
        prior = _gamma(generator, size, float(b @ b))
        draws.append(b)
    return np.array(draws[min(BURN_IN, sweeps // 2) :])


def project(moments: LaplaceMoments) -> tuple[Floats, Floats, float]:
    """Return X'X, X'y and y'y of the nearest positive semidefinite [[y'y, y'X], [X'y, X'X]]."""
    size = len(moments.xy)
    whole = np.empty((size + 1, size + 1))
    whole[0, 0], whole[0, 1:], whole[1:, 0] = moments.yy, moments.xy, moments.xy
    whole[1:, 1:] = moments.xx
    values, vectors = np.linalg.eigh(whole)
    nearest = (vectors * np.maximum(values, 0)) @ vectors.T
    return nearest[1:, 1:], nearest[0, 1:], float(nearest[0, 0])


def noise_aware(
    moments: LaplaceMoments, generator: np.random.Generator, *, sweeps: int = SWEEPS
) -> Floats:
    """Return draws of the coefficients given the moments and their noise, shape (draws,
    columns)."""
    state = _Aware(moments, generator)
    draws = [b for b, _ in zip(state.sweeps(), range(sweeps), strict=False)]
    return np.array(draws[min(BURN_IN, sweeps // 2) :])


class _Aware:
    """Markov chain of X'X, coefficients, precision, prior, and the variances of all noise."""

    def __init__(self, moments: LaplaceMoments, generator: np.random.Generator) -> None:
        self.moments, self.generator = moments, generator
        self.size = len(moments.xy)
        self.upper = np.triu_indices(self.size)
        self.noisy = moments.xx[self.upper]
        normal = moments.as_normal
        floor = ridge.noise_length(len(normal.xy), normal.scales.xx)
        values, vectors = np.linalg.eigh(moments.xx)
        start = (vectors * np.maximum(values, max(floor, 1e-9))) @ vectors.T
        self.xx = start
        self.b = ridge.floored(normal)
        self.precision = self.prior = 1.0
        scale_xx, scale_xy, _ = moments.scales
        self.variances_xx = np.full(len(self.noisy), 2 * scale_xx**2)
        self.variances_xy = np.full(self.size, 2 * scale_xy**2)

    def sweeps(self) -> Iterator[Floats]:
        """Yield the coefficients after every sweep, without end."""
        while True:
            self._draw_moments()
            self._draw_precision()
            self._draw_coefficients()  # directly after the two draws that integrate them out
            self.prior = _gamma(self.generator, self.size, float(self.b @ self.b))
            self._draw_variances()
            yield self.b

    def _spread(self, xx: Floats, precision: float) -> Floats:
        return np.asarray(xx / precision + np.diag(self.variances_xy))

    def _log_likelihood(self, xx: Floats, precision: float) -> float:
        """Return the log likelihood of the noisy X'y, with the coefficients integrated out.

        It is minus infinity where X'X, shape (columns, columns), is not positive definite.
        """
        try:
            np.linalg.cholesky(xx)
            root = np.linalg.cholesky(self._spread(xx, precision) + xx @ xx / self.prior)
        except np.linalg.LinAlgError:
            return -math.inf
        standard = np.linalg.solve(root, self.moments.xy)
        return float(-np.log(np.diag(root)).sum() - standard @ standard / 2)

    def _draw_coefficients(self) -> None:
        weighted = np.linalg.solve(self._spread(self.xx, self.precision), self.xx)
        information = self.xx @ weighted
        symmetric = (information + information.T) / 2 + self.prior * np.eye(self.size)
        self.b = _normal(self.generator, symmetric, weighted.T @ self.moments.xy)

    def _draw_precision(self) -> None:
        """Take one step of the random walk of the logarithm of the precision."""

        def log_density(precision: float) -> float:
            prior = SHAPE * math.log(precision) - RATE * precision
            return prior + self._log_likelihood(self.xx, precision)

        proposal = self.precision * math.exp(STEP * self.generator.normal())
        log_ratio = log_density(proposal) - log_density(self.precision)
        if math.log(self.generator.random()) < log_ratio:
            self.precision = proposal

    def _draw_moments(self) -> None:
        """Draw X'X by an elliptical slice around the noisy one (Murray, Adams and MacKay 2010)."""
        current = self.xx[self.upper] - self.noisy
        other = self.generator.normal(0.0, np.sqrt(self.variances_xx))
        floor = self._log_likelihood(self.xx, self.precision)
        floor += math.log(self.generator.random())
        angle = self.generator.uniform(0, 2 * math.pi)
        low, high = angle - 2 * math.pi, angle
        for _ in range(200):
            upper = self.noisy + current * math.cos(angle) + other * math.sin(angle)
            proposal = symmetric(upper, self.size)
            if self._log_likelihood(proposal, self.precision) > floor:
                self.xx = proposal
                return
            low, high = (angle, high) if angle < 0 else (low, angle)
            angle = self.generator.uniform(low, high)

    def _draw_variances(self) -> None:
        """Draw the variances of the Laplace noise, given the noise.

        The noise of X'y is drawn first.
        """
        scale_xx, scale_xy, _ = self.moments.scales
        self.variances_xx = self._draw_mixture(self.xx[self.upper] - self.noisy, scale_xx)
        spread, exact = self._spread(self.xx, self.precision), self.xx / self.precision
        gain = np.linalg.solve(spread, exact).T
        middle = self.xx @ self.b
        mean = middle + gain @ (self.moments.xy - middle)
        rest = exact - gain @ exact
        values, vectors = np.linalg.eigh((rest + rest.T) / 2)
        draw = vectors @ (np.sqrt(np.maximum(values, 0)) * self.generator.normal(size=self.size))
        self.variances_xy = self._draw_mixture(self.moments.xy - mean - draw, scale_xy)

    def _draw_mixture(self, noise: Floats, scale: float) -> Floats:
        """Draw variances for `noise`, of any shape.

        1 / variance is inverse Gaussian with mean 1 / (scale |noise|) and shape 1 / scale**2.
        """
        mean = 1 / (scale * np.maximum(np.abs(noise), 1e-9 * scale))
        return np.asarray(1 / np.maximum(self.generator.wald(mean, 1 / scale**2), 1e-300))


def in_units(moments: LaplaceMoments, unit: float) -> LaplaceMoments:
    """Return the moments of targets times `unit`, and so of coefficients times `unit`."""
    xx, xy, yy = moments.scales
    scales = (xx, xy * unit, yy * unit**2)
    return replace(moments, xy=moments.xy * unit, yy=moments.yy * unit**2, scales=scales)


def posterior_mean(
    sampler: Callable[[LaplaceMoments, np.random.Generator], Floats], moments: LaplaceMoments
) -> Floats:
    """Return the mean of the draws of `sampler`, `naive` or `noise_aware`: shape (columns,)."""
    # the release is over, so this costs no budget; the seed follows from the release
    seed = np.random.SeedSequence(np.abs(moments.xy).view(np.uint64).tolist())
    draws = sampler(in_units(moments, UNIT), np.random.default_rng(seed))
    return np.asarray(draws.mean(axis=0)) / UNIT


def _normal(generator: np.random.Generator, precision: Floats, shifted: Floats) -> Floats:
    """Draw from N(precision**-1 shifted, precision**-1), `precision` of shape (size, size)."""
    root = np.linalg.cholesky(precision)
    mean = np.linalg.solve(precision, shifted)
    return np.asarray(mean + np.linalg.solve(root.T, generator.normal(size=len(shifted))))


def _gamma(generator: np.random.Generator, count: int, squares: float) -> float:
    return float(generator.gamma(SHAPE + count / 2, 1 / (RATE + squares / 2)))
