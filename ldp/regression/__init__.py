"""Regressions over arrays: least squares, the lasso, and the lasso without bias."""

from ldp.regression.least_squares import least_squares, nonnegative_lasso

__all__ = ["least_squares", "nonnegative_lasso"]
