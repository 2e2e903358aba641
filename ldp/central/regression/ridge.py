"""Coefficients from noisy moments: what is done about a noisy X'X that is nearly singular.

Everything here sees only what was released, and is free. Sources: Vu and Slavkovic 2009 (SSP); Wang
2018 (adaSSP); Piazza 2021 (adaSSPbudget, constSSPfull).
"""

import math
from collections.abc import Callable

import numpy as np

from ldp.arrays import Floats
from ldp.central.regression.calibration import Moments, safe_ridge

Solve = Callable[[Moments], Floats]
NORMAL_975 = 1.959963984540054


def none(moments: Moments) -> Floats:
    """SSP: no ridge at all. Anything may come of a matrix that noise made singular."""
    return constant(moments, 0.0)


def safe(moments: Moments) -> Floats:
    """constSSPfull: the ridge that noise exceeds in 5 % of the releases."""
    return constant(moments, safe_ridge(len(moments.xy), moments.scales.xx))


def adaptive(moments: Moments) -> Floats:
    """adaSSP: the safe ridge less what X'X has itself: its smallest eigenvalue, as released, with
    97.5 % confidence."""
    assert moments.eigenvalue is not None
    present = max(0.0, moments.eigenvalue - NORMAL_975 * moments.scales.eigenvalue)
    wanted = safe_ridge(len(moments.xy), moments.scales.xx)
    return constant(moments, max(0.0, wanted - present))


def spectral(moments: Moments) -> Floats:
    """A ridge of the usual length of the noise of X'X: less than the safe one, and unstable where
    hardly anything but noise is there."""
    return constant(moments, noise_length(moments))


def floored(moments: Moments) -> Floats:
    """Our default: every direction has the ridge that it needs.

    With w an eigenvalue of the noisy X'X and f the length of its noise, the eigenvalue taken is

        s = (w + sqrt(w**2 + 4 f**2)) / 2,

    so that the ridge is f**2 / s: little where X'X stands above its noise, f at w = 0, and whatever
    makes s positive below. The matrix of these minimises |S - noisy X'X|**2 / 2 - f**2 ln det S: it
    is the most probable X'X under normal noise and a prior of the Wishart kind.
    """
    values, vectors = np.linalg.eigh(moments.xx)
    floor = noise_length(moments)
    kept = (values + np.sqrt(values**2 + 4 * floor**2)) / 2
    # the same without cancellation where a value is far below 0
    kept = np.where(values < 0, floor**2 / np.maximum(kept - values, floor), kept)
    return np.asarray(vectors @ ((vectors.T @ moments.xy) / kept))


def constant(moments: Moments, ridge: float) -> Floats:
    """(X'X + ridge)**-1 X'y of the noisy moments."""
    size = len(moments.xy)
    try:
        return np.asarray(np.linalg.solve(moments.xx + ridge * np.eye(size), moments.xy), float)
    except np.linalg.LinAlgError:  # exactly singular: only without noise
        return np.asarray(np.linalg.pinv(moments.xx + ridge * np.eye(size)) @ moments.xy, float)


def noise_length(moments: Moments) -> float:
    """About the largest eigenvalue of the noise of X'X alone: sqrt(2 columns) times its scale."""
    return math.sqrt(2 * len(moments.xy)) * moments.scales.xx
