"""Regressions over arrays: least squares, the lasso, and the lasso without bias.

`PrivateLinearRegression` (`ldp.central.regression`) is imported at first use: it needs
scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ldp.regression.least_squares import least_squares, nonnegative_lasso

if TYPE_CHECKING:
    from ldp.central.regression import PrivateLinearRegression as PrivateLinearRegression

__all__ = ["PrivateLinearRegression", "least_squares", "nonnegative_lasso"]


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


def __getattr__(name: str) -> Any:
    if name != "PrivateLinearRegression":
        raise AttributeError(f"module 'ldp.regression' has no attribute {name!r}")
    return getattr(import_module("ldp.central.regression"), name)
