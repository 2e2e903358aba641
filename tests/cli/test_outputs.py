"""No command replaces what it reads, and none writes two things into one file."""

from pathlib import Path
from time import sleep

import pytest

from ldp.cli.options import working
from ldp.cli.outputs import OUTPUTS, TALKING
from tests.command_line import SIMULATE, run

AGGREGATE = "aggregate city --registry metrics.toml store"
CASES = [
    *(f"{SIMULATE} --table {name}" for name in ("metrics.toml", "cities.csv", "cities.txt")),
    *(f"{SIMULATE} --table new.table --truth {name}" for name in ("cities.csv", "cities.txt")),
    f"{SIMULATE} --table same.csv --truth same.csv",
    f"{SIMULATE} --table metrics.lock",
    *(
        f"publish --registry metrics.toml --store store --out {name}"
        for name in (
            *("out --csv out/publish.json", "out --csv ./out/new.csv", "a --duckdb a"),
            "out --csv out/estimates/theme/v1/2026-01-01.csv",
        )
    ),
    *(
        f"{AGGREGATE} --out {name}"
        for name in ("metrics.toml", "cities.txt", "metrics.lock", "part")
    ),
    *(f"merge city.table --out {name}" for name in ("city.table", "link.table")),
    "decode city.table --out city.table",
    "decode city.table --candidates cities.txt --out cities.txt",
    "decode city.table --candidates summary.json --out summary.csv",
    "report estimates.csv --out estimates.csv",
    "report estimates.csv --out estimates.json",
    "report estimates.csv --truth cities.csv --out cities.csv",
]


@pytest.mark.exact
def test_a_registry_of_any_ending_is_never_replaced(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even one that the command does not read; a page that quotes one is replaced."""
    assert run(f"{SIMULATE} --table city.table", monkeypatch) == 0
    text = Path("metrics.toml").read_text()
    for name in ("metrics.conf", "metrics"):
        Path(name).write_text(text)
        assert run(f"merge city.table --out {name}", monkeypatch) == 2
        assert f"{name} is a registry; name another file" in capsys.readouterr().err
        assert Path(name).read_text() == text
    Path("page.html").write_text(text.replace("[", "<p>["))
    assert run("merge city.table --out page.html", monkeypatch) == 0
    with Path("large").open("wb") as file:
        file.truncate(1 << 36)
    assert run("merge city.table --out large", monkeypatch) == 0, "its 64 GiB are not read"


@pytest.mark.exact
@pytest.mark.parametrize("words", CASES)
def test_an_output_never_replaces_an_input(
    here: Path, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every file stays as it was, byte for byte, and the message names the output."""
    assert run(f"{SIMULATE} --table city.table", monkeypatch) == 0
    assert run(f"{SIMULATE} --reports store", monkeypatch) == 0
    assert run("decode city.table --out estimates.csv", monkeypatch) == 0
    assert run("registry lock metrics.toml", monkeypatch) == 0
    Path("link.table").hardlink_to("city.table")
    Path("summary.json").write_text("Oslo\nBergen\n")
    (part,) = Path("store").rglob("*.parquet")
    words = words.replace("part", str(part))
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    capsys.readouterr()
    assert run(words, monkeypatch) == 2
    message = capsys.readouterr().err
    assert "is also an input; name another" in message or "named for two outputs" in message
    assert before == {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}


@pytest.mark.exact
@pytest.mark.parametrize(
    "words",
    [
        "decode city.table --out loop.csv",
        "decode loop.csv --out out.csv",
        "publish --registry metrics.toml --store store --out out --csv loop.csv",
        "publish --registry metrics.toml --store loop.csv --out out",
        "collect --registry metrics.toml --store loop.csv",
        "registry sign metrics.toml --name A --out loop.csv",
    ],
)
def test_links_that_go_in_a_circle_are_one_clear_line(
    here: Path, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was an internal error: pathlib raises a RuntimeError there, and no OSError."""
    assert run(f"{SIMULATE} --table city.table", monkeypatch) == 0
    assert run(f"{SIMULATE} --reports store", monkeypatch) == 0
    Path("loop.csv").symlink_to("loop.csv")
    capsys.readouterr()
    assert run(words, monkeypatch) == 2
    message = capsys.readouterr().err
    assert "internal" not in message
    assert "loop.csv" in message or "registry lock" in message


@pytest.mark.exact
def test_outputs_beside_the_inputs_are_written(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(f"{SIMULATE} --table city.table --truth truth.csv", monkeypatch) == 0
    for store in ("store", "again"):
        assert run(f"{SIMULATE} --reports {store}", monkeypatch) == 0
    assert run(f"{AGGREGATE} again --out store.table", monkeypatch) == 0
    assert run("decode city.table --candidates cities.txt --out estimates.csv", monkeypatch) == 0
    assert run("report estimates.csv --truth truth.csv --out page.html", monkeypatch) == 0
    # a summary beside both would have one name, and there is none
    assert run(f"{SIMULATE} --table same --truth same.csv", monkeypatch) == 0
    publish = "publish --registry metrics.toml --store store --out site --csv site.csv"
    assert run(publish, monkeypatch) == 0


@pytest.mark.exact
def test_estimates_and_their_summary_are_written_together_or_not_at_all(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(f"{SIMULATE} --table city.table", monkeypatch) == 0
    Path("estimates.csv").write_text("before")
    Path("estimates.json").mkdir()
    assert run("decode city.table --out estimates.csv", monkeypatch) == 2
    assert Path("estimates.csv").read_text() == "before"
    assert not [path for path in Path().iterdir() if path.suffix == ".part"]


@pytest.mark.exact
def test_an_old_summary_beside_new_estimates_is_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kill between the renames of the two files leaves such a pair."""
    for seed in (1, 2):
        assert run(f"{SIMULATE} --table city.table --seed {seed}", monkeypatch) == 0
        assert run(f"decode city.table --out estimates{seed}.csv", monkeypatch) == 0
    assert run("report estimates1.csv --out page.html", monkeypatch) == 0
    Path("estimates2.csv").replace("estimates1.csv")
    capsys.readouterr()
    assert run("report estimates1.csv --out page.html", monkeypatch) == 2
    error = "estimates1.csv has changed since estimates1.json was written: write both again"
    assert capsys.readouterr().err == f"ldp: {error}\n"


@pytest.mark.exact
@pytest.mark.parametrize("command", ["decode", "plan list", "audit"])
def test_a_slow_command_is_among_those_that_say_so(command: str) -> None:
    """decode took 16 s, plan 20 s and audit 13 s without a sign of progress."""
    assert command not in TALKING


@pytest.mark.slow
@pytest.mark.exact
def test_a_command_that_takes_long_says_so_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with working("ldp decode"):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with working("ldp decode"):
        for _ in range(300):
            sleep(0.1)
            if "ldp decode: " in capsys.readouterr().err:
                break
        else:
            pytest.fail("it said nothing within 30 seconds")
    assert capsys.readouterr().err.endswith("\r\x1b[K")


@pytest.mark.exact
def test_every_output_beside_out_is_an_option_of_its_command() -> None:
    from ldp.cli import commands

    for name, written in OUTPUTS.items():
        command = commands.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None
        assert {*written} <= {parameter.name for parameter in command.params}


@pytest.mark.exact
@pytest.mark.parametrize(
    "command",
    ["aggregate city input --registry r.toml", "merge input input", "registry page input"],
)
def test_an_option_out_is_guarded_in_every_command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("input").touch()
    assert run(f"{command} --out input", monkeypatch) == 2
    assert "input is also an input; name another file" in capsys.readouterr().err
