"""`ldp publish --watch` repeats runs, which end between two periods."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ldp.publishing.publish import repeat
from tests.collecting import wait_until
from tests.publications import World, rows, run


@pytest.mark.exact
def test_a_run_begins_when_its_time_has_come_or_the_one_before_ends() -> None:
    """Runs of 2, 25 and 0 seconds every 10 begin at 0, 10 and 35."""
    now, begun, lengths = 0.0, list[float](), iter((2.0, 25.0, 0.0))

    def publish() -> None:
        nonlocal now
        begun.append(now)
        now += next(lengths)

    def wait(seconds: float) -> bool:
        nonlocal now
        now += seconds
        return len(begun) == 3

    repeat(publish, 10.0, wait, lambda: now)
    assert begun == [0.0, 10.0, 35.0]
    assert now == 45.0


@pytest.mark.exact
def test_a_run_that_is_to_end_does_so_after_its_period(world: World) -> None:
    for day in range(3):
        world.write("theme", day)
    counted: list[Any] = []
    options: dict[str, Any] = {"on_period": counted.append, "is_ending": lambda: bool(counted)}
    assert len(world.publish(**options).counted) == 1
    assert (world.out / "site" / "metrics" / "theme.html").exists()
    assert len(world.publish().counted) == 2
    undisturbed = world.top / "undisturbed"
    assert len(world.publish(undisturbed).counted) == 3
    assert rows(world.out) == rows(undisturbed)


@contextmanager
def publishing(world: World, *words: str) -> Iterator[Any]:
    """Yield `ldp publish` as a process, whose lines go to a file; it ends by SIGTERM with status
    0."""
    command = [sys.executable, "-m", "ldp", "publish", "--registry", "metrics.toml"]
    command += ["--store", "store", "--out", "out", *words]
    with (world.top / "log").open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=world.top,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    yield lambda: (world.top / "log").read_text()
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert (world.top / "log").read_text().endswith("stopped\n")


@pytest.mark.slow
@pytest.mark.exact
def test_watch_counts_what_comes_and_goes_on_after_an_error(world: World) -> None:
    world.write("theme", 0)
    registry = world.top / "metrics.toml"
    text = registry.read_text()
    with publishing(world, "--watch", "0m") as log:
        wait_until(lambda: "1 day counted" in log())
        registry.write_text("[product")
        wait_until(lambda: "ldp: " in log())
        registry.write_text(text)
        world.write("theme", 1)
        wait_until(lambda: log().count("1 day counted") == 2)
    assert "theme v1 2026-01-02: 400 reports" in log()


@pytest.mark.slow
@pytest.mark.exact
def test_a_problem_that_stays_is_said_once(world: World) -> None:
    world.write("theme", 0)
    (path,) = world.store.rglob("*.parquet")
    path.write_bytes(b"PAR1")
    with publishing(world, "--watch", "0m") as log:
        wait_until(lambda: log().count("0 days counted") > 1)
    assert log().count("damaged") == 1


@pytest.mark.exact
def test_a_day_does_not_go_with_a_run_that_is_repeated(world: World) -> None:
    common = ("publish", "--registry", world.top / "metrics.toml", "--store", world.store)
    done = run(*common, "--out", world.out, "--watch", "--until", "2026-01-01")
    assert "--until does not go with --watch" in done.output
    done = run(*common, "--out", world.out, "--watch", "soon")
    assert done.exit_code == 2
    assert not world.out.exists()
