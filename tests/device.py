"""A device in a process of its own, for the fault tests: `python -m tests.device FOLDER STEPS`.

Lives so many steps of eight hours from where the folder's last device stopped, recording and
uploading, with a clock kept in a file. `--exit-at K` ends the process before its K-th SQL
statement; `--until-killed` never stops by itself; `--file-limit` is RLIMIT_FSIZE.
"""

import argparse
import os
import resource
import signal
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ldp.client import Client, Folder
from ldp.client.device_file import DeviceFile

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
START = datetime(2026, 1, 1, tzinfo=UTC)
STEP = timedelta(hours=8)
EXITED = 77


def registry_text(lifetime: float) -> str:
    """Two metrics of a group, one with two slots."""
    usual = {"version": 1, "group": "places", "epsilon": 4.0, "expires": "2999-12-31"}
    metrics = [("city", 2), ("home", 1)]
    text = "".join(METRIC.format(name=name, reports=n, **usual) for name, n in metrics)
    return REGISTRY.replace("64.0", str(lifetime)) + text


def registry(folder: Path) -> Path:
    """The folder's, or one whose lifetime no test lives through."""
    path = folder / "metrics.toml"
    if not path.exists():
        path.write_text(registry_text(100_000.0))
    return path


def exit_before(statement: int) -> None:
    """Ends the process before the statement of that number that any connection executes."""
    opened, count = DeviceFile._prepare, 0

    def trace(_: str) -> None:
        nonlocal count
        count += 1
        if count == statement:
            os._exit(EXITED)

    def prepare(self: DeviceFile, connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(trace)
        opened(self, connection)

    DeviceFile._prepare = prepare  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("steps", type=int)
    parser.add_argument("--records", type=int, default=3, help="of each metric, a step")
    parser.add_argument("--exit-at", type=int, default=0)
    parser.add_argument("--until-killed", action="store_true")
    parser.add_argument("--file-limit", type=int, default=0)
    asked = parser.parse_args()
    folder: Path = asked.folder
    path = registry(folder)
    if asked.exit_at:
        exit_before(asked.exit_at)
    if asked.file_limit:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (asked.file_limit, asked.file_limit))
    clock = folder / "clock"
    now = datetime.fromisoformat(clock.read_text()) if clock.exists() else START
    client = Client(
        folder / "device.ldp",
        registry=path,
        destination=Folder(folder / "sent"),
        clock=lambda: now,
        jitter=timedelta(0),
    )
    declined = 0
    client.grant()
    step = 0
    while step < asked.steps or asked.until_killed:
        step += 1
        for _ in range(asked.records):
            declined += not client.record("city", "Oslo")
            declined += not client.record("home", "Hell")
        client.upload()
        now += STEP
        aside = folder / f"clock.{os.getpid()}"
        if not asked.file_limit:
            aside.write_text(now.isoformat())
            aside.replace(clock)
    print(declined)


if __name__ == "__main__":
    main()
