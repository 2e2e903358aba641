"""Provide a bucket for tests: moto's server on this machine, used like a real bucket."""

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import pyarrow.fs as fs
import pytest

BUCKET = "telemetry"
SECRET = "a-secret-that-nobody-prints"


@contextmanager
def serving_bucket(patch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the server's address, which the environment holds with credentials."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    patch.setenv("AWS_ACCESS_KEY_ID", "tester")
    patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    patch.setenv("AWS_ENDPOINT_URL", address)
    fs.S3FileSystem(endpoint_override=address, allow_bucket_creation=True).create_dir(BUCKET)
    yield address
    server.stop()


def listed(address: str, prefix: str) -> list[str]:
    """Return the objects below a prefix of the bucket, without the code under test."""
    selector = fs.FileSelector(f"{BUCKET}/{prefix}", recursive=True, allow_not_found=True)
    infos = fs.S3FileSystem(endpoint_override=address).get_file_info(selector)
    return sorted(info.path.removeprefix(f"{BUCKET}/") for info in infos if info.is_file)


@contextmanager
def stalling(address: str, after: int) -> Iterator[tuple[str, threading.Event]]:
    """Yield an address that forwards `after` bytes of all requests together, then no more.

    The event is set when the limit is reached.
    """
    target, left, is_stalled = urlsplit(address), after, threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def forward(source: socket.socket, other: socket.socket, is_request: bool) -> None:
        nonlocal left
        with source, other, suppress(OSError):
            while data := source.recv(4096):
                if is_request:
                    data, left = data[: max(0, left)], left - len(data)
                other.sendall(data)
                if left < 0:
                    is_stalled.set()

    def accept() -> None:
        while True:
            try:
                device, _ = listening.accept()
            except OSError:
                return
            server = socket.create_connection((str(target.hostname), int(target.port or 0)))
            for pair in ((device, server, True), (server, device, False)):
                threading.Thread(target=forward, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}", is_stalled
    listening.close()
