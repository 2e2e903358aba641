"""Who may send: a deployment's own decision before a collector reads a batch.

The decision sees headers, sender and size, never the body, so that a token can be redeemed without
learning what is reported. The service calls it before it reads any batch, by whatever HTTP method.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from starlette.types import Scope


class Arrival(NamedTuple):
    """Request before its body: `headers` by lower-case name, `sender`, the address of the
    connection (a proxy's where there is one), and `size` in bytes. `sender` and `size` are None
    where they are not stated."""

    headers: Mapping[str, str]
    sender: str | None
    size: int | None


Admits = Callable[[Arrival], Awaitable[int | None]]
"""Function that returns None for a request that is admitted, else the HTTP status of its refusal:
a device repeats the request later after 429 or 503, not after 401 or 403."""


REFUSALS = (401, 403, 413, 429, 503)
"""Statuses with which a function may refuse a request. Any other answer but None becomes 503."""


async def refusal_status(admits: Admits, scope: Scope, seconds: float) -> int | None:
    """Return None where `admits` admits a request, else the status of the refusal. It is 503 where
    `admits` raises, returns neither None nor one of REFUSALS, or takes longer than `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            status = await admits(_arrival(scope))
        is_refusal = type(status) is int and status in REFUSALS
        return status if status is None or is_refusal else 503
    except asyncio.CancelledError:
        # the request's own end, or a function that cancels itself
        if (task := asyncio.current_task()) and task.cancelling():
            raise
        return 503
    except Exception:
        # the deployment's own code: whatever it raises admits nobody
        return 503


def _arrival(scope: Scope) -> Arrival:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    size = headers.get("content-length", "")
    client = scope.get("client")
    return Arrival(headers, client[0] if client else None, int(size) if size.isdecimal() else None)
