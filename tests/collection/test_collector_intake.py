"""A batch is sorted in bulk as it is item by item."""

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp import CountMeanSketch, SubsetSelection
from ldp.collection.intake import NotNow, SortedBatch, collected_metrics, sort_batch
from ldp.errors import ReportError
from ldp.mechanisms import CATALOGUE, CatalogueMechanism
from ldp.protocol.batch import HEAD_BYTES, Batch, Item
from ldp.protocol.wire import HEADER_BYTES
from tests.collecting import TODAY, batch, items, registry


def each_by_each(data: bytes, asked: object) -> object:
    """Return what sorting one item at a time makes of a batch: the twin of the bulk way."""
    from ldp.collection import intake

    try:
        return intake._sort_each(Batch.from_bytes(data), asked, TODAY)  # type: ignore[arg-type]
    except NotNow as error:
        return str(error)
    except ReportError:
        return None


@pytest.mark.exact
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_the_bulk_way_takes_a_batch_apart_as_one_by_one_does(data: st.DataObject) -> None:
    """Batches are uniform or mixed, of every metric and of none; some are damaged in one to three
    bytes."""
    asked = registry(SCRATCH)
    value = {"city": "Oslo", "word": "hello", "old": "yes"}
    names = data.draw(st.lists(st.sampled_from(["city", "word", "old", "city"]), max_size=4))
    listed = [
        item
        for name in names
        for item in items(asked, name, value[name], data.draw(st.integers(1, 40)))
    ]
    if data.draw(st.booleans()):
        listed = [one._replace(version=data.draw(st.integers(1, 3))) for one in listed]
    body = bytearray(batch(listed))
    for _ in range(data.draw(st.integers(0, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    known = collected_metrics(asked)
    expected = each_by_each(bytes(body), known)
    try:
        found: SortedBatch | str | None = sort_batch(bytes(body), known, TODAY)
    except NotNow as error:
        found = str(error)
    except ReportError:
        found = None
    assert found == expected


@pytest.mark.exact
def test_a_mixed_batch_is_known_by_what_its_items_begin_with() -> None:
    """A batch with one changed byte in a beginning, a column or the padding is not known."""
    from ldp.collection import intake

    asked = registry(SCRATCH)
    listed = [*items(asked, "city", "Oslo", 2), *items(asked, "word", "hello", 1)]
    body, known = batch(listed), collected_metrics(asked)
    found = intake._sort_known(body, known, TODAY)
    assert found == each_by_each(body, known)
    assert found is not None
    assert [lot.reports for lot in found.lots] == [2, 1]
    name, column, padding = HEAD_BYTES + 9, HEAD_BYTES + listed[0].size - 1, len(body) - 1
    for place in (0, name, column, padding):
        damaged = body[:place] + bytes([body[place] ^ 0x80]) + body[place + 1 :]
        assert intake._sort_known(damaged, known, TODAY) is None
    assert intake._sort_known(body, known, date.max) is None


@pytest.mark.exact
def test_many_reports_of_two_metrics_are_not_taken_for_those_of_the_first() -> None:
    """The batch has the length of as many reports of one metric."""
    from ldp.collection import intake

    metric = registry(SCRATCH).metric("city")._replace(version=1, expires=TODAY)
    known = intake.CollectedMetrics(x=metric, y=metric)
    report = metric.mechanism.encoder().encode("Oslo")
    listed = [Item(name, 1, report) for name in "xy" for _ in range(50)]
    lots = sort_batch(batch(listed), known, TODAY).lots
    assert [(lot.metric, lot.reports) for lot in lots] == [("x", 50), ("y", 50)]
    late = sort_batch(batch(listed[:50]), known, date.max)
    assert [refusal.code for refusal in late.refused] == ["expired"] * 50


EVERY = [
    *((one.mechanism, one.values[0]) for kind in CATALOGUE.values() for one in kind.examples()),
    (CountMeanSketch(epsilon=4.0, rows=256, width=64, seed="00"), "a"),
    (SubsetSelection(epsilon=1.0, categories=tuple("abcdefgh")), "a"),
]
"""Mechanisms, each with a value.

The last two use every bit of their bodies; the last one does not take every body.
"""


@pytest.mark.exact
@pytest.mark.parametrize(
    ("mechanism", "value"), EVERY, ids=[f"{one.name}-{i}" for i, (one, _) in enumerate(EVERY)]
)
def test_reports_of_any_bytes_are_judged_in_bulk_as_one_by_one(
    mechanism: CatalogueMechanism, value: Any
) -> None:
    """50 reports are good; then one of them, or all, have random bytes as bodies."""
    from ldp.collection import intake

    encoder, random = mechanism.encoder(), np.random.default_rng(1)
    metric = (
        registry(SCRATCH).metric("city")._replace(version=1, expires=TODAY, mechanism=mechanism)
    )
    known = intake.CollectedMetrics(x=metric)
    good = np.array([list(encoder.encode(value)) for _ in range(50)], dtype=np.uint8)
    for damaged in (0, 1, 50):
        reports = good.copy()
        shape = reports[:damaged, HEADER_BYTES:].shape
        reports[:damaged, HEADER_BYTES:] = random.integers(0, 256, shape, dtype=np.uint8)
        body = batch([Item("x", 1, report.tobytes()) for report in reports])
        each, bulk = each_by_each(body, known), intake._sort_uniform(body, known, TODAY)
        assert isinstance(each, SortedBatch)
        assert bulk == (None if each.refused else each)
        assert sort_batch(body, known, TODAY) == each
        assert damaged or bulk


@pytest.fixture(autouse=True, scope="module")
def _scratch(tmp_path_factory: pytest.TempPathFactory) -> None:
    global SCRATCH
    SCRATCH = tmp_path_factory.mktemp("registry")


SCRATCH = Path()
