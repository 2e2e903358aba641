"""Advice of errors and notes that is followed to the letter leads on."""

from pathlib import Path

import numpy as np
import pytest

from ldp import JointReport, PrefixExtension, RandomizedResponse, UnaryEncoding
from ldp.errors import DecodeError, ParameterError
from ldp.registry import Registry
from ldp.server import JointTableBuilder, Table, decode, load_table
from ldp.simulation.populations import Population
from tests.command_line import run
from tests.tiers import tiered

COUNTS = "value,count\nOslo,300\nBergen,200\n"
INIT = "init {} --product p --metric city --question Where --owner me --answers Oslo,Bergen"
SIMULATED = "simulate city --registry people/metrics.toml --population counts.csv"
ADVICE = {
    "counts to compare": (
        "try counts.csv --column value",
        "`ldp compare --population` reads value,count",
        ["compare --population counts.csv --epsilon 1 --users 500", f"{SIMULATED} --reports s"],
    ),
    "a development registry needs no store": (
        "collect --registry dev/metrics.toml",
        "has development = true: run it with --dev",
        [],
    ),
    "a mechanism needs more": (
        "amplify --mechanism prefix --users 1000 --delta 1e-6",
        '--mechanism prefix needs more: "prefix, epsilon = ..."',
        ["amplify --mechanism prefix,epsilon=1 --users 1000 --delta 1e-6"],
    ),
    "no list of candidates": (
        "publish --registry words/metrics.toml --store s --out o",
        "a cms table needs --candidates FILE, or the key dictionary",
        ["publish --registry words/listed.toml --store s --out o2"],
    ),
    "a certificate": (
        "registry sign people/metrics.toml --name Me",
        "`ldp audit city --registry people/metrics.toml --report people/city.json`",
        [
            "audit city --registry people/metrics.toml --report people/city.json",
            "registry sign people/metrics.toml --name Me --certificate people/city.json",
        ],
    ),
}
WORDS = """mechanism = "cms"
epsilon = 1.0
rows = 64
width = 64
"""


@pytest.mark.exact
@pytest.mark.parametrize(
    ("words", "advice", "following"), tiered(ADVICE.values(), fast=len(ADVICE) - 1), ids=ADVICE
)
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
    text = Path("people/metrics.toml").read_text().partition("mechanism")[0] + WORDS
    Path("words").mkdir()
    Path("words/metrics.toml").write_text(text)
    Path("words/listed.toml").write_text(f'{text}dictionary = "cities.txt"\n')
    Path("words/cities.txt").write_text("Oslo\nBergen\n")
    reports = "--population counts.csv --reports s --day 2026-01-01"
    assert run(f"simulate city --registry words/metrics.toml {reports}", monkeypatch) == 0
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


@pytest.mark.exact
def test_a_key_of_another_kind_names_the_command_that_makes_it(tmp_path: Path) -> None:
    keys = pytest.importorskip("ldp.protocol.sealing_keys")
    keys.PrivateKey.make(tmp_path / "collector.pem")
    keys.RelayKey.make(tmp_path / "relay.pem")
    with pytest.raises(ParameterError, match="Ed25519 key, as `ldp key --relay` makes it"):
        keys.RelayKey.load(tmp_path / "collector.pem")
    with pytest.raises(ParameterError, match="X25519 key, as `ldp key` makes it"):
        keys.PrivateKey.load(tmp_path / "relay.pem")


@pytest.mark.exact
def test_a_text_in_the_place_of_a_set_is_not_said_to_be_listed_in_other_bytes() -> None:
    people = Population(("a", "b"), counts=np.array([1, 2]))
    sets = UnaryEncoding(categories=("a", "b"), at_most=2, epsilon=1.0)
    with pytest.raises(ParameterError, match=r"must be a set of answers$"):
        people.require(sets.check, ["a", "b"])


@pytest.mark.exact
def test_tables_of_several_parts_and_of_prefixes_name_what_reads_them(tmp_path: Path) -> None:
    prefix = PrefixExtension(epsilon=4.0, rows=10, seed="00")
    with pytest.raises(DecodeError, match="or by discover_prefixes"):
        decode(Table.from_reports(prefix, [prefix.encoder().encode("hello")]))
    rr = RandomizedResponse(categories=("a", "b"), epsilon=1.0)
    pair = JointReport(of=(rr, rr))
    builder = JointTableBuilder(pair)
    builder.add(pair.encoder().encode(("a", "b")))
    builder.build().save(tmp_path / "pair.table")
    with pytest.raises(DecodeError, match=r"ldp\.server\.load_table reads it"):
        Table.load(tmp_path / "pair.table")
    assert load_table(tmp_path / "pair.table").total == 1
