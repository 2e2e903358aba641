"""The exact law of a mechanism's reports, enumerated in rational arithmetic.

For small instances: every report, and its probability given a value, from the channel and the cells
that the mechanism states. The worst ratio of two such laws is e**epsilon by definition.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import permutations

from ldp.mechanisms.base import Mechanism, Value
from ldp.wire import Kind

Law = Mapping[tuple[int, int], Fraction]
"""(row, payload read as an integer) -> probability; payloads as in `ldp.wire.Layout`."""


def outcomes(mechanism: Mechanism) -> int:
    """How many different reports there are."""
    return mechanism.shape.rows * mechanism.layout.payload_limit


def report_law(mechanism: Mechanism, value: Value) -> Law:
    """P(report | value) for every possible report; the probabilities add to exactly 1.

    Time and memory: `outcomes(mechanism)`.
    """
    rows, columns = mechanism.shape
    law: dict[tuple[int, int], Fraction] = {}
    for row in range(rows):
        touched = mechanism.cells(value, row)
        for number in range(mechanism.layout.payload_limit):
            law[row, number] = _probability(mechanism, touched, columns, number) / rows
    return law


def worst_ratio(mechanism: Mechanism, values: Sequence[Value]) -> Fraction:
    """max over reports and ordered pairs of `values` of P(report | a) / P(report | b)."""
    laws = [report_law(mechanism, value) for value in values]
    return max(law[key] / other[key] for law, other in permutations(laws, 2) for key in law)


def _probability(
    mechanism: Mechanism, touched: tuple[int, ...], columns: int, number: int
) -> Fraction:
    """P(payload = number), given the row and the cells there that the value touches."""
    channel = mechanism.channel
    if mechanism.kind is Kind.INDEX:
        return channel.touched if number in touched else channel.untouched
    if mechanism.kind is Kind.SIGN:
        (truth,) = touched
        negative = ((number >> 1) & truth).bit_count() & 1
        told = channel.touched if negative == number & 1 else 1 - channel.touched
        return told / columns
    probability = Fraction(1)
    for column in range(columns):
        one = channel.touched if column in touched else channel.untouched
        probability *= one if number >> column & 1 else 1 - one
    return probability
