"""The commands on a user's own data, and one clear line with status 2 for every mistake."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click import Context

from ldp import MemoisedResponse
from ldp.accounting import Cost
from ldp.cli import commands
from ldp.cli.options import progress
from ldp.collection.buffer import RelayedReports
from ldp.collection.ingest import write_sizes
from ldp.mechanisms.catalogue import CATALOGUE, CLASSES, PUBLIC
from ldp.privacy_loss import compose_shuffled, least_reports
from ldp.protocol.kinds import Index
from ldp.registry import Registry
from ldp.simulation import draw_table
from tests.command_line import NAMES, REGISTRY, SIMULATE, run
from tests.tiers import tiered

SIZES = (2_000, 4_000, 9_000)
"""The smaller sizes of three batches."""


@pytest.mark.exact
@pytest.mark.parametrize("metric", ["city", "home"])
def test_the_whole_job_on_a_csv_of_city_names(
    metric: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    registry = "--registry metrics.toml"
    for words in (
        f"simulate {metric} {registry} --population cities.csv --reports store --day 2026-01-01",
        f"simulate {metric} {registry} --population cities.csv --users 9 --reports store --seed 2",
        f"aggregate {metric} {registry} store --out one.table --until 2026-01-01",
        f"simulate {metric} {registry} --population cities.csv --table two.table --seed 1",
        "merge one.table two.table --out both.table",
        "decode both.table --out estimates.csv --alpha 0.01",
        "report estimates.csv --truth cities.csv --out page.html",
    ):
        assert run(words, monkeypatch) == 0, capsys.readouterr().err
    rows = [line.split(",") for line in Path("estimates.csv").read_text().splitlines()]
    assert len(rows) == 1 + len(NAMES)
    assert rows[1][0] == "Oslo"
    assert abs(float(rows[1][1]) - 8200) < 6 * float(rows[1][2])
    summary = json.loads(Path("estimates.json").read_text())
    assert summary["reports"] == 24_000
    assert summary["method"] == {"city": "mean-sketch", "home": "direct"}[metric]
    page = Path("page.html").read_text()
    assert "Tromsø" in page
    assert "://" not in page, "the page loads nothing"


@pytest.mark.exact
def test_results_as_json(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(
        "simulate home --registry metrics.toml --population cities.csv --table t --json",
        monkeypatch,
    )
    assert json.loads(capsys.readouterr().out)["reports"] == 12_000
    run("decode t --out e.csv --json", monkeypatch)
    assert json.loads(capsys.readouterr().out)["candidates"] == len(NAMES)
    run("decode t --out e.csv --consistency sum-to-n --json", monkeypatch)
    assert json.loads(capsys.readouterr().out)["consistency"] == "sum-to-n"
    counts = [float(row["count"]) for row in csv.DictReader(Path("e.csv").read_text().splitlines())]
    assert sum(counts) == pytest.approx(12_000, abs=0.01 * len(NAMES))
    run("plan --domain 100 --users 1000 --epsilon 2 --json", monkeypatch)
    planned = json.loads(capsys.readouterr().out)
    assert planned["solved"] == "frequency"
    assert "rr" in planned["refused"]
    assert planned["best"] in {forecast["mechanism"] for forecast in planned["forecasts"]}
    run("registry check metrics.toml --json", monkeypatch)
    assert json.loads(capsys.readouterr().out)["worst_case_epsilon"]["places"]["life"] == 64.0
    for command, written in (("lock", "metrics.lock"), ("export", "metrics.json")):
        run(f"registry {command} metrics.toml --json", monkeypatch)
        assert json.loads(capsys.readouterr().out)["written"] == written


@pytest.mark.statistical
@pytest.mark.parametrize("metric", tiered(["home", "city"]))
def test_an_audit_of_a_metric_passes_and_is_written_down(
    metric: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fresh noise; false failure: 2e-6. The twin is the cheat below."""
    words = f"audit {metric} --registry metrics.toml --trials 1000 --report audit.json"
    assert run(words, monkeypatch) == 0
    assert capsys.readouterr().out.startswith(f"ok   {metric}: epsilon")
    (audit,) = json.loads(Path("audit.json").read_text())["audits"]
    assert 0 < audit["at_least"] <= audit["claimed"]
    assert audit["checks"] > 100


@pytest.mark.statistical
def test_an_audit_of_a_cheat_fails_with_status_1(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of 1,000 reports are true, where half would be: no chance is involved."""
    monkeypatch.setattr(Index, "draw", lambda layout, source, cells, *thresholds: cells[0])
    assert run("audit home --registry metrics.toml --trials 1000", monkeypatch) == 1
    assert capsys.readouterr().out.startswith("FAIL home: epsilon 3 claimed")


@pytest.mark.exact
def test_a_simulation_with_a_seed_is_repeatable(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        words = "simulate city --registry metrics.toml --population cities.csv --seed 7 --table"
        assert run(f"{words} {name}", monkeypatch) == 0
    assert Path("a").read_bytes() == Path("b").read_bytes()


@pytest.mark.exact
def test_candidates_from_a_csv_with_quotes(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("simulate city --registry metrics.toml --population cities.csv --table t", monkeypatch)
    assert run("decode t --candidates cities.csv --out e.csv", monkeypatch) == 0
    assert '"Ås, Akershus"' in Path("e.csv").read_text()


BAD = {
    "unknown metric": ("simulate cty --registry metrics.toml --population cities.csv --table t",
                       "did you mean 'city'"),
    "value not among the categories": (
        "simulate home --registry metrics.toml --population foreign.csv --table t",
        "foreign.csv: value 2 of 2: value is not one of the 9 categories",
    ),
    "foreign table": ("decode cities.csv --out e.csv", "cities.csv: not a table file"),
    "missing table": ("decode nothing.table --out e.csv", "nothing.table"),
    "other mechanism's table": ("merge city.table home.table --out t", "cannot be added"),
    "empty store": (
        "aggregate city --registry metrics.toml empty --out t", "no reports of metric 'city'",
    ),
    "negative count": (
        "simulate city --registry metrics.toml --population negative.csv --table t",
        "line 3: count must be a whole number",
    ),
    "typo in a key": ("registry check typo.toml", "did you mean 'epsilon'"),
    "epsilon of zero": ("plan --domain 10 --users 10 --epsilon 0", "epsilon must be > 0"),
    "epsilon that is no number": ("plan --domain 10 --users 10 --epsilon nan", "epsilon must be"),
    "epsilon above 64": ("plan --domain 10 --users 10 --epsilon 65", "at most 64"),
    "no user": ("plan --domain 10 --users 0 --epsilon 1", "users must be"),
    "a domain of one": ("plan --domain 1 --users 5 --epsilon 1", "domain must be"),
    "neither reports nor table": (SIMULATE, "--reports or --table"),
    "bad alpha": ("decode city.table --out e.csv --alpha 2", "alpha must lie"),
    "bad level": ("decode city.table --out e.csv --level 1", "level must lie"),
    "wrong method": ("decode city.table --out e.csv --method direct", "does not fit"),
    "missing option": ("decode city.table", "Missing option '--out'"),
    "unknown command": ("decod city.table", "No such command"),
    "frequencies without users": (
        "simulate city --registry metrics.toml --population shares.csv --table t", "how many users",
    ),
    "no header": (
        "simulate city --registry metrics.toml --population cities.txt --table t", "line 1 must be",
    ),
    "estimates that are none": ("report cities.csv --out t", "not an estimates file"),
    "damaged report file": (
        "aggregate city --registry metrics.toml damaged --out t", "part.parquet: damaged",
    ),
    "output to a stream": ("merge city.table --out -", "not supported here"),
    "input from a stream": ("decode - --out e.csv", "not supported here"),
    "output to a folder": ("decode city.table --out .", "cannot be replaced|can be replaced"),
    "output in place of the input": ("decode city.table --out city.table", "also an input"),
    "output in place of the summary": ("decode city.table --out e.json", "for the summary"),
    "threshold that is no number": ("decode city.table --out e.csv --threshold nan", "threshold"),
    "too many users": (
        f"{SIMULATE} --users 100000000000000000000 --table t", "users must be from 1",
    ),
    "too many users to plan": (
        "plan --domain 9 --epsilon 1 --users 1" + "0" * 400, "users must be from 1",
    ),
    "alpha of nothing": ("plan --domain 9 --users 9 --epsilon 1 --alpha 0", "alpha and power"),
    "alpha that is no number": (
        "plan --domain 9 --users 9 --epsilon 1 --alpha nan", "alpha and power",
    ),
    "dates the wrong way round": (
        "aggregate city --registry metrics.toml damaged --out t --since 2026-02-01 "
        "--until 2026-01-01", "--until lies before --since",
    ),
    "an endless field": (
        "simulate city --registry metrics.toml --population long.csv --table t", "not a CSV file",
    ),
    "more people than there are": (
        "simulate city --registry metrics.toml --population crowd.csv --table t", "at most",
    ),
    "an audit of nothing": ("audit", "give one of METRIC"),
    "an audit without a registry": ("audit city", "go together"),
    "somebody's folder": ("demo --users 3 --out .", "neither empty nor an earlier demo's"),
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
    assert "Atlantis" not in said.err
    assert said.out == ""
    assert {path: path.stat().st_mtime_ns for path in here.rglob("*")} == before


@pytest.mark.exact
def test_the_true_counts_of_a_sample_are_kept(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "--users 50 --table t --truth truth.csv --seed 3"
    assert run(f"{SIMULATE} {words}", monkeypatch) == 0
    counts = [
        int(line.rsplit(",", 1)[1]) for line in Path("truth.csv").read_text().split("\n")[1:-1]
    ]
    assert sum(counts) == 50


@pytest.mark.exact
def test_tables_of_one_day_are_merged_if_that_is_meant(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(f"{SIMULATE} --reports store --day 2026-01-01", monkeypatch)
    run("aggregate city --registry metrics.toml store --out t", monkeypatch)
    assert run("merge t t --out twice", monkeypatch) == 2
    assert "1 days are in more than one of these tables" in capsys.readouterr().err
    assert not Path("twice").exists()
    capsys.readouterr()
    assert run("merge t t --out twice --overlapping --json", monkeypatch) == 0
    assert json.loads(capsys.readouterr().out)["written"] == "twice"


@pytest.mark.exact
def test_estimates_as_json_on_standard_output(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(f"{SIMULATE} --table t", monkeypatch)
    capsys.readouterr()
    assert run("decode t --out - --json", monkeypatch) == 0
    assert len(json.loads(capsys.readouterr().out)["estimates"]) == len(NAMES)


WORDS = """
[metric.words]
version = 1
group = "places"
description = "New words"
owners = ["team@example.org"]
expires = 2027-12-31
mechanism = "sfp"
epsilon = 8.0
fragment_epsilon = 4.0
rows = 128
width = 256
fragment_rows = 128
fragment_width = 256
length = 4
alphabet = "abcde"

[metric.pages]
version = 1
group = "places"
description = "Start pages"
owners = ["team@example.org"]
expires = 2027-12-31
preset = "chrome-uma"
"""


@pytest.mark.exact
def test_words_from_devices_to_discoveries(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("metrics.toml").write_text(REGISTRY + WORDS)
    Path("words.csv").write_text("value,count\nabba,9000\ncab,7000\nbe,5000\ndead,4000\n")
    simulated = "simulate words --registry metrics.toml --population words.csv --seed 1"
    assert run(f"{simulated} --reports store", monkeypatch) == 0
    assert run("aggregate words --registry metrics.toml store --out w.table", monkeypatch) == 0
    assert run(f"{simulated} --table drawn.table", monkeypatch) == 0
    assert run("merge w.table drawn.table --out both.table", monkeypatch) == 0
    assert run("discover both.table --out found.csv", monkeypatch) == 0
    with open("found.csv", newline="") as text:
        found = [row["value"] for row in csv.DictReader(text) if row["detected"] == "1"]
    assert set(found) == {"abba", "cab", "be", "dead"}
    Path("asked.txt").write_text("cab\nbeda\n")
    asked = "--candidates asked.txt --out asked.csv"
    assert run(f"decode both.table --part words {asked}", monkeypatch) == 0
    capsys.readouterr()
    for part in ("", "--part letters"):
        assert run(f"decode both.table {part} {asked}", monkeypatch) == 2
        assert "--part: fragments, words" in capsys.readouterr().err
    assert (
        run("decode both.table --part fragments --candidates asked.txt --out x", monkeypatch) == 2
    )
    assert "the puzzle it is part of" in capsys.readouterr().err
    run(f"{SIMULATE} --table city.table", monkeypatch)
    capsys.readouterr()
    for tables in ("both.table city.table", "city.table both.table"):
        assert run(f"merge {tables} --out x", monkeypatch) == 2
        assert "cannot be added" in capsys.readouterr().err
    Path("long.csv").write_text("value,count\nabcdea,1\n")
    long = "simulate words --registry metrics.toml --population long.csv --reports store"
    assert run(f"{long} --truth cut.csv", monkeypatch) == 0, "devices cut it"
    assert Path("cut.csv").read_text() == "value,count\nabcd,1\n"
    registry = Path("metrics.toml").read_text()
    refusing = registry.replace('"sfp"\n', '"sfp"\nwords = "refuse"\n')
    Path("metrics.toml").write_text(refusing)
    assert run(long, monkeypatch) == 2
    assert "more than 4 letters; cut it first" in capsys.readouterr().err


@pytest.mark.exact
def test_rappor_from_devices_to_discoveries(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("metrics.toml").write_text(REGISTRY + WORDS)
    Path("pages.csv").write_text("value,count\na.example,30000\nb.example,20000\n")
    words = "simulate pages --registry metrics.toml --population pages.csv --seed 1 --reports store"
    assert run(words, monkeypatch) == 0
    assert run("aggregate pages --registry metrics.toml store --out t", monkeypatch) == 0
    listed = [f"{letter}.example" for letter in "abcdefgh"]
    Path("listed.txt").write_text("\n".join(listed) + "\n")
    for method in ("auto", "lasso-ols"):
        decoded = f"decode t --candidates listed.txt --method {method} --out e.csv"
        assert run(decoded, monkeypatch) == 0
        with open("e.csv", newline="") as text:
            rows = {row["value"]: row for row in csv.DictReader(text)}
        assert [name for name in listed if rows[name]["detected"] == "1"] == listed[:2]
        assert abs(float(rows["a.example"]["count"]) - 30000) < 5000
    capsys.readouterr()
    assert run("decode t --candidates listed.txt --method direct --out x", monkeypatch) == 2
    assert "does not fit a rappor table" in capsys.readouterr().err


@pytest.mark.exact
def test_pooled_reports_are_weighted_by_a_number_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mechanism = MemoisedResponse(categories=("a", "b"), epsilon=1.0, lifetime_epsilon=2.0)
    table = draw_table(
        mechanism, ("a", "b"), counts=np.array([90, 60]), generator=np.random.default_rng(1)
    )
    monkeypatch.chdir(tmp_path)
    table.save("t.table")
    Path("sent.csv").write_text("reports,clients\n1,90\n3,20\n")
    decode = "decode t.table --out - --weighted-reports-per-client "
    printed = []
    for given in ("sent.csv", "1.8", "1.4"):  # (90 + 9 * 20) / (90 + 3 * 20), and the mean
        assert run(decode + given, monkeypatch) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != printed[2]
    for text, words in (
        ("reports,people\n1,2\n", "must start with the line reports,clients"),
        ("reports,clients\n1,-2\n", "line 2: two whole numbers"),
        ("reports,clients\n", "reports must be whole numbers"),
    ):
        Path("sent.csv").write_text(text)
        assert run(decode + "sent.csv", monkeypatch) == 2
        assert words in capsys.readouterr().err
    assert run(decode + "none.csv", monkeypatch) == 2
    assert "a number or a CSV file" in capsys.readouterr().err
    old = "decode t.table --out - --reports-per-client 1.4"
    assert run(old, monkeypatch) == 2
    assert "--weighted-reports-per-client" in capsys.readouterr().err


@pytest.mark.exact
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--rappor-params p --out x", "give either TABLE, or --rappor-params with --rappor-counts"),
        ("t --rappor-map m --out x", "go with --rappor-params"),
        ("--rappor-params p --rappor-counts c --out x", "give either --rappor-map or --candidates"),
        ("--rappor-params p --rappor-counts c --rappor-map m --out x", "cannot read p"),
    ],
)
def test_google_rappors_files_go_together(
    here: Path,
    arguments: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(f"decode {arguments}", monkeypatch) == 2
    assert said in capsys.readouterr().err


@pytest.mark.exact
def test_a_mistake_of_ours_shows_no_traceback_unless_asked(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(**_: object) -> None:
        raise KeyError("secret value")

    monkeypatch.setattr("ldp.cli.plan.planned", broken)
    assert run("plan --domain 9 --users 9 --epsilon 1", monkeypatch) == 2
    said = capsys.readouterr().err
    assert said == "ldp: internal error (KeyError); LDP_DEBUG=1 shows where\n"
    monkeypatch.setenv("LDP_DEBUG", "1")
    with pytest.raises(KeyError):
        run("plan --domain 9 --users 9 --epsilon 1", monkeypatch)


@pytest.mark.exact
def test_a_damaged_file_can_be_skipped_and_is_named(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(f"{SIMULATE} --reports store", monkeypatch)
    (folder,) = Path("store").glob("metric=city/version=1/day=*")
    (folder / "bad.parquet").write_bytes(b"nothing")
    words = "aggregate city --registry metrics.toml store --out t --skip-damaged"
    assert run(words, monkeypatch) == 0
    said = capsys.readouterr()
    assert "bad.parquet" in said.err
    assert "12,000 reports" in said.out


@pytest.mark.slow
@pytest.mark.exact
def test_amplify_prints_both_costs_and_the_conditions(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = "amplify city --registry metrics.toml --users 100000 --delta 1e-6"
    assert run(asked, monkeypatch) == 0
    shown = capsys.readouterr().out
    for words in (
        "seen by itself            epsilon 4, delta 0",
        "in a batch of 100,000     epsilon 0.1042, delta 1e-06",
        "epsilon 0.5347 (2021), 0.4078 (2023)",
        "an independent party shuffles",
        "at least 100,000 reports of the batch are honest",
        "a person sends one report to a batch",
        "does not depend on what they would say",
    ):
        assert words in shown
    assert run(f"{asked} --per-person 2 --json", monkeypatch) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["local"] == {"epsilon": 8.0, "delta": 0.0}
    assert result["shuffled"]["epsilon"] == pytest.approx(2 * 0.1041, abs=2e-4)
    assert result["shuffled"]["delta"] == pytest.approx(2e-6 * 1.1097, rel=1e-3)
    assert result["closed_forms"]["2021"] == pytest.approx(0.5346, abs=1e-4)
    assert len(result["conditions"]) == 4


@pytest.mark.exact
@pytest.mark.parametrize(
    ("words", "local", "shuffled", "conditions"),
    tiered(
        [
            ("--mechanism rr --domain 2 --epsilon 4 -n 100000", 4.0, 0.118, 4),
            ("--mechanism unary --epsilon 4 -n 100000", 4.0, 0.104, 4),
            ("--mechanism hcms --epsilon 4 --reports 100000", 4.0, 0.0815, 4),
            ("--preset chrome-uma --users 20", 2.043, 2.043, 5),
            ("--epsilon 4 --users 100000", 4.0, 0.1698, 4),
            ("--mechanism pgr --domain 2600 --epsilon 4 -n 100000", 4.0, 0.0824, 4),
            ("--mechanism cms --epsilon 1 --target 0.05", 1.0, 0.05, 4),
            (
                "--mechanism dummies --domain 2600 --with slots=2,probability=0.5545 -n 100000",
                *(None, 1.0, 5),
            ),
        ],
        fast=3,
    ),
)
def test_amplify_takes_a_preset_or_a_mechanism(
    words: str,
    local: float | None,
    shuffled: float,
    conditions: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of 20 people at most, shuffling changes hardly anything at so small a delta."""
    assert run(f"amplify {words} --delta 1e-6 --json", monkeypatch) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["local"]["epsilon"] == (local and pytest.approx(local, rel=1e-3))
    assert result["shuffled"]["epsilon"] == pytest.approx(shuffled, rel=0.01)
    assert len(result["conditions"]) == conditions
    assert (result["closed_forms"]["2023"] is None) == ("20" in words.split() or local is None)


@pytest.mark.exact
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--delta 1e-6", "give one of METRIC with --registry, --preset, --mechanism, or --epsilon"),
        ("city --delta 1e-6", "METRIC and --registry go together"),
        ("--epsilon 1 --domain 3 --delta 1e-6", "--domain and --with go with --mechanism"),
        ("--mechanism cms --delta 1e-6", "--mechanism cms needs --epsilon"),
        ("--mechanism rr --epsilon 1 --delta 1e-6", "--mechanism rr needs --domain"),
        ("--mechanism rappor --with p=0.5 --delta 1e-6", 'needs --with "f = ...", --with'),
        ("--mechanism coin --with alpha --delta 1e-6", "--with is like"),
        ("--mechanism dummies --domain 5 --delta 1e-6", 'needs --with "slots = ...", --with "pro'),
        ("--mechanism coin --with alpha=1,beta=1,x=2 --delta 1e-6", "--mechanism coin has no x"),
        ("--mechanism coin --with alpha=1 --epsilon 1 --delta 1e-6", '--with "beta = ..."'),
        ("--mechanism cms --epsilon 1 --delta 1", "delta must lie strictly between 0 and 1"),
        ("--epsilon 1 --delta 1e-6 --target 0.1", "give one of --users, --store, --sizes or"),
        ("--epsilon 1 --delta 1e-6 --fakes 100%", "is a share such as 1% or 0.01, below 1"),
        ("--preset chrome-uma --delta 1e-6 --batches 2", "share what is memoised"),
        ("--preset chrome-uma --delta 1e-6 --per-person 2", "share what is memoised"),
    ],
)
def test_amplify_says_what_is_missing(
    words: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"amplify {words} --users 1000", monkeypatch) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("\n") == 1


@pytest.mark.slow
@pytest.mark.exact
def test_amplify_composes_batches(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = "amplify city --registry metrics.toml --delta 1e-6"
    assert run(f"{asked} -n 100000 --batches 365", monkeypatch) == 0
    shown = capsys.readouterr().out
    assert "in 365 batches            epsilon 2.497, delta 1e-06, composed" in shown
    assert "epsilon 38.19, delta 0.0003651, added" in shown
    Path("sizes.csv").write_text("attested,opened\n100000,90000\n80000,100000\n")
    assert run(f"{asked} --sizes sizes.csv --fakes 1% --json", monkeypatch) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["reports"] == 79_000
    assert result["batches"]["number"] == 2
    composed = result["batches"]["composed"]["epsilon"]
    assert result["shuffled"]["epsilon"] < composed < 0.8 * result["batches"]["added"]["epsilon"]
    assert "the relay is honest" in result["conditions"][-2]
    for text, said in (
        ("attested\n1\n", "columns attested,opened"),
        ("attested,opened\n", "no batch has a size"),
        ("attested,opened\n0,5\n", "no batch has a size"),
    ):
        Path("sizes.csv").write_text(text)
        assert run(f"{asked} --sizes sizes.csv", monkeypatch) == 2
        assert said in capsys.readouterr().err
    Path("sizes.csv").write_text("attested,opened\n100,100\n")
    for words, said in (
        ("--sizes sizes.csv --batches 2", "sizes.csv has 1 batches: leave --batches out"),
        ("--target 1 --fakes 1%", "--fakes goes with sizes of batches"),
    ):
        assert run(f"{asked} {words}", monkeypatch) == 2
        assert said in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.exact
def test_amplify_reads_the_batches_that_a_collector_noted(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    relayed = [
        RelayedReports("city", 1, b"\1", attested=5_000, opened=4_000),
        RelayedReports("city", 1, b"\2", attested=2_000, opened=3_000),
        RelayedReports("city", 1, b"\3", attested=9_000, opened=9_000),
        RelayedReports("city", 1, b"", attested=0, opened=70),
        RelayedReports("home", 1, b"\3", attested=9_000, opened=10),
    ]
    write_sizes(Path("store"), relayed)
    asked = "amplify city --registry metrics.toml --store store --delta 1e-6"
    assert run(f"{asked} --fakes 1%", monkeypatch) == 0
    shown = capsys.readouterr().out
    assert "in a batch of 1,970 " in shown
    assert "in 3 batches " in shown
    assert "70 reports without a relay's statement are not in these numbers" in shown
    assert "the relay is honest" in shown
    for words, number in (("", 3), ("--batches 2", 2)):
        assert run(f"{asked} --json {words}", monkeypatch) == 0
        result = json.loads(capsys.readouterr().out)
        batches = [(Registry.load("metrics.toml").metric("city").mechanism, n, 1) for n in SIZES]
        cost = compose_shuffled(batches[:number]).at(1e-6)
        assert result["batches"]["number"] == number
        assert result["batches"]["composed"]["epsilon"] == cost.epsilon
    assert run(asked.replace("city", "home"), monkeypatch) == 0
    assert "in a batch of 10 " in capsys.readouterr().out
    for words, said in (
        (asked.replace("--store store", "--store elsewhere"), "ldp collect --relay-key writes it"),
        ("amplify --epsilon 1 --store store --delta 1e-6", "--store goes with METRIC"),
    ):
        assert run(words, monkeypatch) == 2
        assert said in capsys.readouterr().err


@pytest.mark.exact
def test_amplify_takes_the_target_that_a_metric_states(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path("metrics.toml").read_text()
    Path("metrics.toml").write_text(
        text.replace("[metric.city]", "[metric.city]\nshuffled_epsilon = 0.5")
    )
    assert run("amplify city --registry metrics.toml --delta 1e-6 --json", monkeypatch) == 0
    result = json.loads(capsys.readouterr().out)
    mechanism = Registry.load("metrics.toml").metric("city").mechanism
    assert result["reports"] == least_reports(mechanism, epsilon=0.5, delta=1e-6)
    assert 0.49 < result["shuffled"]["epsilon"] <= 0.5


@pytest.mark.exact
@pytest.mark.parametrize("name", sorted({CLASSES[name] for name in PUBLIC} - {"joint"}))
def test_amplify_knows_every_mechanism_by_name(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That a batch of each is certified: test_shuffling.py."""
    parameters = CATALOGUE[name].examples()[0].mechanism.parameters()
    others = {key: text for key, text in parameters.items() if key not in ("mechanism", "seed")}
    words = ",".join(f"{key}={json.dumps(value)}" for key, value in others.items())
    monkeypatch.setattr("ldp.cli.amplify.amplify_by_shuffling", lambda *_, **__: Cost(epsilon=0.5))
    asked = f"amplify --mechanism {name} -n 1000 --delta 1e-6 --json --with {words}"
    assert run(asked.replace(", ", ","), monkeypatch) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["mechanism"] == name
    stated = CATALOGUE[name].examples()[0].mechanism.cost.epsilon
    assert result["local"]["epsilon"] == stated


@pytest.mark.exact
@pytest.mark.parametrize(
    "command",
    [
        "",
        "registry check",
        "registry lock",
        "registry page",
        "registry sign",
        "table import",
        *sorted({*commands.list_commands(Context(commands))} - {"registry"}),
    ],
)
def test_every_command_has_help_with_an_example_and_refuses_what_it_does_not_know(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(f"{command} --help", monkeypatch) == 0
    shown = capsys.readouterr().out
    assert f"ldp {command}".strip() in shown
    assert "Example:" in shown or not command
    assert run(f"{command} --no-such-option", monkeypatch) == 2
    refused = capsys.readouterr()
    assert refused.err.startswith("ldp: No such option '--no-such-option' (see ")
    assert (refused.out, refused.err.count("\n")) == ("", 1)


@pytest.mark.exact
def test_progress_shows_on_a_terminal_after_two_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 1.0, 2.5, 3.0])
    monkeypatch.setattr("ldp.cli.options.time.monotonic", lambda: next(clock))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    advance = progress("reports", 4)
    shown = []
    for step in (1, 1, 2):
        advance(step)
        shown.append(capsys.readouterr().err)
    assert shown[0] == ""
    assert "50 %" in shown[1]
    assert shown[2].endswith("100 %\n")


@pytest.mark.exact
@pytest.mark.parametrize(
    ("package", "words"),
    [("click", ["--help"]), ("numpy", ["report", "x.csv", "--out", "y.html"]), ("numpy", ["demo"])],
)
def test_without_the_server_extra_the_command_says_so(
    tmp_path: Path, package: str, words: list[str]
) -> None:
    """Also where another package brought click, and numpy is missing."""
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
    assert done.stderr.strip().endswith("pip install '.[server]'")
    assert "Traceback" not in done.stderr
