"""A lower bound on the epsilon of an encoder that is only seen from outside.

Two values, many reports of each; an event is chosen on one half of the reports and its
probabilities are bounded on the other (Clopper and Pearson 1934), so the bound holds with the
stated confidence whatever the encoder does. An encoder that keeps its promise stays below it.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ldp.mechanisms.base import Mechanism, Value
from ldp.wire import Kind, split_report

EVENTS = 4
"""Whether a report names the first value's cell, and whether the second's."""


def epsilon_at_least(
    mechanism: Mechanism,
    pair: tuple[Value, Value],
    encode: Callable[[Value], bytes],
    *,
    trials: int,
    error: float = 1e-6,
) -> float:
    """An epsilon that the encoder has at least, wrong with probability `error` at most.

    `trials` reports of each value of `pair`. The events that tell two values of a linear channel
    apart are which of their two cells a report names. Raises ReportError for foreign bytes.
    """
    from scipy.stats import beta

    def events(value: Value) -> NDArray[np.int64]:
        return np.array([_event(mechanism, pair, encode(value)) for _ in range(trials)])

    seen = [events(value) for value in pair]
    half = trials // 2
    chosen = [np.bincount(part[:half], minlength=EVENTS) for part in seen]
    kept = [np.bincount(part[half:], minlength=EVENTS) for part in seen]
    n = trials - half

    def bound(counts: Sequence[NDArray[np.int64]], first: int, event: int, n: int) -> float:
        more, fewer = int(counts[first][event]), int(counts[1 - first][event])
        low = float(beta.ppf(error / 2, more, n - more + 1)) if more else 0.0
        high = float(beta.isf(error / 2, fewer + 1, n - fewer)) if fewer < n else 1.0
        return math.log(low / high) if low > high else 0.0

    options = [(first, event) for first in (0, 1) for event in range(EVENTS)]
    first, event = max(options, key=lambda option: bound(chosen, option[0], option[1], half))
    return bound(kept, first, event, n)


def _event(mechanism: Mechanism, pair: tuple[Value, Value], report: bytes) -> int:
    row, payload = split_report(report, mechanism.header, mechanism.layout)
    number = mechanism.layout.payload_number(payload)
    first, second = (
        any(_names(mechanism, number, cell) for cell in mechanism.cells(value, row))
        for value in pair
    )
    return 2 * first + second


def _names(mechanism: Mechanism, number: int, cell: int) -> bool:
    """Whether a payload names a cell: by itself, by its bit, or by its Hadamard sign there."""
    if mechanism.kind is Kind.INDEX:
        return number == cell
    if mechanism.kind is Kind.BITS:
        return bool(number >> cell & 1)
    return (number >> 1 & cell).bit_count() & 1 == number & 1
