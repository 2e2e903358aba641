"""An attacker who links reports computes the exact laws, and makes the best guess."""

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ldp import Rappor
from ldp.audit.law import MOST_OUTCOMES, exact_law, number_of_outcomes
from ldp.mechanisms import CATALOGUE, CatalogueMechanism
from ldp.mechanisms.addressing import Rounding
from ldp.mechanisms.base import Example
from ldp.mechanisms.joint_base import parts_of
from ldp.mechanisms.memoisation import MemoisedMechanism
from ldp.protocol.hashing import Value
from ldp.registry.definitions import Memoise
from ldp.registry.odds import posterior
from ldp.simulation import Population
from ldp.simulation.averaging import _Likelihoods, averaging
from ldp.simulation.evidence import FreshEvidence, MemoisedEvidence
from ldp.simulation.linking import linking
from ldp.simulation.longitudinal import Collection
from ldp.simulation.people import ScenarioMetric
from tests.many_days import (
    HASHED,
    PLACE,
    PLACES,
    SHARES,
    forget,
    generator,
    lasting_law,
    metric,
    scenario,
)
from tests.statistics import ALPHA, share_p

EXAMPLES = [example for mechanism in CATALOGUE.values() for example in mechanism.examples()]


ENUMERABLE = [
    example
    for example in EXAMPLES
    if not any(isinstance(part.addressing, Rounding) for part in parts_of(example.mechanism))
    and number_of_outcomes(example.mechanism) <= MOST_OUTCOMES
]


MEMOISED = [example for example in EXAMPLES if isinstance(example.mechanism, MemoisedMechanism)]


BLOOM = Rappor(bits=4, hashes=2, cohorts=2, f=0.25, p=0.1, q=0.9, seed="08")


def named(examples: Sequence[Example]) -> list[Any]:
    return [
        pytest.param(*example, id=f"{i}-{example.mechanism.name}")
        for i, example in enumerate(examples)
    ]


def payloads_of(mechanism: CatalogueMechanism, numbers: Sequence[int]) -> NDArray[Any]:
    size = mechanism.layout.payload_bytes
    data = b"".join(number.to_bytes(size, "little") for number in numbers)
    return np.frombuffer(data, dtype=np.uint8).reshape(-1, size)


@pytest.mark.exact
@pytest.mark.parametrize(("mechanism", "values"), named(ENUMERABLE))
def test_fresh_evidence_is_the_law_of_every_report(
    mechanism: CatalogueMechanism, values: tuple[Value, ...]
) -> None:
    """All possible reports are streams of their own; ln P(report | value) is compared up to a
    constant."""
    laws = [exact_law(mechanism, value) for value in values]
    keys = list(laws[0])
    found = FreshEvidence(mechanism, values, len(keys))
    rows = np.array([row for row, _ in keys], dtype=np.uint32)
    found.add(np.arange(len(keys)), rows, payloads_of(mechanism, [number for _, number in keys]))
    expected = np.log([[float(law[key]) for law in laws] for key in keys])
    told = found.log_likelihoods()
    assert told - told[:, :1] == pytest.approx(expected - expected[:, :1], abs=1e-9)


@pytest.mark.exact
@pytest.mark.parametrize(("mechanism", "values"), named(MEMOISED))
def test_lasting_evidence_is_the_law_of_every_pair_of_reports(
    mechanism: MemoisedMechanism, values: tuple[Value, ...]
) -> None:
    for row in range(mechanism.shape.rows):
        pairs = list(product(mechanism.layout.numbers(), repeat=2))
        found = MemoisedEvidence(mechanism, values, len(pairs), lasts=True)
        for turn in zip(*pairs, strict=True):
            rows = np.full(len(pairs), row, dtype=np.uint32)
            found.add(np.arange(len(pairs)), rows, payloads_of(mechanism, turn))
        expected = np.array(
            [[(lasting_law(mechanism, row, value, pair)) for value in values] for pair in pairs]
        )
        possible = expected.all(axis=1)
        assert possible.any()
        told = np.exp(found.log_likelihoods()[possible])
        assert told == pytest.approx(expected[possible], rel=1e-9)


@pytest.mark.exact
def test_an_epoch_that_ended_counts_as_another_response_to_the_same_value() -> None:
    values = PLACE.categories
    found = MemoisedEvidence(PLACE, values, 1, lasts=False)
    zero = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.uint32)
    found.add(*zero, payloads_of(PLACE, [1]))
    found.end_epoch()
    found.add(*zero, payloads_of(PLACE, [1]))
    expected = [2 * np.log(lasting_law(PLACE, 0, value, [1])) for value in values]
    assert found.log_likelihoods()[0] == pytest.approx(expected)


@pytest.mark.exact
def test_an_attacker_adds_the_reports_of_two_epochs_as_two_responses() -> None:
    metric: Any = SimpleNamespace(
        metric=SimpleNamespace(mechanism=PLACE, memoise="epoch"),
        population=SimpleNamespace(values=PLACE.categories),
    )
    one = np.zeros(1, dtype=np.int64)
    attacked = _Likelihoods(metric, one)
    for epoch in (0, 0, 1):
        rows, payloads = np.zeros(1, dtype=np.uint32), payloads_of(PLACE, [1])
        sent: Any = SimpleNamespace(epoch=epoch, devices=one, rows=rows, payloads=payloads)
        attacked.add(sent)
    laws = [
        [lasting_law(PLACE, 0, value, told) for told in ([1, 1], [1])] for value in PLACE.categories
    ]
    assert attacked.of_people(1)[0] == pytest.approx(np.log(laws).sum(axis=1))


PEOPLE, PAIRS = 10_000, 4_000
"""Numbers of people and pairs of an attack that is compared with an exact figure."""


def three_reports(memoise: Memoise) -> dict[tuple[int, ...], list[float]]:
    """Return P(three reports | each value), by enumeration."""
    numbers = range(len(PLACE.categories))
    laws = [exact_law(PLACE, value) for value in PLACE.categories]
    return {
        three: [
            float(
                lasting_law(PLACE, 0, value, three)
                if memoise
                else math.prod(law[0, number] for number in three)
            )
            for value, law in zip(PLACE.categories, laws, strict=True)
        ]
        for three in product(numbers, repeat=3)
    }


def right_of_three(memoise: Memoise) -> float:
    """Return how often the best guess after three reports is right, exactly."""
    return float(sum(max(SHARES * told) for told in three_reports(memoise).values()))


@pytest.mark.statistical
@pytest.mark.parametrize("memoise", [False, "per-value", "epoch"])
def test_the_averaging_attack_succeeds_as_often_as_the_best_guess_does(memoise: Memoise) -> None:
    """There are three days of 10,000 people; this fails falsely with probability 1e-6.

    By epoch of a year, it is the same as per value.
    """
    epoch = timedelta(days=3650) if memoise == "epoch" else None
    asked = ScenarioMetric(metric=metric(PLACE, memoise=memoise, epoch=epoch), population=PLACES)
    (found,) = averaging(scenario([asked], attacked=PEOPLE), [3], generator(3))["city"]
    exact = right_of_three(memoise)
    hits = round(found.right * PEOPLE)
    assert share_p(hits, PEOPLE, exact, exact) > ALPHA
    price = PLACE.cost.lifetime if memoise else 3 * PLACE.cost.epsilon
    assert found.at_most == pytest.approx(posterior(0.5, price))
    assert found.at_most > exact


@pytest.mark.statistical
def test_devices_that_do_not_memoise_are_guessed_more_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The twin is the same attacker, per value, on devices that draw a response for every report.

    The seed is fixed. The excess is 9.6 standard errors; fewer than the 4.9 needed have probability
    1e-6.
    """
    forget(monkeypatch)
    asked = ScenarioMetric(metric=metric(PLACE, memoise="per-value"), population=PLACES)
    monkeypatch.setattr(Collection, "_charge", lambda self, *_: np.zeros(1))
    (found,) = averaging(scenario([asked], attacked=PEOPLE), [3], generator(3))["city"]
    exact = right_of_three("per-value")
    assert share_p(round(found.right * PEOPLE), PEOPLE, exact, exact) < ALPHA
    assert found.right > exact


def distance(one: Mapping[Any, float], other: Mapping[Any, float]) -> float:
    """Return the distance in total variation."""
    return sum(abs(one[key] - other[key]) for key in one) / 2


def pairs(
    mechanism: MemoisedMechanism, population: Population, memoise: Memoise
) -> list[dict[Any, float]]:
    """Return the exact laws of two reports: of one device, of two people, and of a changing device.

    The first device keeps its value; the value of the third changes.
    """
    shares, values, rows = population.shares, population.values, range(mechanism.shape.rows)
    reports = [(row, number) for row in rows for number in mechanism.layout.numbers()]
    single = {
        (row, number, value): (lasting_law(mechanism, row, value, [number])) / len(rows)
        for row, number in reports
        for value in values
    }
    laws: list[dict[Any, float]] = [{}, {}, {}]
    for first, second in product(reports, repeat=2):
        one = np.array([single[(*first, value)] for value in values])
        other = np.array([single[(*second, value)] for value in values])
        same, moved = np.diag(one * other), np.outer(one, other)
        if memoise == "per-value":
            is_there = first[0] == second[0]
            numbers = [first[1], second[1]]
            together = [
                (lasting_law(mechanism, first[0], value, numbers)) / len(rows) for value in values
            ]
            same = np.diag(np.array(together) * is_there)
            moved = moved * is_there * len(rows)
            cells = [set(mechanism.cells(value, first[0])) for value in values]
            for v, w in product(range(len(values)), repeat=2):
                if cells[v] == cells[w]:
                    moved[v, w] = same[v, v]
        prior = np.outer(shares / (1 - shares), shares)
        np.fill_diagonal(prior, 0.0)
        laws[0][first, second] = float(shares @ np.diag(same))
        laws[1][first, second] = float((shares @ one) * (shares @ other))
        laws[2][first, second] = float((prior * moved).sum())
    return laws


WORDS = Population(("lol", "afk", "brb"), frequencies=SHARES)


LINKED = [(PLACE, PLACES), (BLOOM, WORDS), (HASHED, WORDS)]


@pytest.mark.statistical
@pytest.mark.parametrize("memoise", [False, "epoch", "per-value"])
@pytest.mark.parametrize(("mechanism", "population"), LINKED, ids=["rr", "rappor", "hashing"])
def test_linking_attains_the_distance_in_total_variation(
    mechanism: MemoisedMechanism, population: Population, memoise: Memoise
) -> None:
    """Hits and false alarms of 4,000 pairs of single reports are compared with the exact laws.

    Each bound is 5.5 standard errors of an advantage, so this fails falsely with probability 1e-7.
    """
    laws = pairs(mechanism, population, memoise)
    assert [sum(law.values()) for law in laws] == pytest.approx([1, 1, 1])
    tests = linking(mechanism, population, memoise, 1, people=PAIRS, generator=generator(7))
    for test, other in zip(tests, laws[1:], strict=True):
        assert abs(test.advantage - distance(laws[0], other)) < 5.5 * PAIRS**-0.5 / 2**0.5
    if memoise == "per-value" and mechanism is not HASHED:
        assert tests[0].advantage > distance(*pairs(mechanism, population, False)[:2]) + 0.02


@pytest.mark.statistical
def test_a_fleet_that_does_not_memoise_is_linked_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is the twin of the test above.

    The seed is fixed. The distance is 10.9 standard errors; fewer than the 5.5 needed have
    probability 4e-8.
    """
    laws = pairs(PLACE, PLACES, "per-value")
    forget(monkeypatch)
    person, _ = linking(PLACE, PLACES, "per-value", 1, people=PAIRS, generator=generator(7))
    exact = distance(*laws[:2])
    assert exact - person.advantage > 5.5 * PAIRS**-0.5 / 2**0.5
