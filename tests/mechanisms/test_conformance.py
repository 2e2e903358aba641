"""Every mechanism of the catalogue keeps these laws; nothing here knows any of them."""

import dataclasses
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp.arrays import Ints
from ldp.audit import exact_law
from ldp.errors import MergeError, ReportError
from ldp.mechanisms import CATALOGUE, CatalogueMechanism, Mechanism, from_parameters
from ldp.mechanisms.addressing import Identity
from ldp.mechanisms.base import Example
from ldp.mechanisms.joint_base import parts_of
from ldp.protocol.hashing import Value
from ldp.protocol.kinds import Index
from ldp.protocol.randomness import SeededBits
from ldp.protocol.wire import HEADER_BYTES, split_report
from ldp.server import Table, TableBuilder
from ldp.simulation import draw_table, encode_points, points_of
from ldp.tables.joint_table import JointTable, empty_builder
from tests.examples import (
    CATALOGUED,
    WHOLE,
    Tabled,
    for_each_kind,
    for_each_mechanism,
    for_everything,
    part_numbers,
    sampling_each_mechanism,
    sampling_everything,
)
from tests.reading import read_report
from tests.statistics import ALPHA, law_p


def some_reports(
    example: Tabled | Example, count: int, seed: bytes = b"conformance"
) -> list[bytes]:
    encoder = example.mechanism.encoder(SeededBits(seed))
    return [encoder.encode(example.values[i % len(example.values)]) for i in range(count)]


def table_of(mechanism: Mechanism, reports: list[bytes]) -> Table:
    builder = TableBuilder(mechanism)
    builder.add_all(reports)
    return builder.build()


def read(mechanism: CatalogueMechanism, report: bytes) -> list[tuple[Mechanism, int, int]]:
    """Return mechanism, row and payload of every part, from the scalar reading."""
    return part_numbers(mechanism, *split_report(report, mechanism.header, mechanism.layout))


def counted_by_hand(mechanism: CatalogueMechanism, reports: list[bytes]) -> list[Ints]:
    """Return the counts of every part, from the scalar reading of each report."""
    counts: list[Ints] = [np.zeros(part.shape, np.int64) for part in parts_of(mechanism)]
    for report in reports:
        for cells, (part, row, number) in zip(counts, read(mechanism, report), strict=True):
            cells[row] += [adds(part, number, column) for column in range(part.shape.columns)]
    return counts


@pytest.mark.exact
@for_everything
def test_what_a_report_names_is_what_is_counted(example: Example) -> None:
    mechanism = example.mechanism
    for data in some_reports(example, 20):
        shown = read_report(data, mechanism.header, mechanism.layout)
        counted = read(mechanism, data)
        for (row, named), (part, counted_row, number) in zip(shown, counted, strict=True):
            assert row == counted_row
            columns = range(part.shape.columns)
            assert named.tolist() == [part.layout.names(number, c) for c in columns]
            if not part.kind.is_signed:
                assert named.tolist() == [adds(part, number, column) for column in columns]
        with pytest.raises(ReportError):
            read_report(data[:-1], mechanism.header, mechanism.layout)


@pytest.mark.exact
@for_everything
def test_a_report_is_read_back_and_every_truncation_and_extension_refused(
    example: Example,
) -> None:
    mechanism = example.mechanism
    for data in some_reports(example, 20):
        assert len(data) == HEADER_BYTES + mechanism.layout.body_bytes
        for part, row, _ in read(mechanism, data):
            assert 0 <= row < part.shape.rows
        for cut in range(len(data)):
            with pytest.raises(ReportError):
                read(mechanism, data[:cut])
        with pytest.raises(ReportError, match="bytes"):
            read(mechanism, data + b"\0")


@pytest.mark.exact
@sampling_everything
def test_a_changed_header_is_refused_and_a_changed_body_is_never_misread(example: Example) -> None:
    """Every single-byte change of a report is refused, or is another valid report."""
    mechanism = example.mechanism
    (data,) = some_reports(example, 1)
    valid = {
        mechanism.header
        + row.to_bytes(mechanism.layout.row_bytes, "little")
        + number.to_bytes(mechanism.layout.payload_bytes, "little")
        for row, number in exact_law(mechanism, example.values[0])
    }
    for place in range(len(data)):
        for byte in range(256):
            changed = data[:place] + bytes([byte]) + data[place + 1 :]
            builder = empty_builder(mechanism)
            if changed in valid:
                builder.add(changed)
                assert builder.build().total == 1
            else:
                with pytest.raises(ReportError):
                    builder.add(changed)
                with pytest.raises(ReportError):
                    read(mechanism, changed)
                assert builder.build().total == 0


@pytest.mark.exact
@for_each_kind
def test_a_table_counts_what_the_scalar_reading_says(example: Tabled) -> None:
    reports = some_reports(example, 300)
    table = table_of(example.mechanism, reports)
    assert (table.counts == counted_by_hand(example.mechanism, reports)[0]).all()
    assert table.total == 300


@for_each_kind
@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 60), min_size=2, max_size=2), order=st.permutations(range(3)))
@pytest.mark.exact
def test_tables_add_in_any_grouping_and_order(
    example: Tabled, cuts: list[int], order: list[int]
) -> None:
    reports = some_reports(example, 60)
    low, high = sorted(cuts)
    parts = [
        table_of(example.mechanism, part)
        for part in (reports[:low], reports[low:high], reports[high:])
    ]
    a, b, c = (parts[i] for i in order)
    whole = table_of(example.mechanism, reports)
    assert (a + b) + c == whole
    assert a + (b + c) == whole
    assert whole + Table.empty(example.mechanism) == whole
    assert (a + b).counts.dtype.itemsize == 1


@pytest.mark.exact
@for_each_mechanism
def test_a_table_file_is_read_back(example: Tabled) -> None:
    table = dataclasses.replace(
        table_of(example.mechanism, some_reports(example, 700)),
        windows=("2026-01-01",),
        dictionary=("a", "ü"),
    )
    assert Table.from_bytes(table.to_bytes()) == table


@pytest.mark.exact
@for_everything
def test_parts_are_counted_read_back_and_added_as_whole_reports_are(example: Example) -> None:
    """The device's reports, split by hand, count as the builder counts them.

    So do files and sums, and reports made in bulk.
    """
    mechanism = example.mechanism
    reports = some_reports(example, 90)
    tables = []
    for some in (reports[:40], reports[40:], reports):
        builder = empty_builder(mechanism)
        builder.add_all(some)
        tables.append(builder.build())
    first, second, whole = tables
    assert first + second == whole  # type: ignore[operator]
    assert type(whole).from_bytes(whole.to_bytes()) == whole
    counted = whole.tables if isinstance(whole, JointTable) else (whole,)
    for table, counts in zip(counted, counted_by_hand(mechanism, reports), strict=True):
        assert (table.counts == counts).all()
        assert table.total == len(reports)
    bulk = empty_builder(mechanism)
    points = [part[[0, 1, 0]] for part in points_of(mechanism, example.values)]
    bulk.add_batch(*encode_points(mechanism, points, np.random.default_rng(1)), window="2026-01-01")
    made = bulk.build()
    assert (made.total, made.windows) == (3, ("2026-01-01",))


@pytest.mark.exact
@given(st.lists(st.none() | st.permutations(["x", "y"]) | st.just(["z"]), min_size=3, max_size=3))
def test_dictionaries_merge_in_any_grouping_and_order(
    dictionaries: list[list[str] | None],
) -> None:
    empty = Table.empty(CATALOGUED[0].mechanism)
    a, b, c = (
        dataclasses.replace(empty, dictionary=None if d is None else tuple(d)) for d in dictionaries
    )
    assert (a + b) + c == a + (b + c) == (c + b) + a


@pytest.mark.exact
def test_tables_of_different_mechanisms_do_not_add_and_both_are_named() -> None:
    first, second = CATALOGUED[0].mechanism, CATALOGUED[-1].mechanism
    with pytest.raises(MergeError) as caught:
        Table.empty(first) + Table.empty(second)
    assert first.fingerprint.hex() in str(caught.value)
    assert second.fingerprint.hex() in str(caught.value)


@pytest.mark.exact
@for_everything
def test_parameters_survive_json_and_no_other_mechanism_shares_the_fingerprint(
    example: Example,
) -> None:
    mechanism = example.mechanism
    again = from_parameters(json.loads(json.dumps(mechanism.parameters())))
    assert again == mechanism
    assert again.fingerprint == mechanism.fingerprint
    others = [other.mechanism for other in WHOLE if other.mechanism != mechanism]
    assert mechanism.fingerprint not in {other.fingerprint for other in others}


@pytest.mark.exact
def test_names_and_wire_ids_are_unique() -> None:
    assert len({mechanism.wire_id for mechanism in CATALOGUE.values()}) == len(CATALOGUE)
    assert all(name == mechanism.name for name, mechanism in CATALOGUE.items())


@pytest.mark.exact
@for_each_kind
def test_a_mechanism_is_frozen_and_its_encoder_shows_nothing(example: Tabled) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        example.mechanism.name = "other"  # type: ignore[misc]
    encoder = example.mechanism.encoder(SeededBits(b"hidden"))
    assert "hidden" not in repr(encoder)
    assert "hidden" not in repr(vars(encoder))


@pytest.mark.exact
@for_each_mechanism
def test_the_estimator_is_exactly_unbiased_for_every_cell(example: Tabled) -> None:
    """E[holders of a cell | one report] is 1 where the value touches it, and 0 elsewhere, exactly.

    The expectation runs over the enumerated law in fractions.
    """
    mechanism, channel = example.mechanism, example.mechanism.channel
    rows, columns = mechanism.shape
    for value in example.values:
        law = exact_law(mechanism, value)
        for row in range(rows):
            for column in range(columns):
                reported = sum(
                    (
                        probability
                        for (at, number), probability in law.items()
                        if at == row and mechanism.layout.names(number, column)
                    ),
                    Fraction(0),
                )
                holders = (reported * rows - channel.untouched) / (
                    channel.touched - channel.untouched
                )
                assert holders == sum(
                    share * (column in cells) for share, cells in mechanism.roundings(value, row)
                )


@pytest.mark.exact
@for_each_mechanism
def test_a_report_supports_a_value_as_likely_as_stated(example: Tabled) -> None:
    """P(a report names a cell of one value | another is held) is summed over the enumerated law.

    Values are found in one row here, and holding one is one thing.
    """
    mechanism = example.mechanism
    if mechanism.kind is not Index or not isinstance(mechanism.addressing, Identity):
        return
    for asked in example.values:
        cells = set(mechanism.cells(asked, 0))
        assert len(cells) == mechanism.touches
        for held in example.values:
            law = exact_law(mechanism, held)
            named = sum((each for (_, cell), each in law.items() if cell in cells), Fraction(0))
            support = mechanism.support
            assert named == (support.touched if asked == held else support.untouched)
            if asked != held:
                assert len(cells & set(mechanism.cells(held, 0))) == mechanism.overlap


@pytest.mark.exact
@for_everything
def test_a_value_that_is_no_value_is_refused_before_a_bit_is_drawn(example: Example) -> None:
    class NoBits:
        def draw(self, count: int) -> int:
            raise AssertionError("a bit was drawn")

    numeric = isinstance(example.values[0], int | float)
    for value in (math.nan if numeric else 3.5, None, ["a"], "secret\ud800"):
        with pytest.raises(ValueError, match="value") as caught:
            example.mechanism.encoder(NoBits()).encode(value)  # type: ignore[arg-type]
        chain = [caught.value, caught.value.__context__, caught.value.__cause__]
        assert chain[1:] == [None, None], "a chained error would carry the value along"
        assert "secret" not in str(caught.value)


def adds(mechanism: Mechanism, number: int, column: int) -> int:
    """Return what a payload adds to a cell of its row: 1 or 0, or for SIGN its sign in its
    column."""
    if not mechanism.kind.is_signed:
        return int(mechanism.layout.names(number, column))
    return (1 - 2 * (number & 1)) * (number >> 1 == column)


def report_cell_law(example: Tabled, value: Value, row: int, column: int) -> np.ndarray:
    """Return P(one report of the value adds -1, 0, +1 to the cell), from the enumerated law."""
    law = np.zeros(3)
    for (at, number), probability in exact_law(example.mechanism, value).items():
        added = adds(example.mechanism, number, column) if at == row else 0
        law[1 + added] += float(probability)
    return law


def cell_law(example: Tabled, row: int, column: int, held: tuple[int, ...]) -> dict[int, float]:
    """Return the exact law of one cell of the table of held[i] reports of each value.

    It is a convolution, because reports are independent.
    """
    law = np.ones(1)
    for value, count in zip(example.values, held, strict=True):
        one = report_cell_law(example, value, row, column)
        for _ in range(count):
            law = np.convolve(law, one)
    return {i - sum(held): p for i, p in enumerate(law)}


@pytest.mark.statistical
@pytest.mark.parametrize("way", ["device", "bulk", "drawn"])
@sampling_each_mechanism
def test_every_way_to_a_table_has_the_same_exact_law(example: Tabled, way: str) -> None:
    """In 1,500 tables of a fixed population, the count of every cell has its exact law.

    They are made from device reports or from bulk reports, or drawn without reports. This fails
    falsely with probability ALPHA.
    """
    mechanism, repeats = example.mechanism, 1500
    held = tuple(4 - i for i in range(len(example.values)))
    generator = np.random.default_rng(11)
    encoder = mechanism.encoder(SeededBits(way.encode()))
    points = [np.repeat(part, held, axis=0) for part in points_of(mechanism, example.values)]
    tables = []
    for _ in range(repeats):
        if way == "drawn":
            values: list[Any] = list(example.values)
            tables.append(
                draw_table(mechanism, values, counts=np.array(held), generator=generator).counts
            )
        elif way == "bulk":
            builder = TableBuilder(mechanism)
            builder.add_batch(*encode_points(mechanism, points, generator))
            tables.append(builder.build().counts)
        else:
            pairs = zip(example.values, held, strict=True)
            reports = [encoder.encode(value) for value, count in pairs for _ in range(count)]
            tables.append(counted_by_hand(mechanism, reports)[0])
    drawn = np.stack(tables).astype(np.int64)
    rows, columns = mechanism.shape
    for row in range(rows):
        for column in range(columns):
            law = cell_law(example, row, column, held)
            assert law_p(drawn[:, row, column], law) > ALPHA / (rows * columns)
    wrong = cell_law(example, 0, 0, tuple(2 * count for count in held))
    assert law_p(drawn[:, 0, 0], wrong) < ALPHA  # the twin: twice the reports would be noticed


@pytest.mark.statistical
@sampling_each_mechanism
def test_a_table_drawn_from_frequencies_samples_its_population(example: Tabled) -> None:
    """A cell is Binomial(users, mean probability), with more spread than from fixed counts.

    This fails falsely with probability ALPHA; the seed is fixed. The twin has a count more.
    """
    mechanism, users, repeats = example.mechanism, 12, 2000
    values: list[Any] = list(example.values)
    shares = np.array([0.5] + [0.5 / (len(values) - 1)] * (len(values) - 1))
    generator = np.random.default_rng(5)
    counts = np.array(
        [
            draw_table(
                mechanism, values, frequencies=shares, users=users, generator=generator
            ).counts[0, 0]
            for _ in range(repeats)
        ]
    ).astype(np.int64)
    one = sum(
        share * report_cell_law(example, value, 0, 0)
        for share, value in zip(shares, example.values, strict=True)
    )
    law = np.ones(1)
    for _ in range(users):
        law = np.convolve(law, one)
    assert law_p(counts, {i - users: p for i, p in enumerate(law)}) > ALPHA
    if mechanism.cost.epsilon > 1.5:
        shifted = {i - users + 1: p for i, p in enumerate(law)}
        assert law_p(counts, shifted) < ALPHA
