"""Run a PostgreSQL server for tests and campaigns, which listens on a socket only."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

PROGRAMS = ("initdb", "pg_ctl")


def is_installed() -> bool:
    """Return whether a PostgreSQL server is installed."""
    return all(map(shutil.which, PROGRAMS))


class Server:
    """Server with its files in `folder`, whose path must be short because of the socket's."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.conninfo = folder, f"host={folder} user=tester"
        self._user: dict[str, Any] = {"check": True, "stdout": subprocess.DEVNULL, "cwd": folder}
        if os.getuid() == 0:  # PostgreSQL does not run as root
            shutil.chown(folder, "postgres", "postgres")
            self._user |= {"user": "postgres", "group": "postgres"}
        initdb: list[str | Path] = [
            "initdb",
            "-D",
            folder / "data",
            "-U",
            "tester",
            "-A",
            "trust",
            "-N",
        ]
        subprocess.run(initdb, **self._user)

    def start(self) -> None:
        """Start the server without syncs, since the machine under it does not fail."""
        self._control("-o", f"-k {self._folder} -c listen_addresses= -c fsync=off", "start")

    def stop(self) -> None:
        """Stop the server at once; a later start recovers."""
        self._control("-m", "immediate", "stop")

    def _control(self, *words: str) -> None:
        place: list[str | Path] = ["-D", self._folder / "data", "-l", self._folder / "log"]
        subprocess.run(["pg_ctl", *place, "-w", *words], **self._user)


@contextmanager
def running_server() -> Iterator[Server]:
    """Yield a server that runs, and delete it afterwards."""
    folder = Path(mkdtemp(prefix="ldp-pg-"))
    try:
        server = Server(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)
