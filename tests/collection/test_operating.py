"""The commands of the page about operating a collector run, with reports sent to them.

They run on free ports. Not run are the commands that install packages, which need a network, and
nginx's lines, of which only the addresses are checked. tests/collection/test_monitoring.py runs the
units of systemd.
"""

import json
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ldp.client import Client, Collector
from ldp.errors import Unreachable
from simulations.nemesis import nginx, nginx_program
from tests.collecting import batch, counted, items, registry, wait_until
from tests.command_line import settings
from tests.folders import ROOT

DOCS = ROOT / "docs"
PAGE = (DOCS / "operating.md").read_text("utf-8")
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
TYPED = [
    line
    for language, block in BLOCKS
    if language == "console"
    for line in re.findall(r"^\$ (.*)", block, re.MULTILINE)
]
COLLECT = "ldp collect --registry metrics.toml --store reports"
ALLOWING = "ldp collect --config collect.toml"
COUNT = [line for line in TYPED if line.startswith("ldp aggregate")]
SEVERAL = ["ldp collect --config low.toml", "ldp collect --config high.toml"]
FILES = {block.split()[1]: block for language, block in BLOCKS if language == "toml"}


def run(folder: Path, line: str) -> str:
    """Run a command of the page; return what it prints."""
    command = [sys.executable, "-m", *shlex.split(line)]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def collecting(folder: Path, line: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Yield the URL and the process of a collector that a line of the page starts, on a free port.

    Its first output must be what the page shows.
    """
    registry(folder)
    for name, text in FILES.items():
        (folder / name).write_text(text)
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
    """Send a batch of `number` reports as a device does."""
    reports = items(registry(folder), "city", "Oslo", number)
    body = batch(reports, datetime.now(UTC).date())
    assert Collector(url, headers=headers).send(body[10:26], body) == 0


def move(folder: Path, process: "subprocess.Popen[str]") -> None:
    """Let a collector move what waits, as the page says; wait until it is in the store."""
    process.send_signal(signal.SIGHUP)
    wait_until(lambda: any((folder / "reports").rglob("*.parquet")))


@pytest.mark.exact
def test_every_block_is_run_or_is_data() -> None:
    typed = ["ldp registry check metrics.toml", COLLECT, ALLOWING, COUNT[0], *SEVERAL, COUNT[1]]
    assert typed == TYPED
    assert {language for language, _ in BLOCKS} == {
        *("console", "sh", "nginx", "python", "ini", "toml")
    }
    for language, block in BLOCKS:
        if language == "sh":
            assert all(line.startswith(("pip ", "uv pip ")) for line in block.splitlines())
        elif language == "nginx":
            paths = json.loads((DOCS.parent / "ldp" / "collection" / "openapi.json").read_text())[
                "paths"
            ]
            assert {*re.findall(r"location (?:= )?(/\S+)", block)} <= {*paths}
            assert {*re.findall(r"127\.0\.0\.1:\d+", block)} <= {"127.0.0.1:8787", "127.0.0.1:8797"}


@pytest.mark.slow
@pytest.mark.exact
def test_what_is_sent_to_the_collector_is_counted_as_shown(tmp_path: Path) -> None:
    """These are a device's batch, the answer to a page of another origin, and the store's count."""
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
    run(tmp_path, COUNT[0])
    assert counted(tmp_path / "reports", registry(tmp_path), "city").total == 100
    assert "100 reports" in run(tmp_path, "ldp decode city.table --out city.csv")


@pytest.mark.slow
@pytest.mark.exact
def test_two_collectors_behind_nginx_count_what_a_device_sends_once(tmp_path: Path) -> None:
    """A device sends 20 batches through the page's proxy; both collectors have some, and together
    all.

    In the twin, the map has the ranges exchanged, and nothing is taken and nothing lost.
    """
    if nginx_program() is None:
        pytest.skip("nginx is not installed (Debian's package nginx-light)")
    (tmp_path / "nginx").mkdir()
    (block,) = (block for language, block in BLOCKS if language == "nginx" and "map" in block)
    wrong = block.replace('[0-7]" low', '[0-7]" high').replace('[89a-f]" high', '[89a-f]" low')
    assert wrong != block
    now, asked = datetime.now(UTC) - timedelta(hours=2), registry(tmp_path).path
    with ExitStack() as running:
        for line, port in zip(SEVERAL, ("8787", "8797"), strict=True):
            url, _ = running.enter_context(collecting(tmp_path, line))
            old, new = f"127.0.0.1:{port}", url.removeprefix("http://")
            block, wrong = block.replace(old, new), wrong.replace(old, new)
        destination = Picked()
        client = running.enter_context(
            Client(
                *(tmp_path / "device.ldp",),
                registry=asked,
                destination=destination,
                clock=lambda: now,
                jitter=timedelta(0),
                strict=True,
            )
        )
        client.grant()
        with nginx(tmp_path / "nginx", wrong) as (address, _):
            destination.url = f"http://{address}"
            client.record("city", "Oslo")
            now += timedelta(minutes=1)
            result = client.upload()
            assert (result.acknowledged, result.why) == (0, "the collector answered 421")
        with nginx(tmp_path / "nginx", block) as (address, _):
            destination.url = f"http://{address}"
            now += timedelta(minutes=3)
            assert client.upload().acknowledged == 1
            for _ in range(19):
                client.record("city", "Oslo")
                now += timedelta(minutes=1)
                assert client.upload().acknowledged == 1
    for line in SEVERAL:
        run(tmp_path, f"{line} --drain --write-small")
    shares = [
        counted(tmp_path / name, registry(tmp_path), "city").total for name in ("low", "high")
    ]
    assert sum(shares) == 20
    assert all(shares)  # one of them has none in two of a million runs
    run(tmp_path, COUNT[1])
    assert "20 reports" in run(tmp_path, "ldp decode city.table --out city.csv")


class Picked:
    """Collector at an address that changes."""

    url = ""
    is_local = True

    def send(self, identity: bytes, body: bytes) -> int:
        return Collector(self.url).send(identity, body)


@pytest.mark.slow
@pytest.mark.exact
def test_the_function_that_admits_does_so(tmp_path: Path) -> None:
    (block,) = (block for language, block in BLOCKS if block.startswith(">>> async def redeem"))
    lines = [line[4:] for line in block.splitlines()]
    (tmp_path / "tokens.py").write_text("\n".join(lines) + "\n")
    words = settings(tmp_path, admit="tokens:redeem")
    with collecting(tmp_path, f"{COLLECT} {' '.join(words)}") as (url, _):
        with pytest.raises(Unreachable, match="401"):
            send(url, tmp_path, 1)
        send(url, tmp_path, 1, Authorization="PrivateToken of a device")
