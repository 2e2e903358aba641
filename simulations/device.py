"""Run a device in a process of its own, for fault tests.

`python -m simulations.device FOLDER STEPS` lives STEPS steps of eight hours, from where the
folder's last device stopped. It records and uploads, with a clock kept in a file, and keeps a
witness. Its registry has one metric of every way to memoise.

`--exit-at K` ends the process before its K-th SQL statement. `--cut-at K` ends it when its K-th
batch has arrived. With `--until-killed` it never stops by itself. `--file-limit` is RLIMIT_FSIZE.
`--unsynced` leaves syncing to chance, which is wrong.
"""

import argparse
import json
import os
import resource
import signal
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ldp.client import Client, Folder
from ldp.client.device_file import Database, DeviceFile

GROUP = """
[group.{name}]
window = "1d"
window_epsilon = {window}
lifetime_epsilon = {lifetime}
lateness = "7d"
"""
METRIC = """
[metric.{name}]
version = {version}
group = "{group}"
description = "Where people ask for the weather"
owners = ["team@example.org"]
expires = {expires}
{how}
categories = {categories}
reports_per_window = {reports}
"""
CATEGORIES = ["Oslo", "Bergen", "Hell", "none", *(f"town {i}" for i in range(60))]
"""Categories, so many that two permanent responses are hardly ever alike."""
FRESH = 'mechanism = "rr"\nepsilon = {epsilon}'
BASIC = 'mechanism = "rappor"\nscheme = "identity"\nf = 0.5\np = 0.0\nq = 1.0\n'
"""Mechanism without instantaneous noise, so that memoisation shows in the reports."""
METRICS: dict[str, dict[str, Any]] = {
    "city": {"how": FRESH.format(epsilon=4.0), "reports": 2},
    "home": {"how": FRESH.format(epsilon=4.0)},
    "lang": {"how": BASIC + 'memoise = "per-value"', "group": "memory"},
    "theme": {"how": BASIC + 'memoise = "epoch"\nepoch = "4d"', "group": "memory", "reports": 2},
    "mood": {"how": FRESH.format(epsilon=2.0) + '\npresence = "hidden"', "group": "quiet"},
    "road": {
        "how": BASIC + 'memoise = "epoch"\nepoch = "2d"\npresence = "hidden"',
        "group": "quiet",
    },
}
WINDOWS = {"places": 8.0, "memory": 5.0, "quiet": 4.5}
"""Epsilon a window of each group; `places` alone has no slack."""
START = datetime(2026, 1, 1, tzinfo=UTC)
STEP = timedelta(hours=8)
EXITED = 77


def registry_text(lifetime: float, metrics: dict[str, dict[str, Any]] = METRICS) -> str:
    """Return the registry, with this lifetime epsilon in every group."""
    text = '[product]\nname = "weather"\n'
    for name, window in WINDOWS.items():
        text += GROUP.format(name=name, window=window, lifetime=lifetime)
    usual = {"version": 1, "group": "places", "expires": "2999-12-31", "reports": 1}
    usual["categories"] = json.dumps(CATEGORIES)
    return text + "".join(
        METRIC.format(**{**usual, "name": name, **metric}) for name, metric in metrics.items()
    )


def registry(folder: Path) -> Path:
    """Return the folder's registry; first write one whose lifetime no test exhausts, if there is
    none."""
    path = folder / "metrics.toml"
    if not path.exists():
        path.write_text(registry_text(100_000.0))
    return path


def opened(folder: Path, now: list[datetime], **changes: Any) -> Client:
    """Return a client on the folder's files, whose clock is `now[0]`."""
    usual = {
        "registry": registry(folder),
        "destination": Folder(folder / "sent"),
        "clock": lambda: now[0],
        "jitter": timedelta(0),
        "witness": folder / "witness",
    }
    return Client(folder / "device.ldp", **{**usual, **changes})


def record_all(client: Client, records: int, step: int) -> int:
    """Record `records` times in every metric; return how many records did not reach the file.

    The value is one of three, and changes every day. Records that a cap declines do not count: a
    process whose clock was ahead has sealed their windows.
    """
    value = CATEGORIES[step // 3 % 3]
    answers = [client.record(name, value) for _ in range(records) for name in METRICS]
    return sum(getattr(answer, "reason", "cap") != "cap" for answer in answers)


def exit_before(statement: int) -> None:
    """End the process before any connection executes the statement of this number."""
    prepared, count = DeviceFile._prepare, 0

    def trace(_: str) -> None:
        nonlocal count
        count += 1
        if count == statement:
            os._exit(EXITED)

    def prepare(self: DeviceFile, database: Database) -> None:
        database.set_trace_callback(trace)
        prepared(self, database)

    DeviceFile._prepare = prepare  # type: ignore[method-assign]


class Unsynced(Database):
    """Database that never syncs, whatever it is asked to do."""

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if sql.startswith("PRAGMA synchronous"):
            sql = "PRAGMA synchronous = OFF"
        return super().execute(sql, *parameters)


class CutOff(Folder):
    """Destination at which the power fails when the batch of that number has arrived.

    The device does not learn that the batch arrived.
    """

    def __init__(self, path: Path, number: int) -> None:
        super().__init__(path)
        self._left = number

    def send(self, identity: bytes, body: bytes) -> int:
        refused = super().send(identity, body)
        self._left -= 1
        if not self._left:
            os._exit(EXITED)
        return refused


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("steps", type=int)
    parser.add_argument("--records", type=int, default=3, help="of each metric, a step")
    parser.add_argument("--exit-at", type=int, default=0)
    parser.add_argument("--cut-at", type=int, default=0)
    parser.add_argument("--unsynced", action="store_true")
    parser.add_argument("--until-killed", action="store_true")
    parser.add_argument("--file-limit", type=int, default=0)
    asked = parser.parse_args(words)
    folder: Path = asked.folder
    registry(folder)
    if asked.exit_at:
        exit_before(asked.exit_at)
    if asked.unsynced:
        connect = sqlite3.connect
        sqlite3.connect = lambda *a, **k: connect(*a, **{**k, "factory": Unsynced})
    if asked.file_limit:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (asked.file_limit, asked.file_limit))
    clock = folder / "clock"
    now = [datetime.fromisoformat(clock.read_text()) if clock.exists() else START]
    client = opened(folder, now, destination=CutOff(folder / "sent", asked.cut_at))
    declined = 0
    client.grant()
    step = 0
    while step < asked.steps or asked.until_killed:
        step += 1
        declined += record_all(client, asked.records, round((now[0] - START) / STEP))
        client.upload()
        now[0] += STEP
        aside = folder / f"clock.{os.getpid()}"
        if not asked.file_limit:
            aside.write_text(now[0].isoformat())
            aside.replace(clock)
    print(declined)


if __name__ == "__main__":
    main()
