"""Sums are added into the right cells."""

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

from ldp.arrays import add_at, increasing


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int64])
def test_adds_to_a_cell_as_often_as_it_is_named(kind: type[np.integer]) -> None:
    generator = np.random.default_rng(1)
    rows = generator.integers(0, 5, size=500).astype(np.uint32)
    columns = generator.integers(0, 7, size=500)
    cells, expected = np.zeros((5, 7), dtype=kind), np.zeros((5, 7), dtype=kind)
    amounts = np.ones(500, dtype=kind)
    amounts[::3] = 2
    add_at(cells, rows, columns, amounts)
    np.add.at(expected, (rows, columns), amounts)
    assert (cells == expected).all()
    assert cells.max() > 2


def test_refuses_a_cell_outside() -> None:
    cells = np.zeros((5, 7), dtype=np.int64)
    for row, column in ((5, 0), (0, 7), (0, -1)):
        with pytest.raises(ValueError, match="invalid entry"):
            add_at(cells, np.array([row]), np.array([column]), 1)
    assert not cells.any()


@pytest.mark.exact
@pytest.mark.parametrize("numbers", [0, 1, 2, 7, 400])
def test_numbers_in_increasing_order_are_those_of_scipy(numbers: int) -> None:
    generator = np.random.default_rng(numbers)
    for step in (0.0, 0.5, 0.01):  # ties, and runs of every length
        values = np.round(generator.normal(size=numbers).cumsum() * step, 1)
        values += generator.integers(0, 3, numbers)
        weights = generator.uniform(0.1, 5, numbers)
        if not numbers:
            assert increasing(values).size == 0
            continue
        expected = isotonic_regression(values, weights=weights).x
        assert np.allclose(increasing(values, weights), expected, rtol=0, atol=1e-12)
        assert np.allclose(increasing(values), isotonic_regression(values).x, rtol=0, atol=1e-12)
