"""The bound from outside stays below every honest claim, and rises above a broken one."""

import pytest

from ldp import CountMeanSketch, HadamardCountMeanSketch, RandomizedResponse, UnaryEncoding
from ldp.audit import epsilon_at_least
from ldp.mechanisms import Mechanism
from ldp.mechanisms.base import Example
from ldp.protocol.randomness import SeededBits
from tests.examples import sampling_each_mechanism
from tests.mutants import Mutant, epsilon_doubled, true_cell_never_flipped
from tests.statistics import ALPHA
from tests.tiers import tiered

SUBJECTS = [
    RandomizedResponse(categories=("a", "b", "c"), epsilon=2.0),
    UnaryEncoding(categories=("a", "b", "c"), epsilon=2.0),
    CountMeanSketch(epsilon=2.0, rows=8, width=64, seed="00"),
    HadamardCountMeanSketch(epsilon=2.0, rows=8, width=64, seed="00"),
]


def bound(mechanism: Mechanism, mutant: Mutant | None = None, trials: int = 20_000) -> float:
    bits = SeededBits(b"black box")
    encode = mutant(mechanism, bits) if mutant else mechanism.encoder(bits).encode
    return epsilon_at_least(mechanism, ("a", "b"), encode, trials=trials, error=ALPHA)


@pytest.mark.statistical
@sampling_each_mechanism
def test_an_honest_encoder_stays_below_its_claim(example: Example) -> None:
    """This fails falsely with probability ALPHA; the seed is fixed. The twin is the doubled epsilon
    below."""
    first, *_, second = example.values  # numbers between two steps touch no cell for certain
    encode = example.mechanism.encoder(SeededBits(b"below")).encode
    found = epsilon_at_least(example.mechanism, (first, second), encode, trials=5000, error=ALPHA)
    assert found <= example.mechanism.cost.epsilon


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", tiered(SUBJECTS, 1, 1), ids=lambda mechanism: mechanism.name)
def test_the_bound_comes_near_the_claim_and_passes_it_when_epsilon_is_doubled(
    mechanism: Mechanism,
) -> None:
    """The bound is above the claim with probability ALPHA; the seed is fixed. The twin has twice
    the epsilon."""
    assert 0.7 * mechanism.cost.epsilon < bound(mechanism) <= mechanism.cost.epsilon
    assert bound(mechanism, epsilon_doubled) > mechanism.cost.epsilon


@pytest.mark.slow
@pytest.mark.statistical
def test_a_cell_that_is_never_flipped_is_seen_from_outside() -> None:
    """The seed is fixed. The twin is the honest encoder, whose bound is above 2 with probability
    ALPHA."""
    assert bound(SUBJECTS[2], true_cell_never_flipped) > 2.5
    assert bound(SUBJECTS[2]) <= 2


@pytest.mark.statistical
def test_the_bound_never_claims_more_than_the_trials_show() -> None:
    """200 reports cannot prove a large epsilon, even of an encoder without noise.

    No chance is involved. The twin has 20,000 reports, which prove it.
    """
    assert 0 < bound(SUBJECTS[0], true_cell_never_flipped, trials=200) < 3
    assert bound(SUBJECTS[0], true_cell_never_flipped) > 3
