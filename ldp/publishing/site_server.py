"""Application that shows the site of a publication on a web server."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

REFRESH_SECONDS = 300
"""Seconds after which a browser loads a page again."""
HEADERS = {
    "Refresh": str(REFRESH_SECONDS),
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}


class _Site(StaticFiles):
    """Files of a site. `hosts`: values of `Host` that are answered; without any, all are."""

    def __init__(self, folder: Path, hosts: Sequence[str]) -> None:
        super().__init__(directory=folder, html=True)
        self._hosts = {host.encode() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._hosts and dict(scope["headers"]).get(b"host", b"") not in self._hosts:
            refusal = Response("this site answers its own machine only\n", 403)
            await refusal(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def file_response(self, *arguments: Any, **settings: Any) -> Response:
        response = super().file_response(*arguments, **settings)
        response.headers.update(HEADERS)
        return response


async def _missing(_: Request, __: Exception) -> Response:
    return Response("no page of this name is published yet\n", 404, {"Refresh": "5"})


def site_application(folder: Path, hosts: Sequence[str] = ()) -> Starlette:
    """Return the ASGI application that shows the files of the `folder` of a site, and nothing else.
    Browsers load a page again after `REFRESH_SECONDS`. `hosts`: values of `Host` that are answered,
    such as 127.0.0.1:8789, so that no page of another site whose name resolves to this machine can
    read the site; without any, all are answered."""
    folder.mkdir(parents=True, exist_ok=True)
    routes = [Mount("/", _Site(folder, hosts))]
    return Starlette(routes=routes, exception_handlers={404: _missing})
