"""A lower bound on the epsilon of an encoder that is only seen from outside.

The encoder makes many reports of each of two values. An event is chosen on one half of the reports,
and its probabilities are bounded on the other half (Clopper and Pearson 1934). So the bound holds
with the stated confidence whatever the encoder does. For an encoder that keeps its promise the
bound is at most the promised epsilon.
"""

import math
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from ldp.arrays import Ints
from ldp.errors import ParameterError, require_share
from ldp.mechanisms.base import CatalogueMechanism
from ldp.mechanisms.joint_base import values_of_parts
from ldp.protocol.hashing import Value


def epsilon_at_least(
    mechanism: CatalogueMechanism,
    pair: tuple[Value, Value],
    encode: Callable[[Value], bytes],
    *,
    trials: int,
    error: float = 1e-6,
) -> float:
    """Return a lower bound on the encoder's epsilon, wrong with probability `error` at most.

    It uses `trials` reports of each value of `pair`. The events that distinguish two values are
    which of their cells a report names. Raises ReportError for foreign bytes, and ParameterError
    for no trials and an error outside (0, 1).
    """
    require_trials(pair, trials)
    error = require_share(error, "error")
    seen = [
        np.array(
            [_event(mechanism, pair, *r) for r in reports_of(mechanism, [value] * trials, encode)]
        )
        for value in pair
    ]
    return separation(seen, error)


def require_trials(values: Sequence[Value], trials: Any) -> None:
    """Raise ParameterError unless there is a value, and a whole number of trials of each, 1 or
    more: an audit of nothing would pass."""
    if not (len(values) and isinstance(trials, Integral) and int(trials) > 0):
        raise ParameterError("an audit needs values, and trials, a whole number, of each")


def reports_of(
    mechanism: CatalogueMechanism, values: Sequence[Value], encode: Callable[[Value], bytes]
) -> list[tuple[int, bytes]]:
    """Return row and payload of a report of each value. Raises ReportError for foreign bytes."""
    return [mechanism.row_and_payload(encode(value)) for value in values]


def separation(seen: Sequence[Ints], error: float, tails: bool = False) -> float:
    """Return a lower bound on the largest ln P(event | one) / P(event | other), which holds with
    probability 1 - `error` or more: seen[0] and seen[1] are numbers >= 0, one for each trial.

    An event is one of the numbers. With `tails` it is all from one number up, or all below it.
    """
    from scipy.special import betainccinv, betaincinv

    trials, numbers = len(seen[0]), 1 + int(max(part.max() for part in seen))
    half = trials // 2

    def counted(part: Ints) -> Ints:
        counts = np.bincount(part, minlength=numbers)
        if not tails:
            return counts
        below = counts.cumsum()
        return np.concatenate([below, part.size - below])

    first_counts = [counted(part[:half]) for part in seen]
    second_counts = [counted(part[half:]) for part in seen]
    n = trials - half

    def bound(counts: Sequence[Ints], first: int, event: int, n: int) -> float:
        more, fewer = int(counts[first][event]), int(counts[1 - first][event])
        low = float(betaincinv(more, n - more + 1, error / 2)) if more else 0.0
        high = float(betainccinv(fewer + 1, n - fewer, error / 2)) if fewer < n else 1.0
        return math.log(low / high) if low > high else 0.0

    options = [(first, event) for first in (0, 1) for event in range(first_counts[0].size)]
    first, event = max(options, key=lambda option: bound(first_counts, option[0], option[1], half))
    return bound(second_counts, first, event, n)


def _event(
    mechanism: CatalogueMechanism, pair: tuple[Value, Value], row: int, payload: bytes
) -> int:
    event = 0
    mechanism.layout.payload_number(payload)
    split = mechanism.layout.split(row, payload)
    for (part, part_values), (part_row, part_payload) in zip(
        values_of_parts(mechanism, pair), split, strict=True
    ):
        number = int.from_bytes(part_payload, "little")
        first, second = (set(part.cells(value, part_row)) for value in part_values)
        for cells in (first - second, second - first):
            event *= 1 + len(cells)
            event += sum(part.layout.names(number, cell) for cell in cells)
    return event
