"""Hadamard response has the stated sets of columns, and its variance is near the optimum and a
peer's."""

from itertools import combinations
from math import cosh, exp

import pytest

from ldp import HadamardResponse, ProjectiveGeometry
from ldp.mechanisms.hadamard_response import PlusColumns

pytestmark = pytest.mark.exact


@pytest.mark.parametrize("columns", [2, 4, 8, 64])
def test_sets_are_half_of_the_columns_and_share_a_quarter(columns: int) -> None:
    sets = [PlusColumns(row, columns) for row in range(1, columns)]
    for cells in sets:
        row = cells.row
        inside = [c for c in range(columns) if not (c & row).bit_count() % 2]
        assert sorted(cells) == inside
        assert [column in cells for column in range(columns)] == [
            column in inside for column in range(columns)
        ]
        outside = [cells.outside(i) for i in range(columns // 2)]
        assert sorted(outside + inside) == list(range(columns))
    for one, other in combinations(sets, 2):
        assert len(set(one) & set(other)) == columns // 4


def test_cells_are_a_sequence() -> None:
    cells = PlusColumns(5, 16)
    listed = [cells.inside(i) for i in range(8)]
    assert (list(cells), cells[-1], cells[2:6]) == (listed, listed[-1], listed[2:6])
    with pytest.raises(IndexError):
        cells[8]


@pytest.mark.parametrize(("epsilon", "ratio"), [(0.5, 1.06), (1.0, 1.27), (4.0, 14.15)])
def test_the_variance_is_the_stated_multiple_of_the_least(epsilon: float, ratio: float) -> None:
    hadamard = HadamardResponse(categories=tuple(map(str, range(100))), epsilon=epsilon)
    least = 4 * exp(epsilon) / (exp(epsilon) - 1) ** 2
    assert hadamard.variance(1_000_000) / 1_000_000 / least == pytest.approx(ratio, abs=0.005)
    assert hadamard.variance(1) / least == pytest.approx(cosh(epsilon / 2) ** 2, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("size", [2, 5, 30, 1000, 5000])
def test_projective_geometry_never_has_more_variance(epsilon: float, size: int) -> None:
    categories = tuple(map(str, range(size)))
    hadamard = HadamardResponse(categories=categories, epsilon=epsilon)
    geometry = ProjectiveGeometry(categories=categories, epsilon=epsilon)
    assert geometry.variance(10**6) <= hadamard.variance(10**6) * (1 + 1e-9)
    assert geometry.layout.body_bytes <= hadamard.layout.body_bytes + 2
