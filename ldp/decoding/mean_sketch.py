"""The de-biased mean sketch: count mean sketch tables, over any dictionary.

The estimate is Apple's ("Sketch CMS" and "Server CMS", 2017): average the unbiased cells that a
candidate touches over all rows, then take off what collisions add on average. With few rows and
many reports the collisions do not average out: the hash functions are fixed, so their error is a
floor that no number of reports lowers. Its size depends on F2, the sum of squared counts of all
values, which is estimated from the table itself.
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ldp.estimates import Estimates, Floats, Rule
from ldp.hashing import PolynomialRows
from ldp.table import Table

MIN_ROWS = 64
"""Below this the collision error is not close to normal: no p-value, no error rate."""
FEW_ROWS = (
    f"fewer than {MIN_ROWS} rows: collisions do not average out, so no error rate is claimed and "
    "nothing is discovered but by threshold; a regression decoder is recommended"
)


def decode(table: Table, candidates: tuple[str, ...], rule: Rule) -> Estimates:
    """Estimates with the collision error in every standard error.

    With S the sum over rows of the unbiased cells a candidate touches, n reports, k rows and m
    columns: count = m/(m-1) (S - n/m). Time: candidates x rows hashes, about 2 ns each; memory:
    the table and the candidates.
    """
    from scipy.special import ndtr

    mechanism, n = table.mechanism, table.total
    rows, width = mechanism.shape
    held = mechanism.channel.holders(_reported(table, candidates), n)
    count = width / (width - 1) * (held - n / width)
    share = np.clip(count / n, 0, 1)
    squares = sum_of_squares(table)

    def std_error(share: Floats) -> Floats:
        others = np.maximum(squares / n**2 - share**2, 0.0)
        error: Floats = np.sqrt(mechanism.variance(n, share, others))
        return error

    none = std_error(np.zeros(1))[0]
    enough = rows >= MIN_ROWS
    return Estimates(
        values=candidates,
        count=count,
        std_error=std_error(share),
        p_value=ndtr(-count / none) if enough else np.full(count.size, np.nan),
        reports=n,
        noise=float(none),
        rule=rule,
        details={"sum_of_squared_counts": squares} | ({} if enough else {"warning": FEW_ROWS}),
    )


def sum_of_squares(table: Table) -> float:
    """F2, the sum of squared counts of all values, estimated from the cells; floored at 0.

    The expected sum of squared unbiased cells is m n B + n (1 - 1/k) + n**2/(k m)
    + F2 (1 - 1/m)/k, with B the channel's variance for a cell; solve for F2. The sums of squares
    are exact integers, so nothing is lost however large n is.
    """
    rows, width = table.mechanism.shape
    channel = table.mechanism.channel
    squared = reported = 0  # exact: Python integers do not overflow
    for start in range(0, rows, 4096):
        block = table.counts[start : start + 4096].astype(np.int64)
        squared += int(np.einsum("rc,rc->", block, block))
        reported += int(block.sum(axis=1) @ table.reports[start : start + 4096])
    row_squares = sum(int(reports) ** 2 for reports in table.reports)
    q, n = channel.untouched, table.total
    cells = (squared - 2 * q * reported + width * q * q * row_squares) / (
        channel.touched - channel.untouched
    ) ** 2
    held = n * channel.touched * (1 - channel.touched)
    other = (width - 1) * n * q * (1 - q)
    noise = (held + other) / (channel.touched - channel.untouched) ** 2
    excess = cells - noise - n * (1 - Fraction(1, rows)) - Fraction(n * n, rows * width)
    return max(0.0, float(excess * rows / (1 - Fraction(1, width))))


def _reported(table: Table, candidates: tuple[str, ...]) -> NDArray[np.int64]:
    """For each candidate the counts of its cells, summed over the rows."""
    from ldp.kernels import gather, points  # late: numba takes half a second to import

    addressing = table.mechanism.addressing
    assert isinstance(addressing, PolynomialRows)
    return gather(addressing, table.counts, points(addressing, candidates))
