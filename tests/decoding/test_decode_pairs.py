"""`ldp decode` of a joint metric, from a store to a file of cells."""

import json
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ldp import JointReport, cli
from ldp.collection import ReportWriter, aggregate
from ldp.decoding.association import Association, associate
from ldp.registry import Registry
from ldp.simulation import Population, draw_reports
from ldp.tables.joint_table import load_table
from ldp.tables.result import OTHER
from tests.registries import GROUP, JOINT, METRIC


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Return a function that runs the command line in this process."""
    sys.argv = ["ldp", *map(str, words)]
    status = 0
    try:
        cli.main()
    except SystemExit as ended:
        status = int(ended.code or 0)
    told = capsys.readouterr()
    return status, told.out, told.err


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a registry and the reports of its joint metric."""
    folder = tmp_path_factory.mktemp("joint")
    shown = (
        'mechanism = "rappor"\nbits = 16\nhashes = 2\ncohorts = 4\nf = 0.0\np = 0.25\nq = 0.75\n'
    )
    rest = {
        "banner": JOINT,
        "shown": shown + 'dictionary = "kinds.txt"',
        "dismissed": 'mechanism = "unary"\ncategories = ["no", "yes"]\nepsilon = 2.0',
    }
    text = '[product]\nname = "browser"\n' + GROUP.format(name="banners")
    text += "".join(METRIC.format(name=n, group="banners", rest=r) for n, r in rest.items())
    (folder / "metrics.toml").write_text(text)
    (folder / "kinds.txt").write_text("cookies\nupdate\nnothing\n")
    pairs = "a,b,count\ncookies,yes,6000\ncookies,no,1000\nupdate,no,3000\nweird,yes,500\n"
    (folder / "pairs.csv").write_text(pairs)
    asked = Registry.load(folder / "metrics.toml").metric("banner")

    people = Population.from_csv(folder / "pairs.csv")
    with ReportWriter(folder / "store", "banner", 1, asked.mechanism, date(2026, 1, 1)) as writer:
        for batch in draw_reports(asked.mechanism, people, np.random.default_rng(1)):
            writer.write(*batch)
    words = ["banner", str(folder / "store"), "--registry", str(folder / "metrics.toml")]
    done = CliRunner().invoke(cli.commands, ["aggregate", *words, "--out", f"{folder}/b.table"])
    assert done.exit_code == 0
    assert "with " in done.output
    assert "different whole reports" in done.output
    return folder


@pytest.mark.exact
def test_ldp_decode_writes_the_cells_and_prints_the_test(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "j.csv"
    words = "decode", store / "b.table"
    status, told, _ = run(capsys, *words, "--out", out)
    assert status == 0
    assert "of 3 x 2 cells of shown x dismissed discovered among 10,500 reports" in told
    assert "1 % of made-up reports could move a cell by" in told
    assert "independent? chi-square" in told
    lines = out.read_text().splitlines()
    assert lines[0] == (
        "value_1,value_2,estimate,unbiased,std_error,low,high,p_value,discovered,"
        "selected_low,selected_high"
    )
    _, _, _, count, error, low, high, p_value, discovered, *selected = lines[1].split(",")
    assert float(selected[0]) < float(low) < float(high) < float(selected[1])
    assert float(low) == pytest.approx(float(count) - 1.96 * float(error), abs=0.2 * float(error))
    assert float(high) == pytest.approx(float(low) + 3.92 * float(error), rel=1e-3)
    assert (float(p_value) < 1e-6, discovered) == (True, "1")
    summary = json.loads(out.with_suffix(".json").read_text())
    assert (summary["level"], summary["alpha"], summary["control"]) == (0.95, 0.05, "fdr")
    assert summary["detected"] == sum(line.split(",")[8] == "1" for line in lines[1:])
    assert 0.01 * 10_500 < summary["fakes_move"] < 10_500
    run(capsys, *words, "--level", 0.5, "--out", tmp_path / "half.csv")
    ends = (tmp_path / "half.csv").read_text().splitlines()[1].split(",")[5:7]
    assert float(ends[1]) - float(ends[0]) == pytest.approx(2 * 0.6745 * float(error), rel=1e-3)
    assert json.loads((tmp_path / "half.json").read_text())["level"] == 0.5
    assert run(capsys, *words, "--level", 1, "--out", out)[0] == 2
    assert lines[1].startswith("cookies,yes,")
    assert {line.split(",")[0] for line in lines[1:]} == {"cookies", "update", OTHER}
    assert json.loads(out.with_suffix(".json").read_text())["independence"]["p_value"] < 1e-6
    _, told, _ = run(capsys, *words, "--out", "-", "--json")
    assert json.loads(told)["cells"][0]["value_1"] == "cookies"
    _, told, _ = run(capsys, *words, "--out", "-")
    assert told == out.read_text()
    lists = "--candidates", store / "kinds.txt"
    assert run(capsys, *words, *lists, "--out", out)[0] == 2


@pytest.mark.exact
def test_a_table_that_is_simulated_at_once_is_that_of_the_reports(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same command has `--table` in place of `--reports` and of `ldp aggregate`."""
    source = ("--registry", store / "metrics.toml", "--population", store / "pairs.csv")
    words = ("simulate", "banner", *source, "--seed", 3)
    for out in (("--table", tmp_path / "a.table"), ("--reports", tmp_path / "reports")):
        assert run(capsys, *words, *out)[0] == 0
    counting = ("aggregate", "banner", tmp_path / "reports", *source[:2], "--out")
    assert run(capsys, *counting, tmp_path / "b.table")[0] == 0
    tables = [load_table(tmp_path / f"{name}.table") for name in "ab"]
    assert tables[0].whole == tables[1].whole
    for name in "ab":
        run(capsys, "decode", tmp_path / f"{name}.table", "--out", tmp_path / f"{name}.csv")
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


@pytest.mark.exact
def test_ldp_decode_says_in_one_line_what_it_cannot_do(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry, out = ("--registry", store / "metrics.toml"), ("--out", tmp_path / "j.csv")
    table = store / "b.table"
    replace(load_table(table), whole=None).save(tmp_path / "counts.table")
    for words, message in (
        (("decode", tmp_path / "counts.table", *out), "the table holds no whole reports"),
        (
            ("decode", table, "--method", "auto", *out),
            "--method does not go with this table, whic",
        ),
        (
            ("decode", table, "--rule", "threshold=9", *out),
            "--rule threshold does not go with this table, which is of pairs",
        ),
        (
            ("decode", table, "--candidates", store / "kinds.txt", *out),
            "give --candidates once for each member, in turn: shown, dismissed",
        ),
        (
            ("aggregate", "dismissed", store / "store", "--whole", *registry, *out),
            "unary is not decoded from whole reports, only RAPPOR with hashes",
        ),
        (
            ("aggregate", "banner", store / "store", "--engine", "spark", *registry, *out),
            "tables that hold whole reports are counted on one machine",
        ),
    ):
        status, _, error = run(capsys, *words)
        assert status == 2
        assert message in error
        assert error.count("\n") == 1


@pytest.mark.exact
def test_a_damaged_report_is_named_with_its_file(store: Path) -> None:
    asked = Registry.load(store / "metrics.toml").metric("banner").mechanism
    assert isinstance(asked, JointReport)
    table = aggregate([store / "store"], "banner", 1, asked, whole=True)
    assert table.total == 10_500
    assert isinstance(associate(table, [["cookies"], None]), Association)
