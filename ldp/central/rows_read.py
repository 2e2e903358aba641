"""Input of a private release: a private histogram of how the rows of a file were read.

Intervals hold for numbers that were read. A column of texts would count as the middle of its
bounds, and nobody would see it, because an error would reveal a person's row. So a release spends a
part of its epsilon on three counts of rows, and is refused where too few rows are readable.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ldp.accounting import Neighbours
from ldp.central.mechanisms import DiscreteLaplace
from ldp.central.noise import Noise
from ldp.errors import ParameterError
from ldp.protocol.channel import rounded_up

LEAST_SHARE, MOST_SHARE = 0.01, 0.1
"""Least and largest part of epsilon that the histogram costs."""
PRECISE = 0.02
"""Standard error of a count, as a share of the rows, up to which its part of epsilon is raised."""
TELLING = 0.1
"""Largest standard error of a count, as a share of the rows, at which a release can be refused:
then fewer than one in 2,000 files whose rows are all readable is refused."""
LEAST_READABLE = 0.5
"""Share of readable rows below which nothing is released."""


class RowsRead(NamedTuple):
    """Noisy shares of the rows `within_bounds`, with a cell that was `clipped`, and with one that
    is `unreadable`. `std_error`: of each, as a share of the rows. `epsilon`: their cost."""

    within_bounds: float
    clipped: float
    unreadable: float
    std_error: float
    epsilon: float

    @property
    def is_precise(self) -> bool:
        """Return whether the shares are precise enough to decide if a release is refused."""
        return self.std_error <= TELLING

    @property
    def words(self) -> str:
        """The shares as sentences."""
        words = (
            f"Rows, by a private histogram of epsilon {rounded_up(self.epsilon, 6)}: "
            f"{self.within_bounds:.1%} read and within bounds, {self.clipped:.1%} clipped to them, "
            f"{self.unreadable:.1%} unreadable (std. error {self.std_error:.1%})."
        )
        few = " They tell nothing: the rows are too few, or epsilon is too small, for these shares."
        return f"{words}{'' if self.is_precise else few}".replace("%", " %")

    @property
    def summary(self) -> dict[str, Any]:
        """The shares for a program."""
        return {**self._asdict(), "precise": self.is_precise}

    def require(self) -> None:
        """Raise ParameterError, with what was charged, where too few rows are readable."""
        if self.is_precise and 1 - self.unreadable < LEAST_READABLE:
            raise ParameterError(
                f"nothing is released: by a private histogram {100 - 100 * self.unreadable:.1f} % "
                f"of the rows are readable, and {100 * LEAST_READABLE:g} % must be. That cost "
                f"epsilon {rounded_up(self.epsilon, 6)}. Look at how the cells of the columns are "
                "written, and state --decimal, --delimiter or --encoding"
            )


def epsilon_of_rows(epsilon: float, rows: int | None) -> float:
    """Return the part of `epsilon` that the histogram of `rows` costs. It is the least at which a
    count has a standard error of PRECISE times the rows, but at least LEAST_SHARE and at most
    MOST_SHARE of epsilon. It is LEAST_SHARE where the number of rows is not public, None. It and
    the rest add to `epsilon` without rounding. Raises ParameterError for an epsilon out of
    range."""
    if not 1e-9 <= epsilon <= 1e9:
        raise ParameterError(f"epsilon must be from 1e-9 to 1e9, got {epsilon!r}")
    needed = 0.0
    if rows is not None:
        needed = 4 * math.asinh(1 / (math.sqrt(2) * PRECISE * max(rows, 1))) * (1 + 1e-9)
    part = min(max(LEAST_SHARE * epsilon, needed), MOST_SHARE * epsilon)
    step = Fraction(math.ulp(epsilon))
    return float(math.floor(Fraction(part) / step) * step)


def release_rows_read(
    counts: Sequence[int], *, epsilon: float, neighbours: Neighbours, noise: Noise
) -> RowsRead:
    """Return noisy shares of the rows within bounds, clipped and unreadable, whose true `counts`
    these are. Replacing a row changes two counts, adding one changes one. Where rows are added,
    their number is not public, and shares are of the noisy sum."""
    knows_rows = neighbours is not Neighbours.ADD_REMOVE
    rows = sum(counts) if knows_rows else None
    mechanism = DiscreteLaplace(
        epsilon=epsilon_of_rows(epsilon, rows),
        sensitivity=2.0 if knows_rows else 1.0,
        neighbours=neighbours,
    )
    noisy = mechanism.release(np.array(counts, dtype=np.int64), noise).tolist()
    whole = rows or max(1, sum(noisy))
    within, clipped, unreadable = (min(1.0, max(0.0, round(n / whole, 4))) for n in noisy)
    error = mechanism.std_error / whole
    return RowsRead(within, clipped, unreadable, error, mechanism.cost.epsilon)
