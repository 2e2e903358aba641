"""Provide a device to test the client with: an app with its own clock, a destination in memory."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ldp.client import (
    Client,
)
from ldp.errors import Unreachable
from ldp.protocol.batch import Batch

REGISTRY = """
[product]
name = "weather"
[group.places]
window = "1d"
window_epsilon = 8.0
lifetime_epsilon = 64.0
lateness = "7d"
[group.other]
window = "1d"
window_epsilon = 4.0
lifetime_epsilon = 8.0
"""


METRIC = """
[metric.{name}]
version = {version}
group = "{group}"
description = "Where people ask for the weather"
owners = ["team@example.org"]
expires = {expires}
mechanism = "rr"
epsilon = {epsilon}
categories = ["Oslo", "Bergen", "Hell"]
reports_per_window = {reports}
"""


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


DAY = timedelta(days=1)


class Memory:
    """Destination that keeps what it gets, and can be out of reach."""

    def __init__(self) -> None:
        self.got: list[tuple[bytes, bytes]] = []
        self.down = False

    def send(self, identity: bytes, body: bytes) -> int:
        self.got.append((identity, body))
        if self.down:
            raise Unreachable("down")
        return 0

    @property
    def items(self) -> list[Any]:
        return [item for _, body in dict(self.got).items() for item in Batch.from_bytes(body).items]


class App:
    """Client with a clock of its own, on a registry of these metrics: name -> what differs."""

    def __init__(self, folder: Path, metrics: Mapping[str, dict[str, Any]] | None = None) -> None:
        self.folder, self.now, self.server = folder, NOON, Memory()
        self.path = folder / "device.ldp"
        self.write(metrics or {"city": {}})
        self.client = self.open()

    def write(self, metrics: Mapping[str, dict[str, Any]]) -> None:
        usual = {"version": 1, "group": "places", "reports": 1, "epsilon": 4.0}
        usual["expires"] = "2030-12-31"
        text = "".join(METRIC.format(name=name, **usual | own) for name, own in metrics.items())
        (self.folder / "metrics.toml").write_text(REGISTRY + text)

    def open(self, **changes: Any) -> Client:
        settings = {
            "registry": self.folder / "metrics.toml",
            "destination": self.server,
            "clock": lambda: self.now,
            "jitter": timedelta(0),
        }
        return Client(self.path, **{**settings, **changes})

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(query).fetchall()
