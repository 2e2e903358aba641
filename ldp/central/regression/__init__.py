"""Differentially private linear regression, with a trusted curator."""

from ldp.central.regression.calibration import Budget, calibrate, joint_mu
from ldp.central.regression.estimator import (
    DeltaWarning,
    PrivateLinearRegression,
    SimulationWarning,
)
from ldp.central.regression.laplace import LaplaceMoments
from ldp.central.regression.methods import METHODS, PURE
from ldp.central.regression.rows import Rows
from ldp.regression.noisy_moments import Moments, Scales

__all__ = [
    "METHODS",
    "PURE",
    "Budget",
    "DeltaWarning",
    "LaplaceMoments",
    "Moments",
    "PrivateLinearRegression",
    "Rows",
    "Scales",
    "SimulationWarning",
    "calibrate",
    "joint_mu",
]
