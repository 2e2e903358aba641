"""Intake of sealed batches: pure functions of bytes, registry and day.

A batch is sorted into lots, the reports of one metric without their headers, and refusals, the
items that will never be counted. Items are recognised by their first bytes. A batch of one metric
is read as one array. A batch with an item that is not recognised or is refused is checked field by
field. Nothing here touches a disk or knows a sender.
"""

import hashlib
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from ldp.errors import LdpError, ReportError
from ldp.files import counted
from ldp.protocol.batch import (
    HEAD_BYTES,
    ID_BYTES,
    Batch,
    Item,
    item_beginning,
    read_known,
    read_uniform,
)
from ldp.protocol.joint_layout import JointLayout
from ldp.protocol.kinds import Layout
from ldp.protocol.sealed_report import ATTESTED, QUEUE, Attestation, Content, digest_of_all
from ldp.protocol.wire import HEADER_BYTES
from ldp.registry import Metric, Registry
from ldp.registry.toml_file import DEVELOPMENT
from ldp.tables.batches import split_batch, split_bodies

Code = Literal[
    "unknown_metric",
    "wrong_version",
    "expired",
    "malformed",
    "unopened",
    "wrong_day",
    "repeated",
    "unknown_queue",
    "wrong_size",
    "wrong_number",
    "unsealed",
    "unattested",
]
"""Reason why an item will never be counted."""
CODES: tuple[Code, ...] = get_args(Code)
"""Codes in the order in which the buffer numbers them. New ones come last."""
UNATTESTED = Attestation("", b"", 0, b"")
"""Empty attestation, of reports that came without the attestation of a known relay."""
MOST_UNOPENED = 3
"""Number of reports that do not open after which a batch without a known relay's attestation is
given up."""
SYSTEM_ORDER: Callable[[list[Any]], None] = secrets.SystemRandom().shuffle
"""Function that permutes a list uniformly, in place, by the operating system's randomness."""
FEW = 16
"""Number of items below which an array costs more than a loop."""


class NotNow(LdpError):
    """Error: a batch cannot be taken now. Its sender should repeat it in a minute."""


class GivenUp(ReportError):
    """Error: too many reports of a batch do not open. The rest of it is not tried."""


class Refusal(NamedTuple):
    """Refusal of an item. `item`: its position in the batch, from 0."""

    item: int
    code: Code


class Lot(NamedTuple):
    """Reports of one metric. `bodies`: rows and payloads, one after the other, without headers."""

    metric: str
    version: int
    reports: int
    bodies: bytes


class OpenedReport(NamedTuple):
    """Report that was sealed, to be stored unless it was opened before. `item`: its position in the
    batch. `day`: the day of sealing on the device. `digest`: digest of the sealed report, of
    ID_BYTES bytes."""

    item: int
    day: date
    digest: bytes
    lot: Lot


@dataclass
class SortedBatch:
    """Content of a batch: lots to store, and refusals for the answer. The reports of a batch of
    sealed reports are `opened`, and become lots or refusals when the batch is committed."""

    id: bytes
    day: date
    lots: list[Lot] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    opened: list[OpenedReport] = field(default_factory=list)
    attestation: Attestation | None = None
    """Attestation of a known relay about the batch in which the reports left it. It is UNATTESTED
    without an attestation, and None where no relay is known."""


class CollectedMetrics(dict[str, Metric]):
    """Metrics of a collector, by name. `expires`: the last day on which their reports are taken."""

    @cached_property
    def beginnings(self) -> dict[bytes, tuple[str, Metric, Layout | JointLayout | None]]:
        """Metrics by the first bytes of their items in a batch: name, metric, and layout (None
        where any bytes are a body). Metrics whose reports must be sealed are left out."""
        return {
            item_beginning(
                name, one.version, one.mechanism.header, one.mechanism.layout.body_bytes
            ): (
                name,
                one,
                None if _takes_any_body(one.mechanism.layout) else one.mechanism.layout,
            )
            for name, one in self.items()
            if not one.needs_shuffler
        }

    @cached_property
    def sizes(self) -> dict[bytes, int]:
        """Sizes of bodies, in bytes, by the same first bytes as `beginnings`."""
        known = self.beginnings.items()
        return {start: metric.mechanism.layout.body_bytes for start, (_, metric, _) in known}


def collected_metrics(registry: Registry) -> CollectedMetrics:
    """Return the metrics of a collector, by name: reports of a metric may arrive until its group's
    `lateness` after it expired."""
    return CollectedMetrics(
        {
            name: metric._replace(
                expires=later(metric.expires, registry.groups[metric.group].lateness)
            )
            for name, metric in registry.metrics.items()
        }
    )


def later(day: date, length: timedelta) -> date:
    """Return the day that is `length` later, in whole days, or the last day there is."""
    return day + min(days(length), date.max - day)


def days(length: timedelta) -> timedelta:
    """Return a length of time rounded up to whole days."""
    return timedelta(days=-(-length // timedelta(days=1)))


def sort_batch(data: bytes, metrics: CollectedMetrics, today: date) -> SortedBatch:
    """Return the content of a batch. Raises ReportError unless the bytes are a batch, and NotNow
    where a report has a later version than this registry knows."""
    return (
        _sort_uniform(data, metrics, today)
        or _sort_known(data, metrics, today)
        or _sort_each(Batch.from_bytes(data), metrics, today)
    )


def _sort_uniform(data: bytes, metrics: CollectedMetrics, today: date) -> SortedBatch | None:
    """Return the content of a batch of FEW items or more of one metric, in which nothing is
    refused. Returns None for any other."""
    uniform = read_uniform(data, metrics.sizes)
    if uniform is None or uniform[-1] < FEW:
        return None
    identity, day, beginning, count = uniform
    name, metric, layout = metrics.beginnings[beginning]
    if today > metric.expires:
        return None
    size = len(beginning) + metrics.sizes[beginning]
    items = np.frombuffer(data, np.uint8, count * size, HEAD_BYTES).reshape(count, size)
    bodies = items[:, len(beginning) :]
    if items[:, : len(beginning)].tobytes() != beginning * count:
        return None
    # a row, a column or a padding bit is out of range
    with suppress(ReportError):
        if layout is not None:
            split_batch(layout, *split_bodies(bodies, metric.mechanism.layout))
        return SortedBatch(identity, day, [Lot(name, metric.version, count, bodies.tobytes())])
    return None


def _sort_known(data: bytes, metrics: CollectedMetrics, today: date) -> SortedBatch | None:
    """Return the content of a batch in which nothing is refused. Returns None for any other."""
    known = read_known(data, metrics.sizes)
    if known is None:
        return None
    identity, day, bodies = known
    result, beginnings = SortedBatch(identity, day), metrics.beginnings
    for beginning, some in bodies.items():
        name, metric, layout = beginnings[beginning]
        if today > metric.expires:
            return None
        if layout is not None:
            for body in some:
                if not _is_body(body, layout):
                    return None
        result.lots.append(Lot(name, metric.version, len(some), b"".join(some)))
    return result


def _is_body(body: bytes, layout: Layout | JointLayout) -> bool:
    """Return whether row, columns and padding bits are in range."""
    if int.from_bytes(body[: layout.row_bytes], "little") >= layout.rows:
        return False
    try:
        layout.payload_number(body[layout.row_bytes :])
    except ReportError:
        return False
    return True


def sort_sealed(
    data: bytes,
    metrics: Mapping[str, Metric],
    today: date,
    open_report: Callable[[Item], Content],
    verify: Callable[[Item, bytes], Attestation] | None = None,
    order: Callable[[list[Any]], None] = SYSTEM_ORDER,
) -> SortedBatch:
    """Return the content of a batch of sealed reports. Raises ReportError unless the bytes are one.
    `open_report` returns the content of an item. `verify`, where a relay is known, returns what the
    relay attests of the reports with a digest. Both raise ReportError. `order` permutes a list
    uniformly, in place: reports are tried in that order, so that no sender chooses which come
    first. Raise GivenUp where MOST_UNOPENED reports or more do not open, unless a known relay
    attests the batch or, where no relay is known, more reports open than not."""
    batch = Batch.from_bytes(data)
    result = SortedBatch(batch.id, batch.day, attestation=UNATTESTED if verify else None)
    reports, statement, unopened = list[tuple[int, Item]](), None, 0
    for number, sealed in enumerate(batch.items):
        if sealed.metric.startswith(ATTESTED):
            statement = sealed
        else:
            reports.append((number, sealed))
    if verify and statement:
        with suppress(ReportError):
            stated = verify(statement, digest_of_all(sealed.report for _, sealed in reports))
            if {sealed.metric for _, sealed in reports} == {QUEUE + stated.queue}:
                result.attestation = stated
    order(reports)
    for tried, (number, sealed) in enumerate(reports, 1):
        try:
            day, item = open_report(sealed)
        except ReportError:
            result.refused.append(Refusal(number, "unopened"))
            unopened += 1
            is_direct = result.attestation in (None, UNATTESTED)
            if unopened >= MOST_UNOPENED and is_direct and (verify or tried <= 2 * unopened):
                what = counted(unopened, "report does", "reports do")
                raise GivenUp(f"{what} not open: the batch is given up") from None
            continue
        queue = sealed.metric.removeprefix(QUEUE)
        try:
            code = _code_of(item, metrics, today, queue)
        except NotNow:
            # a relay mixes the reports of many: one must not put the others off
            code = "wrong_version"
        if not code and metrics[item.metric].needs_shuffler:
            is_stated = result.attestation and result.attestation.queue == queue
            code = None if is_stated else "unattested"
        if code:
            result.refused.append(Refusal(number, code))
        else:
            lot = Lot(item.metric, item.version, 1, item.report[HEADER_BYTES:])
            result.opened.append(OpenedReport(number, day, digest_of(sealed.report), lot))
    result.refused.sort()
    result.opened.sort()
    return result


def digest_of(sealed_report: bytes) -> bytes:
    """Return the digest by which a sealed report is recognised: ID_BYTES of BLAKE2b."""
    return hashlib.blake2b(sealed_report, digest_size=ID_BYTES, person=b"ldp sealed").digest()


def _code_of(
    item: Item, metrics: Mapping[str, Metric], today: date, queue: str | None = None
) -> Code | None:
    """Return why a report will not be counted, or None. `queue`: the queue by which a sealed report
    came."""
    name, version, report = item
    if (metric := metrics.get(name)) is None:
        return "unknown_metric"
    if metric.version < version < DEVELOPMENT:
        raise NotNow(f"{name} has a later version than version {metric.version} here")
    if version != metric.version:
        return "wrong_version"
    if today > metric.expires:
        return "expired"
    if metric.needs_shuffler and queue is None:
        return "unsealed"
    is_lost = queue is not None and queue != metric.queue
    is_whole = len(report) == HEADER_BYTES + metric.mechanism.layout.body_bytes
    is_known = is_whole and report.startswith(metric.mechanism.header) and not is_lost
    is_sound = is_known and _is_body(report[HEADER_BYTES:], metric.mechanism.layout)
    return None if is_sound else "malformed"


def _sort_each(batch: Batch, metrics: Mapping[str, Metric], today: date) -> SortedBatch:
    result, bodies = SortedBatch(batch.id, batch.day), dict[str, list[bytes]]()
    for number, item in enumerate(batch.items):
        if code := _code_of(item, metrics, today):
            result.refused.append(Refusal(number, code))
        else:
            bodies.setdefault(item.metric, []).append(item.report[HEADER_BYTES:])
    for metric, reports in bodies.items():
        result.lots.append(Lot(metric, metrics[metric].version, len(reports), b"".join(reports)))
    return result


@lru_cache
def _takes_any_body(layout: Layout | JointLayout) -> bool:
    """Return whether any bytes of the right size are a body, because all their bits are used."""
    return all(1 << 8 * shape.row_bytes == shape.rows for shape in (layout, *layout.parts)) and all(
        1 << 8 * part.payload_bytes == part.outcomes for part in layout.parts
    )
