"""The commands work on a user's own data."""

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
from ldp.__main__ import main
from ldp.cli import commands
from ldp.mechanisms.base import Encoder, Value
from ldp.protocol.wire import pack_report
from ldp.simulation import draw_table
from tests.command_line import NAMES, REGISTRY, SIMULATE, run
from tests.tiers import tiered


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
        "decode both.table --out estimates.csv --rule fdr=0.01",
        "report estimates.csv --truth cities.csv --out page.html",
    ):
        assert run(words, monkeypatch) == 0, capsys.readouterr().err
    rows = [line.split(",") for line in Path("estimates.csv").read_text().splitlines()]
    assert len(rows) == 1 + len(NAMES)
    assert rows[1][0] == "Oslo"
    assert abs(float(rows[1][1]) - 8200) < 6 * float(rows[1][2])
    summary = json.loads(Path("estimates.json").read_text())
    assert summary["reports"] == 24_000
    assert summary["method"] == {"city": "regression", "home": "direct"}[metric]
    page = Path("page.html").read_text()
    assert "Tromsø" in page
    assert "://" not in page, "the page loads nothing"


@pytest.mark.exact
@pytest.mark.parametrize("told", ["", "2"])
def test_products_of_matrices_take_one_thread_unless_told(
    told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that wait for each other take processor time, in small commands most of all."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", told)
    if not told:
        monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    monkeypatch.setattr("sys.argv", ["ldp", "--version"])
    main()
    assert os.environ["OPENBLAS_NUM_THREADS"] == (told or "1")


@pytest.mark.exact
def test_one_of_something_is_singular(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    registry = "--registry metrics.toml"
    for words in (
        f"simulate home {registry} --population cities.csv --users 1 --reports store",
        f"aggregate home {registry} store --out t",
        "merge t --out u",
        "decode u --out e.csv",
    ):
        assert run(words, monkeypatch) == 0
    simulated, counted, merged, decoded = capsys.readouterr().out.splitlines()[:4]
    assert simulated.startswith("1 report of 'home' -> ")
    assert counted == "1 report of 'home' from 1 day -> t"
    assert merged == "1 table, 1 report -> u"
    assert "among 1 report (noise floor" in decoded


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
    counts = [
        float(row["estimate"]) for row in csv.DictReader(Path("e.csv").read_text().splitlines())
    ]
    assert sum(counts) == pytest.approx(12_000, abs=0.01 * len(NAMES))
    run("plan list --domain 100 --users 1000 --epsilon 2 --json", monkeypatch)
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
    """Noise is fresh, so this fails falsely with probability 2e-6. The twin is the cheat below."""
    words = f"audit {metric} --registry metrics.toml --trials 1000 --report audit.json"
    assert run(words, monkeypatch) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"weak {metric}: epsilon")
    assert "no verdict: it takes 5,000 trials or more" in shown
    (audit,) = json.loads(Path("audit.json").read_text())["audits"]
    assert 0 < audit["at_least"] <= audit["claimed"]
    assert audit["checks"] > 100


@pytest.mark.slow
@pytest.mark.statistical
def test_an_audit_of_a_cheat_fails_with_status_1(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of 1,000 reports are true, where half should be, so no chance is involved."""

    def truth(encoder: Encoder, value: Value) -> bytes:
        (cell,) = encoder._mechanism.cells(value, 0)
        return pack_report(encoder._header, encoder._layout, 0, cell)

    monkeypatch.setattr(Encoder, "encode", truth)
    assert run("audit home --registry metrics.toml --trials 1000", monkeypatch) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("FAIL home: epsilon 3 claimed")
    assert "no verdict" not in shown


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
    assert "days in more than one of these tables: 1, the first" in capsys.readouterr().err
    assert not Path("twice").exists()
    capsys.readouterr()
    assert run("merge t t --out twice --overlapping --json", monkeypatch) == 0
    assert json.loads(capsys.readouterr().out)["written"] == "twice"
    run(f"{SIMULATE} --table plain", monkeypatch)  # without days, only its bytes tell a copy
    Path("copy").write_bytes(Path("plain").read_bytes())
    assert run("merge plain copy --out twice", monkeypatch) == 2
    assert run("merge plain copy --out twice --overlapping", monkeypatch) == 0


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
    assert run("decode both.table --out found.csv", monkeypatch) == 0
    with open("found.csv", newline="") as text:
        found = [row["value"] for row in csv.DictReader(text) if row["discovered"] == "1"]
    assert set(found) == {"abba", "cab", "be", "dead"}
    Path("asked.txt").write_text("cab\nbeda\n")
    asked = "--candidates asked.txt --out asked.csv"
    assert run(f"decode both.table --part words {asked}", monkeypatch) == 0
    capsys.readouterr()
    for part, message in (
        ("", "--candidates does not go with this table, which is of sfp (words)"),
        ("--part letters", "--part is one of fragments, words"),
    ):
        assert run(f"decode both.table {part} {asked}", monkeypatch) == 2
        assert message in capsys.readouterr().err
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
        assert [name for name in listed if rows[name]["discovered"] == "1"] == listed[:2]
        assert abs(float(rows["a.example"]["estimate"]) - 30000) < 5000
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
        ("reports,clients\n1,-2\n", "line 2: whole numbers"),
        ("reports,clients\n", "reports must be whole numbers"),
    ):
        Path("sent.csv").write_text(text)
        assert run(decode + "sent.csv", monkeypatch) == 2
        assert words in capsys.readouterr().err
    Path("sent.csv").write_text("reports,clients\n151,1\n")
    for wrong in ("151", "0.5", "nan", "inf", "sent.csv"):
        assert run(decode + wrong, monkeypatch) == 2
        assert "must be from 1 to 150" in capsys.readouterr().err
    assert run(decode + "150", monkeypatch) == 0
    assert run(decode + "none.csv", monkeypatch) == 2
    assert "a number or a CSV file" in capsys.readouterr().err
    old = "decode t.table --out - --reports-per-client 1.4"
    assert run(old, monkeypatch) == 2
    assert "--weighted-reports-per-client" in capsys.readouterr().err


@pytest.mark.exact
@pytest.mark.parametrize(
    ("key", "most"), [("", 1), ("reports_per_window = 4\n", 4), ('window = "6h"', 4)]
)
def test_memoised_reports_of_a_day_are_said_to_share_noise(
    key: str,
    most: int,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What it says to pass to ldp decode is the most that one device sends on a day."""
    path, memoised = Path("metrics.toml"), 'lifetime_epsilon = 4.0\nmemoise = "per-value"\n'
    text = (
        path.read_text().replace("8.0", "99.0", 1).replace('"rr"\n', f'"memoised-rr"\n{memoised}')
    )
    if key.startswith("window"):
        text = text.replace('window = "1d"', key)
    path.write_text(text + key * key.startswith("reports"))
    assert run(f"{SIMULATE.replace('city', 'home')} --reports store", monkeypatch) == 0
    capsys.readouterr()
    aggregate = "aggregate home --registry metrics.toml store --out t.table"
    assert run(aggregate, monkeypatch) == 0
    *_, last = capsys.readouterr().out.splitlines()
    option = f"--weighted-reports-per-client {most}"
    assert last.endswith(option) == (most > 1)
    if most > 1:
        assert run(f"decode t.table --out e.csv {option}", monkeypatch) == 0
        assert json.loads(Path("e.json").read_text())["reports_per_person"] == most


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
@pytest.mark.parametrize("encoding", tiered(["cp437", "cp1252", "utf-8"]))
def test_what_a_terminal_cannot_print_is_escaped(tmp_path: Path, encoding: str) -> None:
    """The command succeeds, and a mistake is still one line. Files are UTF-8 nevertheless."""
    (tmp_path / "metrics.toml").write_text(
        '[product]\nname = "x"\n[group.g]\nwindow = "1d"\nwindow_epsilon = 40\n'
        "lifetime_epsilon = 400\n[metric.mood]\nversion = 1\ngroup = 'g'\ndescription = 'a − b'\n"
        "owners = ['Zoë']\nexpires = 2099-12-31\nmechanism = 'rr'\nepsilon = 2\n"
        "categories = ['😀', 'ц']\n",
        "utf-8",
    )
    (tmp_path / "people.csv").write_text("value,count\n😀,900\nц,100\n", "utf-8")

    def called(*words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "ldp", *words],
            cwd=tmp_path,
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": encoding},
        )

    at = ("--registry", "metrics.toml")
    drawn = called("simulate", "mood", *at, "--population", "people.csv", "--table", "a.table")
    assert drawn.returncode == 0, drawn.stderr
    done = called("decode", "a.table", "--out", "-")
    assert (done.returncode, done.stderr) == (0, b"")
    for value in ("😀", "ц"):
        assert value.encode(encoding, "backslashreplace") in done.stdout
    assert called("decode", "a.table", "--out", "a.csv").returncode == 0
    assert "😀" in (tmp_path / "a.csv").read_text("utf-8")
    wrong = called("explain", "😀", *at)
    assert (wrong.returncode, wrong.stderr.count(b"\n")) == (2, 1)
    assert b"internal" not in wrong.stderr


@pytest.mark.exact
def test_no_epsilon_of_an_audit_is_rounded_down() -> None:
    from ldp.audit.verdict import Memoised, Verdict
    from ldp.cli.audit import _line

    memoised = Memoised(2.34521, 2.34521, 9.87621, 4.56721, 1.0, 1)
    text = _line(Verdict("home", 1.2345612, [], 9, [], 1.0, memoised), {}, 5000)
    assert re.findall(r"\d+\.\d{3,}", text) == ["1.23457", "2.346", "2.346", "9.877", "4.568"]
