"""Reports that no honest device sends are set aside; honest reports are not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldp import CountMeanSketch, HadamardCountMeanSketch, Rappor
from ldp.collection.plausibility import (
    CHANCE,
    is_plausible,
    ones_limits,
    row_limit,
)
from ldp.mechanisms import CATALOGUE, CatalogueMechanism
from ldp.mechanisms.joint_base import parts_of
from ldp.protocol.batch import Item
from ldp.protocol.randomness import SeededBits
from ldp.protocol.wire import HEADER_BYTES
from ldp.simulation.bulk_reports import encode_points, points_of
from ldp.tables.batches import candidate_cells, split_bodies
from tests.collecting import Service, batch, counted, items, registry

MECHANISMS = [example.mechanism for one in CATALOGUE.values() for example in one.examples()]


@pytest.mark.exact
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.describe())
def test_honest_reports_are_hardly_ever_set_aside(mechanism: CatalogueMechanism) -> None:
    """By the exact law, a report is set aside with probability CHANCE / 2 at most.

    The cells that are counted are all, half of them, or one. The value touches none of them, or as
    many as any value does.
    """
    from scipy.stats import binom

    for part in parts_of(mechanism):
        if not part.layout.is_bitwise:
            continue
        columns, touched = part.shape.columns, float(part.channel.touched)
        untouched = float(part.channel.untouched)
        for cells in {columns, (columns + 1) // 2, 1}:
            fewest, most = ones_limits(part, cells)
            for hashes in (0, min(cells, getattr(part.addressing, "hashes", 1))):
                true = binom.pmf(np.arange(cells + 1), hashes, touched)
                others = binom.pmf(np.arange(cells + 1), cells - hashes, untouched)
                law = np.convolve(true, others)[: cells + 1]
                assert law[:fewest].sum() + law[most + 1 :].sum() <= CHANCE / 2 * 1.001


@pytest.mark.exact
@pytest.mark.parametrize(("reports", "rows"), [(1, 1), (100, 1), (4, 65_536), (50_000, 256)])
def test_a_row_is_too_full_with_the_stated_chance(reports: int, rows: int) -> None:
    from scipy.stats import binom

    limit = row_limit(reports, rows)
    assert rows * binom.sf(limit, reports, 1 / rows) <= CHANCE
    assert limit == 0 or rows * binom.sf(limit - 1, reports, 1 / rows) > CHANCE


@pytest.mark.exact
def test_what_is_not_plausible_is_set_aside_and_counted_apart(tmp_path: Path) -> None:
    """Among 2,000 honest reports there are all ones, no ones, and 100 of one row."""
    mechanism = CountMeanSketch(epsilon=4.0, rows=256, width=1024, seed="00")
    encoder = mechanism.encoder(SeededBits(b"honest"))
    honest = np.frombuffer(
        b"".join(encoder.encode("hello")[10:] for _ in range(2000)), np.uint8
    ).reshape(2000, -1)
    rows, payloads = split_bodies(honest, mechanism.layout)
    assert is_plausible(mechanism, rows, payloads).all()
    fakes = payloads[:120].copy()
    fakes[:10], fakes[10:20] = 255, 0
    fake_rows = np.concatenate([rows[:20], np.full(100, 7, np.uint32)])
    good = is_plausible(
        mechanism, np.concatenate([rows, fake_rows]), np.concatenate([payloads, fakes])
    )
    assert not good[2000:].any()
    assert good[:2000][rows != 7].all()


@pytest.mark.exact
def test_a_column_of_signs_that_far_too_many_reports_name_is_set_aside() -> None:
    """Column 0 has the sign + for every value, so a fake of it names all; honest reports draw
    theirs.

    20,000 honest reports pass; 300 fakes in any row do not.
    """
    mechanism = HadamardCountMeanSketch(epsilon=4.0, rows=256, width=1024, seed="00")
    generator = np.random.default_rng(1)
    rows, payloads = encode_points(mechanism, points_of(mechanism, ["a"] * 20_000), generator)
    assert is_plausible(mechanism, rows, payloads).all()
    fakes = np.zeros((300, payloads.shape[1]), np.uint8)
    good = is_plausible(
        mechanism, np.concatenate([rows, rows[:300]]), np.concatenate([payloads, fakes])
    )
    assert not good[20_000:].any()
    assert good[:20_000].mean() > 0.998


SKETCH = CountMeanSketch(epsilon=4.0, rows=256, width=1024, seed="00")


BLOOM = Rappor(bits=256, hashes=2, cohorts=8, f=0.0, p=0.25, q=0.75, seed="00")


@pytest.mark.exact
@pytest.mark.parametrize("mechanism", [SKETCH, BLOOM])
def test_the_cells_of_candidates_are_those_of_the_mechanism(mechanism: Any) -> None:
    values = tuple(f"value {number}" for number in range(40))
    rows = np.arange(mechanism.shape.rows, dtype=np.uint32)[::-1]
    found = candidate_cells(mechanism, values, rows)
    bits = np.unpackbits(found, axis=1, bitorder="little")
    for row, cells in zip(rows.tolist(), bits, strict=True):
        expected = {cell for value in values for cell in mechanism.cells(value, row)}
        assert {*np.flatnonzero(cells).tolist()} == expected


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", [SKETCH, BLOOM])
def test_a_report_that_names_many_candidates_is_set_aside(mechanism: Any) -> None:
    """Reports that name all of 60 values that nobody holds are set aside; 2,000 honest reports
    stay.

    This fails falsely with probability 2e-6; the seed is fixed. Without the list, the twin, every
    fake passes.
    """
    random, few = np.random.default_rng(1), tuple(f"invented {number}" for number in range(60))
    encoder = mechanism.encoder(SeededBits(b"honest"))
    honest = np.frombuffer(
        b"".join(encoder.encode(few[n % 60] if n % 2 else f"held {n}")[10:] for n in range(2000)),
        np.uint8,
    ).reshape(2000, -1)
    rows, payloads = split_bodies(honest, mechanism.layout)
    fake_rows = random.integers(0, mechanism.shape.rows, 100).astype(np.uint32)
    bits = np.unpackbits(candidate_cells(mechanism, few, fake_rows), axis=1, bitorder="little")
    typical = int(mechanism.shape.columns * float(mechanism.channel.untouched))
    for cells in bits:  # up to as many ones as an honest report has
        more = random.permutation(np.flatnonzero(cells == 0))[: max(0, typical - int(cells.sum()))]
        cells[more] = 1
    fakes = np.packbits(bits, axis=1, bitorder="little")
    all_rows, both = np.concatenate([rows, fake_rows]), np.concatenate([payloads, fakes])
    good = is_plausible(mechanism, all_rows, both, few)
    assert good[:2000].all()
    assert not good[2000:].any()
    assert is_plausible(mechanism, all_rows, both).all()
    many = few + tuple(f"other {number}" for number in range(mechanism.shape.columns))
    assert is_plausible(mechanism, all_rows, both, many).all()


@pytest.mark.exact
def test_a_collector_judges_by_the_dictionary_of_its_registry(tmp_path: Path) -> None:
    """Reports whose ones all belong to the neighbours of a listed word are set aside."""
    asked = registry(tmp_path)
    values = tuple(f"word {number}" for number in range(60))
    (tmp_path / "words.txt").write_text("\n".join(values))
    text = asked.path.read_text()
    asked.path.write_text(text.replace("width = 1024", 'width = 1024\ndictionary = "words.txt"'))
    asked = registry(tmp_path)
    mechanism: Any = asked.metric("word").mechanism
    (cells,) = candidate_cells(mechanism, values, np.array([7], np.uint32))
    cells[np.flatnonzero(cells == 0)[:9]] = 255  # as many ones as honest reports have
    header = items(asked, "word", "hello", 1)[0].report[:HEADER_BYTES]
    fakes = [Item("word", 1, header + bytes([7]) + cells.tobytes()) for _ in range(3)]
    honest = items(asked, "word", "word 3", 30)
    with Service(tmp_path) as service:
        assert service.send(batch([*honest, *fakes])).json == {"refused": []}
        service.collector.move_everything()
        assert counted(service.store, asked, "word").total == 30
        assert counted(service.store / "set-aside", asked, "word").total == 3


@pytest.mark.exact
def test_devices_that_keep_their_row_are_not_set_aside() -> None:
    mechanism = Rappor(bits=32, hashes=2, cohorts=64, f=0.5, p=0.5, q=0.75, seed="00")
    rows = np.full(5000, 3, np.uint32)
    payloads = np.tile(np.array([15, 15, 15, 15], np.uint8), (5000, 1))
    assert is_plausible(mechanism, rows, payloads).all()
