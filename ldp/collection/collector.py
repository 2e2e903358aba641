"""The collector: takes sealed batches over HTTP, and answers when they are on the disk.

The service sorts or refuses batches; two threads (`ldp.collection.workers`) commit and move them.
No address, no header and no time of a request is written anywhere. `docs/operating.md` is the
operator's page, `openapi.json` the interface for senders.
"""

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ldp.collection.buffer import Buffer, BufferUnusable, PendingBatch
from ldp.collection.counts import Counts, exposition
from ldp.collection.cross_origin import CrossOrigin
from ldp.collection.ingest import clean
from ldp.collection.intake import SortedBatch, collected_metrics, days, sort_batch, sort_sealed
from ldp.collection.workers import Ingestor, Shuffling, Writer
from ldp.errors import LdpError, ReportError
from ldp.protocol.batch import MEDIA_TYPE, MOST_BYTES, Item
from ldp.protocol.sealed_report import Content, is_sealed
from ldp.registry import Registry
from ldp.registry.resolved import resolved_bytes

JSON_TYPE, TEXT_TYPE = "application/json", "text/plain; version=0.0.4"
SLOW_SECONDS = 0.2
"""Seconds after which an incomplete body is given up when there are too many requests."""
WEEK = timedelta(days=7)
"""Lateness of a registry without groups."""
REPORTS, REGISTRY, _MEDIA_TYPE = "/v1/reports", "/v1/registry.json", MEDIA_TYPE.encode()


class DrainResult(NamedTuple):
    """Reports by metric: `moved` to the store, and `waiting` because they are fewer than a file has
    at least."""

    moved: Counter[str]
    waiting: Counter[str]


class MoveError(LdpError, OSError):
    """Error: reports cannot be moved to the store; they stay in the buffer."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits beyond which a collector asks senders to try again later."""

    requests: int = 512
    """Most requests at one time."""
    rate: float = 20_000.0
    """Most requests a second, from all senders together; one second's may come at once."""
    queue_bytes: int = 64 << 20
    """Most bytes of batches that wait for the writer."""
    buffer_bytes: int = 8 << 30
    """Most bytes in the buffer: reports that are not moved yet, and ids of batches."""
    body_seconds: float = 20.0
    """Longest duration of the body of a request, from its first byte to its last."""


def utc_today() -> date:
    """Return the day by the system's clock, UTC."""
    return datetime.now(UTC).date()


class Collector:
    """Service as an ASGI application (`app`), with its writer and ingestor.

    `store` and `buffer`: folders, whose locks the caller holds; `today`: the clock; `retain`: how
    long files are kept, None for ever; `trust_clock`: skip the check that the clock did not leap;
    `origins`: of the pages whose browsers may send; `open_report`: returns the content of an item
    that carries a sealed report, or raises ReportError. The application's lifespan starts and stops
    the threads. Raises BufferUnusable, RegistryError and ParameterError.
    """

    def __init__(
        self,
        registry: Registry,
        store: str | Path,
        buffer: str | Path,
        *,
        today: Callable[[], date] = utc_today,
        limits: Limits | None = None,
        shuffling: Shuffling | None = None,
        retain: timedelta | None = None,
        trust_clock: bool = False,
        synchronous: str = "FULL",
        origins: Iterable[str] = (),
        open_report: Callable[[Item], Content] | None = None,
    ) -> None:
        origins = list(origins)
        self._limits, self._today = limits or Limits(), today
        self._expected, self._open_report = collected_metrics(registry), open_report
        self._counts = Counts()
        self._registry = _Page.of(registry.path.read_bytes(), "application/toml")
        self._resolved = _Page.of(resolved_bytes(registry), JSON_TYPE)
        self._openapi = files("ldp.collection").joinpath("openapi.json").read_bytes()
        lateness = max((days(group.lateness) for group in registry.groups.values()), default=WEEK)
        self._buffer = Buffer(buffer, synchronous)
        self._buffer.expect(self._expected)
        self._buffer.trust(today(), lateness, trust_clock)
        self._reader = Buffer(buffer, synchronous)
        clean(Path(store), self._buffer)
        self._writer = Writer(self._buffer, today, lateness, self._counts)
        self._ingestor = Ingestor(
            Path(store),
            self._reader,
            self._writer,
            today,
            self._counts,
            shuffling or Shuffling(),
            retain,
            {
                (name, metric.version): metric.candidates() or ()
                for name, metric in registry.metrics.items()
            },
        )
        self._in_flight = 0
        self._bodies: dict[asyncio.Timeout, float] = {}
        self._bucket, self._filled_at = self._limits.rate, time.monotonic()
        self.app = _Application(
            self._reports,
            CrossOrigin(origins) if origins else None,
            routes=[
                Route("/v1/registry", self._registry.get),
                Route(REGISTRY, self._resolved.get),
                Route("/v1/health", self._health),
                Route("/v1/metrics", self._metrics),
                Route("/v1/openapi.json", self._get_openapi),
            ],
            lifespan=self._lifespan,
        )

    def move_everything(self) -> None:
        """Move all reports from the buffer to the store while the writer runs. Raise MoveError when
        that failed for some metric; the others are moved."""
        self._ingestor.work(everything=True)
        if self._ingestor.failures:
            raise MoveError(
                "; ".join(f"{action}: {error}" for action, error in self._ingestor.failures.items())
            )

    def drain(self) -> DrainResult:
        """Move all reports from the buffer to the store, without serving; raise MoveError."""
        self._writer.start()
        try:
            self.move_everything()
            waiting = Counter[str]()
            for number, reports in self._reader.report_counts().items():
                waiting[self._reader.name_of(number)[0]] += reports
        finally:
            self._writer.stop()
            self._close()
        return DrainResult(self._counts.stored + self._counts.set_aside, waiting)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self._writer.start()
        self._ingestor.start()
        yield
        await asyncio.to_thread(self._ingestor.stop)
        await asyncio.to_thread(self._writer.stop)
        self._close()

    def _close(self) -> None:
        self._reader.close()
        self._buffer.close()

    async def _reports(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._in_flight += 1
        try:
            response = await self._take(scope["method"], dict(scope["headers"]), receive)
        except ReportError as error:
            response = _problem(400, str(error))
        except BufferUnusable:
            response = _retry_later(503, "the batch cannot be stored now", 30)
        except (TimeoutError, ClientDisconnect):
            response = _problem(408, "the body did not come in time")
            response.headers["Connection"] = "close"
        finally:
            self._in_flight -= 1
        self._counts.answers[response.status_code] += 1
        await response(scope, receive, send)

    async def _take(
        self, method: str, headers: Mapping[bytes, bytes], receive: Receive
    ) -> Response:
        if method != "POST":
            return Response(status_code=405, headers={"Allow": "POST"})
        if self._in_flight > self._limits.requests and not self._has_made_room():
            return _retry_later(503, "too many requests at one time", 1)
        if not self._within_rate():
            return _retry_later(429, "too many requests a second", 1)
        if self._writer.queued_bytes > self._limits.queue_bytes or self._is_full():
            return _retry_later(503, "the buffer is full", 10)
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != _MEDIA_TYPE:
            return _problem(415, f"Content-Type must be {MEDIA_TYPE}")
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            return _problem(415, "a batch is not compressed")
        body = await self._body(headers, receive)
        if body is None:
            return _problem(413, f"a batch has at most {MOST_BYTES} bytes")
        if is_sealed(body) and self._open_report is None:
            return _retry_later(503, "sealed reports are not opened here yet", 60)
        batch = await self._sort(body)
        digest = hashlib.blake2b(body, digest_size=16).digest()
        answer = await self._writer.answer(PendingBatch(batch, digest))
        if answer.is_new:
            for lot in batch.lots:
                self._counts.accepted[lot.metric] += lot.reports
            for refusal in batch.refused:
                self._counts.refused[refusal.code] += 1
        return Response(answer.text, answer.status, media_type=JSON_TYPE)

    async def _sort(self, body: bytes) -> SortedBatch:
        """Return the content of a batch; opening one of 500 sealed reports takes some 40 ms, in
        which others are answered."""
        if self._open_report is None or not is_sealed(body):
            return sort_batch(body, self._expected, self._today())
        return await asyncio.to_thread(
            sort_sealed, body, self._expected, self._today(), self._open_report
        )

    async def _body(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes | None:
        """Return the whole body, or None when it is larger than any batch."""
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > MOST_BYTES:
            return None
        parts, size, is_whole = list[bytes](), 0, False
        async with asyncio.timeout(self._limits.body_seconds) as clock:
            self._bodies[clock] = time.monotonic()
            try:
                while not is_whole:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > MOST_BYTES:
                        return None
                    is_whole = not message.get("more_body", False)
            finally:
                self._bodies.pop(clock, None)
        return b"".join(parts)

    def _has_made_room(self) -> bool:
        """Stop waiting for the body that is awaited longest; return False if none is slow."""
        clock = next(iter(self._bodies), None)
        if clock is None or time.monotonic() - self._bodies[clock] < SLOW_SECONDS:
            return False
        del self._bodies[clock]
        clock.reschedule(asyncio.get_running_loop().time())
        return True

    def _within_rate(self) -> bool:
        """Return whether the rate allows a request: a bucket of one second's requests, refilled."""
        now, rate = time.monotonic(), self._limits.rate
        self._bucket = min(rate, self._bucket + rate * (now - self._filled_at))
        self._filled_at = now
        if self._bucket < 1:
            return False
        self._bucket -= 1
        return True

    def _is_full(self) -> bool:
        return self._ingestor.buffer_bytes > self._limits.buffer_bytes

    async def _get_openapi(self, _: Request) -> Response:
        return Response(self._openapi, media_type=JSON_TYPE)

    async def _health(self, _: Request) -> Response:
        problems = [
            problem
            for problem, is_wrong in (
                ("the writer stopped", not self._writer.is_alive()),
                ("the ingestor stopped", not self._ingestor.is_alive()),
                ("batches cannot be stored", bool(self._writer.failure)),
                ("the buffer is full", self._is_full()),
            )
            if is_wrong
        ] + [*self._ingestor.failures]
        if problems:
            return _problem(503, "; ".join(problems))
        return Response('{"status":"ok"}', media_type=JSON_TYPE)

    async def _metrics(self, _: Request) -> Response:
        gauges = {
            "ldp_buffer_reports": self._ingestor.waiting,
            "ldp_buffer_bytes": self._ingestor.buffer_bytes,
            "ldp_requests_in_flight": self._in_flight,
        }
        return Response(exposition(self._counts, gauges), media_type=TEXT_TYPE)


class _Page(NamedTuple):
    """Page that does not change while the collector runs. `tag`: its SHA-256, as an ETag."""

    body: bytes
    media_type: str
    tag: str

    @classmethod
    def of(cls, body: bytes, media_type: str) -> "_Page":
        return cls(body, media_type, f'"{hashlib.sha256(body).hexdigest()}"')

    async def get(self, request: Request) -> Response:
        headers = {"ETag": self.tag, "Cache-Control": "max-age=3600"}
        etags = request.headers.get("if-none-match", "")
        if etags == "*" or self.tag in etags:
            return Response(status_code=304, headers=headers)
        return Response(self.body, headers=headers, media_type=self.media_type)


class _Application(Starlette):
    """The framework, but for the one page that is not rare: its routing takes longer than sorting a
    batch. `cross_origin`: of the pages that browsers may use."""

    def __init__(self, reports: ASGIApp, cross_origin: CrossOrigin | None, **settings: Any) -> None:
        super().__init__(**settings)
        self._reports, self._cross_origin = reports, cross_origin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed, preflight = self._cross_origin, None
        if allowed and scope["type"] == "http" and scope["path"] in (REPORTS, REGISTRY):
            send = allowed.answering(scope, send)
            preflight = allowed.preflight(scope)
        if preflight:
            await preflight(scope, receive, send)
        elif scope["type"] == "http" and scope["path"] == REPORTS:
            await self._reports(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def _problem(status: int, why: str) -> Response:
    return Response(json.dumps({"error": why}), status, media_type=JSON_TYPE)


def _retry_later(status: int, why: str, seconds: int) -> Response:
    response = _problem(status, why)
    response.headers["Retry-After"] = str(seconds)
    return response
