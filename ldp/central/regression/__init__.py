"""Differentially private linear regression, with a trusted curator."""

from ldp.central.regression.calibration import (
    Budget,
    Fit,
    Moments,
    Scales,
    Shares,
    calibrate,
    joint_mu,
)
from ldp.central.regression.estimator import (
    DeltaWarning,
    PrivateLinearRegression,
    SimulationWarning,
)
from ldp.central.regression.methods import METHODS
from ldp.central.regression.rows import Bounds, Rows

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
    "calibrate",
    "joint_mu",
]
