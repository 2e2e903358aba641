"""Coefficients from noisy moments: ridges for a noisy X'X that is nearly singular.

The functions see only released moments and cost nothing. Sources: Vu and Slavkovic 2009 (SSP); Wang
2018 (adaSSP); Piazza 2021 (adaSSPbudget, constSSPfull).
"""

import math

import numpy as np

from ldp.arrays import Floats
from ldp.regression.noisy_moments import Moments

NORMAL_975 = 1.959963984540054
FAILURE = 0.05
"""Probability that the noise of X'X is longer than the safe ridge."""


def none(moments: Moments) -> Floats:
    """Return the coefficients without a ridge (SSP). They are arbitrary where noise made X'X
    singular."""
    return constant(moments, 0.0)


def safe(moments: Moments) -> Floats:
    """Return the coefficients with the ridge that noise exceeds in 5 % of the releases
    (constSSPfull)."""
    return constant(moments, safe_ridge(len(moments.xy), moments.scales.xx))


def adaptive(moments: Moments) -> Floats:
    """Return the coefficients with the safe ridge less the smallest eigenvalue of X'X, as released,
    with 97.5 % confidence (adaSSP)."""
    assert moments.eigenvalue is not None
    present = max(0.0, moments.eigenvalue - NORMAL_975 * moments.scales.eigenvalue)
    safe_length = safe_ridge(len(moments.xy), moments.scales.xx)
    return constant(moments, max(0.0, safe_length - present))


def spectral(moments: Moments) -> Floats:
    """Return the coefficients with a ridge of the usual length of the noise of X'X: less than the
    safe one, and unstable where X'X is hardly more than noise."""
    return constant(moments, noise_length(len(moments.xy), moments.scales.xx))


def floored(moments: Moments) -> Floats:
    """Return the coefficients with a ridge of its own for every direction (our default).

    With w an eigenvalue of the noisy X'X and f the length of its noise, the eigenvalue used is

        s = (w + sqrt(w**2 + 4 f**2)) / 2,

    so that the ridge is f**2 / s: little where X'X is above its noise, f at w = 0, and large enough
    below that s is positive. The matrix S of these eigenvalues minimises |S - noisy X'X|**2 / 2 -
    f**2 ln det S: it is the most probable X'X under normal noise and a prior of the Wishart kind.
    """
    return solved(moments.xx, moments.scales.xx, moments.xy)


def solved(xx: Floats, scale: float, xy: Floats) -> Floats:
    """Return S**-1 xy, shape (columns,), with the S of `floored` for a noisy X'X, `xx`, whose noise
    has this `scale`."""
    values, vectors = np.linalg.eigh(xx)
    floor = noise_length(len(xx), scale)
    s = (values + np.sqrt(values**2 + 4 * floor**2)) / 2
    # the same without cancellation where a value is far below 0
    s = np.where(values < 0, floor**2 / np.maximum(s - values, floor), s)
    return np.asarray(vectors @ ((vectors.T @ xy) / s))


def constant(moments: Moments, ridge: float) -> Floats:
    """Return (X'X + ridge)**-1 X'y of the noisy moments: shape (columns,)."""
    xx, xy = moments.xx + ridge * np.eye(len(moments.xy)), moments.xy
    try:
        return np.asarray(np.linalg.solve(xx, xy), float)
    except np.linalg.LinAlgError:  # exactly singular: only without noise
        return np.asarray(np.linalg.pinv(xx) @ xy, float)


def noise_length(columns: int, scale: float) -> float:
    """Return about the largest eigenvalue of noise of `scale` on X'X: sqrt(2 columns) scale."""
    return math.sqrt(2 * columns) * scale


def safe_ridge(columns: int, scale: float) -> float:
    """Return sqrt(columns ln(2 columns**2 / FAILURE)) scale: the noise of X'X is longer with
    probability FAILURE at most (Wang 2018, after Tropp's matrix Bernstein inequality)."""
    return math.sqrt(columns * math.log(2 * columns**2 / FAILURE)) * scale
