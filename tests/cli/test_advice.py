"""Advice of errors and notes that is followed to the letter leads on."""

from pathlib import Path

import pytest

from ldp.registry import Registry
from tests.command_line import run

COUNTS = "value,count\nOslo,300\nBergen,200\n"
INIT = "init {} --product p --metric city --question Where --owner me --answers Oslo,Bergen"
SIMULATED = "simulate city --registry people/metrics.toml --population counts.csv"
ADVICE = {
    "counts to compare": (
        "try counts.csv --column value",
        "`ldp compare` and, without --column, `ldp simulate` read value,count",
        ["compare --population counts.csv --epsilon 1 --users 500", f"{SIMULATED} --reports s"],
    ),
    "a development registry needs no store": (
        "collect --registry dev/metrics.toml",
        "has development = true: run it with --dev",
        [],
    ),
    "a certificate": (
        "registry sign people/metrics.toml --name Me",
        "`ldp audit city --registry people/metrics.toml --report people/city.json`, and name it",
        [
            "audit city --registry people/metrics.toml --report people/city.json",
            "registry sign people/metrics.toml --name Me --certificate people/city.json",
        ],
    ),
}


@pytest.mark.exact
@pytest.mark.parametrize(("words", "advice", "following"), ADVICE.values(), ids=ADVICE)
def test_advice_of_an_error_works(
    words: str,
    advice: str,
    following: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("counts.csv").write_text(COUNTS)
    assert run(INIT.format("people"), monkeypatch) == 0
    assert run(f"{INIT.format('dev')} --dev", monkeypatch) == 0
    assert run(words, monkeypatch) == 2
    assert advice in capsys.readouterr().err
    for command in following:
        assert run(command, monkeypatch) == 0


@pytest.mark.exact
@pytest.mark.parametrize(
    ("mechanism", "advice"),
    [
        ('"rr"\ncategories = ["A", "B"]', "other to one of them"),
        ('"piecewise"\nbounds = [0, 9]\noutside = "refuse"', 'outside = "clip"'),
    ],
)
def test_the_check_names_the_key_that_answers_for_other_values(
    mechanism: str,
    advice: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(INIT.format("."), monkeypatch) == 0
    path = tmp_path / "metrics.toml"
    before = path.read_text().partition("mechanism")[0].replace("version = 1", "version = 2")
    path.write_text(f"{before}mechanism = {mechanism}\nepsilon = 1.0\n")
    assert run("registry check metrics.toml", monkeypatch) == 0
    note = capsys.readouterr().out
    assert f"set {advice}\n" in note
    key = advice.split()[0]
    lines = [line for line in path.read_text().splitlines() if not line.startswith(key)]
    path.write_text("\n".join([*lines, advice if "=" in advice else f'{key} = "B"']))
    assert run("registry check metrics.toml", monkeypatch) == 0
    assert "sends nothing" not in capsys.readouterr().out
    assert not Registry.load(path).metric("city").silent
