"""Take batches over HTTP and write their bytes to one file: what no collector in Python can save.

`python -m simulations.benchmarks.bare FILE` answers each request once its body is synced. It checks
nothing, keeps no id, and makes no file of reports. One thread writes and syncs what has come.
"""

import asyncio
import os
import socket
import sys
from queue import SimpleQueue
from threading import Thread
from typing import Any

import uvicorn

HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"14")]
ANSWER = b'{"refused":[]}'
Waiting = SimpleQueue[tuple[bytes, "asyncio.Future[None]"]]


def keep(path: str, waiting: Waiting, loop: asyncio.AbstractEventLoop) -> None:
    """Write and sync bodies, all that wait at once, without end."""
    with open(path, "wb", buffering=0) as file:
        while True:
            some = [waiting.get()]
            while not waiting.empty():
                some.append(waiting.get_nowait())
            file.write(b"".join(body for body, _ in some))
            os.fsync(file.fileno())
            loop.call_soon_threadsafe(answer, [future for _, future in some])


def answer(futures: list["asyncio.Future[None]"]) -> None:
    for future in futures:
        future.set_result(None)


class Bare:
    """Application that a server calls for each request."""

    def __init__(self, path: str) -> None:
        self._path, self._waiting = path, Waiting()
        self._thread: Thread | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        loop = asyncio.get_running_loop()
        if self._thread is None:
            arguments = self._path, self._waiting, loop
            self._thread = Thread(target=keep, args=arguments, daemon=True)
            self._thread.start()
        parts, is_whole = list[bytes](), False
        while not is_whole:
            message = await receive()
            parts.append(message["body"])
            is_whole = not message.get("more_body", False)
        synced = loop.create_future()
        self._waiting.put((b"".join(parts), synced))
        await synced
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": ANSWER})


def main() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    quiet: dict[str, Any] = {"log_config": None, "access_log": False, "lifespan": "off"}
    quiet |= {"server_header": False, "proxy_headers": False, "ws": "none"}
    uvicorn.Server(uvicorn.Config(Bare(sys.argv[1]), **quiet)).run(sockets=[listening])


if __name__ == "__main__":
    main()
