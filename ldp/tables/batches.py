"""Batches of reports, checked: rows and payloads as arrays, of one part or of several."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from ldp.arrays import UNREADABLE, AnyInts, Bytes, Ints, RowNumbers
from ldp.errors import MergeError, ReportError
from ldp.mechanisms import CatalogueMechanism, Mechanism
from ldp.protocol import wire
from ldp.protocol.joint_layout import JointLayout
from ldp.protocol.kinds import Layout

ReportArrays = tuple[RowNumbers, Bytes]
"""Rows, shape (n,), and payloads, shape (n, payload bytes), of some reports."""
_BATCH = 1 << 15


def require_same(mechanism: CatalogueMechanism, other: CatalogueMechanism) -> None:
    """Raise MergeError unless tables of these mechanisms can be added."""
    if mechanism.fingerprint != other.fingerprint:
        raise MergeError(
            f"tables of different mechanisms cannot be added: {mechanism.describe()} and "
            f"{other.describe()}"
        )


def _require_rows(layout: Layout | JointLayout, rows: AnyInts, payloads: Bytes) -> None:
    if payloads.shape != (rows.size, layout.payload_bytes):
        raise ReportError(
            f"payloads of shape {payloads.shape}, expected {(rows.size, layout.payload_bytes)}"
        )
    if rows.size and not 0 <= int(rows.min()) <= int(rows.max()) < layout.rows:
        raise ReportError(f"a report names a row outside 0..{layout.rows - 1}")


def payload_numbers(layout: Layout, rows: AnyInts, payloads: Bytes) -> Ints:
    """Check a batch and return its payloads as integers, shape (n,). For BITS and SUBSET, returns
    only the last byte.

    `rows`, shape (n,); `payloads`, shape (n, payload bytes). Raises ReportError when a row, a
    column or a padding bit is out of range.
    """
    _require_rows(layout, rows, payloads)
    last = payloads[:, -1:] if layout.is_bitmap else payloads
    numbers = last.astype(np.int64) @ (1 << 8 * np.arange(last.shape[1], dtype=np.int64))
    shift = 8 * (layout.payload_bytes - last.shape[1])
    if rows.size and int(numbers.max()) << shift >= layout.payload_limit:
        raise ReportError(
            "a report has padding bits set"
            if layout.is_bitmap
            else f"a report names a column outside 0..{layout.columns - 1}"
        )
    if layout.is_bitmap and layout.ones:
        ones = np.bitwise_count(payloads).sum(axis=1, dtype=np.int64)
        if (ones != layout.ones).any():
            raise ReportError(f"a report does not name exactly {layout.ones} columns")
    return numbers


def batches(mechanism: CatalogueMechanism, reports: Any) -> Iterator[ReportArrays]:
    """Yield checked reports in batches. At an invalid one, raises ReportError with its position,
    after yielding those before it. `reports`: an iterable of bytes, an Arrow column of them, or a
    matrix of bytes, uint8, shape (n, bytes of a report)."""
    first, size = 0, wire.HEADER_BYTES + mechanism.layout.body_bytes
    for block in _blocks(reports, size):
        try:
            batch = _checked(mechanism, block)
        except (ReportError, TypeError, BufferError) as error:
            number, reason = _first_invalid(mechanism, block, error)
            if number:
                yield _checked(mechanism, block[:number])
            where = f" (at position {first + number})" if first + len(block) > 1 else ""
            raise ReportError(f"{reason}{where}") from None
        yield batch
        first += len(block)


def _blocks(reports: Any, size: int) -> Iterator[Any]:
    """Yield the reports in blocks: lists of bytes, or matrices where all are `size` bytes long."""
    if isinstance(reports, np.ndarray) and reports.ndim == 2:
        if reports.dtype != np.uint8 or np.ma.isMA(reports):
            raise ReportError("a matrix of reports must hold bytes: uint8")
        yield from (reports[start : start + _BATCH] for start in range(0, len(reports), _BATCH))
    elif hasattr(reports, "__arrow_c_stream__") or isinstance(reports, pa.Array):
        column = [reports] if isinstance(reports, pa.Array) else reports
        try:
            parts = [_matrix_of(chunk, size) for chunk in pa.chunked_array(column).chunks]
        except UNREADABLE as error:
            raise ReportError(f"reports must be bytes: {error!s:.200}") from None
        for part in parts:
            yield from _blocks(part, size)
    else:
        if str(getattr(reports, "dtype", "")).startswith("|S"):
            lost = "numpy drops zeros at the end of bytes"
            raise ReportError(f"{lost}: give a list, an Arrow column, or a matrix of uint8")
        is_one = getattr(reports, "ndim", 1) == 0 or not isinstance(reports, Iterable)
        # a set, and the keys of a Counter, hold equal reports once
        if is_one or isinstance(reports, Mapping | AbstractSet):
            what = "an iterable of bytes, an Arrow column or a matrix, no set or Counter"
            raise ReportError(f"reports must be {what}")
        several = iter(reports)
        while block := [*islice(several, _BATCH)]:
            yield block


def _matrix_of(chunk: Any, size: int) -> Any:
    """Return the bytes of an Arrow array of reports as a matrix. Returns a list where some are
    missing or of another length."""
    with suppress(pa.ArrowException):
        bodies = chunk.cast(pa.binary(size))
        if not bodies.null_count:
            every = np.frombuffer(bodies.buffers()[1], dtype=np.uint8)
            return every.reshape(-1, size)[bodies.offset : bodies.offset + len(bodies)]
    return chunk.to_pylist()


def _checked(mechanism: CatalogueMechanism, block: Any) -> ReportArrays:
    """Return rows and payloads of a block of reports. Where a report is invalid, raise ReportError,
    or the error of joining values that are no bytes."""
    layout, matrix = mechanism.layout, block
    size = wire.HEADER_BYTES + layout.body_bytes
    if isinstance(block, list):
        if not {*map(len, block)} <= {size}:
            raise ReportError("a report is too short or too long")
        matrix = np.frombuffer(b"".join(block), dtype=np.uint8).reshape(-1, size)
    if matrix.shape[1] != size or not all(
        (column == byte).all() for column, byte in zip(matrix.T, mechanism.header, strict=False)
    ):
        raise ReportError("a report has another header")
    rows, payloads = split_bodies(matrix[:, wire.HEADER_BYTES :], layout)
    split_batch(layout, rows, payloads)
    return rows, payloads


def _first_invalid(
    mechanism: CatalogueMechanism, block: Any, error: Exception
) -> tuple[int, Exception]:
    """Return the position in a block of the first invalid report, and why it is invalid. Returns
    the block's end and `error` where every report is valid by itself."""
    for number, report in enumerate(block):
        try:
            if not isinstance(report, bytes | bytearray | memoryview | np.ndarray):
                raise ReportError(f"a report must be bytes, not {type(report).__name__}")
            _, payload = mechanism.row_and_payload(bytes(report))
            mechanism.layout.payload_number(payload)
        except ReportError as reason:
            return number, reason
    return len(block), error


def split_bodies(bodies: Bytes, layout: Layout | JointLayout) -> tuple[RowNumbers, Bytes]:
    """Return rows, shape (reports,), and payloads, shape (reports, payload bytes), of bodies of
    shape (reports, body bytes)."""
    row_bytes = layout.row_bytes
    rows = np.zeros((len(bodies), 4), dtype=np.uint8)
    rows[:, :row_bytes] = bodies[:, :row_bytes]
    return rows.view("<u4")[:, 0], bodies[:, row_bytes:]


def split_batch(
    layout: Layout | JointLayout, rows: RowNumbers, payloads: Bytes
) -> list[ReportArrays]:
    """Check `rows`, shape (n,), and `payloads`, shape (n, payload bytes), of whole reports and
    return those of every part: the bulk twin of `JointLayout.split`. Raises ReportError when a row,
    a column or a padding bit is out of range."""
    if isinstance(layout, Layout):
        payload_numbers(layout, rows, payloads)
        return [(rows, payloads)]
    _require_rows(layout, rows, payloads)
    batches, start, first = [], 0, rows.astype(np.int64) * layout.parts[0].rows
    for part in layout.parts:
        middle, end = start + part.row_bytes, start + part.body_bytes
        part_rows = payloads[:, start:middle] @ (1 << 8 * np.arange(part.row_bytes))
        payload_numbers(part, part_rows, payloads[:, middle:end])
        batches.append(((first + part_rows).astype(np.uint32), payloads[:, middle:end]))
        start, first = end, np.zeros_like(part_rows)
    return batches


def join_batch(layout: JointLayout, batches: Sequence[ReportArrays]) -> ReportArrays:
    """Join rows and payloads of parts to those of whole reports: the inverse of `split_batch`."""
    blocks = []
    for part, (rows, payloads) in zip(layout.parts, batches, strict=True):
        part_rows = (rows % part.rows).astype("<u8")[:, None].view(np.uint8)
        blocks += [part_rows[:, : part.row_bytes], payloads]
    return batches[0][0] // np.uint32(layout.parts[0].rows), np.concatenate(blocks, axis=1)


def candidate_cells(mechanism: Mechanism, candidates: tuple[str, ...], rows: RowNumbers) -> Bytes:
    """Return the cells that candidates touch in each of `rows`, as payloads: shape (rows, payload
    bytes)."""
    from ldp import bulk

    addressing, payload_bytes = mechanism.addressing, mechanism.layout.payload_bytes
    points = bulk.points(addressing, mechanism.shape.rows, candidates)
    columns = bulk.columns(
        addressing,
        mechanism.shape.rows,
        np.tile(points, len(rows)),
        np.repeat(rows, len(candidates)),
    ).reshape(len(rows), -1)
    bits = np.zeros((len(rows), 8 * payload_bytes + 1), dtype=np.uint8)
    # a cell that is cut off
    columns[columns == bulk.NO_COLUMN] = 8 * payload_bytes
    np.put_along_axis(bits, columns, 1, axis=1)
    return np.packbits(bits[:, :-1], axis=1, bitorder="little")
