"""Cheats that show on some of the values that people have, or after some: `audited` refutes them.
The twins are the same encoders without a cheat."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ldp.audit.verdict import audited
from ldp.mechanisms import (
    HierarchicalHistogram,
    JointReport,
    PrivSet,
    RandomizedResponse,
)
from ldp.mechanisms.base import ReportEncoder

ASKED = RandomizedResponse(categories=("no", "yes"), epsilon=1.0)
JOINT = JointReport(of=(ASKED, ASKED))
LATENCY = HierarchicalHistogram(epsilon=1.0, bounds=(0.0, 1000.0), buckets=32, branching=2)
SYMPTOMS = PrivSet(categories=tuple("abcdefgh"), at_most=3, epsilon=1.0, size=2)
CITIES = RandomizedResponse(categories=tuple("abcdef"), epsilon=1.0)
TRIALS = 2000
Cheat = Callable[[ReportEncoder, Any], Callable[[Any], bytes]]


def clear_where(condition: Callable[[Any], bool]) -> Cheat:
    """Return the cheat that reports these values nearly without noise."""

    def cheat(honest: ReportEncoder, mechanism: Any) -> Callable[[Any], bytes]:
        strong: Any = (
            JointReport(of=tuple(replace(one, epsilon=12.0) for one in mechanism.of))
            if isinstance(mechanism, JointReport)
            else replace(mechanism, epsilon=12.0)
        )
        clear = strong.encoder()

        def encode(value: Any) -> bytes:
            if not condition(value):
                return honest.encode(value)
            report: bytes = mechanism.header + clear.encode(value)[len(mechanism.header) :]
            return report

        return encode

    return cheat


def lie_names_the_value_before(honest: ReportEncoder, mechanism: Any) -> Callable[[Any], bytes]:
    before = mechanism.categories[0]

    def encode(value: Any) -> bytes:
        nonlocal before
        report, last, before = honest.encode(value), before, value
        point = mechanism.addressing.point
        is_lie = report[-1] != point(value) and last != value
        return report[:-1] + bytes([point(last)]) if is_lie else report

    return encode


CHEATS: tuple[tuple[str, Any, Cheat], ...] = (
    ("unequal answers", JOINT, clear_where(lambda pair: pair[0] != pair[1])),
    ("no edge of a bin", LATENCY, clear_where(lambda number: number % 31.25 != 0)),
    ("negative numbers", LATENCY, clear_where(lambda number: number < 0)),
    ("five answers or more", SYMPTOMS, clear_where(lambda answers: len(answers) > 4)),
    ("the value before", CITIES, lie_names_the_value_before),
)


def with_cheat(mechanism: Any, cheat: Cheat) -> Any:
    """Return a mechanism that is like this one but for its encoders."""

    class Encoder:
        def __init__(self, *args: Any, **others: Any) -> None:
            self.encode = cheat(mechanism.encoder(*args, **others), mechanism)

    def encoder(_: Any, *args: Any, **others: Any) -> Any:
        return Encoder(*args, **others)

    kind = type(mechanism.__class__.__name__, (mechanism.__class__,), {"encoder": encoder})
    cheating: Any = object.__new__(kind)
    cheating.__dict__.update(mechanism.__dict__)
    return cheating


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("mechanism", "cheat"), [c[1:] for c in CHEATS], ids=[c[0] for c in CHEATS]
)
def test_a_cheat_on_values_that_people_have_is_refuted(mechanism: Any, cheat: Cheat) -> None:
    """Each tells a value nearly in clear: missed with less than ALPHA. The honest encoder passes,
    but with 2 ALPHA."""
    assert not audited("cheat", with_cheat(mechanism, cheat), TRIALS).passed


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", [JOINT, LATENCY, SYMPTOMS, CITIES])
def test_the_honest_encoder_of_each_cheat_passes(mechanism: Any) -> None:
    """Fails with 2 ALPHA at most; the twins are the cheats above."""

    def honest(encoder: ReportEncoder, _: Any) -> Callable[[Any], bytes]:
        return encoder.encode

    assert audited("honest", with_cheat(mechanism, honest), TRIALS).passed
