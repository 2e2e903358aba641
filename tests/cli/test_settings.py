"""`--config` of collect, relay and publish reads settings from a file, and refuses wrong ones."""

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest

from ldp.cli import commands
from ldp.cli.parsing import FITTING
from ldp.cli.settings import setting_name
from tests.command_line import run

COMMANDS = ("collect", "relay", "publish")


def command(name: str) -> click.Command:
    found = commands.get_command(click.Context(commands), name)
    assert isinstance(found, click.Command)
    return found


def parsed(name: str, folder: Path, text: str, *words: str) -> dict[str, Any]:
    """Return the settings with which a command would run."""
    (folder / "settings.toml").write_text(text)
    whole = ["--config", str(folder / "settings.toml"), *words]
    return command(name).make_context(name, whole).params


@pytest.mark.exact
@pytest.mark.parametrize("name", COMMANDS)
def test_settings_differ_in_their_names(name: str) -> None:
    names = [*map(setting_name, command(name).params)]
    assert len({*names}) == len(names)


@pytest.mark.exact
def test_a_collector_of_development_reads_no_other_setting() -> None:
    rule, _ = FITTING["collect"]
    options = {option.opts[0] for option in command("collect").params}
    others = {"--config", "--registry", "--store", "--listen", "--allow-origin"}
    assert options - {*rule.split()} == others


VALUES: dict[str, Any] = {
    "since": "2026-01-05",
    "until": "2026-01-31",
    "period": "week",
    "ids": "0-7",
    "fakes": 0.01,
    "listen": "127.0.0.1:0",
}


@pytest.mark.exact
@pytest.mark.parametrize("name", COMMANDS)
def test_every_setting_can_stand_in_the_file(name: str, tmp_path: Path) -> None:
    """Each setting has the type of its option; dates are TOML's."""
    values = dict[str, Any]()
    for option in command(name).params:
        key, kind = setting_name(option), option.type
        if key in VALUES:
            values[key] = VALUES[key]
        elif getattr(option, "is_flag", False):
            values[key] = True
        elif kind.name == "TIME":
            values[key] = "2d"
        else:
            values[key] = 3 if isinstance(kind, click.types.IntParamType) else f"a-{key}"
        if isinstance(kind, click.types.FloatParamType):
            values[key] = 1e-7
        if option.multiple:
            values[key] = [values[key]]
    del values["config"]
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
    text = re.sub(r'"(2026-\d\d-\d\d)"', r"\1", text)
    params = parsed(name, tmp_path, text)
    defaults = {option.name: option.default for option in command(name).params}
    for option in command(name).params:
        if setting_name(option) in values:
            assert params[str(option.name)] not in (None, (), defaults[option.name])


@pytest.mark.exact
def test_the_command_line_wins_over_the_file_and_the_file_over_defaults(tmp_path: Path) -> None:
    text = 'listen = "127.0.0.1:1"\nstore = "reports"\nshuffle_least = 7\n'
    params = parsed("collect", tmp_path, text, "--listen", "127.0.0.1:2")
    assert params["listen"] == "127.0.0.1:2"
    assert params["store"] == Path("reports")
    assert (params["shuffle_least"], params["shuffle_smallest"]) == (7, 100)
    relay = parsed("relay", tmp_path, 'buffer = "b"', "--collector", "https://c.example")
    assert relay["buffer"] == Path("b")


@pytest.mark.exact
@pytest.mark.parametrize(
    ("words", "text", "message"),
    [
        ("collect", "shuffle_leest = 3", "unknown key 'shuffle_leest'; did you mean 'shuffle_le"),
        ("collect", 'config = "x"', "unknown key 'config'"),
        ("collect", 'shuffle_least = "3"', "shuffle_least must be a whole number, not '3'"),
        ("collect", "shuffle_least = true", "shuffle_least must be a whole number, not True"),
        ("collect", "shuffle_least = 0", "shuffle_least is 0: 0 is not in the range x>=1"),
        ("collect", 'sealed = "a"', "sealed must be a list of texts, not 'a'"),
        ("collect", 'retain = "soon"', "retain is 'soon': it must be a length of time such as"),
        ("collect", "drain = 1", "drain must be true or false, not 1"),
        ("collect", 'ids = "3-0"', "ids is '3-0': it must be a range of hexadecimal digits"),
        ("collect", "admit = 3", "admit must be a text, not 3"),
        ("collect", "store = ", "not valid TOML"),
        ("collect", 'store = "ftp://x/y"', "store is 'ftp://x/y': a store is a folder"),
        ("collect", 'store = ""', "store is '': it names no file"),
        ("collect", 'sealed = [" "]', "sealed is [' ']: it names no file"),
        ("relay", r'buffer = "\u0000"', r"buffer is '\x00': it names no file"),
        ("relay", 'delta = "x"', "delta must be a number, not 'x'"),
        ("relay", "fakes = 2", "fakes is 2: must be a share such as 1% or 0.01"),
        (
            "publish",
            'period = "month"',
            "period is 'month': must be day, week, or a number of days",
        ),
        ("publish", "jobs = 65", "jobs is 65: 65 is not in the range"),
        ("publish", 'since = "today"', "since must be a date such as"),
    ],
)
def test_a_mistake_names_file_key_and_value(
    words: str,
    text: str,
    message: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("settings.toml").write_text(text)
    assert run(f"{words} --config settings.toml", monkeypatch) == 2
    error = capsys.readouterr().err
    assert error.startswith("ldp: settings.toml: ")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.exact
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("collect --config none.toml", "ldp: cannot read none.toml: No such file or directory"),
        ("relay --config settings.toml", "Missing option '--collector'"),
        (
            "publish --config settings.toml --registry x --store s --out o --csv settings.toml",
            "settings.toml is also an input; name another file for the output",
        ),
    ],
)
def test_what_is_missing_or_misplaced_is_said_in_a_line(
    words: str,
    message: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = "jobs = 1" if words.startswith("publish") else 'buffer = "waiting"'
    Path("settings.toml").write_text(text)
    assert run(words, monkeypatch) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
