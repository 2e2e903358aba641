"""Differentially private linear regression, with a trusted curator."""

from ldp.regression.private.calibration import (
    Budget,
    Fit,
    Moments,
    Scales,
    Shares,
    calibrated,
    joint_mu,
)
from ldp.regression.private.estimator import (
    DeltaWarning,
    PrivateLinearRegression,
    SimulationWarning,
)
from ldp.regression.private.methods import METHODS
from ldp.regression.private.rows import Bounds, Rows

__all__ = [
    "METHODS",
    "Bounds",
    "Budget",
    "DeltaWarning",
    "Fit",
    "Moments",
    "PrivateLinearRegression",
    "Rows",
    "Scales",
    "Shares",
    "SimulationWarning",
    "calibrated",
    "joint_mu",
]
