"""Sealed batches are written and read as bytes."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp.errors import ParameterError, ReportError
from ldp.protocol.batch import LEAST_BYTES, MOST_BYTES, MOST_ITEMS, Batch, Item, pack_batches

ITEMS = st.builds(
    Item,
    metric=st.text(st.characters(codec="utf-8"), max_size=40),
    version=st.integers(1, 2**32 - 1),
    report=st.binary(max_size=300),
)
BATCH = Batch(bytes(range(16)), date(2026, 11, 21), (Item("city", 1, b"a report"),) * 3)


@pytest.mark.exact
@given(
    st.binary(min_size=16, max_size=16),
    st.dates(date(1970, 1, 1), date(9999, 12, 31)),
    st.lists(ITEMS, max_size=50),
)
def test_a_batch_is_read_as_it_was_written(identity: bytes, day: date, items: list[Item]) -> None:
    batch = Batch(identity, day, tuple(items))
    data = batch.to_bytes()
    assert Batch.from_bytes(data) == batch
    assert len(data) & (len(data) - 1) == 0
    assert LEAST_BYTES <= len(data) <= MOST_BYTES


@pytest.mark.exact
def test_the_layout_of_the_specification() -> None:
    data = BATCH.to_bytes()
    assert len(data) == 1024
    item = bytes([4]) + (1).to_bytes(4, "little") + (8).to_bytes(4, "little") + b"citya report"
    days = (20_778).to_bytes(4, "little")
    head = b"ldp-batch" + bytes([1]) + bytes(range(16)) + days + (3).to_bytes(2, "little")
    assert data.rstrip(b"\0") == head + 3 * item


@pytest.mark.exact
@given(st.binary(max_size=2000))
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ReportError):
        Batch.from_bytes(data)


@pytest.mark.exact
@given(st.data())
def test_a_damaged_batch_is_refused_or_another_batch(data: st.DataObject) -> None:
    """There is no checksum, as TLS and the file system have theirs.

    But nothing else is ever raised, and what is read is written as it was.
    """
    damaged = bytearray(BATCH.to_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, 80))] ^= data.draw(st.integers(1, 255))
    try:
        batch = Batch.from_bytes(bytes(damaged))
    except ReportError:
        return
    assert batch.to_bytes() == bytes(damaged)


@pytest.mark.exact
@pytest.mark.parametrize(
    "data",
    [
        BATCH.to_bytes()[:-1],
        BATCH.to_bytes() + bytes(1024),
        BATCH.to_bytes()[:-1] + b"\1",
        b"ldp-batch" + bytes([2]) + BATCH.to_bytes()[10:],
    ],
)
def test_another_size_padding_or_version_is_refused(data: bytes) -> None:
    with pytest.raises(ReportError):
        Batch.from_bytes(data)


@pytest.mark.exact
@given(st.lists(st.integers(0, 300_000), max_size=30), st.integers(1, 700))
def test_items_are_packed_in_order_and_each_batch_can_be_written(
    sizes: list[int], few: int
) -> None:
    items = [Item("city", n, bytes(size)) for n, size in enumerate([*sizes, *([8] * few)])]
    batches = pack_batches(items)
    assert [item for batch in batches for item in batch] == items
    for batch in batches:
        assert len(batch) <= MOST_ITEMS
        Batch(bytes(16), date(2026, 1, 1), batch).to_bytes()


@pytest.mark.exact
def test_a_report_that_fits_nowhere_is_refused() -> None:
    with pytest.raises(ParameterError, match="fits in no batch"):
        pack_batches([Item("city", 1, bytes(MOST_BYTES))])
    with pytest.raises(ParameterError, match="at most 500 reports"):
        Batch(bytes(16), date(2026, 1, 1), (Item("city", 1, b""),) * 501).to_bytes()
    assert pack_batches([]) == []
