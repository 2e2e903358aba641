"""An aggregation that was ended goes on, and counts every file once."""

import json
import os
import shutil
import signal
import subprocess
import sys
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldp import CountMeanSketch, SequenceFragmentPuzzle
from ldp.collection import ReportWriter, aggregate
from ldp.mechanisms import CatalogueMechanism
from ldp.simulation import Population, draw_reports

SKETCH = CountMeanSketch(epsilon=4.0, rows=64, width=64, seed="00")
PUZZLE = next(iter(SequenceFragmentPuzzle.examples())).mechanism


def stored(store: Path, mechanism: CatalogueMechanism, files: int, seed: int = 0) -> None:
    values = ("a", "b")
    people = Population(values, counts=np.array([60, 40]))
    for number in range(files):
        day, random = date(2026, 1, 1 + number % 28), np.random.default_rng([seed, number])
        with ReportWriter(store, "m", 1, mechanism, day, f"{seed}-{number}") as writer:
            for rows, payloads in draw_reports(mechanism, people, random):
                writer.write(rows, payloads)


class Ended(BaseException):
    """Error that stands for the end of the process."""


def ended_after(files: int, store: Path, checkpoint: Path, **options: Any) -> None:
    counted = 0

    def on_file(_: Path) -> None:
        nonlocal counted
        counted += 1
        if counted == files:
            raise Ended

    with pytest.raises(Ended):
        asked(store, checkpoint, on_file=on_file, **options)


def asked(store: Path, checkpoint: Path | None, **options: Any) -> Any:
    options = {"mechanism": SKETCH, "every": 3, **options}
    return aggregate([store], "m", 1, checkpoint=checkpoint, **options)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the files that were read since."""
    found = list[Path]()
    module = import_module("ldp.collection.aggregate")
    original = module.read_reports

    def reading(path: Path, mechanism: CatalogueMechanism) -> Any:
        found.append(path)
        return original(path, mechanism)

    monkeypatch.setattr(module, "read_reports", reading)
    return found


@pytest.mark.exact
@pytest.mark.parametrize("mechanism", [SKETCH, PUZZLE], ids=lambda one: one.name)
@pytest.mark.parametrize("files", [1, 3, 7, 10])
def test_a_run_goes_on_from_the_last_checkpoint(
    tmp_path: Path, read: list[Path], mechanism: CatalogueMechanism, files: int
) -> None:
    store, checkpoint = tmp_path / "store", tmp_path / "checkpoint"
    stored(store, mechanism, 10)
    whole = asked(store, None, mechanism=mechanism)
    ended_after(files, store, checkpoint, mechanism=mechanism)
    read.clear()
    told = list[Path]()
    assert asked(store, checkpoint, mechanism=mechanism, on_file=told.append) == whole
    assert len(read) == 10 - files // 3 * 3
    assert len(told) == 10
    assert not checkpoint.exists()


@pytest.mark.exact
def test_files_that_came_meanwhile_are_counted_too(tmp_path: Path, read: list[Path]) -> None:
    store, checkpoint = tmp_path / "store", tmp_path / "checkpoint"
    stored(store, SKETCH, 10)
    ended_after(7, store, checkpoint)
    stored(store, SKETCH, 2, seed=1)
    read.clear()
    found = asked(store, checkpoint)
    assert len(read) == 6
    assert found == asked(store, None)


@pytest.mark.exact
@pytest.mark.parametrize("what", ["file gone", "other days", "damaged", "foreign", "cut"])
def test_a_checkpoint_of_something_else_is_not_used(
    tmp_path: Path, read: list[Path], what: str
) -> None:
    store, checkpoint, days = tmp_path / "store", tmp_path / "checkpoint", {}
    stored(store, SKETCH, 10)
    ended_after(7, store, checkpoint)
    data = bytearray(checkpoint.read_bytes())
    if what == "file gone":
        min(store.rglob("*.parquet")).unlink()
    elif what == "other days":
        days = {"since": date(2026, 1, 2)}
    elif what == "damaged":
        data[len(data) // 2] ^= 1
        checkpoint.write_bytes(data)
    else:
        checkpoint.write_bytes(b"foreign" if what == "foreign" else data[:-40])
    read.clear()
    found = asked(store, checkpoint, **days)
    assert len(read) == 10 - (what in ("file gone", "other days"))
    assert found == asked(store, None, **days)


REGISTRY = """
[product]
name = "p"
[group.g]
window = "1d"
window_epsilon = 4.0
lifetime_epsilon = 64.0
[metric.m]
version = 1
group = "g"
description = "d"
owners = ["a@example.org"]
expires = 2999-12-31
mechanism = "cms"
epsilon = 4.0
rows = 64
width = 64
seed = "00"
"""
TELLING = """
import os, signal
from importlib import import_module
from itertools import count
module = import_module("ldp.collection.aggregate")
original, files = module.read_reports, count(1)
def reading(path, mechanism):
    with open(os.environ["FILES_READ"], "a") as log:
        log.write(f"{path}\\n")
    if next(files) == int(os.environ["KILLED_AT"]):
        os.kill(os.getpid(), signal.SIGKILL)
    return original(path, mechanism)
module.read_reports = reading
from ldp.__main__ import main
main()
"""
"""Program of `ldp aggregate` that lists the files that it reads, and is killed at one of them."""


@pytest.mark.slow
@pytest.mark.exact
def test_a_command_that_is_killed_twice_goes_on_and_counts_the_same(tmp_path: Path) -> None:
    """Of 420 files, it is killed at the 130th, and later at the 150th of the others."""
    store, kept, log = tmp_path / "store", tmp_path / "m.table.checkpoint", tmp_path / "log"
    stored(store, SKETCH, 28)
    for path in [*store.rglob("*.parquet")]:
        for number in range(14):
            shutil.copyfile(path, path.with_name(f"{number}-{path.name}"))
    (tmp_path / "metrics.toml").write_text(REGISTRY)
    words = ["aggregate", "m", str(store), "--registry", str(tmp_path / "metrics.toml"), "--out"]

    def status(killed_at: int) -> int:
        log.unlink(missing_ok=True)
        command = [sys.executable, "-c", TELLING, *words, str(tmp_path / "m.table")]
        environment = {**os.environ, "FILES_READ": str(log), "KILLED_AT": str(killed_at)}
        return subprocess.run(command, env=environment, stdout=subprocess.DEVNULL).returncode

    left = 420
    for files in (130, 150):
        assert status(files) == -signal.SIGKILL
        found = json.loads(kept.read_bytes().partition(b"\n")[0])["files"]
        assert len(found) - (420 - left) == 100
        assert len(set(found)) == len(found)
        left = 420 - len(found)
    assert left == 220
    assert status(0) == 0
    assert log.read_text().count("\n") == left
    assert not kept.exists()
    whole = subprocess.run(
        [sys.executable, "-m", "ldp", *words, str(tmp_path / "whole")], capture_output=True
    )
    assert whole.returncode == 0
    assert (tmp_path / "m.table").read_bytes() == (tmp_path / "whole").read_bytes()
