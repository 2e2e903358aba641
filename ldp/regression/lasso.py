"""The non-negative lasso, down to the level of the noise.

Source: Tibshirani 1996; the end of the path is the universal threshold of Donoho and Johnstone
1994: with unit noise hardly a column enters by chance above sqrt(2 ln n) times its length.
"""

import math

import numpy as np

from ldp.arrays import Floats, Places


def nonnegative_lasso(columns: Floats, target: Floats) -> Places:
    """Return the columns with a positive coefficient in the minimum over b >= 0 of
    |columns b - target|**2 / 2 + lambda |b|_1, where lambda = sqrt(2 ln n) times the largest length
    of a column and the equations have unit variance: `columns`, shape (equations, n)."""
    from sklearn.linear_model import Lasso

    equations, n = columns.shape
    longest = float(np.sqrt((columns**2).sum(axis=0).max()))
    penalty = math.sqrt(2 * math.log(max(2, n))) * longest
    # scikit-learn minimises |..|**2 / (2 equations) + alpha |b|_1
    model = Lasso(
        alpha=penalty / equations, positive=True, fit_intercept=False, max_iter=20_000, tol=1e-6
    )
    model.fit(columns, target)
    return np.flatnonzero(model.coef_ > 0)
