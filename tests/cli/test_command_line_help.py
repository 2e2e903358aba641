"""The command line helps people who type: numbers, names, what is missing, what comes next."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import click
import pytest

import ldp as package
from ldp import RandomizedResponse
from ldp.cli import commands
from ldp.cli.options import aligned, say, wrap
from ldp.cli.parsing import FITTING, plain_number
from ldp.collection.store import NoReports, ReportWriter, report_files
from tests.command_line import SIMULATE, WITHOUT_SERVER, run


@pytest.mark.exact
@pytest.mark.parametrize(
    ("text", "plain"),
    [
        *(("1e6", "1000000"), ("200k", "200000"), ("1.5M", "1500000"), ("2G", "2000000000")),
        *(("1,000,000", "1000000"), ("1_000_000", "1000000"), ("1,234.5", "1234.5")),
        *(("2.5e3", "2500"), ("0.5", "0.5"), ("1e-6", "1e-6"), ("-3", "-3"), ("+4", "4")),
        *(("1,2", "1,2"), ("12,34", "12,34"), ("1e999", "1e999"), ("k", "k"), ("", "")),
        *(("nan", "nan"), ("1.5kk", "1.5kk"), ("0.0015k", "1.5"), (" 7 ", "7")),
        *(("10.000", "10.000"), ("1,000.00", "1000"), ("1.0e1", "10")),
    ],
)
def test_numbers_are_read_as_people_write_them(text: str, plain: str) -> None:
    assert plain_number(text) == plain


@pytest.mark.exact
def test_a_help_says_where_rare_options_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, has_rare in (("regress", True), ("plan number", True), ("key", False)):
        assert run(f"{command} --help", monkeypatch) == 0
        shown = "Rare options are in docs/commands.md." in capsys.readouterr().out
        assert shown == has_rare


@pytest.mark.exact
@pytest.mark.parametrize("users", ["2,000", "2k", "2e3", "2_000"])
def test_a_command_takes_numbers_as_people_write_them(
    users: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"{SIMULATE} --users {users} --table t", monkeypatch) == 0
    assert capsys.readouterr().out.startswith("2,000 reports of 'city'")
    assert run("decode t --out e.csv --rule threshold=1.5k --level 95e-2", monkeypatch) == 0
    assert "noise floor 1,500" in capsys.readouterr().out


@pytest.mark.exact
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("plan list --domain 2.5 --users 1k --epsilon 1", "'2.5' is not a valid whole number"),
        ("plan list --domain 9 --users 100% --epsilon 1", "'100%' is not a valid whole number"),
        ("plan list --domain 9 --users 10.000 --epsilon 1", "'10.000' is not a valid whole number"),
        ("audit --preset apple-emoji --trials 0.01k", "10 is not in the range"),
        ("dcode t", "No such command 'dcode'; did you mean 'decode'?"),
        ("zzz", "No such command 'zzz'; known: aggregate, amplify, attack"),
        ("registry chek x", "No such command 'chek'; did you mean 'check'?"),
        ("compare", "Missing option '--population' (see"),
        ("aggregate --registry x", "Missing argument 'METRIC'"),
        ("registry sign", "Missing argument 'FILE' (see"),
    ],
)
def test_a_mistake_says_what_would_be_right(
    words: str,
    said: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(words, monkeypatch) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.exact
def test_no_reports_says_which_days_there_are(tmp_path: Path) -> None:
    mechanism = RandomizedResponse(categories=("a", "b"), epsilon=1.0)
    for version, day in ((1, date(2026, 1, 5)), (1, date(2026, 1, 2)), (2, date(2026, 2, 1))):
        with ReportWriter(tmp_path, "city", version, mechanism, day):
            pass
    with pytest.raises(NoReports) as caught:
        report_files([tmp_path], "city", 1, date(2026, 3, 1), None)
    assert str(caught.value) == (
        f"no reports of metric 'city' version 1 in {tmp_path} in these days; of version 1 there "
        "are 2 days, 2026-01-02 to 2026-01-05; of version 2 there is 1 day, 2026-02-01"
    )
    with pytest.raises(NoReports, match=r"version 3 in .*; of version 1 there are 2 days"):
        report_files([tmp_path], "city", 3)
    with pytest.raises(NoReports, match=r"'other' version 1 in [^;]*$"):
        report_files([tmp_path], "other", 1)


@pytest.mark.exact
@pytest.mark.parametrize(
    ("columns", "is_terminal", "widest"), [(40, 1, 40), (200, 1, 96), (40, 0, 96)]
)
def test_a_paragraph_fits_the_terminal(
    columns: int, is_terminal: int, widest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = wrap("a word " * 99, "  ")
    assert widest - 8 < max(map(len, lines)) <= widest
    assert lines[1].startswith("  ")


@pytest.mark.exact
@pytest.mark.parametrize(
    ("columns", "is_terminal", "widest"), [(60, True, 60), (200, True, 100), (60, False, 100)]
)
def test_an_explanation_fits_the_terminal(
    columns: int,
    is_terminal: bool,
    widest: int,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    assert run("explain city --registry metrics.toml", monkeypatch) == 0
    assert widest - 8 < max(map(len, capsys.readouterr().out.splitlines())) <= widest


@pytest.mark.exact
@pytest.mark.parametrize(
    "words",
    ["registry check metrics.toml", "plan list --domain 4 --users 10000 --epsilon 4"],
)
def test_every_line_fits_the_terminal_and_nothing_else_changes(
    words: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words, monkeypatch) == 0
    whole = capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "72")
    assert run(words, monkeypatch) == 0
    fitted = capsys.readouterr().out.partition("next: ")[0]
    assert max(map(len, fitted.splitlines())) <= 72 < max(map(len, whole.splitlines()))
    # the columns of a wide table are in parts, each with the first
    assert {*fitted.split()} == {*whole.split()}


@pytest.mark.exact
@pytest.mark.parametrize("columns", [1, 21, 40])
def test_a_table_wider_than_the_terminal_is_in_parts(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        ("way", "error", "like", "bytes"),
        ("rr *", "1.5", "even", "11"),
        ("cms", "-", "", "140"),
    ]
    whole = aligned(rows)
    assert whole == [
        "way   error  like  bytes",
        "rr *    1.5  even     11",
        "cms       -          140",
    ]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = aligned(rows)
    assert (lines == whole) == (columns == 40)
    assert columns == 1 or max(map(len, lines)) <= columns
    parts = "\n".join(lines).split("\n\n")
    assert {part.split()[0] for part in parts} == {"way"}
    assert " ".join(lines).split().count("140") == 1


@pytest.mark.exact
@pytest.mark.parametrize("is_terminal", [True, False])
def test_on_a_terminal_the_last_line_is_the_next_command(
    is_terminal: bool,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    words = f"{SIMULATE} --reports store --day 2026-01-01"
    for _ in range(3):
        assert run(words, monkeypatch) == 0
        *_, last = capsys.readouterr().out.splitlines()
        assert last.startswith("next: ldp ") == is_terminal
        words = last.removeprefix("next: ldp ") if is_terminal else f"{SIMULATE} --table t"
    assert run(words, monkeypatch) == 0
    assert Path("report.html").exists() == is_terminal
    assert run(f"{SIMULATE} --table t --json", monkeypatch) == 0
    assert "next:" not in capsys.readouterr().out
    say({}, "done", False, "ldp report {} --out report.html", "the cities.csv")
    what = "done\nnext: ldp report 'the cities.csv' --out report.html\n"
    assert capsys.readouterr().out == (what if is_terminal else "done\n")


@pytest.mark.slow
@pytest.mark.exact
def test_click_alone_is_enough_for_registries(tmp_path: Path) -> None:
    """With the extra `cli` alone, these processes cannot import the rest of the server."""

    def ldp(*words: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-c",
            f"{WITHOUT_SERVER}from ldp.cli import main\nmain()",
            *words,
        ]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    question = ("--question", "Light or dark?", "--answers", "light,dark")
    start = ("init", "--product", "x", "--metric", "theme", "--owner", "me", *question)
    for words in (
        ("--help",),
        start,
        ("registry", "lock", "metrics.toml"),
        ("registry", "check", "metrics.toml"),
        ("registry", "page", "metrics.toml", "--out", "page.html"),
        ("explain", "--registry", "metrics.toml"),
        ("device", "--help"),
    ):
        done = ldp(*words)
        assert done.returncode == 0, done.stderr
    done = ldp("plan", "list", "--domain", "4", "--users", "1k", "--epsilon", "1")
    assert done.returncode == 2
    assert "with the extra server" in done.stderr


@pytest.mark.exact
def test_a_shell_completes_commands() -> None:
    environment = {**os.environ, "COMP_WORDS": "ldp reg", "COMP_CWORD": "1"}
    environment["_LDP_COMPLETE"] = "bash_complete"
    code = "import sys; sys.argv = ['ldp']; from ldp.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["plain,registry", "plain,regress"]


@pytest.mark.exact
def test_every_command_that_a_text_names_exists() -> None:
    """A message once said "see ldp discover" after that command was gone."""
    others = {"import", "keyed", "seeded", "upload", "with", "witness", "writer"}
    for path in Path(package.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                names = set(re.findall(r"\bldp ([a-z]+)", node.value))
                assert names <= {*commands.list_commands(click.Context(commands)), *others}, path


def leaves(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Yield the name and the command of every command that has no subcommand."""
    if not isinstance(command, click.Group):
        yield context.command_path.partition(" ")[2], command
        return
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from leaves(inner, click.Context(inner, parent=context, info_name=name))


CLAUSE = (
    r"^(Accept|Audit|Fail|Keep|Leave|Make|Print|Release|Say|Serve|Show|Stop|Take|Write)\b|\b(to|is|"
    r"are|was|has|have|may|that|which|what|who|whose|where|somebody|nobody|reads|says|wins)\b"
)
LEAVES = dict(leaves(commands, click.Context(commands, info_name="ldp")))


@pytest.mark.exact
@pytest.mark.parametrize("name", LEAVES)
def test_a_command_has_at_most_ten_options(name: str) -> None:
    options = [
        option.opts[-1]
        for option in LEAVES[name].params
        if isinstance(option, click.Option)
        and not (option.hidden or option.name in ("as_json", "help"))
    ]
    assert len(options) <= 10, options


@pytest.mark.exact
@pytest.mark.parametrize("name", LEAVES)
def test_a_help_is_a_sentence_about_its_own_option(name: str) -> None:
    """It has a verb or a clause, and points at no other option by "its" or "their"."""
    for option in LEAVES[name].params:
        if isinstance(option, click.Option):
            words = str(option.help)
            assert re.match("[A-Z].*[.]$", words), words
            assert re.search(CLAUSE, words), words
            assert not re.match(r"\w+ of (its|their|them)\b", words), words


@pytest.mark.exact
@pytest.mark.parametrize("name", FITTING)
def test_what_goes_together_are_parameters_of_the_command(name: str) -> None:
    known = {opt for parameter in LEAVES[name].params for opt in parameter.opts}
    for rule in FITTING[name]:
        first, how, *others = rule.split()
        assert how in ("of", "with", "without")
        assert {first, *others} - {"one", "METRIC"} <= known
