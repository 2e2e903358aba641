"""A client's batches pass headers, TLS with a private authority, and a proxy."""

import select
import socket
import ssl
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from ldp.client import Collector, ParameterError
from ldp.errors import Unreachable
from tests.folders import DATA

TLS = DATA / "tls"
"""Key and certificate of localhost, made for these tests and valid until 2126."""


class Telemetry(BaseHTTPRequestHandler):
    """Server that answers every batch, and keeps its headers."""

    seen: list[dict[str, str]]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append(dict(self.headers))
        self.send_response(202)
        self.send_header("Content-Length", "15")
        self.end_headers()
        self.wfile.write(b'{"refused": []}')

    def log_message(self, *_: Any) -> None:
        pass


class Proxy(BaseHTTPRequestHandler):
    """Proxy that connects to any port of this machine, for everyone who knows the password."""

    asked: list[str]

    def do_CONNECT(self) -> None:
        self.asked.append(self.path)
        if self.headers["Proxy-Authorization"] != f"Basic {b64encode(b'ada:a b').decode()}":
            self.send_error(407)
            return
        with socket.create_connection(("127.0.0.1", int(self.path.split(":")[1]))) as server:
            self.send_response(200)
            self.end_headers()
            pair = [self.connection, server]
            with suppress(OSError):
                while data := (ready := select.select(pair, [], [], 10)[0][0]).recv(1 << 16):
                    pair[ready is self.connection].sendall(data)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def running(server: HTTPServer) -> Iterator[int]:
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def telemetry() -> Iterator[int]:
    """Yield the port of a collector behind TLS."""
    Telemetry.seen = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Telemetry)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with running(server) as port:
        yield port


@pytest.fixture
def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=TLS / "certificate.pem")


@pytest.mark.exact
def test_headers_and_an_authority_of_ones_own(
    telemetry: int, trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    url = f"https://localhost:{telemetry}"
    collector = Collector(url, headers={"Authorization": "Bearer key"}, context=trusting)
    assert collector.send(b"", b"body") == 0
    (seen,) = Telemetry.seen
    assert seen["Authorization"] == "Bearer key"
    assert seen["Content-Type"] == "application/vnd.ldp.batch"
    with pytest.raises(Unreachable, match="SSLCertVerificationError"):
        Collector(url).send(b"", b"body")


@pytest.mark.exact
def test_the_proxy_of_the_environment_is_used(
    telemetry: int, trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    Proxy.asked = []
    with running(ThreadingHTTPServer(("127.0.0.1", 0), Proxy)) as port:
        collector = Collector(f"https://localhost:{telemetry}", context=trusting)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.setenv("https_proxy", f"http://ada:a%20b@127.0.0.1:{port}")
        assert collector.send(b"", b"body") == 0
        assert Proxy.asked == [f"localhost:{telemetry}"]
        assert "Proxy-Authorization" not in Telemetry.seen[0]
        monkeypatch.setenv("https_proxy", f"127.0.0.1:{port}")
        with pytest.raises(Unreachable):
            collector.send(b"", b"body")
        monkeypatch.setenv("no_proxy", "localhost")
        assert collector.send(b"", b"body") == 0
        assert len(Proxy.asked) == 2


@pytest.mark.exact
@pytest.mark.parametrize("headers", [{"a": "b\r\nc: d"}, {"a\n": "b"}, {"a": "ü"}, {"a": 1}])
def test_a_header_that_is_none_is_refused(headers: Any) -> None:
    with pytest.raises(ParameterError, match="headers must be"):
        Collector("https://collector.example", headers=headers)


@pytest.mark.exact
def test_an_address_holds_no_password() -> None:
    with pytest.raises(ParameterError, match="no password: use headers"):
        Collector("https://ada:secret@collector.example")
