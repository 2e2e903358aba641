"""Cheats that show on some of the values that people have, or after some: the audit refutes them.
The twins are the same encoders without a cheat. Bits are seeded, so results repeat."""

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from ldp.audit.counts import checks_by_number, checks_by_two, sum_checks
from ldp.audit.judging import Checks, first_finding, judge, size_of
from ldp.audit.values import drawn_values
from ldp.audit.verdict import ALPHA as AUDIT_ALPHA
from ldp.audit.verdict import encoder_stages, way_stages
from ldp.mechanisms import (
    HierarchicalHistogram,
    JointReport,
    PrivSet,
    RandomizedResponse,
)
from ldp.protocol.randomness import SeededBits
from tests.statistics import ALPHA, chance_missed

ASKED = RandomizedResponse(categories=("no", "yes"), epsilon=1.0)
JOINT = JointReport(of=(ASKED, ASKED))
LATENCY = HierarchicalHistogram(epsilon=1.0, bounds=(0.0, 1000.0), buckets=32, branching=2)
SYMPTOMS = PrivSet(categories=tuple("abcdefgh"), at_most=3, epsilon=1.0, size=2)
MANY = PrivSet(categories=tuple(f"c{i}" for i in range(86)), at_most=3, epsilon=1.0, size=2)
CITIES = RandomizedResponse(categories=tuple("abcdef"), epsilon=1.0)
LISTS = JointReport(of=(replace(CITIES, epsilon=0.1), replace(CITIES, epsilon=0.1)))
TRIALS = 3000
Encode = Callable[[Any], bytes]
Cheat = Callable[[Encode, Any], Encode]


def clear_where(condition: Callable[[Any], bool]) -> Cheat:
    """Return the cheat that reports these values nearly without noise."""

    def cheat(honest: Encode, mechanism: Any) -> Encode:
        strong: Any = (
            JointReport(of=tuple(replace(one, epsilon=12.0) for one in mechanism.of))
            if isinstance(mechanism, JointReport)
            else replace(mechanism, epsilon=12.0)
        )
        clear, size = strong.encoder(SeededBits(b"clear")), len(mechanism.header)

        def encode(value: Any) -> bytes:
            is_clear = condition(value)
            return mechanism.header + clear.encode(value)[size:] if is_clear else honest(value)

        return encode

    return cheat


def lie_names_the_value_before(honest: Encode, mechanism: Any) -> Encode:
    """Of one column a report; the last byte is the column."""
    before, point = mechanism.categories[0], mechanism.addressing.point

    def encode(value: Any) -> bytes:
        nonlocal before
        report, last, before = honest(value), before, value
        is_lie = report[-1] != point(value) and last != value
        return report[:-1] + bytes([point(last)]) if is_lie else report

    return encode


CHEATS: dict[str, tuple[Any, Cheat]] = {
    "unequal answers": (JOINT, clear_where(lambda pair: pair[0] != pair[1])),
    "no edge of a bin": (LATENCY, clear_where(lambda number: number % 31.25 != 0)),
    "negative numbers": (LATENCY, clear_where(lambda number: number < 0)),
    "five answers or more": (SYMPTOMS, clear_where(lambda answers: len(answers) > 4)),
    "the value before": (CITIES, lie_names_the_value_before),
}


def checks_of(mechanism: Any, encode: Encode) -> list[Checks]:
    stages = way_stages(mechanism, encode, TRIALS, np.random.default_rng(0))
    return [*chain.from_iterable(stages)]


@pytest.mark.statistical
@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_on_values_that_people_have_is_refuted(name: str) -> None:
    """Fresh noise would miss one, with the same values tried again, with probability ALPHA at
    most."""
    mechanism, cheat = CHEATS[name]
    encode = cheat(mechanism.encoder(SeededBits(b"device")).encode, mechanism)
    assert chance_missed(checks_of(mechanism, encode), AUDIT_ALPHA) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", [JOINT, LATENCY, SYMPTOMS, CITIES, MANY, LISTS])
def test_the_honest_encoder_of_each_cheat_passes(mechanism: Any) -> None:
    """False failure: AUDIT_ALPHA each. The twins are the cheats above. Sets of MANY answers have
    too many choices for their whole law; the parts of LISTS name a column each, so that lies of
    one part are not independent."""
    checks = checks_of(mechanism, mechanism.encoder(SeededBits(b"device")).encode)
    assert judge(checks, AUDIT_ALPHA).passed


@pytest.mark.exact
def test_values_beyond_those_that_a_mechanism_is_made_for_are_drawn() -> None:
    generator = np.random.default_rng(1)
    numbers: Any = drawn_values(LATENCY, generator)
    assert min(numbers) < 0
    assert max(numbers) > 1e6
    assert any(0 < number < 1 for number in numbers)
    sizes = [len(answers) for answers in drawn_values(MANY, generator)]  # type: ignore[arg-type]
    assert max(sizes) > 80
    assert sum(size <= 3 for size in sizes) > 60
    assert len(drawn_values(JOINT, generator)) == 4


@pytest.mark.statistical
def test_two_numbers_are_looked_at_together() -> None:
    """What is seen depends on whether both have one parity, and on neither alone. False failure of
    the first: AUDIT_ALPHA; the second misses with less."""
    generator = np.random.default_rng(2)
    left, right = generator.integers(64, size=(2, 20_000))
    seen = generator.random(left.size) < np.where(left % 2 == right % 2, 0.7, 0.3)
    for number in (left, right):
        assert judge([*checks_by_number("seen", seen, number, 64, 0.5)], AUDIT_ALPHA).passed
    checks = [*checks_by_two("seen", seen, (left, 64), (right, 64), 0.5)]
    assert chance_missed(checks, AUDIT_ALPHA) < ALPHA


@pytest.mark.statistical
def test_all_checks_together_fail_as_often_as_alpha_says() -> None:
    """2,000 audits of an honest coin, at alpha .2. False failure: ALPHA. The twin is judged at
    three times that."""
    generator, alpha, audits = np.random.default_rng(3), 0.2, 2000

    def failures(at: float) -> int:
        return sum(not judge(_coins(generator), at).passed for _ in range(audits))

    most = binom.isf(ALPHA, audits, alpha)
    assert failures(alpha) <= most < failures(3 * alpha)


def _coins(generator: np.random.Generator) -> list[Checks]:
    """Return the checks of sums and counts of fair coins, thrown 10,000 times each."""
    counts = generator.binomial(10_000, 0.5, 100)
    trials, half = np.full(counts.size, 10_000), np.full(counts.size, 0.5)
    sums = [sum_checks("sum", counts[i : i + 1], trials[i : i + 1], 0.5) for i in range(2)]
    return [*sums, ("counts", counts[2:], trials[2:], half[2:])]


@pytest.mark.statistical
def test_an_audit_can_stop_at_its_first_finding() -> None:
    """With the size of the honest audit the first stage refutes a cheat, and later ones are not
    made; the honest encoder passes all, but with AUDIT_ALPHA."""
    mechanism, cheat = CHEATS["the value before"]
    honest = [*encoder_stages(mechanism, TRIALS)]
    size = size_of([*chain.from_iterable(honest)])
    assert first_finding(honest, AUDIT_ALPHA, size) is None
    encode = cheat(mechanism.encoder(SeededBits(b"device")).encode, mechanism)
    stages = way_stages(mechanism, encode, TRIALS, np.random.default_rng(0))
    assert first_finding(stages, AUDIT_ALPHA, size) is not None
    assert len([*stages]) == 1
