"""Several processes, by `jobs` of `ldp publish`, write what one writes.

None outlives the lock of the folder, and one that ends takes only its own period with it.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ldp.collection.lock import InUse, hold_lock
from ldp.publishing import processes
from ldp.publishing.period import PeriodResult, PeriodTask
from ldp.publishing.publish import LOCK
from simulations.publish import START
from tests.collecting import wait_until
from tests.command_line import settings
from tests.publications import World, files, rows, run

METRICS = ("theme", "latency", "battery", "network")
"""Metrics, in the order of the registry."""


@pytest.fixture
def without_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PATIENCE_SECONDS", 0.0)


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.usefixtures("without_patience")
def test_two_processes_write_the_bytes_of_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds for all metrics but the one with which this process waits for the other's end.

    A problem of one metric stops no other, and each metric's periods are in order.
    """
    for metric in METRICS:
        for day in range(2):
            world.write(metric, day)
    (damaged,) = (world.store / "metric=battery").rglob(f"day={START}/*.parquet")
    damaged.write_bytes(b"PAR1")
    alone = world.publish(world.top / "alone")
    counted: list[Any] = []
    is_done, run_here = threading.Event(), PeriodTask.run

    def wait_and_run(task: PeriodTask) -> PeriodResult:
        assert is_done.wait(60)
        return run_here(task)

    def on_period(period: Any) -> None:
        counted.append(period)
        if len(counted) == 2 * len(METRICS) - 3:
            is_done.set()

    monkeypatch.setattr(PeriodTask, "run", wait_and_run)
    result = world.publish(processes=2, on_period=on_period)
    assert result.counted == alone.counted
    assert result.problems == alone.problems
    assert len(result.problems) == 1
    assert [period.metric for period in counted[-2:]] == ["theme", "theme"]
    assert counted == sorted(counted, key=lambda p: (p.metric == "theme", METRICS.index(p.metric)))
    assert files(world.out) == files(world.top / "alone")


@pytest.mark.exact
def test_a_run_with_little_to_do_starts_no_process(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not wait either for the time after which it would have started one."""

    def fail(*_: object, **__: object) -> None:
        pytest.fail("a process was started")

    monkeypatch.setattr(processes, "Popen", fail)
    monkeypatch.setattr(processes, "PATIENCE_SECONDS", 600.0)
    for metric in METRICS:
        world.write(metric)
    assert len(world.publish(processes=4).counted) == len(METRICS)


PAUSING = """
import os
from pathlib import Path
from ldp.publishing.period import PeriodTask
original = PeriodTask.run
def run(task):
    pipe = Path(os.environ["PIPES"], f"{task.subject.metric} {task.first}.pipe")
    if pipe.exists():
        pipe.read_bytes()
    return original(task)
PeriodTask.run = run
"""
"""Module by which every process of a publication waits for the pipe of a period."""


def pause(world: World, metric: str, day: int) -> Path:
    """Write reports of a day, and return a pipe at which whoever counts it waits."""
    world.write(metric, day)
    pipe = world.top / f"{metric} {START + timedelta(days=day)}.pipe"
    os.mkfifo(pipe)
    return pipe


def words(world: World) -> list[str]:
    return [
        *("publish", "--registry", str(world.top / "metrics.toml"), "--store", str(world.store)),
        *("--out", str(world.out), *settings(world.top, jobs=2)),
    ]


SLEEPING = """
import signal, sys, time
from ldp.cli import commands
from ldp.publishing.period import PeriodTask
signal.signal(signal.SIGINT, signal.default_int_handler)
PeriodTask.run = lambda _: time.sleep(60)
commands(sys.argv[1:])
"""
"""Program of a main process that makes no progress, and heeds Ctrl-C also where a shell started
the tests in the background."""
FIRST_DAY = "battery v1 2026-01-01"


@contextmanager
def publishing(world: World, program: str = "") -> Iterator[tuple["subprocess.Popen[bytes]", Any]]:
    """Yield `ldp publish` in two processes, and its lines; kill the main one at the end."""
    (world.top / "sitecustomize.py").write_text(PAUSING)
    places = (str(world.top), os.environ.get("PYTHONPATH"))
    with (world.top / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, *(("-c", program) if program else ("-m", "ldp")), *words(world)],
            stdout=log,
            stderr=log,
            env={
                **os.environ,
                "PYTHONUNBUFFERED": "1",
                "PYTHONPATH": os.pathsep.join(filter(None, places)),
                "PIPES": str(world.top),
            },
            start_new_session=True,
        )
    try:
        yield process, lambda: (world.top / "log").read_text()
    finally:
        process.kill()
        process.wait()


def children(process: "subprocess.Popen[bytes]") -> list[int]:
    listed = Path(f"/proc/{process.pid}/task").glob("*/children")
    return [int(number) for path in listed for number in path.read_text().split()]


def is_free(world: World) -> bool:
    try:
        with hold_lock(world.out, LOCK):
            return True
    except InUse:
        return False


@pytest.mark.slow
@pytest.mark.exact
def test_a_process_whose_parent_was_killed_keeps_a_second_run_out(world: World) -> None:
    """The main process waits in the theme, the other in the second day of the battery.

    The other is stopped, so that it cannot end by itself; it ends as soon as it can.
    """
    theme = pause(world, "theme", 0)
    world.write("battery", 0)
    battery = pause(world, "battery", 1)
    with publishing(world) as (process, log):
        wait_until(lambda: FIRST_DAY in log())
        (worker,) = children(process)
        listed = {os.readlink(path) for path in Path(f"/proc/{worker}/fd").iterdir()}
        assert str(world.out / LOCK) in listed
        assert not [name for name in listed if name.startswith("socket:")]
        os.kill(worker, signal.SIGSTOP)
    theme.unlink()
    battery.unlink()
    before = files(world.out)
    done = run(*words(world))
    assert isinstance(done.exception, InUse), done.output
    assert files(world.out) == before
    os.kill(worker, signal.SIGCONT)
    wait_until(lambda: is_free(world))
    assert "Traceback" not in log()
    world.publish()
    world.publish(world.top / "undisturbed")
    assert rows(world.out) == rows(world.top / "undisturbed")
    assert len({(row["metric"], row["period"]) for row in rows(world.out)}) == 3


@pytest.mark.slow
@pytest.mark.exact
def test_a_process_that_is_killed_is_a_problem_of_its_period(world: World) -> None:
    """Another process counts the next period."""
    theme = pause(world, "theme", 0)
    world.write("battery", 0)
    battery = pause(world, "battery", 1)
    world.write("battery", 2)
    with publishing(world) as (process, log):
        wait_until(lambda: FIRST_DAY in log())
        (worker,) = children(process)
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: "battery v1 2026-01-03" in log())
        theme.write_bytes(b"")
        assert process.wait(60) == 2
    assert "ldp: battery: 2026-01-02: the process that counted it ended with status -9" in log()
    assert "theme v1 2026-01-01" in log()
    battery.unlink()
    world.publish()
    assert len({(row["metric"], row["period"]) for row in rows(world.out)}) == 4


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize(("name", "status"), [(signal.SIGINT, 1), (signal.SIGTERM, -15)])
def test_a_signal_to_all_processes_ends_them(
    world: World, name: signal.Signals, status: int
) -> None:
    """Ctrl-C and a service manager send the signal so, while both processes are at work."""
    world.write("theme", 0)
    world.write("battery", 0)
    pause(world, "battery", 1)
    with publishing(world, SLEEPING) as (process, log):
        wait_until(lambda: FIRST_DAY in log())
        os.killpg(process.pid, name)
        assert process.wait(30) == status
    wait_until(lambda: is_free(world))
    assert "Traceback" not in log()
