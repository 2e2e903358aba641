"""Results do not depend on how many cores compute them: they are equal to the bit."""

from collections.abc import Callable

import numpy as np
import pytest

from ldp.arrays import Floats
from ldp.decoding import mixtures
from ldp.decoding.association import value_likelihoods
from ldp.decoding.candidates import BloomDesign
from ldp.decoding.mixtures import Mixture

pytestmark = pytest.mark.exact


def mixture_sums(generator: np.random.Generator) -> list[Floats]:
    """Return what is summed over 50 reports, three at a time."""
    factors = [generator.random((50, size)) for size in (3, 2)]
    mixture = Mixture.of(factors, generator.random(50))
    shares, every = np.full((3, 2), 1 / 6), np.indices((3, 2)).reshape(2, -1)
    slope = mixture.gradient(shares)
    return [mixture.sums(), slope, mixture.information_of(shares, *every)]


def products(generator: np.random.Generator) -> list[Floats]:
    """Return products of 40 candidates' columns, whose filters are long."""
    places = generator.integers(0, 128, size=(40, 5, 2), dtype=np.uint64)
    design = BloomDesign(places, generator.random((5, 128)), 0.1)
    return [design.gram(np.arange(20), np.arange(40))]


def ratios(generator: np.random.Generator) -> list[Floats]:
    """Return the likelihoods of 60 reports in seven rows, of which one has none."""
    touched = generator.integers(0, 2, size=(7, 4, 8)).astype(float)
    rows = generator.integers(0, 6, size=60).astype(np.uint32)
    return [value_likelihoods(touched, rows, generator.random((60, 8)) + 0.1)]


@pytest.mark.parametrize("compute", [mixture_sums, products, ratios])
def test_results_are_the_same_on_one_core_and_on_three(
    compute: Callable[[np.random.Generator], list[Floats]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mixtures, "BLOCK", 9)
    computed = []
    for cores in (1, 3):
        for module in ("bulk.compiled", "decoding.mixtures"):
            monkeypatch.setattr(f"ldp.{module}.cpu_count", lambda cores=cores: cores)
        computed.append([array.tobytes() for array in compute(np.random.default_rng(7))])
    assert computed[0] == computed[1]


def test_sums_over_a_part_for_each_core_would_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: with a block a core, sums are rounded otherwise."""
    computed = set()
    for cores in (1, 3):
        monkeypatch.setattr(mixtures, "BLOCK", 3 * -(-50 // cores))
        computed.add(b"".join(of.tobytes() for of in mixture_sums(np.random.default_rng(7))))
    assert len(computed) == 2
