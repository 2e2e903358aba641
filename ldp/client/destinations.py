"""Where sealed batches go: a folder, or a collector over HTTP."""

import json
import os
from contextlib import closing, suppress
from pathlib import Path
from typing import Protocol

from ldp.errors import LdpError, ParameterError

TIMEOUT_SECONDS = 20.0
MEDIA_TYPE = "application/vnd.ldp.batch"


class Unreachable(LdpError, OSError):
    """The destination did not take the batch; the same bytes are sent again later, not before
    `retry_after` seconds if it said so."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Destination(Protocol):
    """Takes a batch for good, or raises Unreachable. It may be handed the same bytes again."""

    def send(self, identity: bytes, body: bytes) -> int:
        """Returns, once the batch is safe there, how many of its reports were refused for good."""
        ...


class Folder:
    """A file for each batch, named by its id: it has its name when it is on the disk whole."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def send(self, identity: bytes, body: bytes) -> int:
        final = self._path / f"{identity.hex()}.batch"
        part = self._path / f".{identity.hex()}.{os.getpid()}.part"
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            if not final.exists():
                with part.open("wb") as file:
                    file.write(body)
                    file.flush()
                    os.fsync(file.fileno())
                part.replace(final)
            folder = os.open(self._path, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            with suppress(OSError):
                part.unlink()
            raise Unreachable(f"cannot write to the folder: {error.strerror}") from None
        return 0


class Collector:
    """`POST url/v1/reports`: 202 acknowledges. `url` is https, or http on this machine; redirects
    are not followed, certificates are checked."""

    def __init__(self, url: str) -> None:
        from urllib.parse import urlsplit

        parts = urlsplit(url)
        local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        if parts.scheme != "https" and not (parts.scheme == "http" and local):
            raise ParameterError("a collector's address must be https (http on this machine only)")
        self._secure, self._host = parts.scheme == "https", parts.netloc
        self._path = parts.path.rstrip("/") + "/v1/reports"

    def send(self, identity: bytes, body: bytes) -> int:
        from http.client import HTTPConnection, HTTPException, HTTPSConnection  # late: slow to load

        kind = HTTPSConnection if self._secure else HTTPConnection
        headers = {"Content-Type": MEDIA_TYPE, "User-Agent": "ldp"}
        try:
            with closing(kind(self._host, timeout=TIMEOUT_SECONDS)) as connection:
                connection.request("POST", self._path, body, headers)
                answer = connection.getresponse()
                text, after = answer.read(1 << 20), answer.getheader("Retry-After", "")
        except (OSError, HTTPException) as error:
            raise Unreachable(f"the collector cannot be reached: {type(error).__name__}") from None
        if answer.status != 202:
            seconds = float(after) if after.isdecimal() else 0.0
            raise Unreachable(f"the collector answered {answer.status}", seconds)
        return _refused(text)


def _refused(answer: bytes) -> int:
    """How many items the answer lists as refused for good."""
    try:
        return len(json.loads(answer)["refused"])
    except (ValueError, KeyError, TypeError):
        raise Unreachable("the collector's answer cannot be read") from None
