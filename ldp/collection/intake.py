"""What a collector takes of a sealed batch: pure functions of bytes, registry and day.

A batch is sorted into lots, the reports of one metric without their headers, and refusals, the
items that will never be counted. Uniform batches (one metric throughout, as relays send) are read
as one array; every other item by item. Nothing here touches a disk or knows a sender.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldp.batch import HEAD_BYTES, Batch, Uniform, read_uniform
from ldp.errors import ReportError
from ldp.joint_table import split_batch
from ldp.mechanisms import Catalogued
from ldp.registry import Registry
from ldp.table import payload_numbers
from ldp.wire import HEADER_BYTES, JointLayout, split_report

Code = Literal["unknown_metric", "wrong_version", "expired", "malformed"]
"""Why an item will never be counted."""
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
            metric.expires + days(registry.groups[metric.group].lateness),
            metric.mechanism,
        )
        for name, metric in registry.metrics.items()
    }


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
    good = _well_formed(reports, asked[metric].mechanism)
    bodies = reports[good, HEADER_BYTES:]
    found.refused += [Refusal(int(number), "malformed") for number in np.flatnonzero(~good)]
    if len(bodies):
        found.lots.append(Lot(metric, version, len(bodies), bodies.tobytes()))
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


def _well_formed(reports: NDArray[np.uint8], mechanism: Catalogued) -> NDArray[np.bool_]:
    """Which reports, shape (reports, bytes), are whole reports of the mechanism."""
    layout, header = mechanism.layout, np.frombuffer(mechanism.header.to_bytes(), dtype=np.uint8)
    if reports.shape[1] != HEADER_BYTES + layout.body_bytes:
        return np.zeros(len(reports), dtype=np.bool_)
    good: NDArray[np.bool_] = (reports[:, :HEADER_BYTES] == header).all(axis=1)
    try:
        check_bodies(reports[:, HEADER_BYTES:], mechanism)
    except ReportError:  # at least one is not: which, is told one by one
        asked = Asked(0, date.max, mechanism)
        good &= [_malformed(report.tobytes(), asked) is None for report in reports]
    return good


def split_bodies(
    bodies: NDArray[np.uint8], mechanism: Catalogued
) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Rows, shape (reports,), and payloads, shape (reports, payload bytes), of bodies of shape
    (reports, body bytes)."""
    wide = mechanism.layout.row_bytes
    rows = bodies[:, :wide].astype(np.uint32) @ (1 << 8 * np.arange(wide, dtype=np.uint32))
    return rows.astype(np.uint32), bodies[:, wide:]


def check_bodies(bodies: NDArray[np.uint8], mechanism: Catalogued) -> None:
    """Raises ReportError when a row, a column or a padding bit is out of range."""
    layout = mechanism.layout
    rows, payloads = split_bodies(bodies, mechanism)
    if isinstance(layout, JointLayout):
        split_batch(layout, rows, payloads)
    else:
        payload_numbers(layout, rows, payloads)
