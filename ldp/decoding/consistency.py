"""Consistent counts, at least 0 or adding up: an option after decoding, never the default.

Unbiased estimates may lie below 0 and need not add up. Making them consistent lowers the error of
the whole list, raises the error of its largest counts, and biases each. Intervals, p-values and
discoveries stay those of the unbiased estimates. Sources: Wang et al., NDSS 2020 (arXiv
1905.08320), Base-Pos and Norm-Sub.
"""

import math
from dataclasses import replace

import numpy as np

from ldp.arrays import Floats
from ldp.errors import DecodeError, require_one_of
from ldp.files import counted
from ldp.tables.estimates import Estimates

CONSISTENCIES = ("none", "non-negative", "sum-to-n")


def consistent(estimates: Estimates, how: str) -> Estimates:
    """Return the estimates with counts to print as `how` says, and the bias in `details`.

    "non-negative": counts below 0 become 0. "sum-to-n": the nearest counts, in least squares, that
    are 0 or more and add to the number of reports. It is for lists of all values, because the
    reports of other values are added to those on the list. "none": unbiased. Raises ParameterError
    for anything else, and DecodeError for no candidates.
    """
    require_one_of(how, CONSISTENCIES, "consistency")
    by_bound = estimates.bounded
    again = by_bound and (lambda: consistent(by_bound(), how))
    if how == "none":
        return replace(estimates, projected=None, bounded=again)
    raw, n = estimates.count, estimates.reports
    if how == "sum-to-n" and "at_most" in estimates.details:
        raise DecodeError("counts of sets of answers add to no known number: use non-negative")
    if how == "non-negative":
        counts = np.maximum(raw, 0.0)
        # E max(0, Z) of a normal Z
        too_many = estimates.noise / math.sqrt(2 * math.pi)
        bias = f"a value that nobody holds is given {counted(too_many, 'report')} on average"
    else:
        if not raw.size:
            raise DecodeError("there are no counts to add up")
        shift = simplex_shift(raw, n)
        counts = np.maximum(raw - shift, 0.0)
        bias = (
            f"every count was {'lowered' if shift > 0 else 'raised'} by {abs(shift):,.0f} and then "
            "cut at 0: rare values are lost, and reports of values that are not on the list are "
            "given to those that are; the squared error of the whole list falls, that of its "
            "largest counts rises"
        )
    details = {**estimates.details, "consistency": how, "consistency_bias": bias}
    return replace(estimates, projected=counts, details=details, bounded=again)


def simplex_shift(counts: Floats, total: float) -> float:
    """Return the t for which the positive parts of `counts` - t, shape (candidates,), add to
    `total` > 0: the projection on the simplex (Held, Wolfe and Crowder 1974)."""
    falling = np.sort(counts)[::-1]
    shifts = (falling.cumsum() - total) / np.arange(1, falling.size + 1)
    return float(shifts[np.flatnonzero(falling > shifts)[-1]])
