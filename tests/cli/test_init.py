"""`ldp init` leads from nothing to an app; `ldp device` shows what its device holds."""

import json
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest

from ldp import cli
from ldp.cli import init
from ldp.client import Client, Collector
from ldp.client.testing import Clock, Device
from ldp.files import alone_in
from ldp.registry import Registry
from tests.command_line import run
from tests.developing import registry

WORDS = [
    *("init", "--product", 'The "best" app', "--metric", "theme"),
    *("--question", "Light or dark?", "--owner", "team@example.org", "--answers"),
]


def started(monkeypatch: pytest.MonkeyPatch, *words: str, line: Sequence[str] = WORDS) -> int:
    """Return the exit status of `ldp init` with words that have spaces, or of another command."""
    monkeypatch.setattr(sys, "argv", ["ldp", *line, *words])
    try:
        cli.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


@pytest.mark.exact
@pytest.mark.parametrize(
    ("answers", "mechanism", "value"),
    [
        ("light, dark,other", "rr", "dark"),
        (",".join(f"a{i}" for i in range(40)), "subset", "a3"),
        (",".join(f"a{i}" for i in range(90)), "subset", "a3"),  # longer than names of files are
        ("values.txt", "rr", "dark"),
        ("numbers", "hierarchical-histogram", "7.5"),
        ("numbers 0 to 100", "hierarchical-histogram", "7.5"),
    ],
)
@pytest.mark.parametrize("dev", [True, False])
def test_a_first_registry_is_locked_and_its_app_records(
    answers: str,
    mechanism: str,
    value: str,
    dev: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "values.txt").write_text("light\ndark\n")
    assert started(monkeypatch, answers, *(["--dev"] if dev else [])) == 0
    output = capsys.readouterr().out
    assert f"next: ldp {'collect --dev' if dev else 'explain --registry metrics.toml'}" in output
    loaded = Registry.load("metrics.toml")
    assert loaded.product == 'The "best" app'
    assert loaded.development == dev
    assert loaded.check() == []  # all is locked
    metric = loaded.metric("theme")
    assert metric.mechanism.name == mechanism
    caps = loaded.groups["theme"].caps
    assert caps.window == (timedelta(minutes=1) if dev else timedelta(days=1))
    assert caps.window_epsilon == metric.price * metric.reports_per_window
    assert caps.lifetime_epsilon == (init.DEV_LIFE if dev else 60.0)
    monkeypatch.setattr("sys.stdin", StringIO(f"{value}\n\n"))
    runpy.run_path("app.py")
    assert "Recorded()" in capsys.readouterr().out
    with Device(tmp_path / "device", registry=loaded) as device:
        device.client.record("theme", value)
        assert len(device.sealed()) == 1
    assert run("device device.ldp", monkeypatch) == 0
    assert "what was recorded is sealed after its period, at 20" in capsys.readouterr().out


@pytest.mark.exact
def test_a_registry_for_development_becomes_the_peoples_by_its_comments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert started(monkeypatch, "a,b") == 0
    assert started(monkeypatch, "a,b", "dev", "--dev") == 0
    live = (tmp_path / "metrics.toml").read_text()
    changed = []
    for line in (tmp_path / "dev" / "metrics.toml").read_text().splitlines():
        if line == "development = true" or "people: without this line" in line:
            continue
        key, _, comment = line.partition("  # people: ")
        changed.append(f"{key.split(' = ')[0]} = {comment.split(',')[0]}" if comment else line)
    assert tomllib.loads("\n".join(changed)) == tomllib.loads(live)


def added(monkeypatch: pytest.MonkeyPatch, name: str, *words: str) -> int:
    """Return the exit status of `ldp registry add` to metrics.toml."""
    line = ["registry", "add", "metrics.toml", "--metric", name, "--question", "Which city?"]
    return started(monkeypatch, *words, line=[*line, "--owner", "me@example.org"])


@pytest.mark.exact
@pytest.mark.parametrize("dev", [True, False])
def test_a_metric_is_added_at_the_end_and_the_rest_stays_as_it_is(
    dev: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert started(monkeypatch, "a,b", *(["--dev"] if dev else [])) == 0
    path = tmp_path / "metrics.toml"
    before = f"{path.read_text()}# the last line"
    path.write_text(before)
    assert added(monkeypatch, "city", "--answers", "Oslo,Bergen", "--epsilon", "1") == 0
    with Device(tmp_path, registry=Registry.load(path)) as device:
        device.client.record("city", "Oslo")
        assert [statement.metric for statement in device.sealed()] == ["city"]
    assert added(monkeypatch, "wait", "--answers", "numbers", "--epsilon", "1") == 0
    capsys.readouterr()
    assert path.read_text().startswith(f"{before}\n\n[group.city]")
    loaded = Registry.load(path)
    assert loaded.check() == ["city", "wait"]  # to lock
    assert loaded.metric("city").mechanism.cost.epsilon == pytest.approx(1.0)
    assert [loaded.metric(name).group for name in ("city", "wait")] == ["city", "wait"]
    assert loaded.groups["city"].caps.window == (timedelta(minutes=1) if dev else timedelta(days=1))
    after = path.read_text()
    for words, message in (
        (("city", "--answers", "a,b"), "metrics.toml has the metric 'city' already"),
        (("x", "--answers", "a"), "two or more different texts"),
        (("x", "--answers", "a,b", "--epsilon", "0"), "--epsilon must be > 0"),
        (("x",), "missing: --answers"),
    ):
        assert added(monkeypatch, *words) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
        assert path.read_text() == after


@pytest.mark.exact
def test_a_metric_that_does_not_fit_leaves_the_registry_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert started(monkeypatch, "a,b") == 0
    path = tmp_path / "metrics.toml"
    path.write_text(path.read_text().replace("[product]", "[product]\nlifetime_epsilon = 3.0"))
    before = path.read_bytes()
    status = added(monkeypatch, "m" * 256, "--answers", "a,b")
    assert (status, path.read_bytes()) == (2, before)
    assert "metrics.toml" in capsys.readouterr().err


def require_one_line(error: str, message: str, folder: Path) -> None:
    """Assert that one line was printed, with the message, and that the folder has no new file."""
    assert message in error
    assert error.count("\n") == 1
    assert [*folder.iterdir()] == []


@pytest.mark.exact
@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ("dark", "two or more different texts"),
        ("dark,dark", "two or more different texts"),
        ("numbers 1 to x", "'x' is not a number"),
        ("numbers 5 to 1", "bounds"),
        ("numbers nan to 1", "'nan' is not a number"),
        ("numbers 0 to 1e400", "'1e400' is not a number"),
    ],
)
def test_a_wrong_answer_is_one_line_and_leaves_no_file(
    answers: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert started(monkeypatch, answers) == 2
    require_one_line(capsys.readouterr().err, message, tmp_path)


@pytest.mark.exact
@pytest.mark.parametrize(
    ("number", "message"),
    [(x, "--epsilon must be > 0 and at most 64") for x in ("nan", "inf", "-1", "0", "1e400", "65")]
    + [("two", "'two' is not a valid number")],
)
def test_an_epsilon_that_is_none_is_one_line_and_leaves_no_folder(
    number: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert started(monkeypatch, "a,b", "new", "--epsilon", number) == 2
    require_one_line(capsys.readouterr().err, message, tmp_path)


@pytest.mark.exact
def test_a_terminal_is_asked_for_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    answers = StringIO("weather\ndark mode\nLight or dark?\nlight,dark\nme@example.org\n")
    monkeypatch.setattr(answers, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", answers)
    assert run("init --dev", monkeypatch) == 0
    output = capsys.readouterr().out
    assert all(question in output for question in init.QUESTIONS.values())
    loaded = Registry.load("metrics.toml")
    assert loaded.metric("dark-mode").owners == ("me@example.org",)


@pytest.mark.exact
def test_a_terminal_is_asked_again_after_a_wrong_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spaces named the product "None"; a wrong metric was refused after the last question."""
    monkeypatch.chdir(tmp_path)
    lines = [" ", "w\udcff", "weather", "\xe8", "theme", "Which?", "a", "\U0001f600,b", " ", "me"]
    answers = StringIO("\n".join([*lines, ""]))
    monkeypatch.setattr(answers, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", answers)
    assert run("init", monkeypatch) == 0
    output = capsys.readouterr()
    assert (output.out + output.err).count("Error: ") == 5
    loaded = Registry.load("metrics.toml")
    assert loaded.product == "weather"
    assert loaded.metric("theme").owners == ("me",)
    monkeypatch.setattr(answers, "readline", lambda *_: "")  # Ctrl-D
    assert run("init new", monkeypatch) == 130
    assert capsys.readouterr().err == "\n"
    assert run("init new --epsilon 0", monkeypatch) == 2
    assert init.QUESTIONS["product"] not in capsys.readouterr().out


@pytest.mark.exact
def test_bytes_that_are_not_utf_8_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was an internal error."""
    monkeypatch.chdir(tmp_path)
    assert started(monkeypatch, "a,b\udcff") == 2
    require_one_line(capsys.readouterr().err, "a text is not UTF-8", tmp_path)


@pytest.mark.exact
def test_nothing_is_replaced_and_what_is_missing_is_named_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("init --metric theme", monkeypatch) == 2
    assert "missing: --product, --question, --answers, --owner" in capsys.readouterr().err
    assert started(monkeypatch, "a,b", "sub", "--json") == 0
    written = json.loads(capsys.readouterr().out)["written"]
    assert written == ["sub/metrics.toml", "sub/app.py", "sub/metrics.lock"]
    (tmp_path / "app.py").write_text("mine")
    assert started(monkeypatch, "a,b") == 2
    assert "app.py is there already" in capsys.readouterr().err
    assert not (tmp_path / "metrics.toml").exists()


@pytest.mark.exact
def test_a_device_says_what_its_app_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command does not know the app's destination, and does not say that there is none."""
    monkeypatch.chdir(tmp_path)
    down, now = Collector("http://127.0.0.1:9"), datetime.now(UTC)
    clock = Clock(now - timedelta(hours=1))
    with Client("device.ldp", registry=registry(tmp_path), destination=down, clock=clock) as client:
        assert client.grant()
        assert client.record("city", "Oslo")
        clock.now = now
        client.upload()
    assert run("device device.ldp", monkeypatch) == 0
    assert "Now: waits after a failure, at " in capsys.readouterr().out


@pytest.mark.exact
def test_a_device_says_what_it_stores_sent_and_will_send(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    development = registry(tmp_path)
    assert run("device device.ldp", monkeypatch) == 2
    assert "a device's file begins with consent" in capsys.readouterr().err
    with Device(tmp_path, registry=development) as device:
        device.client.record("city", "Oslo")
        (sent,) = device.sealed()
        device.client.record("city", "Oslo")
    before = (tmp_path / "device.ldp").read_bytes()
    assert run("device device.ldp", monkeypatch) == 0
    output = capsys.readouterr().out
    assert "the owner agreed" in output
    assert "at most epsilon 63 in every window of 1 minute" in output
    assert "Randomised reports not sealed yet: 1; sealed batches waiting: 0, " in output
    assert f"Was sent:\n  {device.clock.now.date()} city: {sent.text}" in output
    assert run("device device.ldp --json", monkeypatch) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["consent"] == "granted"
    assert data["batches"][0]["statements"][0]["answers"] == list(sent.answers)
    assert (tmp_path / "device.ldp").read_bytes() == before
    assert run("device metrics.toml", monkeypatch) == 2
    assert "not a database" in capsys.readouterr().err
    (
        tmp_path / "elsewhere"
    ).mkdir()  # the registry of the folder where one stands is of another app
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "metrics.toml").write_text("no registry")
    assert run(f"device {tmp_path / 'device.ldp'}", monkeypatch) == 0
    assert capsys.readouterr().out == output.replace("device.ldp,", f"{tmp_path}/device.ldp,")


@pytest.mark.exact
def test_a_metric_is_added_beside_one_of_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four processes at once the last wrote over what another had said was added."""
    monkeypatch.chdir(tmp_path)
    assert started(monkeypatch, "a,b") == 0
    line = f"{sys.executable} -m ldp registry add metrics.toml --metric city --question Which?"
    words = [*line.split(), "--answers", "Oslo,Bergen", "--owner", "me@example.org"]
    with alone_in(tmp_path):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(3)
        with Path("metrics.toml").open("a") as file:
            file.write("# of another process\n")
    assert process.wait(60) == 0
    assert "# of another process\n" in Path("metrics.toml").read_text()
    assert [*Registry.load("metrics.toml").metrics] == ["theme", "city"]
