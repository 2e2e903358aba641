"""Differentially private linear regression, with a trusted curator."""

from ldp.central.regression.calibration import (
    Budget,
    Fit,
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
from ldp.central.regression.rows import Rows
from ldp.regression.bounds import Bounds
from ldp.regression.moments import Moments, Scales

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
