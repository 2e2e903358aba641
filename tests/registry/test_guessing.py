"""The number of linked reports that it takes agrees with all sequences and the simulator's
attacker."""

from fractions import Fraction
from itertools import islice, product
from math import erf, exp, log, prod, sqrt

import numpy as np
import pytest

from ldp import (
    CoinResponse,
    CountMeanSketch,
    HadamardCountMeanSketch,
    MemoisedResponse,
    RandomizedResponse,
    Rappor,
    UnaryEncoding,
)
from ldp.errors import ParameterError
from ldp.mechanisms import Mechanism
from ldp.mechanisms.outcomes import outcomes, permanent_outcomes
from ldp.protocol.randomness import SeededBits
from ldp.registry import guessing
from ldp.registry.guessing import Linked, Masses, linked_reports, right_guesses
from ldp.registry.odds import posterior
from ldp.simulation.evidence import FreshEvidence
from tests.statistics import ALPHA, law_p

RESPONSE = RandomizedResponse(categories=("a", "b", "c"), epsilon=1.0)
LETTERS = UnaryEncoding(categories=("a", "b"), epsilon=1.0, variant="optimized")
COINS = CoinResponse(alpha=0.3, beta=0.8)


def masses_of(mechanism: Mechanism) -> Masses:
    return [(float(first), float(second)) for first, second, _ in outcomes(mechanism)[0]]


def laws(mechanism: Mechanism) -> tuple[list[Fraction], list[Fraction]]:
    """Return the probabilities of every report about the first value, and about the second."""
    values = ("yes", "no") if mechanism is COINS else ("a", "b")
    channel, layout = mechanism.channel, mechanism.layout
    first, second = (
        [
            layout.probability(n, mechanism.cells(value, 0), channel.touched, channel.untouched)
            for n in layout.numbers()
        ]
        for value in values
    )
    return first, second


@pytest.mark.exact
@pytest.mark.parametrize("mechanism", [RESPONSE, LETTERS, COINS], ids=lambda m: m.name)
@pytest.mark.parametrize("belief", [0.5, 0.2])
def test_right_guesses_are_those_over_all_sequences_of_reports(
    mechanism: Mechanism, belief: float
) -> None:
    first, second = laws(mechanism)
    shares = right_guesses(masses_of(mechanism), belief)
    for reports in (1, 2, 3, 4):
        sums = []
        for prior in (Fraction(belief), 1 - Fraction(belief)):
            sequences = product(zip(first, second, strict=True), repeat=reports)
            pairs = (map(prod, zip(*sequence, strict=True)) for sequence in sequences)
            sums.append(sum(max(prior * p, (1 - prior) * q) for p, q in pairs))
        assert next(shares) == pytest.approx(float(max(sums)), rel=1e-9)


@pytest.mark.exact
def test_the_number_is_the_least_and_within_what_epsilon_bounds() -> None:
    for mechanism in (RESPONSE, LETTERS, COINS):
        masses = masses_of(mechanism)
        for certainty in (0.8, 0.95, 0.99):
            least = linked_reports(masses, certainty=certainty).reports
            shares = right_guesses(masses)
            *before, last = (next(shares) for _ in range(least))
            assert max(before, default=0.0) < certainty <= last
            assert posterior(0.5, least * mechanism.cost.epsilon) >= certainty


@pytest.mark.exact
def test_a_belief_that_is_certain_enough_needs_no_report() -> None:
    assert linked_reports(masses_of(RESPONSE), belief=0.1, certainty=0.9) == Linked(0)
    for shares in ({"belief": 0.0}, {"belief": 1}, {"certainty": 1.0}, {"certainty": True}):
        with pytest.raises(ParameterError, match="strictly between 0 and 1"):
            linked_reports(masses_of(RESPONSE), **shares)


@pytest.mark.exact
def test_many_reports_are_counted_by_the_normal_law_and_nearly_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For two answers, the exact number is the least odd n with P(Binomial(n, p) > n / 2) above."""
    masses = masses_of(RandomizedResponse(categories=("a", "b"), epsilon=0.5))
    exact = linked_reports(masses)
    assert exact.is_exact
    monkeypatch.setattr(guessing, "MOST_STEPS", 100)
    about = linked_reports(masses)
    assert not about.is_exact
    assert exact.reports <= 1.03 * about.reports <= 1.1 * exact.reports
    gain = (exp(0.01) - 1) / (exp(0.01) + 1)
    masses = masses_of(RandomizedResponse(categories=("a", "b"), epsilon=0.01))
    reports = linked_reports(masses, certainty=0.9).reports
    assert (1 + erf(gain * sqrt(reports / 2))) / 2 == pytest.approx(0.9, abs=0.01)
    for epsilon in (1e-6, 1e-9, 1e-12, 1e-14):  # rounding must not hide a mean of epsilon squared
        masses = [(0.5 + epsilon / 4, 0.5 - epsilon / 4), (0.5 - epsilon / 4, 0.5 + epsilon / 4)]
        needed = (2 * 2.3263 / epsilon) ** 2  # the normal quantile of 0.99
        assert linked_reports(masses).reports == pytest.approx(needed, rel=0.1)


@pytest.mark.exact
def test_a_number_that_is_about_right_is_whole_and_not_rounded_up() -> None:
    """Four answers of one report have 81 classes: their sums are too many after a few reports.

    By the normal law, 10,042,000 reports are enough of two answers at epsilon 0.003.
    """
    letters = ("a", "b", "c")
    mechanisms = [RandomizedResponse(categories=letters, epsilon=e) for e in (1.7, 1.3, 0.9, 0.55)]
    parts = map(masses_of, mechanisms)
    pairs = [[*zip(*some, strict=True)] for some in product(*parts)]
    linked = linked_reports([(prod(first), prod(second)) for first, second in pairs])
    assert str(linked.reports) == "5"
    masses = masses_of(RandomizedResponse(categories=("a", "b"), epsilon=0.003))
    assert linked_reports(masses, certainty=0.999999) == Linked(10_000_000, is_exact=False)


@pytest.mark.exact
@pytest.mark.parametrize(
    ("mechanism", "least"),
    [
        (CountMeanSketch(epsilon=4.0, rows=64, width=64, seed="00"), 4),
        (HadamardCountMeanSketch(epsilon=4.0, rows=64, width=64, seed="00"), 7),
        (Rappor(bits=32, hashes=2, cohorts=8, f=0.5, p=0.25, q=0.75, seed="00"), 22),
        (RandomizedResponse(categories=("a", "b"), epsilon=64.0), 1),
    ],
    ids=lambda setting: getattr(setting, "name", ""),
)
def test_known_numbers_of_published_settings(mechanism: Mechanism, least: int) -> None:
    assert linked_reports(masses_of(mechanism)) == Linked(least)


@pytest.mark.exact
def test_a_permanent_response_has_masses_of_its_own() -> None:
    memoised = MemoisedResponse(categories=("a", "b", "c"), epsilon=1.0, lifetime_epsilon=2.0)
    (classes,) = permanent_outcomes(memoised)
    assert [sum(side) for side in zip(*classes, strict=True)][:2] == [1, 1]
    assert max(log(first / second) for first, second, _ in classes) == pytest.approx(2.0)
    plain = Rappor(bits=4, f=0.0, p=0.25, q=0.75, seed="00")
    with pytest.raises(ParameterError, match="without noise"):
        permanent_outcomes(plain)


@pytest.mark.statistical
@pytest.mark.parametrize("is_wrong", [False, True])
def test_the_simulators_attacker_is_right_as_often(is_wrong: bool) -> None:
    """There are four reports of each of 4,000 people; the attacker of `ldp.simulation` guesses by
    likelihood.

    The twin sends three reports more. This fails falsely with probability ALPHA.
    """
    people, reports = 4000, 4
    generator, encoder = np.random.default_rng(3), RESPONSE.encoder(SeededBits(b"linked"))
    held = generator.integers(2, size=people)
    evidence = FreshEvidence(RESPONSE, ("a", "b"), people)
    for _ in range(reports + 3 * is_wrong):
        payloads = [[encoder.encode("ab"[value])[-1]] for value in held]
        rows = np.zeros(people, dtype=np.uint32)
        evidence.add(np.arange(people), rows, np.array(payloads, dtype=np.uint8))
    scores = np.round(evidence.log_likelihoods(), 9)
    ties = scores[:, 0] == scores[:, 1]
    guesses = np.where(ties, generator.integers(2, size=people), scores.argmax(axis=1))
    *_, share = islice(right_guesses(masses_of(RESPONSE)), reports)
    p_value = law_p((guesses == held).astype(np.int64), {1: share, 0: 1 - share})
    assert (p_value < ALPHA) == is_wrong
