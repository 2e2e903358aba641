"""Regressions over arrays: least squares, the lasso, and it without bias. Knows no mechanism."""

from ldp.regression.lasso import nonnegative_lasso
from ldp.regression.least_squares import Design, Fit, least_squares

__all__ = ["Design", "Fit", "least_squares", "nonnegative_lasso"]
