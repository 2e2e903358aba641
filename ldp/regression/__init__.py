"""Regressions over arrays: least squares, forward selection, the lasso. Knows no mechanism."""

from ldp.regression.lasso import nonnegative_lasso
from ldp.regression.least_squares import Design, Fit, forward_selection, least_squares

__all__ = ["Design", "Fit", "forward_selection", "least_squares", "nonnegative_lasso"]
