"""Decoys: strings that nobody holds, decoded like candidates, to count false discoveries.

A hash is a random function, so decoys are exchangeable with candidates that nobody holds, through
every step of a decoder: the share of decoys that pass is an estimate of the share of absent
candidates that do, also where strings are missing from the list and no error rate is promised.
Sources: target-decoy counting (Elias and Gygi 2007); knockoffs of a known law (Candès et al. 2018).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldp.arrays import Floats
from ldp.decoding import decode
from ldp.errors import DecodeError, ParameterError
from ldp.mechanisms.addressing import Identity
from ldp.tables.estimates import Bounds, Estimates
from ldp.tables.table import Table

MOST_DECOYS = 1_000_000


@dataclass(frozen=True)
class FirstBounds:
    """Intervals of the first `candidates` candidates of `bounds`."""

    bounds: Bounds
    candidates: int

    def __call__(self, miss: float, population: bool) -> tuple[Floats, Floats]:
        low, high = self.bounds(miss, population)
        return low[: self.candidates], high[: self.candidates]


def decode_with_decoys(
    table: Table, candidates: Sequence[str] | None = None, *, decoys: int, **settings: Any
) -> Estimates:
    """Return `decode(table, candidates, **settings)` with `decoys` decoys on the list, which are
    left out of the result. Its `details` hold their number, "decoys", and the number of those with
    a p-value as small as a discovered candidate's, "decoys_discovered".

    Raises ParameterError for a number that is not 1 to a million, and DecodeError where candidates
    are not hashed.
    """
    if type(decoys) is not int or not 1 <= decoys <= MOST_DECOYS:
        raise ParameterError(f"decoys must be a whole number, 1 to {MOST_DECOYS:,}")
    if isinstance(table, Table) and isinstance(table.mechanism.candidate_addressing, Identity):
        raise DecodeError("decoys are for hashed candidates; these have cells of their own")
    listed = tuple(candidates if candidates is not None else table.dictionary or ())
    names = tuple(f"\0decoy {number}" for number in range(decoys)) if listed else ()
    both = decode(table, (*listed, *names), **settings)
    first, rest = slice(0, len(listed)), slice(len(listed), None)
    estimates = replace(
        both,
        values=both.values[first],
        count=both.count[first],
        std_error=both.std_error[first],
        p_value=both.p_value[first],
        bounds=both.bounds and FirstBounds(both.bounds, len(listed)),
        sum_std_error=None,  # that of both together
    )
    if estimates.rule.threshold is not None:
        is_discovered = both.count[rest] >= estimates.rule.threshold
    else:
        largest = estimates.p_value[estimates.detected()].max(initial=-1.0)
        is_discovered = both.p_value[rest] <= largest
    numbers = {"decoys": decoys, "decoys_discovered": int(np.count_nonzero(is_discovered))}
    return replace(estimates, details={**both.details, **numbers})
