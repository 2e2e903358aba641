"""The fit of shares to likelihoods is the maximum, and its covariance is right."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp.arrays import Floats
from ldp.decoding import mixtures
from ldp.decoding.mixtures import Mixture, accelerated_em, covariance, fit_shares, newton


def factors(generator: np.random.Generator, groups: int, *values: int) -> list[Floats]:
    """Return likelihoods of reports that carry information."""
    return [generator.random((groups, size)) ** 3 + 0.01 for size in values]


def plain(first: Floats, second: Floats, counts: Floats, steps: int) -> Floats:
    """Run EM as the paper writes it, with a table of all cells for every report."""
    cells = first[:, :, None] * second[:, None, :]
    shares = np.full(cells.shape[1:], 1 / cells[0].size)
    for _ in range(steps):
        each = shares * cells
        each /= each.sum(axis=(1, 2), keepdims=True)
        shares = (counts[:, None, None] * each).sum(axis=0) / counts.sum()
    return shares


@pytest.mark.exact
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 4))
def test_a_step_is_that_of_the_paper_and_the_likelihood_never_falls(
    seed: int, rows: int, columns: int
) -> None:
    generator = np.random.default_rng(seed)
    first, second = factors(generator, 30, rows, columns)
    counts = generator.integers(1, 5, size=30).astype(float)
    mixture = Mixture.of([first, second], counts)
    shares, before = np.full((rows, columns), 1 / (rows * columns)), -np.inf
    for steps in range(1, 6):
        shares, likelihood = mixture.step(shares)
        assert np.allclose(shares, plain(first, second, counts, steps), rtol=1e-12)
        assert likelihood >= before - 1e-9
        before = likelihood
    rough = accelerated_em(mixture, tolerance=1e-3)
    assert fit_shares(mixture).likelihood >= mixture.step(rough.shares)[1] - 1e-9


@pytest.mark.exact
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_the_fit_is_the_maximum(seed: int) -> None:
    """No cell's slope is above 1, and those of used cells are 1.

    These are the conditions of a maximum of a concave function on the simplex. Accelerated EM alone
    only comes near it.
    """
    generator = np.random.default_rng(seed)
    first, second = factors(generator, 200, 3, 4)
    mixture = Mixture.of([first, second], np.ones(200))
    fit = fit_shares(mixture)
    slope = mixture.gradient(fit.shares)
    assert fit.shares.min() >= 0
    assert fit.shares.sum() == pytest.approx(1)
    assert slope.max() < 1 + 1e-4
    assert np.abs(slope[fit.shares > 1e-4] - 1).max() < 1e-3
    alone = accelerated_em(mixture, tolerance=1e-9, most=5000)
    assert alone.likelihood <= fit.likelihood + 1e-6


@pytest.mark.exact
def test_the_fit_is_within_1e_4_of_plain_em_run_to_its_end() -> None:
    """The twin, plain EM that stops when no cell changes by 1e-6, is not there yet."""
    generator = np.random.default_rng(3)
    first, second = factors(generator, 2000, 4, 4)
    mixture, ones = Mixture.of([first, second], np.ones(2000)), np.ones(2000)
    fit = fit_shares(mixture)
    assert np.abs(fit.shares - plain(first, second, ones, 1200)).max() < 1e-4
    assert np.abs(fit.shares - plain(first, second, ones, 3)).max() > 1e-3


@pytest.mark.exact
def test_em_is_fast_where_most_cells_are_empty() -> None:
    """Jumps stop short of empty cells. The twin, that many steps without jumps, is far below; jumps
    that are refused where they would leave the simplex hardly ever happen here."""
    generator = np.random.default_rng(7)
    held = generator.integers(0, 12, size=(4, 2))[generator.integers(0, 4, size=3000)]
    noisy = [generator.random((3000, 12)) + 0.2 for _ in range(2)]
    for factor, values in zip(noisy, held.T, strict=True):
        factor[np.arange(3000), values] += 0.8
    mixture = Mixture.of(noisy, np.ones(3000))
    fit = accelerated_em(mixture, tolerance=1e-5)
    shares, likelihood = np.full((12, 12), 1 / 144), -np.inf
    for _ in range(fit.steps):
        shares, likelihood = mixture.step(shares)
    assert fit.steps < 40
    assert fit.likelihood > likelihood + 50


@pytest.mark.exact
def test_newtons_method_stops_where_it_is_told_to_start_at_the_maximum() -> None:
    first, second = factors(np.random.default_rng(4), 300, 3, 3)
    mixture = Mixture.of([first, second], np.ones(300))
    fit = fit_shares(mixture)
    again = newton(mixture, fit)
    assert again.steps == fit.steps + 1
    assert np.abs(again.shares - fit.shares).max() < 1e-6


@pytest.mark.exact
def test_the_information_is_its_definition() -> None:
    generator = np.random.default_rng(5)
    first, second = factors(generator, 50, 3, 2)
    counts = generator.integers(1, 9, size=50).astype(float)
    shares = generator.dirichlet(np.ones(6)).reshape(3, 2)
    cells = (first[:, :, None] * second[:, None, :]).reshape(50, 6)
    seen = cells @ shares.ravel()
    defined = (cells * (counts / seen**2)[:, None]).T @ cells
    assert np.allclose(Mixture.of([first, second], counts).information(shares), defined)


@pytest.mark.exact
def test_reports_in_blocks_that_share_rows_of_a_factor_sum_to_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fifty reports have 7 and 5 different parts, three at a time, beside rows of their own."""
    generator = np.random.default_rng(6)
    different = factors(generator, 7, 3, 2)[0], factors(generator, 5, 3, 2)[1]
    places = [generator.integers(0, len(factor), 50) for factor in different]
    counts = generator.integers(1, 9, size=50)
    shares = generator.dirichlet(np.ones(6)).reshape(3, 2)
    own = [factor[place] for factor, place in zip(different, places, strict=True)]
    whole, every = Mixture.of(own, counts), np.indices((3, 2)).reshape(2, -1)
    monkeypatch.setattr(mixtures, "BLOCK", 9)
    shared = Mixture.of(different, counts, places)
    assert np.allclose(shared.sums(), np.einsum("g,gi,gj->ij", counts, *own))
    stepped, likelihood = shared.step(shares)
    assert np.allclose(stepped, whole.step(shares)[0])
    assert likelihood == pytest.approx(whole.step(shares)[1])
    assert np.allclose(shared.information(shares), whole.information(shares))
    assert np.allclose(shared.information_of(shares, *every), whole.information(shares))


@pytest.mark.exact
def test_the_covariance_of_shares_that_are_seen_is_the_multinomials() -> None:
    """When a report shows its cell, the information is n / share, and the covariance follows."""
    shares, n = np.array([0.5, 0.3, 0.2]), 1000
    expected = (np.diag(shares) - np.outer(shares, shares)) / n
    assert np.allclose(covariance(np.diag(n / shares)), expected)
