"""Encoders as one function: a column's law by enumeration, a set's law by its shares."""

import os
import struct
from collections import Counter
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import numpy as np
import pytest

from ldp.errors import ParameterError
from ldp.mechanisms import (
    HadamardResponse,
    LocalHashing,
    Mechanism,
    PrefixExtension,
    ProjectiveGeometry,
    RandomizedResponse,
    SubsetSelection,
    report_functions,
)
from ldp.mechanisms.base import Encoder
from ldp.mechanisms.report_functions import report_function
from ldp.protocol.kinds import Index, Subset
from ldp.protocol.randomness import ONE, SeededBits
from ldp.protocol.wire import split_report
from tests.statistics import ALPHA, law_p

LETTERS = tuple("abcdefg")
NUMBERS = tuple(map(str, range(300)))
NAME_A_COLUMN = (
    RandomizedResponse(categories=LETTERS, epsilon=1.0),
    RandomizedResponse(categories=("a", "c"), epsilon=1.0),
    LocalHashing(epsilon=1.0, rows=5, seed="00ff"),
    LocalHashing(epsilon=1.0, rows=1, seed="00ff"),
    PrefixExtension(epsilon=1.0, rows=4, seed="00ff", alphabet="abc", length=2, groups=2),
    HadamardResponse(categories=LETTERS, epsilon=1.0),
    ProjectiveGeometry(categories=LETTERS, epsilon=1.0),
    ProjectiveGeometry(categories=LETTERS, epsilon=1.0, field=2),
)
SETS = (
    SubsetSelection(categories=LETTERS[:5], epsilon=0.5),
    SubsetSelection(categories=LETTERS[:4], epsilon=2.0, size=1),
    SubsetSelection(categories=LETTERS[:4], epsilon=0.5, size=3),
)


def parts(mechanism: Mechanism, report: bytes) -> tuple[int, int]:
    row, payload = split_report(report, mechanism.header, mechanism.layout)
    return row, mechanism.layout.payload_number(payload)


@pytest.mark.exact
@pytest.mark.parametrize("mechanism", NAME_A_COLUMN, ids=lambda mechanism: mechanism.describe())
def test_every_row_and_column_has_its_share_of_the_random_numbers(
    mechanism: Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers below rows x touched x other columns are equally likely.

    The report is true exactly where the exclusive or of both numbers is below the threshold: for
    each first number at as many second ones.
    """
    served: Iterator[tuple[int, int]] = iter(())
    monkeypatch.setattr(
        os, "urandom", lambda size: struct.pack("<QQ", *next(served)).ljust(size)[:size]
    )
    report = report_function(mechanism)
    assert report is not None
    (rows, columns), touches = mechanism.shape, mechanism.touches
    threshold = mechanism.report_thresholds[0]
    choices = rows * touches * (columns - touches)
    for uniform in (0, threshold - 1, threshold, ONE - 1):
        seen = Counter[tuple[int, int]]()
        for number in range(choices):
            first = number + ONE // choices * choices - choices
            served = iter([(first, first ^ uniform)])
            seen[parts(mechanism, report("c"))] += 1
        cells = {(row, cell) for row in range(rows) for cell in mechanism.cells("c", row)}
        is_true = uniform < threshold
        assert {place for place in seen if place in cells} == (cells if is_true else set())
        assert len(seen) == rows * (touches if is_true else columns - touches)
        assert len(set(seen.values())) == 1
    beyond = ONE // choices * choices
    if beyond < ONE:
        served = iter([(beyond, 0), (ONE - 1, 0), (0, threshold)])
        assert parts(mechanism, report("c"))[1] not in mechanism.cells("c", 0)
        assert not [*served], "numbers from the first beyond are drawn again"


@pytest.mark.exact
@pytest.mark.parametrize(
    "mechanism",
    [
        RandomizedResponse(categories=NUMBERS, epsilon=40.0),
        ProjectiveGeometry(categories=NUMBERS, epsilon=40.0, field=7),
        SubsetSelection(categories=NUMBERS, epsilon=40.0, size=2),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_columns_of_two_bytes_are_named(mechanism: Mechanism) -> None:
    """Epsilon 40 is the truth, but for a probability of about 1e-14."""
    for value in ("0", "255", "256", "299"):
        row, number = parts(mechanism, mechanism.encoder().encode(value))
        cells = mechanism.cells(value, row)
        assert number in cells if mechanism.kind is Index else number >> cells[0] & 1


@pytest.mark.exact
def test_numbers_beyond_the_last_multiple_are_no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 2**32 // 5 * 5
    words = (limit, 2**32 - 1, limit - 1, *range(29))
    monkeypatch.setattr(os, "urandom", lambda size: struct.pack("<32I", *words))
    columns = report_functions._uniform_columns(5)
    assert [*islice(columns, 31)] == [4, *(number % 5 for number in range(29)), 4]


def drawn_sets(mechanism: Mechanism, reports: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    stream = SeededBits(b"sets")
    monkeypatch.setattr(os, "urandom", lambda size: stream.draw(8 * size).to_bytes(size, "little"))
    report = report_function(mechanism)
    assert report is not None
    return np.array([parts(mechanism, report("c"))[1] for _ in range(reports)])


def law_of_sets(mechanism: Mechanism) -> dict[int, float]:
    layout, (cell,) = mechanism.layout, mechanism.cells("c", 0)
    assert isinstance(layout, Subset)
    touched, untouched = mechanism.channel.touched, mechanism.channel.untouched
    numbers = layout.numbers()
    return {n: float(layout.probability(n, (cell,), touched, untouched)) for n in numbers}


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", SETS, ids=lambda mechanism: mechanism.describe())
def test_sets_have_their_law(mechanism: Mechanism, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream is seeded, so this fails always or never; a fresh one fails with probability
    ALPHA."""
    sets = drawn_sets(mechanism, 20_000, monkeypatch)
    assert law_p(sets, law_of_sets(mechanism)) > ALPHA


@pytest.mark.statistical
def test_sets_that_columns_enter_in_order_do_not_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        report_functions, "_uniform_columns", lambda columns: (n % columns for n in count())
    )
    sets = drawn_sets(SETS[0], 20_000, monkeypatch)
    assert law_p(sets, law_of_sets(SETS[0])) < ALPHA


@pytest.mark.exact
@pytest.mark.parametrize("mechanism", [*NAME_A_COLUMN, *SETS], ids=lambda m: m.describe())
def test_a_value_outside_the_domain_draws_no_bit(
    mechanism: Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    def urandom(size: int) -> bytes:
        raise AssertionError("a bit was drawn")

    encoder = mechanism.encoder()
    monkeypatch.setattr(os, "urandom", urandom)
    for value in (3.5, None, ["c"], "\ud800"):
        with pytest.raises(ParameterError):
            encoder.encode(value)  # type: ignore[arg-type]


@pytest.mark.exact
def test_an_encoder_draws_by_the_function_from_the_operating_system_alone() -> None:
    for mechanism in (*NAME_A_COLUMN, *SETS):
        assert mechanism.encoder()._report is not None
        assert mechanism.encoder(SeededBits(b""))._report is None


@pytest.mark.exact
def test_an_encoder_whose_drawing_is_replaced_uses_no_function(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mechanism = NAME_A_COLUMN[0]
    monkeypatch.setattr(Encoder, "draw", lambda encoder, point: (0, point))
    reports = {mechanism.encoder().encode("c") for _ in range(20)}
    assert [parts(mechanism, report) for report in reports] == [(0, 2)]
