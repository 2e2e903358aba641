"""Every mistake on the command line gives one clear line and status 2."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ldp import cli
from tests.command_line import REGISTRY, SIMULATE, run

BAD = {
    "unknown metric": ("simulate cty --registry metrics.toml --population cities.csv --table t",
                       "did you mean 'city'"),
    "value not among the categories": (
        "simulate home --registry metrics.toml --population foreign.csv --table t",
        "foreign.csv, line 3: 'Atlantis': value is not one of the 9 categories",
    ),
    "foreign table": ("decode cities.csv --out e.csv", "cities.csv: not a table file"),
    "candidate of another metric": (
        "decode home.table --candidates foreign.csv --out e.csv",
        "foreign.csv, line 3: 'Atlantis': value is not one of the 9 categories",
    ),
    "missing table": ("decode nothing.table --out e.csv", "nothing.table"),
    "one table twice": (
        "merge city.table ./city.table --out t", "two of these tables are the same",
    ),
    "other mechanism's table": ("merge city.table home.table --out t", "home.table: tables"),
    "empty store": (
        "aggregate city --registry metrics.toml empty --out t", "no reports of metric 'city'",
    ),
    "negative count": (
        "simulate city --registry metrics.toml --population negative.csv --table t",
        "line 3: count must be a whole number",
    ),
    "typo in a key": ("registry check typo.toml", "did you mean 'epsilon'"),
    "epsilon of zero": ("plan list --domain 10 --users 10 --epsilon 0", "epsilon must be > 0"),
    "epsilon that is no number": ("plan list --domain 9 --users 9 --epsilon nan", "epsilon must"),
    "epsilon above 64": ("plan list --domain 10 --users 10 --epsilon 65", "at most 64"),
    "no user": ("plan list --domain 10 --users 0 --epsilon 1", "users must be"),
    "a domain of one": ("plan list --domain 1 --users 5 --epsilon 1", "domain must be"),
    "neither reports nor table": (SIMULATE, "--reports or --table"),
    "a page of estimates": ("decode city.table --out e.html", ".html for pages; name it .csv"),
    "a count of 19 digits": (
        "table import city large.csv --registry metrics.toml --out t", "of at most 18 digits",
    ),
    "a delta of a relay": (
        "relay --collector https://x.example --buffer b --delta -1", "delta must lie strictly",
    ),
    "a delta of a curator": (
        "central city --registry metrics.toml --data cities.csv --delta nan", "--delta must lie",
    ),
    "bad alpha": ("decode city.table --out e.csv --rule fdr=2", "alpha must lie"),
    "bad level": ("decode city.table --out e.csv --level 1", "level must lie"),
    "wrong method": ("decode city.table --out e.csv --method direct", "does not fit"),
    "missing option": ("decode city.table", "Missing option '--out'"),
    "option twice": (
        "plan list --domain 9 --users 99 --epsilon 1 --epsilon 2",
        "--epsilon is given 2 times, and takes one value",
    ),
    "registry that is not there": (
        "collect --registry nowhere.toml --store r", "cannot read nowhere.toml",
    ),
    "a buffer in the place of the store": (
        "collect --registry metrics.toml --store r --buffer ./r", "--buffer names the folder of",
    ),
    "reports kept for no day": (
        "collect --registry metrics.toml --store r --retain 0d", "--retain must be 1d or more",
    ),
    "unknown command": ("decod city.table", "No such command"),
    "frequencies without users": (
        "simulate city --registry metrics.toml --population shares.csv --table t", "how many users",
    ),
    "no header": (
        "simulate city --registry metrics.toml --population cities.txt --table t", "the header is",
    ),
    "estimates that are none": ("report cities.csv --out t", "not an estimates file"),
    "damaged report file": (
        "aggregate city --registry metrics.toml damaged --out t", "part.parquet: damaged",
    ),
    "output of another format": (
        "decode city.table --out e.csv.gz", "no output is a .gz file",
    ),
    "page of another format": ("report e.csv --out page.PDF", "no output is a .PDF file"),
    "page in place of a registry": ("report e.csv --out metrics.toml", "no output is a .toml file"),
    "output to a stream": ("merge city.table --out -", "not supported here"),
    "input from a stream": ("decode - --out e.csv", "not supported here"),
    "output to a folder": ("decode city.table --out .", "cannot be replaced|can be replaced"),
    "output in place of the input": ("decode city.table --out city.table", "also an input"),
    "output in place of the summary": ("decode city.table --out e.json", "for the summary"),
    "threshold of nothing": ("decode city.table --out e.csv --rule threshold=nan", "threshold"),
    "rule of nothing": ("decode city.table --out e.csv --rule fdr=few", "must be as fdr=0.05"),
    "no threshold": ("decode city.table --out e.csv --rule threshold", "threshold must be"),
    "parameter of no method": (
        "decode city.table --out e.csv --method direct,top=3", "must be one of auto, direct",
    ),
    "unknown rule": ("decode city.table --out e.csv --rule alpha=0.1", "must be as fdr=0.05"),
    "unknown method": ("decode city.table --out e.csv --method magic", "must be one of auto"),
    "too many users": (
        f"{SIMULATE} --users 100000000000000000000 --table t", "users must be from 1",
    ),
    "too many users to plan": (
        "plan list --domain 9 --epsilon 1 --users 1" + "0" * 400, "users must be a whole number",
    ),
    "dates the wrong way round": (
        "aggregate city --registry metrics.toml damaged --out t --since 2026-02-01 "
        "--until 2026-01-01", "--until lies before --since",
    ),
    "days to publish the wrong way round": (
        "publish --registry metrics.toml --store damaged --out t --since 2026-02-01 "
        "--until 2026-01-01", "--until lies before --since",
    ),
    "a reset that drains nothing": (
        "collect --registry metrics.toml --store s --reset-watermark --drain",
        "--reset-watermark does not go with --drain",
    ),
    "an endless field": (
        "simulate city --registry metrics.toml --population long.csv --table t", "not a CSV file",
    ),
    "more people than there are": (
        "simulate city --registry metrics.toml --population crowd.csv --table t", "at most",
    ),
    "an audit of nothing": ("audit", "give one of METRIC"),
    "an audit without a registry": ("audit city", "METRIC goes with --registry"),
    "somebody's folder": ("demo --users 3 --out .", "neither empty nor an earlier demo's"),
    "a batch of nobody": ("amplify -n 0 --epsilon 1 --delta 1e-6", "0 is not in the range x>=1"),
    "output in a file's place": ("decode city.table --out cities.csv/e.csv", "cities.csv"),
}  # fmt: skip


@pytest.mark.exact
@pytest.mark.parametrize("name", BAD)
def test_a_mistake_is_one_line_with_status_2_and_writes_nothing(
    name: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words, message = BAD[name]
    Path("foreign.csv").write_text("value,count\nOslo,5\nAtlantis,5\n")
    Path("negative.csv").write_text("value,count\nOslo,5\nBergen,-3\n")
    Path("large.csv").write_text("row,column,count\n0,,1000000000000000000\n")
    Path("shares.csv").write_text("value,frequency\nOslo,0.5\nBergen,0.5\n")
    Path("typo.toml").write_text(REGISTRY.replace("epsilon = 4.0", "epsilom = 4.0"))
    Path("long.csv").write_text("value,count\n" + "x" * 200_000 + ",1\n")
    crowd = "".join(f"v{i},1000000000000000\n" for i in range(9300))
    Path("crowd.csv").write_text("value,count\n" + crowd)
    Path("empty").mkdir()
    damaged = Path("damaged/metric=city/version=1/day=2026-01-01")
    damaged.mkdir(parents=True)
    (damaged / "part.parquet").write_bytes(b"PAR1 but no more")
    for metric in ("city", "home"):
        run(
            f"simulate {metric} --registry metrics.toml --population cities.csv "
            f"--table {metric}.table --seed 1",
            monkeypatch,
        )
    capsys.readouterr()
    before = {path: path.stat().st_mtime_ns for path in here.rglob("*")}
    assert run(words, monkeypatch) == 2
    said = capsys.readouterr()
    assert re.search(message, said.err) or message in said.err
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err
    assert said.out == ""
    assert {path: path.stat().st_mtime_ns for path in here.rglob("*")} == before


@pytest.mark.exact
@pytest.mark.exact
@pytest.mark.parametrize(
    "words", [["decode", "a\nb"], ["report", "a\nb", "--out", "x.html"], ["a\nb"]]
)
def test_a_name_of_two_lines_is_in_one(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["ldp", *words])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("import --params p --out x", "give one of --counts, --reports"),
        ("import --params p --counts c --reports r --out x", "give one of --counts, --reports"),
        ("import --params p --counts c --out x", "cannot read p"),
        ("import --params metrics.toml --counts c --out metrics.toml", "toml is also an input"),
    ],
)
def test_google_rappors_files_go_together(
    here: Path,
    arguments: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(f"rappor {arguments}", monkeypatch) == 2
    assert said in capsys.readouterr().err


@pytest.mark.exact
def test_a_mistake_of_ours_shows_no_traceback_unless_asked(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(**_: object) -> None:
        raise KeyError("secret value")

    monkeypatch.setattr("ldp.cli.plan.planned", broken)
    assert run("plan list --domain 9 --users 9 --epsilon 1", monkeypatch) == 2
    said = capsys.readouterr().err
    assert said == "ldp: internal error (KeyError); LDP_DEBUG=1 shows where\n"
    monkeypatch.setenv("LDP_DEBUG", "1")
    with pytest.raises(KeyError):
        run("plan list --domain 9 --users 9 --epsilon 1", monkeypatch)


@pytest.mark.exact
def test_an_interrupt_of_compiled_code_is_no_mistake_of_ours(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python then raises SystemError from KeyboardInterrupt."""

    def broken(**_: object) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as interrupt:
            raise SystemError from interrupt

    monkeypatch.setattr("ldp.cli.plan.planned", broken)
    assert run("plan list --domain 9 --users 9 --epsilon 1", monkeypatch) == 130
    assert capsys.readouterr().err == ""


@pytest.mark.exact
def test_an_interrupt_while_modules_are_loaded_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt")
    done = subprocess.run(
        [sys.executable, "-m", "ldp", "--help"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.exact
@pytest.mark.parametrize(
    ("package", "words"),
    [("click", ["--help"]), ("numpy", ["report", "x.csv", "--out", "y.html"]), ("numpy", ["demo"])],
)
def test_without_the_server_extra_the_command_says_so(
    tmp_path: Path, package: str, words: list[str]
) -> None:
    """This holds also where another package brought click, and numpy is missing."""
    missing = f"raise ModuleNotFoundError('no {package}', name='{package}')"
    (tmp_path / f"{package}.py").write_text(missing)
    done = subprocess.run(
        [sys.executable, "-m", "ldp", *words],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    extra = "cli" if package == "click" else "server"
    assert done.stderr.strip().endswith(f"pip install '.[{extra}]'")
    assert "Traceback" not in done.stderr


@pytest.mark.exact
@pytest.mark.parametrize(
    "words",
    [
        "collect --dev --registry m.toml",
        "publish --registry m.toml --store s --out o",
        "audit --preset apple-emoji --trials 300",
    ],
)
def test_what_windows_lacks_is_said_in_one_line(tmp_path: Path, words: str) -> None:
    # some systems build these modules in, so a file of their name would not stand for them
    missing = "import sys; sys.modules.update(fcntl=None, resource=None)"
    (tmp_path / "sitecustomize.py").write_text(missing)
    done = subprocess.run(
        [sys.executable, "-m", "ldp", *words.split()],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert re.fullmatch("ldp: (this command|an audit) needs Linux or macOS\n", done.stderr)


@pytest.mark.exact
def test_a_closed_input_is_one_line(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", None)  # as where a service starts a command
    reading = "simulate city --registry metrics.toml --population - --table t"
    mistakes = {reading: "cannot read -: it is closed", "init app": "missing: --product"}
    for words, message in mistakes.items():
        assert run(words, monkeypatch) == 2
        assert capsys.readouterr().err.startswith(f"ldp: {message}")


@pytest.mark.exact
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_output_is_no_error(tmp_path: Path, closed: str) -> None:
    """A job may have no output: what would be printed there is lost, and nothing else."""
    (tmp_path / "answers.csv").write_text("answer\n" + "yes\nno\n" * 9)
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m ldp try answers.csv --epsilon 1 {closed}', sys.executable],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.exact
@pytest.mark.parametrize("words", ["", "plan", "--help"])
def test_help_into_a_closed_pipe_is_no_error(words: str) -> None:
    """As `ldp | head` does, once head has ended."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "ldp", *words.split()]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")
