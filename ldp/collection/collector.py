"""The collector: takes sealed batches over HTTP, and answers when they are on the disk.

The service sorts or refuses batches. Two threads (`ldp.collection.workers`) commit and move them.
No address, no header and no time of a request is written anywhere. `docs/operating.md` is the
operator's page, `openapi.json` the interface for senders.
"""

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import date, timedelta
from importlib.resources import files
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ldp.collection.acknowledged import ALL_IDS
from ldp.collection.admission import Admits
from ldp.collection.buffer import Buffer
from ldp.collection.collector_counts import Counts
from ldp.collection.cross_origin import CrossOrigin
from ldp.collection.ingest import clean, mark_of
from ldp.collection.intake import NotNow, SortedBatch, collected_metrics, sort_batch, sort_sealed
from ldp.collection.object_store import StorePath, StoreUnusable, store_path
from ldp.collection.service import (
    JSON_TYPE,
    REGISTRY,
    Limits,
    Service,
    longest_lateness,
    utc_today,
)
from ldp.collection.workers import Ingestor, Shuffling, Writer
from ldp.errors import LdpError
from ldp.protocol.batch import Item
from ldp.protocol.sealed_report import Attestation, Content, is_sealed
from ldp.registry import Registry
from ldp.registry.resolved import resolved_bytes


class MoveError(LdpError, OSError):
    """Error: reports cannot be moved to the store. They stay in the buffer."""


class Collector(Service):
    """Service of a collector (`app`), with its writer and ingestor.

    `store`: a folder or its URL. `buffer`: a folder; the caller holds the locks of both. `today`:
    function that returns the clock's day. `monotonic`: function that returns the seconds of a clock
    that is never set. `retain`: how long files are kept, with None for ever. `origins`: origins of
    the pages from which browsers may send. `open_report`: function that returns the content of an
    item that carries a sealed report, or raises ReportError. `verify`: likewise for the attestation
    of a relay. `admits`: a deployment's decision who may send, before the body is read. `ids`:
    first hexadecimal digits of the ids of batches that this collector takes, with which a new
    buffer is marked. Raises BufferUnusable, RegistryError and ParameterError.
    """

    def __init__(
        self,
        registry: Registry,
        store: str | StorePath,
        buffer: str | Path,
        *,
        today: Callable[[], date] = utc_today,
        limits: Limits | None = None,
        shuffling: Shuffling | None = None,
        retain: timedelta | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        synchronous: str = "FULL",
        origins: Iterable[str] = (),
        open_report: Callable[[Item], Content] | None = None,
        verify: Callable[[Item, bytes], Attestation] | None = None,
        admits: Admits | None = None,
        ids: range = ALL_IDS,
    ) -> None:
        origins = list(origins)
        self._expected = collected_metrics(registry)
        self._open_report, self._verify = open_report, verify
        self._openapi = files("ldp.collection").joinpath("openapi.json").read_bytes()
        counts = Counts(self._expected, bool(registry.sealing_keys))
        lateness = longest_lateness(registry)
        self._buffer = Buffer(buffer, synchronous)
        self._buffer.claim(ids)
        self._buffer.expect(self._expected)
        self._reader = Buffer(buffer, synchronous)
        store = store_path(store)
        # then nothing is moved until the marks are compared
        with suppress(StoreUnusable):
            self._buffer.match(mark_of(store))
        clean(store, self._buffer)
        writer = Writer(self._buffer, today, monotonic, lateness, counts)
        self._ingestor = Ingestor(
            store,
            self._reader,
            writer,
            counts,
            shuffling or Shuffling(),
            retain,
            {
                (name, metric.version): metric.candidates() or ()
                for name, metric in registry.metrics.items()
            },
        )
        self.ask_flush = self._ingestor.ask_flush
        self._resolved = resolved_bytes(registry)
        self._tag = f'"{hashlib.sha256(self._resolved).hexdigest()}"'
        super().__init__(
            writer,
            self._ingestor,
            (self._reader, self._buffer),
            counts,
            limits or Limits(),
            [
                Route("/v1/registry", self._get_registry),
                Route(REGISTRY, self._get_registry),
                Route("/v1/openapi.json", self._get_openapi),
            ],
            CrossOrigin(origins) if origins else None,
            admits,
            ids,
        )

    async def _sort(self, body: bytes) -> SortedBatch:
        day = self._writer.earlier_day
        if not is_sealed(body):
            return sort_batch(body, self._expected, day)
        if self._open_report is None:
            raise NotNow("sealed reports are not opened here yet")
        # some 50 ms, in which others are answered
        return await asyncio.to_thread(
            sort_sealed, body, self._expected, day, self._open_report, self._verify
        )

    async def _get_registry(self, request: Request) -> Response:
        headers = {"ETag": self._tag, "Cache-Control": "max-age=3600"}
        etags = request.headers.get("if-none-match", "")
        if etags == "*" or self._tag in etags:
            return Response(status_code=304, headers=headers)
        return Response(self._resolved, headers=headers, media_type=JSON_TYPE)

    async def _get_openapi(self, _: Request) -> Response:
        return Response(self._openapi, media_type=JSON_TYPE)

    def move_everything(self) -> None:
        """Move all reports from the buffer to the store while the writer runs. Raise MoveError if
        that failed for some metric. The reports of the others are moved."""
        self._ingestor.work(everything=True)
        if self._ingestor.failures:
            raise MoveError(
                "; ".join(f"{action}: {error}" for action, error in self._ingestor.failures.items())
            )

    def drain(self) -> tuple[Counter[str], Counter[str]]:
        """Move all reports from the buffer to the store, without serving. Return how many of each
        metric were moved, and how many wait because they are too few for a file. Raises
        MoveError."""
        self._writer.start()
        try:
            self.move_everything()
            waiting = Counter[str]()
            for number, reports in self._reader.report_counts().items():
                waiting[self._reader.name_of(number)[0]] += reports
        finally:
            self._writer.stop()
            self._close()
        return self._counts.stored + self._counts.set_aside, waiting
