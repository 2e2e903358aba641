"""Who may send: a deployment's own decision before a collector reads a batch.

The decision sees headers, sender and size, never the body, so that a token can be redeemed without
learning what is reported. It is an ASGI middleware around the page that takes batches.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send


class Arrival(NamedTuple):
    """Request before its body: `headers` by lower-case name, `sender`, the address of the
    connection (a proxy's where there is one), and `size` in bytes, each None where not stated."""

    headers: Mapping[str, str]
    sender: str | None
    size: int | None


Admits = Callable[[Arrival], Awaitable[int | None]]
"""Function that returns None for a request that is admitted, else the HTTP status of its refusal:
401 or 403 for good, 429 or 503 for a device to repeat it."""


class Admission:
    """ASGI middleware that asks `admits` before `app` is called; the body is not received by then.
    A request whose decision fails is answered 503, and its device repeats it."""

    def __init__(self, app: ASGIApp, admits: Admits) -> None:
        self._app, self._admits = app, admits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            status = await self._admits(_arrival(scope)) if scope["method"] == "POST" else None
        except Exception:  # the deployment's own code: whatever it raises admits nobody
            status = 503
        if status is None:
            await self._app(scope, receive, send)
        else:
            await Response(status_code=status)(scope, receive, send)


def _arrival(scope: Scope) -> Arrival:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    size = headers.get("content-length", "")
    client = scope.get("client")
    return Arrival(headers, client[0] if client else None, int(size) if size.isdecimal() else None)
