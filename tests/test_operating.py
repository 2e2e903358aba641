"""The page about operating a collector: its commands run, on free ports, with reports sent to them.

Data, which nothing here runs: what installs packages (it needs a network), and nginx's lines, of
which only the addresses are held. Units of systemd are run by tests/test_monitoring.py.
"""

import json
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ldp.client import Collector
from ldp.client.destinations import Unreachable
from tests.collecting import batch, counted, items, registry, wait_until

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "operating.md").read_text("utf-8")
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
TYPED = [
    line
    for language, block in BLOCKS
    if language == "console"
    for line in re.findall(r"^\$ (.*)", block, re.MULTILINE)
]
COLLECT = "ldp collect --registry metrics.toml --store reports"
ALLOWING = f"{COLLECT} --allow-origin https://app.example"
COUNT = [line for line in TYPED if line.startswith(("ldp aggregate", "ldp merge"))]


def run(folder: Path, line: str) -> str:
    """Run a command of the page; return what it prints."""
    command = [sys.executable, "-m", *shlex.split(line)]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def collecting(folder: Path, line: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Have the collector run that a line of the page starts, on a free port: its URL and process.
    What it prints first is what the page shows."""
    registry(folder)
    command = [sys.executable, "-m", *shlex.split(line), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline().strip()
        assert re.sub(r"\d+$", "8787", first) in PAGE
        yield first.split()[-1], process
        process.terminate()
        assert process.wait(30) == 0
        assert process.stdout.read() == "stopped\n"


def send(url: str, folder: Path, number: int, **headers: str) -> None:
    """Send a batch of so many reports as a device does."""
    reports = items(registry(folder), "city", "Oslo", number)
    body = batch(reports, datetime.now(UTC).date())
    assert Collector(url, headers=headers).send(bytes(16), body) == 0


def move(folder: Path, process: "subprocess.Popen[str]") -> None:
    """Have a collector move what waits, as the page says; wait until it is in the store."""
    process.send_signal(signal.SIGHUP)
    wait_until(lambda: any((folder / "reports").rglob("*.parquet")))


@pytest.mark.exact
def test_every_block_is_run_or_is_data() -> None:
    assert ["ldp registry check metrics.toml", COLLECT, ALLOWING, *COUNT] == TYPED
    assert {language for language, _ in BLOCKS} == {"console", "sh", "nginx", "python", "ini"}
    for language, block in BLOCKS:
        if language == "sh":
            assert all(line.startswith(("pip ", "uv pip ")) for line in block.splitlines())
        elif language == "nginx":
            paths = json.loads((DOCS.parent / "ldp" / "collection" / "openapi.json").read_text())[
                "paths"
            ]
            assert {*re.findall(r"location (\S+)", block)} <= {*paths}
            assert {*re.findall(r"proxy_pass (\S+);", block)} == {"http://127.0.0.1:8787"}


@pytest.mark.slow
@pytest.mark.exact
def test_what_is_sent_to_the_collector_is_counted_as_shown(tmp_path: Path) -> None:
    """A device's batch, the answer to a page of another origin, and shares of a store that add."""
    registry(tmp_path)
    run(tmp_path, "ldp registry check metrics.toml")
    with collecting(tmp_path, COLLECT) as (url, process):
        send(url, tmp_path, 100)
        move(tmp_path, process)
    with collecting(tmp_path, ALLOWING) as (url, _):
        asked = urllib.request.Request(f"{url}/v1/registry.json")
        for origin, answer in (("https://app.example",) * 2, ("https://evil.example", None)):
            asked.add_header("Origin", origin)
            with urllib.request.urlopen(asked) as answered:
                assert answered.headers["Access-Control-Allow-Origin"] == answer
    for line in COUNT:
        run(tmp_path, line)
    assert counted(tmp_path / "reports", registry(tmp_path), "city").total == 100
    assert "100 reports" in run(tmp_path, "ldp decode city.table --out city.csv")


@pytest.mark.slow
@pytest.mark.exact
def test_the_function_that_admits_does_so(tmp_path: Path) -> None:
    (block,) = (block for language, block in BLOCKS if block.startswith(">>> async def redeem"))
    lines = [line[4:] for line in block.splitlines()]
    (tmp_path / "tokens.py").write_text("\n".join(lines) + "\n")
    with collecting(tmp_path, f"{COLLECT} --admit tokens:redeem") as (url, _):
        with pytest.raises(Unreachable, match="401"):
            send(url, tmp_path, 1)
        send(url, tmp_path, 1, Authorization="PrivateToken of a device")


@pytest.mark.slow
@pytest.mark.exact
def test_a_relay_of_ones_own_forwards_as_shown(tmp_path: Path) -> None:
    """While it runs, to a collector of which the page has another address."""
    (block,) = (block for _, block in BLOCKS if "import forward" in block)
    with (
        collecting(tmp_path / "far", COLLECT) as (far, _),
        collecting(tmp_path / "near", COLLECT) as (url, process),
    ):
        send(url, tmp_path / "near", 100)
        move(tmp_path / "near", process)
        code = block.replace("https://telemetry.example.org", far)
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path / "near",
            check=True,
            capture_output=True,
            text=True,
        )
    assert done.stdout.startswith("ForwardResult(files=1, reports=100, refused=0")
    assert not any((tmp_path / "near" / "reports").rglob("*.parquet"))
    assert run(tmp_path / "far", f"{COLLECT} --drain").startswith("100 reports moved")
