"""Requests from pages of other origins (CORS): which browsers may send, and read the answer.

This decides for browsers only. It authenticates nobody and stops no forged report: other programs
can send without it.
"""

import re
from collections.abc import Iterable

from starlette.responses import Response
from starlette.types import Message, Scope, Send

from ldp.errors import ParameterError
from ldp.protocol.batch import ID_HEADER

_ORIGIN = re.compile(r"(https?)://([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([1-9][0-9]{,4}))?")
_DEFAULT_PORTS = {"https": "443", "http": "80"}
_LOCAL = ("localhost", "127.0.0.1", "[::1]")
_MOST_PORT = 65_535


def checked_origin(text: str) -> str:
    """Return an origin as a browser writes it. Raises ParameterError for any other text, such as
    `*`, `null`, a path or a default port."""
    match = _ORIGIN.fullmatch(text)
    scheme, host, port = match.groups("") if match else ("", "", "")
    is_secure = scheme == "https" or host in _LOCAL
    if not is_secure or port == _DEFAULT_PORTS[scheme] or int(port or 0) > _MOST_PORT:
        raise ParameterError(
            f"{text!r} is not an exact origin: use https://app.example, with a port other than 443 "
            "(http on this machine only)"
        )
    return text


class CrossOrigin:
    """Headers of answers to pages of these `origins`. Raises ParameterError for an origin that is
    not exact."""

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = {checked_origin(text).encode() for text in origins}

    def preflight(self, scope: Scope) -> Response | None:
        """Return the answer to a browser that asks whether it may send. Returns None for other
        requests."""
        headers = dict(scope["headers"])
        if scope["method"] != "OPTIONS" or b"access-control-request-method" not in headers:
            return None
        if headers.get(b"origin") not in self._origins:
            return Response(status_code=403)
        return Response(
            status_code=204,
            headers={
                "Access-Control-Allow-Methods": "GET, POST",
                "Access-Control-Allow-Headers": f"Content-Type, {ID_HEADER}",
                "Access-Control-Max-Age": "7200",
            },
        )

    def answering(self, scope: Scope, send: Send) -> Send:
        """Return `send` that adds the headers for this request's origin to every answer."""
        added = [(b"vary", b"Origin")]
        origin = dict(scope["headers"]).get(b"origin")
        if origin in self._origins:
            added += [
                (b"access-control-allow-origin", origin),
                (b"access-control-expose-headers", b"Retry-After"),
            ]

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        return send_with_headers
