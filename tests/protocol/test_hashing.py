"""Row hashing: known answers, independence over a whole small family, and the bulk twin."""

from fractions import Fraction
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp import bulk
from ldp.arrays import AnyInts
from ldp.bulk.counting import _TILE, gather, sum_of_squares
from ldp.bulk.hash_kernels import row_columns, write_fractions
from ldp.errors import ParameterError
from ldp.mechanisms.addressing import Identity
from ldp.protocol.hashing import FIELD, PolynomialRows, derived_seed, value_point
from ldp.protocol.spelling import Fragments, Spelling

POINTS = st.integers(0, FIELD - 1)
LOW, MOST = (1 << 31) - 1, (1 << 64) - 1
SEEDS = st.binary(min_size=1, max_size=64).map(bytes.hex)


@pytest.mark.exact
def test_text_and_its_utf8_bytes_are_the_same_value() -> None:
    assert value_point("naïve") == value_point("naïve".encode())


@pytest.mark.exact
def test_the_point_of_the_empty_value_is_that_of_an_empty_murmur3() -> None:
    assert value_point("") == 0


@pytest.mark.exact
def test_text_that_is_no_unicode_is_refused_without_showing_it() -> None:
    with pytest.raises(ParameterError) as caught:
        value_point("secret\ud800")
    assert "secret" not in str(caught.value)


@pytest.mark.exact
@given(SEEDS, st.integers(2, 1 << 24), st.lists(POINTS, min_size=1, max_size=20), st.data())
def test_bulk_columns_equal_scalar_columns(
    seed: str, width: int, points: list[int], data: st.DataObject
) -> None:
    rows = PolynomialRows(seed, width)
    extremes = [0, 1, FIELD - 1, 1 << 32, (1 << 32) - 1, 1 << 60]
    at = [data.draw(st.integers(0, 4)) for _ in points + extremes]
    found = bulk.columns(
        rows, 5, np.array(points + extremes, dtype=np.uint64), np.array(at, dtype=np.uint32)
    )
    scalar = [rows.cells(point, row)[0] for point, row in zip(points + extremes, at, strict=True)]
    assert found[:, 0].tolist() == scalar
    assert all(0 <= column < width for column in scalar)


HALVES = [0, 1, (1 << 31) - 1, 1 << 31, 1 << 60, FIELD - 2, FIELD - 1]


@pytest.mark.exact
@pytest.mark.parametrize("width", [2, 3, 1000, 1024, 65_536, (1 << 24) - 1])
def test_columns_in_fixed_point_are_those_of_the_field(width: int) -> None:
    """Values are next to the first and the last of a column, 0 and FIELD included.

    Other values need no second look. In the twin, the sum in fixed point alone names the column
    before in some cases.
    """
    firsts = {0, 1, width // 2, width - 1}
    edges = [((column << 32) + width - 1) // width << 29 for column in firsts]
    near = [edge + more for edge in edges for more in (-8, -1, 0, 1, 8)]
    values = [value % FIELD for value in [*near, *HALVES]]
    wrong = 0
    for a, b, c in product(HALVES, HALVES[1:], HALVES[::3]):
        numbers = (
            [(value - c) * pow(b, -1, FIELD) % FIELD for value in values] if a == 0 else values
        )
        points, columns = np.array(numbers, dtype=np.uint64), np.empty(len(numbers), np.uint32)
        fractions = np.empty((4, points.size), np.uint64)
        write_fractions(fractions, points)
        row_columns(
            *(columns, np.array([a, b, c], dtype=np.uint64), points, fractions, np.uint64(width))
        )
        exact = [((((a * point + b) * point + c) % FIELD >> 29) * width) >> 32 for point in numbers]
        assert columns.tolist() == exact
        parts = np.array([a >> 31, a & LOW, b >> 31, b & LOW], dtype=np.uint64)
        sums = (parts @ fractions + np.uint64((c << 3 | c >> 58) - 8 & MOST)) >> np.uint64(32)
        wrong += sum(
            int(number) * width >> 32 != one for number, one in zip(sums, exact, strict=True)
        )
    assert wrong > 0


@pytest.mark.exact
def test_bulk_gather_and_scatter_equal_loops() -> None:
    rows, points = PolynomialRows("0a", 16), np.array([5, 7, FIELD - 1], dtype=np.uint64)
    counts = np.random.default_rng(1).integers(0, 99, size=(70, 16)).astype(np.uint8)
    counts[3:9] = 0  # rows without a report
    by_loop = [
        sum(int(counts[row, rows.cells(int(point), row)[0]]) for row in range(70))
        for point in points
    ]
    assert gather(rows, counts, points).tolist() == by_loop
    many = np.resize(points, 3 * _TILE + 1)  # in several tiles, the last with one point
    assert gather(rows, counts, many).tolist() == np.resize(by_loop, many.size).tolist()
    assert gather(rows, counts[:1], points[:0]).tolist() == []

    held = np.zeros((10, 16), dtype=np.int64)
    added = np.arange(30).reshape(3, 10)
    bulk.scatter(rows, 70, held, added, points, 20)
    looped = np.zeros_like(held)
    for r in range(10):
        for i, point in enumerate(points):
            looped[r, rows.cells(int(point), 20 + r)[0]] += added[i, r]
    assert (held == looped).all()


@pytest.mark.exact
@pytest.mark.parametrize("kind", [np.uint16, np.uint32, np.uint64, np.int64])
def test_sums_of_the_largest_counts_are_exact(kind: type) -> None:
    rows, points = PolynomialRows("0a", 5000), np.arange(3, dtype=np.uint64)
    most = min(np.iinfo(kind).max, 10**18 - 1)  # a double has no room for its last digits
    counts: AnyInts = np.full((7, 5000), most, dtype=kind)
    assert gather(rows, counts, points).tolist() == [7 * int(most)] * 3


@pytest.mark.exact
def test_the_sum_of_squares_equals_that_of_fractions() -> None:
    counts = np.random.default_rng(1).integers(0, 1 << 40, size=(5, 37))
    offsets = np.arange(5, dtype=np.float64) * -(2.0**39)
    exact = sum(
        (Fraction(1.5) * int(cell) + Fraction(offset)) ** 2
        for row, offset in zip(counts, offsets, strict=True)
        for cell in row
    )
    assert sum_of_squares(counts, 1.5, offsets) == pytest.approx(float(exact), rel=1e-13)
    assert sum_of_squares(counts[:1].astype(np.uint64), 1.0, offsets[:1]) == pytest.approx(
        float(sum(int(cell) ** 2 for cell in counts[0])), rel=1e-13
    )


@pytest.mark.exact
@pytest.mark.parametrize(("start", "size"), [(0, 15), (3, 9), (5, 5), (7, 2)])
def test_bulk_scatter_of_fragments_equals_a_loop(start: int, size: int) -> None:
    """Blocks begin and end within a position's five rows, or span several positions."""
    fragments = Fragments("0a", 16, 5, Spelling(6, "abc", 2, 8))
    words = ("", "a", "abc", "cabcab")
    added = np.arange(len(words) * size).reshape(len(words), size)
    held, looped = (np.zeros((size, 16), dtype=np.int64) for _ in range(2))
    bulk.scatter(fragments, 15, held, added, bulk.points(fragments, 15, words), start)
    for i, word in enumerate(words):
        for r in range(size):
            looped[r, fragments.cells(fragments.point(word), start + r)[0]] += added[i, r]
    assert (held == looped).all()


@pytest.mark.exact
@given(st.integers(0, 6), st.integers(1, 5), st.randoms())
def test_the_fast_walsh_hadamard_transform_equals_the_matrix(
    power: int, rows: int, random: Random
) -> None:
    width = 1 << power
    counts = np.array([[random.randint(-9, 9) for _ in range(width)] for _ in range(rows)])
    signs = [[1 - 2 * ((i & j).bit_count() & 1) for j in range(width)] for i in range(width)]
    assert (bulk.walsh_hadamard(counts) == counts @ np.array(signs)).all()


@pytest.mark.exact
def test_values_that_touch_nothing_have_no_column() -> None:
    places = Identity(("yes",), untouching=("no",))
    points = bulk.points(places, 1, ["no", "yes"])
    found = bulk.columns(places, 1, points, np.zeros(2, dtype=np.uint32))[:, 0]
    assert found.tolist() == [bulk.NO_COLUMN, 0]


@pytest.mark.statistical
def test_three_values_fall_into_columns_independently() -> None:
    """Over 40,000 rows, the triple of columns of three values is uniform on 4**3 outcomes.

    Each count is Binomial(40000, 1/64) when the rows' polynomials are random. This fails falsely
    with probability ALPHA; the seed is fixed.
    """
    from tests.statistics import ALPHA, law_p

    rows = PolynomialRows("5eed", 4)
    values = [value_point(name) for name in ("lol", "afk", "brb")]
    triples = np.array(
        [
            sum(rows.cells(point, row)[0] << 2 * i for i, point in enumerate(values))
            for row in range(40_000)
        ]
    )
    uniform = dict.fromkeys(range(64), 1 / 64)
    assert law_p(triples, uniform) > ALPHA
    pairwise_only = (triples & 15) | ((triples & 3) ^ (triples >> 2 & 3)) << 4
    assert law_p(pairwise_only, uniform) < ALPHA  # the twin: 2-wise but not 3-wise independent


@pytest.mark.exact
def test_derived_seeds_separate_the_names() -> None:
    assert derived_seed("ab", "c", "1") != derived_seed("a", "bc", "1")


@pytest.mark.exact
@pytest.mark.parametrize("seed", ["", "0", "xy", "00" * 65, "00FF", "00 ff", b"00"], ids=repr)
def test_a_seed_that_is_no_hex_of_1_to_64_bytes_is_refused(seed: str) -> None:
    with pytest.raises(ParameterError, match="seed"):
        PolynomialRows(seed, 8)


class Shifted(Identity):
    """Addressing in which category i touches columns i and i + 1."""

    def cells(self, point: int, row: int) -> tuple[int, ...]:
        return (point, point + 1)


class Unregistered:
    """Addressing without bulk code."""

    def point(self, value: object) -> int:
        return 0

    def cells(self, point: int, row: int) -> tuple[int, ...]:
        return (0,)


@pytest.mark.exact
def test_bulk_code_is_found_by_the_type_of_an_addressing() -> None:
    places, at = Shifted(("a", "b")), np.zeros(2, dtype=np.uint32)
    points = bulk.points(places, 1, ["b", "a"])
    assert bulk.columns(places, 1, points, at).tolist() == [[1], [0]]  # as its base class
    bulk.columns.register(
        Shifted, lambda places, rows, points, at: points.astype(int)[:, None] + [0, 1]
    )
    assert bulk.columns(places, 1, points, at).tolist() == [[1, 2], [0, 1]]
    inside, number = np.array([True, False]), np.array([1, 0])
    assert bulk.pick(places, 1, points, at, inside, number).tolist() == [2, 2]
    with pytest.raises(TypeError, match="no bulk code for Unregistered"):
        bulk.columns(Unregistered(), 1, points, at)
