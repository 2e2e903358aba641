"""The open connections of a collector: each has a clock, and all together have a limit.

A connection whose request does not come, or whose answer is not read, is closed after a time; when
there are too many, the one that has kept the collector waiting longest is closed for the new one.
So connections that are held open keep nobody out, and a request that comes whole is never dropped.
"""

import asyncio
import resource
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

REQUEST_SECONDS = 30.0
"""From the connection, or from the last answer, to the last byte of a request."""
ANSWER_SECONDS = 60.0
"""From the last byte of a request to the last of its answer."""
HEAD_BYTES = 1 << 16
"""Of a request's line and headers, at most."""
MOST, RESERVED, BACKLOG = 8192, 128, 1024


def most_connections() -> int:
    """The number of connections that the limit of open files allows, which is raised as far as it
    can be: a half of it, because as many again may wait to be accepted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MOST + RESERVED
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return MOST
    return max(1, min(MOST, (soft - RESERVED) // 2))


class Connections:
    """Those of one event loop, by what is awaited: a request or the end of an answer."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._asked = dict["Connection", float]()
        self._answered = dict["Connection", float]()
        self._sweep: asyncio.TimerHandle | None = None

    def await_request(self, connection: "Connection") -> None:
        """A request of this connection is awaited from now on."""
        self._answered.pop(connection, None)
        self._asked.pop(connection, None)
        self._asked[connection] = connection.loop.time()
        if len(self._asked) + len(self._answered) > self.most:
            self._close_first(self._asked if len(self._asked) > 1 else self._answered)
        if self._sweep is None:
            self._sweep = connection.loop.call_later(1.0, self._close_late, connection.loop)

    def await_answer(self, connection: "Connection") -> None:
        """The request is here, the answer is not yet sent."""
        self._asked.pop(connection, None)
        self._answered[connection] = connection.loop.time()

    def forget(self, connection: "Connection") -> None:
        """The connection is closed."""
        self._asked.pop(connection, None)
        self._answered.pop(connection, None)

    def _close_first(self, waiting: "dict[Connection, float]") -> None:
        connection = next(iter(waiting))
        del waiting[connection]
        connection.transport.abort()

    def _close_late(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for waiting, seconds in ((self._asked, REQUEST_SECONDS), (self._answered, ANSWER_SECONDS)):
            while waiting and now - next(iter(waiting.values())) > seconds:
                self._close_first(waiting)
        self._sweep = None
        if self._asked or self._answered:
            self._sweep = loop.call_later(1.0, self._close_late, loop)


class Connection(HttpToolsProtocol):
    """One connection; says to `opened` what it waits for."""

    opened: Connections
    _head_bytes = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.opened.await_request(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.opened.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > HEAD_BYTES:
            self.transport.abort()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._head_bytes = -(1 << 62)  # what comes now is the body

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._head_bytes = 0
        if self.cycle.response_complete:  # it was refused before it was here
            self.opened.await_request(self)
        else:
            self.opened.await_answer(self)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing():
            self.opened.await_request(self)


def connection_class(most: int) -> type[Connection]:
    """The class of the connections of one server, of which it has at most so many."""
    return type("Connection", (Connection,), {"opened": Connections(most)})
