"""Designs of RAPPOR's candidates, and their solvers, agree with least squares and with hand
results."""

import hashlib
from importlib import import_module

import numpy as np
import pytest

from ldp import CountMeanSketch, Rappor, bulk
from ldp.arrays import Floats, Places
from ldp.bulk.counting import add_to_cells, sum_cells
from ldp.bulk.md5 import md5_of_rows
from ldp.decoding import candidates
from ldp.decoding.bloom_maps import candidate_bits
from ldp.decoding.candidates import BitEquations, BloomDesign
from ldp.errors import DecodeError
from ldp.protocol.bloom import PolynomialBloom
from ldp.protocol.cityhash import Bloom, CityBloom
from ldp.protocol.md5_bloom import Md5Bloom
from ldp.regression import debiased, descent, least_squares, nonnegative_lasso
from ldp.regression.debiased import Sparse, debias, nonnegative_path, refit
from ldp.regression.least_squares import (
    ALL,
    _solved,
    _solved_by_eigenvalues,
    inverse_diagonal,
)
from ldp.server import decode
from ldp.simulation import draw_table
from ldp.tables.google_rappor import (
    read_map,
)
from tests.candidate_tables import CASES, NAMES, shipped, small_case
from tests.tiers import tiered


@pytest.mark.exact
def test_the_worked_example_of_the_thesis() -> None:
    """Three answers use the bits {1,2}, {1,3} and {2,3}; the bits count 6,000, 7,000 and 5,000."""
    columns = np.array([[1.0, 1, 0], [1, 0, 1], [0, 1, 1]])
    target = np.array([6000.0, 7000, 5000])
    chosen = nonnegative_lasso(columns, target)
    fit = least_squares(columns[:, chosen], target)
    assert chosen.tolist() == [0, 1, 2]
    np.testing.assert_allclose(fit.coefficients, [4000, 2000, 3000], rtol=1e-9)


@pytest.mark.exact
@pytest.mark.parametrize(("equations", "n"), [(60, 5), (12, 12)])
def test_least_squares_of_a_known_singular_value_decomposition(equations: int, n: int) -> None:
    generator = np.random.default_rng(1)
    left = np.linalg.qr(generator.normal(size=(equations, n)))[0]
    right = np.linalg.qr(generator.normal(size=(n, n)))[0]
    values = np.linspace(1, 30, n)
    columns, truth = (left * values) @ right.T, generator.normal(size=n)
    fit = least_squares(columns, columns @ truth)
    np.testing.assert_allclose(fit.coefficients, truth, rtol=1e-9)
    np.testing.assert_allclose(fit.std_errors**2, ((right / values) ** 2).sum(axis=1), rtol=1e-9)
    assert fit.scale == 1.0
    noisy = least_squares(columns, columns @ truth + 3 * generator.normal(size=equations))
    if equations > n:
        assert 4 < noisy.scale < 20  # unit variance is claimed and 9 is there


@pytest.mark.exact
def test_a_column_that_others_determine_has_no_error_to_speak_of() -> None:
    columns = np.array([[1.0, 1, 0], [1, 1, 0], [0, 0, 2]])
    fit = least_squares(columns, np.array([2.0, 2, 4]))
    assert np.isinf(fit.std_errors).tolist() == [True, True, False]
    assert fit.coefficients[2] == pytest.approx(2)


@pytest.mark.exact
@pytest.mark.parametrize("copies", [0, 1])
def test_both_solvers_say_the_same_on_either_side_of_the_bound(copies: int) -> None:
    """Cholesky gives up where the ratio of eigenvalues may exceed 1e9, as for a repeated column."""
    generator = np.random.default_rng(4)
    columns = generator.normal(size=(90, 30)) * np.logspace(0, 3, 30)
    columns = np.column_stack([columns, *[columns[:, 7]] * copies])
    gram, right = columns.T @ columns, columns.T @ generator.normal(size=90)
    quick = _solved(gram, right)
    assert (quick is None) == bool(copies)
    coefficients, variances = _solved_by_eigenvalues(gram, right)
    alone = np.delete(np.arange(30), 7)
    truth = np.linalg.inv(gram[:30, :30])
    np.testing.assert_allclose(variances[alone], truth.diagonal()[alone], rtol=1e-8)
    if quick is None:
        assert np.isinf(variances[[7, 30]]).all()
    else:
        np.testing.assert_allclose(quick[0], coefficients, rtol=1e-8)
        np.testing.assert_allclose(quick[1], variances, rtol=1e-9)


@pytest.mark.exact
@pytest.mark.parametrize("dense_bits", [0, 64])
def test_the_design_is_that_of_its_docstring(
    dense_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every method is compared with columns weight (x_j - mean) from scalar hashes.

    Products of columns are compared both ways.
    """
    monkeypatch.setattr(candidates, "DENSE_BITS", dense_bits)
    generator, places = np.random.default_rng(5), PolynomialBloom("00ff", 8, 3)
    values = [f"value {i}" for i in range(20)]
    bits, weight = bulk.bloom_map(places, 6, values), generator.random((6, 8))
    filters = np.zeros((20, 6, 8))
    for i, value in enumerate(values):
        for row in range(6):
            filters[i, row, list(places.cells(places.point(value), row))] = 1
    dense = ((filters - 0.3) * weight).reshape(20, 48).T
    design, some, residual = BloomDesign(bits, weight, 0.3), np.array([7, 3, 19]), weight.ravel()
    np.testing.assert_allclose(design.columns(some), dense[:, some], rtol=1e-12)
    np.testing.assert_allclose(design.correlations(residual), dense.T @ residual, rtol=1e-12)
    products = design.correlations(residual)
    np.testing.assert_array_equal(design.correlations(residual, some), products[some])
    np.testing.assert_allclose(design.norms**2, (dense**2).sum(axis=0), rtol=1e-12)
    assert design.columns(some[:0]).shape == (48, 0)
    others, numbers = np.array([3, 11]), np.array([0.5, -2.0])
    expected = dense[:, some].T @ dense[:, others]
    np.testing.assert_allclose(design.gram(some, others), expected, rtol=1e-12)
    np.testing.assert_allclose(design.fitted(others, numbers), dense[:, others] @ numbers)


@pytest.mark.exact
def test_the_inverse_of_nearly_orthogonal_columns_is_a_series(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The series is right to two thousandths, with a largest sum of squared cosines of .02.

    The twin's columns are farther from orthogonal, and their inverse is exact.
    """
    generator = np.random.default_rng(6)
    monkeypatch.setattr(import_module("ldp.regression.least_squares"), "MOST_EXACT", 10)
    for rows, tolerance in ((4000, 2e-3), (90, 1e-9)):
        columns = generator.normal(size=(rows, 60)) * np.linspace(1, 9, 60)
        gram = columns.T @ columns
        expected = np.diag(np.linalg.inv(gram))
        np.testing.assert_allclose(inverse_diagonal(gram), expected, rtol=tolerance)
        assert (np.abs(inverse_diagonal(gram) / expected - 1).max() > 1e-9) == (rows == 4000)


class Dense:
    def __init__(self, matrix: Floats) -> None:
        self.matrix, self.most = matrix, 0

    def columns(self, chosen: Places) -> Floats:
        return self.matrix[:, chosen]

    def gram(self, some: Places, others: Places) -> Floats:
        self.most = max(self.most, some.size if others.size > some.size else 0)
        return self.matrix[:, some].T @ self.matrix[:, others]

    def fitted(self, chosen: Places, coefficients: Floats) -> Floats:
        return self.matrix[:, chosen] @ coefficients

    def correlations(self, residual: Floats, chosen: Places | slice = ALL) -> Floats:
        return self.matrix.T[chosen] @ residual

    @property
    def norms(self) -> Floats:
        norms: Floats = np.sqrt((self.matrix**2).sum(axis=0))
        return norms


@pytest.mark.exact
def test_few_columns_without_noise_are_fitted_as_by_least_squares() -> None:
    generator = np.random.default_rng(1)
    columns, truth = generator.normal(size=(300, 5)), np.array([40.0, 0, 3, 0, 7])
    target = columns @ truth + generator.normal(size=300)
    fit = nonnegative_path(Dense(columns), target, 300)
    found, errors = debias(Dense(columns), fit, 1 - fit.chosen.size / 300, 1.0)
    exact = least_squares(columns, target)
    large = truth > 0
    np.testing.assert_allclose(found[large], exact.coefficients[large], atol=0.1 * errors.min())
    np.testing.assert_allclose(errors[large], exact.std_errors[large] / exact.scale**0.5, rtol=0.02)
    assert not refit(Dense(columns), target, fit, 300).residual @ columns[:, 0] > 0.1
    columns[:, 1] = 0  # no equation tells of it: an error of 1e150 overflowed in what follows
    fit = nonnegative_path(Dense(columns), target, 300)
    assert debias(Dense(columns), fit, 1 - fit.chosen.size / 300, 1.0)[1][1] == np.inf


@pytest.mark.exact
def test_rounding_does_not_choose_among_equal_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kinds of processors round products differently, which moved a count by 4 % in one cohort.

    20 of 40 columns stand twice; with last bits disturbed twenty times the fit has the same
    columns. The twin, where any coefficient above 0 counts, has others.
    """
    generator = np.random.default_rng(1)
    columns = np.repeat(generator.normal(size=(300, 20)), 2, axis=1)
    target = columns @ np.tile([0.5, 0], 20) + generator.normal(size=300)

    class Rounded(Dense):
        def gram(self, some: Places, others: Places) -> Floats:
            exact = super().gram(some, others)
            return exact * (1 + 1e-15 * generator.integers(-2, 3, size=exact.shape))

    def choices() -> int:
        fits = [nonnegative_path(Rounded(columns), target, 300) for _ in range(20)]
        return len({tuple(fit.chosen.tolist()) for fit in fits})

    assert choices() == 1
    monkeypatch.setattr(descent, "NEGLIGIBLE", 0.0)
    monkeypatch.setattr(debiased, "descend", descent.descend.function)
    assert choices() > 1


@pytest.mark.exact
def test_columns_that_come_in_portions_have_the_fit_of_all_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """2,000 columns of 300 equations, at most 20 at once, give the same choice at the same penalty.

    All estimates are equal but for rounding. The twin, without what still passes after the first
    portion, has another fit.
    """
    generator = np.random.default_rng(3)
    matrix, truth = generator.normal(size=(300, 2000)), np.zeros(2000)
    truth[:60] = np.linspace(0.8, 0.1, 60)
    target = matrix @ truth + generator.normal(size=300)
    for name in ("EXACT", "EXACT_OF_PORTIONS"):
        monkeypatch.setattr(debiased, name, 1e-10)

    def fitted() -> tuple[int, Places, float, Floats]:
        design = Dense(matrix)
        fit = nonnegative_path(design, target, 300)
        most, left = design.most, 1 - fit.chosen.size / 300
        return most, np.sort(fit.chosen), fit.penalty, debias(design, fit, left, 1.0)[0]

    whole = fitted()
    monkeypatch.setattr(debiased, "PORTION", 20)
    portions = fitted()
    assert portions[0] == 20
    assert whole[0] > 30
    assert whole[1].size > 60
    assert np.array_equal(whole[1], portions[1])
    assert whole[2] == portions[2]
    np.testing.assert_allclose(portions[3], whole[3], rtol=0, atol=1e-9)
    monkeypatch.setattr(debiased, "EXACT_OF_PORTIONS", 10.0)
    assert not np.array_equal(fitted()[1], whole[1])


@pytest.mark.slow
@pytest.mark.statistical
def test_more_columns_than_equations_have_unbiased_estimates_with_honest_errors() -> None:
    """In 200 designs of 900 columns and 300 equations, z-scores have mean 0 and variance 1.

    The mean is within 5 standard errors (6e-7 each), the variance within 30 % (3e-3 each); seeds
    are fixed. The twin, the coefficients as the lasso shrinks them, is off by more than 5 standard
    errors.
    """
    truth = np.zeros(900)
    truth[:30] = np.linspace(0.6, 0.1, 30)
    z, shrunk = [], []
    for seed in range(200):
        generator = np.random.default_rng(seed)
        design = Dense(generator.normal(size=(300, 900)))
        target = design.matrix @ truth + generator.normal(size=300)
        fit = nonnegative_path(design, target, 300)
        scale = max(1.0, float(fit.residual @ fit.residual) / (300 - fit.chosen.size))
        found, errors = debias(design, fit, 1 - fit.chosen.size / 300, scale)
        z.append(((found - truth) / errors)[[2, 25, 500]])
        kept = np.zeros(900)
        kept[fit.chosen] = fit.coefficients
        shrunk.append(((kept - truth) / errors)[2])
    assert (abs(np.mean(z, axis=0)) < 5 / 200**0.5).all()
    assert (abs(np.var(z, axis=0) - 1) < 0.3).all()
    assert abs(np.mean(shrunk)) > 5 / 200**0.5


@pytest.mark.exact
@pytest.mark.parametrize(
    "places",
    [
        PolynomialBloom("00ff", 16, 3),
        PolynomialBloom("00ff", 300, 2),
        Md5Bloom("rappor-md5-1byte", 16, 3),
        Md5Bloom("rappor-md5-le", 300, 2),
        Md5Bloom("rappor-md5-be16", 300, 2),
        CityBloom(16, 3),
        CityBloom(300, 2),
    ],
    ids=str,
)
def test_the_map_and_its_sums_equal_the_scalar_hashes(places: Bloom) -> None:
    values: list[str | bytes] = [*(f"value {i}" for i in range(30)), "", "naïve", b"\x00\xff"]
    found = bulk.bloom_map(places, 4, values)
    assert found.dtype == (np.uint8 if places.bits <= 256 else np.uint16)
    cells = np.arange(4.0 * places.bits).reshape(4, places.bits)
    sums, factors, added = [], np.arange(1.0, 1 + len(values)), np.zeros_like(cells)
    for value, mapped, factor in zip(values, found, factors, strict=True):
        scalar = [places.cells(places.point(value), row) for row in range(4)]
        assert [tuple(sorted(set(row.tolist()))) for row in mapped] == scalar
        sums.append(sum(cells[row, cell] for row in range(4) for cell in scalar[row]))
        for row in range(4):
            added[row, list(scalar[row])] += factor
    assert sum_cells(found, cells).tolist() == sums
    assert add_to_cells(found, factors, places.bits).tolist() == added.tolist()


@pytest.mark.exact
def test_what_is_added_to_cells_by_several_threads_is_all() -> None:
    """Numbers are whole, so the order of adding does not matter."""
    random = np.random.default_rng(1)
    places, factors = random.integers(0, 8, (5000, 128, 1), np.uint8), np.arange(5000.0)
    added = [np.bincount(places[:, row, 0], factors, 8) for row in range(128)]
    assert add_to_cells(places, factors, 8).tolist() == np.array(added).tolist()


@pytest.mark.exact
@pytest.mark.parametrize("rows", tiered([1, 7, 300]))
def test_compiled_md5_equals_hashlib_at_every_length(rows: int) -> None:
    """Texts have up to three blocks; at 51, 52, 115 and 116 letters the padding needs another
    one."""
    letters = np.random.default_rng(1).integers(0, 256, size=150, dtype=np.uint8)
    for size in range(151):
        found = md5_of_rows(letters[:size], rows)
        for row in {0, rows // 2, rows - 1}:
            message = row.to_bytes(4, "big") + letters[:size].tobytes()
            exact = hashlib.md5(message, usedforsecurity=False).digest()
            assert found[:, row].tobytes() == exact, (size, row)


@pytest.mark.exact
@pytest.mark.parametrize("name", NAMES)
def test_our_hashes_are_those_of_google_rappors_maps(name: str) -> None:
    table, candidates, _, _ = shipped(name)
    names, places = read_map(CASES / name / "map_sample.csv", table)
    assert set(names) <= set(candidates)
    for value, rows in zip(names, places, strict=True):
        scalar = [table.mechanism.cells(value, row) for row in range(len(rows))]
        assert [tuple(sorted(set(row.tolist()))) for row in rows] == scalar


@pytest.mark.exact
@pytest.mark.parametrize("dense_bits", [0, 64])
def test_the_variance_around_a_tables_share_is_that_of_its_bits_and_holders(
    dense_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variance equals that of one matrix of all covariances of all bits.

    Without what the holders of a filter do together, and the table's own part, it is larger. The
    sum of all estimates is treated likewise.
    """
    monkeypatch.setattr(candidates, "DENSE_BITS", dense_bits)
    generator, values = np.random.default_rng(8), tuple(f"v{i}" for i in range(6))
    mechanism = Rappor(bits=8, hashes=2, cohorts=8, f=0.25, p=0.0, q=1.0, seed="00ff")
    counts = np.array([8000, 5000, 3000, 2000, 1000, 1000])
    table = draw_table(mechanism, values, counts=counts, generator=generator)
    places = candidate_bits(table, values)
    equations = BitEquations.of(table, places, 0.0)
    design = BloomDesign(places, equations.weight(equations.share), equations.mean)
    chosen, n = np.arange(6), table.total
    b = counts / n
    found = equations.variances(design, Sparse(chosen, b, np.empty(0), 0.0), np.ones(6))
    columns = design.columns(chosen)
    influence = np.linalg.solve(columns.T @ columns, columns.T) * design.weight.ravel()
    filters = columns.T / design.weight.ravel()
    together = np.zeros((64, 64))
    for c in range(8):
        bits = slice(8 * c, 8 * c + 8)
        x = filters[:, bits]
        block = x.T @ (np.diag(b) - np.outer(b, b)) @ x / table.reports[c]
        np.fill_diagonal(block, 1 / design.weight[c] ** 2)
        together[bits, bits] = block
    expected = np.einsum("je,ef,jf->j", influence, together, influence) - b * (1 - b) / n
    np.testing.assert_allclose(found[:-1], expected, rtol=1e-9)
    total = influence.sum(axis=0)
    np.testing.assert_allclose(found[-1], total @ together @ total, rtol=1e-9)
    alone = np.diag(np.linalg.inv(columns.T @ columns))
    assert found[0] < 0.9 * alone[0]
    with monkeypatch.context() as large:
        large.setattr(candidates, "MOST_WORK", 0)
        wider = equations.variances(design, Sparse(chosen, b, np.empty(0), 0.0), np.ones(6))
    np.testing.assert_allclose(wider[:-1], alone, rtol=1e-9)
    listed = tuple(f"v{i}" for i in range(9))
    design = BloomDesign(candidate_bits(table, listed), design.weight, equations.mean)
    correction = np.arange(9) / 1000
    back = design.fitted(slice(None), correction)
    np.testing.assert_allclose(back, design.columns(np.arange(9)) @ correction, rtol=1e-9)
    total += (back - columns @ np.linalg.solve(columns.T @ columns, columns.T @ back)) * (
        design.weight.ravel()
    )
    found = equations.variances(design, Sparse(chosen, b, np.empty(0), 0.0), correction)
    np.testing.assert_allclose(found[-1], total @ together @ total, rtol=1e-9)


@pytest.mark.exact
def test_places_outside_the_filters_are_refused() -> None:
    table, values = small_case()
    places = bulk.bloom_map(table.mechanism.addressing, 16, values)  # type: ignore[arg-type]
    for wrong in (places[:29], places[:, :15], places.astype(np.int64)):
        with pytest.raises(DecodeError, match="places must be unsigned integers of shape"):
            decode(table, values, places=wrong)  # type: ignore[arg-type]
    places[3, 2, 1] = 8
    with pytest.raises(DecodeError, match="a bit above 7"):
        decode(table, values, places=places)
    sketch = CountMeanSketch(epsilon=4.0, rows=64, width=16, seed="00")
    other = draw_table(sketch, ("a",), counts=np.array([9]), generator=np.random.default_rng(1))
    with pytest.raises(DecodeError, match="'mean-sketch' takes no places"):
        decode(other, ("a",), places=places)
