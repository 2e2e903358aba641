"""HTTP service that takes sealed batches, the base of a collector and of a relay.

The service sorts or refuses batches. A writer commits them, and a worker passes on what they hold.
No address, no header and no time of a request is written anywhere.
"""

import asyncio
import hashlib
import json
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ldp.collection.acknowledged import (
    ALL_IDS,
    BatchFile,
    BufferUnusable,
    PendingBatch,
    digest_of_id,
)
from ldp.collection.admission import Admits, refusal_status
from ldp.collection.collector_counts import Counts, exposition
from ldp.collection.cross_origin import CrossOrigin
from ldp.collection.intake import GivenUp, NotNow, SortedBatch, days
from ldp.collection.workers import Worker, Writer
from ldp.errors import ReportError
from ldp.protocol.batch import ID_HEADER, MEDIA_TYPE, MOST_BYTES
from ldp.registry import Registry

JSON_TYPE, TEXT_TYPE = "application/json", "text/plain; version=0.0.4"
SLOW_SECONDS = 0.2
"""Seconds after which an incomplete body is given up when there are too many requests."""
LONGEST_WAIT = 10.0
"""Seconds for which a batch may wait for its answer while all is well."""
BYTES_OF_REQUEST = 1 << 16
"""Number of bytes of a body that count as one more request in the rate. So does each report that is
opened."""
REPORTS, REGISTRY, _MEDIA_TYPE = "/v1/reports", "/v1/registry.json", MEDIA_TYPE.encode()
_ID_HEADER = ID_HEADER.lower().encode()
WEEK = timedelta(days=7)
"""Lateness of a registry without groups."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits beyond which a service asks senders to try again later."""

    requests: int = 512
    """Most requests at one time."""
    rate: float = 20_000.0
    """Most requests a second, from all senders together. Those of one second may come at once."""
    queue_bytes: int = 64 << 20
    """Most bytes of batches that wait for the writer."""
    buffer_bytes: int = 8 << 30
    """Most bytes in the buffer: reports that are not moved yet, and ids of batches."""
    body_seconds: float = 20.0
    """Longest duration of the body of a request, from its first byte to its last."""


def is_for_reports(path: str) -> bool:
    """Return whether a batch may be posted or put to a path."""
    return path == REPORTS or path.startswith(f"{REPORTS}/")


def utc_today() -> date:
    """Return the day by the system's clock, UTC."""
    return datetime.now(UTC).date()


def longest_lateness(registry: Registry) -> timedelta:
    """Return the longest lateness of a group, in whole days."""
    return max((days(group.lateness) for group in registry.groups.values()), default=WEEK)


class Service(ABC):
    """Service as an ASGI application (`app`), whose lifespan starts and stops its threads.

    `buffers`: connections to close at the end. `routes`: further pages of this service. `admits`: a
    deployment's decision who may send. `ids`: first hexadecimal digits of the ids of batches that
    are taken.
    """

    def __init__(
        self,
        writer: Writer[Any],
        worker: Worker,
        buffers: Sequence[BatchFile],
        counts: Counts,
        limits: Limits,
        routes: Sequence[Route],
        cross_origin: CrossOrigin | None = None,
        admits: Admits | None = None,
        ids: range = ALL_IDS,
    ) -> None:
        self._ids = ids
        self._writer, self._worker, self._buffers = writer, worker, buffers
        self._counts, self._limits = counts, limits
        self._admits, self._in_flight = admits, 0
        self._bodies: dict[asyncio.Task[Any], float] = {}
        self._bucket, self._filled_at = limits.rate, time.monotonic()
        self.app = _Application(
            self._reports,
            cross_origin,
            routes=[
                *routes,
                Route("/v1/health", self._health),
                Route("/v1/metrics", self._metrics),
            ],
            lifespan=self._lifespan,
            exception_handlers={BufferUnusable: _unreadable},
        )

    @abstractmethod
    async def _sort(self, body: bytes) -> SortedBatch:
        """Return the content of a batch. Raises ReportError unless the bytes are a batch of the
        right kind, and NotNow where it can only be taken later."""

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self._writer.start()
        self._worker.start()
        yield
        await asyncio.to_thread(self._worker.stop)
        await asyncio.to_thread(self._writer.stop)
        self._close()

    def _close(self) -> None:
        for buffer in self._buffers:
            buffer.close()

    async def _reports(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._in_flight += 1
        try:
            response = await self._take(scope, dict(scope["headers"]), receive)
        except ReportError as error:
            response = _problem(400, str(error))
            if isinstance(error, GivenUp):
                response.headers["Connection"] = "close"
        except NotNow as error:
            response = _retry_later(503, str(error), 60)
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
        self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive
    ) -> Response:
        identity = scope["path"].removeprefix(REPORTS)
        method = "PUT" if identity else "POST"
        if scope["method"] != method:
            return Response(status_code=405, headers={"Allow": method})
        if self._in_flight > self._limits.requests and not self._has_made_room():
            return _retry_later(503, "too many requests at one time", 1)
        if self._admits:
            seconds = self._limits.body_seconds
            if status := await refusal_status(self._admits, scope, seconds):
                return Response(status_code=status)
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
        self._bucket -= len(body) / BYTES_OF_REQUEST
        batch = await self._sort(body)
        self._bucket -= len(batch.opened)
        name = batch.id.hex()
        if (
            identity not in ("", f"/{name}")
            or headers.get(_ID_HEADER, name.encode()) != name.encode()
        ):
            return _problem(400, f"path or header {ID_HEADER} does not state the batch's id")
        if batch.id[0] >> 4 not in self._ids:
            return _retry_later(421, "another collector takes batches of this id", 60)
        batch.id = digest_of_id(batch.id)
        digest = hashlib.blake2b(body, digest_size=16).digest()
        answer = await self._writer.answer(PendingBatch(batch, digest), len(body))
        if answer.is_new:
            for metric, _, reports, _ in batch.lots:
                self._counts.accepted[metric] += reports
                if metric in self._counts.unsealed and not batch.opened:
                    self._counts.unsealed[metric] += reports
            for refusal in batch.refused:
                self._counts.refused[refusal.code] += 1
        return _json(answer.text, answer.status)

    async def _body(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes | None:
        """Return the whole body, or None if it is larger than any batch may be."""
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > MOST_BYTES:
            return None
        parts, size, is_whole = list[bytes](), 0, False
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        # cheaper than asyncio.timeout
        timer = loop.call_later(self._limits.body_seconds, self._give_up, task)
        self._bodies[task] = time.monotonic()
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
        except asyncio.CancelledError:
            if task in self._bodies:  # the server ends
                raise
            task.uncancel()
            raise TimeoutError from None
        finally:
            timer.cancel()
            self._bodies.pop(task, None)
        return b"".join(parts)

    def _give_up(self, task: asyncio.Task[Any]) -> None:
        """Stop waiting for the body that a task reads."""
        if self._bodies.pop(task, None) is not None:
            task.cancel()

    def _has_made_room(self) -> bool:
        """Stop waiting for the body that is awaited longest. Returns False if none is slow."""
        task = next(iter(self._bodies), None)
        if task is None or time.monotonic() - self._bodies[task] < SLOW_SECONDS:
            return False
        self._give_up(task)
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
        return bool(self._worker.buffer_bytes > self._limits.buffer_bytes)

    async def _health(self, _: Request) -> Response:
        problems = [
            problem
            for problem, is_wrong in (
                ("the writer stopped", not self._writer.is_alive()),
                (f"the {self._worker.role} stopped", not self._worker.is_alive()),
                (f"the {self._worker.role} hangs", self._worker.hangs),
                ("batches cannot be stored", bool(self._writer.failure)),
                ("the buffer is full", self._is_full()),
                ("a batch waits for too long", self._writer.oldest_wait > LONGEST_WAIT),
                ("batches of today are refused: --reset-watermark", self._writer.is_behind),
            )
            if is_wrong
        ] + [*self._worker.failures]
        if problems:
            return _problem(503, "; ".join(problems))
        return Response('{"status":"ok"}', media_type=JSON_TYPE)

    async def _metrics(self, _: Request) -> Response:
        gauges = {
            "ldp_buffer_reports": self._worker.waiting,
            "ldp_buffer_bytes": self._worker.buffer_bytes,
            "ldp_requests_in_flight": self._in_flight,
            "ldp_oldest_batch_seconds": self._writer.oldest_wait,
            "ldp_clock_ahead_days": self._writer.days_ahead,
        }
        return Response(exposition(self._counts, gauges), media_type=TEXT_TYPE)


class _Application(Starlette):
    """Application of the framework in which requests for batches, the frequent ones, skip its
    routing: that takes longer than sorting a batch. `cross_origin`: which other pages' browsers may
    send."""

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
        elif scope["type"] == "http" and is_for_reports(scope["path"]):
            await self._reports(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


@lru_cache(maxsize=16)
def _json(text: str, status: int) -> Response:
    return Response(text, status, media_type=JSON_TYPE)


def _problem(status: int, why: str) -> Response:
    return Response(json.dumps({"error": why}), status, media_type=JSON_TYPE)


def _retry_later(status: int, why: str, seconds: int) -> Response:
    response = _problem(status, why)
    response.headers["Retry-After"] = str(seconds)
    return response


def _unreadable(_: Request, __: Exception) -> Response:
    return _retry_later(503, "the buffer cannot be read", 60)
