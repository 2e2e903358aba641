"""Encoders that cheat, made from an honest one: an audit that does not catch them proves little.

They work on the bytes of any mechanism's reports. So every subject of an audit is tried with them.
`tests/mutants.py` has many more cheats, each for a single mechanism.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from ldp.audit.encoder import encoder_checks
from ldp.audit.judging import findings_of, size_of
from ldp.mechanisms import CatalogueMechanism
from ldp.mechanisms.joint_base import values_of_parts
from ldp.protocol.hashing import Value
from ldp.protocol.kinds import Index

Encode = Callable[[Value], bytes]
TRIALS = 2000
"""Largest number of reports of each value in which a cheat must be caught."""


def better_of_two(mechanism: CatalogueMechanism, encode: Encode) -> Encode:
    """Return an encoder that draws two reports and sends the one that names more of the value's
    cells."""

    def cheat(value: Value) -> bytes:
        return max(
            (encode(value) for _ in range(2)), key=lambda r: _cells_named(mechanism, value, r)
        )

    return cheat


def repeated_report(mechanism: CatalogueMechanism, encode: Encode) -> Encode:
    """Return an encoder that sends every report about a value twice."""
    reports: dict[Value, bytes] = {}

    def cheat(value: Value) -> bytes:
        if (report := reports.pop(value, None)) is None:
            report = reports[value] = encode(value)
        return report

    return cheat


def row_of_value(mechanism: CatalogueMechanism, encode: Encode) -> Encode:
    """Return an encoder whose row is even or odd by the value, where there are two rows or more."""
    rows = mechanism.layout.rows

    def cheat(value: Value) -> bytes:
        parity = zlib.crc32(repr(value).encode()) & 1
        while True:
            report = encode(value)
            row, _ = mechanism.row_and_payload(report)
            if rows == 1 or row % 2 == parity:
                return report

    return cheat


CHEATS = (better_of_two, repeated_report, row_of_value)


def cheats_caught(
    mechanism: CatalogueMechanism, values: Sequence[Value], trials: int, alpha: float
) -> Mapping[str, bool]:
    """Return for each cheat, by its name, whether the checks of `trials` reports (at most TRIALS)
    of any value refute it. A cheat that needs rows is left out where there is only one row."""
    encode = mechanism.encoder().encode
    caught = {}
    for cheat in CHEATS if mechanism.layout.rows > 1 else CHEATS[:-1]:
        cheating = cheat(mechanism, encode)
        caught[cheat.__name__] = False
        for value in values:
            checks = encoder_checks(mechanism, (value,), cheating, min(trials, TRIALS))
            if any(findings_of(checks, alpha / len(values), size_of(checks))):
                caught[cheat.__name__] = True
                break
    return caught


def _cells_named(mechanism: CatalogueMechanism, value: Value, report: bytes) -> Fraction:
    """Return how many of the cells that the value touches a report names."""
    row, payload = mechanism.row_and_payload(report)
    score = Fraction(0)
    parts = zip(
        values_of_parts(mechanism, [value]), mechanism.layout.split(row, payload), strict=True
    )
    for (part, (part_value,)), (part_row, part_payload) in parts:
        number = part.layout.payload_number(part_payload)
        for share, cells in part.roundings(part_value, part_row):
            if isinstance(part.layout, Index):
                score += share * (number in cells)
            else:
                score += share * sum(part.layout.names(number, cell) for cell in cells)
    return score
