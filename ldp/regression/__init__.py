"""Regressions over arrays: least squares, the lasso, the lasso without bias, randomised outcomes.

`PrivateLinearRegression` (`ldp.central.regression`) is found here too.
"""

from importlib import import_module
from typing import Any

from ldp.errors import from_extra

with from_extra("ldp.regression", "server"):
    from ldp.regression.least_squares import least_squares, nonnegative_lasso
    from ldp.regression.randomized_outcome import OutcomeDesign, RandomizedOutcomeRegression

__all__ = ["OutcomeDesign", "RandomizedOutcomeRegression", "least_squares", "nonnegative_lasso"]


def __getattr__(name: str) -> Any:
    if name != "PrivateLinearRegression":
        raise AttributeError(f"module 'ldp.regression' has no attribute {name!r}")
    return import_module("ldp.central.regression").PrivateLinearRegression
