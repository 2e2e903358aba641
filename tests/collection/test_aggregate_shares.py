"""Processes that each count a share of the files count every file once between them."""

from datetime import date
from pathlib import Path

import numpy as np
import pytest

from ldp import CountMeanSketch
from ldp.collection import ReportWriter, aggregate, report_files
from ldp.collection.aggregate import share_of
from ldp.simulation import Population, draw_reports
from tests.command_line import CITIES, REGISTRY, SIMULATE, run

SKETCH = CountMeanSketch(epsilon=4.0, rows=64, width=64, seed="00")


def stored(store: Path, names: list[str]) -> None:
    people = Population(("a", "b"), counts=np.array([60, 40]))
    for number, name in enumerate(names):
        day, random = date(2026, 1, 1 + number % 28), np.random.default_rng(number)
        with ReportWriter(store, "m", 1, SKETCH, day, name) as writer:
            for rows, payloads in draw_reports(SKETCH, people, random):
                writer.write(rows, payloads)


@pytest.mark.exact
@pytest.mark.parametrize("shares", [1, 2, 7])
def test_shares_add_to_the_whole(tmp_path: Path, shares: int) -> None:
    """Files of names that begin alike; some shares of seven are empty."""
    stored(tmp_path, [f"file-{number}" for number in range(6)])
    tables = [
        aggregate([tmp_path], "m", 1, SKETCH, share=(place, shares))
        for place in range(1, shares + 1)
    ]
    assert sum(tables[1:], tables[0]) == aggregate([tmp_path], "m", 1, SKETCH)
    assert sum(table.total > 0 for table in tables) > shares // 2


@pytest.mark.exact
def test_a_file_that_comes_moves_no_other_to_another_share(tmp_path: Path) -> None:
    """Shares by place in the list would count some files twice and miss others."""
    stored(tmp_path, [f"file-{number}" for number in range(6)])
    before = [share_of(report_files([tmp_path], "m", 1), (place, 3)) for place in (1, 2, 3)]
    stored(tmp_path, ["a-new-file"])
    after = [share_of(report_files([tmp_path], "m", 1), (place, 3)) for place in (1, 2, 3)]
    assert all(set(old) <= set(new) for old, new in zip(before, after, strict=True))
    assert sum(map(len, after)) == 7


@pytest.mark.exact
def test_the_command_counts_a_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("metrics.toml").write_text(REGISTRY)
    Path("cities.csv").write_bytes(CITIES.read_bytes())
    names = (line.rsplit(",", 1)[0].strip('"') for line in CITIES.read_text().splitlines()[1:])
    Path("cities.txt").write_text("\n".join(names))
    assert (
        run(f"{SIMULATE} --users 1000 --seed 1 --reports store --day 2026-01-01", monkeypatch) == 0
    )
    count = "aggregate city --registry metrics.toml store"
    assert run(f"{count} --out whole.table", monkeypatch) == 0
    for place in (1, 2, 3):  # one file: two shares are empty
        assert run(f"{count} --out {place}.table --files {place}/3", monkeypatch) == 0
    assert capsys.readouterr().out.count("0 reports of 'city' from 0 days -> ") == 2
    tables = "1.table 2.table 3.table"
    assert run(f"merge {tables} --overlapping --out sum.table", monkeypatch) == 0
    assert Path("sum.table").read_bytes() == Path("whole.table").read_bytes()
    capsys.readouterr()
    for wrong in ("0/2", "3/2", "2", "a/b", "1/-2", "1/0"):
        assert run(f"{count} --out t --files {wrong}", monkeypatch) == 2
        assert "give K/N with 1 <= K <= N, as 2/8" in capsys.readouterr().err
    for other in ("--sql duckdb", "--engine spark"):
        assert run(f"{count} --out t --files 1/2 {other}", monkeypatch) == 2
        assert "--files does not go with --" in capsys.readouterr().err
