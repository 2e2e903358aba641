"""The exact law of a mechanism's reports, enumerated in rational arithmetic.

For small instances it has every report, and its probability given a value, from the channel and the
cells that the mechanism states. The worst ratio of two such laws is e**epsilon by definition.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, permutations, product
from typing import Any

from ldp.errors import ParameterError
from ldp.mechanisms.base import CatalogueMechanism, Mechanism
from ldp.mechanisms.joint_base import claimed_ratio, parts_of, values_of_parts
from ldp.protocol.channel import exact_log
from ldp.protocol.hashing import Value

ReportLaw = Mapping[tuple[int, int], Fraction]
"""(row, payload read as an integer) -> probability; payloads as in `ldp.protocol.wire`."""


MOST_OUTCOMES = 4096
"""Largest number of different reports whose whole law is enumerated."""
ROWS = 256


def number_of_outcomes(mechanism: CatalogueMechanism) -> int:
    """Return the number of different reports."""
    return math.prod(part.shape.rows * part.layout.outcomes for part in parts_of(mechanism))


def exact_law(mechanism: CatalogueMechanism, value: Value) -> ReportLaw:
    """Return P(report | value) for every possible report. The probabilities add to exactly 1,
    unless no report can have this channel (`exact_findings`).

    Time and memory grow with `number_of_outcomes(mechanism)`.
    """
    laws = [
        _part_law(part, part_value) for part, (part_value,) in values_of_parts(mechanism, [value])
    ]
    law: dict[tuple[int, int], Fraction] = {}
    for outcome in product(*(part.items() for part in laws)):
        probability = math.prod((chance for _, chance in outcome), start=Fraction(1))
        law[mechanism.layout.join([key for key, _ in outcome])] = probability
    return law


def _part_law(mechanism: Mechanism, value: Value) -> ReportLaw:
    rows, layout, channel = mechanism.shape.rows, mechanism.layout, mechanism.channel
    law: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for row in range(rows):
        for share, cells in mechanism.roundings(value, row):
            for number in layout.numbers():
                chance = layout.probability(number, cells, channel.touched, channel.untouched)
                law[row, number] += share * chance / rows
    return law


def likelihood(mechanism: Mechanism, cells: Sequence[int], number: int) -> float:
    """Return P(payload | row) as a float, for a value that touches these cells of the row."""
    chances: Any = mechanism.channel.chances
    if not mechanism.kind.is_bitwise:
        # exact: a product of few fractions has few digits
        chances = mechanism.channel.touched, mechanism.channel.untouched
    return float(mechanism.layout.probability(number, cells, *chances))


def worst_ratio(mechanism: CatalogueMechanism, values: Sequence[Value]) -> Fraction:
    """Return max over reports and ordered pairs of `values` of P(report | a) / P(report | b).
    Raises ParameterError for fewer than two values."""
    return _worst_of([exact_law(mechanism, value) for value in values])


def _worst_of(laws: Sequence[ReportLaw]) -> Fraction:
    if len(laws) < 2:
        raise ParameterError("give two values or more")
    return max(law[key] / other[key] for law, other in permutations(laws, 2) for key in law)


def exact_findings(mechanism: CatalogueMechanism, values: Sequence[Value]) -> list[str]:
    """Return sentences that refute the mechanism's claim in rational arithmetic (check A). The list
    is empty when nothing does.

    Where all reports can be enumerated, their probabilities must add to 1 for each value. The worst
    ratio of the values' laws, over all reports where these can be enumerated and else over the
    cells in which two values differ, must not exceed the claimed ratio. The logarithm of the
    claimed ratio, to 60 digits, must not exceed the printed epsilon. The printed epsilon must not
    exceed the requested one.
    """
    claimed = claimed_ratio(mechanism)
    findings = []
    if number_of_outcomes(mechanism) <= MOST_OUTCOMES:
        laws = [exact_law(mechanism, value) for value in values]
        ratio = _worst_of(laws)
        if any(sum(law.values()) != 1 for law in laws):
            findings.append(
                "the probabilities of all reports do not add to 1: where a report is one column, "
                "`touched` and the number of columns fix `untouched`"
            )
    else:
        ratio = _worst_by_cells(mechanism, values)
    if ratio > claimed:
        findings.append(f"the law's worst ratio is {float(ratio):g}, claimed {float(claimed):g}")
    exact = exact_log(claimed)
    if exact > Decimal(mechanism.cost.epsilon):
        findings.append(f"epsilon is {exact}, printed {mechanism.cost.epsilon!r}")
    parameter = mechanism.parameters().get("epsilon")
    if parameter is not None and exact > Decimal(parameter):
        findings.append(f"epsilon is {exact}, asked for {parameter!r}")
    return findings


def _worst_by_cells(mechanism: CatalogueMechanism, values: Sequence[Value]) -> Fraction:
    """Return the worst ratio of two values over the first ROWS rows of every part."""
    worst = Fraction(1)
    for pair in combinations(values, 2):
        ratio = Fraction(1)
        for part, (first, second) in values_of_parts(mechanism, pair):
            pairs = [
                ({*a}, {*b})
                for row in range(min(ROWS, part.shape.rows))
                for _, a in part.roundings(first, row)
                for _, b in part.roundings(second, row)
            ]
            # a report that is one column names a cell of the first value or of the second, not both
            ratio *= max(
                part.channel.ratio(min(1, len(a - b)), 0)
                if part.layout.ones
                else part.channel.ratio(len(a - b), len(b - a))
                for a, b in pairs
            )
        worst = max(worst, ratio)
    return worst
