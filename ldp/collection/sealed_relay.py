"""The relay: takes sealed reports, which it cannot read, and passes them on in shuffled batches.

Senders, headers and times of requests are written nowhere. A batch of a queue leaves when it has
enough reports and they have waited long enough. What is not in a batch when its group's lateness
has passed is dropped and counted. `docs/relay.md` is the operator's page.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from functools import partial
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ldp.collection.admission import Admits
from ldp.collection.collector_counts import Counts
from ldp.collection.holding import Holding
from ldp.collection.intake import Lot, Refusal, SortedBatch, days
from ldp.collection.relay_buffer import MOST_REPORTS, RelayBuffer
from ldp.collection.service import JSON_TYPE, Limits, Service, longest_lateness, utc_today
from ldp.collection.workers import Worker, Writer
from ldp.errors import ReportError, Unreachable
from ldp.protocol.batch import Batch, Destination, Item
from ldp.protocol.sealed_report import QUEUE, SEALED_VERSION, Attestation, is_sealed
from ldp.registry import Registry
from ldp.registry.definitions import Queue

REFUSALS = (400, 409, 410, 413, 421, 422)
"""HTTP statuses by which a collector refuses one batch, as 410 for a batch that is too old."""
PUBLIC = ("batches", "forwarded", "refused", "dropped")
"""Tallies that everybody may read. The others would show when a report arrives."""


def sort_queued(data: bytes, queues: Mapping[str, Queue]) -> SortedBatch:
    """Return the sealed reports of a batch as lots by queue. Raises ReportError unless the bytes
    are a batch of sealed reports."""
    batch = Batch.from_bytes(data)
    result, sealed = SortedBatch(batch.id, batch.day), dict[str, list[bytes]]()
    for number, (name, version, report) in enumerate(batch.items):
        queue = name.removeprefix(QUEUE)
        if (name, version) != (QUEUE + queue, SEALED_VERSION) or queue not in queues:
            result.refused.append(Refusal(number, "unknown_queue"))
        elif len(report) != queues[queue].size:
            result.refused.append(Refusal(number, "wrong_size"))
        else:
            sealed.setdefault(queue, []).append(report)
    for queue, reports in sealed.items():
        messages = queues[queue].messages
        if messages > 1 and not len(reports) == len(batch.items) == messages:
            result.refused = [Refusal(number, "wrong_number") for number in range(len(batch.items))]
            result.lots.clear()
            return result
        result.lots.append(Lot(queue, SEALED_VERSION, len(reports), b"".join(reports)))
    return result


class Forwarder(Worker):
    """Thread that makes batches of what waits, and sends them to one collector."""

    role = "forwarder"

    def __init__(
        self,
        reader: RelayBuffer,
        writer: Writer[RelayBuffer],
        destination: Destination,
        queues: Mapping[str, Queue],
        lateness: Callable[[str], timedelta],
        holding: Holding,
        attest: Callable[[Attestation], Item] | None,
    ) -> None:
        super().__init__(reader, writer)
        self._reader, self._writer, self._destination = reader, writer, destination
        self._queues, self._lateness = queues, lateness
        self._holding, self._attest = holding, attest
        self._since: dict[str, float] = {}
        self._cleaned = date.min

    def work(self) -> None:
        """Drop what is too old, make the batches that are due, and send all outgoing batches."""
        self._attempt("old reports cannot be dropped", self._drop)
        tallies, now = self._reader.tallies(), time.monotonic()
        waiting = {queue: numbers.get("waiting", 0) for queue, numbers in tallies.items()}
        self.waiting, self.buffer_bytes = sum(waiting.values()), self._reader.bytes_used()
        self._since = {
            queue: self._since.get(queue, now) for queue, reports in waiting.items() if reports
        }
        day = self._writer.settled_day
        for queue, since in [*self._since.items()]:
            has_waited = now - since >= self._holding.shortest.total_seconds()
            if has_waited and day and self._may_leave(queue, waiting[queue]):
                problem = f"reports of {queue} cannot be shuffled"
                self._attempt(problem, partial(self._shuffle, queue, day))
        self._attempt("batches cannot be forwarded", self._forward)

    def _may_leave(self, name: str, waiting: int) -> bool:
        """Return whether `waiting` sealed reports of the queue `name` suffice for a batch. For a
        metric's own queue no number suffices once the registry no longer states the least one."""
        queue = self._queues.get(name)
        is_unknown = queue is None and "/" in name
        return not is_unknown and waiting >= self._holding.least(name, queue)

    def _drop(self) -> None:
        """Drop reports beyond their queue's lateness, once a day."""
        if (today := self._writer.earlier_day) == self._cleaned:
            return
        for queue in self._reader.tallies():
            oldest = today - min(self._lateness(queue), today - date.min)
            self._writer.perform(lambda buffer: buffer.drop(queue, oldest))  # noqa: B023
        self._writer.perform(RelayBuffer.erase)
        self._cleaned = today

    def _shuffle(self, queue: str, day: date) -> None:
        known = self._queues.get(queue)
        settings = self._holding.least(queue, known), day, self._attest
        by_day = known is not None and known.is_daily
        # of a person all or none
        most = -1 if known and known.messages > 1 else MOST_REPORTS
        reports = self._writer.perform(
            lambda buffer: buffer.shuffle(queue, *settings, by_day=by_day, most=most)
        )
        # 0: no day has enough yet
        if reports:
            self._writer.perform(RelayBuffer.erase)
            del self._since[queue]

    def _forward(self) -> None:
        """Send all outgoing batches. A batch that the collector will not take delays no other.
        Raise Unreachable."""
        failure: Unreachable | None = None
        for identity in self._reader.outgoing():
            if self._stopped.is_set():
                return
            self.since = time.monotonic()
            try:
                refused = self._send(identity)
            except Unreachable as error:
                if error.status not in REFUSALS:
                    raise
                # the wait that it asks for is of this batch alone
                failure = Unreachable(str(error), status=error.status)
                continue
            self._writer.perform(lambda buffer: buffer.finish(identity, refused))  # noqa: B023
            self._writer.perform(RelayBuffer.erase)
        if failure:
            raise failure

    def _send(self, identity: bytes) -> int | None:
        """Send a batch. Returns how many of its reports were refused, None for all where the batch
        is refused and is too old by the relay's day. Raises Unreachable."""
        body = self._reader.body(identity)
        try:
            return self._destination.send(identity, body)
        except Unreachable as error:
            oldest = self._writer.perform(lambda buffer: buffer.watermark)
            if error.status in REFUSALS and Batch.from_bytes(body).day < oldest:
                return None
            raise


class Relay(Service):
    """Service of a relay (`app`), with its writer and forwarder.

    `buffer`: folder, whose lock the caller holds. `destination`: the collector. `holding`: when
    batches leave. `today`: the clock. `monotonic`: seconds of a clock that is never set. `attest`:
    signs the size of a batch. `admits`: a deployment's decision who may send. Raises
    BufferUnusable.
    """

    def __init__(
        self,
        registry: Registry,
        buffer: str | Path,
        destination: Destination,
        *,
        holding: Holding | None = None,
        today: Callable[[], date] = utc_today,
        limits: Limits | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        attest: Callable[[Attestation], Item] | None = None,
        admits: Admits | None = None,
    ) -> None:
        self._queues, self._holding = registry.queues(), holding or Holding()
        lateness, counts = longest_lateness(registry), Counts()
        own, reader = RelayBuffer(buffer), RelayBuffer(buffer)
        writer = Writer(own, today, monotonic, lateness, counts)
        forwarder = Forwarder(
            reader, writer, destination, self._queues, self._lateness, self._holding, attest
        )
        self._longest = lateness
        super().__init__(
            writer,
            forwarder,
            (reader, own),
            counts,
            limits or Limits(),
            [Route("/v1/queues", self._get_queues)],
            admits=admits,
        )

    def _lateness(self, queue: str) -> timedelta:
        """Return the lateness of a queue in whole days. A queue that the registry no longer has
        gets the longest lateness."""
        return days(self._queues[queue].lateness) if queue in self._queues else self._longest

    async def _sort(self, body: bytes) -> SortedBatch:
        if not is_sealed(body):
            raise ReportError("a relay takes sealed reports only")
        return sort_queued(body, self._queues)

    async def _get_queues(self, _: Request) -> Response:
        """Answer with what everybody may know: sizes, the smallest batch, the delta at which it
        meets a target, and what became of the reports."""
        tallies = await asyncio.to_thread(self._writer.perform, RelayBuffer.tallies)
        queues = {
            name: {
                "report_bytes": queue.size,
                "smallest_batch": self._holding.least(name, queue),
                **({"delta": self._holding.delta} if name in self._holding.targets else {}),
                **{tally: tallies.get(name, {}).get(tally, 0) for tally in PUBLIC},
            }
            for name, queue in self._queues.items()
        }
        return Response(json.dumps({"queues": queues}), media_type=JSON_TYPE)
