"""Projective geometry, subsets and numbers keep further laws beside those of the catalogue."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp import (
    BitFlip,
    OneBitMean,
    Piecewise,
    PrefixExtension,
    ProjectiveGeometry,
    RandomizedResponse,
    RegressionMoments,
    SubsetSelection,
)
from ldp.audit import audit_encoder
from ldp.audit.tried_values import tried
from ldp.bulk import geometry_kernels
from ldp.bulk.geometry_kernels import count_incidences, vectors
from ldp.errors import DecodeError, LdpError
from ldp.mechanisms.outcomes import outcomes
from ldp.mechanisms.projective_geometry import (
    Hyperplane,
    is_prime,
    number_of_points,
    point_number,
    tuned_field,
    vector,
)
from ldp.protocol.randomness import SeededBits
from ldp.server import Table, discover_prefixes
from tests.statistics import ALPHA

SPACES = [(2, 2), (2, 4), (3, 3), (5, 3), (7, 2)]


@pytest.mark.exact
@pytest.mark.parametrize(("field", "dimension"), SPACES)
def test_a_hyperplane_and_its_outside_are_all_points(field: int, dimension: int) -> None:
    many = number_of_points(field, dimension)
    for point in range(many):
        assert point_number(vector(point, field, dimension), field) == point
        plane = Hyperplane(field, vector(point, field, dimension))
        inside = list(plane)
        outside = [plane.outside(i) for i in range(many - len(plane))]
        assert sorted(inside + outside) == list(range(many))
        assert all(column in plane for column in inside)
        assert not any(column in plane for column in outside)


@pytest.mark.exact
@pytest.mark.parametrize(("field", "dimension"), SPACES)
def test_all_points_have_their_vectors(field: int, dimension: int) -> None:
    many = number_of_points(field, dimension)
    numbers = np.random.default_rng(1).permutation(many)
    expected = [list(vector(point, field, dimension)) for point in numbers.tolist()]
    assert vectors(numbers, field, dimension).tolist() == expected


@pytest.mark.exact
@pytest.mark.parametrize("at_once", [1, 5, 1 << 19])
@pytest.mark.parametrize(("field", "dimension"), SPACES)
def test_the_transform_sums_over_hyperplanes(
    field: int, dimension: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(geometry_kernels, "AT_ONCE", at_once)
    many = number_of_points(field, dimension)
    counts = np.random.default_rng(1).integers(0, 10**9, many)
    normals = vectors(np.arange(many), field, dimension)
    planes = [Hyperplane(field, vector(point, field, dimension)) for point in range(many)]
    summed = [sum(int(counts[i]) for i in plane) for plane in planes]
    assert count_incidences(counts, normals, field).tolist() == summed


@pytest.mark.exact
@given(st.floats(0.05, 12), st.integers(2, 100_000))
def test_the_tuned_field_is_a_prime_near_the_best_or_the_least_that_is_enough(
    epsilon: float, categories: int
) -> None:
    field, best = tuned_field(epsilon, categories), math.exp(epsilon) + 1
    assert is_prime(field)
    if field + 1 >= categories:
        assert not any(is_prime(n) for n in range(max(2, categories - 1), field))
    else:
        nearer = abs(field - best)
        inside = range(math.ceil(best - nearer + 1e-6), math.ceil(best + nearer - 1e-6))
        assert not any(is_prime(number) for number in inside)


@pytest.mark.exact
@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: ProjectiveGeometry(categories="ab", epsilon=1.0), "list of texts"),  # type: ignore[arg-type]
        (lambda: ProjectiveGeometry(categories=("a", "b"), epsilon=1.0, field=6), "prime"),
        (lambda: ProjectiveGeometry(categories=("a", "b"), epsilon=1.0, field=True), "prime"),
        (
            lambda: ProjectiveGeometry(
                categories=tuple(map(str, range(8300))), epsilon=1.0, field=8209
            ),
            "smaller field",
        ),
        (lambda: SubsetSelection(categories=("a", "b"), epsilon=1.0, size=2), "size"),
        (lambda: SubsetSelection(categories=("a", "b"), epsilon=1.0, size=-1), "size"),
        (lambda: SubsetSelection(categories=("a",), epsilon=1.0), "2 or more"),
        (
            lambda: ProjectiveGeometry(categories=("a", "b", "c"), epsilon=1.0, field=5),
            "at most 2 for",
        ),
        (lambda: OneBitMean(bounds=(1, 1), epsilon=1.0), "lower first"),
        (lambda: OneBitMean(bounds=(0, 5e-324), epsilon=1.0), "too close"),
        (
            lambda: BitFlip(bounds=(0, 1), epsilon=1.0, buckets=65536, bits=65536),
            "buckets times bits",
        ),
        (lambda: OneBitMean(bounds=(0, math.inf), epsilon=1.0), "2\\*\\*53"),
        (lambda: OneBitMean(bounds=(0, math.nan), epsilon=1.0), "2\\*\\*53"),
        (lambda: OneBitMean(bounds=(False, True), epsilon=1.0), "two numbers"),
        (lambda: OneBitMean(bounds=(0, 1), epsilon=1.0, outside="drop"), "outside"),
        (lambda: Piecewise(bounds=(0, 1), epsilon=1.0, bins=1), "bins"),
        (lambda: BitFlip(bounds=(0, 1), epsilon=1.0, buckets=1, bits=1), "buckets"),
        (lambda: BitFlip(bounds=(0, 1), epsilon=1.0, buckets=4, bits=5), "bits"),
        (lambda: RegressionMoments(features=0, bounds=(), epsilon=1.0), "features"),
        (lambda: RegressionMoments(features=1, bounds=((0, 1),), epsilon=1.0), "a pair .* every"),
        (
            lambda: OneBitMean(bounds=(0, 9), epsilon=1.0, outside="refuse").encoder().encode(9.5),
            "outside of",
        ),
        (lambda: OneBitMean(bounds=(0, 9), epsilon=1.0).encoder().encode("nine"), "not a number"),
        (
            lambda: (
                OneBitMean(bounds=(0, 9), epsilon=1.0, outside="refuse").encoder().encode(10**400)
            ),
            "outside of",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(make: object, line: str) -> None:
    with pytest.raises(LdpError, match=line) as caught:
        make()  # type: ignore[operator]
    assert "\n" not in str(caught.value)


@pytest.mark.exact
def test_a_subset_and_a_point_tell_as_much_as_the_answers_they_equal() -> None:
    """A set of one is randomised response; so are the points of a line's geometry (t = 2)."""
    letters, eps = tuple("abcd"), 1.0
    plain, one, line = (
        outcomes(mechanism)
        for mechanism in (
            RandomizedResponse(categories=letters, epsilon=eps),
            SubsetSelection(categories=letters, epsilon=eps, size=1),
            ProjectiveGeometry(categories=letters, epsilon=eps, field=3),
        )
    )
    assert plain == one == line


@pytest.mark.exact
def test_edges_of_parameters_are_audited_too() -> None:
    for mechanism in (
        SubsetSelection(categories=("a", "b"), epsilon=1.0),
        PrefixExtension(epsilon=1.0, rows=4, seed="00", groups=2),
        BitFlip(bounds=(0, 2), buckets=2, bits=2, epsilon=1.0),
        Piecewise(bounds=(0, 1), epsilon=8.0, bins=2),
    ):
        encoder = mechanism.encoder(SeededBits(b"edges"))
        values = tried(mechanism)
        assert audit_encoder(mechanism, values, encoder.encode, trials=300, alpha=ALPHA).passed


@pytest.mark.exact
def test_too_many_continuations_are_refused_before_they_are_listed() -> None:
    mechanism = PrefixExtension(epsilon=1.0, rows=64, seed="00", groups=1)
    with pytest.raises(DecodeError, match="more groups"):
        discover_prefixes(Table.empty(mechanism))
