"""`ldp collect` and what other commands say of its store."""

import signal
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from ldp.client import Client
from ldp.client import Collector as Destination
from ldp.collection.buffer import Buffer
from ldp.collection.relay_buffer import RelayBuffer
from tests.collecting import (
    Process,
    Service,
    batch,
    counted,
    drain,
    items,
    registry,
    wait_until,
)
from tests.command_line import run, settings


@pytest.mark.exact
def test_a_registry_without_a_group_collects_nothing(tmp_path: Path) -> None:
    asked = registry(tmp_path)
    body = batch(items(asked, "city", "Oslo", 1), datetime.now(UTC).date())
    asked.path.write_text('[product]\nname = "weather"\n[group]\n[metric]\n')
    serving = Process(tmp_path, "--listen", "127.0.0.1:0")
    assert serving.url, (tmp_path / "log").read_text()
    assert Destination(serving.url).send(body[10:26], body) == 1
    assert serving.end() == 0


HUNG_UP = """
import os, signal
from ldp.cli import main
from ldp.collection import collector

class Hung(collector.Collector):
    def __init__(self, *rest, **names):
        os.kill(os.getpid(), signal.SIGHUP)
        super().__init__(*rest, **names)

collector.Collector = Hung
main()
"""


@pytest.mark.exact
def test_a_reload_while_it_starts_does_not_end_it(tmp_path: Path) -> None:
    """SIGHUP before the collector was ready killed it."""
    asked = registry(tmp_path).path
    places = "--registry", str(asked), "--store", str(tmp_path / "store")
    command = [sys.executable, "-c", HUNG_UP, "collect", *places, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
        process.communicate()
    assert line.startswith("collecting on ")
    assert process.returncode == 0


@pytest.mark.exact
def test_the_command_serves_the_real_client_and_a_second_one_ends(tmp_path: Path) -> None:
    """From `ldp collect` over the public client to a table, everything acknowledged is counted."""
    serving = Process(tmp_path, "--listen", "127.0.0.1:0")
    now = datetime.now(UTC) - timedelta(hours=1)
    with Client(
        tmp_path / "device.ldp",
        registry=tmp_path / "metrics.toml",
        destination=Destination(serving.url),
        clock=lambda: now,
        jitter=timedelta(0),
        strict=True,
    ) as client:
        client.grant()
        for _ in range(5):
            client.record("city", "Oslo")
            now += timedelta(minutes=1)
            assert client.upload().acknowledged == 1
    assert Process(tmp_path, "--listen", "127.0.0.1:0").ended() == 2
    log = (tmp_path / "log").read_text()
    assert log.count("\n") == 1
    assert "another collector uses it" in log
    assert serving.end() == 0
    drain(tmp_path)
    assert counted(tmp_path / "reports", registry(tmp_path), "city").total == 5
    assert "127.0.0.1" not in (tmp_path / "log").read_text()


@pytest.mark.exact
def test_a_signal_moves_what_is_enough_for_a_file(tmp_path: Path) -> None:
    asked = registry(tmp_path)
    collector = Process(
        tmp_path, "--listen", "127.0.0.1:0", *settings(tmp_path, shuffle_smallest=3)
    )
    sent = [*items(asked, "city", "Oslo", 3), *items(asked, "word", "x", 2)]
    body = batch(sent, datetime.now(UTC).date())
    assert Destination(collector.url).send(body[10:26], body) == 0
    collector.process.send_signal(signal.SIGHUP)
    wait_until(lambda: counted(tmp_path / "reports", asked, "city").total == 3)
    assert counted(tmp_path / "reports", asked, "word").total == 0
    assert collector.end() == 0


@pytest.mark.exact
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--listen", "here"), "--listen must be HOST:PORT"),
        (("--listen", "127.0.0.1:70000"), "--listen must be HOST:PORT"),
        (("--retain", "soon"), "must be a length of time such as"),
        (("--ids", "3-0"), "'--ids': it must be a range of hexadecimal digits, as 0-3 or f"),
        (("--admit=", "--write-small"), "admit = '': "),  # who may send was not asked
        (("--registry", "nowhere.toml"), "--registry is given 2 times, and takes one value"),
    ],
)
def test_wrong_words_end_with_one_line(
    tmp_path: Path,
    words: tuple[str, str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    registry(tmp_path)
    monkeypatch.setattr("ldp.cli.collect.begin_log", lambda: None)
    command = ["collect", "--registry", "metrics.toml", "--store", "reports", *words]
    assert run(" ".join(command), monkeypatch) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error


@pytest.mark.exact
@pytest.mark.parametrize("is_relay", [False, True])
def test_a_wrong_watermark_is_set_right_by_an_option(
    tmp_path: Path,
    is_relay: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command says from which day on it takes batches, and where ids of earlier days are
    forgotten."""
    today = date(2026, 3, 1)
    monkeypatch.setattr("ldp.collection.service.utc_today", lambda: today)
    name, place = ("relay", "--collector http://127.0.0.1:1") if is_relay else ("collect", "")
    monkeypatch.setattr(f"ldp.cli.{name}.begin_log", lambda: None)
    asked, week, day = registry(tmp_path), timedelta(days=7), timedelta(days=1)
    command = f"{name} --registry {asked.path} --buffer {tmp_path / 'buffer'} --reset-watermark "
    command += place or f"--store {tmp_path / 's'}"
    said = []
    for forgotten in (False, True):
        buffer = (RelayBuffer if is_relay else Buffer)(tmp_path / "buffer")
        buffer.begin(date(2036, 1, 1), week, 0.0)
        if forgotten:
            with buffer._transaction():
                buffer._table(today - week)
            buffer.reset(today + 3 * day, week, 0.0)
        buffer.close()
        assert run(command, monkeypatch) == 0
        said.append(capsys.readouterr().out.splitlines())
    first, last = (f"{today - week + n * day}" for n in (0, 1))
    assert said == [
        [f"batches are taken that were sealed on {first} or later"],
        [
            f"batches are taken that were sealed on {last} or later",
            "ids of earlier days are forgotten: their batches could be counted twice",
        ],
    ]


@pytest.mark.exact
def test_aggregate_says_what_waits_in_the_buffer(tmp_path: Path) -> None:
    """Here there is no file yet. Nothing of the other metric waits, so its plain message stays."""
    asked = registry(tmp_path)
    with Service(tmp_path) as service:
        service.send(batch(items(asked, "city", "Oslo", 7)))
        service.send(batch(items(asked, "city", "Oslo", 4)))
        (tmp_path / "buffer").rename(tmp_path / "reports.buffer")
        command = [sys.executable, "-m", "ldp", "aggregate", "--registry", str(asked.path)]
        store, said = str(tmp_path / "reports"), dict[str, str]()
        (tmp_path / "reports").mkdir(exist_ok=True)
        for metric in ("city", "word"):
            words = [*command, metric, store, "--out", str(tmp_path / "t")]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            assert done.returncode == 2
            said[metric] = done.stderr
        (tmp_path / "reports.buffer").rename(tmp_path / "buffer")
    assert f"but 11 wait in {store}.buffer" in said["city"]
    assert "--drain" in said["city"]
    assert said["word"].endswith(f"no reports of metric 'word' version 1 in {store}\n")
    assert {text.count("\n") for text in said.values()} == {1}


@pytest.mark.exact
@pytest.mark.parametrize(
    "words",
    [
        "collect --registry metrics.toml --store gs://bucket/reports",
        "collect --registry metrics.toml --store reports --buffer gs://bucket",
        "aggregate city --registry metrics.toml https://example.org/x --out t",
        "simulate city --registry metrics.toml --population p.csv --reports s3://bucket/x",
    ],
)
def test_a_url_is_not_made_a_folder(
    tmp_path: Path,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    registry(tmp_path)
    assert run(words, monkeypatch) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "is a URL" in error or "a store is a folder, file:///PATH" in error
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.toml"]


@pytest.mark.exact
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("aggregate city --registry metrics.toml . --out t", "no reports of metric 'city' vers"),
        ("collect --dev --registry dev.toml --store . --listen 0.0.0.0:0", "this machine only"),
    ],
)
def test_a_store_may_be_the_current_folder(
    tmp_path: Path,
    words: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    text = registry(tmp_path).path.read_text(encoding="utf-8")
    development = text.replace("[product]", "[product]\ndevelopment = true")
    (tmp_path / "dev.toml").write_text(development, encoding="utf-8")
    assert run(words, monkeypatch) == 2
    assert message in capsys.readouterr().err
