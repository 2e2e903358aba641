"""Coordinate descent, compiled."""

import math
from typing import Any

from ldp.bulk.compiled import compiled, lanes

NEGLIGIBLE = 1e-9
"""Least coefficient, in standard errors of its column alone, so that rounding, which differs from
machine to machine, does not decide which of equal columns are in the fit."""
SWEEPS = 1_000


@compiled()
def descend(gram: Any, gradient: Any, coefficients: Any, penalties: Any, exact: float) -> None:
    """Minimise b gram b / 2 - b products + penalty sum of sqrt(gram_jj) b over b >= 0, in place, by
    coordinate descent. `gram`: shape (columns, columns); `gradient` = products - gram b."""
    for _ in range(SWEEPS):
        moved = 0.0
        for j in range(coefficients.size):
            length = math.sqrt(gram[j, j])
            minimum = max(0.0, coefficients[j] + (gradient[j] / length - penalties[j]) / length)
            if minimum * length < NEGLIGIBLE:
                minimum = 0.0
            step = minimum - coefficients[j]
            if step != 0.0:
                coefficients[j] = minimum
                for i in lanes(gradient.size):
                    gradient[i] -= step * gram[j, i]
                moved = max(moved, abs(step) * length)
        if moved < exact:
            break
