"""Decoys: strings that nobody holds, decoded like candidates, to see how often such are discovered.

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
class First:
    """The intervals of the first `candidates` of those of `bounds`."""

    bounds: Bounds
    candidates: int

    def __call__(self, miss: float, population: bool) -> tuple[Floats, Floats]:
        low, high = self.bounds(miss, population)
        return low[: self.candidates], high[: self.candidates]


def decode_with_decoys(
    table: Table, candidates: Sequence[str] | None = None, *, decoys: int, **settings: Any
) -> Estimates:
    """`decode(table, candidates, **settings)` with so many decoys on the list, which are left out
    of the result: its `details` say how many there were, "decoys", and how many of them have a
    p-value as small as a discovered candidate's, "decoys_discovered".

    Raises ParameterError for a number that is not 1 to a million, and DecodeError where candidates
    are not hashed.
    """
    if type(decoys) is not int or not 1 <= decoys <= MOST_DECOYS:
        raise ParameterError(f"decoys must be a whole number, 1 to {MOST_DECOYS:,}")
    if isinstance(table, Table) and isinstance(table.mechanism.addressing, Identity):
        raise DecodeError("decoys are for hashed candidates; these have cells of their own")
    listed = tuple(candidates if candidates is not None else table.dictionary or ())
    names = tuple(f"\0decoy {number}" for number in range(decoys)) if listed else ()
    both = decode(table, (*listed, *names), **settings)
    own, rest = slice(0, len(listed)), slice(len(listed), None)
    kept = replace(
        both,
        values=both.values[own],
        count=both.count[own],
        std_error=both.std_error[own],
        p_value=both.p_value[own],
        bounds=both.bounds and First(both.bounds, len(listed)),
        sum_std_error=None,  # that of both together
    )
    if kept.rule.threshold is not None:
        passed = both.count[rest] >= kept.rule.threshold
    else:
        largest = kept.p_value[kept.detected()].max(initial=-1.0)
        passed = both.p_value[rest] <= largest
    found = {"decoys": decoys, "decoys_discovered": int(np.count_nonzero(passed))}
    return replace(kept, details={**both.details, **found})
