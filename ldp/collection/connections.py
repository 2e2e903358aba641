"""Open connections of a collector: their time and their number are limited.

A connection whose request does not come, or whose answer is not read, is closed after a time. When
there are too many, a new one replaces the one that the collector has waited for longest. So
connections that are held open exclude nobody, and a request that arrives whole is never dropped.
"""

import asyncio
import resource
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ldp.protocol.batch import MOST_BYTES

REQUEST_SECONDS = 30.0
"""Longest time from the connection, or the last answer, to the last byte of a request."""
ANSWER_SECONDS = 60.0
"""Longest time from the last byte of a request to the last byte of its answer."""
MOST_OVERHEAD = 1 << 14
"""Most bytes of a request that no application receives: its line, headers, sizes and extensions of
chunks, trailers, and what follows an answer."""
MOST_REFUSED = 2 * MOST_BYTES
"""Most bytes of a body that are still read after the answer, so that a sender whose batch is
refused early gets its answer, and can send the next batch over the same connection."""
MOST_PIPELINED = 16
"""Most requests of a connection that wait for the answers to earlier ones."""
LINGER_SECONDS = 1.0
"""Time until a connection that is read no more is closed, in which its sender can read the answer
and does not connect again."""
MOST, RESERVED, BACKLOG = 8192, 128, 1024


def most_connections() -> int:
    """Raise the limit of open files as far as needed and possible. Return the number of connections
    that it allows: half the limit, because as many may wait to be accepted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = 2 * MOST + RESERVED
    if soft != resource.RLIM_INFINITY and soft < limit:
        soft = limit if hard == resource.RLIM_INFINITY else min(hard, limit)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return MOST
    return max(1, min(MOST, (soft - RESERVED) // 2))


class Connections:
    """Connections of one event loop, by what is awaited: a request or the end of an answer. `most`:
    largest number of connections."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._requests = dict["Connection", float]()
        self._answers = dict["Connection", float]()
        self._sweep: asyncio.TimerHandle | None = None

    def await_request(self, connection: "Connection") -> None:
        """Wait for a request of this connection from now on."""
        self.forget(connection)
        self._requests[connection] = connection.loop.time()
        if len(self._requests) + len(self._answers) > self.most:
            self._close_first(self._requests if len(self._requests) > 1 else self._answers)
        if self._sweep is None:
            self._sweep = connection.loop.call_later(1.0, self._close_late, connection.loop)

    def await_answer(self, connection: "Connection") -> None:
        """Wait for the end of the answer to a request that has arrived."""
        self._requests.pop(connection, None)
        self._answers[connection] = connection.loop.time()

    def forget(self, connection: "Connection") -> None:
        """Forget a connection that is closed."""
        self._requests.pop(connection, None)
        self._answers.pop(connection, None)

    def _close_first(self, awaited: "dict[Connection, float]") -> None:
        connection = next(iter(awaited))
        del awaited[connection]
        connection.transport.abort()

    def _close_late(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        limits = (self._requests, REQUEST_SECONDS), (self._answers, ANSWER_SECONDS)
        for awaited, seconds in limits:
            while awaited and now - next(iter(awaited.values())) > seconds:
                self._close_first(awaited)
        self._sweep = None
        if self._requests or self._answers:
            self._sweep = loop.call_later(1.0, self._close_late, loop)


class Connection(HttpToolsProtocol):
    """One connection, which notes in `open_connections` what it waits for."""

    open_connections: Connections
    _overhead = _refused = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.open_connections.await_request(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open_connections.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), MOST_OVERHEAD):
            if self._overhead <= MOST_OVERHEAD and not self.transport.is_closing():
                piece = data[start : start + MOST_OVERHEAD]
                self._overhead += len(piece)
                super().data_received(piece)
                excess = (len(self.pipeline) > MOST_PIPELINED) * (MOST_OVERHEAD + 1)
                self._overhead = max(excess, self._overhead)
        if self._overhead > MOST_OVERHEAD and not self.transport.is_closing():
            self.transport.pause_reading()
            self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        self.transport.write(b"HTTP/1.1 400 \r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        self._overhead = MOST_OVERHEAD + 1

    def on_body(self, body: bytes) -> None:
        self._refused += len(body) * self.cycle.response_complete
        if self._refused <= MOST_REFUSED:
            self._overhead -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._overhead = self._refused = 0
        # it was refused before it arrived
        if self.cycle.response_complete:
            self.open_connections.await_request(self)
        else:
            self.open_connections.await_answer(self)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing():
            self.open_connections.await_request(self)


def connection_class(most: int) -> type[Connection]:
    """Return the class of the connections of one server, which has at most `most` of them."""
    return type("Connection", (Connection,), {"open_connections": Connections(most)})
