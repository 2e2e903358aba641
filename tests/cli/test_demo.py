"""The demo does what it says: reports come from the device encoder, numbers from the files."""

import csv
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

USERS = 3000


def ldp(*words: str | Path, patch: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process.

    Every process of the demo first imports the sitecustomize in the folder `patch`.
    """
    path = os.pathsep.join(filter(None, [str(patch or ""), os.environ.get("PYTHONPATH", "")]))
    return subprocess.run(
        [sys.executable, "-m", "ldp", *map(str, words)],
        env={**os.environ, "PYTHONPATH": path, "LDP_DEBUG": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def estimates(path: Path) -> dict[str, str]:
    """Return the estimates of a file, or the counts of a truth, by value."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    name = "estimate" if "estimate" in rows[0] else "count"
    return {row["value"]: row[name] for row in rows}


def decoded(folder: Path, name: str) -> dict[str, str]:
    """Aggregate and decode the demo's own store again, and return the estimates."""
    table, out = folder / f"{name}.table", folder / f"{name}.csv"
    words = ("emoji", "--registry", folder / "metrics.toml", folder / "reports", "--out", table)
    assert ldp("aggregate", *words).returncode == 0
    assert ldp("decode", table, "--out", out).returncode == 0
    return estimates(out)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    done = ldp("demo", "--first-act", "--users", str(USERS), "--out", folder, "--seed", "1")
    assert done.returncode == 0, done.stderr
    assert "noise floor" in done.stdout
    return folder


@pytest.mark.slow
@pytest.mark.exact
def test_the_demo_writes_what_it_promises(demo: Path) -> None:
    assert len(estimates(demo / "estimates.csv")) == 2600
    truth = estimates(demo / "truth.csv")
    assert sum(map(int, truth.values())) == USERS
    assert sum(name.startswith("absent-") for name in truth) == 1631
    assert "<title>emoji" in (demo / "report.html").read_text("utf-8")


@pytest.mark.campaign
@pytest.mark.exact
def test_a_demo_with_a_seed_is_repeatable_and_replaces_the_one_before(
    demo: Path, tmp_path: Path
) -> None:
    for _ in range(2):
        done = ldp("demo", "--first-act", "--users", str(USERS), "--out", tmp_path, "--seed", "1")
        assert done.returncode == 0
        assert (tmp_path / "estimates.csv").read_text() == (demo / "estimates.csv").read_text()


@pytest.mark.slow
@pytest.mark.exact
def test_the_demo_fails_when_the_device_encoder_does(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "from ldp.mechanisms.base import Encoder\n"
        "def encode(self, value):\n"
        "    raise RuntimeError('the device encoder was called')\n"
        "Encoder.encode = encode\n"
    )
    done = ldp(
        "demo", "--first-act", "--users", str(USERS), "--out", tmp_path / "out", patch=tmp_path
    )
    assert done.returncode != 0
    assert "the device encoder was called" in done.stderr
    assert not (tmp_path / "out" / "estimates.csv").exists()


@pytest.mark.slow
@pytest.mark.exact
def test_workers_end_with_a_killed_demo(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "ldp", "demo", "--users", "2000000", "--out", str(tmp_path)]
    started = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    workers: list[str] = []
    for _ in range(600):
        time.sleep(0.1)
        found = subprocess.run(
            ["pgrep", "-P", str(started.pid)], capture_output=True, text=True, check=False
        )
        workers = found.stdout.split()
        if len(workers) >= 3:  # two workers and multiprocessing's resource tracker
            break
    time.sleep(1)
    started.kill()
    started.wait()
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert workers
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]


@pytest.mark.campaign
@pytest.mark.exact
def test_the_device_encoder_is_called_once_for_each_report(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, os, sys\n"
        "from ldp.mechanisms.base import Encoder\n"
        "honest, calls = Encoder.encode, [0]\n"
        "def encode(self, value):\n"
        "    calls[0] += 1\n"
        f"    open({str(tmp_path / 'calls')!r} + str(os.getpid()), 'w').write(str(calls[0]))\n"
        "    return honest(self, value)\n"
        "Encoder.encode = encode\n"
    )
    done = ldp("demo", "--first-act", "--users", "500", "--out", tmp_path / "out", patch=tmp_path)
    assert done.returncode == 0, done.stderr
    counted = [int(path.read_text()) for path in tmp_path.glob("calls*")]
    assert sum(counted) == 500


@pytest.mark.campaign
@pytest.mark.exact
def test_the_estimates_come_from_the_files_alone(demo: Path) -> None:
    again = decoded(demo, "again")
    assert again == estimates(demo / "estimates.csv")
    files = sorted((demo / "reports").rglob("*.parquet"))
    hidden = files[0].rename(demo / "removed.parquet")
    try:
        assert decoded(demo, "fewer") != again
    finally:
        hidden.rename(files[0])


@pytest.mark.campaign
@pytest.mark.exact
def test_the_second_act_is_public_commands_and_its_page_shows_all_three(tmp_path: Path) -> None:
    """The commands that it prints make the same files when they are run again by hand."""
    folder = tmp_path / "demo"
    done = ldp("demo", "--users", "100000", "--out", folder, "--seed", "1")
    assert done.returncode == 0, done.stderr
    page = (folder / "report.html").read_text("utf-8")
    for part, name in enumerate(("emoji", "words", "browser"), 1):
        assert f'<a href="#part-{part}">{name}</a>' in page
    truth = estimates(folder / "words-truth.csv")
    assert sum(map(int, truth.values())) == 1_000_000
    assert len(truth) == 30_000
    words = estimates(folder / "words.csv")
    assert words, "some words are put together"
    assert not (folder / "words.txt").exists(), "no list of words was ever written"
    assert len(estimates(folder / "browsers.csv")) == 500
    printed = re.findall(r"^  \$ (ldp .*)$", done.stdout, re.MULTILINE)
    assert [line.split()[1] for line in printed] == [
        *(
            "aggregate",
            "decode",
            "simulate",
            "decode",
            "simulate",
            "aggregate",
            "decode",
            "report",
        )
    ]
    before = {path: path.read_bytes() for path in folder.glob("*.csv")}
    (stored,) = (folder / "reports" / "metric=browser").rglob("*.parquet")
    stored.unlink()
    for line in printed:
        assert ldp(*shlex.split(line)[1:]).returncode == 0
    assert {path: path.read_bytes() for path in before} == before
