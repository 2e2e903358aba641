"""The exact law of a mechanism's reports, enumerated in rational arithmetic.

For small instances: every report, and its probability given a value, from the channel and the cells
that the mechanism states. The worst ratio of two such laws is e**epsilon by definition.
"""

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, permutations, product

from ldp.mechanisms.base import Catalogued, Mechanism
from ldp.mechanisms.joint_base import claimed_ratio, parts_of, values_of_parts
from ldp.protocol.channel import exact_log
from ldp.protocol.hashing import Value
from ldp.protocol.wire import JointLayout, Kind, pack_joint_report, split_report

Law = Mapping[tuple[int, int], Fraction]
"""(row, payload read as an integer) -> probability; payloads as in `ldp.protocol.wire`."""


MOST_OUTCOMES = 4096
"""Up to so many different reports their whole law is enumerated."""
ROWS = 256


def outcomes(mechanism: Catalogued) -> int:
    """Return how many different reports there are."""
    return math.prod(part.shape.rows * part.layout.outcomes for part in parts_of(mechanism))


def report_law(mechanism: Catalogued, value: Value) -> Law:
    """Return P(report | value) for every possible report; the probabilities add to exactly 1.

    Time and memory: `outcomes(mechanism)`.
    """
    laws = [
        _part_law(part, *part_values) for part, part_values in values_of_parts(mechanism, [value])
    ]
    if not isinstance(mechanism.layout, JointLayout):
        return laws[0]
    layout, header = mechanism.layout, mechanism.header
    law: dict[tuple[int, int], Fraction] = {}
    for outcome in product(*(part.items() for part in laws)):
        data = pack_joint_report(header.to_bytes(), layout, [key for key, _ in outcome])
        row, payload = split_report(data, header, layout)
        probability = math.prod((chance for _, chance in outcome), start=Fraction(1))
        law[row, int.from_bytes(payload, "little")] = probability
    return law


def _part_law(mechanism: Mechanism, value: Value) -> Law:
    rows, columns = mechanism.shape
    law: dict[tuple[int, int], Fraction] = {}
    for row in range(rows):
        for share, touched in mechanism.roundings(value, row):
            for number in mechanism.layout.numbers():
                chance = payload_probability(mechanism, touched, columns, number)
                law[row, number] = law.get((row, number), Fraction(0)) + share * chance / rows
    return law


def worst_ratio(mechanism: Catalogued, values: Sequence[Value]) -> Fraction:
    """Return max over reports and ordered pairs of `values` of P(report | a) / P(report | b)."""
    laws = [report_law(mechanism, value) for value in values]
    return max(law[key] / other[key] for law, other in permutations(laws, 2) for key in law)


def exact_findings(mechanism: Catalogued, values: Sequence[Value]) -> list[str]:
    """Return sentences that refute the mechanism's claim in rational arithmetic (check A); empty
    when nothing does.

    The worst ratio of the values' laws, over all reports where these can be enumerated and else
    over the cells in which two values differ, must not exceed the claimed one; the logarithm of
    that, to 60 digits, must not exceed the epsilon printed, nor that the one asked for.
    """
    claimed = claimed_ratio(mechanism)
    enumerable = outcomes(mechanism) <= MOST_OUTCOMES
    ratio = worst_ratio(mechanism, values) if enumerable else _worst_by_cells(mechanism, values)
    findings = []
    if ratio > claimed:
        findings.append(f"the law's worst ratio is {float(ratio):g}, claimed {float(claimed):g}")
    exact = exact_log(claimed)
    if exact > Decimal(mechanism.cost.epsilon):
        findings.append(f"epsilon is {exact}, printed {mechanism.cost.epsilon!r}")
    parameter = mechanism.parameters().get("epsilon")
    if parameter is not None and exact > Decimal(parameter):
        findings.append(f"epsilon is {exact}, asked for {parameter!r}")
    return findings


def _worst_by_cells(mechanism: Catalogued, values: Sequence[Value]) -> Fraction:
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
                if part.kind in (Kind.INDEX, Kind.SUBSET)
                else part.channel.ratio(len(a - b), len(b - a))
                for a, b in pairs
            )
        worst = max(worst, ratio)
    return worst


def payload_probability(
    mechanism: Mechanism, touched: Sequence[int], columns: int, number: int
) -> Fraction:
    """Return P(payload = number), given the row and the cells there that the value touches."""
    channel = mechanism.channel
    if mechanism.kind is Kind.INDEX:
        return channel.touched if number in touched else channel.untouched
    if mechanism.kind is Kind.SIGN:
        (truth,) = touched
        negative = ((number >> 1) & truth).bit_count() & 1
        sign_probability = channel.touched if negative == number & 1 else 1 - channel.touched
        return sign_probability / columns
    if mechanism.kind is Kind.SUBSET:
        (truth,), ones = touched, mechanism.layout.ones
        if number >> truth & 1:
            return channel.touched / math.comb(columns - 1, ones - 1)
        return (1 - channel.touched) / math.comb(columns - 1, ones)
    probability = Fraction(1)
    for column in range(columns):
        of_one = channel.touched if column in touched else channel.untouched
        probability *= of_one if number >> column & 1 else 1 - of_one
    return probability
