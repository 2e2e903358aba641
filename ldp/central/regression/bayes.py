"""Bayesian linear regression from noisy moments, by Gibbs sampling.

The model is Honkela's and Nieminen's: y | x, b ~ N(x b, 1 / precision), b ~ N(0, I / prior),
precision and prior ~ Gamma(2, 2). `naive` takes the noisy moments for the truth, projected so that
no residual is negative: the model as published. `noise_aware` (after Bernstein and Sheldon 2019)
treats X'X as unknown: given it, X'y integrates out,

    noisy X'y | X'X, b, precision ~ N(X'X b, X'X / precision + noise),

and so does b. X'X moves by elliptical slices, its prior its noisy self with the noise's law, the
precision by a random walk, both with b integrated out; then b is drawn, and the Laplace noise's
variances, an inverse Gaussian each (Park and Casella 2008). y'y is not used. Both see noisy moments
only, and are free. No convergence is assumed: `Draws.drift` compares the halves.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ldp.accounting import Cost
from ldp.arrays import Floats
from ldp.central import Noise
from ldp.central.regression import ridge
from ldp.central.regression.calibration import Budget, Fit
from ldp.central.regression.laplace import LaplaceMoments
from ldp.central.regression.rows import Rows
from ldp.errors import ParameterError

SHAPE = RATE = 2.0
"""Of the Gamma priors."""
SWEEPS = 600
BURN_IN = 150
UNIT = 4.0
"""Mapped targets are multiplied by it, so that priors of mean 1 suit what spreads a quarter."""
STEP = 0.5
"""Of the random walk of the logarithm of the precision."""


@dataclass(frozen=True, eq=False)
class Draws:
    """Posterior draws of the coefficients: shape (draws, columns)."""

    coefficients: Floats

    @property
    def mean(self) -> Floats:
        """Shape (columns,)."""
        return np.asarray(self.coefficients.mean(axis=0))

    @property
    def drift(self) -> float:
        """Largest distance between the means of the two halves, in posterior deviations: above
        some 0.5 the sampler has not forgotten where it began."""
        first, second = np.array_split(self.coefficients, 2)
        spread = np.maximum(self.coefficients.std(axis=0), 1e-300)
        return float(np.max(np.abs(first.mean(axis=0) - second.mean(axis=0)) / spread))


def naive(
    moments: LaplaceMoments,
    generator: np.random.Generator,
    *,
    sweeps: int = SWEEPS,
    public: Rows | None = None,
) -> Draws:
    """The posterior if the projected noisy moments were the moments. `public` rows are fitted with
    a precision of their own, because what is projected and noisy scatters more; rows of the same
    precision are added by `LaplaceMoments.with_public`."""
    sources = [(*projected(moments), moments.rows)]
    if public is not None:
        sources.append((public.xx, public.xy, public.yy, len(public.target)))
    size, prior = len(moments.xy), 1.0
    precisions = np.ones(len(sources))
    kept = []
    for _ in range(sweeps):
        weighted = list(zip(precisions, sources, strict=True))
        information = sum((p * xx for p, (xx, *_) in weighted), prior * np.eye(size))
        shifted = sum((p * xy for p, (_, xy, *_) in weighted), np.zeros(size))
        b = _normal(generator, information, shifted)
        for place, (xx, xy, yy, rows) in enumerate(sources):
            residual = max(0.0, float(yy - 2 * b @ xy + b @ xx @ b))
            precisions[place] = _gamma(generator, rows, residual)
        prior = _gamma(generator, size, float(b @ b))
        kept.append(b)
    return Draws(np.array(kept[min(BURN_IN, sweeps // 2) :]))


def projected(moments: LaplaceMoments) -> tuple[Floats, Floats, float]:
    """X'X, X'y and y'y of the nearest positive semidefinite [[y'y, y'X], [X'y, X'X]]."""
    size = len(moments.xy)
    whole = np.empty((size + 1, size + 1))
    whole[0, 0], whole[0, 1:], whole[1:, 0] = moments.yy, moments.xy, moments.xy
    whole[1:, 1:] = moments.xx
    values, vectors = np.linalg.eigh(whole)
    nearest = (vectors * np.maximum(values, 0)) @ vectors.T
    return nearest[1:, 1:], nearest[0, 1:], float(nearest[0, 0])


def noise_aware(
    moments: LaplaceMoments, generator: np.random.Generator, *, sweeps: int = SWEEPS
) -> Draws:
    """The posterior of the coefficients, the moments' noise taken for what it is."""
    state = _Aware(moments, generator)
    kept = [b for b, _ in zip(state.sweeps(), range(sweeps), strict=False)]
    return Draws(np.array(kept[min(BURN_IN, sweeps // 2) :]))


class _Aware:
    """The chain: X'X, coefficients, precision, prior, and the variances of all noise."""

    def __init__(self, moments: LaplaceMoments, generator: np.random.Generator) -> None:
        self.moments, self.generator = moments, generator
        self.size = len(moments.xy)
        self.upper = np.triu_indices(self.size)
        self.noisy = moments.xx[self.upper]
        floor = ridge.noise_length(moments.as_normal)
        values, vectors = np.linalg.eigh(moments.xx)
        start = (vectors * np.maximum(values, max(floor, 1e-9))) @ vectors.T
        self.xx = start
        self.b = ridge.floored(moments.as_normal)
        self.precision = self.prior = 1.0
        scale_xx, scale_xy, _ = moments.scales
        self.variances_xx = np.full(len(self.noisy), 2 * scale_xx**2)
        self.variances_xy = np.full(self.size, 2 * scale_xy**2)

    def sweeps(self) -> Iterator[Floats]:
        """The coefficients after every sweep, without end."""
        while True:
            self._moments()
            self._precision()
            self._coefficients()  # right after what was drawn without them
            self.prior = _gamma(self.generator, self.size, float(self.b @ self.b))
            self._noise()
            yield self.b

    def _spread(self, xx: Floats, precision: float) -> Floats:
        return np.asarray(xx / precision + np.diag(self.variances_xy))

    def _log_likelihood(self, xx: Floats, precision: float) -> float:
        """Of the noisy X'y, whatever the coefficients; minus infinity where X'X is not positive
        definite."""
        try:
            np.linalg.cholesky(xx)
            root = np.linalg.cholesky(self._spread(xx, precision) + xx @ xx / self.prior)
        except np.linalg.LinAlgError:
            return -math.inf
        standard = np.linalg.solve(root, self.moments.xy)
        return float(-np.log(np.diag(root)).sum() - standard @ standard / 2)

    def _coefficients(self) -> None:
        weighted = np.linalg.solve(self._spread(self.xx, self.precision), self.xx)
        information = self.xx @ weighted
        symmetric = (information + information.T) / 2 + self.prior * np.eye(self.size)
        self.b = _normal(self.generator, symmetric, weighted.T @ self.moments.xy)

    def _precision(self) -> None:
        """One step of a random walk of its logarithm."""

        def log_density(precision: float) -> float:
            own = SHAPE * math.log(precision) - RATE * precision
            return own + self._log_likelihood(self.xx, precision)

        proposed = self.precision * math.exp(STEP * self.generator.normal())
        gained = log_density(proposed) - log_density(self.precision)
        if math.log(self.generator.random()) < gained:
            self.precision = proposed

    def _moments(self) -> None:
        """An elliptical slice around the noisy X'X (Murray, Adams and MacKay 2010)."""
        now = self.xx[self.upper] - self.noisy
        other = self.generator.normal(0.0, np.sqrt(self.variances_xx))
        floor = self._log_likelihood(self.xx, self.precision)
        floor += math.log(self.generator.random())
        angle = self.generator.uniform(0, 2 * math.pi)
        low, high = angle - 2 * math.pi, angle
        for _ in range(200):
            proposed = self._symmetric(self.noisy + now * math.cos(angle) + other * math.sin(angle))
            if self._log_likelihood(proposed, self.precision) > floor:
                self.xx = proposed
                return
            low, high = (angle, high) if angle < 0 else (low, angle)
            angle = self.generator.uniform(low, high)

    def _noise(self) -> None:
        """Variances of the Laplace noise, given the noise; of X'y's after drawing X'y itself."""
        scale_xx, scale_xy, _ = self.moments.scales
        self.variances_xx = self._mixed(self.xx[self.upper] - self.noisy, scale_xx)
        spread, own = self._spread(self.xx, self.precision), self.xx / self.precision
        gain = np.linalg.solve(spread, own).T
        middle = self.xx @ self.b
        mean = middle + gain @ (self.moments.xy - middle)
        left = own - gain @ own
        values, vectors = np.linalg.eigh((left + left.T) / 2)
        drawn = vectors @ (np.sqrt(np.maximum(values, 0)) * self.generator.normal(size=self.size))
        self.variances_xy = self._mixed(self.moments.xy - mean - drawn, scale_xy)

    def _mixed(self, noise: Floats, scale: float) -> Floats:
        """1 / variance ~ inverse Gaussian of mean 1 / (scale |noise|) and shape 1 / scale**2."""
        mean = 1 / (scale * np.maximum(np.abs(noise), 1e-9 * scale))
        return np.asarray(1 / np.maximum(self.generator.wald(mean, 1 / scale**2), 1e-300))

    def _symmetric(self, upper: Floats) -> Floats:
        made = np.zeros((self.size, self.size))
        made[self.upper] = upper
        return np.asarray(made + np.triu(made, 1).T)


@dataclass(frozen=True, kw_only=True)
class Bayes:
    """The posterior mean, from the moments of robust regression; pure epsilon."""

    words: str
    aware: bool
    sweeps: int = SWEEPS

    def fit(
        self,
        rows: Rows,
        budget: Budget,
        noise: Noise,
        *,
        split: float | None,
        eigenvalue_share: float | None,
    ) -> Fit:
        if split is not None or eigenvalue_share is not None:
            raise ParameterError("split and eigenvalue_share are for methods with normal noise")
        moments = LaplaceMoments.released(rows, budget.epsilon, budget.neighbours, noise)
        # after the release anything is free; the seed follows from what was released
        seed = np.random.SeedSequence(np.abs(moments.xy).view(np.uint64).tolist())
        sampler = noise_aware if self.aware else naive
        generator = np.random.default_rng(seed)
        draws = sampler(moments.in_units(UNIT), generator, sweeps=self.sweeps)
        return Fit(draws.mean / UNIT, Cost(epsilon=budget.epsilon, neighbours=budget.neighbours))


def _normal(generator: np.random.Generator, precision: Floats, shifted: Floats) -> Floats:
    """A draw from N(precision**-1 shifted, precision**-1)."""
    root = np.linalg.cholesky(precision)
    mean = np.linalg.solve(precision, shifted)
    return np.asarray(mean + np.linalg.solve(root.T, generator.normal(size=len(shifted))))


def _gamma(generator: np.random.Generator, count: int, squares: float) -> float:
    return float(generator.gamma(SHAPE + count / 2, 1 / (RATE + squares / 2)))
