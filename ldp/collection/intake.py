"""What a collector takes of a sealed batch: pure functions of bytes, registry and day.

A batch is sorted into lots, the reports of one metric without their headers, and refusals, the
items that will never be counted. Uniform batches (one metric throughout, as relays send) are read
as one array; every other item by item. Nothing here touches a disk or knows a sender.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from ldp.errors import ReportError
from ldp.mechanisms import Catalogued
from ldp.protocol.batch import HEAD_BYTES, Batch, Uniform, read_uniform
from ldp.protocol.wire import HEADER_BYTES, JointLayout, Layout, split_report
from ldp.registry import Registry
from ldp.tables.joint_table import split_batch
from ldp.tables.table import payload_numbers

Code = Literal["unknown_metric", "wrong_version", "expired", "malformed"]
"""Why an item will never be counted."""
CODES: tuple[Code, ...] = get_args(Code)
"""In the order in which the buffer numbers them; new ones come last."""
FEW = 16
"""Items below which an array costs more than a loop."""


class Refusal(NamedTuple):
    """`item`: its position in the batch, from 0."""

    item: int
    code: Code


class Lot(NamedTuple):
    """Reports of one metric: `bodies` are rows and payloads, one after the other, no headers."""

    metric: str
    version: int
    reports: int
    bodies: bytes


@dataclass
class Sorted:
    """A batch, taken apart: lots to store, refusals to answer with."""

    id: bytes
    day: date
    lots: list[Lot] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)


@dataclass(frozen=True)
class Asked:
    """What a collector knows of a metric; `last` is the last day on which its reports are taken."""

    version: int
    last: date
    mechanism: Catalogued


def asked_of(registry: Registry) -> dict[str, Asked]:
    """By name what is collected: a metric's reports may arrive until its group's `lateness` after
    it expired."""
    return {
        name: Asked(
            metric.version,
            later(metric.expires, registry.groups[metric.group].lateness),
            metric.mechanism,
        )
        for name, metric in registry.metrics.items()
    }


def later(day: date, length: timedelta) -> date:
    """The day so much later, in whole days, or the last day there is."""
    return day + min(days(length), date.max - day)


def days(length: timedelta) -> timedelta:
    """Rounded up to whole days."""
    return timedelta(days=-(-length // timedelta(days=1)))


def sort_batch(data: bytes, asked: Mapping[str, Asked], today: date) -> Sorted:
    """Takes a batch apart; raises ReportError unless it is one, byte for byte."""
    uniform = read_uniform(data)
    if uniform is not None and uniform.items >= FEW:
        return _sort_uniform(data, uniform, asked, today)
    return _sort_each(Batch.from_bytes(data), asked, today)


def _sort_each(batch: Batch, asked: Mapping[str, Asked], today: date) -> Sorted:
    found, bodies = Sorted(batch.id, batch.day), dict[str, list[bytes]]()
    for number, (metric, version, report) in enumerate(batch.items):
        code = _refused(metric, version, asked, today) or _malformed(report, asked[metric])
        if code:
            found.refused.append(Refusal(number, code))
        else:
            bodies.setdefault(metric, []).append(report[HEADER_BYTES:])
    for metric, listed in bodies.items():
        found.lots.append(Lot(metric, asked[metric].version, len(listed), b"".join(listed)))
    return found


def _sort_uniform(data: bytes, batch: Uniform, asked: Mapping[str, Asked], today: date) -> Sorted:
    found, (metric, version, _) = Sorted(batch.id, batch.day), batch.first
    code = _refused(metric, version, asked, today)
    if code:
        found.refused += [Refusal(number, code) for number in range(batch.items)]
        return found
    shape = (batch.items, batch.step)
    items = np.frombuffer(data, np.uint8, batch.items * batch.step, HEAD_BYTES).reshape(shape)
    reports = items[:, batch.start - HEAD_BYTES :]
    bad = _malformed_among(reports, asked[metric])
    found.refused += [Refusal(number, "malformed") for number in bad]
    if len(bad) < batch.items:
        bodies = np.delete(reports, bad, axis=0) if bad else reports
        kept = bodies[:, HEADER_BYTES:].tobytes()
        found.lots.append(Lot(metric, version, len(bodies), kept))
    return found


def _refused(metric: str, version: int, asked: Mapping[str, Asked], today: date) -> Code | None:
    if metric not in asked:
        return "unknown_metric"
    if version != asked[metric].version:
        return "wrong_version"
    return "expired" if today > asked[metric].last else None


def _malformed(report: bytes, asked: Asked) -> Code | None:
    layout = asked.mechanism.layout
    try:
        _, payload = split_report(report, asked.mechanism.header, layout)
        layout.payload_number(payload)
    except ReportError:
        return "malformed"
    return None


def _malformed_among(reports: NDArray[np.uint8], asked: Asked) -> list[int]:
    """Which of the reports, shape (reports, bytes), are not whole reports of the mechanism."""
    header = asked.mechanism.header.to_bytes()
    is_whole = reports.shape[1] == HEADER_BYTES + asked.mechanism.layout.body_bytes
    if is_whole and reports[:, :HEADER_BYTES].tobytes() == header * len(reports):
        with suppress(ReportError):  # at least one is not: which, is told one by one
            check_bodies(reports[:, HEADER_BYTES:], asked.mechanism)
            return []
    return [n for n, report in enumerate(reports) if _malformed(report.tobytes(), asked)]


def split_bodies(
    bodies: NDArray[np.uint8], mechanism: Catalogued
) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Rows, shape (reports,), and payloads, shape (reports, payload bytes), of bodies of shape
    (reports, body bytes)."""
    wide = mechanism.layout.row_bytes
    rows = np.zeros((len(bodies), 4), dtype=np.uint8)
    rows[:, :wide] = bodies[:, :wide]
    return rows.view("<u4")[:, 0], bodies[:, wide:]


def join_bodies(
    rows: NDArray[np.uint32], payloads: NDArray[np.uint8], mechanism: Catalogued
) -> list[bytes]:
    """The bodies, one by one, of rows and payloads: undoes `split_bodies`."""
    wide = mechanism.layout.row_bytes
    numbers = rows.astype("<u4")[:, None].view(np.uint8)[:, :wide]
    return [body.tobytes() for body in np.concatenate([numbers, payloads], axis=1)]


def check_bodies(bodies: NDArray[np.uint8], mechanism: Catalogued) -> None:
    """Raises ReportError when a row, a column or a padding bit is out of range."""
    layout = mechanism.layout
    if _takes_any_body(layout):
        return
    rows, payloads = split_bodies(bodies, mechanism)
    if isinstance(layout, JointLayout):
        split_batch(layout, rows, payloads)
    else:
        payload_numbers(layout, rows, payloads)


@lru_cache
def _takes_any_body(layout: Layout | JointLayout) -> bool:
    """Whether any bytes of a body's size are one: rows and payloads of all parts fill theirs."""
    parts = layout.parts if isinstance(layout, JointLayout) else (layout,)
    return all(1 << 8 * one.row_bytes == one.rows for one in (layout, *parts)) and all(
        1 << 8 * part.payload_bytes == part.outcomes for part in parts
    )
